/* math_erf: ERF of F64, and ERFC.  Coefficients: bench/math/coefficients.py.
 * Bound, relative: 1e-15. */
#include "kernel/math.h"

#include <math.h>

/* For |x| up to 0.75. */
static int32_t erf_near(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.06eba8214db69p-3, -0x1.812746b0379e0p-2,
		0x1.ce2f21a0424ddp-4, -0x1.b82ce31257d69p-6, 0x1.565bcd038074cp-8,
		-0x1.c02db127a4941p-11, 0x1.f9a2b0585e3a4p-14, -0x1.f4c5ecdd63efdp-17,
		0x1.b90f77f1172ebp-20, -0x1.5653e7b46e59ep-23, 0x1.8a4a8c80bdd8fp-27 };

	return ht_xmuladd(b, x, HT_XPOLY(b, ht_xmul(b, x, x), c), x);
}

/* e^(-a^2): a = h + l where h^2 is exact; e^-(a^2 - h^2) by its series. */
static int32_t exp_of_square(struct ht_xb *b, int32_t a)
{
	int32_t h =
		ht_xbitcast(b, HT_F64, ht_xand(b, ht_xas_int(b, a), ht_xi(b, -((int64_t)1 << 27))));
	int32_t d = ht_xmul(b, ht_xsub(b, a, h), ht_xadd(b, a, h)), series;
	int32_t e = ht_math_exp64(b, ht_xneg(b, ht_xmul(b, h, h)), true);

	series = ht_xmuladd(b, d, ht_xmuladd(b, d, ht_xd(b, -1. / 6), ht_xd(b, 0.5)), ht_xd(b, -1));
	return ht_xmuladd(b, e, ht_xmul(b, d, series), e);
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

	a = ht_xmost(b, a, 28);
	t = ht_xdiv(b, ht_xsub(b, a, ht_xd(b, 4)), ht_xadd(b, a, ht_xd(b, 4)));
	q = ht_xdiv(b, HT_XPOLY(b, t, c), ht_xadd(b, ht_xadd(b, a, a), ht_xd(b, 1)));
	return ht_xmul(b, exp_of_square(b, a), q);
}

int32_t ht_math_erf64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_xabs(b, x), far = ht_xsub(b, ht_xd(b, 1), erfc_far(b, a));

	return ht_xselect(
		b, ht_xlt(b, a, ht_xd(b, 0.75)), erf_near(b, x), ht_xflip(b, far, ht_xsign(b, x)));
}

int32_t ht_math_erfc64(struct ht_xb *b, int32_t x)
{
	int32_t a = ht_xabs(b, x), far = erfc_far(b, a);

	far = ht_xselect(b, ht_xlt(b, x, ht_xd(b, 0)), ht_xsub(b, ht_xd(b, 2), far), far);
	return ht_xselect(
		b, ht_xlt(b, a, ht_xd(b, 0.75)), ht_xsub(b, ht_xd(b, 1), erf_near(b, x)), far);
}
