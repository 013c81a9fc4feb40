/* simplify: finds the simplest form of a new expression.
 *
 * Constants are folded by the interpreter's own operations; identities that hold for every value
 * are applied; index arithmetic has a file of its own.  Values never change. */
#include "kernel/simplify.h"
#include "kernel/eval.h"

#include <math.h>
#include <string.h>

/* Like ht_x2(), without the rounding by b->keep. */
static int32_t make2(struct ht_xb *b, enum ht_xop op, enum ht_dtype t, int32_t a, int32_t c)
{
	return ht_xb_make(b, (struct ht_x){ op, t, a, c, -1, 0 });
}

/* ---- constants ---- */

static bool foldable(enum ht_xop op)
{
	return op == HT_X_SELECT || (op >= HT_X_CVT && op <= HT_X_FLOORMOD);
}

static int64_t imm_of_bits(enum ht_dtype t, uint64_t bits)
{
	double f64;
	float f32;

	switch (t) {
	case HT_F64:
		memcpy(&f64, &bits, sizeof f64);
		return ht_x_imm(t, f64, 0);
	case HT_F32:
		memcpy(&f32, &bits, sizeof f32);
		return isnan(f32) ? (int64_t)(bits & UINT32_MAX) : ht_x_imm(t, f32, 0);
	case HT_F16:
	case HT_BF16:
		return (int64_t)(bits & UINT16_MAX);
	case HT_BOOL:
		return (bits & 0xff) != 0;
	default:
		return ht_x_imm(t, 0, (int64_t)bits);
	}
}

/* In C, division traps where HT_X_DIV is undefined: such an expression is not folded. */
static bool undefined_division(const struct ht_x *x, int64_t divisor)
{
	if (x->op == HT_X_FLOORDIV || x->op == HT_X_FLOORMOD)
		return divisor <= 0;
	return (x->op == HT_X_DIV || x->op == HT_X_REM) && !ht_is_float(x->dtype) &&
	       (divisor == 0 || divisor == -1);
}

/* A subnormal constant is not folded: the run decides whether it counts as zero. */
static bool is_subnormal(enum ht_dtype t, uint64_t bits)
{
	return (t == HT_F32 || t == HT_F64) && !(bits & ht_infinity_bits(t)) &&
	       bits & ((UINT64_C(1) << ht_dtype_info(t)->mantissa) - 1);
}

static bool fold(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	int64_t v[3] = { 0 };
	const int32_t arg[3] = { x->a, x->b, x->c };
	uint64_t r = 0;

	if (!foldable(x->op))
		return false;
	for (int i = 0; i < ht_x_operands(x->op); i++)
		if (!ht_xb_const(b, arg[i], &v[i]) ||
			is_subnormal(ht_xb_at(b, arg[i])->dtype, (uint64_t)v[i]))
			return false;
	if (undefined_division(x, v[1]))
		return false;
	ht_x_eval(x, ht_xb_at(b, x->a)->dtype, &r, &v[0], &v[1], &v[2], 1); /* little endian */
	if (is_subnormal(x->dtype, r))
		return false;
	*out = ht_xb_push(
		b, (struct ht_x){ HT_X_CONST, x->dtype, -1, -1, -1, imm_of_bits(x->dtype, r) });
	return true;
}

/* ---- helpers ---- */

static bool is_float_const(const struct ht_xb *b, int32_t x, double want)
{
	int64_t imm;
	enum ht_dtype t = ht_xb_at(b, x)->dtype;

	return ht_is_float(t) && ht_xb_const(b, x, &imm) && imm == ht_x_imm(t, want, 0);
}

static bool is_one(const struct ht_xb *b, int32_t x)
{
	return is_float_const(b, x, 1) || is_int_const(b, x, 1);
}

