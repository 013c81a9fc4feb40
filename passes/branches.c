/* branches: resolves Switches with a known predicate, and the nodes behind them.
 *
 * The result that the predicate chooses is replaced by the operand.  The other result is dead,
 * and so is every node that reads a dead result or waits for a dead node.  A Merge with one live
 * operand is replaced by that operand, and its value_index becomes a constant.  Nothing reads
 * dead branches then, so prune removes them.
 *
 * A predicate is known if it is a constant, or an input with a constant default that the entry
 * does not name.  If an input of the entry has a default and chooses a branch, it keeps its
 * default, with a warning: it is no input any more, since the other branch is removed.  A Merge
 * of a loop stays. */
#include "passes/rewrite_uses.h"

#include <string.h>

struct branches {
	struct ht_rw *r;
	bool *dead;     /* by node id: all its results are dead */
	int8_t *chosen; /* by node id of a Switch: 1 + the result that is alive; 0: both may be */
};

/* Input `n` of the entry keeps its default. */
static void keep_default(const struct ht_rw *r, const struct ht_node *n)
{
	struct ht_where at = HT_NOWHERE;
	struct ht_entry *e = r->g->entries;
	struct ht_port **p;

	while (e && e != r->c->entry)
		e = e->next;
	if (!e)
		return;
	p = &e->inputs;
	while (*p && (*p)->value.node != n)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = (*p)->next;
	at.path = r->g->path;
	at.node = n->name;
	at.op = n->type;
	ht_warn(r->c->diags, at, "chooses a branch, so it keeps its default and is no input");
}

/* The constant that `v` is in every run, or NULL. */
static const struct ht_tensor *known_value(const struct ht_rw *r, struct ht_value v)
{
	const struct ht_node *fed = NULL;
	const struct ht_tensor *t;

	while (v.node->ins == 1 && ht_is(v.node, HT_FORWARDS | HT_HAS_DEFAULT)) {
		if (ht_is(v.node, HT_HAS_DEFAULT))
			fed = v.node;
		v = v.node->in[0];
	}
	t = ht_const_tensor(v);
	if (!t || t->dtype != HT_BOOL || ht_shape_count(t->shape) != 1 || (fed && r->g->function))
		return NULL;
	if (fed)
		keep_default(r, fed);
	return t;
}

static bool is_dead(const struct branches *b, struct ht_value v)
{
	return b->dead[v.node->id] ||
	       (b->chosen[v.node->id] && v.index != b->chosen[v.node->id] - 1);
}

static bool merge_is_dead(const struct branches *b, const struct ht_node *n)
{
	bool any = false;

	for (int32_t i = 0; i < n->ins; i++) {
		if (!ht_is(n->in[i].node, HT_ITERATES) && !is_dead(b, n->in[i]))
			return false;
		any = true;
	}
	return any;
}

static bool has_dead_operand(const struct branches *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (is_dead(b, n->in[i]))
			return true;
	return false;
}

static bool waits_for_dead(const struct branches *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->controls; i++)
		if (b->dead[n->control[i]->id])
			return true;
	return false;
}

/* Visits nodes in order, so that all operands but those of back edges are known. */
static void look_at(struct branches *b, struct ht_node *n)
{
	const struct ht_tensor *pred;

	/* A Merge also waits for nodes of the side that is not taken: TensorFlow does not ask whether these are dead. */
	b->dead[n->id] = ht_is(n, HT_MERGES) ? merge_is_dead(b, n)
					     : waits_for_dead(b, n) || has_dead_operand(b, n);
	if (!ht_is(n, HT_SWITCHES) || n->ins != 2 || b->dead[n->id])
		return;
	pred = known_value(b->r, n->in[1]);
	if (pred)
		b->chosen[n->id] = *(const char *)pred->blob->p ? 2 : 1;
}

/* The only live operand; -1: there are several, or none. */
static int32_t only_alive(const struct branches *b, const struct ht_node *n)
{
	int32_t alive = -1;

	for (int32_t i = 0; i < n->ins; i++) {
		if (is_dead(b, n->in[i]))
			continue;
		if (alive >= 0 || ht_is(n->in[i].node, HT_ITERATES))
			return -1;
		alive = i;
	}
	return alive;
}

static struct ht_value index_const(struct ht_rw *r, struct ht_node *n, int32_t index)
{
	struct ht_str name = ht_str_printf(r->arena, "%.*s/value_index", HT_STR_ARG(n->name));
	struct ht_blob *blob = ht_rw_blob(r, sizeof index);

	memcpy((char *)(uintptr_t)blob->p, &index, sizeof index);
	return ht_rw_const(r, n, name, HT_I32, HT_SHAPE_SCALAR, blob);
}

/* Node `n` no longer waits for nodes that are never computed. */
static void drop_dead_controls(struct branches *b, struct ht_node *n)
{
	struct ht_node **wait =
		HT_NEW_ARRAY(b->r->arena, struct ht_node *, (size_t)n->controls + 1);
	int32_t count = 0;

	for (int32_t i = 0; i < n->controls; i++)
		if (!b->dead[n->control[i]->id])
			wait[count++] = n->control[i];
	if (count < n->controls)
		ht_rw_set_controls(b->r, n, wait, count);
}

static void resolve_merge(struct branches *b, struct ht_node *n)
{
	int32_t alive = only_alive(b, n);
	struct ht_rw *r = b->r;
	struct ht_value to, number;
	enum ht_dtype t;

	if (alive < 0 || n->outs < 1)
		return;
	to = n->in[alive];
	if (n->outs > 1 && ht_rw_uses(r, ht_out(n, 1))) {
		number = index_const(r, n, alive);
		ht_rw_replace(r, ht_out(n, 1), number);
	}
	t = ht_type_attr(n, "T");
	if (!n->graph)
		return;
	drop_dead_controls(b, n);
	ht_rw_become(r, n, HT_OP_Identity, &to, 1);
	n->outs = 1;
	ht_attr_set_type(n, "T", t);
}

/* Nodes that wait for the Switch wait for its operand instead. */
static void resolve_switch(struct branches *b, struct ht_node *n)
{
	ht_rw_move_control_edges(b->r, n, n->in[0].node);
	ht_rw_replace(b->r, ht_out(n, b->chosen[n->id] - 1), n->in[0]);
}

static void resolve(struct branches *b, struct ht_node *n)
{
	if (!n->graph || b->dead[n->id])
		return;
	if (ht_is(n, HT_MERGES))
		resolve_merge(b, n);
	else if (b->chosen[n->id])
		resolve_switch(b, n);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct branches b = { .r = &r };
	struct ht_node **node;
	size_t n;

	ht_rw_init(&r, g, c);
	node = ht_rw_nodes(&r, &n);
	b.dead = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	b.chosen = HT_NEW_ARRAY(c->scratch, int8_t, g->ids);
	for (size_t i = 0; i < n; i++)
		look_at(&b, node[i]);
	for (size_t i = 0; i < n; i++)
		resolve(&b, node[i]);
	return r.changed ? ht_graph_sort(g, c->diags) : HT_OK;
}

const struct ht_pass ht_pass_branches = {
	.name = "branches",
	.summary = "takes the branch that a known predicate chooses",
	.run = run,
};
