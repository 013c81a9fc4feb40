/* Every operation and conversion on special values, against the interpreter; checks that fail;
 * kernels of several stages; and objects refer to nothing outside. */
#include <elf.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include "kernel/expr.h"
#include "kernel/lines.h"
#include "tests/unit/backend.h"
#include "tests/unit/sanitized.h"

#include <cmocka.h>

static const struct ht_backend *backend;

static const enum ht_dtype computing[] = { HT_F32, HT_F64, HT_I8, HT_I16, HT_I32, HT_I64, HT_U8,
	HT_U16, HT_U32, HT_U64, HT_BOOL };

static const double reals[] = { 0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.75, -7.25, 100.5,
	127.9, 128, -128.9, -129, 255.9, 256, 32767.5, -32769, 65535.9, 65536, 65519.9, 65520,
	-65520, 2147483647, 2147483648.0, -2147483648.0, -2147483649.0, -2147483648.5, 4294967295.0,
	4294967296.0, 9.2e18, -9.3e18, 1e19, 1.9e19, 1e30, -1e30, 3.4e38, 6e-8, 5.9e-8, 2.9e-8,
	3e-5, 6.1e-5, 6.0e-5, 1.17e-38, 1e-40, -1e-45, 8388607.5, 8388609, -8388608.5,
	4503599627370497.5, 9007199254740993.0, 0x1.fffffep-127, INFINITY, -INFINITY, NAN, 1e-310,
	1e300 };

