/* Objects of images: their owners, how often they are made, and that each is released once, however
 * a run ends. */
#include "base/object.h"
#include "image/build.h"
#include "image/verify.h"
#include "runtime/runtime.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* ---- a kind of objects ---- */

static int made, alive;
static int fails_at; /* the number of the object that cannot be made, from 1; 0: all can */

struct counter {
	int32_t count;
};

static int32_t make(const struct ht_object_parts *from, void **out)
{
	struct counter *c;
	int32_t begin;

	if (made + 1 == fails_at)
		return 13;
	c = malloc(sizeof *c);
	assert_int_equal(from->params, 1);
	assert_int_equal(from->constants, 1);
	assert_int_equal(from->constant[0].bytes, 4);
	memcpy(&begin, from->constant[0].p, sizeof begin);
	c->count = begin + (int32_t)from->param[0];
	made++;
	alive++;
	*out = c;
	return 0;
}

static void release(void *object)
{
	alive--;
	free(object);
}

static const struct ht_object_kind counter = {
	.name = "counter", .make = make, .release = release, .reset = NULL
};

/* out = x + the present count of the counter; a fault for x below 0. */
static int32_t count(
	void *const *b, const int64_t *params, int64_t begin, int64_t end, void *scratch)
{
	struct counter *c = b[0];

	(void)params;
	(void)begin;
	(void)end;
	(void)scratch;
	if (*(const int32_t *)b[1] < 0)
		return 1;
	*(int32_t *)b[2] = *(const int32_t *)b[1] + ++c->count;
	return 0;
}

/* ---- an image with an object of the session and two of the run ---- */

enum { KEPT, FRESH, OTHER, OBJECTS };

struct program {
	struct ht_arena arena;
	struct ht_image_builder b;
	struct ht_str bytes;
	struct ht_rt_program rt;
	int64_t kernel[1], constant[1];
	const struct ht_object_kind *kind[OBJECTS];
	struct ht_rt_pool *pool;
	struct ht_rt_context *context;
	int32_t cancel;
};

static const int32_t ten = 10;

static void put_objects(struct program *p)
{
	static const char *const name[] = { "kept", "fresh", "other" };
	uint32_t constant = ht_image_put_constant(&p->b, 4);

	for (int64_t i = 0; i < OBJECTS; i++) {
		const struct ht_image_object_text o = { .name = ht_str(name[i]),
			.kind = "counter",
			.owner = i == KEPT ? HT_IMAGE_OF_SESSION : HT_IMAGE_OF_RUN,
			.constant = &constant,
			.constants = 1,
			.param = &(int64_t){ 100 * i },
			.params = 1 };

		assert_int_equal(ht_image_put_object(&p->b, &o), i);
		p->kind[i] = &counter;
	}
}

static uint32_t parameter(struct program *p, bool written)
{
	return ht_image_put_buffer(&p->b,
		(struct ht_image_buffer){ .kind = HT_IMAGE_PARAM, .bytes = 4, .written = written });
}

/* The object of the session counts x, then an object of the run. */
static uint32_t put_counts(struct program *p)
{
	const struct ht_image_step step = { .op = HT_IMAGE_KERNEL, .count = 1 };
	const struct ht_image_note_text note = { .node = HT_STR("node") };
	uint32_t x, y, t, object[2];

	ht_image_begin_procedure(&p->b, HT_STR("counts"));
	x = parameter(p, false);
	y = parameter(p, true);
	t = ht_image_put_buffer(
		&p->b, (struct ht_image_buffer){ .kind = HT_IMAGE_TEMP, .bytes = 4 });
	for (uint32_t i = 0; i < 2; i++)
		object[i] = ht_image_put_buffer(
			&p->b, (struct ht_image_buffer){ .kind = HT_IMAGE_OBJECT, .number = i });
	ht_image_put_step(&p->b, step, (uint32_t[]){ object[0], x, t }, 3, NULL, 0, &note);
	ht_image_put_step(&p->b, step, (uint32_t[]){ object[1], t, y }, 3, NULL, 0, &note);
	return ht_image_end_procedure(&p->b, 64);
}

static uint32_t put_main(struct program *p, uint32_t callee)
{
	uint32_t arg[2];

	ht_image_begin_procedure(&p->b, HT_STR("main"));
	arg[0] = parameter(p, false);
	arg[1] = parameter(p, true);
	ht_image_put_step(&p->b, (struct ht_image_step){ .op = HT_IMAGE_CALL, .to = callee }, arg,
		2, NULL, 0, NULL);
	return ht_image_end_procedure(&p->b, 0);
}

