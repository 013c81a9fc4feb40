/* runtime, inside: what a context has (context.c), for its runs (run.c). */
#ifndef HT_RUNTIME_CONTEXT_H
#define HT_RUNTIME_CONTEXT_H

#include "base/philox.h"
#include "runtime/guard.h"
#include "runtime/lives.h"
#include "runtime/pool.h"

#include <stdatomic.h>

/* A kernel that stopped: where in the batch, and where those tiles began among which it was. */
struct ht_stop {
	_Alignas(64) int32_t code; /* 0: none did */
	int32_t step;
	int64_t part, tile;
	void *const *args; /* of the step */
};

/* One thread's share of a step's tiles, from which others take when they have done theirs. */
struct ht_share {
	_Alignas(64) atomic_llong next;
	int64_t end;
};

/* Memory for the results of one part of the batch at a time, and the arguments that lie in it. */
struct ht_seat {
	char *arena;   /* NULL where every buffer has a mapping of its own */
	void **arg;    /* of all steps, one after the other */
	void ***first; /* of each step in arg */
	int64_t part;  /* that it is for now */
};

/* An argument that is an input or output: `at` in arg. */
struct ht_patch {
	size_t at;
	const struct ht_rt_buffer *buffer;
};

struct ht_rt_context {
	const struct ht_rt_program *program;
	struct ht_rt_pool *pool;
	int threads;
	struct ht_guarded *guarded; /* or NULL */
	struct ht_lives *lives;     /* or NULL */
	struct ht_seat *seat;       /* where there are several, one a thread */
	int seats;
	char *arenas; /* of all seats */
	char *scratch;
	size_t arena_bytes, scratch_bytes; /* from seat to seat, and from thread to thread */
	struct ht_patch *patch;
	size_t patches;
	struct ht_philox *stream; /* of the next run, by number */
	struct ht_stop *stop;     /* of each thread */
	struct ht_share *share;   /* of each thread, in this phase and in the next or last one */
	/* Of the current run. */
	const void *const *inputs;
	void *const *outputs;
	int64_t part_begin, part_end;
	atomic_llong next_part; /* how many of those that are shared out have been taken */
	atomic_int failed; /* step number + 1 of a kernel's failure, - that of a constant's, or 0 */
	bool profile, ftz;
	bool checked; /* every constant is whole */
	int64_t *ns;
};

/* Whether each thread can run parts by itself, in memory of its own. */
static inline bool ht_has_seats(const struct ht_rt_context *c, int workers)
{
	return c->program->parts > 1 && workers <= c->seats;
}

/* stream.c: each stream behind what a run takes. */
void ht_streams_move(struct ht_rt_context *c);

/* The seat's inputs and outputs become those of this part. */
void ht_seat_take(const struct ht_rt_context *c, struct ht_seat *s, int64_t part);

#endif
