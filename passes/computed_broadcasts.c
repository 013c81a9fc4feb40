/* Gradients of broadcasts whose shapes only the run tells, for pass sizes: TensorFlow sums the gradient of an operand along the axes that
 * BroadcastGradientArgs finds in both shapes, and reshapes it to the operand's.  A loop takes such shapes from the list that the loop in front of
 * it filled, so they say nothing at compile time, not even how many axes are summed.
 *
 * Each axis is summed by segments instead: all its elements belong to the first segment if the operand had one there, else to one each.
 *
 * Left alone, and refused by the rule of Sum: gradients with several axes, since extents that are taken from lists have room for many elements,
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
static struct ht_node *sum_to_shape(struct ht_node *n)
{
	struct ht_node *sum = n->op == HT_OP_Reshape ? ht_forwarded(n->in[0]).node : n;
	struct ht_value axes = unknown_axes(sum);

	if (!axes.node || ht_attr_bool(sum, "keep_dims", false) != (sum == n))
		return NULL;
	return sum == n || ht_value_eq(own_shape(axes), ht_forwarded(n->in[1])) ? sum : NULL;
}

bool ht_sums_to_shape(const struct ht_graph *g, struct ht_node *n)
{
	const struct ht_node *sum = NULL;
	struct ht_shape s;
	int64_t rank;

	if (g->library->sizes && (n->op == HT_OP_Reshape || n->op == HT_OP_Sum))
		sum = sum_to_shape(n);
	if (!sum)
		return false;
	s = ht_in_shape(sum, 0);
	rank = ht_shape_count(ht_type_of(own_shape(unknown_axes(sum)))->shape);
	return s.rank == 1 && (rank == 0 || rank == 1) && is_bounded_shape(g, s);
}

/* `x` with axis `axis` first, or moved back from there. */
static struct ht_value moved(
	struct forms *f, struct ht_value x, int32_t axis, int32_t rank, bool back)
{
	int64_t to[HT_MAX_RANK] = { 0 };

	for (int32_t i = 0; i < rank; i++)
		to[i] = back ? (i < axis           ? i + 1
				       : i == axis ? 0
						   : i)
			     : (i == 0             ? axis
				       : i <= axis ? i - 1
						   : i);
	return axis ? of_rank(f, ht_rw_transpose(&f->r, f->at, f->at->name, x, to), rank) : x;
}

/* Sums `x` along an axis of `size` elements where `own`, the operand's extent, is 1.  Otherwise both are equal, so `size` bounds the result. */
static struct ht_value summed_where_one(struct forms *f, struct ht_value x, int32_t axis,
	int32_t rank, struct ht_value size, struct ht_value own)
{
	struct ht_value several = ht_rw_cast(&f->r, f->at, f->at->name,
		compare(f, HT_OP_NotEqual, own, whole(f, HT_I64, 1)), HT_I64);
	struct ht_value ids = of_rank(f, product(f, range_of(f, size), several), 1);

	own = binary(f, HT_OP_Minimum, own, binary(f, HT_OP_Maximum, size, whole(f, HT_I64, 1)));
	x = of_segments(f, HT_OP_UnsortedSegmentSum, moved(f, x, axis, rank, false), ids, own);
	return moved(f, of_rank(f, x, rank), axis, rank, true);
}

bool ht_expand_sum_to_shape(struct forms *f, struct ht_node *n)
{
	struct ht_value x, own;
	struct ht_node *sum;
	int32_t rank, lead;

	if (!ht_sums_to_shape(f->r.g, n))
		return false;
	sum = sum_to_shape(n);
	own = own_shape(unknown_axes(sum));
	x = sum->in[0];
	rank = ht_type_of(x)->shape.rank;
	lead = rank - (int32_t)ht_shape_count(ht_type_of(own)->shape);
	for (int32_t i = lead; i < rank; i++)
		x = summed_where_one(
			f, x, i, rank, extent(f, sum, 0, i), entry_of(f, own, i - lead));
	if (lead) {
		int64_t axes[HT_MAX_RANK] = { 0 };

		for (int32_t i = 0; i < lead; i++)
			axes[i] = i;
		x = of_rank(f, ht_rw_reduce(&f->r, n, HT_OP_Sum, n->name, x, axes, lead, n == sum),
			n == sum ? rank : rank - lead);
	}
	ht_rw_take_place(&f->r, n, x);
	return true;
}
