/* Rules of reductions. */
#include "ir/infer.h"

/* Marks the axes that operand `arg` lists; *known is false if their values are unknown. */
static enum ht_status read_axes(struct ht_infer *in, struct ht_node *n, int32_t arg, int32_t rank,
	bool *listed, bool *known)
{
	const struct ht_known *k = ht_in_known(in, n, arg);

	*known = k != NULL;
	for (int32_t i = 0; k && i < k->n; i++) {
		int64_t axis = k->e[i].i;

		if (k->e[i].kind != HT_ELEM_INT) {
			*known = false;
			return HT_OK;
		}
		if (!ht_fix_axis(&axis, rank))
			return ht_infer_fail(in, n, "axis %lld does not exist in %.*s",
				(long long)k->e[i].i,
				HT_STR_ARG(ht_shape_text(in, ht_in_shape(n, 0))));
		if (listed[axis] && n->op != HT_OP_Roll)
			return ht_infer_fail(in, n, "axis %lld is given twice", (long long)axis);
		listed[axis] = true;
	}
	return HT_OK;
}

enum ht_status ht_infer_reduce(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	bool keep = ht_attr_bool(n, "keep_dims", false), known;
	bool reduced[HT_MAX_RANK] = { false };
	int32_t rank = 0;
	int64_t *d;

	HT_TRY(ht_want_rank_of(in, n, 1, 0, 1));
	if (s.rank < 0)
		return HT_OK;
	HT_TRY(read_axes(in, n, 1, s.rank, reduced, &known));
	if (!known) {
		if (keep)
			ht_set_shape(n, 0, s.rank, ht_new_dims(in, s.rank));
		return HT_OK;
	}
	d = ht_new_dims(in, s.rank);
	for (int32_t i = 0; i < s.rank; i++) {
		if (!reduced[i])
			d[rank++] = s.dim[i];
		else if (keep)
			d[rank++] = 1;
	}
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

/* Results have the shape of operand 0.  Checks the axes that operand `arg` lists. */
static enum ht_status same_along(struct ht_infer *in, struct ht_node *n, int32_t arg)
{
	struct ht_shape s = ht_in_shape(n, 0);
	bool listed[HT_MAX_RANK] = { false }, known;

	n->out[0].shape = s;
	return s.rank < 0 ? HT_OK : read_axes(in, n, arg, s.rank, listed, &known);
}

enum ht_status ht_infer_running(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 1, 0));
	return same_along(in, n, 1);
}

enum ht_status ht_infer_reverse(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 1, 1));
	return same_along(in, n, 1);
}

enum ht_status ht_infer_roll(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank_of(in, n, 2, 0, 1));
	return same_along(in, n, 2);
}

enum ht_status ht_infer_arg_reduce(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axis;
	int64_t *d;

	HT_TRY(ht_want_rank_of(in, n, 0, 1, HT_MAX_RANK));
	if (s.rank < 1)
		return HT_OK;
	d = ht_new_dims(in, s.rank - 1);
	ht_set_shape(n, 0, s.rank - 1, d);
	if (!ht_in_int(in, n, 1, &axis))
		return HT_OK;
	if (!ht_fix_axis(&axis, s.rank))
		return ht_infer_fail(in, n, "axis %lld does not exist in %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	for (int32_t i = 0, j = 0; i < s.rank; i++)
		if (i != axis)
			d[j++] = s.dim[i];
	return HT_OK;
}

enum ht_status ht_infer_top_k(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *known = n->ins > 1 ? ht_in_known(in, n, 1) : NULL;
	int64_t k = HT_DIM_UNKNOWN;
	int64_t *d;

	HT_TRY(ht_want_rank_of(in, n, 0, 1, HT_MAX_RANK));
	if (n->op == HT_OP_TopK)
		k = ht_attr_int(n, "k", -1);
	else if (ht_in_int(in, n, 1, &k) && k < 0)
		return ht_infer_fail(in, n, "k is %lld", (long long)k);
	if (k == HT_DIM_UNKNOWN && known && known->n == 1)
		k = ht_elem_dim(known->e);
	if (s.rank < 1)
		return HT_OK;
	if (k >= 0 && s.dim[s.rank - 1] >= 0 && k > s.dim[s.rank - 1])
		return ht_infer_fail(in, n, "k is %lld, the last axis of %.*s is shorter",
			(long long)k, HT_STR_ARG(ht_shape_text(in, s)));
	d = ht_new_dims(in, s.rank);
	for (int32_t i = 0; i < s.rank; i++)
		d[i] = i == s.rank - 1 ? k : s.dim[i];
	ht_set_shape(n, 0, s.rank, d);
	ht_set_shape(n, 1, s.rank, d);
	return HT_OK;
}

enum ht_status ht_infer_in_top_k(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);
	struct ht_shape s = ht_in_shape(n, 1);

	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	if (s.rank == 1)
		d[0] = s.dim[0];
	ht_set_shape(n, 0, 1, d);
	return HT_OK;
}

