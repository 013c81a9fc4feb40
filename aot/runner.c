/* What runs a net: a part of each net, copied from here.  So everything is in one section of code that
 * refers to nothing outside of it: no function, constant or variable (the test aot.runner looks for
 * relocations). */
#include "aot/runner.h"
#include "base/cpu.h"

#include <stdbool.h>
#include <stddef.h>

#define RUNNER __attribute__((section("ht_aot_runner"), flatten, used, noinline))
/* clang minds `flatten` for a function's own calls, not for those of what it inlines there. */
#define INLINE static inline __attribute__((always_inline))

typedef int32_t kernel_fn(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch);

struct run {
	const struct ht_aot_plan *plan;
	const struct ht_aot_level *level;
	const void *const *in;
	void *const *out;
	char *arena;
	const char *weights;
	const struct ht_aot_parallel *parallel; /* NULL: one thread */
	int64_t stop;                           /* the first fault, as position() orders them */
};

INLINE const void *at(const struct ht_aot_plan *plan, int64_t offset)
{
	return (const char *)plan + offset;
}

INLINE bool has(uint64_t needs, uint64_t cpu)
{
	return HT_AOT_LEVEL(needs) <= cpu && ht_cpu_has((unsigned)HT_AOT_EXTENSIONS(needs));
}

/* The best level that the machine runs, or NULL.  Asking the CPU is slow in virtual machines, so that
 * the answer is kept; threads that ask at once all write the same. */
INLINE const struct ht_aot_level *level_of(const struct ht_aot_plan *plan)
{
	int32_t *state = (int32_t *)(uintptr_t)at(plan, plan->state);
	const struct ht_aot_level *level = (const struct ht_aot_level *)(plan + 1);
	int32_t known = __atomic_load_n(state, __ATOMIC_RELAXED);

	if (!known) {
		uint64_t cpu = (uint64_t)ht_cpu_level();

		known = -1;
		for (uint64_t i = 0; i < plan->levels && known < 0; i++)
			if (has(level[i].needs, cpu))
				known = (int32_t)i + 1;
		__atomic_store_n(state, known, __ATOMIC_RELAXED);
	}
	return known < 0 ? NULL : &level[known - 1];
}

/* What a thread runs: steps of one part of the batch, with the arena that it has for that. */
struct place {
	char *arena, *scratch;
	int64_t part;
};

/* Bytes before the part's, of an input or output. */
INLINE int64_t part_offset(
	const struct run *r, const struct place *at_part, int64_t table, uint64_t number)
{
	const int64_t *bytes = at(r->plan, table);

	return r->level->parts > 1 ? at_part->part * bytes[number] : 0;
}

INLINE void *buffer(const struct run *r, const struct place *place, uint64_t arg)
{
	uint64_t offset = arg & (((uint64_t)1 << 62) - 1);
	const char *p;

	switch (arg >> 62) {
	case HT_AOT_ARENA:
		return place->arena + offset;
	case HT_AOT_WEIGHT:
		p = r->weights + HT_AOT_WEIGHTS_HEADER + offset;
		break;
	case HT_AOT_INPUT:
		p = r->in[offset];
		if (!p) {
			const int64_t *fallback = at(r->plan, r->plan->fallback);

			p = at(r->plan, fallback[offset]);
		}
		p += part_offset(r, place, r->level->in_part, offset);
		break;
	default:
		p = r->out[offset];
		p += part_offset(r, place, r->level->out_part, offset);
	}
	return (void *)(uintptr_t)p;
}

enum { FAULT_BITS = 4, WORKER_BITS = 20 };
#define NONE INT64_MAX

/* Of a step of a part, in the order in which one thread runs them all: faults of it lie from here on,
 * those of earlier ones before.  Workers follow one another as their tiles do. */
INLINE int64_t position(const struct run *r, int64_t part, uint64_t i)
{
	return (part * (int64_t)r->level->steps + (int64_t)i) << (WORKER_BITS + FAULT_BITS);
}

