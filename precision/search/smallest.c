/* Finds a smallest set where there are few units.
 *
 * If passing is monotone, no set with fewer members passes as soon as each set with one member fewer is within a set that failed.  Such a
 * set is called excluded.  Large sets exclude the most if they fail, and small ones are more likely to fail.  So the search asks for sets
 * that hold no set that passed and that have at most `most` members; this number grows when a set fails, and shrinks when one passes.  A
 * small set that passes is reduced to the members that are needed. */
#include "precision/search/known.h"

#include <string.h>

enum {
	MOST_ASKED = 256,   /* sets; then the search ends with the smallest set so far */
	MOST_WEIGHED = 512, /* sets by which the next set is chosen */
	TRIED_ORDERS = 8    /* orders in which a set is enlarged */
};

/* Sets are numbers here: bit i is the unit m->rank[i]. */
struct proof {
	struct ht_known *known;
	uint8_t *bytes;
	uint32_t all;
	size_t asked, failed; /* failed sets that were taken into account */
	uint32_t *passed;     /* the sets that passed */
	size_t passes;
	uint32_t *open; /* sets of `size` units that no failed set excludes */
	size_t opens;
	int size;
	int most;     /* members of the next set */
	bool missing; /* an answer is not known yet */
};

static bool is_within(uint32_t set, uint32_t other)
{
	return !(set & ~other);
}

static const uint8_t *bytes_of(struct proof *p, uint32_t set)
{
	const struct ht_minimal *m = p->known->m;

	for (size_t i = 0; i < m->units; i++)
		p->bytes[m->rank[i]] = set >> i & 1;
	return p->bytes;
}

static uint32_t set_of(const struct ht_minimal *m, const uint8_t *bytes)
{
	uint32_t set = 0;

	for (size_t i = 0; i < m->units; i++)
		set |= (uint32_t)(bytes[m->rank[i]] != 0) << i;
	return set;
}

/* HT_ANSWER_UNKNOWN also if too many sets were asked for. */
static enum ht_answer ask(struct proof *p, uint32_t set)
{
	size_t before = p->known->passed.n + p->known->failed.n;
	enum ht_answer answer = HT_ANSWER_UNKNOWN;

	if (p->missing || p->asked == MOST_ASKED)
		return answer;
	answer = ht_known_infer(p->known, bytes_of(p, set));
	p->asked += p->known->passed.n + p->known->failed.n - before;
	p->missing = answer == HT_ANSWER_UNKNOWN;
	return answer;
}

/* ---- sets that are not excluded ---- */

/* The next larger number with as many bits. */
static uint32_t next_of_size(uint32_t set)
{
	uint32_t low = set & -set, sum = set + low;

	return sum | (((set ^ sum) >> 2) / low);
}

static void exclude(struct proof *p, uint32_t failed)
{
	size_t n = 0;

	for (size_t i = 0; i < p->opens; i++)
		if (!is_within(p->open[i], failed))
			p->open[n++] = p->open[i];
	p->opens = n;
}

/* Takes the answers into account that came since the last call. */
static void take_known(struct proof *p)
{
	const struct ht_known *k = p->known;

	for (; p->passes < k->passed.n; p->passes++)
		p->passed[p->passes] = set_of(k->m, k->passed.of[p->passes].set);
	for (; p->failed < k->failed.n; p->failed++)
		exclude(p, set_of(k->m, k->failed.of[p->failed].set));
}

/* Lists the sets of `size` units that are not excluded. */
static void list_open(struct proof *p, int size)
{
	p->size = size;
	p->opens = 0;
	p->failed = 0;
	for (uint32_t set = (1u << size) - 1; size && set <= p->all; set = next_of_size(set))
		p->open[p->opens++] = set;
	take_known(p);
}

/* ---- the next set ---- */

static bool holds_passed(const struct proof *p, uint32_t set)
{
	for (size_t i = 0; i < p->passes; i++)
		if (is_within(p->passed[i], set))
			return true;
	return false;
}

