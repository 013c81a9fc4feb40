/* Artefacts in memory: they are read as they were written; every fault is refused; code is never
 * writable and executable; the matching variant is selected. */
#include "base/philox.h"
#include "image/build.h"
#include "runtime/artefact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTS = 10000, SMALL = 3000, LARGE = (2 << 20) + 5 };

static struct ht_unwind unwind;
static uint8_t code[] = { 0x31, 0xc0, 0xc3 }; /* xor eax, eax; ret */

struct made {
	struct ht_arena arena;
	uint8_t *bytes; /* at a multiple of 64 */
	size_t n;
};

static struct ht_str text(struct ht_arena *a, size_t n, int seed)
{
	char *p = ht_alloc(a, n);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 31 + (i >> 8) + (size_t)seed);
	return (struct ht_str){ p, n };
}

/* An image with one step, a constant, an input and an output. */
static struct ht_str image_of(struct ht_arena *a, int64_t *batch, uint64_t weight_bytes)
{
	const uint64_t bytes = 4 * (uint64_t)*batch;
	const struct ht_image_port_text port = { .name = HT_STR("x"),
		.dtype = HT_F32,
		.shape = { .rank = 1, .dim = batch },
		.bytes = bytes };
	const struct ht_image_touch touch[] = { { weight_bytes, 0, 0 }, { bytes, 0, 0 },
		{ bytes, 1, 0 } };
	const struct ht_image_note_text note = { .node = HT_STR("n") };
	struct ht_image_builder b;
	uint32_t arg[3];

	ht_image_begin(&b, a);
	ht_image_put_kernel(&b, "", touch, 3, 0, 0);
	ht_image_put_constant(&b, weight_bytes);
	ht_image_begin_procedure(&b, HT_STR("main"));
	arg[1] = ht_image_put_buffer(
		&b, (struct ht_image_buffer){ .kind = HT_IMAGE_PARAM, .bytes = bytes });
	arg[2] = ht_image_put_buffer(&b,
		(struct ht_image_buffer){ .kind = HT_IMAGE_PARAM, .bytes = bytes, .written = 1 });
	arg[0] = ht_image_put_buffer(
		&b, (struct ht_image_buffer){ .kind = HT_IMAGE_CONST, .bytes = weight_bytes });
	ht_image_put_step(&b, (struct ht_image_step){ .op = HT_IMAGE_KERNEL, .count = 1 }, arg, 3,
		NULL, 0, &note);
	ht_image_put_entry(&b, HT_STR("main"), ht_image_end_procedure(&b, 0), &port, 1, &port, 1);
	return ht_image_end(&b);
}

static void add_variant(struct ht_artefact_parts *parts, struct ht_buf *plans, const char *target,
	int64_t *batch, const struct ht_plan_weight *weight)
{
	struct ht_plan_code kernel = { 0, sizeof code, 0, { 0 } };
	int64_t first = 0;
	struct ht_program_plan plan = { .target = target,
		.policy = "p",
		.provenance = "",
		.parts = 1,
		.weights = 1,
		.constants = 1,
		.kernels = 1,
		.weight = (struct ht_plan_weight *)(uintptr_t)weight,
		.constant = &first,
		.kernel = &kernel,
		.image = image_of(plans->arena, batch, weight->bytes) };
	struct ht_index_variant *v = &parts->index.variant[parts->index.variants++];

	ht_sha256(code, sizeof code, kernel.digest);
	v->target = target;
	v->policy = "p";
	v->entry = "";
	v->inputs = 1;
	v->input = HT_NEW(plans->arena, struct ht_index_input);
	*v->input = (struct ht_index_input){ .name = "x", .alias = "", .rank = 1, .dim = batch };
	v->plan_offset = plans->n;
	ht_plan_write(&plan, plans);
	v->plan_bytes = plans->n - v->plan_offset;
	ht_sha256(plans->p + v->plan_offset, v->plan_bytes, v->digest);
}

