/* Minimal float32 sets: a planted set is found within the stated number of answers, brute force over up to 16 units finds no smaller set, a
 * set fails without any one of its members, and each other tool's rule asks for the sets that the tool tries. */
#include "tests/unit/unit.h"

#include "precision/search/minimal.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_UNITS = 300, MOST_ANSWERS = 20000, MOST_WAYS = 4 };

/* Stands for a model: `passes` decides which sets of units in float32 keep the tolerances. */
struct planted {
	size_t units;
	bool (*passes)(const struct planted *p, const uint8_t *kept);
	uint8_t needed[MOST_UNITS]; /* what `holds_needed` decides by */
	uint32_t way[MOST_WAYS];    /* what `holds_a_way` decides by: bit u is unit u */
	size_t ways;
	double error[MOST_UNITS], limit; /* what `adds_up` decides by */
	uint64_t seed;                   /* `is_random` decides by it */
	struct ht_map answers;           /* set → answer, of the sets that were tried */
	uint8_t asked[MOST_UNITS];       /* the set that the search asked for last */
	size_t given;                    /* answers */
};

static enum ht_answer ask(void *self, const uint8_t *kept)
{
	struct planted *p = self;
	struct ht_str key = { (const char *)kept, p->units };

	memcpy(p->asked, kept, p->units);
	return (enum ht_answer)(uintptr_t)ht_map_get(&p->answers, key);
}

static void answer(struct planted *p)
{
	struct ht_str key =
		ht_str_copy(p->answers.arena, (struct ht_str){ (const char *)p->asked, p->units });

	assert_true(p->given++ < MOST_ANSWERS);
	ht_map_at(&p->answers, key)->value =
		(void *)(uintptr_t)(p->passes(p, p->asked) ? HT_ANSWER_PASS : HT_ANSWER_FAIL);
}

static bool holds_needed(const struct planted *p, const uint8_t *kept)
{
	for (size_t u = 0; u < p->units; u++)
		if (p->needed[u] && !kept[u])
			return false;
	return true;
}

/* Several sets pass, with all that have more units: such as the operand of a faulty node or its result. */
static bool holds_a_way(const struct planted *p, const uint8_t *kept)
{
	for (size_t i = 0; i < p->ways; i++) {
		bool holds = true;
		for (size_t u = 0; u < p->units; u++)
			holds &= kept[u] || !(p->way[i] >> u & 1);
		if (holds)
			return true;
	}
	return false;
}

static bool adds_up(const struct planted *p, const uint8_t *kept)
{
	double sum = 0;

	for (size_t u = 0; u < p->units; u++)
		sum += kept[u] ? 0 : p->error[u];
	return sum <= p->limit;
}

/* Passing is not monotone: the set of all units passes, and any other one by chance. */
static bool is_random(const struct planted *p, const uint8_t *kept)
{
	struct ht_hash h = ht_hash_bytes(kept, p->units);

	for (size_t u = 0; u < p->units; u++)
		if (!kept[u])
			return (h.lo ^ p->seed) % 3 == 0;
	return true;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
	return (uint32_t)(ht_random(seed) % n);
}

static void shuffled(uint32_t *rank, size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++)
		rank[i] = (uint32_t)i;
	for (size_t i = n; i > 1; i--) {
		size_t k = below(seed, (uint32_t)i);
		uint32_t x = rank[i - 1];
		rank[i - 1] = rank[k];
		rank[k] = x;
	}
}

static struct planted *start(size_t units, struct ht_arena *a)
{
	struct planted *p = HT_NEW(a, struct planted);

	p->units = units;
	ht_map_init(&p->answers, a);
	return p;
}

/* Runs the search as a caller does: one answer at a time. */
static enum ht_found search(const struct ht_minimal *m, struct planted *p, uint8_t *kept)
{
	enum ht_found found;

	do {
		UNIT_ARENA(a);
		found = ht_minimal_find(m, &a, kept);
		ht_arena_release(&a);
		if (found == HT_ASKED)
			answer(p);
	} while (found == HT_ASKED);
	return found;
}

static size_t size_of(const uint8_t *set, size_t n)
{
	size_t k = 0;

	for (size_t u = 0; u < n; u++)
		k += set[u];
	return k;
}

