/* expr: functions that make expressions, for all code that writes stages.
 *
 * Equal expressions get one number; constants are folded; x + 0, x * 1 and the like become x. */
#ifndef HT_KERNEL_EXPR_H
#define HT_KERNEL_EXPR_H

#include "kernel/kernel.h"

/* The stage's dimensions must be set before its expressions are built: index arithmetic is
 * simplified according to their extents (an extent that is still 0 permits nothing). */
struct ht_xb {
	struct ht_arena *arena;
	struct ht_stage *stage; /* being built */
	size_t cap, red_cap, store_cap;
	struct ht_map cse;
	struct ht_xrange *range; /* by expression: bounds of I64 values */
	size_t range_cap;
	/* May be changed between expressions; both concern F32. */
	enum ht_accuracy accuracy; /* of functions */
	enum ht_dtype keep; /* HT_F16, HT_BF16: the type to which every result of arithmetic is
		       * rounded; else HT_INVALID */
};
/* `s` may have expressions, reductions and stores already; new ones are appended. */
void ht_xb_init(struct ht_xb *b, struct ht_arena *a, struct ht_stage *s);
int32_t ht_xi(struct ht_xb *b, int64_t i); /* I64 constant */
int32_t ht_xf(struct ht_xb *b, double f);  /* F32 constant */
int32_t ht_xd(struct ht_xb *b, double f);  /* F64 constant */
int32_t ht_xconst(
	struct ht_xb *b, enum ht_dtype t, double f, int64_t i); /* f for floats, i otherwise */
int32_t ht_xbits(struct ht_xb *b, enum ht_dtype t,
	int64_t bits); /* a constant from its low bytes; the other bytes are ignored */
int32_t ht_xdim(struct ht_xb *b, int dim);
int32_t ht_xgrid(struct ht_xb *b, int grid);
int32_t ht_xparam(struct ht_xb *b, int param);
int32_t ht_xload(struct ht_xb *b, int buffer, enum ht_dtype t, int32_t offset);
int32_t ht_xload_if(
	struct ht_xb *b, int buffer, enum ht_dtype t, int32_t offset, int32_t guard, int32_t other);
int32_t ht_xred(struct ht_xb *b, int red, enum ht_dtype t);
/* Operation `op`; the result has the operands' type (comparisons: BOOL). */
int32_t ht_x1(struct ht_xb *b, enum ht_xop op, int32_t x);
int32_t ht_x2(struct ht_xb *b, enum ht_xop op, int32_t x, int32_t y);
int32_t ht_xmuladd(struct ht_xb *b, int32_t x, int32_t y, int32_t z);
int32_t ht_xcvt(struct ht_xb *b, enum ht_dtype to, int32_t a);
int32_t ht_xbitcast(struct ht_xb *b, enum ht_dtype to, int32_t a);
int32_t ht_xselect(struct ht_xb *b, int32_t cond, int32_t yes, int32_t no);
int32_t ht_xcheck(struct ht_xb *b, int32_t value, int32_t cond, enum ht_fault f);
/* Integer division and remainder with TensorFlow's checks: divisor 0 is a fault, INT_MIN / -1
 * wraps.  `floor`: rounds to minus infinity. */
int32_t ht_xidiv(struct ht_xb *b, int32_t a, int32_t c, bool floor);
int32_t ht_xirem(struct ht_xb *b, int32_t a, int32_t c, bool floor);
void ht_xstore(struct ht_xb *b, int buffer, int32_t offset, int32_t value);
void ht_xstore_if(struct ht_xb *b, int buffer, int32_t offset, int32_t value, int32_t guard);
int ht_xreduce(struct ht_xb *b, enum ht_red op, int32_t x); /* returns the reduction's number */

/* ht_xadd(b, x, y) is ht_x2(b, HT_X_ADD, x, y), ht_xneg(b, x) is ht_x1(b, HT_X_NEG, x), and so on. */
#define HT_UNARY(name, op)                                                                         \
	static inline int32_t ht_x##name(struct ht_xb *b, int32_t x)                               \
	{                                                                                          \
		return ht_x1(b, op, x);                                                            \
	}
