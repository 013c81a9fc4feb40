/* cells: what recurrent cells that are one op are made of, and their gradients (cells_gradients.c). */
#ifndef HT_PASSES_CELLS_H
#define HT_PASSES_CELLS_H

#include "passes/rewrite.h"

/* Makes nodes in front of `at`, with names that begin with `name`. */
struct maker {
	struct ht_rw *r;
	struct ht_node *at;
	struct ht_str name;
	enum ht_dtype t; /* of the cell */
};

static inline struct ht_value node(struct maker *m, enum ht_op op, const struct ht_value *in,
	int32_t ins, enum ht_dtype t, struct ht_shape s)
{
	return ht_out(ht_rw_node(m->r, m->at, op, m->name, in, ins, (struct ht_type){ t, s }), 0);
}

/* A node of the cell's type, whose shape is inferred later. */
static inline struct ht_value made(
	struct maker *m, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	struct ht_value v = node(m, op, in, ins, m->t, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "T", m->t);
	return v;
}

static inline struct ht_value one(struct maker *m, enum ht_op op, struct ht_value a)
{
	return made(m, op, &a, 1);
}

static inline struct ht_value two(
	struct maker *m, enum ht_op op, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { a, b };

	return made(m, op, in, 2);
}

static inline struct ht_value number(struct maker *m, double x)
{
	return ht_rw_const_float(m->r, m->at, m->name, m->t, x);
}

static inline struct ht_value whole(struct maker *m, int64_t x)
{
	return ht_rw_scalar(m->r, m->at, m->name, HT_I32, x);
}

static inline struct ht_value product(struct maker *m, struct ht_value a, struct ht_value b)
{
	return two(m, HT_OP_MatMul, a, b);
}

/* The product that every result of `n` needs; it gets the control edges of `n`. */
static inline struct ht_value first_product(
	struct maker *m, const struct ht_node *n, struct ht_value a, struct ht_value b)
{
	struct ht_value v = product(m, a, b);

	ht_rw_set_controls(m->r, v.node, n->control, n->controls);
	return v;
}

static inline struct ht_value biased(struct maker *m, struct ht_value a, struct ht_value b)
{
	return two(m, HT_OP_BiasAdd, a, b);
}

/* Concatenates the columns of both. */
static inline struct ht_value joined(struct maker *m, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { a, b, whole(m, 1) };
	struct ht_value v = made(m, HT_OP_ConcatV2, in, 3);

	ht_attr_set_int(v.node, "N", 2);
	ht_attr_set_type(v.node, "Tidx", HT_I32);
	return v;
}

/* Splits the columns into `count` parts, which are results of one node. */
static inline struct ht_node *parts_of(struct maker *m, struct ht_value a, int32_t count)
{
	const struct ht_value in[] = { whole(m, 1), a };
	struct ht_node *n = made(m, HT_OP_Split, in, 2).node;

	ht_attr_set_int(n, "num_split", count);
	ht_node_set_outs(n, count);
	for (int32_t i = 0; i < count; i++)
		n->out[i] = (struct ht_type){ m->t, HT_SHAPE_UNKNOWN };
	return n;
}

/* ---- steps and lists ---- */

static inline struct ht_value step_of(struct maker *m, struct ht_value sequence, struct ht_value at)
{
	const struct ht_value in[] = { sequence, at };
	struct ht_value v = node(m, HT_OP_Gather, in, 2, m->t, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "Tparams", m->t);
	ht_attr_set_type(v.node, "Tindices", HT_I32);
	return v;
}

static inline struct ht_value list_with(
	struct maker *m, struct ht_value list, struct ht_value at, struct ht_value item)
{
	const struct ht_value in[] = { list, at, item };
	struct ht_value v = node(m, HT_OP_TensorListSetItem, in, 3, HT_VARIANT, HT_SHAPE_SCALAR);

	ht_attr_set_type(v.node, "element_dtype", m->t);
	return v;
}

/* Rows `from` to from + count - 1 of the weights. */
static inline struct ht_value rows_of(
	struct maker *m, struct ht_value w, int64_t from, int64_t count)
{
	const int64_t begin[] = { from, 0 }, size[] = { count, -1 };
	struct ht_value in[3] = { w }, v;

	in[1] = ht_rw_const_ints(m->r, m->at, m->name, HT_I32, begin, 2);
	in[2] = ht_rw_const_ints(m->r, m->at, m->name, HT_I32, size, 2);
	v = made(m, HT_OP_Slice, in, 3);
	ht_attr_set_type(v.node, "Index", HT_I32);
	return v;
}

/* The extent of the sequence's first axis. */
static inline struct ht_value length_of(struct maker *m, struct ht_value sequence)
{
	struct ht_shape s = ht_type_of(sequence)->shape;
	const int64_t rank = 3;
	struct ht_value in[2], v;

	if (s.rank == rank && s.dim[0] >= 0)
		return whole(m, s.dim[0]);
	in[0] = node(m, HT_OP_Shape, &sequence, 1, HT_I32, (struct ht_shape){ 1, &rank });
	ht_attr_set_type(in[0].node, "T", m->t);
	ht_attr_set_type(in[0].node, "out_type", HT_I32);
	in[1] = whole(m, 0);
	v = node(m, HT_OP_Gather, in, 2, HT_I32, HT_SHAPE_SCALAR);
	ht_attr_set_type(v.node, "Tparams", HT_I32);
	ht_attr_set_type(v.node, "Tindices", HT_I32);
	return v;
}

static inline void take_results(
	struct maker *m, struct ht_node *n, const struct ht_value *out, int32_t count)
{
	ht_rw_replace_node(m->r, n, out[0]);
	for (int32_t i = 1; i < count && n->graph; i++)
		ht_rw_replace(m->r, ht_out(n, i), out[i]);
	if (n->graph)
		ht_rw_drop(m->r, n);
}

/* A loop that counts its steps: value 0 is the number of the step, value 1 how many there are; step() sets the others for the next step. */
struct ht_cell_loop {
	struct ht_node *n; /* the node that the loop is of */
	const enum ht_dtype *type;
	int32_t values;
	void (*step)(const void *of, struct maker *m, struct ht_value *arg);
	const void *of;
};
struct ht_node *ht_make_cell_loop(
	struct maker *m, const struct ht_cell_loop *x, const struct ht_value *in);

/* cells_gradients.c: what makes the gradient of a cell or of a layer; NULL: the op is none. */
void (*ht_cell_gradient(enum ht_op op))(struct maker *, struct ht_node *);

#endif
