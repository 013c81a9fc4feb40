/* Parts of axes that are open, or whose bounds a run computes, for pass sizes: Slice and StridedSlice gather their elements, whose number
 * is a size of the graph.  The k largest elements of rows are the first k of as many as there may be.  Padding is a concatenation with
 * tensors of computed extents. */
#include "passes/computed_nodes.h"

static struct ht_value least(struct maker *f, struct ht_value x, int64_t number)
{
	return binary(f, HT_OP_Maximum, x, whole(f, HT_I64, number));
}

/* 1 where the comparison holds, else 0. */
static struct ht_value one_if(struct maker *f, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return cast_to(f, binary(f, op, a, b), HT_I64);
}

/* ---- StridedSlice ---- */

struct bound {
	bool whole, computed;
	int64_t at; /* where it is not computed */
};

/* An entry of a StridedSlice: the elements of axis `axis` from `begin` to before `end`, `step` apart; below zero they count from the
 * axis' end. */
struct entry {
	int32_t number, axis;
	int64_t step;
	struct bound begin, end;
};

static bool bit(const struct ht_node *n, const char *name, int32_t i)
{
	return i < 63 && ht_attr_int(n, name, 0) >> i & 1;
}

static struct bound bound_of(const struct ht_node *n, int32_t arg, int32_t i)
{
	struct bound b = { .whole = bit(n, arg == 1 ? "begin_mask" : "end_mask", i) };

	b.computed = !b.whole && !const_entry(n->in[arg], i, &b.at);
	return b;
}

/* Whether entry `e->number` takes a part of its axis, of extent `dim`: of computed bounds, if the extent `to` of the result is not known;
 * of constant ones, or all in reversed order, if the axis is open. */
static bool takes_part(
	const struct ht_graph *g, const struct ht_node *n, struct entry *e, int64_t dim, int64_t to)
{
	int32_t i = e->number;

	e->begin = bound_of(n, 1, i);
	e->end = bound_of(n, 2, i);
	if (bit(n, "shrink_axis_mask", i) || !const_entry(n->in[3], i, &e->step))
		return false;
	if (e->begin.computed || e->end.computed)
		return ht_dim_most(g, dim) >= 0 && to == HT_DIM_UNKNOWN && e->step &&
		       e->step < MOST_COUNT && e->step > -MOST_COUNT;
	if (dim >= 0 || ht_dim_most(g, dim) < 0)
		return false;
	e->begin.whole = e->begin.whole || (e->begin.at == 0 && e->step > 0);
	if (e->step < 0)
		return e->step > -MOST_COUNT;
	return e->step > 0 && e->step < MOST_COUNT &&
	       !(e->begin.whole && e->end.whole && e->step == 1);
}

/* The first entry that takes a part; `last`: of computed bounds, too. */
static bool find_entry(
	const struct ht_graph *g, const struct ht_node *n, bool last, struct entry *e)
{
	struct ht_shape s = ht_in_shape(n, 0), entries = ht_in_shape(n, 1), r = n->out[0].shape;
	int64_t all = ht_shape_known(entries) ? ht_shape_count(entries) : -1;
	int32_t named = 0, axis = 0, to = 0;

	if (all > HT_MAX_RANK || r.rank < 0) /* more than const_entry() reads */
		return false;
	for (int32_t i = 0; i < all; i++)
		named += !bit(n, "new_axis_mask", i) && !bit(n, "ellipsis_mask", i);
	for (int32_t i = 0; i < all && s.rank >= named; i++) {
		*e = (struct entry){ .number = i, .axis = axis };
		if (bit(n, "ellipsis_mask", i)) {
			axis += s.rank - named;
			to += s.rank - named;
		} else if (bit(n, "new_axis_mask", i)) {
			to++;
		} else if (bit(n, "shrink_axis_mask", i)) {
			axis++;
		} else if (takes_part(g, n, e, s.dim[axis++], r.dim[to++]) &&
			   (last || (!e->begin.computed && !e->end.computed))) {
			return true;
		}
	}
	return false;
}

/* A bound from the axis' begin, at most `size`. */
static struct ht_value place(struct maker *f, int64_t at, struct ht_value size)
{
	return at < 0 ? least(f, plus(f, size, at), 0)
		      : binary(f, HT_OP_Minimum, whole(f, HT_I64, at), size);
}

/* Likewise one that the run computes: below zero it counts from the axis' end. */
static struct ht_value computed_place(struct maker *f, struct ht_value at, struct ht_value size)
{
	struct ht_value below = one_if(f, HT_OP_Less, at, whole(f, HT_I64, 0));

	at = binary(f, HT_OP_AddV2, at, binary(f, HT_OP_Mul, below, size));
	return binary(f, HT_OP_Minimum, least(f, at, 0), size);
}

static struct ht_value place_of(struct maker *f, const struct ht_node *n, int32_t arg,
	const struct entry *e, struct ht_value size)
{
	const struct bound *b = arg == 1 ? &e->begin : &e->end;

	if (b->whole)
		return arg == 1 ? whole(f, HT_I64, 0) : size;
	return b->computed ? computed_place(f, entry_of(f, n->in[arg], e->number), size)
			   : place(f, b->at, size);
}

