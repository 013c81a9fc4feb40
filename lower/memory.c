/* Places a procedure's temporary buffers in its part of the arena: buffers that are alive at the
 * same time do not overlap, and little memory is needed. */
#include "lower/inside.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static size_t aligned(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* ---- largest first, each at the lowest offset that is free during its live range ---- */

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

size_t plan_alive_in_callees(const struct ht_plan *p, const struct ht_plan_step *s)
{
	size_t most = 0;

	for (int i = 0; s->control && i < ht_plan_calls(s->control); i++) {
		int32_t number = s->control->call[i].procedure;
		size_t live = number >= 0 ? p->procedure[number].live_bytes : 0;

		most = live > most ? live : most;
	}
	return most;
}

/* The most bytes of the procedure's own that are alive during one step.  Sets live_bytes. */
static size_t most_alive(const struct ht_plan *p, struct ht_plan_procedure *of,
	struct ht_plan_buffer *const *temp, int32_t n, struct ht_arena *scratch)
{
	size_t *change = HT_NEW_ARRAY(scratch, size_t, (size_t)of->steps + 1), now = 0, most = 0;

	for (int32_t i = 0; i < n; i++) {
		change[temp[i]->first_step - of->step] += aligned(temp[i]->bytes);
		change[temp[i]->last_step - of->step + 1] -= aligned(temp[i]->bytes);
	}
	for (int32_t i = 0; i < of->steps; i++) {
		size_t all;

		now += change[i]; /* unsigned: a decrease is a large number, modulo the word */
		most = now > most ? now : most;
		all = now + plan_alive_in_callees(p, &p->step[of->step + i]);
		of->live_bytes = all > of->live_bytes ? all : of->live_bytes;
	}
	return most;
}

/* Places all buffers in this order.  Returns the bytes needed; the index of the buffer that ends
 * there is stored. */
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

/* ---- for very many buffers: in the order of steps, each at the lowest gap between buffers that
 * are alive ---- */

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

static size_t place_in_order(struct ht_plan_buffer **temp, int32_t n, struct ht_arena *a)
{
	struct ht_plan_buffer **ending = HT_NEW_ARRAY(a, struct ht_plan_buffer *, (size_t)n);
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

/* A pseudo-random number from 0 to below - 1.  All compilations use the same seed, so that they make the same plan. */
static int32_t draw(uint64_t *state, int32_t below)
{
	return (int32_t)(ht_random(state) % (uint64_t)below);
}

static void move_forward(struct ht_plan_buffer **order, int32_t from, int32_t to)
{
	struct ht_plan_buffer *b = order[from];

	memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
	order[to] = b;
}

/* Places the largest buffer first, which mostly reaches `least`, a lower bound of the memory.  Otherwise a local search follows: it
 * moves the buffer that ends highest, or a random one, to an earlier place in the order, and keeps an order that needs no more
 * memory than the best one so far.  Returns the bytes needed. */
static size_t place_by_size(
	struct ht_plan_buffer **best, int32_t n, size_t least, struct ht_arena *scratch)
{
	enum { TRIES = 1000, WORK = 1 << 25 };
	size_t size = (size_t)n * sizeof *best, bytes;
	struct ht_plan_buffer **placed = HT_NEW_ARRAY(scratch, struct ht_plan_buffer *, (size_t)n),
			      **order = HT_NEW_ARRAY(scratch, struct ht_plan_buffer *, (size_t)n);
	uint64_t state = 1;
	int32_t highest = 0;

	qsort(best, (size_t)n, sizeof *best, larger_first);
	bytes = place_all(best, n, placed, &highest);
	for (int i = 0; i < TRIES && (int64_t)i * n * n < WORK && bytes > least; i++) {
		int32_t from = draw(&state, 2) ? highest : draw(&state, n), end = 0;
		size_t now;

		memcpy(order, best, size);
		move_forward(order, from, draw(&state, from + 1));
		now = place_all(order, n, placed, &end);
		if (now > bytes)
			continue;
		bytes = now;
		highest = end;
		memcpy(best, order, size);
	}
	place_all(best, n, placed, &highest);
	return bytes;
}

/* Placing by size takes time quadratic in the number of buffers. */
void plan_memory(struct lower *l)
{
	enum { VERY_MANY = 8000 };
	struct ht_plan *p = l->plan;
	struct ht_plan_procedure *of = &l->procedure;
	struct ht_plan_buffer **temp =
		HT_NEW_ARRAY(l->scratch, struct ht_plan_buffer *, (size_t)of->buffers);
	int32_t temps = 0;
	size_t least;

	for (int32_t i = 0; i < p->probes; i++) /* they are read after the last step */
		p->buffer[p->probe[i].buffer].last_step = p->steps - 1;
	for (int32_t i = of->buffer; i < of->buffer + of->buffers; i++)
		if (p->buffer[i].kind == HT_PLAN_TEMP && p->buffer[i].first_step >= 0)
			temp[temps++] = &p->buffer[i];
	least = most_alive(p, of, temp, temps, l->scratch);
	if (!temps)
		return;
	of->arena_bytes = temps > VERY_MANY ? place_in_order(temp, temps, l->scratch)
					    : place_by_size(temp, temps, least, l->scratch);
}