static void assert_minimal(const struct planted *p, uint8_t *kept)
{
	assert_true(p->passes(p, kept));
	for (size_t u = 0; u < p->units; u++) {
		if (!kept[u])
			continue;
		kept[u] = 0;
		assert_false(p->passes(p, kept));
		kept[u] = 1;
	}
}

static size_t smallest(const struct planted *p)
{
	size_t found = p->units;

	for (uint32_t bits = 0; bits < 1u << p->units; bits++) {
		uint8_t kept[16];
		for (size_t u = 0; u < p->units; u++)
			kept[u] = bits >> u & 1;
		if (size_of(kept, p->units) < found && p->passes(p, kept))
			found = size_of(kept, p->units);
	}
	return found;
}

static void random_regions(uint32_t *region, size_t n, uint64_t *seed)
{
	size_t size = 1 + below(seed, 12);

	for (size_t u = 0; u < n; u++)
		region[u] = (uint32_t)(u / size);
}

/* A set in which each unit is by chance. */
static void random_set(uint8_t *set, size_t n, uint64_t *seed)
{
	for (size_t u = 0; u < n; u++)
		set[u] = below(seed, 2) == 0;
}

/* Each set holds the one before, and some more units by chance. */
static void random_frontier(uint8_t (*set)[MOST_UNITS], size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < HT_FRONTIER_POINTS; i++)
		for (size_t u = 0; u < n; u++)
			set[i][u] = (i && set[i - 1][u]) || below(seed, 8) == 0;
}

static double most_answers(size_t n, size_t k)
{
	return 3 * log2((double)n) * (double)k + 20;
}

/* k of n units are needed; their places, the order of rank, the regions, the candidate and the frontier are random. */
static void search_planted(size_t n, size_t k, bool regions, uint64_t *seed)
{
	UNIT_ARENA(a);
	struct planted *p = start(n, &a);
	uint32_t rank[MOST_UNITS], place[MOST_UNITS], region[MOST_UNITS];
	uint8_t kept[MOST_UNITS];
	uint8_t candidate[MOST_UNITS], set[HT_FRONTIER_POINTS][MOST_UNITS];
	const uint8_t *candidates[] = { candidate }, *frontier[HT_FRONTIER_POINTS];
	struct ht_minimal m = { .units = n,
		.rank = rank,
		.candidate = candidates,
		.candidates = 1,
		.frontier = frontier,
		.points = below(seed, HT_FRONTIER_POINTS + 1),
		.ask = ask,
		.self = p };

	p->passes = holds_needed;
	random_set(candidate, n, seed);
	random_frontier(set, n, seed);
	for (size_t i = 0; i < HT_FRONTIER_POINTS; i++)
		frontier[i] = set[i];
	shuffled(rank, n, seed);
	shuffled(place, n, seed);
	for (size_t i = 0; i < k; i++)
		p->needed[place[i]] = 1;
	random_regions(region, n, seed);
	m.region = regions ? region : NULL;
	assert_int_equal(search(&m, p, kept), HT_FOUND);
	assert_memory_equal(kept, p->needed, n);
	assert_true((double)p->given < most_answers(n, k));
	ht_arena_release(&a);
}

static void test_planted(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (size_t n = 1; n <= MOST_UNITS; n += 1 + n / 7)
		for (size_t k = 0; k <= n && k <= 24; k += 1 + k / 3)
			for (int i = 0; i < 8; i++)
				search_planted(n, k, i & 1, &seed);
}

static int by_error(const void *a, const void *b, void *self)
{
	const double *e = ((const struct planted *)self)->error;
	double x = e[*(const uint32_t *)a], y = e[*(const uint32_t *)b];

	return (y > x) - (y < x);
}

/* Searches with regions and a candidate by chance.  Brute force finds no set with fewer members that passes. */
static void search_smallest(struct planted *p, uint32_t *rank, uint64_t *seed)
{
	uint32_t region[MOST_UNITS];
	uint8_t kept[MOST_UNITS], candidate[MOST_UNITS];
	const uint8_t *candidates[] = { candidate };
	struct ht_minimal m = { .units = p->units,
		.rank = rank,
		.region = below(seed, 2) ? region : NULL,
		.candidate = candidates,
		.candidates = below(seed, 2),
		.ask = ask,
		.self = p };

	random_regions(region, p->units, seed);
	random_set(candidate, p->units, seed);
	assert_int_equal(search(&m, p, kept), HT_FOUND);
	assert_minimal(p, kept);
	assert_int_equal(size_of(kept, p->units), smallest(p));
}

