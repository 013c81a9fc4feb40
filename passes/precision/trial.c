/* Trials: assignments written into copies of the graph.
 *
 * Which nodes fuse depends on the order of the graph where two orders are possible, and a decision
 * must not.  So a trial's nodes are put in an order that follows from their places in the graph
 * alone: by depth, then by a hash of what a node is computed from, then of what is made of it. */
#include "passes/precision/optimal.h"

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

static void write_types(
	struct ht_precision *p, const struct ht_column *const *taken, struct ht_trial *t)
{
	struct ht_precision q = *p;
	struct ht_decisions unwanted = { .arena = t->arena };
	struct ht_node *copy = t->graph->first;

	q.units = 0;
	q.graph = t->graph;
	q.arena = t->arena;
	ht_units_build(&q);
	t->copy = HT_NEW_ARRAY(t->arena, struct ht_node *, p->graph->ids);
	for (const struct ht_node *n = p->graph->first; n; n = n->next, copy = copy->next) {
		struct ht_choice *c = &q.choice[copy->id];
		t->copy[n->id] = copy; /* the copy has the same nodes in the same order */
		c->taken = taken[n->id];
		c->columns = c->taken != NULL;
		for (int i = 0; i < ht_op_info(n->op)->type_attrs && c->taken; i++)
			ht_unit_of(&q, copy, i)->to = c->taken->dtype[i];
	}
	ht_precision_rewrite(&q, &unwanted);
}

static void find_casts(struct ht_trial *t, uint32_t first_new)
{
	t->last_cast = HT_NEW_ARRAY(t->arena, struct ht_node *, t->graph->ids);
	t->next_cast = HT_NEW_ARRAY(t->arena, struct ht_node *, t->graph->ids);
	for (struct ht_node *n = t->graph->first; n; n = n->next) {
		if (n->id < first_new || n->op != HT_OP_Cast)
			continue;
		t->next_cast[n->id] = t->last_cast[n->in[0].node->id];
		t->last_cast[n->in[0].node->id] = n;
	}
}

/* ---- the order ---- */

struct place {
	struct ht_node *node;
	uint32_t depth;
	uint64_t from, into; /* hashes */
	uint32_t position;   /* as it was; last resort */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t words[2] = { a, b };

	return ht_hash_bytes(words, sizeof words).lo;
}

static uint64_t hash_of_node(const struct ht_node *n)
{
	uint64_t h = ht_hash_bytes(n->type.p, n->type.n).lo;

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
	for (int32_t i = 0; i < n->controls; i++)
		if (place[n->control[i]->id].depth >= at->depth)
			at->depth = place[n->control[i]->id].depth + 1;
}

/* Users count in any order: their hashes are added. */
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
	uint32_t first_new;

	*t = (struct ht_trial){ .arena = ht_arena_of(p) };
	t->graph = ht_graph_clone(p->graph, t->arena);
	first_new = t->graph->ids;
	write_types(p, taken, t);
	find_casts(t, first_new);
	put_in_order(t);
	t->fusion = ht_fusion_of(t->graph, t->arena);
	t->price = ht_price_graph(pricing, t->graph, &t->fusion);
}

void ht_trial_free(struct ht_trial *t)
{
	ht_arena_release(t->arena);
}
