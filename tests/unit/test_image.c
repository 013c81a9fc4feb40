/* Images built by hand and run by the executor, with kernels in C: calls, forks, branches, loops, faults
 * and limits, with 1 to 4 threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "image/build.h"
#include "image/execute.h"
#include "image/verify.h"
#include "runtime/pool.h"

#include <cmocka.h>

enum { MAX_THREADS = 4, TILE = 16, TILES = 23, N = TILE * TILES };

/* ---- kernels ---- */

/* out[i] = a[i] + b[0] */
static int32_t add(void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const int32_t *a = b[0], *c = b[1];
	int32_t *out = b[2];

	(void)params;
	memset(scratch, 1, 64);
	for (int64_t i = begin * TILE; i < end * TILE; i++)
		out[i] = a[i] + c[0];
	return 0;
}

/* out[i] = a[n - 1 - i] + params[0] */
static int32_t reverse(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const int32_t *a = b[0];
	int32_t *out = b[1];

	(void)scratch;
	for (int64_t i = begin * TILE; i < end * TILE; i++)
		out[i] = a[N - 1 - i] + (int32_t)params[0];
	return 0;
}

/* out = a + params[0], a scalar. */
static int32_t step(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)begin;
	(void)end;
	(void)scratch;
	*(int32_t *)b[1] = *(const int32_t *)b[0] + (int32_t)params[0];
	return 0;
}

/* Is a < b? */
static int32_t less(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	*(uint8_t *)b[2] = *(const int32_t *)b[0] < *(const int32_t *)b[1];
	return 0;
}

/* Stops with code 3 in the first tile that has a negative number. */
static int32_t positive(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const int32_t *a = b[0];

	(void)params;
	(void)scratch;
	for (int64_t i = begin * TILE; i < end * TILE; i++)
		if (a[i] < 0)
			return -a[i];
	return 0;
}

enum { ADD, REVERSE, STEP, LESS, POSITIVE, KERNELS };
static ht_exec_fn *const function[KERNELS] = { add, reverse, step, less, positive };

/* ---- building ---- */

struct image {
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_image_builder b;
	struct ht_str bytes;
	struct ht_exec_limits limits;
	int32_t cancel;
};

static void put_kernels(struct ht_image_builder *b)
{
	const struct ht_image_touch wide = { 4 * N, 0, 0 }, wide_out = { 4 * N, 1, 0 },
				    one = { 4, 0, 0 }, one_out = { 4, 1, 0 }, flag = { 1, 1, 0 };
	const struct ht_image_touch touch[KERNELS][3] = { { wide, one, wide_out },
		{ wide, wide_out }, { one, one_out }, { one, one, flag }, { wide } };
	static const size_t args[KERNELS] = { 3, 2, 2, 3, 1 }, params[KERNELS] = { 0, 1, 1, 0, 0 };

	for (int i = 0; i < KERNELS; i++)
		ht_image_put_kernel(b, "", touch[i], args[i], params[i], i == ADD ? 64 : 0);
}

static struct image *begin(void)
{
	struct image *m = calloc(1, sizeof *m);

	m->limits = (struct ht_exec_limits)HT_EXEC_LIMITS_INIT;
	ht_arena_init(&m->arena, NULL);
	ht_image_begin(&m->b, &m->arena);
	put_kernels(&m->b);
	return m;
}

static void done(struct image *m)
{
	ht_arena_release(&m->arena);
	free(m);
}

static uint32_t buffer(struct image *m, enum ht_image_kind kind, uint64_t at, uint64_t bytes)
{
	return ht_image_put_buffer(
		&m->b, (struct ht_image_buffer){ .kind = kind,
			       .number = kind == HT_IMAGE_CONST ? (uint32_t)at : 0,
			       .offset = kind == HT_IMAGE_TEMP ? at : 0,
			       .bytes = bytes,
			       .written = kind == HT_IMAGE_PARAM && at });
}

static uint32_t put(struct image *m, enum ht_image_op op, uint32_t to, uint32_t count, size_t args,
	const uint32_t *arg, size_t params, const int64_t *param)
{
	const struct ht_image_note_text note = { .node = HT_STR("node") };

	return ht_image_put_step(&m->b,
		(struct ht_image_step){ .op = op, .to = to, .count = count }, arg, args, param,
		params, &note);
}

