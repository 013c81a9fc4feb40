/* swish: x * sigmoid(x) becomes Silu.
 *
 * The value between x and the product has one use. float32 only: in a narrower type each part is
 * rounded, but the fused op rounds once. */
#include "passes/rewrite.h"

static void visit(struct ht_rw *r, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_swish;

	if (n->op != HT_OP_Mul || n->controls)
		return;
	for (int i = 0; i < 2; i++) {
		struct ht_value x = n->in[i];
		struct ht_node *gate = n->in[1 - i].node;

		if (gate->op != HT_OP_Sigmoid || !ht_value_eq(gate->in[0], x))
			continue;
		if (!ht_rw_only_user(r, n->in[1 - i])) {
			ht_rw_miss(r, id, 1, gate, "has another user");
		} else if (!ht_rw_plain(r, gate)) {
			ht_rw_miss(r, id, 2, gate, "has control edges");
		} else if (n->out[0].dtype != HT_F32) {
			ht_rw_miss(r, id, 3, n, "is not float32");
		} else {
			ht_rw_hit(r, id);
			ht_rw_absorb_between(n, x);
			ht_rw_become(r, n, HT_OP_Silu, &x, 1);
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
	.summary = "recognises Silu",
	.run = run,
};