static struct program *begin_image(void)
{
	struct program *p = calloc(1, sizeof *p);

	ht_arena_init(&p->arena, NULL);
	ht_image_begin(&p->b, &p->arena);
	put_objects(p);
	return p;
}

static void end_image(struct program *p, uint32_t procedure)
{
	const struct ht_image_port_text port = {
		.name = HT_STR("x"), .dtype = HT_I32, .shape = HT_SHAPE_SCALAR, .bytes = 4
	};

	ht_image_put_entry(&p->b, HT_STR("main"), procedure, &port, 1, &port, 1);
	p->bytes = ht_image_end(&p->b);
	assert_null(ht_image_verify(p->bytes));
	p->kernel[0] = (int64_t)(uintptr_t)count;
	p->constant[0] = (int64_t)(uintptr_t)&ten;
	p->rt = (struct ht_rt_program){ .image = (const void *)p->bytes.p,
		.kernel = p->kernel,
		.constant = p->constant,
		.object = p->kind };
	made = alive = fails_at = 0;
}

static struct program *begin(void)
{
	struct program *p = begin_image();
	struct ht_image_touch touch[3] = { { .bytes = 0 }, { .bytes = 4 },
		{ .bytes = 4, .written = HT_IMAGE_WRITES } };

	touch[0] = ht_image_object_touch(&p->b, "counter");
	ht_image_put_kernel(&p->b, "", touch, 3, 0, 0);
	end_image(p, put_main(p, put_counts(p)));
	return p;
}

/* y is a copy of x that is kept as long as x is said to be unchanged. */
static struct program *begin_derived(void)
{
	static const int64_t bytes = 4;
	const struct ht_image_step copy = { .op = HT_IMAGE_COPY };
	struct program *p = begin_image();
	uint32_t x, y, kept, fresh;

	ht_image_put_derived(&p->b, 4, &(struct ht_image_source){ HT_IMAGE_PARAM, 0 }, 1);
	ht_image_begin_procedure(&p->b, HT_STR("main"));
	x = parameter(p, false);
	y = parameter(p, true);
	kept = ht_image_put_buffer(
		&p->b, (struct ht_image_buffer){ .kind = HT_IMAGE_DERIVED_BUFFER, .bytes = 4 });
	fresh = ht_image_put_step(
		&p->b, (struct ht_image_step){ .op = HT_IMAGE_FRESH }, NULL, 0, NULL, 0, NULL);
	ht_image_put_step(&p->b, copy, (uint32_t[]){ kept, x }, 2, &bytes, 1, NULL);
	ht_image_put_step(
		&p->b, (struct ht_image_step){ .op = HT_IMAGE_MADE }, NULL, 0, NULL, 0, NULL);
	ht_image_land(&p->b, fresh);
	ht_image_put_step(&p->b, copy, (uint32_t[]){ y, kept }, 2, &bytes, 1, NULL);
	end_image(p, ht_image_end_procedure(&p->b, 0));
	return p;
}

static void begin_session(struct program *p, int threads)
{
	p->pool = ht_rt_pool_new(threads);
	p->context = ht_rt_context_new(&p->rt, p->pool, NULL, NULL, HT_EXEC_DEPTH_INIT);
	assert_non_null(p->context);
	ht_rt_context_limit(p->context, UINT64_MAX, &p->cancel);
}

static void end_session(struct program *p)
{
	ht_rt_context_free(p->context);
	ht_rt_pool_free(p->pool);
}

static void done(struct program *p)
{
	ht_arena_release(&p->arena);
	free(p);
}

static bool run(struct program *p, int32_t x, int32_t *y, struct ht_rt_fault *fault)
{
	const void *in[1] = { &x };
	void *out[1] = { y };

	return ht_rt_run(p->context, in, out, false, fault);
}

/* ---- tests ---- */

static void owners(void **state)
{
	struct program *p = begin();
	struct ht_rt_fault fault;
	int32_t y;

	(void)state;
	for (int threads = 1; threads <= 3; threads++) {
		made = 0;
		begin_session(p, threads);
		assert_true(ht_rt_context_objects(p->context, NULL, 0, &fault));
		assert_int_equal(made, 1);
		for (int k = 1; k < 5; k++) {
			assert_true(run(p, 1000, &y, &fault));
			assert_int_equal(y, 1000 + (10 + k) + (110 + 1));
			assert_int_equal(made, 1 + 2 * k);
			assert_int_equal(alive, 1);
		}
		end_session(p);
		assert_int_equal(alive, 0);
	}
	done(p);
}

