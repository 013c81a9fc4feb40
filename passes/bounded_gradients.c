/* Rules of open axes of gradients that only training has, and of volumes: which elements outside count as zeros, so that they add nothing. */
#include "passes/bounded_axes.h"

#include "passes/rewrite.h"

static enum ht_status bias_gradient(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	const int32_t channels = ht_channels_first(n) && rank > 2 ? 1 : rank - 1;
	struct axes in = axes_of(b, n, 0);

	for (int32_t i = 0; i < rank; i++) {
		if (i == channels)
			HT_TRY(put(b, n, out, 0, in.axis[i]));
		else
			ht_open_mask(b, n, 0, i, in.axis[i], HT_NUMBER_ZERO);
	}
	return HT_OK;
}

/* Whether the padding in front of an image does not depend on its height and width. */
static bool pads_alike(const struct ht_bounded *b, const struct ht_node *n)
{
	size_t count;
	const int64_t *stride = ht_attr_ints(n, "strides", &count, b->r.arena);

	if (!ht_str_is(ht_attr_str(n, "padding", ""), "SAME"))
		return true;
	for (size_t i = 0; i < count; i++)
		if (stride[i] != 1)
			return false;
	return true;
}

/* Sums over all pixels of images and of gradients.  An axis that is open in both ends where the run's does: products with what is outside of
 * the gradient are zeros, and what is outside of the image is padding. */
static enum ht_status filter_gradient(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const int32_t channels = ht_channels_first(n) ? 1 : 3;
	struct axes image = axes_of(b, n, 0), gradient = axes_of(b, n, 2);

	(void)out;
	if (ht_open_some(image.axis[channels]) || ht_open_some(gradient.axis[channels]))
		return ht_open_refuse(b, n, "this takes it as the number of channels");
	if (!is_same(image.axis[0], gradient.axis[0]))
		return ht_open_refuse(b, n, "there are not as many gradients as images");
	for (int32_t i = 0; i < 4; i++) {
		const struct ht_open x = image.axis[i], dy = gradient.axis[i];

		if ((ht_open_some(x) && !is_plain(b, ht_in_shape(n, 0), i, x)) ||
			(ht_open_some(dy) && !is_plain(b, ht_in_shape(n, 2), i, dy))) {
			if (i)
				return ht_open_refuse(
					b, n, "a reshape put it together with others");
			/* Images that blocks of pixels became are between images outside: all are added. */
			ht_open_mask_all(b, n, 0, 0, x, HT_NUMBER_ZERO);
			ht_open_mask_all(b, n, 2, 0, dy, HT_NUMBER_ZERO);
			continue;
		}
		if (i && ht_open_some(x) && !pads_alike(b, n))
			return ht_open_refuse(
				b, n, "its padding would depend on the size of the run");
		ht_open_mask(b, n, 0, i, x, HT_NUMBER_ZERO);
		ht_open_mask(b, n, 2, i, dy, HT_NUMBER_ZERO);
	}
	return HT_OK;
}

/* Of pools and of resized images: each image by itself.  The gradient of the result is operand `by`. */
static enum ht_status of_images(
	struct ht_bounded *b, struct ht_node *n, int32_t by, struct ht_open *out)
{
	for (int32_t i = 0; i < n->ins; i++)
		for (int32_t k = 1; k < ht_in_shape(n, i).rank; k++)
			if (ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(
					b, n, "only the number of images may be open for this op");
	HT_TRY(put(b, n, out, 0, axis_of(b, n, by, 0)));
	ht_open_set_images(n, out[0]);
	return HT_OK;
}

static enum ht_status of_largest(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return of_images(b, n, 2, out);
}

static enum ht_status of_means(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return of_images(b, n, 1, out);
}

static enum ht_status of_resized(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return of_images(b, n, 0, out);
}

/* Borders are mirrored along other axes; those along an open one are written in elementary ops (computed_training.c). */
static enum ht_status of_mirrored(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t border;

	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		for (int32_t k = 0; ht_open_some(axis_of(b, n, 0, i)) && k < 2; k++)
			if (!is_number(b, n->in[1], 2 * i + k, &border) || border)
				return ht_open_refuse(b, n, "its borders are not constant");
	return ht_open_of_first(b, n, out);
}

/* Normalisation over neighbouring channels, and its gradient: each pixel by itself. */
static enum ht_status of_pixels(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const int32_t last = n->out[0].shape.rank - 1;

	for (int32_t i = 0; i < n->ins; i++) {
		if (ht_open_some(axis_of(b, n, i, last)))
			return ht_open_refuse(b, n, "this takes it as the number of channels");
		HT_TRY(put_axes(b, n, i, 0, last, out, 0));
	}
	return HT_OK;
}

/* ---- volumes: each by itself; operand `by` counts them, and `filter`, if the op has one, may not be open ---- */

static enum ht_status of_volumes(
	struct ht_bounded *b, struct ht_node *n, int32_t by, int32_t filter, struct ht_open *out)
{
	if (filter >= 0 && ht_open_in(b, n, filter))
		return ht_open_refuse(b, n, "this takes it as an operand that it may not be of");
	return of_images(b, n, by, out);
}

static enum ht_status volume_convolved(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return of_volumes(b, n, 0, 1, out);
}

static enum ht_status volume_gradient(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return of_volumes(b, n, 2, 1, out);
}

static enum ht_status volume_pooled(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	return of_volumes(b, n, 0, -1, out);
}

static enum ht_status volume_filter(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const struct ht_open images = axis_of(b, n, 0, 0);

	(void)out;
	if (!is_same(images, axis_of(b, n, 2, 0)))
		return ht_open_refuse(b, n, "there are not as many gradients as volumes");
	for (int32_t i = 0; i < n->ins; i += 2)
		for (int32_t k = 1; k < ht_in_shape(n, i).rank; k++)
			if (ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(
					b, n, "only the number of volumes may be open for this op");
	for (int32_t i = 0; i < n->ins; i += 2)
		ht_open_mask_all(b, n, i, 0, images, HT_NUMBER_ZERO);
	return HT_OK;
}

ht_open_rule *ht_open_gradient_rule(enum ht_op op)
{
	switch (op) {
	case HT_OP_MirrorPadGrad:
		return of_mirrored;
	case HT_OP_LRN:
	case HT_OP_LRNGrad:
		return of_pixels;
	case HT_OP_Conv3D:
		return volume_convolved;
	case HT_OP_Conv3DBackpropInputV2:
		return volume_gradient;
	case HT_OP_Conv3DBackpropFilterV2:
		return volume_filter;
	case HT_OP_MaxPool3D:
	case HT_OP_AvgPool3D:
		return volume_pooled;
	case HT_OP_MaxPool3DGrad:
		return of_largest;
	case HT_OP_AvgPool3DGrad:
		return of_means;
	case HT_OP_BiasAddGrad:
		return bias_gradient;
	case HT_OP_Conv2DBackpropFilter:
	case HT_OP_DepthwiseConv2dNativeBackpropFilter:
		return filter_gradient;
	case HT_OP_DepthwiseConv2dNativeBackpropInput:
		return ht_open_unwindow;
	case HT_OP_MaxPoolGrad:
		return of_largest;
	case HT_OP_AvgPoolGrad:
		return of_means;
	case HT_OP_ResizeBilinearGrad:
	case HT_OP_ResizeNearestNeighborGrad:
		return of_resized;
	default:
		return NULL;
	}
}
