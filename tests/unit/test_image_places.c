/* Temporary buffers that a run places by its sizes: buffers that are disjoint at the largest sizes
 * are disjoint at all sizes, none moves up, and the verifier refuses places that violate this.
 *
 * Each image has a size n and a step for each buffer.  The kernel records the address of its
 * argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/base.h"
#include "image/build.h"
#include "image/execute.h"
#include "image/verify.h"
#include "runtime/runtime.h"

#include <cmocka.h>

enum { MOST = 64, BUFFERS = 300, UNIT = 64 };

struct layout {
	int n;
	/* `reach.sized`: bytes for each unit of the size */
	struct ht_image_place_of place[BUFFERS];
	uint64_t frame;
};

static char *noted[BUFFERS];
static int notes;

static int32_t note(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	noted[notes++] = b[0];
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct ht_image_place_of *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Some overlap, like buffers that are not in use at the same time. */
static struct layout random_layout(uint64_t *state, int n)
{
	struct layout l = { .n = n };

	for (int i = 0; i < n; i++) {
		struct ht_image_place_of *p = &l.place[i];

		p->offset = ht_random(state) % 200 * UNIT;
		p->bytes = 1 + ht_random(state) % 2000;
		p->reach.add = ht_random(state) % 3 ? ht_random(state) % 100 : p->bytes;
		p->reach.sized = (uint32_t)(ht_random(state) % (p->bytes / 32 + 1));
		if (p->offset + p->bytes > l.frame)
			l.frame = p->offset + p->bytes;
	}
	l.frame = (l.frame + UNIT - 1) / UNIT * UNIT;
	qsort(l.place, (size_t)n, sizeof *l.place, by_offset);
	for (int i = 0; i < n; i++) {
		int before = 0;

		for (int k = 0; k < n; k++) {
			uint64_t a = l.place[k].offset + l.place[k].bytes,
				 b = l.place[i].offset + l.place[i].bytes;

			before += a < b || (a == b && k < i);
		}
		l.place[before].ends = (uint32_t)i;
	}
	return l;
}

static struct ht_image_reach reach(struct ht_image_builder *b, const struct ht_image_place_of *p)
{
	const struct ht_reach r = { p->reach.add,
		p->reach.sized ? ht_size_multiple(p->reach.sized, 0) : ht_size_number(0) };

	return ht_image_reach_of(b, &r);
}

static void put_port(struct ht_image_builder *b, uint32_t procedure, struct ht_arena *a)
{
	struct ht_size_expr n = ht_size_multiple(1, 0);
	int64_t dim = -1 - (int64_t)ht_image_put_product(b, &n);
	const struct ht_image_port_text port = { .name = HT_STR("x"),
		.dtype = HT_U8,
		.shape = ht_shape_make(a, 1, &dim),
		.bytes = MOST };

	ht_image_put_entry(b, HT_STR("main"), procedure, &port, 1, NULL, 0);
}

static struct ht_str image_of(const struct layout *l, struct ht_arena *a)
{
	struct ht_image_builder b;
	struct ht_size_expr n = ht_size_multiple(1, 0);
	uint32_t arg;

	ht_image_begin(&b, a);
	ht_image_put_size(&b, HT_STR("n"), 1, MOST);
	for (int i = 0; i < l->n; i++) {
		const struct ht_image_touch touch = { .bytes = l->place[i].bytes, .written = 1 };
		const struct ht_image_reach r = reach(&b, &l->place[i]);
		struct ht_image_place_of p = l->place[i];

		p.reach = r;
		ht_image_put_kernel(&b, "", &touch, 1, 1, 0);
		ht_image_put_reaches(&b, &r, 1);
		ht_image_put_place(&b, &p);
	}
	ht_image_begin_procedure(&b, HT_STR("main"));
	ht_image_put_buffer(&b, (struct ht_image_buffer){ .kind = HT_IMAGE_PARAM,
					.bytes = MOST,
					.sized = 1 + ht_image_put_product(&b, &n) });
	for (int i = 0; i < l->n; i++)
		ht_image_put_buffer(&b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP,
						.number = (uint32_t)i,
						.offset = l->place[i].offset,
						.bytes = l->place[i].bytes });
	for (int i = 0; i < l->n; i++) {
		arg = (uint32_t)i + 1;
		ht_image_put_step(&b,
			(struct ht_image_step){
				.op = HT_IMAGE_KERNEL, .to = (uint32_t)i, .count = 1 },
			&arg, 1, NULL, 0, NULL);
	}
	put_port(&b, ht_image_end_procedure(&b, l->frame), a);
	return ht_image_end(&b);
}

static uint64_t bytes_at(const struct layout *l, int i, int64_t n)
{
	const struct ht_image_place_of *p = &l->place[i];
	uint64_t bytes = p->reach.add + p->reach.sized * (uint64_t)n;

	return bytes > p->bytes ? p->bytes : bytes;
}

