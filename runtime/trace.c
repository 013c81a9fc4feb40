/* Recording: rings of events, in memory that is allocated before a run. */
#include "runtime/trace.h"
#include "runtime/clock.h"

#include <stdlib.h>

/* Members of a worker's cache line. */
enum { BEGAN, FORWARD, BACKWARD };

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
	if (!t->kernels || !t->total || !t->last || !ring_new(&t->runs, HT_TRACE_RUNS))
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
	free(t->point);
	free(t->iteration);
	free(t->runs.event);
	free(t);
}

bool ht_trace_divide(struct ht_trace *t)
{
	free(t->point);
	free(t->iteration);
	t->iterations = (struct ht_trace_iterations){ 0 };
	t->point = calloc((size_t)t->steps + 1, sizeof *t->point);
	t->iteration = calloc(HT_TRACE_RUNS, sizeof *t->iteration);
	if (t->point && t->iteration)
		return true;
	free(t->point);
	t->point = NULL;
	return false;
}

static void put(struct ht_trace_ring *r, uint64_t of, int64_t begin, int64_t end)
{
	r->event[r->at] = (struct ht_trace_event){ begin, end, of };
	r->at = r->at + 1 < r->cap ? r->at + 1 : 0;
	r->n++;
}

/* ---- during a run ---- */

/* No worker has passed a point yet. */
static void clear_points(struct ht_trace *t)
{
	for (int i = 0; i < t->workers; i++) {
		int64_t *line = &t->last[HT_TRACE_LAST * i];

		line[FORWARD] = line[BACKWARD] = 0;
	}
}

/* Kernels of a point may run several times in a run, and on several threads: the first beginning
 * and the last end count. */
static void pass(int64_t *line, uint8_t point, int64_t begin, int64_t end)
{
	if (point & HT_TRACE_FORWARD && !line[FORWARD])
		line[FORWARD] = begin;
	if (point & HT_TRACE_BACKWARD)
		line[BACKWARD] = end;
}

static void add_iteration(struct ht_trace *t, const struct ht_trace_iteration *x)
{
	struct ht_trace_iterations *all = &t->iterations;

	t->iteration[all->n++ % HT_TRACE_RUNS] = *x;
	all->ns += x->end - (x->before ? x->before : x->forward);
	all->forward_ns += x->backward - x->forward;
	all->refresh_ns += x->end - x->backward;
	if (!x->before)
		return;
	all->gaps++;
	all->gap_ns += x->forward - x->before;
}

/* Records an iteration, unless the run did not pass both points in this order. */
static void end_iteration(struct ht_trace *t, int64_t end)
{
	struct ht_trace_iteration x = { .run = t->runs.n - 1, .before = t->before, .end = end };

	for (int i = 0; i < t->workers; i++) {
		const int64_t *line = &t->last[HT_TRACE_LAST * i];

		if (line[FORWARD] && (!x.forward || line[FORWARD] < x.forward))
			x.forward = line[FORWARD];
		if (line[BACKWARD] > x.backward)
			x.backward = line[BACKWARD];
	}
	if (x.forward && x.backward >= x.forward)
		add_iteration(t, &x);
	t->before = end;
}

void ht_trace_run_begin(struct ht_trace *t)
{
	if (t->point)
		clear_points(t);
	t->last[0] = ht_now_ns();
	put(&t->runs, t->runs.n, t->last[0], t->last[0]);
}

void ht_trace_run_end(struct ht_trace *t)
{
	struct ht_trace_event *run = &t->runs.event[(t->runs.n - 1) % t->runs.cap];

	run->end = ht_now_ns();
	t->run_ns += run->end - run->begin;
	if (t->point)
		end_iteration(t, run->end);
}

void ht_trace_begin(struct ht_trace *t, int worker)
{
	t->last[HT_TRACE_LAST * worker + BEGAN] = ht_now_ns();
}

void ht_trace_end(struct ht_trace *t, uint32_t step, int worker, int workers)
{
	int64_t *line = &t->last[HT_TRACE_LAST * worker], begin = line[BEGAN], end = ht_now_ns();
	struct ht_trace_total *total = &t->total[(size_t)worker * t->steps + step];

	put(&t->kernels[worker], step, begin, end);
	total->ns += end - begin;
	total->executions += workers == 1 || worker == 0;
	if (t->point && t->point[step])
		pass(line, t->point[step], begin, end);
	line[BEGAN] = end;
}

/* ---- results ---- */

uint64_t ht_trace_kept(const struct ht_trace_ring *r)
{
	return r->n < r->cap ? r->n : r->cap;
}

const struct ht_trace_event *ht_trace_event(const struct ht_trace_ring *r, uint64_t i)
{
	return &r->event[(r->n - ht_trace_kept(r) + i) % r->cap];
}

uint64_t ht_trace_iterations_kept(const struct ht_trace *t)
{
	return t->iterations.n < HT_TRACE_RUNS ? t->iterations.n : HT_TRACE_RUNS;
}

const struct ht_trace_iteration *ht_trace_iteration(const struct ht_trace *t, uint64_t i)
{
	return &t->iteration[(t->iterations.n - ht_trace_iterations_kept(t) + i) % HT_TRACE_RUNS];
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