#define ARGS(...)                                                                                  \
	sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, (uint32_t[])                                      \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define PARAMS(...)                                                                                \
	sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[])                                        \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define NONE 0, NULL

static void entry(struct image *m, uint32_t procedure, int64_t in, int64_t out)
{
	const struct ht_image_port_text i = { .name = HT_STR("x"),
		.dtype = HT_I32,
		.shape = ht_shape_make(&m->arena, 1, &in),
		.bytes = 4 * (uint64_t)in },
					o = { .name = HT_STR("y"),
						.dtype = HT_I32,
						.shape = ht_shape_make(&m->arena, 1, &out),
						.bytes = 4 * (uint64_t)out };
	const char *wrong;

	ht_image_put_entry(&m->b, HT_STR("main"), procedure, &i, 1, &o, 1);
	m->bytes = ht_image_end(&m->b);
	wrong = ht_image_verify(m->bytes);
	if (wrong)
		fail_msg("%s", wrong);
}

/* ---- running ---- */

static const int32_t constants[4] = { 5, 10, 0, 1000000 };

static void run_pool(void *pool, void (*fn)(void *, int, int), void *arg)
{
	ht_pool_run(pool, fn, arg);
}

static void barrier(void *pool)
{
	ht_pool_barrier(pool);
}

struct session {
	struct ht_exec x;
	struct ht_exec_threads threads;
	int64_t kernel[KERNELS], constant[4];
	char *memory;
};

static struct session *session_of(struct image *m, int threads)
{
	struct session *s = calloc(1, sizeof *s);
	struct ht_exec *x = &s->x;
	uint64_t bytes;

	s->threads =
		(struct ht_exec_threads){ threads, ht_rt_pool_new(threads), run_pool, barrier };
	for (int i = 0; i < KERNELS; i++)
		s->kernel[i] = (int64_t)(uintptr_t)function[i];
	for (int i = 0; i < 4; i++)
		s->constant[i] = (int64_t)(uintptr_t)&constants[i];
	x->image = (const void *)m->bytes.p;
	x->limits = m->limits;
	x->links.kernel = s->kernel;
	x->links.constant = s->constant;
	x->threads = &s->threads;
	x->cancel = &m->cancel;
	assert_true(ht_exec_needs_of(x->image, 0, &x->limits, &x->needs));
	bytes = ht_exec_common_bytes(&x->needs) +
		(uint64_t)threads * ht_exec_thread_bytes(&x->needs);
	s->memory = aligned_alloc(64, bytes);
	memset(s->memory, 0x5a, bytes);
	ht_exec_lay_out(x, s->memory);
	ht_exec_begin(x);
	return s;
}

static void end_session(struct session *s)
{
	ht_rt_pool_free(s->threads.pool);
	free(s->memory);
	free(s);
}

static bool run(struct session *s, const int32_t *in, int32_t *out)
{
	const void *inputs[1] = { in };
	void *outputs[1] = { out };

	return ht_exec_run(&s->x, inputs, outputs);
}

/* ---- tests ---- */

/* y = reverse(x + 5) + 1, three times over. */
static void straight(void **state)
{
	struct image *m = begin();
	int32_t x[N], y[N];
	uint32_t p, in, out, c, t;

	(void)state;
	for (int i = 0; i < 4; i++)
		ht_image_put_constant(&m->b, 4);
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	c = buffer(m, HT_IMAGE_CONST, 0, 4);
	t = buffer(m, HT_IMAGE_TEMP, 64, 4 * N);
	put(m, HT_IMAGE_KERNEL, ADD, TILES, ARGS(in, c, t), NONE);
	put(m, HT_IMAGE_KERNEL, REVERSE, TILES, ARGS(t, out), PARAMS(1));
	p = ht_image_end_procedure(&m->b, 64 + 4 * N);
	entry(m, p, N, N);
	for (int i = 0; i < N; i++)
		x[i] = i * 7 % 101;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		for (int k = 0; k < 50; k++) {
			memset(y, 0, sizeof y);
			assert_true(run(s, x, y));
			for (int i = 0; i < N; i++)
				assert_int_equal(y[i], x[N - 1 - i] + 6);
		}
		end_session(s);
	}
	done(m);
}

