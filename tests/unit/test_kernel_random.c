/* Random expressions have the same values with and without the builder's simplifications, bit for
 * bit; packing puts every element where struct ht_contract says. */
#include "kernel/build.h"
#include "kernel/eval.h"
#include "kernel/expr.h"
#include "kernel/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 7;

static uint32_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

/* ---- the same expressions twice ---- */

enum { VALUES = 40, EXTENT0 = 6, EXTENT1 = 7, ITERATIONS = EXTENT0 * EXTENT1 };

struct twin {
	struct ht_xb raw, simple; /* builders of two equal stages */
	int32_t r[VALUES], s[VALUES];
	int n;
};

static void add(struct twin *t, struct ht_x x, int32_t simple)
{
	t->r[t->n] = ht_xb_push(&t->raw, x);
	t->s[t->n++] = simple;
}

static enum ht_dtype type_at(const struct twin *t, int i)
{
	return ht_xb_at(&t->raw, t->r[i])->dtype;
}

/* A random earlier value of type `want`. */
static int pick(const struct twin *t, enum ht_dtype want)
{
	for (;;) {
		int i = (int)(draw() % (uint32_t)t->n);

		if (type_at(t, i) == want)
			return i;
	}
}

static void leaf_values(struct twin *t)
{
	static const double numbers[] = { 0, -0.0, 1, -1, 2, 0.5, 3, INFINITY };
	static const int64_t counts[] = { 0, 1, -1, 2, 3, 7, 6, 12 };
	static const enum ht_dtype types[] = { HT_F32, HT_I32, HT_I64 };

	for (int d = 0; d < 2; d++)
		add(t, (struct ht_x){ HT_X_DIM, HT_I64, -1, -1, -1, d }, ht_xdim(&t->simple, d));
	for (int k = 0; k < 2; k++) {
		double f = numbers[draw() % HT_COUNT(numbers)];
		int64_t i = counts[draw() % HT_COUNT(counts)];

		for (size_t j = 0; j < HT_COUNT(types); j++) {
			struct ht_x x = { HT_X_CONST, types[j], -1, -1, -1,
				ht_x_imm(types[j], f, i) };

			add(t, x, ht_xconst(&t->simple, types[j], f, i));
		}
	}
	/* buffers 0 and 1 contain F32, 2 and 3 I32 */
	for (int k = 0; k < 4; k++) {
		enum ht_dtype type = k < 2 ? HT_F32 : HT_I32;
		int32_t c = ht_xb_push(
			&t->raw, (struct ht_x){ HT_X_CONST, HT_I64, -1, -1, -1, EXTENT1 });
		int32_t row =
			ht_xb_push(&t->raw, (struct ht_x){ HT_X_MUL, HT_I64, t->r[0], c, -1, 0 });
		int32_t at =
			ht_xb_push(&t->raw, (struct ht_x){ HT_X_ADD, HT_I64, row, t->r[1], -1, 0 });
		int32_t sat = ht_xadd(&t->simple,
			ht_xmul(&t->simple, ht_xdim(&t->simple, 0), ht_xi(&t->simple, EXTENT1)),
			ht_xdim(&t->simple, 1));
		add(t, (struct ht_x){ HT_X_LOAD, type, at, -1, -1, k },
			ht_xload(&t->simple, k, type, sat));
	}
}

static void random_binary(struct twin *t)
{
	static const enum ht_xop any[] = { HT_X_ADD, HT_X_SUB, HT_X_MUL, HT_X_MIN, HT_X_MAX,
		HT_X_EQ, HT_X_NE, HT_X_LT, HT_X_LE };
	static const enum ht_xop ints[] = { HT_X_AND, HT_X_OR, HT_X_XOR, HT_X_SHL, HT_X_SHR,
		HT_X_SAR };
	static const enum ht_dtype types[] = { HT_F32, HT_I32, HT_I64 };
	enum ht_dtype type = types[draw() % 3];
	int a = pick(t, type), b = pick(t, type);
	enum ht_xop op = type != HT_F32 && draw() % 3 == 0 ? ints[draw() % 6] : any[draw() % 9];

	if (type == HT_F32 && draw() % 5 == 0)
		op = HT_X_DIV;
	add(t, (struct ht_x){ op, ht_x_is_compare(op) ? HT_BOOL : type, t->r[a], t->r[b], -1, 0 },
		ht_x2(&t->simple, op, t->s[a], t->s[b]));
}

