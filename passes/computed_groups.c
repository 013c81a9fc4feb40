/* Which axes of operands have to be equally long, for pass sizes (computed_meet.c).
 *
 * They are in groups, and an operand has at most one axis in a group: those that are broadcast together, those along which a product
 * sums, those that are not concatenated, those that count indices and what belongs to them. */
#include "ir/einsum.h"
#include "passes/bounded_axes.h"
#include "passes/computed_nodes.h"

/* The axes of one kind of ops. */
struct kind {
	int32_t (*groups)(const struct ht_node *n);
	int32_t (*axis)(const struct ht_node *n, int32_t group, int32_t i);
	bool (*repeats)(const struct ht_node *n, int32_t group); /* NULL: no group does */
};

static int32_t rank_of(const struct ht_node *n, int32_t i)
{
	return ht_in_shape(n, i).rank;
}

static int32_t larger(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

/* ---- broadcasts: groups count from the last axis ---- */

static int32_t broadcast_groups(const struct ht_node *n)
{
	bool some = n->ins > 1 && n->outs == 1 && ht_type_of(n->in[0])->dtype != HT_VARIANT;

	return some ? n->out[0].shape.rank : 0;
}

static int32_t broadcast_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	return rank_of(n, i) - 1 - group;
}

static bool always(const struct ht_node *n, int32_t group)
{
	(void)n, (void)group;
	return true;
}

/* ---- matrix products: group 0 is summed along, the others are broadcast from the third last axis on ---- */

static int32_t product_groups(const struct ht_node *n)
{
	return larger(rank_of(n, 0), rank_of(n, 1)) - 1;
}

static bool is_flipped(const struct ht_node *n, int32_t i)
{
	if (ht_is(n, HT_MATMUL))
		return ht_attr_bool(n, i ? "transpose_b" : "transpose_a", false);
	return ht_attr_bool(n, i ? "adj_y" : "adj_x", false);
}

static int32_t product_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	if (i > 1)
		return -1;
	if (group)
		return rank_of(n, i) - 2 - group;
	return rank_of(n, i) - 1 - ((i == 1) != is_flipped(n, i));
}

static bool product_repeats(const struct ht_node *n, int32_t group)
{
	(void)n;
	return group > 0;
}

/* ---- Einsum: a group for each axis of operand 0, with the axis of operand 1 that has the same label ---- */

static int32_t einsum_groups(const struct ht_node *n)
{
	return n->ins == 2 ? rank_of(n, 0) : 0;
}

static int32_t einsum_name(const struct ht_node *n, int32_t i, int32_t axis)
{
	struct ht_einsum e;

	return ht_einsum_read(ht_attr_str(n, "equation", ""), &e)
		       ? -1
		       : ht_einsum_name(&e.in[i], rank_of(n, i), axis);
}

static int32_t einsum_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	int32_t name = einsum_name(n, 0, group);

	if (i == 0)
		return group;
	for (int32_t k = 0; name >= 0 && k < rank_of(n, 1); k++)
		if (einsum_name(n, 1, k) == name)
			return k;
	return -1;
}

static bool einsum_repeats(const struct ht_node *n, int32_t group)
{
	return einsum_name(n, 0, group) >= HT_EINSUM_ELLIPSIS;
}

/* ---- tensors behind each other ---- */

static int32_t first_value(const struct ht_node *n)
{
	return ht_axes(n) == HT_AXES_JOINED;
}

/* The axis along which operands are concatenated; -1: not known. */
static int32_t joined_axis(const struct ht_node *n)
{
	int64_t axis;
	int one;

	return ht_const_small_ints(n->in[first_value(n) ? 0 : n->ins - 1], &axis, 1, &one) &&
			       ht_fix_axis(&axis, rank_of(n, first_value(n)))
		       ? (int32_t)axis
		       : -1;
}

static int32_t concat_groups(const struct ht_node *n)
{
	return joined_axis(n) < 0 ? 0 : rank_of(n, first_value(n));
}

static int32_t concat_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	int32_t first = first_value(n);

	return i < first || i >= n->ins - 1 + first || joined_axis(n) == group ? -1 : group;
}

static int32_t groups_of_first(const struct ht_node *n)
{
	return rank_of(n, 0);
}

static int32_t same_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	(void)n, (void)i;
	return group;
}

/* ---- Select of TensorFlow 1: a vector selects rows ---- */

static int32_t select_groups(const struct ht_node *n)
{
	return rank_of(n, 1);
}

static int32_t select_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	return group < rank_of(n, i) ? group : -1;
}

/* ---- indices, and what belongs to them ---- */

/* ScatterNd: the first axes of indices and of updates. */
static int32_t scatter_groups(const struct ht_node *n)
{
	return rank_of(n, 0) - 1;
}

static int32_t axis_of_first_two(const struct ht_node *n, int32_t group, int32_t i)
{
	(void)n;
	return i < 2 ? group : -1;
}

/* How many axes of the tensor the indices in operand 1 name; -1: not known. */
static int32_t depth_of(const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 1);

	return s.rank && s.dim[s.rank - 1] >= 0 && s.dim[s.rank - 1] <= rank_of(n, 0)
		       ? (int32_t)s.dim[s.rank - 1]
		       : -1;
}

