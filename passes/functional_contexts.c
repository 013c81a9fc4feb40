/* functional_contexts: decides which Merges are results of one branch. */
#include "passes/functional_branches.h"

/* Merges of one predicate in one context. */
struct bucket {
	struct context *outer;
	struct ht_value pred;
	int32_t left;          /* Merges that are not in a branch yet */
	struct ht_node **held; /* those of them whose operands have been visited */
	int32_t holds;
	size_t cap;
	struct bucket *next; /* next one of this predicate */
};

struct groups {
	struct functional *f;
	struct branches *x;
	struct ht_uses uses;
	struct bucket **first;  /* by node id of a predicate */
	struct bucket **bucket; /* by node id of a Merge */
	int32_t *pending;       /* by node id: operands and control inputs that have not been
				 * visited */
	struct ht_node **ready;
	struct bucket **waiting; /* those that hold Merges, or have held some */
	size_t readies, ready_cap, waits, wait_cap, depths_cap;
};

struct ht_value ht_predicate(struct ht_value v)
{
	while (ht_is(v.node, HT_FORWARDS) && v.node->ins == 1)
		v = v.node->in[0];
	return v;
}

struct context *ht_context_within(
	struct branches *x, struct context *outer, struct ht_value pred, bool taken)
{
	struct context *c = x->made[pred.node->id];

	for (; c; c = c->next)
		if (c->outer == outer && c->taken == taken && ht_value_eq(c->pred, pred))
			return c;
	c = HT_NEW(x->f->scratch, struct context);
	*c = (struct context){ pred, taken, outer ? outer->depth + 1 : 1, outer,
		x->made[pred.node->id] };
	return x->made[pred.node->id] = c;
}

struct context *ht_context_of(struct branches *x, struct ht_value v)
{
	struct context *c = x->of[v.node->id];

	if (!ht_is(v.node, HT_SWITCHES) || v.node->ins != 2)
		return c;
	return ht_context_within(x, c, ht_predicate(v.node->in[1]), v.index == 1);
}

bool ht_context_is_within(const struct context *c, const struct context *outer)
{
	int depth = outer ? outer->depth : 0;

	while (c && c->depth > depth)
		c = c->outer;
	return c == outer;
}

/* Sets *c to the deeper of both; false: neither contains the other. */
static bool join(struct context **c, struct context *with)
{
	if (ht_context_is_within(with, *c))
		*c = with;
	return ht_context_is_within(*c, with);
}

static struct bucket *bucket_of(struct groups *g, struct context *outer, struct ht_value pred)
{
	struct bucket *b = g->first[pred.node->id];

	for (; b; b = b->next)
		if (b->outer == outer && ht_value_eq(b->pred, pred))
			return b;
	b = HT_NEW(g->f->scratch, struct bucket);
	*b = (struct bucket){ .outer = outer, .pred = pred, .next = g->first[pred.node->id] };
	return g->first[pred.node->id] = b;
}

static bool are_opposite(const struct context *a, const struct context *b)
{
	return b && a->outer == b->outer && a->taken != b->taken && ht_value_eq(a->pred, b->pred);
}

/* Finds the predicate whose two results lead to the Merge.  A constant does not show in which
 * branch it is. */
static bool look_at_merge(struct groups *g, struct ht_node *n)
{
	struct branches *x = g->x;
	struct context *in, *other;
	struct bucket *b;

	if (n->ins != 2 || ht_is(n->in[1].node, HT_ITERATES))
		return false;
	in = ht_context_of(x, n->in[0]);
	other = ht_context_of(x, n->in[1]);
	if (!in || (other && other->depth > in->depth)) {
		struct context *shallow = in;

		in = other;
		other = shallow;
	}
	if (!in || !(are_opposite(in, other) || ht_context_is_within(in->outer, other)))
		return false;
	b = bucket_of(g, in->outer, in->pred);
	b->left++;
	g->bucket[n->id] = b;
	x->of[n->id] = in->outer;
	x->indexed[n->id] = ht_use_count(&g->uses, ht_out(n, 1)) > 0;
	return true;
}

