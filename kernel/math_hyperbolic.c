/* math_hyperbolic: SINH COSH ASINH ACOSH ATANH of F64.  Coefficients: bench/math/coefficients.py.
 * Bound, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

/* e^a / 2 computed from e^(a/2), which overflows later, and *reciprocal 1 / (2 e^a). */
static int32_t half_exp(struct ht_xb *b, int32_t a, int32_t *reciprocal)
{
	int32_t half = ht_xd(b, 0.5), e = ht_math_exp64(b, ht_xmul(b, a, half), true);

	*reciprocal = ht_xdiv(b, half, ht_xmul(b, e, e));
	return ht_xmul(b, ht_xmul(b, e, half), e);
}

static int32_t sinh64(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.5555555555556p-3, 0x1.11111111110a1p-7,
		0x1.a01a01a0291fcp-13, 0x1.71de3a45f71c1p-19, 0x1.ae6467668f3a0p-26,
		0x1.611a3a1eb40cbp-33, 0x1.b4cf791317cedp-41 };
	int32_t a = ht_xabs(b, x), x2 = ht_xmul(b, x, x), falling, rising, near;

	rising = half_exp(b, a, &falling);
	near = ht_xmuladd(b, ht_xmul(b, x, x2), HT_XPOLY(b, x2, c), x);
	return ht_xselect(b, ht_xlt(b, a, ht_xd(b, 1)), near,
		ht_xflip(b, ht_xsub(b, rising, falling), ht_xsign(b, x)));
}

static int32_t cosh64(struct ht_xb *b, int32_t x)
{
	int32_t falling, rising = half_exp(b, ht_xabs(b, x), &falling);

	return ht_xadd(b, rising, falling);
}

/* log(2a) where `huge`, log(1 + y) elsewhere. */
static int32_t log1p_or_double(struct ht_xb *b, int32_t huge, int32_t a, int32_t y)
{
	int32_t r = ht_math_log1p64(b, ht_xselect(b, huge, a, y));

	return ht_xadd(b, r, ht_xselect(b, huge, ht_xd(b, 0.69314718055994530942), ht_xd(b, 0)));
}

/* log(1 + a + a^2 / (1 + sqrt(1 + a^2))). */
static int32_t asinh64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_xabs(b, x), a2 = ht_xmul(b, a, a), one = ht_xd(b, 1), y;

	y = ht_xadd(b, a, ht_xdiv(b, a2, ht_xadd(b, one, ht_xsqrt(b, ht_xadd(b, one, a2)))));
	return ht_xflip(
		b, log1p_or_double(b, ht_xlt(b, ht_xd(b, 0x1p60), a), a, y), ht_xsign(b, x));
}

/* log(1 + t + sqrt(2t + t^2)), t = x - 1. */
static int32_t acosh64(struct ht_xb *b, int32_t x)
{
	int32_t one = ht_xd(b, 1), t = ht_xsub(b, x, one), y;

	y = ht_xadd(b, t, ht_xsqrt(b, ht_xmul(b, t, ht_xadd(b, t, ht_xd(b, 2)))));
	y = log1p_or_double(b, ht_xlt(b, ht_xd(b, 0x1p60), x), x, y);
	return ht_xselect(b, ht_xlt(b, x, one), ht_xd(b, NAN), y);
}

/* log(1 + 2a / (1 - a)) / 2. */
static int32_t atanh64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_xabs(b, x);
	int32_t y = ht_math_log1p64(b, ht_xdiv(b, ht_xadd(b, a, a), ht_xsub(b, ht_xd(b, 1), a)));

	return ht_xflip(b, ht_xmul(b, y, ht_xd(b, 0.5)), ht_xsign(b, x));
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
