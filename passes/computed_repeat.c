/* Rows that are repeated so often as a run computes, as tf.repeat and the row numbers of ragged tensors are written: each row is
 * repeated as often as the largest number says, and a mask selects as many as the row's own number says.  Instead, the number of its row is
 * computed for each row of the result.  For pass sizes. */
#include "passes/computed_rows.h"

static struct ht_value operand(struct ht_value v, int32_t i)
{
	return ht_forwarded(v.node->in[i]);
}

static bool is_op(struct ht_value v, enum ht_op op)
{
	return v.node->op == op;
}

static bool is_number(struct ht_value v, int64_t x)
{
	int64_t is;
	int one;

	return ht_const_small_ints(v, &is, 1, &one) && one == 1 && is == x;
}

static struct ht_value without_casts(struct ht_value v)
{
	while (is_op(v, HT_OP_Cast) || ht_is(v.node, HT_FORWARDS))
		v = is_op(v, HT_OP_Cast) ? v.node->in[0] : v.node->in[v.index];
	return v;
}

static int32_t rank_of(struct ht_value v)
{
	return ht_type_of(v)->shape.rank;
}

/* Whether `v` is the largest element of `of`, or 0. */
static bool is_largest_of(struct ht_value v, struct ht_value of)
{
	v = without_casts(v);
	if (is_op(v, HT_OP_Maximum))
		v = is_number(operand(v, 0), 0) ? operand(v, 1) : operand(v, 0);
	return is_op(v, HT_OP_Max) && ht_value_eq(operand(v, 0), of);
}

/* The numbers below which the mask selects: it compares 0, 1, … up to the largest of these with each; node NULL: it is another mask. */
static struct ht_value lengths_of_mask(struct ht_value mask, struct ht_value *most)
{
	struct ht_value range, lengths, none = { 0 };

	if (!is_op(mask, HT_OP_Less))
		return none;
	range = without_casts(operand(mask, 0));
	lengths = without_casts(operand(mask, 1));
	if (!is_op(range, HT_OP_Range) || !is_op(lengths, HT_OP_ExpandDims) ||
		(!is_number(operand(lengths, 1), -1) &&
			!is_number(operand(lengths, 1), rank_of(lengths) - 1)) ||
		!is_number(operand(range, 0), 0) || !is_number(operand(range, 2), 1))
		return none;
	*most = operand(range, 1);
	lengths = without_casts(lengths.node->in[0]);
	return rank_of(lengths) > 0 && is_largest_of(*most, lengths) ? lengths : none;
}

/* The tensor whose parts a Tile repeats `most` times, along a new axis behind the first `axes`; node NULL: it does something else. */
static struct ht_value repeated_rows(struct ht_value tile, struct ht_value most, int32_t axes)
{
	struct ht_value times, x, none = { 0 };

	if (!is_op(tile, HT_OP_Tile))
		return none;
	x = operand(tile, 0);
	times = operand(tile, 1);
	if (!is_op(x, HT_OP_ExpandDims) || !is_number(operand(x, 1), axes) ||
		!is_op(times, HT_OP_Pack) || times.node->ins <= axes)
		return none;
	for (int32_t i = 0; i < times.node->ins; i++)
		if (i == axes ? !ht_value_eq(without_casts(operand(times, i)), without_casts(most))
			      : !is_number(operand(times, i), 1))
			return none;
	return x.node->in[0];
}

/* For each row of the result the number of the row that it repeats. */
static struct ht_value numbers_of_rows(struct maker *f, struct ht_value lengths)
{
	struct ht_value length = binary(f, HT_OP_Maximum, wide(f, lengths), whole(f, HT_I64, 0));
	struct ht_value count = length_of(f, range_of(f, total_of(f, HT_OP_Sum, length)));

	return rows_by_ends(f, sums_up_to(f, length, false), count);
}

/* The first axes of a tensor as one; the extents of the others are those of the shape. */
static struct ht_value rows_of_axes(struct maker *f, struct ht_value x, int32_t axes)
{
	struct ht_value size[HT_MAX_RANK], in[2] = { x };
	int32_t rank = rank_of(x) - axes + 1;

	size[0] = whole(f, HT_I64, -1);
	for (int32_t i = 1; i < rank; i++)
		size[i] = element(f, shape_of(f, x, HT_I64), axes + i - 1);
	in[1] = packed(f, size, rank);
	return node(f, HT_OP_Reshape, in, 2, ht_type_of(x)->dtype, open_shape(f, rank));
}

void ht_expand_repeat(struct maker *f, struct ht_node *n)
{
	struct ht_value at, mask, most, x, lengths;
	int32_t axes;

	if (n->op != HT_OP_GatherV2 || n->ins != 3 || ht_attr_int(n, "batch_dims", 0) ||
		!is_number(ht_forwarded(n->in[2]), 0))
		return;
	x = ht_forwarded(n->in[0]);
	at = ht_forwarded(n->in[1]);
	if (!is_op(x, HT_OP_Reshape) || !is_op(at, HT_OP_Squeeze) ||
		!is_op(operand(at, 0), HT_OP_Where))
		return;
	mask = operand(operand(at, 0), 0);
	lengths = lengths_of_mask(is_op(mask, HT_OP_Reshape) ? operand(mask, 0) : mask, &most);
	if (!lengths.node)
		return;
	axes = rank_of(lengths);
	x = repeated_rows(operand(x, 0), most, axes);
	if (!x.node || n->out[0].shape.rank != rank_of(x) - axes + 1)
		return;
	if (axes > 1) {
		x = rows_of_axes(f, x, axes);
		lengths = flat(f, lengths);
	}
	ht_rw_take_place(f->r, n, at_rows(f, x, numbers_of_rows(f, lengths), n->out[0].shape.rank));
}
