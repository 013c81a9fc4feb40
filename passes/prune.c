/* prune: removes nodes that the entry's outputs do not need.
 *
 * The outputs need all nodes that they reach through operands and control edges, as when
 * TensorFlow runs a fetch: an effect counts only if a fetch depends on it.  The entry's inputs
 * stay.  The pass also removes other entries, functions that nothing calls, and control edges
 * that order nothing: those from nodes that no effect precedes.  Effects that constants wait for become a target
 * of the entry.  An Assert of a constant that is true has no effect, and branches and loops have those of their bodies.  An edge from a node that
 * only reads variables orders just these reads: if no other node needs the reader, as for the gradient of an input in TensorFlow's tuples of
 * gradients, the needed reads take its place.  Without an entry in the context, all entries of
 * the graph count.  A graph without entries is left alone, unless it is a body and the context
 * has an entry. */
#include "passes/rewrite.h"

enum { MOST_NESTED = 8 }; /* bodies inside bodies */
/* Attribute of the target that keeps what constants wait for. */
#define KEEPS "_keeps"

struct prune {
	struct ht_graph *g;
	struct ht_pass_context *c;
	bool *needed;    /* by node id */
	bool *effectful; /* by node id: it or a node that it needs has an effect */
	bool *acts;      /* likewise, an effect other than the reads of ReadVariableOp */
	struct ht_map
		pure; /* by name: whether a function has no effects; without those not looked at yet */
	uint32_t *walked, walk; /* by node id: the last walk that met it */
	bool sparing;           /* edges from nodes that only read variables do not make them
				 * needed */
	bool dead;              /* values may be dead, since there are Switches */
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

static bool is_handle(const struct ht_node *n)
{
	return (ht_is(n, HT_VARIABLE) || ht_is_table(n)) && n->outs == 1 &&
	       n->out[0].dtype == HT_RESOURCE;
}

/* Whether it draws from a stream of its own, which no other node uses. */
static bool is_random(const struct ht_node *n)
{
	return ht_op_info(n->op)->effects == HT_RANDOM;
}

/* Whether it computes a size: kernels of later nodes read that, though it is no operand. */
static bool sets_size(const struct ht_node *n)
{
	return ht_computes_size(n) && n->graph->closed;
}

/* Whether it is a table with constant contents, or reads one: nothing changes such a table. */
static bool is_of_filled_table(const struct ht_node *n)
{
	const struct ht_node *table =
		n->ins && ht_op_info(n->op)->effects == HT_READS ? n->in[0].node : n;

	return ht_table_part(table, "_keys") && ht_table_part(table, "_values");
}

static bool has_effect(struct prune *p, const struct ht_node *n, int depth);

static bool all_pure(struct prune *p, const struct ht_graph *body, int depth)
{
	for (const struct ht_node *n = body->first; n; n = n->next)
		if (n->op == HT_OP_OPAQUE || sets_size(n) || has_effect(p, n, depth))
			return false;
	return true;
}

/* Whether no node of a body has an effect.  Each body is looked at once, since many nodes may share it; inside itself it counts as one
 * with effects. */
static bool is_pure(struct prune *p, const struct ht_function *f, int depth)
{
	static bool answers[2] = { false, true };
	const bool *known = f ? ht_map_get(&p->pure, f->name) : &answers[false];

	if (!known) {
		ht_map_at(&p->pure, f->name)->value = &answers[false];
		known = &answers[all_pure(p, f->body, depth)];
		ht_map_at(&p->pure, f->name)->value = (void *)known;
	}
	return *known;
}

/* Whether it is a branch or loop of bodies without effects. */
static bool only_computes(struct prune *p, const struct ht_node *n, int depth)
{
	struct ht_bodies of;

	if (!depth || !ht_is(n, HT_BRANCHES | HT_LOOPS))
		return false;
	of = ht_control_bodies(n);
	return is_pure(p, of.of[0], depth - 1) && is_pure(p, of.of[1], depth - 1);
}

/* Of bodies inside bodies, `depth` are looked into. */
static bool has_effect(struct prune *p, const struct ht_node *n, int depth)
{
	return ht_op_info(n->op)->effects && !ht_asserts(n, true) && !is_of_filled_table(n) &&
	       !only_computes(p, n, depth);
}

static void look_for_effects(struct prune *p, const struct ht_node *n)
{
	bool own = has_effect(p, n, MOST_NESTED) || sets_size(n);

	p->effectful[n->id] = own || ht_needs_marked(n, p->effectful);
	own = own && !ht_is(n, HT_READS_VARIABLE) && !is_handle(n) && !is_random(n);
	p->acts[n->id] = own || ht_needs_marked(n, p->acts);
}

/* Whether the node may be dead, so that an effect does not happen. */
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

/* Limit of nodes that each cause a walk over the graph. */
enum { MOST_WALKS = 1000 };

static void add_unseen(struct prune *p, struct ht_node *n)
{
	if (p->walked[n->id] == p->walk || !p->effectful[n->id])
		return;
	p->walked[n->id] = p->walk;
	p->stack = ht_grow(p->c->scratch, p->stack, p->count, &p->cap, sizeof *p->stack);
	p->stack[p->count++] = n;
}

/* Replaces control edges of `n` from nodes that are not needed by edges from needed reads. */
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

/* Random ops that were needed at first draw in any case, since streams continue in later runs. */
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

/* Removes back edges first, so that every node is unused when it is removed. */
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

/* ---- what constants wait for ---- */

/* The target that keeps what constants wait for; made if the entry has none. */
static struct ht_node *keeper(struct ht_graph *g, struct ht_entry *e)
{
	struct ht_port **end = &e->targets;
	struct ht_node *n;

