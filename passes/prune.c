/* prune: what the entry's outputs do not need goes.
 *
 * Needed is what the outputs reach through operands and control edges, as when TensorFlow runs a
 * fetch: an effect counts when something asks for it.  The entry's inputs stay.  Other entries and
 * functions that nothing calls go too, and control edges that order nothing: those from nodes
 * before which nothing with an effect runs; an Assert of a constant that holds has no effect.  An edge
 * from a node that only reads variables orders these reads alone: where nobody else needs the node, as is so for
 * the gradient of an input in TensorFlow's tuples of gradients, the reads that are needed take its place.
 * Without an entry in the context the graph's entries all count; a graph that has none, and is no body
 * with an entry in the context, is left alone. */
#include "passes/rewrite.h"

struct prune {
	struct ht_graph *g;
	struct ht_pass_context *c;
	bool *needed;           /* by node id */
	bool *effectful;        /* by node id: it or something it needs has an effect */
	bool *acts;             /* likewise, another than that ReadVariableOp reads */
	uint32_t *walked, walk; /* by node id: the last walk that met it */
	bool sparing;           /* edges from what only reads need nothing */
	bool dead;              /* values may be: there are Switches */
	struct ht_node **stack;
	size_t count, cap;
};

static void need(struct prune *p, struct ht_node *n)
{
	if (!n || p->needed[n->id])
		return;
	p->needed[n->id] = true;
	p->stack = ht_grow(p->c->scratch, p->stack, p->count, &p->cap, sizeof *p->stack);
	p->stack[p->count++] = n;
}

static void need_ports(struct prune *p, const struct ht_port *port)
{
	for (; port; port = port->next)
		need(p, port->value.node);
}

static void mark_entry(struct prune *p, const struct ht_entry *e)
{
	need_ports(p, e->outputs);
	need_ports(p, e->targets);
	need_ports(p, e->inputs);
}

static bool only_reads(const struct prune *p, const struct ht_node *n)
{
	return !p->dead && p->effectful[n->id] && !p->acts[n->id];
}

static void mark(struct prune *p)
{
	if (p->c->entry)
		mark_entry(p, p->c->entry);
	for (const struct ht_entry *e = p->g->entries; e && !p->c->entry; e = e->next)
		mark_entry(p, e);
	while (p->count) {
		struct ht_node *n = p->stack[--p->count];

		for (int32_t i = 0; i < n->ins; i++)
			need(p, n->in[i].node);
		for (int32_t i = 0; i < n->controls; i++)
			if (!p->sparing || !only_reads(p, n->control[i]))
				need(p, n->control[i]);
	}
}

static bool always_holds(const struct ht_node *n)
{
	const struct ht_tensor *t = n->op == HT_OP_Assert ? ht_const_tensor(n->in[0]) : NULL;

	return t && t->dtype == HT_BOOL && t->blob && t->blob->n == 1 && *(const char *)t->blob->p;
}

/* Whether one of the nodes that `n` needs is among `some`. */
static bool needs_some(const struct ht_node *n, const bool *some)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (some[n->in[i].node->id])
			return true;
	for (int32_t i = 0; i < n->controls; i++)
		if (some[n->control[i]->id])
			return true;
	return false;
}

static bool is_handle(const struct ht_node *n)
{
	return (ht_is(n, HT_VARIABLE) || ht_is_table(n)) && n->outs == 1 &&
	       n->out[0].dtype == HT_RESOURCE;
}

/* It draws from a stream of its own, which nothing else sees. */
static bool is_random(const struct ht_node *n)
{
	return ht_op_info(n->op)->effects == HT_RANDOM;
}

/* Kernels behind it take a size that it computes, which no operand says. */
static bool sets_size(const struct ht_node *n)
{
	return ht_computes_size(n) && n->graph->closed;
}

/* A table whose contents are constants, or what reads one: nothing changes it. */
static bool is_of_filled_table(const struct ht_node *n)
{
	const struct ht_node *table =
		n->ins && ht_op_info(n->op)->effects == HT_READS ? n->in[0].node : n;

	return ht_table_part(table, "_keys") && ht_table_part(table, "_values");
}

static bool has_effect(const struct ht_node *n)
{
	return ht_op_info(n->op)->effects && !always_holds(n) && !is_of_filled_table(n);
}

static void look_for_effects(struct prune *p, const struct ht_node *n)
{
	bool own = has_effect(n) || sets_size(n);

	p->effectful[n->id] = own || needs_some(n, p->effectful);
	own = own && !ht_is(n, HT_READS_VARIABLE) && !is_handle(n) && !is_random(n);
	p->acts[n->id] = own || needs_some(n, p->acts);
}

