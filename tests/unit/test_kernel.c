/* Tile programs: the builder, the interpreter, the verifier, the text. */
#include "kernel/expr.h"
#include "kernel/library_net.h"
#include "kernel/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ht_arena arena;
static struct ht_unwind unwind;

static int setup(void **state)
{
	(void)state;
	ht_arena_init(&arena, &unwind);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ht_arena_release(&arena);
	return 0;
}

static int32_t load1(struct ht_xb *b, int buffer, enum ht_dtype t)
{
	return ht_xload(b, buffer, t, ht_xdim(b, 0));
}

/* One loop stage over `n` iterations with the given buffers. */
struct small {
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[6];
	struct ht_stage stage[3];
	struct ht_xb b;
};

static void small_init(struct small *s, int64_t n)
{
	*s = (struct small){ .k = { .buffer = s->buffer, .stage = s->stage, .stages = 1 } };
	s->stage[0] = (struct ht_stage){ .dims = 1, .vec = -1 };
	s->stage[0].dim[0] = (struct ht_dim){ .extent = n, .grid = -1 };
	ht_xb_init(&s->b, &arena, &s->stage[0]);
}

static int small_buffer(struct small *s, enum ht_buffer_kind kind, enum ht_dtype t, int64_t count)
{
	s->buffer[s->k.buffers] = (struct ht_kernel_buffer){ kind, t, count };
	s->k.args += kind != HT_BUFFER_LOCAL;
	return s->k.buffers++;
}

static int32_t small_run(struct small *s, void *const *buffers)
{
	int64_t params[1] = { 0 };
	void *scratch = ht_alloc(&arena, ht_kernel_scratch(&s->k) + 64);

	ht_kernel_verify(&s->k);
	return ht_interpret(&s->k, buffers, params, 0, ht_kernel_tiles(&s->k), scratch);
}

static int64_t constant(struct ht_xb *b, int32_t x)
{
	assert_int_equal(b->stage->x[x].op, HT_X_CONST);
	return b->stage->x[x].imm;
}

/* ---- builder ---- */

static void test_builder_shares(void **state)
{
	struct small s;
	int32_t x, y;

	(void)state;
	small_init(&s, 8);
	x = load1(&s.b, 0, HT_F32);
	y = load1(&s.b, 1, HT_F32);
	assert_int_equal(x, load1(&s.b, 0, HT_F32));
	assert_int_equal(ht_xadd(&s.b, x, y), ht_xadd(&s.b, y, x));
	assert_int_not_equal(ht_xsub(&s.b, x, y), ht_xsub(&s.b, y, x));
}

static void test_builder_folds(void **state)
{
	struct small s;
	struct ht_xb *b = &s.b;

	(void)state;
	small_init(&s, 8);
	assert_int_equal(constant(b, ht_xmul(b, ht_xi(b, 6), ht_xi(b, -7))), -42);
	assert_int_equal(constant(b, ht_xfloordiv(b, ht_xi(b, -7), ht_xi(b, 2))), -4);
	assert_int_equal(constant(b, ht_xfloormod(b, ht_xi(b, -7), ht_xi(b, 2))), 1);
	assert_int_equal(constant(b, ht_xcvt(b, HT_I32, ht_xf(b, NAN))), INT32_MIN);
	assert_int_equal(constant(b, ht_xcvt(b, HT_I8, ht_xconst(b, HT_I32, 0, 200))), -56);
	assert_int_equal(
		constant(b, ht_xadd(b, ht_xconst(b, HT_U8, 0, 200), ht_xconst(b, HT_U8, 0, 100))),
		44);
	assert_int_equal(constant(b, ht_xlt(b, ht_xf(b, NAN), ht_xf(b, 1))), 0);
	/* 1 + 2^-24 rounds to even. */
	assert_int_equal(constant(b, ht_xadd(b, ht_xf(b, 1), ht_xf(b, 0x1p-24))), 0x3f800000);
	/* Division by zero is not folded, so that the run fails. */
	assert_int_not_equal(
		b->stage->x[ht_xidiv(b, ht_xi(b, 1), ht_xi(b, 0), false)].op, HT_X_CONST);
}

