/* The message of a step that stops a run, in TensorFlow's form for tensors; and the messages that
 * an artefact may have. */
#include "base/words_print.h"
#include "image/build.h"
#include "image/stop.h"
#include "image/verify.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 200 };

/* The text of elements in brackets. */
static const char *say(
	char *to, enum ht_dtype t, uint64_t most, const int64_t *dim, size_t rank, const void *p)
{
	const struct ht_words w[] = { { .text = "[",
					      .arg = 2,
					      .dtype = t,
					      .most = most,
					      .rank = rank,
					      .dim = (int64_t *)(uintptr_t)dim },
		{ .text = "]" } };
	void *const args[] = { NULL, (void *)(uintptr_t)p };
	struct ht_line m = { to, ROOM, 0 };

	ht_words_print(&m, &w[0], args);
	ht_words_print(&m, &w[1], args);
	ht_line_end(&m);
	return to;
}

/* The dimensions follow the first number. */
#define SAYS(want, t, most, p, ...)                                                                \
	do {                                                                                       \
		const int64_t dims[] = { __VA_ARGS__ };                                            \
		char got[ROOM];                                                                    \
		assert_string_equal(say(got, t, most, dims + 1, HT_COUNT(dims) - 1, p), want);     \
	} while (0)

static void test_elements(void **state)
{
	const int32_t i[] = { 1, -2, 3, 4, 5, 6, 7, 8 };
	const float f[] = { 0, 1.0F / 3, 16777216.0F, 1e-10F, -INFINITY, NAN };
	const double d[] = { 0.1, 1.0 / 3 };
	const uint16_t h[] = { 0x3c00, 0x3f80 };
	const uint8_t u[] = { 200, 1 };

	(void)state;
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
}

/* The text of x that C's functions give. */
static void expect(char *to, double x, bool single)
{
	snprintf(to, ROOM, "%.*g", single ? 6 : 15, x);
	if (single ? strtof(to, NULL) != (float)x : strtod(to, NULL) != x)
		snprintf(to, ROOM, "%.*g", single ? 9 : 17, x);
	if (x != x)
		strcpy(to, "nan");
}

static double random_number(uint64_t *seed, bool single)
{
	uint64_t bits = ht_random(seed), kind = ht_random(seed) % 6;
	uint32_t low = (uint32_t)bits;
	double x;
	float f;

	if (kind == 0) /* few digits */
		return (double)(int64_t)(bits >> 40) * (single ? (double)1e-5F : 1e-5);
	if (kind == 1) /* a power of two, or next to one */
		bits = (bits & ~((UINT64_C(1) << 52) - 1)) + bits % 3 - 1;
	if (kind == 2) /* a small one */
		bits = bits >> 12 >> bits % 52;
	memcpy(&x, &bits, sizeof x);
	if (kind == 3)
		low &= 0xff800003;
	if (kind == 4)
		low = low >> 9 >> low % 23;
	memcpy(&f, &low, sizeof f);
	return single ? (double)f : x;
}

static void test_floats(void **state)
{
	const double edges[] = { 0, -0.0, 1e15, 1e16, 123456.5, 999999.5, 1e-4, 1e-5, 9.5, 0.5, 1,
		10, 1e5, 1e6, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e22, 1e23,
		-1.5 };
	uint64_t seed = day_of_turn();

	(void)state;
	for (size_t i = 0; i < HT_COUNT(edges) + 20000; i++) {
		const bool single = i & 1;
		double x = i / 2 < HT_COUNT(edges) ? edges[i / 2] : random_number(&seed, single);
		char want[ROOM], got[ROOM];
		struct ht_line m = { got, ROOM, 0 };

		if (single)
			x = (double)(float)x;
		expect(want, x, single);
		ht_line_float(&m, x, single);
		ht_line_end(&m);
		assert_string_equal(got, want);
	}
}

/* A text that does not fit ends with dots, and its memory is not left. */
static void test_room(void **state)
{
	(void)state;
	for (size_t room = 0; room <= 8; room++) {
		char to[] = "********";
		const char *const want[] = { "", "", "1", "12", "123", "1...", "12...", "123456",
			"123456" };
		struct ht_line m = { to, room, 0 };

		ht_line_int(&m, 123456);
		ht_line_end(&m);
		assert_int_equal(m.n, 6);
		if (room)
			assert_string_equal(to, want[room]);
		for (size_t i = room; i < 8; i++)
			assert_int_equal(to[i], '*');
	}
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
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
