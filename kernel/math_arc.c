/* math_arc: ATAN ATAN2 ASIN ACOS of F64, and the first two of F32, computed in F64 and rounded once.
 * Coefficients: bench/math/coefficients.py.  Bound in F64, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

static const double pi_hi = 0x1.921fb54442d18p+1, pi_lo = 0x1.1a62633145c07p-53;

static int32_t magnitude(struct ht_xb *b, int32_t x)
{
	return ht_xabs(b, x);
}

/* atan(z) + turn * pi, |z| below tan(pi/8); turn is 0, 1/4 or 1/2. */
static int32_t atan_near(struct ht_xb *b, int32_t z, int32_t turn, bool full)
{
	static const double c[] = { 0x1.ffffffffff9e0p-1, -0x1.5555555312db8p-2,
		0x1.9999974d2a20ep-3, -0x1.2491d553a525cp-3, 0x1.c7059d9bfde04p-4,
		-0x1.731a1ce674ce7p-4, 0x1.3096f7deaaebap-4, -0x1.bb68d0bd91e31p-5,
		0x1.871f2877babf2p-6 };
	static const double rest[] = { -0x1.5555555555554p-2, 0x1.999999999965ap-3,
		-0x1.2492492475d8dp-3, 0x1.c71c71b77a904p-4, -0x1.745d14c0125aep-4,
		0x1.3b136eb504c53p-4, -0x1.110c7a3711b9dp-4, 0x1.e1728aa0be57dp-5,
		-0x1.ab80d8a847e04p-5, 0x1.70fa63cd59b5ep-5, -0x1.125544decce68p-5,
		0x1.f25d1cdd2ffb1p-7 };
	int32_t z2 = ht_xmul(b, z, z), base = ht_xmul(b, turn, ht_xd(b, pi_hi)), small;

	if (!full)
		return ht_xmuladd(b, z, HT_XPOLY(b, z2, c), base);
	small = ht_xmuladd(
		b, ht_xmul(b, z, z2), HT_XPOLY(b, z2, rest), ht_xmul(b, turn, ht_xd(b, pi_lo)));
	return ht_xadd(b, base, ht_xadd(b, z, small));
}

/* atan(y / x) for y, x >= 0, not both infinite: of y / x itself, or relative to 45 or 90
 * degrees. */
static int32_t atan_quadrant(struct ht_xb *b, int32_t y, int32_t x, bool full)
{
	int32_t steep = ht_xlt(b, ht_xmul(b, x, ht_xd(b, 2.414)), y),
		middle = ht_xlt(b, ht_xmul(b, x, ht_xd(b, 0.4142)), y);
	int32_t num = ht_xselect(b, middle, ht_xsub(b, y, x), y);
	int32_t den = ht_xselect(b, middle, ht_xadd(b, y, x), x);
	int32_t turn = ht_xselect(b, middle, ht_xd(b, 0.25), ht_xd(b, 0));

	num = ht_xselect(b, steep, ht_xneg(b, x), num);
	den = ht_xselect(b, steep, y, den);
	turn = ht_xselect(b, steep, ht_xd(b, 0.5), turn);
	den = ht_xselect(b, ht_xeq(b, den, ht_xd(b, 0)), ht_xd(b, 1), den);
	return atan_near(b, ht_xdiv(b, num, den), turn, full);
}

/* pi - r where x is negative. */
static int32_t to_left(struct ht_xb *b, int32_t x, int32_t r)
{
	bool wide = ht_xtype(b, x) == HT_F64;
	int32_t left = ht_xlt(
		b, ht_xas_int(b, x), ht_xint(b, wide ? HT_I64 : HT_I32, 0)); /* also for -0 */

	return ht_xselect(b, left, ht_xsub(b, ht_xd(b, pi_hi), ht_xsub(b, r, ht_xd(b, pi_lo))), r);
}

/* ---- F32 ---- */

/* |x| in F64; infinity becomes so large that any F32 divided by it is 0. */
static int32_t wide_magnitude(struct ht_xb *b, int32_t x)
{
	return ht_xmost(b, magnitude(b, ht_xcvt(b, HT_F64, x)), 0x1p600);
}

int32_t ht_math_atan32(struct ht_xb *b, int32_t x)
{
	int32_t y = ht_xcvt(b, HT_F32, atan_quadrant(b, wide_magnitude(b, x), ht_xd(b, 1), false));

	return ht_xflip(b, y, ht_xsign(b, x));
}

int32_t ht_math_atan2_32(struct ht_xb *b, int32_t y, int32_t x)
{
	int32_t r = atan_quadrant(b, wide_magnitude(b, y), wide_magnitude(b, x), false);

	return ht_xflip(b, ht_xcvt(b, HT_F32, to_left(b, x, r)), ht_xsign(b, y));
}

/* ---- F64 ---- */

static int32_t atan64(struct ht_xb *b, int32_t x)
{
	return ht_xflip(b, atan_quadrant(b, magnitude(b, x), ht_xd(b, 1), true), ht_xsign(b, x));
}

/* For atan2 with infinite operands: 1 if x is infinite, 0 if it is finite; NaN stays NaN. */
static int32_t of_infinity(struct ht_xb *b, int32_t x)
{
	return ht_xselect(
		b, ht_xeq(b, x, ht_xd(b, INFINITY)), ht_xd(b, 1), ht_xmul(b, x, ht_xd(b, 0)));
}

/* Scales both operands so that sums and products do not overflow. */
static int32_t atan2_64(struct ht_xb *b, int32_t y, int32_t x)
{
	int32_t ay = magnitude(b, y), ax = magnitude(b, x), big = ht_xd(b, 0x1p1000),
		inf = ht_xd(b, INFINITY);
	int32_t huge = ht_xor(b, ht_xlt(b, big, ay), ht_xlt(b, big, ax));
	int32_t infinite = ht_xor(b, ht_xeq(b, ay, inf), ht_xeq(b, ax, inf));
	int32_t scale = ht_xselect(b, huge, ht_xd(b, 0x1p-100), ht_xd(b, 1)), r;

	ay = ht_xselect(b, infinite, of_infinity(b, ay), ht_xmul(b, ay, scale));
	ax = ht_xselect(b, infinite, of_infinity(b, ax), ht_xmul(b, ax, scale));
	r = atan_quadrant(b, ay, ax, true);
	return ht_xflip(b, to_left(b, x, r), ht_xsign(b, y));
}

/* asin(x) = atan(x / sqrt(1 - x^2)). */
static int32_t asin64(struct ht_xb *b, int32_t x)
{
	int32_t a = magnitude(b, x), one = ht_xd(b, 1);
	int32_t root = ht_xsqrt(b, ht_xmul(b, ht_xsub(b, one, a), ht_xadd(b, one, a)));

	return ht_xflip(b, atan_quadrant(b, a, root, true), ht_xsign(b, x));
}

/* acos(x) = 2 atan(sqrt((1 - x) / (1 + x))), in which nothing cancels. */
static int32_t acos64(struct ht_xb *b, int32_t x)
{
	int32_t one = ht_xd(b, 1), y = ht_xsqrt(b, ht_xsub(b, one, x));
	int32_t half = atan_quadrant(b, y, ht_xsqrt(b, ht_xadd(b, one, x)), true);

	return ht_xadd(b, half, half);
}

int32_t ht_math_arc64(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y)
{
	switch (op) {
	case HT_X_ATAN:
		return atan64(b, x);
	case HT_X_ATAN2:
		return atan2_64(b, x, y);
	case HT_X_ASIN:
		return asin64(b, x);
	default:
		return acos64(b, x);
	}
}
