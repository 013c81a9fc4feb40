/* Elementwise ops: the value of one element from its operands' elements. */
#include "passes/lower/lower.h"

#include <math.h>

/* ---- shorthands ---- */

static int32_t one_like(struct ht_xb *b, enum ht_dtype t, double value)
{
	return ht_xconst(b, t, value, (int64_t)value);
}

static enum ht_dtype operand_type(const struct ht_node *n, int arg)
{
	return compute_type(ht_type_of(n->in[arg])->dtype);
}

/* ---- unary ---- */

static int32_t relu(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_x2(b, HT_X_MAX, x, one_like(b, t, 0));
}

static int32_t relu6(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_x2(b, HT_X_MIN, relu(b, t, x), one_like(b, t, 6));
}

static int32_t sign(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	int32_t zero = one_like(b, t, 0), one = one_like(b, t, 1);
	int32_t negative, r;

	if (t == HT_U8 || t == HT_U16 || t == HT_U32 || t == HT_U64)
		return ht_xselect(b, ht_x2(b, HT_X_EQ, x, zero), zero, one);
	negative = ht_x2(b, HT_X_LT, x, zero);
	/* neither above nor below zero: itself, which keeps NaN */
	r = ht_xselect(b, ht_x2(b, HT_X_LT, zero, x), one, x);
	return ht_xselect(b, negative, one_like(b, t, -1), r);
}

static int32_t elu(struct ht_xb *b, enum ht_dtype t, int32_t x, double scale, double alpha)
{
	int32_t below = ht_x2(b, HT_X_MUL, one_like(b, t, scale * alpha), ht_x1(b, HT_X_EXPM1, x));
	int32_t above = ht_x2(b, HT_X_MUL, one_like(b, t, scale), x);

	return ht_xselect(b, ht_x2(b, HT_X_LT, x, one_like(b, t, 0)), below, above);
}

/* log(1 + exp(x)); where exp(x) is negligible against 1, or 1 against exp(x), the simpler form. */
static int32_t softplus(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	double threshold = log(t == HT_F64 ? 2.220446049250313e-16 : 1.1920929e-07) + 2;
	int32_t e = ht_x1(b, HT_X_EXP, x);
	int32_t r = ht_xselect(b, ht_x2(b, HT_X_LT, x, one_like(b, t, threshold)), e, ht_x1(b, HT_X_LOG1P, e));

	return ht_xselect(b, ht_x2(b, HT_X_LT, one_like(b, t, -threshold), x), x, r);
}

static int32_t gelu(struct ht_xb *b, enum ht_dtype t, int32_t x, bool approximate)
{
	int32_t half_x = ht_x2(b, HT_X_MUL, one_like(b, t, .5), x), y;

	if (approximate) {
		int32_t cube = ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_MUL, x, x), x);
		y = ht_x3(b, HT_X_MULADD, one_like(b, t, .044715), cube, x);
		y = ht_x1(b, HT_X_TANH, ht_x2(b, HT_X_MUL, one_like(b, t, 0.7978845608028654), y));
	} else {
		y = ht_x1(b, HT_X_ERF, ht_x2(b, HT_X_MUL, x, one_like(b, t, 0.7071067811865476)));
	}
	return ht_x2(b, HT_X_MUL, half_x, ht_x2(b, HT_X_ADD, y, one_like(b, t, 1)));
}

static int32_t hard_swish(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	int32_t gate = relu6(b, t, ht_x2(b, HT_X_ADD, x, one_like(b, t, 3)));

	return ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_MUL, x, gate), one_like(b, t, 1. / 6));
}

static int32_t is_inf(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_x2(b, HT_X_EQ, ht_x1(b, HT_X_ABS, x), one_like(b, t, INFINITY));
}

