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
#include "ir/infer.h"
#include "passes/bounded.h"
#include "passes/by_value.h"
#include "passes/computed.h"
#include "passes/lists.h"

#include <string.h>

/* ---- lists by value ---- */

static bool is_list(struct ht_value v)
{
	return !v.port.n && v.index >= 0 && v.index < v.node->outs &&
	       ht_type_of(v)->dtype == HT_VARIANT;
}

static struct ht_list *standing(struct ht_list *x)
{
	while (x->same)
		x = x->same;
	return x;
}

struct ht_list *ht_list_of(struct ht_lists *l, struct ht_value v)
{
	struct ht_list *x = ht_by_value(&l->of, v);

	if (x)
		return standing(x);
	if (!is_list(v))
		return NULL;
	x = HT_NEW(l->c->scratch, struct ht_list);
	*x = (struct ht_list){
		.length = -1, .limit = -1, .shape = HT_SHAPE_UNKNOWN, .sizes = HT_SHAPE_UNKNOWN
	};
	ht_set_by_value(&l->of, l->c->scratch, v, x);
	return x;
}

static bool has_fixed_size(enum ht_dtype t)
{
	return t > HT_INVALID && t < HT_REF && ht_dtype_info(t)->bytes > 0;
}

/* Elements that are concatenated must not be scalars, which have no length. */
static bool can_join(const struct ht_list *x)
{
	int64_t length;

	return x->shape.rank > 0 && x->length >= 0 && x->shape.dim[0] >= 0 &&
	       !__builtin_mul_overflow(x->shape.dim[0], x->length, &length);
}

bool ht_list_is_known(const struct ht_list *x)
{
	return !x->bad && !x->varied && !x->unsure && !x->grows && !x->computed && !x->waits &&
	       has_fixed_size(x->dtype) && x->length != HT_DIM_UNKNOWN && x->length <= INT32_MAX &&
	       ht_shape_is_told(x->shape) && x->shape.rank < HT_MAX_RANK &&
	       (!x->joined || can_join(x));
}

bool ht_list_has_one(const struct ht_list *x)
{
	return !x->various && (x->constant || x->sizes.rank >= 0);
}

struct ht_shape ht_list_shape(const struct ht_list *x, struct ht_arena *a)
{
	int64_t dim[HT_MAX_RANK] = { x->length };

	for (int32_t i = 0; i < x->shape.rank; i++)
		dim[i + 1] = x->shape.dim[i];
	return ht_shape_make(a, x->shape.rank + 1, dim);
}

/* ---- open sizes ---- */

static bool has_open_sizes(const struct ht_lists *l)
{
	return l->g->sizes && !l->g->closed;
}

/* A dimension that is no number tells something if it is an open size of the program. */
static int64_t told_dim(const struct ht_lists *l, int64_t dim)
{
	return dim >= 0 || (has_open_sizes(l) && ht_dim_is_open(l->g, dim)) ? dim : HT_DIM_UNKNOWN;
}

static struct ht_shape told_shape(const struct ht_lists *l, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK];

	if (s.rank < 0 || s.rank > HT_MAX_RANK)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = told_dim(l, s.dim[i]);
	return ht_shape_make(l->c->scratch, s.rank, dim);
}

/* What inference knows of the elements of `v`, where sizes are open; NULL: nothing. */
static const struct ht_known *elements_of(const struct ht_lists *l, struct ht_value v)
{
	struct ht_known **known = has_open_sizes(l) ? ht_known_of(&l->known, v.node->graph) : NULL;
	const struct ht_known *k = known ? known[v.node->id] : NULL;

	return k && k[v.index].e ? &k[v.index] : NULL;
}

/* ---- what is told of a list ---- */

static void has_dtype(struct ht_list *x, enum ht_dtype t)
{
	if (x->dtype == HT_INVALID)
		x->dtype = t;
	x->bad = x->bad || (t != HT_INVALID && x->dtype != t);
}

