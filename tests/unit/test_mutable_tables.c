/* Mutable tables: random keys that are inserted and removed, against an array; the contents with which one begins, strings
 * included; descriptions that are refused; the limit of bytes. */
#include "base/strings.h"
#include "kernel/library.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 700, PARAMS = 6, MOST = 1 << 20 };

static const struct ht_object_kind *kind(void)
{
	assert_non_null(ht_library_object("mutable_table"));
	return ht_library_object("mutable_table");
}

static void *made(const int64_t *param, uint64_t most_bytes)
{
	struct ht_object_parts from = {
		.param = param, .params = PARAMS, .most_bytes = most_bytes
	};
	void *t = NULL;

	assert_int_equal(kind()->make(&from, &t), HT_FAULT_NONE);
	return t;
}

static int32_t call(const char *kernel, void *const *buffers, const int64_t *params, void *scratch)
{
	return ht_library_kernel(kernel)(buffers, params, 0, 1, scratch);
}

/* ---- numbers ---- */

static int64_t size_of(void *t)
{
	int64_t n = -1;
	void *buffers[] = { t, &n };

	assert_int_equal(
		call("mutable_size", buffers, (const int64_t[]){ HT_I32, HT_F64, 2 }, NULL),
		HT_FAULT_NONE);
	return n;
}

static void change(void *t, const char *kernel, int32_t key, double value)
{
	double row[2] = { value, -value };
	void *buffers[] = { t, &key, row };

	assert_int_equal(call(kernel, buffers, (const int64_t[]){ HT_I32, HT_F64, 2, 1, 0 }, NULL),
		HT_FAULT_NONE);
}

/* Key k has value[k], or none if that is 0. */
static void expect(void *t, const double *value)
{
	static int32_t keys[KEYS], listed[KEYS];
	static double found[KEYS][2], rows[KEYS][2];
	static int64_t scratch[KEYS];
	const double none[2] = { 0, 0 };
	int64_t n = 0, all;
	void *find[] = { t, keys, (void *)(uintptr_t)none, found },
	     *list[] = { t, listed, rows, &all };

	for (int32_t k = 0; k < KEYS; k++)
		keys[k] = k - KEYS / 2;
	assert_int_equal(call("mutable_find", find,
				 (const int64_t[]){ HT_I32, HT_F64, 2, KEYS, KEYS, 0 }, NULL),
		HT_FAULT_NONE);
	assert_int_equal(
		call("mutable_export", list, (const int64_t[]){ HT_I32, HT_F64, 2, KEYS }, scratch),
		HT_FAULT_NONE);
	for (int32_t k = 0; k < KEYS; k++) {
		assert_true(found[k][0] == value[k] && found[k][1] == -value[k]);
		if (value[k] == 0)
			continue;
		assert_int_equal(listed[n], keys[k]);
		assert_true(rows[n++][0] == value[k]);
	}
	assert_int_equal(all, n);
	assert_int_equal(size_of(t), n);
}

static void test_numbers(void **state)
{
	static double value[KEYS];
	void *t = made((const int64_t[PARAMS]){ HT_I32, HT_F64, 2 }, MOST);
	uint32_t seed = 1;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		int32_t k;
		bool inserts;

		seed = seed * 1664525 + 1013904223;
		k = (int32_t)(seed >> 8) % KEYS;
		inserts = seed >> 30 < (i < 2000 ? 3U : 1U);
		value[k] = inserts ? i + 1 : 0;
		change(t, inserts ? "mutable_insert" : "mutable_remove", k - KEYS / 2, i + 1);
		if (i % 97 == 0)
			expect(t, value);
	}
	kind()->release(t);
}

/* A table that would need more bytes than it may have keeps what it has. */
static void test_limit(void **state)
{
	void *t = made((const int64_t[PARAMS]){ HT_I32, HT_F64, 2 }, 2000);
	const double row[2] = { 1, 2 };
	int32_t key = 0, fault = HT_FAULT_NONE;
	void *buffers[] = { t, &key, (void *)(uintptr_t)row };

	(void)state;
	for (; !fault; key++)
		fault = call("mutable_insert", buffers,
			(const int64_t[]){ HT_I32, HT_F64, 2, 1, 0 }, NULL);
	assert_int_equal(fault, HT_FAULT_ROOM);
	assert_int_equal(size_of(t), key - 1);
	assert_in_range(key, 30, 70);
	key = 3;
	assert_int_equal(
		call("mutable_insert", buffers, (const int64_t[]){ HT_I32, HT_F64, 2, 1, 0 }, NULL),
		HT_FAULT_NONE);
	kind()->release(t);
}