static bool apart_at_most(const struct layout *l, int i, int k)
{
	const struct ht_image_place_of *a = &l->place[i], *b = &l->place[k];

	return a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

/* Where the memory of all buffers ended in the run. */
static uint64_t noted_end(const struct layout *l, int64_t n, const char *temps)
{
	uint64_t most = 0;

	for (int i = 0; i < l->n; i++) {
		uint64_t end =
			(uint64_t)(noted[i] - temps) + (bytes_at(l, i, n) + UNIT - 1) / UNIT * UNIT;

		most = end > most ? end : most;
	}
	return most;
}

/* What a run noted. */
static void expect_apart(const struct layout *l, int64_t n, const char *temps)
{
	for (int i = 0; i < l->n; i++) {
		char *end = noted[i] + bytes_at(l, i, n);

		assert_true(noted[i] >= temps && (noted[i] - temps) % UNIT == 0);
		assert_true((uint64_t)(noted[i] - temps) <= l->place[i].offset);
		for (int k = 0; k < i; k++)
			if (apart_at_most(l, i, k))
				assert_true(end <= noted[k] ||
					    noted[k] + bytes_at(l, k, n) <= noted[i]);
	}
}

struct session {
	struct ht_exec x;
	int64_t kernel[BUFFERS];
	int64_t size[1];
	char *memory;
};

static void begin_session(struct session *s, struct ht_str image)
{
	struct ht_exec *x = &s->x;

	memset(s, 0, sizeof *s);
	for (int i = 0; i < BUFFERS; i++)
		s->kernel[i] = (int64_t)(uintptr_t)note;
	x->image = (const void *)image.p;
	x->limits = (struct ht_exec_limits)HT_EXEC_LIMITS_INIT;
	x->links.kernel = s->kernel;
	x->size = s->size;
	assert_true(ht_exec_needs_of(x->image, 0, &x->limits, &x->needs));
	s->memory = aligned_alloc(
		64, ht_exec_common_bytes(&x->needs) + ht_exec_thread_bytes(&x->needs));
	ht_exec_lay_out(x, s->memory);
	ht_exec_begin(x);
}

static void run(struct session *s)
{
	static const uint8_t input[MOST];

	notes = 0;
	assert_true(ht_exec_run(&s->x, (const void *[]){ input }, NULL));
}

/* ---- tests ---- */

static void placed_at_all_sizes(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct layout l = random_layout(&random, round % 10 ? 1 + round % 40 : BUFFERS);
		static uint64_t work[2 * BUFFERS];
		struct ht_arena a;
		struct session s;

		ht_arena_init(&a, NULL);
		begin_session(&s, image_of(&l, &a));
		for (int64_t n = 1; n <= MOST; n += 1 + (int64_t)(ht_random(&random) % 9)) {
			char *before;

			s.size[0] = n;
			ht_exec_begin(&s.x);
			run(&s);
			assert_int_equal(notes, l.n);
			expect_apart(&l, n, s.x.temps);
			assert_int_equal(ht_exec_temps_of(s.x.image, 0, &s.x.needs, s.size, work),
				noted_end(&l, n, s.x.temps));
			before = noted[l.n - 1];
			s.size[0] = 1; /* a bound program is not placed again for the same size */
			run(&s);
			assert_ptr_equal(noted[l.n - 1], before);
		}
		free(s.memory);
		ht_arena_release(&a);
	}
}

static void shrinks(void **state)
{
	struct layout l = { .n = 2, .frame = 8192 };
	struct ht_arena a;
	struct session s;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		l.place[i] = (struct ht_image_place_of){ .offset = 4096 * i,
			.bytes = 4096,
			.reach = { .add = 10, .sized = 64 },
			.ends = i };
	ht_arena_init(&a, NULL);
	begin_session(&s, image_of(&l, &a));
	for (int64_t n = 1; n <= MOST; n++) {
		s.size[0] = n;
		ht_exec_begin(&s.x);
		run(&s);
		assert_ptr_equal(noted[0], s.x.temps);
		assert_int_equal(noted[1] - noted[0], n == MOST ? 4096 : 64 * (n + 1));
	}
	free(s.memory);
	ht_arena_release(&a);
}

/* An image whose entry, behind a kernel on a buffer of UNIT bytes for each unit of the size, calls a procedure that calls itself
 * for ever. */
static struct ht_str recursive_image(struct ht_arena *a)
{
	const struct ht_size_expr n = ht_size_multiple(1, 0), bytes = ht_size_multiple(UNIT, 0);
	const struct ht_image_touch touches[] = { { .bytes = UNIT, .written = 1 },
		{ .bytes = (uint64_t)MOST * UNIT, .written = 1 } };
	const struct ht_image_step call = { .op = HT_IMAGE_CALL };
	const uint32_t own = 0, second = 1;
	struct ht_image_place_of place = { .bytes = (uint64_t)MOST * UNIT };
	struct ht_image_builder b;