static void has_length(struct ht_list *x, int64_t n)
{
	if (x->length == HT_DIM_UNKNOWN)
		x->length = n;
	x->grows = x->grows || (n != HT_DIM_UNKNOWN && x->length != n);
}

static void has_limit(struct ht_list *x, int64_t n)
{
	if (n >= 0 && (x->limit < 0 || n < x->limit))
		x->limit = n;
}

static void has_most(struct ht_list *x, int32_t axis, int64_t most)
{
	if (most > x->most[axis])
		x->most[axis] = most;
}

/* A dimension that is not a number adds no information. */
static void has_shape(struct ht_lists *l, struct ht_list *x, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK];

	s = told_shape(l, s);
	if (s.rank < 0)
		return;
	if (x->shape.rank >= 0 && x->shape.rank != s.rank) {
		x->bad = true;
		return;
	}
	for (int32_t i = 0; i < s.rank; i++) {
		int64_t known = x->shape.rank < 0 ? HT_DIM_UNKNOWN : x->shape.dim[i];

		dim[i] = s.dim[i];
		if (dim[i] != HT_DIM_UNKNOWN)
			has_most(x, i, ht_dim_most(l->g, dim[i]));
		if (known != HT_DIM_UNKNOWN && dim[i] != HT_DIM_UNKNOWN && known != dim[i])
			x->varied |= 1u << i;
		if (known != HT_DIM_UNKNOWN)
			dim[i] = known;
	}
	x->shape = ht_shape_make(l->c->scratch, s.rank, dim);
}

static void has_home(struct ht_lists *l, struct ht_list *x, const struct ht_graph *home)
{
	if (home)
		x->home = x->home && x->home != home ? l->g : home;
}

/* Elements that are a shape, as far as they are known. */
static void has_computed_shape(struct ht_lists *l, struct ht_list *x, struct ht_value stated)
{
	const struct ht_known *k = elements_of(l, stated);
	int64_t dim[HT_MAX_RANK];

	if (!k || k->n > HT_MAX_RANK || ht_type_of(stated)->shape.rank != 1)
		return;
	for (int32_t i = 0; i < k->n; i++)
		dim[i] = ht_elem_dim(&k->e[i]);
	has_shape(l, x, (struct ht_shape){ k->n, dim });
}

/* An operand that states a shape, with -1 for what it does not say; a scalar says nothing. */
static void has_stated_shape(struct ht_lists *l, struct ht_list *x, struct ht_value stated)
{
	int64_t dim[HT_MAX_RANK];
	int rank;
	const struct ht_tensor *t = ht_const_tensor(stated);

	if (!t)
		has_computed_shape(l, x, stated);
	else if (t && t->shape.rank == 1 && ht_const_small_ints(stated, dim, HT_MAX_RANK, &rank))
		has_shape(l, x, (struct ht_shape){ rank, dim });
}

static int64_t stated_length(const struct ht_lists *l, struct ht_value v)
{
	const struct ht_known *k = elements_of(l, v);
	int64_t n;
	int count;

	if (ht_const_small_ints(v, &n, 1, &count) && count == 1)
		return n;
	return k && k->n == 1 ? told_dim(l, ht_elem_dim(&k->e[0])) : HT_DIM_UNKNOWN;
}

/* Elements that are sizes, which gradients keep in lists: if all are one constant, the list is
 * not needed. */
static void has_constant(struct ht_list *x, const struct ht_tensor *t)
{
	if (!x->constant)
		x->constant = t;
	else if (t->dtype != x->constant->dtype || !ht_shape_eq(t->shape, x->constant->shape) ||
		 memcmp(t->blob->p, x->constant->blob->p, t->blob->n) != 0)
		x->various = true;
	x->various = x->various || x->sizes.rank >= 0;
}

/* Likewise elements that are the same sizes of the run. */
static void has_sizes(struct ht_list *x, struct ht_shape sizes)
{
	if (x->sizes.rank < 0)
		x->sizes = sizes;
	x->various = x->various || x->constant || !ht_shape_eq(x->sizes, sizes);
}

