/* computed_rows: further nodes, for ops on rows of computed lengths: sparse and ragged tensors. */
#ifndef HT_PASSES_COMPUTED_ROWS_H
#define HT_PASSES_COMPUTED_ROWS_H

#include "passes/computed_nodes.h"

static inline struct ht_value sum(struct maker *f, struct ht_value a, struct ht_value b)
{
	return binary(f, HT_OP_AddV2, a, b);
}

static inline struct ht_value difference(struct maker *f, struct ht_value a, struct ht_value b)
{
	return binary(f, HT_OP_Sub, a, b);
}

static inline struct ht_value product(struct maker *f, struct ht_value a, struct ht_value b)
{
	return binary(f, HT_OP_Mul, a, b);
}

static inline struct ht_value length_of(struct maker *f, struct ht_value x)
{
	return size_of(f, x, HT_I64);
}

/* The first extent of a tensor. */
static inline struct ht_value rows_of(struct maker *f, struct ht_value x)
{
	return ht_type_of(x)->shape.rank == 1 ? length_of(f, x)
					      : element(f, shape_of(f, x, HT_I64), 0);
}

/* Column `i` of a matrix. */
static inline struct ht_value column(struct maker *f, struct ht_value x, int64_t i)
{
	return of_rank(f, gathered(f, x, whole(f, HT_I32, i), 1), 1);
}

/* A tensor of these extents whose elements are all `value`. */
static inline struct ht_value filled_with(
	struct maker *f, const struct ht_value *size, int32_t rank, struct ht_value value)
{
	enum ht_dtype t = ht_type_of(value)->dtype;
	struct ht_value in[] = { packed(f, size, rank), value };

	return node(f, HT_OP_Fill, in, 2, t, open_shape(f, rank));
}

static inline struct ht_value repeated(
	struct maker *f, struct ht_value count, struct ht_value value)
{
	return filled_with(f, &count, 1, value);
}

static inline struct ht_value ones_like(struct maker *f, struct ht_value x, enum ht_dtype t)
{
	return unary(f, HT_OP_OnesLike, cast_to(f, x, t));
}

/* The slices at positions of a tensor of these extents, which are in the rows of `at`; slices of one position are added up. */
static inline struct ht_value scattered_at(struct maker *f, struct ht_value at,
	struct ht_value slices, const struct ht_value *size, int32_t rank)
{
	struct ht_value in[] = { at, slices, packed(f, size, rank) };
	enum ht_dtype t = ht_type_of(slices)->dtype;

	return node(f, HT_OP_ScatterNd, in, 3, t, open_shape(f, rank));
}

/* A tensor with `slices` at the positions `at` of its first axis. */
static inline struct ht_value scattered(struct maker *f, struct ht_value at, struct ht_value slices,
	const struct ht_value *size, int32_t rank)
{
	return scattered_at(f, with_axis(f, at, 1), slices, size, rank);
}

/* `x` in which slices are combined with those at positions. */
static inline struct ht_value scattered_into(struct maker *f, enum ht_op op, struct ht_value x,
	struct ht_value at, struct ht_value slices)
{
	struct ht_type t = *ht_type_of(x);
	struct ht_value in[] = { x, at, slices };

	return node(f, op, in, 3, t.dtype, t.shape);
}

/* The slices of a tensor at the positions in the rows of `at`. */
static inline struct ht_value taken_at(
	struct maker *f, struct ht_value x, struct ht_value at, int32_t rank)
{
	return of_rank(f, gathered_nd(f, x, at), rank);
}

/* Reduces by `op`, an UnsortedSegment op, the rows that have the same id; rows with a negative id are left out. */
static inline struct ht_value of_segments(struct maker *f, enum ht_op op, struct ht_value rows,
	struct ht_value ids, struct ht_value count)
{
	struct ht_type t = *ht_type_of(rows);
	struct ht_value in[] = { rows, ids, count };

	return node(f, op, in, 3, t.dtype, open_shape(f, t.shape.rank));
}

/* For each element of a vector the sum of all elements up to it; with `before`, the element itself does not count. */
static inline struct ht_value sums_up_to(struct maker *f, struct ht_value x, bool before)
{
	enum ht_dtype t = ht_type_of(x)->dtype;
	struct ht_value in[] = { x, whole(f, HT_I32, 0) };
	struct ht_value v = node(f, HT_OP_Cumsum, in, 2, t, open_shape(f, 1));

	ht_attr_set_bool(v.node, "exclusive", before);
	ht_attr_set_bool(v.node, "reverse", false);
	return v;
}

static inline struct ht_value sums_before(struct maker *f, struct ht_value x)
{
	return sums_up_to(f, x, true);
}

/* The sum or an extreme of a vector, by reduction `op`. */
static inline struct ht_value total_of(struct maker *f, enum ht_op op, struct ht_value x)
{
	const int64_t axis = 0;

	return ht_rw_reduce(f->r, f->at, op, f->at->name, x, &axis, 1, false);
}

/* `x`; the run stops if one of the numbers in `of` is below 0 or above `most`. */
static inline struct ht_value unless_one_outside(
	struct maker *f, struct ht_value x, struct ht_value of, struct ht_value most)
{
	x = unless_below(f, x, total_of(f, HT_OP_Min, of), whole(f, HT_I64, 0));
	return unless_below(f, x, most, total_of(f, HT_OP_Max, of));
}

/* The row in which each of `count` values is, from 0 on, where `end` has for each row the number of its values and of those in front of it.
 * A value is in as many rows behind the first one as end in front of it or at it. */
static inline struct ht_value rows_by_ends(
	struct maker *f, struct ht_value end, struct ht_value count)
{
	struct ht_value ends;

	end = of_rank(
		f, chosen(f, binary(f, HT_OP_Less, end, count), end, whole(f, HT_I64, -1)), 1);
	ends = of_segments(f, HT_OP_UnsortedSegmentSum, ones_like(f, end, HT_I64), end, count);
	return sums_up_to(f, ends, false);
}

static inline struct ht_value flat(struct maker *f, struct ht_value x)
{
	const int64_t all = -1;
	struct ht_value v = reshaped(f, x, ht_shape_make(f->r->g->arena, 1, &all));

	return of_rank(f, v, 1);
}

/* `x` with `more` axes of extent 1 behind its own. */
static inline struct ht_value with_axes(struct maker *f, struct ht_value x, int32_t more)
{
	for (int32_t i = 0; i < more; i++)
		x = with_axis(f, x, -1);
	return x;
}

/* Replaces the results of the node by the values `v`.  All of these have to exist before, since the node is removed with its last use.  A
 * value that nothing uses afterwards is removed, too. */
static inline void replace_results(struct maker *f, struct ht_node *n, const struct ht_value *v)
{
	int32_t count = n->outs;

	for (int32_t i = 0; i < count; i++)
		if (n->graph && ht_rw_uses(f->r, ht_out(n, i)))
			ht_rw_replace(f->r, ht_out(n, i), v[i]);
	for (int32_t i = 0; i < count; i++)
		if (v[i].node->graph)
			ht_rw_drop(f->r, v[i].node);
}

#endif
