/* Runs: fill in inputs and outputs, and walk a flat table. */
#include "base/cpu.h"
#include "runtime/context.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* False: the kernel has stopped. */
static bool run_tiles(struct ht_rt_context *c, const struct ht_seat *seat, int32_t i, int worker,
	int64_t tile_begin, int64_t tile_end)
{
	const struct ht_rt_step *s = &c->program->step[i];
	char *scratch = c->scratch + (size_t)worker * c->scratch_bytes;
	int32_t code;

	if (tile_begin >= tile_end)
		return true;
	if (HT_POISONS)
		memset(scratch, 0xff, c->program->scratch_bytes);
	code = s->fn(seat->first[i], s->params, tile_begin, tile_end, scratch);
	if (!code)
		return true;
	c->stop[worker] = (struct ht_stop){ code, i, seat->part, tile_begin, seat->first[i] };
	atomic_store_explicit(&c->failed, i + 1, memory_order_relaxed);
	return false;
}

/* False: a kernel has stopped. */
static bool run_alone(
	struct ht_rt_context *c, const struct ht_seat *seat, int worker, int32_t begin, int32_t end)
{
	for (int32_t i = begin; i < end; i++) {
		if (HT_POISONS && c->lives)
			ht_lives_step(c->lives, seat->arena, i);
		if (!run_tiles(c, seat, i, worker, 0, c->program->step[i].tiles))
			return false;
	}
	return true;
}

/* ---- phases: what runs between two barriers ----
 *
 * A step of several tiles is a phase; steps of one tile in a row are one, which the first worker runs
 * alone, as is everything where there is one worker. */

static int32_t phase_end(const struct ht_rt_context *c, int32_t i, int workers)
{
	const struct ht_rt_program *p = c->program;
	int32_t end = i + 1;

	if (c->profile || (p->is_whole && !c->checked))
		return end;
	while (end < p->steps &&
		(workers == 1 || (p->step[i].tiles <= 1 && p->step[end].tiles <= 1)))
		end++;
	return end;
}

static struct ht_share *shares(const struct ht_rt_context *c, int phase)
{
	return c->share + (phase % 2) * c->threads;
}

/* Notes the worker's part of step i.  The others see it behind the next barrier; the phase before the
 * current one, which used the same place, is behind everybody. */
static void offer(struct ht_rt_context *c, int32_t i, int phase, int worker, int workers)
{
	struct ht_share *s = &shares(c, phase)[worker];
	int64_t tiles;

	if (i >= c->program->steps)
		return;
	tiles = c->program->step[i].tiles;
	s->end = tiles * (worker + 1) / workers;
	atomic_store_explicit(&s->next, tiles * worker / workers, memory_order_relaxed);
}

/* Neighbouring tiles stay on one thread, as they were in the step before, unless it is late. */
static void run_shared(struct ht_rt_context *c, int32_t i, int phase, int worker, int workers)
{
	int64_t chunk = c->program->step[i].tiles / (8 * workers) + 1;

	for (int k = 0; k < workers; k++) {
		struct ht_share *s = &shares(c, phase)[(worker + k) % workers];
		int64_t at;

		while ((at = atomic_fetch_add_explicit(&s->next, chunk, memory_order_relaxed)) <
			s->end)
			if (!run_tiles(c, c->seat, i, worker, at,
				    at + chunk < s->end ? at + chunk : s->end))
				return;
	}
}

/* The first worker moves on to step i, which all of them run, and to the buffers that it uses. */
static void move_together(struct ht_rt_context *c, int32_t i, int worker)
{
	if (!c->lives)
		return;
	if (worker == 0)
		ht_lives_step(c->lives, c->seat->arena, i);
	ht_pool_barrier(c->pool);
}

/* Also of the constants that have been looked at: those who asked remember that. */
static void check_constants(struct ht_rt_context *c, int32_t i, int worker, int workers)
{
	const struct ht_rt_program *p = c->program;

	for (int32_t k = 0; k < p->step[i].args; k++) {
		const struct ht_rt_buffer *b = &p->buffer[p->step[i].buffer[k]];

		if (b->where != HT_RT_CONST || p->is_whole(p->is_whole_arg, b, worker, workers))
			continue;
		c->stop[worker] = (struct ht_stop){ HT_RT_DAMAGED, i, c->seat->part, 0, NULL };
		atomic_store_explicit(&c->failed, -(i + 1), memory_order_relaxed);
	}
}

/* All workers run one part together, that of the first seat.  False, to each of them: it has failed. */
static bool run_phases(struct ht_rt_context *c, int worker, int workers)
{
	const struct ht_rt_program *p = c->program;
	int64_t start = c->profile && worker == 0 ? now() : 0, stop;
	int phase = 0;

	offer(c, 0, phase, worker, workers);
	ht_pool_barrier(c->pool);
	for (int32_t i = 0, end; i < p->steps; i = end, phase++) {
		int failed;

		end = phase_end(c, i, workers);
		offer(c, end, phase + 1, worker, workers);
		if (p->is_whole && !c->checked) {
			check_constants(c, i, worker, workers);
			ht_pool_barrier(c->pool);
			/* A kernel's failure is that of a thread that is ahead: seen below. */
			if (atomic_load_explicit(&c->failed, memory_order_relaxed) == -(i + 1))
				return false;
		}
		if (HT_POISONS && workers > 1 && p->step[i].tiles > 1)
			move_together(c, i, worker);
		if (workers > 1 && p->step[i].tiles > 1)
			run_shared(c, i, phase, worker, workers);
		else if (worker == 0)
			run_alone(c, c->seat, 0, i, end);
		ht_pool_barrier(c->pool);
		if (c->profile && worker == 0) {
			stop = now();
			c->ns[i] += stop - start;
			start = stop;
		}
		/* Each thread sees a failure of this phase, as it was noted before the barrier.  Who is
		 * ahead may have noted one of the next phase, whose steps are others, but none of
		 * another part, which begins with a barrier. */
		failed = atomic_load_explicit(&c->failed, memory_order_relaxed);
		if (failed > i && failed <= end)
			return false;
	}
	return true;
}

