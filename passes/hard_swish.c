/* hard_swish: relu6(x + 3) / 6 becomes HardSigmoid, and its product with x HardSwish.
 *
 * The factors of the product may be in any order, and the constant may be 1/6 or a divisor.
 * simplify has turned Minimum and Maximum into Relu6; ClipByValue from 0 to 6 is accepted too.
 * Every value between has one use. float32 only: in a narrower type each part is rounded, but
 * the fused op rounds once. */
#include "passes/rewrite.h"

#include <math.h>

static bool is_sixth(double x)
{
	return fabs(x * 6 - 1) < 1e-6;
}

/* relu6(*x + 3). */
static bool is_gate(struct ht_value v, struct ht_value *x)
{
	struct ht_node *n = v.node;
	struct ht_value sum;
	double three, low, high;

	if (n->op != HT_OP_Relu6 &&
		(n->op != HT_OP_ClipByValue || !ht_const_splat(n->in[1], &low) || low != 0 ||
			!ht_const_splat(n->in[2], &high) || high != 6))
		return false;
	sum = n->in[0];
	return !n->controls && ht_is(sum.node, HT_ADDS) &&
	       ht_match_with_const(sum, sum.node->op, &three, x) && three == 3;
}

static bool is_product_with_gate(
	const struct ht_product *p, struct ht_value *x, struct ht_value *gate)
{
	for (int i = 0; i < 2; i++) {
		*x = p->of[i];
		*gate = p->of[1 - i];
		if (gate->node->op == HT_OP_HardSigmoid && p->factor == 1 &&
			ht_value_eq(gate->node->in[0], *x))
			return true;
		if (is_gate(*gate, x) && ht_value_eq(*x, p->of[i]) && is_sixth(p->factor))
			return true;
	}
	return false;
}

static bool may_fuse(struct ht_rw *r, struct ht_node *n, struct ht_value gate, enum ht_fusion_id id)
{
	if (!ht_rw_on(r, id))
		return false;
	if (!ht_rw_only_user(r, gate))
		ht_rw_miss(r, id, 1, gate.node, "has another user");
	else if (n->out[0].dtype != HT_F32)
		ht_rw_miss(r, id, 2, n, "is not float32");
	else
		return true;
	return false;
}

static void fuse(struct ht_rw *r, struct ht_node *n, struct ht_value x, enum ht_op op)
{
	ht_rw_hit(r, op == HT_OP_HardSwish ? HT_FUSION_hard_swish : HT_FUSION_hard_sigmoid);
	ht_rw_absorb_between(n, x);
	ht_rw_become(r, n, op, &x, 1);
}

/* Whether a later node multiplies the gate by x: then that node is rewritten. */
static bool is_multiplied(const struct ht_rw *r, struct ht_node *n, struct ht_value x)
{
	struct ht_node *user = ht_rw_only_user(r, ht_out(n, 0));

	return user && user->op == HT_OP_Mul &&
	       (ht_value_eq(user->in[0], x) || ht_value_eq(user->in[1], x)) &&
	       ht_rw_on(r, HT_FUSION_hard_swish);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct ht_product p;
	struct ht_value x, gate;

	if (n->outs != 1 || !ht_rw_product(r, n, &p))
		return;
	if (p.count == 2 && is_product_with_gate(&p, &x, &gate)) {
		if (may_fuse(r, n, gate, HT_FUSION_hard_swish))
			fuse(r, n, x, HT_OP_HardSwish);
	} else if (p.count == 1 && is_sixth(p.factor) && is_gate(p.of[0], &x) &&
		   !is_multiplied(r, n, x) && may_fuse(r, n, p.of[0], HT_FUSION_hard_sigmoid)) {
		fuse(r, n, x, HT_OP_HardSigmoid);
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_hard_swish = {
	.name = "hard_swish",
	.summary = "recognises HardSwish and HardSigmoid",
	.run = run,
};