static const int64_t ints[] = { 0, 1, -1, 2, -2, 3, 5, 7, -7, 31, 32, 33, 63, 64, 65, 100, 126, 127,
	128, -127, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 65535, 65536, INT32_MAX,
	INT32_MIN, (int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, UINT32_MAX, INT64_MAX, INT64_MIN,
	INT64_MAX - 1, INT64_MIN + 1, 123456789012345 };

static void put(enum ht_dtype t, void *p, int64_t i, int number)
{
	double d = reals[(size_t)number % HT_COUNT(reals)];
	int64_t n = ints[(size_t)number % HT_COUNT(ints)];

	if (t == HT_F32)
		((float *)p)[i] = (float)d;
	else if (t == HT_F64)
		((double *)p)[i] = d;
	else if (t == HT_F16 || t == HT_BF16)
		((uint16_t *)p)[i] = (uint16_t)number;
	else if (t == HT_BOOL)
		((uint8_t *)p)[i] = number & 1;
	else
		memcpy((char *)p + (size_t)i * ht_dtype_info(t)->bytes, &n,
			ht_dtype_info(t)->bytes);
}

static double real_at(enum ht_dtype t, const void *p, int64_t i)
{
	switch (t) {
	case HT_F32:
		return ((const float *)p)[i];
	case HT_F64:
		return ((const double *)p)[i];
	case HT_F16:
		return ht_f16_to_f32(((const uint16_t *)p)[i]);
	default:
		return ht_bf16_to_f32(((const uint16_t *)p)[i]);
	}
}

static bool same(enum ht_dtype t, const void *a, const void *b, int64_t i)
{
	size_t n = ht_dtype_info(t)->bytes;
	double x, y;

	if (memcmp((const char *)a + (size_t)i * n, (const char *)b + (size_t)i * n, n) == 0)
		return true;
	if (!ht_is_float(t))
		return false;
	x = real_at(t, a, i);
	y = real_at(t, b, i);
	return isnan(x) && isnan(y);
}

/* Kernels of up to three inputs of one type, one output, one loop over n elements. */
struct small {
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[8];
	struct ht_stage stage[3];
	struct ht_xb b;
	int64_t n;
};

static void small_init(struct small *s, int64_t n)
{
	memset(s, 0, sizeof *s);
	ht_arena_init(&s->arena, &s->unwind);
	s->k = (struct ht_kernel){ .buffer = s->buffer, .stage = s->stage, .stages = 1 };
	s->stage[0] = (struct ht_stage){ .dims = 1, .vec = 0 };
	s->stage[0].dim[0] = (struct ht_dim){ .extent = n, .grid = -1, .unroll = 1 };
	s->n = n;
	ht_xb_init(&s->b, &s->arena, &s->stage[0]);
}

static int32_t input(struct small *s, enum ht_dtype t)
{
	s->buffer[s->k.buffers] = (struct ht_kernel_buffer){ HT_BUFFER_IN, t, s->n };
	s->k.args++;
	return ht_xload(&s->b, s->k.buffers++, t, ht_xdim(&s->b, 0));
}

static void output(struct small *s, int32_t x)
{
	s->buffer[s->k.buffers] =
		(struct ht_kernel_buffer){ HT_BUFFER_OUT, s->stage[0].x[x].dtype, s->n };
	s->k.args++;
	ht_xstore(&s->b, s->k.buffers++, ht_xdim(&s->b, 0), x);
}

static int32_t call(ht_kernel_fn *fn, const struct ht_kernel *k, void *const *p)
{
	void *scratch = aligned_alloc(64, (ht_kernel_scratch(k) + 127) / 64 * 64);
	int64_t tiles = ht_kernel_tiles(k);
	int32_t r =
		fn ? fn(p, NULL, 0, tiles, scratch) : ht_interpret(k, p, NULL, 0, tiles, scratch);

	free(scratch);
	return r;
}

/* signed_zero: -0 and +0 count as different. */
static int check(struct small *s, void *const *data, const char *what, bool fused, bool signed_zero)
{
	int out = s->k.args - 1, bad = 0;
	enum ht_dtype t = s->buffer[out].dtype;
	size_t bytes = (size_t)s->n * 8;
	void *p[8], *expect = calloc(1, bytes), *got = calloc(1, bytes);

	ht_kernel_verify(&s->k);
	memcpy(p, data, sizeof p);
	p[out] = expect;
	assert_int_equal(call(NULL, &s->k, p), 0);
	p[out] = got;
	for (const struct ht_target *const *target = ht_targets(); *target; target++) {
		struct ht_code *code = NULL;
		ht_kernel_fn *fn;

		if (!backend_is_level(*target))
			continue; /* its instructions are those of its level */
		fn = backend_compile(backend, &s->k, *target, &code);
		bad += fn == NULL;
		if (fn && backend_runs(*target) && (!fused || (*target)->fused)) {
			memset(got, 0x5a, bytes);
			bad += call(fn, &s->k, p) != 0;
			for (int64_t i = 0; i < s->n; i++) {
				if (same(t, expect, got, i) || (!signed_zero && ht_is_float(t) &&
								       real_at(t, expect, i) == 0 &&
								       real_at(t, got, i) == 0))
					continue;
				fprintf(stderr, "%s %s: element %lld differs\n", (*target)->name,
					what, (long long)i);
				bad++;
				break;
			}
		}
		backend->free(code);
	}
	free(expect);
	free(got);
	ht_arena_release(&s->arena);
	return bad;
}

static void test_one_operand(void **state)
{
	static const enum ht_xop ops[] = { HT_X_NEG, HT_X_ABS, HT_X_SQRT, HT_X_FLOOR, HT_X_CEIL,
		HT_X_RINT, HT_X_TRUNC, HT_X_NOT };
	double data[70];
	int bad = 0;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(ops); i++)
		for (size_t j = 0; j < HT_COUNT(computing); j++) {
			enum ht_dtype t = computing[j];
			bool real = ht_is_float(t), logic = t == HT_BOOL;
			struct small s;
			void *p[8] = { data };
			char what[80];

			if (ops[i] == HT_X_NOT ? real : logic || (!real && ops[i] > HT_X_ABS))
				continue;
			small_init(&s, 67);
			for (int k = 0; k < 67; k++)
				put(t, data, k, k);
			output(&s, ht_x1(&s.b, ops[i], input(&s, t)));
			snprintf(what, sizeof what, "op %d of %s", ops[i], ht_dtype_info(t)->name);
			bad += check(&s, p, what, false, true);
		}
	assert_int_equal(bad, 0);
}

