/* Rules of ops whose results have a size that the run computes: ht_computed_dim(). */
#include "ir/infer.h"

/* Result: the indices of each element that is true, a row each. */
enum ht_status ht_infer_where(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 2);
	struct ht_shape s = ht_in_shape(n, 0);

	d[0] = ht_computed_dim(in, n);
	if (s.rank >= 0)
		d[1] = s.rank;
	ht_set_shape(n, 0, 2, d);
	return HT_OK;
}

/* Results: the selected boxes, their scores, and their number, which is the last of several
 * results. With padding to max_output_size, that is the number of boxes. */
enum ht_status ht_infer_boxes(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);

	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	for (int32_t i = 2; i < n->ins; i++)
		HT_TRY(ht_want_rank(in, n, i, 0));
	if (ht_computes_size(n))
		d[0] = ht_computed_dim(in, n);
	else if (ht_in_int(in, n, 2, &d[0]) && d[0] < 0)
		return ht_infer_fail(in, n, "max_output_size is %lld", (long long)d[0]);
	for (int32_t i = 0; i < n->outs; i++)
		ht_set_shape(n, i, 1, d);
	if (n->outs > 1)
		n->out[n->outs - 1].shape = HT_SHAPE_SCALAR;
	return HT_OK;
}

/* Checks the operands: boxes [images,n,q,4], scores [images,n,classes], the most boxes of a class
 * and of an image, two thresholds.  q is 1 or the number of classes. */
static enum ht_status check_combined(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape boxes = ht_in_shape(n, 0), scores = ht_in_shape(n, 1);

	HT_TRY(ht_want_rank(in, n, 0, 4));
	HT_TRY(ht_want_rank(in, n, 1, 3));
	for (int32_t i = 2; i < n->ins; i++)
		HT_TRY(ht_want_rank(in, n, i, 0));
	if (boxes.rank < 0 || scores.rank < 0)
		return HT_OK;
	for (int32_t i = 0; i < 2; i++)
		if (boxes.dim[i] >= 0 && scores.dim[i] >= 0 && boxes.dim[i] != scores.dim[i])
			return ht_infer_fail(in, n, "has boxes %.*s, but scores %.*s",
				HT_STR_ARG(ht_shape_text(in, boxes)),
				HT_STR_ARG(ht_shape_text(in, scores)));
	if (boxes.dim[3] >= 0 && boxes.dim[3] != 4)
		return ht_infer_fail(
			in, n, "has boxes of %lld numbers, not 4", (long long)boxes.dim[3]);
	if (boxes.dim[2] >= 0 && scores.dim[2] >= 0 && boxes.dim[2] != 1 &&
		boxes.dim[2] != scores.dim[2])
		return ht_infer_fail(in, n, "has boxes for %lld classes, but scores for %lld",
			(long long)boxes.dim[2], (long long)scores.dim[2]);
	return HT_OK;
}

/* The largest number of boxes of an image. */
static enum ht_status combined_room(struct ht_infer *in, struct ht_node *n, int64_t *room)
{
	struct ht_shape scores = ht_in_shape(n, 1);
	int64_t most, each;

	*room = HT_DIM_UNKNOWN;
	if (!ht_in_int(in, n, 3, &most))
		return HT_OK;
	if (most <= 0)
		return ht_infer_fail(in, n, "max_total_size is %lld", (long long)most);
	if (!ht_attr_bool(n, "pad_per_class", false)) {
		*room = most;
		return HT_OK;
	}
	if (!ht_in_int(in, n, 2, &each) || scores.rank != 3 || scores.dim[2] < 0)
		return HT_OK;
	if (each <= 0)
		return ht_infer_fail(in, n, "max_output_size_per_class is %lld", (long long)each);
	*room = __builtin_mul_overflow(each, scores.dim[2], &each) || each > most ? most : each;
	return HT_OK;
}

/* Results: corners, scores and classes of the selected boxes of each image, and their number. */
enum ht_status ht_infer_combined_boxes(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape boxes = ht_in_shape(n, 0);
	int64_t *d = ht_new_dims(in, 3);

	HT_TRY(check_combined(in, n));
	HT_TRY(combined_room(in, n, &d[1]));
	if (boxes.rank == 4)
		d[0] = boxes.dim[0];
	d[2] = 4;
	ht_set_shape(n, 0, 3, d);
	ht_set_shape(n, 1, 2, d);
	ht_set_shape(n, 2, 2, d);
	ht_set_shape(n, 3, 1, d);
	return HT_OK;
}

/* The axis whose slices are compared; -1: not known.  If there is no operand `axis`, or it is
 * empty, the operand is a vector. */
static enum ht_status axis_of(struct ht_infer *in, const struct ht_node *n, int64_t *axis)
{
	struct ht_shape x = ht_in_shape(n, 0);

