/* The runtime: same bits for every number of threads, contexts side by side, faults, fork. */
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>
#include "base/philox.h"
#include "base/poison.h"
#include "kernel/kernel.h"
#include "tests/unit/program.h"

#include <cmocka.h>

enum { N = 64 * 37 };

/* Tile t of 37 computes elements [64 t, 64 t + 64). */
static int32_t scale(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const float *x = b[0], *k = b[1];
	float *y = b[2], *s = scratch;

	(void)params;
	for (int64_t i = begin * 64; i < end * 64; i++) {
		s[i % 64] = x[i] * k[0];
		y[i] = s[i % 64] + 1.0f / 3;
	}
	return 0;
}

static int32_t reverse(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const float *x = b[0];
	float *y = b[1];

	(void)scratch;
	for (int64_t i = begin * 64; i < end * 64; i++)
		y[i] = x[N - 1 - i] + (float)params[0];
	return 0;
}

/* Fails with code 3 in tile 20 if the first input is negative, and with 5 in tile 30. */
static int32_t check(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)scratch;
	for (int64_t t = begin; t < end; t++)
		if (*(const float *)b[0] < 0 && (t == 20 || t == 30))
			return t == 20 ? 3 : 5;
	return 0;
}

/* Stores the modes of the control register. */
static int32_t modes(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)scratch;
	for (int64_t t = begin; t < end; t++)
		((float *)b[0])[t * 64] = (float)(_mm_getcsr() & 0xe040);
	return 0;
}

static const float factor[1] = { 1.7f };
static const struct buffer buffers[] = {
	{ .where = INPUT, .offset = 0 },
	{ .where = CONSTANT, .data = factor },
	{ .where = ARENA, .offset = 0, .bytes = 4 * N },
	{ .where = ARENA, .offset = 4 * N, .bytes = 4 * N },
	{ .where = OUTPUT, .offset = 0 },
};
static const int64_t one[1] = { 1 };
static const int32_t a0[] = { 0, 1, 2 }, a1[] = { 2, 3 }, a2[] = { 3, 1, 2 }, a3[] = { 2, 4 },
		     in[] = { 0 }, out[] = { 4 };
static const struct step steps[] = {
	{ scale, a0, 3, NULL, 0, 37, "first" },
	{ check, in, 1, NULL, 0, 37, "middle" },
	{ reverse, a1, 2, one, 1, 37, "second" },
	{ scale, a2, 3, NULL, 0, 37, "third" },
	{ reverse, a3, 2, one, 1, 37, "last" },
};
static const struct program program = { buffers, 5, steps, 5, NULL, 0, 8 * N, 256, 1, NULL, NULL };
static const struct step mode_steps[] = { { modes, out, 1, NULL, 0, 37, "modes" } };
static const struct program mode_program = { buffers, 5, mode_steps, 1, NULL, 0, 8 * N, 256, 1,
	NULL, NULL };

static float input[N];

static void fill(void)
{
	for (int i = 0; i < N; i++)
		input[i] = (float)(i * 7 % 1001) / 13;
}

static bool run(int threads, float *result)
{
	struct ht_rt_pool *pool = ht_rt_pool_new(threads);
	struct ht_rt_context *c = new_context(&program, pool);
	const void *inputs[1] = { input };
	void *outputs[1] = { result };
	struct ht_rt_fault fault;
	bool good = true;

	for (int i = 0; i < 50 && good; i++)
		good = ht_rt_run(c, inputs, outputs, false, &fault);
	free_context(c);
	ht_rt_pool_free(pool);
	return good;
}

static void test_threads(void **state)
{
	static float expect[N], got[N];

	(void)state;
	fill();
	assert_true(run(1, expect));
	assert_true(expect[0] != 0 && expect[1] != expect[0]);
	for (int threads = 2; threads <= 5; threads++) {
		memset(got, 0, sizeof got);
		assert_true(run(threads, got));
		assert_memory_equal(expect, got, sizeof got);
	}
}

