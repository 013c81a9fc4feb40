/* Rules of open heights and widths: sliding windows, padding (bounded_rules.c has those of other
 * ops).
 *
 * Elements beyond the end of an open axis count as padding: the kernel ends the image at the
 * run's size.  Attribute _open tells it that size: for each axis of the image, the number of the
 * size, from 1, and how many indices the axis has for each of its units.  Attribute _ends has
 * the same for the result, for kernels whose loops end there. */
#include "passes/bounded_axes.h"

/* The open size of an axis whose extent is a multiple of one size. */
static enum ht_status open_of_dim(
	const struct ht_bounded *b, const struct ht_node *n, int64_t dim, struct ht_open *out)
{
	const struct ht_size_expr e = ht_dim_of_sizes(b->r.g, dim);

	if (ht_size_count(&e) != 1)
		return ht_open_refuse(b, n,
			"the size of this result is not known, or below 1 for the least size");
	*out = (struct ht_open){ { { e.size[0], e.times } } };
	return HT_OK;
}

static enum ht_status check_axis(
	const struct ht_bounded *b, const struct ht_node *n, int32_t arg, int32_t axis)
{
	struct ht_open a = axis_of(b, n, arg, axis);

	if (ht_open_some(a) && !is_plain(b, ht_in_shape(n, arg), axis, a))
		return ht_open_refuse(b, n, "a reshape put it together with others");
	return HT_OK;
}

static bool is_open(const struct ht_bounded *b, const struct ht_node *n, int32_t axis)
{
	return ht_open_some(axis_of(b, n, 0, axis));
}

/* Sets the attribute that says where axis `axis` of operand 0 ends. */
static void set_end(
	const struct ht_bounded *b, const struct ht_node *n, int32_t axis, int64_t *open)
{
	struct ht_open a = axis_of(b, n, 0, axis);

	open[2 * axis] = a.part[0].size;
	open[2 * axis + 1] = a.part[0].inner;
}

void ht_open_set_ends(struct ht_node *n, const struct ht_open *out)
{
	int64_t end[2 * HT_OPEN_RANK] = { 0 };
	int32_t rank = n->out[0].shape.rank;

	for (int32_t i = 0; i < rank; i++) {
		end[2 * i] = out[i].part[1].size ? 0 : out[i].part[0].size;
		end[2 * i + 1] = out[i].part[0].inner;
	}
	ht_attr_set_ints(n, "_ends", end, 2 * (size_t)rank);
}

enum ht_status ht_open_window(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool nchw = ht_channels_first(n);
	bool inside = ht_str_is(ht_attr_str(n, "padding", ""), "VALID");
	const int32_t channels = nchw ? 1 : 3, first = nchw ? 2 : 1;
	int64_t open[8] = { 0 };

	for (int32_t i = 1; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	if (is_open(b, n, channels))
		return ht_open_refuse(b, n, "this takes it as the number of channels");
	HT_TRY(put(b, n, out, 0, axis_of(b, n, 0, 0)));
	for (int32_t i = first; i < first + 2; i++) {
		if (!is_open(b, n, i))
			continue;
		HT_TRY(check_axis(b, n, 0, i));
		HT_TRY(open_of_dim(b, n, n->out[0].shape.dim[i], &out[i]));
		if (!inside)
			set_end(b, n, i, open);
	}
	if (open[2 * first] || open[2 * first + 2])
		ht_attr_set_ints(n, "_open", open, HT_COUNT(open));
	ht_open_set_ends(n, out);
	return HT_OK;
}

static bool is_padded(const struct ht_bounded *b, const struct ht_node *n, int32_t axis)
{
	int64_t amount[2];

	for (int32_t i = 0; i < 2; i++)
		if (!is_number(b, n->in[1], 2 * axis + i, &amount[i]))
			return true;
	return amount[0] || amount[1];
}

enum ht_status ht_open_padded(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = n->out[0].shape.rank;
	int64_t open[2 * HT_OPEN_RANK] = { 0 };

	for (int32_t i = 1; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	for (int32_t i = 0; i < rank; i++) {
		if (!is_open(b, n, i) || !is_padded(b, n, i)) {
			HT_TRY(put(b, n, out, i, axis_of(b, n, 0, i)));
			continue;
		}
		HT_TRY(check_axis(b, n, 0, i));
		HT_TRY(open_of_dim(b, n, n->out[0].shape.dim[i], &out[i]));
		set_end(b, n, i, open);
	}
	ht_attr_set_ints(n, "_open", open, 2 * (size_t)rank);
	ht_open_set_ends(n, out);
	return HT_OK;
}

void ht_open_set_images(struct ht_node *n, struct ht_open images)
{
	const struct ht_open ends[HT_OPEN_RANK] = { images };

	if (ht_open_some(images))
		ht_open_set_ends(n, ends);
}

/* A transposed convolution: elements outside are zeros, and add nothing.  The extents of its result follow from those of the image by
 * numbers, so what is cut off at the ends does not depend on the run.  The kernel's loops over rows and columns go on to the largest sizes. */
enum ht_status ht_open_unwindow(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool nchw = ht_channels_first(n);
	const int32_t channels = nchw ? 1 : 3, first = nchw ? 2 : 1;
	struct axes in = axes_of(b, n, 2);
	size_t count;
	int64_t *stride = ht_attr_ints(n, "strides", &count, b->r.arena);

	if (ht_open_in(b, n, 1) || ht_open_some(in.axis[channels]))
		return ht_open_refuse(b, n, "this takes it as an operand that it may not be of");
	HT_TRY(put(b, n, out, 0, in.axis[0]));
	for (int32_t i = first; i < first + 2; i++) {
		const struct ht_size_expr from = ht_dim_of_sizes(b->r.g, ht_in_shape(n, 2).dim[i]),
					  to = ht_dim_of_sizes(b->r.g, n->out[0].shape.dim[i]);

		if (!ht_open_some(in.axis[i]))
			continue;
		HT_TRY(check_axis(b, n, 2, i));
		if (ht_size_count(&from) != 1 || ht_size_count(&to) != 1 ||
			from.size[0] != to.size[0] || to.times != from.times * stride[i])
			return ht_open_refuse(b, n,
				"the size of this result is not so often it as the stride says");
		HT_TRY(open_of_dim(b, n, n->out[0].shape.dim[i], &out[i]));
		ht_open_mask_all(b, n, 2, i, in.axis[i], HT_NUMBER_ZERO);
	}
	ht_open_set_images(n, out[0]);
	return HT_OK;
}
