/* Rates of a machine: measured ones agree with each other, files of rates are read or refused by
 * line, and targets use the products that are fast by these rates. */
#include "kernel/measure.h"
#include "precision/optimal/price.h"
#include "precision/optimal/rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/unit.h"

/* ---- measured ---- */

static uint64_t seed = 11;

/* A value disturbed by up to 30 % either way. */
static double disturbed(double v)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return v * exp2(((double)(seed >> 40) / (1 << 24) - 0.5) * 2 * log2(1.3));
}

static void assert_same(const struct ht_rates *a, const struct ht_rates *b)
{
	assert_true(fabs(a->dots_bf16 - b->dots_bf16) < 1e-12);
	assert_true(fabs(a->products_f16 - b->products_f16) < 1e-12);
	assert_true(fabs(a->convert - b->convert) < 1e-12);
	assert_true(fabs(a->l3 - b->l3) < 1e-12);
	assert_true(fabs(a->weights - b->weights) < 1e-12);
	assert_true(fabs(a->tensors - b->tensors) < 1e-12);
	assert_true(fabs(a->weight_ps - b->weight_ps) < 1e-12);
}

/* Measures a machine whose dot products take `dot` times as long as multiply-adds, and whose memory
 * is `slower` than described. */
static void two_measurements(double dot, double slower)
{
	const struct ht_target *t = ht_target_named("znver5");
	const double products = t->rates->products;
	struct ht_rates first, again;

	for (int i = 0; i < 200; i++) {
		struct ht_measured m = { disturbed(dot), disturbed(dot / 4),
			disturbed(t->rates->convert * products),
			disturbed(t->rates->l3 / products / 0.7 / slower),
			disturbed(t->rates->cycle_ps / t->rates->weight_ps / products / 1.25 /
				  slower) };

		ht_measured_rates(t, &m, i ? &again : &first);
		if (i)
			assert_same(&first, &again);
	}
	assert_true(fabs(first.dots_bf16 - products / dot) < 1e-12);
	assert_true(fabs(first.convert - t->rates->convert) < 1e-12);
	assert_true(fabs(first.l3 - t->rates->l3 / slower) < 1e-12);
	assert_true(fabs(first.weight_ps - t->rates->weight_ps * slower) < 1e-12);
}

static void noise_changes_no_rate(void **state)
{
	(void)state;
	two_measurements(1, 1);
	two_measurements(4, 1);
	two_measurements(1, 4);
}

/* Parts that this machine lacks keep the description's rates. */
static void nothing_of_the_kind(void **state)
{
	const struct ht_target *t = ht_target_named("skylake-avx512");
	const struct ht_measured m = { .convert = 1, .copied = 10, .read = 5 };
	struct ht_rates r;

	(void)state;
	ht_measured_rates(t, &m, &r);
	assert_true(fabs(r.dots_bf16 - t->rates->dots_bf16) < 1e-12);
	assert_true(fabs(r.products_f16 - t->rates->products_f16) < 1e-12);
}

static double steps_between(double a, double b)
{
	return fabs(log2(a / b));
}

/* Even on a busy machine, the ratios of arithmetic differ by less than a step of the grid. */
static void this_machine(void **state)
{
	const struct ht_target *host = ht_target_host();
	struct ht_measured a = { 0 }, b = { 0 };

	(void)state;
	assert_true(ht_measure(host, &a));
	assert_true(ht_measure(host, &b));
	assert_true(a.copied > 0 && b.copied > 0 && a.read > 0 && b.read > 0);
	assert_int_equal(a.dot_bf16 > 0, b.dot_bf16 > 0);
	if (a.dot_bf16 > 0)
		assert_true(steps_between(a.dot_bf16, b.dot_bf16) < 1);
	if (a.convert > 0)
		assert_true(steps_between(a.convert, b.convert) < 1);
}

/* ---- as text ---- */

#define HEAD "halftone.rates/1\nlevel x86-64-v4+bf16\n"