/* ---- parts of the batch ---- */

static bool run_together(
	struct ht_rt_context *c, int64_t begin, int64_t end, int worker, int workers)
{
	for (int64_t part = begin; part < end; part++) {
		if (worker == 0)
			ht_seat_take(c, c->seat, part); /* the others read it behind a barrier */
		if (!run_phases(c, worker, workers))
			return false;
	}
	return true;
}

/* Each worker takes parts and runs them from the first step to the last, so that what steps hand on
 * stays in its caches.  False, to each of them: one has failed. */
static bool run_apart(struct ht_rt_context *c, int64_t begin, int64_t end, int worker)
{
	struct ht_seat *seat = &c->seat[worker];
	int64_t part;

	if (begin > c->part_begin)
		ht_pool_barrier(c->pool); /* everybody has seen that the parts before are whole */
	while ((part = begin + atomic_fetch_add_explicit(&c->next_part, 1, memory_order_relaxed)) <
		end) {
		ht_seat_take(c, seat, part);
		if (!run_alone(c, seat, worker, 0, c->program->steps))
			break;
	}
	ht_pool_barrier(c->pool);
	return !atomic_load_explicit(&c->failed, memory_order_relaxed);
}

/* Apart, as many as all have equally many of; the first one together where constants are looked at,
 * which is a step's matter, as its time is. */
static void run_parts(struct ht_rt_context *c, int worker, int workers)
{
	const struct ht_rt_program *p = c->program;
	int64_t first = c->part_begin, last = c->part_end;

	if (!ht_has_seats(c, workers) || c->profile)
		first = last;
	else if (p->is_whole && !c->checked)
		first++;
	last -= (last - first) % workers;
	if (run_together(c, c->part_begin, first, worker, workers) &&
		(first >= last || run_apart(c, first, last, worker)))
		run_together(c, last, c->part_end, worker, workers);
}

static void run_worker(void *arg, int worker, int workers)
{
	struct ht_rt_context *c = arg;
	unsigned before = ht_cpu_modes_begin(c->ftz);

	run_parts(c, worker, workers);
	ht_cpu_modes_end(before);
}

static void run_range(struct ht_rt_context *c, int64_t begin, int64_t end)
{
	c->part_begin = begin;
	c->part_end = end;
	atomic_store_explicit(&c->next_part, 0, memory_order_relaxed);
	for (int i = 0; HT_POISONS && c->lives && i < c->seats; i++)
		ht_lives_begin(c->lives, c->seat[i].arena);
	ht_pool_run(c->pool, run_worker, c);
	for (int i = 0; HT_POISONS && c->lives && i < c->seats; i++)
		ht_lives_end(c->lives, c->seat[i].arena);
}

/* One at a time, as there is one mapping of each buffer. */
static void run_guarded(struct ht_rt_context *c)
{
	for (int64_t part = 0; part < c->program->parts && !atomic_load(&c->failed); part++) {
		ht_guarded_enter(c->guarded, c->inputs, c->stream, part);
		run_range(c, part, part + 1);
		ht_guarded_leave(c->guarded, c->outputs, part);
	}
}

/* That of the first part's first tile, whichever thread had it: parts are taken in order, and a thread
 * goes through its own tiles in order, until one fails, so that the first of all that fail has been
 * run. */
static const struct ht_stop *first_stop(const struct ht_rt_context *c)
{
	const struct ht_stop *first = NULL;

	for (int i = 0; i < c->threads; i++) {
		const struct ht_stop *s = &c->stop[i];

		if (s->code && (!first || s->part < first->part ||
				       (s->part == first->part && s->tile < first->tile)))
			first = s;
	}
	return first;
}

bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault)
{
	const struct ht_stop *stop;

	c->inputs = inputs;
	c->outputs = outputs;
	c->ftz = ftz;
	atomic_store(&c->failed, 0);
	for (int i = 0; i < c->threads; i++)
		c->stop[i].code = 0;
	if (c->profile)
		memset(c->ns, 0, (size_t)c->program->steps * sizeof *c->ns);
	if (c->guarded)
		run_guarded(c);
	else
		run_range(c, 0, c->program->parts);
	ht_streams_move(c);
	*fault = (struct ht_rt_fault){ 0 };
	stop = first_stop(c);
	c->checked |= !stop;
	if (stop)
		*fault = (struct ht_rt_fault){ stop->code, &c->program->step[stop->step],
			stop->args };
	return !stop;
}
