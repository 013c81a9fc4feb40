/* Rules of open axes of single ops, which no value of field `axes` is about. */
#include "passes/bounded_axes.h"

/* An Assert tells of its data; what a run does not have counts as zero. */
static enum ht_status asserted(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	(void)out;
	for (int32_t i = 1; i < n->ins; i++) {
		struct axes a = axes_of(b, n, i);

		for (int32_t k = 0; k < ht_in_shape(n, i).rank; k++)
			ht_open_mask_all(b, n, i, k, a.axis[k], HT_NUMBER_ZERO);
	}
	return HT_OK;
}

/* Numbers that a run does not have count as zero, which is finite. */
static enum ht_status checked(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct axes a = axes_of(b, n, 0);

	HT_TRY(ht_open_of_first(b, n, out));
	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		ht_open_mask_all(b, n, 0, i, a.axis[i], HT_NUMBER_ZERO);
	return HT_OK;
}

/* Elements of as many bytes; others have no kernel. */
static enum ht_status recast(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (n->out[0].shape.rank != ht_in_shape(n, 0).rank)
		return ht_open_refuse(b, n, "its elements have another number of bytes");
	return ht_open_of_first(b, n, out);
}

/* Rows of sorted numbers, and values for each of the rows.  Numbers that a run does not have are above all values. */
static enum ht_status searched(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct axes sorted = axes_of(b, n, 0);

	if (!is_same(sorted.axis[0], axis_of(b, n, 1, 0)))
		return ht_open_refuse(b, n, "there are not as many rows of values");
	HT_TRY(put_axes(b, n, 1, 0, 2, out, 0));
	ht_open_mask_all(b, n, 0, 1, sorted.axis[1], HT_NUMBER_HIGHEST);
	return HT_OK;
}

/* Numbers that a run does not have are above all bins, and so they are not counted. */
static enum ht_status counted(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, last = n->out[0].shape.rank - 1;
	struct axes in = axes_of(b, n, 0);

	if (last)
		HT_TRY(put(b, n, out, 0, in.axis[0]));
	HT_TRY(ht_open_make(b, n, last, out));
	for (int32_t i = 0; i < rank; i++) {
		bool weighted = ht_in_shape(n, 2).rank == rank && ht_shape_count(ht_in_shape(n, 2));

		if (weighted && !is_same(in.axis[i], axis_of(b, n, 2, i)))
			return ht_open_refuse(b, n, "there are not as many weights as numbers");
		ht_open_mask_all(b, n, 0, i, in.axis[i], HT_NUMBER_HIGHEST);
	}
	return HT_OK;
}

/* Rows of scores, and a class for each. */
static enum ht_status ranked(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_open rows = axis_of(b, n, 0, 0);

	if (!is_same(rows, axis_of(b, n, 1, 0)) || ht_open_some(axis_of(b, n, 0, 1)))
		return ht_open_refuse(
			b, n, "of this, rows of scores and classes alone may both have it");
	HT_TRY(put(b, n, out, 0, rows));
	ht_open_mask_all(b, n, 1, 0, rows, HT_NUMBER_ZERO);
	return HT_OK;
}

/* Boxes of images of open sizes, and the image of each box: the kernel reads the sizes of the run, and looks at no image of a box that the
 * run does not have. */
static enum ht_status cropped(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_open boxes = axis_of(b, n, 1, 0);

	if (!is_same(boxes, axis_of(b, n, 2, 0)))
		return ht_open_refuse(b, n, "there are not as many boxes as images of boxes");
	if (ht_open_some(axis_of(b, n, 0, 3)))
		return ht_open_refuse(b, n, "this takes it as the number of channels");
	for (int32_t i = 1; i < 3; i++)
		if (n->out[0].shape.dim[i] < 0)
			return ht_open_refuse(b, n, "the size of its results is open, too");
	HT_TRY(put(b, n, out, 0, boxes));
	return ht_open_by_index(b, n, 3, 2);
}

