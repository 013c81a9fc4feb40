/* Lists that grow become lists of a fixed length.  Beside each value of such a list there is a
 * count of its elements: an integer that pushing increments and popping decrements, and that
 * branches and loops pass on like the list.
 *
 * The length is the largest value of all these counts (ranges.c), so the memory of a run has as
 * much room as the loops around a list need; if there is no bound, it is HT_LIST_ROOM. An access
 * to an element that does not exist has the index -1, which its kernel refuses; so does a push
 * beyond the last place. */
#include "passes/by_value.h"
#include "passes/lists_beside.h"
#include "passes/ranges.h"

/* A larger bound says nothing about the actual length. */
enum { MOST_ROOM = 1 << 20 };

/* A node that is completed when the ranges of counts are known. */
struct pending {
	struct ht_node *node;
	struct ht_list *of; /* of a node that makes a list: the list whose length it gets */
	/* Of a node that reads a whole list, or its length: that list, and the number of its elements. */
	struct ht_list *read;
	struct ht_value count;
};

/* The numbers of elements are beside the lists. */
struct growth {
	struct ht_beside counts;
	struct ht_map pending;
	struct ht_ranges ranges;
};

/* Whether a list grows and can become one of fixed length. */
static bool grows(const struct ht_beside *x, const struct ht_list *of)
{
	(void)x;
	return of->grows && !of->open && !of->parts && !of->bad && !of->held;
}

static struct growth *growth_of(const struct ht_beside_part *p)
{
	return (struct growth *)p->x;
}

static struct pending *pending_of(struct growth *x, struct ht_node *n)
{
	struct ht_arena *a = x->counts.l->c->scratch;
	struct pending *known = ht_by_value(&x->pending, ht_out(n, 0));

	if (!known) {
		known = HT_NEW(a, struct pending);
		ht_set_by_value(&x->pending, a, ht_out(n, 0), known);
	}
	return known;
}

/* ---- integers of one element ---- */

static struct ht_value integer(struct ht_beside_part *p, struct ht_node *n, int64_t v)
{
	return ht_rw_scalar(&p->r, n, ht_rw_name_within(&p->r, n, "number"), HT_I32, v);
}

static struct ht_value plus(
	struct ht_beside_part *p, struct ht_node *n, struct ht_value a, int64_t by)
{
	return ht_rw_binary(
		&p->r, n, HT_OP_AddV2, ht_rw_name_within(&p->r, n, "count"), a, integer(p, n, by));
}

static struct ht_value greater(
	struct ht_beside_part *p, struct ht_node *n, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(&p->r, n, HT_OP_Maximum, ht_rw_name_within(&p->r, n, "count"), a, b);
}

/* Indices of existing elements unchanged; -1 for others. */
static struct ht_value existing(
	struct ht_beside_part *p, struct ht_node *n, struct ht_value index, struct ht_value count)
{
	struct ht_value in[3];
	struct ht_node *less, *select;

	in[0] = index;
	in[1] = count;
	less = ht_rw_node(&p->r, n, HT_OP_Less, ht_rw_name_within(&p->r, n, "exists"), in, 2,
		(struct ht_type){ HT_BOOL, ht_type_of(index)->shape });
	in[0] = ht_out(less, 0);
	in[1] = index;
	in[2] = integer(p, n, -1);
	select = ht_rw_node(&p->r, n, HT_OP_SelectV2, ht_rw_name_within(&p->r, n, "index"), in, 3,
		(struct ht_type){ HT_I32, ht_type_of(index)->shape });
	return ht_out(select, 0);
}

/* An operand of `n` that stays alive although `n` no longer reads it. */
static struct ht_value kept(struct ht_beside_part *p, struct ht_node *n, struct ht_value v)
{
	return ht_rw_unary(&p->r, n, HT_OP_Identity, ht_rw_name_within(&p->r, n, "count"), v);
}

static struct ht_value first_numbers(struct ht_beside_part *p, struct ht_node *n, int64_t count)
{
	int64_t *v = HT_NEW_ARRAY(p->r.arena, int64_t, (size_t)count);

	for (int64_t i = 0; i < count; i++)
		v[i] = i;
	return ht_rw_const_ints(&p->r, n, ht_rw_name_within(&p->r, n, "numbers"), HT_I32, v, count);
}

