/* Limits of time, turns of runs, and the cores on which they run.  Nothing depends on the speed of
 * the machine: a run that must take longer than a limit waits until it has. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/cores.h"
#include "runtime/turns.h"
#include "tests/unit/program.h"

#include <cmocka.h>

enum { LIMIT = 1000000 /* ns */, GENEROUS = 2000000000 };

static void outlast(int64_t ns)
{
	int64_t begin = ht_now_ns();

	while (ht_now_ns() - begin <= ns)
		sched_yield();
}

static bool is_leader(void)
{
	return getpid() == gettid();
}

/* ---- limits within a run ---- */

static int32_t quick(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)b, (void)params, (void)begin, (void)end, (void)scratch;
	return 0;
}

static int32_t slow(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)b, (void)params, (void)begin, (void)end, (void)scratch;
	outlast(2 * LIMIT);
	return 0;
}

/* Two threads meet here, so that each computes one of two tiles. */
static int arrived;
static void meet(void)
{
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2)
		sched_yield();
}

static int32_t slow_elsewhere(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)b, (void)params, (void)begin, (void)end, (void)scratch;
	meet();
	if (!is_leader())
		outlast(5 * LIMIT);
	return 0;
}

static const struct buffer buffers[] = { { .where = INPUT, .bytes = 4 } };
static const int32_t args[] = { 0 };
static const void *const inputs[] = { &(int32_t){ 0 } };

static struct program program_of_steps(const struct step *s, int32_t n)
{
	return (struct program){
		.buffer = buffers, .buffers = 1, .step = s, .steps = n, .parts = 1
	};
}

static bool run(const struct program *p, int threads, const uint64_t limit[HT_RT_LIMITS],
	struct ht_rt_fault *fault, char *node)
{
	struct ht_rt_pool *pool = ht_rt_pool_new(threads);
	struct ht_rt_context *c = new_context(p, pool);
	bool good;

	assert_true(ht_rt_context_limits(c, limit));
	good = ht_rt_run(c, inputs, NULL, false, fault);
	node[0] = 0;
	if (!good)
		strcpy(node, stopped_in(c, fault));
	free_context(c);
	ht_rt_pool_free(pool);
	return good;
}

