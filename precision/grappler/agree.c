/* Makes types agree after painting: loop-carried values, and casts of the graph. */
#include "precision/grappler/grappler.h"

#include <string.h>

static uint32_t type_vertex(const struct ht_painter *p, const struct ht_node *n, const char *attr)
{
	const struct ht_paint_graph *g = &p->graph;

	for (uint32_t v = g->first_vertex[n->id]; v < g->vertex_end[n->id]; v++)
		if (g->vertex[v].attr >= 0 &&
			!strcmp(g->op[n->id]->attr[g->vertex[v].attr].name, attr))
			return v;
	return HT_NO_VERTEX;
}

static bool is_merge(const struct ht_use *u)
{
	return u->arg >= 0 && ht_is(u->node, HT_MERGES);
}

static void disallow(struct ht_painter *p, uint32_t v)
{
	if (v != HT_NO_VERTEX)
		p->mark[v] &= (uint16_t)~HT_MARK_ALLOW;
}

/* If one Merge of a loop-carried value keeps float32, all of them do. */
static void agree_round_loop(
	struct ht_painter *p, const struct ht_node *next, const struct ht_uses *uses)
{
	uint32_t own = type_vertex(p, next, "T");
	bool low = true;

	for (const struct ht_use *u = uses->of[next->id]; u; u = u->next)
		low = low &&
		      (!is_merge(u) || ht_painter_is_allowed(p, type_vertex(p, u->node, "T")));
	for (const struct ht_use *u = uses->of[next->id]; !low && u; u = u->next)
		if (is_merge(u))
			disallow(p, type_vertex(p, u->node, "T"));
	if (low)
		ht_painter_allow(p, own, HT_BY(ROUND_LOOP));
	else
		disallow(p, own);
}

void ht_painter_agree_round_loops(struct ht_painter *p, const struct ht_uses *uses)
{
	for (const struct ht_node *n = p->graph.graph->first; n; n = n->next)
		if (ht_is(n, HT_ITERATES) && p->graph.op[n->id])
			agree_round_loop(p, n, uses);
}

/* If only low operands read a Cast of the graph to float32, it casts to the low type instead. */
void ht_painter_retarget_casts(struct ht_painter *p, const struct ht_uses *uses)
{
	const struct ht_paint_graph *g = &p->graph;

	for (const struct ht_node *n = g->graph->first; n; n = n->next) {
		uint32_t to = ht_is(n, HT_CASTS) && g->op[n->id] ? type_vertex(p, n, "DstT")
								 : HT_NO_VERTEX;
		bool any = false, all = true;
		if (to == HT_NO_VERTEX || !ht_painter_is_f32(p, to))
			continue;
		for (const struct ht_use *u = uses->of[n->id]; u; u = u->next) {
			uint32_t v;
			if (u->arg < 0)
				continue;
			v = g->op[u->node->id]
				    ? g->in_vertex[g->first_in[u->node->id] + (uint32_t)u->arg]
				    : HT_NO_VERTEX;
			any = true;
			all = all && ht_painter_is_allowed(p, v);
		}
		if (any && all && !(g->graph->function && uses->is_output[n->id]))
			ht_painter_allow(p, to, HT_BY(LOW_CAST));
	}
}

/* TensorFlow's pass fails on a graph in which a node other than a Merge reads the value of a
 * NextIteration. */
const struct ht_node *ht_painter_odd_loop(const struct ht_graph *g, const struct ht_uses *uses)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (const struct ht_use *u = ht_is(n, HT_ITERATES) ? uses->of[n->id] : NULL; u;
			u = u->next)
			if (u->arg >= 0 && !is_merge(u))
				return n;
	return NULL;
}