/* Whether a dimension is a number, or one of sizes that are the same in the whole run: no body computes them. */
static bool stays_in_run(const struct ht_lists *l, int64_t dim)
{
	struct ht_size_expr e = ht_dim_of_sizes(l->g, dim);

	if (told_dim(l, dim) == HT_DIM_UNKNOWN)
		return false;
	for (int k = 0; k < ht_size_count(&e); k++)
		if (ht_size_at(l->g, e.size[k])->within.n)
			return false;
	return true;
}

/* The elements of a vector or scalar as dimensions; rank -1: some may differ within the run, or are no sizes. */
static struct ht_shape sizes_in(const struct ht_lists *l, struct ht_value v)
{
	const struct ht_known *k = elements_of(l, v);
	int64_t dim[HT_MAX_RANK];

	if (!k || k->n > HT_MAX_RANK || ht_shape_count(ht_type_of(v)->shape) != k->n ||
		ht_type_of(v)->shape.rank > 1)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < k->n; i++) {
		dim[i] = ht_elem_dim(&k->e[i]);
		if (!stays_in_run(l, dim[i]))
			return HT_SHAPE_UNKNOWN;
	}
	return ht_shape_make(l->c->scratch, k->n, dim);
}

static bool is_integer(enum ht_dtype t)
{
	return t == HT_I32 || t == HT_I64;
}

static void has_element(const struct ht_lists *l, struct ht_list *x, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	struct ht_shape sizes = HT_SHAPE_UNKNOWN;

	if (t && is_integer(t->dtype) && t->blob) {
		has_constant(x, t);
		return;
	}
	if (!t && is_integer(ht_type_of(v)->dtype))
		sizes = sizes_in(l, v);
	if (sizes.rank >= 0)
		has_sizes(x, sizes);
	else
		x->various = true;
}

static void are_same(struct ht_lists *l, struct ht_value a, struct ht_value b)
{
	struct ht_list *x = ht_list_of(l, a), *y = ht_list_of(l, b);

	if (!x || !y || x == y)
		return;
	x->bad = x->bad || y->bad || (x->shrinks && y->extended) || (x->extended && y->shrinks);
	x->joined = x->joined || y->joined;
	x->summed = x->summed || y->summed;
	x->unsure = x->unsure || y->unsure;
	x->varied |= y->varied;
	for (int i = 0; i < HT_MAX_RANK; i++)
		has_most(x, i, y->most[i]);
	has_home(l, x, y->home);
	has_dtype(x, y->dtype);
	has_length(x, y->length);
	has_limit(x, y->limit);
	has_shape(l, x, y->shape);
	x->grows = x->grows || y->grows;
	x->computed = x->computed || y->computed;
	x->open = x->open || y->open;
	x->parts = x->parts || y->parts;
	x->shrinks = x->shrinks || y->shrinks || (x->resized && y->resized);
	x->resized = x->resized || y->resized;
	x->extended = x->extended || y->extended;
	x->popped = x->popped || y->popped;
	x->various = x->various || y->various;
	x->empty = x->empty || y->empty;
	if (y->constant)
		has_constant(x, y->constant);
	if (y->sizes.rank >= 0)
		has_sizes(x, y->sizes);
	y->same = x;
}

static void is_bad(struct ht_lists *l, struct ht_value v)
{
	struct ht_list *x = ht_list_of(l, v);

	if (x)
		x->bad = true;
}

/* ---- facts from nodes ---- */

static void of_slices(struct ht_lists *l, struct ht_list *x, struct ht_shape s)
{
	if (s.rank > 0)
		has_shape(l, x, (struct ht_shape){ s.rank - 1, s.dim + 1 });
}

static void of_scattered(struct ht_lists *l, struct ht_list *x, struct ht_shape s)
{
	of_slices(l, x, s);
	x->bad = x->bad || !ht_shape_is_told(told_shape(l, s)) || s.rank == 0;
}

