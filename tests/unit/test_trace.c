/* Recordings: rings of bounded memory, totals of all that ran. */
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

/* The oldest go first; memory does not grow. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_what_fits),
		cmocka_unit_test(many_events_take_no_more_memory),
		cmocka_unit_test(threads_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