static void test_builder_keeps_signed_zero(void **state)
{
	struct small s;
	int32_t x;

	(void)state;
	small_init(&s, 8);
	x = load1(&s.b, 0, HT_F32);
	assert_int_not_equal(ht_xadd(&s.b, x, ht_xf(&s.b, 0)), x); /* -0 + 0 is +0 */
	assert_int_equal(ht_xadd(&s.b, x, ht_xf(&s.b, -0.0)), x);
	assert_int_equal(ht_xsub(&s.b, x, ht_xf(&s.b, 0)), x);
	assert_int_equal(ht_xmul(&s.b, ht_xf(&s.b, 1), x), x);
	assert_int_not_equal(ht_xmul(&s.b, x, ht_xf(&s.b, 0)), ht_xf(&s.b, 0)); /* NaN */
}

static void test_builder_index(void **state)
{
	struct small s;
	struct ht_xb *b = &s.b;
	int32_t i, j, linear;

	(void)state;
	small_init(&s, 12);
	s.stage[0].dims = 3;
	s.stage[0].dim[1] = (struct ht_dim){ .extent = 10, .grid = -1 };
	s.stage[0].dim[2] = (struct ht_dim){ .extent = 1, .grid = -1 };
	i = ht_xdim(b, 0);
	j = ht_xdim(b, 1);
	assert_int_equal(constant(b, ht_xdim(b, 2)), 0);
	linear = ht_xadd(b, ht_xmul(b, i, ht_xi(b, 10)), j);
	/* The index arithmetic of a reshape is simplified away. */
	assert_int_equal(ht_xfloordiv(b, linear, ht_xi(b, 10)), i);
	assert_int_equal(ht_xfloormod(b, linear, ht_xi(b, 10)), j);
	int32_t q = ht_xfloordiv(b, linear, ht_xi(b, 7));
	int32_t r = ht_xfloormod(b, linear, ht_xi(b, 7));
	assert_int_equal(ht_xadd(b, ht_xmul(b, q, ht_xi(b, 7)), r), linear);
	assert_int_equal(constant(b, ht_xlt(b, linear, ht_xi(b, 120))), 1);
	assert_int_equal(b->stage->x[ht_xlt(b, linear, ht_xi(b, 119))].op, HT_X_LT);
	assert_true(ht_x_uses_dim(b->stage, r, 0));
	assert_false(ht_x_uses_dim(b->stage, i, 1));
}

/* ---- interpreter ---- */

static void test_float_rules(void **state)
{
	float x[6] = { NAN, -0.0f, 3e38f, INFINITY, 1.5f, -2.5f };
	float y[6] = { 1, 0.0f, 3e38f, -INFINITY, NAN, 2 }, min[6], sum[6], rint_[6];
	int32_t i32[6];
	uint8_t less[6];
	struct small s;
	struct ht_xb *b = &s.b;

	(void)state;
	small_init(&s, 6);
	small_buffer(&s, HT_BUFFER_IN, HT_F32, 6);
	small_buffer(&s, HT_BUFFER_IN, HT_F32, 6);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, 6);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, 6);
	small_buffer(&s, HT_BUFFER_OUT, HT_I32, 6);
	small_buffer(&s, HT_BUFFER_OUT, HT_BOOL, 6);
	int32_t lx = load1(b, 0, HT_F32), ly = load1(b, 1, HT_F32), at = ht_xdim(b, 0);
	ht_xstore(b, 2, at, ht_xmin(b, lx, ly));
	ht_xstore(b, 3, at, ht_xadd(b, lx, ly));
	ht_xstore(b, 4, at, ht_xcvt(b, HT_I32, lx));
	ht_xstore(b, 5, at, ht_xlt(b, lx, ly));
	assert_int_equal(small_run(&s, (void *[]){ x, y, min, sum, i32, less }), 0);
	assert_true(isnan(min[0]) && isnan(min[4]) && min[5] == -2.5f);
	assert_true(isinf(sum[2]) && isnan(sum[3]));
	assert_int_equal(i32[0], INT32_MIN);
	assert_int_equal(i32[2], INT32_MIN);
	assert_int_equal(i32[4], 1);
	assert_int_equal(i32[5], -2);
	assert_int_equal(less[0], 0);
	assert_int_equal(less[1], 0);
	assert_int_equal(less[5], 1);
	(void)rint_;
}

