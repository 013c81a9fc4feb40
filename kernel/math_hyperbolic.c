/* math_hyperbolic: SINH COSH ASINH ACOSH ATANH of F64.  Coefficients: bench/math/coefficients.py.
 * Bound, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

static int32_t k(struct ht_xb *b, double f)
{
	return xk(b, HT_F64, f);
}

static int32_t root(struct ht_xb *b, int32_t x)
{
	return ht_x1(b, HT_X_SQRT, x);
}

/* e^a / 2 by way of e^(a/2), which stays within range longer, and 1 / (2 e^a). */
static int32_t half_exp(struct ht_xb *b, int32_t a, int32_t *reciprocal)
{
	int32_t half = k(b, 0.5), e = ht_math_exp64(b, xmul(b, a, half), true);

	*reciprocal = xdiv(b, half, xmul(b, e, e));
	return xmul(b, xmul(b, e, half), e);
}

static int32_t sinh64(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.5555555555556p-3, 0x1.11111111110a1p-7,
		0x1.a01a01a0291fcp-13, 0x1.71de3a45f71c1p-19, 0x1.ae6467668f3a0p-26,
		0x1.611a3a1eb40cbp-33, 0x1.b4cf791317cedp-41 };
	int32_t a = ht_x1(b, HT_X_ABS, x), x2 = xmul(b, x, x), falling, rising, near;

	rising = half_exp(b, a, &falling);
	near = xmuladd(b, xmul(b, x, x2), XPOLY(b, x2, c), x);
	return ht_xselect(
		b, xlt(b, a, k(b, 1)), near, xflip(b, xsub(b, rising, falling), xsign(b, x)));
}

static int32_t cosh64(struct ht_xb *b, int32_t x)
{
	int32_t falling, rising = half_exp(b, ht_x1(b, HT_X_ABS, x), &falling);

	return xadd(b, rising, falling);
}

/* log(2a) where `huge`, log(1 + y) elsewhere. */
static int32_t log1p_or_double(struct ht_xb *b, int32_t huge, int32_t a, int32_t y)
{
	int32_t r = ht_math_log1p64(b, ht_xselect(b, huge, a, y));

	return xadd(b, r, ht_xselect(b, huge, k(b, 0.69314718055994530942), k(b, 0)));
}

/* log(1 + a + a^2 / (1 + sqrt(1 + a^2))). */
static int32_t asinh64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_x1(b, HT_X_ABS, x), a2 = xmul(b, a, a), one = k(b, 1), y;

	y = xadd(b, a, xdiv(b, a2, xadd(b, one, root(b, xadd(b, one, a2)))));
	return xflip(b, log1p_or_double(b, xlt(b, k(b, 0x1p60), a), a, y), xsign(b, x));
}

/* log(1 + t + sqrt(2t + t^2)), t = x - 1. */
static int32_t acosh64(struct ht_xb *b, int32_t x)
{
	int32_t one = k(b, 1), t = xsub(b, x, one), y;

	y = xadd(b, t, root(b, xmul(b, t, xadd(b, t, k(b, 2)))));
	y = log1p_or_double(b, xlt(b, k(b, 0x1p60), x), x, y);
	return ht_xselect(b, xlt(b, x, one), k(b, NAN), y);
}

/* log(1 + 2a / (1 - a)) / 2. */
static int32_t atanh64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_x1(b, HT_X_ABS, x);
	int32_t y = ht_math_log1p64(b, xdiv(b, xadd(b, a, a), xsub(b, k(b, 1), a)));

	return xflip(b, xmul(b, y, k(b, 0.5)), xsign(b, x));
}

int32_t ht_math_hyperbolic64(struct ht_xb *b, enum ht_xop op, int32_t x)
{
	switch (op) {
	case HT_X_SINH:
		return sinh64(b, x);
	case HT_X_COSH:
		return cosh64(b, x);
	case HT_X_ASINH:
		return asinh64(b, x);
	case HT_X_ACOSH:
		return acosh64(b, x);
	default:
		return atanh64(b, x);
	}
}
