/* The plan: buffers, steps, and where temporary ones live in the arena. */
#include "passes/lower/lower.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static size_t aligned(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static struct ht_plan_buffer *add_buffer(
	struct lower *l, enum ht_plan_kind kind, enum ht_dtype t, int64_t count)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_buffer *b;
	size_t bytes;

	if (count < 0 || !ht_mul_size((size_t)count, ht_dtype_info(t)->bytes, &bytes))
		ht_arena_fail(l->arena);
	p->buffer =
		ht_grow(l->arena, p->buffer, (size_t)p->buffers, &l->buffer_cap, sizeof *p->buffer);
	b = &p->buffer[p->buffers++];
	*b = (struct ht_plan_buffer){ .kind = kind,
		.dtype = t,
		.bytes = bytes,
		.first_step = -1,
		.last_step = -1,
		.alias = -1 };
	return b;
}

int32_t plan_buffer(struct lower *l, enum ht_plan_kind kind, enum ht_dtype t, int64_t count)
{
	add_buffer(l, kind, t, count);
	return l->plan->buffers - 1;
}

int32_t plan_const(struct lower *l, const struct ht_tensor *t)
{
	struct ht_plan_buffer *b = add_buffer(l, HT_PLAN_CONST, t->dtype, ht_shape_count(t->shape));

	b->blob = t->blob;
	return l->plan->buffers - 1;
}

int32_t plan_packed(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride)
{
	struct ht_pack *copy = HT_NEW(l->arena, struct ht_pack);
	struct ht_plan_buffer *b =
		add_buffer(l, HT_PLAN_CONST, p->dst_dtype, ht_packed_count(p) * count);

	*copy = *p;
	b->pack = copy;
	b->packed_from = t->blob;
	b->pack_first = first;
	b->pack_count = (size_t)count;
	b->pack_stride = stride;
	return l->plan->buffers - 1;
}

static const struct ht_kernel *distinct(struct lower *l, struct ht_kernel *k)
{
	struct ht_buf text;
	struct ht_map_entry *e;

	ht_buf_init(&text, l->scratch);
	ht_kernel_print(k, &text);
	e = ht_map_at(&l->kernel_texts, ht_buf_str(&text));
	if (!e->value) {
		struct ht_plan *p = l->plan;
		e->value = k;
		p->kernel = ht_grow(
			l->arena, p->kernel, (size_t)p->kernels, &l->kernel_cap, sizeof(void *));
		p->kernel[p->kernels++] = k;
	}
	return e->value;
}

void plan_step(struct lower *l, struct ht_kernel *k, const int32_t *buffer_of, int64_t *params,
	const struct ht_node *node)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_step *s;

	p->step = ht_grow(l->arena, p->step, (size_t)p->steps, &l->step_cap, sizeof *p->step);
	s = &p->step[p->steps];
	*s = (struct ht_plan_step){
		.kernel = distinct(l, k), .params = params, .node = node->name
	};
	s->buffer = HT_NEW_ARRAY(l->arena, int32_t, (size_t)k->args);
	memcpy(s->buffer, buffer_of, (size_t)k->args * sizeof *s->buffer);
	for (int32_t i = 0; i < k->args; i++) {
		struct ht_plan_buffer *b = &p->buffer[buffer_of[i]];
		if (b->first_step < 0)
			b->first_step = p->steps;
		b->last_step = p->steps;
	}
	if (ht_kernel_scratch(k) > p->scratch_bytes)
		p->scratch_bytes = ht_kernel_scratch(k);
	p->steps++;
}

/* ---- the arena: largest first, each at the lowest offset that is free during its lifetime ---- */

static int larger_first(const void *a, const void *b)
{
	const struct ht_plan_buffer *x = *(struct ht_plan_buffer *const *)a,
				    *y = *(struct ht_plan_buffer *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool alive_together(const struct ht_plan_buffer *a, const struct ht_plan_buffer *b)
{
	return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

/* `placed` is sorted by offset. */
static size_t lowest_gap(
	struct ht_plan_buffer *const *placed, int32_t n, const struct ht_plan_buffer *b)
{
	size_t at = 0;

	for (int32_t i = 0; i < n; i++) {
		if (!alive_together(placed[i], b))
			continue;
		if (placed[i]->offset >= at && placed[i]->offset - at >= aligned(b->bytes))
			break;
		if (placed[i]->offset + aligned(placed[i]->bytes) > at)
			at = placed[i]->offset + aligned(placed[i]->bytes);
	}
	return at;
}

void plan_memory(struct lower *l)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_buffer **temp =
		HT_NEW_ARRAY(l->scratch, struct ht_plan_buffer *, (size_t)p->buffers);
	struct ht_plan_buffer **placed =
		HT_NEW_ARRAY(l->scratch, struct ht_plan_buffer *, (size_t)p->buffers);
	int32_t temps = 0;

	for (int32_t i = 0; i < p->buffers; i++)
		if (p->buffer[i].kind == HT_PLAN_TEMP && p->buffer[i].first_step >= 0)
			temp[temps++] = &p->buffer[i];
	qsort(temp, (size_t)temps, sizeof *temp, larger_first);
	for (int32_t i = 0; i < temps; i++) {
		struct ht_plan_buffer *b = temp[i];
		int32_t j = i;

		b->offset = lowest_gap(placed, i, b);
		for (; j > 0 && placed[j - 1]->offset > b->offset; j--)
			placed[j] = placed[j - 1];
		placed[j] = b;
		if (b->offset + aligned(b->bytes) > p->arena_bytes)
			p->arena_bytes = b->offset + aligned(b->bytes);
	}
}
