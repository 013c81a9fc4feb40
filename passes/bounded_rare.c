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

ht_open_rule *ht_open_rare_rule(enum ht_op op)
{
	switch (op) {
	case HT_OP_Assert:
		return asserted;
	case HT_OP_LowerBound:
	case HT_OP_UpperBound:
		return searched;
	case HT_OP_Bincount:
	case HT_OP_DenseBincount:
		return counted;
	case HT_OP_InTopK:
	case HT_OP_InTopKV2:
		return ranked;
	default:
		return NULL;
	}
}