INLINE void note(struct run *r, int64_t stop)
{
	int64_t first = __atomic_load_n(&r->stop, __ATOMIC_RELAXED);

	while (stop < first && !__atomic_compare_exchange_n(&r->stop, &first, stop, true,
				       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* One thread's share of a step. */
INLINE void step(struct run *r, const struct place *place, uint64_t i, int worker, int workers)
{
	const struct ht_aot_step *s = (const struct ht_aot_step *)at(r->plan, r->level->step) + i;
	int64_t begin = s->tiles * worker / workers, end = s->tiles * (worker + 1) / workers;
	const char *code = (const char *)at(r->plan, r->plan->code) + s->entry;
	const uint64_t *arg = at(r->plan, s->arg);
	void *buffers[HT_AOT_MAX_ARGS];
	kernel_fn *fn = (kernel_fn *)(uintptr_t)code;
	int32_t fault;

	if (begin == end)
		return;
	for (uint64_t k = 0; k < s->args; k++)
		buffers[k] = buffer(r, place, arg[k]);
	fault = fn(buffers, at(r->plan, s->params), begin, end, place->scratch);
	if (fault)
		note(r, position(r, place->part, i) | (int64_t)worker << FAULT_BITS | fault);
}

/* Runs a part, unless there was a fault before it, up to the end or a fault.  So the first fault of all
 * is found whichever thread is faster.  Where workers run it together they stop at the same step: each
 * sees what was noted before a barrier behind it, and what one that is ahead notes is of a later step. */
INLINE void run_part(struct run *r, const struct place *place, int worker, int workers)
{
	for (uint64_t i = 0; i < r->level->steps; i++) {
		if (__atomic_load_n(&r->stop, __ATOMIC_RELAXED) < position(r, place->part, i))
			return;
		step(r, place, i, worker, workers);
		if (workers > 1)
			r->parallel->barrier(r->parallel->pool);
	}
}

/* What each thread does: as many parts by itself as all have equally many of, the others together. */
RUNNER static void steps(void *arg, int worker, int workers)
{
	struct run *r = arg;
	unsigned modes = ht_cpu_modes_begin(!r->plan->keep_subnormals);
	char *own = r->arena + (uint64_t)worker * r->level->thread_bytes;
	struct place place;
	int64_t parts = (int64_t)r->level->parts, apart = parts > 1 ? parts / workers : 0;

	place.arena = parts > 1 ? own : r->arena;
	place.scratch = own + r->level->scratch;
	for (place.part = worker * apart; place.part < (worker + 1) * apart; place.part++)
		run_part(r, &place, 0, 1);
	if (apart && workers > 1)
		r->parallel->barrier(r->parallel->pool);
	place.arena = r->arena;
	for (place.part = apart * workers; place.part < parts; place.part++)
		run_part(r, &place, worker, workers);
	ht_cpu_modes_end(modes);
}

INLINE bool same_weights(const struct ht_aot_plan *plan, const uint8_t *header)
{
	for (int i = 0; i < 32; i++)
		if (header[32 + i] != plan->digest[i])
			return false;
	return true;
}

RUNNER int ht_aot_run(const void *const *in, void *const *out, void *arena, const void *weights,
	const struct ht_aot_parallel *parallel, const struct ht_aot_plan *plan)
{
	struct run r;

	r.plan = plan;
	r.level = level_of(plan);
	r.in = in;
	r.out = out;
	r.arena = arena;
	r.weights = plan->external ? weights : at(plan, plan->weights);
	r.parallel = parallel;
	r.stop = NONE;
	if (!r.level)
		return HT_AOT_E_CPU;
	if (!arena || (uintptr_t)arena % 64)
		return HT_AOT_E_ARENA;
	if (plan->external && (!weights || (uintptr_t)weights % 64 || !same_weights(plan, weights)))
		return HT_AOT_E_WEIGHTS;
	if (!parallel || parallel->threads == 1)
		steps(&r, 0, 1);
	else if (parallel->threads > 1 && parallel->run && parallel->barrier)
		parallel->run(parallel->pool, steps, &r);
	else
		return HT_AOT_E_THREADS;
	return r.stop == NONE ? HT_AOT_OK : (int)(r.stop & ((1 << FAULT_BITS) - 1));
}

RUNNER const char *ht_aot_target(const struct ht_aot_plan *plan)
{
	const struct ht_aot_level *level = level_of(plan);

	return level ? at(plan, level->name) : NULL;
}
