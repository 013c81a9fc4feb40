/* Arithmetic of known elements: integers, sizes and numbers. */
#include "ir/infer.h"

#include <math.h>

struct ht_elem ht_elem_int(int64_t i)
{
	return (struct ht_elem){ HT_ELEM_INT, i, 0 };
}

struct ht_elem ht_elem_of_dim(int64_t dim)
{
	return dim >= 0 ? ht_elem_int(dim) : (struct ht_elem){ HT_ELEM_DIM, dim, 0 };
}

const struct ht_elem ht_elem_unknown = { HT_ELEM_UNKNOWN, 0, 0 };

static double round_to(enum ht_dtype t, double v)
{
	return t == HT_F32 ? (double)(float)v : v;
}

static bool as_int(enum ht_dtype t, double v, int64_t *i)
{
	double limit = t == HT_I32 ? 0x1p31 : 0x1p63;

	if (!(v >= -limit && v < limit))
		return false;
	*i = (int64_t)v;
	return true;
}

struct ht_elem ht_elem_cast(enum ht_dtype to, const struct ht_elem *x)
{
	bool to_int = ht_is_index(to), to_float = to == HT_F32 || to == HT_F64;
	int64_t whole;

	if (to_int && (x->kind == HT_ELEM_DIM ||
			      (x->kind == HT_ELEM_INT &&
				      (to == HT_I64 || (x->i >= INT32_MIN && x->i <= INT32_MAX)))))
		return *x;
	if (to_int && x->kind == HT_ELEM_FLOAT && as_int(to, x->f, &whole))
		return ht_elem_int(whole);
	if (to_float && x->kind == HT_ELEM_INT)
		return (struct ht_elem){ HT_ELEM_FLOAT, 0, round_to(to, (double)x->i) };
	if (to_float && x->kind == HT_ELEM_FLOAT)
		return (struct ht_elem){ HT_ELEM_FLOAT, 0, round_to(to, x->f) };
	return ht_elem_unknown;
}

static struct ht_elem float_unary(enum ht_op op, enum ht_dtype t, double v)
{
	switch (op) {
	case HT_OP_Floor:
		v = floor(v);
		break;
	case HT_OP_Ceil:
		v = ceil(v);
		break;
	case HT_OP_Round:
	case HT_OP_Rint:
		v = nearbyint(v);
		break;
	case HT_OP_Neg:
		v = -v;
		break;
	case HT_OP_Sqrt:
		v = sqrt(v);
		break;
	default:
		return ht_elem_unknown;
	}
	return (struct ht_elem){ HT_ELEM_FLOAT, 0, round_to(t, v) };
}

struct ht_elem ht_elem_unary(enum ht_op op, enum ht_dtype t, const struct ht_elem *x)
{
	if (x->kind == HT_ELEM_FLOAT)
		return float_unary(op, t, x->f);
	if (x->kind == HT_ELEM_INT && op == HT_OP_Neg && x->i != INT64_MIN)
		return ht_elem_int(-x->i);
	if (x->kind == HT_ELEM_INT && op == HT_OP_Round)
		return *x;
	return ht_elem_unknown;
}

static bool int_divide(enum ht_op op, int64_t a, int64_t b, int64_t *r)
{
	int64_t q, rest;

	if (b == 0 || (a == INT64_MIN && b == -1))
		return false;
	q = a / b;
	rest = a % b;
	if (op == HT_OP_FloorDiv || op == HT_OP_FloorMod)
		if (rest != 0 && (rest < 0) != (b < 0)) {
			q--;
			rest += b;
		}
	*r = op == HT_OP_FloorMod || op == HT_OP_TruncateMod || op == HT_OP_Mod ? rest : q;
	return true;
}

static bool int_binary(enum ht_op op, int64_t a, int64_t b, int64_t *r)
{
	switch (op) {
	case HT_OP_Add:
	case HT_OP_AddV2:
		return !__builtin_add_overflow(a, b, r);
	case HT_OP_Sub:
		return !__builtin_sub_overflow(a, b, r);
	case HT_OP_Mul:
		return !__builtin_mul_overflow(a, b, r);
	case HT_OP_Minimum:
		*r = a < b ? a : b;
		return true;
	case HT_OP_Maximum:
		*r = a > b ? a : b;
		return true;
	default:
		return int_divide(op, a, b, r);
	}
}

static struct ht_elem float_binary(enum ht_op op, enum ht_dtype t, double a, double b)
{
	double r;

	switch (op) {
	case HT_OP_Add:
	case HT_OP_AddV2:
		r = a + b;
		break;
	case HT_OP_Sub:
		r = a - b;
		break;
	case HT_OP_Mul:
		r = a * b;
		break;
	case HT_OP_Div:
	case HT_OP_RealDiv:
		r = a / b;
		break;
	case HT_OP_FloorDiv:
		r = floor(round_to(t, a / b));
		break;
	case HT_OP_Minimum:
		r = a < b ? a : b;
		break;
	case HT_OP_Maximum:
		r = a > b ? a : b;
		break;
	default:
		return ht_elem_unknown;
	}
	return isnan(r) ? ht_elem_unknown : (struct ht_elem){ HT_ELEM_FLOAT, 0, round_to(t, r) };
}

static bool is_int(const struct ht_elem *e, int64_t i)
{
	return e->kind == HT_ELEM_INT && e->i == i;
}

static bool is_add(enum ht_op op)
{
	return op == HT_OP_Add || op == HT_OP_AddV2;
}

/* Multiplies or divides a symbolic size by a number; the result is unknown unless it is a multiple
 * of a symbol. */
static struct ht_elem symbolic_binary(
	struct ht_infer *in, enum ht_op op, const struct ht_elem *a, const struct ht_elem *b)
{
	int64_t x = ht_elem_dim(a), y = ht_elem_dim(b), r = HT_DIM_UNKNOWN;

	if (op == HT_OP_Mul)
		r = ht_dim_mul(in, x, y);
	else if (op == HT_OP_FloorDiv || op == HT_OP_TruncateDiv || op == HT_OP_Div)
		r = ht_dim_div(in, x, y);
	return r == HT_DIM_UNKNOWN ? ht_elem_unknown : ht_elem_of_dim(r);
}

struct ht_elem ht_elem_binary(struct ht_infer *in, enum ht_op op, enum ht_dtype t,
	const struct ht_elem *a, const struct ht_elem *b)
{
	int64_t r;

	if (a->kind == HT_ELEM_FLOAT && b->kind == HT_ELEM_FLOAT)
		return float_binary(op, t, a->f, b->f);
	if (a->kind == HT_ELEM_INT && b->kind == HT_ELEM_INT) {
		if (!int_binary(op, a->i, b->i, &r) ||
			(t == HT_I32 && (r < INT32_MIN || r > INT32_MAX)))
			return ht_elem_unknown;
		return ht_elem_int(r);
	}
	/* The op leaves a symbolic size unchanged. */
	if ((op == HT_OP_Mul && is_int(b, 1)) ||
		((is_add(op) || op == HT_OP_Sub) && is_int(b, 0)) ||
		((op == HT_OP_FloorDiv || op == HT_OP_Div) && is_int(b, 1)))
		return *a;
	if ((op == HT_OP_Mul && is_int(a, 1)) || (is_add(op) && is_int(a, 0)))
		return *b;
	if (op == HT_OP_Mul && (is_int(a, 0) || is_int(b, 0)))
		return ht_elem_int(0);
	return symbolic_binary(in, op, a, b);
}
