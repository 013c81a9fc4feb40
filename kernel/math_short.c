/* math_short: functions of F32 by shorter polynomials.  Coefficients:
 * bench/math/coefficients.py.
 *
 * Relative errors: SHORT 2^-15, SHORTEST 2^-9; docs/modes.md has the measured ones.  Results
 * below the smallest normal number may be zero, and subnormal operands may count as zero. */
#include "kernel/math.h"

#include <math.h>

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
static const double magic = 0x1.8p23;

struct form {
	struct ht_xb *b;
	bool shortest;
};

/* 2^(n + bias - 127), n in the low bits of `w`. */
static int32_t power_of_two(const struct form *f, int32_t w, int bias)
{
	w = ht_xaddi(f->b, w, bias);
	return ht_xbitcast(f->b, HT_F32, ht_xshli(f->b, w, 23));
}

/* x * scale = n + *r with |*r| <= 1/2; an integer with n in its low bits. */
static int32_t split(const struct form *f, int32_t x, double scale, int32_t *r)
{
	struct ht_xb *b = f->b;
	int32_t t = ht_xmuladd(b, x, ht_xf(b, scale), ht_xf(b, magic));
	int32_t n = ht_xsub(b, t, ht_xf(b, magic));

	*r = ht_xmuladd(b, x, ht_xf(b, scale), ht_xneg(b, n));
	return ht_xas_int(b, t);
}

static const double log2_e = 1.44269504088896340736;

/* e^x = 2^(n-1) * 2 * 2^r, for any x, or for x <= 0 if `negative` is set; one factor, so that
 * nothing is subnormal. */
static int32_t exp_short(const struct form *f, int32_t x, bool negative)
{
	static const double c4[] = { 0x1.ffffe8p0, 0x1.62e0cap0, 0x1.ec05f0p-2, 0x1.ca1dcap-4,
		0x1.39f3e0p-6 };
	static const double c2[] = { 0x1.001d28p1, 0x1.682d02p0, 0x1.e84ba0p-2 };
	struct ht_xb *b = f->b;
	int32_t r, w, p;

	w = split(f, ht_xleast(b, negative ? x : ht_xmost(b, x, 89), -87), log2_e, &r);
	p = f->shortest ? HT_XPOLY(b, r, c2) : HT_XPOLY(b, r, c4);
	return ht_xmul(b, p, power_of_two(f, w, 126));
}

/* 2^(x * scale) - 1, up to 2^127; accurate relative to the result, also near 0. */
static int32_t exp_less_one(const struct form *f, int32_t x, double scale)
{
	static const double c3[] = { 0x1.62e2d4p-1, 0x1.ebff0ap-3, 0x1.c96caep-5, 0x1.3b2a92p-7 };
	static const double c2[] = { 0x1.62e848p-1, 0x1.efaeb8p-3, 0x1.c6b040p-5 };
	struct ht_xb *b = f->b;
	int32_t r, w = split(f, x, scale, &r), s = power_of_two(f, w, 127);
	int32_t q = ht_xmul(b, r, f->shortest ? HT_XPOLY(b, r, c2) : HT_XPOLY(b, r, c3));

	return ht_xmuladd(b, s, q, ht_xsub(b, s, ht_xf(b, 1)));
}

static int32_t expm1_short(const struct form *f, int32_t x)
{
	struct ht_xb *b = f->b;
	int32_t y = exp_less_one(f, ht_xleast(b, ht_xmost(b, x, 88), -20), log2_e);

	/* From 88 on the exponent is too large for one factor. */
	return ht_xselect(b, ht_xlt(b, ht_xf(b, 88), x), exp_short(f, x, false), y);
}

/* Let q = e^-|x| / (1 + e^-|x|). The result is q for negative x, else 1 - q. */
static int32_t sigmoid_short(const struct form *f, int32_t x)
{
	struct ht_xb *b = f->b;
	int32_t e = exp_short(f, ht_xneg(b, ht_xabs(b, x)), true);
	int32_t q = ht_xdiv(b, e, ht_xadd(b, e, ht_xf(b, 1)));

	return ht_xselect(b, ht_xlt(b, x, ht_xf(b, 0)), q, ht_xsub(b, ht_xf(b, 1), q));
}

/* p / (p + 2), p = e^(2|x|) - 1. */
static int32_t tanh_short(const struct form *f, int32_t x)
{
	struct ht_xb *b = f->b;
	int32_t a = ht_xmost(b, ht_xabs(b, x), 10);
	int32_t p = exp_less_one(f, a, 2 * log2_e);

	return ht_xflip(b, ht_xdiv(b, p, ht_xadd(b, p, ht_xf(b, 2))), ht_xsign(b, x));
}

