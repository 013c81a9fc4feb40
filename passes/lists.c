/* lists: lists of tensors with known length and shape become tensors.
 *
 * TensorFlow's TensorArray, map_fn, scan and recurrent layers are loops over TensorLists.  A
 * list whose length and element shape are known becomes one tensor [length, element...]:
 * elements are gathered from it or scattered into it, and packing changes nothing.  Facts about
 * one list may determine the element shape of another, so types are inferred again after each
 * round, until nothing changes.  While a loop's lists are unknown, little is known of the loop,
 * so inference is optimistic until the end: wrong guesses become unknown then.
 *
 * A list that grows, or whose length is computed, becomes a list of known length first
 * (lists_grow.c).
 *
 * A list whose elements have several sizes becomes a list of elements of one size, and one of their sizes (lists_varied.c).
 *
 * Left alone, and refused by lowering: lists of elements of several ranks, and lists
 * that come from outside of the graph. */
#include "passes/bounded.h"
#include "passes/computed.h"
#include "passes/lists_told.h"

/* Lists that the graph's caller has as well must not be changed here. */
static void find_open(struct ht_lists *l, const struct ht_graph *g)
{
	if (!g->function)
		return;
	for (const struct ht_port *p = g->function->args; p; p = p->next)
		ht_list_tell_bad(l, p->value);
	for (const struct ht_port *p = g->function->rets; p; p = p->next)
		ht_list_tell_bad(l, p->value);
}

static void find_outputs(struct ht_lists *l)
{
	for (const struct ht_port *p = l->c->entry ? l->c->entry->outputs : NULL; p; p = p->next)
		ht_list_tell_bad(l, p->value);
}

/* ---- lists that are reserved ---- */

static struct ht_node *reserve_again(struct ht_node *from)
{
	struct ht_graph *g = from->graph;
	struct ht_node *copy = ht_node_new(g, from->type, ht_graph_free_name(g, from->name));

	copy->attrs = ht_attrs_copy(from->attrs, NULL, g->arena);
	ht_node_set_ins(copy, from->in, from->ins);
	ht_node_set_outs(copy, 1);
	copy->out[0] = from->out[0];
	ht_node_add_origin(copy, from);
	ht_node_move(copy, from); /* to the front: walks over the graph have passed it */
	return copy;
}

/* cse merges nodes that reserve equal lists (cse.c): each use gets a list of its own again,
 * since the elements may differ. */
static void reserve_for_each(struct ht_graph *g, struct ht_arena *scratch)
{
	struct ht_uses uses = ht_graph_uses(g, scratch);

	for (struct ht_node *n = g->first; n; n = n->next) {
		bool first = true;

		if (n->op != HT_OP_TensorListReserve && n->op != HT_OP_EmptyTensorList)
			continue;
		for (const struct ht_use *u = uses.of[n->id]; u; u = u->next) {
			if (u->arg >= 0 && !first)
				u->node->in[u->arg] = ht_out(reserve_again(n), 0);
			first = first && u->arg < 0;
		}
	}
}

/* Whether the graph, or a body that it runs, has lists.  Gives each reserved list one use. */
static bool has_lists(struct ht_graph *g, struct ht_arena *scratch)
{
	bool any = false;

	reserve_for_each(g, scratch);
	for (const struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = { { NULL } };

		any = any || ht_is_list_op(n);
		if (ht_runs_own(n))
			b = ht_control_bodies(n);
		for (int k = 0; k < 2; k++)
			any = (b.of[k] && has_lists(b.of[k]->body, scratch)) || any;
	}
	return any;
}

/* Whether elements, which are sizes, may prove to be one constant once more is known of other
 * lists. */
static bool may_be_constant(const struct ht_list *x)
{
	return x->empty && x->various && ht_is_index(x->dtype);
}

/* Whether a list can become a tensor that need not wait for others. */
static bool any_is_known(const struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++) {
		const struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		if (ht_list_is_known(x) && !may_be_constant(x))
			return true;
	}
	return false;
}

static bool any_grows(const struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++)
		if (ht_list_standing(l->of.entries[i].value)->grows)
			return true;
	return false;
}

static void let_wait(struct ht_lists *l)
{
	bool others = any_is_known(l);

	for (size_t i = 0; i < l->of.count; i++) {
		struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		x->waits = others && may_be_constant(x);
	}
}

/* A list of a computed length is one that grows, unless sizes are open and the length may prove to be one of them.  Lists that are added are
 * equally long, so if the length of one is known, the others have it: the gradient of an element of a list is a list for whose length a loop
 * keeps that of the list. */
static void settle_lengths(struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++) {
		struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		if (x->summed && x->length != HT_DIM_UNKNOWN)
			x->computed = false;
		x->grows = x->grows || (x->computed && (l->settled || !ht_lists_have_sizes(l)));
		x->held = l->computes && !l->numbered && x->grows && x->joined &&
			  !ht_shape_is_told(x->shape);
	}
}

/* Whether a body computes a size of the dimension, and the list is not made in that body. */
static bool is_computed_outside(const struct ht_lists *l, const struct ht_list *x, int64_t dim)
{
	struct ht_size_expr e = ht_dim_of_sizes(l->g, dim);

	for (int k = 0; k < ht_size_count(&e); k++)
		if (ht_size_at(l->g, e.size[k])->within.n &&
			!(x->home && ht_size_node(x->home, e.size[k])))
			return true;
	return false;
}

/* Elements have no common extent along an axis where a body computes it each time that it runs, and the list is made outside of the body. */
static void settle_shapes(struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++) {
		struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		for (int32_t k = 0; k < x->shape.rank && ht_lists_have_sizes(l); k++)
			if (ht_dim_is_open(l->g, x->shape.dim[k]) &&
				is_computed_outside(l, x, x->shape.dim[k]))
				x->varied |= 1u << k;
	}
}

