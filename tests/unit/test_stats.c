/* Statistics against definitions that are computed in another way. */
#include "tests/unit/unit.h"

#include "stats/errors.h"
#include "stats/interval.h"
#include "stats/task.h"

#include <math.h>
#include <stdlib.h>

static struct ht_values floats(const float *x, size_t n, size_t row)
{
	return (struct ht_values){ x, HT_F32, n, row };
}

static void test_spacing(void **state)
{
	(void)state;
	assert_true(ht_spacing(HT_F32, 1) == 0x1p-23);
	assert_true(ht_spacing(HT_F32, 1.999) == 0x1p-23);
	assert_true(ht_spacing(HT_F32, 0) == 0x1p-149);
	assert_true(ht_spacing(HT_F16, 1e-7) == 0x1p-24);
	assert_true(ht_spacing(HT_F16, -2048) == 2);
	assert_true(ht_spacing(HT_BF16, 1) == 0x1p-7);
	assert_true(ht_spacing(HT_F64, 1) == 0x1p-52);
	assert_true(ht_spacing(HT_I32, 1e6) == 1);
}

static void test_three_digits(void **state)
{
	static const double x[] = { 0.0213456, 12345.6, 3e-9, 1, 0.99999876, -0.0213456, 7e20 };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(x); i++) {
		double low = ht_three_digits(x[i], HT_DIGITS_BELOW),
		       high = ht_three_digits(x[i], HT_DIGITS_ABOVE);
		assert_true(low <= x[i] && x[i] <= high);
		assert_true(high - low <= 0.0101 * fabs(x[i]));
	}
	assert_true(ht_three_digits(0.0213456, HT_DIGITS_ABOVE) == 0.0214);
	assert_true(ht_three_digits(0.0213456, HT_DIGITS_BELOW) == 0.0213);
	assert_true(ht_three_digits(12345.6, HT_DIGITS_NEAREST) == 12300);
	assert_true(isinf(ht_three_digits(INFINITY, HT_DIGITS_ABOVE)));
}

/* Quantiles are at least the exact ones, and at most 1/64 more. */
static void test_quantiles(void **state)
{
	static const double q[] = { 0, 0.001, 0.5, 0.9, 0.99, 0.999, 1 };
	UNIT_ARENA(arena);
	struct ht_spread s;
	enum { N = 2000 };
	double *x;

	(void)state;
	x = HT_NEW_ARRAY(&arena, double, N);
	ht_spread_init(&s, &arena);
	for (int i = 0; i < N; i++) {
		x[i] = i % 10 ? ldexp(1 + i / (double)N, i % 60 - 40) : 0;
		ht_spread_add(&s, x[i]);
	}
	for (int i = 1; i < N; i++) {
		double v = x[i];
		int j = i;
		for (; j > 0 && x[j - 1] > v; j--)
			x[j] = x[j - 1];
		x[j] = v;
	}
	for (size_t i = 0; i < HT_COUNT(q); i++) {
		size_t rank = (size_t)ceil(q[i] * N);
		double exact = x[rank ? rank - 1 : 0], got = ht_spread_quantile(&s, q[i]);
		assert_true(got >= exact && got <= exact * (1 + 1.0 / 64));
	}
	ht_spread_add(&s, INFINITY);
	assert_true(isinf(ht_spread_quantile(&s, 1)));
	ht_arena_release(&arena);
}

/* The tails of the binomial distribution, from Pascal's triangle. */
static double tail(size_t n, size_t k)
{
	double sum = 0, term = ldexp(1, -(int)n);

	for (size_t i = 0; i <= k; i++) {
		sum += term;
		term = term * (double)(n - i) / (double)(i + 1);
	}
	return sum;
}

static void test_median_ranks(void **state)
{
	size_t low, high;

	(void)state;
	assert_false(ht_median_ranks(0, &low, &high));
	assert_false(ht_median_ranks(5, &low, &high));
	for (size_t n = 6; n < 500; n++) {
		assert_true(ht_median_ranks(n, &low, &high));
		assert_int_equal(high, n - 1 - low);
		assert_true(low < high);
		assert_true(2 * tail(n, low) <= 0.05);
		assert_true(2 * tail(n, low + 1) > 0.05 || low + 1 >= n / 2);
	}
}

/* Tables of Student's distribution. */
static void test_student(void **state)
{
	(void)state;
	assert_float_equal(ht_student_quantile(0.975, 1), 12.706204736432095, 1e-9);
	assert_float_equal(ht_student_quantile(0.975, 4), 2.7764451051977987, 1e-10);
	assert_float_equal(ht_student_quantile(0.975, 63), 1.9983405417721956, 1e-10);
	assert_float_equal(ht_student_quantile(0.975, 1e6), 1.9599663, 1e-6);
	assert_true(isinf(ht_mean_interval(1, 3, 9).high));
}

/* At the ends of the interval the score statistic equals the quantile of the normal distribution;
 * equal models have an interval around 0. */
