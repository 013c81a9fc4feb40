/* Finds a minimal set: the smallest of the candidates, of the frontier and of the sets that are the first units of some order, reduced by the algorithm
 * QuickXplain (Junker, AAAI 2004), first over regions, then over units.  At last every member is left out once, to show that it is
 * needed. */
#include "precision/search/known.h"

#include <string.h>

/* One run of QuickXplain.  Its elements are units or whole regions; it finds out which of them have to be held in float32. */
struct narrowing {
	struct ht_known *known;
	const uint32_t *
		of; /* by unit: its element; UINT32_MAX: the unit is low in every set that is asked for */
	uint8_t *held; /* by element: 1 if its units are in float32 */
	uint8_t *kept; /* by unit: the set that is asked for */
};

static enum ht_answer ask_held(struct narrowing *s)
{
	for (size_t u = 0; u < s->known->m->units; u++)
		s->kept[u] = s->of[u] != UINT32_MAX && s->held[s->of[u]];
	return ht_known_infer(s->known, s->kept);
}

static void hold(struct narrowing *s, const uint32_t *e, size_t n, uint8_t held)
{
	for (size_t i = 0; i < n; i++)
		s->held[e[i]] = held;
}

static bool any_held(const struct narrowing *s, const uint32_t *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s->held[e[i]])
			return true;
	return false;
}

/* Holds a subset of the `n` elements so that the set passes together with the elements that are held already.  The caller knows that the
 * set passes if all `n` are held.  It also knows that the set fails if none is held, unless `added` is true: then elements
 * were added since that answer, and it is asked for again.  False: an answer is missing. */
static bool narrow(struct narrowing *s, const uint32_t *e, size_t n, bool added)
{
	size_t half = n / 2;

	if (added) {
		enum ht_answer answer = ask_held(s);
		if (answer != HT_ANSWER_FAIL)
			return answer == HT_ANSWER_PASS;
	}
	if (n == 1) {
		s->held[e[0]] = 1;
		return true;
	}
	hold(s, e, half, 1);
	if (!narrow(s, e + half, n - half, true))
		return false;
	hold(s, e, half, 0);
	return narrow(s, e, half, any_held(s, e + half, n - half));
}

/* What is known while a set is looked for. */
struct looking {
	const struct ht_minimal *m;
	struct ht_arena *a;
	struct ht_known *known;
	uint8_t *pool;   /* the smallest set so far that passes */
	uint8_t *needed; /* units without which no set passes, if passing is monotone */
	uint8_t *kept;   /* the set that is asked for */
};

/* Holds the elements of needed units, and lists the others that have units in the pool, in the order of rank.  Fills s->of.  Returns the
 * number of those listed. */
static size_t list_elements(
	const struct looking *k, bool regions, struct narrowing *s, uint32_t *of, uint32_t *list)
{
	const struct ht_minimal *m = k->m;
	uint8_t *seen = HT_NEW_ARRAY(k->a, uint8_t, m->units);
	size_t n = 0;

	memset(of, 0xff, m->units * sizeof *of);
	for (size_t u = 0; u < m->units; u++) {
		if (!k->pool[u])
			continue;
		of[u] = regions ? m->region[u] : (uint32_t)u;
		s->held[of[u]] |= k->needed[u];
	}
	for (size_t i = 0; i < m->units; i++) {
		uint32_t e = of[m->rank[i]];
		if (e == UINT32_MAX || seen[e] || s->held[e])
			continue;
		seen[e] = 1;
		list[n++] = e;
	}
	return n;
}

/* Reduces a pool, which passes, to elements that are needed.  False: an answer is missing. */
static bool reduce(struct looking *k, bool regions, uint8_t *pool)
{
	const struct ht_minimal *m = k->m;
	uint32_t *of = HT_NEW_ARRAY(k->a, uint32_t, m->units);
	uint32_t *list = HT_NEW_ARRAY(k->a, uint32_t, m->units);
	struct narrowing s = { k->known, of, HT_NEW_ARRAY(k->a, uint8_t, m->units), k->kept };
	size_t n = list_elements(k, regions, &s, of, list);

	if (n && !narrow(&s, list, n, n < ht_set_size(m, pool)))
		return false;
	for (size_t u = 0; u < m->units; u++)
		pool[u] = of[u] != UINT32_MAX && s.held[of[u]];
	return true;
}

/* Finds out whether the set k->kept passes.  The pool becomes the smallest set that was asked for and passed. */
static enum ht_answer try_set(struct looking *k)
{
	enum ht_answer answer = ht_known_infer(k->known, k->kept);

	for (size_t i = 0; i < k->known->passed.n; i++)
		if (k->known->passed.of[i].size < ht_set_size(k->m, k->pool))
			memcpy(k->pool, k->known->passed.of[i].set, k->m->units);
	return answer;
}

/* False: an answer is missing. */
static bool try_candidates(struct looking *k)
{
	const struct ht_minimal *m = k->m;

	for (size_t i = 0; i < m->candidates; i++) {
		if (ht_set_size(m, m->candidate[i]) >= ht_set_size(m, k->pool))
			continue;
		memcpy(k->kept, m->candidate[i], m->units);
		if (try_set(k) == HT_ANSWER_UNKNOWN)
			return false;
	}
	return true;
}