static bool takes(enum ht_xop op, enum ht_dtype t)
{
	bool real = ht_is_float(t), logic = t == HT_BOOL;

	switch (op) {
	case HT_X_AND:
	case HT_X_OR:
	case HT_X_XOR:
		return !real;
	case HT_X_SHL:
	case HT_X_SHR:
	case HT_X_SAR:
		return !real && !logic;
	case HT_X_EQ:
	case HT_X_NE:
		return true;
	case HT_X_DIV:
	case HT_X_REM:
		return real;
	default:
		return !logic;
	}
}

static void test_two_operands(void **state)
{
	static const enum ht_xop ops[] = { HT_X_ADD, HT_X_SUB, HT_X_MUL, HT_X_DIV, HT_X_REM,
		HT_X_MIN, HT_X_MAX, HT_X_AND, HT_X_OR, HT_X_XOR, HT_X_SHL, HT_X_SHR, HT_X_SAR,
		HT_X_EQ, HT_X_NE, HT_X_LT, HT_X_LE };
	enum { N = 60 * 60 + 5 };
	double *a = malloc(N * 8), *b = malloc(N * 8);
	int bad = 0;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(ops); i++)
		for (size_t j = 0; j < HT_COUNT(computing); j++) {
			enum ht_dtype t = computing[j];
			struct small s;
			void *p[8] = { a, b };
			char what[80];
			int32_t x;

			if (!takes(ops[i], t) || !sanitized_turn(i + j))
				continue;
			small_init(&s, N);
			for (int k = 0; k < N; k++) {
				put(t, a, k, k % 60);
				put(t, b, k, k / 60);
			}
			x = input(&s, t);
			output(&s, ht_x2(&s.b, ops[i], x, input(&s, t)));
			snprintf(what, sizeof what, "op %d of %s", ops[i], ht_dtype_info(t)->name);
			bad += check(&s, p, what, false, ops[i] != HT_X_MIN && ops[i] != HT_X_MAX);
		}
	free(a);
	free(b);
	assert_int_equal(bad, 0);
}

static void test_conversions(void **state)
{
	double data[70];
	int bad = 0;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(computing); i++)
		for (size_t j = 0; j < HT_COUNT(computing) + 2; j++) {
			enum ht_dtype from = computing[i];
			enum ht_dtype to = j < HT_COUNT(computing)    ? computing[j]
					   : j == HT_COUNT(computing) ? HT_F16
								      : HT_BF16;
			struct small s;
			void *p[8] = { data };
			char what[80];

			if (from == to || (j >= HT_COUNT(computing) && from != HT_F32))
				continue;
			if (!sanitized_turn(i + j))
				continue;
			small_init(&s, 67);
			for (int k = 0; k < 67; k++)
				put(from, data, k, k);
			output(&s, ht_xcvt(&s.b, to, input(&s, from)));
			snprintf(what, sizeof what, "%s to %s", ht_dtype_info(from)->name,
				ht_dtype_info(to)->name);
			bad += check(&s, p, what, false, true);
		}
	assert_int_equal(bad, 0);
}