/* The steps of the callee on one part: y = reverse(x) + 2, by a call within each instance. */
static void put_part(struct image *m, uint32_t *part)
{
	uint32_t in, out, t, inner;

	ht_image_begin_procedure(&m->b, HT_STR("inner"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	t = buffer(m, HT_IMAGE_TEMP, 0, 4 * N);
	put(m, HT_IMAGE_KERNEL, REVERSE, TILES, ARGS(in, t), PARAMS(2));
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, t), PARAMS(4 * N));
	inner = ht_image_end_procedure(&m->b, 4 * N);
	ht_image_begin_procedure(&m->b, HT_STR("part"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	put(m, HT_IMAGE_KERNEL, POSITIVE, TILES, ARGS(in), NONE);
	put(m, HT_IMAGE_CALL, inner, 0, ARGS(in, out), NONE);
	*part = ht_image_end_procedure(&m->b, 0);
}

static struct image *forks(int64_t instances)
{
	struct image *m = begin();
	uint32_t part, in, out;

	put_part(m, &part);
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, (uint64_t)instances * 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, (uint64_t)instances * 4 * N);
	put(m, HT_IMAGE_FORK, part, (uint32_t)instances, ARGS(in, out), PARAMS(4 * N, 4 * N));
	entry(m, ht_image_end_procedure(&m->b, 0), instances * N, instances * N);
	return m;
}

static void fork_and_join(void **state)
{
	enum { MOST = 7 };
	static int32_t x[MOST * N], y[MOST * N];

	(void)state;
	for (int i = 0; i < MOST * N; i++)
		x[i] = i * 31 % 1009;
	for (int instances = 1; instances <= MOST; instances++) {
		struct image *m = forks(instances);

		for (int threads = 1; threads <= MAX_THREADS; threads++) {
			struct session *s = session_of(m, threads);

			for (int k = 0; k < 10; k++) {
				memset(y, 0, sizeof y);
				assert_true(run(s, x, y));
				for (int i = 0; i < instances * N; i++)
					assert_int_equal(y[i], x[i / N * N + N - 1 - i % N] + 2);
			}
			end_session(s);
		}
		done(m);
	}
}

/* The fault of the first tile of the first instance that stops is reported, whichever thread runs
 * it. */
static void first_fault(void **state)
{
	enum { INSTANCES = 6 };
	static int32_t x[INSTANCES * N], y[INSTANCES * N];
	struct image *m = forks(INSTANCES);

	(void)state;
	for (int at = 0; at < INSTANCES; at++) {
		memset(x, 0, sizeof x);
		x[at * N + 5 * TILE] = -3;
		x[at * N + 20 * TILE] = -4;
		for (int later = at + 1; later < INSTANCES; later++)
			x[later * N] = -5;
		for (int threads = 1; threads <= MAX_THREADS; threads++) {
			struct session *s = session_of(m, threads);

			for (int k = 0; k < 20; k++) {
				const struct ht_exec_frame *f;

				assert_false(run(s, x, y));
				assert_int_equal(s->x.stop.code, 3);
				f = s->x.stop.frame;
				assert_int_equal(f->instance, at);
				assert_string_equal(
					"part", ht_image_text(s->x.image, f->procedure->name));
			}
			x[at * N + 5 * TILE] = 0;
			assert_false(run(s, x, y));
			assert_int_equal(s->x.stop.code, 4);
			x[at * N + 5 * TILE] = -3;
			end_session(s);
		}
	}
	done(m);
}

/* t[k] = reverse(x) + 2, or + 1 twice, in `calls` calls side by side; y is t[0] + the sum of the
 * first numbers of all others. */
static struct image *besides(uint32_t calls, uint32_t undivided)
{
	struct image *m = begin();
	uint32_t part, in, out, t[8], sum[2];

	put_part(m, &part);
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	for (uint32_t k = 0; k < calls + 2; k++)
		t[k] = buffer(m, HT_IMAGE_TEMP, k * 4 * N, 4 * N);
	sum[0] = t[calls];
	sum[1] = t[calls + 1];
	put(m, HT_IMAGE_KERNEL, REVERSE, TILES, ARGS(in, sum[0]), PARAMS(1));
	put(m, HT_IMAGE_BESIDE, undivided, calls, NONE, NONE);
	for (uint32_t k = 0; k < calls; k++)
		put(m, HT_IMAGE_CALL, part, 0, ARGS(sum[0], t[k]), NONE);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(sum[0], t[0]), PARAMS(4 * N));
	for (uint32_t k = 1; k < calls; k++)
		put(m, HT_IMAGE_KERNEL, ADD, TILES, ARGS(sum[~k & 1], t[k], sum[k & 1]), NONE);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, sum[~calls & 1]), PARAMS(4 * N));
	entry(m, ht_image_end_procedure(&m->b, (calls + 2) * 4 * N), N, N);
	return m;
}