/* The error of the model is the sum of the errors of the low units, and `rank` has units with large errors first. */
static void test_sums_are_smallest(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int i = 0; i < 200; i++) {
		UNIT_ARENA(a);
		size_t n = 1 + below(&seed, 16);
		struct planted *p = start(n, &a);
		uint32_t rank[MOST_UNITS];

		p->passes = adds_up;
		for (size_t u = 0; u < n; u++)
			p->error[u] =
				exp2(-(double)below(&seed, 8)) * (1 + below(&seed, 100) / 100.0);
		p->limit = below(&seed, 100) / 30.0;
		for (size_t u = 0; u < n; u++)
			rank[u] = (uint32_t)u;
		qsort_r(rank, n, sizeof *rank, by_error, p);
		search_smallest(p, rank, &seed);
		ht_arena_release(&a);
	}
}

static void test_planted_is_smallest(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < 200; i++) {
		UNIT_ARENA(a);
		size_t n = 1 + below(&seed, 16);
		struct planted *p = start(n, &a);
		uint32_t rank[MOST_UNITS];

		p->passes = holds_needed;
		for (size_t u = 0; u < n; u++)
			p->needed[u] = below(&seed, 4) == 0;
		shuffled(rank, n, &seed);
		search_smallest(p, rank, &seed);
		ht_arena_release(&a);
	}
}

/* At least one unit, and each other one with a probability of a quarter. */
static uint32_t random_way(size_t n, uint64_t *seed)
{
	uint32_t way = (uint32_t)(ht_random(seed) & ht_random(seed));

	return (way & ((1u << n) - 1)) | 1u << below(seed, (uint32_t)n);
}

/* Several sets pass, and errors say nothing of which one is the smallest.  To show that, one search in a hundred takes more answers than
 * where one set passes. */
static void test_one_of_several_is_smallest(void **state)
{
	uint64_t seed = 6;
	int more = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		UNIT_ARENA(a);
		size_t n = 2 + below(&seed, 15);
		struct planted *p = start(n, &a);
		uint32_t rank[MOST_UNITS];

		p->passes = holds_a_way;
		p->ways = 1 + below(&seed, MOST_WAYS);
		for (size_t w = 0; w < p->ways; w++)
			p->way[w] = random_way(n, &seed);
		shuffled(rank, n, &seed);
		search_smallest(p, rank, &seed);
		more += (double)p->given >= most_answers(n, smallest(p));
		assert_true((double)p->given < 2 * most_answers(n, smallest(p)));
		ht_arena_release(&a);
	}
	assert_true(more <= 300 / 100);
}

/* More units than are searched for a smallest set: several sets pass, and a set without a member too many is found within as many answers
 * as where one set passes. */
static void test_one_of_several_among_many(void **state)
{
	uint64_t seed = 8;

	(void)state;
	for (int i = 0; i < 200; i++) {
		UNIT_ARENA(a);
		size_t n = 17 + below(&seed, 15);
		struct planted *p = start(n, &a);
		uint32_t rank[MOST_UNITS], region[MOST_UNITS];
		uint8_t kept[MOST_UNITS];
		struct ht_minimal m = {
			.units = n, .rank = rank, .region = region, .ask = ask, .self = p
		};

		p->passes = holds_a_way;
		p->ways = 1 + below(&seed, MOST_WAYS);
		for (size_t w = 0; w < p->ways; w++)
			p->way[w] = random_way(n, &seed);
		shuffled(rank, n, &seed);
		random_regions(region, n, &seed);
		assert_int_equal(search(&m, p, kept), HT_FOUND);
		assert_minimal(p, kept);
		assert_true((double)p->given < most_answers(n, size_of(kept, n)));
		ht_arena_release(&a);
	}
}

