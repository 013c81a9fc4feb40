/* The references for functions of F32: the double functions of libm, which are checked against
 * MPFR; and errors in units of the last place. */
#ifndef HT_BENCH_MATH_REFERENCE_H
#define HT_BENCH_MATH_REFERENCE_H

#include "kernel/kernel.h"

#include <math.h>
#include <mpfr.h>
#include <string.h>

struct function {
	const char *name;
	enum ht_xop op;
	int operands;
	double (*libm)(double x, double y);
	int (*exact)(mpfr_t r, const mpfr_t x, const mpfr_t y);
};

#define LIBM(name, expr)                                                                           \
	static inline double libm_##name(double x, double y)                                       \
	{                                                                                          \
		(void)y;                                                                           \
		return expr;                                                                       \
	}
#define EXACT(name, expr)                                                                          \
	static inline int exact_##name(mpfr_t r, const mpfr_t x, const mpfr_t y)                   \
	{                                                                                          \
		(void)y;                                                                           \
		return expr;                                                                       \
	}
#define BOTH(name, libm, mpfr) LIBM(name, libm) EXACT(name, mpfr)

static inline int exact_sigmoid(mpfr_t r, const mpfr_t x, const mpfr_t y)
{
	(void)y;
	mpfr_neg(r, x, MPFR_RNDN);
	mpfr_exp(r, r, MPFR_RNDN);
	mpfr_add_ui(r, r, 1, MPFR_RNDN);
	return mpfr_ui_div(r, 1, r, MPFR_RNDN);
}

/* clang-format off */
LIBM(sigmoid, 1 / (1 + exp(-x)))
BOTH(exp, exp(x), mpfr_exp(r, x, MPFR_RNDN))
BOTH(expm1, expm1(x), mpfr_expm1(r, x, MPFR_RNDN))
BOTH(log, log(x), mpfr_log(r, x, MPFR_RNDN))
BOTH(log1p, log1p(x), mpfr_log1p(r, x, MPFR_RNDN))
BOTH(tanh, tanh(x), mpfr_tanh(r, x, MPFR_RNDN))
BOTH(erf, erf(x), mpfr_erf(r, x, MPFR_RNDN))
BOTH(sin, sin(x), mpfr_sin(r, x, MPFR_RNDN))
BOTH(cos, cos(x), mpfr_cos(r, x, MPFR_RNDN))
BOTH(tan, tan(x), mpfr_tan(r, x, MPFR_RNDN))
BOTH(atan, atan(x), mpfr_atan(r, x, MPFR_RNDN))
BOTH(atan2, atan2(x, y), mpfr_atan2(r, x, y, MPFR_RNDN))
BOTH(asin, asin(x), mpfr_asin(r, x, MPFR_RNDN))
BOTH(acos, acos(x), mpfr_acos(r, x, MPFR_RNDN))
BOTH(sinh, sinh(x), mpfr_sinh(r, x, MPFR_RNDN))
BOTH(cosh, cosh(x), mpfr_cosh(r, x, MPFR_RNDN))
BOTH(asinh, asinh(x), mpfr_asinh(r, x, MPFR_RNDN))
BOTH(acosh, acosh(x), mpfr_acosh(r, x, MPFR_RNDN))
BOTH(atanh, atanh(x), mpfr_atanh(r, x, MPFR_RNDN))
BOTH(erfc, erfc(x), mpfr_erfc(r, x, MPFR_RNDN))
LIBM(rsqrt, 1 / sqrt(x))
EXACT(rsqrt, (mpfr_sqrt(r, x, MPFR_RNDN), mpfr_ui_div(r, 1, r, MPFR_RNDN)))
BOTH(pow, pow(x, y), mpfr_pow(r, x, y, MPFR_RNDN))

static const struct function functions[] = {
#define ROW(NAME, name, operands) { #name, HT_X_##NAME, operands, libm_##name, exact_##name },
	ROW(EXP, exp, 1) ROW(EXPM1, expm1, 1) ROW(LOG, log, 1) ROW(LOG1P, log1p, 1)
	ROW(TANH, tanh, 1) ROW(SIGMOID, sigmoid, 1) ROW(ERF, erf, 1) ROW(SIN, sin, 1)
	ROW(COS, cos, 1) ROW(TAN, tan, 1) ROW(ATAN, atan, 1) ROW(RSQRT, rsqrt, 1)
	ROW(ASIN, asin, 1) ROW(ACOS, acos, 1) ROW(SINH, sinh, 1) ROW(COSH, cosh, 1)
	ROW(ASINH, asinh, 1) ROW(ACOSH, acosh, 1) ROW(ATANH, atanh, 1) ROW(ERFC, erfc, 1)
	ROW(ATAN2, atan2, 2) ROW(POW, pow, 2)
#undef ROW
};
/* clang-format on */

static inline float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

static inline uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

/* |got - want| in units of the last place of an F32 near `want`; infinity counts as 2^128.
 * INFINITY where one is NaN or the sign of an exact zero differs. */
static inline double ulps(float got, double want)
{
	const double top = 0x1p128;
	double g = isinf(got) ? copysign(top, (double)got) : (double)got, unit;
	int e;

	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got) ? 0 : INFINITY;
	if (want == 0)
		return got == 0 && !signbit(got) == !signbit(want) ? 0 : INFINITY;
	want = fabs(want) > top ? copysign(top, want) : want;
	frexp(want, &e);
	unit = ldexp(1, (e < -125 ? -125 : e > 128 ? 128 : e) - 24);
	return fabs(g - want) / unit;
}

/* ulps() against MPFR. */
static inline double ulps_exact(const struct function *f, float got, float x, float y)
{
	mpfr_t mx, my, r;
	double want, error;

	mpfr_inits2(120, mx, my, r, (mpfr_ptr)0);
	mpfr_set_flt(mx, x, MPFR_RNDN);
	mpfr_set_flt(my, y, MPFR_RNDN);
	f->exact(r, mx, my);
	want = mpfr_get_d(r, MPFR_RNDN);
	error = ulps(got, want);
	mpfr_clears(mx, my, r, (mpfr_ptr)0);
	return error;
}

#endif