/* The values get the tensors' types before nodes are changed, since that change reads them. */
static bool set_types(struct ht_lists *l)
{
	bool any = false;

	let_wait(l);
	for (size_t i = 0; i < l->of.count; i++) {
		const struct ht_value v = ht_value_of_entry(&l->of, i);
		const struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		if (!ht_list_is_known(x))
			continue;
		v.node->out[v.index] =
			(struct ht_type){ x->dtype, ht_list_shape(x, v.node->graph->arena) };
		any = true;
	}
	return any;
}

/* Folds what shapes in bodies determine: sizes that are pushed, so that popped values are
 * constants. */
static enum ht_status fold_bodies(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++) {
			HT_TRY(ht_run_passes_within(c, b.of[k], "fold,identity"));
			HT_TRY(fold_bodies(b.of[k]->body, c));
		}
	}
	return HT_OK;
}

/* Folds what the shapes of lists that became tensors determine: how often a loop runs that reads such a list. */
static enum ht_status fold_program(struct ht_graph *g, const struct ht_pass_context *c)
{
	struct ht_pass_context within = *c;
	enum ht_status st;

	if (g->function)
		return HT_OK;
	within.scratch = ht_arena_within(c->scratch);
	within.after = NULL;
	st = ht_run_passes(g, "infer,fold", NULL, &within);
	ht_arena_release(within.scratch);
	return st;
}

static enum ht_status find_again(struct ht_lists *l, struct ht_graph *g)
{
	HT_TRY(ht_infer_types_hopefully(g, l->c->diags));
	if (ht_lists_ask_elements(l))
		HT_TRY(ht_infer_all_known(g, l->c->scratch, l->c->diags, true, &l->known));
	ht_map_init(&l->of, l->c->scratch);
	ht_lists_find(l, g);
	find_open(l, g);
	find_outputs(l);
	settle_lengths(l);
	settle_shapes(l);
	return HT_OK;
}

/* Whether a list may be one whose elements have several sizes, as far as is known. */
static bool any_may_vary(const struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++) {
		const struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		if (!x->bad && !x->summed && (!x->grows || x->held) && x->shape.rank > 0 &&
			(x->varied || x->unsure || !ht_shape_is_told(x->shape)))
			return true;
	}
	return false;
}

/* Whether a body makes a list of a tensor whose length may be a size that it computes, and that has no number so far.  `of_parts`: of
 * parts of the tensor, whose own lengths are such sizes as well. */
static bool any_is_open(const struct ht_lists *l, bool of_parts)
{
	for (size_t i = 0; i < l->of.count && !l->numbered; i++) {
		const struct ht_list *x = ht_list_standing(l->of.entries[i].value);

		if (!x->bad && x->open && x->length == HT_DIM_UNKNOWN && (x->parts || !of_parts))
			return true;
	}
	return false;
}

/* Elements of several sizes become those of one.  Where there are none so far, sizes that bodies compute get their numbers, of which more may
 * follow.  *done: nothing more does. */
static enum ht_status vary(struct ht_lists *l, struct ht_graph *g, int *rounds, bool *done)
{
	struct ht_pass_context within = *l->c;
	int32_t before = g->sizes;
	enum ht_status st;
	bool changed;

	ht_lists_split_sizes(l, g, &changed);
	*done = false;
	if (changed)
		return HT_OK;
	*done = --*rounds < 0;
	if (*done)
		return HT_OK;
	within.scratch = ht_arena_within(l->c->scratch);
	within.after = NULL;
	st = ht_add_computed_sizes(g, &within, false);
	ht_arena_release(within.scratch);
	*done = g->sizes == before && l->numbered;
	l->numbered = true;
	return st;
}

enum ht_status ht_lists_to_tensors(struct ht_graph *g, struct ht_pass_context *c, bool computes)
{
	struct ht_lists l = { .c = c, .g = g, .computes = computes };
	bool some_grow = false, grows = false, made = false, done = false, folded = false, split,
	     any;
	int rounds = 8;

	any = has_lists(g, c->scratch);
	ht_lists_of_ragged(g, c);
	if (!any)
		return HT_OK;
	ht_lists_hand_on_items(g, c);
	do {
		HT_TRY(find_again(&l, g));
		some_grow = some_grow || any_grows(&l);
		grows = false;
		/* The shapes of others may tell how often a loop runs, and so how much room a list needs that grows in it. */
		if (some_grow && !folded && !any_is_known(&l)) {
			HT_TRY(fold_bodies(g, c));
			HT_TRY(find_again(&l, g));
			folded = true;
		}
		if (!any_is_known(&l))
			HT_TRY(ht_lists_grow(&l, g, &grows));
		if (grows || (some_grow && made)) {
			HT_TRY(ht_infer_types_hopefully(g, c->diags));
			HT_TRY(fold_program(g, c));
			HT_TRY(fold_bodies(g, c));
			HT_TRY(find_again(&l, g));
		}
		if (!any_is_known(&l)) {
			ht_lists_split_shapes(&l, g, &split);
			l.shapes = l.shapes || split;
			if (split)
				HT_TRY(find_again(&l, g));
		}
		made = set_types(&l) || grows;
		if (made)
			ht_lists_make_dense(&l, g);
		else if (l.computes && any_is_open(&l, true))
			HT_TRY(vary(&l, g, &rounds, &done));
		else if (!l.settled && ht_lists_have_sizes(&l))
			l.settled = true;
		else if (!l.computes || (!any_may_vary(&l) && !any_is_open(&l, false)))
			break;
		else
			HT_TRY(vary(&l, g, &rounds, &done));
	} while (!done && has_lists(g, c->scratch));
	return ht_infer_types(g, c->diags);
}