static bool commutes(enum ht_xop op, enum ht_dtype t)
{
	switch (op) {
	case HT_X_MIN:
	case HT_X_MAX: /* they return the second operand for -0 and +0 */
		return !ht_is_float(t);
	case HT_X_ADD:
	case HT_X_MUL:
	case HT_X_AND:
	case HT_X_OR:
	case HT_X_XOR:
	case HT_X_EQ:
	case HT_X_NE:
	case HT_X_MULADD: /* its first two operands commute */
		return true;
	default:
		return false;
	}
}

/* Puts constants last, and other operands in the order of their numbers, so that a+b and b+a are
 * equal. */
static void order(struct ht_xb *b, struct ht_x *x)
{
	int64_t unused;
	int32_t t = x->a;
	bool a_const = ht_xb_const(b, x->a, &unused), b_const = ht_xb_const(b, x->b, &unused);

	if (a_const == b_const ? x->a > x->b : a_const) {
		x->a = x->b;
		x->b = t;
	}
}

/* ---- any type ---- */

/* Whether 1/c is a normal power of two, so that x / c is exactly x * (1/c). */
static bool exact_inverse(const struct ht_xb *b, int32_t x, double *inverse)
{
	const struct ht_x *e = ht_xb_at(b, x);
	double d;
	float f;
	int exponent;

	if (e->op != HT_X_CONST || (e->dtype != HT_F32 && e->dtype != HT_F64))
		return false;
	memcpy(&f, &e->imm, sizeof f);
	memcpy(&d, &e->imm, sizeof d);
	if (e->dtype == HT_F32)
		d = (double)f;
	if (!isfinite(d) || fabs(frexp(d, &exponent)) != 0.5 || exponent < -100 || exponent > 100)
		return false;
	*inverse = 1 / d;
	return true;
}

static bool arithmetic(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	bool index = x->dtype == HT_I64, real = ht_is_float(x->dtype);
	double inverse;

	switch (x->op) {
	case HT_X_ADD:
		*out = x->a;
		if (is_int_const(b, x->b, 0) || is_float_const(b, x->b, -0.0))
			return true;
		return index && ht_simplify_add(b, x, out);
	case HT_X_SUB:
		*out = x->a;
		if (is_int_const(b, x->b, 0) || is_float_const(b, x->b, 0.0))
			return true;
		if (!real && x->a == x->b) {
			*out = ht_xk(b, x->dtype, 0);
			return true;
		}
		return index && ht_simplify_sub(b, x, out);
	case HT_X_MUL:
		*out = x->a;
		if (is_one(b, x->b))
			return true;
		*out = x->b;
		if (is_int_const(b, x->b, 0))
			return true;
		return index && ht_simplify_mul(b, x, out);
	case HT_X_DIV:
		*out = x->a;
		if (is_one(b, x->b))
			return true;
		if (!exact_inverse(b, x->b, &inverse))
			return false;
		*out = make2(b, HT_X_MUL, x->dtype, x->a, ht_xk(b, x->dtype, inverse));
		return true;
	case HT_X_MULADD:
		if (is_float_const(b, x->b, 1)) {
			*out = make2(b, HT_X_ADD, x->dtype, x->a, x->c);
			return true;
		}
		if (is_float_const(b, x->c, -0.0)) {
			*out = make2(b, HT_X_MUL, x->dtype, x->a, x->b);
			return true;
		}
		return false;
	case HT_X_MIN:
	case HT_X_MAX:
		*out = x->a;
		return x->a == x->b;
	case HT_X_NEG:
		*out = ht_xb_at(b, x->a)->a;
		return ht_xb_at(b, x->a)->op == HT_X_NEG;
	case HT_X_ABS:
		*out = x->a;
		return ht_xb_at(b, x->a)->op == HT_X_ABS;
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		return ht_simplify_div(b, x, out);
	default:
		return false;
	}
}

