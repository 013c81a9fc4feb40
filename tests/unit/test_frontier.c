/* Frontiers of cost against error: their points are the corners of the lower convex hull of all
 * labellings; and the grammar of budgets. */
#include "tests/unit/assign_task.h"
#include "tests/unit/unit.h"

#include "precision/optimal/budget.h"
#include "precision/optimal/frontier.h"

#include <stdlib.h>

struct instance {
	struct task task;
	struct ht_assign p;
	int64_t (*error)[HT_LABELS];
	struct ht_frontier found;
};

static void make(struct instance *t, uint32_t units, bool three, struct ht_arena *a)
{
	uint32_t order[MOST_UNITS + MOST_TENSORS];

	for (uint32_t i = 0; i < HT_COUNT(order); i++)
		order[i] = i;
	random_task(&t->task, units, three);
	build(&t->task, order, order, a, &t->p);
	t->error = (int64_t(*)[HT_LABELS])ht_alloc_array(a, units, sizeof *t->error);
	for (uint32_t u = 0; u < units; u++)
		for (int l = 0; l < HT_LABELS; l++)
			t->error[u][l] = l == HT_LABEL_F32 || chance(20) ? 0 : below(100);
}

static void solve(struct instance *t, size_t most, struct ht_arena *a)
{
	UNIT_ARENA(scratch);

	ht_frontier_solve(
		&t->p, (const int64_t(*)[HT_LABELS])t->error, most, a, &scratch, &t->found);
	ht_arena_release(&scratch);
}

static int64_t error_of(const struct instance *t, const uint8_t *label)
{
	return ht_frontier_error(&t->p, (const int64_t(*)[HT_LABELS])t->error, label);
}

/* The values of points are those of their labels; cost rises, error falls, and the slope
 * flattens. */
static void check_shape(const struct instance *t)
{
	const struct ht_frontier_point *p = t->found.point;

	for (size_t i = 0; i < t->found.points; i++) {
		assert_true(p[i].cost == ht_assign_cost(&t->p, p[i].label));
		assert_true(p[i].error == error_of(t, p[i].label));
		if (i)
			assert_true(p[i].cost > p[i - 1].cost && p[i].error < p[i - 1].error);
		if (i > 1)
			assert_true(
				(p[i].error - p[i - 1].error) * (p[i - 1].cost - p[i - 2].cost) >
				(p[i - 1].error - p[i - 2].error) * (p[i].cost - p[i - 1].cost));
	}
}

/* No labelling lies outside the polygon of the points: left of its first, below its last, or under
 * one of its lines. */
static void check_above(const struct instance *t, int64_t cost, int64_t error)
{
	const struct ht_frontier_point *p = t->found.point, *last = p + t->found.points - 1;

	assert_true(cost > p->cost || (cost == p->cost && error >= p->error));
	assert_true(error > last->error || (error == last->error && cost >= last->cost));
	for (; p < last; p++)
		assert_true((cost - p->cost) * (p->error - p[1].error) +
				    (error - p->error) * (p[1].cost - p->cost) >=
			    0);
}

static void check_hull(const struct instance *t)
{
	uint8_t label[MOST_UNITS];
	bool any = false;

	check_shape(t);
	assert_true(t->found.whole || !t->found.points);
	first_labels(&t->task, label);
	do {
		int64_t cost = ht_assign_cost(&t->p, label);
		any |= cost != HT_COST_NEVER;
		if (cost == HT_COST_NEVER)
			continue;
		assert_true(t->found.points > 0);
		check_above(t, cost, error_of(t, label));
	} while (next_labels(&t->task, label));
	assert_true(any == (t->found.points > 0));
}

static void random_frontiers(void **unused)
{
	size_t points = 0;

	(void)unused;
	state = 5;
	for (int round = 0; round < 3000; round++) {
		struct instance t;
		UNIT_ARENA(a);
		make(&t, 1 + (uint32_t)below(round % 2 ? 6 : 9), round % 2, &a);
		solve(&t, 64, &a);
		check_hull(&t);
		points += t.found.points;
		ht_arena_release(&a);
	}
	assert_true(points > 3000); /* the instances have frontiers */
}

/* A frontier with fewer points still has both ends. */
static void few_points(void **unused)
{
	(void)unused;
	state = 6;
	for (int round = 0; round < 300; round++) {
		struct instance t;
		struct ht_frontier whole;
		UNIT_ARENA(a);
		make(&t, 8, true, &a);
		solve(&t, 64, &a);
		whole = t.found;
		solve(&t, 3, &a);
		check_shape(&t);
		if (whole.points > 3)
			assert_false(t.found.whole);
		assert_true(t.found.points == (whole.points < 3 ? whole.points : 3));
		if (whole.points) {
			assert_true(t.found.point[0].cost == whole.point[0].cost);
			assert_true(t.found.point[t.found.points - 1].error ==
				    whole.point[whole.points - 1].error);
		}
		ht_arena_release(&a);
	}
}