/* Four variants: two targets, two shapes; two of them share a weight. */
static struct made make(size_t second)
{
	static int64_t batch[] = { 1, 8 };
	struct made m;
	struct ht_artefact_parts parts = { .code = { (char *)code, sizeof code }, .weights = 2 };
	struct ht_plan_weight weight[] = { { 0, SMALL }, { 1, second } };
	struct ht_artefact_bytes b;
	struct ht_buf plans;
	size_t at = 0;

	ht_arena_init(&m.arena, &unwind);
	ht_buf_init(&plans, &m.arena);
	parts.manifest = ht_str("{}");
	parts.index.variant = HT_NEW_ARRAY(&m.arena, struct ht_index_variant, 4);
	for (int i = 0; i < 4; i++)
		add_variant(
			&parts, &plans, i % 2 ? "better" : "plain", &batch[i / 2], &weight[i % 2]);
	parts.plans = ht_buf_str(&plans);
	parts.weight = HT_NEW_ARRAY(&m.arena, struct ht_str, 2);
	parts.weight[0] = text(&m.arena, SMALL, 1);
	parts.weight[1] = text(&m.arena, second, 2);
	b = ht_artefact_make(&parts, &m.arena);
	m.n = b.artefact.bytes;
	m.bytes = aligned_alloc(64, (m.n + 63) / 64 * 64);
	for (size_t i = 0; i < b.artefact.n; at += b.artefact.piece[i++].n)
		memcpy(m.bytes + at, b.artefact.piece[i].p, b.artefact.piece[i].n);
	assert_int_equal(at, m.n);
	return m;
}

static void release(struct made *m)
{
	free(m->bytes);
	ht_arena_release(&m->arena);
}

/* Whether each variant and each of its weights can be loaded. */
static bool loads(const uint8_t *bytes, size_t n)
{
	struct ht_arena a;
	bool good = true;
	size_t variants = 1;

	ht_arena_init(&a, &unwind);
	for (size_t i = 0; good && i < variants; i++) {
		struct ht_program_plan plan;
		struct ht_artefact x;

		good = ht_artefact_open_bytes((struct ht_str){ (const char *)bytes, n }, "x", NULL,
			       &a, NULL, &x) == HT_OK;
		if (!good)
			break;
		variants = x.index.variants;
		good = ht_artefact_load(&x, i, &a, NULL, &plan) == HT_OK;
		for (size_t k = 0; good && k < plan.weights; k++)
			good = ht_artefact_check_weight(&x, plan.weight[k].number, 0, 1);
		ht_artefact_close(&x);
	}
	ht_arena_release(&a);
	return good;
}

static uint64_t next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void test_faults(void **state)
{
	struct made m = make(5000);
	uint64_t seed = 20261;

	(void)state;
	assert_true(loads(m.bytes, m.n));
	for (int i = 0; i < FAULTS; i++) {
		size_t bit = next(&seed) % (m.n * 8);

		m.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(loads(m.bytes, m.n));
		m.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (int i = 0; i < FAULTS / 10; i++) {
		size_t n = next(&seed) % m.n;
		uint8_t *cut = aligned_alloc(64, (n + 64) / 64 * 64);

		memcpy(cut, m.bytes, n);
		assert_false(loads(cut, n));
		free(cut);
	}
	assert_true(loads(m.bytes, m.n));
	release(&m);
}

/* Each chunk is checked once, by the thread that reads it. */
static void test_chunks(void **state)
{
	struct made m = make(LARGE);
	struct ht_program_plan plan;
	struct ht_artefact x;

	(void)state;
	assert_int_equal(ht_artefact_open_bytes((struct ht_str){ (char *)m.bytes, m.n }, "x", NULL,
				 &m.arena, NULL, &x),
		HT_OK);
	assert_int_equal(ht_artefact_load(&x, 1, &m.arena, NULL, &plan), HT_OK);
	assert_int_equal(x.index.weight[1].chunks, 3);
	m.bytes[m.n - 1] ^= 1;
	assert_true(ht_artefact_check_weight(&x, 1, 0, 3));
	assert_true(ht_artefact_check_weight(&x, 1, 1, 3));
	assert_false(ht_artefact_check_weight(&x, 1, 2, 3));
	assert_false(ht_artefact_check_weight(&x, 1, 0, 1));
	m.bytes[m.n - 1] ^= 1;
	assert_true(ht_artefact_check_weight(&x, 1, 0, 1));
	m.bytes[m.n - 1] ^= 1;
	assert_true(ht_artefact_check_weight(&x, 1, 0, 1));
	ht_artefact_close(&x);
	release(&m);
}

/* Finds the line of /proc/self/maps that contains an address. */
static void permissions(const void *at, char mode[5])
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long begin, end;
	char line[512], m[5];

	mode[0] = 0;
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx %4s", &begin, &end, m) != 3)
			continue;
		assert_false(m[1] == 'w' && m[2] == 'x');
		if ((unsigned long)at >= begin && (unsigned long)at < end)
			memcpy(mode, m, 5);
	}
	fclose(f);
}