	ht_image_begin(&b, a);
	ht_image_put_size(&b, HT_STR("n"), 1, MOST);
	for (uint32_t i = 0; i < 2; i++) {
		const struct ht_reach all = { i ? 0 : UNIT, i ? bytes : ht_size_number(0) };
		const struct ht_image_reach r = ht_image_reach_of(&b, &all);

		ht_image_put_kernel(&b, "", &touches[i], 1, i, 0);
		ht_image_put_reaches(&b, &r, 1);
		place.reach = r;
	}
	ht_image_put_place(&b, &place);
	ht_image_begin_procedure(&b, HT_STR("again"));
	ht_image_put_buffer(&b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP, .bytes = UNIT });
	ht_image_put_step(&b, (struct ht_image_step){ .op = HT_IMAGE_KERNEL, .count = 1 }, &own, 1,
		NULL, 0, NULL);
	ht_image_put_step(&b, call, NULL, 0, NULL, 0, NULL);
	ht_image_end_procedure(&b, UNIT);
	ht_image_begin_procedure(&b, HT_STR("main"));
	ht_image_put_buffer(&b, (struct ht_image_buffer){ .kind = HT_IMAGE_PARAM,
					.bytes = MOST,
					.sized = 1 + ht_image_put_product(&b, &n) });
	ht_image_put_buffer(
		&b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP, .bytes = place.bytes });
	ht_image_put_step(&b, (struct ht_image_step){ .op = HT_IMAGE_KERNEL, .to = 1, .count = 1 },
		&second, 1, NULL, 0, NULL);
	ht_image_put_step(&b, call, NULL, 0, NULL, 0, NULL);
	put_port(&b, ht_image_end_procedure(&b, place.bytes), a);
	return ht_image_end(&b);
}

/* Calls are nested equally deeply at all sizes, so at small ones they do not use memory that the run was not given. */
static void recursion_at_all_sizes(void **state)
{
	static const uint8_t input[MOST];
	static uint64_t work[2];
	int deepest = 0;
	struct ht_str image;
	struct ht_arena a;
	struct session s;

	(void)state;
	ht_arena_init(&a, NULL);
	image = recursive_image(&a);
	assert_null(ht_image_verify(image));
	begin_session(&s, image);
	for (int64_t n = MOST; n > 0; n -= 9) {
		uint64_t temps;

		s.size[0] = n;
		temps = ht_exec_temps_of(s.x.image, 0, &s.x.needs, s.size, work);
		assert_int_equal(temps, s.x.needs.temps - (uint64_t)(MOST - n) * UNIT);
		ht_exec_begin(&s.x);
		notes = 0;
		assert_false(ht_exec_run(&s.x, (const void *[]){ input }, NULL));
		assert_int_equal(s.x.stop.code, HT_EXEC_DEPTH);
		assert_true((uint64_t)(noted[notes - 1] + UNIT - s.x.temps) <= temps);
		deepest = n == MOST ? notes : deepest;
		assert_int_equal(notes, deepest);
	}
	free(s.memory);
	ht_arena_release(&a);
}

/* ---- buffers between guard pages ---- */

static int64_t touched;

static int32_t touch(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	((volatile char *)b[0])[touched] = 1;
	return 0;
}

/* A run at size n after one at the largest size, in which the kernels write to byte `at`. */
static bool runs_guarded(struct ht_str image, enum ht_rt_guard side, int64_t n, int64_t at)
{
	static const uint8_t input[MOST];
	static int64_t size[1];
	const int64_t kernel[2] = { (int64_t)(uintptr_t)touch, (int64_t)(uintptr_t)touch };
	const struct ht_rt_program p = { .image = (const void *)image.p, .kernel = kernel };
	struct ht_rt_pool *pool = ht_rt_pool_new(1);
	struct ht_rt_context *c = ht_rt_context_new(&p, pool, NULL, NULL, 1);
	struct ht_rt_fault fault;
	bool good;

	ht_rt_context_sizes(c, size);
	good = ht_rt_context_guard(c, side);
	touched = 0;
	for (int i = 0; i < 2 && good; i++) {
		size[0] = i ? n : MOST;
		ht_rt_context_stated(c);
		good = ht_rt_run(c, (const void *[]){ input }, NULL, false, &fault);
		touched = at;
	}
	ht_rt_context_free(c);
	ht_rt_pool_free(pool);
	return good;
}

/* Whether such a run in a child ends by SIGSEGV; a sanitizer may take that, and ends the child with 1. */
static bool strays(struct ht_str image, enum ht_rt_guard side, int64_t n, int64_t at)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(runs_guarded(image, side, n, at) ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) == 1)
		return true;
	assert_int_equal(status, 0);
	return false;
}

