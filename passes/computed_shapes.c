/* Axes that are repeated so often as the run computes, or whose open indices are repeated, and reshapes to extents that the run computes,
 * for pass sizes: both gather the elements of their operand by index, as do axes that are rolled.  One-hot vectors of computed lengths. */
#include "passes/computed_nodes.h"

#include <string.h>

/* ---- ranges ---- */

struct ht_value ht_bounded_range(struct maker *f, struct ht_value count, int64_t most)
{
	struct ht_value check = whole(f, HT_I64, 0);
	struct ht_span s;

	if (most < 0 || most > MOST_COUNT)
		most = ht_span_of(f->r->g, count, &s) && s.most <= MOST_COUNT ? s.most : -1;
	if (most < 0) {
		most = ht_default_room(f->r->g);
		check = unless_below(f, check, whole(f, HT_I64, most), count);
	}
	check = counted_up(f, count, check, most);
	check.node->out[0].shape = open_shape(f, 1);
	return check;
}

bool ht_flatten(struct maker *f, struct ht_node *n, int32_t arg, int64_t axis)
{
	struct ht_shape s = ht_in_shape(n, arg);
	int64_t most;

	if (s.rank <= axis || !ht_dim_is_open(f->r->g, s.dim[axis]) ||
		ht_dim_size(f->r->g, s.dim[axis]))
		return false;
	most = ht_dim_most(f->r->g, s.dim[axis]);
	if (most < 0)
		return false;
	ht_rw_set_in(f->r, n, arg,
		gathered(f, n->in[arg], squeezed(f, counted(f, extent(f, n, arg, axis), most)),
			axis));
	n->in[arg].node->out[0].shape = open_shape(f, s.rank);
	return true;
}

bool ht_flatten_operands(struct maker *f, struct ht_node *n, int32_t args, int64_t axis)
{
	bool some = false;

	for (int32_t i = 0; i < args; i++)
		some = ht_flatten(f, n, i, axis) || some;
	return some;
}

/* ---- Tile ---- */

static bool repeats(const struct ht_graph *g, const struct ht_node *n, int32_t i)
{
	int64_t dim = ht_in_shape(n, 0).dim[i], to = n->out[0].shape.dim[i], times;
	const struct ht_size_expr e = ht_dim_of_sizes(g, to);

	if (const_entry(n->in[1], i, &times))
		return times != 1 && dim < 0;
	if (dim == 1 && to < 0 && to != HT_DIM_UNKNOWN)
		return ht_size_count(&e) >
		       1; /* an axis of one element may have one size of the graph */
	return to == HT_DIM_UNKNOWN || (to < 0 && to != dim && !ht_dim_size(g, to));
}

/* The most elements along an axis that is repeated; -1: not known. */
static int64_t most_repeated(struct maker *f, int64_t most, struct ht_value times)
{
	struct ht_span s;

	return ht_span_of(f->r->g, times, &s) && s.most <= MOST_COUNT &&
			       !__builtin_mul_overflow(most, s.most < 1 ? 1 : s.most, &most) &&
			       most <= MOST_COUNT
		       ? most
		       : -1;
}

bool ht_expand_tile(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = ht_in_shape(n, 0);

	if (!is_bounded_shape(f->r->g, s) || n->out[0].shape.rank != s.rank)
		return false;
	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_value times, size, at;
		int64_t most;

		if (!repeats(f->r->g, n, i))
			continue;
		times = entry_of(f, n->in[1], i);
		most = most_repeated(f, ht_dim_most(f->r->g, s.dim[i]), times);
		if (most < 0 && !last)
			continue;
		times = unless_below(f, times, times, whole(f, HT_I64, 0));
		size = extent(f, n, 0, i);
		at = ht_bounded_range(f, binary(f, HT_OP_Mul, size, times), most);
		size = binary(f, HT_OP_Maximum, size, whole(f, HT_I64, 1));
		ht_rw_set_in(
			f->r, n, 0, gathered(f, n->in[0], binary(f, HT_OP_FloorMod, at, size), i));
		n->in[0].node->out[0].shape = open_shape(f, s.rank);
		set_entry(f, n, 1, s.rank, i, 1);
		return true; /* further axes when the types are known again */
	}
	return false;
}