	for (; *end; end = &(*end)->next)
		if (ht_attr_bool((*end)->value.node, KEEPS, false))
			return (*end)->value.node;
	n = ht_node_new(g, HT_STR("NoOp"), ht_graph_free_name(g, HT_STR("waited")));
	ht_attr_set_bool(n, KEEPS, true);
	*end = HT_NEW(g->arena, struct ht_port);
	(*end)->name = n->name;
	(*end)->value = (struct ht_value){ .node = n, .index = -1 };
	return n;
}

static void keep(struct ht_graph *g, struct ht_entry *e, struct ht_node *effect)
{
	struct ht_node *n = keeper(g, e);

	if (ht_waits_for(n, effect))
		return;
	ht_node_set_controls(n, ht_controls_and(g->arena, n, &effect, 1), n->controls + 1);
}

/* A constant waits for an effect where TensorFlow 1 made it behind tf.control_dependencies().  Other passes drop constants with their edges, when
 * they compute or simplify the nodes that read them; then the effect has to happen all the same. */
static void keep_waited(struct prune *p, struct ht_entry *e)
{
	for (struct ht_node *n = p->g->first; n; n = n->next)
		for (int32_t i = 0; ht_is(n, HT_CONSTANT) && i < n->controls; i++)
			if (p->acts[n->control[i]->id])
				keep(p->g, e, n->control[i]);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct prune p = { .g = g, .c = c };

	if (!g->entries && !c->entry)
		return HT_OK;
	p.needed = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	p.effectful = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	p.acts = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	ht_map_init(&p.pure, c->scratch);
	mark(&p);
	if (c->entry)
		drop_entries(&p);
	remove_rest(&p);
	drop_idle_edges(&p);
	/* Nodes that only such an edge needed are no longer needed. */
	spare_reads(&p);
	remove_rest(&p);
	/* Nodes of a branch that a Switch does not take are dead, so they cannot be targets, which run always. */
	if (!p.dead && g->entries && (!c->entry || g->entries == c->entry) && !g->entries->next)
		keep_waited(&p, g->entries);
	ht_drop_uncalled(g, c->scratch);
	return HT_OK;
}

const struct ht_pass ht_pass_prune = {
	.name = "prune",
	.summary = "removes what the entry's outputs do not need",
	.run = run,
	.spares_functions = true,
};
