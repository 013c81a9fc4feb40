/* trace: what ran when, on which thread. */
#ifndef HT_RUNTIME_TRACE_H
#define HT_RUNTIME_TRACE_H

#include "image/execute.h"

/* Nanoseconds of CLOCK_MONOTONIC. */
struct ht_trace_event {
	int64_t begin, end;
	uint64_t of; /* a step of the image; of a run its number, from 0 */
};

/* The last events of one thread, in a ring. */
struct ht_trace_ring {
	struct ht_trace_event *event;
	uint64_t cap, n; /* n: of all that were recorded */
	uint64_t at;     /* where the next one goes: n % cap, without a division */
};

/* All executions of a step, on all threads. */
struct ht_trace_total {
	uint64_t executions;
	int64_t ns; /* of the threads that had part in them, added up */
};

struct ht_trace {
	struct ht_trace_ring runs;
	int64_t run_ns; /* of all runs */
	int workers;
	uint32_t steps;
	struct ht_trace_ring *kernels; /* by worker */
	struct ht_trace_total *total;  /* by worker and step */
	int64_t *last; /* by worker, a line of memory each: when its current kernel began */
};
enum { HT_TRACE_LAST = 8 /* of `last` from worker to worker */ };

/* Keeps the last `events` kernels, a share of each of `workers` threads.  NULL: out of memory. */
struct ht_trace *ht_trace_new(int workers, uint32_t steps, size_t events);
void ht_trace_free(struct ht_trace *t);

/* Around a run. */
void ht_trace_run_begin(struct ht_trace *t);
void ht_trace_run_end(struct ht_trace *t);
/* For the observer; `arg` is the trace.  On one thread a kernel begins where the last one ended, and
 * ht_trace_begin() is not called. */
void ht_trace_begin(struct ht_trace *t, int worker);
void ht_trace_end(struct ht_trace *t, uint32_t step, int worker, int workers);

/* ---- what was recorded; not during a run ---- */

uint64_t ht_trace_kept(const struct ht_trace_ring *r);
/* The i-th that is kept, from the oldest. */
const struct ht_trace_event *ht_trace_event(const struct ht_trace_ring *r, uint64_t i);
uint64_t ht_trace_lost(const struct ht_trace *t); /* kernels that are not kept */
struct ht_trace_total ht_trace_total(const struct ht_trace *t, uint32_t step);

#endif
