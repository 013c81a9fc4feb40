/* Order, parts and unions of sparse tensors, for pass sizes.
 *
 * - SparseReorder sorts values by their numbers among all elements.
 * - SparseSlice and SparseSplit select the values that are inside and count their places from the begin.
 * - SparseConcat adds the extents in front to the places, and sorts what comes from all operands.
 * - SparseAdd, SparseSparseMaximum and Minimum sort the values of both operands, and combine those of one place.
 * - SparseSliceGrad and SparseAddGrad look for the gradient of each place among those of the result.
 * - SparseFillEmptyRowsGrad takes the gradients of values, and adds up the others. */
#include "passes/computed_rows.h"

/* A sparse tensor: its operands, or what becomes its results. */
struct sparse {
	struct ht_value indices, values;
	struct ht_value size[HT_MAX_RANK];
	int32_t rank;
};

static struct sparse sparse_of(
	struct maker *f, const struct ht_node *n, int32_t indices, int32_t values, int32_t shape)
{
	struct sparse s = { .indices = n->in[indices],
		.values = n->in[values],
		.rank = (int32_t)ht_in_shape(n, indices).dim[1] };

	for (int32_t i = 0; i < s.rank; i++)
		s.size[i] = extent_entry(f, n->in[shape], i);
	return s;
}

/* Results `i`, `i` + `step` and, if there is one, `i` + 2 * `step`. */
static void put(struct maker *f, const struct ht_node *n, int32_t i, int32_t step,
	const struct sparse *s, struct ht_value *result)
{
	result[i] = s->indices;
	result[i + step] = s->values;
	if (i + 2 * step < n->outs)
		result[i + 2 * step] = packed(f, s->size, s->rank);
}

/* The results of the node are those of one sparse tensor. */
static void replace(struct maker *f, struct ht_node *n, const struct sparse *s)
{
	struct ht_value result[3];

	put(f, n, 0, 1, s, result);
	replace_results(f, n, result);
}

/* ---- order ---- */

static struct ht_value numbers_of(struct maker *f, const struct sparse *s)
{
	return ht_numbers_of(f, s->indices, s->size, s->rank);
}

/* The places of the numbers in ascending order.  TopKV2 sorts in descending order, so it sorts the numbers with all bits inverted: they have the
 * opposite order, and unlike negation this works for the least integer, too. */
struct ht_value ht_order_of(struct maker *f, struct ht_value number)
{
	const struct ht_value in[] = { unary(f, HT_OP_Invert, cast_to(f, number, HT_I64)),
		cast_to(f, length_of(f, number), HT_I32) };
	struct ht_value v = node(f, HT_OP_TopKV2, in, 2, HT_I64, open_shape(f, 1));

	ht_attr_set_type(v.node, "index_type", HT_I32);
	ht_attr_set_bool(v.node, "sorted", true);
	ht_node_set_outs(v.node, 2);
	v.node->out[1] = (struct ht_type){ HT_I32, open_shape(f, 1) };
	return ht_out(v.node, 1);
}

static void take(struct maker *f, struct sparse *s, struct ht_value at)
{
	s->indices = at_rows(f, s->indices, at, 2);
	s->values = at_rows(f, s->values, at, 1);
}

static bool expand_reorder(struct maker *f, struct ht_node *n)
{
	struct sparse s = sparse_of(f, n, 0, 1, 2);

	take(f, &s, ht_order_of(f, numbers_of(f, &s)));
	replace(f, n, &s);
	return true;
}

/* ---- parts ---- */

/* The values between bounds along an axis, with places from the begin on. */
static void cut(
	struct maker *f, struct sparse *s, int32_t axis, struct ht_value begin, struct ht_value end)
{
	struct ht_value at = column(f, s->indices, axis), inside;
	int64_t by[HT_MAX_RANK] = { 0 };

	inside = both(f, binary(f, HT_OP_GreaterEqual, at, begin), binary(f, HT_OP_Less, at, end));
	take(f, s, squeezed(f, where(f, of_rank(f, inside, 1))));
	by[axis] = 1;
	s->indices = difference(f, s->indices, product(f, wholes(f, HT_I64, by, s->rank), begin));
	s->indices = of_rank(f, s->indices, 2);
	s->size[axis] = difference(f, end, begin);
}

