/* Gradients of broadcasts whose shapes only the run tells, for pass sizes: TensorFlow sums the gradient of an operand along the axes that
 * BroadcastGradientArgs finds in both shapes, and reshapes it to the operand's.  A loop takes such shapes from the list that the loop in front of
 * it filled, so they say nothing at compile time, not even how many axes are summed.
 *
 * Each axis whose extent may be another in the operand is summed by segments instead: all its elements belong to the first segment if the operand
 * had one there, else to one each.
 *
 * Left alone, and refused by the rule of Sum: gradients of more than MOST_ELEMENTS where only the run tells several extents of the operand, since these
 * may have room for many elements each, and the room of several axes is their product. */
#include "passes/computed_rows.h"

enum { MOST_ELEMENTS = 1 << 20 };

/* The result of a BroadcastGradientArgs that is the axes of a Sum, if a result of that op has an unknown number of elements.  Node NULL: the Sum has
 * other axes. */
static struct ht_value unknown_axes(const struct ht_node *sum)
{
	const struct ht_value none = { 0 };
	struct ht_value axes;

	if (sum->op != HT_OP_Sum || ht_is_const(sum->in[1]))
		return none;
	axes = ht_forwarded(sum->in[1]);
	if (axes.node->op != HT_OP_BroadcastGradientArgs)
		return none;
	for (int32_t i = 0; i < axes.node->outs; i++)
		if (ht_shape_count(axes.node->out[i].shape) < 0)
			return axes;
	return none;
}

/* The operand's shape, of which a Sum computes the gradient. */
static struct ht_value own_shape(struct ht_value axes)
{
	return ht_forwarded(axes.node->in[axes.index]);
}

/* The Sum whose result the node gives in the shape of the operand: the Reshape behind a Sum, or a Sum alone that keeps axes.  NULL: the node is
 * neither, or the axes are known. */
static const struct ht_node *sum_to_shape(const struct ht_node *n)
{
	const struct ht_node *sum = n->op == HT_OP_Reshape ? ht_forwarded(n->in[0]).node : n;
	struct ht_value axes = unknown_axes(sum);

	if (!axes.node || (sum == n && !ht_attr_bool(sum, "keep_dims", false)))
		return NULL;
	return sum == n || ht_value_eq(own_shape(axes), ht_forwarded(n->in[1])) ? sum : NULL;
}

/* Whether entry `i` of the operand's shape is known, and is `extent`. */
static bool has_extent(struct ht_value own, int32_t i, int64_t extent)
{
	struct ht_shape of;
	int64_t known;

	if (extent < 0)
		return false;
	if (const_entry(own, i, &known))
		return known == extent;
	if (!ht_is(own.node, HT_TELLS_SHAPE) || own.index >= own.node->ins)
		return false;
	of = ht_in_shape(own.node, own.index);
	return i < of.rank && of.dim[i] == extent;
}

/* Whether entry `i` of the operand's shape is a number, or a size of the run that needs no list. */
static bool is_told(struct ht_value own, int32_t i)
{
	int64_t known;

	return own.node->op == HT_OP__Sizes || const_entry(own, i, &known);
}

/* Whether all extents of a gradient are bounded, and so is their product where only the run tells several of the operand. */
static bool is_moderate(
	const struct ht_graph *g, struct ht_value own, int32_t rank, struct ht_shape s)
{
	int64_t all = 1;
	int32_t others = 0;

	for (int32_t i = 0; i < s.rank; i++) {
		int64_t most = ht_dim_most(g, s.dim[i]);

		if (most < 0)
			return false;
		if (__builtin_mul_overflow(all, most, &all))
			all = INT64_MAX;
	}
	for (int32_t i = 0; i < rank; i++)
		others += !is_told(own, i) && !has_extent(own, i, s.dim[s.rank - rank + i]);
	return others < 2 || all <= MOST_ELEMENTS;
}

