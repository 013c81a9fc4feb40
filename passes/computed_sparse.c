/* Ops on sparse tensors, for pass sizes: how many values these have is a size of the graph.
 *
 * - SparseToDense: the values are scattered into a tensor of the default.
 * - SparseReshape: nothing where the extents stay as they are; else the places of the values follow from their numbers among all elements.
 * - SparseFillEmptyRows: the default of each empty row is scattered between the values.  These have to be in the order of their rows;
 *   otherwise the run stops. */
#include "passes/computed_rows.h"
#include "passes/computed_sums.h"

/* ---- SparseToDense ---- */

static void expand_dense(struct maker *f, struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value fill[2] = { n->in[1], n->in[3] }, in[3], v;
	int32_t rank = n->out[0].shape.rank;

	in[0] = node(f, HT_OP_Fill, fill, 2, t, open_shape(f, rank));
	in[1] = n->in[0];
	in[2] = n->in[2];
	v = node(f, HT_OP_TensorScatterUpdate, in, 3, t, open_shape(f, rank));
	ht_rw_take_place(f->r, n, v);
}

/* ---- SparseReshape ---- */

/* 0; the run stops where the extents have a product of more than 64 bits: divided by a factor, it is not the others' product. */
static struct ht_value check_product(struct maker *f, const struct ht_value *size, int32_t rank)
{
	struct ht_value all = size[0], check = whole(f, HT_I64, 0);

	for (int32_t i = 1; i < rank; i++) {
		struct ht_value factor = binary(f, HT_OP_Maximum, size[i], whole(f, HT_I64, 1)),
				next = binary(f, HT_OP_Mul, all, factor);

		check = sum(f, check, check_equal(f, binary(f, HT_OP_FloorDiv, next, factor), all));
		all = next;
	}
	return check;
}

struct ht_value ht_numbers_of(
	struct maker *f, struct ht_value indices, const struct ht_value *size, int32_t rank)
{
	struct ht_value number = column(f, indices, 0);

	for (int32_t i = 1; i < rank; i++) {
		number = sum(f, product(f, number, size[i]), column(f, indices, i));
		number = of_rank(f, number, 1);
	}
	return of_rank(f, sum(f, number, check_product(f, size, rank)), 1);
}

/* Whether the new extents are the old ones, of which one may be left to be computed. */
static bool keeps_extents(const struct ht_node *n)
{
	int64_t rank = ht_in_shape(n, 1).dim[0];
	int left = 0;

	if (ht_in_shape(n, 2).dim[0] != rank)
		return false;
	for (int64_t i = 0; i < rank; i++) {
		struct ht_sum to = ht_sum_element(n, 2, i);

		if (ht_sum_is(to, -1))
			left++;
		else if (!ht_sum_equal(to, ht_sum_element(n, 1, i)))
			return false;
	}
	return left <= 1;
}

static void expand_sparse_reshape(struct maker *f, struct ht_node *n)
{
	struct extents from = { .rank = (int32_t)ht_in_shape(n, 1).dim[0] },
		       to = { .rank = (int32_t)ht_in_shape(n, 2).dim[0] };
	struct ht_value number, result[2] = { n->in[0], n->in[1] };

	if (keeps_extents(n)) {
		replace_results(f, n, result);
		return;
	}
	for (int32_t i = 0; i < from.rank; i++)
		from.size[i] = extent_entry(f, n->in[1], i);
	ht_read_extents(f, n->in[2], &from, &to);
	number = ht_numbers_of(f, n->in[0], from.size, from.rank);
	result[0] = ht_places_of(f, sum(f, number, to.check), to.size, to.rank);
	result[1] = packed(f, to.size, to.rank);
	replace_results(f, n, result);
}

/* ---- SparseFillEmptyRows ---- */

/* What is known of the rows of a sparse tensor. */
struct rows {
	struct ht_value of;     /* of each value */
	struct ht_value counts; /* of each row: how many values it has */
	struct ht_value empty;  /* of each row: whether it has none */
};

