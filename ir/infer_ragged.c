/* Rules of ops on ragged and sparse tensors, most of whose extents depend on data. */
#include "ir/infer.h"

/* ---- ragged tensors ---- */

static bool has_type(const struct ht_attr *a, size_t i, const char *name)
{
	return i < a->value.list.n && ht_str_is(a->value.list.item[i].s, name);
}

/* How many ragged axes the partitions are about; -1: not known. */
static int32_t ragged_axes(const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "row_partition_types");
	int32_t axes = 0;

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.n != (size_t)n->ins - 3)
		return -1;
	for (size_t i = 0; i < a->value.list.n; i++)
		axes += !has_type(a, i, "FIRST_DIM_SIZE");
	return axes;
}

/* The extents that the shape states; the rows of the first partition, and the inner axes of the values. */
enum ht_status ht_infer_ragged_to_tensor(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape values = ht_in_shape(n, 1), first = ht_in_shape(n, n->ins > 3 ? 3 : 0);
	const struct ht_known *stated = ht_in_shape(n, 0).rank == 1 ? ht_in_known(in, n, 0) : NULL;
	const struct ht_attr *types = ht_attr_find(n, "row_partition_types");
	int32_t axes = ragged_axes(n), rank = axes + values.rank;
	int64_t *d;

	if (axes < 1)
		return ht_infer_refuse(
			in, n, "has no partitions of rows, or other types than partitions");
	if (values.rank < 1 || rank > HT_MAX_RANK)
		return HT_OK;
	d = ht_new_dims(in, rank);
	if (first.rank == 1 && has_type(types, 0, "ROW_SPLITS") && first.dim[0] > 0)
		d[0] = first.dim[0] - 1;
	for (int32_t i = 1; i < values.rank; i++)
		d[axes + i] = values.dim[i];
	for (int32_t i = 0; stated && stated->n == rank && stated->e && i < rank; i++)
		if (stated->e[i].kind == HT_ELEM_INT && stated->e[i].i >= 0)
			d[i] = stated->e[i].i;
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

static enum ht_status want_splits(struct ht_infer *in, struct ht_node *n, int32_t count)
{
	for (int32_t i = 0; i < count; i++)
		HT_TRY(ht_want_rank(in, n, i, 1));
	return HT_OK;
}

/* A vector, or a tensor whose first extent is not known and whose others are those of operand `i`. */
static void set_rows(struct ht_infer *in, struct ht_node *n, int32_t result, int32_t i)
{
	struct ht_shape s = ht_in_shape(n, i);
	int64_t *d;

	if (s.rank < 1)
		return;
	d = ht_new_dims(in, s.rank);
	for (int32_t k = 1; k < s.rank; k++)
		d[k] = s.dim[k];
	ht_set_shape(n, result, s.rank, d);
}

static int64_t extent(const struct ht_node *n, int32_t i, int32_t axis)
{
	struct ht_shape s = ht_in_shape(n, i);

	return s.rank > axis ? s.dim[axis] : HT_DIM_UNKNOWN;
}

static int64_t one_more(int64_t dim)
{
	return dim < 0 ? HT_DIM_UNKNOWN : dim + 1;
}

enum ht_status ht_infer_ragged_gather(struct ht_infer *in, struct ht_node *n)
{
	int32_t values = n->ins - 2, rank = ht_in_shape(n, n->ins - 1).rank;

	HT_TRY(want_splits(in, n, values));
	if (rank >= 0 && n->outs - 1 != rank + values - 1)
		return ht_infer_fail(in, n, "has %d ragged axes, not %d", (int)n->outs - 1,
			(int)(rank + values - 1));
	for (int32_t i = 0; i + 1 < n->outs; i++) {
		int64_t *d = ht_new_dims(in, 1);

		d[0] = i || rank < 1 ? HT_DIM_UNKNOWN : one_more(extent(n, n->ins - 1, 0));
		ht_set_shape(n, i, 1, d);
	}
	set_rows(in, n, n->outs - 1, values);
	return HT_OK;
}

enum ht_status ht_infer_ragged_range(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);
	bool known = true, some = false;

	for (int32_t i = 0; i < 3; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		HT_TRY(ht_want_rank_of(in, n, i, 0, 1));
		known = known && s.rank >= 0;
		if (s.rank != 1)
			continue;
		if (some && d[0] >= 0 && s.dim[0] >= 0 && d[0] != one_more(s.dim[0]))
			return ht_infer_fail(in, n, "has operands of different lengths");
		some = true;
		d[0] = one_more(s.dim[0]);
	}
	if (known && !some)
		d[0] = 2;
	ht_set_shape(n, 0, 1, d);
	ht_set_shape(n, 1, 1, ht_new_dims(in, 1));
	return HT_OK;
}

/* A scalar, or a vector of rows. */
enum ht_status ht_infer_ragged_to_variant(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);

	HT_TRY(want_splits(in, n, n->ins - 1));
	if (n->ins > 1 && extent(n, 0, 0) > 0)
		d[0] = extent(n, 0, 0) - 1;
	else if (n->ins == 1)
		d[0] = extent(n, 0, 0);
	ht_set_shape(n, 0, ht_attr_bool(n, "batched_input", false), d);
	return HT_OK;
}

