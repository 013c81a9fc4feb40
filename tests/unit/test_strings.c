/* The strings of a context: their numbers, the strings after a run, their object, and images with
 * strings. */
#include "base/strings.h"
#include "image/build.h"
#include "image/verify.h"
#include "kernel/library.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAM = 3 };
static const uint64_t offset[PROGRAM + 1] = { 0, 0, 1, 4 };
static const char bytes[] = "ab\0c";

static struct ht_strings *three(void)
{
	struct ht_strings *s = ht_strings_new(offset + 1, PROGRAM, bytes);

	assert_non_null(s);
	return s;
}

static void expect_text(const struct ht_strings *s, int64_t number, struct ht_str text)
{
	struct ht_str got;

	assert_true(ht_strings_text(s, number, &got));
	assert_true(ht_str_eq(got, text));
}

static void test_numbers(void **state)
{
	struct ht_strings *s = three();
	struct ht_str got;

	(void)state;
	assert_int_equal(ht_strings_number(s, HT_STR("")), 0);
	assert_int_equal(ht_strings_number(s, HT_STR("a")), 1);
	assert_int_equal(ht_strings_number(s, HT_STR("b\0c")), 2);
	assert_int_equal(ht_strings_number(s, HT_STR("b")), 3);
	assert_int_equal(ht_strings_number(s, HT_STR("b\0")), 4);
	assert_int_equal(ht_strings_number(s, HT_STR("b")), 3);
	expect_text(s, 2, HT_STR("b\0c"));
	expect_text(s, 4, HT_STR("b\0"));
	assert_false(ht_strings_text(s, 5, &got));
	assert_false(ht_strings_text(s, -1, &got));
	ht_strings_free(s);
}

/* The strings that a run added are forgotten, and no others, however often the table of slots
 * grew. */
static void test_forget(void **state)
{
	struct ht_strings *s = three();
	char text[32];
	struct ht_str got;

	(void)state;
	for (int run = 0; run < 3; run++) {
		for (int i = 0; i < 3000; i++) {
			int n = snprintf(text, sizeof text, "%d of %d", i, run);

			assert_int_equal(ht_strings_number(s, (struct ht_str){ text, (size_t)n }),
				PROGRAM + i);
		}
		expect_text(s, PROGRAM + 2999, ht_str(text));
		ht_strings_forget(s);
		assert_false(ht_strings_text(s, PROGRAM, &got));
		assert_int_equal(ht_strings_number(s, HT_STR("b\0c")), 2);
		assert_int_equal(ht_strings_number(s, HT_STR("a")), 1);
		ht_strings_forget(s);
	}
	ht_strings_free(s);
}

/* ---- the object ---- */

static int32_t make(const uint64_t *offsets, size_t n, uint64_t length, uint32_t params)
{
	const struct ht_object_parts from = { .param = (const int64_t[]){ 0 },
		.params = params,
		.constant = { { offsets, n * sizeof *offsets }, { bytes, length } },
		.constants = 2 };
	void *object = NULL;
	int32_t fault = ht_strings_kind.make(&from, &object);

	if (!fault)
		ht_strings_kind.release(object);
	return fault;
}

