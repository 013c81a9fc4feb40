/* Rules of convolutions, pooling and batch normalisation. */
#include "ir/infer.h"

enum { MOST_SPATIAL = 3 };

/* The attributes of a sliding window for two or three spatial axes. */
struct window {
	int axes;             /* spatial ones */
	int at[MOST_SPATIAL]; /* where they are in a tensor */
	int c;
	int64_t stride[MOST_SPATIAL], dilation[MOST_SPATIAL], before[MOST_SPATIAL],
		after[MOST_SPATIAL];
	enum { SAME, VALID, EXPLICIT } padding;
};

/* `value`: one for each spatial axis. */
static enum ht_status read_list(struct ht_infer *in, const struct ht_node *n, const char *name,
	bool required, const struct window *w, int64_t *value)
{
	size_t count, want = (size_t)w->axes + 2;
	int64_t *v = ht_attr_ints(n, name, &count, in->scratch);

	if (!v && !required)
		return HT_OK;
	if (!v || count != want)
		return ht_infer_refuse(
			in, n, "attribute '%s' must have %d numbers", name, (int)want);
	for (size_t i = 0; i < count; i++)
		if (v[i] < 1)
			return ht_infer_refuse(
				in, n, "attribute '%s' has %lld", name, (long long)v[i]);
	for (int i = 0; i < w->axes; i++)
		value[i] = v[w->at[i]];
	return HT_OK;
}

static enum ht_status read_explicit(struct ht_infer *in, const struct ht_node *n, struct window *w)
{
	size_t count;
	int64_t *v = ht_attr_ints(n, "explicit_paddings", &count, in->scratch);

	if (!v || count != 8)
		return ht_infer_refuse(in, n, "attribute 'explicit_paddings' must have 8 numbers");
	for (int i = 0; i < 8; i++)
		if (v[i] < 0 || v[i] > INT32_MAX)
			return ht_infer_refuse(
				in, n, "attribute 'explicit_paddings' has %lld", (long long)v[i]);
	for (int i = 0; i < w->axes; i++) {
		w->before[i] = v[2 * w->at[i]];
		w->after[i] = v[2 * w->at[i] + 1];
	}
	return HT_OK;
}

static enum ht_status read_window(
	struct ht_infer *in, const struct ht_node *n, int axes, struct window *w)
{
	static const char *const last[] = { "NHWC", "NDHWC" }, *const first[] = { "NCHW", "NCDHW" };
	struct ht_str format = ht_attr_str(n, "data_format", last[axes - 2]);
	struct ht_str padding = ht_attr_str(n, "padding", "");
	bool channels_first = ht_str_is(format, first[axes - 2]);

	*w = (struct window){ .axes = axes, .c = channels_first ? 1 : axes + 1 };
	if (!channels_first && !ht_str_is(format, last[axes - 2]))
		return ht_infer_refuse(
			in, n, "attribute 'data_format' is '%.*s'", HT_STR_ARG(format));
	for (int i = 0; i < axes; i++) {
		w->at[i] = 1 + channels_first + i;
		w->stride[i] = w->dilation[i] = 1;
	}
	HT_TRY(read_list(in, n, "strides", true, w, w->stride));
	HT_TRY(read_list(in, n, "dilations", false, w, w->dilation));
	if (ht_str_is(padding, "SAME"))
		w->padding = SAME;
	else if (ht_str_is(padding, "VALID"))
		w->padding = VALID;
	else if (ht_str_is(padding, "EXPLICIT") && axes == 2) /* no op of volumes has it */
		w->padding = EXPLICIT;
	else
		return ht_infer_refuse(in, n, "attribute 'padding' is '%.*s'", HT_STR_ARG(padding));
	return w->padding == EXPLICIT ? read_explicit(in, n, w) : HT_OK;
}

/* Computes the size of the result along a spatial axis. */
static enum ht_status slide(struct ht_infer *in, const struct ht_node *n, const struct window *w,
	int axis, int64_t size, int64_t filter, int64_t *r)
{
	int64_t reach, room;

	*r = HT_DIM_UNKNOWN;
	if (w->padding == SAME) {
		if (size != HT_DIM_UNKNOWN)
			*r = ht_dim_derived(in->g, size, w->stride[axis] - 1, w->stride[axis]);
		return HT_OK;
	}
	if (size == HT_DIM_UNKNOWN || filter < 0)
		return HT_OK;
	if (filter == 0)
		return ht_infer_fail(in, n, "the window has size 0");
	if (__builtin_mul_overflow(filter - 1, w->dilation[axis], &reach) ||
		__builtin_add_overflow(reach, 1, &reach) ||
		__builtin_add_overflow(
			size > 0 ? size : 0, w->before[axis] + w->after[axis], &room))
		return ht_infer_fail(in, n, "the window is too large");
	if (size < 0) {
		*r = ht_dim_derived(in->g, size, room - reach + w->stride[axis], w->stride[axis]);
		return HT_OK;
	}
	/* TensorFlow allows a window that is larger than its input by less than one stride; the
	 * result is then empty. */
	if (room < reach && reach - room > w->stride[axis])
		return ht_infer_fail(in, n, "a window of %lld does not fit into %lld",
			(long long)reach, (long long)room);
	*r = room < reach ? 0 : (room - reach) / w->stride[axis] + 1;
	return HT_OK;
}

