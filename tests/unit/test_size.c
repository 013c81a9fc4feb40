/* Numbers that depend on sizes, against their values for all small sizes.  HALFTONE_SEED is the first seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/size_math.h"
#include "tests/unit/unit.h"
#include "tests/unit/random.h"

enum { SIZES = 2, GRID = 25, ROUNDS = 4000 };

static const char *const names[SIZES] = { "n", "w_1" };

static void put_name(const void *all, int32_t size, struct ht_buf *out)
{
	ht_puts(out, ((const char *const *)all)[size]);
}

static int32_t number_of(const void *all, struct ht_str name)
{
	for (int32_t i = 0; i < SIZES; i++)
		if (ht_str_is(name, ((const char *const *)all)[i]))
			return i;
	return -1;
}

static struct ht_size_expr any_expr(void)
{
	struct ht_size_expr e = { .times = below(4),
		.factor = below(5),
		.add = chance(50) ? 0 : below(15),
		.divisor = chance(40) ? 1 : 1 + below(6) };
	int n = below(4);

	for (int i = 0; i < n; i++)
		e.size[i] = 1 + below(SIZES);
	return e;
}

/* The value by the definition of struct ht_size_expr. */
static int64_t value_of(const struct ht_size_expr *e, int64_t n, int64_t w)
{
	int64_t sum = e->factor, q;

	for (int i = 0; i < HT_SIZE_FACTORS && e->size[i]; i++)
		sum *= e->size[i] == 1 ? n : w;
	sum += e->add;
	for (q = sum / e->divisor; q * e->divisor > sum; q--)
		;
	return e->times * q;
}

static bool same_values(const struct ht_size_expr *a, const struct ht_size_expr *b)
{
	for (int64_t n = 0; n < GRID; n++)
		for (int64_t w = 0; w < GRID; w++)
			if (value_of(a, n, w) != value_of(b, n, w))
				return false;
	return true;
}

static const char *text_of(struct ht_arena *a, const struct ht_size_expr *e)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_size_print(e, put_name, names, &b);
	return ht_buf_str(&b).p;
}

static void begin(void)
{
	const char *seed = getenv("HALFTONE_SEED");

	state = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
}

static void values_are_as_described(void **unused)
{
	(void)unused;
	begin();
	for (int i = 0; i < ROUNDS; i++) {
		struct ht_size_expr e = any_expr();
		int64_t size[SIZES] = { below(GRID), below(GRID) }, v;

		e.add = below(40) - 20;
		assert_int_equal(ht_size_value(&e, size), value_of(&e, size[0], size[1]));
		assert_true(ht_size_checked(&e, size, &v));
		assert_int_equal(v, value_of(&e, size[0], size[1]));
		size[below(SIZES)] += below(5);
		assert_true(ht_size_value(&e, size) >= v); /* so bounds are the values of bounds */
	}
}

/* Few random pairs are equal, so half of the pairs are one expression written in two ways. */
static void equal_means_equal_values(void **unused)
{
	int equal = 0;

	(void)unused;
	begin();
	for (int i = 0; i < ROUNDS; i++) {
		struct ht_size_expr a = any_expr(), b = any_expr();
		int64_t k = 1 + below(4);

		if (chance(50)) {
			b = a;
			b.factor *= k;
			b.divisor *= k;
			b.add = b.add * k + below((int)k);
		} else if (chance(50)) {
			memcpy(b.size, a.size, sizeof b.size);
		}
		assert_int_equal(ht_size_equal(a, b), same_values(&a, &b));
		equal += ht_size_equal(a, b);
		b = ht_size_canonical(a);
		assert_true(same_values(&a, &b));
	}
	assert_in_range(equal, ROUNDS / 3, ROUNDS * 9 / 10);
}

static void check_product(struct ht_size_expr a, struct ht_size_expr b, struct ht_size_expr r)
{
	for (int64_t n = 0; n < GRID; n++)
		for (int64_t w = 0; w < GRID; w += 3)
			assert_int_equal(
				value_of(&r, n, w), value_of(&a, n, w) * value_of(&b, n, w));
}

static void arithmetic(void **unused)
{
	int products = 0;

	(void)unused;
	begin();
	for (int i = 0; i < ROUNDS; i++) {
		struct ht_size_expr a = any_expr(), b = any_expr(), r = ht_size_product(a, b), q;
		int64_t add = below(9), divisor = 1 + below(4);

		if (!ht_size_is_none(&r)) {
			check_product(a, b, r);
			q = ht_size_quotient(r, b);
			assert_true(ht_size_is_none(&q) || ht_size_equal(q, a));
			products += !ht_size_is_none(&q);
		}
		r = ht_size_floor(a, add, divisor);
		for (int64_t n = 0; n < GRID && !ht_size_is_none(&r); n++)
			assert_int_equal(value_of(&r, n, 3), (value_of(&a, n, 3) + add) / divisor);
	}
	assert_true(products > ROUNDS / 20);
}