/* The number of elements between the bounds of an entry with step 1.  If the begin counts from the axis' first element and the end from its
 * last one, the number is the axis' size less both distances, so that x[1:] and x[:-1] have the same size. */
static struct ht_value distance(
	struct maker *f, const struct ht_node *n, const struct entry *e, struct ht_value size)
{
	int64_t begin = e->begin.whole ? 0 : e->begin.at, end = e->end.whole ? 0 : e->end.at;
	bool computed = e->begin.computed || e->end.computed;

	if (!computed && begin >= 0 && (e->end.whole || end < 0))
		return least(f, plus(f, size, end - begin), 0);
	return least(
		f, binary(f, HT_OP_Sub, place_of(f, n, 2, e, size), place_of(f, n, 1, e, size)), 0);
}

/* Of the elements that a slice takes, by number, the indices. */
static struct ht_value indices_of(struct maker *f, const struct ht_node *n, const struct entry *e,
	struct ht_value size, struct ht_value at)
{
	struct ht_value first;

	if (e->step > 1)
		at = binary(f, HT_OP_Mul, at, whole(f, HT_I64, e->step));
	if (e->begin.whole)
		return at;
	first = e->begin.computed || e->begin.at < 0 ? place_of(f, n, 1, e, size)
						     : whole(f, HT_I64, e->begin.at);
	return binary(f, HT_OP_AddV2, at, first);
}

/* Bounds that no entry computes any more become a constant. */
static void settle_bounds(struct maker *f, struct ht_node *n, int32_t arg, int count)
{
	int64_t at[HT_MAX_RANK];

	for (int32_t i = 0; i < count; i++) {
		struct bound b = bound_of(n, arg, i);

		if (b.computed)
			return;
		at[i] = b.at;
	}
	ht_rw_set_in(f->r, n, arg,
		ht_rw_const_ints(f->r, n, n->name, ht_type_of(n->in[arg])->dtype, at, count));
}

/* Changes the entry so that the StridedSlice takes its axis as a whole; a gather in front of it has taken the part. */
static void take_whole(struct maker *f, struct ht_node *n, const struct entry *e)
{
	int64_t step[HT_MAX_RANK], one = INT64_C(1) << e->number;
	int count = (int)ht_in_shape(n, 1).dim[0];

	for (int32_t i = 0; i < count; i++)
		if (!const_entry(n->in[3], i, &step[i]))
			return;
	step[e->number] = 1;
	ht_rw_set_in(f->r, n, 3,
		ht_rw_const_ints(f->r, n, n->name, ht_type_of(n->in[3])->dtype, step, count));
	ht_attr_set_int(n, "begin_mask", ht_attr_int(n, "begin_mask", 0) | one);
	ht_attr_set_int(n, "end_mask", ht_attr_int(n, "end_mask", 0) | one);
	settle_bounds(f, n, 1, count);
	settle_bounds(f, n, 2, count);
}

struct ht_value ht_reversed(struct maker *f, struct ht_value x, int64_t axis)
{
	struct ht_value in[] = { x, wholes(f, HT_I32, &axis, 1) };

	return node(f, HT_OP_ReverseV2, in, 2, ht_type_of(x)->dtype, ht_type_of(x)->shape);
}

/* The entry of a vector that is packed of scalars; a node that is NULL: it is none. */
static struct ht_value packed_entry(const struct ht_node *n, int32_t arg, int32_t i)
{
	struct ht_value v = n->in[arg];

	return v.node->op == HT_OP_Pack && i < v.node->ins ? ht_forwarded(v.node->in[i])
							   : (struct ht_value){ 0 };
}

/* How many elements x[i:i+k] takes, if i is within the axis wherever it is, and so is i + k; -1: that is not certain. */
static int64_t certain_count(
	const struct ht_graph *g, const struct ht_node *n, const struct entry *e)
{
	struct ht_value begin = packed_entry(n, 1, e->number), end = packed_entry(n, 2, e->number);
	int64_t dim = ht_in_shape(n, 0).dim[e->axis], k;
	struct ht_span s;

	if (!begin.node || !end.node || e->step != 1 || !e->begin.computed || !e->end.computed ||
		end.node->op != HT_OP_AddV2 || !ht_value_eq(ht_forwarded(end.node->in[0]), begin) ||
		!const_entry(end.node->in[1], 0, &k) || !ht_span_of(g, begin, &s))
		return -1;
	return k >= 0 && s.least >= 0 && dim >= k && s.most <= dim - k ? k : -1;
}

/* As many neighbours as are known. */
static struct ht_value certain_part(
	struct maker *f, const struct ht_node *n, const struct entry *e, int64_t count)
{
	struct ht_value at =
		binary(f, HT_OP_AddV2, numbers(f, HT_I64, count), entry_of(f, n->in[1], e->number));

	return gathered(f, n->in[0], at, e->axis);
}

