/* Finds a minimal set: the smallest of the candidates and of the sets of the first units of the rank, reduced by the algorithm
 * QuickXplain (Junker, AAAI 2004), first over regions, then over units.  At last every member is left out once, to show that it is
 * needed. */
#include "precision/search/minimal.h"

#include <string.h>

/* One run of QuickXplain.  Its elements are units or whole regions; it finds out which of them have to be held in float32. */
struct narrowing {
	const struct ht_minimal *m;
	const uint32_t *
		of; /* by unit: its element; UINT32_MAX: the unit is low in every set that is asked for */
	uint8_t *held; /* by element: 1 if its units are in float32 */
	uint8_t *kept; /* by unit: the set that is asked for */
};

static enum ht_answer ask_held(struct narrowing *s)
{
	for (size_t u = 0; u < s->m->units; u++)
		s->kept[u] = s->of[u] != UINT32_MAX && s->held[s->of[u]];
	return s->m->ask(s->m->self, s->kept);
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

/* Lists the elements that have units in the pool, in the order of rank, and fills `of`.  Returns their number. */
static size_t list_elements(const struct ht_minimal *m, struct ht_arena *a, const uint8_t *pool,
	bool regions, uint32_t *of, uint32_t *list)
{
	uint8_t *seen = HT_NEW_ARRAY(a, uint8_t, m->units);
	size_t n = 0;

	memset(of, 0xff, m->units * sizeof *of);
	for (size_t u = 0; u < m->units; u++)
		if (pool[u])
			of[u] = regions ? m->region[u] : (uint32_t)u;
	for (size_t i = 0; i < m->units; i++) {
		uint32_t e = of[m->rank[i]];
		if (e == UINT32_MAX || seen[e])
			continue;
		seen[e] = 1;
		list[n++] = e;
	}
	return n;
}

/* Reduces the pool, which passes, to elements that are needed.  False: an answer is missing. */
static bool reduce(
	const struct ht_minimal *m, struct ht_arena *a, bool regions, uint8_t *pool, uint8_t *kept)
{
	uint32_t *of = HT_NEW_ARRAY(a, uint32_t, m->units);
	uint32_t *list = HT_NEW_ARRAY(a, uint32_t, m->units);
	struct narrowing s = { m, of, HT_NEW_ARRAY(a, uint8_t, m->units), kept };
	size_t n = list_elements(m, a, pool, regions, of, list);

	if (!narrow(&s, list, n, false))
		return false;
	for (size_t u = 0; u < m->units; u++)
		pool[u] = of[u] != UINT32_MAX && s.held[of[u]];
	return true;
}

static size_t size_of(const struct ht_minimal *m, const uint8_t *set)
{
	size_t n = 0;

	for (size_t u = 0; u < m->units; u++)
		n += set[u];
	return n;
}

/* The smallest candidate that passes replaces the pool.  False: an answer is missing. */
static bool try_candidates(const struct ht_minimal *m, uint8_t *pool)
{
	for (size_t i = 0; i < m->candidates; i++) {
		enum ht_answer answer;

		if (size_of(m, m->candidate[i]) >= size_of(m, pool))
			continue;
		answer = m->ask(m->self, m->candidate[i]);
		if (answer == HT_ANSWER_UNKNOWN)
			return false;
		if (answer == HT_ANSWER_PASS)
			memcpy(pool, m->candidate[i], m->units);
	}
	return true;
}

/* The smallest set of the first units of the rank that passes replaces the pool, if it is smaller.  Bisection finds it.  False: an answer
 * is missing. */
static bool try_first(const struct ht_minimal *m, struct ht_arena *a, uint8_t *pool)
{
	uint8_t *first = HT_NEW_ARRAY(a, uint8_t, m->units);
	size_t fails = 0, passes = size_of(m, pool);

	while (passes - fails > 1) {
		size_t n = (fails + passes) / 2;
		enum ht_answer answer;

		for (size_t i = 0; i < m->units; i++)
			first[m->rank[i]] = i < n;
		answer = m->ask(m->self, first);
		if (answer == HT_ANSWER_UNKNOWN)
			return false;
		if (answer == HT_ANSWER_PASS) {
			memcpy(pool, first, m->units);
			passes = n;
		} else {
			fails = n;
		}
	}
	return true;
}

/* Leaves out members one by one, those of the last rank first, until none can be left out any more. */
static enum ht_found leave_out(const struct ht_minimal *m, uint8_t *kept)
{
	for (size_t i = m->units; i-- > 0;) {
		uint32_t u = m->rank[i];
		enum ht_answer answer;

		if (!kept[u])
			continue;
		kept[u] = 0;
		answer = m->ask(m->self, kept);
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
static bool reduce_checked(
	const struct ht_minimal *m, struct ht_arena *a, bool regions, uint8_t *pool, uint8_t *kept)
{
	uint8_t *reduced = HT_NEW_ARRAY(a, uint8_t, m->units);
	enum ht_answer answer;

	memcpy(reduced, pool, m->units);
	if (!reduce(m, a, regions, reduced, kept))
		return false;
	answer = m->ask(m->self, reduced);
	if (answer == HT_ANSWER_PASS)
		memcpy(pool, reduced, m->units);
	return answer != HT_ANSWER_UNKNOWN;
}

enum ht_found ht_minimal_find(const struct ht_minimal *m, struct ht_arena *a, uint8_t *kept)
{
	uint8_t *pool = HT_NEW_ARRAY(a, uint8_t, m->units);
	enum ht_answer all, none;
	enum ht_found found;

	memset(kept, 1, m->units);
	all = m->ask(m->self, kept);
	if (all != HT_ANSWER_PASS)
		return all == HT_ANSWER_FAIL ? HT_NO_SET : HT_ASKED;
	memset(kept, 0, m->units);
	none = m->units ? m->ask(m->self, kept) : HT_ANSWER_PASS;
	if (none != HT_ANSWER_FAIL)
		return none == HT_ANSWER_PASS ? HT_FOUND : HT_ASKED;
	memset(pool, 1, m->units);
	if (!try_candidates(m, pool) || !try_first(m, a, pool) ||
		(m->region && !reduce_checked(m, a, true, pool, kept)) ||
		!reduce_checked(m, a, false, pool, kept))
		return HT_ASKED;
	memcpy(kept, pool, m->units);
	found = leave_out(m, kept);
	if (found == HT_FOUND)
		found = ht_smallest_find(m, a, kept);
	return found == HT_FOUND ? leave_out(m, kept) : found;
}