/* Each limit alone stops the run at the expected place; with more time the run finishes. */
static void each_limit_stops(void **state)
{
	static const struct step first_slow[] = { { slow, args, 1, NULL, 0, 2, "slow" },
		{ quick, args, 1, NULL, 0, 2, "quick" } };
	static const struct {
		enum ht_rt_limit limit;
		int32_t steps;
		const char *node; /* NULL: the run succeeds */
	} of[] = {
		{ HT_RT_RUN, 2, "quick" },
		{ HT_RT_SYNC, 2, "quick" },
		{ HT_RT_KERNEL, 2, "slow" },
		{ HT_RT_KERNEL, 1, "slow" }, /* also the last kernel of the run */
		{ HT_RT_TURN, 2, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		for (int threads = 1; threads <= 3; threads++) {
			struct program p = program_of_steps(first_slow, of[i].steps);
			uint64_t limit[HT_RT_LIMITS] = { 0 };
			struct ht_rt_fault fault;
			char node[32];

			limit[of[i].limit] = LIMIT;
			assert_int_equal(run(&p, threads, limit, &fault, node), !of[i].node);
			if (of[i].node) {
				assert_int_equal(fault.code, HT_EXEC_LATE);
				assert_int_equal(fault.limit, of[i].limit);
				assert_int_equal(fault.limit_ns, LIMIT);
				assert_true(fault.took_ns > LIMIT);
				assert_string_equal(node, of[i].node);
			}
			limit[of[i].limit] = (uint64_t)100 * GENEROUS;
			assert_true(run(&p, threads, limit, &fault, node));
			assert_int_equal(fault.code, 0);
		}
}

static void waits_for_threads_are_limited(void **state)
{
	static const struct step steps[] = { { slow_elsewhere, args, 1, NULL, 0, 2, "parallel" },
		{ quick, args, 1, NULL, 0, 1, "next" } };
	const struct program p = program_of_steps(steps, 2);
	const uint64_t limit[HT_RT_LIMITS] = { [HT_RT_WAIT] = LIMIT };
	struct ht_rt_fault fault;
	char node[32];

	(void)state;
	/* On a busy machine the leading thread itself may arrive late at the barrier. */
	for (int again = 0; again < 1000; again++) {
		arrived = 0;
		if (!run(&p, 2, limit, &fault, node))
			break;
	}
	assert_int_equal(fault.limit, HT_RT_WAIT);
	assert_true(fault.took_ns > LIMIT);
	assert_string_equal(node, "next");
}

/* ---- turns ---- */

struct runner {
	pthread_t thread;
	const struct program *p;
	struct ht_rt_turns *turns;
	uint64_t limit[HT_RT_LIMITS];
	int32_t cancel;
	struct ht_rt_fault fault;
	bool good;
};

/* The number of running kernels, the most that ran at once, and whether they may end. */
static int running, most_running, go;
static int32_t stay(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	int n = __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);

	(void)b, (void)params, (void)begin, (void)end, (void)scratch;
	for (int most = most_running; n > most;)
		if (__atomic_compare_exchange_n(
			    &most_running, &most, n, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			break;
	while (!__atomic_load_n(&go, __ATOMIC_SEQ_CST))
		sched_yield();
	__atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void *run_in_turn(void *arg)
{
	struct runner *r = arg;
	struct ht_rt_pool *pool = ht_rt_pool_new(1);
	struct made *m = make_program(r->p);
	struct ht_rt_context *c;

	m->rt.turns = r->turns;
	c = new_context_of(m, pool);
	assert_true(ht_rt_context_limits(c, r->limit));
	ht_rt_context_limit(c, UINT64_MAX, &r->cancel);
	r->good = ht_rt_run(c, inputs, NULL, false, &r->fault);
	free_context(c);
	ht_rt_pool_free(pool);
	return NULL;
}

static void start(struct runner *r)
{
	assert_int_equal(pthread_create(&r->thread, NULL, run_in_turn, r), 0);
}

static void until_waiting(struct ht_rt_turns *t, size_t n)
{
	while (ht_turns_waiting(t) != n)
		sched_yield();
}

static const struct step stay_steps[] = { { stay, args, 1, NULL, 0, 1, "stay" } };

static void until_running(int n)
{
	while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) != n)
		sched_yield();
}

/* Two run, the others wait; all finish, and there were never more than two at once. */
static void no_more_than_have_turns(void **state)
{
	enum { RUNNERS = 6, MOST = 2 };
	const struct program p = program_of_steps(stay_steps, 1);
	struct ht_rt_turns *turns = ht_rt_turns_new(MOST);
	struct runner r[RUNNERS];

	(void)state;
	go = most_running = 0;
	for (int i = 0; i < RUNNERS; i++) {
		r[i] = (struct runner){ .p = &p, .turns = turns };
		start(&r[i]);
	}
	until_running(MOST);
	until_waiting(turns, RUNNERS - MOST);
	assert_int_equal(__atomic_load_n(&running, __ATOMIC_SEQ_CST), MOST);
	__atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < RUNNERS; i++) {
		pthread_join(r[i].thread, NULL);
		assert_true(r[i].good);
	}
	assert_int_equal(most_running, MOST);
	assert_int_equal(ht_turns_waiting(turns), 0);
	ht_rt_turns_free(turns);
}

/* A waiting run ends by its shortest limit, or when it is cancelled; the running one is not
 * affected. */
static void waiting_ends(void **state)
{
	static const struct {
		uint64_t limit[HT_RT_LIMITS];
		int32_t cancel;
		enum ht_rt_limit which;
	} of[] = {
		{ { [HT_RT_TURN] = LIMIT }, 0, HT_RT_TURN },
		{ { [HT_RT_WAIT] = LIMIT }, 0, HT_RT_WAIT },
		{ { [HT_RT_SYNC] = LIMIT }, 0, HT_RT_SYNC },
		{ { [HT_RT_SYNC] = LIMIT, [HT_RT_TURN] = GENEROUS }, 0, HT_RT_SYNC },
		{ { [HT_RT_RUN] = LIMIT }, 1, 0 },
		{ { 0 }, 1, 0 },
	};
	const struct program p = program_of_steps(stay_steps, 1);
	struct ht_rt_turns *turns = ht_rt_turns_new(1);
	struct runner first = { .p = &p, .turns = turns };

	(void)state;
	go = 0;
	start(&first);
	until_running(1);
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct runner r = { .p = &p, .turns = turns };

		memcpy(r.limit, of[i].limit, sizeof r.limit);
		start(&r);
		if (of[i].cancel) {
			until_waiting(turns, 1);
			__atomic_store_n(&r.cancel, 1, __ATOMIC_RELAXED);
		}
		pthread_join(r.thread, NULL);
		assert_false(r.good);
		assert_int_equal(r.fault.code, of[i].cancel ? HT_EXEC_CANCELLED : HT_EXEC_LATE);
		assert_int_equal(r.fault.step, HT_RT_NO_STEP);
		assert_int_equal(r.fault.limit, of[i].which);
		assert_true(of[i].cancel || r.fault.took_ns >= LIMIT);
		assert_int_equal(ht_turns_waiting(turns), 0);
	}
	__atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
	pthread_join(first.thread, NULL);
	assert_true(first.good);
	ht_rt_turns_free(turns);
}

