/* math_trig64: SIN COS TAN of F64.  Coefficients: bench/math/coefficients.py.
 * Bound, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

/* Words of a string of 64 zeros followed by 2/pi = 0.1010001… */
enum { WORDS = 20 };
static const uint64_t two_over_pi[WORDS] = { 0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
	0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
	0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
	0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08,
	0x56033046fc7b6bab };

static int32_t low32(struct ht_xb *b, int32_t x)
{
	return ht_xand(b, x, ht_xu64(b, UINT32_MAX));
}

/* The 192 bits of the string from bit `at` on, 32 in each limb, the highest first. */
static void window(struct ht_xb *b, int32_t at, int32_t limb[6])
{
	int32_t v[WORDS], down = ht_xand(b, at, ht_xu64(b, 63)),
			  up = ht_xsub(b, ht_xu64(b, 64), down);

	for (int i = 0; i < WORDS; i++)
		v[i] = ht_xu64(b, two_over_pi[i]);
	/* Selects whole words first: each step keeps what later steps need. */
	for (int step = 16, need = 4 + 15; step; step /= 2, need = 4 + step - 1) {
		int32_t bit = ht_xand(b, at, ht_xu64(b, (uint64_t)step * 64));
		int32_t go = ht_xne(b, bit, ht_xu64(b, 0));

		for (int i = 0; i < need && i + step < WORDS; i++)
			v[i] = ht_xselect(b, go, v[i + step], v[i]);
	}
	for (int i = 0; i < 3; i++) {
		int32_t word = ht_xor(b, ht_xshl(b, v[i], down), ht_xshr(b, v[i + 1], up));

		limb[2 * i] = ht_xshri(b, word, 32);
		limb[2 * i + 1] = low32(b, word);
	}
}

/* The upper 128 of the lower 192 bits of m times the limbs, as two words.  The lowest bit is
 * inexact, since lower products are not added. */
static void multiply(
	struct ht_xb *b, int32_t m, const int32_t limb[6], int32_t *upper, int32_t *lower)
{
	int32_t low = low32(b, m), high = ht_xshri(b, m, 32), r[5], p = ht_xu64(b, 0);

	for (int i = 4; i >= 0; i--) {
		p = ht_xadd(b, ht_xmul(b, low, limb[i]), ht_xshri(b, p, 32));
		r[i] = low32(b, p);
	}
	p = ht_xu64(b, 0);
	for (int i = 4; i >= 0; i--) {
		p = ht_xadd(b, ht_xadd(b, ht_xmul(b, high, limb[i + 1]), r[i]), ht_xshri(b, p, 32));
		r[i] = low32(b, p);
	}
	*upper = ht_xor(b, ht_xshli(b, r[0], 32), r[1]);
	*lower = ht_xor(b, ht_xshli(b, r[2], 32), r[3]);
}

/* Reduction by Payne and Hanek for a >= 2^-10: a = m 2^e, m of 53 bits.  Bits of 2/pi times 2^e
 * of weight 4 and more are whole turns and are dropped; the 192 below them are multiplied by m.
 * Even for the doubles nearest to a multiple of pi/2, with 62 zeros behind the point, 64 correct
 * bits are left.  *q becomes the quarter turns mod 4; returns the remainder in radians, |r| <=
 * pi/4. */
