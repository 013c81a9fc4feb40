/* Rules of open axes: where the open axes of each op's operands are in its result. */
#include "passes/bounded_axes.h"

enum ht_status ht_open_align(const struct ht_bounded *b, const struct ht_node *n, int32_t arg,
	int32_t rank, struct ht_open *out)
{
	int32_t own = ht_in_shape(n, arg).rank;

	return put_axes(b, n, arg, 0, own, out, rank - own);
}

/* Checks that an operand that is not broadcast has as many elements as the others. */
static enum ht_status check_aligned(
	const struct ht_bounded *b, const struct ht_node *n, const struct ht_open *out)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i);
		int32_t lead = n->out[0].shape.rank - s.rank;

		for (int32_t k = 0; k < s.rank; k++)
			if (ht_open_some(out[lead + k]) && s.dim[k] != 1 &&
				!ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	}
	return HT_OK;
}

static enum ht_status aligned(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = n->out[0].shape.rank;

	for (int32_t i = 0; i < n->ins; i++)
		HT_TRY(ht_open_align(b, n, i, rank, out));
	HT_TRY(check_aligned(b, n, out));
	if (ht_checks_second(n))
		ht_open_mask_divisor(b, n);
	return HT_OK;
}

enum ht_status ht_open_of_first(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	for (int32_t i = 1; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	return ht_open_align(b, n, 0, n->out[0].shape.rank, out);
}

/* Each value has the place of its key. */
static enum ht_status looked_up(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return put_axes(b, n, 1, 0, ht_in_shape(n, 1).rank, out, 0);
}

static enum ht_status normalised(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (ht_attr_bool(n, "is_training", true))
		return ht_open_refuse(b, n, "this takes the mean of it for training");
	return ht_open_of_first(b, n, out);
}

static enum ht_status forwarded(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	for (int32_t i = 0; i < n->outs && i < n->ins; i++)
		if (ht_open_in(b, n, i))
			HT_TRY(put_axes(
				b, n, i, 0, ht_in_shape(n, i).rank, out + i * HT_OPEN_RANK, 0));
	return HT_OK;
}

enum ht_status ht_open_make(
	const struct ht_bounded *b, const struct ht_node *n, int32_t to, struct ht_open *out)
{
	int64_t dim = n->out[0].shape.dim[to];
	const struct ht_size_expr e = ht_dim_of_sizes(b->r.g, dim);

	if (!ht_dim_is_open(b->r.g, dim))
		return HT_OK;
	if (ht_size_count(&e) != 1)
		return ht_open_refuse(b, n, "this has a product of several sizes as its size");
	return put(b, n, out, to, (struct ht_open){ { { e.size[0], e.times } } });
}

enum ht_status ht_open_made(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		HT_TRY(ht_open_make(b, n, i, out));
	ht_open_mark_results(n, out, b->r.arena);
	return HT_OK;
}

/* The distance in elements between neighbours along `axis`, at the largest sizes. */
static int64_t stride_of(const struct ht_bounded *b, struct ht_shape s, int32_t axis)
{
	int64_t n = 1;

	for (int32_t i = axis + 1; i < s.rank; i++)
		n *= ht_open_most(b, s.dim[i]);
	return n;
}

/* Adds an open size to an axis, behind those that are outside of it; false: the axis has as many as it can have. */
static bool add_part(struct ht_open *to, struct ht_open_axis a)
{
	int i = ht_open_parts(*to);

	if (i == HT_OPEN_PARTS)
		return false;
	for (; i > 0 && a.inner > to->part[i - 1].inner; i--)
		to->part[i] = to->part[i - 1];
	to->part[i] = a;
	return true;
}

/* Adds an open size to the axis of the result in which its indices are `stride` elements apart; without elements, to the first axis that has
 * it. */
static enum ht_status put_by_stride(const struct ht_bounded *b, const struct ht_node *n,
	int32_t size, int64_t stride, struct ht_open *out)
{
	int64_t most = b->r.g->size[size - 1].most;
	struct ht_shape s = n->out[0].shape;

	for (int32_t i = 0; i < s.rank && !stride_of(b, s, -1); i++)
		if (ht_open_has(b, s.dim[i], size) &&
			add_part(&out[i], (struct ht_open_axis){ size, 1 }))
			return HT_OK;
	for (int32_t i = 0; i < s.rank && stride_of(b, s, -1); i++) {
		int64_t step = stride_of(b, s, i), all = step * ht_open_most(b, s.dim[i]);

		if (ht_open_has(b, s.dim[i], size) && stride >= step && stride % step == 0 &&
			all % (stride * most) == 0 &&
			add_part(&out[i], (struct ht_open_axis){ size, stride / step }))
			return HT_OK;
	}
	return ht_open_refuse(b, n, "a reshape divides it");
}

static enum ht_status reshaped(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);

	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		if (ht_open_most(b, n->out[0].shape.dim[i]) < 0)
			return ht_open_refuse(b, n, "the shape of this result is not known");
	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_open a = axis_of(b, n, 0, i);

		for (int k = 0; k < ht_open_parts(a); k++)
			HT_TRY(put_by_stride(
				b, n, a.part[k].size, a.part[k].inner * stride_of(b, s, i), out));
	}
	return HT_OK;
}

static enum ht_status transposed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank;

	for (int32_t i = 0; i < rank; i++) {
		int32_t from = named_axis(b, n->in[1], i, rank);

		if (from < 0)
			return ht_open_refuse(
				b, n, "its axes are in an order that is not constant");
		HT_TRY(put(b, n, out, i, axis_of(b, n, 0, from)));
	}
	return HT_OK;
}