/* Rows of a variable, or slices, whose axes are closed. */
static enum ht_status taken_from_variable(
	struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t outer = ht_in_shape(n, 1).rank - (n->op == HT_OP_ResourceGatherNd);

	if (ht_attr_int(n, "batch_dims", 0))
		return ht_open_refuse(b, n, "this gathers from rows of their own");
	if (outer < ht_in_shape(n, 1).rank && ht_open_some(axis_of(b, n, 1, outer)))
		return ht_open_refuse(b, n, "this gathers by so many indices");
	HT_TRY(put_axes(b, n, 1, 0, outer, out, 0));
	return ht_open_by_index(b, n, 0, 1);
}

/* Whether the node is about the main diagonal alone: `k` is its operand that says so. */
static bool is_main(const struct ht_bounded *b, const struct ht_node *n, int32_t k)
{
	if (n->ins <= k)
		return true;
	for (int64_t i = 0; i < ht_shape_count(ht_in_shape(n, k)); i++)
		if (!is_zero(b, n->in[k], (int32_t)i))
			return false;
	return ht_shape_count(ht_in_shape(n, k)) > 0;
}

/* Whether both axes of the matrices in operand 0 are equally long in each run, if one of them is open. */
static bool is_square(const struct ht_bounded *b, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_open rows = axis_of(b, n, 0, s.rank - 2), columns = axis_of(b, n, 0, s.rank - 1);

	if (!ht_open_some(rows) && !ht_open_some(columns))
		return true;
	return is_same(rows, columns) && is_plain(b, s, s.rank - 2, rows) &&
	       is_plain(b, s, s.rank - 1, columns);
}

static const char not_main[] = "of this, only main diagonals of square matrices may have it";

static enum ht_status diagonal(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (!is_main(b, n, 1) || !is_square(b, n))
		return ht_open_refuse(b, n, not_main);
	return put_axes(b, n, 0, 0, ht_in_shape(n, 0).rank - 1, out, 0);
}

static enum ht_status on_diagonal(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0), r = n->out[0].shape;

	if (!is_main(b, n, 1) || r.dim[s.rank - 1] != s.dim[s.rank - 1] ||
		r.dim[s.rank] != s.dim[s.rank - 1])
		return ht_open_refuse(b, n, not_main);
	HT_TRY(put_axes(b, n, 0, 0, s.rank, out, 0));
	return put(b, n, out, s.rank, axis_of(b, n, 0, s.rank - 1));
}

static enum ht_status with_diagonal(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t last = ht_in_shape(n, 0).rank - 1;

	if (!is_main(b, n, 2) || !is_square(b, n))
		return ht_open_refuse(b, n, not_main);
	for (int32_t i = 0; i < last; i++)
		if (!is_same(axis_of(b, n, 0, i), axis_of(b, n, 1, i)))
			return ht_open_refuse(b, n, "there are not as many elements of diagonals");
	return put_axes(b, n, 0, 0, last + 1, out, 0);
}

ht_open_rule *ht_open_rare_rule(enum ht_op op)
{
	switch (op) {
	case HT_OP_CropAndResize:
		return cropped;
	case HT_OP_ResourceGather:
	case HT_OP_ResourceGatherNd:
		return taken_from_variable;
	case HT_OP_MatrixDiagPart:
	case HT_OP_MatrixDiagPartV2:
	case HT_OP_MatrixDiagPartV3:
		return diagonal;
	case HT_OP_MatrixDiag:
	case HT_OP_MatrixDiagV2:
	case HT_OP_MatrixDiagV3:
		return on_diagonal;
	case HT_OP_MatrixSetDiag:
	case HT_OP_MatrixSetDiagV2:
	case HT_OP_MatrixSetDiagV3:
		return with_diagonal;
	case HT_OP_Assert:
		return asserted;
	case HT_OP_CheckNumerics:
	case HT_OP_CheckNumericsV2:
		return checked;
	case HT_OP_Bitcast:
		return recast;
	case HT_OP_LowerBound:
	case HT_OP_UpperBound:
		return searched;
	case HT_OP_Bincount:
	case HT_OP_DenseBincount:
		return counted;
	case HT_OP_LearnedUnigramCandidateSampler:
	case HT_OP_ThreadUnsafeUnigramCandidateSampler:
		return ht_open_drawn_by_counts;
	case HT_OP_InTopK:
	case HT_OP_InTopKV2:
		return ranked;
	default:
		return NULL;
	}
}
