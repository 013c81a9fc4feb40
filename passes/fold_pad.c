/* fold_pad: padding of an image with zeros becomes padding of the convolution behind it.
 *
 * The Pad, or PadV2 with zeros, must pad spatial axes only, and its user is Conv2D or
 * DepthwiseConv2dNative.  The convolution gets explicit paddings: the sum of the Pad's and its
 * own.  MaxPool ignores its padding, which is equivalent if no element is negative and every
 * window has an element of the image.  If a Pad has other users, it stays for those.  Left
 * alone: paddings that are not constant, other pooling. */
#include "passes/rewrite.h"

#include <string.h>

enum { SPATIAL = 2 };

struct axes {
	int32_t spatial[SPATIAL];
};

static struct axes axes_of(const struct ht_node *conv)
{
	bool nchw = ht_channels_first(conv);

	return nchw ? (struct axes){ { 2, 3 } } : (struct axes){ { 1, 2 } };
}

static bool is_zero_pad(const struct ht_node *n)
{
	double x;

	if (n->controls)
		return false;
	return n->op == HT_OP_Pad ||
	       (n->op == HT_OP_PadV2 && ht_const_splat(n->in[2], &x) && x == 0);
}

static int64_t list_item(
	const struct ht_rw *r, const struct ht_node *n, const char *name, int32_t axis)
{
	size_t count;
	int64_t *p = ht_attr_ints(n, name, &count, r->arena);

	return p && (size_t)axis < count ? p[axis] : 1;
}

/* Whether the image ends at an open size of the run along `axis`, and is padded with zeros
 * behind it (pass sizes). */
static bool is_open(const struct ht_rw *r, const struct ht_node *n, int32_t axis)
{
	size_t count;
	int64_t *open = ht_attr_ints(n, "_open", &count, r->arena);

	return 2 * (size_t)axis < count && open[2 * axis];
}

/* The convolution's own padding in front of and behind spatial axis i. */
static bool own_padding(const struct ht_rw *r, const struct ht_node *conv, int i, int64_t out[2])
{
	struct ht_str padding = ht_attr_str(conv, "padding", "");
	int32_t axis = axes_of(conv).spatial[i];
	int64_t in, window, stride, results, total, *explicit_paddings;
	size_t count;

	out[0] = out[1] = 0;
	if (ht_str_is(padding, "VALID"))
		return true;
	if (ht_str_is(padding, "EXPLICIT")) {
		explicit_paddings = ht_attr_ints(conv, "explicit_paddings", &count, r->arena);
		if (count != 8)
			return false;
		out[0] = explicit_paddings[2 * axis];
		out[1] = explicit_paddings[2 * axis + 1];
		return true;
	}
	/* The padding in front depends on the run's size. */
	if (is_open(r, conv, axis) && list_item(r, conv, "strides", axis) > 1)
		return false;
	if (!ht_str_is(padding, "SAME") || !ht_shape_known(ht_type_of(conv->in[0])->shape) ||
		conv->ins < 2 || !ht_shape_known(ht_type_of(conv->in[1])->shape))
		return false;
	in = ht_type_of(conv->in[0])->shape.dim[axis];
	window = (ht_type_of(conv->in[1])->shape.dim[i] - 1) *
			 list_item(r, conv, "dilations", axis) +
		 1;
	stride = list_item(r, conv, "strides", axis);
	if (stride < 1)
		return false;
	results = (in + stride - 1) / stride;
	total = (results - 1) * stride + window - in;
	if (total < 0)
		total = 0;
	out[0] = total / 2;
	out[1] = total - total / 2;
	return true;
}