static void shared_by_contexts(void **state)
{
	struct program *p = begin();
	struct ht_rt_fault fault;
	void *object[OBJECTS] = { NULL };
	int32_t y;

	(void)state;
	assert_int_equal(ht_rt_object_make(&p->rt, KEPT, 0, &object[KEPT]), 0);
	for (int k = 1; k < 4; k++) {
		begin_session(p, 1);
		assert_true(ht_rt_context_objects(p->context, object, 0, &fault));
		assert_true(run(p, 0, &y, &fault));
		assert_int_equal(y, 10 + k + 111);
		end_session(p);
		assert_int_equal(alive, 1);
	}
	assert_int_equal(made, 1 + 3 * 2);
	release(object[KEPT]);
	done(p);
}

static void released_when_a_run_stops(void **state)
{
	struct program *p = begin();
	struct ht_rt_fault fault;
	int32_t y;

	(void)state;
	begin_session(p, 2);
	assert_true(ht_rt_context_objects(p->context, NULL, 0, &fault));
	assert_false(run(p, -1, &y, &fault));
	assert_int_equal(fault.code, 1);
	assert_int_equal(fault.object, 0);
	assert_int_equal(alive, 1);
	p->cancel = 1;
	assert_false(run(p, 1, &y, &fault));
	assert_int_equal(fault.code, HT_EXEC_CANCELLED);
	assert_int_equal(alive, 1);
	p->cancel = 0;
	assert_true(run(p, 1, &y, &fault));
	assert_int_equal(y, 1 + 11 + 111);
	end_session(p);
	assert_int_equal(alive, 0);
	done(p);
}

/* The second object of a run cannot be made, then the session's. */
static void released_when_one_cannot_be_made(void **state)
{
	struct program *p = begin();
	struct ht_rt_fault fault;
	int32_t y;

	(void)state;
	begin_session(p, 1);
	assert_true(ht_rt_context_objects(p->context, NULL, 0, &fault));
	fails_at = 3;
	assert_false(run(p, 1, &y, &fault));
	assert_int_equal(fault.code, 13);
	assert_int_equal(fault.object, 1 + OTHER);
	assert_int_equal(alive, 1);
	fails_at = 0;
	assert_true(run(p, 1, &y, &fault));
	end_session(p);
	assert_int_equal(alive, 0);

	made = 0;
	fails_at = 1;
	begin_session(p, 1);
	assert_false(ht_rt_context_objects(p->context, NULL, 0, &fault));
	assert_int_equal(fault.code, 13);
	assert_int_equal(fault.object, 1 + KEPT);
	end_session(p);
	assert_int_equal(alive, 0);
	done(p);
}

/* A run whose objects cannot be made is the one whose input was said to be unchanged; for the next
 * one nothing is said. */
static void unchanged_for_one_run(void **state)
{
	struct program *p = begin_derived();
	struct ht_rt_fault fault;
	int32_t y;

	(void)state;
	begin_session(p, 1);
	assert_true(ht_rt_context_objects(p->context, NULL, 0, &fault));
	assert_true(run(p, 7, &y, &fault));
	ht_rt_context_unchanged(p->context, HT_IMAGE_PARAM, 0);
	fails_at = made + 1;
	assert_false(run(p, 7, &y, &fault));
	fails_at = 0;
	assert_true(run(p, 9, &y, &fault));
	assert_int_equal(y, 9);
	ht_rt_context_unchanged(p->context, HT_IMAGE_PARAM, 0);
	assert_true(run(p, 11, &y, &fault));
	assert_int_equal(y, 9);
	end_session(p);
	assert_int_equal(alive, 0);
	done(p);
}

static bool is_damaged(void *arg, uint32_t constant, int worker, int workers)
{
	return !arg && !constant && !worker && workers > 1;
}

static void damaged_constants_are_not_read(void **state)
{
	struct program *p = begin();
	struct ht_rt_fault fault;

	(void)state;
	p->rt.is_whole = is_damaged;
	begin_session(p, 1);
	assert_false(ht_rt_context_objects(p->context, NULL, 0, &fault));
	assert_int_equal(fault.code, HT_EXEC_DAMAGED);
	assert_int_equal(made, 0);
	end_session(p);
	done(p);
}