/* The expression of one operation, for ops that are one; HT_X_END otherwise. */
static enum ht_xop unary_xop(enum ht_op op)
{
	switch (op) {
	case HT_OP_Abs: return HT_X_ABS;
	case HT_OP_Neg: return HT_X_NEG;
	case HT_OP_Sqrt: return HT_X_SQRT;
	case HT_OP_Rsqrt: return HT_X_RSQRT;
	case HT_OP_Exp: return HT_X_EXP;
	case HT_OP_Expm1: return HT_X_EXPM1;
	case HT_OP_Log: return HT_X_LOG;
	case HT_OP_Log1p: return HT_X_LOG1P;
	case HT_OP_Sin: return HT_X_SIN;
	case HT_OP_Cos: return HT_X_COS;
	case HT_OP_Tan: return HT_X_TAN;
	case HT_OP_Atan: return HT_X_ATAN;
	case HT_OP_Tanh: return HT_X_TANH;
	case HT_OP_Erf: return HT_X_ERF;
	case HT_OP_Sigmoid: return HT_X_SIGMOID;
	case HT_OP_Floor: return HT_X_FLOOR;
	case HT_OP_Ceil: return HT_X_CEIL;
	case HT_OP_Round:
	case HT_OP_Rint: return HT_X_RINT;
	case HT_OP_LogicalNot:
	case HT_OP_Invert: return HT_X_NOT;
	default: return HT_X_END;
	}
}

/* Rounding an integer is the integer. */
static bool is_integer_rounding(enum ht_op op, enum ht_dtype t)
{
	return !ht_is_float(t) && (op == HT_OP_Round || op == HT_OP_Rint || op == HT_OP_Floor || op == HT_OP_Ceil);
}

static int32_t pull_unary(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = operand_type(n, 0);
	int32_t x = kb_operand(k, n, 0, s);
	enum ht_xop op = unary_xop(n->op);

	(void)out;
	if (is_integer_rounding(n->op, t))
		return x;
	if (op != HT_X_END)
		return ht_x1(b, op, x);
	switch (n->op) {
	case HT_OP_Reciprocal:
	case HT_OP_Inv: return ht_x2(b, HT_X_DIV, one_like(b, t, 1), x);
	case HT_OP_Square: return ht_x2(b, HT_X_MUL, x, x);
	case HT_OP_Sign: return sign(b, t, x);
	case HT_OP_Relu: return relu(b, t, x);
	case HT_OP_Relu6: return relu6(b, t, x);
	case HT_OP_LeakyRelu: {
		int32_t slope = one_like(b, t, ht_attr_float(n, "alpha", .2f));
		return ht_xselect(b, ht_x2(b, HT_X_LT, one_like(b, t, 0), x), x, ht_x2(b, HT_X_MUL, slope, x));
	}
	case HT_OP_Elu: return elu(b, t, x, 1, 1);
	case HT_OP_Selu: return elu(b, t, x, 1.0507009873554804934193349852946, 1.6732632423543772848170429916717);
	case HT_OP_Softplus: return softplus(b, t, x);
	case HT_OP_Softsign: return ht_x2(b, HT_X_DIV, x, ht_x2(b, HT_X_ADD, ht_x1(b, HT_X_ABS, x), one_like(b, t, 1)));
	case HT_OP_Gelu: return gelu(b, t, x, ht_attr_bool(n, "approximate", false));
	case HT_OP_Silu: return ht_x2(b, HT_X_MUL, x, ht_x1(b, HT_X_SIGMOID, x));
	case HT_OP_HardSwish: return hard_swish(b, t, x);
	case HT_OP_IsNan: return ht_x2(b, HT_X_NE, x, x);
	case HT_OP_IsInf: return is_inf(b, t, x);
	case HT_OP_IsFinite: return ht_x2(b, HT_X_LT, ht_x1(b, HT_X_ABS, x), one_like(b, t, INFINITY));
	default: HT_CHECK(!"a unary op without expression"); return x;
	}
}

static const char *refuse_unary(const struct ht_node *n)
{
	enum ht_dtype t = operand_type(n, 0);

	if (n->op == HT_OP_Erfc)
		return "has no kernel";
	if ((n->op == HT_OP_Reciprocal || n->op == HT_OP_Inv) && !ht_is_float(t))
		return "has no kernel for integers";
	return NULL;
}

const struct lower_op lower_unary = { .name = "unary", .family = FAMILY_MAP, .aligned = true,
	.pull = pull_unary, .refuse = refuse_unary };

/* ---- binary ---- */

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
	zero = one_like(b, t, 0);
	r = ht_x2(b, HT_X_REM, x, y);
	other_sign = ht_x2(b, HT_X_XOR, ht_x2(b, HT_X_LT, r, zero), ht_x2(b, HT_X_LT, y, zero));
	other_sign = ht_x2(b, HT_X_AND, other_sign, ht_x2(b, HT_X_NE, r, zero));
	return ht_xselect(b, other_sign, ht_x2(b, HT_X_ADD, r, y), r);
}

