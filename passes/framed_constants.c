/* framed_constants: in a loop of TensorFlow 1, constants that passes made are in the loop's frame.
 *
 * TensorFlow refuses a node whose operands are of several frames.  A constant is in the frame that its control edges come from, and one without
 * any is outside of all loops.  So one that is read within a frame gets a control edge from another operand of the node that reads it.  One that
 * enters an inner frame gets it from what else enters that frame. */
#include "passes/rewrite.h"

struct frames {
	struct ht_rw r;
	int32_t *depth; /* by node id: how many frames results are in */
	struct ht_map
		entered; /* by name of a frame within another one: a node that enters it, or that such a node waits for */
};

static bool leaves(const struct ht_node *n)
{
	return n->op == HT_OP_Exit || n->op == HT_OP_RefExit;
}

static int32_t depth_of_needs(const struct frames *x, const struct ht_node *n)
{
	int32_t most = 0;

	for (int32_t i = 0; i < n->ins; i++)
		if (!ht_closes_loop(n->in[i].node, n) && x->depth[n->in[i].node->id] > most)
			most = x->depth[n->in[i].node->id];
	for (int32_t i = 0; i < n->controls; i++)
		if (x->depth[n->control[i]->id] > most)
			most = x->depth[n->control[i]->id];
	return most;
}

/* A node of the frame of `n`'s operands that it waits for; NULL: there is none. */
static struct ht_node *of_frame(const struct frames *x, const struct ht_node *n)
{
	int32_t depth = depth_of_needs(x, n);

	for (int32_t i = 0; i < n->ins; i++)
		if (!ht_closes_loop(n->in[i].node, n) && x->depth[n->in[i].node->id] == depth)
			return n->in[i].node;
	for (int32_t i = 0; i < n->controls; i++)
		if (x->depth[n->control[i]->id] == depth)
			return n->control[i];
	return NULL;
}

/* Only `n` reads the constant that it then has as operand `i`. */
static void put_into_frame(struct frames *x, struct ht_node *n, int32_t i, struct ht_node *of)
{
	struct ht_value v = n->in[i];
	const struct ht_tensor *t = ht_const_tensor(v);

	if (!t || !t->blob)
		return;
	v = ht_rw_const(&x->r, n, v.node->name, t->dtype, t->shape, t->blob);
	ht_rw_set_controls(&x->r, v.node, &of, 1);
	ht_rw_set_in(&x->r, n, i, v);
}

static void visit(struct frames *x, struct ht_node *n)
{
	struct ht_node *of = x->depth[n->id] > 0 && !ht_is(n, HT_CONSTANT) ? of_frame(x, n) : NULL;

	for (int32_t i = 0; of && i < n->ins; i++)
		if (ht_is(n->in[i].node, HT_CONSTANT) && !n->in[i].node->controls)
			put_into_frame(x, n, i, of);
}

/* What enters the frame of an Enter node, if that is known to be in another frame. */
static void note_entered(struct frames *x, const struct ht_node *n)
{
	if (depth_of_needs(x, n) > 0)
		ht_map_at(&x->entered, ht_attr_str(n, "frame_name", ""))->value = of_frame(x, n);
}

static void visit_enter(struct frames *x, struct ht_node *n)
{
	struct ht_node *of = ht_map_get(&x->entered, ht_attr_str(n, "frame_name", ""));

	if (of && depth_of_needs(x, n) == 0 && ht_is(n->in[0].node, HT_CONSTANT))
		put_into_frame(x, n, 0, of);
}

static bool has_frames(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_ENTERS))
			return true;
	return false;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct frames x = { 0 };
	struct ht_node **all;
	size_t count;

	if (!has_frames(g))
		return HT_OK;
	ht_rw_init(&x.r, g, c);
	all = ht_rw_nodes(&x.r, &count);
	x.depth = HT_NEW_ARRAY(x.r.arena, int32_t, g->ids);
	for (size_t i = 0; i < count; i++)
		x.depth[all[i]->id] =
			depth_of_needs(&x, all[i]) + ht_is(all[i], HT_ENTERS) - leaves(all[i]);
	ht_map_init(&x.entered, x.r.arena);
	for (size_t i = 0; i < count; i++)
		if (ht_is(all[i], HT_ENTERS))
			note_entered(&x, all[i]);
	for (size_t i = 0; i < count; i++)
		(ht_is(all[i], HT_ENTERS) ? visit_enter : visit)(&x, all[i]);
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_framed_constants = {
	.name = "framed_constants",
	.summary = "puts constants that loops of TensorFlow 1 read into their frames",
	.run = run,
};