enum ht_status ht_infer_ragged_to_sparse(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape values = ht_in_shape(n, n->ins - 1);
	int64_t *d = ht_new_dims(in, 3);

	HT_TRY(want_splits(in, n, n->ins - 1));
	if (values.rank >= 1)
		d[1] = n->ins - 1 + values.rank;
	if (values.rank == 1)
		d[0] = values.dim[0];
	ht_set_shape(n, 0, 2, d);
	ht_set_shape(n, 1, 1, d);
	ht_set_shape(n, 2, 1, d + 1);
	return HT_OK;
}

/* Rows of counts, as many as operand `size` says. */
static void set_counts(struct ht_infer *in, struct ht_node *n, int32_t size, int64_t rows)
{
	int64_t *d = ht_new_dims(in, 2);

	d[0] = rows;
	if (ht_in_known(in, n, size) && ht_in_known(in, n, size)->n == 1 &&
		ht_in_known(in, n, size)->e)
		d[1] = ht_elem_dim(ht_in_known(in, n, size)->e);
	ht_set_shape(n, 0, 2, d);
}

enum ht_status ht_infer_ragged_bincount(struct ht_infer *in, struct ht_node *n)
{
	int64_t splits = extent(n, 0, 0);

	HT_TRY(ht_want_rank(in, n, 0, 1));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	set_counts(in, n, 2, splits > 0 ? splits - 1 : HT_DIM_UNKNOWN);
	return HT_OK;
}

/* ---- sparse tensors: indices, a row for each value, the values, and the shape as a vector ---- */

static enum ht_status want_sparse(struct ht_infer *in, struct ht_node *n, int32_t first)
{
	HT_TRY(ht_want_rank(in, n, first, 2));
	HT_TRY(ht_want_rank(in, n, first + 1, 1));
	return ht_want_rank(in, n, first + 2, 1);
}

/* An element of a vector as an extent. */
static int64_t stated(struct ht_infer *in, struct ht_node *n, int32_t i, int64_t element)
{
	const struct ht_known *k = ht_in_known(in, n, i);

	return k && k->e && element < k->n ? ht_elem_dim(&k->e[element]) : HT_DIM_UNKNOWN;
}

enum ht_status ht_infer_sparse_matmul(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 2);

	HT_TRY(want_sparse(in, n, 0));
	HT_TRY(ht_want_rank(in, n, 3, 2));
	d[0] = stated(in, n, 2, ht_attr_bool(n, "adjoint_a", false));
	d[1] = extent(n, 3, !ht_attr_bool(n, "adjoint_b", false));
	ht_set_shape(n, 0, 2, d);
	return HT_OK;
}

enum ht_status ht_infer_sparse_reduce(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *axes = ht_in_known(in, n, 3);
	int64_t rank = extent(n, 0, 1) >= 0 ? extent(n, 0, 1) : extent(n, 2, 0), *d;
	bool keep = ht_attr_bool(n, "keep_dims", false), all = !axes || !axes->n;
	bool reduced[HT_MAX_RANK] = { false };
	int32_t to = 0;

	HT_TRY(want_sparse(in, n, 0));
	if (!axes || rank < 0 || rank > HT_MAX_RANK)
		return HT_OK;
	for (int32_t i = 0; i < axes->n; i++) {
		int64_t axis = axes->e ? axes->e[i].i : 0;

		if (!axes->e || axes->e[i].kind != HT_ELEM_INT)
			return HT_OK;
		if (!ht_fix_axis(&axis, (int32_t)rank))
			return ht_infer_fail(in, n, "axis %lld does not exist", (long long)axis);
		reduced[axis] = true;
	}
	d = ht_new_dims(in, (int32_t)rank);
	for (int32_t i = 0; i < rank; i++)
		if (!reduced[i] && !all)
			d[to++] = stated(in, n, 2, i);
		else if (keep)
			d[to++] = 1;
	ht_set_shape(n, 0, to, d);
	return HT_OK;
}

/* A sparse tensor of `rank` axes as results `first`, `first` + `step` and, if there is one, `first` + 2 * `step`. */
static void set_sparse(
	struct ht_infer *in, struct ht_node *n, int32_t first, int32_t step, int64_t rank)
{
	int64_t *d = ht_new_dims(in, 2);

	d[1] = rank;
	ht_set_shape(n, first, 2, d);
	ht_set_shape(n, first + step, 1, d);
	if (first + 2 * step < n->outs)
		ht_set_shape(n, first + 2 * step, 1, d + 1);
}

enum ht_status ht_infer_sparse(struct ht_infer *in, struct ht_node *n)
{
	set_sparse(in, n, 0, 1, extent(n, 0, 1));
	return HT_OK;
}

enum ht_status ht_infer_sparse_split(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(want_sparse(in, n, 1));
	for (int32_t i = 0; i < n->outs / 3; i++)
		set_sparse(in, n, i, n->outs / 3, extent(n, 1, 1));
	return HT_OK;
}

