/* Evaluates nodes with constant operands: a node is lowered by itself and its kernels are
 * interpreted, so that an op has the same meaning here as in a compiled program. */
#include "base/cpu.h"
#include "lower/lower.h"
#include "passes/passes.h"

#include <string.h>

enum { ALIGN = 64 };

struct evaluation {
	struct ht_plan *plan;
	struct ht_arena *arena; /* for the plan and its memory */
	char *temps;
	void *scratch;
	void **memory; /* by plan buffer */
};

static void *alloc_aligned(struct ht_arena *a, size_t n)
{
	char *p = ht_alloc(a, n + ALIGN - 1);

	return p + (ALIGN - (uintptr_t)p % ALIGN) % ALIGN;
}

static void *packed(const struct ht_plan_buffer *b, struct ht_arena *a)
{
	size_t src_bytes = ht_dtype_info(b->pack->src_dtype)->bytes;
	size_t matrix = (size_t)ht_packed_count(b->pack) * ht_dtype_info(b->pack->dst_dtype)->bytes;
	char *out = alloc_aligned(a, b->bytes);
	const char *from = b->packed_from->p;

	for (size_t i = 0; i < b->pack_count; i++)
		ht_pack_b(b->pack,
			from + (size_t)(b->pack_first + (int64_t)i * b->pack_stride) * src_bytes,
			out + i * matrix);
	return out;
}

static void unref(void *blob)
{
	ht_blob_unref(blob);
}

static void *constant(const struct ht_plan_buffer *b, struct ht_arena *a)
{
	struct ht_blob *blob = ht_blob_aligned(b->blob, ht_dtype_info(b->dtype)->bytes, 1);

	if (!blob)
		ht_arena_fail(a);
	ht_arena_defer(a, unref, blob);
	return (void *)(uintptr_t)blob->p;
}

/* Results are blobs of their own, which outlive the evaluation. */
static void *memory_of(struct evaluation *e, int32_t i)
{
	const struct ht_plan_buffer *b = &e->plan->buffer[i];

	switch (b->kind) {
	case HT_PLAN_CONST:
		return b->pack ? packed(b, e->arena) : constant(b, e->arena);
	case HT_PLAN_TEMP:
		return e->temps + b->offset;
	case HT_PLAN_INPUT:
	case HT_PLAN_OUTPUT:
	case HT_PLAN_PARAM: /* these are not evaluated: branches and loops, */
	case HT_PLAN_RESULT:
	case HT_PLAN_STREAM:   /* random ops with a state, */
	case HT_PLAN_VARIABLE: /* variables, */
	case HT_PLAN_DERIVED:  /* derived buffers of variables, */
	case HT_PLAN_OBJECT:   /* and objects */
		break;
	}
	return e->memory[i];
}

/* Subnormals are flushed, which is also the default of programs. */
static int32_t call(
	const struct ht_kernel *k, const struct ht_plan_step *step, void **buffers, void *scratch)
{
	ht_kernel_fn *library = k->library ? ht_library_kernel(k->library) : NULL;
	int64_t tiles = ht_kernel_tiles(k);
	unsigned before = ht_cpu_modes_begin(true);
	int32_t fault;

	fault = library ? library(buffers, step->params, 0, tiles, scratch)
			: (int32_t)ht_interpret(k, buffers, step->params, 0, tiles, scratch);
	ht_cpu_modes_end(before);
	return fault;
}

static bool run_step(struct evaluation *e, const struct ht_plan_step *step)
{
	const struct ht_kernel *k = e->plan->kernel[step->kernel];
	void **buffers = HT_NEW_ARRAY(e->arena, void *, (size_t)k->args);

	for (int32_t i = 0; i < k->args; i++)
		buffers[i] = e->memory[step->buffer[i]];
	return call(k, step, buffers, e->scratch) == 0;
}

static bool run(struct evaluation *e, struct ht_tensor *out, struct ht_arena *a)
{
	struct ht_plan *p = e->plan;
	int32_t result = 0;

	e->temps = alloc_aligned(e->arena, ht_plan_entry(p)->arena_bytes);
	e->scratch = alloc_aligned(e->arena, p->scratch_bytes);
	e->memory = HT_NEW_ARRAY(e->arena, void *, (size_t)p->buffers);
	for (int32_t i = 0; i < p->buffers; i++) {
		struct ht_blob *b;

		if (p->buffer[i].kind != HT_PLAN_OUTPUT)
			continue;
		b = ht_blob_in(a, p->buffer[i].bytes);
		out[result++].blob = b;
		e->memory[i] = (void *)(uintptr_t)b->p;
	}
	for (int32_t i = 0; i < p->buffers; i++)
		e->memory[i] = memory_of(e, i);
	for (int32_t i = 0; i < p->steps; i++)
		if (!run_step(e, &p->step[i]))
			return false;
	return true;
}

static void release(void *arena)
{
	ht_arena_release(arena);
}

/* The target without extensions, so that folded values do not depend on the machine. */
static const struct ht_target *plain_target(void)
{
	return ht_targets()[0];
}

enum ht_status ht_evaluate(struct ht_node *n, struct ht_arena *a, struct ht_tensor **out)
{
	struct ht_arena *own = HT_NEW(a, struct ht_arena);
	struct ht_lower_request how = { .scratch = own, .target = plain_target() };
	struct evaluation e = { .arena = own };
	struct ht_tensor *results = HT_NEW_ARRAY(a, struct ht_tensor, (size_t)n->outs);
	enum ht_status st;

	ht_arena_init(own, a->unwind);
	ht_arena_defer(a, release, own);
	st = ht_lower_node(n, &how, own, &e.plan);
	/* A fault is left for the run to report. */
	if (st == HT_OK && !run(&e, results, a))
		st = HT_E_UNSUPPORTED;
	for (int32_t i = 0; i < n->outs; i++) {
		results[i].dtype = n->out[i].dtype;
		results[i].shape = n->out[i].shape;
	}
	ht_arena_release(own);
	*out = results;
	return st;
}
