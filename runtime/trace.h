/* trace: which kernel ran when, on which thread. */
#ifndef HT_RUNTIME_TRACE_H
#define HT_RUNTIME_TRACE_H

#include "image/execute.h"

/* Nanoseconds of CLOCK_MONOTONIC. */
struct ht_trace_event {
	int64_t begin, end;
	uint64_t of; /* a step of the image; for a run: its number, from 0 */
};

/* The last events of one thread, in a ring. */
struct ht_trace_ring {
	struct ht_trace_event *event;
	uint64_t cap, n; /* n: how many were recorded in all */
	uint64_t at;     /* where the next event goes: n % cap, kept to avoid a division */
};

/* Points of a run: where its forward pass begins and its backward pass ends.  Steps are marked with these bits. */
enum { HT_TRACE_FORWARD = 1, HT_TRACE_BACKWARD = 2 };

/* A run in which both points were passed.  Nanoseconds of CLOCK_MONOTONIC. */
struct ht_trace_iteration {
	uint64_t run;
	int64_t before; /* when the previous run ended; 0: there was none */
	int64_t forward,
		backward; /* when the first forward kernel began, and when the last backward
			   * kernel ended */
	int64_t end;      /* of the run */
};

/* Totals over all iterations, kept or not. */
struct ht_trace_iterations {
	uint64_t n, gaps; /* gaps: iterations with a run before them */
	int64_t ns, forward_ns, refresh_ns, gap_ns;
};

/* All executions of a step, on all threads. */
struct ht_trace_total {
	uint64_t executions;
	int64_t ns; /* summed over threads */
};

struct ht_trace {
	struct ht_trace_ring runs;
	int64_t run_ns; /* of all runs */
	int workers;
	uint32_t steps;
	struct ht_trace_ring *kernels; /* by worker */
	struct ht_trace_total *total;  /* by worker and step */
	/* A cache line for each worker: when its current kernel began; when in this run its
	 * first forward kernel began and its last backward kernel ended, or 0. */
	int64_t *last;
	uint8_t *point; /* by step: HT_TRACE_FORWARD, HT_TRACE_BACKWARD; NULL: runs are not
			 * divided */
	struct ht_trace_iteration
		*iteration; /* the last HT_TRACE_RUNS iterations; iteration i is at i modulo that
			     * number */
	struct ht_trace_iterations iterations;
	int64_t before;                 /* when the last run ended */
	const char *forward, *backward; /* the caller's names of the points */
};
enum { HT_TRACE_LAST = 8 /* elements of `last` for each worker */, HT_TRACE_RUNS = 4096 };

/* Keeps the last `events` kernels in all, in equal shares for `workers` threads.  NULL: out of
 * memory. */
struct ht_trace *ht_trace_new(int workers, uint32_t steps, size_t events);
void ht_trace_free(struct ht_trace *t);

/* Divides later runs at points, which the caller writes to t->point.  False: out of memory. */
bool ht_trace_divide(struct ht_trace *t);

/* Called around a run. */
void ht_trace_run_begin(struct ht_trace *t);
void ht_trace_run_end(struct ht_trace *t);
/* Callbacks of an observer; `arg` is the trace.  With one thread, a kernel begins where the last
 * one ended, and ht_trace_begin() is not called. */
void ht_trace_begin(struct ht_trace *t, int worker);
void ht_trace_end(struct ht_trace *t, uint32_t step, int worker, int workers);

/* ---- results; not to be called during a run ---- */

uint64_t ht_trace_kept(const struct ht_trace_ring *r);
/* Event i of those that are kept, the oldest first. */
const struct ht_trace_event *ht_trace_event(const struct ht_trace_ring *r, uint64_t i);
uint64_t ht_trace_iterations_kept(const struct ht_trace *t);
/* Iteration i of those that are kept, the oldest first. */
const struct ht_trace_iteration *ht_trace_iteration(const struct ht_trace *t, uint64_t i);
uint64_t ht_trace_lost(const struct ht_trace *t); /* kernels that are not kept */
struct ht_trace_total ht_trace_total(const struct ht_trace *t, uint32_t step);

#endif