static struct ht_value part_of(struct maker *f, const struct ht_node *n, const struct entry *e)
{
	int64_t most = ht_dim_most(f->r->g, ht_in_shape(n, 0).dim[e->axis]);
	int64_t certain = certain_count(f->r->g, n, e);
	struct ht_value size, count, at;

	if (certain >= 0)
		return certain_part(f, n, e, certain);
	size = extent(f, n, 0, e->axis);
	count = distance(f, n, e, size);
	if (e->step > 1)
		count = binary(
			f, HT_OP_FloorDiv, plus(f, count, e->step - 1), whole(f, HT_I64, e->step));
	at = counted_up(f, count, whole(f, HT_I64, 0), most);
	return gathered(f, n->in[0], indices_of(f, n, e, size, at), e->axis);
}

/* A bound of a slice from behind, between -1, in front of the first element, and the last one. */
static struct ht_value place_backwards(struct maker *f, const struct ht_node *n, int32_t arg,
	const struct entry *e, struct ht_value size)
{
	const struct bound *b = arg == 1 ? &e->begin : &e->end;
	struct ht_value last = plus(f, size, -1), at, below;

	if (b->whole)
		return arg == 1 ? last : whole(f, HT_I64, -1);
	if (!b->computed) {
		at = whole(f, HT_I64, b->at);
		at = b->at < 0 ? plus(f, size, b->at) : at;
	} else {
		at = entry_of(f, n->in[arg], e->number);
		below = one_if(f, HT_OP_Less, at, whole(f, HT_I64, 0));
		at = binary(f, HT_OP_AddV2, at, binary(f, HT_OP_Mul, below, size));
	}
	return binary(f, HT_OP_Minimum, least(f, at, -1), last);
}

/* From the begin on backwards, to behind the end. */
static struct ht_value part_backwards(
	struct maker *f, const struct ht_node *n, const struct entry *e)
{
	struct ht_value size = extent(f, n, 0, e->axis), step = whole(f, HT_I64, -e->step),
			first = place_backwards(f, n, 1, e, size), count;

	count = binary(f, HT_OP_Sub, first, place_backwards(f, n, 2, e, size));
	count = binary(f, HT_OP_FloorDiv, plus(f, least(f, count, 0), -e->step - 1), step);
	count = counted_up(f, count, whole(f, HT_I64, 0),
		ht_dim_most(f->r->g, ht_in_shape(n, 0).dim[e->axis]));
	return gathered(f, n->in[0], binary(f, HT_OP_Sub, first, binary(f, HT_OP_Mul, count, step)),
		e->axis);
}

static bool is_reversal(const struct entry *e)
{
	return e->step == -1 && e->end.whole &&
	       (e->begin.whole || (!e->begin.computed && e->begin.at == -1));
}

/* Whether all steps are constant, so that entries can change. */
static bool has_steps(const struct ht_node *n)
{
	int64_t step;

	for (int32_t i = 0; i < ht_in_shape(n, 1).dim[0]; i++)
		if (!const_entry(n->in[3], i, &step))
			return false;
	return true;
}

bool ht_expand_strided_slice(struct maker *f, struct ht_node *n, bool last)
{
	struct entry e;

	if (!find_entry(f->r->g, n, last, &e) || !has_steps(n))
		return false;
	if (is_reversal(&e) && ht_flatten(f, n, 0, e.axis))
		return true;
	if (is_reversal(&e))
		ht_rw_set_in(f->r, n, 0, ht_reversed(f, n->in[0], e.axis));
	else
		ht_rw_set_in(f->r, n, 0, e.step < 0 ? part_backwards(f, n, &e) : part_of(f, n, &e));
	take_whole(f, n, &e);
	return true;
}

/* ---- Slice ---- */

/* How an axis of a Slice is taken. */
enum taking {
	TAKE_AS_IT_IS,
	TAKE_NUMBER, /* as many elements as the result's extent says */
	TAKE_COUNT   /* as many as the run computes */
};

static enum taking taking_of(
	const struct ht_graph *g, const struct ht_node *n, int32_t i, bool last)
{
	int64_t dim = ht_in_shape(n, 0).dim[i], to = n->out[0].shape.dim[i], begin = -1;
	bool first = const_entry(n->in[1], i, &begin) && begin == 0;

	if (ht_dim_most(g, dim) < 0)
		return TAKE_AS_IT_IS;
	if (to == HT_DIM_UNKNOWN)
		return last ? TAKE_COUNT : TAKE_AS_IT_IS;
	if (ht_dim_most(g, to) < 0 || (dim >= 0 && to >= 0) || (first && dim == to))
		return TAKE_AS_IT_IS;
	return dim >= 0 && first && ht_dim_most(g, to) <= dim ? TAKE_AS_IT_IS : TAKE_NUMBER;
}

/* How many elements a Slice takes: -1 says all from the begin on. */
static struct ht_value slice_count(struct maker *f, const struct ht_node *n, int32_t i,
	struct ht_value begin, struct ht_value size)
{
	struct ht_value count = entry_of(f, n->in[2], i), rest;
	int64_t x;

