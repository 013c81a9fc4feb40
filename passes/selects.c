/* selects: what only counts where a mask holds is computed from what the mask has selected.
 *
 *   s = SelectV2(m, v, e), SelectV2(m, f(v), d)  →  SelectV2(m, f(s), d)
 *
 * Where the mask holds, s is v; elsewhere f(…) is not selected.  A recurrent layer with a mask selects its new state and what it computes from
 * it.  So v has no other use than its selection, and both are one kernel.  The values are the same, bit for bit. */
#include "passes/rewrite.h"

enum { MOST_DEPTH = 8, MOST_USES = 1024 /* of f */ };

struct selection {
	const struct ht_rw *r;
	struct ht_node *node;
	struct ht_value mask;
	int left; /* how many uses may still be looked at */
};

/* Whether `n` computes each element of a result like the selection's from the element there. */
static bool computes_there(const struct selection *s, const struct ht_node *n)
{
	return ht_is(n, HT_ELEMENTWISE) && n->outs == 1 && !n->controls &&
	       !ht_op_info(n->op)->effects && ht_is_float(n->out[0].dtype) &&
	       ht_shape_eq(n->out[0].shape, s->node->out[0].shape);
}

/* Whether all that depends on `v`, but for the selection itself, is selected by the mask. */
static bool is_masked(struct selection *s, struct ht_value v, int depth)
{
	if (!depth || ht_rw_is_output(s->r, v) || ht_rw_has_control_users(s->r, v.node) ||
		!ht_shape_eq(ht_type_of(v)->shape, s->node->out[0].shape))
		return false;
	for (const struct ht_rw_use *u = ht_rw_first_use(s->r, v.node); u;
		u = ht_rw_next_use(s->r, u)) {
		const struct ht_node *n = u->node;

		if (--s->left < 0)
			return false;
		if (!ht_value_eq(n->in[u->arg], v))
			continue;
		if (n->op == HT_OP_SelectV2 && u->arg == 1 && ht_value_eq(n->in[0], s->mask) &&
			ht_shape_eq(n->out[0].shape, s->node->out[0].shape))
			continue;
		if (!computes_there(s, n) || !is_masked(s, ht_out(u->node, 0), depth - 1))
			return false;
	}
	return true;
}

/* Whether `v` needs nothing of the graph, so that the selection may stand in front of all else. */
static bool is_given(struct ht_value v)
{
	return ht_is_const(v) || ht_is(v.node, HT_ARGUMENT);
}

/* What computes from what `n` selects reads the selection.  Other selections stay as they are, so that equal ones can be found. */
static void read_selected(struct ht_rw *r, struct ht_node *n)
{
	const struct ht_value v = n->in[1];
	const int uses = ht_rw_uses(r, v);
	struct ht_rw_use *all = HT_NEW_ARRAY(r->arena, struct ht_rw_use, (size_t)uses);
	int count = 0;

	for (const struct ht_rw_use *u = ht_rw_first_use(r, v.node); u; u = ht_rw_next_use(r, u))
		if (ht_value_eq(u->node->in[u->arg], v) && u->node->op != HT_OP_SelectV2)
			all[count++] = *u;
	for (int i = 0; i < count; i++)
		ht_rw_set_in(r, all[i].node, all[i].arg, ht_out(n, 0));
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct selection s = { .r = r, .node = n, .left = MOST_USES };

	if (n->op != HT_OP_SelectV2 || !ht_shape_known(n->out[0].shape) ||
		!ht_is_float(n->out[0].dtype) || !is_given(n->in[2]) || is_given(n->in[1]))
		return;
	s.mask = n->in[0];
	if (ht_rw_uses(r, n->in[1]) > 1 && is_masked(&s, n->in[1], MOST_DEPTH))
		read_selected(r, n);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	HT_TRY(ht_rw_each(g, c, visit));
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_selects = {
	.name = "selects",
	.summary = "computes what only counts where a mask holds from what the mask has selected",
	.run = run,
};