static void count_rows(struct maker *f, const struct ht_node *n, struct rows *r)
{
	struct ht_value in[3];

	r->of = column(f, n->in[0], 0);
	in[0] = repeated(f, length_of(f, n->in[1]), whole(f, HT_I64, 1));
	in[1] = r->of;
	in[2] = entry_of(f, n->in[2], 0);
	r->counts = node(f, HT_OP_UnsortedSegmentSum, in, 3, HT_I64, open_shape(f, 1));
	r->empty = binary(f, HT_OP_Equal, r->counts, whole(f, HT_I64, 0));
}

/* Where each value is behind the defaults of empty rows; the run stops unless it is among the values of its row. */
static struct ht_value places_of_values(
	struct maker *f, const struct ht_node *n, const struct rows *r)
{
	struct ht_value number = range_of(f, length_of(f, n->in[1])),
			first = at_rows(f, sums_before(f, r->counts), r->of, 1), outside, end;
	struct ht_value empty = cast_to(f, r->empty, HT_I64);

	end = sum(f, first, at_rows(f, r->counts, r->of, 1));
	outside = binary(f, HT_OP_LogicalOr, binary(f, HT_OP_Less, number, first),
		binary(f, HT_OP_GreaterEqual, number, end));
	outside.node->out[0].dtype = HT_BOOL;
	outside = only_zero(f, cast_to(f, outside, HT_I32));
	outside.node->out[0].shape = open_shape(f, 1);
	number = sum(f, number, at_rows(f, sums_before(f, empty), r->of, 1));
	return sum(f, number, cast_to(f, outside, HT_I64));
}

static void expand_fill(struct maker *f, struct ht_node *n)
{
	struct ht_value missing, indices[3], values[3], at[3], size[2], result[4];
	int64_t rank = ht_in_shape(n, 0).dim[1], first[HT_MAX_RANK] = { 1 };
	struct rows r;

	count_rows(f, n, &r);
	missing = squeezed(f, where(f, r.empty));
	at[0] = places_of_values(f, n, &r);
	at[1] = sum(f, at_rows(f, sums_before(f, r.counts), missing, 1),
		range_of(f, length_of(f, missing)));
	at[0].node->out[0].shape = at[1].node->out[0].shape = open_shape(f, 1);
	indices[0] = n->in[0];
	indices[1] = binary(f, HT_OP_Mul, with_axis(f, missing, 1), wholes(f, HT_I64, first, rank));
	indices[1].node->out[0].shape = open_shape(f, 2);
	values[0] = n->in[1];
	values[1] = repeated(f, length_of(f, missing), n->in[3]);
	result[3] = at[0];
	at[0] = joined(f, at, 2, 0);
	size[0] = length_of(f, at[0]);
	size[1] = whole(f, HT_I64, rank);
	result[0] = scattered(f, at[0], joined(f, indices, 2, 0), size, 2);
	result[1] = scattered(f, at[0], joined(f, values, 2, 0), size, 1);
	result[2] = r.empty;
	replace_results(f, n, result);
}

/* ---- every node ---- */

static bool is_vector(const struct ht_node *n, int32_t i)
{
	struct ht_shape s = ht_in_shape(n, i);

	return s.rank == 1 && s.dim[0] > 0 && s.dim[0] < HT_OPEN_RANK;
}

bool ht_has_bounds(const struct ht_graph *g, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		if (s.rank < 0)
			return false;
		for (int32_t k = 0; k < s.rank; k++)
			if (ht_dim_most(g, s.dim[k]) < 0)
				return false;
	}
	return true;
}

/* Operands of the sparse tensors that an op takes: those of the first one, how far apart the three of a tensor are, and how far the next
 * tensor's are behind. */
struct operands {
	int32_t first, apart, next;
};

