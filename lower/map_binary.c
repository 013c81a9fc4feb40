/* Elementwise ops of two operands, which broadcast. */
#include "lower/index.h"

static bool is_unsigned(enum ht_dtype t)
{
	return ht_dtype_info(t)->kind == HT_KIND_UINT;
}

/* Floats: fmod, moved to the divisor's sign. */
static int32_t floor_mod(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y)
{
	int32_t zero, r, other_sign;

	if (!ht_is_float(t))
		return ht_xirem(b, x, y, true);
	zero = ht_xk(b, t, 0);
	r = ht_xrem(b, x, y);
	other_sign = ht_xxor(b, ht_xlt(b, r, zero), ht_xlt(b, y, zero));
	other_sign = ht_xand(b, other_sign, ht_xne(b, r, zero));
	return ht_xselect(b, other_sign, ht_xadd(b, r, y), r);
}

static int32_t divide(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y, bool floor)
{
	int32_t q;

	if (!ht_is_float(t))
		return ht_xidiv(b, x, y, floor);
	q = ht_xdiv(b, x, y);
	return floor ? ht_xfloor(b, q) : q;
}

/* Where `test` equals zero: zero, else `x`. */
static int32_t zero_where_zero(struct ht_xb *b, enum ht_dtype t, int32_t test, int32_t x)
{
	int32_t zero = ht_xk(b, t, 0);

	return ht_xselect(b, ht_xeq(b, test, zero), zero, x);
}

/* Square and multiply over all bits of the exponent. */
static int32_t integer_power(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y)
{
	int bits = (int)ht_dtype_info(t)->bytes * 8;
	int32_t one = ht_xk(b, t, 1), zero = ht_xk(b, t, 0), r = one;

	if (!is_unsigned(t)) {
		y = ht_xcheck(b, y, ht_xle(b, zero, y), HT_FAULT_NEGATIVE_POWER);
		bits--;
	}
	for (int i = 0; i < bits; i++) {
		int32_t bit = ht_xand(b, y, one);
		r = ht_xselect(b, ht_xne(b, bit, zero), ht_xmul(b, r, x), r);
		x = ht_xmul(b, x, x);
		y = ht_xshr(b, y, one);
	}
	return r;
}

static int32_t shift(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y, bool left)
{
	int32_t top = ht_xint(b, t, (int64_t)ht_dtype_info(t)->bytes * 8 - 1);

	y = ht_xmax(b, ht_xmin(b, y, top), ht_xk(b, t, 0));
	return ht_x2(b, left ? HT_X_SHL : is_unsigned(t) ? HT_X_SHR : HT_X_SAR, x, y);
}

static int32_t square(struct ht_xb *b, int32_t x)
{
	return ht_xmul(b, x, x);
}

static int32_t combine(
	struct ht_xb *b, const struct ht_node *n, enum ht_dtype t, int32_t x, int32_t y)
{
	switch (n->op) {
	case HT_OP_Add:
	case HT_OP_AddV2:
		return ht_xadd(b, x, y);
	case HT_OP_Sub:
		return ht_xsub(b, x, y);
	case HT_OP_Mul:
		return ht_xmul(b, x, y);
	case HT_OP_MulNoNan:
		return zero_where_zero(b, t, y, ht_xmul(b, x, y));
	case HT_OP_Div:
	case HT_OP_RealDiv:
		return divide(b, t, x, y, false);
	case HT_OP_TruncateDiv:
		x = divide(b, t, x, y, false);
		return ht_is_float(t) ? ht_xtrunc(b, x) : x;
	case HT_OP_FloorDiv:
		return divide(b, t, x, y, true);
	case HT_OP_DivNoNan:
		return zero_where_zero(b, t, y, ht_xdiv(b, x, y));
	case HT_OP_Mod:
	case HT_OP_TruncateMod:
		return ht_is_float(t) ? ht_xrem(b, x, y) : ht_xirem(b, x, y, false);
	case HT_OP_FloorMod:
		return floor_mod(b, t, x, y);
	case HT_OP_Minimum:
		return ht_xmin(b, x, y);
	case HT_OP_Maximum:
		return ht_xmax(b, x, y);
	case HT_OP_SquaredDifference:
		return square(b, ht_xsub(b, x, y));
	case HT_OP_Pow:
		return ht_is_float(t) ? ht_xpow(b, x, y) : integer_power(b, t, x, y);
	case HT_OP_Atan2:
		return ht_xatan2(b, x, y);
	case HT_OP_Xdivy:
		return zero_where_zero(b, t, x, ht_xdiv(b, x, y));
	case HT_OP_Xlogy:
		return zero_where_zero(b, t, x, ht_xmul(b, x, ht_xlog(b, y)));
	case HT_OP_Xlog1py:
		return zero_where_zero(b, t, x, ht_xmul(b, x, ht_xlog1p(b, y)));
	case HT_OP_Equal:
		return ht_xeq(b, x, y);
	case HT_OP_NotEqual:
		return ht_xne(b, x, y);
	case HT_OP_Less:
		return ht_xlt(b, x, y);
	case HT_OP_LessEqual:
		return ht_xle(b, x, y);
	case HT_OP_Greater:
		return ht_xlt(b, y, x);
	case HT_OP_GreaterEqual:
		return ht_xle(b, y, x);
	case HT_OP_LogicalAnd:
	case HT_OP_BitwiseAnd:
		return ht_xand(b, x, y);
	case HT_OP_LogicalOr:
	case HT_OP_BitwiseOr:
		return ht_xor(b, x, y);
	case HT_OP_BitwiseXor:
		return ht_xxor(b, x, y);
	case HT_OP_LeftShift:
		return shift(b, t, x, y, true);
	case HT_OP_RightShift:
		return shift(b, t, x, y, false);
	default:
		HT_CHECK(!"a binary op without expression");
		return x;
	}
}

/* Equal and NotEqual may be told to accept shapes that do not broadcast.  The result is then one
 * scalar, which says that the operands differ. */
static bool is_incompatible(const struct ht_node *n)
{
	struct ht_shape a = shape_of(n, 0), b = shape_of(n, 1);

	for (int32_t i = 1; i <= a.rank && i <= b.rank; i++) {
		int64_t x = a.dim[a.rank - i], y = b.dim[b.rank - i];

		if (x != y && x != 1 && y != 1)
			return true;
	}
	return false;
}

/* The second operand where its element is asked for; one, which stops nothing, elsewhere. */
static int32_t second(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	int32_t y = kb_operand(k, n, 1, s);

	if (s->guard < 0 || !ht_checks_second(n) || ht_is(n->in[1].node, HT_CONSTANT))
		return y;
	return ht_xselect(&k->xb, s->guard, y, ht_xint(&k->xb, operand_type(n, 1), 1));
}

static int32_t pull_binary(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t x, y;

	(void)out;
	if (is_incompatible(n))
		return ht_xk(&k->xb, HT_BOOL, n->op == HT_OP_NotEqual);
	x = kb_operand(k, n, 0, s);
	y = second(k, n, s);
	return combine(&k->xb, n, operand_type(n, 0), x, y);
}

const struct lower_op lower_binary = {
	.family = FAMILY_MAP, .aligned = true, .unaligned = is_incompatible, .pull = pull_binary
};