	rest = binary(f, HT_OP_Sub, size, begin);
	if (const_entry(n->in[2], i, &x) && x == -1)
		count = rest;
	else if (!const_entry(n->in[2], i, &x))
		count = binary(f, HT_OP_AddV2, count,
			binary(f, HT_OP_Mul, one_if(f, HT_OP_Equal, count, whole(f, HT_I64, -1)),
				plus(f, rest, 1)));
	return count;
}

/* The numbers of the elements that are taken.  The run stops where that are more than the axis has. */
static struct ht_value taken_numbers(
	struct maker *f, const struct ht_node *n, int32_t i, enum taking how, struct ht_value begin)
{
	int64_t dim = ht_in_shape(n, 0).dim[i], to = n->out[0].shape.dim[i];

	if (how == TAKE_COUNT) {
		struct ht_value size = extent(f, n, 0, i), zero = whole(f, HT_I64, 0),
				count = slice_count(f, n, i, begin, size);

		return counted_up(f, count,
			unless_below(f, unless_below(f, zero, count, zero), size, count),
			ht_dim_most(f->r->g, dim));
	}
	return to >= 0 ? numbers(f, HT_I64, to) : wide(f, range_of(f, element(f, n->in[2], i)));
}

static struct ht_value sliced_axis(
	struct maker *f, const struct ht_node *n, int32_t i, enum taking how)
{
	struct ht_value begin = entry_of(f, n->in[1], i), at = taken_numbers(f, n, i, how, begin);

	if (!ht_const_is(begin, 0))
		at = binary(f, HT_OP_AddV2, at, begin);
	return gathered(f, n->in[0], at, i);
}

bool ht_expand_slice(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = ht_in_shape(n, 0);

	if (s.rank < 0 || n->out[0].shape.rank != s.rank)
		return false;
	for (int32_t i = 0; i < s.rank; i++) {
		enum taking how = taking_of(f->r->g, n, i, last);

		if (how == TAKE_AS_IT_IS)
			continue;
		ht_rw_set_in(f->r, n, 0, sliced_axis(f, n, i, how));
		n->in[0].node->out[0].shape = open_shape(f, s.rank);
		set_entry(f, n, 1, s.rank, i, 0);
		set_entry(f, n, 2, s.rank, i, -1);
		return true; /* further axes when the types are known again */
	}
	return false;
}

/* ---- the largest elements of rows ---- */

/* A node of as many elements as every row may have to give. */
static struct ht_node *best_of(struct maker *f, const struct ht_node *n, int64_t most)
{
	const struct ht_value in[] = { n->in[0], whole(f, HT_I32, most) };
	int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value v = node(f, HT_OP_TopKV2, in, 2, n->out[0].dtype, open_shape(f, rank));

	ht_attr_set_type(v.node, "index_type", n->out[1].dtype);
	ht_attr_set_bool(v.node, "sorted", true);
	ht_attr_set_bool(v.node, "_enough", true); /* what is behind compares k with the extent */
	ht_node_set_outs(v.node, 2);
	v.node->out[1] = (struct ht_type){ n->out[1].dtype, open_shape(f, rank) };
	return v.node;
}

/* Whether rows of a run may be shorter than `k`. */
static bool may_be_shorter(const struct ht_graph *g, int64_t dim, int64_t k)
{
	int32_t size = ht_dim_size(g, dim);

	return dim < 0 && (!size || ht_size_at(g, size)->least < k);
}

/* Whether the node finds the place of an extreme along an open axis that may have no elements. */
static bool finds_in_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->ins > 1 ? ht_in_shape(n, 0) : HT_SHAPE_UNKNOWN;
	int64_t axis;
	int one;

	return ht_is(n, HT_FINDS) && !ht_attr_find(n, "_enough") &&
	       ht_const_small_ints(n->in[1], &axis, 1, &one) && ht_fix_axis(&axis, s.rank) &&
	       ht_dim_most(g, s.dim[axis]) >= 0 && may_be_shorter(g, s.dim[axis], 1);
}

/* 0; the run stops where rows are shorter than `k`, or `k` is below 0. */
static struct ht_value check_k(struct maker *f, const struct ht_node *n, struct ht_value k)
{
	struct ht_value zero = whole(f, HT_I64, 0);

	return unless_below(
		f, unless_below(f, zero, extent(f, n, 0, ht_in_shape(n, 0).rank - 1), k), k, zero);
}

/* The most elements that there may be of `k`, of rows of at most `most`; at least 1, but for rows without elements. */
static int64_t most_best(const struct maker *f, struct ht_value k, int64_t most)
{
	struct ht_span s;

	if (ht_span_of(f->r->g, k, &s) && s.most < most)
		most = s.most < 1 && most ? 1 : s.most;
	return most;
}

/* Whether the node gives all elements of rows, or as many as each has at least. */
static bool has_enough(const struct ht_graph *g, int64_t dim, int64_t to)
{
	return to == dim || (to >= 0 && !may_be_shorter(g, dim, to));
}