static int32_t divide(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y, bool floor)
{
	int32_t q;

	if (!ht_is_float(t))
		return ht_xidiv(b, x, y, floor);
	q = ht_x2(b, HT_X_DIV, x, y);
	return floor ? ht_x1(b, HT_X_FLOOR, q) : q;
}

/* Where `test` equals zero: zero, else `x`. */
static int32_t zero_where_zero(struct ht_xb *b, enum ht_dtype t, int32_t test, int32_t x)
{
	int32_t zero = one_like(b, t, 0);

	return ht_xselect(b, ht_x2(b, HT_X_EQ, test, zero), zero, x);
}

/* Square and multiply over all bits of the exponent. */
static int32_t integer_power(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y)
{
	int bits = (int)ht_dtype_info(t)->bytes * 8;
	int32_t one = one_like(b, t, 1), zero = one_like(b, t, 0), r = one;

	if (!is_unsigned(t)) {
		y = ht_xcheck(b, y, ht_x2(b, HT_X_LE, zero, y), HT_FAULT_NEGATIVE_POWER);
		bits--;
	}
	for (int i = 0; i < bits; i++) {
		int32_t bit = ht_x2(b, HT_X_AND, y, one);
		r = ht_xselect(b, ht_x2(b, HT_X_NE, bit, zero), ht_x2(b, HT_X_MUL, r, x), r);
		x = ht_x2(b, HT_X_MUL, x, x);
		y = ht_x2(b, HT_X_SHR, y, one);
	}
	return r;
}

static int32_t shift(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y, bool left)
{
	int32_t top = ht_xconst(b, t, 0, (int64_t)ht_dtype_info(t)->bytes * 8 - 1);

	y = ht_x2(b, HT_X_MAX, ht_x2(b, HT_X_MIN, y, top), one_like(b, t, 0));
	return ht_x2(b, left ? HT_X_SHL : is_unsigned(t) ? HT_X_SHR : HT_X_SAR, x, y);
}

static int32_t square(struct ht_xb *b, int32_t x)
{
	return ht_x2(b, HT_X_MUL, x, x);
}

static int32_t combine(struct ht_xb *b, const struct ht_node *n, enum ht_dtype t, int32_t x, int32_t y)
{
	switch (n->op) {
	case HT_OP_Add:
	case HT_OP_AddV2: return ht_x2(b, HT_X_ADD, x, y);
	case HT_OP_Sub: return ht_x2(b, HT_X_SUB, x, y);
	case HT_OP_Mul: return ht_x2(b, HT_X_MUL, x, y);
	case HT_OP_MulNoNan: return zero_where_zero(b, t, y, ht_x2(b, HT_X_MUL, x, y));
	case HT_OP_Div:
	case HT_OP_RealDiv:
	case HT_OP_TruncateDiv: return divide(b, t, x, y, false);
	case HT_OP_FloorDiv: return divide(b, t, x, y, true);
	case HT_OP_DivNoNan: return zero_where_zero(b, t, y, ht_x2(b, HT_X_DIV, x, y));
	case HT_OP_Mod:
	case HT_OP_TruncateMod: return ht_is_float(t) ? ht_x2(b, HT_X_REM, x, y) : ht_xirem(b, x, y, false);
	case HT_OP_FloorMod: return floor_mod(b, t, x, y);
	case HT_OP_Minimum: return ht_x2(b, HT_X_MIN, x, y);
	case HT_OP_Maximum: return ht_x2(b, HT_X_MAX, x, y);
	case HT_OP_SquaredDifference: return square(b, ht_x2(b, HT_X_SUB, x, y));
	case HT_OP_Pow: return ht_is_float(t) ? ht_x2(b, HT_X_POW, x, y) : integer_power(b, t, x, y);
	case HT_OP_Atan2: return ht_x2(b, HT_X_ATAN2, x, y);
	case HT_OP_Xdivy: return zero_where_zero(b, t, x, ht_x2(b, HT_X_DIV, x, y));
	case HT_OP_Xlogy: return zero_where_zero(b, t, x, ht_x2(b, HT_X_MUL, x, ht_x1(b, HT_X_LOG, y)));
	case HT_OP_Xlog1py: return zero_where_zero(b, t, x, ht_x2(b, HT_X_MUL, x, ht_x1(b, HT_X_LOG1P, y)));
	case HT_OP_Equal: return ht_x2(b, HT_X_EQ, x, y);
	case HT_OP_NotEqual: return ht_x2(b, HT_X_NE, x, y);
	case HT_OP_Less: return ht_x2(b, HT_X_LT, x, y);
	case HT_OP_LessEqual: return ht_x2(b, HT_X_LE, x, y);
	case HT_OP_Greater: return ht_x2(b, HT_X_LT, y, x);
	case HT_OP_GreaterEqual: return ht_x2(b, HT_X_LE, y, x);
	case HT_OP_LogicalAnd:
	case HT_OP_BitwiseAnd: return ht_x2(b, HT_X_AND, x, y);
	case HT_OP_LogicalOr:
	case HT_OP_BitwiseOr: return ht_x2(b, HT_X_OR, x, y);
	case HT_OP_BitwiseXor: return ht_x2(b, HT_X_XOR, x, y);
	case HT_OP_LeftShift: return shift(b, t, x, y, true);
	case HT_OP_RightShift: return shift(b, t, x, y, false);
	default: HT_CHECK(!"a binary op without expression"); return x;
	}
}