static void side_by_side(void **state)
{
	static int32_t x[N], y[N];

	(void)state;
	for (int i = 0; i < N; i++)
		x[i] = i * 31 % 1009;
	for (uint32_t calls = 2; calls <= 5; calls++)
		for (int threads = 1; threads <= MAX_THREADS; threads++) {
			struct image *m = besides(calls, threads & 1);
			struct session *s = session_of(m, threads);

			for (int k = 0; k < 20; k++) {
				memset(y, 0, sizeof y);
				assert_true(run(s, x, y));
				for (int i = 0; i < N; i++)
					assert_int_equal(
						y[i], x[i] + 3 + ((int)calls - 1) * (x[0] + 3));
			}
			end_session(s);
			done(m);
		}
}

/* As for the instances of a fork: the first of the calls that stop is reported. */
static void fault_beside(void **state)
{
	static int32_t x[N], y[N];
	struct image *m = besides(3, 0);

	(void)state;
	x[N - 1 - 7 * TILE] = -4;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		for (int k = 0; k < 20; k++) {
			const struct ht_exec_frame *f;

			assert_false(run(s, x, y));
			assert_int_equal(s->x.stop.code, 3);
			f = s->x.stop.frame;
			assert_string_equal("part", ht_image_text(s->x.image, f->procedure->name));
			assert_int_equal(f->instance, 0);
		}
		end_session(s);
	}
	done(m);
}

/* Reads its input, whose negative numbers are faults. */
static uint32_t put_faulty(struct image *m)
{
	uint32_t in, out;

	ht_image_begin_procedure(&m->b, HT_STR("faulty"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	put(m, HT_IMAGE_KERNEL, POSITIVE, TILES, ARGS(in), NONE);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, in), PARAMS(4 * N));
	return ht_image_end_procedure(&m->b, 0);
}

static uint32_t put_endless(struct image *m)
{
	uint32_t in, out;

	ht_image_begin_procedure(&m->b, HT_STR("endless"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	put(m, HT_IMAGE_LOOP, 0, 0, NONE, NONE);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, in), PARAMS(4));
	ht_image_put_again(&m->b, NULL);
	return ht_image_end_procedure(&m->b, 0);
}

/* A loop that does not end stops at its next iteration, and not at its limit, if the call beside it stops. */
static void fault_beside_endless(void **state)
{
	enum { MANY = 2000000000 };
	static int32_t x[N], y[N];

	(void)state;
	x[N - 1] = -4;
	for (int first = 0; first < 2; first++) {
		struct image *m = begin();
		uint32_t call[2] = { put_faulty(m), put_endless(m) }, in, out, t[2];

		ht_image_begin_procedure(&m->b, HT_STR("main"));
		in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
		out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
		for (uint32_t k = 0; k < 2; k++)
			t[k] = buffer(m, HT_IMAGE_TEMP, k * 4 * N, 4 * N);
		put(m, HT_IMAGE_BESIDE, 1, 2, NONE, NONE);
		for (int k = 0; k < 2; k++)
			put(m, HT_IMAGE_CALL, call[k ^ first], 0, ARGS(in, t[k]), NONE);
		put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, t[first]), PARAMS(4 * N));
		entry(m, ht_image_end_procedure(&m->b, 2 * 4 * N), N, N);
		m->limits.iterations = MANY;
		for (int threads = 2; threads <= MAX_THREADS; threads++) {
			struct session *s = session_of(m, threads);

			assert_false(run(s, x, y));
			assert_int_equal(s->x.stop.code, 4);
			assert_string_equal("faulty",
				ht_image_text(s->x.image, s->x.stop.frame->procedure->name));
			end_session(s);
		}
		done(m);
	}
}

