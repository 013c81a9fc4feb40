/* maker: makes the nodes of which a pass makes an op, in front of a node and with names that begin alike.
 *
 * Dtypes of results, and attributes that operands tell, are those of the op's row (ht_rw_made()), unless a function takes the dtype as an
 * argument.  Shapes are set where they are certain; elsewhere they are unknown, and are inferred later. */
#ifndef HT_PASSES_MAKER_H
#define HT_PASSES_MAKER_H

#include "passes/rewrite.h"

struct maker {
	struct ht_rw *r;
	struct ht_node *at; /* nodes are made in front of it */
	struct ht_str name;
	enum ht_dtype t; /* of number() */
};

/* Nodes are made in front of `n` from now on, and are named after it. */
static inline void make_at(struct maker *m, struct ht_node *n)
{
	m->at = n;
	m->name = n->name;
}

/* A maker of nodes whose names begin NODE/what; it lives as long as the pass. */
static inline struct maker *part(const struct maker *m, const char *what)
{
	struct maker *p = HT_NEW(m->r->arena, struct maker);

	*p = *m;
	p->name = ht_rw_name_within(m->r, m->at, what);
	return p;
}

/* ---- ops ---- */

/* A node of this op, with one result of this shape. */
static inline struct ht_value made(
	struct maker *m, enum ht_op op, const struct ht_value *in, int32_t ins, struct ht_shape s)
{
	return ht_rw_made(m->r, m->at, op, m->name, in, ins, s);
}

/* Likewise with a dtype that is stated, for ops of which an attribute tells it. */
static inline struct ht_value node(struct maker *m, enum ht_op op, const struct ht_value *in,
	int32_t ins, enum ht_dtype t, struct ht_shape s)
{
	return ht_out(ht_rw_node(m->r, m->at, op, m->name, in, ins, (struct ht_type){ t, s }), 0);
}

/* The result has the shape of the operand. */
static inline struct ht_value unary(struct maker *m, enum ht_op op, struct ht_value a)
{
	return ht_rw_unary(m->r, m->at, op, m->name, a);
}

/* The operands are broadcast to the shape of the result. */
static inline struct ht_value binary(
	struct maker *m, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(m->r, m->at, op, m->name, a, b);
}

/* `v` itself if it has this dtype. */
static inline struct ht_value cast_to(struct maker *m, struct ht_value v, enum ht_dtype t)
{
	return ht_type_of(v)->dtype == t ? v : ht_rw_cast(m->r, m->at, m->name, v, t);
}

static inline struct ht_value reshaped(struct maker *m, struct ht_value v, struct ht_shape to)
{
	return ht_rw_reshape(m->r, m->at, m->name, v, to);
}

/* Transposed: axis i of the result is axis perm[i] of `v`. */
static inline struct ht_value permuted(struct maker *m, struct ht_value v, const int64_t *perm)
{
	return ht_rw_transpose(m->r, m->at, m->name, v, perm);
}

/* A reduction over `count` axes. */
static inline struct ht_value reduced_over(struct maker *m, enum ht_op op, struct ht_value v,
	const int64_t *axes, int64_t count, bool keep_dims)
{
	return ht_rw_reduce(m->r, m->at, op, m->name, v, axes, count, keep_dims);
}

/* Likewise over one axis. */
static inline struct ht_value reduced(
	struct maker *m, enum ht_op op, struct ht_value v, int64_t axis, bool keep_dims)
{
	return reduced_over(m, op, v, &axis, 1, keep_dims);
}

/* ---- constants ---- */

/* An integer scalar, or a zero of any dtype. */
static inline struct ht_value whole(struct maker *m, enum ht_dtype t, int64_t x)
{
	return ht_rw_scalar(m->r, m->at, m->name, t, x);
}

/* A vector of integers. */
static inline struct ht_value wholes(
	struct maker *m, enum ht_dtype t, const int64_t *x, int64_t count)
{
	return ht_rw_const_ints(m->r, m->at, m->name, t, x, count);
}

/* A scalar of a float dtype. */
static inline struct ht_value real(struct maker *m, enum ht_dtype t, double x)
{
	return ht_rw_const_float(m->r, m->at, m->name, t, x);
}

/* Likewise of dtype m->t. */
static inline struct ht_value number(struct maker *m, double x)
{
	return real(m, m->t, x);
}

/* An op of `v` and a number of dtype m->t.  The node is named `what` within m->at, the number what/y. */
static inline struct ht_value with_number(
	struct maker *m, enum ht_op op, const char *what, struct ht_value v, double x)
{
	struct ht_str constant = ht_str_printf(m->r->arena, "%s/y", what);

	return binary(part(m, what), op, v, number(part(m, constant.p), x));
}

/* ---- shapes ---- */

