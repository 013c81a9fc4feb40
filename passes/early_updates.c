/* early_updates: runs each update of a variable as soon as all that it needs is known.
 *
 * A graph has its updates behind all gradients.  The gradient by a weight reads an activation and the gradient by the layer's result, so
 * each layer would keep both until then.  This pass moves an update, with all nodes that nothing else needs, to where the last of the
 * tensors is computed that these nodes read.  So the gradient by a weight is followed by its update, and its operands end there.
 *
 * An update stays behind all nodes that check data, such as Assert, behind which it stood: a step that such a check stops changes no variables
 * that it would not have changed in the order of the graph.
 *
 * Reads and writes of a variable keep their order.  An update also waits for the kernels that may read the variable's old value in
 * place, which the order of the nodes would let it overtake: elementwise nodes behind a read, the nodes with loops behind these, and
 * elementwise nodes behind those, which may share a kernel with them. */
#include "passes/rewrite.h"

/* An update waits for at most so many nodes behind a read, the nearest ones: waiting avoids a copy only, and many reads in one long chain would
 * have as many edges as the square of its length. */
enum { MOST_MET = 256 };

/* An update, or a node that several updates and nothing else need; and the nodes that only it needs. */
struct update {
	struct ht_node *node;
	struct ht_node **need;
	size_t needs, cap;
	size_t missing; /* edges to the nodes of `need`, and operands of `node`, that are not in the new order yet */
	size_t waits; /* nodes that must come before the update alone */
	bool queued, moved;
};

struct edge {
	struct update *to;
	bool alone; /* counted in to->waits */
	struct edge *next;
};

/* The accesses of a variable so far. */
struct accesses {
	struct ht_node *writer;
	struct ht_node **reader; /* since then */
	size_t readers, cap;
};

/* A node that a walk met; `loop`: it has a loop, or is behind a node that has. */
struct met {
	const struct ht_node *node;
	bool loop;
};

struct early {
	struct ht_graph *g;
	struct ht_arena *a;
	struct ht_uses uses;
	struct ht_node **handle; /* by node id: ht_variable_handles() */
	struct update **of;      /* by node id: the update that alone needs the node */
	struct edge **before;    /* by node id: what comes behind it, beside its uses */
	uint32_t *place;         /* by node id, from 1 on */
	uint32_t *seen, walk;    /* by node id: the last walk that met it */
	struct met *met;         /* by that walk */
	size_t mets;
	struct ht_node *check; /* the last node so far that checks data */
	bool checks; /* whether the current node does, itself or in a function that it runs */
	struct ht_node **order;
	struct ht_node *left; /* all nodes before it in the old order are placed */
	bool *placed;         /* by node id */
	size_t count;
	struct update **ready; /* a queue */
	size_t readies, taken, cap;
};

/* ---- which nodes only an update needs ---- */

static bool takes_variable(const struct early *x, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (x->handle[n->in[i].node->id])
			return true;
	return false;
}

/* Whether it may write to variables that it takes. */
static bool writes(const struct ht_node *n)
{
	return ht_changes_variable(n) || ht_is(n, HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE);
}

static bool is_update(const struct early *x, const struct ht_node *n)
{
	if (!writes(n) || !takes_variable(x, n) || x->uses.is_output[n->id])
		return false;
	for (const struct ht_use *u = x->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0)
			return false;
	return true;
}

static struct update *moved_by_itself(struct early *x, struct ht_node *n)
{
	struct update *u = HT_NEW(x->a, struct update);

	u->node = n;
	return u;
}

/* What node `n` moves with, whose users are done: the update that alone needs it; itself, if several need it; NULL: it stays. */
static struct update *moved_with(struct early *x, struct ht_node *n)
{
	struct update *only = NULL;
	bool several = false;

	if (is_update(x, n))
		return moved_by_itself(x, n);
	if (x->uses.is_output[n->id] || ht_is(n, HT_CONSTANT | HT_ARGUMENT | HT_VARIABLE) ||
		(ht_op_info(n->op)->effects && !ht_is(n, HT_READS_VARIABLE)))
		return NULL;
	for (const struct ht_use *u = x->uses.of[n->id]; u; u = u->next) {
		struct update *of = x->of[u->node->id];

		if (!of)
			return NULL;
		several |= only && of != only;
		only = of;
	}
	return several ? moved_by_itself(x, n) : only;
}