/* ---- Roll ---- */

/* Whether a dimension is open, or the run computes how far an axis is rolled, or which; false also where an axis is wrong. */
static bool rolls_by_index(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t count = ht_shape_count(ht_in_shape(n, 2));
	bool some = ht_shape_is_open(g, s);

	if (count < 1 || count > HT_MAX_RANK || ht_shape_count(ht_in_shape(n, 1)) != count)
		return false;
	for (int32_t i = 0; i < count; i++) {
		int64_t axis, shift;

		if (const_entry(n->in[2], i, &axis) && !ht_fix_axis(&axis, s.rank))
			return false;
		some = some || !const_entry(n->in[1], i, &shift) ||
		       !const_entry(n->in[2], i, &axis);
	}
	return some && is_bounded_shape(g, s);
}

/* Entry `i` of the distances if that of the axes, which the run computes, is `axis`, else 0; the run stops if it is no axis. */
static struct ht_value shift_along(
	struct maker *f, const struct ht_node *n, int32_t i, int32_t axis)
{
	int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value named = entry_of(f, n->in[2], i), by = entry_of(f, n->in[1], i), is;

	named = unless_below(f, named, named, whole(f, HT_I64, -rank));
	named = unless_below(f, named, whole(f, HT_I64, rank - 1), named);
	is = binary(f, HT_OP_LogicalOr, binary(f, HT_OP_Equal, named, whole(f, HT_I64, axis)),
		binary(f, HT_OP_Equal, named, whole(f, HT_I64, axis - rank)));
	return binary(f, HT_OP_Mul, by, cast_to(f, is, HT_I64));
}

/* How far an axis is rolled in all; false: not at all. */
static bool shift_of(struct maker *f, const struct ht_node *n, int32_t axis, struct ht_value *by)
{
	int32_t rank = ht_in_shape(n, 0).rank;
	int64_t named, count = ht_shape_count(ht_in_shape(n, 2));
	bool some = false;

	for (int32_t i = 0; i < count; i++) {
		bool known = const_entry(n->in[2], i, &named) && ht_fix_axis(&named, rank);
		struct ht_value one;

		if (known && named != axis)
			continue;
		one = known ? entry_of(f, n->in[1], i) : shift_along(f, n, i, axis);
		*by = some ? binary(f, HT_OP_AddV2, *by, one) : one;
		some = true;
	}
	return some;
}

/* Each axis is gathered: element i is the one that is `shift` in front of it, around the end. */
bool ht_expand_roll(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_value x = n->in[0], size, at, by;

	if (!rolls_by_index(f->r->g, n))
		return false;
	for (int32_t axis = 0; axis < s.rank; axis++) {
		if (!shift_of(f, n, axis, &by))
			continue;
		size = extent(f, n, 0, axis);
		at = s.dim[axis] < 0 ? range_of(f, size) : numbers(f, HT_I64, s.dim[axis]);
		at.node->out[0].shape = ht_shape_make(f->r->g->arena, 1, &s.dim[axis]);
		at = binary(f, HT_OP_Sub, at, by);
		size = binary(f, HT_OP_Maximum, size, whole(f, HT_I64, 1));
		x = gathered(f, x, binary(f, HT_OP_FloorMod, at, size), axis);
		x.node->out[0].shape = s;
	}
	ht_rw_take_place(f->r, n, x);
	return true;
}

/* ---- BroadcastTo ---- */