/* ---- strings ---- */

static const uint64_t no_offset = 0;

static int64_t looked_up(void *t, struct ht_strings *s, struct ht_str text)
{
	int64_t key = ht_strings_number(s, text), none = -7, value = 0;
	void *buffers[] = { t, s, &key, &none, &value };

	assert_int_equal(call("mutable_find", buffers,
				 (const int64_t[]){ HT_STRING, HT_I64, 1, 1, 1, 0 }, NULL),
		HT_FAULT_NONE);
	return value;
}

/* Contents of strings, of which each run has other numbers; a reset gives them back. */
static void test_strings(void **state)
{
	static const uint64_t offset[] = { 0, 0, 3, 4 };
	static const int64_t number[] = { 5, 6, 8 };
	struct ht_object_parts from = { .param = (const int64_t[PARAMS]){ HT_STRING, HT_I64, 1 },
		.params = PARAMS,
		.most_bytes = MOST,
		.constant = { { offset, sizeof offset }, { "a\0bc", 4 },
			{ number, sizeof number } },
		.constants = 3 };
	struct ht_strings *s = ht_strings_new(&no_offset, 1, "");
	void *t = NULL;

	(void)state;
	assert_int_equal(kind()->make(&from, &t), HT_FAULT_NONE);
	for (int run = 0; run < 5000; run++) {
		char text[24];
		int64_t key, value = run;
		void *buffers[] = { t, s, &key, &value };
		int n = snprintf(text, sizeof text, "%d", run);

		ht_strings_forget(s);
		key = ht_strings_number(s, (struct ht_str){ text, (size_t)n });
		assert_int_equal(call("mutable_insert", buffers,
					 (const int64_t[]){ HT_STRING, HT_I64, 1, 1, 0 }, NULL),
			HT_FAULT_NONE);
		assert_int_equal(looked_up(t, s, (struct ht_str){ text, (size_t)n }), run);
		assert_int_equal(looked_up(t, s, HT_STR("a\0b")), 6);
		assert_int_equal(call("mutable_remove", buffers,
					 (const int64_t[]){ HT_STRING, HT_I64, 1, 1 }, NULL),
			HT_FAULT_NONE);
		assert_int_equal(looked_up(t, s, (struct ht_str){ text, (size_t)n }), -7);
		assert_int_equal(looked_up(t, s, HT_STR("")), 5);
		assert_int_equal(looked_up(t, s, HT_STR("c")), 8);
	}
	kind()->reset(t, &from);
	assert_int_equal(looked_up(t, s, HT_STR("a\0b")), 6);
	kind()->release(t);
	ht_strings_free(s);
}

enum { LONG = 6000 };

/* Gives key `key` a string of `n` letters. */
static int32_t give_letters(void *t, struct ht_strings *s, int64_t key, int letter, size_t n)
{
	static char text[LONG];
	int64_t value;
	void *buffers[] = { t, s, &key, &value };

	memset(text, letter, n);
	ht_strings_forget(s);
	value = ht_strings_number(s, (struct ht_str){ text, n });
	return call(
		"mutable_insert", buffers, (const int64_t[]){ HT_I64, HT_STRING, 1, 1, 0 }, NULL);
}

/* Strings that are gone make room for others, also where several keys have one string. */
static void test_strings_gone(void **state)
{
	void *t = made((const int64_t[PARAMS]){ HT_I64, HT_STRING, 1 }, 4 * LONG);
	struct ht_strings *s = ht_strings_new(&no_offset, 1, "");

	(void)state;
	for (int64_t key = 0; key < 20; key++)
		assert_int_equal(give_letters(t, s, key, 'a', 1), HT_FAULT_NONE);
	for (int letter = 'b'; letter <= 'z'; letter++)
		assert_int_equal(give_letters(t, s, 3, letter, LONG), HT_FAULT_NONE);
	kind()->release(t);
	ht_strings_free(s);
}