bool ht_expand_best(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t dim = s.rank < 1 ? HT_DIM_UNKNOWN : s.dim[s.rank - 1],
		most = ht_dim_most(f->r->g, dim), to;
	struct ht_value k, at;
	struct ht_node *best;

	if (most < 0 || n->out[0].shape.rank != s.rank || ht_attr_find(n, "_enough"))
		return false;
	to = n->out[0].shape.dim[s.rank - 1];
	if (to == dim && ht_flatten(f, n, 0, s.rank - 1))
		return true;
	if (has_enough(f->r->g, dim, to) || (to == HT_DIM_UNKNOWN && !last))
		return false;
	k = to >= 0 ? whole(f, HT_I64, to) : wide(f, n->in[1]);
	most = most_best(f, k, most);
	best = best_of(f, n, most);
	at = check_k(f, n, k);
	at = to >= 0 ? binary(f, HT_OP_AddV2, numbers(f, HT_I64, to), at)
		     : squeezed(f, counted(f, binary(f, HT_OP_AddV2, k, at), most));
	for (int32_t i = 0; i < 2 && n->graph; i++)
		if (ht_rw_uses(f->r, ht_out(n, i)))
			ht_rw_replace(
				f->r, ht_out(n, i), gathered(f, ht_out(best, i), at, s.rank - 1));
	return true;
}

/* ---- the place of an extreme ---- */

/* A row without elements has no extreme, so the run stops there. */
bool ht_expand_extreme(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_value check, place;
	int64_t axis;
	int one;

	if (!finds_in_open(f->r->g, n) || !ht_const_small_ints(n->in[1], &axis, 1, &one) ||
		!ht_fix_axis(&axis, s.rank))
		return false;
	check = unless_below(f, whole(f, HT_I64, 0), extent(f, n, 0, axis), whole(f, HT_I64, 1));
	check = cast_to(f, check, n->out[0].dtype);
	ht_attr_set_bool(n, "_enough", true);
	place = binary(f, HT_OP_AddV2, ht_out(n, 0), check);
	ht_node_move(place.node, n->next);
	ht_rw_replace_behind(f->r, ht_out(n, 0), place);
	return true;
}

/* ---- padding ---- */

static bool is_rows(struct ht_value v)
{
	return v.node->op == HT_OP_Pack && ht_attr_int(v.node, "axis", 0) == 0 &&
	       ht_type_of(v)->shape.rank == 2;
}

static bool joins_rows(struct ht_value v)
{
	int64_t axis;

	return v.node->op == HT_OP_ConcatV2 && ht_type_of(v)->shape.rank == 2 &&
	       const_entry(v.node->in[v.node->ins - 1], 0, &axis) && axis == 0;
}

/* The matrix that has the amounts of an axis, of those that a concatenation puts behind each other, and the row there. */
static struct ht_value rows_with(const struct ht_node *n, int32_t axis, int32_t *row)
{
	struct ht_value v = n->in[1];

	*row = axis;
	while (joins_rows(v)) {
		int32_t i = 0;
		int64_t rows = -1;

		for (; i + 1 < v.node->ins; i++) {
			rows = ht_in_shape(v.node, i).rank == 2 ? ht_in_shape(v.node, i).dim[0]
								: -1;
			if (rows < 0 || *row < rows)
				break;
			*row -= (int32_t)rows;
		}
		if (i + 1 == v.node->ins || rows < 0)
			break;
		v = v.node->in[i];
	}
	if (joins_rows(v)) { /* how many rows some matrix has is not known */
		*row = axis;
		v = n->in[1];
	}
	return v;
}

/* How many elements Pad puts in front of an axis, or behind it, if that is constant. */
static bool const_amount(const struct ht_node *n, int32_t axis, int32_t behind, int64_t *x)
{
	struct ht_value v = rows_with(n, axis, &axis);

	return is_rows(v) ? const_entry(v.node->in[axis], behind, x)
			  : const_entry(v, 2 * axis + behind, x);
}

static struct ht_value amount_of(
	struct maker *f, const struct ht_node *n, int32_t axis, int32_t behind)
{
	const int64_t all = 2 * (int64_t)ht_in_shape(n, 0).rank;
	int32_t row;
	struct ht_value v = rows_with(n, axis, &row);

	if (is_rows(v))
		return entry_of(f, v.node->in[row], behind);
	v = n->in[1];
	return entry_of(
		f, reshaped(f, v, ht_shape_make(f->r->g->arena, 1, &all)), 2 * axis + behind);
}

static bool has_const_amounts(const struct ht_node *n, int32_t axis, int64_t amount[2])
{
	return const_amount(n, axis, 0, &amount[0]) && const_amount(n, axis, 1, &amount[1]);
}

/* The elements that Pad puts in front of an axis or behind it. */
static struct ht_value filled(
	struct maker *f, const struct ht_node *n, int32_t axis, struct ht_value amount)
{
	struct ht_shape s = ht_in_shape(n, 0);
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value size[HT_MAX_RANK], in[2];