static void refused_besides(void **state)
{
	struct image *m = besides(2, 0);
	struct ht_image *x = (void *)(uintptr_t)m->bytes.p;
	const struct ht_image_procedure *p = &ht_image_procedures(x)[2];
	struct ht_image_step *s = (void *)(uintptr_t)(ht_image_steps(x) + p->step);
	uint32_t *arg = (void *)(uintptr_t)(ht_image_args(x) + p->arg);

	(void)state;
	assert_int_equal(x->features, HT_IMAGE_BESIDES);
	x->features = 0;
	assert_non_null(ht_image_verify(m->bytes));
	x->features = HT_IMAGE_BESIDES;
	for (uint32_t count = 0; count < 10; count++) {
		s[1].count = count; /* a copy follows two calls, and then the end */
		assert_int_equal(!ht_image_verify(m->bytes), count == 2);
	}
	s[1].count = 2;
	assert_null(ht_image_verify(m->bytes));
	arg[s[3].arg + 1] = arg[s[2].arg + 1]; /* both write to the same buffer */
	assert_non_null(ht_image_verify(m->bytes));
	arg[s[3].arg + 1] = arg[s[2].arg]; /* the second writes to what the first reads */
	assert_non_null(ht_image_verify(m->bytes));
	done(m);
}

/* i = 0; while (i < x[0]) { y = reverse(y) + 1; i = i + 1 }, where y is x at first. */
static struct image *loops(void)
{
	struct image *m = begin();
	uint32_t in, out, i, next, flag, t, zero, leave;

	for (int k = 0; k < 4; k++)
		ht_image_put_constant(&m->b, 4);
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	zero = buffer(m, HT_IMAGE_CONST, 2, 4);
	i = buffer(m, HT_IMAGE_TEMP, 0, 4);
	next = buffer(m, HT_IMAGE_TEMP, 64, 4);
	flag = buffer(m, HT_IMAGE_TEMP, 128, 1);
	t = buffer(m, HT_IMAGE_TEMP, 192, 4 * N);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(i, zero), PARAMS(4));
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, in), PARAMS(4 * N));
	put(m, HT_IMAGE_LOOP, 0, 0, NONE, NONE);
	put(m, HT_IMAGE_KERNEL, LESS, 1, ARGS(i, in, flag), NONE);
	leave = put(m, HT_IMAGE_UNLESS, 0, 1, ARGS(flag), NONE);
	put(m, HT_IMAGE_KERNEL, STEP, 1, ARGS(i, next), PARAMS(1));
	put(m, HT_IMAGE_KERNEL, REVERSE, TILES, ARGS(out, t), PARAMS(1));
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, t), PARAMS(4 * N));
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(i, next), PARAMS(4));
	ht_image_put_again(&m->b, NULL);
	ht_image_land(&m->b, leave);
	entry(m, ht_image_end_procedure(&m->b, 192 + 4 * N), N, N);
	return m;
}

static void loop(void **state)
{
	struct image *m = loops();
	int32_t x[N], y[N];

	(void)state;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		for (int trips = 0; trips < 40; trips++) {
			for (int i = 0; i < N; i++)
				x[i] = i;
			x[0] = trips;
			assert_true(run(s, x, y));
			for (int i = 0; i < N; i++)
				assert_int_equal(y[i], x[trips % 2 ? N - 1 - i : i] + trips);
		}
		end_session(s);
	}
	done(m);
}

