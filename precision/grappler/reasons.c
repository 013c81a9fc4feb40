/* Why a vertex is painted, or is not: for those who ask for the whole account. */
#include "precision/grappler/grappler.h"

static const char *unprocessed(const struct ht_painter *p, const struct ht_node *n)
{
	const struct ht_tf_op *op = p->graph.op[n->id];

	if (n->op == HT_OP_Placeholder || n->op == HT_OP_PlaceholderV2)
		return "fixed: a graph input";
	if (!ht_painter_has_device(p, n))
		return "fixed: placed on another device";
	if (op->functions && !p->emulate)
		return "fixed: its functions' signatures have its types";
	if (p->graph.graph->function && op->stateful)
		return "fixed: has state, in a function";
	return "fixed: fed, fetched or waited for";
}

static const char *denied(const struct ht_painter *p, uint32_t v)
{
	if (ht_list_of(p, v) == HT_LIST_DENY)
		return "deny list";
	return p->mark[v] & HT_MARK_DENIED ? "behind a deny op" : "its tensor list keeps float32";
}

static const char *no_definition(const struct ht_painter *p)
{
	return p->low == HT_F16 ? "the op is not defined in float16"
				: "the op is not defined in bfloat16";
}

static const char *by_list(struct ht_painter *p, uint32_t v)
{
	const struct ht_node *n = p->graph.vertex[v].node;
	enum ht_paint_list list = ht_list_of(p, v);

	if (!ht_paint_allows(&p->graph, v, p->low))
		return no_definition(p);
	if (n->op == HT_OP_NextIteration || n->op == HT_OP_Merge)
		return "its loop keeps float32";
	if (list == HT_LIST_NONE)
		return "on none of the lists";
	if (list == HT_LIST_INFER)
		return "infer list: neither between nor behind ops that go low";
	if (list == HT_LIST_CLEAR && !ht_paint_kernel(&p->graph, v, p->low, p->device))
		return p->low == HT_F16 ? "no float16 kernel" : "no bfloat16 kernel";
	return list == HT_LIST_CLEAR ? "clear list: nothing beside it goes low"
				     : "has to agree with what keeps float32";
}

static const char *why_not(struct ht_painter *p, uint32_t v)
{
	const struct ht_vertex *at = &p->graph.vertex[v];

	if (at->dtype != HT_F32)
		return "fixed: painting changes float32 only";
	if (!p->processed[at->node->id])
		return unprocessed(p, at->node);
	return p->mark[v] & HT_MARK_DENY ? denied(p, v) : by_list(p, v);
}

/* The first that feeds `v` and has the mark. */
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
			if (p->rule[v] == ht_rule_follows)
				followed[v] = feeder(p, v, HT_MARK_ALLOW);
			continue;
		}
		p->rule[v] = why_not(p, v);
		if (p->graph.vertex[v].dtype == HT_F32 && p->mark[v] & HT_MARK_DENIED &&
			ht_list_of(p, v) != HT_LIST_DENY)
			followed[v] = feeder(p, v, HT_MARK_DENY);
	}
}