/* All 65536 numbers of both types to F32, and numbers around each of them back. */
static void test_halves(void **state)
{
	static const enum ht_dtype types[] = { HT_F16, HT_BF16 };
	uint16_t *all = malloc(65536 * 2);
	float *around = malloc(65536 * 3 * 4);
	int bad = 0;

	(void)state;
	for (int i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	for (int j = 0; j < 2; j++) {
		struct small s;
		void *p[8] = { all };

		small_init(&s, 65536);
		output(&s, ht_xcvt(&s.b, HT_F32, input(&s, types[j])));
		bad += check(&s, p, "half to float32", false, true);
		for (uint32_t i = 0; i < 65536; i++) {
			uint32_t u = i << 16;
			float f;

			if (types[j] == HT_F16) {
				f = ht_f16_to_f32((uint16_t)i);
				memcpy(&u, &f, 4);
			}
			/* the number, the middle to the next one, and one bit above that */
			for (int v = 0; v < 3; v++) {
				uint32_t w = u +
					     (v ? (types[j] == HT_F16 ? 0x1000u : 0x8000u) : 0) +
					     (v == 2);

				memcpy(&around[i * 3 + (uint32_t)v], &w, 4);
			}
		}
		p[0] = around;
		small_init(&s, 65536 * 3);
		output(&s, ht_xcvt(&s.b, types[j], input(&s, HT_F32)));
		bad += check(&s, p, "float32 to half", false, true);
	}
	free(all);
	free(around);
	assert_int_equal(bad, 0);
}

static void test_muladd(void **state)
{
	enum { N = 59 * 59 };
	float *a = malloc(N * 4), *b = malloc(N * 4), *c = malloc(N * 4);
	void *p[8] = { a, b, c };
	struct small s;
	int32_t x, y;

	(void)state;
	for (int k = 0; k < N; k++) {
		put(HT_F32, a, k, k % 59);
		put(HT_F32, b, k, k / 59);
		put(HT_F32, c, k, k % 53);
	}
	small_init(&s, N);
	x = input(&s, HT_F32);
	y = input(&s, HT_F32);
	output(&s, ht_xmuladd(&s.b, x, y, input(&s, HT_F32)));
	assert_int_equal(check(&s, p, "muladd", true, true), 0);
	free(a);
	free(b);
	free(c);
}

/* Results that are subnormal, infinite, and NaN. */
static void test_scale(void **state)
{
	static const float by[] = { 0, 1, -1, 126, 127, 128, -125, -126, -127, -149, -150, 250,
		-250 };
	enum { SIZES = 512, N = SIZES * HT_COUNT(by) + 3 };
	float *a = malloc(N * 4), *b = malloc(N * 4);
	void *p[8] = { a, b };
	struct small s;
	int32_t x;

	(void)state;
	for (size_t k = 0; k < N; k++) {
		a[k] = 0.5f + (float)(k % SIZES) * 0x1.b6db6ep-8f;
		a[k] = k % 2 ? a[k] : -a[k];
		b[k] = by[k / SIZES % HT_COUNT(by)];
	}
	for (int k = 1; k <= 3; k++)
		a[N - k] = b[N - k] = NAN;
	small_init(&s, N);
	x = input(&s, HT_F32);
	output(&s, ht_xscale(&s.b, x, input(&s, HT_F32)));
	assert_int_equal(check(&s, p, "scale", false, true), 0);
	free(a);
	free(b);
}

/* Sums of two BF16 numbers, rounded; from memory, from a rounding, and limited from below. */
static void test_low_sums(void **state)
{
	static const uint16_t special[] = { 0, 0x8000, 1, 0x8001, 0x7f, 0x807f, 0x80, 0x8080, 0x81,
		0x8081, 0x100, 0x8100, 0x3f80, 0xbf80, 0x3f81, 0xbf81, 0x4049, 0x3b80, 0x7f7f,
		0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1 };
	enum { KINDS = HT_COUNT(special), N = KINDS * KINDS + 5 };
	uint16_t a[N], b[N];
	void *p[8] = { a, b };
	int bad = 0;

	(void)state;
	for (size_t k = 0; k < N; k++) {
		a[k] = special[k % KINDS];
		b[k] = special[k / KINDS % KINDS];
	}
	for (int rounded = 0; rounded < 2; rounded++)
		for (int limited = 0; limited < 2; limited++) {
			struct small s;
			int32_t x, y;

			small_init(&s, N);
			x = ht_xcvt(&s.b, HT_F32, input(&s, HT_BF16));
			y = ht_xcvt(&s.b, HT_F32, input(&s, HT_BF16));
			if (rounded) {
				x = ht_xmul(&s.b, x, ht_xf(&s.b, 1.25));
				x = ht_xcvt(&s.b, HT_F32, ht_xcvt(&s.b, HT_BF16, x));
			}
			x = ht_xadd(&s.b, x, y);
			if (limited)
				x = ht_xmax(&s.b, x, ht_xf(&s.b, 0));
			output(&s, ht_xcvt(&s.b, HT_BF16, x));
			bad += check(&s, p, "sum", false, !limited);
		}
	assert_int_equal(bad, 0);
}

/* Rounded to BF16 between limits, and widened again: numbers of every exponent and sign with many
 * fractions around midpoints of two BF16 numbers, subnormal ones, infinity and NaN. */
static void test_limited_roundings(void **state)
{
	static const uint32_t low[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
	static const float upper[] = { 6, 1, 0x1.fffffep99F, 0x1p-90F, 0x1.fffffep127F };
	enum { N = 1 << 14 };
	float *a = malloc(N * sizeof *a);
	void *p[8] = { a };
	struct small s;
	int bad = 0;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		/* the sign, the exponent and the first bits, two more, and the rest */
		uint32_t u = i << 18 | (i * 5 & 3) << 16 | low[i % HT_COUNT(low)];

		memcpy(&a[i], &u, 4);
	}
	for (size_t i = 0; i < 2 * HT_COUNT(upper); i++) {
		int32_t x, limit;

		small_init(&s, N);
		x = input(&s, HT_F32);
		limit = ht_xf(&s.b, (double)upper[i / 2]);
		if (i % 2)
			x = ht_xmax(&s.b, ht_xmin(&s.b, x, limit), ht_xf(&s.b, 0));
		else
			x = ht_xmin(&s.b, ht_xmax(&s.b, x, ht_xf(&s.b, 0)), limit);
		output(&s, ht_xcvt(&s.b, HT_F32, ht_xcvt(&s.b, HT_BF16, x)));
		bad += check(&s, p, "limited rounding", false, false);
	}
	free(a);
	assert_int_equal(bad, 0);
}

/* An index out of range in one lane, in the remainder after whole vectors, or nowhere. */
static void test_faults(void **state)
{
	enum { N = 37, ROWS = 11 };
	int32_t index[N];
	float table[ROWS], got[N];
	void *p[8] = { index, table, got };
	struct small s;
	int32_t i;

	(void)state;
	for (int k = 0; k < ROWS; k++)
		table[k] = (float)k * 3;
	small_init(&s, N);
	i = ht_xcvt(&s.b, HT_I64, input(&s, HT_I32));
	s.buffer[1] = (struct ht_kernel_buffer){ HT_BUFFER_IN, HT_F32, ROWS };
	s.k.buffers = s.k.args = 2;
	i = ht_xcheck(&s.b, i,
		ht_xand(&s.b, ht_xle(&s.b, ht_xi(&s.b, 0), i), ht_xlt(&s.b, i, ht_xi(&s.b, ROWS))),
		HT_FAULT_INDEX);
	output(&s, ht_xload(&s.b, 1, HT_F32, i));
	ht_kernel_verify(&s.k);
	for (const struct ht_target *const *t = ht_targets(); *t; t++) {
		struct ht_code *code = NULL;
		ht_kernel_fn *fn;

		if (!backend_is_level(*t))
			continue;
		fn = backend_compile(backend, &s.k, *t, &code);
		assert_non_null(fn);
		for (int where = 0; where <= N && backend_runs(*t); where++) {
			for (int k = 0; k < N; k++)
				index[k] = k == where ? (k % 2 ? -1 : ROWS + 1000000000) : k % ROWS;
			assert_int_equal(call(fn, &s.k, p), where < N ? HT_FAULT_INDEX : 0);
		}
		for (int k = 0; k < N && backend_runs(*t); k++)
			assert_true(got[k] == (float)(k % ROWS) * 3);
		backend->free(code);
	}
	ht_arena_release(&s.arena);
}

/* Tiles from the first to the last, or from the last to the first: those in front of one that fails, in this order, are computed. */
static void check_turns(ht_kernel_fn *fn, enum ht_dtype type)
{
	enum { N = 6, BAD = 3, FIRST = 1, END = 5 };
	int32_t index[N] = { 0, 0, 0, -1, 0, 0 };
	int64_t step;

	for (step = 0; step < 4; step++) {
		int32_t narrow = (int32_t)step;
		float got[N] = { 0 };
		void *p[] = { index, type == HT_I32 ? (void *)&narrow : (void *)&step, got };

		assert_int_equal(fn(p, NULL, FIRST, END, NULL), HT_FAULT_INDEX);
		for (int i = 0; i < N; i++)
			if (i != BAD) /* it may have been stored */
				assert_true((got[i] != 0) == (step % 2 ? i > BAD && i < END
								       : i < BAD && i >= FIRST));
	}
}

static void test_turns(void **state)
{
	static const enum ht_dtype types[] = { HT_I32, HT_I64 };

	(void)state;
	for (size_t k = 0; k < HT_COUNT(types); k++) {
		struct small s;
		int32_t i;

		small_init(&s, 6);
		s.stage[0].dim[0].grid = 0;
		s.stage[0].dim[0].step = 1;
		s.k.grid_dims = 1;
		s.k.grid[0] = 6;
		i = input(&s, HT_I32);
		s.buffer[1] = (struct ht_kernel_buffer){ HT_BUFFER_IN, types[k], 1 };
		s.k.buffers = s.k.args = 2;
		s.k.turns = 2;
		i = ht_xcheck(
			&s.b, i, ht_xle(&s.b, ht_xconst(&s.b, HT_I32, 0, 0), i), HT_FAULT_INDEX);
		output(&s, ht_xadd(&s.b, ht_xcvt(&s.b, HT_F32, i), ht_xf(&s.b, 1)));
		ht_kernel_verify(&s.k);
		for (const struct ht_target *const *t = ht_targets(); *t; t++) {
			struct ht_code *code = NULL;

			if (!backend_is_level(*t) || !backend_runs(*t))
				continue;
			check_turns(backend_compile(backend, &s.k, *t, &code), types[k]);
			backend->free(code);
		}
		ht_arena_release(&s.arena);
	}
}

/* Division with its checks, which consists of several operations. */
static void test_division(void **state)
{
	enum { N = 40 * 39 };
	int64_t *a = malloc(N * 8), *b = malloc(N * 8), *got = malloc(N * 8);
	void *p[8] = { a, b, got };
	int bad = 0;

	(void)state;
	for (size_t j = 2; j < HT_COUNT(computing) - 1; j++)
		for (int kind = 0; kind < 4; kind++) {
			enum ht_dtype t = computing[j];
			struct small s;
			int32_t x, y;
			char what[80];

			small_init(&s, N);
			for (int k = 0; k < N; k++) {
				put(t, a, k, k % 40);
				put(t, b, k, 1 + k / 40);
				if (memcmp((char *)b + (size_t)k * ht_dtype_info(t)->bytes,
					    "\0\0\0\0\0\0\0\0", ht_dtype_info(t)->bytes) == 0)
					put(t, b, k, 1);
			}
			x = input(&s, t);
			y = input(&s, t);
			output(&s, kind & 1 ? ht_xidiv(&s.b, x, y, kind & 2)
					    : ht_xirem(&s.b, x, y, kind & 2));
			snprintf(what, sizeof what, "division %d of %s", kind,
				ht_dtype_info(t)->name);
			bad += check(&s, p, what, false, true);
		}
	free(a);
	free(b);
	free(got);
	assert_int_equal(bad, 0);
}

/* Rows minus their largest element, divided by their sum: three stages that pass local buffers
 * on. */
static void make_rows(struct small *s, int64_t rows, int64_t n, int64_t step)
{
	struct ht_dim row = { .extent = rows, .grid = 0, .step = step, .unroll = 1 };
	int32_t local, x, r, at;

	memset(s, 0, sizeof *s);
	ht_arena_init(&s->arena, &s->unwind);
	s->k = (struct ht_kernel){ .buffer = s->buffer,
		.stage = s->stage,
		.stages = 3,
		.buffers = 4,
		.args = 2,
		.grid_dims = 1,
		.grid = { (rows + step - 1) / step } };
	s->buffer[0] = (struct ht_kernel_buffer){ HT_BUFFER_IN, HT_F32, rows * n };
	s->buffer[1] = (struct ht_kernel_buffer){ HT_BUFFER_OUT, HT_F32, rows * n };
	s->buffer[2] = (struct ht_kernel_buffer){ HT_BUFFER_LOCAL, HT_F32, step };
	s->buffer[3] = (struct ht_kernel_buffer){ HT_BUFFER_LOCAL, HT_F32, step };
	for (int i = 0; i < 3; i++) {
		s->stage[i] = (struct ht_stage){ .dims = 2, .vec = 1 };
		s->stage[i].dim[0] = row;
		s->stage[i].dim[1] =
			(struct ht_dim){ .extent = n, .grid = -1, .reduce = i < 2, .unroll = 1 };
		ht_xb_init(&s->b, &s->arena, &s->stage[i]);
		local = ht_xsub(&s->b, ht_xdim(&s->b, 0),
			ht_xmul(&s->b, ht_xgrid(&s->b, 0), ht_xi(&s->b, step)));
		at = ht_xadd(&s->b, ht_xmul(&s->b, ht_xdim(&s->b, 0), ht_xi(&s->b, n)),
			ht_xdim(&s->b, 1));
		x = ht_xload(&s->b, 0, HT_F32, at);
		if (i == 0) {
			r = ht_xred(&s->b, ht_xreduce(&s->b, HT_RED_MAX, x), HT_F32);
			ht_xstore(&s->b, 2, local, r);
			continue;
		}
		x = ht_xsub(&s->b, x, ht_xload(&s->b, 2, HT_F32, local));
		if (i == 1) {
			r = ht_xred(&s->b, ht_xreduce(&s->b, HT_RED_ADD, x), HT_F32);
			ht_xstore(&s->b, 3, local, r);
			continue;
		}
		x = ht_xmul(&s->b, x, ht_xload(&s->b, 3, HT_F32, local));
		ht_xstore(&s->b, 1, at, x);
	}
}

static void test_stages(void **state)
{
	static const int64_t lengths[] = { 1, 5, 16, 33, 100, 257 };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(lengths); i++)
		for (int64_t step = 1; step < 9; step += 3) {
			int64_t rows = 13, n = lengths[i];
			float *x = malloc((size_t)(rows * n) * 4),
			      *y = malloc((size_t)(rows * n) * 4),
			      *z = malloc((size_t)(rows * n) * 4);
			void *p[8] = { x, y };
			struct small s;

			for (int64_t k = 0; k < rows * n; k++)
				x[k] = (float)(k * 7 % 11 - 5);
			make_rows(&s, rows, n, step);
			ht_kernel_verify(&s.k);
			assert_int_equal(call(NULL, &s.k, p), 0);
			for (const struct ht_target *const *t = ht_targets(); *t; t++) {
				struct ht_code *code = NULL;
				ht_kernel_fn *fn;

				if (!backend_is_level(*t))
					continue;
				fn = backend_compile(backend, &s.k, *t, &code);
				assert_non_null(fn);
				p[1] = z;
				if (backend_runs(*t)) {
					assert_int_equal(call(fn, &s.k, p), 0);
					for (int64_t k = 0; k < rows * n; k++)
						assert_true(y[k] == z[k]);
				}
				p[1] = y;
				backend->free(code);
			}
			ht_arena_release(&s.arena);
			free(x);
			free(y);
			free(z);
		}
}

