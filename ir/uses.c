/* The uses of each result, and what nodes depend on. */
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

static void count_use(struct ht_uses *u, struct ht_value v)
{
	if (v.node && v.index >= 0 && v.index < v.node->outs)
		u->count[u->first_count[v.node->id] + (size_t)v.index]++;
}

/* Walks backwards, so that each list has the order of the graph. */
static void add_uses_of_operands(struct ht_uses *u, struct ht_arena *a, struct ht_node *n)
{
	for (int32_t i = n->controls - 1; i >= 0; i--)
		add_use(u, a, n->control[i], n, -1);
	for (int32_t i = n->ins - 1; i >= 0; i--) {
		add_use(u, a, n->in[i].node, n, i);
		count_use(u, n->in[i]);
	}
}

static void mark_ports(struct ht_uses *u, const struct ht_port *p)
{
	for (; p; p = p->next)
		if (p->value.node)
			u->is_output[p->value.node->id] = true;
}

static void mark_outputs(struct ht_uses *u, const struct ht_port *p)
{
	mark_ports(u, p);
	for (; p; p = p->next)
		count_use(u, p->value);
}

static void make_counts(struct ht_uses *u, struct ht_arena *a)
{
	size_t results = 0;

	u->first_count = HT_NEW_ARRAY(a, size_t, u->graph->ids);
	for (const struct ht_node *n = u->graph->first; n; n = n->next) {
		u->first_count[n->id] = results;
		results += (size_t)n->outs;
	}
	u->count = HT_NEW_ARRAY(a, int, results);
}

struct ht_uses ht_graph_uses(struct ht_graph *g, struct ht_arena *a)
{
	struct ht_uses u;

	u.graph = g;
	u.of = HT_NEW_ARRAY(a, struct ht_use *, g->ids);
	u.is_output = HT_NEW_ARRAY(a, bool, g->ids);
	make_counts(&u, a);
	for (struct ht_node *n = g->last; n; n = n->prev)
		add_uses_of_operands(&u, a, n);
	for (const struct ht_entry *e = g->entries; e; e = e->next)
		mark_outputs(&u, e->outputs);
	if (g->function) {
		mark_outputs(&u, g->function->rets);
		mark_ports(&u, g->function->control_rets);
	}
	return u;
}

int ht_use_count(const struct ht_uses *u, struct ht_value v)
{
	return v.index < v.node->outs ? u->count[u->first_count[v.node->id] + (size_t)v.index] : 0;
}

void ht_mark_operands(const struct ht_graph *g, bool *marked, bool controls)
{
	struct ht_arena *a = ht_arena_within(g->arena);
	const struct ht_node **wait = HT_NEW_ARRAY(a, const struct ht_node *, g->nodes);
	size_t waits = 0;

	for (const struct ht_node *n = g->first; n; n = n->next)
		if (marked[n->id])
			wait[waits++] = n;
	while (waits) {
		const struct ht_node *n = wait[--waits];

		for (int32_t i = 0; i < n->ins + (controls ? n->controls : 0); i++) {
			const struct ht_node *of =
				i < n->ins ? n->in[i].node : n->control[i - n->ins];

			if (marked[of->id])
				continue;
			marked[of->id] = true;
			wait[waits++] = of;
		}
	}
	ht_arena_release(a);
}

bool ht_needs_marked(const struct ht_node *n, const bool *marked)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (marked[n->in[i].node->id])
			return true;
	for (int32_t i = 0; i < n->controls; i++)
		if (marked[n->control[i]->id])
			return true;
	return false;
}