/* False: an answer is missing. */
static bool try_frontier(struct looking *k)
{
	const struct ht_minimal *m = k->m;
	size_t next = 0, passes = m->points;

	while (next < passes) {
		size_t at = (next + passes) / 2;
		enum ht_answer answer;

		memcpy(k->kept, m->frontier[at], m->units);
		answer = try_set(k);
		if (answer == HT_ANSWER_UNKNOWN)
			return false;
		if (answer == HT_ANSWER_PASS)
			passes = at;
		else
			next = at + 1;
	}
	return true;
}

enum order { BY_RANK, FORWARD, BACKWARD, ORDERS };

static uint32_t unit_at(const struct ht_minimal *m, enum order order, size_t i)
{
	if (order == BY_RANK)
		return m->rank[i];
	return (uint32_t)(order == FORWARD ? i : m->units - 1 - i);
}

/* Sets k->kept to the first n units of an order, and those that are known to be needed. */
static void keep_first(struct looking *k, enum order order, size_t n)
{
	memcpy(k->kept, k->needed, k->m->units);
	for (size_t i = 0; i < n; i++)
		k->kept[unit_at(k->m, order, i)] = 1;
}

/* Finds by bisection how many of the first units of an order suffice.  The last one of them is needed.  False: an answer is missing. */
static bool try_first(struct looking *k, enum order order)
{
	size_t fails = 0, passes = k->m->units;

	while (passes - fails > 1) {
		size_t n = (fails + passes) / 2;
		enum ht_answer answer;

		keep_first(k, order, n);
		answer = try_set(k);
		if (answer == HT_ANSWER_UNKNOWN)
			return false;
		if (answer == HT_ANSWER_PASS)
			passes = n;
		else
			fails = n;
	}
	k->needed[unit_at(k->m, order, passes - 1)] = 1;
	return true;
}

/* Each order gives a needed unit.  As soon as these pass, the other orders are not tried.  False: an answer is missing. */
static bool try_orders(struct looking *k)
{
	for (int order = 0; order < ORDERS; order++) {
		enum ht_answer answer;

		if (!try_first(k, (enum order)order))
			return false;
		memcpy(k->kept, k->needed, k->m->units);
		answer = try_set(k);
		if (answer != HT_ANSWER_FAIL)
			return answer == HT_ANSWER_PASS;
	}
	return true;
}

/* Leaves out members one by one, those of the last rank first, until none can be left out any more. */
static enum ht_found leave_out(struct ht_known *known, uint8_t *kept)
{
	const struct ht_minimal *m = known->m;

	for (size_t i = m->units; i-- > 0;) {
		uint32_t u = m->rank[i];
		enum ht_answer answer;

		if (!kept[u])
			continue;
		kept[u] = 0;
		answer = ht_known_ask(known, kept);
		if (answer == HT_ANSWER_UNKNOWN)
			return HT_ASKED;
		if (answer == HT_ANSWER_PASS)
			i = m->units; /* members that were needed before may now be left out, too */
		else
			kept[u] = 1;
	}
	return HT_FOUND;
}

/* Reduces the pool, unless the reduced set fails, which is possible because rounding errors need not be monotone: QuickXplain does not
 * ask for the set that it ends with. */
static bool reduce_checked(struct looking *k, bool regions)
{
	uint8_t *reduced = HT_NEW_ARRAY(k->a, uint8_t, k->m->units);

	memcpy(reduced, k->pool, k->m->units);
	if (!reduce(k, regions, reduced))
		return false;
	memcpy(k->kept, reduced, k->m->units);
	return try_set(k) != HT_ANSWER_UNKNOWN;
}

/* Finds a set that passes, but may have members that can be left out.  False: an answer is missing. */
static bool look(struct looking *k)
{
	if (!try_candidates(k) || !try_frontier(k) || !try_orders(k) ||
		(k->m->region && !reduce_checked(k, true)) || !reduce_checked(k, false))
		return false;
	memcpy(k->kept, k->pool, k->m->units);
	return true;
}

enum ht_found ht_minimal_find(const struct ht_minimal *m, struct ht_arena *a, uint8_t *kept)
{
	struct ht_known known = { .m = m, .a = a };
	struct looking k = { .m = m,
		.a = a,
		.known = &known,
		.pool = HT_NEW_ARRAY(a, uint8_t, m->units),
		.needed = HT_NEW_ARRAY(a, uint8_t, m->units),
		.kept = kept };
	enum ht_answer all, none;
	enum ht_found found;

	memset(kept, 1, m->units);
	all = ht_known_ask(&known, kept);
	if (all != HT_ANSWER_PASS)
		return all == HT_ANSWER_FAIL ? HT_NO_SET : HT_ASKED;
	memset(kept, 0, m->units);
	none = m->units ? ht_known_ask(&known, kept) : HT_ANSWER_PASS;
	if (none != HT_ANSWER_FAIL)
		return none == HT_ANSWER_PASS ? HT_FOUND : HT_ASKED;
	memset(k.pool, 1, m->units);
	if (!look(&k))
		return HT_ASKED;
	found = ht_smallest_find(&known, kept);
	return found == HT_FOUND ? leave_out(&known, kept) : found;
}