/* `filter`: the extents of the window. */
static enum ht_status spatial(struct ht_infer *in, const struct ht_node *n, const struct window *w,
	struct ht_shape x, const int64_t *filter, int64_t *d)
{
	for (int i = 0; i < w->axes; i++)
		HT_TRY(slide(in, n, w, i, x.dim[w->at[i]], filter[i], &d[w->at[i]]));
	return HT_OK;
}

/* Filter: [the window's extents, input channels of a group, output channels]. */
static enum ht_status infer_conv(struct ht_infer *in, struct ht_node *n, int axes)
{
	struct ht_shape x = ht_in_shape(n, 0), f = ht_in_shape(n, 1);
	int64_t *d = ht_new_dims(in, axes + 2);
	const int64_t unknown[] = { HT_DIM_UNKNOWN, HT_DIM_UNKNOWN, HT_DIM_UNKNOWN };
	struct window w;

	HT_TRY(read_window(in, n, axes, &w));
	HT_TRY(ht_want_rank(in, n, 0, axes + 2));
	HT_TRY(ht_want_rank(in, n, 1, axes + 2));
	ht_set_shape(n, 0, axes + 2, d);
	if (f.rank >= 0)
		d[w.c] = f.dim[axes + 1];
	if (x.rank < 0)
		return HT_OK;
	d[0] = x.dim[0];
	HT_TRY(spatial(in, n, &w, x, f.rank < 0 ? unknown : f.dim, d));
	if (f.rank < 0 || x.dim[w.c] < 0 || f.dim[axes] < 0)
		return HT_OK;
	if (f.dim[axes] == 0 || x.dim[w.c] % f.dim[axes])
		return ht_infer_fail(in, n, "channels of input %.*s and filter %.*s differ",
			HT_STR_ARG(ht_shape_text(in, x)), HT_STR_ARG(ht_shape_text(in, f)));
	if (f.dim[axes + 1] >= 0 && x.dim[w.c] && f.dim[axes + 1] % (x.dim[w.c] / f.dim[axes]))
		return ht_infer_fail(in, n, "channels of filter %.*s are no multiple of the groups",
			HT_STR_ARG(ht_shape_text(in, f)));
	return HT_OK;
}

enum ht_status ht_infer_conv2d(struct ht_infer *in, struct ht_node *n)
{
	return infer_conv(in, n, 2);
}

enum ht_status ht_infer_conv3d(struct ht_infer *in, struct ht_node *n)
{
	return infer_conv(in, n, 3);
}

/* Filter: [height, width, channels, results of each channel]. */
enum ht_status ht_infer_depthwise(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0), f = ht_in_shape(n, 1);
	int64_t *d = ht_new_dims(in, 4);
	struct window w;
	int64_t channels;

	HT_TRY(read_window(in, n, 2, &w));
	HT_TRY(ht_want_rank(in, n, 0, 4));
	HT_TRY(ht_want_rank(in, n, 1, 4));
	ht_set_shape(n, 0, 4, d);
	if (x.rank < 0 || f.rank < 0)
		return HT_OK;
	if (!ht_merge_dim(x.dim[w.c], f.dim[2], &channels))
		return ht_infer_fail(in, n, "channels of input %.*s and filter %.*s differ",
			HT_STR_ARG(ht_shape_text(in, x)), HT_STR_ARG(ht_shape_text(in, f)));
	d[0] = x.dim[0];
	d[w.c] = ht_dim_mul(in, channels, f.dim[3]);
	return spatial(in, n, &w, x, f.dim, d);
}

/* Operands: sizes of the result, filter, gradient of the convolution's result. */
static enum ht_status infer_conv_input(struct ht_infer *in, struct ht_node *n, int axes)
{
	struct ht_shape f = ht_in_shape(n, 1), y = ht_in_shape(n, 2), sizes;
	const struct ht_known *k = ht_in_known(in, n, 0);
	int64_t *d = ht_new_dims(in, axes + 2);
	struct window w;
	bool ok;

	HT_TRY(read_window(in, n, axes, &w));
	HT_TRY(ht_want_rank(in, n, 1, axes + 2));
	HT_TRY(ht_want_rank(in, n, 2, axes + 2));
	ht_set_shape(n, 0, axes + 2, d);
	if (k && k->n == axes) { /* spatial sizes only */
		for (int i = 0; i < axes; i++)
			d[w.at[i]] = ht_elem_dim(&k->e[i]);
	} else if (k) {
		sizes = ht_in_as_shape(in, n, 0, &ok);
		if (!ok || sizes.rank != axes + 2)
			return ht_infer_fail(in, n, "input_sizes is no shape of %d axes", axes + 2);
		for (int i = 0; i < axes + 2; i++)
			d[i] = sizes.dim[i];
	}
	if (d[0] < 0 && y.rank >= 0)
		d[0] = y.dim[0];
	if (d[w.c] < 0 && f.rank >= 0)
		d[w.c] = f.dim[axes];
	if (f.rank >= 0 && y.rank >= 0 && f.dim[axes + 1] >= 0 && y.dim[w.c] >= 0 &&
		f.dim[axes + 1] != y.dim[w.c])
		return ht_infer_fail(in, n, "channels of filter %.*s and gradient %.*s differ",
			HT_STR_ARG(ht_shape_text(in, f)), HT_STR_ARG(ht_shape_text(in, y)));
	return HT_OK;
}

