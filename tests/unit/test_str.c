/* Strings, buffers, numbers as text. */
#include "tests/unit/unit.h"

#include <float.h>
#include <locale.h>
#include <math.h>

static void comparisons(void **state)
{
	(void)state;
	struct ht_str nothing = { NULL, 0 };

	assert_true(ht_str_eq(nothing, HT_STR("")));
	assert_true(ht_str_eq(HT_STR("a\0b"), HT_STR("a\0b")));
	assert_false(ht_str_eq(HT_STR("a\0b"), HT_STR("a\0c")));
	assert_true(ht_str_is(HT_STR("abc"), "abc"));
	assert_false(ht_str_is(HT_STR("abc"), "ab"));
	assert_int_equal(ht_str_cmp(nothing, nothing), 0);
	assert_true(ht_str_cmp(HT_STR("ab"), HT_STR("abc")) < 0);
	assert_true(ht_str_cmp(HT_STR("b"), HT_STR("abc")) > 0);
	assert_true(ht_str_cmp(HT_STR("\xff"), HT_STR("a")) > 0);
	assert_true(ht_str_starts(HT_STR("model.json"), "model"));
	assert_false(ht_str_starts(HT_STR("mod"), "model"));
	assert_true(ht_str_ends(HT_STR("model.json"), ".json"));
	assert_false(ht_str_ends(HT_STR("json"), ".json"));
	assert_true(ht_str_ends(nothing, ""));
}

static void copies_end_with_nul(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_str s = ht_str_copy(&a, (struct ht_str){ "abcdef", 3 });
	assert_str(s, "abc");
	assert_int_equal(s.p[3], 0);
	s = ht_str_printf(&a, "%d-%s", 42, "x");
	assert_str(s, "42-x");
	assert_int_equal(s.p[4], 0);
	ht_arena_release(&a);
}

static void utf8_is_strict(void **state)
{
	static const char *const good[] = { "", "a", "\xc3\xa9", "\xe0\xa0\x80", "\xed\x9f\xbf",
		"\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbf" };
	/* Lone continuation, overlong, surrogate, above U+10FFFF, cut short. */
	static const char *const bad[] = { "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
		"\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
		"\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xe2\x28\xa1", "a\xc3(" };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(good); i++)
		assert_true(ht_utf8_valid(ht_str(good[i])));
	for (size_t i = 0; i < HT_COUNT(bad); i++)
		assert_false(ht_utf8_valid(ht_str(bad[i])));
}

static void near_names(void **state)
{
	const struct ht_str words[] = { HT_STR("MatMul"), HT_STR("BatchMatMul"), HT_STR("MaxPool"),
		HT_STR("Mul"), HT_STR("Mean"), HT_STR("MatMull"), HT_STR("a") };
	struct ht_str near[3];

	(void)state;
	assert_int_equal(ht_near_names(HT_STR("MatMulx"), words, HT_COUNT(words), near), 2);
	assert_str(near[0], "MatMul"); /* both are one edit away: the order of the list decides */
	assert_str(near[1], "MatMull");
	assert_int_equal(ht_near_names(HT_STR("MtaMul"), words, HT_COUNT(words), near), 2);
	assert_str(near[0], "MatMul"); /* a swap is one edit, a swap and another letter are two */
	assert_str(near[1], "MatMull");
	assert_int_equal(ht_near_names(HT_STR("Softmax"), words, HT_COUNT(words), near), 0);
	/* For a name of one letter, every short name would be near. */
	assert_int_equal(ht_near_names(HT_STR("z"), words, HT_COUNT(words), near), 0);
	struct ht_str same[] = { HT_STR("abcd"), HT_STR("abce"), HT_STR("abcf"), HT_STR("abcg") };
	assert_int_equal(ht_near_names(HT_STR("abcx"), same, 4, near), 3);
}

static void buffers_take_anything(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_buf b;
	ht_buf_init(&b, &a);
	assert_str(ht_buf_str(&b), "");
	for (int i = 0; i < 1000; i++)
		ht_printf(&b, "%04d,", i);
	struct ht_str s = ht_buf_str(&b);
	assert_int_equal(s.n, 5000);
	assert_memory_equal(s.p + 4990, "0998,0999,", 11);
	ht_buf_init(&b, &a);
	ht_puts(&b, "a");
	ht_put_str(&b, HT_STR("b"));
	ht_putc(&b, 'c');
	ht_put(&b, "d\0e", 3);
	assert_int_equal(ht_buf_str(&b).n, 6);
	assert_memory_equal(b.p, "abcd\0e", 7);
	ht_arena_release(&a);
}