static void of_tensor(struct ht_lists *l, struct ht_list *x, const struct ht_node *n)
{
	struct ht_shape s = ht_type_of(n->in[0])->shape;

	int64_t length = s.rank < 1 ? HT_DIM_UNKNOWN : told_dim(l, s.dim[0]);

	x->open = x->open || length == HT_DIM_UNKNOWN;
	if (s.rank < 1)
		return;
	has_length(x, length);
	of_slices(l, x, s);
}

/* Parts of a tensor along its first axis, of any lengths. */
static void of_parts(struct ht_lists *l, struct ht_list *x, const struct ht_node *n)
{
	struct ht_shape s = ht_type_of(n->in[0])->shape, lengths = ht_type_of(n->in[2])->shape;
	int64_t count = lengths.rank == 1 ? told_dim(l, lengths.dim[0]) : HT_DIM_UNKNOWN;

	x->open = x->open || count == HT_DIM_UNKNOWN;
	x->parts = true;
	has_length(x, count);
	x->varied |= 1u;
	if (s.rank > 0)
		has_shape(l, x, s);
}

/* The operand that states the shape of elements; -1: none does. */
static int32_t stated_at(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
		return 0;
	case HT_OP_TensorListFromTensor:
	case HT_OP_TensorListSplit:
	case HT_OP_TensorListPopBack:
	case HT_OP_TensorListStack:
		return 1;
	case HT_OP_TensorListGetItem:
	case HT_OP_TensorListGather:
		return 2;
	default:
		return -1;
	}
}

static void tell_of_length(struct ht_lists *l, struct ht_node *n, struct ht_list *x)
{
	int64_t length;

	switch (n->op) {
	case HT_OP_TensorListReserve:
		length = stated_length(l, n->in[1]);
		has_length(x, length);
		x->computed = x->computed || length == HT_DIM_UNKNOWN;
		break;
	case HT_OP_TensorListFromTensor:
		of_tensor(l, x, n);
		break;
	case HT_OP_TensorListSplit:
		of_parts(l, x, n);
		break;
	case HT_OP_EmptyTensorList:
		has_limit(x, stated_length(l, n->in[1]));
		x->grows = true;
		break;
	case HT_OP_TensorListPopBack:
		x->grows = x->popped = true;
		break;
	case HT_OP_TensorListResize:
		/* A second resize could bring back elements that the first removed, unless none adds elements. */
		x->shrinks = x->shrinks || x->resized || n->graph->function;
		x->grows = x->resized = true;
		break;
	default:
		x->extended = x->extended || n->op == HT_OP_TensorListScatterIntoExistingList ||
			      ht_attr_bool(n, "resize_if_index_out_of_bounds", false);
		x->grows = x->grows || n->op == HT_OP_TensorListPushBack ||
			   ht_attr_bool(n, "resize_if_index_out_of_bounds", false);
	}
	x->bad = x->bad || (x->resized && x->popped) || (x->shrinks && x->extended);
}

static void tell_of_op(struct ht_lists *l, struct ht_node *n, struct ht_list *x)
{
	tell_of_length(l, n, x);
	if (n->op == HT_OP_TensorListScatterIntoExistingList)
		of_scattered(l, x, ht_type_of(n->in[1])->shape);
	else if (n->op == HT_OP_TensorListSetItem)
		has_shape(l, x, ht_type_of(n->in[2])->shape);
	if (n->op == HT_OP_TensorListSetItem || n->op == HT_OP_TensorListPushBack)
		x->unsure = x->unsure ||
			    (l->computes && !l->numbered && ht_follows_computed(n->in[n->ins - 1]));
	if (n->op == HT_OP_TensorListSetItem)
		has_element(l, x, n->in[2]);
	else if (n->op == HT_OP_TensorListPushBack)
		has_shape(l, x, ht_type_of(n->in[1])->shape);
	else if (ht_attr_bool(n, HT_LIST_EMPTY, false))
		x->empty = true;
	else if (n->op == HT_OP_TensorListScatterIntoExistingList || ht_makes_list(n))
		x->various = true;
	if (stated_at(n) >= 0)
		has_stated_shape(l, x, n->in[stated_at(n)]);
	/* A list that is reserved for variants may get rows of ragged tensors instead (lists_ragged.c). */
	if (!ht_makes_list(n) || ht_attr_type(n, "element_dtype", HT_INVALID) != HT_VARIANT)
		has_dtype(x, ht_attr_type(n, "element_dtype", x->dtype));
	x->bad = x->bad || x->dtype == HT_VARIANT;
	x->joined = x->joined || n->op == HT_OP_TensorListConcatV2;
}