static int undefined_symbols(const struct ht_buf *o)
{
	const Elf64_Ehdr *eh = (const void *)o->p;
	int n = 0;

	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Shdr *sh = (const void *)(o->p + eh->e_shoff + (size_t)i * sizeof *sh);

		if (sh->sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 1; k < sh->sh_size / sizeof(Elf64_Sym); k++) {
			const Elf64_Sym *sym =
				(const void *)(o->p + sh->sh_offset + k * sizeof *sym);

			n += sym->st_shndx == SHN_UNDEF;
		}
	}
	return n;
}

/* Operations for which LLVM would otherwise call a library, at every level. */
static void test_closed(void **state)
{
	static const enum ht_xop ops[] = { HT_X_REM, HT_X_SQRT, HT_X_FLOOR, HT_X_CEIL, HT_X_RINT,
		HT_X_TRUNC, HT_X_MULADD, HT_X_DIV };
	static const enum ht_dtype types[] = { HT_F32, HT_F64 };

	(void)state;
	for (const struct ht_target *const *t = ht_targets(); *t; t++)
		for (size_t i = 0; i < HT_COUNT(ops) * 2 && backend_is_level(*t); i++) {
			enum ht_dtype dtype = types[i % 2];
			enum ht_xop op = ops[i / 2];
			struct small s;
			struct ht_buf o;
			struct ht_diags d;
			int32_t x, r;

			small_init(&s, 35);
			x = input(&s, dtype);
			if (op == HT_X_MULADD)
				r = ht_xmuladd(&s.b, x, input(&s, dtype), x);
			else if (op == HT_X_REM || op == HT_X_DIV)
				r = ht_x2(&s.b, op, x, input(&s, dtype));
			else
				r = ht_x1(&s.b, op, x);
			r = ht_xcvt(&s.b, HT_BF16, ht_xcvt(&s.b, HT_F32, ht_xcvt(&s.b, HT_U64, r)));
			r = ht_xcvt(&s.b, HT_F16, ht_xcvt(&s.b, HT_F32, r));
			output(&s, r);
			ht_buf_init(&o, &s.arena);
			ht_diags_init(&d);
			assert_int_equal(backend->emit(&s.k, "k", *t, (struct ht_code_how){ 0 },
						 NULL, HT_EMIT_OBJ, &d, &o),
				HT_OK);
			assert_true(o.n > sizeof(Elf64_Ehdr));
			assert_int_equal(undefined_symbols(&o), 0);
			ht_diags_release(&d);
			ht_arena_release(&s.arena);
		}
}

