/* math_trig: SIN COS TAN of F32, computed in F64 and rounded once.
 * Coefficients: bench/math/coefficients.py. */
#include "kernel/math.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static int32_t k(struct ht_xb *b, double f)
{
	return xk(b, HT_F64, f);
}

static int32_t u64(struct ht_xb *b, uint64_t u)
{
	return ht_xconst(b, HT_U64, 0, (int64_t)u);
}

static int32_t shl(struct ht_xb *b, int32_t x, int32_t count)
{
	return ht_x2(b, HT_X_SHL, x, count);
}

static int32_t shr(struct ht_xb *b, int32_t x, int32_t count)
{
	return ht_x2(b, HT_X_SHR, x, count);
}

/* The 32 bits that start `shift` bits into words `word` and the next of five zeros and then
 * 2/pi = 0.101000101…; word is 0 to 3. */
static int32_t window(struct ht_xb *b, int first, const int32_t is_word[3], int32_t shift)
{
	static const uint32_t digits[] = { 0x0517cc1b, 0x727220a9, 0x4fe13abe, 0x8fa9a6ee,
		0x06db14ac, 0xc9e21c82, 0x0ff28b1d };
	int32_t pair[4], x;

	for (int i = 0; i < 4; i++)
		pair[i] = u64(b, (uint64_t)digits[first + i] << 32 | digits[first + i + 1]);
	x = ht_xselect(b, is_word[0], pair[0], pair[3]);
	x = ht_xselect(b, is_word[1], pair[1], x);
	x = ht_xselect(b, is_word[2], pair[2], x);
	return shr(b, shl(b, x, shift), u64(b, 32));
}

/* Payne and Hanek for F32 of 2^20 and more: x = m 2^e, m of 24 bits.  Of the bits of 2/pi times
 * 2^e, those that count 4 and more make whole turns; the 96 below them are multiplied by m in 64
 * bits.  *q: the quarter turns mod 4; the rest in radians is returned. */
static int32_t reduce_large(struct ht_xb *b, int32_t x, int32_t *q)
{
	int32_t bits = ht_xcvt(b, HT_U64, ht_xbitcast(b, HT_U32, x)), word, shift, is_word[3], m, p,
		n;
	int32_t s = ht_x2(b, HT_X_AND, shr(b, bits, u64(b, 23)), u64(b, 255));

	m = ht_x2(b, HT_X_OR, ht_x2(b, HT_X_AND, bits, u64(b, 0x7fffff)), u64(b, 0x800000));
	s = xsub(b, s, u64(b, 147)); /* 0 for 2^20 */
	word = shr(b, s, u64(b, 5));
	shift = ht_x2(b, HT_X_AND, s, u64(b, 31));
	for (int i = 0; i < 3; i++)
		is_word[i] = xeq(b, word, u64(b, (uint64_t)i));
	p = shl(b, xmul(b, m, window(b, 0, is_word, shift)), u64(b, 32));
	p = xadd(b, p, xmul(b, m, window(b, 1, is_word, shift)));
	p = xadd(b, p, shr(b, xmul(b, m, window(b, 2, is_word, shift)), u64(b, 32)));
	n = shr(b, xadd(b, p, u64(b, 1ull << 61)), u64(b, 62));
	p = ht_xbitcast(b, HT_I64, xsub(b, p, shl(b, n, u64(b, 62))));
	*q = ht_xbitcast(b, HT_I64, n);
	return xmul(b, ht_xcvt(b, HT_F64, p), k(b, pi / 2 * 0x1p-62));
}

/* |x| = q pi/2 + r, |r| <= pi/4. */
static int32_t reduce(struct ht_xb *b, int32_t x, int32_t *q)
{
	/* pi/2: 33 bits, whose product with 20 bits is exact, and the rest. */
	const double hi = 0x1.921fb544p+0, lo = 0x1.0b4611a626331p-34;
	int32_t a = ht_xcvt(b, HT_F64, ht_x1(b, HT_X_ABS, x)), magic = k(b, 0x1.8p52), large_q,
		large_r;
	int32_t t = xmuladd(b, a, k(b, 2 / pi), magic), n = xsub(b, t, magic), r;
	int32_t large = ht_x2(b, HT_X_LE, k(b, 0x1p20), a);

	r = xmuladd(b, n, k(b, -hi), a);
	r = xmuladd(b, n, k(b, -lo), r);
	large_r = reduce_large(b, x, &large_q);
	*q = ht_xselect(b, large, large_q, xbits(b, t));
	return ht_xselect(b, large, large_r, r);
}

static int32_t sin_poly(struct ht_xb *b, int32_t r, int32_t r2)
{
	static const double c[] = { -0x1.55555555523f8p-3, 0x1.1111110ca2623p-7,
		-0x1.a019f95a61b8cp-13, 0x1.71d77cde19c64p-19, -0x1.a966d74c45504p-26 };

	return xmuladd(b, xmul(b, r, r2), XPOLY(b, r2, c), r);
}

static int32_t cos_poly(struct ht_xb *b, int32_t r2)
{
	static const double c[] = { -0x1.fffffffffff96p-2, 0x1.555555554f090p-5,
		-0x1.6c16c16408f11p-10, 0x1.a019f81b2e7c3p-16, -0x1.27df456d9591fp-22,
		0x1.1b8b6b3d6f043p-29 };

	return xmuladd(b, r2, XPOLY(b, r2, c), k(b, 1));
}

static int32_t odd(struct ht_xb *b, int32_t q)
{
	return ht_x2(b, HT_X_NE, ht_x2(b, HT_X_AND, q, ht_xi(b, 1)), ht_xi(b, 0));
}

int32_t ht_math_trig(struct ht_xb *b, enum ht_xop op, int32_t x)
{
	int32_t q, r = reduce(b, x, &q), r2 = xmul(b, r, r), y, s, c, turned, sign;
	int32_t finite = xlt(b, ht_x1(b, HT_X_ABS, x), xk(b, HT_F32, INFINITY));

	s = sin_poly(b, r, r2);
	c = cos_poly(b, r2);
	if (op == HT_X_COS)
		q = xadd(b, q, ht_xi(b, 1));
	turned = odd(b, q);
	if (op == HT_X_TAN) {
		y = xdiv(b, ht_xselect(b, turned, ht_x1(b, HT_X_NEG, c), s),
			ht_xselect(b, turned, s, c));
		sign = ht_xi(b, 0);
	} else {
		y = ht_xselect(b, turned, c, s);
		sign = shl(b, ht_x2(b, HT_X_AND, q, ht_xi(b, 2)), ht_xi(b, 62));
	}
	y = ht_xcvt(b, HT_F32, xflip(b, y, sign));
	if (op != HT_X_COS)
		y = xflip(b, y, xsign(b, x));
	return ht_xselect(b, finite, y, xk(b, HT_F32, NAN));
}
