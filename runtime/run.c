/* A context and its runs: all memory is there before, every pointer that does not change is in its
 * place, so that a run only fills in its inputs and outputs and walks a flat table. */
#include "runtime/guard.h"
#include "runtime/lives.h"
#include "runtime/pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <xmmintrin.h>

#define HUGE_PAGE ((size_t)2 << 20)

struct fault {
	_Alignas(64) int32_t code;
	int64_t tile; /* where those began among which it is */
};

/* One thread's part of a step's tiles, from which others take when they have done theirs. */
struct share {
	_Alignas(64) atomic_llong next;
	int64_t end;
};

struct ht_rt_context {
	const struct ht_rt_program *program;
	struct ht_rt_pool *pool;
	int threads;
	struct ht_guarded *guarded; /* or NULL */
	struct ht_lives *lives;     /* or NULL */
	char *arena;                /* NULL where every buffer has a mapping of its own */
	char *scratch;
	size_t scratch_bytes; /* of one thread, rounded up */
	void **arg;           /* of all steps, one after the other */
	void ***first;        /* of each step in arg */
	struct patch {
		void **where;
		int32_t number;
		bool output;
	} *patch; /* args that are inputs or outputs */
	int32_t patches;
	struct fault *fault; /* of each thread, in the current step */
	struct share *share; /* of each thread, in this phase and in the next or last one */
	atomic_int failed;   /* step number + 1 */
	bool profile, ftz;
	bool checked; /* every constant is whole */
	int64_t *ns;
};

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

static void *buffer_address(const struct ht_rt_context *c, int32_t i)
{
	const struct ht_rt_buffer *b = &c->program->buffer[i];

	if (c->guarded)
		return ht_guarded_buffer(c->guarded, i);
	switch (b->where) {
	case HT_RT_ARENA:
		return c->arena + b->offset;
	case HT_RT_CONST:
		return (void *)(uintptr_t)b->data;
	default:
		return NULL; /* comes with the run */
	}
}

static void place_arguments(struct ht_rt_context *c)
{
	const struct ht_rt_program *p = c->program;
	void **at = c->arg;

	for (int32_t i = 0; i < p->steps; i++) {
		c->first[i] = at;
		for (int32_t k = 0; k < p->step[i].args; k++, at++) {
			const struct ht_rt_buffer *b = &p->buffer[p->step[i].buffer[k]];

			*at = buffer_address(c, p->step[i].buffer[k]);
			if (!c->guarded && (b->where == HT_RT_INPUT || b->where == HT_RT_OUTPUT))
				c->patch[c->patches++] = (struct patch){ at, (int32_t)b->offset,
					b->where == HT_RT_OUTPUT };
		}
	}
}

struct ht_rt_context *ht_rt_context_new(const struct ht_rt_program *p, struct ht_rt_pool *pool)
{
	struct ht_rt_context *c = calloc(1, sizeof *c);
	size_t args = 0;

	if (!c)
		return NULL;
	c->program = p;
	c->pool = pool;
	c->threads = ht_rt_pool_threads(pool);
	for (int32_t i = 0; i < p->steps; i++)
		args += (size_t)p->step[i].args;
	c->scratch_bytes = (p->scratch_bytes + 127) / 64 * 64;
	c->arena = aligned(p->arena_bytes);
	c->scratch = aligned(c->scratch_bytes * (size_t)c->threads);
	c->arg = calloc(args + 1, sizeof *c->arg);
	c->patch = calloc(args + 1, sizeof *c->patch);
	c->first = calloc((size_t)p->steps + 1, sizeof *c->first);
	c->ns = calloc((size_t)p->steps + 1, sizeof *c->ns);
	c->fault = aligned(sizeof *c->fault * (size_t)c->threads);
	c->share = aligned(sizeof *c->share * 2 * (size_t)c->threads);
	c->lives = HT_POISONS ? ht_lives_new(p) : NULL;
	if ((HT_POISONS && !c->lives) || !c->arena || !c->scratch || !c->arg || !c->patch ||
		!c->first || !c->ns || !c->fault || !c->share) {
		ht_rt_context_free(c);
		return NULL;
	}
	place_arguments(c);
	return c;
}

bool ht_rt_context_guard(struct ht_rt_context *c, enum ht_rt_guard where)
{
	struct ht_guarded *g = ht_guarded_new(c->program, where, c->threads);

	if (!g)
		return false;
	c->guarded = g;
	free(c->arena);
	free(c->scratch);
	ht_lives_free(c->lives);
	c->lives = NULL;
	c->arena = NULL;
	c->scratch = ht_guarded_scratch(g, &c->scratch_bytes);
	c->patches = 0;
	place_arguments(c);
	return true;
}