/* BroadcastTo and Tile: an open axis stays open; an axis of extent one may become open. */
static enum ht_status repeated(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int32_t lead = n->out[0].shape.rank - s.rank;

	HT_TRY(ht_open_align(b, n, 0, n->out[0].shape.rank, out));
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_open_some(out[lead + i]) && s.dim[i] != n->out[0].shape.dim[lead + i])
			return ht_open_refuse(b, n, "this repeats it");
	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		if (!ht_open_some(out[i]))
			HT_TRY(ht_open_make(b, n, i, out));
	return HT_OK;
}

/* From the end on, elements outside come first; where a reshape joined axes, they are between others. */
static enum ht_status summed_up(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t axis = named_axis(b, n->in[1], 0, ht_in_shape(n, 0).rank);
	bool mixed = ht_attr_bool(n, "reverse", false) || axis < 0 ||
		     ht_open_is_joined(b, ht_in_shape(n, 0), axis, axis_of(b, n, 0, axis));

	if (mixed && (axis < 0 || ht_number(n) == HT_NUMBER_NONE))
		return ht_open_refuse(b, n, "this sums from its end");
	HT_TRY(ht_open_of_first(b, n, out));
	if (mixed)
		ht_open_mask_all(b, n, 0, axis, axis_of(b, n, 0, axis), ht_number(n));
	return HT_OK;
}

/* A vector selects rows. */
static enum ht_status selected_rows(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = n->out[0].shape.rank;

	HT_TRY(put(b, n, out, 0, axis_of(b, n, 0, 0)));
	for (int32_t i = 1; i < 3; i++)
		HT_TRY(ht_open_align(b, n, i, rank, out));
	for (int32_t i = 1; i < 3; i++)
		for (int32_t k = 0; k < rank; k++)
			if (ht_open_some(out[k]) && !ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	return HT_OK;
}

static enum ht_status selected(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (ht_in_shape(n, 0).rank != ht_in_shape(n, 1).rank && ht_in_shape(n, 0).rank)
		return selected_rows(b, n, out);
	return aligned(b, n, out);
}

static ht_open_rule *const by_axes[HT_AXES_END] = {
	[HT_AXES_FIRST] = ht_open_of_first,
	[HT_AXES_OF_KEYS] = looked_up,
	[HT_AXES_ALONG] = ht_open_along,
	[HT_AXES_PERMUTED] = transposed,
	[HT_AXES_JOINED] = ht_open_concatenated,
	[HT_AXES_JOINED_V2] = ht_open_concatenated,
	[HT_AXES_PACKED] = ht_open_packed,
	[HT_AXES_UNPACKED] = ht_open_unpacked,
	[HT_AXES_SPLIT] = ht_open_split,
	[HT_AXES_SLICED] = ht_open_sliced,
	[HT_AXES_STRIDED] = ht_open_strided,
	[HT_AXES_PADDED] = ht_open_padded,
	[HT_AXES_REPEATED] = repeated,
	[HT_AXES_SELECTED] = selected,
	[HT_AXES_RUNNING] = summed_up,
	[HT_AXES_ONE_HOT] = ht_open_hot,
	[HT_AXES_WINDOW] = ht_open_window,
	[HT_AXES_MADE] = ht_open_made,
	[HT_AXES_GATHERED] = ht_open_gathered,
	[HT_AXES_GATHERED_ND] = ht_open_gathered_nd,
	[HT_AXES_SCATTERED] = ht_open_scattered,
	[HT_AXES_SCATTERED_INTO] = ht_open_scattered_into,
	[HT_AXES_SEGMENTED] = ht_open_segmented,
	[HT_AXES_POSITIONS] = ht_open_located,
	[HT_AXES_SUPPRESSED] = ht_open_suppressed,
	[HT_AXES_DISTINCT] = ht_open_distinct,
	[HT_AXES_DRAWN] = ht_open_drawn,
	[HT_AXES_CONSUMED] = ht_open_consumed,
	[HT_AXES_REVERSED] = ht_open_reversed,
};

ht_open_rule *ht_open_rule_of(const struct ht_node *n)
{
	static const struct {
		uint64_t trait;
		ht_open_rule *rule;
	} by_trait[] = { { HT_ELEMENTWISE, aligned }, { HT_FORWARDS, forwarded },
		{ HT_RESHAPES, reshaped }, { HT_MATRIX_PRODUCT, ht_open_multiplied },
		{ HT_EINSUM, ht_open_contracted }, { HT_REDUCES, ht_open_reduced },
		{ HT_FINDS, ht_open_found }, { HT_BATCH_NORM, normalised },
		{ HT_CONV, ht_open_window }, { HT_DEPTHWISE, ht_open_window },
		{ HT_CONV_TRANSPOSE, ht_open_unwindow } };

	if (ht_is(n, HT_ROWS) && n->ins == 1)
		return ht_open_shared;
	if (ht_is(n, HT_ROWS) && n->outs == 2)
		return ht_open_judged;
	for (size_t i = 0; i < HT_COUNT(by_trait); i++)
		if (ht_is(n, by_trait[i].trait))
			return by_trait[i].rule;
	if (ht_open_rare_rule(n->op))
		return ht_open_rare_rule(n->op);
	if (ht_open_gradient_rule(n->op))
		return ht_open_gradient_rule(n->op);
	return ht_open_updates_rows(n) ? ht_open_updated : by_axes[ht_axes(n)];
}