/* Updates of a tensor: likewise, then the other axes of the tensor and of updates. */
static int32_t update_groups(const struct ht_node *n)
{
	int32_t depth = depth_of(n), outer = rank_of(n, 1) - 1;

	return depth < 0 || rank_of(n, 2) != outer + rank_of(n, 0) - depth ? 0 : rank_of(n, 2);
}

static int32_t update_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	int32_t outer = rank_of(n, 1) - 1;

	if (i == 2)
		return group;
	if (i == 1)
		return group < outer ? group : -1;
	return group < outer ? -1 : group - outer + depth_of(n);
}

/* Rows of a variable: the axes that count them, of indices and of updates; with tuples of indices all but the last. */
static int32_t row_groups(const struct ht_node *n)
{
	bool tuples = ht_named_argument(n->op, "ref") >= 0;

	return rank_of(n, ht_named_argument(n->op, "indices")) - tuples;
}

static int32_t row_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	bool has_rows = i == ht_named_argument(n->op, "indices") || i == ht_open_updates_of(n);

	return has_rows ? group : -1;
}

static int32_t segment_groups(const struct ht_node *n)
{
	return rank_of(n, 1) <= rank_of(n, 0) ? rank_of(n, 1) : 0;
}

static int32_t batch_groups(const struct ht_node *n)
{
	int64_t batch = ht_attr_int(n, "batch_dims", 0);

	batch += batch < 0 ? rank_of(n, 1) : 0;
	return batch < 0 || batch > rank_of(n, 1) || batch > rank_of(n, 0) ? 0 : (int32_t)batch;
}

/* Logits and labels: as many rows. */
static int32_t one_group(const struct ht_node *n)
{
	return rank_of(n, 0) && rank_of(n, 1);
}

/* Boxes and their scores: likewise, in batches as many of each image.  Scores of sequences [steps,sequences,classes] and their lengths. */
static int32_t box_groups(const struct ht_node *n)
{
	return rank_of(n, 0) == 4 ? 2 : rank_of(n, 0) == 1 ? 0 : one_group(n);
}

static int32_t box_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	return rank_of(n, 0) != 3 ? axis_of_first_two(n, group, i) : i < 2 ? 1 - i : -1;
}

/* Boxes that are cut out of images, and the image of each. */
static int32_t crop_groups(const struct ht_node *n)
{
	return rank_of(n, 1) && rank_of(n, 2);
}

static int32_t crop_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	(void)n;
	return i == 1 || i == 2 ? group : -1;
}

/* ---- all kinds ---- */

static const struct kind broadcasts = { broadcast_groups, broadcast_axis, always };
static const struct kind products = { product_groups, product_axis, product_repeats };
static const struct kind einsums = { einsum_groups, einsum_axis, einsum_repeats };
static const struct kind rows = { one_group, axis_of_first_two, NULL };
static const struct kind updates = { row_groups, row_axis, NULL };
static const struct kind crops = { crop_groups, crop_axis, NULL };

static const struct kind by_axes[HT_AXES_END] = {
	[HT_AXES_JOINED] = { concat_groups, concat_axis, NULL },
	[HT_AXES_JOINED_V2] = { concat_groups, concat_axis, NULL },
	[HT_AXES_PACKED] = { groups_of_first, same_axis, NULL },
	[HT_AXES_SELECTED] = { select_groups, select_axis, NULL },
	[HT_AXES_GATHERED] = { batch_groups, axis_of_first_two, NULL },
	[HT_AXES_SCATTERED] = { scatter_groups, axis_of_first_two, NULL },
	[HT_AXES_SCATTERED_INTO] = { update_groups, update_axis, NULL },
	[HT_AXES_SEGMENTED] = { segment_groups, axis_of_first_two, NULL },
	[HT_AXES_SUPPRESSED] = { box_groups, box_axis, NULL },
};

static const struct kind *kind_of(const struct ht_node *n)
{
	if (ht_is(n, HT_ELEMENTWISE))
		return &broadcasts;
	if (ht_is(n, HT_MATRIX_PRODUCT))
		return &products;
	if (ht_is(n, HT_EINSUM))
		return &einsums;
	if (ht_is(n, HT_ROWS) && n->ins == 2 && n->outs == 2)
		return &rows;
	if (ht_open_updates_rows(n))
		return &updates;
	if (n->op == HT_OP_CropAndResize)
		return &crops;
	return &by_axes[ht_axes(n)];
}

static bool all_ranked(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (rank_of(n, i) < 0)
			return false;
	return n->ins > 1;
}

int32_t ht_meeting_groups(const struct ht_node *n)
{
	const struct kind *k = kind_of(n);

	return k->groups && all_ranked(n) ? k->groups(n) : 0;
}

int32_t ht_meeting_axis(const struct ht_node *n, int32_t group, int32_t i)
{
	int32_t axis = kind_of(n)->axis(n, group, i);

	return axis < rank_of(n, i) ? axis : -1;
}

bool ht_meeting_repeats(const struct ht_node *n, int32_t group)
{
	const struct kind *k = kind_of(n);

	return k->repeats && k->repeats(n, group);
}