void ht_rt_context_free(struct ht_rt_context *c)
{
	if (!c)
		return;
	free(c->arena);
	if (c->guarded)
		ht_guarded_free(c->guarded);
	else
		free(c->scratch);
	ht_lives_free(c->lives);
	free(c->arg);
	free(c->patch);
	free(c->first);
	free(c->ns);
	free(c->fault);
	free(c->share);
	free(c);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* False: the kernel has stopped. */
static bool run_tiles(
	struct ht_rt_context *c, int32_t i, int worker, int64_t tile_begin, int64_t tile_end)
{
	const struct ht_rt_step *s = &c->program->step[i];

	if (tile_begin >= tile_end)
		return true;
	if (HT_POISONS)
		memset(c->scratch + (size_t)worker * c->scratch_bytes, 0xff,
			c->program->scratch_bytes);
	c->fault[worker].code = s->fn(c->first[i], s->params, tile_begin, tile_end,
		c->scratch + (size_t)worker * c->scratch_bytes);
	if (!c->fault[worker].code)
		return true;
	c->fault[worker].tile = tile_begin;
	atomic_store_explicit(&c->failed, i + 1, memory_order_relaxed);
	return false;
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

static struct share *shares(const struct ht_rt_context *c, int phase)
{
	return c->share + (phase % 2) * c->threads;
}

/* Notes the worker's part of step i.  The others see it behind the next barrier; the phase before the
 * current one, which used the same place, is behind everybody. */
static void offer(struct ht_rt_context *c, int32_t i, int phase, int worker, int workers)
{
	struct share *s = &shares(c, phase)[worker];
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
		struct share *s = &shares(c, phase)[(worker + k) % workers];
		int64_t at;

		while ((at = atomic_fetch_add_explicit(&s->next, chunk, memory_order_relaxed)) <
			s->end)
			if (!run_tiles(c, i, worker, at, at + chunk < s->end ? at + chunk : s->end))
				return;
	}
}

static void run_alone(struct ht_rt_context *c, int32_t begin, int32_t end)
{
	for (int32_t i = begin; i < end; i++) {
		if (HT_POISONS && c->lives)
			ht_lives_step(c->lives, c->arena, i);
		if (!run_tiles(c, i, 0, 0, c->program->step[i].tiles))
			return;
	}
}

/* The first worker moves on to step i, which all of them run, and to the buffers that it uses. */
static void move_together(struct ht_rt_context *c, int32_t i, int worker)
{
	if (!c->lives)
		return;
	if (worker == 0)
		ht_lives_step(c->lives, c->arena, i);
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
		c->fault[worker] = (struct fault){ .code = HT_RT_DAMAGED };
		atomic_store_explicit(&c->failed, i + 1, memory_order_relaxed);
	}
}

#define MXCSR_MODES 0xffc0u /* flush to zero, rounding, exception masks, denormals are zero */
#define MXCSR_MASKED 0x1f80u
#define MXCSR_FLUSH 0x8040u

static void run_phases(struct ht_rt_context *c, int worker, int workers)
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
			if (atomic_load_explicit(&c->failed, memory_order_relaxed) == i + 1)
				return;
		}
		if (HT_POISONS && workers > 1 && p->step[i].tiles > 1)
			move_together(c, i, worker);
		if (workers > 1 && p->step[i].tiles > 1)
			run_shared(c, i, phase, worker, workers);
		else if (worker == 0)
			run_alone(c, i, end);
		ht_pool_barrier(c->pool);
		if (c->profile && worker == 0) {
			stop = now();
			c->ns[i] = stop - start;
			start = stop;
		}
		/* Every thread sees a failure here, as it was noted before the barrier; none can be
		 * noted for a later phase, as nobody passes the next barrier alone. */
		failed = atomic_load_explicit(&c->failed, memory_order_relaxed);
		if (failed > i && failed <= end)
			return;
	}
}

static void run_steps(void *arg, int worker, int workers)
{
	struct ht_rt_context *c = arg;
	unsigned before = _mm_getcsr();

	_mm_setcsr((before & ~MXCSR_MODES) | MXCSR_MASKED | (c->ftz ? MXCSR_FLUSH : 0));
	c->fault[worker].code = 0;
	run_phases(c, worker, workers);
	_mm_setcsr(before);
}

/* That of the first tile, whichever thread had it: a thread goes through its own tiles in order until
 * one fails, so that the first of all that fail has been run. */
static int32_t first_fault(const struct ht_rt_context *c)
{
	const struct fault *first = NULL;

	for (int i = 0; i < c->threads; i++)
		if (c->fault[i].code && (!first || c->fault[i].tile < first->tile))
			first = &c->fault[i];
	return first ? first->code : 0;
}

bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault)
{
	int step;

	for (int32_t i = 0; i < c->patches; i++) {
		const struct patch *p = &c->patch[i];

		*p->where = p->output ? outputs[p->number] : (void *)(uintptr_t)inputs[p->number];
	}
	atomic_store(&c->failed, 0);
	c->ftz = ftz;
	if (c->guarded)
		ht_guarded_enter(c->guarded, inputs);
	if (HT_POISONS && c->lives)
		ht_lives_begin(c->lives, c->arena);
	ht_pool_run(c->pool, run_steps, c);
	if (HT_POISONS && c->lives)
		ht_lives_end(c->lives, c->arena);
	if (c->guarded)
		ht_guarded_leave(c->guarded, outputs);
	*fault = (struct ht_rt_fault){ 0 };
	step = atomic_load(&c->failed);
	c->checked |= !step;
	if (!step)
		return true;
	fault->node = c->program->step[step - 1].node;
	fault->code = first_fault(c);
	return false;
}

const void *ht_rt_arena(const struct ht_rt_context *c)
{
	return c->arena;
}

void ht_rt_profile(struct ht_rt_context *c, bool on)
{
	c->profile = on;
}

const int64_t *ht_rt_step_ns(const struct ht_rt_context *c)
{
	return c->profile ? c->ns : NULL;
}
