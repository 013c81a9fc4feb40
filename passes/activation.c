/* activation: x * x becomes Square, and max(x, a * x) with 0 < a < 1 becomes LeakyRelu.
 *
 * Both rewrites are exact in every float type, also for NaN, infinities and the sign of zero:
 * the original and the new form round once.  LeakyRelu stores its slope in float32, so float64
 * is left alone. */
#include "passes/rewrite.h"

static void become(
	struct ht_rw *r, struct ht_node *n, enum ht_op op, struct ht_value x, enum ht_fusion_id id)
{
	ht_rw_hit(r, id);
	ht_rw_absorb_between(n, x);
	ht_rw_become(r, n, op, &x, 1);
}

static void square(struct ht_rw *r, struct ht_node *n)
{
	if (!ht_rw_on(r, HT_FUSION_square) || !ht_value_eq(n->in[0], n->in[1]))
		return;
	if (n->controls)
		ht_rw_miss(r, HT_FUSION_square, 1, n, "has control inputs");
	else
		become(r, n, HT_OP_Square, n->in[0], HT_FUSION_square);
}

static void leaky_relu(struct ht_rw *r, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_leaky_relu;

	if (!ht_rw_on(r, id) || n->controls)
		return;
	for (int i = 0; i < 2; i++) {
		struct ht_value x = n->in[i], product = n->in[1 - i], of;
		double slope;

		if (!ht_match_with_const(product, HT_OP_Mul, &slope, &of) || !ht_value_eq(of, x))
			continue;
		if (!(slope > 0 && slope < 1)) {
			ht_rw_miss(r, id, 1, product.node, "its constant is not between 0 and 1");
		} else if (!ht_rw_only_user(r, product)) {
			ht_rw_miss(r, id, 2, product.node, "has another user");
		} else if (!ht_rw_same_shape(product.node, x)) {
			ht_rw_miss(r, id, 3, n, "has not the shape of its operand");
		} else {
			become(r, n, HT_OP_LeakyRelu, x, id);
			ht_attr_set_float(n, "alpha", (float)slope);
			return;
		}
	}
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	if (n->ins != 2 || n->outs != 1 || !ht_is_kernel_float(n->out[0].dtype))
		return;
	if (n->op == HT_OP_Mul)
		square(r, n);
	else if (n->op == HT_OP_Maximum && n->out[0].dtype != HT_F64)
		leaky_relu(r, n);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_activation = {
	.name = "activation",
	.summary = "recognises Square and LeakyRelu",
	.run = run,
};
