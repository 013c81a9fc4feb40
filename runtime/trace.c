/* Recording: rings of events in memory that is there before a run. */
#include "runtime/trace.h"
#include "runtime/clock.h"

#include <stdlib.h>

enum { RUNS = 4096 };

static bool ring_new(struct ht_trace_ring *r, uint64_t cap)
{
	r->cap = cap;
	r->event = calloc(cap, sizeof *r->event);
	return r->event != NULL;
}

static bool make(struct ht_trace *t, size_t events)
{
	const size_t workers = (size_t)t->workers;

	t->kernels = calloc(workers, sizeof *t->kernels);
	t->total = calloc(workers * t->steps + 1, sizeof *t->total);
	t->last = calloc(workers * HT_TRACE_LAST, sizeof *t->last);
	if (!t->kernels || !t->total || !t->last || !ring_new(&t->runs, RUNS))
		return false;
	for (size_t i = 0; i < workers; i++)
		if (!ring_new(&t->kernels[i], events / workers + 1))
			return false;
	return true;
}

struct ht_trace *ht_trace_new(int workers, uint32_t steps, size_t events)
{
	struct ht_trace *t = calloc(1, sizeof *t);

	if (!t)
		return NULL;
	t->workers = workers;
	t->steps = steps;
	if (make(t, events))
		return t;
	ht_trace_free(t);
	return NULL;
}

void ht_trace_free(struct ht_trace *t)
{
	if (!t)
		return;
	for (int i = 0; t->kernels && i < t->workers; i++)
		free(t->kernels[i].event);
	free(t->kernels);
	free(t->total);
	free(t->last);
	free(t->runs.event);
	free(t);
}

static void put(struct ht_trace_ring *r, uint64_t of, int64_t begin, int64_t end)
{
	r->event[r->at] = (struct ht_trace_event){ begin, end, of };
	r->at = r->at + 1 < r->cap ? r->at + 1 : 0;
	r->n++;
}

/* ---- during a run ---- */

void ht_trace_run_begin(struct ht_trace *t)
{
	t->last[0] = ht_now_ns();
	put(&t->runs, t->runs.n, t->last[0], t->last[0]);
}

void ht_trace_run_end(struct ht_trace *t)
{
	struct ht_trace_event *run = &t->runs.event[(t->runs.n - 1) % t->runs.cap];

	run->end = ht_now_ns();
	t->run_ns += run->end - run->begin;
}

void ht_trace_begin(struct ht_trace *t, int worker)
{
	t->last[HT_TRACE_LAST * worker] = ht_now_ns();
}

void ht_trace_end(struct ht_trace *t, uint32_t step, int worker, int workers)
{
	int64_t *last = &t->last[HT_TRACE_LAST * worker], begin = *last, end = ht_now_ns();
	struct ht_trace_total *total = &t->total[(size_t)worker * t->steps + step];

	put(&t->kernels[worker], step, begin, end);
	total->ns += end - begin;
	total->executions += workers == 1 || worker == 0;
	*last = end;
}

/* ---- what was recorded ---- */

uint64_t ht_trace_kept(const struct ht_trace_ring *r)
{
	return r->n < r->cap ? r->n : r->cap;
}

const struct ht_trace_event *ht_trace_event(const struct ht_trace_ring *r, uint64_t i)
{
	return &r->event[(r->n - ht_trace_kept(r) + i) % r->cap];
}

uint64_t ht_trace_lost(const struct ht_trace *t)
{
	uint64_t n = 0;

	for (int i = 0; i < t->workers; i++)
		n += t->kernels[i].n - ht_trace_kept(&t->kernels[i]);
	return n;
}

struct ht_trace_total ht_trace_total(const struct ht_trace *t, uint32_t step)
{
	struct ht_trace_total all = { 0 };

	for (int i = 0; i < t->workers; i++) {
		const struct ht_trace_total *one = &t->total[(size_t)i * t->steps + step];

		all.executions += one->executions;
		all.ns += one->ns;
	}
	return all;
}