static void random_unary(struct twin *t)
{
	static const enum ht_xop floats[] = { HT_X_NEG, HT_X_ABS, HT_X_SQRT, HT_X_FLOOR, HT_X_CEIL,
		HT_X_RINT, HT_X_TRUNC };
	static const enum ht_xop ints[] = { HT_X_NEG, HT_X_ABS, HT_X_NOT };
	enum ht_dtype type = draw() % 2 ? HT_F32 : draw() % 2 ? HT_I32 : HT_I64;
	enum ht_xop op = type == HT_F32 ? floats[draw() % 7] : ints[draw() % 3];
	int a = pick(t, type);

	add(t, (struct ht_x){ op, type, t->r[a], -1, -1, 0 }, ht_x1(&t->simple, op, t->s[a]));
}

static void random_index(struct twin *t)
{
	static const int64_t divisors[] = { 1, 2, 3, 6, 7, 12, 42 };
	int64_t k = divisors[draw() % HT_COUNT(divisors)];
	enum ht_xop op = draw() % 3 == 0 ? HT_X_MUL : draw() % 2 ? HT_X_FLOORDIV : HT_X_FLOORMOD;
	int32_t c = ht_xb_push(&t->raw, (struct ht_x){ HT_X_CONST, HT_I64, -1, -1, -1, k });
	int a = pick(t, HT_I64);

	add(t, (struct ht_x){ op, HT_I64, t->r[a], c, -1, 0 },
		ht_x2(&t->simple, op, t->s[a], ht_xi(&t->simple, k)));
}

static void random_other(struct twin *t)
{
	static const enum ht_dtype types[] = { HT_F32, HT_I32, HT_I64 };
	enum ht_dtype type = types[draw() % 3], to = types[draw() % 3];
	int a, b, c;

	switch (draw() % 4) {
	case 0:
		a = pick(t, type);
		if (to != type)
			add(t, (struct ht_x){ HT_X_CVT, to, t->r[a], -1, -1, 0 },
				ht_xcvt(&t->simple, to, t->s[a]));
		break;
	case 1: /* there and back through 16 bits */
		a = pick(t, HT_F32);
		to = draw() % 2 ? HT_F16 : HT_BF16;
		b = ht_xb_push(&t->raw, (struct ht_x){ HT_X_CVT, to, t->r[a], -1, -1, 0 });
		add(t, (struct ht_x){ HT_X_CVT, HT_F32, b, -1, -1, 0 },
			ht_xcvt(&t->simple, HT_F32, ht_xcvt(&t->simple, to, t->s[a])));
		break;
	case 2:
		a = pick(t, HT_F32);
		b = pick(t, HT_F32);
		c = pick(t, HT_F32);
		add(t, (struct ht_x){ HT_X_MULADD, HT_F32, t->r[a], t->r[b], t->r[c], 0 },
			ht_xmuladd(&t->simple, t->s[a], t->s[b], t->s[c]));
		break;
	default:
		a = pick(t, type);
		b = pick(t, type);
		c = pick(t, type);
		int32_t cond = ht_xb_push(
			&t->raw, (struct ht_x){ HT_X_LT, HT_BOOL, t->r[a], t->r[b], -1, 0 });
		int32_t not =
			ht_xb_push(&t->raw, (struct ht_x){ HT_X_NOT, HT_BOOL, cond, -1, -1, 0 });
		int32_t scond = ht_xnot(&t->simple, ht_xlt(&t->simple, t->s[a], t->s[b]));
		add(t, (struct ht_x){ HT_X_SELECT, type, not, t->r[a], t->r[c], 0 },
			ht_xselect(&t->simple, scond, t->s[a], t->s[c]));
	}
}