/* 0, 1, … below a count that the run computes. */
static struct ht_value counted(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	const int64_t unknown = HT_DIM_UNKNOWN;
	struct ht_value in[] = { integer(p, n, 0), count, integer(p, n, 1) };
	struct ht_node *numbers =
		ht_rw_node(&p->r, n, HT_OP_Range, ht_rw_name_within(&p->r, n, "numbers"), in, 3,
			(struct ht_type){ HT_I32, ht_shape_make(p->r.g->arena, 1, &unknown) });

	return ht_out(numbers, 0);
}

/* ---- nodes of lists ---- */

/* `n` becomes another op on elements of the same type. */
static void become(struct ht_beside_part *p, struct ht_node *n, enum ht_op op,
	const struct ht_value *in, int32_t ins)
{
	enum ht_dtype t = ht_attr_type(n, "element_dtype", HT_INVALID);

	ht_rw_become(&p->r, n, op, in, ins);
	ht_attr_set_type(n, "element_dtype", t);
}

static void make_reserve(struct ht_beside_part *p, struct ht_node *n)
{
	bool empty = n->op == HT_OP_EmptyTensorList;
	struct ht_value count = empty ? integer(p, n, 0) : kept(p, n, n->in[1]);
	struct ht_value in[] = { n->in[0], integer(p, n, 0) };

	become(p, n, HT_OP_TensorListReserve, in, 2);
	if (empty)
		ht_attr_set_bool(n, HT_LIST_EMPTY, true);
	pending_of(growth_of(p), n)->of = ht_list_of(p->x->l, ht_out(n, 0));
	ht_beside_set(p->x, ht_out(n, 0), count);
}

/* How many rows operand 0 has. */
static struct ht_value rows_of(struct ht_beside_part *p, struct ht_node *n)
{
	struct ht_shape s = ht_type_of(n->in[0])->shape;
	const int64_t rank = s.rank;
	struct ht_str name = ht_rw_name_within(&p->r, n, "count");
	struct ht_value in[2] = { { 0 }, integer(p, n, 0) };
	struct ht_node *count;

	if (s.dim[0] >= 0)
		return integer(p, n, s.dim[0]);
	in[0] = ht_out(ht_rw_node(&p->r, n, HT_OP_Shape, name, n->in, 1,
			       (struct ht_type){ HT_I32, ht_shape_make(p->r.g->arena, 1, &rank) }),
		0);
	ht_attr_set_type(in[0].node, "out_type", HT_I32);
	count = ht_rw_node(
		&p->r, n, HT_OP_Gather, name, in, 2, (struct ht_type){ HT_I32, HT_SHAPE_SCALAR });
	return ht_out(count, 0);
}

/* A list with room whose first elements are the tensor's rows. */
static void make_filled(struct ht_beside_part *p, struct ht_node *n)
{
	int64_t rows = ht_type_of(n->in[0])->shape.dim[0];
	struct ht_value in[] = { n->in[1], integer(p, n, 0), { 0 } }, count = rows_of(p, n);
	struct ht_node *list = ht_rw_node(&p->r, n, HT_OP_TensorListReserve,
		ht_rw_name_within(&p->r, n, "list"), in, 2, n->out[0]);
	struct ht_list *of = ht_list_of(p->x->l, ht_out(n, 0));

	ht_attr_set_type(list, "element_dtype", ht_attr_type(n, "element_dtype", HT_INVALID));
	pending_of(growth_of(p), list)->of = of;
	if (rows < 0 && ht_dim_most(p->x->l->g, rows) > of->room)
		of->room = ht_dim_most(p->x->l->g, rows);
	in[0] = ht_out(list, 0);
	in[1] = n->in[0];
	in[2] = rows < 0 ? counted(p, n, count) : first_numbers(p, n, rows);
	become(p, n, HT_OP_TensorListScatterIntoExistingList, in, 3);
	ht_beside_set(p->x, ht_out(n, 0), count);
}

static void make_push(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	struct ht_value in[] = { n->in[0], count, n->in[1] };

	become(p, n, HT_OP_TensorListSetItem, in, 3);
	ht_beside_set(p->x, ht_out(n, 0), plus(p, n, count, 1));
}

