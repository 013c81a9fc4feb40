/* Elementwise ops of one operand. */
#include "lower/index.h"

#include <math.h>

static int32_t relu(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_xmax(b, x, ht_xk(b, t, 0));
}

static int32_t relu6(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_xmin(b, relu(b, t, x), ht_xk(b, t, 6));
}

static int32_t sign(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	int32_t zero = ht_xk(b, t, 0), one = ht_xk(b, t, 1);
	int32_t negative, r;

	if (t == HT_U8 || t == HT_U16 || t == HT_U32 || t == HT_U64)
		return ht_xselect(b, ht_xeq(b, x, zero), zero, one);
	negative = ht_xlt(b, x, zero);
	/* neither above nor below zero: itself, which keeps NaN */
	r = ht_xselect(b, ht_xlt(b, zero, x), one, x);
	return ht_xselect(b, negative, ht_xk(b, t, -1), r);
}

static int32_t elu(struct ht_xb *b, enum ht_dtype t, int32_t x, double scale, double alpha)
{
	int32_t below = ht_xmul(b, ht_xk(b, t, scale * alpha), ht_xexpm1(b, x));
	int32_t above = ht_xmul(b, ht_xk(b, t, scale), x);

	return ht_xselect(b, ht_xlt(b, x, ht_xk(b, t, 0)), below, above);
}

/* log(1 + exp(x)).  Where exp(x) is negligible against 1, or 1 against exp(x), a simpler form is
 * used. */
static int32_t softplus(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	double threshold = log(t == HT_F64 ? 2.220446049250313e-16 : 1.1920929e-07) + 2;
	int32_t e = ht_xexp(b, x);
	int32_t r = ht_xselect(b, ht_xlt(b, x, ht_xk(b, t, threshold)), e, ht_xlog1p(b, e));

	return ht_xselect(b, ht_xlt(b, ht_xk(b, t, -threshold), x), x, r);
}

/* Six times HardSigmoid(x). */
static int32_t hard_gate(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return relu6(b, t, ht_xadd(b, x, ht_xk(b, t, 3)));
}

static int32_t sixth(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_xmul(b, x, ht_xk(b, t, 1. / 6));
}

/* For 16-bit types, every intermediate result up to the last product is finite. */
static int32_t hard_swish(struct ht_xb *b, enum ht_dtype t, int32_t x, bool low)
{
	int32_t gate = hard_gate(b, t, x);

	if (low)
		return ht_xmul(b, x, sixth(b, t, gate));
	return sixth(b, t, ht_xmul(b, x, gate));
}

static int32_t is_inf(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_xeq(b, ht_xabs(b, x), ht_xk(b, t, INFINITY));
}

/* The expression op of a graph op that is one operation; HT_X_END for others. */
static enum ht_xop unary_xop(enum ht_op op)
{
	switch (op) {
	case HT_OP_Abs:
		return HT_X_ABS;
	case HT_OP_Neg:
		return HT_X_NEG;
	case HT_OP_Sqrt:
		return HT_X_SQRT;
	case HT_OP_Rsqrt:
		return HT_X_RSQRT;
	case HT_OP_Exp:
		return HT_X_EXP;
	case HT_OP_Expm1:
		return HT_X_EXPM1;
	case HT_OP_Log:
		return HT_X_LOG;
	case HT_OP_Log1p:
		return HT_X_LOG1P;
	case HT_OP_Sin:
		return HT_X_SIN;
	case HT_OP_Cos:
		return HT_X_COS;
	case HT_OP_Tan:
		return HT_X_TAN;
	case HT_OP_Atan:
		return HT_X_ATAN;
	case HT_OP_Tanh:
		return HT_X_TANH;
	case HT_OP_Asin:
		return HT_X_ASIN;
	case HT_OP_Acos:
		return HT_X_ACOS;
	case HT_OP_Sinh:
		return HT_X_SINH;
	case HT_OP_Cosh:
		return HT_X_COSH;
	case HT_OP_Asinh:
		return HT_X_ASINH;
	case HT_OP_Acosh:
		return HT_X_ACOSH;
	case HT_OP_Atanh:
		return HT_X_ATANH;
	case HT_OP_Erf:
		return HT_X_ERF;
	case HT_OP_Erfc:
		return HT_X_ERFC;
	case HT_OP_Sigmoid:
		return HT_X_SIGMOID;
	case HT_OP_Floor:
		return HT_X_FLOOR;
	case HT_OP_Ceil:
		return HT_X_CEIL;
	case HT_OP_Round:
	case HT_OP_Rint:
		return HT_X_RINT;
	case HT_OP_LogicalNot:
	case HT_OP_Invert:
		return HT_X_NOT;
	default:
		return HT_X_END;
	}
}

/* Rounding leaves integers unchanged. */
static bool is_integer_rounding(enum ht_op op, enum ht_dtype t)
{
	return !ht_is_float(t) &&
	       (op == HT_OP_Round || op == HT_OP_Rint || op == HT_OP_Floor || op == HT_OP_Ceil);
}

static int32_t pull_unary(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
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
	case HT_OP_Inv:
		return ht_xdiv(b, ht_xk(b, t, 1), x);
	case HT_OP_Square:
		return ht_xmul(b, x, x);
	case HT_OP_Sign:
		return sign(b, t, x);
	case HT_OP_Relu:
		return relu(b, t, x);
	case HT_OP_Relu6:
		return relu6(b, t, x);
	case HT_OP_LeakyRelu: {
		int32_t slope = ht_xk(b, t, ht_attr_float(n, "alpha", .2f));
		return ht_xselect(b, ht_xlt(b, ht_xk(b, t, 0), x), x, ht_xmul(b, slope, x));
	}
	case HT_OP_Elu:
		return elu(b, t, x, 1, 1);
	case HT_OP_Selu:
		return elu(b, t, x, 1.0507009873554804934193349852946,
			1.6732632423543772848170429916717);
	case HT_OP_Softplus:
		return softplus(b, t, x);
	case HT_OP_Softsign:
		return ht_xdiv(b, x, ht_xadd(b, ht_xabs(b, x), ht_xk(b, t, 1)));
	case HT_OP_Gelu:
		return lower_gelu(b, n, x);
	case HT_OP_Silu:
		return lower_silu(b, n, x);
	case HT_OP_HardSwish:
		return hard_swish(b, t, x, t != ht_type_of(n->in[0])->dtype);
	case HT_OP_HardSigmoid:
		return sixth(b, t, hard_gate(b, t, x));
	case HT_OP_IsNan:
		return ht_xne(b, x, x);
	case HT_OP_IsInf:
		return is_inf(b, t, x);
	case HT_OP_IsFinite:
		return ht_xlt(b, ht_xabs(b, x), ht_xk(b, t, INFINITY));
	default:
		HT_CHECK(!"a unary op without expression");
		return x;
	}
}

static const char *refuse_unary(const struct ht_node *n)
{
	if ((n->op == HT_OP_Reciprocal || n->op == HT_OP_Inv) && !ht_is_float(operand_type(n, 0)))
		return "has no kernel for integers";
	return NULL;
}

const struct lower_op lower_unary = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_unary, .refuse = refuse_unary
};