static void store_all(struct ht_xb *b, const int32_t *value, int n, const struct ht_stage *types,
	const int32_t *typed)
{
	int32_t at = ht_xadd(b, ht_xmul(b, ht_xdim(b, 0), ht_xi(b, EXTENT1)), ht_xdim(b, 1));

	/* All values as I64 bits, in one buffer. */
	for (int i = 0; i < n; i++) {
		int32_t v = value[i];
		enum ht_dtype t = types->x[typed[i]].dtype;

		if (t == HT_F32)
			v = ht_xbitcast(b, HT_I32, v);
		if (t != HT_I64)
			v = ht_xcvt(b, HT_I64, v);
		ht_xstore(b, 4, ht_xadd(b, at, ht_xi(b, (int64_t)i * ITERATIONS)), v);
	}
}

static void random_input(float *f, int32_t *i)
{
	static const float special[] = { 0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-140f,
		3e38f, 2.5f, 1e10f };
	static const int32_t ints[] = { 0, 1, -1, INT32_MIN, INT32_MAX, 31, 32, 7 };

	for (int k = 0; k < ITERATIONS; k++) {
		f[k] = draw() % 2 ? special[draw() % HT_COUNT(special)]
				  : (float)(int32_t)draw() / 1000;
		i[k] = draw() % 2 ? ints[draw() % HT_COUNT(ints)] : (int32_t)draw();
	}
}

static bool same_value(enum ht_dtype t, int64_t a, int64_t b)
{
	uint32_t ua = (uint32_t)a & 0x7fffffff, ub = (uint32_t)b & 0x7fffffff;

	return a == b || (t == HT_F32 && ua > 0x7f800000 && ub > 0x7f800000);
}

static long compare_twins(struct ht_arena *arena)
{
	struct ht_stage stage[2] = { { .dims = 2, .vec = -1 }, { .dims = 2, .vec = -1 } };
	struct ht_kernel_buffer buffer[5] = { { HT_BUFFER_IN, HT_F32, ITERATIONS },
		{ HT_BUFFER_IN, HT_F32, ITERATIONS }, { HT_BUFFER_IN, HT_I32, ITERATIONS },
		{ HT_BUFFER_IN, HT_I32, ITERATIONS },
		{ HT_BUFFER_OUT, HT_I64, VALUES * ITERATIONS } };
	static int64_t out[2][VALUES * ITERATIONS];
	float f[2][ITERATIONS];
	int32_t in[2][ITERATIONS];
	struct twin t = { .n = 0 };

	for (int i = 0; i < 2; i++) {
		stage[i].dim[0] = (struct ht_dim){ .extent = EXTENT0, .grid = -1 };
		stage[i].dim[1] = (struct ht_dim){ .extent = EXTENT1, .grid = -1 };
	}
	ht_xb_init(&t.raw, arena, &stage[0]);
	ht_xb_init(&t.simple, arena, &stage[1]);
	leaf_values(&t);
	while (t.n < VALUES)
		switch (draw() % 8) {
		case 0:
			random_unary(&t);
			break;
		case 1:
		case 2:
			random_index(&t);
			break;
		case 3:
			random_other(&t);
			break;
		default:
			random_binary(&t);
		}
	store_all(&t.raw, t.r, t.n, &stage[0], t.r);
	store_all(&t.simple, t.s, t.n, &stage[0], t.r);
	for (int i = 0; i < 2; i++)
		random_input(f[i], in[i]);
	for (int i = 0; i < 2; i++) {
		struct ht_kernel k = {
			.buffer = buffer, .buffers = 5, .args = 5, .stage = &stage[i], .stages = 1
		};

		ht_kernel_verify(&k);
		assert_int_equal(ht_interpret(&k, (void *[]){ f[0], f[1], in[0], in[1], out[i] },
					 NULL, 0, 1, NULL),
			0);
	}
	for (int i = 0; i < t.n; i++)
		for (int k = 0; k < ITERATIONS; k++)
			assert_true(same_value(type_at(&t, i), out[0][i * ITERATIONS + k],
				out[1][i * ITERATIONS + k]));
	return stage[0].xs - stage[1].xs;
}

