/* Finds a smallest set where there are few units.
 *
 * If passing is monotone, each set that passes has a unit outside of every set that fails.  So a set that is a subset of a failed one
 * need not be asked for.  The search asks for the other sets, in the order of their size, and enlarges each one that fails as
 * far as it still fails, which excludes the most sets.  The first that passes is a smallest one. */
#include "precision/search/minimal.h"

#include <string.h>

enum { MOST_ASKED = 256 }; /* sets; then the search ends with the set that it began with */

/* Sets are numbers here: bit i is the unit m->rank[i]. */
struct exclusion {
	const struct ht_minimal *m;
	uint8_t *set;
	uint32_t passing; /* the set that the search began with */
	uint32_t failed[MOST_ASKED];
	size_t fails, asked;
	bool missing; /* an answer is not known yet */
};

static int members(uint32_t set)
{
	return __builtin_popcount(set);
}

static bool is_within(uint32_t set, uint32_t other)
{
	return !(set & ~other);
}

static void write_set(const struct ht_minimal *m, uint32_t set, uint8_t *bytes)
{
	for (size_t i = 0; i < m->units; i++)
		bytes[m->rank[i]] = set >> i & 1;
}

static uint32_t read_set(const struct ht_minimal *m, const uint8_t *bytes)
{
	uint32_t set = 0;

	for (size_t i = 0; i < m->units; i++)
		set |= (uint32_t)(bytes[m->rank[i]] != 0) << i;
	return set;
}

static bool may_ask(const struct exclusion *x)
{
	return !x->missing && x->asked < MOST_ASKED;
}

/* Whether the set fails; false also if the answer is not known. */
static bool fails(struct exclusion *x, uint32_t set)
{
	enum ht_answer answer;

	if (is_within(x->passing, set))
		return false;
	x->asked++;
	write_set(x->m, set, x->set);
	answer = x->m->ask(x->m->self, x->set);
	x->missing = answer == HT_ANSWER_UNKNOWN;
	return answer == HT_ANSWER_FAIL;
}

/* The first half of the members of a set. */
static uint32_t half_of(uint32_t set)
{
	uint32_t half = 0;

	for (int n = members(set) / 2; n > 0; n--) {
		half |= set & -set;
		set &= set - 1;
	}
	return half;
}

/* Adds those units of `more` to *set with which it still fails, several at a time where that is possible. */
static void enlarge(struct exclusion *x, uint32_t *set, uint32_t more)
{
	uint32_t half = half_of(more);

	if (!more || !may_ask(x))
		return;
	if (fails(x, *set | more)) {
		*set |= more;
	} else if (half) {
		enlarge(x, set, half);
		enlarge(x, set, more & ~half);
	}
}

/* Notes that `set`, which failed, excludes all sets within it, and within what it can be enlarged to. */
static void exclude(struct exclusion *x, uint32_t set, uint32_t all)
{
	enlarge(x, &set, all & ~set & ~x->passing);
	enlarge(x, &set, all & ~set & x->passing);
	if (x->fails < MOST_ASKED)
		x->failed[x->fails++] = set;
}

static bool is_excluded(const struct exclusion *x, uint32_t set)
{
	for (size_t i = 0; i < x->fails; i++)
		if (is_within(set, x->failed[i]))
			return true;
	return false;
}

/* The next larger number with as many bits. */
static uint32_t next_of_size(uint32_t set)
{
	uint32_t low = set & -set, sum = set + low;

	return sum | (((set ^ sum) >> 2) / low);
}

/* A set of `size` units that passes; 0: there is none, or may_ask() is false. */
static uint32_t find_of_size(struct exclusion *x, int size, uint32_t all)
{
	for (uint32_t set = (1u << size) - 1; set <= all && may_ask(x); set = next_of_size(set)) {
		if (is_excluded(x, set))
			continue;
		if (!fails(x, set))
			return x->missing ? 0 : set;
		exclude(x, set, all);
	}
	return 0;
}

enum ht_found ht_smallest_find(const struct ht_minimal *m, struct ht_arena *a, uint8_t *kept)
{
	struct exclusion *x = HT_NEW(a, struct exclusion);
	uint32_t all = m->units < 32 ? (1u << m->units) - 1 : UINT32_MAX, found = 0;

	if (m->units > HT_SMALLEST_UNITS)
		return HT_FOUND;
	x->m = m;
	x->set = HT_NEW_ARRAY(a, uint8_t, m->units);
	x->passing = read_set(m, kept);
	for (uint32_t rest = x->passing; rest && may_ask(x); rest &= rest - 1)
		exclude(x, x->passing & ~(rest & -rest), all);
	for (int size = 1; size < members(x->passing) && !found && may_ask(x); size++)
		found = find_of_size(x, size, all);
	if (x->missing)
		memcpy(kept, x->set, m->units);
	else if (found)
		write_set(m, found, kept);
	return x->missing ? HT_ASKED : HT_FOUND;
}