static void limits_of_loops(void **state)
{
	struct image *m = loops();
	int32_t x[N] = { 1000 }, y[N];

	(void)state;
	m->limits.iterations = 10;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		assert_false(run(s, x, y));
		assert_int_equal(s->x.stop.code, HT_EXEC_ITERATIONS);
		assert_int_equal(s->x.stop.frame->counter[0], 11);
		m->cancel = 1;
		assert_false(run(s, x, y));
		assert_int_equal(s->x.stop.code, HT_EXEC_CANCELLED);
		m->cancel = 0;
		x[0] = 9;
		assert_true(run(s, x, y));
		x[0] = 1000;
		end_session(s);
	}
	done(m);
}

/* f(x, y): if (x < 5) y = x else f(x - 1, y), within a frame of its own. */
static void recursion(void **state)
{
	struct image *m = begin();
	uint32_t f, in, out, five, less_one, flag, otherwise, leave;

	(void)state;
	for (int k = 0; k < 4; k++)
		ht_image_put_constant(&m->b, 4);
	ht_image_begin_procedure(&m->b, HT_STR("f"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4);
	five = buffer(m, HT_IMAGE_CONST, 0, 4);
	less_one = buffer(m, HT_IMAGE_TEMP, 0, 4);
	flag = buffer(m, HT_IMAGE_TEMP, 64, 1);
	put(m, HT_IMAGE_KERNEL, LESS, 1, ARGS(in, five, flag), NONE);
	otherwise = put(m, HT_IMAGE_UNLESS, 0, 1, ARGS(flag), NONE);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, in), PARAMS(4));
	leave = put(m, HT_IMAGE_JUMP, 0, 0, NONE, NONE);
	ht_image_land(&m->b, otherwise);
	put(m, HT_IMAGE_KERNEL, STEP, 1, ARGS(in, less_one), PARAMS(-1));
	put(m, HT_IMAGE_CALL, 0, 0, ARGS(less_one, out), NONE);
	/* The caller's frame is unchanged. */
	put(m, HT_IMAGE_KERNEL, LESS, 1, ARGS(less_one, five, flag), NONE);
	ht_image_land(&m->b, leave);
	f = ht_image_end_procedure(&m->b, 128);
	entry(m, f, 1, 1);
	m->limits.depth = 20;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);
		int32_t y = 0, depth = 0;

		for (int32_t x = 0; x < 20; x++) {
			assert_true(run(s, &x, &y));
			assert_int_equal(y, x < 4 ? x : 4);
		}
		assert_false(run(s, &constants[3], &y));
		assert_int_equal(s->x.stop.code, HT_EXEC_DEPTH);
		for (const struct ht_exec_frame *c = s->x.stop.frame; c; c = c->caller)
			depth++;
		assert_in_range(depth, 20, 22);
		end_session(s);
	}
	(void)f;
	done(m);
}

static uint32_t put_counter(struct image *m)
{
	static int64_t one = 1;
	const struct ht_image_variable_text count = { .name = HT_STR("count"),
		.dtype = HT_I32,
		.shape = ht_shape_make(&m->arena, 1, &one),
		.bytes = 4,
		.constant = 1 };

	for (int i = 0; i < 4; i++)
		ht_image_put_constant(&m->b, 4);
	return ht_image_put_variable(&m->b, &count);
}

/* Each run adds 1 to a variable, and its output is x plus the variable. */
static struct image *counter(void)
{
	struct image *m = begin();
	struct ht_image_buffer v = { .kind = HT_IMAGE_VARIABLE, .bytes = 4 };
	uint32_t in, out, next;

	put_counter(m); /* number 1, after another one */
	v.number = ht_image_put_variable(
		&m->b, &(struct ht_image_variable_text){ .name = HT_STR("other"),
			       .dtype = HT_I32,
			       .shape = HT_SHAPE_SCALAR,
			       .bytes = 4,
			       .constant = 2 });
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	next = buffer(m, HT_IMAGE_TEMP, 0, 4);
	v.number = ht_image_put_buffer(&m->b, v);
	put(m, HT_IMAGE_KERNEL, STEP, 1, ARGS(v.number, next), PARAMS(1));
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(v.number, next), PARAMS(4));
	put(m, HT_IMAGE_KERNEL, ADD, TILES, ARGS(in, v.number, out), NONE);
	entry(m, ht_image_end_procedure(&m->b, 64), N, N);
	return m;
}

