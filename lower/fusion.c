/* The regions of a graph without its kernels, for callers that estimate costs. */
#include "lower/inside.h"

bool ht_has_float_shapes(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++)
			if (ht_is_float(n->out[i].dtype) && !ht_shape_known(n->out[i].shape))
				return false;
	return true;
}

struct ht_fusion ht_fusion_of(struct ht_graph *g, struct ht_fusions *fusions, struct ht_arena *a)
{
	struct lower l = { .g = g, .arena = a, .scratch = a, .fusions = fusions };
	uint32_t position = 0;

	l.uses = ht_graph_uses(g, a);
	l.place = HT_NEW_ARRAY(a, enum place, g->ids);
	l.owner = HT_NEW_ARRAY(a, struct ht_node *, g->ids);
	l.root = HT_NEW_ARRAY(a, struct ht_node *, g->ids);
	l.order = HT_NEW_ARRAY(a, uint32_t, g->ids);
	l.kernel_operands = HT_NEW_ARRAY(a, int32_t, g->ids);
	for (struct ht_node *n = g->first; n; n = n->next)
		l.order[n->id] = position++;
	lower_regions(&l);
	return (struct ht_fusion){ .kernel = l.owner, .root = l.root };
}