/* Costs as large as those of models do not overflow when they are multiplied by errors. */
static void large_costs(void **unused)
{
	struct ht_assign p;
	struct ht_frontier f;
	int64_t error[40][HT_LABELS] = { 0 };
	UNIT_ARENA(a);
	UNIT_ARENA(scratch);

	(void)unused;
	ht_assign_init(&p, &a);
	for (int i = 0; i < 40; i++) {
		ht_assign_unit(&p, (int64_t[]){ HT_COST_NEVER, INT64_C(1000000000000) + i,
					   INT64_C(500000000000) });
		error[i][HT_LABEL_BF16] = 1 + i * 100;
	}
	ht_frontier_solve(&p, (const int64_t(*)[HT_LABELS])error, 64, &a, &scratch, &f);
	assert_int_equal(f.points, 41);
	assert_true(f.whole);
	assert_true(f.point[40].error == 0);
	ht_arena_release(&scratch);
	ht_arena_release(&a);
}

/* ---- budgets ---- */

static void check_budget(const char *text, size_t clauses)
{
	struct ht_budget b = { 0 };
	struct ht_diags d;
	UNIT_ARENA(a);

	ht_diags_init(&d);
	assert_int_equal(ht_budget_parse(&b, text, &a, &d), HT_OK);
	assert_int_equal(b.clauses, clauses);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void budgets_are_read(void **unused)
{
	struct ht_budget b = { 0 };
	struct ht_diags d;
	UNIT_ARENA(a);

	(void)unused;
	ht_diags_init(&d);
	assert_int_equal(
		ht_budget_parse(&b, "split:1:rms<=0.5, a/b : abs <= 2e-3,rel<=0", &a, &d), HT_OK);
	assert_int_equal(b.clauses, 3);
	assert_str(b.clause[0].output, "split:1");
	assert_int_equal(b.clause[0].metric, HT_METRIC_RMS);
	assert_true(b.clause[0].most == 0.5);
	assert_str(b.clause[1].output, "a/b");
	assert_int_equal(b.clause[1].metric, HT_METRIC_ABS);
	assert_int_equal(b.clause[2].output.n, 0);
	assert_int_equal(b.clause[2].metric, HT_METRIC_REL);
	check_budget("rel<=1,rms<=1", 2);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void check_bad(const char *text, const char *message)
{
	struct ht_budget b = { 0 };
	struct ht_diags d;
	UNIT_ARENA(a);

	ht_diags_init(&d);
	assert_int_equal(ht_budget_parse(&b, text, &a, &d), HT_E_USAGE);
	assert_memory_equal(d.first->text.p, message, strlen(message));
	assert_int_equal(b.clauses, 0);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void bad_budgets_are_refused(void **unused)
{
	(void)unused;
	check_bad("", "budget: nothing stands between two commas of ''");
	check_bad(
		"rel<=1,,abs<=1", "budget: nothing stands between two commas of 'rel<=1,,abs<=1'");
	check_bad("rel<=1,", "budget: nothing stands between two commas of");
	check_bad("out:rel<1e-2", "budget: 'out:rel<1e-2' has no '<='; a budget is");
	check_bad("out:rel=1e-2", "budget: 'out:rel=1e-2' has no '<='");
	check_bad("<=1", "budget: '<=1' names no metric");
	check_bad("out:<=1", "budget: 'out:<=1' names no metric");
	check_bad(":rel<=1", "budget: ':rel<=1' names no output before the colon");
	check_bad("out:ulp<=1",
		"budget: 'ulp' in 'out:ulp<=1' is no metric; there are rel, abs and rms");
	check_bad("Rel<=1", "budget: 'Rel' in 'Rel<=1' is no metric");
	check_bad("rel<=", "budget: '' in 'rel<=' is no finite number of 0 or more");
	check_bad("rel<=x", "budget: 'x' in 'rel<=x' is no finite number");
	check_bad("rel<=-1", "budget: '-1' in 'rel<=-1' is no finite number");
	check_bad("rel<=1%", "budget: '1%' in 'rel<=1%' is no finite number");
	check_bad("rel<=inf", "budget: 'inf' in 'rel<=inf' is no finite number");
	check_bad("rel<=nan", "budget: 'nan' in 'rel<=nan' is no finite number");
	check_bad("rel<=1e999", "budget: '1e999' in 'rel<=1e999' is no finite number");
	check_bad("rel<=1,rel<=2", "budget: 'rel<=2' limits what was limited before");
	check_bad(
		"a:abs<=1,b:abs<=1,a:abs<=1", "budget: 'a:abs<=1' limits what was limited before");
}

static void check_samples(const char *text, uint64_t count, uint64_t seed)
{
	struct ht_budget b = { 0 };
	struct ht_diags d;

	ht_diags_init(&d);
	assert_int_equal(ht_samples_parse(&b, text, &d), count ? HT_OK : HT_E_USAGE);
	assert_int_equal(b.random, count);
	if (count)
		assert_int_equal(b.seed, seed);
	ht_diags_release(&d);
}

static void samples_are_counted(void **unused)
{
	(void)unused;
	check_samples("8", 8, 1);
	check_samples("8:7", 8, 7);
	check_samples("4096:0", 4096, 0);
	check_samples("0", 0, 0);
	check_samples("4097", 0, 0);
	check_samples("-1", 0, 0);
	check_samples("8:", 0, 0);
	check_samples("8:-1", 0, 0);
	check_samples(":8", 0, 0);
	check_samples("x.npz", 0, 0);
	check_samples("", 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_frontiers),
		cmocka_unit_test(few_points),
		cmocka_unit_test(large_costs),
		cmocka_unit_test(budgets_are_read),
		cmocka_unit_test(bad_budgets_are_refused),
		cmocka_unit_test(samples_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
