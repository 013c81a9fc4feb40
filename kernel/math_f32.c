/* math_f32: functions of F32; those that models use much are computed in F32 only.
 * Coefficients: bench/math/coefficients.py.  Error bounds over all inputs: bench/math/results. */
#include "kernel/math.h"
#include "kernel/build.h"

#include <math.h>

static const double log2_e = 1.44269504088896340736;
/* ln 2 in two parts; the high one has 9 bits, so that its product with an exponent is exact. */
static const double ln2_hi = 0.693359375, ln2_lo = -2.12194440054690581e-4;

/* (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2 */
static const double exp_c[] = { 0x1.fffffcp-2, 0x1.55548ap-3, 0x1.55584ep-5, 0x1.123f2ep-7,
	0x1.6ad11p-10 };

/* c[0] + c[1] x + …, n odd: Horner's scheme over pairs.  The dependency chains are half as long;
 * a machine has only a few vectors with long chains in flight. */
static int32_t in_pairs(struct ht_xb *b, int32_t x, int32_t x2, const int32_t *c, size_t n)
{
	int32_t sum = ht_xmuladd(b, c[n - 1], x, c[n - 2]);

	for (size_t i = n - 2; i > 1; i -= 2)
		sum = ht_xmuladd(b, sum, x2, ht_xmuladd(b, c[i - 1], x, c[i - 2]));
	return ht_xmuladd(b, sum, x, c[0]);
}

/* e^x for x from -172 to 172. */
static int32_t exp_within(struct ht_xb *b, int32_t x)
{
	int32_t magic = ht_xf(b, 0x1.8p23); /* adding it rounds to an integer */
	int32_t n = ht_xsub(b, ht_xmuladd(b, x, ht_xf(b, log2_e), magic), magic);
	int32_t r = ht_xmuladd(b, n, ht_xf(b, -ln2_hi), x), r2, p, c[HT_COUNT(exp_c)];

	r = ht_xmuladd(b, n, ht_xf(b, -ln2_lo), r);
	r2 = ht_xmul(b, r, r);
	for (size_t i = 0; i < HT_COUNT(exp_c); i++)
		c[i] = ht_xf(b, exp_c[i]);
	p = ht_xmuladd(b, r2, in_pairs(b, r, r2, c, HT_COUNT(exp_c)), r);
	return ht_xscale(b, ht_xadd(b, p, ht_xf(b, 1)), n);
}

/* e^x for any x, or for x <= 0 if `negative` is set. */
static int32_t exp32(struct ht_xb *b, int32_t x, bool negative)
{
	return exp_within(b, ht_xleast(b, negative ? x : ht_xmost(b, x, 89), -104));
}

/* Let q = e^-|x| / (1 + e^-|x|), computed so that the rounding of the sum has little effect.
 * The result is q or 1 - q. */
static int32_t sigmoid(struct ht_xb *b, int32_t x)
{
	int32_t one = ht_xf(b, 1), e, q, negative = ht_xlt(b, x, ht_xf(b, 0));

	e = exp32(b, ht_xneg(b, ht_xabs(b, x)), true);
	q = ht_xdiv(b, e, ht_xadd(b, e, one));
	return ht_xselect(b, negative, ht_xmuladd(b, ht_xneg(b, e), q, e), ht_xsub(b, one, q));
}

/* A polynomial near 0; 1 - 2 / (e^(2|x|) + 1) elsewhere. */
static int32_t tanh32(struct ht_xb *b, int32_t x)
{
	static const double near[] = { -0x1.55553ep-2, 0x1.1109bep-3, -0x1.b89aecp-5, 0x1.54c7fap-6,
		-0x1.82aafcp-8 };
	int32_t one = ht_xf(b, 1), a = ht_xabs(b, x), x2 = ht_xmul(b, x, x), p, low, high;
	int32_t t = ht_xmost(b, a, 10);

	low = ht_xmuladd(b, ht_xmul(b, a, x2), HT_XPOLY(b, x2, near), a);
	p = ht_xadd(b, exp_within(b, ht_xadd(b, t, t)), one);
	high = ht_xsub(b, one, ht_xdiv(b, ht_xf(b, 2), p));
	return ht_xflip(b, ht_xselect(b, ht_xlt(b, a, ht_xf(b, 0.6)), low, high), ht_xsign(b, x));
}

/* A polynomial near 0; elsewhere 1 - e^-(t + t P(t)), which is 1 from 4 on.  Both are one
 * polynomial with selected coefficients. */
static int32_t erf32(struct ht_xb *b, int32_t x)
{
	static const double near[] = { 0x1.06eba8p-3, -0x1.812740p-2, 0x1.ce2d60p-4, -0x1.b8007ep-6,
		0x1.54423ep-8, -0x1.a5b7c2p-11, 0x1.4e3812p-14 };
	static const double far[] = { 0x1.077b2cp-3, 0x1.453036p-1, 0x1.b3445ep-4, -0x1.85bba8p-6,
		0x1.defdf6p-9, -0x1.558f78p-12, 0x1.82b152p-17 };
	int32_t a = ht_xabs(b, x), is_near = ht_xlt(b, a, ht_xf(b, 0.9277)), t, u, high;
	int32_t c[HT_COUNT(near)], p;

	t = ht_xmost(b, a, 4);
	u = ht_xselect(b, is_near, ht_xmul(b, x, x), t);
	for (size_t i = 0; i < HT_COUNT(near); i++)
		c[i] = ht_xselect(b, is_near, ht_xf(b, near[i]), ht_xf(b, far[i]));
	p = ht_xmuladd(b, t, in_pairs(b, u, ht_xmul(b, u, u), c, HT_COUNT(near)), t);
	high = ht_xsub(b, ht_xf(b, 1), exp_within(b, ht_xneg(b, p)));
	return ht_xflip(b, ht_xselect(b, is_near, p, high), ht_xsign(b, x));
}