static bool expand_slice(struct maker *f, struct ht_node *n)
{
	struct sparse s = sparse_of(f, n, 0, 1, 2);

	if (ht_in_shape(n, 3).rank != 1 || ht_in_shape(n, 4).rank != 1)
		return false;
	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_value begin = extent_entry(f, n->in[3], i),
				rest = difference(f, s.size[i], begin),
				count = binary(
					f, HT_OP_Minimum, extent_entry(f, n->in[4], i), rest);

		count = binary(f, HT_OP_Maximum, count, whole(f, HT_I64, 0));
		cut(f, &s, i, begin, sum(f, begin, count));
	}
	replace(f, n, &s);
	return true;
}

/* Operand 0 is the axis.  Parts are equally long, and the first ones one longer, as far as there is a rest. */
static bool expand_split(struct maker *f, struct ht_node *n)
{
	int32_t parts = n->outs / 3;
	struct sparse all = sparse_of(f, n, 1, 2, 3);
	struct ht_value each, rest,
		begin = whole(f, HT_I64, 0),
		*result = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->outs);
	int64_t axis;
	int one;

	if (!ht_const_small_ints(n->in[0], &axis, 1, &one) || !ht_fix_axis(&axis, all.rank))
		return false;
	each = binary(f, HT_OP_FloorDiv, all.size[axis], whole(f, HT_I64, parts));
	begin = unless_below(f, begin, all.size[axis], whole(f, HT_I64, parts));
	rest = binary(f, HT_OP_FloorMod, all.size[axis], whole(f, HT_I64, parts));
	for (int32_t i = 0; i < parts; i++) {
		struct ht_value one_more = ht_rw_cast(f->r, f->at, f->at->name,
			binary(f, HT_OP_Less, whole(f, HT_I64, i), rest), HT_I64);
		struct ht_value end = sum(f, begin, sum(f, each, one_more));
		struct sparse s = all;

		cut(f, &s, (int32_t)axis, begin, end);
		put(f, n, i, parts, &s, result);
		begin = end;
	}
	replace_results(f, n, result);
	return true;
}

/* ---- SparseConcat ---- */

/* 0; the run stops where two tensors differ in an extent other than that of `axis`. */
static struct ht_value check_extents(
	struct maker *f, const struct sparse *a, const struct sparse *b, int64_t axis)
{
	struct ht_value check = whole(f, HT_I64, 0);

	for (int32_t i = 0; i < a->rank; i++)
		if (i != axis)
			check = sum(f, check, check_equal(f, a->size[i], b->size[i]));
	return check;
}

static bool expand_concat(struct maker *f, struct ht_node *n)
{
	int32_t count = n->ins / 3;
	struct ht_value *indices = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)count + 1),
			*values = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)count + 1);
	struct sparse all = sparse_of(f, n, 0, count, 2 * count);
	int64_t axis = ht_attr_int(n, "concat_dim", 0), by[HT_MAX_RANK] = { 0 };

	if (!ht_fix_axis(&axis, all.rank))
		return false;
	by[axis] = 1;
	indices[0] = all.indices;
	values[0] = all.values;
	for (int32_t i = 1; i < count; i++) {
		struct sparse s = sparse_of(f, n, i, count + i, 2 * count + i);
		struct ht_value offset =
			product(f, wholes(f, HT_I64, by, all.rank), all.size[axis]);

		offset = sum(f, offset, check_extents(f, &all, &s, axis));
		indices[i] = of_rank(f, sum(f, s.indices, offset), 2);
		values[i] = s.values;
		all.size[axis] = sum(f, all.size[axis], s.size[axis]);
	}
	all.indices = joined(f, indices, count, 0);
	all.values = joined(f, values, count, 0);
	take(f, &all, ht_order_of(f, numbers_of(f, &all)));
	replace(f, n, &all);
	return true;
}

/* ---- unions ---- */

/* The values of both operands in order; `*id` numbers the places, and values of one place get one number. */
static struct sparse union_of(
	struct maker *f, const struct sparse *a, const struct sparse *b, struct ht_value *id)
{
	struct ht_value indices[3] = { a->indices, b->indices },
			values[3] = { a->values, b->values }, number, at, before, first;
	struct sparse s = *a;

