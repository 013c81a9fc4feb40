/* Between math.c and the files that write functions as basic operations.
 *
 * The rules they keep: bounds hold whether MULADD is fused or not; NaN in, NaN out; results may be
 * subnormal; a value that is computed for lanes that do not use it may be anything. */
#ifndef HT_KERNEL_MATH_H
#define HT_KERNEL_MATH_H

#include "kernel/kernel.h"

/* y: the second operand of ATAN2 and POW. */
int32_t ht_math_f32(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y);
/* Shorter forms of F32's functions; -1: the function has none. */
int32_t ht_math_short(struct ht_xb *b, enum ht_xop op, int32_t x, enum ht_accuracy accuracy);
int32_t ht_math_f64(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y);

/* Of F32, computed in F64: SIN COS TAN; ATAN; ATAN2. */
int32_t ht_math_trig(struct ht_xb *b, enum ht_xop op, int32_t x);
int32_t ht_math_atan32(struct ht_xb *b, int32_t x);
int32_t ht_math_atan2_32(struct ht_xb *b, int32_t y, int32_t x);

/* Of F64: SIN COS TAN; ATAN ATAN2 ASIN ACOS; SINH COSH ASINH ACOSH ATANH; ERF; ERFC. */
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

/* ---- short names ---- */

static inline int32_t xk(struct ht_xb *b, enum ht_dtype t, double f)
{
	return ht_xconst(b, t, f, 0);
}

static inline int32_t xint(struct ht_xb *b, enum ht_dtype t, int64_t i)
{
	return ht_xconst(b, t, 0, i);
}

static inline enum ht_dtype xtype(const struct ht_xb *b, int32_t x)
{
	return b->stage->x[x].dtype;
}

static inline int32_t xadd(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_x2(b, HT_X_ADD, x, y);
}

static inline int32_t xsub(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_x2(b, HT_X_SUB, x, y);
}

static inline int32_t xmul(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_x2(b, HT_X_MUL, x, y);
}

static inline int32_t xdiv(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_x2(b, HT_X_DIV, x, y);
}

static inline int32_t xmuladd(struct ht_xb *b, int32_t x, int32_t y, int32_t z)
{
	return ht_x3(b, HT_X_MULADD, x, y, z);
}

static inline int32_t xlt(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_x2(b, HT_X_LT, x, y);
}

static inline int32_t xeq(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_x2(b, HT_X_EQ, x, y);
}

/* The smaller of x and a constant; NaN stays.  One instruction, which HT_X_MIN is not. */
static inline int32_t xmost(struct ht_xb *b, int32_t x, double limit)
{
	int32_t k = xk(b, xtype(b, x), limit);

	return ht_xselect(b, xlt(b, k, x), k, x);
}

static inline int32_t xleast(struct ht_xb *b, int32_t x, double limit)
{
	int32_t k = xk(b, xtype(b, x), limit);

	return ht_xselect(b, xlt(b, x, k), k, x);
}

/* Integer of the same size. */
static inline int32_t xbits(struct ht_xb *b, int32_t x)
{
	return ht_xbitcast(b, xtype(b, x) == HT_F64 ? HT_I64 : HT_I32, x);
}

/* The sign bit of x, as an integer of its size. */
static inline int32_t xsign(struct ht_xb *b, int32_t x)
{
	bool wide = xtype(b, x) == HT_F64;

	return ht_x2(b, HT_X_AND, xbits(b, x),
		xint(b, wide ? HT_I64 : HT_I32, wide ? INT64_MIN : INT32_MIN));
}

/* x with its sign bit flipped where `sign` (an integer) has it. */
static inline int32_t xflip(struct ht_xb *b, int32_t x, int32_t sign)
{
	return ht_xbitcast(b, xtype(b, x), ht_x2(b, HT_X_XOR, xbits(b, x), sign));
}

/* c[0] + c[1] x + … c[n-1] x^(n-1), by Horner. */
static inline int32_t xpoly(struct ht_xb *b, int32_t x, const double *c, int n)
{
	enum ht_dtype t = xtype(b, x);
	int32_t sum = xk(b, t, c[n - 1]);

	for (int i = n - 2; i >= 0; i--)
		sum = xmuladd(b, sum, x, xk(b, t, c[i]));
	return sum;
}

#define XPOLY(b, x, c) xpoly((b), (x), (c), (int)HT_COUNT(c))

#endif
