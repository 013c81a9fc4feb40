/* Minimum cuts and assignments against brute force, on random instances; results do not depend on
 * the order of vertices, arcs and units. */
#include "tests/unit/assign_task.h"
#include "tests/unit/unit.h"

#include "precision/optimal/cut.h"

#include <stdlib.h>

static void shuffle(uint32_t *order, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = below(i), t = order[i - 1];
		order[i - 1] = order[j];
		order[j] = t;
	}
}

/* ---- cuts ---- */

enum { MOST_VERTICES = 10, MOST_ARCS = 40 };

struct instance {
	uint32_t vertices, arcs;
	uint32_t from[MOST_ARCS], to[MOST_ARCS];
	int64_t capacity[MOST_ARCS];
};

static uint32_t any_end(uint32_t vertices, uint32_t terminal)
{
	uint32_t v = below(vertices + 2);

	return v < vertices ? v : terminal;
}

static void random_instance(struct instance *in)
{
	in->vertices = 1 + below(MOST_VERTICES);
	in->arcs = below(MOST_ARCS);
	for (uint32_t i = 0; i < in->arcs; i++) {
		in->from[i] = any_end(in->vertices, HT_CUT_SOURCE);
		in->to[i] = any_end(in->vertices, HT_CUT_SINK);
		in->capacity[i] = below(12) ? (int64_t)below(10) : HT_CUT_NEVER;
	}
}

static bool on_source_side(uint32_t set, uint32_t v)
{
	return v == HT_CUT_SOURCE || (v != HT_CUT_SINK && (set >> v & 1));
}

static int64_t cut_cost(const struct instance *in, uint32_t set)
{
	int64_t cost = 0;

	for (uint32_t i = 0; i < in->arcs; i++) {
		if (!on_source_side(set, in->from[i]) || on_source_side(set, in->to[i]))
			continue;
		if (in->capacity[i] == HT_CUT_NEVER)
			return HT_CUT_NEVER;
		cost += in->capacity[i];
	}
	return cost;
}

/* Solves it with vertices and arcs in another order; the set uses the instance's numbers. */
static int64_t solve(const struct instance *in, uint32_t *set)
{
	uint32_t vertex[MOST_VERTICES], arc[MOST_ARCS];
	struct ht_cut c;
	int64_t value;
	UNIT_ARENA(a);

	shuffle(vertex, in->vertices);
	shuffle(arc, in->arcs);
	ht_cut_init(&c, &a);
	for (uint32_t i = 0; i < in->vertices; i++)
		ht_cut_vertex(&c);
	for (uint32_t i = 0; i < in->arcs; i++) {
		uint32_t u = in->from[arc[i]], v = in->to[arc[i]];
		ht_cut_arc(&c, u < in->vertices ? vertex[u] : u, v < in->vertices ? vertex[v] : v,
			in->capacity[arc[i]]);
	}
	value = ht_cut_solve(&c, &a);
	*set = 0;
	for (uint32_t i = 0; i < in->vertices && value != HT_CUT_NEVER; i++)
		*set |= (uint32_t)ht_cut_from_source(&c, vertex[i]) << i;
	ht_arena_release(&a);
	return value;
}

static void test_cut(void **unused)
{
	(void)unused;
	state = 1;
	for (int round = 0; round < 10000; round++) {
		struct instance in;
		int64_t least = HT_CUT_NEVER;
		uint32_t smallest = UINT32_MAX, set;

		random_instance(&in);
		for (uint32_t s = 0; s < UINT32_C(1) << in.vertices; s++) {
			int64_t cost = cut_cost(&in, s);
			if (cost < least)
				smallest = UINT32_MAX;
			if (cost <= least && cost != HT_CUT_NEVER) {
				/* the intersection of minimum cuts is a minimum cut */
				smallest &= s;
				least = cost;
			}
		}
		assert_true(solve(&in, &set) == least);
		if (least != HT_CUT_NEVER)
			assert_int_equal(set, smallest);
	}
}