static void make_pop(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	struct ht_value in[] = { n->in[0], plus(p, n, count, -1), n->in[1] };
	struct ht_node *item = ht_rw_node(&p->r, n, HT_OP_TensorListGetItem,
		ht_rw_name_within(&p->r, n, "tensor"), in, 3, n->out[1]);

	ht_attr_set_type(item, "element_dtype", ht_attr_type(n, "element_dtype", HT_INVALID));
	ht_rw_replace_behind(&p->r, ht_out(n, 1), ht_out(item, 0));
	ht_beside_hand_on(p, n, in[1]);
}

static void make_set(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	bool extends = ht_attr_bool(n, "resize_if_index_out_of_bounds", false);
	struct ht_value in[] = { n->in[0], n->in[1], n->in[2] };

	if (extends)
		count = greater(p, n, count, plus(p, n, in[1], 1));
	else
		in[1] = existing(p, n, in[1], count);
	become(p, n, HT_OP_TensorListSetItem, in, 3);
	ht_beside_set(p->x, ht_out(n, 0), count);
}

static void read_all(
	struct ht_beside_part *p, struct ht_node *n, struct ht_value count, struct ht_list *of)
{
	struct pending *todo = pending_of(growth_of(p), n);

	todo->count = count;
	todo->read = of;
}

static void make_length(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	struct ht_list *of = ht_list_of(p->x->l, n->in[0]);

	ht_rw_become(&p->r, n, HT_OP_Identity, &count, 1);
	read_all(p, n, count, of);
}

/* 0 where the count is at most the room; otherwise the run stops, since twice a true condition is no valid index of a list of two. */
static struct ht_value within_room(
	struct ht_beside_part *p, struct ht_node *n, struct ht_value count, struct ht_value room)
{
	static const int64_t zeros[2];
	struct ht_str name = ht_rw_name_within(&p->r, n, "count");
	struct ht_value in[2] = { ht_rw_const_ints(&p->r, n, name, HT_I32, zeros, 2) }, more;
	struct ht_node *zero;

	more = ht_rw_binary(&p->r, n, HT_OP_Greater, name, count, room);
	more.node->out[0].dtype = HT_BOOL;
	more = ht_rw_cast(&p->r, n, name, more, HT_I32);
	in[1] = ht_rw_binary(&p->r, n, HT_OP_Mul, name, more, integer(p, n, 2));
	zero = ht_rw_node(
		&p->r, n, HT_OP_Gather, name, in, 2, (struct ht_type){ HT_I32, HT_SHAPE_SCALAR });
	return ht_out(zero, 0);
}

/* A list that is resized several times never gets more elements so: elements that were removed must not come back.  Otherwise the run stops. */
static void make_resize(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	struct ht_str name = ht_rw_name_within(&p->r, n, "count");
	struct ht_value size = kept(p, n, n->in[1]);

	if (ht_list_of(p->x->l, n->in[0])->shrinks) {
		size = ht_rw_binary(
			&p->r, n, HT_OP_AddV2, name, size, within_room(p, n, size, count));
		size = ht_rw_binary(&p->r, n, HT_OP_Minimum, name, size, count);
	}
	ht_beside_hand_on(p, n, size);
}

/* The largest of the indices. */
static struct ht_value largest(struct ht_beside_part *p, struct ht_node *n, struct ht_value indices)
{
	static const int64_t axis;
	int64_t *v, most = -1;
	size_t count;

	if (!ht_const_ints(indices, p->r.arena, &v, &count))
		return ht_rw_reduce(&p->r, n, HT_OP_Max, ht_rw_name_within(&p->r, n, "last"),
			indices, &axis, 1, false);
	for (size_t i = 0; i < count; i++)
		most = v[i] > most ? v[i] : most;
	return integer(p, n, most);
}

/* The largest index determines the count, if it exceeds the old one. */
static void make_scatter(struct ht_beside_part *p, struct ht_node *n, struct ht_value count)
{
	struct ht_value last = largest(p, n, n->in[2]);

	ht_beside_set(p->x, ht_out(n, 0), greater(p, n, count, plus(p, n, last, 1)));
}

