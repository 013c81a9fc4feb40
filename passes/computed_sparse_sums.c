/* Sums, extremes and products of sparse tensors, for pass sizes: values are gathered, combined with others, and scattered. */
#include "passes/computed_rows.h"

enum { INDICES, VALUES, SHAPE, OTHER };

/* ---- SparseTensorDenseMatMul ---- */

static struct ht_value transposed(struct maker *f, struct ht_value x)
{
	static const int64_t perm[] = { 1, 0 };

	return permuted(f, x, perm);
}

/* Each value times a row of the other matrix, added up to a row of the product. */
static bool expand_matmul(struct maker *f, struct ht_node *n)
{
	bool adjoint = ht_attr_bool(n, "adjoint_a", false);
	struct ht_value rows = n->in[OTHER], at, count;

	if (ht_in_shape(n, OTHER).rank != 2 || ht_in_shape(n, INDICES).dim[1] != 2)
		return false;
	if (ht_attr_bool(n, "adjoint_b", false))
		rows = transposed(f, rows);
	at = column(f, n->in[INDICES], adjoint ? 1 : 0);
	count = entry_of(f, n->in[SHAPE], adjoint ? 1 : 0);
	rows = at_rows(f, rows, column(f, n->in[INDICES], adjoint ? 0 : 1), 2);
	rows = of_rank(f, product(f, rows, with_axis(f, n->in[VALUES], 1)), 2);
	ht_rw_take_place(f->r, n, of_segments(f, HT_OP_UnsortedSegmentSum, rows, at, count));
	return true;
}

/* ---- reductions ---- */

/* The axes that stay, in order; false: which these are is not known. */
struct kept {
	int32_t axis[HT_MAX_RANK], count, rank;
	bool is[HT_MAX_RANK];
};

static bool read_kept(const struct ht_node *n, struct kept *k)
{
	int64_t axes[HT_MAX_RANK];
	int count = 0;

	*k = (struct kept){ .rank = (int32_t)ht_in_shape(n, INDICES).dim[1] };
	if (!ht_const_small_ints(n->in[OTHER], axes, HT_MAX_RANK, &count))
		return false;
	for (int32_t i = 0; i < k->rank; i++)
		k->is[i] = count > 0; /* no axis stands for all */
	for (int i = 0; i < count; i++) {
		if (!ht_fix_axis(&axes[i], k->rank))
			return false;
		k->is[axes[i]] = false;
	}
	for (int32_t i = 0; i < k->rank; i++)
		if (k->is[i])
			k->axis[k->count++] = i;
	return true;
}

/* Some columns of the indices. */
static struct ht_value columns(struct maker *f, const struct ht_node *n, const struct kept *k)
{
	int64_t axis[HT_MAX_RANK];

	for (int32_t i = 0; i < k->count; i++)
		axis[i] = k->axis[i];
	return of_rank(f, gathered(f, n->in[INDICES], wholes(f, HT_I32, axis, k->count), 1), 2);
}

static void extents_of(
	struct maker *f, const struct ht_node *n, const struct kept *k, struct ht_value *size)
{
	for (int32_t i = 0; i < k->count; i++)
		size[i] = entry_of(f, n->in[SHAPE], k->axis[i]);
}

/* A tensor of the axes that stay, which has the number of values of each place. */
static struct ht_value counts_of(struct maker *f, const struct ht_node *n, const struct kept *k)
{
	struct ht_value size[HT_MAX_RANK];

	extents_of(f, n, k, size);
	return scattered_at(
		f, columns(f, n, k), ones_like(f, n->in[VALUES], HT_I32), size, k->count);
}

/* The least number of a type, made as the maximum of no elements. */
static struct ht_value lowest(struct maker *f, enum ht_dtype t)
{
	struct ht_value none = whole(f, HT_I64, 0);

	return total_of(f, HT_OP_Max, repeated(f, none, whole(f, t, 0)));
}