static void test_object(void **state)
{
	const struct ht_object_parts none = { .constants = 0 };
	void *object;

	(void)state;
	assert_ptr_equal(ht_library_object("strings"), &ht_strings_kind);
	assert_int_equal(make(offset, PROGRAM + 1, 4, 0), HT_FAULT_NONE);
	assert_int_equal(make((const uint64_t[]){ 0, 0 }, 2, 0, 0), HT_FAULT_NONE);
	assert_int_equal(make(offset, PROGRAM + 1, 5, 0), HT_FAULT_OBJECT);
	assert_int_equal(make(offset, PROGRAM, 4, 0), HT_FAULT_OBJECT);
	assert_int_equal(make(offset, PROGRAM + 1, 4, 1), HT_FAULT_OBJECT);
	assert_int_equal(make(offset, 1, 0, 0), HT_FAULT_OBJECT);
	assert_int_equal(make(offset, 0, 0, 0), HT_FAULT_OBJECT);
	assert_int_equal(make((const uint64_t[]){ 0, 1, 4 }, 3, 4, 0), HT_FAULT_OBJECT);
	assert_int_equal(make((const uint64_t[]){ 1, 1, 4 }, 3, 4, 0), HT_FAULT_OBJECT);
	assert_int_equal(make((const uint64_t[]){ 0, 0, 3, 2, 4 }, 5, 4, 0), HT_FAULT_OBJECT);
	assert_int_equal(make((const uint64_t[]){ 0, 0, UINT64_MAX, 4 }, 4, 4, 0), HT_FAULT_OBJECT);
	assert_int_equal(ht_strings_kind.make(&none, &object), HT_FAULT_OBJECT);
}

/* ---- images ---- */

struct described {
	enum ht_image_owner owner;
	const char *kind;
	uint32_t objects;
	uint64_t port_bytes;
};

/* An image whose only input is two strings, which it copies to its output. */
static const char *verified(struct described d)
{
	struct ht_arena arena;
	struct ht_image_builder b;
	const int64_t two = 2, sixteen = 16;
	const struct ht_image_port_text port = { .name = HT_STR("x"),
		.dtype = HT_STRING,
		.shape = { .rank = 1, .dim = &two },
		.bytes = d.port_bytes };
	uint32_t constant[2], arg[2], procedure;
	struct ht_str image;
	const char *wrong;

	ht_arena_init(&arena, NULL);
	ht_image_begin(&b, &arena);
	constant[0] = ht_image_put_constant(&b, sizeof offset);
	constant[1] = ht_image_put_constant(&b, 4);
	for (uint32_t i = 0; i < d.objects; i++)
		ht_image_put_object(
			&b, &(struct ht_image_object_text){ .name = ht_str(i ? "other" : "strings"),
				    .kind = d.kind,
				    .owner = d.owner,
				    .constant = constant,
				    .constants = 2 });
	ht_image_begin_procedure(&b, HT_STR("main"));
	for (int i = 0; i < 2; i++)
		arg[1 - i] = ht_image_put_buffer(
			&b, (struct ht_image_buffer){
				    .kind = HT_IMAGE_PARAM, .bytes = 16, .written = i == 1 });
	ht_image_put_step(
		&b, (struct ht_image_step){ .op = HT_IMAGE_COPY }, arg, 2, &sixteen, 1, NULL);
	procedure = ht_image_end_procedure(&b, 0);
	ht_image_put_entry(&b, HT_STR("main"), procedure, &port, 1, &port, 1);
	image = ht_image_end(&b);
	wrong = ht_image_verify(image);
	ht_arena_release(&arena);
	return wrong;
}

static void test_images(void **state)
{
	struct described d = { HT_IMAGE_OF_CONTEXT, "strings", 1, 16 };

	(void)state;
	assert_null(verified(d));
	d.port_bytes = 0;
	assert_string_equal(verified(d), "an input or output does not fit its procedure");
	d = (struct described){ HT_IMAGE_OF_CONTEXT, "strings", 0, 16 };
	assert_string_equal(verified(d), "an input or output does not fit its procedure");
	d = (struct described){ HT_IMAGE_OF_CONTEXT, "strings", 2, 16 };
	assert_string_equal(verified(d),
		"it does not have one object of strings where it says that it has strings");
	d = (struct described){ HT_IMAGE_OF_SESSION, "strings", 1, 16 };
	assert_string_equal(verified(d), "an object is not described");
	d = (struct described){ HT_IMAGE_OF_CONTEXT, "table", 1, 16 };
	assert_string_equal(verified(d), "an object is not described");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_object),
		cmocka_unit_test(test_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
