/* math_f64: functions of F64, and shorter forms of them, in which rarer functions of F32 are
 * computed.  Coefficients: bench/math/coefficients.py.
 *
 * Relative error bounds: 1e-15; POW 2^-52 (1 + |y ln x|). math_arc.c, math_erf.c,
 * math_hyperbolic.c and math_trig64.c have the other functions. */
#include "kernel/math.h"

#include <math.h>

static const double log2_e = 1.44269504088896340736;
/* ln 2 in two parts; the high one has 32 bits, so that its product with an exponent is exact. */
static const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;

static const double exp_short[] = { 0x1.fffffffff7a03p-2, 0x1.555555556767ep-3,
	0x1.5555557379f25p-5, 0x1.111110e0b0e69p-7, 0x1.6c164ef2ad7c6p-10, 0x1.a01a7e262a5ddp-13,
	0x1.a1597e2da1ae2p-16, 0x1.71e9504773dbfp-19 };
static const double exp_long[] = { 0x1.0p-1, 0x1.5555555555554p-3, 0x1.5555555555529p-5,
	0x1.11111111119d2p-7, 0x1.6c16c16c43271p-10, 0x1.a01a019c4bddfp-13, 0x1.a019fffd392c1p-16,
	0x1.71de38947e437p-19, 0x1.27ea861e05ed7p-22, 0x1.aed85bd3b75e6p-26,
	0x1.134fd5911d522p-29 };
static const double atanh_short[] = { 0x1.5555555553958p-2, 0x1.999999a297017p-3,
	0x1.249241754604fp-3, 0x1.c72279871b7d7p-4, 0x1.732bf45324139p-4, 0x1.5879ec4e0d9a2p-4 };
static const double atanh_long[] = { 0x1.5555555555555p-2, 0x1.999999999998ep-3,
	0x1.24924924939b3p-3, 0x1.c71c71c4bf387p-4, 0x1.745d18780915cp-4, 0x1.3b1353cbff790p-4,
	0x1.11229559cec0ap-4, 0x1.ddf20716c26c1p-5, 0x1.ecef3bc3e43d4p-5 };

/* e^x = 2^n (1 + p).  *w: an integer whose low bits are n + bias. */
static int32_t exp_parts(struct ht_xb *b, int32_t x, int bias, bool full, int32_t *w)
{
	int32_t magic = ht_xd(b, 0x1.8p52 + bias), t = ht_xmuladd(b, x, ht_xd(b, log2_e), magic);
	int32_t n = ht_xsub(b, t, magic), r, q;

	r = ht_xmuladd(b, n, ht_xd(b, -ln2_hi), x);
	r = ht_xmuladd(b, n, ht_xd(b, -ln2_lo), r);
	*w = ht_xas_int(b, t);
	q = full ? HT_XPOLY(b, r, exp_long) : HT_XPOLY(b, r, exp_short);
	return ht_xmuladd(b, ht_xmul(b, r, r), q, r);
}

static int32_t power_of_two(struct ht_xb *b, int32_t w)
{
	return ht_xbitcast(b, HT_F64, ht_xshli(b, w, 52));
}

int32_t ht_math_exp64(struct ht_xb *b, int32_t x, bool full)
{
	int32_t w, p, half;

	x = ht_xleast(b, ht_xmost(b, x, 710), -746);
	p = ht_xadd(b, exp_parts(b, x, 2 * 1023, full, &w), ht_xd(b, 1));
	half = ht_xshri(b, w, 1);
	p = ht_xmul(b, p, power_of_two(b, half));
	return ht_xmul(b, p, power_of_two(b, ht_xsub(b, w, half)));
}

/* 2^n p + (2^n - 1), halved and doubled again, so that n = 1024 does not overflow. */
int32_t ht_math_expm1_64(struct ht_xb *b, int32_t x, bool full)
{
	int32_t w, p, s, half = ht_xd(b, 0.5);

	x = ht_xleast(b, ht_xmost(b, x, 710), -60);
	p = exp_parts(b, x, 1022, full, &w);
	s = power_of_two(b, w);
	p = ht_xmuladd(b, s, p, ht_xsub(b, s, half));
	return ht_xadd(b, p, p);
}

/* log of a positive, finite x as fdlibm computes it.  x = m 2^e, f = m - 1, s = f / (2 + f),
 * log m = f - (f^2/2 - s (f^2/2 + R(s^2))). */
static int32_t log_positive(struct ht_xb *b, int32_t x, bool full, int32_t e_bias)
{
	const int64_t root_half = 0x3fe6a09e667f3bcd, one_bits = 0x3ff0000000000000;
	int32_t i = ht_xaddi(b, ht_xas_int(b, x), one_bits - root_half);
	int32_t m = ht_xaddi(b, ht_xand(b, i, ht_xi(b, 0xfffffffffffff)), root_half);
	int32_t f = ht_xsub(b, ht_xbitcast(b, HT_F64, m), ht_xd(b, 1)),
		s = ht_xdiv(b, f, ht_xadd(b, f, ht_xd(b, 2)));
	int32_t s2 = ht_xmul(b, s, s), half = ht_xmul(b, ht_xmul(b, f, f), ht_xd(b, 0.5)), r, e, y;

	/* The exponent as a number: put into the low bits of 1.5 * 2^52. */
	e = ht_xaddi(b, ht_xshri(b, i, 52), 0x4338000000000000);
	e = ht_xsub(b, ht_xsub(b, ht_xbitcast(b, HT_F64, e), ht_xd(b, 0x1.8p52)), e_bias);
	r = full ? HT_XPOLY(b, s2, atanh_long) : HT_XPOLY(b, s2, atanh_short);
	r = ht_xmul(b, r, ht_xadd(b, s2, s2));
	y = ht_xmuladd(b, e, ht_xd(b, ln2_lo), ht_xmul(b, s, ht_xadd(b, half, r)));
	y = ht_xsub(b, ht_xsub(b, half, y), f);
	return ht_xsub(b, ht_xmul(b, e, ht_xd(b, ln2_hi)), y);
}

