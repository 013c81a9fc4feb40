/* math_f32: functions of F32; those that are hot in F32 alone.  Coefficients: bench/math/coefficients.py.
 * Bounds over all inputs are those of bench/math/results. */
#include "kernel/math.h"
#include "kernel/build.h"

#include <math.h>

static const double log2_e = 1.44269504088896340736;
/* ln 2 in two parts; the high one has 9 bits, so that its product with an exponent is exact. */
static const double ln2_hi = 0.693359375, ln2_lo = -2.12194440054690581e-4;

/* (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2 */
static const double exp_c[] = { 0x1.fffffcp-2, 0x1.55548ap-3, 0x1.55584ep-5, 0x1.123f2ep-7,
	0x1.6ad11p-10 };

/* c[0] + c[1] x + …, n odd: by Horner over pairs.  These chains are half as long, and a few vectors
 * of long ones are all that a machine has in flight. */
static int32_t in_pairs(struct ht_xb *b, int32_t x, int32_t x2, const int32_t *c, size_t n)
{
	int32_t sum = xmuladd(b, c[n - 1], x, c[n - 2]);

	for (size_t i = n - 2; i > 1; i -= 2)
		sum = xmuladd(b, sum, x2, xmuladd(b, c[i - 1], x, c[i - 2]));
	return xmuladd(b, sum, x, c[0]);
}

/* e^x for x from -172 to 172. */
static int32_t exp_within(struct ht_xb *b, int32_t x)
{
	int32_t magic = xk(b, HT_F32, 0x1.8p23); /* adding it rounds to an integer */
	int32_t n = xsub(b, xmuladd(b, x, xk(b, HT_F32, log2_e), magic), magic);
	int32_t r = xmuladd(b, n, xk(b, HT_F32, -ln2_hi), x), r2, p, c[HT_COUNT(exp_c)];

	r = xmuladd(b, n, xk(b, HT_F32, -ln2_lo), r);
	r2 = xmul(b, r, r);
	for (size_t i = 0; i < HT_COUNT(exp_c); i++)
		c[i] = xk(b, HT_F32, exp_c[i]);
	p = xmuladd(b, r2, in_pairs(b, r, r2, c, HT_COUNT(exp_c)), r);
	return ht_x2(b, HT_X_SCALE, xadd(b, p, xk(b, HT_F32, 1)), n);
}

/* Any x, or any that is not positive. */
static int32_t exp32(struct ht_xb *b, int32_t x, bool negative)
{
	return exp_within(b, xleast(b, negative ? x : xmost(b, x, 89), -104));
}

/* With e = e^-|x|: e / (1 + e), written so that the sum's rounding counts little, or 1 less that. */
static int32_t sigmoid(struct ht_xb *b, int32_t x)
{
	int32_t one = xk(b, HT_F32, 1), e, q, negative = xlt(b, x, xk(b, HT_F32, 0));

	e = exp32(b, ht_x1(b, HT_X_NEG, ht_x1(b, HT_X_ABS, x)), true);
	q = xdiv(b, e, xadd(b, e, one));
	return ht_xselect(b, negative, xmuladd(b, ht_x1(b, HT_X_NEG, e), q, e), xsub(b, one, q));
}

/* A polynomial near 0; 1 - 2 / (e^(2|x|) + 1) elsewhere. */
static int32_t tanh32(struct ht_xb *b, int32_t x)
{
	static const double near[] = { -0x1.55553ep-2, 0x1.1109bep-3, -0x1.b89aecp-5, 0x1.54c7fap-6,
		-0x1.82aafcp-8 };
	int32_t one = xk(b, HT_F32, 1), a = ht_x1(b, HT_X_ABS, x), x2 = xmul(b, x, x), p, low, high;
	int32_t t = xmost(b, a, 10);

	low = xmuladd(b, xmul(b, a, x2), XPOLY(b, x2, near), a);
	p = xadd(b, exp_within(b, xadd(b, t, t)), one);
	high = xsub(b, one, xdiv(b, xk(b, HT_F32, 2), p));
	return xflip(b, ht_xselect(b, xlt(b, a, xk(b, HT_F32, 0.6)), low, high), xsign(b, x));
}

/* A polynomial near 0; 1 - e^-(t + t P(t)) elsewhere, which is 1 from 4 on.  Both are evaluated as
 * one, whose coefficients are chosen. */
static int32_t erf32(struct ht_xb *b, int32_t x)
{
	static const double near[] = { 0x1.06eba8p-3, -0x1.812740p-2, 0x1.ce2d60p-4, -0x1.b8007ep-6,
		0x1.54423ep-8, -0x1.a5b7c2p-11, 0x1.4e3812p-14 };
	static const double far[] = { 0x1.077b2cp-3, 0x1.453036p-1, 0x1.b3445ep-4, -0x1.85bba8p-6,
		0x1.defdf6p-9, -0x1.558f78p-12, 0x1.82b152p-17 };
	int32_t a = ht_x1(b, HT_X_ABS, x), is_near = xlt(b, a, xk(b, HT_F32, 0.9277)), t, u, high;
	int32_t c[HT_COUNT(near)], p;

	t = xmost(b, a, 4);
	u = ht_xselect(b, is_near, xmul(b, x, x), t);
	for (size_t i = 0; i < HT_COUNT(near); i++)
		c[i] = ht_xselect(b, is_near, xk(b, HT_F32, near[i]), xk(b, HT_F32, far[i]));
	p = xmuladd(b, t, in_pairs(b, u, xmul(b, u, u), c, HT_COUNT(near)), t);
	high = xsub(b, xk(b, HT_F32, 1), exp_within(b, ht_x1(b, HT_X_NEG, p)));
	return xflip(b, ht_xselect(b, is_near, p, high), xsign(b, x));
}