/* Adds the Pad's amounts to the node's own; false if it pads other axes than the spatial ones. */
static bool sum_of_paddings(
	const struct ht_rw *r, const struct ht_node *n, const struct ht_node *pad, int64_t all[8])
{
	struct axes axes = axes_of(n);
	int64_t amount[8], own[2];
	int count;

	if (!is_zero_pad(pad) || !ht_const_small_ints(pad->in[1], amount, 8, &count) || count != 8)
		return false;
	for (int i = 0; i < SPATIAL; i++) {
		int32_t axis = axes.spatial[i];

		if (!own_padding(r, n, i, own) || amount[2 * axis] < 0 || amount[2 * axis + 1] < 0)
			return false;
		for (int side = 0; side < 2; side++) {
			all[2 * axis + side] = amount[2 * axis + side] + own[side];
			amount[2 * axis + side] = 0;
		}
	}
	for (int i = 0; i < 8; i++)
		if (amount[i])
			return false;
	return true;
}

static bool fits_max_pool(const struct ht_rw *r, const struct ht_node *n, const int64_t all[8])
{
	struct axes axes = axes_of(n);

	if (!ht_str_is(ht_attr_str(n, "padding", ""), "VALID") ||
		!ht_is(n->in[0].node->in[0].node, HT_NON_NEGATIVE))
		return false;
	for (int i = 0; i < SPATIAL; i++) {
		int32_t axis = axes.spatial[i];
		int64_t window = list_item(r, n, "ksize", axis);

		if (all[2 * axis] >= window || all[2 * axis + 1] >= window)
			return false;
	}
	return true;
}

static enum ht_fusion_id fusion_of(const struct ht_node *n)
{
	return n->op == HT_OP_Conv2D    ? HT_FUSION_pad_conv
	       : n->op == HT_OP_MaxPool ? HT_FUSION_pad_max_pool
					: HT_FUSION_pad_depthwise;
}

/* The image now ends where the Pad's operand ends. */
static void take_ends(struct ht_rw *r, struct ht_node *n, const struct ht_node *pad)
{
	size_t count, own;
	int64_t *open = ht_attr_ints(pad, "_open", &count, r->arena);
	const int64_t *end = ht_attr_ints(n, "_open", &own, r->arena);

	if (!open || count != 8)
		return;
	for (size_t i = 0; i < 8 && own == 8; i += 2)
		if (!open[i])
			memcpy(&open[i], &end[i], 2 * sizeof *open);
	ht_attr_set_ints(n, "_open", open, count);
}

static void fold(struct ht_rw *r, struct ht_node *n)
{
	enum ht_fusion_id id = fusion_of(n);
	struct ht_node *pad = n->in[0].node;
	int64_t all[8] = { 0 };

	if ((pad->op != HT_OP_Pad && pad->op != HT_OP_PadV2) || !ht_rw_on(r, id))
		return;
	if (!sum_of_paddings(r, n, pad, all)) {
		ht_rw_miss(r, id, 1, pad,
			"does not put constant numbers of zeros around height and width alone");
		return;
	}
	if (n->op == HT_OP_MaxPool && !fits_max_pool(r, n, all)) {
		ht_rw_miss(r, id, 2, n,
			"takes negative values, or has a window outside, or padding of its own");
		return;
	}
	ht_rw_hit(r, id);
	if (ht_rw_uses(r, n->in[0]) == 1)
		ht_rw_absorb(n, pad);
	ht_attr_set_str(n, "padding", HT_STR("EXPLICIT"));
	ht_attr_set_ints(n, "explicit_paddings", all, 8);
	take_ends(r, n, pad);
	ht_rw_set_in(r, n, 0, pad->in[0]);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;

	ht_rw_init(&r, g, c);
	for (struct ht_node *n = g->first; n; n = n->next)
		if ((n->op == HT_OP_Conv2D || n->op == HT_OP_DepthwiseConv2dNative ||
			    n->op == HT_OP_MaxPool) &&
			ht_type_of(n->in[0])->shape.rank == 4)
			fold(&r, n);
	return HT_OK;
}

const struct ht_pass ht_pass_fold_pad = {
	.name = "fold_pad",
	.summary = "makes zeros around an image the convolution's padding",
	.run = run,
};
