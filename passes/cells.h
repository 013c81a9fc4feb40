/* cells: what recurrent cells that are one op are made of, and their gradients (cells_gradients.c). */
#ifndef HT_PASSES_CELLS_H
#define HT_PASSES_CELLS_H

#include "passes/maker.h"

static inline struct ht_value product(struct maker *m, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { a, b };

	return made(m, HT_OP_MatMul, in, 2, open_shape(m, 2));
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
	return binary(m, HT_OP_BiasAdd, a, b);
}

/* Splits the columns into `count` parts, which are results of one node. */
static inline struct ht_node *parts_of(struct maker *m, struct ht_value a, int32_t count)
{
	const struct ht_value in[] = { whole(m, HT_I32, 1), a };
	struct ht_node *n = made(m, HT_OP_Split, in, 2, HT_SHAPE_UNKNOWN).node;

	ht_attr_set_int(n, "num_split", count);
	ht_node_set_outs(n, count);
	for (int32_t i = 0; i < count; i++)
		n->out[i] = (struct ht_type){ m->t, HT_SHAPE_UNKNOWN };
	return n;
}

/* ---- steps ---- */

static inline struct ht_value step_of(struct maker *m, struct ht_value sequence, struct ht_value at)
{
	const struct ht_value in[] = { sequence, at };

	return made(m, HT_OP_Gather, in, 2, HT_SHAPE_UNKNOWN);
}

/* Rows `from` to from + count - 1 of the weights. */
static inline struct ht_value rows_of(
	struct maker *m, struct ht_value w, int64_t from, int64_t count)
{
	const int64_t begin[] = { from, 0 }, size[] = { count, -1 };
	const struct ht_value in[] = { w, wholes(m, HT_I32, begin, 2), wholes(m, HT_I32, size, 2) };

	return made(m, HT_OP_Slice, in, 3, HT_SHAPE_UNKNOWN);
}

/* The extent of the sequence's first axis. */
static inline struct ht_value length_of(struct maker *m, struct ht_value sequence)
{
	return extent_of(m, sequence, 0, HT_I32);
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