static void json_strings(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_buf b;
	ht_buf_init(&b, &a);
	ht_put_json(&b, HT_STR("a\"b\\c\n\t\r\x01\x7f\xc3\xa9\xff/\0z"));
	assert_str(ht_buf_str(&b),
		"\"a\\\"b\\\\c\\n\\t\\u000d\\u0001\\u007f\xc3\xa9\\ufffd/\\u0000z\"");
	ht_arena_release(&a);
}

static struct ht_str print_double(struct ht_arena *a, double v)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_double(&b, v);
	return ht_buf_str(&b);
}

static void doubles_print_short_and_exact(void **state)
{
	static const double some[] = { 0.1, -2.5, 1e23, 5e-324, DBL_MAX, 1.0 / 3,
		123456789012345678., 0x1.fffffffffffffp-1022 };

	(void)state;
	UNIT_ARENA(a);
	assert_str(print_double(&a, 0.1), "0.1");
	assert_str(print_double(&a, -0.0), "-0");
	assert_str(print_double(&a, 1e23), "1e+23");
	assert_str(print_double(&a, HUGE_VAL), "inf");
	assert_str(print_double(&a, -HUGE_VAL), "-inf");
	assert_str(print_double(&a, (double)NAN), "nan");
	for (size_t i = 0; i < HT_COUNT(some); i++) {
		double back;

		assert_true(ht_parse_double(print_double(&a, some[i]), &back));
		assert_true(back == some[i]);
	}
	struct ht_buf b;
	ht_buf_init(&b, &a);
	ht_put_float(&b, 0.1f);
	ht_putc(&b, ' ');
	ht_put_fixed(&b, 2.0 / 3, 3);
	assert_str(ht_buf_str(&b), "0.1 0.667");
	ht_arena_release(&a);
}

static void numbers_ignore_the_locale(void **state)
{
	(void)state;
	/* Any locale with a decimal comma that this machine has. */
	if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
		skip();
	doubles_print_short_and_exact(state);
	setlocale(LC_NUMERIC, "C");
}

static void numbers_parse_whole_or_not_at_all(void **state)
{
	static const char *const bad[] = { "", " 1", "1 ", "1x", "--1", "1,5", "0x", "e5", ".", "n",
		"infinit", "1e", "nan(1)" };
	double v;
	int64_t n;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(bad); i++)
		assert_false(ht_parse_double(ht_str(bad[i]), &v));
	assert_false(ht_parse_double(HT_STR("1\0"), &v));
	assert_true(ht_parse_double(HT_STR("0x1.8p1"), &v) && v == 3);
	assert_true(ht_parse_double(HT_STR("-inf"), &v) && v == -HUGE_VAL);
	assert_true(ht_parse_double(HT_STR("1e999"), &v) && v == HUGE_VAL);
	assert_true(ht_parse_int(HT_STR("-9223372036854775808"), &n) && n == INT64_MIN);
	assert_true(ht_parse_int(HT_STR("+9223372036854775807"), &n) && n == INT64_MAX);
	assert_false(ht_parse_int(HT_STR("9223372036854775808"), &n));
	assert_false(ht_parse_int(HT_STR("99999999999999999999999"), &n));
	assert_false(ht_parse_int(HT_STR("-"), &n));
	assert_false(ht_parse_int(HT_STR(""), &n));
	assert_false(ht_parse_int(HT_STR("1.0"), &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comparisons),
		cmocka_unit_test(copies_end_with_nul),
		cmocka_unit_test(utf8_is_strict),
		cmocka_unit_test(near_names),
		cmocka_unit_test(buffers_take_anything),
		cmocka_unit_test(json_strings),
		cmocka_unit_test(doubles_print_short_and_exact),
		cmocka_unit_test(numbers_ignore_the_locale),
		cmocka_unit_test(numbers_parse_whole_or_not_at_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