static void variables(void **state)
{
	struct image *m = counter();
	const struct ht_image *image = (const void *)m->bytes.p;
	_Alignas(64) int32_t memory[32] = { 0 };
	int32_t x[N], y[N];

	(void)state;
	assert_int_equal(ht_image_variable_bytes(image), sizeof memory);
	for (int i = 0; i < N; i++)
		x[i] = 3 * i;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		s->x.links.variables = (char *)memory;
		for (int k = 1; k < 6; k++) {
			assert_true(run(s, x, y));
			for (int i = 0; i < N; i++)
				assert_int_equal(y[i], x[i] + memory[16]);
		}
		assert_int_equal(memory[16], 5 * threads);
		assert_int_equal(memory[0], 0);
		end_session(s);
	}
	done(m);
}

/* The errors of a variable, by the field of the second one that is changed. */
static void refused_variables(void **state)
{
	struct image *m = counter();
	struct ht_image *x = (void *)(uintptr_t)m->bytes.p;
	struct ht_image_variable *v = (void *)(uintptr_t)ht_image_variables(x);
	struct ht_image_variable good = v[1];

	(void)state;
	x->features &= ~(uint64_t)HT_IMAGE_HAS_VARIABLES;
	assert_string_equal(ht_image_verify(m->bytes), "it has variables without saying so");
	x->features |= HT_IMAGE_HAS_VARIABLES;
	for (int wrong = 0; wrong < 6; wrong++) {
		switch (wrong) {
		case 0:
			v[1].offset = 32;
			break;
		case 1:
			v[1].offset = 0;
			break;
		case 2:
			v[1].constant = 4;
			break;
		case 3:
			v[1].bytes = 8;
			break;
		case 4:
			v[1].dtype = 250;
			break;
		default:
			v[1].name = UINT32_MAX;
		}
		assert_non_null(ht_image_verify(m->bytes));
		v[1] = good;
		assert_null(ht_image_verify(m->bytes));
	}
	done(m);
}

/* Any number of an image may be changed: the image is refused, or stays inside its memory. */
static void refused(void **state)
{
	struct image *m = loops();
	struct ht_image *x = (void *)(uintptr_t)m->bytes.p;
	struct ht_image_step *s = (void *)(uintptr_t)ht_image_steps(x);

	(void)state;
	x->version++;
	assert_non_null(ht_image_verify(m->bytes));
	x->version--;
	x->features |= 1u << 20;
	assert_string_equal(ht_image_verify(m->bytes),
		"its program image needs a feature that this version of Halftone lacks");
	x->features = 0;
	s[4].to = 6; /* a branch to a later step of the loop is allowed */
	assert_null(ht_image_verify(m->bytes));
	s[4].to = 4; /* to itself */
	assert_non_null(ht_image_verify(m->bytes));
	s[4].to = 10;
	s[0].op = HT_IMAGE_JUMP; /* into the loop */
	s[0].args = s[0].params = 0;
	s[0].to = 5;
	assert_non_null(ht_image_verify(m->bytes));
	done(m);
}

/* The size, at most 10, is set to the first number of the input. */
static struct image *computes(void)
{
	struct image *m = begin();
	uint32_t in, out;

	ht_image_put_computed_size(&m->b, HT_STR("n"), 10);
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	out = buffer(m, HT_IMAGE_PARAM, 1, 4 * N);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(out, in), PARAMS(4 * N));
	put(m, HT_IMAGE_SIZE, 0, 0, ARGS(in), NONE);
	entry(m, ht_image_end_procedure(&m->b, 0), N, N);
	return m;
}

static void computed_size(void **state)
{
	struct image *m = computes();
	int64_t size = 10, stated[] = { 0, 10, 7, 11, -1, INT64_MAX };
	int32_t x[N] = { 0 }, y[N];

	(void)state;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		s->x.size = &size;
		for (size_t i = 0; i < HT_COUNT(stated); i++) {
			bool good = stated[i] >= 0 && stated[i] <= 10;

			memcpy(x, &stated[i], sizeof stated[i]);
			size = 10;
			assert_int_equal(run(s, x, y), good);
			assert_int_equal(size, good ? stated[i] : 10);
			assert_int_equal(s->x.stop.code, good ? 0 : HT_EXEC_SIZE);
		}
		end_session(s);
	}
	done(m);
}