	for (int32_t i = 0; i < s.rank; i++)
		size[i] = i == axis ? amount : extent(f, n, 0, i);
	in[0] = packed(f, size, s.rank);
	in[1] = n->ins > 2 ? n->in[2] : whole(f, t, 0);
	return node(f, HT_OP_Fill, in, 2, t, open_shape(f, s.rank));
}

/* The operand with elements in front of an axis and behind it. */
static struct ht_value padded_axis(struct maker *f, const struct ht_node *n, int32_t axis)
{
	struct ht_value part[4];
	int32_t count = 0;
	int64_t x;

	if (!const_amount(n, axis, 0, &x) || x)
		part[count++] = filled(f, n, axis, amount_of(f, n, axis, 0));
	part[count++] = n->in[0];
	if (!const_amount(n, axis, 1, &x) || x)
		part[count++] = filled(f, n, axis, amount_of(f, n, axis, 1));
	return joined(f, part, count, axis);
}

/* All amounts as a constant, with 0 for `without` (-1: for no axis); false: some are computed. */
static bool const_paddings(
	struct maker *f, const struct ht_node *n, int32_t without, struct ht_value *paddings)
{
	int64_t all[2 * HT_MAX_RANK] = { 0 };
	int32_t rank = ht_in_shape(n, 0).rank;
	const int64_t dim[2] = { rank, 2 };

	for (int32_t i = 0; i < rank; i++)
		if (i != without && !has_const_amounts(n, i, &all[2 * i]))
			return false;
	*paddings = reshaped(f, wholes(f, ht_type_of(n->in[1])->dtype, all, 2 * (int64_t)rank),
		ht_shape_make(f->r->g->arena, 2, dim));
	return true;
}

static struct ht_value paddings_without(struct maker *f, const struct ht_node *n, int32_t axis)
{
	int32_t rank = ht_in_shape(n, 0).rank;
	const int64_t dim[2] = { rank, 2 };
	struct ht_value row[HT_MAX_RANK], v;

	for (int32_t i = 0; i < rank; i++) {
		struct ht_value amount[2];

		for (int32_t k = 0; k < 2; k++)
			amount[k] = i == axis ? whole(f, HT_I64, 0) : amount_of(f, n, i, k);
		row[i] = packed(f, amount, 2);
	}
	v = node(f, HT_OP_Pack, row, rank, HT_I64, ht_shape_make(f->r->g->arena, 2, dim));
	ht_attr_set_int(v.node, "axis", 0);
	return v;
}

/* Whether the extent of the result along the axis follows from what a run computes. */
static bool pads_computed(const struct ht_node *n, int32_t axis)
{
	int64_t amount[2];
	bool known = has_const_amounts(n, axis, amount);

	return n->out[0].shape.dim[axis] == HT_DIM_UNKNOWN &&
	       !(known && (ht_in_shape(n, 0).dim[axis] >= 0 || (!amount[0] && !amount[1])));
}

static void pad_axis(struct maker *f, struct ht_node *n, int32_t axis)
{
	struct ht_value x = padded_axis(f, n, axis), paddings;

	if (!const_paddings(f, n, axis, &paddings)) {
		paddings = paddings_without(f, n, axis);
		ht_attr_set_type(n, "Tpaddings", HT_I64);
	}
	ht_rw_set_in(f->r, n, 0, x);
	ht_rw_set_in(f->r, n, 1, paddings);
}

bool ht_expand_pad(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_value paddings;

	if (!last || !is_bounded_shape(f->r->g, s) || n->out[0].shape.rank != s.rank)
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		if (pads_computed(n, i)) {
			pad_axis(f, n, i);
			return true; /* further axes when the types are known again */
		}
	if (ht_shape_known(n->out[0].shape) || ht_is_const(n->in[1]) ||
		ht_is(n->in[1].node, HT_RESHAPES) || !const_paddings(f, n, -1, &paddings))
		return false;
	ht_rw_set_in(f->r, n, 1, paddings);
	return true;
}

/* ---- gradients of slices ---- */

/* The gradient with the axes of the sliced tensor, and the rows of paddings that give it its extents. */
struct back {
	struct ht_value x, row[HT_MAX_RANK];
	int32_t axis;
};

static void put_padding(struct maker *f, struct back *b, struct ht_value begin, struct ht_value end)
{
	b->row[b->axis++] = packed(f, (struct ht_value[]){ begin, end }, 2);
}

static void put_whole(struct maker *f, struct back *b)
{
	put_padding(f, b, whole(f, HT_I64, 0), whole(f, HT_I64, 0));
}

/* Elements that are several places apart, or in reversed order: each place of the axis reads the gradient of its own element, or the zero
 * behind the last one. */
static void put_stepped(
	struct maker *f, const struct ht_node *n, const struct entry *e, struct back *b)
{
	const int32_t axis = b->axis, rank = ht_type_of(b->x)->shape.rank;
	enum ht_dtype t = ht_type_of(b->x)->dtype;
	struct ht_value size = entry_of(f, n->in[0], axis), taken, begin, number, own;
	int64_t around[2 * HT_MAX_RANK] = { 0 };
	const int64_t dim[2] = { rank, 2 };
	struct ht_value in[2] = { b->x };

