/* The message of a step that stops a run, in TensorFlow's form for tensors; and the messages that
 * an artefact may have. */
#include "base/words.h"
#include "image/build.h"
#include "image/verify.h"
#include "tests/unit/unit.h"

#include <math.h>

static struct ht_str say(
	struct ht_arena *a, enum ht_dtype t, uint64_t most, struct ht_shape shape, const void *p)
{
	const struct ht_words w[] = { { .text = "[",
					      .arg = 2,
					      .dtype = t,
					      .most = most,
					      .rank = (size_t)shape.rank,
					      .dim = (int64_t *)(uintptr_t)shape.dim },
		{ .text = "]" } };
	void *const args[] = { NULL, (void *)(uintptr_t)p };
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_words_put(&b, w, 2, args);
	return ht_buf_str(&b);
}

/* The dimensions follow the first number. */
#define SAYS(want, t, most, p, ...)                                                                \
	do {                                                                                       \
		const int64_t dims[] = { __VA_ARGS__ };                                            \
		struct ht_str s = say(                                                             \
			&a, t, most, ht_shape_make(&a, (int32_t)HT_COUNT(dims) - 1, dims + 1), p); \
		char got[200];                                                                     \
		snprintf(got, sizeof got, "%.*s", HT_STR_ARG(s));                                  \
		assert_string_equal(got, want);                                                    \
	} while (0)

static void test_elements(void **state)
{
	const int32_t i[] = { 1, -2, 3, 4, 5, 6, 7, 8 };
	const float f[] = { 0, 1.0F / 3, 16777216.0F, 1e-10F, -INFINITY, NAN };
	const double d[] = { 0.1, 1.0 / 3 };
	const uint16_t h[] = { 0x3c00, 0x3f80 };
	const uint8_t u[] = { 200, 1 };
	struct ht_unwind unwind;
	struct ht_arena a;

	(void)state;
	ht_arena_init(&a, &unwind);
	SAYS("[1 -2 3...]", HT_I32, 3, i, 0, 8);
	SAYS("[1]", HT_I32, 3, i, 0);
	SAYS("[...]", HT_I32, 0, i, 0, 8);
	SAYS("[[1 -2][3 4][5 6][7 8]]", HT_I32, UINT64_MAX, i, 0, 4, 2);
	SAYS("[[1 -2][3...]...]", HT_I32, 3, i, 0, 4, 2);
	SAYS("[[1 -2]...]", HT_I32, 2, i, 0, 4, 2);
	SAYS("[[[1 -2][3 4]][[5 6][7 8]]]", HT_I32, 8, i, 0, 2, 2, 2);
	SAYS("[0 0.333333343 16777216 1e-10 -inf nan]", HT_F32, 9, f, 0, 6);
	SAYS("[0.1 0.33333333333333331]", HT_F64, 9, d, 0, 2);
	SAYS("[1 1.875]", HT_F16, 9, h, 0, 2);
	SAYS("[200 1]", HT_U8, 9, u, 0, 2);
	SAYS("[-56 1]", HT_I8, 9, u, 0, 2);
	ht_arena_release(&a);
}

/* Reads an image of one step, which has one argument of 16 bytes. */
static const char *read_back(struct ht_arena *a, struct ht_words w, const struct ht_image **got)
{
	const struct ht_image_touch touch = { 16, 1, 0 };
	const struct ht_image_note_text note = { HT_STR("n"), HT_STR(""), &w, 1 };
	struct ht_image_builder b;
	struct ht_str image;
	uint32_t arg;

	ht_image_begin(&b, a);
	ht_image_put_kernel(&b, "assert", &touch, 1, 0, 0);
	ht_image_begin_procedure(&b, HT_STR("main"));
	arg = ht_image_put_buffer(
		&b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP, .bytes = 16 });
	ht_image_put_step(&b, (struct ht_image_step){ .op = HT_IMAGE_KERNEL, .count = 1 }, &arg, 1,
		NULL, 0, &note);
	ht_image_put_entry(&b, HT_STR("main"), ht_image_end_procedure(&b, 64), NULL, 0, NULL, 0);
	image = ht_image_end(&b);
	*got = (const void *)image.p;
	return ht_image_verify(image);
}

static void test_images(void **state)
{
	int64_t four[] = { 2, 2 }, five[] = { 5 }, none[] = { 4, 0 },
		many[] = { INT64_MAX, INT64_MAX };
	const struct ht_words good = { "x = ", 1, HT_F32, 3, 2, four };
	const struct ht_image *got;
	struct ht_words read;
	struct ht_unwind unwind;
	struct ht_words w[] = { good, good, good, good, good, good, good };
	struct ht_arena a;

	(void)state;
	ht_arena_init(&a, &unwind);
	assert_null(read_back(&a, good, &got));
	read = ht_image_words_at(got, 0);
	assert_string_equal(read.text, "x = ");
	assert_int_equal(read.dim[1], 2);
	w[0].arg = 2;
	w[1].dtype = HT_F64;
	w[2].dtype = HT_STRING;
	w[3].dtype = 100000;
	w[4].rank = 1;
	w[4].dim = five;
	w[5].dim = none;
	w[6].dim = many;
	for (size_t i = 0; i < HT_COUNT(w); i++)
		assert_string_equal(read_back(&a, w[i], &got),
			"a step's message is about elements that are not there");
	w[3].arg = 0; /* no elements, so their description does not matter */
	assert_null(read_back(&a, w[3], &got));
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements),
		cmocka_unit_test(test_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