static void tell_of_branch(struct ht_lists *l, struct ht_node *n, const struct ht_function *f)
{
	int32_t i = ht_control_first(n);

	for (const struct ht_port *p = f->args; p && i < n->ins; p = p->next, i++)
		are_same(l, n->in[i], p->value);
	i = 0;
	for (const struct ht_port *p = f->rets; p && i < n->outs; p = p->next, i++)
		if (f != ht_control_bodies(n).of[0] || !ht_is(n, HT_LOOPS))
			are_same(l, ht_out(n, i), p->value);
}

static void tell_of_control(struct ht_lists *l, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);

	for (int32_t i = 0; i < n->outs && ht_is(n, HT_LOOPS); i++)
		are_same(l, n->in[i], ht_out(n, i));
	for (int k = 0; k < 2; k++) {
		tell_of_branch(l, n, b.of[k]);
		ht_lists_find(l, b.of[k]->body);
	}
}

bool ht_is_list_op(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
	case HT_OP_TensorListFromTensor:
	case HT_OP_TensorListSplit:
	case HT_OP_TensorListPushBack:
	case HT_OP_TensorListPopBack:
	case HT_OP_TensorListResize:
	case HT_OP_TensorListSetItem:
	case HT_OP_TensorListScatterIntoExistingList:
	case HT_OP_TensorListGetItem:
	case HT_OP_TensorListStack:
	case HT_OP_TensorListGather:
	case HT_OP_TensorListLength:
	case HT_OP_TensorListElementShape:
	case HT_OP_TensorListConcatV2:
		return true;
	default:
		return false;
	}
}

bool ht_makes_list(const struct ht_node *n)
{
	return n->op == HT_OP_EmptyTensorList || n->op == HT_OP_TensorListReserve ||
	       n->op == HT_OP_TensorListFromTensor || n->op == HT_OP_TensorListSplit;
}

/* Adds lists element by element. */
static void tell_of_sum(struct ht_lists *l, struct ht_node *n)
{
	struct ht_list *sum = ht_list_of(l, ht_out(n, 0));

	if (sum)
		sum->summed = true;
	for (int32_t i = 0; i < n->ins; i++)
		are_same(l, n->in[i], ht_out(n, 0));
}

/* Lists that are elements of a list cannot become tensors. */
static void tell_of_elements(struct ht_lists *l, struct ht_node *n)
{
	for (int32_t i = ht_makes_list(n) ? 0 : 1; i < n->ins; i++)
		is_bad(l, n->in[i]);
	for (int32_t i = 0; i < n->outs; i++)
		if (i || n->op == HT_OP_TensorListGetItem || n->op == HT_OP_TensorListStack ||
			n->op == HT_OP_TensorListGather)
			is_bad(l, ht_out(n, i));
}