static void test_code_is_never_writable_and_executable(void **state)
{
	struct made m = make(100);
	struct ht_program_plan plan;
	struct ht_artefact x;
	int (*run)(void);
	char mode[5];

	(void)state;
	assert_int_equal(ht_artefact_open_bytes((struct ht_str){ (char *)m.bytes, m.n }, "x", NULL,
				 &m.arena, NULL, &x),
		HT_OK);
	assert_int_equal(ht_artefact_load(&x, 0, &m.arena, NULL, &plan), HT_OK);
	permissions(x.kernel[0], mode);
	assert_string_equal(mode, "r-xp");
	memcpy(&run, &x.kernel[0], sizeof run);
	assert_int_equal(run(), 0);
	ht_artefact_close(&x);
	release(&m);
}

static void write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* The second view is of the file that was opened, not of the file that now has its name, and stays
 * when the first view is closed. */
static void test_open_again(void **state)
{
	struct made m = make(LARGE);
	char path[] = "/tmp/halftone-artefact.XXXXXX";
	struct ht_artefact first, x;
	struct ht_program_plan plan;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	write_file(path, m.bytes, m.n);
	assert_int_equal(ht_artefact_open(path, NULL, &m.arena, NULL, &first), HT_OK);
	assert_int_equal(unlink(path), 0);
	write_file(path, "else", 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(ht_artefact_open_again(&first, &m.arena, NULL, &x), HT_OK);
		if (i == 3)
			ht_artefact_close(&first);
		assert_int_equal(ht_artefact_load(&x, i, &m.arena, NULL, &plan), HT_OK);
		assert_string_equal(plan.target, i % 2 ? "better" : "plain");
		assert_true(ht_artefact_check_weight(&x, plan.weight[0].number, 0, 1));
		ht_artefact_close(&x);
	}
	unlink(path);
	release(&m);
}

/* ---- selection of variants ---- */

static int both(const char *target)
{
	return !strcmp(target, "better");
}

static int plain_only(const char *target)
{
	return strcmp(target, "plain") ? -1 : 0;
}

static int none(const char *target)
{
	(void)target;
	return -1;
}

