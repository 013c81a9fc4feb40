/* swish: x * sigmoid(x) becomes Silu, x * relu6(x + 3) / 6 becomes HardSwish.
 *
 * The value between x and the product has one use.  float32 only: in a narrower type the parts
 * were rounded one by one, and the fused op rounds once. */
#include "passes/rewrite.h"

#include <math.h>

static bool is_hard_gate(struct ht_value v, struct ht_value x)
{
	struct ht_value y;
	double three;

	if (v.node->op != HT_OP_Relu6 || v.node->controls)
		return false;
	return ht_is_add(v.node->in[0].node->op) &&
	       ht_match_with_const(v.node->in[0], v.node->in[0].node->op, &three, &y) &&
	       three == 3 && ht_value_eq(y, x);
}

static void fuse(struct ht_rw *r, struct ht_node *n, struct ht_value x, enum ht_op op)
{
	ht_rw_absorb_between(n, x);
	ht_rw_become(r, n, op, &x, 1);
	ht_attr_set_type(n, "T", HT_F32);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct ht_product p;

	if (n->outs != 1 || n->out[0].dtype != HT_F32 || !ht_rw_product(r, n, &p) || p.count != 2)
		return;
	for (int i = 0; i < 2; i++) {
		struct ht_value x = p.of[i], gate = p.of[1 - i];

		if (!ht_rw_only_user(r, gate))
			continue;
		if (p.factor == 1 && gate.node->op == HT_OP_Sigmoid && !gate.node->controls &&
			ht_value_eq(gate.node->in[0], x)) {
			fuse(r, n, x, HT_OP_Silu);
			return;
		}
		if (fabs(p.factor * 6 - 1) < 1e-6 && is_hard_gate(gate, x)) {
			fuse(r, n, x, HT_OP_HardSwish);
			return;
		}
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_swish = {
	.name = "swish",
	.summary = "recognises Silu and HardSwish",
	.run = run,
};
