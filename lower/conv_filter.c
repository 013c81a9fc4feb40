/* Gradients of convolutions by their filters, and of depthwise ones by their images.  filter_product.c has the
 * gradient by a filter as a product. */
#include "lower/conv.h"
#include "lower/index.h"

#include <string.h>

/* Reads the convolution whose filter gradient is `n`. Operands of `n`: image, sizes of the
 * filter, gradient of the result. */
static void read_filter_gradient(const struct ht_node *n, struct conv *c)
{
	c->in = shape_of(n, 0);
	c->filter = n->out[0].shape;
	c->out = shape_of(n, 2);
	c->groups = c->filter.dim[2] ? c->in.dim[3] / c->filter.dim[2] : 1;
	read_windows(n, c->in, c->out, c->filter.dim, c->w);
}

/* ---- a plain loop: types without a register tile, groups, and open sizes ---- */

/* A dimension of the sum, along an axis of the gradient of the result, operand 2, which ends where the run's does. */
static int reduce_axis(
	struct kernel_build *k, const struct ht_node *n, const struct conv *v, int axis)
{
	const int dim = kb_reduce_dim(k, v->out.dim[axis]);

	kb_cut(k, dim, n->in[2],
		(struct cut_span){ .stride = ht_shape_stride(v->out, axis),
			.extent = v->out.dim[axis],
			.reduced = true,
			.neutral = true });
	return dim;
}

/* Whether images or gradients are of open sizes. */
static bool is_open(const struct lower *l, const struct ht_node *n)
{
	for (int32_t axis = 0; axis < 3; axis++)
		if (lower_ends_with_run(l, n->in[0], axis) ||
			lower_ends_with_run(l, n->in[2], axis))
			return true;
	return false;
}

/* The sum over all pixels of image (at channel `channel`) times gradient (at channel `result`), for filter position out. */
static enum ht_status emit_loop_filter(
	struct lower *l, struct ht_node *n, const struct conv *v, bool depthwise)
{
	enum ht_dtype t = compute_type(ht_type_of(n->in[0])->dtype);
	int64_t multiplier = v->filter.dim[3];
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, from, by;
	int32_t x[4], y[4], product, gradient;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, v->filter.dim, ~0u);
	k.stage->vec = depthwise && multiplier == 1 ? 2 : 3;
	from = out;
	x[0] = y[0] = ht_xdim(b, reduce_axis(&k, n, v, 0));
	for (int i = 0; i < 2; i++) {
		y[1 + i] = ht_xdim(b, reduce_axis(&k, n, v, 1 + i));
		x[1 + i] = window_coord(&k, &v->w[i], y[1 + i], out.group[i].x, &from);
	}
	x[3] = out.group[2].x;
	y[3] = out.group[3].x;
	if (depthwise)
		y[3] = ht_xadd(b, ht_xmuli(b, x[3], multiplier), y[3]);
	else if (v->groups > 1)
		x[3] = ht_xadd(b, x[3],
			ht_xmuli(b, ht_xdivi(b, y[3], v->filter.dim[3] / v->groups),
				v->filter.dim[2]));
	from = space_of_coords(&from, 4, v->in.dim, x);
	by = space_of_coords(&out, 4, v->out.dim, y);
	gradient = kb_load(&k, lower_operand(l, n, 2), &by);
	product = ht_xmul(b, kb_load(&k, lower_operand(l, n, 0), &from), gradient);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, product), &out);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_filter(struct lower *l, struct ht_node *n, bool depthwise)
{
	struct conv v;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_filter_gradient(n, &v);
	contract_round_operands(l, n, true);
	if (depthwise || v.groups > 1 || !contract_type(ht_type_of(n->in[0])->dtype) ||
		ht_shape_count(v.out) == 0 || is_open(l, n))
		return emit_loop_filter(l, n, &v, depthwise);
	emit_filter_product(l, n, &v);
	return HT_OK;
}

static enum ht_status emit_conv_filter(struct lower *l, struct ht_node *n)
{
	return emit_filter(l, n, false);
}

static enum ht_status emit_depthwise_filter(struct lower *l, struct ht_node *n)
{
	return emit_filter(l, n, true);
}

static const char *refuse_format(const struct ht_node *n)
{
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC")
		       ? NULL
		       : "has no kernel for this data_format";
}

/* Whether image, filter and gradient of the result belong to one convolution. */
static const char *refuse_sizes(const struct ht_node *n, struct ht_shape image,
	struct ht_shape filter, struct ht_shape result, bool depthwise)
{
	bool fits = image.rank == 4 && filter.rank == 4 && result.rank == 4 &&
		    image.dim[0] == result.dim[0];

	if (fits && depthwise)
		fits = image.dim[3] == filter.dim[2] &&
		       result.dim[3] == filter.dim[2] * filter.dim[3];
	else if (fits)
		fits = result.dim[3] == filter.dim[3] && filter.dim[2] > 0 &&
		       image.dim[3] % filter.dim[2] == 0 &&
		       filter.dim[3] % (image.dim[3] / filter.dim[2]) == 0;
	return fits ? refuse_format(n) : "has operands that do not belong to one convolution";
}

static const char *refuse_conv_filter(const struct ht_node *n)
{
	return refuse_sizes(n, shape_of(n, 0), n->out[0].shape, shape_of(n, 2), false);
}

static const char *refuse_depthwise_filter(const struct ht_node *n)
{
	return refuse_sizes(n, shape_of(n, 0), n->out[0].shape, shape_of(n, 2), true);
}

const struct lower_op lower_conv2d_filter = {
	.family = FAMILY_ROOT, .emit = emit_conv_filter, .refuse = refuse_conv_filter
};
const struct lower_op lower_depthwise_filter = {
	.family = FAMILY_ROOT, .emit = emit_depthwise_filter, .refuse = refuse_depthwise_filter
};

/* ---- depthwise, by the image: operands sizes of the image, filter, gradient of the result ---- */

static enum ht_status emit_depthwise_input(struct lower *l, struct ht_node *n)
{
	struct window w[2];

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_windows(n, n->out[0].shape, shape_of(n, 2), shape_of(n, 1).dim, w);
	emit_by_image(l, n, w, true);
	return HT_OK;
}

static const char *refuse_depthwise_input(const struct ht_node *n)
{
	return refuse_sizes(n, n->out[0].shape, shape_of(n, 1), shape_of(n, 2), true);
}

const struct lower_op lower_depthwise_input = {
	.family = FAMILY_ROOT, .emit = emit_depthwise_input, .refuse = refuse_depthwise_input
};