/* The cheapest point of the frontier that passes is found by bisection, so few answers are needed if it is a small set. */
static void test_frontier(void **state)
{
	UNIT_ARENA(a);
	struct planted *p = start(200, &a);
	uint32_t rank[MOST_UNITS];
	uint8_t kept[MOST_UNITS], set[HT_FRONTIER_POINTS][MOST_UNITS] = { { 0 } };
	const uint8_t *frontier[HT_FRONTIER_POINTS];
	struct ht_minimal m = { .units = 200,
		.rank = rank,
		.frontier = frontier,
		.points = HT_FRONTIER_POINTS,
		.ask = ask,
		.self = p };

	(void)state;
	p->passes = holds_needed;
	for (size_t u = 0; u < 200; u++)
		rank[u] = (uint32_t)u;
	for (size_t i = 0; i < HT_FRONTIER_POINTS; i++) {
		frontier[i] = set[i];
		for (size_t u = 0; u <= i; u++)
			set[i][7 + 12 * u] = 1;
	}
	for (size_t u = 0; u < 10; u++)
		p->needed[7 + 12 * u] = 1;
	assert_int_equal(search(&m, p, kept), HT_FOUND);
	assert_memory_equal(kept, p->needed, 200);
	assert_true(p->given <= 40);
	ht_arena_release(&a);
}

/* Whatever the answers are, the set passes and no member of it can be left out. */
static void test_not_monotone(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (int i = 0; i < 200; i++) {
		UNIT_ARENA(a);
		size_t n = 1 + below(&seed, 40);
		struct planted *p = start(n, &a);
		uint32_t rank[MOST_UNITS], region[MOST_UNITS];
		uint8_t kept[MOST_UNITS];
		struct ht_minimal m = {
			.units = n, .rank = rank, .region = region, .ask = ask, .self = p
		};

		p->passes = is_random;
		p->seed = ht_random(&seed);
		shuffled(rank, n, &seed);
		for (size_t u = 0; u < n; u++)
			region[u] = (uint32_t)(u / 5);
		assert_int_equal(search(&m, p, kept), HT_FOUND);
		assert_minimal(p, kept);
		ht_arena_release(&a);
	}
}

static bool never(const struct planted *p, const uint8_t *kept)
{
	(void)p;
	(void)kept;
	return false;
}

static void test_no_set(void **state)
{
	UNIT_ARENA(a);
	uint32_t rank[3] = { 0, 1, 2 };
	uint8_t kept[3];
	struct planted *p = start(3, &a);
	struct ht_minimal m = { .units = 3, .rank = rank, .ask = ask, .self = p };

	(void)state;
	p->passes = never;
	assert_int_equal(search(&m, p, kept), HT_NO_SET);
	assert_int_equal(p->given, 1);
	ht_arena_release(&a);
}

/* A candidate that passes saves answers, and a candidate that fails does not change the set that is found. */
static void test_candidates(void **state)
{
	size_t given[2];

	(void)state;
	for (int with = 0; with < 2; with++) {
		UNIT_ARENA(a);
		struct planted *p = start(256, &a);
		uint32_t rank[256];
		uint8_t kept[256], good[256] = { 0 }, bad[256] = { 0 };
		const uint8_t *candidate[] = { bad, good };
		struct ht_minimal m = { .units = 256, .rank = rank, .ask = ask, .self = p };

		m.candidate = candidate;
		m.candidates = with ? 2 : 0;
		p->passes = holds_needed;
		for (uint32_t u = 0; u < 256; u++)
			rank[u] = u;
		for (size_t u = 10; u < 256; u += 60)
			p->needed[u] = good[u] = good[u + 1] = 1;
		bad[3] = 1;
		assert_int_equal(search(&m, p, kept), HT_FOUND);
		assert_memory_equal(kept, p->needed, 256);
		given[with] = p->given;
		ht_arena_release(&a);
	}
	assert_true(given[1] < given[0]);
}

/* ---- rules of other tools ---- */

static size_t find_by_bisection(struct planted *p, bool reverse, uint8_t *kept)
{
	struct ht_minimal m = { .units = p->units, .ask = ask, .self = p };
	enum ht_found found;

	while ((found = ht_bisection_find(&m, reverse, kept)) == HT_ASKED)
		answer(p);
	assert_int_equal(found, HT_FOUND);
	return size_of(kept, p->units);
}