static bool negated_compare(struct ht_xb *b, const struct ht_x *e, int32_t *out)
{
	static const enum ht_xop opposite[] = { [HT_X_EQ - HT_X_EQ] = HT_X_NE,
		[HT_X_NE - HT_X_EQ] = HT_X_EQ,
		[HT_X_LT - HT_X_EQ] = HT_X_LE,
		[HT_X_LE - HT_X_EQ] = HT_X_LT };
	bool ordered = e->op == HT_X_LT || e->op == HT_X_LE;

	if (!ht_x_is_compare(e->op) || (ordered && ht_is_float(ht_xb_at(b, e->a)->dtype)))
		return false; /* for NaN, both a < b and b <= a are false */
	*out = make2(b, opposite[e->op - HT_X_EQ], HT_BOOL, ordered ? e->b : e->a,
		ordered ? e->a : e->b);
	return true;
}

static bool logic(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	int64_t all = x->dtype == HT_BOOL ? 1 : -1;

	switch (x->op) {
	case HT_X_AND:
	case HT_X_OR:
		*out = x->a;
		if (x->a == x->b || is_int_const(b, x->b, x->op == HT_X_AND ? all : 0))
			return true;
		*out = x->b;
		return is_int_const(b, x->b, x->op == HT_X_AND ? 0 : all);
	case HT_X_XOR:
		*out = x->a;
		return is_int_const(b, x->b, 0);
	case HT_X_NOT:
		*out = u.a;
		return u.op == HT_X_NOT || negated_compare(b, &u, out);
	case HT_X_SHL:
	case HT_X_SHR:
	case HT_X_SAR:
		*out = x->a;
		return is_int_const(b, x->b, 0);
	case HT_X_EQ:
	case HT_X_LE:
		*out = ht_xint(b, HT_BOOL, 1);
		return (x->a == x->b && !ht_is_float(u.dtype)) || ht_simplify_compare(b, x, out);
	case HT_X_NE:
	case HT_X_LT:
		*out = ht_xk(b, HT_BOOL, 0);
		return (x->a == x->b && !ht_is_float(u.dtype)) || ht_simplify_compare(b, x, out);
	default:
		return false;
	}
}

/* Whether integer type `to` has every value of type `from`. */
static bool widens(enum ht_dtype from, enum ht_dtype to)
{
	const struct ht_dtype_info *f = ht_dtype_info(from), *t = ht_dtype_info(to);
	bool f_signed = f->kind == HT_KIND_INT, t_signed = t->kind == HT_KIND_INT;

	if (f->kind == HT_KIND_BOOL)
		return t->kind == HT_KIND_INT || t->kind == HT_KIND_UINT;
	if ((!f_signed && f->kind != HT_KIND_UINT) || (!t_signed && t->kind != HT_KIND_UINT))
		return false;
	return f_signed == t_signed ? t->bytes >= f->bytes : t_signed && t->bytes > f->bytes;
}

/* Whether constant x is a number of type t. */
static bool is_of_type(struct ht_xb *b, int32_t x, enum ht_dtype t)
{
	int64_t imm, back;

	return ht_xb_const(b, x, &imm) &&
	       ht_xb_const(b, ht_xcvt(b, HT_F32, ht_xcvt(b, t, x)), &back) && back == imm;
}

/* Whether rounding x, which is clamped at 0, may give a zero of x's sign: products and quotients
 * underflow. */
static bool underflows(const struct ht_xb *b, int32_t x)
{
	enum ht_xop op = ht_xb_at(b, x)->op;

	return op == HT_X_MUL || op == HT_X_DIV;
}

/* If x was rounded to 16-bit type t, and then possibly clamped to numbers of that type: x
 * without that rounding. -1: it is something else. */