static int32_t log32(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.555548p-2, -0x1.000070p-2, 0x1.99a542p-3, -0x1.552f04p-3,
		0x1.2302aep-3, -0x1.01175cp-3, 0x1.f029c6p-4, -0x1.baa14ap-4, 0x1.a1dcdap-5 };
	const int32_t root_half = 0x3f3504f3, one_bits = 0x3f800000;
	int32_t tiny = xlt(b, x, xk(b, HT_F32, 0x1p-126)), zero = xk(b, HT_F32, 0);
	int32_t scaled = ht_xselect(b, tiny, xmul(b, x, xk(b, HT_F32, 0x1p23)), x);
	/* x = m 2^e, m from sqrt(1/2) to sqrt(2) */
	int32_t i = xadd(b, xbits(b, scaled), xint(b, HT_I32, one_bits - root_half));
	int32_t e = ht_xcvt(b, HT_F32, ht_x2(b, HT_X_SHR, i, xint(b, HT_I32, 23)));
	int32_t m = xadd(
		b, ht_x2(b, HT_X_AND, i, xint(b, HT_I32, 0x7fffff)), xint(b, HT_I32, root_half));
	int32_t f = xsub(b, ht_xbitcast(b, HT_F32, m), xk(b, HT_F32, 1)), f2 = xmul(b, f, f), y;

	e = xsub(b, e, ht_xselect(b, tiny, xk(b, HT_F32, 150), xk(b, HT_F32, 127)));
	y = xmul(b, xmul(b, f, f2), XPOLY(b, f, c));
	y = xmuladd(b, e, xk(b, HT_F32, ln2_lo), y);
	y = xmuladd(b, f2, xk(b, HT_F32, -0.5), y);
	y = xmuladd(b, e, xk(b, HT_F32, ln2_hi), xadd(b, f, y));
	y = ht_xselect(b, xlt(b, x, xk(b, HT_F32, INFINITY)), y, x);
	return ht_xselect(b, xlt(b, zero, x), y,
		ht_xselect(b, xeq(b, x, zero), xk(b, HT_F32, -INFINITY), xk(b, HT_F32, NAN)));
}

static int32_t wide(struct ht_xb *b, int32_t x)
{
	return ht_xcvt(b, HT_F64, x);
}

static int32_t narrow(struct ht_xb *b, int32_t x)
{
	return ht_xcvt(b, HT_F32, x);
}

/* log(u) + (x - (u - 1)) / u with u = 1 + x rounded.  The second term matters for tiny x only, where
 * its divisor is 1; for others it is 0, but for 2^53. */
static int32_t log1p32(struct ht_xb *b, int32_t x)
{
	int32_t one = xk(b, HT_F64, 1), w = wide(b, x), u = xadd(b, one, w);
	int32_t rest = ht_xselect(b, xlt(b, w, one), xsub(b, w, xsub(b, u, one)), xk(b, HT_F64, 0));
	int32_t y = narrow(b, xadd(b, ht_math_log64(b, u, false, false), rest));
	int32_t odd =
		ht_x2(b, HT_X_OR, xeq(b, x, xk(b, HT_F32, 0)), xeq(b, x, xk(b, HT_F32, INFINITY)));

	return ht_xselect(b, odd, x, y);
}

static int32_t expm1_32(struct ht_xb *b, int32_t x)
{
	int32_t y = narrow(b, ht_math_expm1_64(b, wide(b, x), false));

	return ht_xselect(b, xeq(b, x, xk(b, HT_F32, 0)), x, y);
}

static int32_t pow32(struct ht_xb *b, int32_t x, int32_t y)
{
	int64_t imm = 0;
	bool constant = ht_xb_const(b, y, &imm);

	/* Exponents that graphs are full of; within an ulp. */
	if (constant && imm == ht_x_imm(HT_F32, 1, 0))
		return x;
	if (constant && imm == ht_x_imm(HT_F32, 2, 0))
		return xmul(b, x, x);
	if (constant && imm == ht_x_imm(HT_F32, 3, 0))
		return xmul(b, xmul(b, x, x), x);
	if (constant && imm == ht_x_imm(HT_F32, -1, 0))
		return xdiv(b, xk(b, HT_F32, 1), x);
	return narrow(b, ht_math_pow64(b, wide(b, x), wide(b, y), false));
}

int32_t ht_math_f32(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y)
{
	switch (op) {
	case HT_X_EXP:
		return exp32(b, x, false);
	case HT_X_EXPM1:
		return expm1_32(b, x);
	case HT_X_LOG:
		return log32(b, x);
	case HT_X_LOG1P:
		return log1p32(b, x);
	case HT_X_TANH:
		return tanh32(b, x);
	case HT_X_SIGMOID:
		return sigmoid(b, x);
	case HT_X_ERF:
		return erf32(b, x);
	case HT_X_RSQRT:
		return xdiv(b, xk(b, HT_F32, 1), ht_x1(b, HT_X_SQRT, x));
	case HT_X_POW:
		return pow32(b, x, y);
	case HT_X_SIN:
	case HT_X_COS:
	case HT_X_TAN:
		return ht_math_trig(b, op, x);
	case HT_X_ATAN:
		return ht_math_atan32(b, x);
	case HT_X_ATAN2:
		return ht_math_atan2_32(b, x, y);
	default: /* rare: as F64 does */
		return narrow(b, ht_math_f64(b, op, wide(b, x), -1));
	}
}
