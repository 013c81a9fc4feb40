/* Shared by math.c and the files that write functions as basic operations.
 *
 * Their rules: error bounds hold whether MULADD is fused or not; NaN in, NaN out; results may be
 * subnormal; lanes that do not use a value may compute anything. */
#ifndef HT_KERNEL_MATH_H
#define HT_KERNEL_MATH_H

#include "kernel/expr.h"

/* y: the second operand of ATAN2 and POW. */
int32_t ht_math_f32(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y);
/* Shorter forms of F32's functions; -1: there is none. */
int32_t ht_math_short(struct ht_xb *b, enum ht_xop op, int32_t x, enum ht_accuracy accuracy);
int32_t ht_math_f64(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y);

/* Functions of F32, computed in F64: SIN COS TAN; ATAN; ATAN2. */
int32_t ht_math_trig(struct ht_xb *b, enum ht_xop op, int32_t x);
int32_t ht_math_atan32(struct ht_xb *b, int32_t x);
int32_t ht_math_atan2_32(struct ht_xb *b, int32_t y, int32_t x);

/* Functions of F64: SIN COS TAN; ATAN ATAN2 ASIN ACOS; SINH COSH ASINH ACOSH ATANH; ERF; ERFC. */
int32_t ht_math_trig64(struct ht_xb *b, enum ht_xop op, int32_t x);
int32_t ht_math_arc64(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y);
int32_t ht_math_hyperbolic64(struct ht_xb *b, enum ht_xop op, int32_t x);
int32_t ht_math_erf64(struct ht_xb *b, int32_t x);
int32_t ht_math_erfc64(struct ht_xb *b, int32_t x);

/* F64 building blocks.  `full`: to the last bits of F64; otherwise to about 1e-13, for functions
 * of F32. */
int32_t ht_math_exp64(struct ht_xb *b, int32_t x, bool full);
int32_t ht_math_expm1_64(struct ht_xb *b, int32_t x, bool full);
/* `subnormal`: x may be a subnormal F64. */
int32_t ht_math_log64(struct ht_xb *b, int32_t x, bool full, bool subnormal);
int32_t ht_math_log1p64(struct ht_xb *b, int32_t x);
int32_t ht_math_pow64(struct ht_xb *b, int32_t x, int32_t y, bool full);

/* ---- helpers ---- */

/* The smaller of x and a constant; NaN stays.  This is one instruction, which HT_X_MIN is not. */
static inline int32_t ht_xmost(struct ht_xb *b, int32_t x, double limit)
{
	int32_t k = ht_xk(b, ht_xtype(b, x), limit);

	return ht_xselect(b, ht_xlt(b, k, x), k, x);
}

static inline int32_t ht_xleast(struct ht_xb *b, int32_t x, double limit)
{
	int32_t k = ht_xk(b, ht_xtype(b, x), limit);

	return ht_xselect(b, ht_xlt(b, x, k), k, x);
}

/* The bits of x as an integer of the same size. */
static inline int32_t ht_xas_int(struct ht_xb *b, int32_t x)
{
	return ht_xbitcast(b, ht_xtype(b, x) == HT_F64 ? HT_I64 : HT_I32, x);
}

/* The sign bit of x, as an integer of its size. */
static inline int32_t ht_xsign(struct ht_xb *b, int32_t x)
{
	bool wide = ht_xtype(b, x) == HT_F64;

	return ht_xand(b, ht_xas_int(b, x),
		ht_xint(b, wide ? HT_I64 : HT_I32, wide ? INT64_MIN : INT32_MIN));
}

/* x with its sign bit flipped where `sign` (an integer) has it. */
static inline int32_t ht_xflip(struct ht_xb *b, int32_t x, int32_t sign)
{
	return ht_xbitcast(b, ht_xtype(b, x), ht_xxor(b, ht_xas_int(b, x), sign));
}

/* c[0] + c[1] x + … c[n-1] x^(n-1), by Horner. */
static inline int32_t ht_xpoly(struct ht_xb *b, int32_t x, const double *c, int n)
{
	enum ht_dtype t = ht_xtype(b, x);
	int32_t sum = ht_xk(b, t, c[n - 1]);

	for (int i = n - 2; i >= 0; i--)
		sum = ht_xmuladd(b, sum, x, ht_xk(b, t, c[i]));
	return sum;
}

#define HT_XPOLY(b, x, c) ht_xpoly((b), (x), (c), (int)HT_COUNT(c))

#endif
