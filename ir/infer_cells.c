/* Rules of recurrent cells. */
#include "ir/infer.h"

/* Every result has the shape of the previous state, [rows, units]. */
static enum ht_status like_state(struct ht_infer *in, struct ht_node *n, int32_t state)
{
	struct ht_shape s = ht_in_shape(n, state);

	HT_TRY(ht_want_rank(in, n, state, 2));
	for (int32_t i = 0; s.rank == 2 && i < n->outs; i++)
		ht_set_shape(n, i, 2, s.dim);
	return HT_OK;
}

/* Operands: x, the previous state, … */
enum ht_status ht_infer_lstm_cell(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 0, 2));
	return like_state(in, n, 1);
}

enum ht_status ht_infer_gru_cell(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 0, 2));
	return like_state(in, n, 1);
}

/* Operands: the number of steps that count, x [steps, rows, inputs], the previous state [rows,
 * units], … */
enum ht_status ht_infer_lstm_layer(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 1), s = ht_in_shape(n, 2);
	int64_t *d = ht_new_dims(in, 3);

	HT_TRY(ht_want_rank(in, n, 0, 0));
	HT_TRY(ht_want_rank(in, n, 1, 3));
	HT_TRY(ht_want_rank(in, n, 2, 2));
	for (int32_t i = 0; x.rank == 3 && i < 2; i++)
		d[i] = x.dim[i];
	if (s.rank == 2)
		d[2] = s.dim[1];
	for (int32_t i = 0; i < n->outs; i++)
		ht_set_shape(n, i, 3, d);
	return HT_OK;
}

/* ---- gradients ---- */

/* [rows, times * units], of the shape of a state. */
static void set_gates(
	struct ht_infer *in, struct ht_node *n, int32_t result, int32_t state, int64_t times)
{
	struct ht_shape s = ht_in_shape(n, state);
	int64_t *d = ht_new_dims(in, 2);

	if (s.rank != 2)
		return;
	d[0] = s.dim[0];
	d[1] = s.dim[1] < 0 ? HT_DIM_UNKNOWN : times * s.dim[1];
	ht_set_shape(n, result, 2, d);
}

enum ht_status ht_infer_lstm_cell_gradient(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 1, 2));
	n->out[0].shape = ht_in_shape(n, 1);
	set_gates(in, n, 1, 1, 4);
	for (int32_t i = 2; i < n->outs; i++)
		n->out[i].shape = ht_in_shape(n, i + 2);
	return HT_OK;
}

/* Result `i` is the gradient by operand `i` + 1. */
enum ht_status ht_infer_lstm_layer_gradient(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 0, 0));
	HT_TRY(ht_want_rank(in, n, 1, 3));
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].shape = ht_in_shape(n, i + 1);
	return HT_OK;
}

enum ht_status ht_infer_gru_cell_gradient(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 2));
	n->out[0].shape = ht_in_shape(n, 0);
	n->out[1].shape = n->out[2].shape = ht_in_shape(n, 1);
	set_gates(in, n, 3, 1, 2);
	return HT_OK;
}