static void test_integer_division(void **state)
{
	int32_t x[5] = { 7, -7, INT32_MIN, 7, -7 }, y[5] = { 2, 2, -1, -2, -2 };
	int32_t q[5], f[5], r[5], m[5];
	static const int32_t want_q[5] = { 3, -3, INT32_MIN, -3, 3 };
	static const int32_t want_f[5] = { 3, -4, INT32_MIN, -4, 3 };
	static const int32_t want_r[5] = { 1, -1, 0, 1, -1 }, want_m[5] = { 1, 1, 0, -1, -1 };
	struct small s;
	struct ht_xb *b = &s.b;

	(void)state;
	small_init(&s, 5);
	for (int i = 0; i < 6; i++)
		small_buffer(&s, i < 2 ? HT_BUFFER_IN : HT_BUFFER_OUT, HT_I32, 5);
	int32_t lx = load1(b, 0, HT_I32), ly = load1(b, 1, HT_I32), at = ht_xdim(b, 0);
	ht_xstore(b, 2, at, ht_xidiv(b, lx, ly, false));
	ht_xstore(b, 3, at, ht_xidiv(b, lx, ly, true));
	ht_xstore(b, 4, at, ht_xirem(b, lx, ly, false));
	ht_xstore(b, 5, at, ht_xirem(b, lx, ly, true));
	assert_int_equal(small_run(&s, (void *[]){ x, y, q, f, r, m }), 0);
	assert_memory_equal(q, want_q, sizeof q);
	assert_memory_equal(f, want_f, sizeof f);
	assert_memory_equal(r, want_r, sizeof r);
	assert_memory_equal(m, want_m, sizeof m);
	y[3] = 0;
	assert_int_equal(small_run(&s, (void *[]){ x, y, q, f, r, m }), HT_FAULT_DIVISION);
}

/* Sum, maximum and its position over rows of a matrix, lanes along either dimension. */
static void reduce_matrix(int64_t rows, int64_t columns, bool transposed)
{
	float *x = ht_alloc(&arena, (size_t)(rows * columns) * 4);
	float *sum = ht_alloc(&arena, (size_t)rows * 4), *max = ht_alloc(&arena, (size_t)rows * 4);
	int64_t *arg = ht_alloc(&arena, (size_t)rows * 8);
	struct small s;
	struct ht_xb *b = &s.b;

	small_init(&s, rows);
	s.stage[0].dims = 2;
	s.stage[0].dim[1] = (struct ht_dim){ .extent = columns, .grid = -1, .reduce = true };
	small_buffer(&s, HT_BUFFER_IN, HT_F32, rows * columns);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, rows);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, rows);
	small_buffer(&s, HT_BUFFER_OUT, HT_I64, rows);
	int32_t i = ht_xdim(b, 0), j = ht_xdim(b, 1), at;
	if (transposed)
		at = ht_xadd(b, ht_xmul(b, j, ht_xi(b, rows)), i);
	else
		at = ht_xadd(b, ht_xmul(b, i, ht_xi(b, columns)), j);
	int32_t v = ht_xload(b, 0, HT_F32, at);
	ht_xstore(b, 1, i, ht_xred(b, ht_xreduce(b, HT_RED_ADD, v), HT_F32));
	ht_xstore(b, 2, i, ht_xred(b, ht_xreduce(b, HT_RED_MAX, v), HT_F32));
	ht_xstore(b, 3, i, ht_xred(b, ht_xreduce(b, HT_RED_ARGMAX, v), HT_I64));
	for (int64_t k = 0; k < rows * columns; k++)
		x[k] = (float)(k * 37 % 101);
	assert_int_equal(small_run(&s, (void *[]){ x, sum, max, arg }), 0);
	for (int64_t r = 0; r < rows; r++) {
		float want = 0, best = -INFINITY;
		int64_t where = 0;

		for (int64_t c = 0; c < columns; c++) {
			float e = transposed ? x[c * rows + r] : x[r * columns + c];

			want += e;
			if (e > best) {
				best = e;
				where = c;
			}
		}
		assert_true(sum[r] == want && max[r] == best);
		assert_int_equal(arg[r], where);
	}
}

