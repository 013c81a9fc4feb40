/* Recordings: ring buffers of bounded memory, totals of all runs. */
#include "runtime/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <malloc.h>

enum { STEPS = 3, MANY = 10000000, KEPT = 1000 };

static void keeps_what_fits(void **state)
{
	struct ht_trace *t = ht_trace_new(2, STEPS, 8);
	const struct ht_trace_ring *r = &t->kernels[1];

	(void)state;
	ht_trace_run_begin(t);
	for (uint32_t i = 0; i < 3; i++) {
		ht_trace_begin(t, 1);
		ht_trace_end(t, i, 1, 1);
	}
	ht_trace_run_end(t);
	assert_int_equal(ht_trace_kept(r), 3);
	assert_int_equal(ht_trace_kept(&t->kernels[0]), 0);
	assert_int_equal(ht_trace_lost(t), 0);
	for (uint64_t i = 0; i < 3; i++) {
		const struct ht_trace_event *e = ht_trace_event(r, i);

		assert_int_equal(e->of, i);
		assert_true(e->begin <= e->end);
		assert_true(i == 0 || ht_trace_event(r, i - 1)->end <= e->begin);
	}
	assert_true(t->run_ns >= ht_trace_event(r, 2)->end - ht_trace_event(r, 0)->begin);
	ht_trace_free(t);
}

/* The oldest events are dropped first; memory does not grow. */
static void many_events_take_no_more_memory(void **state)
{
	struct ht_trace *t = ht_trace_new(1, STEPS, KEPT);
	const struct ht_trace_ring *r = &t->kernels[0];
	size_t before = mallinfo2().uordblks;

	(void)state;
	ht_trace_run_begin(t);
	for (uint32_t i = 0; i < MANY; i++)
		ht_trace_end(t, i % STEPS, 0, 1);
	ht_trace_run_end(t);
	assert_int_equal(mallinfo2().uordblks, before);
	assert_int_equal(ht_trace_kept(r), r->cap);
	assert_int_equal(ht_trace_lost(t), MANY - r->cap);
	for (uint64_t i = 0; i < ht_trace_kept(r); i++)
		assert_int_equal(ht_trace_event(r, i)->of, (MANY - r->cap + i) % STEPS);
	assert_int_equal(ht_trace_total(t, 0).executions, (MANY + 2) / 3);
	assert_int_equal(
		ht_trace_total(t, 0).ns + ht_trace_total(t, 1).ns + ht_trace_total(t, 2).ns,
		ht_trace_event(r, r->cap - 1)->end - t->runs.event[0].begin);
	ht_trace_free(t);
}

/* A step whose tiles several threads share is one execution, for the time of all of them. */
static void threads_add_up(void **state)
{
	struct ht_trace *t = ht_trace_new(3, STEPS, 30);
	int64_t ns = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		const struct ht_trace_event *e;

		ht_trace_begin(t, i);
		ht_trace_end(t, 1, i, 3);
		e = ht_trace_event(&t->kernels[i], 0);
		ns += e->end - e->begin;
	}
	assert_int_equal(ht_trace_total(t, 1).executions, 1);
	assert_int_equal(ht_trace_total(t, 1).ns, ns);
	assert_int_equal(ht_trace_total(t, 0).executions, 0);
	ht_trace_free(t);
}

enum { FORWARD_STEP, BOTH_STEP, BACKWARD_STEP };

static void step(struct ht_trace *t, int worker, uint32_t i)
{
	ht_trace_begin(t, worker);
	ht_trace_end(t, i, worker, 2);
}

/* Two workers share the forward kernel, and one of them runs the backward kernel twice. */
static void run(struct ht_trace *t)
{
	ht_trace_run_begin(t);
	step(t, 1, FORWARD_STEP);
	step(t, 0, FORWARD_STEP);
	step(t, 0, BACKWARD_STEP);
	step(t, 1, BACKWARD_STEP);
	step(t, 0, BOTH_STEP);
	ht_trace_run_end(t);
}

/* From the first begin of a forward kernel to the last end of a backward kernel, on any thread. */
static void runs_are_divided(void **state)
{
	struct ht_trace *t = ht_trace_new(2, STEPS, 100);
	const struct ht_trace_iteration *x;
	enum { RUNS = 3 };
	struct ht_trace_iterations sum = { 0 };

	(void)state;
	assert_true(ht_trace_divide(t));
	t->point[FORWARD_STEP] = HT_TRACE_FORWARD;
	t->point[BACKWARD_STEP] = HT_TRACE_BACKWARD;
	ht_trace_run_begin(t); /* a run that passes neither point */
	step(t, 0, BOTH_STEP);
	ht_trace_run_end(t);
	assert_int_equal(t->iterations.n, 0);
	for (int i = 0; i < RUNS; i++)
		run(t);
	assert_int_equal(ht_trace_iterations_kept(t), RUNS);
	for (uint64_t i = 0; i < RUNS; i++) {
		const struct ht_trace_event *r = ht_trace_event(&t->runs, 1 + i);

		x = ht_trace_iteration(t, i);
		assert_int_equal(x->run, 1 + i);
		assert_int_equal(x->before, ht_trace_event(&t->runs, i)->end);
		assert_int_equal(x->forward, ht_trace_event(&t->kernels[1], 2 * i)->begin);
		assert_int_equal(x->backward, ht_trace_event(&t->kernels[1], 2 * i + 1)->end);
		assert_int_equal(x->end, r->end);
		sum.ns += x->end - x->before;
		sum.forward_ns += x->backward - x->forward;
		sum.refresh_ns += x->end - x->backward;
		sum.gap_ns += x->forward - x->before;
	}
	assert_int_equal(t->iterations.gaps, RUNS);
	assert_int_equal(t->iterations.ns, sum.ns);
	assert_int_equal(t->iterations.forward_ns, sum.forward_ns);
	assert_int_equal(t->iterations.refresh_ns, sum.refresh_ns);
	assert_int_equal(t->iterations.gap_ns, sum.gap_ns);
	ht_trace_free(t);
}

/* One kernel may be both points; the last iterations are kept. */
static void iterations_take_no_more_memory(void **state)
{
	struct ht_trace *t = ht_trace_new(1, STEPS, 10);
	size_t before;
	enum { RUNS = 10000 };

	(void)state;
	assert_true(ht_trace_divide(t));
	t->point[BOTH_STEP] = HT_TRACE_FORWARD | HT_TRACE_BACKWARD;
	before = mallinfo2().uordblks;
	for (int i = 0; i < RUNS; i++) {
		ht_trace_run_begin(t);
		ht_trace_end(t, BOTH_STEP, 0, 1);
		ht_trace_run_end(t);
	}
	assert_int_equal(mallinfo2().uordblks, before);
	assert_int_equal(t->iterations.n, RUNS);
	assert_int_equal(t->iterations.gaps, RUNS - 1);
	assert_int_equal(ht_trace_iterations_kept(t), HT_TRACE_RUNS);
	for (uint64_t i = 0; i < HT_TRACE_RUNS; i++)
		assert_int_equal(ht_trace_iteration(t, i)->run, RUNS - HT_TRACE_RUNS + i);
	ht_trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_what_fits),
		cmocka_unit_test(many_events_take_no_more_memory),
		cmocka_unit_test(threads_add_up),
		cmocka_unit_test(runs_are_divided),
		cmocka_unit_test(iterations_take_no_more_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
