/* math_trig64: SIN COS TAN of F64.  Coefficients: bench/math/coefficients.py.
 * Bound, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

/* 64 zeros, then 2/pi = 0.1010001… */
enum { WORDS = 20 };
static const uint64_t two_over_pi[WORDS] = { 0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
	0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
	0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
	0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08,
	0x56033046fc7b6bab };

static int32_t k(struct ht_xb *b, double f)
{
	return xk(b, HT_F64, f);
}

static int32_t u64(struct ht_xb *b, uint64_t u)
{
	return ht_xconst(b, HT_U64, 0, (int64_t)u);
}

static int32_t shl(struct ht_xb *b, int32_t x, int count)
{
	return ht_x2(b, HT_X_SHL, x, ht_xconst(b, xtype(b, x), 0, count));
}

static int32_t shr(struct ht_xb *b, int32_t x, int count)
{
	return ht_x2(b, HT_X_SHR, x, ht_xconst(b, xtype(b, x), 0, count));
}

static int32_t low32(struct ht_xb *b, int32_t x)
{
	return ht_x2(b, HT_X_AND, x, u64(b, UINT32_MAX));
}

/* The 192 bits of the string that begin at bit `at`, 32 a limb, the highest first. */
static void window(struct ht_xb *b, int32_t at, int32_t limb[6])
{
	int32_t v[WORDS], down = ht_x2(b, HT_X_AND, at, u64(b, 63)), up = xsub(b, u64(b, 64), down);

	for (int i = 0; i < WORDS; i++)
		v[i] = u64(b, two_over_pi[i]);
	/* Whole words first: each step leaves what the ones behind it need. */
	for (int step = 16, need = 4 + 15; step; step /= 2, need = 4 + step - 1) {
		int32_t bit = ht_x2(b, HT_X_AND, at, u64(b, (uint64_t)step * 64));
		int32_t go = ht_x2(b, HT_X_NE, bit, u64(b, 0));

		for (int i = 0; i < need && i + step < WORDS; i++)
			v[i] = ht_xselect(b, go, v[i + step], v[i]);
	}
	for (int i = 0; i < 3; i++) {
		int32_t word = ht_x2(b, HT_X_OR, ht_x2(b, HT_X_SHL, v[i], down),
			ht_x2(b, HT_X_SHR, v[i + 1], up));

		limb[2 * i] = shr(b, word, 32);
		limb[2 * i + 1] = low32(b, word);
	}
}

/* The upper 128 of the lower 192 bits of m times the limbs, as two words; one at the end is lost
 * to what is not added below. */
static void multiply(
	struct ht_xb *b, int32_t m, const int32_t limb[6], int32_t *upper, int32_t *lower)
{
	int32_t low = low32(b, m), high = shr(b, m, 32), r[5], p = u64(b, 0);

	for (int i = 4; i >= 0; i--) {
		p = xadd(b, xmul(b, low, limb[i]), shr(b, p, 32));
		r[i] = low32(b, p);
	}
	p = u64(b, 0);
	for (int i = 4; i >= 0; i--) {
		p = xadd(b, xadd(b, xmul(b, high, limb[i + 1]), r[i]), shr(b, p, 32));
		r[i] = low32(b, p);
	}
	*upper = ht_x2(b, HT_X_OR, shl(b, r[0], 32), r[1]);
	*lower = ht_x2(b, HT_X_OR, shl(b, r[2], 32), r[3]);
}

/* Payne and Hanek for a >= 2^-10: a = m 2^e, m of 53 bits; the bits of 2/pi times 2^e that count 4
 * and more make whole turns, the 192 below them are multiplied by m.  The nearest doubles to a
 * multiple of pi/2 leave 62 zeros behind the point, and 64 good bits.
 * *q: the quarter turns mod 4; the rest in radians, |r| <= pi/4, is returned. */