static void test_reductions(void **state)
{
	static const int64_t sizes[] = { 1, 2, 15, 17, 129, 300 };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(sizes); i++)
		for (size_t j = 0; j < HT_COUNT(sizes); j++) {
			reduce_matrix(sizes[i], sizes[j], false);
			reduce_matrix(sizes[i], sizes[j], true);
		}
	reduce_matrix(3, 0, false); /* the neutral element */
}

static void test_argmax_of_nan(void **state)
{
	float x[4] = { NAN, 1, NAN, 3 };
	int64_t arg = -1;
	struct small s;

	(void)state;
	small_init(&s, 4);
	s.stage[0].dim[0].reduce = true;
	small_buffer(&s, HT_BUFFER_IN, HT_F32, 4);
	small_buffer(&s, HT_BUFFER_OUT, HT_I64, 1);
	int red = ht_xreduce(&s.b, HT_RED_ARGMAX, load1(&s.b, 0, HT_F32));
	ht_xstore(&s.b, 1, ht_xi(&s.b, 0), ht_xred(&s.b, red, HT_I64));
	assert_int_equal(small_run(&s, (void *[]){ x, &arg }), 0);
	assert_int_equal(arg, 3);
	x[1] = x[3] = NAN;
	assert_int_equal(small_run(&s, (void *[]){ x, &arg }), 0);
	assert_int_equal(arg, 0);
}

static void test_checks_and_guards(void **state)
{
	int32_t index[4] = { 0, 3, 2, 1 };
	float x[4] = { 10, 11, 12, 13 }, y[4], z[4];
	struct small s;
	struct ht_xb *b = &s.b;

	(void)state;
	small_init(&s, 4);
	small_buffer(&s, HT_BUFFER_IN, HT_I32, 4);
	small_buffer(&s, HT_BUFFER_IN, HT_F32, 4);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, 4);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, 4);
	int32_t at = ht_xcvt(b, HT_I64, load1(b, 0, HT_I32));
	int32_t good = ht_xand(b, ht_xle(b, ht_xi(b, 0), at), ht_xlt(b, at, ht_xi(b, 4)));
	ht_xstore(b, 2, ht_xdim(b, 0),
		ht_xload(b, 1, HT_F32, ht_xcheck(b, at, good, HT_FAULT_INDEX)));
	int32_t left = ht_xadd(b, ht_xdim(b, 0), ht_xi(b, -1));
	ht_xstore(b, 3, ht_xdim(b, 0),
		ht_xload_if(b, 1, HT_F32, left, ht_xle(b, ht_xi(b, 0), left), ht_xf(b, -1)));
	assert_int_equal(small_run(&s, (void *[]){ index, x, y, z }), 0);
	assert_true(y[0] == 10 && y[1] == 13 && y[2] == 12 && y[3] == 11);
	assert_true(z[0] == -1 && z[1] == 10 && z[3] == 12);
	index[2] = 4;
	assert_int_equal(small_run(&s, (void *[]){ index, x, y, z }), HT_FAULT_INDEX);
}