static void find_updates(struct early *x)
{
	for (struct ht_node *n = x->g->last; n; n = n->prev)
		x->of[n->id] = moved_with(x, n);
	for (struct ht_node *n = x->g->first; n; n = n->next) {
		struct update *u = x->of[n->id];

		if (!u || u->node == n)
			continue;
		u->need = ht_grow(x->a, u->need, u->needs, &u->cap, sizeof *u->need);
		u->need[u->needs++] = n;
	}
}

/* ---- what an update waits for ---- */

/* Calls `fn` for each update that comes behind `n` by a use, an edge a use. */
static void each_use(struct early *x, const struct ht_node *n,
	void (*fn)(struct early *x, struct update *u, bool alone))
{
	for (const struct ht_use *u = x->uses.of[n->id]; u; u = u->next) {
		struct update *to = x->of[u->node->id];

		if (to && to != x->of[n->id])
			fn(x, to, u->arg < 0 && to->node == u->node);
	}
}

static void count(struct early *x, struct update *u, bool alone)
{
	(void)x;
	*(alone ? &u->waits : &u->missing) += 1;
}

/* Node `from` comes before node `to`, which touches the same variable. */
static void put_before(struct early *x, const struct ht_node *from, const struct ht_node *to)
{
	struct update *u = x->of[to->id];
	struct edge *e;

	if (!u || u == x->of[from->id] || x->place[from->id] >= x->place[to->id])
		return;
	e = HT_NEW(x->a, struct edge);
	*e = (struct edge){ u, u->node == to, x->before[from->id] };
	x->before[from->id] = e;
	count(x, u, e->alone);
}

static bool shares_kernels(const struct ht_node *n)
{
	return ht_is(n, HT_ELEMENTWISE | HT_CASTS | HT_ONLY_MOVES);
}

/* Adds the users of `m` that the walk has not met to it: of an elementwise node all, of one with a loop, or behind one, those that may
 * share its kernel. */
static void meet_users(struct early *x, const struct met *m, const struct ht_node *writer)
{
	for (const struct ht_use *u = x->uses.of[m->node->id]; u && x->mets < MOST_MET;
		u = u->next) {
		bool shares = shares_kernels(u->node);

		if (u->arg < 0 || x->seen[u->node->id] == x->walk || (m->loop && !shares))
			continue;
		x->seen[u->node->id] = x->walk;
		put_before(x, u->node, writer);
		x->met[x->mets++] = (struct met){ u->node, m->loop || !shares };
	}
}

/* All nodes that may be in a kernel that reads what `n` gives come before `writer`. */
static void readers_before(struct early *x, const struct ht_node *n, const struct ht_node *writer)
{
	x->walk++;
	x->mets = 0;
	meet_users(x, &(struct met){ n, false }, writer);
	for (size_t i = 0; i < x->mets; i++)
		meet_users(x, &(struct met){ x->met[i].node, x->met[i].loop }, writer);
}

static void touch(struct early *x, struct accesses *v, struct ht_node *n)
{
	if (v->writer)
		put_before(x, v->writer, n);
	if (!writes(n)) {
		v->reader = ht_grow(x->a, v->reader, v->readers, &v->cap, sizeof *v->reader);
		v->reader[v->readers++] = n;
		return;
	}
	for (size_t i = 0; i < v->readers; i++) {
		put_before(x, v->reader[i], n);
		readers_before(x, v->reader[i], n);
	}
	v->writer = n;
	v->readers = 0;
}

/* Node `n` touches variable `v`. */
static void note_access(
	struct early *x, struct ht_map *of, const struct ht_node *v, struct ht_node *n)
{
	struct ht_map_entry *e = ht_map_at(of, ht_variable_name(v));

	if (!e->value)
		e->value = HT_NEW(x->a, struct accesses);
	touch(x, e->value, n);
}

static bool is_check(const struct ht_node *n)
{
	return ht_op_info(n->op)->effects & HT_ORDERED;
}

static void access_all(
	struct early *x, struct ht_map *of, const struct ht_graph *body, struct ht_node *n)
{
	for (const struct ht_node *v = body->first; v; v = v->next) {
		if (ht_is(v, HT_VARIABLE))
			note_access(x, of, v, n);
		x->checks |= is_check(v);
	}
}

/* Bodies of branches, loops and calls have handles of their own (bodies.c). */
static void access_within(struct early *x, struct ht_map *of, struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);
	struct ht_map called;

	for (int k = 0; k < 2; k++) {
		if (!b.of[k])
			continue;
		access_all(x, of, b.of[k]->body, n);
		ht_called_functions(b.of[k]->body, x->a, &called);
		for (size_t i = 0; i < called.count; i++)
			access_all(x, of, ((struct ht_function *)called.entries[i].value)->body, n);
	}
}

