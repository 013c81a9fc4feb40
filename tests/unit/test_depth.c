/* The limit of recursive calls, as an option of a context: a program whose image is built by hand. */
#include "api/api.h"
#include "image/build.h"
#include "image/verify.h"
#include "kernel/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* out = is a > 0? */
static int32_t positive(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	*(uint8_t *)b[1] = *(const int32_t *)b[0] > 0;
	return 0;
}

/* out = a - 1 */
static int32_t less(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	*(int32_t *)b[1] = *(const int32_t *)b[0] - 1;
	return 0;
}

enum { POSITIVE, LESS, KERNELS };

static void put(struct ht_image_builder *b, const char *node, enum ht_image_op op, uint32_t to,
	uint32_t first, uint32_t second)
{
	const struct ht_image_note_text note = { .node = ht_str(node) };

	ht_image_put_step(b,
		(struct ht_image_step){ .op = op, .to = to, .count = op == HT_IMAGE_KERNEL },
		(uint32_t[]){ first, second }, 2, NULL, 0, &note);
}

/* f(x, y): if (x > 0) f(x - 1, y) else y = x.  The call is step "again". */
static uint32_t put_procedure(struct ht_image_builder *b)
{
	const struct ht_image_note_text note = { .node = HT_STR("branch") };
	const int64_t bytes = 4;
	uint32_t in, out, next, flag, otherwise, leave;

	ht_image_begin_procedure(b, HT_STR("f"));
	in = ht_image_put_buffer(b, (struct ht_image_buffer){ .kind = HT_IMAGE_PARAM, .bytes = 4 });
	out = ht_image_put_buffer(
		b, (struct ht_image_buffer){ .kind = HT_IMAGE_PARAM, .bytes = 4, .written = 1 });
	next = ht_image_put_buffer(
		b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP, .bytes = 4 });
	flag = ht_image_put_buffer(
		b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP, .offset = 64, .bytes = 1 });
	put(b, "positive", HT_IMAGE_KERNEL, POSITIVE, in, flag);
	otherwise =
		ht_image_put_step(b, (struct ht_image_step){ .op = HT_IMAGE_UNLESS, .count = 1 },
			&flag, 1, NULL, 0, &note);
	put(b, "less", HT_IMAGE_KERNEL, LESS, in, next);
	put(b, "again", HT_IMAGE_CALL, 0, next, out);
	leave = ht_image_put_step(
		b, (struct ht_image_step){ .op = HT_IMAGE_JUMP }, NULL, 0, NULL, 0, &note);
	ht_image_land(b, otherwise);
	ht_image_put_step(b, (struct ht_image_step){ .op = HT_IMAGE_COPY }, (uint32_t[]){ out, in },
		2, &bytes, 1, &note);
	ht_image_land(b, leave);
	return ht_image_end_procedure(b, 128);
}

static struct ht_arena arena;
static struct ht_program program;
static struct ht_diags *diags;

static int set_up(void **state)
{
	static int64_t kernel[KERNELS];
	static struct ht_value_info x = { .name = "x", .dtype = HT_I32, .bytes = 4 },
				    y = { .name = "y", .dtype = HT_I32, .bytes = 4 };
	const struct ht_image_touch one = { 4, 0, 0 }, written = { 4, 1, 0 }, flag = { 1, 1, 0 };
	const struct ht_image_port_text port = {
		.name = HT_STR("x"), .dtype = HT_I32, .shape = HT_SHAPE_SCALAR, .bytes = 4
	};
	struct ht_image_builder b;

	(void)state;
	ht_arena_init(&arena, NULL);
	ht_image_begin(&b, &arena);
	ht_image_put_kernel(&b, "", (struct ht_image_touch[]){ one, flag }, 2, 0, 0);
	ht_image_put_kernel(&b, "", (struct ht_image_touch[]){ one, written }, 2, 0, 0);
	ht_image_put_entry(&b, HT_STR("main"), put_procedure(&b), &port, 1, &port, 1);
	program.image = ht_image_end(&b);
	assert_null(ht_image_verify(program.image));
	kernel[POSITIVE] = (int64_t)(uintptr_t)positive;
	kernel[LESS] = (int64_t)(uintptr_t)less;
	program.rt.image = (const void *)program.image.p;
	program.rt.kernel = kernel;
	program.inputs = program.outputs = 1;
	program.input = &x;
	program.output = &y;
	program.info.target = ht_target_host()->name;
	diags = ht_diags_new();
	return !diags;
}

static int tear_down(void **state)
{
	(void)state;
	ht_diags_free(diags);
	ht_arena_release(&arena);
	return 0;
}

static enum ht_status run(struct ht_context *c, int32_t x, int32_t *y)
{
	const struct ht_array in = { .dtype = HT_I32, .data = &x, .bytes = 4 },
			      out = { .dtype = HT_I32, .data = y, .bytes = 4 };

	return ht_context_run(c, &in, 1, &out, 1, diags);
}

static struct ht_context *context(uint64_t depth, int threads)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_context *c;

	opt.threads = threads;
	opt.max_depth = depth;
	assert_int_equal(ht_context_new(&program, &opt, diags, &c), HT_OK);
	return c;
}

/* The error of the call for which there is no memory. */
static void assert_told(uint64_t depth)
{
	struct ht_message last;
	char want[100];

	assert_int_equal(ht_diags_count(diags), 1);
	assert_int_equal(ht_diags_get(diags, 0, &last), HT_OK);
	snprintf(want, sizeof want,
		"calls are nested too deeply: there is memory for %d that recurse", (int)depth);
	assert_non_null(strstr(last.text, want));
	assert_string_equal(last.node, "again");
	ht_diags_free(diags);
	diags = ht_diags_new();
}

static void depth_of_a_context(void **state)
{
	static const uint64_t option[] = { 0, 1, 64, 3000 };

	(void)state;
	for (int threads = 1; threads <= 3; threads++)
		for (size_t i = 0; i < HT_COUNT(option); i++) {
			struct ht_context *c = context(option[i], threads);
			int32_t depth = option[i] ? (int32_t)option[i] : 64, y = 1;

			assert_int_equal(run(c, depth, &y), HT_OK);
			assert_int_equal(y, 0);
			assert_int_equal(run(c, depth + 8, &y), HT_E_LIMIT);
			assert_told((uint64_t)depth);
			/* The context can still be used. */
			assert_int_equal(run(c, depth, &y), HT_OK);
			ht_context_free(c);
		}
}

static void refused(void **state)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_context *c;

	(void)state;
	opt.max_depth = (uint64_t)UINT32_MAX + 1;
	assert_int_equal(ht_context_new(&program, &opt, diags, &c), HT_E_USAGE);
	opt.memory = aligned_alloc(64, ht_program_memory(&program, 1));
	opt.max_depth = 65;
	assert_int_equal(ht_context_new(&program, &opt, diags, &c), HT_E_USAGE);
	opt.max_depth = 64;
	assert_int_equal(ht_context_new(&program, &opt, diags, &c), HT_OK);
	ht_context_free(c);
	free(opt.memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(depth_of_a_context),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