/* The structure of Softmax: three stages over one grid, with local buffers between them. */
static void test_stages_and_grid(void **state)
{
	float x[6 * 10], y[6 * 10];
	struct ht_stage stage[3] = { { .dims = 2, .vec = -1 }, { .dims = 2, .vec = -1 },
		{ .dims = 2, .vec = -1 } };
	struct ht_kernel_buffer buffer[4] = { { HT_BUFFER_IN, HT_F32, 60 },
		{ HT_BUFFER_OUT, HT_F32, 60 }, { HT_BUFFER_LOCAL, HT_F32, 4 },
		{ HT_BUFFER_LOCAL, HT_F32, 4 } };
	struct ht_kernel k = { .buffer = buffer,
		.buffers = 4,
		.args = 2,
		.grid_dims = 1,
		.grid = { 2 },
		.stage = stage,
		.stages = 3 };
	void *scratch = ht_alloc(&arena, ht_kernel_scratch(&k));
	struct ht_xb b;

	(void)state;
	assert_int_equal(ht_kernel_local_offset(&k, 3), 64);
	assert_int_equal(ht_kernel_scratch(&k), 128);
	for (int i = 0; i < 3; i++) {
		stage[i].dim[0] = (struct ht_dim){ .extent = 6, .grid = 0, .step = 4 };
		stage[i].dim[1] = (struct ht_dim){ .extent = 10, .grid = -1, .reduce = i < 2 };
		ht_xb_init(&b, &arena, &stage[i]);
		int32_t row = ht_xdim(&b, 0);
		int32_t at = ht_xadd(&b, ht_xmul(&b, row, ht_xi(&b, 10)), ht_xdim(&b, 1));
		int32_t local = ht_xsub(&b, row, ht_xmul(&b, ht_xgrid(&b, 0), ht_xi(&b, 4)));
		int32_t v = ht_xload(&b, 0, HT_F32, at);

		if (i == 0)
			ht_xstore(&b, 2, local, ht_xred(&b, ht_xreduce(&b, HT_RED_MAX, v), HT_F32));
		if (i == 1) {
			v = ht_xsub(&b, ht_xload(&b, 2, HT_F32, local), v);
			ht_xstore(&b, 3, local, ht_xred(&b, ht_xreduce(&b, HT_RED_ADD, v), HT_F32));
		}
		if (i == 2)
			ht_xstore(&b, 1, at, ht_xdiv(&b, v, ht_xload(&b, 3, HT_F32, local)));
	}
	for (int i = 0; i < 60; i++)
		x[i] = (float)(i * 7 % 13);
	ht_kernel_verify(&k);
	/* Tiles in any order, one at a time. */
	for (int64_t t = 1; t >= 0; t--)
		assert_int_equal(ht_interpret(&k, (void *[]){ x, y }, NULL, t, t + 1, scratch), 0);
	for (int r = 0; r < 6; r++) {
		float max = 0, sum = 0;

		for (int c = 0; c < 10; c++)
			max = fmaxf(max, x[10 * r + c]);
		for (int c = 0; c < 10; c++)
			sum += max - x[10 * r + c];
		for (int c = 0; c < 10; c++)
			assert_true(y[10 * r + c] == x[10 * r + c] / sum);
	}
}

static bool valid(const struct ht_kernel *k)
{
	struct ht_buf why;

	ht_buf_init(&why, &arena);
	bool ok = ht_kernel_valid(k, &why);
	assert_int_equal(ok, ht_buf_str(&why).n == 0); /* a refusal says why */
	return ok;
}

/* ---- contraction against the same sum as a loop ---- */

struct convolution {
	int64_t size, in, out,
		taps; /* 1-d: y[p, n] = sum over q, k of x[p + q - 1, k] * w[q, k, n] */
	int32_t nr, kp;
	enum ht_dtype dtype;
};

static uint64_t seed = 1;

static uint32_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

static void set_number(enum ht_dtype t, void *p, int64_t i, float f)
{
	if (t == HT_F32)
		((float *)p)[i] = f;
	else
		((uint16_t *)p)[i] = t == HT_BF16 ? ht_f32_to_bf16(f) : ht_f32_to_f16(f);
}

static float get_number(enum ht_dtype t, const void *p, int64_t i)
{
	if (t == HT_F32)
		return ((const float *)p)[i];
	return t == HT_BF16 ? ht_bf16_to_f32(((const uint16_t *)p)[i])
			    : ht_f16_to_f32(((const uint16_t *)p)[i]);
}

