/* Views and spaces: the positions of elements in memory, against plain index arithmetic. */
#include "lower/inside.h"

#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 2000, MAX_ELEMENTS = 4096 };

static struct ht_unwind unwind;
static struct ht_arena arena;

static int set_up(void **unused)
{
	(void)unused;
	ht_arena_init(&arena, &unwind);
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	ht_arena_release(&arena);
	return 0;
}

static int32_t random_shape(int64_t dim[HT_LOWER_RANK])
{
	int32_t rank = below(5);

	for (int32_t i = 0; i < rank; i++)
		dim[i] = 1 + below(4);
	return rank;
}

static int64_t product(int32_t rank, const int64_t *dim)
{
	int64_t n = 1;

	for (int32_t i = 0; i < rank; i++)
		n *= dim[i];
	return n;
}

/* Factorises the number of elements of a shape in another way. */
static int32_t another_shape(int32_t rank, const int64_t *dim, int64_t to[HT_LOWER_RANK])
{
	int32_t n = 0;
	int64_t rest = product(rank, dim);

	while (rest > 1 && n < HT_LOWER_RANK - 2) {
		int64_t d = 1 + below((int)rest);
		while (rest % d)
			d--;
		to[n++] = d;
		rest /= d;
		if (below(4) == 0)
			to[n++] = 1;
		if (n >= HT_LOWER_RANK - 2)
			break;
	}
	if (rest > 1 || n == 0)
		to[n++] = rest;
	return n;
}

/* The offset of linear index `i` of a view, in elements. */
static int64_t address(const struct view *v, int64_t i)
{
	int64_t at = v->offset;

	for (int32_t k = v->rank - 1; k >= 0; k--) {
		at += i % v->dim[k] * v->stride[k];
		i /= v->dim[k];
	}
	return at;
}

/* A view that is transposed, sliced or broadcast at random. */
static struct view random_view(void)
{
	int64_t dim[HT_LOWER_RANK], stride = 1;
	struct view v = { .rank = random_shape(dim), .offset = below(10) };

	for (int32_t k = v.rank - 1; k >= 0; k--) {
		v.dim[k] = dim[k];
		v.stride[k] = stride;
		stride *= dim[k] + (below(3) == 0);
	}
	for (int32_t k = 0; k + 1 < v.rank; k++)
		if (below(3) == 0) {
			int64_t d = v.dim[k], s = v.stride[k];
			v.dim[k] = v.dim[k + 1];
			v.stride[k] = v.stride[k + 1];
			v.dim[k + 1] = d;
			v.stride[k + 1] = s;
		}
	return v;
}

static void reshaped_views_keep_addresses(void **unused)
{
	int accepted = 0;

	(void)unused;
	for (int i = 0; i < CASES; i++) {
		struct view v = random_view(), r;
		int64_t to[HT_LOWER_RANK];
		int32_t rank = another_shape(v.rank, v.dim, to);

		if (!view_reshape(&v, rank, to, &r)) {
			assert_false(view_is_dense(&v));
			continue;
		}
		accepted++;
		for (int64_t k = 0; k < view_count(&v); k++)
			assert_int_equal(address(&v, k), address(&r, k));
	}
	assert_true(accepted > CASES / 4);
}

/* Runs a stage over `s` that stores expression `x` at each element's linear index. */
static void run(
	struct kernel_build *k, const struct space *s, int32_t x, int64_t count, int64_t *out)
{
	struct ht_kernel_buffer buffer = { HT_BUFFER_OUT, HT_I64, count };
	void *buffers[1] = { out };

	ht_xstore(&k->xb, 0, space_linear(&k->xb, s), x);
	k->kernel->buffer = &buffer;
	k->kernel->buffers = k->kernel->args = 1;
	ht_kernel_verify(k->kernel);
	assert_int_equal(
		ht_interpret(k->kernel, buffers, NULL, 0, ht_kernel_tiles(k->kernel), NULL), 0);
}

/* A space of one stage whose dimensions are the groups that `bits` leave. */
static struct space open_space(
	struct kernel_build *k, struct lower *l, int32_t rank, const int64_t *dim, uint32_t bits)
{
	kb_init(k, l, NULL);
	kb_stage(k, HT_STAGE_LOOP);
	return kb_loop_space(k, rank, dim, bits);
}

static void offsets_of_spaces(void **unused)
{
	static int64_t out[MAX_ELEMENTS];
	struct planning planning = { 0 };
	struct lower l = { .planning = &planning, .arena = &arena };

	(void)unused;
	for (int i = 0; i < CASES; i++) {
		struct view v = random_view();
		struct kernel_build k;
		struct space s = open_space(&k, &l, v.rank, v.dim, rnd());

		run(&k, &s, space_offset(&k.xb, &s, v.stride, v.offset), view_count(&v), out);
		for (int64_t e = 0; e < view_count(&v); e++)
			assert_int_equal(out[e], address(&v, e));
	}
}

static void reshaped_spaces_keep_the_element(void **unused)
{
	static int64_t out[MAX_ELEMENTS];
	struct planning planning = { 0 };
	struct lower l = { .planning = &planning, .arena = &arena };

	(void)unused;
	for (int i = 0; i < CASES; i++) {
		int64_t dim[HT_LOWER_RANK], to[HT_LOWER_RANK];
		int32_t rank = random_shape(dim), other = another_shape(rank, dim, to);
		struct kernel_build k;
		struct space s = open_space(&k, &l, rank, dim, rnd()), r, back;

		r = space_reshape(&k.xb, &s, other, to);
		back = space_reshape(&k.xb, &r, rank, dim);
		run(&k, &s, ht_xadd(&k.xb, space_linear(&k.xb, &r), space_linear(&k.xb, &back)),
			product(rank, dim), out);
		for (int64_t e = 0; e < product(rank, dim); e++)
			assert_int_equal(out[e], 2 * e);
	}
}

static void broadcast_spaces_drop_dimensions(void **unused)
{
	static int64_t out[MAX_ELEMENTS];
	struct planning planning = { 0 };
	struct lower l = { .planning = &planning, .arena = &arena };

	(void)unused;
	for (int i = 0; i < CASES; i++) {
		int64_t dim[HT_LOWER_RANK], small[HT_LOWER_RANK];
		int32_t rank = random_shape(dim), lead = rank ? below((int)(rank + 1)) : 0;
		struct kernel_build k;
		struct space s = open_space(&k, &l, rank, dim, rnd()), b;
		struct view v;

		for (int32_t j = lead; j < rank; j++)
			small[j - lead] = below(2) ? dim[j] : 1;
		b = space_broadcast(&k.xb, &s, rank - lead, small);
		run(&k, &s, space_linear(&k.xb, &b), product(rank, dim), out);
		view_dense(&v, 0, (struct ht_shape){ rank - lead, small });
		for (int64_t e = 0; e < product(rank, dim); e++) {
			int64_t at = 0, rest = e;
			for (int32_t j = rank - 1; j >= 0; j--) {
				if (j >= lead && small[j - lead] != 1)
					at += rest % dim[j] * v.stride[j - lead];
				rest /= dim[j];
			}
			assert_int_equal(out[e], at);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reshaped_views_keep_addresses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(offsets_of_spaces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			reshaped_spaces_keep_the_element, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			broadcast_spaces_drop_dimensions, set_up, tear_down),
	};

	state = 7;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
