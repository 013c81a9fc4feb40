/* Control edges of a node that is to be replaced go to Identities behind its results, so that none is lost with it. */
#include "passes/rewrite_uses.h"

bool ht_rw_step_aside(struct ht_rw *r, struct ht_node *n, struct ht_aside *a)
{
	*a = (struct ht_aside){ .n = n, .control = n->control, .controls = n->controls };
	a->behind = HT_NEW_ARRAY(r->arena, struct ht_node *, (size_t)n->outs);
	if (n->op == HT_OP_OPAQUE || ht_op_info(n->op)->effects || !n->ins)
		return false; /* the edges say when it runs, or on which side of a branch */
	for (int32_t i = 0; i < n->outs; i++) {
		struct ht_value v;

		if (!ht_rw_uses(r, ht_out(n, i)))
			continue;
		v = ht_rw_unary(
			r, n, HT_OP_Identity, ht_rw_name_within(r, n, "behind"), ht_out(n, i));
		ht_node_move(v.node, n->next);
		ht_rw_replace_behind(r, ht_out(n, i), v);
		ht_rw_set_controls(r, v.node, a->control, a->controls);
		a->behind[i] = v.node;
		if (!a->first)
			a->first = v.node;
	}
	if (!a->first)
		return false;
	ht_rw_move_control_edges(r, n, a->first);
	ht_rw_set_controls(r, n, NULL, 0);
	return true;
}

void ht_rw_step_back(struct ht_rw *r, const struct ht_aside *a)
{
	ht_rw_set_controls(r, a->n, a->control, a->controls);
	ht_rw_move_control_edges(r, a->first, a->n);
	for (int32_t i = 0; i < a->n->outs; i++)
		if (a->behind[i])
			ht_rw_replace(r, ht_out(a->behind[i], 0), ht_out(a->n, i));
}
