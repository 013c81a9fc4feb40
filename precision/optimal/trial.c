/* Trials: writes assignments into copies of the graph.
 *
 * If two orders of the graph are possible, fusion depends on the order, but a decision must not.
 * So a trial's nodes are sorted by their position in the dataflow only: by depth, then by a hash
 * of the nodes that a node is computed from, then by one of the nodes computed from it. */
#include "precision/optimal/optimal.h"

#include <stdlib.h>

static void release(void *arena)
{
	ht_arena_release(arena);
}

struct ht_arena *ht_arena_of(struct ht_precision *p)
{
	struct ht_arena *a = HT_NEW(p->arena, struct ht_arena);

	ht_arena_init(a, p->arena->unwind);
	ht_arena_defer(p->arena, release, a);
	return a;
}

/* ---- nodes and casts ---- */

struct build {
	struct ht_precision *p;
	const struct ht_column *const *taken;
	struct ht_trial *t;
};

static void append(struct build *b, struct ht_node *n)
{
	struct ht_graph *g = b->t->graph;

	n->graph = g;
	n->prev = g->last;
	n->next = NULL;
	*(g->last ? &g->last->next : &g->first) = n;
	g->last = n;
	g->nodes++;
}

/* Gives results the types of the column; nodes without one share their results with the
 * original. */
static void set_results(struct build *b, const struct ht_node *n, struct ht_node *copy)
{
	const struct ht_column *c = b->taken[n->id];

	if (!c)
		return;
	copy->out = HT_NEW_ARRAY(b->t->arena, struct ht_type, (size_t)n->outs);
	for (int32_t i = 0; i < n->outs; i++) {
		int attr = ht_attr_of_result(n, i);
		copy->out[i] = n->out[i];
		if (attr >= 0)
			copy->out[i].dtype = c->dtype[attr];
	}
}

static struct ht_value cast_of(struct build *b, struct ht_value v, enum ht_dtype to)
{
	struct ht_trial_cast **list = ht_trial_casts(b->t, v), *c;

	for (c = *list; c; c = c->next)
		if (c->node.out[0].dtype == to)
			return ht_out(&c->node, 0);
	c = HT_NEW(b->t->arena, struct ht_trial_cast);
	c->next = *list;
	*list = c;
	c->operand = v;
	c->result = (struct ht_type){ to, ht_type_of(v)->shape };
	c->node = (struct ht_node){ .id = b->t->graph->ids++,
		.op = HT_OP_Cast,
		.type = HT_STR("Cast"),
		.in = &c->operand,
		.ins = 1,
		.out = &c->result,
		.outs = 1 };
	append(b, &c->node);
	return ht_out(&c->node, 0);
}

/* Value `v` of the original, cast to the type `to` if both are floats. */
static struct ht_value value_in(struct build *b, struct ht_value v, enum ht_dtype to)
{
	enum ht_dtype is;

	v.node = b->t->copy[v.node->id];
	if (v.index < 0 || v.index >= v.node->outs)
		return v;
	is = ht_type_of(v)->dtype;
	return ht_is_policy_float(is) && ht_is_policy_float(to) && is != to ? cast_of(b, v, to) : v;
}

static void set_operands(struct build *b, const struct ht_node *n, struct ht_node *copy)
{
	const struct ht_column *c = b->taken[n->id];

	copy->in = HT_NEW_ARRAY(b->t->arena, struct ht_value, (size_t)n->ins);
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_value v = n->in[i];
		int attr = c ? ht_attr_of_arg(n, i) : -1;
		enum ht_dtype to = attr >= 0                                ? c->dtype[attr]
				   : v.index >= 0 && v.index < v.node->outs ? ht_type_of(v)->dtype
									    : HT_INVALID;
		copy->in[i] = value_in(b, v, to);
	}
}

static void copy_entries(struct build *b)
{
	struct ht_entry **end = &b->t->graph->entries;

	for (const struct ht_entry *e = b->p->graph->entries; e; e = e->next, end = &(*end)->next) {
		struct ht_port **out;
		*end = HT_NEW(b->t->arena, struct ht_entry);
		out = &(*end)->outputs;
		for (const struct ht_port *o = e->outputs; o; o = o->next, out = &(*out)->next) {
			*out = HT_NEW(b->t->arena, struct ht_port);
			(*out)->value = value_in(b, o->value,
				o->value.index >= 0 && o->value.index < o->value.node->outs
					? ht_type_of(o->value)->dtype
					: HT_INVALID);
		}
	}
}

/* Copies what fusion and prices read: without names, control edges and functions; attributes are
 * shared with the original. */