#define HT_BINARY(name, op)                                                                        \
	static inline int32_t ht_x##name(struct ht_xb *b, int32_t x, int32_t y)                    \
	{                                                                                          \
		return ht_x2(b, op, x, y);                                                         \
	}
HT_UNARY(abs, HT_X_ABS)
HT_UNARY(erf, HT_X_ERF)
HT_UNARY(erfc, HT_X_ERFC)
HT_UNARY(exp, HT_X_EXP)
HT_UNARY(expm1, HT_X_EXPM1)
HT_UNARY(floor, HT_X_FLOOR)
HT_UNARY(log, HT_X_LOG)
HT_UNARY(log1p, HT_X_LOG1P)
HT_UNARY(neg, HT_X_NEG)
HT_UNARY(not, HT_X_NOT)
HT_UNARY(rint, HT_X_RINT)
HT_UNARY(rsqrt, HT_X_RSQRT)
HT_UNARY(sigmoid, HT_X_SIGMOID)
HT_UNARY(sqrt, HT_X_SQRT)
HT_UNARY(tanh, HT_X_TANH)
HT_UNARY(trunc, HT_X_TRUNC)
HT_BINARY(add, HT_X_ADD)
HT_BINARY(sub, HT_X_SUB)
HT_BINARY(mul, HT_X_MUL)
HT_BINARY(div, HT_X_DIV)
HT_BINARY(rem, HT_X_REM)
HT_BINARY(scale, HT_X_SCALE)
HT_BINARY(min, HT_X_MIN)
HT_BINARY(max, HT_X_MAX)
HT_BINARY(and, HT_X_AND)
HT_BINARY(or, HT_X_OR)
HT_BINARY(xor, HT_X_XOR)
HT_BINARY(shl, HT_X_SHL)
HT_BINARY(shr, HT_X_SHR)
HT_BINARY(eq, HT_X_EQ)
HT_BINARY(ne, HT_X_NE)
HT_BINARY(lt, HT_X_LT)
HT_BINARY(le, HT_X_LE)
HT_BINARY(floordiv, HT_X_FLOORDIV)
HT_BINARY(floormod, HT_X_FLOORMOD)
HT_BINARY(atan2, HT_X_ATAN2)
HT_BINARY(pow, HT_X_POW)
#undef HT_UNARY
#undef HT_BINARY

static inline enum ht_dtype ht_xtype(const struct ht_xb *b, int32_t x)
{
	return b->stage->x[x].dtype;
}

/* Constants: a number as type t, an integer as integer type t, and a U64. */
static inline int32_t ht_xk(struct ht_xb *b, enum ht_dtype t, double number)
{
	return ht_xconst(b, t, number, ht_is_float(t) ? 0 : (int64_t)number);
}

static inline int32_t ht_xint(struct ht_xb *b, enum ht_dtype t, int64_t i)
{
	return ht_xconst(b, t, 0, i);
}

static inline int32_t ht_xu64(struct ht_xb *b, uint64_t u)
{
	return ht_xint(b, HT_U64, (int64_t)u);
}

/* x op i, for x of an integer type; divi and modi are of I64 and round to minus infinity. */
static inline int32_t ht_xaddi(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_xadd(b, x, ht_xint(b, ht_xtype(b, x), i));
}

static inline int32_t ht_xmuli(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_xmul(b, x, ht_xint(b, ht_xtype(b, x), i));
}

static inline int32_t ht_xdivi(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_xfloordiv(b, x, ht_xint(b, ht_xtype(b, x), i));
}

static inline int32_t ht_xmodi(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_xfloormod(b, x, ht_xint(b, ht_xtype(b, x), i));
}

static inline int32_t ht_xshli(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_xshl(b, x, ht_xint(b, ht_xtype(b, x), i));
}

static inline int32_t ht_xshri(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_xshr(b, x, ht_xint(b, ht_xtype(b, x), i));
}

#endif