/* Whether axis `i` of the operand has an open extent, and the result another one: in each run they are equal, or the operand's is 1. */
static bool meets_another(const struct ht_graph *g, const struct ht_node *n, int32_t i)
{
	struct ht_shape s = ht_in_shape(n, 0), r = n->out[0].shape;
	int64_t to = r.dim[r.rank - s.rank + i];

	return ht_dim_is_open(g, s.dim[i]) && to != s.dim[i] && ht_dim_most(g, to) >= 0;
}

bool ht_expand_broadcast(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), r = n->out[0].shape;

	if (s.rank < 1 || r.rank < s.rank || ht_in_shape(n, 1).rank != 1)
		return false;
	for (int32_t i = 0; i < s.rank; i++) {
		int64_t to = r.dim[r.rank - s.rank + i];
		struct ht_value size, all, at, differ;

		if (!meets_another(f->r->g, n, i))
			continue;
		if (ht_flatten(f, n, 0, i))
			return true;
		size = extent(f, n, 0, i);
		all = to >= 0 ? whole(f, HT_I64, to) : entry_of(f, n->in[1], r.rank - s.rank + i);
		at = to >= 0 ? numbers(f, HT_I64, to) : range_of(f, all);
		differ = binary(f, HT_OP_LogicalAnd, binary(f, HT_OP_NotEqual, size, all),
			binary(f, HT_OP_NotEqual, size, whole(f, HT_I64, 1)));
		differ = cast_to(f, differ, HT_I32);
		differ = cast_to(f, only_zero(f, differ), HT_I64);
		at = binary(
			f, HT_OP_AddV2, binary(f, HT_OP_Minimum, at, plus(f, size, -1)), differ);
		at.node->out[0].shape = open_shape(f, 1);
		ht_rw_set_in(f->r, n, 0, gathered(f, n->in[0], at, i));
		n->in[0].node->out[0].shape = open_shape(f, s.rank);
		return true; /* further axes when the types are known again */
	}
	return false;
}

/* ---- Reshape ---- */

struct ht_value ht_product_of(struct maker *f, const struct ht_value *x, int32_t n)
{
	struct ht_value all = whole(f, HT_I64, 1);

	for (int32_t i = 0; i < n; i++)
		all = binary(f, HT_OP_Mul, all, x[i]);
	return all;
}

/* 1 where `x`, an entry of a shape, is -1; else 0. */
static struct ht_value one_if_rest(struct maker *f, struct ht_value x)
{
	return cast_to(f, binary(f, HT_OP_Equal, x, whole(f, HT_I64, -1)), HT_I64);
}

/* The extent where the entry `x` of a shape is -1: all that other entries, of product `others`, leave. */
static struct ht_value rest_of(
	struct maker *f, struct ht_value x, struct ht_value others, struct ht_value total)
{
	struct ht_value rest = binary(
		f, HT_OP_FloorDiv, total, binary(f, HT_OP_Maximum, others, whole(f, HT_I64, 1)));

	if (ht_const_is(x, -1))
		return rest;
	return binary(f, HT_OP_AddV2, x, binary(f, HT_OP_Mul, plus(f, rest, 1), one_if_rest(f, x)));
}

/* Whether one of the extents may be 0. */
static bool may_be_zero(const struct maker *f, const struct ht_value *x, int32_t n)
{
	struct ht_span s;

	for (int32_t i = 0; i < n; i++)
		if (!ht_span_of(f->r->g, x[i], &s) || s.least < 1)
			return true;
	return false;
}

/* The product of the extents that are not 0. */
static struct ht_value product_without_zeros(struct maker *f, const struct ht_value *x, int32_t n)
{
	struct ht_value some[HT_MAX_RANK];

	for (int32_t i = 0; i < n; i++)
		some[i] = binary(f, HT_OP_Maximum, x[i], whole(f, HT_I64, 1));
	return ht_product_of(f, some, n);
}

/* What a Reshape divides by `known`, the extents that its shape states, where the shape leaves an extent to the operand: all elements; if an
 * extent is 0, so that there are none, as many as without the operand's zeros. */
