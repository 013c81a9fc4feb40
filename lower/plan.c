/* The plan: buffers, steps, and where temporary ones live in the arena. */
#include "base/philox.h"
#include "lower/inside.h"

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

/* What plan_packed() was asked for: equal requests get one buffer. */
static struct ht_str pack_key(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride)
{
	const int64_t part[] = { (intptr_t)t->blob, first, count, stride, p->src_dtype,
		p->dst_dtype, p->taps, p->depth, p->n, p->sq, p->sk, p->sn, p->nr, p->kp,
		p->winograd, p->hf32 };
	int64_t *key = HT_NEW_ARRAY(l->scratch, int64_t, HT_COUNT(part));

	memcpy(key, part, sizeof part);
	return (struct ht_str){ (const char *)key, sizeof part };
}

int32_t plan_packed(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride)
{
	struct ht_map_entry *known = ht_map_at(&l->packed, pack_key(l, t, first, p, count, stride));
	struct ht_plan_buffer *b;
	struct ht_pack *copy;

	if (known->value)
		return (int32_t)(uintptr_t)known->value - 1;
	copy = HT_NEW(l->arena, struct ht_pack);
	*copy = *p;
	b = add_buffer(l, HT_PLAN_CONST, p->dst_dtype, ht_packed_count(p) * count);
	b->pack = copy;
	b->packed_from = t->blob;
	b->pack_first = first;
	b->pack_count = (size_t)count;
	b->pack_stride = stride;
	known->value = (void *)(uintptr_t)l->plan->buffers;
	return l->plan->buffers - 1;
}

int32_t plan_widened(struct lower *l, int32_t buffer)
{
	const struct ht_plan_buffer *b = &l->plan->buffer[buffer];
	const struct ht_pack p = { .src_dtype = b->dtype,
		.dst_dtype = HT_F32,
		.taps = 1,
		.depth = 1,
		.n = (int64_t)(b->bytes / ht_dtype_info(b->dtype)->bytes),
		.sn = 1,
		.nr = 16, /* of one line of depth: in order */
		.kp = 1 };

	return plan_packed(l, &(struct ht_tensor){ .blob = b->blob }, 0, &p, 1, 0);
}

int32_t plan_stream(struct lower *l, struct ht_plan_stream stream)
{
	struct ht_plan *p = l->plan;
	int32_t b = plan_buffer(l, HT_PLAN_STREAM, HT_U32, HT_PHILOX_WORDS);

	p->buffer[b].offset = (size_t)p->streams;
	p->stream =
		ht_grow(l->arena, p->stream, (size_t)p->streams, &l->stream_cap, sizeof *p->stream);
	p->stream[p->streams++] = stream;
	return b;
}

/* The kernel that was built, or the one that equals it: then the memory of this one is free. */
static const struct ht_kernel *distinct(struct lower *l, struct kernel_build *k)
{
	struct ht_plan *p = l->plan;
	const struct ht_kernel *known;
	struct ht_buf text;

	ht_buf_init(&text, k->arena);
	ht_kernel_print(k->kernel, &text);
	known = ht_map_get(&l->kernel_texts, ht_buf_str(&text));
	if (known) {
		ht_arena_release(k->arena);
		l->spare = k->arena;
		return known;
	}
	ht_map_at(&l->kernel_texts, ht_str_copy(l->scratch, ht_buf_str(&text)))->value = k->kernel;
	p->kernel =
		ht_grow(l->arena, p->kernel, (size_t)p->kernels, &l->kernel_cap, sizeof(void *));
	p->kernel[p->kernels++] = k->kernel;
	return k->kernel;
}

void plan_step(struct lower *l, struct kernel_build *k, const struct ht_node *node)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_step *s;
	const struct ht_kernel *kernel = distinct(l, k);

	k->kernel = NULL;
	p->step = ht_grow(l->arena, p->step, (size_t)p->steps, &l->step_cap, sizeof *p->step);
	s = &p->step[p->steps];
	*s = (struct ht_plan_step){ .kernel = kernel, .params = k->params, .node = node->name };
	s->buffer = HT_NEW_ARRAY(l->arena, int32_t, (size_t)kernel->args);
	memcpy(s->buffer, k->plan_buffer_of, (size_t)kernel->args * sizeof *s->buffer);
	for (int32_t i = 0; i < kernel->args; i++) {
		struct ht_plan_buffer *b = &p->buffer[s->buffer[i]];
		if (b->first_step < 0)
			b->first_step = p->steps;
		b->last_step = p->steps;
	}
	if (ht_kernel_scratch(kernel) > p->scratch_bytes)
		p->scratch_bytes = ht_kernel_scratch(kernel);
	p->steps++;
	lower_words(l, node);
}