enum ht_status ht_infer_conv2d_input(struct ht_infer *in, struct ht_node *n)
{
	return infer_conv_input(in, n, 2);
}

enum ht_status ht_infer_conv3d_input(struct ht_infer *in, struct ht_node *n)
{
	return infer_conv_input(in, n, 3);
}

enum ht_status ht_infer_conv2d_filter(struct ht_infer *in, struct ht_node *n)
{
	bool ok;
	struct ht_shape s = ht_in_as_shape(in, n, 1, &ok);

	if (!ok)
		return ht_infer_fail(in, n, "filter_sizes is no shape");
	n->out[0].shape = s;
	return HT_OK;
}

static enum ht_status infer_pool(struct ht_infer *in, struct ht_node *n, int axes)
{
	struct ht_shape x = ht_in_shape(n, 0);
	int64_t *d = ht_new_dims(in, axes + 2), filter[MOST_SPATIAL];
	struct window w;

	HT_TRY(read_window(in, n, axes, &w));
	HT_TRY(read_list(in, n, "ksize", true, &w, filter));
	HT_TRY(ht_want_rank(in, n, 0, axes + 2));
	for (int32_t i = 0; i < n->outs; i++)
		ht_set_shape(n, i, axes + 2, d);
	if (x.rank < 0)
		return HT_OK;
	d[0] = x.dim[0];
	d[w.c] = x.dim[w.c];
	return spatial(in, n, &w, x, filter, d);
}

enum ht_status ht_infer_pool(struct ht_infer *in, struct ht_node *n)
{
	return infer_pool(in, n, 2);
}

enum ht_status ht_infer_pool3d(struct ht_infer *in, struct ht_node *n)
{
	return infer_pool(in, n, 3);
}

/* The pixels under a window, which rates spread, become channels. */
enum ht_status ht_infer_patches(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0);
	int64_t *d = ht_new_dims(in, 4);
	int64_t size[2];
	struct window w;

	HT_TRY(read_window(in, n, 2, &w));
	HT_TRY(read_list(in, n, "rates", true, &w, w.dilation));
	HT_TRY(read_list(in, n, "ksizes", true, &w, size));
	HT_TRY(ht_want_rank(in, n, 0, 4));
	ht_set_shape(n, 0, 4, d);
	if (x.rank < 0)
		return HT_OK;
	d[0] = x.dim[0];
	d[3] = ht_dim_mul(in, ht_dim_mul(in, size[0], size[1]), x.dim[3]);
	return spatial(in, n, &w, x, size, d);
}

enum ht_status ht_infer_pool_v2(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank(in, n, 0, 4));
	ht_set_shape(n, 0, 4, ht_new_dims(in, 4));
	return HT_OK;
}

/* ---- batch normalisation: operands are x, then vectors of one element a channel ---- */

static enum ht_status channels_of(struct ht_infer *in, const struct ht_node *n, int64_t *channels)
{
	struct ht_shape x = ht_in_shape(n, 0), v;

	HT_TRY(ht_want_rank_of(in, n, 0, 2, 5));
	*channels = HT_DIM_UNKNOWN;
	if (x.rank > 0)
		*channels = x.dim[ht_channels_first(n) ? 1 : x.rank - 1];
	for (int32_t i = 1; i < 5; i++) {
		HT_TRY(ht_want_rank(in, n, i, 1));
		v = ht_in_shape(n, i);
		/* Mean and variance are empty in training. */
		if (v.rank < 0 || (i > 2 && v.dim[0] == 0))
			continue;
		if (!ht_merge_dim(*channels, v.dim[0], channels))
			return ht_infer_fail(in, n,
				"operand %d has shape %.*s, there are %lld channels", (int)i,
				HT_STR_ARG(ht_shape_text(in, v)), (long long)*channels);
	}
	return HT_OK;
}

enum ht_status ht_infer_batch_norm(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 2);

	HT_TRY(channels_of(in, n, &d[0]));
	n->out[0].shape = ht_in_shape(n, 0);
	for (int32_t i = 1; i < n->outs && i < 5; i++)
		ht_set_shape(n, i, 1, d);
	d[1] = 0; /* what a GPU keeps for the gradient; on a CPU TensorFlow gives no element */
	if (n->outs > 5)
		ht_set_shape(n, 5, 1, &d[1]);
	return HT_OK;
}

enum ht_status ht_infer_batch_norm_grad(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape scale = ht_in_shape(n, 2);

	(void)in;
	n->out[0].shape = ht_in_shape(n, 1);
	n->out[1].shape = n->out[2].shape = scale;
	return HT_OK;
}