static void test_fault(void **state)
{
	static float got[N];
	const void *inputs[1] = { input };
	void *outputs[1] = { got };

	(void)state;
	fill();
	for (int threads = 1; threads <= 4; threads++) {
		struct ht_rt_pool *pool = ht_rt_pool_new(threads);
		struct ht_rt_context *c = new_context(&program, pool);
		struct ht_rt_fault fault;

		input[0] = -1;
		memset(got, 0, sizeof got);
		assert_false(ht_rt_run(c, inputs, outputs, false, &fault));
		assert_int_equal(fault.code, 3);
		assert_string_equal(stopped_in(c, &fault), "middle");
		assert_true(got[5] == 0);
		input[0] = 1;
		assert_true(ht_rt_run(c, inputs, outputs, false, &fault));
		assert_int_equal(fault.code, 0);
		assert_true(got[5] != 0);
		free_context(c);
		ht_rt_pool_free(pool);
	}
}

/* Stops with the input's first number as code, if that is below zero. */
static int32_t stop(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const float x = *(const float *)b[0];

	(void)params;
	(void)scratch;
	return begin < end && x < 0 ? (int32_t)-x : 0;
}

enum { PARTS = 7 };
static const struct buffer part_buffers[] = {
	{ .where = INPUT, .offset = 0, .bytes = 4 * N },
	{ .where = INPUT, .offset = 1, .bytes = 4, .whole = true },
	{ .where = ARENA, .offset = 0, .bytes = 4 * N },
	{ .where = ARENA, .offset = 4 * N, .bytes = 4 * N },
	{ .where = OUTPUT, .offset = 0, .bytes = 4 * N },
};
static const struct step part_steps[] = {
	{ stop, in, 1, NULL, 0, 1, "looks" },
	{ scale, a0, 3, NULL, 0, 37, "first" },
	{ reverse, a1, 2, one, 1, 37, "second" },
	{ scale, a2, 3, NULL, 0, 37, "third" },
	{ reverse, a3, 2, one, 1, 37, "last" },
};
static const struct program part_program = { part_buffers, 5, part_steps, 5, NULL, 0, 8 * N, 256,
	PARTS, NULL, NULL };
static float batch[PARTS * N], batch_result[PARTS * N];

static bool run_batch(struct ht_rt_context *c, struct ht_rt_fault *fault)
{
	const void *inputs[2] = { batch, factor };
	void *outputs[1] = { batch_result };

	memset(batch_result, 0, sizeof batch_result);
	return ht_rt_run(c, inputs, outputs, false, fault);
}

/* The result of a part is the program's result for it; guarded, profiled, with more threads than
 * parts. */
static void test_parts(void **state)
{
	static float expect[N];
	struct ht_rt_fault fault;

	(void)state;
	for (int how = 0; how < 4 * 4; how++) {
		int threads = (int[]){ 1, 2, 3, 9 }[how % 4];
		struct ht_rt_pool *pool = ht_rt_pool_new(threads);
		struct ht_rt_context *c = new_context(&part_program, pool);

		if (how / 4 >= 2)
			assert_true(ht_rt_context_guard(
				c, how / 4 == 2 ? HT_RT_GUARD_BEHIND : HT_RT_GUARD_BEFORE));
		ht_rt_profile(c, how / 4 == 1);
		for (int i = 0; i < PARTS * N; i++)
			batch[i] = (float)(i * 7 % 1001) / 13 + 1;
		for (int again = 0; again < 3; again++)
			assert_true(run_batch(c, &fault));
		for (int part = 0; part < PARTS; part++) {
			memcpy(input, batch + part * N, sizeof input);
			assert_true(run(1, expect));
			assert_memory_equal(expect, batch_result + part * N, sizeof expect);
		}
		if (how / 4 == 1)
			assert_true(ht_rt_step_ns(c)[1] > 0);
		free_context(c);
		ht_rt_pool_free(pool);
	}
}

/* The first part that stops is reported, whichever thread ran it; later runs succeed. */
static void test_fault_of_part(void **state)
{
	struct ht_rt_fault fault;

	(void)state;
	for (int threads = 1; threads <= 9; threads += 2) {
		struct ht_rt_pool *pool = ht_rt_pool_new(threads);
		struct ht_rt_context *c = new_context(&part_program, pool);

		for (int first = 0; first < PARTS; first++) {
			for (int part = 0; part < PARTS; part++)
				batch[part * N] = part < first ? 1 : (float)-(part + 1);
			assert_false(run_batch(c, &fault));
			assert_int_equal(fault.code, first + 1);
			assert_string_equal(stopped_in(c, &fault), "looks");
			for (int part = 0; part < PARTS; part++)
				batch[part * N] = 1;
			assert_true(run_batch(c, &fault));
			assert_int_equal(fault.code, 0);
		}
		free_context(c);
		ht_rt_pool_free(pool);
	}
}