	taken = element(f, shape_of(f, b->x, HT_I64), axis);
	begin = e->step < 0 ? place_backwards(f, n, 1, e, size) : place_of(f, n, 1, e, size);
	own = binary(f, HT_OP_Sub, range_of(f, size), begin);
	number = binary(f, HT_OP_FloorDiv, own, whole(f, HT_I64, e->step));
	own = one_if(f, HT_OP_Equal, binary(f, HT_OP_Mul, number, whole(f, HT_I64, e->step)), own);
	own = binary(f, HT_OP_Mul, own, one_if(f, HT_OP_GreaterEqual, number, whole(f, HT_I64, 0)));
	number = binary(f, HT_OP_Minimum, number, taken);
	number = binary(f, HT_OP_AddV2, taken,
		binary(f, HT_OP_Mul, own, binary(f, HT_OP_Sub, number, taken)));
	around[2 * axis + 1] = 1;
	in[1] = reshaped(f, wholes(f, HT_I64, around, 2 * (int64_t)rank),
		ht_shape_make(f->r->g->arena, 2, dim));
	b->x = gathered(f, node(f, HT_OP_Pad, in, 2, t, open_shape(f, rank)), number, axis);
	b->x.node->out[0].shape = open_shape(f, rank);
	put_whole(f, b);
}

static void put_back(struct maker *f, const struct ht_node *n, int32_t i, struct back *b)
{
	struct entry e = { .number = i, .begin = bound_of(n, 1, i), .end = bound_of(n, 2, i) };
	struct ht_value size, begin, taken = whole(f, HT_I64, 1);
	const int64_t axis = b->axis;

	if (bit(n, "new_axis_mask", i)) {
		b->x = ht_rw_reduce(f->r, f->at, HT_OP_Sum, f->at->name, b->x, &axis, 1, false);
		b->x.node->out[0].shape = open_shape(f, ht_type_of(b->x)->shape.rank);
		return;
	}
	if (!bit(n, "shrink_axis_mask", i) && const_entry(n->in[3], i, &e.step) && e.step != 1) {
		put_stepped(f, n, &e, b);
		return;
	}
	size = entry_of(f, n->in[0], b->axis);
	if (bit(n, "shrink_axis_mask", i)) {
		e.begin.whole = false;
		b->x = with_axis(f, b->x, axis);
	} else if (e.begin.whole && e.end.whole) {
		put_whole(f, b);
		return;
	} else {
		taken = element(f, shape_of(f, b->x, HT_I64), b->axis);
	}
	begin = place_of(f, n, 1, &e, size);
	put_padding(f, b, begin, binary(f, HT_OP_Sub, binary(f, HT_OP_Sub, size, begin), taken));
}

static struct ht_value padded_back(struct maker *f, const struct back *b)
{
	const int64_t dim[2] = { b->axis, 2 };
	enum ht_dtype t = ht_type_of(b->x)->dtype;
	struct ht_value in[2] = { b->x, node(f, HT_OP_Pack, b->row, b->axis, HT_I64,
						ht_shape_make(f->r->g->arena, 2, dim)) };

	ht_attr_set_int(in[1].node, "axis", 0);
	return node(f, HT_OP_Pad, in, 2, t, open_shape(f, b->axis));
}

bool ht_slices_back(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->out[0].shape;

	return s.rank > 0 && s.rank <= HT_OPEN_RANK && !ht_shape_known(s) &&
	       is_bounded_shape(g, ht_in_shape(n, 4)) && ht_shape_known(ht_in_shape(n, 1)) &&
	       ht_in_shape(n, 1).rank == 1 && has_steps(n);
}

/* The gradient is padded to the shape of what was sliced. */
bool ht_expand_slice_gradient(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = n->out[0].shape;
	struct back b = { .x = n->in[4] };
	int32_t count, named = 0;

	if (!ht_slices_back(f->r->g, n))
		return false;
	count = (int32_t)ht_in_shape(n, 1).dim[0];
	for (int32_t i = 0; i < count; i++)
		named += !bit(n, "new_axis_mask", i) && !bit(n, "ellipsis_mask", i);
	for (int32_t i = 0; i < count; i++) {
		int32_t left = bit(n, "ellipsis_mask", i) ? s.rank - named : 0;

		for (int32_t k = 0; k < left; k++)
			put_whole(f, &b);
		if (!bit(n, "ellipsis_mask", i))
			put_back(f, n, i, &b);
	}
	while (b.axis < s.rank)
		put_whole(f, &b);
	ht_rw_take_place(f->r, n, padded_back(f, &b));
	return true;
}

/* ---- which nodes these are ---- */

/* Whether a node gives what a loop pushed on a stack or list for its gradient.  Integers among that are nearly always shapes. */
static bool is_taken_back(const struct ht_node *n)
{
	return n->op == HT_OP_StackPop || n->op == HT_OP_StackPopV2 ||
	       n->op == HT_OP_TensorListPopBack;
}