	s.indices = joined(f, indices, 2, 0);
	s.values = joined(f, values, 2, 0);
	number = of_rank(f, sum(f, numbers_of(f, &s), check_extents(f, a, b, -1)), 1);
	at = ht_order_of(f, number);
	take(f, &s, at);
	number = at_rows(f, number, at, 1);
	at = range_of(f, length_of(f, number));
	before = binary(f, HT_OP_Maximum, plus(f, at, -1), whole(f, HT_I64, 0));
	first = binary(f, HT_OP_NotEqual, at_rows(f, number, before, 1), number);
	first = binary(f, HT_OP_LogicalOr, first, binary(f, HT_OP_Equal, at, whole(f, HT_I64, 0)));
	first = of_rank(f, first, 1);
	*id = plus(f, sums_up_to(f, cast_to(f, first, HT_I64), false), -1);
	*id = of_rank(f, *id, 1);
	s.indices = at_rows(f, s.indices, squeezed(f, where(f, first)), 2);
	return s;
}

/* How many values each place has. */
static struct ht_value times_of(struct maker *f, struct ht_value id, const struct sparse *s)
{
	return of_segments(
		f, HT_OP_UnsortedSegmentSum, ones_like(f, id, HT_I32), id, rows_of(f, s->indices));
}

/* Sums of values of both operands have to be at least as large as the threshold; other values stay. */
static bool expand_add(struct maker *f, struct ht_node *n)
{
	struct sparse a = sparse_of(f, n, 0, 1, 2), b = sparse_of(f, n, 3, 4, 5), s;
	struct ht_value id, size, stays;

	s = union_of(f, &a, &b, &id);
	stays = binary(f, HT_OP_Less, times_of(f, id, &s), whole(f, HT_I32, 2));
	s.values = of_segments(f, HT_OP_UnsortedSegmentSum, s.values, id, rows_of(f, s.indices));
	if (!ht_const_is(n->in[6], 0)) {
		size = s.values;
		if (ht_dtype_info(n->out[1].dtype)->kind != HT_KIND_UINT)
			size = unary(f, HT_OP_Abs, size);
		stays = binary(
			f, HT_OP_LogicalOr, stays, binary(f, HT_OP_GreaterEqual, size, n->in[6]));
		take(f, &s, squeezed(f, where(f, of_rank(f, stays, 1))));
	}
	replace(f, n, &s);
	return true;
}

/* The extreme of both values; one that an operand does not have is 0. */
static bool expand_extreme(struct maker *f, struct ht_node *n)
{
	bool largest = n->op == HT_OP_SparseSparseMaximum;
	enum ht_dtype t = n->out[1].dtype;
	struct sparse a = sparse_of(f, n, 0, 1, 2), b = sparse_of(f, n, 3, 4, 5), s;
	struct ht_value id, times, value, count;

	s = union_of(f, &a, &b, &id);
	count = rows_of(f, s.indices);
	times = times_of(f, id, &s);
	value = of_segments(f, largest ? HT_OP_UnsortedSegmentMax : HT_OP_UnsortedSegmentMin,
		s.values, id, count);
	s.values = of_rank(f,
		chosen(f, binary(f, HT_OP_Greater, times, whole(f, HT_I32, 1)), value,
			binary(f, largest ? HT_OP_Maximum : HT_OP_Minimum, value, whole(f, t, 0))),
		1);
	replace(f, n, &s);
	return true;
}

/* ---- the gradient of SparseFillEmptyRows ---- */

static bool expand_fill_gradient(struct maker *f, struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value taken, rest, size = length_of(f, n->in[1]), result[2];

	taken = scattered(f, n->in[0], ones_like(f, n->in[0], HT_I64), &size, 1);
	rest = of_rank(f,
		chosen(f, binary(f, HT_OP_Greater, taken, whole(f, HT_I64, 0)), whole(f, t, 0),
			n->in[1]),
		1);
	result[0] = at_rows(f, n->in[1], n->in[0], 1);
	result[1] = total_of(f, HT_OP_Sum, rest);
	replace_results(f, n, result);
	return true;
}

/* ---- gradients of SparseSlice and SparseAdd ---- */