/* Checks that are no updates keep their order, so that the last one in front of an update comes behind all others. */
static void order_checks(struct early *x, struct ht_node *n)
{
	if (x->check && (x->checks || writes(n)))
		put_before(x, x->check, n);
	if (x->checks)
		x->check = n;
}

static void order_accesses(struct early *x)
{
	struct ht_map of;

	ht_map_init(&of, x->a);
	for (struct ht_node *n = x->g->first; n; n = n->next) {
		for (int32_t i = 0; i < n->ins && !x->handle[n->id]; i++)
			if (x->handle[n->in[i].node->id])
				note_access(x, &of, x->handle[n->in[i].node->id], n);
		x->checks = is_check(n);
		access_within(x, &of, n);
		order_checks(x, n);
	}
}

/* ---- the new order ---- */

static void make_ready(struct early *x, struct update *u)
{
	x->ready = ht_grow(x->a, x->ready, x->readies, &x->cap, sizeof(struct update *));
	x->ready[x->readies++] = u;
}

static void came(struct early *x, struct update *u, bool alone)
{
	*(alone ? &u->waits : &u->missing) -= 1;
	if (!u->missing && (!u->queued || !u->waits)) {
		u->queued = true;
		make_ready(x, u);
	}
}

static void place(struct early *x, struct ht_node *n)
{
	if (x->placed[n->id])
		return;
	x->placed[n->id] = true;
	x->order[x->count++] = n;
	each_use(x, n, came);
	for (const struct edge *e = x->before[n->id]; e; e = e->next)
		came(x, e->to, e->alone);
}

static void place_update(struct early *x, struct update *u, bool whole)
{
	for (size_t i = 0; i < u->needs && !u->moved; i++)
		place(x, u->need[i]);
	u->moved = true;
	if (whole || !u->waits)
		place(x, u->node);
}

static void place_ready(struct early *x)
{
	while (x->taken < x->readies)
		place_update(x, x->ready[x->taken++], false);
}

/* An update at its old place.  If it waits for nodes that are to move with a later one, these and all others before it keep their places. */
static void place_at_latest(struct early *x, struct update *u)
{
	for (; (u->missing || u->waits) && x->left != u->node; x->left = x->left->next)
		place(x, x->left);
	place_update(x, u, true);
}

/* Constants need no memory of a run, so they may come first. */
static void place_all(struct early *x)
{
	for (struct ht_node *n = x->g->first; n; n = n->next)
		if (ht_is(n, HT_CONSTANT | HT_VARIABLE) && !n->ins && !n->controls)
			place(x, n);
	for (const struct ht_node *n = x->g->first; n; n = n->next)
		if (x->of[n->id] && x->of[n->id]->node == n && !x->of[n->id]->missing &&
			!x->of[n->id]->queued) {
			x->of[n->id]->queued = true;
			make_ready(x, x->of[n->id]);
		}
	for (struct ht_node *n = x->g->first; n; n = n->next) {
		struct update *u = x->of[n->id];

		if (!u)
			place(x, n);
		else if (u->node == n)
			place_at_latest(x, u);
		place_ready(x);
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct early x = { .g = g, .a = c->scratch, .left = g->first };
	uint32_t place = 0;

	if (!ht_changes_any(g))
		return HT_OK;
	HT_TRY(ht_graph_sort(g, c->diags));
	x.uses = ht_graph_uses(g, x.a);
	x.handle = ht_variable_handles(g, x.a);
	x.of = HT_NEW_ARRAY(x.a, struct update *, g->ids);
	x.before = HT_NEW_ARRAY(x.a, struct edge *, g->ids);
	x.place = HT_NEW_ARRAY(x.a, uint32_t, g->ids);
	x.seen = HT_NEW_ARRAY(x.a, uint32_t, g->ids);
	x.met = HT_NEW_ARRAY(x.a, struct met, MOST_MET);
	x.order = HT_NEW_ARRAY(x.a, struct ht_node *, g->nodes);
	x.placed = HT_NEW_ARRAY(x.a, bool, g->ids);
	for (const struct ht_node *n = g->first; n; n = n->next)
		x.place[n->id] = ++place;
	find_updates(&x);
	for (const struct ht_node *n = g->first; n; n = n->next)
		each_use(&x, n, count);
	order_accesses(&x);
	place_all(&x);
	ht_graph_set_order(g, x.order);
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_early_updates = {
	.name = "early_updates",
	.summary = "runs updates of variables as soon as their operands are known",
	.spares_functions = true,
	.run = run,
};