static void convolve(struct convolution c)
{
	struct ht_pack pack = { c.dtype, c.dtype, c.taps, c.in, c.out, c.in * c.out, c.out, 1, c.nr,
		c.kp, false, false, 0 };
	int64_t packed = ht_packed_count(&pack);
	char *x = ht_alloc(&arena, (size_t)(c.size * c.in + 1) * 4);
	char *w = ht_alloc(&arena, (size_t)(c.taps * c.in * c.out) * 4);
	char *b_packed = ht_alloc(&arena, (size_t)packed * 4);
	float *y = ht_alloc(&arena, (size_t)(c.size * c.out) * 4);
	struct small s;
	struct ht_xb *b = &s.b;
	struct ht_stage *st = &s.stage[0];

	for (int64_t i = 0; i < c.size * c.in; i++)
		set_number(c.dtype, x, i, (float)(draw() % 16) - 8);
	for (int64_t i = 0; i < c.taps * c.in * c.out; i++)
		set_number(c.dtype, w, i, (float)(draw() % 16) - 8);
	ht_pack_b(&pack, w, b_packed);
	small_init(&s, c.size);
	st->kind = HT_STAGE_CONTRACT;
	st->dims = 4;
	s.k.grid_dims = 2;
	s.k.grid[0] = (c.size + 2) / 3;
	s.k.grid[1] = (c.out + c.nr - 1) / c.nr;
	st->dim[0] = (struct ht_dim){ .extent = c.size, .grid = 0, .step = 3 };
	st->dim[1] = (struct ht_dim){ .extent = c.out, .grid = 1, .step = c.nr };
	st->dim[2] = (struct ht_dim){ .extent = c.taps, .grid = -1, .reduce = true };
	st->dim[3] = (struct ht_dim){ .extent = c.in, .grid = -1, .reduce = true };
	small_buffer(&s, HT_BUFFER_IN, c.dtype, c.size * c.in + 1);
	small_buffer(&s, HT_BUFFER_IN, c.dtype, packed);
	small_buffer(&s, HT_BUFFER_OUT, HT_F32, c.size * c.out);
	int32_t at = ht_xadd(b, ht_xadd(b, ht_xdim(b, 0), ht_xdim(b, 2)), ht_xi(b, -1));
	int32_t inside = ht_xand(b, ht_xle(b, ht_xi(b, 0), at), ht_xlt(b, at, ht_xi(b, c.size)));
	st->contract = (struct ht_contract){ .m = 0,
		.n = 1,
		.a_buffer = 0,
		.b_buffer = 1,
		.a_row = ht_xmul(b, at, ht_xi(b, c.in)),
		.a_guard = inside,
		.a_step = 1,
		.b_base = ht_xi(b, 0),
		.nr = c.nr,
		.kp = c.kp };
	int32_t to = ht_xadd(b, ht_xmul(b, ht_xdim(b, 0), ht_xi(b, c.out)), ht_xdim(b, 1));
	ht_xstore(b, 2, to, ht_xmax(b, ht_xred(b, 0, HT_F32), ht_xf(b, 0)));
	assert_int_equal(small_run(&s, (void *[]){ x, b_packed, y }), 0);
	for (int64_t p = 0; p < c.size; p++)
		for (int64_t n = 0; n < c.out; n++) {
			float want = 0; /* small integers are exact */

			for (int64_t q = 0; q < c.taps; q++)
				for (int64_t k = 0; k < c.in && p + q >= 1 && p + q <= c.size; k++)
					want += get_number(c.dtype, x, (p + q - 1) * c.in + k) *
						get_number(c.dtype, w, (q * c.in + k) * c.out + n);
			assert_true(y[p * c.out + n] == (want > 0 ? want : 0));
		}
	st->dim[1].step += c.nr / 2; /* the second tile would begin in the middle of a panel */
	assert_false(valid(&s.k));
}

static void test_contraction(void **state)
{
	(void)state;
	convolve((struct convolution){ 7, 5, 9, 3, 4, 1, HT_F32 });
	convolve((struct convolution){ 7, 5, 9, 3, 4, 2, HT_BF16 });
	convolve((struct convolution){ 1, 1, 1, 1, 16, 1, HT_F32 });
	convolve((struct convolution){ 4, 8, 48, 1, 16, 1, HT_F16 });
	convolve((struct convolution){ 4, 33, 70, 3, 32, 2, HT_BF16 });
	convolve((struct convolution){ 4, 33, 300, 3, 32, 1, HT_BF16 });
}