/* A tensor of the axes that stay, which has the largest value of each place, and the least number of the type at places without values. */
static struct ht_value largest_of(struct maker *f, const struct ht_node *n, const struct kept *k)
{
	struct ht_value size[HT_MAX_RANK], from;

	extents_of(f, n, k, size);
	from = filled_with(f, size, k->count, lowest(f, ht_type_of(n->in[VALUES])->dtype));
	return scattered_into(f, HT_OP_TensorScatterMax, from, columns(f, n, k), n->in[VALUES]);
}

static struct ht_value sum_of(
	struct maker *f, const struct ht_node *n, const struct kept *k, struct ht_value values)
{
	struct ht_value size[HT_MAX_RANK];

	extents_of(f, n, k, size);
	return scattered_at(f, columns(f, n, k), values, size, k->count);
}

static bool takes_largest(const struct ht_node *n)
{
	return n->op == HT_OP_SparseReduceMax || n->op == HT_OP_SparseReduceMaxSparse;
}

/* The sum or the largest of all values, as a scalar; 0 if there are none. */
static struct ht_value reduced_to_one(struct maker *f, const struct ht_node *n)
{
	struct ht_value x = n->in[VALUES], some;

	if (!takes_largest(n))
		return total_of(f, HT_OP_Sum, x);
	some = binary(f, HT_OP_Greater, length_of(f, x), whole(f, HT_I64, 0));
	return of_rank(f,
		chosen(f, some, total_of(f, HT_OP_Max, x), whole(f, ht_type_of(x)->dtype, 0)), 0);
}

static struct ht_value reduced_rows(struct maker *f, const struct ht_node *n, const struct kept *k)
{
	struct ht_value some;

	if (!takes_largest(n))
		return sum_of(f, n, k, n->in[VALUES]);
	some = binary(f, HT_OP_Greater, counts_of(f, n, k), whole(f, HT_I32, 0));
	return of_rank(
		f, chosen(f, some, largest_of(f, n, k), whole(f, n->out[0].dtype, 0)), k->count);
}

static bool expand_reduce(struct maker *f, struct ht_node *n)
{
	bool keep = ht_attr_bool(n, "keep_dims", false);
	struct ht_value v;
	struct kept k;

	if (!read_kept(n, &k))
		return false;
	v = k.count ? reduced_rows(f, n, &k) : reduced_to_one(f, n);
	for (int32_t i = 0; keep && i < k.rank; i++)
		if (!k.is[i])
			v = with_axis(f, v, i);
	ht_rw_take_place(f->r, n, v);
	return true;
}

/* The places that have values, in the order of their axes. */
static bool expand_reduce_sparse(struct maker *f, struct ht_node *n)
{
	struct ht_value some, v, size[HT_MAX_RANK], result[3];
	struct kept k;

	if (!read_kept(n, &k) || !k.count || ht_attr_bool(n, "keep_dims", false))
		return false;
	some = binary(f, HT_OP_Greater, counts_of(f, n, &k), whole(f, HT_I32, 0));
	result[0] = where(f, some);
	v = takes_largest(n) ? largest_of(f, n, &k) : sum_of(f, n, &k, n->in[VALUES]);
	extents_of(f, n, &k, size);
	result[1] = taken_at(f, v, result[0], 1);
	result[2] = packed(f, size, k.count);
	replace_results(f, n, result);
	return true;
}

/* ---- SparseSoftmax ---- */

/* The share of each value among the values of its row along the last axis. */
static bool expand_softmax(struct maker *f, struct ht_node *n)
{
	struct kept k = { .rank = (int32_t)ht_in_shape(n, INDICES).dim[1] };
	struct ht_value at, x;

	if (k.rank < 2)
		return false;
	for (k.count = 0; k.count < k.rank - 1; k.count++)
		k.axis[k.count] = k.count;
	at = columns(f, n, &k);
	x = difference(f, n->in[VALUES], taken_at(f, largest_of(f, n, &k), at, 1));
	x = unary(f, HT_OP_Exp, of_rank(f, x, 1));
	x = binary(f, HT_OP_RealDiv, x, taken_at(f, sum_of(f, n, &k, x), at, 1));
	ht_rw_take_place(f->r, n, of_rank(f, x, 1));
	return true;
}

