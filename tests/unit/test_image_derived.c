/* Derived buffers of an image are made if their sources changed, and only then; after a fault
 * again.
 *
 * The image doubles a variable, and adds 5 to its second input: two derived buffers.  Its output is
 * their sum plus its first input.  The kernels count how often they run. */
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

static atomic_int doubled, added;
static int fails_at = -1; /* the tile of `twice` that stops the run */

static int32_t twice(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const int32_t *a = b[0];
	int32_t *out = b[1];

	(void)params;
	(void)scratch;
	for (int64_t t = begin; t < end; t++) {
		atomic_fetch_add(&doubled, 1);
		if (t == fails_at)
			return 7;
		for (int64_t i = t * TILE; i < (t + 1) * TILE; i++)
			out[i] = 2 * a[i];
	}
	return 0;
}

static int32_t plus(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const int32_t *a = b[0];
	int32_t *out = b[1];

	(void)scratch;
	atomic_fetch_add(&added, (int)(end - begin));
	for (int64_t i = begin * TILE; i < end * TILE; i++)
		out[i] = a[i] + (int32_t)params[0];
	return 0;
}

static int32_t sum(void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	const int32_t *x = b[0], *y = b[1], *z = b[2];
	int32_t *out = b[3];

	(void)params;
	(void)scratch;
	for (int64_t i = begin * TILE; i < end * TILE; i++)
		out[i] = x[i] + y[i] + z[i];
	return 0;
}

enum { TWICE, PLUS, SUM, KERNELS };
static ht_exec_fn *const function[KERNELS] = { twice, plus, sum };

/* ---- the image ---- */

struct image {
	struct ht_arena arena;
	struct ht_image_builder b;
	struct ht_str bytes;
	uint32_t fresh[2];
};

static uint32_t buffer(struct image *m, enum ht_image_kind kind, uint32_t number, bool written)
{
	return ht_image_put_buffer(&m->b,
		(struct ht_image_buffer){
			.kind = kind, .number = number, .bytes = 4 * N, .written = written });
}

static uint32_t put(struct image *m, enum ht_image_op op, uint32_t to, uint32_t count,
	const uint32_t *arg, size_t args)
{
	static const int64_t five = 5;

	return ht_image_put_step(&m->b,
		(struct ht_image_step){ .op = op, .to = to, .count = count }, arg, args, &five,
		op == HT_IMAGE_KERNEL && to == PLUS, NULL);
}

static void put_kernels(struct image *m)
{
	const struct ht_image_touch in = { .bytes = 4 * N }, out = { .bytes = 4 * N, .written = 1 };
	const struct ht_image_touch copies[] = { in, out }, sums[] = { in, in, in, out };

	ht_image_put_kernel(&m->b, "", copies, 2, 0, 0);
	ht_image_put_kernel(&m->b, "", copies, 2, 1, 0);
	ht_image_put_kernel(&m->b, "", sums, 4, 0, 0);
}

static void put_state(struct image *m, struct ht_shape shape)
{
	const struct ht_image_source source[] = { { HT_IMAGE_VARIABLE, 0 }, { HT_IMAGE_PARAM, 1 } };

	ht_image_put_variable(&m->b, &(struct ht_image_variable_text){ .name = HT_STR("weights"),
					     .dtype = HT_I32,
					     .shape = shape,
					     .bytes = 4 * N,
					     .constant = HT_IMAGE_NO_VALUE });
	ht_image_put_derived(&m->b, 4 * N, &source[0], 1);
	ht_image_put_derived(&m->b, 4 * N, &source[1], 1);
}

static struct image *image(void)
{
	struct image *m = calloc(1, sizeof *m);
	const int64_t n = N;
	struct ht_image_port_text port[3] = { { .name = HT_STR("x") }, { .name = HT_STR("fed") },
		{ .name = HT_STR("y") } };
	uint32_t x, fed, y, v, d[2];

	ht_arena_init(&m->arena, NULL);
	ht_image_begin(&m->b, &m->arena);
	put_kernels(m);
	put_state(m, ht_shape_make(&m->arena, 1, &n));
	ht_image_begin_procedure(&m->b, HT_STR("main"));
	x = buffer(m, HT_IMAGE_PARAM, 0, false);
	fed = buffer(m, HT_IMAGE_PARAM, 0, false);
	y = buffer(m, HT_IMAGE_PARAM, 0, true);
	v = buffer(m, HT_IMAGE_VARIABLE, 0, false);
	for (uint32_t i = 0; i < 2; i++)
		d[i] = buffer(m, HT_IMAGE_DERIVED_BUFFER, i, false);
	for (uint32_t i = 0; i < 2; i++) {
		const uint32_t arg[] = { i ? fed : v, d[i] };

		m->fresh[i] = put(m, HT_IMAGE_FRESH, 0, i, NULL, 0);
		put(m, HT_IMAGE_KERNEL, i ? PLUS : TWICE, TILES, arg, 2);
		put(m, HT_IMAGE_MADE, 0, i, NULL, 0);
		ht_image_land(&m->b, m->fresh[i]);
	}
	put(m, HT_IMAGE_KERNEL, SUM, TILES, (const uint32_t[]){ x, d[0], d[1], y }, 4);
	for (int i = 0; i < 3; i++) {
		port[i].dtype = HT_I32;
		port[i].shape = ht_shape_make(&m->arena, 1, &n);
		port[i].bytes = 4 * N;
	}
	ht_image_put_entry(
		&m->b, HT_STR("main"), ht_image_end_procedure(&m->b, 0), port, 2, port + 2, 1);
	m->bytes = ht_image_end(&m->b);
	return m;
}

