/* How deep in branches and loops of TensorFlow 1 each node is. Tensors within them cannot be fetched. */
#include "frontend/graphdef.h"

static int32_t deepest_need(const int32_t *depth, const struct ht_node *n)
{
	int32_t d = 0;

	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_node *need = n->in[i].node;

		if (!ht_closes_loop(need, n) && depth[need->id] > d)
			d = depth[need->id];
	}
	for (int32_t i = 0; i < n->controls; i++)
		if (depth[n->control[i]->id] > d)
			d = depth[n->control[i]->id];
	return d;
}

static bool is_of_loop(const struct ht_node *n)
{
	if (ht_is(n, HT_SWITCHES))
		return n->ins == 2 && n->in[1].node->op == HT_OP_LoopCond;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_is(n->in[i].node, HT_ENTERS | HT_ITERATES))
			return true;
	return false;
}

/* The change of depth from a node's operands to its results: 1 into a loop or branch, -1 out of it. */
static int32_t step(const struct ht_node *n)
{
	if (ht_is(n, HT_ENTERS | HT_DISPATCHES))
		return 1;
	if (n->op == HT_OP_Exit || n->op == HT_OP_RefExit)
		return -1;
	if (ht_is(n, HT_SWITCHES | HT_MERGES) && !is_of_loop(n))
		return ht_is(n, HT_SWITCHES) ? 1 : -1;
	return 0;
}

int32_t *ht_control_depth(const struct ht_graph *g, struct ht_arena *a)
{
	int32_t *depth = HT_NEW_ARRAY(a, int32_t, g->ids);

	for (const struct ht_node *n = g->first; n; n = n->next) {
		int32_t d = deepest_need(depth, n) + step(n);

		depth[n->id] = d > 0 ? d : 0;
	}
	return depth;
}
