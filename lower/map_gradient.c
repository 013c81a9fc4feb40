/* Gradients of elementwise ops, from the gradient of the op's result and the op's operand or
 * result. */
#include "lower/index.h"

/* Multiplies, as TensorFlow does: an infinite gradient becomes NaN where the condition is false. */
static int32_t where(struct ht_xb *b, enum ht_dtype t, int32_t condition, int32_t gradient)
{
	return ht_xmul(b, gradient, ht_xcvt(b, t, condition));
}

static int32_t above(struct ht_xb *b, enum ht_dtype t, int32_t x, double limit)
{
	return ht_xlt(b, ht_xk(b, t, limit), x);
}

static int32_t below(struct ht_xb *b, enum ht_dtype t, int32_t x, double limit)
{
	return ht_xlt(b, x, ht_xk(b, t, limit));
}

/* y is scale * alpha * (e^x - 1) where x is below 0, and scale * x elsewhere. */
static int32_t of_elu(
	struct ht_xb *b, enum ht_dtype t, int32_t dy, int32_t y, double scale, double alpha)
{
	int32_t slope = ht_xadd(b, y, ht_xk(b, t, scale * alpha));

	return ht_xselect(
		b, below(b, t, y, 0), ht_xmul(b, slope, dy), ht_xmul(b, ht_xk(b, t, scale), dy));
}

/* Gradients that are a function of the op's operand x. */
static int32_t of_operand(
	struct ht_xb *b, const struct ht_node *n, enum ht_dtype t, int32_t dy, int32_t x)
{
	int32_t one, slope;

	switch (n->op) {
	case HT_OP_ReluGrad:
		return where(b, t, above(b, t, x, 0), dy);
	case HT_OP_Relu6Grad:
		return where(b, t, ht_xand(b, above(b, t, x, 0), below(b, t, x, 6)), dy);
	case HT_OP_LeakyReluGrad:
		slope = ht_xk(b, t, ht_attr_float(n, "alpha", .2f));
		return ht_xselect(b, above(b, t, x, 0), dy, ht_xmul(b, dy, slope));
	case HT_OP_SoftplusGrad:
		return ht_xdiv(b, dy, ht_xadd(b, ht_xexp(b, ht_xneg(b, x)), ht_xk(b, t, 1)));
	case HT_OP_SoftsignGrad:
		one = ht_xadd(b, ht_xk(b, t, 1), ht_xabs(b, x));
		return ht_xdiv(b, dy, ht_xmul(b, one, one));
	default:
		HT_CHECK(!"a gradient without expression");
		return dy;
	}
}

/* Gradients that are a function of the op's result y. */
static int32_t of_result(
	struct ht_xb *b, const struct ht_node *n, enum ht_dtype t, int32_t dy, int32_t y)
{
	int32_t square = ht_xmul(b, y, y);

	switch (n->op) {
	case HT_OP_EluGrad:
		return of_elu(b, t, dy, y, 1, 1);
	case HT_OP_SeluGrad:
		return of_elu(b, t, dy, y, 1.0507009873554804934193349852946,
			1.6732632423543772848170429916717);
	case HT_OP_SigmoidGrad:
		return ht_xmul(b, ht_xmul(b, dy, y), ht_xsub(b, ht_xk(b, t, 1), y));
	case HT_OP_TanhGrad:
		return ht_xmul(b, dy, ht_xsub(b, ht_xk(b, t, 1), square));
	case HT_OP_SqrtGrad:
		return ht_xdiv(b, ht_xmul(b, dy, ht_xk(b, t, .5)), y);
	case HT_OP_RsqrtGrad:
		return ht_xmul(b, ht_xmul(b, square, y), ht_xmul(b, dy, ht_xk(b, t, -.5)));
	case HT_OP_InvGrad:
	case HT_OP_ReciprocalGrad:
		return ht_xmul(b, ht_xneg(b, dy), square);
	default:
		HT_CHECK(!"a gradient without expression");
		return dy;
	}
}

/* The node's operands are the gradient, and then the op's operand or its result. */
static int32_t pull_by_operand(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return of_operand(
		&k->xb, n, operand_type(n, 0), kb_operand(k, n, 0, s), kb_operand(k, n, 1, s));
}

static bool takes_gradient_first(const struct ht_node *n)
{
	return n->op == HT_OP_EluGrad || n->op == HT_OP_SeluGrad;
}

static int32_t pull_by_result(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int gradient = takes_gradient_first(n) ? 0 : 1;

	(void)out;
	return of_result(&k->xb, n, operand_type(n, 0), kb_operand(k, n, gradient, s),
		kb_operand(k, n, 1 - gradient, s));
}

const struct lower_op lower_gradient_by_operand = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_by_operand
};
const struct lower_op lower_gradient_by_result = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_by_result
};
