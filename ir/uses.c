/* Who uses which result. */
#include "ir/ir.h"

static void add_use(
	struct ht_uses *u, struct ht_arena *a, struct ht_node *of, struct ht_node *by, int32_t arg)
{
	struct ht_use *use = HT_NEW(a, struct ht_use);

	use->node = by;
	use->arg = arg;
	use->next = u->of[of->id];
	u->of[of->id] = use;
}

/* Walks backwards, so that each list is in the order of the graph. */
static void add_uses_of_operands(struct ht_uses *u, struct ht_arena *a, struct ht_node *n)
{
	for (int32_t i = n->controls - 1; i >= 0; i--)
		add_use(u, a, n->control[i], n, -1);
	for (int32_t i = n->ins - 1; i >= 0; i--)
		add_use(u, a, n->in[i].node, n, i);
}

static void mark_ports(struct ht_uses *u, const struct ht_port *p)
{
	for (; p; p = p->next)
		if (p->value.node)
			u->is_output[p->value.node->id] = true;
}

struct ht_uses ht_graph_uses(struct ht_graph *g, struct ht_arena *a)
{
	struct ht_uses u;

	u.graph = g;
	u.of = HT_NEW_ARRAY(a, struct ht_use *, g->ids);
	u.is_output = HT_NEW_ARRAY(a, bool, g->ids);
	for (struct ht_node *n = g->last; n; n = n->prev)
		add_uses_of_operands(&u, a, n);
	for (const struct ht_entry *e = g->entries; e; e = e->next)
		mark_ports(&u, e->outputs);
	if (g->function) {
		mark_ports(&u, g->function->rets);
		mark_ports(&u, g->function->control_rets);
	}
	return u;
}

static int port_uses(const struct ht_port *p, struct ht_value v)
{
	int count = 0;

	for (; p; p = p->next)
		count += ht_value_eq(p->value, v);
	return count;
}

int ht_use_count(const struct ht_uses *u, struct ht_value v)
{
	int count = 0;

	for (const struct ht_use *use = u->of[v.node->id]; use; use = use->next)
		if (use->arg >= 0 && use->node->in[use->arg].index == v.index)
			count++;
	if (!u->is_output[v.node->id])
		return count;
	for (const struct ht_entry *e = u->graph->entries; e; e = e->next)
		count += port_uses(e->outputs, v);
	if (u->graph->function)
		count += port_uses(u->graph->function->rets, v);
	return count;
}