static void change_list_op(struct ht_beside_part *p, struct ht_node *n)
{
	struct ht_value count =
		ht_makes_list(n) ? (struct ht_value){ 0 } : ht_beside_of(p->x, n->in[0]);

	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
		make_reserve(p, n);
		break;
	case HT_OP_TensorListFromTensor:
		make_filled(p, n);
		break;
	case HT_OP_TensorListPushBack:
		make_push(p, n, count);
		break;
	case HT_OP_TensorListPopBack:
		make_pop(p, n, count);
		break;
	case HT_OP_TensorListResize:
		make_resize(p, n, count);
		break;
	case HT_OP_TensorListSetItem:
		make_set(p, n, count);
		break;
	case HT_OP_TensorListScatterIntoExistingList:
		make_scatter(p, n, count);
		break;
	case HT_OP_TensorListGetItem:
	case HT_OP_TensorListGather:
		ht_rw_set_in(&p->r, n, 1, existing(p, n, n->in[1], count));
		break;
	case HT_OP_TensorListLength:
		make_length(p, n, count);
		break;
	case HT_OP_TensorListStack:
	case HT_OP_TensorListConcatV2:
		read_all(p, n, count, ht_list_of(p->x->l, n->in[0]));
		break;
	default: /* TensorListElementShape */
		break;
	}
}

/* ---- consequences of the ranges ---- */

static void find_rooms(struct growth *x)
{
	for (size_t i = 0; i < x->counts.n; i++) {
		struct ht_list *of = x->counts.pair[i].of;
		int64_t most = ht_range_of(&x->ranges, x->counts.pair[i].value).most;

		if (most > of->room)
			of->room = most;
	}
}

/* At least two: kernels do not check the index of a list's only element. */
static int64_t room_of(const struct ht_list *of)
{
	int64_t room = of->room > MOST_ROOM ? HT_LIST_ROOM : of->room;

	if (of->limit >= 0 && of->limit < room)
		room = of->limit;
	return room < 2 ? 2 : room;
}

static enum ht_status refuse(struct ht_beside_part *p, const struct ht_node *n)
{
	struct ht_where at = HT_NOWHERE;

	at.path = n->graph->library->path;
	at.node = n->name;
	at.op = n->type;
	return ht_error(p->r.c->diags, HT_E_UNSUPPORTED, at,
		"takes all elements of a list, whose number depends on data");
}

/* A list of the first elements of the list that `n` takes. */
static struct ht_value first_elements(
	struct ht_beside_part *p, struct ht_node *n, struct ht_value numbers, enum ht_dtype t)
{
	struct ht_value in[] = { n->in[0], numbers, integer(p, n, -1) };
	struct ht_node *tensor =
		ht_rw_node(&p->r, n, HT_OP_TensorListGather, ht_rw_name_within(&p->r, n, "tensor"),
			in, 3, (struct ht_type){ t, HT_SHAPE_UNKNOWN });
	struct ht_node *list;

	ht_attr_set_type(tensor, "element_dtype", t);
	in[0] = ht_out(tensor, 0);
	in[1] = in[2];
	list = ht_rw_node(&p->r, n, HT_OP_TensorListFromTensor, ht_rw_name_within(&p->r, n, "list"),
		in, 2, HT_LIST_TYPE);
	return ht_out(list, 0);
}

/* A count that the run computes; it is at most the list's room, which bounds sizes that are computed of it. The stated length of a list,
 * which no access checks, may be larger: then the run stops. */
static struct ht_value bounded(
	struct ht_beside_part *p, struct ht_node *n, const struct pending *of)
{
	struct ht_str name = ht_rw_name_within(&p->r, n, "count");
	struct ht_value room = integer(p, n, room_of(of->read)),
			count = ht_rw_binary(&p->r, n, HT_OP_Minimum, name, of->count, room);

	if (of->read->computed || of->read->resized)
		count = ht_rw_binary(
			&p->r, n, HT_OP_AddV2, name, count, within_room(p, n, of->count, room));
	return count;
}

/* 0, 1, … below a count that the run computes. */
static struct ht_value numbers_below(
	struct ht_beside_part *p, struct ht_node *n, const struct pending *of)
{
	return counted(p, n, bounded(p, n, of));
}

static bool may_take(const struct ht_beside_part *p, const struct ht_node *n)
{
	return p->x->l->computes && n->op == HT_OP_TensorListStack &&
	       ht_attr_int(n, "num_elements", -1) < 0;
}

/* An element of several sizes that was not set is empty.  So the concatenation of all elements, with those behind the end of the list, is
 * that of the list, and only the lengths are cut off at its end. */
static enum ht_status join_all(struct ht_beside_part *p, struct ht_node *n, struct ht_value numbers)
{
	struct ht_value in[] = { ht_out(n, 1), numbers };
	struct ht_node *lengths;