/* A chain longer than any stack, and capacities near the limit. */
static void test_long_chain(void **unused)
{
	enum { LENGTH = 300000 };
	struct ht_cut c;
	UNIT_ARENA(a);

	(void)unused;
	ht_cut_init(&c, &a);
	for (uint32_t i = 0; i < LENGTH; i++)
		ht_cut_vertex(&c);
	ht_cut_arc(&c, HT_CUT_SOURCE, 0, HT_CUT_MOST / 3);
	for (uint32_t i = 0; i + 1 < LENGTH; i++)
		ht_cut_arc(&c, i, i + 1, i == LENGTH / 2 ? HT_CUT_MOST / 4 : HT_CUT_NEVER);
	ht_cut_arc(&c, LENGTH - 1, HT_CUT_SINK, HT_CUT_MOST / 3);
	assert_true(ht_cut_solve(&c, &a) == HT_CUT_MOST / 4);
	assert_true(ht_cut_from_source(&c, LENGTH / 2));
	assert_false(ht_cut_from_source(&c, LENGTH / 2 + 1));
	ht_arena_release(&a);
}

/* ---- assignments ---- */

static int64_t brute_force(const struct task *t, const struct ht_assign *p)
{
	uint8_t label[MOST_UNITS];
	int64_t least = HT_COST_NEVER;

	first_labels(t, label);
	do {
		int64_t cost = ht_assign_cost(p, label);
		least = cost < least ? cost : least;
	} while (next_labels(t, label));
	return least;
}

static void check_task(const struct task *t)
{
	uint32_t place[MOST_UNITS], order[MOST_TENSORS];
	struct ht_assign p, other;
	struct ht_assignment got, again;
	UNIT_ARENA(a);

	for (uint32_t i = 0; i < t->units; i++)
		place[i] = i;
	for (uint32_t i = 0; i < t->tensors; i++)
		order[i] = i;
	build(t, place, order, &a, &p);
	ht_assign_solve(&p, &a, &a, &got);
	assert_true(got.cost == brute_force(t, &p));
	assert_true(got.cut == got.cost);
	shuffle(place, t->units);
	shuffle(order, t->tensors);
	build(t, place, order, &a, &other);
	ht_assign_solve(&other, &a, &a, &again);
	assert_true(again.cost == got.cost);
	for (uint32_t u = 0; u < t->units && got.cost != HT_COST_NEVER; u++)
		assert_int_equal(again.label[place[u]], got.label[u]);
	ht_arena_release(&a);
}

static void test_two_labels(void **unused)
{
	struct task t;

	(void)unused;
	state = 2;
	for (int round = 0; round < 6000; round++) {
		random_task(&t, 1 + below(10), false);
		check_task(&t);
	}
	for (int round = 0; round < 60; round++) {
		random_task(&t, 11 + below(6), false);
		check_task(&t);
	}
}

static void test_three_labels(void **unused)
{
	struct task t;

	(void)unused;
	state = 3;
	for (int round = 0; round < 6000; round++) {
		random_task(&t, 1 + below(6), true);
		check_task(&t);
	}
	for (int round = 0; round < 30; round++) {
		random_task(&t, 7 + below(4), true);
		check_task(&t);
	}
}

/* Sums that exceed 64 bits are divided first; the result is then exact to that many units. */
static void test_huge_costs(void **unused)
{
	const int64_t huge = INT64_MAX / 16;
	struct ht_assign p;
	struct ht_assignment got;
	UNIT_ARENA(a);

	(void)unused;
	ht_assign_init(&p, &a);
	for (int i = 0; i < 4; i++)
		ht_assign_unit(&p, (int64_t[]){ HT_COST_NEVER, huge, huge / 2 });
	ht_assign_solve(&p, &a, &a, &got);
	assert_true(got.shift > 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(got.label[i], HT_LABEL_BF16);
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_long_chain),
		cmocka_unit_test(test_two_labels),
		cmocka_unit_test(test_three_labels),
		cmocka_unit_test(test_huge_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