static int32_t reduce(struct ht_xb *b, int32_t a, int32_t *q)
{
	int32_t bits = ht_xbitcast(b, HT_U64, a), m, n, upper, lower, limb[6], negative, zero, r;

	m = ht_x2(b, HT_X_AND, bits, u64(b, 0xfffffffffffff));
	m = ht_x2(b, HT_X_OR, m, u64(b, 0x10000000000000));
	window(b, xsub(b, shr(b, bits, 52), u64(b, 1013)), limb);
	multiply(b, m, limb, &upper, &lower);
	n = shr(b, xadd(b, upper, u64(b, 1ull << 61)), 62);
	upper = xsub(b, upper, shl(b, n, 62));
	/* The magnitude of the two words together, so that their sum does not cancel. */
	negative = xlt(b, ht_xbitcast(b, HT_I64, upper), ht_xi(b, 0));
	zero = u64(b, 0);
	r = ht_xselect(b, xeq(b, lower, zero), xsub(b, zero, upper), ht_x1(b, HT_X_NOT, upper));
	upper = ht_xselect(b, negative, r, upper);
	lower = ht_xselect(b, negative, xsub(b, zero, lower), lower);
	r = ht_xcvt(b, HT_F64, ht_xbitcast(b, HT_I64, shr(b, lower, 1)));
	r = xadd(b, xmul(b, r, k(b, 0x1p-63)), ht_xcvt(b, HT_F64, ht_xbitcast(b, HT_I64, upper)));
	r = xmul(b, r, k(b, 0x1.921fb54442d18p+0 * 0x1p-62));
	*q = ht_xbitcast(b, HT_I64, n);
	return ht_xselect(b, negative, ht_x1(b, HT_X_NEG, r), r);
}

static int32_t sin_poly(struct ht_xb *b, int32_t r, int32_t r2)
{
	static const double c[] = { -0x1.5555555555549p-3, 0x1.111111110f87ap-7,
		-0x1.a01a019c1199bp-13, 0x1.71de3577b6d46p-19, -0x1.ae5e663ab1ddcp-26,
		0x1.5d930102ec8d3p-33 };

	return xmuladd(b, xmul(b, r, r2), XPOLY(b, r2, c), r);
}

/* 1 - r^2/2 + …, with what rounding takes off the difference. */
static int32_t cos_poly(struct ht_xb *b, int32_t r2)
{
	static const double c[] = { 0x1.555555555554bp-5, -0x1.6c16c16c14f8ap-10,
		0x1.a01a019c83912p-16, -0x1.27e4f7ea37bd8p-22, 0x1.1ee9d752af7ffp-29,
		-0x1.8fa465fed0cb0p-37 };
	int32_t one = k(b, 1), half = xmul(b, r2, k(b, 0.5)), w = xsub(b, one, half);
	int32_t lost = xsub(b, xsub(b, one, w), half);

	return xadd(b, w, xmuladd(b, xmul(b, r2, r2), XPOLY(b, r2, c), lost));
}

int32_t ht_math_trig64(struct ht_xb *b, enum ht_xop op, int32_t x)
{
	int32_t a = ht_x1(b, HT_X_ABS, x), q, r = reduce(b, a, &q), r2, s, c, y, turned;
	int32_t plain = xlt(b, a, k(b, 0.785)), finite = xlt(b, a, k(b, INFINITY));

	r = ht_xselect(b, plain, a, r);
	q = ht_xselect(b, plain, ht_xi(b, 0), q);
	if (op == HT_X_COS)
		q = xadd(b, q, ht_xi(b, 1));
	turned = ht_x2(b, HT_X_NE, ht_x2(b, HT_X_AND, q, ht_xi(b, 1)), ht_xi(b, 0));
	r2 = xmul(b, r, r);
	s = sin_poly(b, r, r2);
	c = cos_poly(b, r2);
	if (op == HT_X_TAN)
		y = xdiv(b, ht_xselect(b, turned, ht_x1(b, HT_X_NEG, c), s),
			ht_xselect(b, turned, s, c));
	else
		y = xflip(b, ht_xselect(b, turned, c, s),
			shl(b, ht_x2(b, HT_X_AND, q, ht_xi(b, 2)), 62));
	if (op != HT_X_COS)
		y = xflip(b, y, xsign(b, x));
	return ht_xselect(b, finite, y, k(b, NAN));
}