static void test_paired(void **state)
{
	struct ht_interval i = ht_paired_interval(0, 0, 64);

	(void)state;
	assert_float_equal(i.high, 3.841458820694124 / (64 + 3.841458820694124), 1e-9);
	assert_float_equal(i.low, -i.high, 1e-12);
	i = ht_paired_interval(12, 3, 100);
	assert_true(i.low < 0.09 && i.high > 0.09 && i.low > 0 && i.high < 0.2);
	i = ht_paired_interval(5, 0, 5);
	assert_true(i.low > 0 && i.high > 0.999 && i.high <= 1);
	assert_true(isinf(ht_paired_interval(0, 0, 0).low));
}

static void test_errors(void **state)
{
	static const float a[] = { 1, 2.5f, -3, 0, INFINITY }, b[] = { 1, 2, -4, 1, INFINITY };
	static const float zero[] = { 0, 0 }, one[] = { 1, 0 }, nan[] = { NAN, 1 };
	struct ht_values x = floats(a, 5, 5), y = floats(b, 5, 5);
	struct ht_errors e;
	UNIT_ARENA(arena);

	(void)state;
	ht_errors_init(&e, HT_F32, HT_BF16, &arena);
	ht_errors_add(&e, &x, &y);
	assert_true(ht_errors_get(&e, HT_STAT_abs) == 1);
	assert_true(ht_errors_get(&e, HT_STAT_rel) == 0.25);
	assert_true(ht_errors_get(&e, HT_STAT_mean_abs) == 2.5 / 4);
	assert_true(ht_errors_get(&e, HT_STAT_max_rel) == 1);
	assert_true(ht_errors_get(&e, HT_STAT_max_ulp) == 0x1p23);
	assert_true(ht_errors_get(&e, HT_STAT_max_low_ulp) == 0x1p7);
	assert_true(ht_errors_get(&e, HT_STAT_underflow) == 1);
	assert_true(ht_errors_get(&e, HT_STAT_infinite) == 1);
	assert_true(ht_errors_get(&e, HT_STAT_overflow) == 0);
	assert_true(ht_errors_get(&e, HT_STAT_argmax) == 1);
	x = floats(zero, 2, 1);
	y = floats(one, 2, 1);
	ht_errors_add(&e, &x, &y);
	assert_true(ht_errors_get(&e, HT_STAT_cos) == 0);
	x = floats(nan, 2, 1);
	ht_errors_add(&e, &x, &y);
	assert_true(isinf(ht_errors_get(&e, HT_STAT_rel)));
	assert_true(ht_errors_get(&e, HT_STAT_cos) == -1);
	assert_true(ht_errors_get(&e, HT_STAT_nan) == 1);
	ht_arena_release(&arena);
}

static void test_largest(void **state)
{
	static const float x[] = { 3, 9, 1, 9, 4, 8, NAN, 2 };
	static const size_t want[] = { 6, 1, 3, 5, 4 };
	struct ht_values v = floats(x, 8, 8);
	size_t at[HT_MAX_TOP];

	(void)state;
	ht_largest_k(&v, 0, 8, 5, at);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(at[i], want[i]);
	assert_int_equal(ht_largest(&v, 0, 6), 1);
	ht_largest_k(&v, 0, 2, 2, at);
	assert_int_equal(at[0], 1);
	assert_int_equal(at[1], 0);
}

static void test_tasks(void **state)
{
	static const float mask[] = { 0.9f, 0.2f, 0.7f, 0.1f }, truth[] = { 1, 0, 0, 0 };
	static const int32_t classes[] = { 1, 0 };
	static const float logits[] = { 0, 2, 1, 5, 4, 3 };
	struct ht_values m = floats(mask, 4, 1), t = floats(truth, 4, 1), l = floats(logits, 6, 3),
			 c = { classes, HT_I32, 2, 1 };
	UNIT_ARENA(arena);

	(void)state;
	assert_true(ht_task_value(HT_TASK_IOU, &m, &t, 2, &arena) == 0.5);
	assert_float_equal(ht_task_value(HT_TASK_F_MEASURE, &m, &t, 2, &arena), 2.0 / 3, 1e-15);
	assert_true(ht_task_value(HT_TASK_TOP1, &l, &c, 1, &arena) == 1);
	assert_true(ht_task_value(HT_TASK_TOP1, &m, &t, 1, &arena) == 0.75);
	assert_float_equal(ht_task_value(HT_TASK_COSINE, &m, &t, 1, &arena),
		0.9 / sqrt(0.81 + 0.04 + 0.49 + 0.01), 1e-6);
	assert_int_equal(ht_task_named(HT_STR("f-measure")), HT_TASK_F_MEASURE);
	assert_int_equal(ht_task_named(HT_STR("f1")), HT_TASK_NONE);
	ht_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spacing),
		cmocka_unit_test(test_three_digits),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_median_ranks),
		cmocka_unit_test(test_student),
		cmocka_unit_test(test_paired),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_largest),
		cmocka_unit_test(test_tasks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