static struct ht_value divided(
	struct maker *f, const struct extents *from, const struct ht_value *known, int32_t rank)
{
	struct ht_value all = ht_product_of(f, from->size, from->rank), in[3];

	if (!may_be_zero(f, known, rank) || !may_be_zero(f, from->size, from->rank))
		return all;
	in[0] = binary(f, HT_OP_Equal, ht_product_of(f, known, rank), whole(f, HT_I64, 0));
	in[1] = product_without_zeros(f, from->size, from->rank);
	in[2] = all;
	return node(f, HT_OP_SelectV2, in, 3, HT_I64, HT_SHAPE_SCALAR);
}

void ht_read_extents(
	struct maker *f, struct ht_value shape, const struct extents *from, struct extents *to)
{
	const bool reshapes = f->at->op == HT_OP_Reshape;
	struct ht_value known[HT_MAX_RANK], others,
		total = ht_product_of(f, from->size, from->rank);
	bool may_be_rest[HT_MAX_RANK];

	for (int32_t i = 0; i < to->rank; i++) {
		struct ht_span s;

		to->size[i] = known[i] = extent_entry(f, shape, i);
		may_be_rest[i] = !ht_span_of(f->r->g, known[i], &s) || s.least < 0;
		if (may_be_rest[i]) /* 1 instead of -1 */
			known[i] = binary(f, HT_OP_AddV2, known[i],
				binary(f, HT_OP_Mul, one_if_rest(f, known[i]),
					whole(f, HT_I64, 2)));
	}
	others = reshapes ? product_without_zeros(f, known, to->rank)
			  : ht_product_of(f, known, to->rank);
	for (int32_t i = 0; i < to->rank; i++)
		if (may_be_rest[i])
			to->size[i] = rest_of(f, to->size[i], others,
				reshapes ? divided(f, from, known, to->rank) : total);
	to->check = check_equal(f, ht_product_of(f, to->size, to->rank), total);
}

/* The largest extent that the shape may leave to a tensor of `most` elements: constant extents divide it. */
static int64_t most_beside(const struct ht_node *n, int64_t most)
{
	struct ht_shape s = n->out[0].shape;

	for (int32_t i = 0; i < s.rank; i++)
		if (s.dim[i] > 0)
			most /= s.dim[i];
	return most > 0 ? most : 1;
}

/* The indices of an axis of the result. */
static struct ht_value indices(
	struct maker *f, const struct ht_node *n, const struct extents *r, int32_t i, int64_t most)
{
	int64_t dim = n->out[0].shape.dim[i], entry;

	if (dim >= 0)
		return binary(f, HT_OP_AddV2, numbers(f, HT_I64, dim), r->check);
	if (const_entry(n->in[1], i, &entry) && entry < 0)
		return counted_up(f, r->size[i], r->check, most_beside(n, most));
	if (dim == HT_DIM_UNKNOWN || !ht_dim_size(f->r->g, dim))
		return counted_up(f, r->size[i], r->check, most);
	return binary(f, HT_OP_AddV2, wide(f, range_of(f, element(f, n->in[1], i))), r->check);
}

/* For each element of the result its number among all. */
static struct ht_value numbered(
	struct maker *f, const struct ht_node *n, const struct extents *r, int64_t most)
{
	struct ht_value sum = { 0 };

	for (int32_t i = 0; i < r->rank; i++) {
		struct ht_value x = indices(f, n, r, i, most);

		x.node->out[0].shape = open_shape(f, 1);
		for (int32_t k = i + 1; k < r->rank; k++)
			x = with_axis(f, x, -1);
		x = binary(f, HT_OP_Mul, x, ht_product_of(f, r->size + i + 1, r->rank - i - 1));
		sum = sum.node ? binary(f, HT_OP_AddV2, sum, x) : x;
		sum.node->out[0].shape = open_shape(f, r->rank);
	}
	return sum;
}