static void expect_letters(void *t, struct ht_strings *s, int64_t key, char letter)
{
	int64_t none = 0, value = 0;
	void *buffers[] = { t, s, &key, &none, &value };
	struct ht_str text;

	assert_int_equal(call("mutable_find", buffers,
				 (const int64_t[]){ HT_I64, HT_STRING, 1, 1, 1, 0 }, NULL),
		HT_FAULT_NONE);
	assert_true(ht_strings_text(s, value, &text));
	assert_int_equal(text.n, LONG);
	assert_int_equal(text.p[0], letter);
}

/* A table that grows as far as it may, after its strings were forgotten, has its first contents after a reset. */
static void reset_full(int last)
{
	static const int64_t keys[] = { 1, 2, 3 };
	static char texts[3 * LONG];
	const uint64_t offset[] = { 0, LONG, 2 * (uint64_t)LONG, sizeof texts };
	struct ht_object_parts from = { .param = (const int64_t[PARAMS]){ HT_I64, HT_STRING, 1 },
		.params = PARAMS,
		.most_bytes = 11 * (uint64_t)LONG,
		.constant = { { keys, sizeof keys }, { offset, sizeof offset },
			{ texts, sizeof texts } },
		.constants = 3 };
	struct ht_strings *s = ht_strings_new(&no_offset, 1, "");
	void *t = NULL;

	for (size_t i = 0; i < sizeof texts; i++)
		texts[i] = (char)('a' + i / LONG);
	assert_int_equal(kind()->make(&from, &t), HT_FAULT_NONE);
	for (int letter = 'd'; letter <= last; letter++)
		for (int64_t key = 1; key <= 3; key++)
			assert_int_equal(give_letters(t, s, key, letter, LONG), HT_FAULT_NONE);
	for (int64_t key = 1; !give_letters(t, s, key, last, LONG);)
		key++;
	kind()->reset(t, &from);
	for (int i = 0; i < 3; i++)
		expect_letters(t, s, keys[i], (char)('a' + i));
	kind()->release(t);
	ht_strings_free(s);
}

static void test_reset_of_full(void **state)
{
	(void)state;
	for (int last = 'd'; last <= 'p'; last++)
		reset_full(last);
}

/* ---- descriptions ---- */

static int32_t fault_of(struct ht_object_parts from)
{
	void *t = NULL;
	int32_t fault = kind()->make(&from, &t);

	if (!fault)
		kind()->release(t);
	return fault;
}

static void test_refused(void **state)
{
	static const int64_t eight[2] = { 0, 1 };
	static const uint64_t wrong[][3] = { { 0, 2, 1 }, { 1, 1, 1 }, { 0, 1, 2 } };
	static const int64_t param[][PARAMS] = { { HT_F32, HT_F32, 1 }, { HT_I64, HT_RESOURCE, 1 },
		{ HT_I64, HT_F32, 0 }, { HT_I64, HT_F32, 1, 3 }, { HT_STRING, HT_I64, 1, 1 },
		{ -1, HT_F32, 1 }, { HT_I64, 1000, 1 } };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(param); i++)
		assert_int_equal(
			fault_of((struct ht_object_parts){ .param = param[i], .params = PARAMS }),
			HT_FAULT_OBJECT);
	assert_int_equal(fault_of((struct ht_object_parts){ .param = param[0], .params = 5 }),
		HT_FAULT_OBJECT);
	for (size_t i = 0; i < HT_COUNT(wrong); i++)
		assert_int_equal(fault_of((struct ht_object_parts){
					 .param = (const int64_t[PARAMS]){ HT_STRING, HT_I64, 1 },
					 .params = PARAMS,
					 .most_bytes = MOST,
					 .constant = { { wrong[i], sizeof wrong[i] }, { "a", 1 },
						 { eight, sizeof eight } },
					 .constants = 3 }),
			HT_FAULT_OBJECT);
	/* Three keys of 4 bytes, and a value and a half. */
	assert_int_equal(fault_of((struct ht_object_parts){
				 .param = (const int64_t[PARAMS]){ HT_I32, HT_I64, 1 },
				 .params = PARAMS,
				 .most_bytes = MOST,
				 .constant = { { eight, 12 }, { eight, 12 } },
				 .constants = 2 }),
		HT_FAULT_OBJECT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_strings_gone),
		cmocka_unit_test(test_reset_of_full),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