/* Of each wanted place the gradient at the equal one among those that were found, which are in order; 0: there is none. */
static struct ht_value gradients_at(
	struct maker *f, struct ht_value grad, struct ht_value found, struct ht_value wanted)
{
	const int64_t axis = 0, none = INT64_MAX;
	enum ht_dtype t = ht_type_of(grad)->dtype;
	struct ht_value in[3], end[3], at;

	in[0] = found;
	in[1] = wholes(f, HT_I64, &none, 1);
	found = joined(f, in, 2, 0);
	end[0] = grad;
	end[1] = with_axis(f, whole(f, t, 0), 0);
	in[0] = with_axis(f, found, 0);
	in[1] = with_axis(f, wanted, 0);
	at = node(f, HT_OP_LowerBound, in, 2, HT_I32, open_shape(f, 2));
	ht_attr_set_type(at.node, "out_type", HT_I32);
	at = node(f, HT_OP_Squeeze, &at, 1, HT_I32, open_shape(f, 1));
	ht_attr_set_ints(at.node, "squeeze_dims", &axis, 1);
	return of_rank(f,
		chosen(f, of_rank(f, binary(f, HT_OP_Equal, at_rows(f, found, at, 1), wanted), 1),
			at_rows(f, joined(f, end, 2, 0), at, 1), whole(f, t, 0)),
		1);
}

/* One more than the largest place of an axis, which is 1 at least. */
static struct ht_value extent_by(
	struct maker *f, const struct ht_value *indices, int32_t count, int32_t axis)
{
	struct ht_value most = whole(f, HT_I64, 0);

	for (int32_t i = 0; i < count; i++)
		most = binary(f, HT_OP_Maximum, most,
			total_of(f, HT_OP_Max, column(f, indices[i], axis)));
	return plus(f, most, 1);
}

/* Places are counted from the begin of the slice; those in front of it are in no slice. */
static bool expand_slice_gradient(struct maker *f, struct ht_node *n)
{
	const int32_t rank = (int32_t)ht_in_shape(n, 1).dim[1];
	struct ht_value at[] = { of_rank(f, difference(f, n->in[1], n->in[2]), 2), n->in[3] },
			size[HT_MAX_RANK], number, outside;

	for (int32_t i = 0; i < rank; i++)
		size[i] = extent_by(f, at, 2, i);
	number = ht_numbers_of(f, at[0], size, rank);
	for (int32_t i = 0; i < rank; i++) {
		outside = binary(f, HT_OP_Less, column(f, at[0], i), whole(f, HT_I64, 0));
		number = of_rank(
			f, chosen(f, of_rank(f, outside, 1), whole(f, HT_I64, -1), number), 1);
	}
	ht_rw_take_place(
		f->r, n, gradients_at(f, n->in[0], ht_numbers_of(f, at[1], size, rank), number));
	return true;
}

static bool expand_add_gradient(struct maker *f, struct ht_node *n)
{
	const int32_t rank = (int32_t)ht_in_shape(n, 1).dim[1];
	struct ht_value size[HT_MAX_RANK], sums, result[2];

	for (int32_t i = 0; i < rank; i++)
		size[i] = extent_by(f, n->in + 1, 3, i);
	sums = ht_numbers_of(f, n->in[3], size, rank);
	for (int32_t i = 0; i < 2; i++)
		result[i] =
			gradients_at(f, n->in[0], sums, ht_numbers_of(f, n->in[i + 1], size, rank));
	replace_results(f, n, result);
	return true;
}

/* ---- every node ---- */

bool ht_expand_sparse_parts(struct maker *f, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_SparseReorder:
		return expand_reorder(f, n);
	case HT_OP_SparseSlice:
		return expand_slice(f, n);
	case HT_OP_SparseSplit:
		return expand_split(f, n);
	case HT_OP_SparseConcat:
		return expand_concat(f, n);
	case HT_OP_SparseAdd:
		return expand_add(f, n);
	case HT_OP_SparseSparseMaximum:
	case HT_OP_SparseSparseMinimum:
		return expand_extreme(f, n);
	case HT_OP_SparseFillEmptyRowsGrad:
		return expand_fill_gradient(f, n);
	case HT_OP_SparseSliceGrad:
		return expand_slice_gradient(f, n);
	case HT_OP_SparseAddGrad:
		return expand_add_gradient(f, n);
	default:
		return false;
	}
}