/* A run that gave up waiting gets no turn, which then stays free. */
static void no_turn_for_who_left(void **state)
{
	struct ht_rt_turns *turns = ht_rt_turns_new(1);
	const struct program p = program_of_steps(stay_steps, 1);
	struct runner first = { .p = &p, .turns = turns },
		      hasty = { .p = &p, .turns = turns, .limit = { [HT_RT_TURN] = 1 } };

	(void)state;
	go = 0;
	start(&first);
	until_running(1);
	start(&hasty);
	pthread_join(hasty.thread, NULL);
	assert_false(hasty.good);
	__atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
	pthread_join(first.thread, NULL);
	assert_int_equal(ht_turn_take(turns, 0, NULL), HT_TURN_TAKEN);
	assert_int_equal(ht_turn_take(turns, 0, NULL), HT_TURN_LATE);
	ht_turn_give(turns);
	assert_int_equal(ht_turn_take(turns, 0, NULL), HT_TURN_TAKEN);
	ht_turn_give(turns);
	ht_rt_turns_free(turns);
}

/* A child process has no run of its parent. */
static void child_begins_anew(void **state)
{
	struct ht_rt_turns *turns = ht_rt_turns_new(1);
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(ht_turn_take(turns, 0, NULL), HT_TURN_TAKEN);
	child = fork();
	if (!child)
		_exit(ht_turn_take(turns, 0, NULL) == HT_TURN_TAKEN ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	ht_turn_give(turns);
	ht_rt_turns_free(turns);
}

/* ---- cores ---- */

static char folder[] = "/tmp/halftone-limits-XXXXXX";

static void put_node(int n, const char *list)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/node%d", folder, n);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(path, sizeof path, "%s/node%d/cpulist", folder, n);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(list, f);
	fclose(f);
}

static void devices_are_nodes(void **state)
{
	struct ht_cores cores;
	cpu_set_t want;

	(void)state;
	assert_non_null(mkdtemp(folder));
	put_node(0, "0-2,5,8-9\n");
	put_node(1, "\n"); /* memory alone */
	put_node(3, "3\n");
	assert_true(ht_device_cores(folder, 0, &cores));
	CPU_ZERO(&want);
	for (const char *at = "012589"; *at; at++)
		CPU_SET((size_t)(*at - '0'), &want);
	assert_true(CPU_EQUAL(&want, &cores.set));
	assert_false(ht_device_cores(folder, 1, &cores));
	assert_false(ht_device_cores(folder, 2, &cores));
	assert_true(ht_device_cores(folder, 3, &cores));
	assert_int_equal(CPU_COUNT(&cores.set), 1);
	assert_true(CPU_ISSET(3, &cores.set));
	assert_false(ht_device_cores(folder, -1, &cores));
	assert_false(ht_device_cores(folder, 1 << 20, &cores));
}

/* The processors on which each thread may run, as the system reports in /proc. */
static struct {
	cpu_set_t leader, other;
} seen;

static void read_allowed(cpu_set_t *out)
{
	char path[64], line[4096];
	unsigned long long mask = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)gettid());
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Cpus_allowed: %llx", &mask) == 1)
			break;
	if (f)
		fclose(f);
	CPU_ZERO(out);
	for (size_t i = 0; i < 64; i++) /* the first part of a mask has the highest cores */
		if (mask >> i & 1)
			CPU_SET(i, out);
}

static int32_t look(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)b, (void)params, (void)begin, (void)end, (void)scratch;
	read_allowed(is_leader() ? &seen.leader : &seen.other);
	meet();
	return 0;
}

/* The leading thread and the others run on one core; after a run the leading one may run where it
 * might before. */
static void runs_stay_on_their_cores(void **state)
{
	static const struct step steps[] = { { look, args, 1, NULL, 0, 2, "look" } };
	const struct program p = program_of_steps(steps, 1);
	struct ht_cores before, after, one = { 0 };
	struct ht_rt_pool *pool;
	struct ht_rt_context *c;
	struct ht_rt_fault fault;
	size_t last = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof before.set, &before.set), 0);
	for (size_t i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &before.set))
			last = i;
	if (CPU_COUNT(&before.set) < 2 || last >= 32)
		skip(); /* read_allowed() only reads masks of one part */
	CPU_SET(last, &one.set);
	pool = ht_rt_pool_new_on(2, &one);
	c = new_context(&p, pool);
	ht_rt_context_cores(c, &one);
	for (int again = 0; again < 2; again++) {
		memset(&seen, 0, sizeof seen);
		arrived = 0;
		assert_true(ht_rt_run(c, inputs, NULL, false, &fault));
		assert_true(CPU_EQUAL(&seen.leader, &one.set));
		assert_true(CPU_EQUAL(&seen.other, &one.set));
		assert_int_equal(sched_getaffinity(0, sizeof after.set, &after.set), 0);
		assert_true(CPU_EQUAL(&before.set, &after.set));
	}
	free_context(c);
	ht_rt_pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_limit_stops),
		cmocka_unit_test(waits_for_threads_are_limited),
		cmocka_unit_test(no_more_than_have_turns),
		cmocka_unit_test(waiting_ends),
		cmocka_unit_test(no_turn_for_who_left),
		cmocka_unit_test(child_begins_anew),
		cmocka_unit_test(devices_are_nodes),
		cmocka_unit_test(runs_stay_on_their_cores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