/* 1 - 2^-(a Q(a)), which is 1 from 4 on. */
static int32_t erf_short(const struct form *f, int32_t x)
{
	static const double c4[] = { 0x1.a0be98p+0, 0x1.d63568p-1, 0x1.3105f6p-3, -0x1.e9a7f2p-6,
		0x1.92e31cp-9 };
	static const double c2[] = { 0x1.a091cap+0, 0x1.de0130p-1, 0x1.b0dddep-4 };
	struct ht_xb *b = f->b;
	int32_t a = ht_xmost(b, ht_xabs(b, x), 4);
	int32_t q = ht_xmul(b, a, f->shortest ? HT_XPOLY(b, a, c2) : HT_XPOLY(b, a, c4));
	int32_t p = exp_less_one(f, q, -1);

	return ht_xflip(b, ht_xabs(b, p), ht_xsign(b, x));
}

/* log(m 2^e): the exponent of u / sqrt(1/2), and m - 1. */
struct log_parts {
	int32_t e, rest;
};

static struct log_parts log_split(const struct form *f, int32_t u)
{
	const int32_t root_half = 0x3f3504f3, one_bits = 0x3f800000;
	struct ht_xb *b = f->b;
	int32_t i = ht_xaddi(b, ht_xas_int(b, u), one_bits - root_half), m;
	struct log_parts p;

	p.e = ht_xsub(b, ht_xshri(b, i, 23), ht_xint(b, HT_I32, 127));
	m = ht_xaddi(b, ht_xand(b, i, ht_xint(b, HT_I32, 0x7fffff)), root_half);
	p.rest = ht_xsub(b, ht_xbitcast(b, HT_F32, m), ht_xf(b, 1));
	return p;
}

/* -inf for u = 0 and below the smallest normal number. */
static int32_t log_of_parts(const struct form *f, int32_t u, struct log_parts p)
{
	static const double c5[] = { 0x1.00004cp+0, -0x1.ffe5c0p-2, 0x1.549162p-2, -0x1.0437fap-2,
		0x1.c386bep-3, -0x1.2357f4p-3 };
	static const double c3[] = { 0x1.ffd96cp-1, -0x1.010be8p-1, 0x1.6ae4bcp-2, -0x1.d14bc2p-3 };
	struct ht_xb *b = f->b;
	int32_t y =
		ht_xmul(b, p.rest, f->shortest ? HT_XPOLY(b, p.rest, c3) : HT_XPOLY(b, p.rest, c5));
	int32_t low = ht_xselect(b, ht_xlt(b, u, ht_xf(b, 0)), ht_xf(b, NAN), ht_xf(b, -INFINITY));

	y = ht_xmuladd(b, ht_xcvt(b, HT_F32, p.e), ht_xf(b, 0.693147180559945309), y);
	y = ht_xselect(b, ht_xlt(b, u, ht_xf(b, INFINITY)), y, u);
	return ht_xselect(b, ht_xlt(b, u, ht_xf(b, 0x1p-126)), low, y);
}

/* Near 0, the rounding of u = 1 + x matters, and the correction is about x itself. */
static int32_t log1p_short(const struct form *f, int32_t x)
{
	struct ht_xb *b = f->b;
	int32_t u = ht_xadd(b, x, ht_xf(b, 1));
	struct log_parts p = log_split(f, u);

	p.rest = ht_xselect(b, ht_xlt(b, ht_xabs(b, x), ht_xf(b, 0.25)), x, p.rest);
	return log_of_parts(f, u, p);
}

int32_t ht_math_short(struct ht_xb *b, enum ht_xop op, int32_t x, enum ht_accuracy accuracy)
{
	const struct form f = { b, accuracy == HT_ACCURACY_SHORTEST };

	switch (op) {
	case HT_X_EXP:
		return exp_short(&f, x, false);
	case HT_X_EXPM1:
		return expm1_short(&f, x);
	case HT_X_SIGMOID:
		return sigmoid_short(&f, x);
	case HT_X_TANH:
		return tanh_short(&f, x);
	case HT_X_ERF:
		return erf_short(&f, x);
	case HT_X_LOG:
		return log_of_parts(&f, x, log_split(&f, x));
	case HT_X_LOG1P:
		return log1p_short(&f, x);
	default:
		return -1;
	}
}