/* ---- verifier and text ---- */

static void valid_kernel(struct small *s)
{
	struct ht_xb *b = &s->b;

	small_init(s, 8);
	s->stage[0].dims = 2;
	s->stage[0].dim[1] = (struct ht_dim){ .extent = 4, .grid = -1, .reduce = true };
	small_buffer(s, HT_BUFFER_IN, HT_F32, 32);
	small_buffer(s, HT_BUFFER_OUT, HT_F32, 8);
	int32_t at = ht_xadd(b, ht_xmul(b, ht_xdim(b, 0), ht_xi(b, 4)), ht_xdim(b, 1));
	int32_t v = ht_xload(b, 0, HT_F32, at);
	int red = ht_xreduce(b, HT_RED_ADD, ht_xmul(b, v, v));
	ht_xstore(b, 1, ht_xdim(b, 0), ht_xsqrt(b, ht_xred(b, red, HT_F32)));
}

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		valid_kernel(&s);                                                                  \
		assert_true(valid(&s.k));                                                          \
		change;                                                                            \
		assert_false(valid(&s.k));                                                         \
	} while (0)

static int32_t find(const struct small *s, enum ht_xop op)
{
	for (int32_t i = 0; i < s->stage[0].xs; i++)
		if (s->stage[0].x[i].op == op)
			return i;
	fail();
	return -1;
}

static void test_verifier_refuses(void **state)
{
	struct small s;

	(void)state;
#define X(op) s.stage[0].x[find(&s, HT_X_##op)]
	REFUSED(X(MUL).a = 1000);
	REFUSED(X(MUL).a = -1);
	REFUSED(X(MUL).b = find(&s, HT_X_SQRT)); /* a later one */
	REFUSED(X(MUL).c = 0);
	REFUSED(X(SQRT).dtype = HT_I32);
	REFUSED(X(SQRT).dtype = HT_F64);
	REFUSED(X(LOAD).imm = 9);
	REFUSED(X(LOAD).dtype = HT_F16);
	REFUSED(X(LOAD).b = 0);
	REFUSED(X(DIM).imm = 2);
	REFUSED(X(RED).imm = 1);
	REFUSED(X(RED).dtype = HT_I64);
	REFUSED(X(SQRT).op = HT_X_END);
	REFUSED(s.stage[0].dim[0].reduce = true; s.stage[0].dim[1].reduce = false);
	REFUSED(s.stage[0].dim[0].grid = 0);
	REFUSED(s.stage[0].dim[0].extent = -1);
	REFUSED(s.stage[0].red[0].x = find(&s, HT_X_SQRT));
	REFUSED(s.stage[0].red[0].op = HT_RED_AND);
	REFUSED(s.stage[0].reds = 0);
	REFUSED(s.stage[0].store[0].buffer = 0);
	REFUSED(s.stage[0].store[0].offset = s.stage[0].store[0].value);
	REFUSED(s.stage[0].store[0].value = find(&s, HT_X_LOAD));   /* inside the reduction */
	REFUSED(s.stage[0].store[0].offset = find(&s, HT_X_CONST)); /* the same in all iterations */
	REFUSED(s.stage[0].vec = 2);
	REFUSED(s.buffer[0].kind = HT_BUFFER_LOCAL);
	REFUSED(s.k.args = 3);
	REFUSED(s.k.library = "no such kernel");
	REFUSED(s.k.turns = 1); /* without a grid, by a float */
	REFUSED(s.k.turns = 9);
	REFUSED(s.k.turns = -1);
#undef X
}