enum ht_status ht_infer_sparse_reduced(struct ht_infer *in, struct ht_node *n)
{
	int64_t rank = extent(n, 0, 1), axes = ht_shape_count(ht_in_shape(n, 3));

	HT_TRY(want_sparse(in, n, 0));
	if (rank < 0 || axes < 0 || axes > rank)
		rank = HT_DIM_UNKNOWN;
	else if (!ht_attr_bool(n, "keep_dims", false))
		rank = axes ? rank - axes : HT_DIM_UNKNOWN;
	set_sparse(in, n, 0, 1, rank);
	return HT_OK;
}

enum ht_status ht_infer_sparse_add_dense(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(want_sparse(in, n, 0));
	n->out[0].shape = ht_in_shape(n, 3);
	return HT_OK;
}

enum ht_status ht_infer_sparse_fill_grad(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);

	HT_TRY(ht_want_rank(in, n, 0, 1));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	d[0] = extent(n, 0, 0);
	ht_set_shape(n, 0, 1, d);
	n->out[1].shape = HT_SHAPE_SCALAR;
	return HT_OK;
}

enum ht_status ht_infer_sparse_bincount(struct ht_infer *in, struct ht_node *n)
{
	int64_t rank = extent(n, 0, 1);

	HT_TRY(want_sparse(in, n, 0));
	if (rank == 2) {
		set_counts(in, n, 3, stated(in, n, 2, 0));
	} else if (rank == 1) {
		int64_t *d = ht_new_dims(in, 1);

		d[0] = stated(in, n, 3, 0);
		ht_set_shape(n, 0, 1, d);
	}
	return HT_OK;
}

/* In the second version, there is a row for each row that was gathered, whose numbers are result 1. */
enum ht_status ht_infer_sparse_segment_grad(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d;

	HT_TRY(ht_want_rank(in, n, 1, 1));
	HT_TRY(ht_want_rank(in, n, 2, 1));
	if (n->outs > 1)
		ht_set_shape(n, 1, 1, ht_new_dims(in, 1));
	if (s.rank < 1)
		return HT_OK;
	d = ht_new_dims(in, s.rank);
	for (int32_t i = 1; i < s.rank; i++)
		d[i] = s.dim[i];
	if (n->outs == 1)
		d[0] = stated(in, n, 3, 0);
	ht_set_shape(n, 0, s.rank, d);
	return HT_OK;
}

enum ht_status ht_infer_ragged_fill(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 3);

	HT_TRY(ht_want_rank(in, n, 0, 1));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	d[1] = stated(in, n, 2, 0);
	d[2] = extent(n, 0, 0);
	ht_set_shape(n, 0, 1, d);
	ht_set_shape(n, 1, 1, d);
	ht_set_shape(n, 2, 1, d + 1);
	ht_set_shape(n, 3, 1, d + 2);
	return HT_OK;
}

/* Result `i` has an element for each row of the indices that operand `i` + 1 is. */
static enum ht_status set_gradients(struct ht_infer *in, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		int64_t *d = ht_new_dims(in, 1);

		HT_TRY(ht_want_rank(in, n, i + 1, 2));
		d[0] = extent(n, i + 1, 0);
		ht_set_shape(n, i, 1, d);
	}
	HT_TRY(ht_want_rank(in, n, 0, 1));
	return ht_want_rank(in, n, 3, 2);
}

enum ht_status ht_infer_sparse_slice_grad(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 2, 1));
	return set_gradients(in, n);
}

enum ht_status ht_infer_sparse_add_grad(struct ht_infer *in, struct ht_node *n)
{
	return set_gradients(in, n);
}

/* ---- sets: the last axis of a tensor, dense or sparse, has the elements of a set ---- */

enum ht_status ht_infer_set_operation(struct ht_infer *in, struct ht_node *n)
{
	int64_t rank = n->ins == 6 ? extent(n, 0, 1) : ht_in_shape(n, 0).rank;

	if (n->ins == 6)
		HT_TRY(want_sparse(in, n, 0));
	if (n->ins > 2)
		HT_TRY(want_sparse(in, n, n->ins - 3));
	if (rank == 0 || rank == 1)
		return ht_infer_fail(in, n, "has sets without rows: rank %lld", (long long)rank);
	set_sparse(in, n, 0, 1, rank < 0 ? HT_DIM_UNKNOWN : rank);
	return HT_OK;
}

enum ht_status ht_infer_set_size(struct ht_infer *in, struct ht_node *n)
{
	int64_t rank = extent(n, 0, 1), *d;

	HT_TRY(want_sparse(in, n, 0));
	if (rank < 1 || rank > HT_MAX_RANK)
		return HT_OK;
	d = ht_new_dims(in, (int32_t)rank);
	for (int32_t i = 0; i + 1 < rank; i++)
		d[i] = stated(in, n, 2, i);
	ht_set_shape(n, 0, (int32_t)rank - 1, d);
	return HT_OK;
}