	*axis = 0;
	if (n->ins < 2 || ht_shape_count(ht_in_shape(n, 1)) == 0)
		return ht_want_rank(in, n, 0, 1);
	HT_TRY(ht_want_rank(in, n, 1, 1));
	if (!ht_in_int(in, n, 1, axis)) {
		*axis = -1;
		return HT_OK;
	}
	return x.rank < 0 || ht_fix_axis(axis, x.rank)
		       ? HT_OK
		       : ht_infer_fail(in, n, "axis %lld does not fit %.*s", (long long)*axis,
				 HT_STR_ARG(ht_shape_text(in, x)));
}

/* Results: the distinct slices, for each slice its index among these, and the count of each
 * distinct slice. */
enum ht_status ht_infer_unique(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0);
	int64_t *d, *each = ht_new_dims(in, 1), *slices = ht_new_dims(in, 1), axis;

	HT_TRY(axis_of(in, n, &axis));
	each[0] = ht_computed_dim(in, n);
	ht_set_shape(n, 1, 1, slices);
	if (n->outs > 2)
		ht_set_shape(n, 2, 1, each);
	if (x.rank < 0)
		return HT_OK;
	d = ht_new_dims(in, x.rank);
	for (int32_t i = 0; i < x.rank && axis >= 0; i++)
		d[i] = i == axis ? each[0] : x.dim[i];
	slices[0] = axis < 0 ? HT_DIM_UNKNOWN : x.dim[axis];
	ht_set_shape(n, 0, x.rank, d);
	return HT_OK;
}

/* Each part has the shape of operand 0, except that the first axes, which operand 1 numbers, become
 * one of a computed size. */
enum ht_status ht_infer_partition(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape data = ht_in_shape(n, 0), parts = ht_in_shape(n, 1);
	int32_t rank = data.rank - parts.rank + 1;

	if (data.rank < 0 || parts.rank < 0)
		return HT_OK;
	if (rank < 1)
		return ht_infer_fail(in, n, "partitions have more axes than the data");
	for (int32_t i = 0; i < n->outs; i++) {
		int64_t *d = ht_new_dims(in, rank);

		for (int32_t k = 1; k < rank; k++)
			d[k] = data.dim[parts.rank + k - 1];
		ht_set_shape(n, i, rank, d);
	}
	return HT_OK;
}

enum ht_status ht_infer_difference(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 0, 1));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	for (int32_t i = 0; i < n->outs; i++)
		ht_set_shape(n, i, 1, ht_new_dims(in, 1));
	return HT_OK;
}

/* ---- sparse tensors: indices of values, a row for each, and the shape as a vector ---- */

static int64_t dim_of(const struct ht_node *n, int32_t i, int32_t axis)
{
	struct ht_shape s = ht_in_shape(n, i);

	return s.rank > axis ? s.dim[axis] : HT_DIM_UNKNOWN;
}

enum ht_status ht_infer_sparse_reshape(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 2);

	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	HT_TRY(ht_want_rank(in, n, 2, 1));
	d[0] = dim_of(n, 0, 0);
	d[1] = dim_of(n, 2, 0);
	ht_set_shape(n, 0, 2, d);
	ht_set_shape(n, 1, 1, d + 1);
	return HT_OK;
}

enum ht_status ht_infer_sparse_fill(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *shape = ht_in_known(in, n, 2);
	int64_t *d = ht_new_dims(in, 4);

	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	HT_TRY(ht_want_rank(in, n, 2, 1));
	d[1] = dim_of(n, 0, 1);
	ht_set_shape(n, 0, 2, d); /* how many rows are empty is not known */
	ht_set_shape(n, 1, 1, d);
	if (shape && shape->n)
		d[2] = ht_elem_dim(&shape->e[0]);
	ht_set_shape(n, 2, 1, d + 2);
	d[3] = dim_of(n, 0, 0);
	ht_set_shape(n, 3, 1, d + 3);
	return HT_OK;
}

/* The result has the largest possible extent along its axis. */
enum ht_status ht_infer_padded(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axis = ht_attr_int(n, "axis", 0), most, room;
	int64_t *d;

	if (s.rank < 0)
		return HT_OK;
	if (!ht_fix_axis(&axis, s.rank))
		return ht_infer_fail(in, n, "axis %lld does not fit %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	most = ht_dim_most(in->g, s.dim[axis]);
	room = ht_attr_int(n, "room", most < 0 ? 0 : most);
	if (room < 0 || room > INT32_MAX)
		return ht_infer_refuse(in, n, "attribute room is %lld", (long long)room);
	d = ht_new_dims(in, s.rank);
	for (int32_t i = 0; i < s.rank; i++)
		d[i] = s.dim[i];
	d[axis] = most < 0 ? HT_DIM_UNKNOWN : room;
	ht_set_shape(n, 0, s.rank, d);
	return HT_OK;
}