static void done(struct image *m)
{
	ht_arena_release(&m->arena);
	free(m);
}

/* ---- running ---- */

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
	int64_t kernel[KERNELS];
	uint64_t version[3], made[2]; /* of the variable and the inputs */
	_Alignas(64) int32_t variable[N];
	_Alignas(64) int32_t derived[2 * N + 32];
	char *memory;
};

static struct session *session_of(struct image *m, int threads)
{
	struct session *s = aligned_alloc(64, sizeof *s);
	struct ht_exec *x = &s->x;
	uint64_t bytes;

	memset(s, 0, sizeof *s);
	s->threads =
		(struct ht_exec_threads){ threads, ht_rt_pool_new(threads), run_pool, barrier };
	for (int i = 0; i < KERNELS; i++)
		s->kernel[i] = (int64_t)(uintptr_t)function[i];
	x->image = (const void *)m->bytes.p;
	x->limits = (struct ht_exec_limits)HT_EXEC_LIMITS_INIT;
	x->links.kernel = s->kernel;
	x->links.variables = (char *)s->variable;
	x->links.derived = (char *)s->derived;
	x->links.version = s->version;
	x->links.made = s->made;
	x->threads = &s->threads;
	assert_true(ht_image_derived_bytes(x->image) <= sizeof s->derived);
	assert_true(ht_exec_needs_of(x->image, 0, &x->limits, &x->needs));
	bytes = ht_exec_common_bytes(&x->needs) +
		(uint64_t)threads * ht_exec_thread_bytes(&x->needs);
	s->memory = aligned_alloc(64, bytes);
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

/* Runs with `of` in all elements of the variable and `fed` in those of the second input. */
static bool run(struct session *s, int32_t of, int32_t fed)
{
	int32_t x[N], second[N], y[N];
	void *out[1] = { y };
	bool good;

	for (int i = 0; i < N; i++) {
		x[i] = i;
		s->variable[i] = of;
		second[i] = fed;
	}
	atomic_store(&doubled, 0);
	atomic_store(&added, 0);
	good = ht_exec_run(&s->x, (const void *[]){ x, second }, out);
	for (int i = 0; good && i < N; i++)
		assert_int_equal(y[i], i + 2 * of + fed + 5);
	return good;
}

static void expect(int twice_ran, int plus_ran)
{
	assert_int_equal(atomic_load(&doubled), TILES * twice_ran);
	assert_int_equal(atomic_load(&added), TILES * plus_ran);
}

/* ---- tests ---- */

static void made_when_stale(void **state)
{
	struct image *m = image();

	(void)state;
	assert_null(ht_image_verify(m->bytes));
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		assert_true(run(s, 3, 4));
		expect(1, 1);
		for (int i = 0; i < 3; i++) {
			assert_true(run(s, 3, 4));
			expect(0, 0);
		}
		s->version[0]++;
		assert_true(run(s, 8, 4));
		expect(1, 0);
		s->version[2] += 3;
		assert_true(run(s, 8, -1));
		expect(0, 1);
		s->version[0]++;
		s->version[2]++;
		assert_true(run(s, 5, 2));
		expect(1, 1);
		assert_true(run(s, 5, 2));
		expect(0, 0);
		end_session(s);
	}
	done(m);
}

/* Two runs of one image with separate memory have separate derived buffers. */
static void two_users(void **state)
{
	struct image *m = image();
	struct session *a = session_of(m, 1), *b = session_of(m, 2);

	(void)state;
	assert_true(run(a, 1, 1));
	assert_true(run(b, 1, 1));
	expect(1, 1);
	a->version[0] = b->version[0] = 1;
	assert_true(run(a, 2, 1));
	expect(1, 0);
	assert_true(run(b, 2, 1));
	expect(1, 0);
	assert_true(run(a, 2, 1));
	expect(0, 0);
	end_session(a);
	end_session(b);
	done(m);
}

/* A run that stops while it makes a buffer leaves that one stale, and keeps earlier ones. */
static void stale_after_a_fault(void **state)
{
	struct image *m = image();

	(void)state;
	for (int threads = 1; threads <= MAX_THREADS; threads++) {
		struct session *s = session_of(m, threads);

		fails_at = TILES / 2;
		for (int i = 0; i < 2; i++) {
			assert_false(run(s, 3, 4));
			assert_int_equal(s->x.stop.code, 7);
			assert_int_equal(s->made[0], 0);
			assert_int_equal(atomic_load(&added), 0);
		}
		fails_at = -1;
		assert_true(run(s, 3, 4));
		expect(1, 1);
		s->version[0]++;
		fails_at = TILES - 1;
		assert_false(run(s, 6, 4));
		fails_at = -1;
		assert_true(run(s, 6, 4));
		expect(1, 0);
		end_session(s);
	}
	done(m);
}