bool ht_sums_to_shape(const struct ht_graph *g, const struct ht_node *n)
{
	const struct ht_node *sum = NULL;
	struct ht_value own;
	struct ht_shape s;
	int64_t rank;

	if (g->library->sizes && (n->op == HT_OP_Reshape || n->op == HT_OP_Sum))
		sum = sum_to_shape(n);
	if (!sum)
		return false;
	s = ht_in_shape(sum, 0);
	own = own_shape(unknown_axes(sum));
	rank = ht_shape_count(ht_type_of(own)->shape);
	return s.rank > 0 && s.rank <= HT_OPEN_RANK && rank >= 0 && rank <= s.rank &&
	       is_moderate(g, own, (int32_t)rank, s);
}

/* `axis` of `x` comes first, or goes back to its place. */
static struct ht_value moved(struct maker *f, struct ht_value x, int32_t axis, bool back)
{
	const int32_t rank = ht_type_of(x)->shape.rank;
	int64_t from[HT_MAX_RANK] = { 0 };

	if (!axis)
		return x;
	for (int32_t i = 0; i < rank; i++) {
		const int32_t source = i == 0 ? axis : i <= axis ? i - 1 : i;

		from[back ? source : i] = back ? i : source;
	}
	return of_rank(f, ht_rw_transpose(f->r, f->at, f->at->name, x, from), rank);
}

/* Sums `x` along an axis of `size` elements where `own`, the operand's extent, is 1.  Otherwise both are equal, so `size` bounds the result. */
static struct ht_value summed_where_one(
	struct maker *f, struct ht_value x, int32_t axis, struct ht_value size, struct ht_value own)
{
	const int32_t rank = ht_type_of(x)->shape.rank;
	struct ht_value several = ht_rw_cast(f->r, f->at, f->at->name,
		binary(f, HT_OP_NotEqual, own, whole(f, HT_I64, 1)), HT_I64);
	struct ht_value ids = of_rank(f, product(f, range_of(f, size), several), 1);

	own = binary(f, HT_OP_Minimum, own, binary(f, HT_OP_Maximum, size, whole(f, HT_I64, 1)));
	x = moved(f, x, axis, false);
	x = of_rank(f, of_segments(f, HT_OP_UnsortedSegmentSum, x, ids, own), rank);
	return moved(f, x, axis, true);
}

/* The axes that the operand does not have at all are summed, or have one element where the sum keeps them. */
static struct ht_value without_new_axes(
	struct maker *f, const struct ht_node *sum, struct ht_value x, int32_t count, bool keeps)
{
	int64_t axis[HT_MAX_RANK];

	for (int32_t i = 0; i < count; i++)
		axis[i] = i;
	if (!count)
		return x;
	x = ht_rw_reduce(f->r, f->at, HT_OP_Sum, f->at->name, x, axis, count, keeps);
	return of_rank(f, x, ht_in_shape(sum, 0).rank - (keeps ? 0 : count));
}

/* Whether a Reshape behind a Sum gives the operand's shape. */
static bool is_reshaped(const struct maker *f, struct ht_node *sum)
{
	const struct ht_node *user =
		sum->op == HT_OP_Sum ? ht_rw_only_user(f->r, ht_out(sum, 0)) : NULL;

	return user && user->op == HT_OP_Reshape && sum_to_shape(user) == sum;
}

bool ht_expand_sum_to_shape(struct maker *f, struct ht_node *n)
{
	const struct ht_node *sum;
	struct ht_value x, own;
	int32_t rank, first;
	struct ht_shape s;
	bool keeps;

	if (!ht_sums_to_shape(f->r->g, n) || is_reshaped(f, n))
		return false;
	sum = sum_to_shape(n);
	keeps = n == sum;
	own = own_shape(unknown_axes(sum));
	s = ht_in_shape(sum, 0);
	rank = (int32_t)ht_shape_count(ht_type_of(own)->shape);
	first = s.rank - rank;
	x = without_new_axes(f, sum, sum->in[0], first, keeps);
	for (int32_t i = 0; i < rank; i++)
		if (!has_extent(own, i, s.dim[first + i]))
			x = summed_where_one(f, x, keeps ? first + i : i,
				extent(f, sum, 0, first + i), entry_of(f, own, i));
	if (ht_value_eq(x, sum->in[0]))
		x = ht_rw_unary(f->r, f->at, HT_OP_Identity, n->name, x);
	ht_rw_take_place(f->r, n, x);
	return true;
}