static void guarded(void **state)
{
	struct layout l = { .n = 2, .frame = 8192 };
	struct ht_str image;
	struct ht_arena a;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		l.place[i] = (struct ht_image_place_of){ .offset = 4096 * i,
			.bytes = 4096,
			.reach = { .add = 10, .sized = 60 },
			.ends = i };
	ht_arena_init(&a, NULL);
	image = image_of(&l, &a);
	assert_null(ht_image_verify(image));
	for (int64_t n = 1; n <= MOST; n += 21) {
		const int64_t end = 10 + 60 * n;

		assert_false(strays(image, HT_RT_GUARD_BEHIND, n, end - 1));
		assert_true(strays(image, HT_RT_GUARD_BEHIND, n, end));
		assert_false(strays(image, HT_RT_GUARD_BEFORE, n, 0));
		assert_true(strays(image, HT_RT_GUARD_BEFORE, n, -1));
	}
	ht_arena_release(&a);
}

static void *table(struct ht_str image, enum ht_image_table t)
{
	return (char *)(uintptr_t)ht_image_at((const void *)image.p, t);
}

static void refuses(struct ht_str image, const char *why)
{
	const char *wrong = ht_image_verify(image);

	assert_non_null(wrong);
	assert_string_equal(wrong, why);
}

static void verified(void **state)
{
	static const char outside[] = "a buffer is outside of its memory";
	static const char touches[] = "a kernel touches more than its buffer";
	struct layout l = { .n = 2, .frame = 8192 };
	struct ht_image_place_of *place, kept;
	struct ht_image_reach *reaches;
	struct ht_image_buffer *buffer;
	struct ht_image_step *step;
	struct ht_str image;
	struct ht_arena a;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		l.place[i] = (struct ht_image_place_of){ .offset = 4096 * i,
			.bytes = 4096,
			.reach = { .add = 10, .sized = 64 },
			.ends = i };
	ht_arena_init(&a, NULL);
	image = image_of(&l, &a);
	place = table(image, HT_IMAGE_PLACES);
	reaches = table(image, HT_IMAGE_REACHES);
	buffer = table(image, HT_IMAGE_BUFFERS);
	step = table(image, HT_IMAGE_STEPS);
	assert_null(ht_image_verify(image));
	kept = place[1];

#define WITH(field, value, why)                                                                    \
	place[1].field = (value);                                                                  \
	refuses(image, why);                                                                       \
	place[1] = kept
	WITH(offset, 4096 + 8, outside);
	WITH(offset, 8192, outside);
	WITH(offset, UINT64_MAX - 63, outside);
	WITH(bytes, 4095, outside);
	WITH(bytes, 0, outside);
	WITH(ends, 0, outside);
	WITH(ends, 2, outside);
	WITH(reach.add, UINT64_MAX, outside);
	WITH(reach.sized, UINT32_MAX, outside);
	WITH(reach.add, 9, touches);   /* less than the kernel reaches */
	WITH(reach.sized, 0, touches); /* as many bytes at all sizes, and too few */
#undef WITH
	place[1].bytes = 8192;
	buffer[2].bytes = 0; /* no buffer has it, but it makes the frame of a run larger */
	refuses(image, "a place is outside of its frame");
	place[1] = kept;
	buffer[2].bytes = kept.bytes;
	place[0].offset = 4096; /* the offset of the second one, whose buffer is elsewhere */
	refuses(image, outside);
	place[0].offset = 0;
	buffer[1].number = 2;
	refuses(image, outside);
	buffer[1].number = 0;
	((struct ht_image *)(uintptr_t)image.p)->table[HT_IMAGE_PLACES].count = 0;
	refuses(image, outside); /* it says that it has places */
	((struct ht_image *)(uintptr_t)image.p)->table[HT_IMAGE_PLACES].count = 2;
	reaches[0].add = 11;
	refuses(image, touches);
	reaches[0].add = 10;
	reaches[0].sized = UINT32_MAX;
	refuses(image, outside);
	reaches[0].sized = 0; /* as many bytes at all sizes */
	assert_null(ht_image_verify(image));
	reaches[0].add = 11;
	refuses(image, touches);
	reaches[0].add = 10;
	reaches[0].sized = place[0].reach.sized;
	step[0].op = HT_IMAGE_UNLESS; /* the place has 74 bytes at all sizes */
	step[0].count = 8;
	step[0].to = 1;
	assert_null(ht_image_verify(image));
	place[0].reach.add = 0;
	place[0].reach.sized = 0;
	refuses(image, "a branch or loop goes where it may not");
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(placed_at_all_sizes),
		cmocka_unit_test(shrinks),
		cmocka_unit_test(recursion_at_all_sizes),
		cmocka_unit_test(guarded),
		cmocka_unit_test(verified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