void plan_words(struct lower *l, const struct ht_words *words, size_t n)
{
	struct ht_plan_step *s = &l->plan->step[l->plan->steps - 1];

	s->words = words;
	s->words_count = n;
}

void plan_choice(struct lower *l, const struct ht_node *n, struct ht_method_choice c)
{
	struct ht_plan *p = l->plan;

	c.node = n->name;
	p->choice =
		ht_grow(l->arena, p->choice, (size_t)p->choices, &l->choice_cap, sizeof *p->choice);
	p->choice[p->choices++] = c;
	l->chosen[n->id] = true;
}

bool plan_block(struct lower *l, const struct ht_node *n, struct ht_method_choice c)
{
	ht_note_read(l->asked->reads, HT_READ_block_method);
	if (l->asked->asked.block != HT_BLOCK_AUTO) {
		enum ht_method one = c.method == HT_METHOD_KERNELS ? c.other : c.method;

		c = (struct ht_method_choice){
			.method = l->asked->asked.block == HT_BLOCK_ROWS ? one : HT_METHOD_KERNELS,
			.other = HT_METHOD_END,
			.reason = HT_REASON_ASKED
		};
	}
	plan_choice(l, n, c);
	return c.method != HT_METHOD_KERNELS;
}

int32_t plan_probe(struct lower *l, const struct ht_node *n, int32_t i)
{
	struct ht_plan *p = l->plan;
	struct ht_str tensor = i ? ht_str_printf(l->arena, "%.*s:%d", HT_STR_ARG(n->name), (int)i)
				 : ht_str_copy(l->arena, n->name);
	int32_t buffer;

	if (p->probes && ht_str_eq(p->probe[p->probes - 1].tensor, tensor))
		return p->probe[p->probes - 1].buffer; /* stored in several places of the kernel */
	buffer = plan_buffer(l, HT_PLAN_TEMP, HT_U8, ht_shape_count(n->out[i].shape));
	p->probe = ht_grow(l->arena, p->probe, (size_t)p->probes, &l->probe_cap, sizeof *p->probe);
	p->probe[p->probes++] = (struct ht_plan_probe){
		.tensor = tensor,
		.dtype = n->out[i].dtype,
		.buffer = buffer,
	};
	return buffer;
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

/* The most bytes that one step finds alive. */
static size_t most_alive(const struct ht_plan *p, struct ht_plan_buffer *const *temp, int32_t n,
	struct ht_arena *scratch)
{
	size_t *change = HT_NEW_ARRAY(scratch, size_t, (size_t)p->steps + 1), now = 0, most = 0;

	for (int32_t i = 0; i < n; i++) {
		change[temp[i]->first_step] += aligned(temp[i]->bytes);
		change[temp[i]->last_step + 1] -= aligned(temp[i]->bytes);
	}
	for (int32_t i = 0; i < p->steps; i++) {
		now += change[i]; /* modulo the word: a fall is a large number */
		most = now > most ? now : most;
	}
	return most;
}

/* Places all in this order; returns the bytes needed, and which one ends there. */
static size_t place_all(struct ht_plan_buffer *const *order, int32_t n,
	struct ht_plan_buffer **placed, int32_t *highest)
{
	size_t end = 0;

	for (int32_t i = 0; i < n; i++) {
		struct ht_plan_buffer *b = order[i];
		int32_t j = i;

		b->offset = lowest_gap(placed, i, b);
		for (; j > 0 && placed[j - 1]->offset > b->offset; j--)
			placed[j] = placed[j - 1];
		placed[j] = b;
		if (b->offset + aligned(b->bytes) > end) {
			end = b->offset + aligned(b->bytes);
			*highest = i;
		}
	}
	return end;
}

static void move_to_front(struct ht_plan_buffer **order, int32_t i)
{
	struct ht_plan_buffer *b = order[i];

	memmove(order + 1, order, (size_t)i * sizeof(struct ht_plan_buffer *));
	order[0] = b;
}

/* ---- of very many, in the order of steps: each at the lowest gap between what is alive then ---- */

struct gap {
	size_t at, bytes;
};

struct gaps {
	struct gap *gap; /* by place; the last has no end */
	int32_t n;
};

static int earlier_first(const void *a, const void *b)
{
	const struct ht_plan_buffer *x = *(struct ht_plan_buffer *const *)a,
				    *y = *(struct ht_plan_buffer *const *)b;

	if (x->first_step != y->first_step)
		return x->first_step < y->first_step ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int ends_first(const void *a, const void *b)
{
	const struct ht_plan_buffer *x = *(struct ht_plan_buffer *const *)a,
				    *y = *(struct ht_plan_buffer *const *)b;

	if (x->last_step != y->last_step)
		return x->last_step < y->last_step ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void remove_gap(struct gaps *g, int32_t i)
{
	memmove(g->gap + i, g->gap + i + 1, (size_t)(g->n - i - 1) * sizeof *g->gap);
	g->n--;
}

static void take_gap(struct gaps *g, struct ht_plan_buffer *b)
{
	size_t bytes = aligned(b->bytes);
	int32_t i = 0;

	while (g->gap[i].bytes < bytes)
		i++;
	b->offset = g->gap[i].at;
	g->gap[i].at += bytes;
	g->gap[i].bytes -= bytes;
	if (!g->gap[i].bytes)
		remove_gap(g, i);
}

/* The last gap has no end, so that one is behind each buffer. */
static void give_gap(struct gaps *g, const struct ht_plan_buffer *b)
{
	size_t bytes = aligned(b->bytes);
	int32_t i = 0, end = g->n - 1;

	while (i < end) {
		int32_t middle = i + (end - i) / 2;

		if (g->gap[middle].at < b->offset)
			i = middle + 1;
		else
			end = middle;
	}
	if (!bytes)
		return;
	if (g->gap[i].at == b->offset + bytes) {
		g->gap[i].at = b->offset;
		g->gap[i].bytes += bytes;
	} else {
		memmove(g->gap + i + 1, g->gap + i, (size_t)(g->n - i) * sizeof *g->gap);
		g->n++;
		g->gap[i] = (struct gap){ b->offset, bytes };
	}
	if (i > 0 && g->gap[i - 1].at + g->gap[i - 1].bytes == g->gap[i].at) {
		g->gap[i - 1].bytes += g->gap[i].bytes;
		remove_gap(g, i);
	}
}

static size_t place_in_order(
	struct ht_plan_buffer **temp, int32_t n, struct ht_plan_buffer **ending, struct ht_arena *a)
{
	struct gaps g = { HT_NEW_ARRAY(a, struct gap, (size_t)n + 1), 1 };
	size_t end = 0;
	int32_t gone = 0;

	g.gap[0] = (struct gap){ 0, SIZE_MAX / 2 };
	memcpy(ending, temp, (size_t)n * sizeof *temp);
	qsort(temp, (size_t)n, sizeof *temp, earlier_first);
	qsort(ending, (size_t)n, sizeof *ending, ends_first);
	for (int32_t i = 0; i < n; i++) {
		for (; ending[gone]->last_step < temp[i]->first_step; gone++)
			give_gap(&g, ending[gone]);
		take_gap(&g, temp[i]);
		if (temp[i]->offset + aligned(temp[i]->bytes) > end)
			end = temp[i]->offset + aligned(temp[i]->bytes);
	}
	return end;
}

/* Largest first is mostly as small as can be.  Where it is not, what ends highest is placed before
 * all others, time and again; the best order counts.  It costs the square of their number, so of VERY_MANY
 * the order of steps has to do. */
void plan_memory(struct lower *l)
{
	enum { TRIES = 64, MANY = 2000, VERY_MANY = 8000 };
	struct ht_plan *p = l->plan;
	size_t count = (size_t)p->buffers;
	struct ht_plan_buffer **temp = HT_NEW_ARRAY(l->scratch, struct ht_plan_buffer *, count),
			      **placed = HT_NEW_ARRAY(l->scratch, struct ht_plan_buffer *, count),
			      **best = HT_NEW_ARRAY(l->scratch, struct ht_plan_buffer *, count);
	int32_t temps = 0, highest = 0;

	for (int32_t i = 0; i < p->probes; i++) /* read when all is done */
		p->buffer[p->probe[i].buffer].last_step = p->steps - 1;
	for (int32_t i = 0; i < p->buffers; i++)
		if (p->buffer[i].kind == HT_PLAN_TEMP && p->buffer[i].first_step >= 0)
			temp[temps++] = &p->buffer[i];
	if (!temps)
		return;
	p->live_bytes = most_alive(p, temp, temps, l->scratch);
	if (temps > VERY_MANY) {
		p->arena_bytes = place_in_order(temp, temps, placed, l->scratch);
		return;
	}
	qsort(temp, (size_t)temps, sizeof *temp, larger_first);
	p->arena_bytes = SIZE_MAX;
	for (int i = 0; i < TRIES && p->arena_bytes > p->live_bytes; i++) {
		size_t bytes = place_all(temp, temps, placed, &highest);

		if (bytes < p->arena_bytes) {
			p->arena_bytes = bytes;
			memcpy(best, temp, (size_t)temps * sizeof(struct ht_plan_buffer *));
		}
		if (temps > MANY)
			break;
		move_to_front(temp, highest);
	}
	place_all(best, temps, placed, &highest);
}