static void test_choice(void **state)
{
	struct made m = make(100);
	int64_t eight = 8, nine = 9, any = -1;
	struct ht_index_input in8 = { "x", "", 1, 0, &eight, NULL },
			      in9 = { "x", "", 1, 0, &nine, NULL },
			      in = { "x", "", 1, 0, &any, NULL },
			      other = { "z", "", 1, 0, &nine, NULL };
	const struct {
		struct ht_variant_wanted wanted;
		enum ht_status status;
		size_t variant;
	} cases[] = {
		{ { NULL, NULL, NULL, NULL, 0, 0, both }, HT_OK, 1 },
		{ { NULL, "p", NULL, NULL, 0, 0, plain_only }, HT_OK, 0 },
		{ { NULL, NULL, NULL, NULL, 0, 0, none }, HT_E_UNSUPPORTED, 0 },
		{ { NULL, NULL, "plain", NULL, 0, 8, both }, HT_OK, 2 },
		{ { NULL, NULL, NULL, &in8, 1, 0, both }, HT_OK, 3 },
		{ { NULL, NULL, NULL, &in, 1, 0, both }, HT_OK, 1 },
		{ { NULL, NULL, NULL, &other, 1, 0, both }, HT_OK, 1 },
		{ { NULL, NULL, NULL, &in9, 1, 0, both }, HT_E_INPUT, 0 },
		{ { NULL, NULL, NULL, &in8, 1, 1, both }, HT_E_INPUT, 0 },
		{ { NULL, "q", NULL, NULL, 0, 0, both }, HT_E_USAGE, 0 },
		{ { NULL, NULL, "best", NULL, 0, 0, both }, HT_E_USAGE, 0 },
	};
	struct ht_artefact x;

	(void)state;
	assert_int_equal(ht_artefact_open_bytes((struct ht_str){ (char *)m.bytes, m.n }, "x", NULL,
				 &m.arena, NULL, &x),
		HT_OK);
	for (size_t i = 0; i < HT_COUNT(cases); i++) {
		size_t variant = 0;

		assert_int_equal(ht_artefact_choose(&x, &cases[i].wanted, &m.arena, NULL, &variant),
			cases[i].status);
		assert_int_equal(variant, cases[i].variant);
	}
	ht_artefact_close(&x);
	release(&m);
}

/* Reads an image with a stream; `wrong`: which part of it is wrong, or 0. */
static const char *read_streams(int wrong, struct ht_arena *a, struct ht_program_plan *out)
{
	const struct ht_image_stream stream = { 1, UINT64_MAX, 3 };
	struct ht_program_plan plan = {
		.target = "t", .policy = "p", .provenance = "", .parts = 1
	};
	struct ht_image_builder images;
	struct ht_buf b;

	ht_image_begin(&images, a);
	ht_image_put_stream(&images, &stream);
	ht_image_begin_procedure(&images, HT_STR("main"));
	ht_image_put_buffer(&images, (struct ht_image_buffer){ .kind = HT_IMAGE_STREAM,
					     .number = wrong == 1,
					     .bytes = sizeof(struct ht_philox) + (wrong == 2) });
	ht_image_put_entry(
		&images, HT_STR("main"), ht_image_end_procedure(&images, 0), NULL, 0, NULL, 0);
	plan.image = ht_image_end(&images);
	if (wrong == 3)
		((struct ht_image *)(uintptr_t)plan.image.p)->features = 0;
	ht_buf_init(&b, a);
	ht_plan_write(&plan, &b);
	if (wrong == 4)
		b.n--;
	return ht_plan_read(ht_buf_str(&b), a, out);
}

static void test_streams(void **state)
{
	const struct ht_image_stream *s;
	struct ht_unwind own;
	struct ht_arena arena;
	struct ht_program_plan plan;

	(void)state;
	ht_arena_init(&arena, &own);
	assert_null(read_streams(0, &arena, &plan));
	assert_int_equal(ht_image_count(ht_plan_image(&plan), HT_IMAGE_RANDOM), 1);
	s = ht_image_random(ht_plan_image(&plan));
	assert_true(s->seed == 1 && s->seed2 == UINT64_MAX);
	assert_true(s->name == 3);
	for (int wrong = 1; wrong <= 4; wrong++)
		assert_non_null(read_streams(wrong, &arena, &plan));
	ht_arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_code_is_never_writable_and_executable),
		cmocka_unit_test(test_open_again),
		cmocka_unit_test(test_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