struct ht_value ht_places_of(
	struct maker *f, struct ht_value number, const struct ht_value *size, int32_t rank)
{
	struct ht_value at[HT_MAX_RANK + 1];
	int32_t own = ht_type_of(number)->shape.rank;

	for (int32_t i = rank; i-- > 0;) {
		struct ht_value some = binary(f, HT_OP_Maximum, size[i], whole(f, HT_I64, 1));
		struct ht_value x = i ? binary(f, HT_OP_FloorMod, number, some) : number;

		x.node->out[0].shape = open_shape(f, own);
		at[i] = with_axis(f, x, -1);
		number = binary(f, HT_OP_FloorDiv, number, some);
		number.node->out[0].shape = open_shape(f, own);
	}
	return joined(f, at, rank, own);
}

/* The product of the largest extents, of which each is `least` at least; -1: too large, or not known. */
static int64_t most_of_at_least(const struct ht_graph *g, struct ht_shape s, int64_t least)
{
	int64_t n = 1;

	for (int32_t i = 0; i < s.rank; i++) {
		const int64_t most = ht_dim_most(g, s.dim[i]);

		if (most < 0 || __builtin_mul_overflow(n, most < least ? least : most, &n) ||
			n > MOST_COUNT)
			return -1;
	}
	return n;
}

static int64_t most_elements(const struct ht_graph *g, struct ht_shape s)
{
	return most_of_at_least(g, s, 0);
}

/* The largest extent that a shape may leave to a tensor of shape `s`: zeros may not count (see divided()). */
static int64_t most_rest(const struct ht_graph *g, struct ht_shape s)
{
	return most_of_at_least(g, s, 1);
}

/* How often a shape has each size, and its numbers multiplied. */
struct product {
	int64_t times;
	int8_t of[HT_MOST_RUN_SIZES + 1]; /* by size, counted from 1 */
};

static struct product product_of(const struct ht_graph *g, struct ht_shape s)
{
	struct product p = { .times = 1 };

	for (int32_t i = 0; i < s.rank; i++) {
		const struct ht_size_expr e = ht_dim_of_sizes(g, s.dim[i]);

		if (__builtin_mul_overflow(p.times, s.dim[i] >= 0 ? s.dim[i] : e.times, &p.times))
			p.times = -1;
		for (int k = 0; s.dim[i] < 0 && k < ht_size_count(&e); k++)
			p.of[e.size[k]]++;
	}
	return p;
}

/* Whether both shapes have as many elements whatever the sizes are. */
static bool is_as_large(const struct ht_graph *g, struct ht_shape a, struct ht_shape b)
{
	const struct product x = product_of(g, a), y = product_of(g, b);

	return x.times == y.times && !memcmp(x.of, y.of, sizeof x.of);
}

/* The distance in elements between neighbours along an axis, at the largest sizes; -1: too large. */
static int64_t stride_of(const struct ht_graph *g, struct ht_shape s, int32_t axis)
{
	return most_elements(g, (struct ht_shape){ s.rank - axis - 1, s.dim + axis + 1 });
}

/* Whether an axis of `to` can have the indices of a size that are `stride` elements apart, whatever the sizes of the run are: as pass sizes
 * wants it (put_by_stride() in bounded_rules.c). */
static bool has_place(const struct ht_graph *g, struct ht_shape to, int32_t size, int64_t stride)
{
	const int64_t all = stride * ht_size_at(g, size)->most;

	for (int32_t i = 0; i < to.rank; i++) {
		const struct ht_size_expr e = ht_dim_of_sizes(g, to.dim[i]);
		const int64_t step = stride_of(g, to, i);
		bool has = false;

		for (int k = 0; to.dim[i] < 0 && k < ht_size_count(&e); k++)
			has = has || e.size[k] == size;
		if (has && step > 0 && stride % step == 0 &&
			(step * ht_dim_most(g, to.dim[i])) % all == 0)
			return true;
	}
	return false;
}