static int32_t log32(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.555548p-2, -0x1.000070p-2, 0x1.99a542p-3, -0x1.552f04p-3,
		0x1.2302aep-3, -0x1.01175cp-3, 0x1.f029c6p-4, -0x1.baa14ap-4, 0x1.a1dcdap-5 };
	const int32_t root_half = 0x3f3504f3, one_bits = 0x3f800000;
	int32_t tiny = ht_xlt(b, x, ht_xf(b, 0x1p-126)), zero = ht_xf(b, 0);
	int32_t scaled = ht_xselect(b, tiny, ht_xmul(b, x, ht_xf(b, 0x1p23)), x);
	/* x = m 2^e, m from sqrt(1/2) to sqrt(2) */
	int32_t i = ht_xaddi(b, ht_xas_int(b, scaled), one_bits - root_half);
	int32_t e = ht_xcvt(b, HT_F32, ht_xshri(b, i, 23));
	int32_t m = ht_xaddi(b, ht_xand(b, i, ht_xint(b, HT_I32, 0x7fffff)), root_half);
	int32_t f = ht_xsub(b, ht_xbitcast(b, HT_F32, m), ht_xf(b, 1)), f2 = ht_xmul(b, f, f), y;

	e = ht_xsub(b, e, ht_xselect(b, tiny, ht_xf(b, 150), ht_xf(b, 127)));
	y = ht_xmul(b, ht_xmul(b, f, f2), HT_XPOLY(b, f, c));
	y = ht_xmuladd(b, e, ht_xf(b, ln2_lo), y);
	y = ht_xmuladd(b, f2, ht_xf(b, -0.5), y);
	y = ht_xmuladd(b, e, ht_xf(b, ln2_hi), ht_xadd(b, f, y));
	y = ht_xselect(b, ht_xlt(b, x, ht_xf(b, INFINITY)), y, x);
	return ht_xselect(b, ht_xlt(b, zero, x), y,
		ht_xselect(b, ht_xeq(b, x, zero), ht_xf(b, -INFINITY), ht_xf(b, NAN)));
}

/* log(u) + (x - (u - 1)) / u, where u is 1 + x rounded.  The second term matters only for tiny
 * x, for which its divisor is 1; for others it is 0, except for 2^53. */
static int32_t log1p32(struct ht_xb *b, int32_t x)
{
	int32_t one = ht_xd(b, 1), w = ht_xcvt(b, HT_F64, x), u = ht_xadd(b, one, w);
	int32_t rest =
		ht_xselect(b, ht_xlt(b, w, one), ht_xsub(b, w, ht_xsub(b, u, one)), ht_xd(b, 0));
	int32_t y = ht_xcvt(b, HT_F32, ht_xadd(b, ht_math_log64(b, u, false, false), rest));
	int32_t odd = ht_xor(b, ht_xeq(b, x, ht_xf(b, 0)), ht_xeq(b, x, ht_xf(b, INFINITY)));

	return ht_xselect(b, odd, x, y);
}

static int32_t expm1_32(struct ht_xb *b, int32_t x)
{
	int32_t y = ht_xcvt(b, HT_F32, ht_math_expm1_64(b, ht_xcvt(b, HT_F64, x), false));

	return ht_xselect(b, ht_xeq(b, x, ht_xf(b, 0)), x, y);
}

static int32_t pow32(struct ht_xb *b, int32_t x, int32_t y)
{
	int64_t imm = 0;
	bool constant = ht_xb_const(b, y, &imm);

	/* Exponents that are frequent in graphs; the error is within an ulp. */
	if (constant && imm == ht_x_imm(HT_F32, 1, 0))
		return x;
	if (constant && imm == ht_x_imm(HT_F32, 2, 0))
		return ht_xmul(b, x, x);
	if (constant && imm == ht_x_imm(HT_F32, 3, 0))
		return ht_xmul(b, ht_xmul(b, x, x), x);
	if (constant && imm == ht_x_imm(HT_F32, -1, 0))
		return ht_xdiv(b, ht_xf(b, 1), x);
	return ht_xcvt(
		b, HT_F32, ht_math_pow64(b, ht_xcvt(b, HT_F64, x), ht_xcvt(b, HT_F64, y), false));
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
		return ht_xdiv(b, ht_xf(b, 1), ht_xsqrt(b, x));
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
	default: /* rare functions are computed in F64 */
		return ht_xcvt(b, HT_F32, ht_math_f64(b, op, ht_xcvt(b, HT_F64, x), -1));
	}
}