/* Random damage to every number: the verifier accepts or refuses, but stays within bounds. */
static void test_verifier_is_robust(void **state)
{
	struct small s;
	int refused = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		valid_kernel(&s);
		struct ht_x *x = &s.stage[0].x[draw() % (uint32_t)s.stage[0].xs];
		int32_t number = (int32_t)(draw() % 40) - 10;

		switch (draw() % 7) {
		case 0:
			x->a = number;
			break;
		case 1:
			x->b = number;
			break;
		case 2:
			x->c = number;
			break;
		case 3:
			x->imm = number;
			break;
		case 4:
			x->dtype = (enum ht_dtype)(draw() % HT_DTYPE_END);
			break;
		case 5:
			x->op = (enum ht_xop)(draw() % (HT_X_END + 3));
			break;
		default:
			s.stage[0].kind = HT_STAGE_CONTRACT;
			s.stage[0].contract.m = number;
			s.stage[0].contract.a_row = number;
		}
		refused += !valid(&s.k);
		if (i % 1000 == 0) {
			ht_arena_release(&arena);
			ht_arena_init(&arena, &unwind);
		}
	}
	assert_true(refused > 10000 && refused < 20000);
}

static void test_text(void **state)
{
	struct small s, other;
	struct ht_buf one, two;

	(void)state;
	valid_kernel(&s);
	valid_kernel(&other);
	ht_buf_init(&one, &arena);
	ht_buf_init(&two, &arena);
	ht_kernel_print(&s.k, &one);
	ht_kernel_print(&other.k, &two);
	assert_true(ht_str_eq(ht_buf_str(&one), ht_buf_str(&two)));
	assert_non_null(strstr(ht_buf_str(&one).p, "load b0"));
	other.stage[0].dim[1].extent = 5;
	ht_buf_init(&two, &arena);
	ht_kernel_print(&other.k, &two);
	assert_false(ht_str_eq(ht_buf_str(&one), ht_buf_str(&two)));
}

/* The line with that number, from 1; NULL: there is none. */
static const char *line_of(const char *text, int32_t number)
{
	for (; text && number > 1; number--) {
		text = strchr(text, '\n');
		text = text && text[1] ? text + 1 : NULL;
	}
	return text;
}

static void check_line(const char *text, const struct ht_kernel *k, enum ht_stage_part part,
	int32_t i, const char *begins)
{
	for (int32_t stage = 0; stage < k->stages; stage++) {
		const char *line = line_of(text, ht_kernel_line(k, stage, part, i));

		assert_non_null(line);
		assert_memory_equal(line, begins, strlen(begins));
	}
}

static void test_lines(void **state)
{
	struct small s;
	struct ht_buf text;
	const char *p;

	(void)state;
	valid_kernel(&s);
	s.stage[1] = s.stage[0];
	s.k.stages = 2;
	ht_buf_init(&text, &arena);
	ht_kernel_print(&s.k, &text);
	p = ht_buf_str(&text).p;
	check_line(p, &s.k, HT_PART_STAGE, 0, "  loop {");
	check_line(p, &s.k, HT_PART_X, 0, "    %0 = ");
	check_line(p, &s.k, HT_PART_X, 2, "    %2 = ");
	check_line(p, &s.k, HT_PART_STORE, 0, "    store b");
	if (s.stage[0].reds)
		check_line(p, &s.k, HT_PART_RED, 0, "    red 0 = ");
	assert_string_equal(line_of(p, ht_kernel_lines(&s.k)), "}\n");
}

/* Nets have no table of types. */
static void test_types_in_nets(void **state)
{
	(void)state;
	for (int t = 0; t < HT_DTYPE_END; t++) {
		const struct ht_dtype_info *info = ht_dtype_info((enum ht_dtype)t);

		if (info->bytes)
			assert_int_equal(ht_element_bytes((enum ht_dtype)t), info->bytes);
		if (ht_is_kernel_float((enum ht_dtype)t))
			assert_int_equal(ht_infinity_bits((enum ht_dtype)t),
				((UINT64_C(1) << info->exponent) - 1) << info->mantissa);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_builder_shares),
		TEST(test_builder_folds),
		TEST(test_builder_keeps_signed_zero),
		TEST(test_builder_index),
		TEST(test_float_rules),
		TEST(test_integer_division),
		TEST(test_reductions),
		TEST(test_argmax_of_nan),
		TEST(test_checks_and_guards),
		TEST(test_stages_and_grid),
		TEST(test_contraction),
		TEST(test_verifier_refuses),
		TEST(test_verifier_is_robust),
		TEST(test_text),
		TEST(test_lines),
		TEST(test_types_in_nets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