static void find_context(struct groups *g, struct ht_node *n)
{
	struct branches *x = g->x;
	struct context *c = NULL;
	bool good = true;

	for (int32_t i = 0; i < n->ins; i++)
		good = good && !x->odd[n->in[i].node->id];
	for (int32_t i = 0; i < n->controls; i++)
		good = good && !x->odd[n->control[i]->id];
	if (good && ht_is(n, HT_MERGES)) {
		x->odd[n->id] = !look_at_merge(g, n);
		return;
	}
	for (int32_t i = 0; good && i < n->ins; i++)
		good = join(&c, ht_context_of(x, n->in[i]));
	for (int32_t i = 0; good && i < n->controls; i++)
		good = join(&c, x->of[n->control[i]->id]);
	x->of[n->id] = c;
	x->odd[n->id] = !good || ht_is(n, HT_ENTERS | HT_ITERATES);
}

/* ---- groups ---- */

static void take(struct groups *g, struct ht_node *n)
{
	for (const struct ht_use *u = g->uses.of[n->id]; u; u = u->next) {
		if (ht_closes_loop(n, u->node) || --g->pending[u->node->id])
			continue;
		g->ready =
			ht_grow(g->f->scratch, g->ready, g->readies, &g->ready_cap, sizeof(void *));
		g->ready[g->readies++] = u->node;
	}
}

static void start(struct groups *g)
{
	struct ht_node *n;

	for (n = g->f->g->first; n; n = n->next) {
		g->pending[n->id] = n->controls;
		for (int32_t i = 0; i < n->ins; i++)
			g->pending[n->id] += !ht_closes_loop(n->in[i].node, n);
	}
	for (n = g->f->g->first; n; n = n->next)
		if (!n->ins && !n->controls)
			take(g, n);
}

/* Makes one branch of the Merges that a bucket holds. */
static void add_branch(struct groups *g, struct bucket *from)
{
	size_t depth = from->outer ? (size_t)from->outer->depth : 0;
	struct branches *x = g->x;
	struct branch *b = HT_NEW(g->f->scratch, struct branch);

	for (; x->depths <= depth; x->depths++) {
		x->at = ht_grow(g->f->scratch, x->at, x->depths, &g->depths_cap, sizeof(void *));
		x->at[x->depths] = NULL;
	}
	*b = (struct branch){ from->outer, from->pred, from->held, from->holds, x->at[depth] };
	x->at[depth] = b;
	from->left -= from->holds;
	from->held = NULL;
	from->holds = 0;
	from->cap = 0;
	for (int32_t i = 0; i < b->merges; i++)
		take(g, b->merge[i]);
}

static void hold(struct groups *g, struct bucket *b, struct ht_node *merge)
{
	if (!b->holds) {
		g->waiting =
			ht_grow(g->f->scratch, g->waiting, g->waits, &g->wait_cap, sizeof(void *));
		g->waiting[g->waits++] = b;
	}
	b->held = ht_grow(g->f->scratch, b->held, (size_t)b->holds, &b->cap, sizeof *b->held);
	b->held[b->holds++] = merge;
	if (b->holds == b->left)
		add_branch(g, b);
}

static void take_ready(struct groups *g)
{
	while (g->readies) {
		struct ht_node *n = g->ready[--g->readies];

		if (g->bucket[n->id])
			hold(g, g->bucket[n->id], n);
		else
			take(g, n);
	}
}

/* Two branches with one predicate must not become one node if one needs a result of the other.
 * So nodes are visited in topological order, and a Merge waits until its bucket is complete; an
 * incomplete bucket becomes a branch only if no other node can be visited. */
static void find_branches(struct groups *g)
{
	start(g);
	take_ready(g);
	while (g->waits) {
		struct bucket *b = g->waiting[--g->waits];

		if (b->holds)
			add_branch(g, b);
		take_ready(g);
	}
}

void ht_find_branches(struct branches *x)
{
	struct functional *f = x->f;
	struct groups g = { .f = f,
		.x = x,
		.uses = ht_graph_uses(f->g, f->scratch),
		.first = HT_NEW_ARRAY(f->scratch, struct bucket *, f->ids),
		.bucket = HT_NEW_ARRAY(f->scratch, struct bucket *, f->ids),
		.pending = HT_NEW_ARRAY(f->scratch, int32_t, f->ids) };

	for (struct ht_node *n = f->g->first; n; n = n->next)
		find_context(&g, n);
	find_branches(&g);
}