int32_t ht_math_log64(struct ht_xb *b, int32_t x, bool full, bool subnormal)
{
	int32_t zero = ht_xd(b, 0), bias = ht_xd(b, 1023), scaled = x, y;

	if (subnormal) {
		int32_t tiny = ht_xlt(b, x, ht_xd(b, 0x1p-1022));

		scaled = ht_xselect(b, tiny, ht_xmul(b, x, ht_xd(b, 0x1p54)), x);
		bias = ht_xselect(b, tiny, ht_xd(b, 1023 + 54), bias);
	}
	y = log_positive(b, scaled, full, bias);
	y = ht_xselect(b, ht_xlt(b, x, ht_xd(b, INFINITY)), y, x);
	return ht_xselect(b, ht_xlt(b, zero, x), y,
		ht_xselect(b, ht_xeq(b, x, zero), ht_xd(b, -INFINITY), ht_xd(b, NAN)));
}

/* log(u) + (x - (u - 1)) / u, u = 1 + x rounded. */
int32_t ht_math_log1p64(struct ht_xb *b, int32_t x)
{
	int32_t one = ht_xd(b, 1), u = ht_xadd(b, one, x), rest = ht_xsub(b, x, ht_xsub(b, u, one));
	int32_t y = ht_xadd(b, ht_math_log64(b, u, true, false), ht_xdiv(b, rest, u));
	int32_t zero_or_inf =
		ht_xor(b, ht_xeq(b, x, ht_xd(b, 0)), ht_xeq(b, x, ht_xd(b, INFINITY)));
	int32_t pole = ht_xeq(b, x, ht_xd(b, -1)); /* where the second term is 0 / 0 */

	y = ht_xselect(b, pole, ht_xd(b, -INFINITY), y);
	return ht_xselect(b, zero_or_inf, x, y);
}

static int32_t tanh64(struct ht_xb *b, int32_t x)
{
	int32_t t = ht_xmost(b, ht_xabs(b, x), 22), e = ht_math_expm1_64(b, ht_xadd(b, t, t), true);

	return ht_xflip(b, ht_xdiv(b, e, ht_xadd(b, e, ht_xd(b, 2))), ht_xsign(b, x));
}

static int32_t sigmoid64(struct ht_xb *b, int32_t x)
{
	int32_t e = ht_math_exp64(b, ht_xmost(b, x, 60), true);

	return ht_xdiv(b, e, ht_xadd(b, e, ht_xd(b, 1)));
}

/* Special values follow the C standard.  `full` as for the building blocks. */
int32_t ht_math_pow64(struct ht_xb *b, int32_t x, int32_t y, bool full)
{
	int32_t zero = ht_xd(b, 0), l = ht_math_log64(b, ht_xabs(b, x), full, full), r;
	/* 1 to any power and any number to the power 0 are 1. */
	int32_t one = ht_xor(b, ht_xeq(b, y, zero), ht_xeq(b, l, zero));
	int32_t whole = ht_xeq(b, ht_xrint(b, y), y), h = ht_xmul(b, y, ht_xd(b, 0.5));
	int32_t odd = ht_xand(b, whole, ht_xne(b, ht_xrint(b, h), h));
	int32_t undefined = ht_xand(b, ht_xlt(b, x, zero), ht_xnot(b, whole));

	undefined = ht_xand(b, undefined, ht_xne(b, x, ht_xd(b, -INFINITY)));
	r = ht_math_exp64(b, ht_xselect(b, one, zero, ht_xmul(b, y, l)), full);
	r = ht_xflip(b, r, ht_xselect(b, odd, ht_xsign(b, x), ht_xi(b, 0)));
	return ht_xselect(b, undefined, ht_xd(b, NAN), r);
}

int32_t ht_math_f64(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y)
{
	switch (op) {
	case HT_X_EXP:
		return ht_math_exp64(b, x, true);
	case HT_X_EXPM1:
		return ht_xselect(b, ht_xeq(b, x, ht_xd(b, 0)), x, ht_math_expm1_64(b, x, true));
	case HT_X_LOG:
		return ht_math_log64(b, x, true, true);
	case HT_X_LOG1P:
		return ht_math_log1p64(b, x);
	case HT_X_TANH:
		return tanh64(b, x);
	case HT_X_SIGMOID:
		return sigmoid64(b, x);
	case HT_X_RSQRT:
		return ht_xdiv(b, ht_xd(b, 1), ht_xsqrt(b, x));
	case HT_X_POW:
		return ht_math_pow64(b, x, y, true);
	case HT_X_SIN:
	case HT_X_COS:
	case HT_X_TAN:
		return ht_math_trig64(b, op, x);
	case HT_X_ATAN:
	case HT_X_ATAN2:
	case HT_X_ASIN:
	case HT_X_ACOS:
		return ht_math_arc64(b, op, x, y);
	case HT_X_ERF:
		return ht_math_erf64(b, x);
	case HT_X_ERFC:
		return ht_math_erfc64(b, x);
	default:
		return ht_math_hyperbolic64(b, op, x);
	}
}
