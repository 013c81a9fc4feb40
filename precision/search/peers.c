/* How other tools choose the nodes that stay in float32, from their published sources. */
#include "precision/search/minimal.h"

#include <string.h>

/* ---- Polygraphy, tools/debug/subtool/precision.py, BisectMarker ---- */

/* Puts the first (`reverse`: the last) `marked` units in float32, and all others low. */
static void mark(const struct ht_minimal *m, bool reverse, size_t marked, uint8_t *kept)
{
	memset(kept, 0, m->units);
	memset(kept + (reverse ? m->units - marked : 0), 1, marked);
}

/* BisectMarker first marks all units.  From then on the number of marked units is the mean of the smallest number that passed and the
 * largest that failed, rounded down after a pass and up after a failure. */
enum ht_found ht_bisection_find(const struct ht_minimal *m, bool reverse, uint8_t *kept)
{
	size_t good = m->units + 1, bad = 0, marked = m->units;

	for (;;) {
		enum ht_answer answer;
		size_t before = marked;

		mark(m, reverse, marked, kept);
		answer = m->ask(m->self, kept);
		if (answer == HT_ANSWER_UNKNOWN)
			return HT_ASKED;
		if (answer == HT_ANSWER_PASS)
			good = marked;
		else
			bad = marked;
		marked = (good + bad + (answer == HT_ANSWER_FAIL)) / 2;
		if (marked == before || good - bad <= 1 || marked > m->units)
			break;
	}
	if (good > m->units)
		return HT_NO_SET;
	mark(m, reverse, good, kept);
	return HT_FOUND;
}

/* ---- onnxconverter-common, auto_mixed_precision.py ---- */

struct segment {
	size_t first, n;
	bool low, blocked;
};

/* The first of the largest segments that are not decided yet; NULL: there is none. */
static struct segment *largest(struct segment *s, size_t n)
{
	struct segment *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (!s[i].low && !s[i].blocked && (!found || s[i].n > found->n))
			found = &s[i];
	return found;
}

static void keep_others(const struct ht_minimal *m, const struct segment *s, size_t n,
	const struct segment *tried, uint8_t *kept)
{
	memset(kept, 1, m->units);
	for (size_t i = 0; i < n; i++)
		if (s[i].low || &s[i] == tried)
			memset(kept + s[i].first, 0, s[i].n);
}

static void halve(struct segment *s, size_t at, size_t *n)
{
	size_t half = s[at].n / 2;

	memmove(&s[at + 2], &s[at + 1], (*n - at - 1) * sizeof *s);
	s[at + 1] = (struct segment){ .first = s[at].first + half, .n = s[at].n - half };
	s[at].n = half;
	++*n;
}

enum ht_found ht_segments_find(const struct ht_minimal *m, struct ht_arena *a, uint8_t *kept)
{
	struct segment *s = HT_NEW_ARRAY(a, struct segment, m->units + 1), *tried;
	size_t n = m->units > 0;

	s[0].n = m->units;
	while ((tried = largest(s, n))) {
		enum ht_answer answer;

		keep_others(m, s, n, tried, kept);
		answer = m->ask(m->self, kept);
		if (answer == HT_ANSWER_UNKNOWN)
			return HT_ASKED;
		if (answer == HT_ANSWER_PASS)
			tried->low = true;
		else if (tried->n == 1)
			tried->blocked = true;
		else
			halve(s, (size_t)(tried - s), &n);
	}
	keep_others(m, s, n, NULL, kept);
	return HT_FOUND;
}