static void test_simplification_keeps_values(void **state)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	long saved = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		ht_arena_init(&arena, &unwind);
		saved += compare_twins(&arena);
		ht_arena_release(&arena);
	}
	assert_true(saved > 3000); /* the builder does simplify */
}

/* ---- packing ---- */

static float element(enum ht_dtype t, const void *p, int64_t i)
{
	if (t == HT_F32)
		return ((const float *)p)[i];
	return t == HT_BF16 ? ht_bf16_to_f32(((const uint16_t *)p)[i])
			    : ht_f16_to_f32(((const uint16_t *)p)[i]);
}

static uint32_t bits_at(enum ht_dtype t, const void *p, int64_t i)
{
	return t == HT_F32 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}

static uint32_t converted(enum ht_dtype from, enum ht_dtype to, const void *p, int64_t i)
{
	float f = element(from, p, i);
	uint32_t u;

	if (from == to) {
		u = bits_at(from, p, i);
		return to == HT_BF16 && !(u & 0x7f80) ? u & 0x8000 : u; /* flushed to zero */
	}
	if (to == HT_F16)
		return ht_f32_to_f16(f);
	if (to == HT_BF16)
		return ht_f32_to_bf16(f);
	memcpy(&u, &f, sizeof u);
	return u;
}

static void pack_once(struct ht_pack p)
{
	int64_t source = p.taps * p.depth * p.n, count = ht_packed_count(&p),
		padded = (p.depth + p.kp - 1) / p.kp * p.kp;
	int64_t panels = (p.n + p.nr - 1) / p.nr;
	uint32_t *src = malloc((size_t)source * 4), *dst = malloc((size_t)count * 4 + 64);

	assert_non_null(src);
	assert_non_null(dst);
	for (int64_t i = 0; i < source; i++)
		src[i] = draw() << 16 ^ draw();
	assert_int_equal(count, panels * p.nr * p.taps * padded);
	memset(dst, 0xab, (size_t)count * 4 + 64);
	ht_pack_b(&p, src, dst);
	for (int64_t n = 0; n < panels * p.nr; n++)
		for (int64_t q = 0; q < p.taps; q++)
			for (int64_t k = 0; k < padded; k++) {
				int64_t at = ((n / p.nr) * (p.taps * padded / p.kp) +
						     (q * padded + k) / p.kp) *
						     p.nr * p.kp +
					     (n % p.nr) * p.kp + k % p.kp;
				uint32_t want = n < p.n && k < p.depth
							? converted(p.src_dtype, p.dst_dtype, src,
								  q * p.sq + k * p.sk + n * p.sn)
							: 0;

				assert_int_equal(bits_at(p.dst_dtype, dst, at), want);
			}
	assert_int_equal(
		((unsigned char *)dst)[(size_t)count * ht_dtype_info(p.dst_dtype)->bytes], 0xab);
	free(src);
	free(dst);
}

static void test_packing(void **state)
{
	static const enum ht_dtype types[] = { HT_F32, HT_F16, HT_BF16 };
	static const int64_t sizes[][3] = { { 1, 1, 1 }, { 9, 3, 16 }, { 1, 65, 70 },
		{ 2, 130, 33 }, { 4, 64, 128 } };
	static const int32_t widths[] = { 4, 16, 64 };

	(void)state;
	for (size_t f = 0; f < 3; f++)
		for (size_t t = 0; t < 3; t++)
			for (size_t s = 0; s < HT_COUNT(sizes); s++)
				for (size_t w = 0; w < 3; w++)
					for (int32_t kp = 1; kp <= (types[t] == HT_F32 ? 1 : 2);
						kp++) {
						int64_t q = sizes[s][0], k = sizes[s][1],
							n = sizes[s][2];

						pack_once((struct ht_pack){ types[f], types[t], q,
							k, n, k * n, n, 1, widths[w], kp, false,
							false, 0 });
						pack_once((struct ht_pack){ types[f], types[t], q,
							k, n, k * n, 1, k, widths[w], kp, false,
							false, 0 });
						pack_once((struct ht_pack){ types[f], types[t], q,
							k, n, 1, q * n, q, widths[w], kp, false,
							false, 0 });
					}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simplification_keeps_values),
		cmocka_unit_test(test_packing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