/* Sleeps so long that the others sleep at a barrier, from which this thread continues ahead of
 * them. */
static void be_late(void)
{
	usleep(3000);
}

struct order {
	int32_t step, code; /* the step at which to stop, or -1, and the code */
	int32_t late_in;    /* step, or -1 */
};

static int32_t obey(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const struct order *x = b[0];

	(void)scratch;
	if (begin == 0 && end > 0 && x->late_in == params[0])
		be_late();
	return begin < end && x->step == params[0] ? x->code : 0;
}

static bool all_whole(void *late, uint32_t constant, int worker, int workers)
{
	(void)constant;
	(void)workers;
	if (*(const bool *)late && worker == 0)
		be_late();
	return true;
}

enum { STEPS = 3, MOST_PARTS = 5, AGAIN = 4, HANGS_AFTER = 300 /* seconds */ };

/* Runs parts of which those in the set `bad` stop in one step, again and again: first while
 * constants are checked and all threads run the first part, then without. */
static void stop_parts(struct ht_rt_context *c, const struct program *p, int bad, int32_t step)
{
	bool *late = p->is_whole_arg;
	struct order order[MOST_PARTS];
	const void *inputs[1] = { order };
	struct ht_rt_fault fault;

	for (int again = 0; again < 2 * AGAIN; again++) {
		*late = again == 0 && p->parts == 1;
		for (int part = 0; part < p->parts; part++) {
			bool stops = bad >> part & 1;
			bool is_late = again == 0 && p->parts > 1 && part == 0;

			order[part] = (struct order){ stops ? step : -1, part + 1,
				is_late ? p->steps - 1 : -1 };
		}
		assert_false(ht_rt_run(c, inputs, NULL, false, &fault));
		assert_int_equal(fault.code, __builtin_ctz((unsigned)bad) + 1);
		assert_string_equal(stopped_in(c, &fault), p->step[step].node);
		if (again < AGAIN - 1)
			continue;
		memset(order, 0xff, sizeof order);
		assert_true(ht_rt_run(c, inputs, NULL, false, &fault));
		assert_int_equal(fault.code, 0);
	}
}

/* No thread takes the fault of a part that another thread is running for the fault of a part that
 * both have run. */
static void test_fault_ahead(void **state)
{
	static const struct buffer some[] = {
		{ .where = INPUT, .bytes = sizeof(struct order) },
		{ .where = CONSTANT, .data = factor },
	};
	static const int32_t args[] = { 0, 1 };
	static const int64_t number[STEPS] = { 0, 1, 2 };
	struct ht_rt_pool *pool = ht_rt_pool_new(2);
	bool late;

	(void)state;
	alarm(HANGS_AFTER);
	for (int how = 0; how < 2 * 2 * 3; how++) {
		const int tiles = how % 2 + 1, parts = (int[]){ 1, 3, MOST_PARTS }[how / 4];
		const int32_t count = how / 2 % 2 ? STEPS : 1;
		const struct step step[STEPS] = {
			{ obey, args, 2, &number[0], 1, tiles, "first" },
			{ obey, args, 2, &number[1], 1, tiles, "second" },
			{ obey, args, 2, &number[2], 1, tiles, "third" },
		};
		const struct program p = { some, 2, step, count, NULL, 0, 64, 64, parts, all_whole,
			&late };

		for (int bad = 1; bad < 1 << parts; bad += parts)
			for (int32_t i = 0; i < count; i++) {
				struct ht_rt_context *c = new_context(&p, pool);

				stop_parts(c, &p, bad, i);
				free_context(c);
			}
	}
	alarm(0);
	ht_rt_pool_free(pool);
}

static void *side(void *arg)
{
	return run(2, arg) ? arg : NULL;
}

