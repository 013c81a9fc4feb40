/* Gradients of broadcasts whose shapes only the run tells, for pass sizes: TensorFlow sums the gradient of an operand along the axes that
 * BroadcastGradientArgs finds in both shapes, and reshapes it to the operand's.  A loop takes such shapes from the list that the loop in front of
 * it filled, so they say nothing at compile time, not even how many axes are summed.
 *
 * The axis is summed by segments instead: all its elements belong to the first segment if the operand had one there, else to one each.  So it is with
 * the first of several axes, such as that of the rows of a batch, where the others of the operand are known to be those of the gradient.
 *
 * Left alone, and refused by the rule of Sum: other gradients with several axes, since extents that are taken from lists have room for many elements,
 * also where they are constant, and the room of several axes is their product. */
#include "passes/computed_rows.h"

/* BroadcastGradientArgs, if the axes of a Sum are the result of one that is not known. */
static struct ht_value unknown_axes(const struct ht_node *sum)
{
	struct ht_value axes = { 0 };

	if (sum->op != HT_OP_Sum || ht_shape_count(ht_in_shape(sum, 1)) >= 0)
		return axes;
	axes = ht_forwarded(sum->in[1]);
	return axes.node->op == HT_OP_BroadcastGradientArgs ? axes : (struct ht_value){ 0 };
}

/* The operand's shape, of which a Sum computes the gradient. */
static struct ht_value own_shape(struct ht_value axes)
{
	return ht_forwarded(axes.node->in[axes.index]);
}

/* The Sum whose result the node gives in the shape of the operand: a Sum that keeps axes gives it alone, another one with the Reshape behind it.
 * NULL: the node is neither, or the axes are known. */
static const struct ht_node *sum_to_shape(const struct ht_node *n)
{
	const struct ht_node *sum = n->op == HT_OP_Reshape ? ht_forwarded(n->in[0]).node : n;
	struct ht_value axes = unknown_axes(sum);

	if (!axes.node || ht_attr_bool(sum, "keep_dims", false) != (sum == n))
		return NULL;
	return sum == n || ht_value_eq(own_shape(axes), ht_forwarded(n->in[1])) ? sum : NULL;
}

/* Whether the operand whose shape `own` tells has all axes of a gradient of shape `s`, and behind the first one their extents. */
static bool differs_in_rows(struct ht_value own, struct ht_shape s)
{
	struct ht_shape of;

	if (!ht_is(own.node, HT_TELLS_SHAPE) || own.index >= own.node->ins)
		return false;
	of = ht_in_shape(own.node, own.index);
	if (of.rank != s.rank || s.rank < 2)
		return false;
	for (int32_t i = 1; i < s.rank; i++)
		if (of.dim[i] < 0 || of.dim[i] != s.dim[i])
			return false;
	return true;
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
	return ((s.rank == 1 && (rank == 0 || rank == 1)) || differs_in_rows(own, s)) &&
	       is_bounded_shape(g, s);
}

/* Sums the `size` rows of `x` where `own`, the operand's extent, is 1.  Otherwise both are equal, so `size` bounds the result. */
static struct ht_value summed_where_one(
	struct maker *f, struct ht_value x, struct ht_value size, struct ht_value own)
{
	struct ht_value several = ht_rw_cast(f->r, f->at, f->at->name,
		binary(f, HT_OP_NotEqual, own, whole(f, HT_I64, 1)), HT_I64);
	struct ht_value ids = of_rank(f, product(f, range_of(f, size), several), 1);

	own = binary(f, HT_OP_Minimum, own, binary(f, HT_OP_Maximum, size, whole(f, HT_I64, 1)));
	return of_rank(f, of_segments(f, HT_OP_UnsortedSegmentSum, x, ids, own),
		ht_type_of(x)->shape.rank);
}

bool ht_expand_sum_to_shape(struct maker *f, struct ht_node *n)
{
	const int64_t axis = 0;
	const struct ht_node *sum;
	struct ht_value x, own;

	if (!ht_sums_to_shape(f->r->g, n))
		return false;
	sum = sum_to_shape(n);
	own = own_shape(unknown_axes(sum));
	x = sum->in[0];
	if (ht_shape_count(ht_type_of(own)->shape) == 0) /* the operand is a scalar */
		x = of_rank(f, ht_rw_reduce(f->r, n, HT_OP_Sum, n->name, x, &axis, 1, n == sum),
			n == sum ? 1 : 0);
	else
		x = summed_where_one(f, x, extent(f, sum, 0, 0), entry_of(f, own, 0));
	ht_rw_take_place(f->r, n, x);
	return true;
}