	if (!ht_rw_uses(&p->r, in[0]))
		return HT_OK;
	lengths = ht_rw_node(&p->r, n, HT_OP_Gather, ht_rw_name_within(&p->r, n, "lengths"), in, 2,
		(struct ht_type){ HT_I64, { 1, ht_type_of(numbers)->shape.dim } });
	ht_rw_replace_behind(&p->r, in[0], ht_out(lengths, 0));
	return ht_graph_sort(n->graph, p->r.c->diags);
}

static bool joins_varied(const struct ht_node *n, const struct ht_list *of)
{
	return n->op == HT_OP_TensorListConcatV2 && of->varied && !of->popped && !of->resized;
}

/* `n` reads a whole list: it gets the existing elements. */
static enum ht_status take_all(
	struct ht_beside_part *p, struct ht_node *n, const struct pending *of)
{
	struct ht_range r = ht_range_of(&growth_of(p)->ranges, of->count);
	struct ht_value in[] = { n->in[0], { 0 }, n->in[1] };

	if ((r.least != r.most || r.most < 0) && may_take(p, n)) {
		in[1] = numbers_below(p, n, of);
		become(p, n, HT_OP_TensorListGather, in, 3);
		return HT_OK;
	}
	if ((r.least != r.most || r.most < 0) && p->x->l->computes && joins_varied(n, of->read))
		return join_all(p, n, numbers_below(p, n, of));
	if (r.least != r.most || r.most < 0)
		return refuse(p, n);
	in[1] = first_numbers(p, n, r.most);
	if (n->op == HT_OP_TensorListStack)
		become(p, n, HT_OP_TensorListGather, in, 3);
	else if (joins_varied(n, of->read))
		return join_all(p, n, in[1]);
	else
		ht_rw_set_in(&p->r, n, 0,
			first_elements(p, n, in[1], ht_attr_type(n, "element_dtype", HT_INVALID)));
	return HT_OK;
}

/* A length that is known becomes a constant. */
static void tell_length(struct ht_beside_part *p, struct ht_node *n, const struct pending *of)
{
	struct ht_range r = ht_range_of(&growth_of(p)->ranges, of->count);

	if (r.least == r.most)
		ht_rw_set_in(&p->r, n, 0, integer(p, n, r.most));
	else if (p->x->l->computes)
		ht_rw_set_in(&p->r, n, 0, bounded(p, n, of));
}

static enum ht_status finish_node(struct ht_beside_part *p, struct ht_node *n)
{
	const struct pending *todo = ht_by_value(&growth_of(p)->pending, ht_out(n, 0));

	if (!todo)
		return HT_OK;
	if (n->op == HT_OP_Identity)
		tell_length(p, n, todo);
	else if (todo->of)
		ht_rw_set_in(&p->r, n, 1, integer(p, n, room_of(todo->of)));
	else
		return take_all(p, n, todo);
	return HT_OK;
}

static enum ht_status finish_graph(struct growth *x, struct ht_graph *g)
{
	struct ht_rw_within within;
	struct ht_beside_part p = { .x = &x->counts };
	struct ht_node **all;
	size_t count;

	ht_rw_init_within(&p.r, &within, g, x->counts.l->c);
	all = ht_rw_nodes(&p.r, &count);
	for (size_t i = 0; i < count; i++) {
		struct ht_bodies b = { { NULL } };

		if (!all[i]->graph)
			continue;
		HT_TRY(finish_node(&p, all[i]));
		if (ht_is(all[i], HT_BRANCHES | HT_LOOPS))
			b = ht_control_bodies(all[i]);
		for (int k = 0; k < 2; k++)
			if (b.of[k] && b.of[k]->special)
				HT_TRY(finish_graph(x, b.of[k]->body));
	}
	return HT_OK;
}

static const struct ht_type count_type = { HT_I32, { 0, NULL } };

enum ht_status ht_lists_grow(struct ht_lists *l, struct ht_graph *g, bool *changed)
{
	struct growth x = { .counts = { l, .has = grows, .change = change_list_op,
				    .type = count_type } };

	ht_map_init(&x.pending, l->c->scratch);
	ht_beside_add(&x.counts, g);
	*changed = x.counts.n;
	if (!x.counts.n)
		return HT_OK;
	ht_ranges_find(&x.ranges, g, l->c->scratch, false);
	find_rooms(&x);
	return finish_graph(&x, g);
}
