/* A context: all memory is there before a run, and every pointer that does not change is in its place. */
#include "runtime/context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static void *aligned(size_t n)
{
	size_t align = n >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
	void *p = NULL;

	if (posix_memalign(&p, align, n + 64) != 0)
		return NULL;
	if (align == HUGE_PAGE)
		madvise(p, n, MADV_HUGEPAGE); /* a hint: nothing is lost without */
	return p;
}

static bool comes_with_the_run(const struct ht_rt_buffer *b)
{
	return b->where == HT_RT_INPUT || b->where == HT_RT_OUTPUT;
}

static void *buffer_address(const struct ht_rt_context *c, const struct ht_seat *s, int32_t i)
{
	const struct ht_rt_buffer *b = &c->program->buffer[i];

	if (c->guarded)
		return ht_guarded_buffer(c->guarded, i);
	switch (b->where) {
	case HT_RT_ARENA:
		return s->arena + b->offset;
	case HT_RT_CONST:
		return (void *)(uintptr_t)b->data;
	case HT_RT_STREAM:
		return &c->stream[b->offset];
	default:
		return NULL;
	}
}

static void place_arguments(struct ht_rt_context *c, struct ht_seat *s)
{
	const struct ht_rt_program *p = c->program;
	void **at = s->arg;

	c->patches = 0;
	for (int32_t i = 0; i < p->steps; i++) {
		s->first[i] = at;
		for (int32_t k = 0; k < p->step[i].args; k++, at++) {
			const struct ht_rt_buffer *b = &p->buffer[p->step[i].buffer[k]];

			*at = buffer_address(c, s, p->step[i].buffer[k]);
			if (!c->guarded && comes_with_the_run(b))
				c->patch[c->patches++] =
					(struct ht_patch){ (size_t)(at - s->arg), b };
		}
	}
}

void ht_seat_take(const struct ht_rt_context *c, struct ht_seat *s, int64_t part)
{
	s->part = part;
	for (size_t i = 0; i < c->patches; i++) {
		const struct ht_rt_buffer *b = c->patch[i].buffer;
		const void *whole =
			b->where == HT_RT_OUTPUT ? c->outputs[b->offset] : c->inputs[b->offset];

		s->arg[c->patch[i].at] =
			(char *)(uintptr_t)whole + (size_t)part * ht_rt_part_bytes(c->program, b);
	}
}

static bool make_seats(struct ht_rt_context *c)
{
	const struct ht_rt_program *p = c->program;
	size_t args = 0;

	for (int32_t i = 0; i < p->steps; i++)
		args += (size_t)p->step[i].args;
	c->seats = p->parts > 1 && c->threads <= p->parts ? c->threads : 1;
	c->seat = calloc((size_t)c->seats, sizeof *c->seat);
	c->patch = calloc(args + 1, sizeof *c->patch);
	c->arena_bytes = (p->arena_bytes + 127) / 64 * 64;
	c->arenas = aligned(c->arena_bytes * (size_t)c->seats);
	if (!c->seat || !c->patch || !c->arenas)
		return false;
	for (int i = 0; i < c->seats; i++) {
		struct ht_seat *s = &c->seat[i];

		s->arena = c->arenas + c->arena_bytes * (size_t)i;
		s->arg = calloc(args + 1, sizeof *s->arg);
		s->first = calloc((size_t)p->steps + 1, sizeof *s->first);
		if (!s->arg || !s->first)
			return false;
		place_arguments(c, s);
	}
	return true;
}

struct ht_rt_context *ht_rt_context_new(const struct ht_rt_program *p, struct ht_rt_pool *pool)
{
	struct ht_rt_context *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->program = p;
	c->pool = pool;
	c->threads = ht_rt_pool_threads(pool);
	c->scratch_bytes = (p->scratch_bytes + 127) / 64 * 64;
	c->scratch = aligned(c->scratch_bytes * (size_t)c->threads);
	c->ns = calloc((size_t)p->steps + 1, sizeof *c->ns);
	c->stream = calloc((size_t)p->streams + 1, sizeof *c->stream);
	c->stop = aligned(sizeof *c->stop * (size_t)c->threads);
	c->share = aligned(sizeof *c->share * 2 * (size_t)c->threads);
	c->lives = HT_POISONS ? ht_lives_new(p) : NULL;
	if ((HT_POISONS && !c->lives) || !c->scratch || !c->ns || !c->stream || !c->stop ||
		!c->share || !make_seats(c)) {
		ht_rt_context_free(c);
		return NULL;
	}
	ht_rt_context_seed(c, 0);
	return c;
}

static void free_seats(struct ht_rt_context *c, int from)
{
	for (int i = from; c->seat && i < c->seats; i++) {
		free(c->seat[i].arg);
		free(c->seat[i].first);
	}
	if (c->seats > from)
		c->seats = from;
}

bool ht_rt_context_guard(struct ht_rt_context *c, enum ht_rt_guard where)
{
	struct ht_guarded *g = ht_guarded_new(c->program, where, c->threads);

	if (!g)
		return false;
	c->guarded = g;
	free_seats(c, 1); /* there is one mapping of each buffer */
	free(c->arenas);
	free(c->scratch);
	ht_lives_free(c->lives);
	c->lives = NULL;
	c->arenas = NULL;
	c->seat->arena = NULL;
	c->scratch = ht_guarded_scratch(g, &c->scratch_bytes);
	place_arguments(c, c->seat);
	return true;
}

void ht_rt_context_free(struct ht_rt_context *c)
{
	if (!c)
		return;
	free_seats(c, 0);
	free(c->seat);
	free(c->arenas);
	if (c->guarded)
		ht_guarded_free(c->guarded);
	else
		free(c->scratch);
	ht_lives_free(c->lives);
	free(c->patch);
	free(c->ns);
	free(c->stream);
	free(c->stop);
	free(c->share);
	free(c);
}

const void *ht_rt_arena(const struct ht_rt_context *c)
{
	return c->arenas;
}

void ht_rt_profile(struct ht_rt_context *c, bool on)
{
	c->profile = on;
}

const int64_t *ht_rt_step_ns(const struct ht_rt_context *c)
{
	return c->profile ? c->ns : NULL;
}