/* Whether the result has elements of an open axis at places that depend on the sizes of the run. */
static bool divides(const struct ht_graph *g, struct ht_shape from, struct ht_shape to)
{
	if (!is_bounded_shape(g, to) || most_elements(g, from) < 1 || most_elements(g, to) < 1)
		return false;
	for (int32_t i = 0; i < from.rank; i++) {
		int32_t size = ht_dim_size(g, from.dim[i]);

		if (size && !has_place(g, to, size, stride_of(g, from, i)))
			return true;
	}
	return false;
}

/* Whether an extent of the result is one that the run computes, or they are equal to those of the operand in a run alone; all others are
 * bounded.  Or elements of an axis are elsewhere in each run. */
static bool is_computed(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->out[0].shape;
	bool some = false, products = false;

	for (int32_t i = 0; i < s.rank; i++) {
		bool unknown = s.dim[i] == HT_DIM_UNKNOWN;

		some = some || unknown;
		if (s.dim[i] >= 0 || unknown || ht_dim_size(g, s.dim[i]))
			continue;
		if (ht_dim_most(g, s.dim[i]) < 0)
			return false;
		products = true;
	}
	return some || (!products && !is_as_large(g, ht_in_shape(n, 0), s)) ||
	       divides(g, ht_in_shape(n, 0), s);
}

bool ht_expand_reshape(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct extents from = { .rank = s.rank }, to = { .rank = n->out[0].shape.rank };
	struct ht_value at;
	int64_t most;

	if (!last || !is_bounded_shape(f->r->g, s) || to.rank < 1 || to.rank >= HT_OPEN_RANK ||
		!is_computed(f->r->g, n))
		return false;
	most = most_rest(f->r->g, s);
	if (most < 0)
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		from.size[i] = extent(f, n, 0, i);
	ht_read_extents(f, n->in[1], &from, &to);
	at = ht_places_of(f, numbered(f, n, &to, most), from.size, s.rank);
	ht_rw_take_place(f->r, n, gathered_nd(f, n->in[0], at));
	return true;
}

/* ---- EnsureShape, Squeeze ---- */

static bool has_open_extent(const struct ht_graph *g, struct ht_shape s, int64_t axis)
{
	return ht_dim_is_open(g, s.dim[axis]) && ht_dim_most(g, s.dim[axis]) >= 0;
}

/* The first open axis that the node leaves out, so that its extent has to be 1; -1: there is none. */
static int32_t left_out(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const int64_t *axes;
	size_t count;

	if (!ht_shape_is_open(g, s))
		return -1;
	axes = ht_attr_ints(n, "squeeze_dims", &count, g->arena);
	for (size_t i = 0; i < count; i++) {
		int64_t axis = axes[i];

		if (ht_fix_axis(&axis, s.rank) && has_open_extent(g, s, axis))
			return (int32_t)axis;
	}
	return -1;
}

/* The first axis whose extent is open and has to be a number; -1: there is none. */
static int32_t ensured_axis(const struct ht_graph *g, const struct ht_node *n, int64_t *number)
{
	struct ht_shape s = ht_in_shape(n, 0), to = n->out[0].shape;

	if (n->op == HT_OP_Squeeze) {
		*number = 1;
		return left_out(g, n);
	}
	for (int32_t i = 0; s.rank == to.rank && i < s.rank; i++)
		if (to.dim[i] >= 0 && has_open_extent(g, s, i)) {
			*number = to.dim[i];
			return i;
		}
	return -1;
}

/* So many elements are gathered; the run stops where there are not as many. */
bool ht_expand_ensured(struct maker *f, struct ht_node *n)
{
	int64_t number;
	int32_t axis = ensured_axis(f->r->g, n, &number), rank = ht_in_shape(n, 0).rank;
	struct ht_value check;

	if (axis < 0)
		return false;
	check = check_equal(f, extent(f, n, 0, axis), whole(f, HT_I64, number));
	ht_rw_set_in(f->r, n, 0,
		gathered(f, n->in[0], binary(f, HT_OP_AddV2, numbers(f, HT_I64, number), check),
			axis));
	n->in[0].node->out[0].shape = open_shape(f, rank);
	return true;
}

