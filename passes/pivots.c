/* pivots: constants that are the results of a branch of TensorFlow 1.
 *
 * A constant of a branch waits for a node of its side, and so nothing but this control edge says which side it is on; passes that fold
 * constants leave such edges out.  Where both operands of a Merge are constants that wait for the two results of Switches with one predicate, they
 * become results of Switches themselves.  A loop with `break` has such a Merge. */
#include "passes/functional_branches.h"
#include "passes/rewrite.h"

enum { MOST_FORWARDED = 20 };

/* The Switch, and which of its results, that a node waits for through nodes that hand on or wait; no node: none is found. */
static struct ht_value awaited_by(const struct ht_node *n)
{
	for (int i = 0; i < MOST_FORWARDED; i++) {
		struct ht_value v;

		if (n->ins == 1 && ht_is(n, HT_FORWARDS)) {
			v = n->in[0];
			if (ht_is(v.node, HT_SWITCHES) && v.node->ins == 2)
				return v;
			n = v.node;
		} else if (!n->ins && n->controls == 1) {
			n = n->control[0];
		} else {
			break;
		}
	}
	return (struct ht_value){ 0 };
}

/* The constant of a side that operand `i` of a Merge is; NULL: it is none. */
static const struct ht_tensor *constant_of_side(
	const struct ht_node *n, int32_t i, struct ht_value *side)
{
	struct ht_value v = ht_predicate(n->in[i]);
	const struct ht_tensor *t = ht_const_tensor(v);

	if (!t || !t->blob)
		return NULL;
	*side = awaited_by(v.node);
	return side->node ? t : NULL;
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	const struct ht_tensor *t[2];
	struct ht_value side[2], in[2];
	struct ht_node *made;

	if (!ht_is(n, HT_MERGES) || n->ins != 2)
		return;
	for (int32_t i = 0; i < 2; i++) {
		t[i] = constant_of_side(n, i, &side[i]);
		if (!t[i])
			return;
	}
	if (side[0].index == side[1].index ||
		!ht_value_eq(ht_predicate(side[0].node->in[1]), ht_predicate(side[1].node->in[1])))
		return;
	for (int32_t i = 0; i < 2; i++) {
		in[0] = ht_rw_const(r, n, n->name, t[i]->dtype, t[i]->shape, t[i]->blob);
		in[1] = side[i].node->in[1];
		made = ht_rw_node(r, n, HT_OP_Switch, n->name, in, 2, *ht_type_of(in[0]));
		ht_node_set_outs(made, 2);
		made->out[0] = made->out[1] = *ht_type_of(in[0]);
		ht_attr_set_type(made, "T", t[i]->dtype);
		ht_rw_set_in(r, n, i, (struct ht_value){ .node = made, .index = side[i].index });
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_pivots = {
	.name = "pivots",
	.summary = "lets constants of branches of TensorFlow 1 depend on the predicate",
	.run = run,
};