static int32_t pull_binary(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t x = kb_operand(k, n, 0, s), y = kb_operand(k, n, 1, s);

	(void)out;
	return combine(&k->xb, n, operand_type(n, 0), x, y);
}

/* Equal and NotEqual may be told to accept shapes that do not broadcast. */
static const char *refuse_binary(const struct ht_node *n)
{
	if (!ht_attr_bool(n, "incompatible_shape_error", true))
		return "accepts incompatible shapes, which has no kernel";
	return NULL;
}

const struct lower_op lower_binary = { .name = "binary", .family = FAMILY_MAP, .aligned = true,
	.pull = pull_binary, .refuse = refuse_binary };

/* ---- others ---- */

static int32_t pull_cast(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return ht_xcvt(&k->xb, compute_type(n->out[0].dtype), kb_operand(k, n, 0, s));
}

static const char *refuse_cast(const struct ht_node *n)
{
	return ht_attr_bool(n, "Truncate", false) ? "truncates, which has no kernel" : NULL;
}

const struct lower_op lower_cast = { .name = "cast", .family = FAMILY_MAP, .aligned = true,
	.pull = pull_cast, .refuse = refuse_cast };

static int32_t pull_prelu(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_operand(k, n, 0, s), alpha = kb_operand(k, n, 1, s);

	(void)out;
	return ht_xselect(b, ht_x2(b, HT_X_LT, x, one_like(b, operand_type(n, 0), 0)), ht_x2(b, HT_X_MUL, alpha, x), x);
}

const struct lower_op lower_prelu = { .name = "prelu", .family = FAMILY_MAP, .aligned = true, .pull = pull_prelu };

static int32_t pull_clip(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t low = ht_x2(&k->xb, HT_X_MAX, kb_operand(k, n, 0, s), kb_operand(k, n, 1, s));

	(void)out;
	return ht_x2(&k->xb, HT_X_MIN, low, kb_operand(k, n, 2, s));
}

const struct lower_op lower_clip = { .name = "clip", .family = FAMILY_MAP, .aligned = true, .pull = pull_clip };

static int32_t pull_add_n(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t sum = kb_operand(k, n, 0, s);

	(void)out;
	for (int32_t i = 1; i < n->ins; i++)
		sum = ht_x2(&k->xb, HT_X_ADD, sum, kb_operand(k, n, i, s));
	return sum;
}

const struct lower_op lower_add_n = { .name = "add_n", .family = FAMILY_MAP, .aligned = true, .pull = pull_add_n };

/* Select's condition may be a vector over the first dimension. */
static bool condition_is_vector(const struct ht_node *n)
{
	return n->op == HT_OP_Select && ht_type_of(n->in[0])->shape.rank == 1 && n->out[0].shape.rank > 1;
}

static int32_t pull_select(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t cond;

	(void)out;
	if (condition_is_vector(n)) {
		int32_t x = space_coord(&k->xb, s, 0);
		struct space at = space_of_coords(s, 1, s->dim, &x);
		cond = kb_pull(k, n->in[0], &at);
	} else {
		cond = kb_operand(k, n, 0, s);
	}
	return ht_xselect(&k->xb, cond, kb_operand(k, n, 1, s), kb_operand(k, n, 2, s));
}