/* ---- OneHot ---- */

/* The axis of the classes where it is in front of one of the indices; -1: it is the last one. */
static int32_t inner_classes(const struct ht_node *n)
{
	int64_t axis = ht_attr_int(n, "axis", -1);

	return axis >= 0 && axis < ht_in_shape(n, 0).rank ? (int32_t)axis : -1;
}

bool ht_puts_classes_inside(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->op == HT_OP_OneHot ? ht_in_shape(n, 0) : HT_SHAPE_UNKNOWN;

	return s.rank > 0 && s.rank < HT_OPEN_RANK && inner_classes(n) >= 0 && g->library->sizes &&
	       (!ht_shape_known(s) || !ht_shape_known(n->out[0].shape));
}

bool ht_put_classes_last(struct maker *f, struct ht_node *n)
{
	int32_t rank = ht_in_shape(n, 0).rank + 1, axis = inner_classes(n);
	int64_t order[HT_MAX_RANK];
	struct ht_value in[2];

	if (!ht_puts_classes_inside(f->r->g, n))
		return false;
	for (int32_t i = 0; i < rank; i++)
		order[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
	in[0] = node(f, HT_OP_OneHot, n->in, 4, n->out[0].dtype, open_shape(f, rank));
	ht_attr_set_int(in[0].node, "axis", -1);
	in[1] = ht_rw_const_ints(f->r, f->at, n->name, HT_I32, order, rank);
	ht_rw_take_place(
		f->r, n, node(f, HT_OP_Transpose, in, 2, n->out[0].dtype, open_shape(f, rank)));
	return true;
}

/* Each index is compared with all numbers below the depth. */
bool ht_expand_one_hot(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	enum ht_dtype t = n->out[0].dtype;
	int64_t axis = ht_attr_int(n, "axis", -1);
	struct ht_value in[3], at;

	if (!is_bounded_shape(f->r->g, s) || s.rank >= HT_OPEN_RANK ||
		(axis != -1 && axis != s.rank) || n->out[0].shape.rank != s.rank + 1 ||
		n->out[0].shape.dim[s.rank] != HT_DIM_UNKNOWN)
		return false;
	at = range_of(f, wide(f, n->in[1]));
	in[0] = binary(f, HT_OP_Equal, with_axis(f, wide(f, n->in[0]), -1), at);
	in[0].node->out[0].shape = open_shape(f, s.rank + 1);
	in[1] = n->in[2];
	in[2] = n->in[3];
	at = node(f, HT_OP_SelectV2, in, 3, t, open_shape(f, s.rank + 1));
	ht_rw_take_place(f->r, n, at);
	return true;
}

/* ---- which nodes these are ---- */

bool ht_reshapes_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->ins ? ht_in_shape(n, 0) : HT_SHAPE_UNKNOWN;
	int64_t number;

	if (n->op == HT_OP_Roll)
		return rolls_by_index(g, n);
	for (int32_t i = 0;
		n->op == HT_OP_BroadcastTo && i < s.rank && n->out[0].shape.rank >= s.rank; i++)
		if (meets_another(g, n, i))
			return true;
	if (n->op == HT_OP_EnsureShape || n->op == HT_OP_Squeeze)
		return ensured_axis(g, n, &number) >= 0;
	if (n->op == HT_OP_Reshape)
		return is_bounded_shape(g, s) && !ht_shape_known(s) && is_computed(g, n);
	for (int32_t i = 0; n->op == HT_OP_Tile && n->out[0].shape.rank == s.rank && i < s.rank;
		i++)
		if (ht_dim_is_open(g, s.dim[i]) && repeats(g, n, i))
			return true;
	return false;
}