/* A kernel that is compiled with lines has the same code as without, and its lines are within its
 * text. */
static void check_lines(const struct ht_kernel *k, const struct ht_target *t)
{
	struct ht_code *code[2];
	struct ht_code_lines lines;
	struct ht_str bytes[2];
	struct ht_diags d;
	ht_kernel_fn **fn;
	size_t entry;

	ht_diags_init(&d);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(backend->compile(&k, 1, t, &(struct ht_code_how){ .lines = i }, 1,
					 NULL, &d, &code[i], &fn),
			HT_OK);
		bytes[i] = backend->kernel_code(code[i], 0, &entry);
	}
	assert_int_equal(bytes[0].n, bytes[1].n);
	assert_memory_equal(bytes[0].p, bytes[1].p, bytes[0].n);
	assert_int_equal(backend->kernel_lines(code[0], 0).n, 0);
	assert_true(ht_code_lines_unpack(backend->kernel_lines(code[1], 0), &lines));
	assert_true(lines.lines > 3 && lines.frame.n > 16);
	for (size_t i = 0; i < lines.lines; i++) {
		assert_true(lines.line[i].line <= (uint32_t)ht_kernel_lines(k));
		assert_true(lines.line[i].at <= bytes[0].n);
		assert_true(i == 0 || lines.line[i].at > lines.line[i - 1].at);
	}
	assert_false(ht_code_lines_unpack((struct ht_str){ "\377\377\377\377", 4 }, &lines));
	assert_false(ht_code_lines_unpack(HT_STR("ab"), &lines));
	for (int i = 0; i < 2; i++)
		backend->free(code[i]);
	ht_diags_release(&d);
}

