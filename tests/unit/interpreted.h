/* Graphs that the interpreter runs: whatever the target that they are lowered for, any machine computes their results. */
#ifndef HT_TEST_INTERPRETED_H
#define HT_TEST_INTERPRETED_H

#include "tests/unit/unit.h"

#include "lower/lower.h"
#include "passes/passes.h"

#include <math.h>
#include <stdlib.h>

/* ---- running a graph ---- */

struct run {
	struct ht_arena arena, scratch;
	struct ht_diags diags;
	struct ht_graph *graph;
	struct ht_pass_context context;
	enum ht_conv_method method;
	struct ht_plan *plan;
	char **memory; /* by plan buffer */
	char *temps;
};

static inline void run_init(struct run *r)
{
	memset(r, 0, sizeof *r);
	ht_arena_init(&r->arena, NULL);
	ht_arena_init(&r->scratch, NULL);
	ht_diags_init(&r->diags);
	r->context = (struct ht_pass_context){ .scratch = &r->scratch,
		.diags = &r->diags,
		.target = ht_targets()[0],
		.verify = true };
}

static inline void run_release(struct run *r)
{
	ht_arena_release(&r->scratch);
	ht_arena_release(&r->arena);
	ht_diags_release(&r->diags);
}

static inline void fail_with_diags(struct run *r, const char *what)
{
	struct ht_buf b;

	ht_buf_init(&b, &r->arena);
	for (const struct ht_diag *d = r->diags.first; d; d = d->next) {
		ht_diag_print(d, &b);
		ht_putc(&b, '\n');
	}
	fail_msg("%s: %s", what, ht_buf_str(&b).p);
}

static inline void parse(struct run *r, struct ht_str text)
{
	if (ht_text_parse(&r->arena, text, "t.hir", NULL, &r->diags, &r->graph) != HT_OK)
		fail_with_diags(r, "parse");
	r->context.entry = r->graph->entries;
}

/* Numbers around zero, the same for the same input name; no zeros, so that divisions work. */
static inline void fill(const struct ht_plan_buffer *b, char *p)
{
	uint32_t seed = (uint32_t)ht_hash_bytes(b->name.p, b->name.n).lo;
	size_t bytes = ht_dtype_info(b->dtype)->bytes;

	for (size_t i = 0; i < b->bytes / bytes; i++) {
		seed = seed * 1664525 + 1013904223;
		float x = (float)((int)(seed >> 16 & 0xff) - 127) / 32.F + 0.005F;
		uint16_t half = b->dtype == HT_F16 ? ht_f32_to_f16(x) : ht_f32_to_bf16(x);
		int32_t whole = (int32_t)x;

		memcpy(p + i * bytes,
			b->dtype == HT_F32   ? (void *)&x
			: b->dtype == HT_I32 ? (void *)&whole
					     : (void *)&half,
			bytes);
	}
}

static inline char *buffer_memory(struct run *r, int32_t i)
{
	const struct ht_plan_buffer *b = &r->plan->buffer[i];
	size_t size = b->bytes + 64, matrix;
	char *p;

	if (r->memory[i])
		return r->memory[i];
	if (b->kind == HT_PLAN_TEMP)
		return r->temps + b->offset;
	if (b->kind == HT_PLAN_CONST && !b->pack)
		return (char *)(uintptr_t)b->blob->p;
	p = ht_alloc(&r->arena, size);
	if (b->kind == HT_PLAN_INPUT)
		fill(b, p);
	if (b->kind != HT_PLAN_CONST)
		return p;
	matrix = (size_t)ht_packed_count(b->pack) * ht_dtype_info(b->pack->dst_dtype)->bytes;
	for (size_t k = 0; k < b->pack_count; k++)
		ht_pack_b(b->pack,
			(const char *)b->packed_from->p +
				(b->pack_first + (int64_t)k * b->pack_stride) *
					(int64_t)ht_dtype_info(b->pack->src_dtype)->bytes,
			p + k * matrix);
	return p;
}

/* HT_E_UNSUPPORTED if an op cannot be lowered, HT_E_VERDICT if the run stops with a fault. */
static inline enum ht_status execute(struct run *r)
{
	struct ht_lower_request how = { .scratch = &r->scratch,
		.diags = &r->diags,
		.target = r->context.target,
		.entry = r->context.entry,
		.asked.conv = r->method,
		.random_seed = -1 };
	enum ht_status st = ht_lower(r->graph, &how, &r->arena, &r->plan);
	void *scratch, *args[64];

	if (st != HT_OK)
		return st;
	r->memory = HT_NEW_ARRAY(&r->arena, char *, (size_t)r->plan->buffers);
	r->temps = ht_alloc(&r->arena, ht_plan_entry(r->plan)->arena_bytes);
	scratch = ht_alloc(&r->arena, r->plan->scratch_bytes + 64);
	for (int32_t i = 0; i < r->plan->buffers; i++)
		r->memory[i] = buffer_memory(r, i);
	for (int32_t i = 0; i < r->plan->steps; i++) {
		const struct ht_plan_step *s = &r->plan->step[i];
		const struct ht_kernel *kernel = r->plan->kernel[s->kernel];
		ht_kernel_fn *library = kernel->library ? ht_library_kernel(kernel->library) : NULL;
		int64_t tiles = ht_kernel_tiles(kernel);

		for (int32_t k = 0; k < kernel->args; k++)
			args[k] = r->memory[s->buffer[k]];
		if (library ? library(args, s->params, 0, tiles, scratch)
			    : ht_interpret(kernel, args, s->params, 0, tiles, scratch))
			return HT_E_VERDICT;
	}
	return HT_OK;
}

/* ---- comparing ---- */

static inline double element(enum ht_dtype t, const char *p, size_t i)
{
	switch ((int)t) {
	case HT_F32:
		return ((const float *)(const void *)p)[i];
	case HT_F64:
		return ((const double *)(const void *)p)[i];
	case HT_F16:
		return ht_f16_to_f32(((const uint16_t *)(const void *)p)[i]);
	case HT_BF16:
		return ht_bf16_to_f32(((const uint16_t *)(const void *)p)[i]);
	case HT_I32:
		return ((const int32_t *)(const void *)p)[i];
	default:
		fail_msg("an output of a type that this test does not compare");
		return 0;
	}
}

static inline int32_t output(const struct run *r, int n)
{
	for (int32_t i = 0; i < r->plan->buffers; i++)
		if (r->plan->buffer[i].kind == HT_PLAN_OUTPUT && n-- == 0)
			return i;
	return -1;
}

static inline void compare(const char *name, const struct run *a, const struct run *b)
{
	for (int n = 0; output(a, n) >= 0; n++) {
		int32_t x = output(a, n), y = output(b, n);
		enum ht_dtype t = a->plan->buffer[x].dtype;
		size_t count = a->plan->buffer[x].bytes / ht_dtype_info(t)->bytes;
		double tolerance = t == HT_BF16 ? 0x1p-7 : t == HT_F16 ? 0x1p-10 : 1e-5;

		assert_true(y >= 0);
		assert_int_equal(a->plan->buffer[x].bytes, b->plan->buffer[y].bytes);
		assert_int_equal(t, b->plan->buffer[y].dtype);
		for (size_t i = 0; i < count; i++) {
			double p = element(t, a->memory[x], i), q = element(t, b->memory[y], i);

			if (p != q && !(fabs(p - q) <= tolerance * fmax(1, fabs(p))) &&
				!(isnan(p) && isnan(q)))
				fail_msg("%s: output %d element %zu: %g became %g", name, n, i, p,
					q);
		}
	}
}

#endif