/* How many sparse tensors an op of another file takes; 0: it is none. */
static int32_t sparse_operands(const struct ht_node *n, struct operands *at)
{
	*at = (struct operands){ n->op == HT_OP_SparseSplit, 1, 3 };
	switch (n->op) {
	case HT_OP_SparseTensorDenseMatMul:
	case HT_OP_SparseReduceSum:
	case HT_OP_SparseReduceMax:
	case HT_OP_SparseReduceSumSparse:
	case HT_OP_SparseReduceMaxSparse:
	case HT_OP_SparseSoftmax:
	case HT_OP_SparseDenseCwiseMul:
	case HT_OP_SparseDenseCwiseDiv:
	case HT_OP_SparseDenseCwiseAdd:
	case HT_OP_SparseTensorDenseAdd:
	case HT_OP_SparseBincount:
	case HT_OP_SparseReorder:
	case HT_OP_SparseSlice:
	case HT_OP_SparseSplit:
		return 1;
	case HT_OP_SparseAdd:
	case HT_OP_SparseSparseMaximum:
	case HT_OP_SparseSparseMinimum:
		return 2;
	case HT_OP_SparseConcat:
		*at = (struct operands){ 0, n->ins / 3, 1 };
		return n->ins / 3;
	default:
		return 0;
	}
}

static bool has_columns(const struct ht_node *n, int32_t i)
{
	struct ht_shape s = ht_in_shape(n, i);

	return s.rank == 2 && s.dim[1] > 0 && s.dim[1] < HT_OPEN_RANK &&
	       s.dim[1] == ht_in_shape(n, 1).dim[1];
}

/* Whether the node is an op of another file whose operands have bounds. */
static bool is_another(const struct ht_graph *g, const struct ht_node *n)
{
	struct operands at;
	int32_t count = sparse_operands(n, &at);
	int64_t rank = -1;

	if (n->op == HT_OP_SparseFillEmptyRowsGrad)
		return ht_has_bounds(g, n);
	if (n->op == HT_OP_SparseSliceGrad || n->op == HT_OP_SparseAddGrad)
		return ht_has_bounds(g, n) && has_columns(n, 1) && has_columns(n, 3);
	for (int32_t i = 0; i < count; i++) {
		int32_t first = at.first + i * at.next;
		struct ht_shape s = ht_in_shape(n, first);

		if (s.rank != 2 || s.dim[1] < 1 || s.dim[1] >= HT_OPEN_RANK ||
			(i && s.dim[1] != rank) || ht_in_shape(n, first + at.apart).rank != 1 ||
			ht_in_shape(n, first + 2 * at.apart).rank != 1)
			return false;
		rank = s.dim[1];
	}
	return count && ht_has_bounds(g, n);
}

bool ht_is_sparse_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape indices = n->ins ? ht_in_shape(n, 0) : HT_SHAPE_UNKNOWN;

	if (is_another(g, n) || ht_is_sets(g, n) || ht_is_sequences(g, n))
		return true;
	if (indices.rank != 2 || ht_dim_most(g, indices.dim[0]) < 0 || indices.dim[1] < 1)
		return false;
	switch (n->op) {
	case HT_OP_SparseToDense:
		return ht_in_shape(n, 2).rank == 1 && n->out[0].shape.rank > 0 &&
		       (ht_dim_is_open(g, indices.dim[0]) ||
			       ht_dim_is_open(g, ht_in_shape(n, 2).dim[0]) ||
			       !ht_shape_known(n->out[0].shape));
	case HT_OP_SparseReshape:
		return is_vector(n, 1) && is_vector(n, 2) &&
		       ht_in_shape(n, 1).dim[0] == indices.dim[1];
	case HT_OP_SparseFillEmptyRows:
		return ht_in_shape(n, 1).rank == 1 && is_vector(n, 2) &&
		       ht_in_shape(n, 2).dim[0] == indices.dim[1];
	default:
		return false;
	}
}

bool ht_expand_sparse(struct maker *f, struct ht_node *n)
{
	if (!ht_is_sparse_open(f->r->g, n))
		return false;
	if (n->op == HT_OP_SparseToDense)
		expand_dense(f, n);
	else if (n->op == HT_OP_SparseReshape)
		expand_sparse_reshape(f, n);
	else if (n->op == HT_OP_SparseFillEmptyRows)
		expand_fill(f, n);
	else
		return ht_expand_sparse_sums(f, n) || ht_expand_sparse_parts(f, n) ||
		       ht_expand_sets(f, n) || ht_expand_sequences(f, n);
	return true;
}