/* The bins of all elements, or of each row of a matrix.  Operands: elements, number of bins,
 * weights. */
enum ht_status ht_infer_bincount(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int32_t rank = n->op == HT_OP_DenseBincount && s.rank == 2 ? 2 : 1;
	const struct ht_known *known = ht_in_known(in, n, 1);
	int64_t count = HT_DIM_UNKNOWN;
	int64_t *d;

	if (s.rank < 0)
		return HT_OK;
	if (ht_in_int(in, n, 1, &count) && count < 0)
		return ht_infer_fail(in, n, "the number of bins is %lld", (long long)count);
	if (known && known->n == 1 && known->e)
		count = ht_elem_dim(known->e);
	d = ht_new_dims(in, rank);
	d[0] = s.rank == 2 ? s.dim[0] : count;
	d[rank - 1] = count;
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

/* Reduces rows with equal ids.  Operands: data, ids, number of ids. */
enum ht_status ht_infer_segment(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), ids = ht_in_shape(n, 1);
	const struct ht_known *known = ht_in_known(in, n, 2);
	int64_t count = HT_DIM_UNKNOWN;
	int64_t *d;
	int32_t rank;

	if (s.rank < 0 || ids.rank < 0)
		return HT_OK;
	if (ids.rank > s.rank)
		return ht_infer_fail(in, n, "segment ids have more axes than the data");
	if (ht_in_int(in, n, 2, &count) && count < 0)
		return ht_infer_fail(in, n, "number of segments is %lld", (long long)count);
	if (known && known->n == 1)
		count = ht_elem_dim(known->e);
	rank = s.rank - ids.rank + 1;
	d = ht_new_dims(in, rank);
	d[0] = count;
	for (int32_t i = 1; i < rank; i++)
		d[i] = s.dim[ids.rank + i - 1];
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

/* Reduces rows of operand 0, or the rows that operand 1 gathers.  The last operand, or the last but
 * one if the number of segments follows, has an id for each row.  The number of segments is known
 * if that operand is. */
enum ht_status ht_infer_sorted_segment(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *known = n->ins > 3 ? ht_in_known(in, n, 3) : NULL;
	int64_t *d;

	HT_TRY(ht_want_rank(in, n, 1, 1));
	if (n->ins > 2)
		HT_TRY(ht_want_rank(in, n, 2, 1));
	if (s.rank < 0)
		return HT_OK;
	if (s.rank == 0)
		return ht_infer_fail(in, n, "the data have no rows");
	d = ht_new_dims(in, s.rank);
	for (int32_t i = 1; i < s.rank; i++)
		d[i] = s.dim[i];
	if (known && known->n == 1)
		d[0] = ht_elem_dim(known->e);
	ht_set_shape(n, 0, s.rank, d);
	return HT_OK;
}

enum ht_status ht_infer_softmax_loss(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d = ht_new_dims(in, 1);

	if (s.rank >= 1)
		d[0] = s.dim[0];
	ht_set_shape(n, 0, 1, d);
	n->out[1].shape = s;
	return HT_OK;
}