const struct lower_op lower_select = { .name = "select", .family = FAMILY_MAP, .aligned = true,
	.unaligned = condition_is_vector, .pull = pull_select };

/* The dimension of the channels: 1 in NCHW, else the last. */
static bool channels_first(const struct ht_node *n)
{
	return n->op == HT_OP_BiasAdd && ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NCHW") && n->out[0].shape.rank > 2;
}

static int32_t pull_bias_add(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t x = kb_operand(k, n, 0, s), bias;

	(void)out;
	if (channels_first(n)) {
		int32_t c = space_coord(&k->xb, s, 1);
		struct space at = space_of_coords(s, 1, &s->dim[1], &c);
		bias = kb_pull(k, n->in[1], &at);
	} else {
		bias = kb_operand(k, n, 1, s);
	}
	return ht_x2(&k->xb, HT_X_ADD, x, bias);
}

const struct lower_op lower_bias_add = { .name = "bias_add", .family = FAMILY_MAP, .aligned = true,
	.unaligned = channels_first, .pull = pull_bias_add };

/* (x - mean) * rsqrt(variance + epsilon) * scale + offset, with given moments. */
static bool batch_norm_channels_first(const struct ht_node *n)
{
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NCHW");
}

static int32_t pull_batch_norm(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t channel_dim = batch_norm_channels_first(n) ? 1 : s->rank - 1, c, v[5], r;
	struct space at;

	if (out != 0) /* running statistics pass through */
		return kb_operand(k, n, out == 1 || out == 3 ? 3 : 4, s);
	c = space_coord(b, s, channel_dim);
	at = space_of_coords(s, 1, &s->dim[channel_dim], &c);
	v[0] = kb_operand(k, n, 0, s);
	for (int i = 1; i < 5; i++)
		v[i] = kb_pull(k, n->in[i], &at);
	r = ht_x1(b, HT_X_RSQRT, ht_x2(b, HT_X_ADD, v[4], ht_xf(b, ht_attr_float(n, "epsilon", 1e-4f))));
	r = ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_SUB, v[0], v[3]), ht_x2(b, HT_X_MUL, r, v[1]));
	return ht_x2(b, HT_X_ADD, r, v[2]);
}

static const char *refuse_batch_norm(const struct ht_node *n)
{
	if (ht_attr_bool(n, "is_training", true))
		return "in training mode has no kernel";
	if (n->op != HT_OP_FusedBatchNorm && n->op != HT_OP_FusedBatchNormV2 && n->op != HT_OP_FusedBatchNormV3)
		return "has no kernel";
	return NULL;
}

static bool always(const struct ht_node *n)
{
	(void)n;
	return true;
}

const struct lower_op lower_batch_norm = { .name = "batch_norm", .family = FAMILY_MAP, .aligned = true,
	.unaligned = always, .pull = pull_batch_norm, .refuse = refuse_batch_norm };

static int32_t pull_fill(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	enum ht_dtype t = compute_type(n->out[0].dtype);

	(void)out;
	if (n->op == HT_OP_Fill) {
		struct space at = space_of_coords(s, 0, NULL, NULL);
		return kb_pull(k, n->in[1], &at);
	}
	return one_like(&k->xb, t, n->op == HT_OP_OnesLike);
}

const struct lower_op lower_fill = { .name = "fill", .family = FAMILY_MAP, .pull = pull_fill };

static int32_t pull_bitcast(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return ht_xbitcast(&k->xb, n->out[0].dtype, kb_operand(k, n, 0, s));
}

static const char *refuse_bitcast(const struct ht_node *n)
{
	enum ht_dtype from = ht_type_of(n->in[0])->dtype, to = n->out[0].dtype;

	if (ht_dtype_info(from)->bytes != ht_dtype_info(to)->bytes || compute_type(from) != from || compute_type(to) != to)
		return "has no kernel between these dtypes";
	return NULL;
}

const struct lower_op lower_bitcast = { .name = "bitcast", .family = FAMILY_MAP, .aligned = true,
	.pull = pull_bitcast, .refuse = refuse_bitcast };