/* Expects an error of the verifier after a change of one number. */
static void refuse(struct image *m, uint32_t *number, uint32_t value, const char *says)
{
	const uint32_t good = *number;

	*number = value;
	assert_non_null(ht_image_verify(m->bytes));
	assert_string_equal(ht_image_verify(m->bytes), says);
	*number = good;
	assert_null(ht_image_verify(m->bytes));
}

static void refused(void **state)
{
	static const char place[] = "a derived buffer is not made where a run begins",
			  ingredient[] =
				  "a derived buffer is made from what is none of its sources",
			  memory[] = "a buffer is outside of its memory",
			  touches[] = "a kernel touches more than its buffer";
	struct image *m = image();
	struct ht_image *x = (void *)(uintptr_t)m->bytes.p;
	struct ht_image_step *s = (void *)(uintptr_t)ht_image_steps(x);
	struct ht_image_buffer *b = (void *)(uintptr_t)ht_image_buffers(x);
	struct ht_image_source *from = (void *)(uintptr_t)ht_image_sources(x);
	struct ht_image_derived *d = (void *)(uintptr_t)ht_image_deriveds(x);
	struct ht_image_touch *touch = (void *)(uintptr_t)ht_image_touches(x);
	uint32_t *arg = (void *)(uintptr_t)ht_image_args(x);

	(void)state;
	assert_null(ht_image_verify(m->bytes));
	/* Steps of a derived buffer: the order of all, a buffer that does not exist, a jump into
	 * its steps or over others, the end of another one. */
	refuse(m, &s[0].count, 1, place);
	refuse(m, &s[0].count, 2, place);
	refuse(m, &s[0].to, 2, place);
	refuse(m, &s[0].to, 6, place);
	refuse(m, &s[0].to, UINT32_MAX, place);
	refuse(m, &s[2].count, 1, place);
	/* It is made from its sources alone: neither from another input nor from another derived
	 * buffer. */
	refuse(m, &arg[2], 0, ingredient);
	refuse(m, &arg[0], 5, ingredient);
	/* Its steps write to nothing else, no other steps write to it, and no step writes to its
	 * source. */
	refuse(m, &arg[1], 5, touches);
	refuse(m, &touch[5].written, 1, touches);
	refuse(m, &touch[0].written, 1, touches);
	/* Sources that do not exist; memory of another buffer. */
	refuse(m, &from[0].number, 1,
		"a derived buffer is made from what is neither a variable nor an input");
	refuse(m, &from[1].number, 2,
		"a derived buffer is made from what is neither a variable nor an input");
	refuse(m, &from[1].kind, HT_IMAGE_CONST,
		"a derived buffer is made from what is neither a variable nor an input");
	refuse(m, &d[1].sources, 2, "a derived buffer has no sources");
	refuse(m, &d[1].sources, 0, "a derived buffer has no sources");
	refuse(m, &b[4].number, 1, memory);
	refuse(m, &b[5].number, 2, memory);
	d[1].offset += 64;
	assert_string_equal(ht_image_verify(m->bytes), "a derived buffer is outside of its memory");
	d[1].offset -= 64;
	x->features &= ~(uint64_t)HT_IMAGE_DERIVES;
	assert_non_null(ht_image_verify(m->bytes));
	done(m);
}

/* An entry that omits one would read memory that no step wrote. */
static void all_are_made(void **state)
{
	struct image *m = image();
	struct ht_image *x = (void *)(uintptr_t)m->bytes.p;
	struct ht_image_step *s = (void *)(uintptr_t)ht_image_steps(x);

	(void)state;
	for (int i = 3; i < 6; i++) {
		s[i].op = HT_IMAGE_JUMP;
		s[i].to = (uint32_t)i + 1;
		s[i].args = s[i].params = 0;
	}
	assert_string_equal(
		ht_image_verify(m->bytes), "an entry does not make all derived buffers");
	done(m);
}

static void printed(void **state)
{
	struct image *m = image();
	struct ht_buf out;
	const char *text;

	(void)state;
	ht_buf_init(&out, &m->arena);
	ht_image_print((const void *)m->bytes.p, &out);
	text = ht_buf_str(&out).p;
	assert_non_null(strstr(text, "derived 0: 1472 bytes, from v0\n"
				     "derived 1: 1472 bytes, from p1\n"));
	assert_non_null(strstr(text, "  0: fresh d0 to 3\n"
				     "  1: kernel 0 x 23 (v0:1472, d0:1472)\n"
				     "  2: made d0\n"));
	done(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_when_stale),
		cmocka_unit_test(two_users),
		cmocka_unit_test(stale_after_a_fault),
		cmocka_unit_test(refused),
		cmocka_unit_test(all_are_made),
		cmocka_unit_test(printed),
	};

	return cmocka_run_group_tests_name("image_derived", tests, NULL, NULL);
}