/* A shape of this rank without known extents; below zero: of unknown rank. */
static inline struct ht_shape open_shape(const struct maker *m, int32_t rank)
{
	int64_t dim[HT_MAX_RANK];

	if (rank < 0)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < rank; i++)
		dim[i] = HT_DIM_UNKNOWN;
	return ht_shape_make(m->r->g->arena, rank, dim);
}

/* The shape of a vector of so many elements. */
static inline struct ht_shape vector_of(const struct maker *m, int64_t count)
{
	return ht_shape_make(m->r->g->arena, 1, &count);
}

/* The shape of `v` as a vector of integers of dtype `t`. */
static inline struct ht_value shape_of(struct maker *m, struct ht_value v, enum ht_dtype t)
{
	int32_t rank = ht_type_of(v)->shape.rank;
	struct ht_value s =
		made(m, HT_OP_Shape, &v, 1, rank < 0 ? open_shape(m, 1) : vector_of(m, rank));

	ht_attr_set_type(s.node, "out_type", t);
	s.node->out[0].dtype = t;
	return s;
}

/* The number of elements. */
static inline struct ht_value size_of(struct maker *m, struct ht_value v, enum ht_dtype t)
{
	struct ht_value n = made(m, HT_OP_Size, &v, 1, HT_SHAPE_SCALAR);

	ht_attr_set_type(n.node, "out_type", t);
	n.node->out[0].dtype = t;
	return n;
}

/* The extent along an axis. */
static inline struct ht_value extent_of(
	struct maker *m, struct ht_value v, int32_t axis, enum ht_dtype t)
{
	struct ht_shape s = ht_type_of(v)->shape;
	struct ht_value in[2];

	if (s.rank > axis && s.dim[axis] >= 0)
		return whole(m, t, s.dim[axis]);
	in[0] = shape_of(m, v, t);
	in[1] = whole(m, HT_I32, axis);
	return made(m, HT_OP_Gather, in, 2, HT_SHAPE_SCALAR);
}

/* ---- elements ---- */

/* 0, 1, … up to count - 1, for a constant `count`. */
static inline struct ht_value numbers(struct maker *m, enum ht_dtype t, int64_t count)
{
	const struct ht_value in[] = { whole(m, t, 0), whole(m, t, count), whole(m, t, 1) };

	return made(m, HT_OP_Range, in, 3, vector_of(m, count));
}

/* Likewise for one that other nodes tell. */
static inline struct ht_value range_of(struct maker *m, struct ht_value count)
{
	enum ht_dtype t = ht_type_of(count)->dtype;
	const struct ht_value in[] = { whole(m, t, 0), count, whole(m, t, 1) };

	return made(m, HT_OP_Range, in, 3, open_shape(m, 1));
}

/* An axis of one element at place `axis` of the result; -1: behind all others. */
static inline struct ht_value with_axis(struct maker *m, struct ht_value v, int64_t axis)
{
	const struct ht_value in[] = { v, whole(m, HT_I32, axis) };
	int32_t rank = ht_type_of(v)->shape.rank;

	return made(m, HT_OP_ExpandDims, in, 2, open_shape(m, rank < 0 ? rank : rank + 1));
}

/* `a` where the condition holds, else `b`; all three are broadcast. */
static inline struct ht_value chosen(
	struct maker *m, struct ht_value condition, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { condition, a, b };
	struct ht_arena *arena = m->r->arena;
	struct ht_shape s = ht_broadcast_shape(arena, ht_type_of(a)->shape, ht_type_of(b)->shape);

	return made(m, HT_OP_SelectV2, in, 3,
		ht_broadcast_shape(arena, ht_type_of(condition)->shape, s));
}

/* `v` itself, which has this rank; its extents are not known yet. */
static inline struct ht_value of_rank(struct maker *m, struct ht_value v, int32_t rank)
{
	v.node->out[v.index].shape = open_shape(m, rank);
	return v;
}

/* The conjunction of two conditions. */
static inline struct ht_value both(struct maker *m, struct ht_value a, struct ht_value b)
{
	return binary(m, HT_OP_LogicalAnd, a, b);
}

/* Slices along an axis, at the places in `at`. */
static inline struct ht_value gathered(
	struct maker *m, struct ht_value params, struct ht_value at, int64_t axis)
{
	const struct ht_value in[] = { params, at, whole(m, HT_I32, axis) };

	return made(m, HT_OP_GatherV2, in, 3, HT_SHAPE_UNKNOWN);
}

/* Slices of the first axis; the result has this rank. */
static inline struct ht_value at_rows(
	struct maker *m, struct ht_value x, struct ht_value rows, int32_t rank)
{
	return of_rank(m, gathered(m, x, rows, 0), rank);
}

/* Slices at the positions in the rows of `at`. */
static inline struct ht_value gathered_nd(
	struct maker *m, struct ht_value params, struct ht_value at)
{
	const struct ht_value in[] = { params, at };