static void refused_sizes(void **state)
{
	struct image *m = computes();
	struct ht_image *x = (void *)(uintptr_t)m->bytes.p;
	struct ht_image_size *size = (void *)(uintptr_t)ht_image_sizes(x);
	struct ht_image_step *step = (void *)(uintptr_t)ht_image_steps(x);

	(void)state;
	assert_null(ht_image_verify(m->bytes));
	step[1].to = 1; /* not a size */
	assert_non_null(ht_image_verify(m->bytes));
	step[1].to = 0;
	size->kind = HT_IMAGE_STATED; /* a size that no input has */
	assert_non_null(ht_image_verify(m->bytes));
	size->kind = HT_IMAGE_BY_STEP;
	x->features &= ~(uint64_t)HT_IMAGE_COMPUTED;
	assert_non_null(ht_image_verify(m->bytes));
	done(m);
}

/* A product of the largest number of sizes is read back; a longer one and one of quotients are
 * refused. */
static void products_of_sizes(void **state)
{
	struct image *m = begin();
	struct ht_size_expr e = ht_size_number(3), one = ht_size_multiple(5, 0);
	const int64_t size[] = { 10 };
	struct ht_image_expression *item;
	struct ht_image *x;
	uint32_t in, product;

	(void)state;
	ht_image_put_computed_size(&m->b, HT_STR("n"), 10);
	for (int i = 0; i < HT_SIZE_FACTORS; i++)
		e = ht_size_product(e, ht_size_multiple(1, 0));
	product = ht_image_put_product(&m->b, &e);
	assert_int_equal(ht_image_put_product(&m->b, &e), product);
	assert_int_equal(ht_image_put_expression(&m->b, &one), product + 1);
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	in = buffer(m, HT_IMAGE_PARAM, 0, 4 * N);
	put(m, HT_IMAGE_COPY, 0, 0, ARGS(buffer(m, HT_IMAGE_PARAM, 1, 4 * N), in), PARAMS(4 * N));
	put(m, HT_IMAGE_SIZE, 0, 0, ARGS(in), NONE);
	entry(m, ht_image_end_procedure(&m->b, 0), N, N);
	x = (void *)(uintptr_t)m->bytes.p;
	item = (void *)(uintptr_t)ht_image_expressions(x);
	assert_true(ht_size_equal(ht_image_expression_of(x, product), e));
	assert_int_equal(ht_image_evaluate(x, product, size), 300000000);
	item[product + 1].times = product + 1;
	assert_non_null(ht_image_verify(m->bytes));
	item[product + 1].times = product;
	assert_null(ht_image_verify(m->bytes));
	item[product + 1].divisor = 2;
	assert_non_null(ht_image_verify(m->bytes));
	item[product + 1].times = 0;
	assert_null(ht_image_verify(m->bytes));
	done(m);
}

/* A line of text for each step. */
static void printed(void **state)
{
	struct image *m = loops();
	struct ht_buf out;

	(void)state;
	ht_buf_init(&out, &m->arena);
	ht_image_print((const void *)m->bytes.p, &out);
	assert_non_null(
		strstr(ht_buf_str(&out).p, "  3: kernel 3 x 1 (t0:4, p0:1472, t128:1)  # node\n"
					   "  4: unless to 10 (t128:1)  # node\n"));
	done(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(straight),
		cmocka_unit_test(fork_and_join),
		cmocka_unit_test(first_fault),
		cmocka_unit_test(side_by_side),
		cmocka_unit_test(fault_beside),
		cmocka_unit_test(fault_beside_endless),
		cmocka_unit_test(refused_besides),
		cmocka_unit_test(loop),
		cmocka_unit_test(limits_of_loops),
		cmocka_unit_test(recursion),
		cmocka_unit_test(variables),
		cmocka_unit_test(refused_variables),
		cmocka_unit_test(refused),
		cmocka_unit_test(computed_size),
		cmocka_unit_test(refused_sizes),
		cmocka_unit_test(products_of_sizes),
		cmocka_unit_test(printed),
	};

	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