static bool tells_shapes(const struct ht_node *n)
{
	return ht_is(n, HT_CONSTANT | HT_TELLS_SHAPE) || is_taken_back(n);
}

/* Whether a node only computes with its operands, as gradients do with shapes. */
static bool combines(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_BroadcastArgs:
	case HT_OP_BroadcastGradientArgs:
	case HT_OP_ConcatOffset:
	case HT_OP_DynamicStitch:
	case HT_OP_Fill:
	case HT_OP_InvertPermutation:
	case HT_OP_Range:
		return true;
	default:
		return n->ins && ht_is(n, HT_ELEMENTWISE | HT_ONLY_MOVES | HT_REDUCES | HT_ENTERS |
						  HT_CONSTANT_LIKE);
	}
}

/* The array of TensorFlow 1 whose size `n` tells, if it has the size that it is made with; NULL: there is none. */
static const struct ht_node *array_told(const struct ht_node *n)
{
	const struct ht_node *made =
		n->op == HT_OP_TensorArraySizeV3 ? ht_forwarded(n->in[0]).node : NULL;

	return made && made->op == HT_OP_TensorArrayV3 && !ht_attr_bool(made, "dynamic_size", false)
		       ? made
		       : NULL;
}

/* Whether a value is computed from nothing but shapes and constants.  False if more than `left` nodes would have to be looked at. */
static bool follows_from_shapes(struct ht_value v, int32_t *left)
{
	const struct ht_node *n = v.node, *array = array_told(n);

	if (tells_shapes(n))
		return true;
	if (array)
		return follows_from_shapes(array->in[0], left);
	if (!combines(n) || !*left)
		return false;
	--*left;
	for (int32_t i = 0; i < n->ins; i++)
		if (!follows_from_shapes(n->in[i], left))
			return false;
	return true;
}

bool ht_may_be_data(const struct ht_graph *g, const struct ht_node *n, int32_t operand)
{
	int32_t left = 200; /* nodes to look at */

	return !ht_is_const(n->in[operand]) &&
	       (g->library->sizes || !follows_from_shapes(n->in[operand], &left));
}

bool ht_waits_for_shapes(const struct ht_graph *g, const struct ht_node *n)
{
	bool constant = true;

	for (int32_t i = 1; i < n->ins; i++) {
		if (ht_may_be_data(g, n, i))
			return false;
		constant = constant && ht_is_const(n->in[i]);
	}
	return !constant;
}

static bool has_computed_bound(const struct ht_graph *g, const struct ht_node *n)
{
	int64_t step;
	const bool data[] = { ht_may_be_data(g, n, 1), ht_may_be_data(g, n, 2) };

	for (int32_t i = 0; i < HT_MAX_RANK && const_entry(n->in[3], i, &step); i++)
		if (!bit(n, "shrink_axis_mask", i) &&
			((data[0] && bound_of(n, 1, i).computed) ||
				(data[1] && bound_of(n, 2, i).computed)))
			return true;
	return false;
}

bool ht_may_take_part(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Slice:
		return ht_may_be_data(g, n, 1) || ht_may_be_data(g, n, 2);
	case HT_OP_StridedSlice:
		return has_computed_bound(g, n);
	case HT_OP_TopKV2:
	case HT_OP_Pad:
	case HT_OP_PadV2:
	case HT_OP_Tile:
	case HT_OP_OneHot:
	case HT_OP_Bincount:
	case HT_OP_DenseBincount:
	case HT_OP_SplitV:
	case HT_OP_ResizeBilinear:
	case HT_OP_ResizeNearestNeighbor:
		return ht_may_be_data(g, n, 1);
	case HT_OP_Roll:
		return ht_may_be_data(g, n, 1) || ht_may_be_data(g, n, 2);
	case HT_OP_ScatterNd:
		return ht_may_be_data(g, n, 2);
	case HT_OP_CropAndResize:
		return ht_may_be_data(g, n, 3);
	default:
		return false;
	}
}

static bool slices_open(const struct ht_graph *g, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->out[0].shape.rank && i < ht_in_shape(n, 0).rank; i++)
		if (taking_of(g, n, i, false) != TAKE_AS_IT_IS)
			return true;
	return false;
}

bool ht_takes_open_part(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->ins ? ht_in_shape(n, 0) : HT_SHAPE_UNKNOWN;
	struct entry e;

	if (finds_in_open(g, n))
		return true;
	switch (n->op) {
	case HT_OP_Slice:
		return slices_open(g, n);
	case HT_OP_StridedSlice:
		return find_entry(g, n, false, &e);
	case HT_OP_TopK:
	case HT_OP_TopKV2:
		return s.rank > 0 && ht_dim_is_open(g, s.dim[s.rank - 1]);
	case HT_OP_Pad:
	case HT_OP_PadV2:
		return ht_shape_is_open(g, s) && n->out[0].shape.rank >= 0 &&
		       !ht_shape_is_told(n->out[0].shape);
	default:
		return false;
	}
}
