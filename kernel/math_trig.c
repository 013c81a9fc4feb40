/* math_trig: SIN COS TAN of F32, computed in F64 and rounded once.
 * Coefficients: bench/math/coefficients.py. */
#include "kernel/math.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* The 32 bits that begin `shift` bits into words `word` and word + 1 of a string of five zeros
 * followed by 2/pi = 0.101000101…; word is 0 to 3. */
static int32_t window(struct ht_xb *b, int first, const int32_t is_word[3], int32_t shift)
{
	static const uint32_t digits[] = { 0x0517cc1b, 0x727220a9, 0x4fe13abe, 0x8fa9a6ee,
		0x06db14ac, 0xc9e21c82, 0x0ff28b1d };
	int32_t pair[4], x;

	for (int i = 0; i < 4; i++)
		pair[i] = ht_xu64(b, (uint64_t)digits[first + i] << 32 | digits[first + i + 1]);
	x = ht_xselect(b, is_word[0], pair[0], pair[3]);
	x = ht_xselect(b, is_word[1], pair[1], x);
	x = ht_xselect(b, is_word[2], pair[2], x);
	return ht_xshr(b, ht_xshl(b, x, shift), ht_xu64(b, 32));
}

/* Reduction by Payne and Hanek for F32 of at least 2^20: x = m 2^e, m of 24 bits.  Of the bits
 * of 2/pi times 2^e, those of weight 4 and more are whole turns and are dropped; the 96 bits
 * below them are multiplied by m in 64 bits.  *q becomes the quarter turns mod 4; returns the
 * remainder in radians. */
static int32_t reduce_large(struct ht_xb *b, int32_t x, int32_t *q)
{
	int32_t bits = ht_xcvt(b, HT_U64, ht_xbitcast(b, HT_U32, x)), word, shift, is_word[3], m, p,
		n;
	int32_t s = ht_xand(b, ht_xshr(b, bits, ht_xu64(b, 23)), ht_xu64(b, 255));

	m = ht_xor(b, ht_xand(b, bits, ht_xu64(b, 0x7fffff)), ht_xu64(b, 0x800000));
	s = ht_xsub(b, s, ht_xu64(b, 147)); /* 0 for x = 2^20 */
	word = ht_xshr(b, s, ht_xu64(b, 5));
	shift = ht_xand(b, s, ht_xu64(b, 31));
	for (int i = 0; i < 3; i++)
		is_word[i] = ht_xeq(b, word, ht_xu64(b, (uint64_t)i));
	p = ht_xshl(b, ht_xmul(b, m, window(b, 0, is_word, shift)), ht_xu64(b, 32));
	p = ht_xadd(b, p, ht_xmul(b, m, window(b, 1, is_word, shift)));
	p = ht_xadd(b, p, ht_xshr(b, ht_xmul(b, m, window(b, 2, is_word, shift)), ht_xu64(b, 32)));
	n = ht_xshr(b, ht_xadd(b, p, ht_xu64(b, 1ull << 61)), ht_xu64(b, 62));
	p = ht_xbitcast(b, HT_I64, ht_xsub(b, p, ht_xshl(b, n, ht_xu64(b, 62))));
	*q = ht_xbitcast(b, HT_I64, n);
	return ht_xmul(b, ht_xcvt(b, HT_F64, p), ht_xd(b, pi / 2 * 0x1p-62));
}

/* |x| = q pi/2 + r, |r| <= pi/4. */
static int32_t reduce(struct ht_xb *b, int32_t x, int32_t *q)
{
	/* pi/2: 33 bits, whose product with 20 bits is exact, and the rest. */
	const double hi = 0x1.921fb544p+0, lo = 0x1.0b4611a626331p-34;
	int32_t a = ht_xcvt(b, HT_F64, ht_xabs(b, x)), magic = ht_xd(b, 0x1.8p52), large_q, large_r;
	int32_t t = ht_xmuladd(b, a, ht_xd(b, 2 / pi), magic), n = ht_xsub(b, t, magic), r;
	int32_t large = ht_xle(b, ht_xd(b, 0x1p20), a);

	r = ht_xmuladd(b, n, ht_xd(b, -hi), a);
	r = ht_xmuladd(b, n, ht_xd(b, -lo), r);
	large_r = reduce_large(b, x, &large_q);
	*q = ht_xselect(b, large, large_q, ht_xas_int(b, t));
	return ht_xselect(b, large, large_r, r);
}

static int32_t sin_poly(struct ht_xb *b, int32_t r, int32_t r2)
{
	static const double c[] = { -0x1.55555555523f8p-3, 0x1.1111110ca2623p-7,
		-0x1.a019f95a61b8cp-13, 0x1.71d77cde19c64p-19, -0x1.a966d74c45504p-26 };

	return ht_xmuladd(b, ht_xmul(b, r, r2), HT_XPOLY(b, r2, c), r);
}

static int32_t cos_poly(struct ht_xb *b, int32_t r2)
{
	static const double c[] = { -0x1.fffffffffff96p-2, 0x1.555555554f090p-5,
		-0x1.6c16c16408f11p-10, 0x1.a019f81b2e7c3p-16, -0x1.27df456d9591fp-22,
		0x1.1b8b6b3d6f043p-29 };

	return ht_xmuladd(b, r2, HT_XPOLY(b, r2, c), ht_xd(b, 1));
}

static int32_t odd(struct ht_xb *b, int32_t q)
{
	return ht_xne(b, ht_xand(b, q, ht_xi(b, 1)), ht_xi(b, 0));
}

int32_t ht_math_trig(struct ht_xb *b, enum ht_xop op, int32_t x)
{
	int32_t q, r = reduce(b, x, &q), r2 = ht_xmul(b, r, r), y, s, c, turned, sign;
	int32_t finite = ht_xlt(b, ht_xabs(b, x), ht_xf(b, INFINITY));

	s = sin_poly(b, r, r2);
	c = cos_poly(b, r2);
	if (op == HT_X_COS)
		q = ht_xaddi(b, q, 1);
	turned = odd(b, q);
	if (op == HT_X_TAN) {
		y = ht_xdiv(
			b, ht_xselect(b, turned, ht_xneg(b, c), s), ht_xselect(b, turned, s, c));
		sign = ht_xi(b, 0);
	} else {
		y = ht_xselect(b, turned, c, s);
		sign = ht_xshli(b, ht_xand(b, q, ht_xi(b, 2)), 62);
	}
	y = ht_xcvt(b, HT_F32, ht_xflip(b, y, sign));
	if (op != HT_X_COS)
		y = ht_xflip(b, y, ht_xsign(b, x));
	return ht_xselect(b, finite, y, ht_xf(b, NAN));
}