/* ---- values combined with a dense tensor ---- */

/* For each value the element of the dense tensor, whose axes of extent 1 are repeated. */
static bool dense_elements(struct maker *f, const struct ht_node *n, struct ht_value *x)
{
	struct ht_shape s = ht_in_shape(n, OTHER);
	int32_t rank = (int32_t)ht_in_shape(n, INDICES).dim[1];
	struct ht_value at[HT_MAX_RANK + 1];

	if (s.rank > rank)
		return false;
	if (s.rank == 0) {
		*x = n->in[OTHER];
		return true;
	}
	for (int32_t i = 0; i < s.rank; i++) {
		at[i] = column(f, n->in[INDICES], rank - s.rank + i);
		if (s.dim[i] == 1)
			at[i] = product(f, at[i], whole(f, HT_I64, 0));
		at[i] = with_axis(f, of_rank(f, at[i], 1), 1);
	}
	*x = taken_at(f, n->in[OTHER], joined(f, at, s.rank, 1), 1);
	return true;
}

static bool expand_elementwise(struct maker *f, struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	enum ht_op op = n->op == HT_OP_SparseDenseCwiseMul   ? HT_OP_Mul
			: n->op == HT_OP_SparseDenseCwiseAdd ? HT_OP_AddV2
			: ht_is_float(t)                     ? HT_OP_RealDiv
							     : HT_OP_Div;
	struct ht_value x;

	if (!dense_elements(f, n, &x))
		return false;
	ht_rw_take_place(f->r, n, of_rank(f, binary(f, op, n->in[VALUES], x), 1));
	return true;
}

/* The values are added to the dense tensor. */
static bool expand_add_dense(struct maker *f, struct ht_node *n)
{
	ht_rw_take_place(f->r, n,
		scattered_into(
			f, HT_OP_TensorScatterAdd, n->in[OTHER], n->in[INDICES], n->in[VALUES]));
	return true;
}

/* ---- SparseBincount ---- */

static bool expand_bincount(struct maker *f, struct ht_node *n)
{
	struct counted_rows x = {
		.number = n->in[VALUES], .weights = 4, .size = wide(f, n->in[3])
	};
	int64_t rank = ht_in_shape(n, INDICES).dim[1];

	if (rank > 2 || ht_in_shape(n, SHAPE).rank != 1)
		return false;
	if (rank == 2) {
		x.row = column(f, n->in[INDICES], 0);
		x.rows = entry_of(f, n->in[SHAPE], 0);
	}
	ht_rw_take_place(f->r, n, ht_counts_in_rows(f, n, &x));
	return true;
}

/* ---- every node ---- */

bool ht_expand_sparse_sums(struct maker *f, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_SparseTensorDenseMatMul:
		return expand_matmul(f, n);
	case HT_OP_SparseReduceSum:
	case HT_OP_SparseReduceMax:
		return expand_reduce(f, n);
	case HT_OP_SparseReduceSumSparse:
	case HT_OP_SparseReduceMaxSparse:
		return expand_reduce_sparse(f, n);
	case HT_OP_SparseSoftmax:
		return expand_softmax(f, n);
	case HT_OP_SparseDenseCwiseMul:
	case HT_OP_SparseDenseCwiseDiv:
	case HT_OP_SparseDenseCwiseAdd:
		return expand_elementwise(f, n);
	case HT_OP_SparseTensorDenseAdd:
		return expand_add_dense(f, n);
	case HT_OP_SparseBincount:
		return expand_bincount(f, n);
	default:
		return false;
	}
}