/* ---- errors for the verifier ---- */

static void change(struct program *p, uint32_t *field, uint32_t to, const char *why)
{
	uint32_t before = *field;

	*field = to;
	assert_non_null(ht_image_verify(p->bytes));
	assert_string_equal(ht_image_verify(p->bytes), why);
	*field = before;
	assert_null(ht_image_verify(p->bytes));
}

static void refused(void **state)
{
	static const char object[] = "an object is not described",
			  kernel[] = "a kernel is not described",
			  memory[] = "a buffer is outside of its memory",
			  touches[] = "a kernel touches more than its buffer";
	struct program *p = begin();
	struct ht_image *x = (void *)(uintptr_t)p->bytes.p;
	struct ht_image_object *o = (void *)(uintptr_t)ht_image_objects(x);
	struct ht_image_touch *t = (void *)(uintptr_t)ht_image_touches(x);
	struct ht_image_buffer *b = (void *)(uintptr_t)ht_image_buffers(x);
	uint32_t *constant = (uint32_t *)(uintptr_t)ht_image_args(x) + o[0].constant;

	(void)state;
	assert_int_equal(x->features, HT_IMAGE_HAS_OBJECTS);
	change(p, &o[0].name, UINT32_MAX, object);
	change(p, &o[0].kind, UINT32_MAX, object);
	change(p, &o[0].owner, HT_IMAGE_OWNERS, object);
	change(p, &o[0].constant, 1000, object);
	change(p, &o[0].constants, HT_OBJECT_PARTS + 1, object);
	change(p, constant, 1, object);
	change(p, &o[0].param, 1000, object);
	change(p, &o[0].params, 1000, object);
	change(p, &o[1].name, o[0].name, object);  /* a session has one of each name */
	change(p, &o[0].kind, o[0].name, touches); /* not the kernel's kind */
	change(p, (uint32_t *)(void *)&t[0].bytes, 1000, kernel);
	change(p, &t[0].sized, 1, kernel);
	change(p, &t[0].written, 3, kernel);
	change(p, &t[0].written, HT_IMAGE_READS, touches);
	change(p, &t[1].written, HT_IMAGE_USES, touches); /* memory is no object */
	change(p, &b[3].number, OBJECTS, memory);
	change(p, (uint32_t *)(void *)&b[3].bytes, 4, memory);
	x->features = 0;
	assert_non_null(ht_image_verify(p->bytes));
	done(p);
}

/* The head of an image with objects has places for the tables of all features, but only its own may
 * be used. */
static void derives_without_saying_so(void **state)
{
	struct program *p = begin_derived();
	struct ht_image *x = (void *)(uintptr_t)p->bytes.p;

	(void)state;
	assert_int_equal(x->features, HT_IMAGE_DERIVES | HT_IMAGE_HAS_OBJECTS);
	x->features = HT_IMAGE_HAS_OBJECTS;
	assert_non_null(ht_image_verify(p->bytes));
	assert_string_equal(ht_image_verify(p->bytes), "it has derived buffers without saying so");
	done(p);
}

static void printed(void **state)
{
	struct program *p = begin();
	struct ht_buf out;

	(void)state;
	ht_buf_init(&out, &p->arena);
	ht_image_print(p->rt.image, &out);
	assert_non_null(strstr(ht_buf_str(&out).p,
		"object 0 kept: counter of the session (constant 0) [0]\n"
		"object 1 fresh: counter of the run (constant 0) [100]\n"));
	assert_non_null(strstr(ht_buf_str(&out).p, "kernel 0 generated (counter, 4, out 4)"));
	assert_non_null(strstr(ht_buf_str(&out).p, "1: kernel 0 x 1 (o1, t0:4, p1:4)  # node\n"));
	done(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners),
		cmocka_unit_test(shared_by_contexts),
		cmocka_unit_test(released_when_a_run_stops),
		cmocka_unit_test(released_when_one_cannot_be_made),
		cmocka_unit_test(unchanged_for_one_run),
		cmocka_unit_test(damaged_constants_are_not_read),
		cmocka_unit_test(refused),
		cmocka_unit_test(derives_without_saying_so),
		cmocka_unit_test(printed),
	};

	return cmocka_run_group_tests_name("objects", tests, NULL, NULL);
}