/* A dead value keeps an effect from happening. */
static bool may_stop(const struct prune *p, const struct ht_node *n)
{
	return p->dead && ht_op_info(n->op)->effects;
}

static void drop_idle_edges(struct prune *p)
{
	for (struct ht_node *n = p->g->first; n; n = n->next)
		p->dead = p->dead || ht_is(n, HT_SWITCHES | HT_DISPATCHES);
	for (struct ht_node *n = p->g->first; n; n = n->next) {
		int32_t kept = 0;

		look_for_effects(p, n);
		for (int32_t i = 0; i < n->controls; i++)
			if (p->effectful[n->control[i]->id] || may_stop(p, n))
				n->control[kept++] = n->control[i];
		n->controls = kept;
	}
}

/* ---- edges that order reads ---- */

/* Nodes of which each asks for a walk over the graph. */
enum { MOST_WALKS = 1000 };

static void add_unseen(struct prune *p, struct ht_node *n)
{
	if (p->walked[n->id] == p->walk || !p->effectful[n->id])
		return;
	p->walked[n->id] = p->walk;
	p->stack = ht_grow(p->c->scratch, p->stack, p->count, &p->cap, sizeof *p->stack);
	p->stack[p->count++] = n;
}

/* The edges of `n`, with needed reads in place of nodes that are not needed. */
static void take_reads(struct prune *p, struct ht_node *n)
{
	struct ht_node **kept = NULL;
	size_t count = 0, cap = 0;

	p->walk++;
	for (int32_t i = 0; i < n->controls; i++)
		add_unseen(p, n->control[i]);
	while (p->count) {
		struct ht_node *from = p->stack[--p->count];

		if (p->needed[from->id] &&
			(ht_is(from, HT_READS_VARIABLE) || is_random(from) || p->acts[from->id])) {
			kept = ht_grow(p->c->scratch, kept, count, &cap, sizeof *kept);
			kept[count++] = from;
			continue;
		}
		for (int32_t i = 0; i < from->ins; i++)
			add_unseen(p, from->in[i].node);
		for (int32_t i = 0; i < from->controls; i++)
			add_unseen(p, from->control[i]);
	}
	ht_node_set_controls(n, kept, (int32_t)count);
}

static bool has_unneeded(const struct prune *p, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->controls; i++)
		if (!p->needed[n->control[i]->id])
			return true;
	return false;
}

/* Random ops that were needed draw in any case: streams go on in other runs. */
static void need_again(struct prune *p, bool sparing)
{
	for (uint32_t i = 0; i < p->g->ids; i++)
		p->needed[i] = false;
	for (struct ht_node *n = p->g->first; n; n = n->next)
		if (is_random(n))
			need(p, n);
	p->sparing = sparing;
	mark(p);
}

static void spare_reads(struct prune *p)
{
	size_t walks = 0;

	p->walked = HT_NEW_ARRAY(p->c->scratch, uint32_t, p->g->ids);
	need_again(p, true);
	for (const struct ht_node *n = p->g->first; n; n = n->next)
		walks += p->needed[n->id] && has_unneeded(p, n);
	if (walks > MOST_WALKS) {
		need_again(p, false);
		return;
	}
	for (struct ht_node *n = p->g->first; n && walks; n = n->next)
		if (p->needed[n->id] && has_unneeded(p, n))
			take_reads(p, n);
}

static void drop_entries(struct prune *p)
{
	for (struct ht_entry **e = &p->g->entries; *e;) {
		if (*e != p->c->entry)
			*e = (*e)->next;
		else
			e = &(*e)->next;
	}
}

/* Back edges go first, so that every node is unused when it is removed. */
static void remove_rest(struct prune *p)
{
	struct ht_node *n, *prev;

	for (n = p->g->last; n; n = prev) {
		prev = n->prev;
		if (p->needed[n->id])
			continue;
		ht_const_drop(n);
		ht_node_remove(n);
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct prune p = { .g = g, .c = c };

	if (!g->entries && !c->entry)
		return HT_OK;
	p.needed = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	p.effectful = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	p.acts = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	mark(&p);
	if (c->entry)
		drop_entries(&p);
	remove_rest(&p);
	drop_idle_edges(&p);
	/* A node that only such an edge needed is no longer needed. */
	spare_reads(&p);
	remove_rest(&p);
	ht_drop_uncalled(g, c->scratch);
	return HT_OK;
}

const struct ht_pass ht_pass_prune = {
	.name = "prune",
	.summary = "removes what the entry's outputs do not need",
	.run = run,
	.spares_functions = true,
};