static void tell(struct ht_lists *l, struct ht_node *n)
{
	if (ht_is_list_op(n)) {
		struct ht_value v = ht_makes_list(n) ? ht_out(n, 0) : n->in[0];

		tell_of_elements(l, n);
		if (!ht_makes_list(n) && ht_op_info(n->op)->result[0].fixed == HT_VARIANT)
			are_same(l, v, ht_out(n, 0));
		if (ht_makes_list(n) && is_list(v))
			has_home(l, ht_list_of(l, v), n->graph);
		if (is_list(v))
			tell_of_op(l, n, ht_list_of(l, v));
	} else if (ht_runs_own(n)) {
		tell_of_control(l, n);
	} else if (n->op == HT_OP_AddN) {
		tell_of_sum(l, n);
	} else if (ht_is(n, HT_FORWARDS) || n->op == HT_OP_ZerosLike) {
		for (int32_t i = 0; i < n->outs && i < n->ins; i++)
			are_same(l, n->in[i], ht_out(n, i));
	} else if (!ht_is(n, HT_ARGUMENT)) {
		for (int32_t i = 0; i < n->ins; i++)
			is_bad(l, n->in[i]);
		for (int32_t i = 0; i < n->outs; i++)
			is_bad(l, ht_out(n, i));
	}
}

void ht_lists_find(struct ht_lists *l, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		tell(l, n);
}

/* Lists that the graph's caller has as well must not be changed here. */
static void find_open(struct ht_lists *l, const struct ht_graph *g)
{
	if (!g->function)
		return;
	for (const struct ht_port *p = g->function->args; p; p = p->next)
		is_bad(l, p->value);
	for (const struct ht_port *p = g->function->rets; p; p = p->next)
		is_bad(l, p->value);
}

static void find_outputs(struct ht_lists *l)
{
	for (const struct ht_port *p = l->c->entry ? l->c->entry->outputs : NULL; p; p = p->next)
		is_bad(l, p->value);
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
	return x->empty && x->various && is_integer(x->dtype);
}

/* Whether a list can become a tensor that need not wait for others. */
static bool any_is_known(const struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++) {
		const struct ht_list *x = standing(l->of.entries[i].value);

		if (ht_list_is_known(x) && !may_be_constant(x))
			return true;
	}
	return false;
}

static bool any_grows(const struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++)
		if (standing(l->of.entries[i].value)->grows)
			return true;
	return false;
}

static void let_wait(struct ht_lists *l)
{
	bool others = any_is_known(l);

	for (size_t i = 0; i < l->of.count; i++) {
		struct ht_list *x = standing(l->of.entries[i].value);

		x->waits = others && may_be_constant(x);
	}
}

/* A list of a computed length is one that grows, unless sizes are open and the length may prove to be one of them.  Lists that are added are
 * equally long, so if the length of one is known, the others have it: the gradient of an element of a list is a list for whose length a loop
 * keeps that of the list. */
static void settle_lengths(struct ht_lists *l)
{
	for (size_t i = 0; i < l->of.count; i++) {
		struct ht_list *x = standing(l->of.entries[i].value);

		if (x->summed && x->length != HT_DIM_UNKNOWN)
			x->computed = false;
		x->grows = x->grows || (x->computed && (l->settled || !has_open_sizes(l)));
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
		struct ht_list *x = standing(l->of.entries[i].value);

		for (int32_t k = 0; k < x->shape.rank && has_open_sizes(l); k++)
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
		const struct ht_list *x = standing(l->of.entries[i].value);

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
	if (has_open_sizes(l))
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
		const struct ht_list *x = standing(l->of.entries[i].value);

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
		const struct ht_list *x = standing(l->of.entries[i].value);

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
	bool some_grow = false, grows = false, made = false, done = false, folded = false, any;
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
		made = set_types(&l) || grows;
		if (made)
			ht_lists_make_dense(&l, g);
		else if (l.computes && any_is_open(&l, true))
			HT_TRY(vary(&l, g, &rounds, &done));
		else if (!l.settled && has_open_sizes(&l))
			l.settled = true;
		else if (!l.computes || (!any_may_vary(&l) && !any_is_open(&l, false)))
			break;
		else
			HT_TRY(vary(&l, g, &rounds, &done));
	} while (!done && has_lists(g, c->scratch));
	return ht_infer_types(g, c->diags);
}