/* Bisection keeps all units from its end of the graph up to the one that is needed. */
static void test_bisection(void **state)
{
	(void)state;
	for (size_t n = 1; n < 40; n++)
		for (size_t at = 0; at < n; at++)
			for (int reverse = 0; reverse < 2; reverse++) {
				UNIT_ARENA(a);
				struct planted *p = start(n, &a);
				uint8_t kept[40];
				p->passes = holds_needed;
				p->needed[at] = 1;
				assert_int_equal(find_by_bisection(p, reverse, kept),
					reverse ? n - at : at + 1);
				assert_true(p->passes(p, kept));
				ht_arena_release(&a);
			}
}

/* Whatever the rank is, the set has at most as many members as those of bisection from either end of the graph. */
static void test_no_larger_than_bisection(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 60; i++) {
		UNIT_ARENA(a);
		size_t n = 20 + below(&seed, 60);
		struct planted *p = start(n, &a);
		uint32_t rank[MOST_UNITS], region[MOST_UNITS];
		uint8_t kept[MOST_UNITS], prefix[MOST_UNITS];
		struct ht_minimal m = {
			.units = n, .rank = rank, .region = region, .ask = ask, .self = p
		};

		p->passes = adds_up;
		/* Errors of early units are the largest, or those of late ones. */
		for (size_t u = 0; u < n; u++)
			p->error[u] = exp2(-(double)(i & 1 ? u : n - u) / 4) *
				      (1 + below(&seed, 100) / 100.0);
		p->limit = below(&seed, 100) / 30.0;
		shuffled(rank, n, &seed);
		random_regions(region, n, &seed);
		assert_int_equal(search(&m, p, kept), HT_FOUND);
		assert_minimal(p, kept);
		for (int reverse = 0; reverse < 2; reverse++)
			assert_true(size_of(kept, n) <= find_by_bisection(p, reverse, prefix));
		ht_arena_release(&a);
	}
}

/* How many of ten layers Polygraphy marks in each step if the seventh is needed, worked out from its source: 10 pass, 5 fail, 8 pass,
 * 6 fail, 7 pass. */
static void test_bisection_steps(void **state)
{
	static const size_t steps[] = { 10, 5, 8, 6, 7 };
	UNIT_ARENA(a);
	struct planted *p = start(10, &a);
	struct ht_minimal m = { .units = 10, .ask = ask, .self = p };
	uint8_t kept[10];
	size_t n = 0;

	(void)state;
	p->passes = holds_needed;
	p->needed[6] = 1;
	for (; ht_bisection_find(&m, false, kept) == HT_ASKED; n++) {
		assert_true(n < HT_COUNT(steps));
		assert_int_equal(size_of(p->asked, 10), steps[n]);
		answer(p);
	}
	assert_int_equal(n, HT_COUNT(steps));
	assert_int_equal(size_of(kept, 10), 7);
	ht_arena_release(&a);
}

static void test_segments(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int i = 0; i < 100; i++) {
		UNIT_ARENA(a);
		size_t n = 1 + below(&seed, 60);
		struct planted *p = start(n, &a);
		struct ht_minimal m = { .units = n, .ask = ask, .self = p };
		uint8_t kept[MOST_UNITS];
		enum ht_found found;

		p->passes = holds_needed;
		for (size_t u = 0; u < n; u++)
			p->needed[u] = below(&seed, 10) == 0;
		do {
			UNIT_ARENA(b);
			found = ht_segments_find(&m, &b, kept);
			ht_arena_release(&b);
			if (found == HT_ASKED)
				answer(p);
		} while (found == HT_ASKED);
		assert_memory_equal(kept, p->needed, n);
		ht_arena_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_planted_is_smallest),
		cmocka_unit_test(test_sums_are_smallest),
		cmocka_unit_test(test_one_of_several_is_smallest),
		cmocka_unit_test(test_one_of_several_among_many),
		cmocka_unit_test(test_frontier),
		cmocka_unit_test(test_not_monotone),
		cmocka_unit_test(test_no_set),
		cmocka_unit_test(test_candidates),
		cmocka_unit_test(test_bisection),
		cmocka_unit_test(test_bisection_steps),
		cmocka_unit_test(test_no_larger_than_bisection),
		cmocka_unit_test(test_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