static void test_side_by_side(void **state)
{
	static float expect[N], got[3][N];
	pthread_t t[3];
	void *r;

	(void)state;
	fill();
	assert_true(run(1, expect));
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, side, got[i]), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], &r);
		assert_ptr_equal(r, got[i]);
		assert_memory_equal(expect, got[i], sizeof expect);
	}
}

struct shared {
	struct ht_rt_pool *pool;
	float *result;
};

static void *borrow(void *arg)
{
	struct shared *s = arg;
	struct ht_rt_context *c = new_context(&program, s->pool);
	const void *inputs[1] = { input };
	void *outputs[1] = { s->result };
	struct ht_rt_fault fault;

	for (int i = 0; i < 30; i++)
		if (!ht_rt_run(c, inputs, outputs, false, &fault))
			s->result[0] = -1;
	free_context(c);
	return NULL;
}

static void test_one_pool(void **state)
{
	static float expect[N], got[3][N];
	struct ht_rt_pool *pool = ht_rt_pool_new(2);
	struct shared s[3];
	pthread_t t[3];

	(void)state;
	fill();
	assert_true(run(1, expect));
	for (int i = 0; i < 3; i++) {
		s[i] = (struct shared){ pool, got[i] };
		assert_int_equal(pthread_create(&t[i], NULL, borrow, &s[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		assert_memory_equal(expect, got[i], sizeof expect);
	}
	ht_rt_pool_free(pool);
}

static void test_fork(void **state)
{
	static float expect[N], got[N];
	struct ht_rt_pool *pool = ht_rt_pool_new(3);
	struct ht_rt_context *c = new_context(&program, pool);
	const void *inputs[1] = { input };
	void *outputs[1] = { got };
	struct ht_rt_fault fault;
	pid_t child;
	int status;

	(void)state;
	fill();
	assert_true(run(1, expect));
	assert_true(ht_rt_run(c, inputs, outputs, false, &fault));
	child = fork();
	if (child == 0) {
		bool good;

		alarm(20);
		memset(got, 0, sizeof got);
		good = ht_rt_run(c, inputs, outputs, false, &fault) &&
		       ht_rt_run(c, inputs, outputs, false, &fault) &&
		       memcmp(expect, got, sizeof got) == 0;
		free_context(c);
		ht_rt_pool_free(pool);
		_exit(good ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(ht_rt_run(c, inputs, outputs, false, &fault));
	assert_memory_equal(expect, got, sizeof got);
	free_context(c);
	ht_rt_pool_free(pool);
}

static void test_modes(void **state)
{
	static float got[N];
	struct ht_rt_pool *pool = ht_rt_pool_new(3);
	struct ht_rt_context *c = new_context(&mode_program, pool);
	const void *inputs[1] = { input };
	void *outputs[1] = { got };
	struct ht_rt_fault fault;
	unsigned before;

	(void)state;
	fesetround(FE_UPWARD);
	_mm_setcsr(_mm_getcsr() | 0x8000);
	before = _mm_getcsr();
	assert_true(ht_rt_run(c, inputs, outputs, false, &fault));
	for (int t = 0; t < 37; t++)
		assert_true(got[t * 64] == 0);
	assert_true(ht_rt_run(c, inputs, outputs, true, &fault));
	for (int t = 0; t < 37; t++)
		assert_true(got[t * 64] == 0x8040);
	assert_int_equal(_mm_getcsr() & 0xffc0, before & 0xffc0);
	fesetround(FE_TONEAREST);
	_mm_setcsr(_mm_getcsr() & ~0x8000u);
	free_context(c);
	ht_rt_pool_free(pool);
}

static void test_profile(void **state)
{
	static float got[N];
	struct ht_rt_pool *pool = ht_rt_pool_new(2);
	struct ht_rt_context *c = new_context(&program, pool);
	const void *inputs[1] = { input };
	void *outputs[1] = { got };
	struct ht_rt_fault fault;
	const int64_t *ns;

	(void)state;
	fill();
	assert_null(ht_rt_step_ns(c));
	ht_rt_profile(c, true);
	assert_true(ht_rt_run(c, inputs, outputs, false, &fault));
	ns = ht_rt_step_ns(c);
	assert_non_null(ns);
	for (int i = 0; i < program.steps; i++)
		assert_true(ns[i] > 0);
	free_context(c);
	ht_rt_pool_free(pool);
}

/* ---- streams of random numbers ---- */

/* Copies the states of two streams; stops in every third run. */
static int32_t copy_states(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	struct ht_philox *copy = b[2];
	const int *run = b[3];

	(void)params;
	(void)scratch;
	for (int64_t t = begin; t < end; t++)
		memcpy(&copy[t], b[t], sizeof *copy);
	return *run % 3 == 2 ? HT_FAULT_INDEX : 0;
}

static int32_t skip_blocks(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	ht_philox_skip(b[0], UINT64_MAX);
	ht_philox_skip(b[1], 5);
	return 0;
}

static const struct buffer stream_buffers[] = {
	{ .where = STREAM, .offset = 1, .bytes = sizeof(struct ht_philox) },
	{ .where = STREAM, .offset = 0, .bytes = sizeof(struct ht_philox) },
	{ .where = OUTPUT, .offset = 0, .bytes = 2 * sizeof(struct ht_philox) },
	{ .where = INPUT, .offset = 0, .bytes = sizeof(int) }
};
static const struct ht_image_stream two_streams[] = { { 3, 0, 77 }, { 0, 0, 88 } };

static void expect_states(const struct ht_philox *got, uint64_t seed, int runs)
{
	struct ht_philox want[2] = { ht_philox_named(seed, 88), ht_philox_init(3, 0) };

	for (int i = 0; i < runs; i++) {
		ht_philox_skip(&want[0], UINT64_MAX);
		ht_philox_skip(&want[1], 5);
	}
	assert_memory_equal(got, want, sizeof want);
}

/* guard: 0, or a side + 1. */
static void run_streams(int threads, int guard)
{
	static const int32_t args[] = { 0, 1, 2, 3 };
	static const struct step step[] = { { copy_states, args, 4, NULL, 0, 2, "s" },
		{ skip_blocks, args, 2, NULL, 0, 1, "t" } };
	static const struct program p = { stream_buffers, 4, step, 2, two_streams, 2, 64, 64, 1,
		NULL, NULL };
	struct ht_rt_pool *pool = ht_rt_pool_new(threads);
	struct ht_rt_context *c = new_context(&p, pool);
	struct ht_rt_fault fault;
	struct ht_philox got[2];

	assert_int_equal(ht_rt_unseeded(program_of(c)), 1);
	if (guard)
		assert_true(ht_rt_context_guard(c, (enum ht_rt_guard)(guard - 1)));
	for (uint64_t seed = 0; seed < 3; seed++) {
		if (seed) /* a new context has 0 */
			ht_rt_context_seed(c, seed);
		for (int run = 0; run < 5; run++) {
			bool good = ht_rt_run(
				c, (const void *[]){ &run }, (void *[]){ got }, false, &fault);

			assert_int_equal(good, run % 3 != 2);
			/* a run that failed advanced no stream */
			expect_states(got, seed, run - run / 3);
		}
	}
	free_context(c);
	ht_rt_pool_free(pool);
}

static void test_streams(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 2; threads++)
		for (int guard = 0; guard <= 2; guard++)
			run_streams(threads, guard);
}

/* Reads or writes outside of its buffers by the number of elements in its parameters. */
static int32_t stray(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const volatile float *x = b[0], *k = b[1];
	volatile float *t = b[2], *y = b[3], *s = scratch;

	(void)begin;
	(void)end;
	y[5] = t[3]; /* not written yet */
	t[params[0]] = x[params[1]] + k[params[2]];
	s[params[3]] = 1;
	y[params[4]] = x[0] + k[0];
	return 0;
}

/* Whether a run in a child ends by SIGSEGV; a sanitizer may catch it, and then ends the child with
 * 1. */
static bool strays(enum ht_rt_guard side, const int64_t *at)
{
	static const float k[3] = { 2, 3, 4 };
	static float x[7] = { 1, 2, 3, 4, 5, 6, 7 }, y[7];
	const struct buffer some[] = { { .where = INPUT, .bytes = sizeof x },
		{ .where = CONSTANT, .data = k, .bytes = sizeof k },
		{ .where = ARENA, .bytes = 20 }, { .where = OUTPUT, .bytes = sizeof y },
		{ .where = ARENA, .offset = 64 } };
	const int32_t args[] = { 0, 1, 2, 3, 4 };
	const struct step step[] = { { stray, args, 5, at, 5, 2, "stray" } };
	const struct program p = { some, 5, step, 1, NULL, 0, 128, 64, 1, NULL, NULL };
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct ht_rt_pool *pool = ht_rt_pool_new(2);
		struct ht_rt_context *c = new_context(&p, pool);
		struct ht_rt_fault fault;
		bool good;

		signal(SIGSEGV, SIG_DFL);
		good = ht_rt_context_guard(c, side) &&
		       ht_rt_run(c, (const void *[]){ x }, (void *[]){ y }, false, &fault) &&
		       y[at[4]] == 3 && isnan(y[5]);
		free_context(c);
		ht_rt_pool_free(pool);
		_exit(good ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) == 1)
		return true;
	assert_int_equal(status, 0);
	return false;
}

static void test_guard(void **state)
{
	static const int64_t last[5] = { 4, 6, 2, 15, 6 }, first[5] = { 0 };

	(void)state;
	assert_false(strays(HT_RT_GUARD_BEHIND, last));
	assert_false(strays(HT_RT_GUARD_BEFORE, last));
	assert_false(strays(HT_RT_GUARD_BEHIND, first));
	assert_false(strays(HT_RT_GUARD_BEFORE, first));
	for (int i = 0; i < 5; i++) {
		int64_t behind[5], before[5] = { 0 };

		memcpy(behind, last, sizeof behind);
		behind[i]++;
		before[i]--;
		assert_true(strays(HT_RT_GUARD_BEHIND, behind));
		assert_true(strays(HT_RT_GUARD_BEFORE, before));
	}
}

#if HT_POISONS
static int poisoned[3];    /* by step: bit i is set if arena buffer i is poisoned */
static bool begins_as_nan; /* the second */

/* The arena begins with the first buffer, whichever of the two comes first. */
static int32_t look(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	char *arena = (char *)b[0] - (params[0] == 2 ? 64 : 0);

	(void)scratch;
	for (int i = 0; i < 2 && begin == 0; i++)
		poisoned[params[0]] |= __asan_address_is_poisoned(arena + 64 * i) << i;
	if (params[0] == 1 && begin == 0)
		begins_as_nan = isnan(*(const float *)b[1]) && isnan(*(const float *)scratch);
	return end > 2;
}

static void test_lives(void **state)
{
	static const struct buffer two[] = { { .where = ARENA, .bytes = 64 },
		{ .where = ARENA, .offset = 64, .bytes = 64 } };
	static const int32_t first[] = { 0 }, both[] = { 0, 1 }, second[] = { 1 };
	static const int64_t number[] = { 0, 1, 2 };
	static const struct step step[] = {
		{ look, first, 1, &number[0], 1, 2, "makes" },
		{ look, both, 2, &number[1], 1, 2, "reads and makes" },
		{ look, second, 1, &number[2], 1, 2, "reads" },
	};
	static const struct program p = { two, 2, step, 3, NULL, 0, 128, 64, 1, NULL, NULL };

	(void)state;
	for (int threads = 1; threads <= 2; threads++) {
		struct ht_rt_pool *pool = ht_rt_pool_new(threads);
		struct ht_rt_context *c = new_context(&p, pool);
		struct ht_rt_fault fault;

		memset(poisoned, 0, sizeof poisoned);
		begins_as_nan = false;
		assert_true(ht_rt_run(c, NULL, NULL, false, &fault));
		assert_int_equal(poisoned[0], 2);
		assert_int_equal(poisoned[1], 0);
		assert_int_equal(poisoned[2], 1);
		assert_true(begins_as_nan);
		assert_null(__asan_region_is_poisoned((void *)(uintptr_t)ht_rt_arena(c), 128));
		free_context(c);
		ht_rt_pool_free(pool);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_fault),
		cmocka_unit_test(test_fault_of_part),
		cmocka_unit_test(test_fault_ahead),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_one_pool),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_streams),
#if HT_POISONS
		cmocka_unit_test(test_lives),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