/* Adds units to a set, from unit `from` on, up to `most`, as long as it holds no set that passed. */
static uint32_t enlarged(const struct proof *p, uint32_t set, size_t from)
{
	size_t n = p->known->m->units;

	for (size_t i = 0; i < n && __builtin_popcount(set) < p->most; i++) {
		uint32_t more = set | 1u << (from + i) % n;
		if (!holds_passed(p, more))
			set = more;
	}
	return set;
}

static size_t weigh(const struct proof *p, uint32_t set)
{
	size_t n = 0;

	for (size_t i = 0; i < p->opens && i < MOST_WEIGHED; i++)
		n += is_within(p->open[i], set);
	return n;
}

/* The set that would exclude the most sets, of several. */
static uint32_t next_set(const struct proof *p)
{
	uint32_t best = 0;
	size_t most = 0;

	for (size_t i = 0; i < TRIED_ORDERS; i++) {
		uint32_t set = enlarged(p, p->open[0], i * p->known->m->units / TRIED_ORDERS);
		size_t weight = weigh(p, set);
		if (weight > most) {
			most = weight;
			best = set;
		}
	}
	return best;
}

/* ---- reducing a set that passes ---- */

static uint32_t first_half(uint32_t set)
{
	uint32_t half = 0;

	for (int n = __builtin_popcount(set) / 2; n > 0; n--) {
		half |= set & -set;
		set &= set - 1;
	}
	return half;
}

/* The members of `set` that are needed if `held` is held, by QuickXplain as in minimal.c.  `held` with `set` passes. */
static uint32_t needed_of(struct proof *p, uint32_t held, uint32_t set, bool added)
{
	uint32_t half = first_half(set), one, other;

	if (p->missing || (added && ask(p, held) != HT_ANSWER_FAIL))
		return 0;
	if (!half)
		return set;
	one = needed_of(p, held | half, set & ~half, true);
	other = needed_of(p, held | one, half, one != 0);
	return one | other;
}

/* ---- the proof ---- */

/* Takes the smallest set that passed.  False: no set that passed is smaller than *best. */
static bool take_smaller(const struct proof *p, uint32_t *best)
{
	uint32_t before = *best;

	for (size_t i = 0; i < p->passes; i++)
		if (__builtin_popcount(p->passed[i]) < __builtin_popcount(*best))
			*best = p->passed[i];
	return *best != before;
}

/* Reduces a set that passes if this takes few answers.  A set that is not reduced is not asked for again, nor is one that holds it. */
static void take_answer(struct proof *p, uint32_t set, enum ht_answer answer)
{
	const int units = (int)p->known->m->units, members = __builtin_popcount(set);

	if (answer == HT_ANSWER_PASS && members <= 2 * p->size)
		ask(p, needed_of(p, 0, set, false));
	else
		p->most += answer == HT_ANSWER_PASS ? -2 : 1;
	p->most = p->most > units ? units : p->most <= p->size ? p->size + 1 : p->most;
}

static uint32_t prove(struct proof *p, uint32_t best)
{
	p->most = (int)p->known->m->units;
	list_open(p, __builtin_popcount(best) - 1);
	while (p->opens && !p->missing && p->asked < MOST_ASKED) {
		uint32_t set = next_set(p);

		take_answer(p, set, ask(p, set));
		take_known(p);
		if (take_smaller(p, &best))
			list_open(p, __builtin_popcount(best) - 1);
	}
	return best;
}

enum ht_found ht_smallest_find(struct ht_known *k, uint8_t *kept)
{
	const struct ht_minimal *m = k->m;
	struct proof p = { .known = k };
	uint32_t best;

	if (m->units > HT_SMALLEST_UNITS)
		return HT_FOUND;
	best = set_of(m, kept);
	if (__builtin_popcount(best) < 2)
		return HT_FOUND;
	p.all = (1u << m->units) - 1;
	p.bytes = HT_NEW_ARRAY(k->a, uint8_t, m->units);
	p.passed = HT_NEW_ARRAY(k->a, uint32_t, k->passed.n + MOST_ASKED);
	p.open = HT_NEW_ARRAY(k->a, uint32_t, (size_t)1 << m->units);
	best = prove(&p, best);
	if (p.missing)
		return HT_ASKED;
	memcpy(kept, bytes_of(&p, best), m->units);
	return HT_FOUND;
}