static int32_t unrounded(struct ht_xb *b, int32_t x, enum ht_dtype t)
{
	const struct ht_x e = *ht_xb_at(b, x), low = *ht_xb_at(b, e.a < 0 ? x : e.a);
	int32_t y;

	if ((e.op == HT_X_MIN || e.op == HT_X_MAX) && e.dtype == HT_F32 && is_of_type(b, e.b, t)) {
		y = unrounded(b, e.a, t);
		if (y >= 0 && is_float_const(b, e.b, 0) && underflows(b, y))
			return -1;
		return y < 0 ? -1 : make2(b, e.op, HT_F32, y, e.b);
	}
	return e.op == HT_X_CVT && e.dtype == HT_F32 && low.op == HT_X_CVT && low.dtype == t ? low.a
											     : -1;
}

/* If x was rounded, clamped and rounded again, one rounding suffices: rounding keeps the order,
 * and the limits are numbers of the type. */
static bool limit_then_round(
	struct ht_xb *b, const struct ht_x *x, const struct ht_x *u, int32_t *out)
{
	int32_t y;

	if ((u->op != HT_X_MIN && u->op != HT_X_MAX) || (x->dtype != HT_F16 && x->dtype != HT_BF16))
		return false;
	y = unrounded(b, x->a, x->dtype);
	*out = y < 0 ? -1 : ht_xcvt(b, x->dtype, y);
	return y >= 0;
}

/* Whether x widens to F32 what u rounds to 16 bits, which was widened from the same type before: subnormals are flushed already. */
static bool rounds_again(const struct ht_xb *b, const struct ht_x *x, const struct ht_x *u)
{
	const struct ht_x *wide = ht_xb_at(b, u->a);

	return x->dtype == HT_F32 && ht_is_low(u->dtype) && wide->op == HT_X_CVT &&
	       wide->dtype == HT_F32 && ht_xb_at(b, wide->a)->dtype == u->dtype;
}

static bool convert(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	enum ht_dtype inner;

	if (limit_then_round(b, x, &u, out))
		return true;
	if (u.op != HT_X_CVT)
		return false;
	inner = ht_xb_at(b, u.a)->dtype;
	if (rounds_again(b, x, &u)) {
		*out = u.a;
		return true;
	}
	if (widens(inner, u.dtype)) {
		*out = ht_xcvt(b, x->dtype, u.a); /* directly instead of through a wider integer */
		return true;
	}
	if (inner != x->dtype)
		return false;
	/* Converted and back.  A bfloat16 from memory may be subnormal, which these conversions
	 * flush. */
	*out = u.a;
	if (u.dtype == HT_F32)
		return inner == HT_F16 || (inner == HT_BF16 && ht_xb_at(b, u.a)->op == HT_X_CVT);
	return u.dtype == HT_F64 && inner == HT_F32;
}

static bool choose(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x cond = *ht_xb_at(b, x->a);

	if (cond.op == HT_X_CONST || x->b == x->c) {
		*out = cond.op == HT_X_CONST && !cond.imm ? x->c : x->b;
		return true;
	}
	if (cond.op == HT_X_NOT) {
		*out = ht_xselect(b, cond.a, x->c, x->b);
		return true;
	}
	if (x->dtype == HT_BOOL && is_int_const(b, x->b, 1) && is_int_const(b, x->c, 0)) {
		*out = x->a;
		return true;
	}
	return false;
}

static bool simpler(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x *u = ht_xb_at(b, x->a);

	switch (x->op) {
	case HT_X_SELECT:
		return choose(b, x, out);
	case HT_X_CVT:
		return convert(b, x, out);
	case HT_X_BITCAST:
		*out = x->a;
		if (u->dtype == x->dtype)
			return true;
		if (u->op != HT_X_BITCAST)
			return false;
		*out = ht_xbitcast(b, x->dtype, u->a);
		return true;
	default:
		return arithmetic(b, x, out) || logic(b, x, out);
	}
}

int32_t ht_xb_make(struct ht_xb *b, struct ht_x x)
{
	int32_t out;

	if (commutes(x.op, x.dtype))
		order(b, &x);
	if (fold(b, &x, &out) || simpler(b, &x, &out))
		return out;
	return ht_xb_push(b, x);
}