static void refused(const char *text, const char *message)
{
	const struct ht_stated_rates *s;
	struct ht_diags d;
	UNIT_ARENA(a);

	ht_diags_init(&d);
	assert_int_equal(ht_stated_rates_parse(ht_str(text), "t.rates", &a, &d, &s), HT_E_INPUT);
	assert_str(d.first->text, message);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void damaged_files(void **state)
{
	(void)state;
	refused("", "rates begin with halftone.rates/1; the file is empty");
	refused("halftone.costs/1\n",
		"rates begin with halftone.rates/1, which was expected; found 'halftone.costs/1'");
	refused(HEAD "dots_bf16 1\n", "the line 'end' was expected: the file is cut off");
	refused("halftone.rates/1\nend\n",
		"a line 'level NAME' was expected: the level whose machines have these rates");
	refused(HEAD "dots_bf61 1\nend\n",
		"there is no rate 'dots_bf61'; did you mean 'dots_bf16'?");
	refused(HEAD "xyzzy 1\nend\n",
		"a rate of halftone targets --format json was expected; found 'xyzzy'");
	refused(HEAD "convert 1\nconvert 1\nend\n",
		"one line for each rate was expected; found 'convert'");
	refused(HEAD "convert 0\nend\n", "a number from 1e-6 to 1e9 was expected; found '0'");
	refused(HEAD "convert nan\nend\n", "a number from 1e-6 to 1e9 was expected; found 'nan'");
	refused(HEAD "convert -1\nend\n", "a number from 1e-6 to 1e9 was expected; found '-1'");
	refused(HEAD "convert\nend\n", "a number from 1e-6 to 1e9 was expected; found ''");
	refused(HEAD "end\nconvert 1\n",
		"nothing behind the line 'end' was expected; found 'convert 1'");
}

static const struct ht_target *with(
	const char *text, const char *target, struct ht_arena *a, struct ht_hash *digest)
{
	const struct ht_target *t = ht_target_named(target);
	const struct ht_stated_rates *s;

	assert_int_equal(ht_stated_rates_parse(ht_str(text), "t.rates", a, NULL, &s), HT_OK);
	assert_true(ht_stated_rates_fit(s, t));
	*digest = s->digest;
	return ht_stated_rates_target(s, t, a);
}

/* Dot products that take as long as two multiply-adds bring no gain, and are not used. */
static void slow_products(void **state)
{
	struct ht_hash digest, other;
	const struct ht_target *t;
	UNIT_ARENA(a);

	(void)state;
	t = with(HEAD "# of a Xeon\nmachine X\nmicrocode 0\ndots_bf16 0.25\nend\n", "znver4", &a,
		&digest);
	assert_int_equal(t->dot_bf16, 0);
	assert_int_equal(ht_target_multiplied(t, HT_BF16, false), HT_F32);
	t = with(HEAD "dots_bf16 1\nend\n", "znver4", &a, &other);
	assert_int_equal(t->dot_bf16, 2);
	assert_false(ht_hash_eq(digest, other));
	assert_false(ht_costs_are_known(t));
	assert_true(ht_costs_are_known(ht_target_named("znver4")));
	ht_arena_release(&a);
}

/* The digest does not contain the name of the measuring machine; printed rates are read back
 * unchanged. */
static void a_round_trip(void **state)
{
	const struct ht_target *t = ht_target_named("znver5"), *back;
	struct ht_rates r = *t->rates;
	struct ht_hash digest, other;
	struct ht_buf b, c;
	UNIT_ARENA(a);

	(void)state;
	r.dots_bf16 = 0.25;
	r.loads = 3;
	ht_buf_init(&b, &a);
	ht_buf_init(&c, &a);
	ht_stated_rates_print(&b, t, &r, "one", "0x1");
	ht_stated_rates_print(&c, t, &r, "another", "0x2");
	back = with(ht_buf_str(&b).p, "znver5", &a, &digest);
	with(ht_buf_str(&c).p, "znver5", &a, &other);
	assert_true(ht_hash_eq(digest, other));
	assert_true(fabs(back->rates->loads - 3) < 1e-12);
	assert_true(fabs(back->rates->dots_bf16 - 0.25) < 1e-12);
	assert_true(fabs(back->rates->l2 - t->rates->l2) < 1e-12);
	assert_int_equal(strncmp(back->rates->name, "znver5~", 7), 0);
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(noise_changes_no_rate),
		cmocka_unit_test(nothing_of_the_kind),
		cmocka_unit_test(this_machine),
		cmocka_unit_test(damaged_files),
		cmocka_unit_test(slow_products),
		cmocka_unit_test(a_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