	return made(m, HT_OP_GatherNd, in, 2, HT_SHAPE_UNKNOWN);
}

/* Element `i` of a vector, or the scalar itself. */
static inline struct ht_value element(struct maker *m, struct ht_value v, int32_t i)
{
	const int64_t from = i, to = i + 1, step = 1;
	struct ht_value in[4], x;

	if (ht_type_of(v)->shape.rank == 0)
		return v;
	if (v.node->op == HT_OP_Pack && i < v.node->ins)
		return v.node->in[i];
	in[0] = v;
	in[1] = wholes(m, HT_I32, &from, 1);
	in[2] = wholes(m, HT_I32, &to, 1);
	in[3] = wholes(m, HT_I32, &step, 1);
	x = made(m, HT_OP_StridedSlice, in, 4, HT_SHAPE_SCALAR);
	ht_attr_set_int(x.node, "shrink_axis_mask", 1);
	return x;
}

/* The positions of the elements that are true: a row each. */
static inline struct ht_value where(struct maker *m, struct ht_value condition)
{
	return made(m, HT_OP_Where, &condition, 1, open_shape(m, 2));
}

/* Positions of shape [n,1] as a vector. */
static inline struct ht_value squeezed(struct maker *m, struct ht_value at)
{
	const int64_t axis = 1;
	struct ht_value v = made(m, HT_OP_Squeeze, &at, 1, open_shape(m, 1));

	ht_attr_set_ints(v.node, "squeeze_dims", &axis, 1);
	return v;
}

/* Scalars as a vector. */
static inline struct ht_value packed(struct maker *m, const struct ht_value *in, int32_t n)
{
	struct ht_value v = made(m, HT_OP_Pack, in, n, vector_of(m, n));

	ht_attr_set_int(v.node, "axis", 0);
	return v;
}

/* The tensors in[0] to in[n - 1], one behind the other along an axis; `in` has room for n + 1 values. */
static inline struct ht_value joined(struct maker *m, struct ht_value *in, int32_t n, int64_t axis)
{
	if (n == 1)
		return in[0];
	in[n] = whole(m, HT_I32, axis);
	return made(m, HT_OP_ConcatV2, in, n + 1, open_shape(m, ht_type_of(in[0])->shape.rank));
}

/* Likewise two tensors. */
static inline struct ht_value joined_pair(
	struct maker *m, struct ht_value a, struct ht_value b, int64_t axis)
{
	struct ht_value in[] = { a, b, { 0 } };

	return joined(m, in, 2, axis);
}

/* ---- lists ---- */

/* A list without elements yet, which will have dtype `t` and this shape. */
static inline struct ht_value list_of(
	struct maker *m, struct ht_value shape, struct ht_value count, enum ht_dtype t)
{
	const struct ht_value in[] = { shape, count };
	struct ht_value v = made(m, HT_OP_TensorListReserve, in, 2, HT_SHAPE_SCALAR);

	ht_attr_set_type(v.node, "element_dtype", t);
	return v;
}

/* The list with `item` as its element at `at`. */
static inline struct ht_value list_with(
	struct maker *m, struct ht_value list, struct ht_value at, struct ht_value item)
{
	const struct ht_value in[] = { list, at, item };

	return made(m, HT_OP_TensorListSetItem, in, 3, HT_SHAPE_SCALAR);
}

/* All elements, of dtype `t` and this shape, as a tensor. */
static inline struct ht_value stacked(
	struct maker *m, struct ht_value list, struct ht_value shape, enum ht_dtype t)
{
	const struct ht_value in[] = { list, shape };
	struct ht_value v = made(m, HT_OP_TensorListStack, in, 2, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "element_dtype", t);
	ht_attr_set_int(v.node, "num_elements", -1);
	v.node->out[0].dtype = t;
	return v;
}

/* `v` in the type in which the op is computed, named after `name`. */
static inline struct ht_value in_own_type(
	const struct maker *m, const char *name, struct ht_value v)
{
	return cast_to(part(m, name), v, m->t);
}

/* ---- results ---- */

/* What uses result `i` of the node uses `v` instead, in the result's dtype.  Nothing happens if there is no such result, or if nothing uses it. */
static inline void give(struct maker *m, int32_t i, struct ht_value v)
{
	struct ht_node *n = m->at;

	if (n->graph && i < n->outs && ht_rw_uses(m->r, ht_out(n, i)))
		ht_rw_replace(m->r, ht_out(n, i), cast_to(m, v, n->out[i].dtype));
}

/* Likewise result 0, which is replaced last; nodes that wait for the node wait for `v`. */
static inline void give_first(struct maker *m, struct ht_value v)
{
	struct ht_node *n = m->at;

	if (n->graph)
		ht_rw_replace_node(m->r, n, cast_to(part(m, "rounded"), v, n->out[0].dtype));
}

#endif