static void copy_graph(struct build *b)
{
	struct ht_graph *from = b->p->graph;
	struct ht_node *copies = HT_NEW_ARRAY(b->t->arena, struct ht_node, from->nodes);
	size_t results = 0;

	b->t->graph = HT_NEW(b->t->arena, struct ht_graph);
	b->t->graph->arena = b->t->arena;
	ht_graph_share_sizes(b->t->graph, from);
	b->t->copy = HT_NEW_ARRAY(b->t->arena, struct ht_node *, from->ids);
	b->t->first_result = HT_NEW_ARRAY(b->t->arena, size_t, from->nodes);
	for (const struct ht_node *n = from->first; n; n = n->next) {
		struct ht_node *copy = copies++;
		*copy = *n;
		copy->shares_attrs = true;
		copy->id = b->t->graph->ids++;
		copy->controls = 0;
		b->t->copy[n->id] = copy;
		b->t->first_result[copy->id] = results;
		results += (size_t)n->outs;
		set_results(b, n, copy);
	}
	b->t->casts = HT_NEW_ARRAY(b->t->arena, struct ht_trial_cast *, results);
	for (const struct ht_node *n = from->first; n; n = n->next) {
		set_operands(b, n, b->t->copy[n->id]);
		append(b, b->t->copy[n->id]);
	}
	copy_entries(b);
}

/* ---- the order ---- */

struct place {
	struct ht_node *node;
	uint32_t depth;
	uint64_t from, into; /* hashes */
	uint32_t position;   /* the original position, used as the last resort */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t words[2] = { a, b };

	return ht_hash_bytes(words, sizeof words).lo;
}

static uint64_t hash_of_node(const struct ht_node *n)
{
	uint64_t h = n->op == HT_OP_OPAQUE ? ht_hash_bytes(n->type.p, n->type.n).lo : n->op;

	for (int32_t i = 0; i < n->outs; i++) {
		h = mix(h, (uint64_t)n->out[i].dtype << 32 | (uint32_t)n->out[i].shape.rank);
		for (int32_t k = 0; k < n->out[i].shape.rank; k++)
			h = mix(h, (uint64_t)n->out[i].shape.dim[k]);
	}
	return h;
}

static void look_back(struct place *place, const struct ht_node *n)
{
	struct place *at = &place[n->id];

	at->from = hash_of_node(n);
	for (int32_t i = 0; i < n->ins; i++) {
		const struct place *from = &place[n->in[i].node->id];
		if (ht_closes_loop(n->in[i].node, n))
			continue;
		at->depth = from->depth >= at->depth ? from->depth + 1 : at->depth;
		at->from = mix(at->from, mix(from->from, (uint64_t)n->in[i].index));
	}
}

/* The order of users does not matter: their hashes are added. */
static void look_ahead(struct place *place, const struct ht_node *n)
{
	uint64_t into = mix(place[n->id].from, place[n->id].into);

	place[n->id].into = into;
	for (int32_t i = 0; i < n->ins; i++)
		place[n->in[i].node->id].into += mix(into, (uint64_t)i);
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->into != y->into)
		return x->into < y->into ? -1 : 1;
	return (x->position > y->position) - (x->position < y->position);
}

static void put_in_order(struct ht_trial *t)
{
	struct ht_graph *g = t->graph;
	struct place *place = HT_NEW_ARRAY(t->arena, struct place, g->ids);
	struct place *sorted = HT_NEW_ARRAY(t->arena, struct place, g->nodes);
	size_t n = 0;

	for (struct ht_node *i = g->first; i; i = i->next)
		look_back(place, i);
	for (struct ht_node *i = g->last; i; i = i->prev)
		look_ahead(place, i);
	for (struct ht_node *i = g->first; i; i = i->next, n++) {
		sorted[n] = place[i->id];
		sorted[n].node = i;
		sorted[n].position = (uint32_t)n;
	}
	if (n)
		qsort(sorted, n, sizeof *sorted, by_place);
	for (size_t i = 0; i < n; i++)
		ht_node_move(sorted[i].node, NULL);
}

void ht_trial_make(struct ht_precision *p, const struct ht_column *const *taken,
	const struct ht_pricing *pricing, struct ht_trial *t)
{
	struct build b = { p, taken, t };
	struct ht_fusions fusions;

	*t = (struct ht_trial){ .arena = ht_arena_of(p) };
	copy_graph(&b);
	put_in_order(t);
	ht_policy_fusions(p->policy, &fusions, t->arena);
	t->fusion = ht_fusion_of(t->graph, &fusions, t->arena);
	ht_saved_find(t->graph, &t->fusion, pricing->target, t->arena, &t->saved);
	t->price = ht_price_graph(pricing, t->graph, &t->fusion, &t->saved);
}

void ht_trial_free(struct ht_trial *t)
{
	ht_arena_release(t->arena);
}