static int32_t reduce(struct ht_xb *b, int32_t a, int32_t *q)
{
	int32_t bits = ht_xbitcast(b, HT_U64, a), m, n, upper, lower, limb[6], negative, zero, r;

	m = ht_xand(b, bits, ht_xu64(b, 0xfffffffffffff));
	m = ht_xor(b, m, ht_xu64(b, 0x10000000000000));
	window(b, ht_xsub(b, ht_xshri(b, bits, 52), ht_xu64(b, 1013)), limb);
	multiply(b, m, limb, &upper, &lower);
	n = ht_xshri(b, ht_xadd(b, upper, ht_xu64(b, 1ull << 61)), 62);
	upper = ht_xsub(b, upper, ht_xshli(b, n, 62));
	/* Negates both words together if they are negative, so that their sum does not cancel. */
	negative = ht_xlt(b, ht_xbitcast(b, HT_I64, upper), ht_xi(b, 0));
	zero = ht_xu64(b, 0);
	r = ht_xselect(b, ht_xeq(b, lower, zero), ht_xsub(b, zero, upper), ht_xnot(b, upper));
	upper = ht_xselect(b, negative, r, upper);
	lower = ht_xselect(b, negative, ht_xsub(b, zero, lower), lower);
	r = ht_xcvt(b, HT_F64, ht_xbitcast(b, HT_I64, ht_xshri(b, lower, 1)));
	r = ht_xadd(b, ht_xmul(b, r, ht_xd(b, 0x1p-63)),
		ht_xcvt(b, HT_F64, ht_xbitcast(b, HT_I64, upper)));
	r = ht_xmul(b, r, ht_xd(b, 0x1.921fb54442d18p+0 * 0x1p-62));
	*q = ht_xbitcast(b, HT_I64, n);
	return ht_xselect(b, negative, ht_xneg(b, r), r);
}

static int32_t sin_poly(struct ht_xb *b, int32_t r, int32_t r2)
{
	static const double c[] = { -0x1.5555555555549p-3, 0x1.111111110f87ap-7,
		-0x1.a01a019c1199bp-13, 0x1.71de3577b6d46p-19, -0x1.ae5e663ab1ddcp-26,
		0x1.5d930102ec8d3p-33 };

	return ht_xmuladd(b, ht_xmul(b, r, r2), HT_XPOLY(b, r2, c), r);
}

/* 1 - r^2/2 + …, corrected by the rounding error of the difference. */
static int32_t cos_poly(struct ht_xb *b, int32_t r2)
{
	static const double c[] = { 0x1.555555555554bp-5, -0x1.6c16c16c14f8ap-10,
		0x1.a01a019c83912p-16, -0x1.27e4f7ea37bd8p-22, 0x1.1ee9d752af7ffp-29,
		-0x1.8fa465fed0cb0p-37 };
	int32_t one = ht_xd(b, 1), half = ht_xmul(b, r2, ht_xd(b, 0.5)), w = ht_xsub(b, one, half);
	int32_t lost = ht_xsub(b, ht_xsub(b, one, w), half);

	return ht_xadd(b, w, ht_xmuladd(b, ht_xmul(b, r2, r2), HT_XPOLY(b, r2, c), lost));
}

int32_t ht_math_trig64(struct ht_xb *b, enum ht_xop op, int32_t x)
{
	int32_t a = ht_xabs(b, x), q, r = reduce(b, a, &q), r2, s, c, y, turned;
	int32_t plain = ht_xlt(b, a, ht_xd(b, 0.785)), finite = ht_xlt(b, a, ht_xd(b, INFINITY));

	r = ht_xselect(b, plain, a, r);
	q = ht_xselect(b, plain, ht_xi(b, 0), q);
	if (op == HT_X_COS)
		q = ht_xaddi(b, q, 1);
	turned = ht_xne(b, ht_xand(b, q, ht_xi(b, 1)), ht_xi(b, 0));
	r2 = ht_xmul(b, r, r);
	s = sin_poly(b, r, r2);
	c = cos_poly(b, r2);
	if (op == HT_X_TAN)
		y = ht_xdiv(
			b, ht_xselect(b, turned, ht_xneg(b, c), s), ht_xselect(b, turned, s, c));
	else
		y = ht_xflip(b, ht_xselect(b, turned, c, s),
			ht_xshli(b, ht_xand(b, q, ht_xi(b, 2)), 62));
	if (op != HT_X_COS)
		y = ht_xflip(b, y, ht_xsign(b, x));
	return ht_xselect(b, finite, y, ht_xd(b, NAN));
}