/* The three forms name the function; equal kernels give equal bytes. */
static void test_emit(void **state)
{
	struct small s;
	struct ht_buf out[4];
	struct ht_diags d;
	const struct ht_target *t = ht_target_named("x86-64-v3");

	(void)state;
	small_init(&s, 100);
	output(&s, ht_xneg(&s.b, input(&s, HT_F32)));
	ht_diags_init(&d);
	for (int i = 0; i < 4; i++) {
		ht_buf_init(&out[i], &s.arena);
		assert_int_equal(backend->emit(&s.k, "my_kernel", t, (struct ht_code_how){ 0 },
					 NULL, i == 3 ? HT_EMIT_OBJ : (enum ht_emit)i, &d, &out[i]),
			HT_OK);
	}
	assert_non_null(strstr(ht_buf_str(&out[HT_EMIT_LLVM]).p, "@my_kernel("));
	check_lines(&s.k, t);
	assert_non_null(strstr(ht_buf_str(&out[HT_EMIT_ASM]).p, "my_kernel:"));
	assert_int_equal(out[2].n, out[3].n);
	assert_memory_equal(out[2].p, out[3].p, out[2].n);
	ht_diags_release(&d);
	ht_arena_release(&s.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_operand),
		cmocka_unit_test(test_two_operands),
		cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_muladd),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_low_sums),
		cmocka_unit_test(test_limited_roundings),
		cmocka_unit_test(test_division),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_emit),
	};

	backend = backend_open();
	if (!backend)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
