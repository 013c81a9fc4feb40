/* math_erf: ERF of F64, and ERFC.  Coefficients: bench/math/coefficients.py.
 * Bound, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

static int32_t k(struct ht_xb *b, double f)
{
	return xk(b, HT_F64, f);
}

/* For |x| up to 0.75. */
static int32_t erf_near(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.06eba8214db69p-3, -0x1.812746b0379e0p-2,
		0x1.ce2f21a0424ddp-4, -0x1.b82ce31257d69p-6, 0x1.565bcd038074cp-8,
		-0x1.c02db127a4941p-11, 0x1.f9a2b0585e3a4p-14, -0x1.f4c5ecdd63efdp-17,
		0x1.b90f77f1172ebp-20, -0x1.5653e7b46e59ep-23, 0x1.8a4a8c80bdd8fp-27 };

	return xmuladd(b, x, XPOLY(b, xmul(b, x, x), c), x);
}

/* e^(-a^2): a = h + l where h^2 is exact; e^-(a^2 - h^2) by its series. */
static int32_t exp_of_square(struct ht_xb *b, int32_t a)
{
	int32_t h = ht_xbitcast(
		b, HT_F64, ht_x2(b, HT_X_AND, xbits(b, a), ht_xi(b, -((int64_t)1 << 27))));
	int32_t d = xmul(b, xsub(b, a, h), xadd(b, a, h)), series;
	int32_t e = ht_math_exp64(b, ht_x1(b, HT_X_NEG, xmul(b, h, h)), true);

	series = xmuladd(b, d, xmuladd(b, d, k(b, -1. / 6), k(b, 0.5)), k(b, -1));
	return xmuladd(b, e, xmul(b, d, series), e);
}

/* erfc(a) for a >= 0.75; from 28 on that is 0. */
static int32_t erfc_far(struct ht_xb *b, int32_t a)
{
	/* (1 + 2a) e^(a^2) erfc(a) */
	static const double c[] = { 0x1.3ba5916e9fd7fp+0, -0x1.1df1ad154a289p-3,
		0x1.f7f5df66fdc74p-7, 0x1.16ecefcfa4cffp-4, -0x1.9ddb23c3eba5dp-4,
		0x1.7fee004e24423p-4, -0x1.0fb06dfe031e0p-4, 0x1.3079edf3afe8ep-5,
		-0x1.09623893f9addp-6, 0x1.49c67382b8146p-8, -0x1.8d4a8b8646de4p-11,
		-0x1.a1dffb944737dp-13, 0x1.3bdf3352605bcp-13, -0x1.993c890abdd8ap-16,
		-0x1.78566a8268d77p-17, 0x1.7ded9e425a28ap-18, 0x1.306a6da7568fcp-22,
		-0x1.aa4177921de91p-21, 0x1.63e61ebacbcacp-24, 0x1.54a6ffa3cdd92p-24,
		-0x1.44240fca77759p-26 };
	int32_t t, q;

	a = xmost(b, a, 28);
	t = xdiv(b, xsub(b, a, k(b, 4)), xadd(b, a, k(b, 4)));
	q = xdiv(b, XPOLY(b, t, c), xadd(b, xadd(b, a, a), k(b, 1)));
	return xmul(b, exp_of_square(b, a), q);
}

int32_t ht_math_erf64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_x1(b, HT_X_ABS, x), far = xsub(b, k(b, 1), erfc_far(b, a));

	return ht_xselect(b, xlt(b, a, k(b, 0.75)), erf_near(b, x), xflip(b, far, xsign(b, x)));
}

int32_t ht_math_erfc64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_x1(b, HT_X_ABS, x), far = erfc_far(b, a);

	far = ht_xselect(b, xlt(b, x, k(b, 0)), xsub(b, k(b, 2), far), far);
	return ht_xselect(b, xlt(b, a, k(b, 0.75)), xsub(b, k(b, 1), erf_near(b, x)), far);
}
