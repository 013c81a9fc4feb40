/* Why a vertex is painted or not, for complete reports. */
#include "precision/grappler/grappler.h"

static const struct ht_dtype_reason *unprocessed(
	const struct ht_painter *p, const struct ht_node *n)
{
	const struct ht_tf_op *op = p->graph.op[n->id];

	if (n->op == HT_OP_Placeholder || n->op == HT_OP_PlaceholderV2)
		return HT_BY(FIXED_INPUT);
	if (!ht_painter_has_device(p, n))
		return HT_BY(FIXED_DEVICE);
	if (op->functions && !p->emulate)
		return HT_BY(FIXED_SIGNATURE);
	if (p->graph.graph->function && op->stateful)
		return HT_BY(FIXED_STATE);
	return HT_BY(FIXED_FETCHED);
}

static const struct ht_dtype_reason *denied(const struct ht_painter *p, uint32_t v)
{
	if (ht_list_of(p, v) == HT_LIST_DENY)
		return HT_BY(DENY_LIST);
	return p->mark[v] & HT_MARK_DENIED ? HT_BY(BEHIND_DENIED) : HT_BY(TENSOR_LIST_KEEPS);
}

static const struct ht_dtype_reason *no_definition(const struct ht_painter *p)
{
	return p->low == HT_F16 ? HT_BY(UNDEFINED_F16) : HT_BY(UNDEFINED_BF16);
}

static const struct ht_dtype_reason *by_list(struct ht_painter *p, uint32_t v)
{
	const struct ht_node *n = p->graph.vertex[v].node;
	enum ht_paint_list list = ht_list_of(p, v);

	if (!ht_paint_allows(&p->graph, v, p->low))
		return no_definition(p);
	if (ht_is(n, HT_ITERATES | HT_MERGES))
		return HT_BY(LOOP_KEEPS);
	if (list == HT_LIST_NONE)
		return HT_BY(NO_LIST);
	if (list == HT_LIST_INFER)
		return HT_BY(INFER_LIST);
	if (list == HT_LIST_CLEAR && !ht_paint_kernel(&p->graph, v, p->low, p->device))
		return p->low == HT_F16 ? HT_BY(NO_KERNEL_F16) : HT_BY(NO_KERNEL_BF16);
	return list == HT_LIST_CLEAR ? HT_BY(CLEAR_LIST) : HT_BY(AGREES);
}

static const struct ht_dtype_reason *why_not(struct ht_painter *p, uint32_t v)
{
	const struct ht_vertex *at = &p->graph.vertex[v];

	if (at->dtype != HT_F32)
		return HT_BY(FIXED_PAINTING);
	if (!p->processed[at->node->id])
		return unprocessed(p, at->node);
	return p->mark[v] & HT_MARK_DENY ? denied(p, v) : by_list(p, v);
}

/* The first node with the mark that feeds `v`. */
static const struct ht_node *feeder(const struct ht_painter *p, uint32_t v, uint16_t mark)
{
	const struct ht_paint_graph *g = &p->graph;

	for (uint32_t i = g->fanin_start[v]; i < g->fanin_start[v + 1]; i++)
		if (p->mark[g->fanin[i]] & mark)
			return g->vertex[g->fanin[i]].node;
	return NULL;
}

void ht_painter_reasons(struct ht_painter *p, const bool *low, const struct ht_node **followed)
{
	for (uint32_t v = 0; v < p->graph.vertices; v++) {
		if (low[v]) {
			if (p->rule[v] == HT_BY(FOLLOWS_ALLOWED))
				followed[v] = feeder(p, v, HT_MARK_ALLOW);
			continue;
		}
		p->rule[v] = why_not(p, v);
		if (p->graph.vertex[v].dtype == HT_F32 && p->mark[v] & HT_MARK_DENIED &&
			ht_list_of(p, v) != HT_LIST_DENY)
			followed[v] = feeder(p, v, HT_MARK_DENY);
	}
}