/* A text is read back as the expression, and equal expressions have one text. */
static void texts_read_back(void **unused)
{
	UNIT_ARENA(a);

	(void)unused;
	begin();
	for (int i = 0; i < ROUNDS; i++) {
		struct ht_size_expr e = any_expr(), once, again;
		const char *text = text_of(&a, &e), *canonical;

		assert_int_equal(
			ht_size_parse(ht_str(text), number_of, names, &once), strlen(text));
		if (!ht_size_equal(once, e))
			fail_msg("%s", text);
		canonical = text_of(&a, &once);
		ht_size_parse(ht_str(canonical), number_of, names, &again);
		assert_memory_equal(&once, &again, sizeof once);
		assert_string_equal(text_of(&a, &again), canonical);
	}
	ht_arena_release(&a);
}

static void texts(void **unused)
{
	static const struct {
		const char *text, *printed;
	} cases[] = { { "7", "7" }, { "n", "n" }, { "3*n", "3 * n" },
		{ "n * 2 * w_1", "2 * n * w_1" }, { "w_1 * n", "n * w_1" },
		{ "(n+7)/8*8", "8 * ((n + 7) / 8)" }, { "2 * (n / 4)", "2 * (n / 4)" },
		{ "(2 * n + 4) / 2", "n + 2" }, { "(n - 3) / 2", "(n - 3) / 2" },
		{ "((n + 1) / 2 + 1) / 2", "(n + 3) / 4" }, { "3 * 5 + 1", "16" } };
	UNIT_ARENA(a);

	(void)unused;
	for (size_t i = 0; i < HT_COUNT(cases); i++) {
		struct ht_str text = ht_str(cases[i].text);
		struct ht_size_expr e;

		assert_int_equal(ht_size_parse(text, number_of, names, &e), text.n);
		assert_string_equal(text_of(&a, &e), cases[i].printed);
	}
	ht_arena_release(&a);
}

static void check_wrong(const char *text, size_t at)
{
	struct ht_size_expr e;

	assert_int_equal(ht_size_parse(ht_str(text), number_of, names, &e), at);
	assert_true(ht_size_is_none(&e));
}

static void wrong_texts_are_located(void **unused)
{
	(void)unused;
	check_wrong("", 0);
	check_wrong("3 * m", 4);
	check_wrong("(n + 1", 6);
	check_wrong("n / 0", 5);
	check_wrong("n / n", 4);
	check_wrong("n + w_1", 4);
	check_wrong("99999999999999999999", 0);
	check_wrong("(((((((((n)))))))))", 8);
	check_wrong("9223372036854775807 * n * 2", 27);
	check_wrong("n*n*n*n*n*n*n*n*n", 17);
}

static void what_does_not_fit_is_none(void **unused)
{
	const int64_t large[SIZES] = { INT32_MAX, INT32_MAX };
	struct ht_size_expr n = ht_size_multiple(1, 0), e = ht_size_product(n, n),
			    none = HT_SIZE_NONE;
	int64_t v;

	(void)unused;
	assert_true(ht_size_checked(&e, large, &v));
	e = ht_size_product(e, n);
	assert_false(ht_size_checked(&e, large, &v));
	assert_false(ht_size_checked(&none, large, &v));
	e = ht_size_floor(n, INT64_MAX, 1);
	e = ht_size_floor(e, 1, 1);
	assert_true(ht_size_is_none(&e));
	e = ht_size_product(ht_size_multiple(INT64_MAX, 0), ht_size_number(2));
	assert_true(ht_size_is_none(&e));
	e = ht_size_quotient(ht_size_number(6), ht_size_number(4));
	assert_true(ht_size_is_none(&e));
	e = ht_size_quotient(n, ht_size_multiple(1, 1));
	assert_true(ht_size_is_none(&e));
	e = ht_size_product(n, none);
	assert_true(ht_size_is_none(&e));
	assert_true(ht_size_equal(none, HT_SIZE_NONE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_as_described),
		cmocka_unit_test(equal_means_equal_values),
		cmocka_unit_test(arithmetic),
		cmocka_unit_test(texts_read_back),
		cmocka_unit_test(texts),
		cmocka_unit_test(wrong_texts_are_located),
		cmocka_unit_test(what_does_not_fit_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
