/* dilate: SpaceToBatchND, a convolution and BatchToSpaceND become one dilated convolution.
 *
 * Between the convolution (Conv2D or DepthwiseConv2dNative, NHWC, stride 1, VALID) and
 * BatchToSpaceND there may be BiasAdd and elementwise ops of one operand.  Block shape, paddings
 * and crops are constant, and each value between has one use.  Padding that the crops do not
 * remove again becomes explicit padding. */
#include "passes/rewrite.h"

struct dilation {
	struct ht_node *in, *conv, *out;
	int64_t block[2], padding[4], crop[4];
};

static bool is_pointwise(const struct ht_node *n)
{
	if (n->op == HT_OP_BiasAdd)
		return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");
	return ht_is(n, HT_ELEMENTWISE) && n->ins == 1 &&
	       ht_type_of(n->in[0])->dtype == n->out[0].dtype;
}

static bool ints(struct ht_value v, int64_t *out, int want)
{
	int count;

	return ht_const_small_ints(v, out, want, &count) && count == want;
}

static bool is_plain_conv(const struct ht_rw *r, const struct ht_node *n)
{
	size_t count;
	int64_t *p;

	if (n->controls || !ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") ||
		!ht_str_is(ht_attr_str(n, "padding", ""), "VALID"))
		return false;
	p = ht_attr_ints(n, "strides", &count, r->arena);
	for (size_t i = 0; i < count; i++)
		if (p[i] != 1)
			return false;
	p = ht_attr_ints(n, "dilations", &count, r->arena);
	for (size_t i = 0; i < count; i++)
		if (p[i] != 1)
			return false;
	return true;
}

static bool match(const struct ht_rw *r, struct ht_node *conv, struct dilation *d)
{
	struct ht_node *n = conv;
	int64_t block[2];

	d->conv = conv;
	d->in = conv->in[0].node;
	if (!is_plain_conv(r, conv) || d->in->op != HT_OP_SpaceToBatchND || d->in->controls ||
		ht_rw_only_user(r, conv->in[0]) != conv)
		return false;
	do {
		n = ht_rw_only_user(r, ht_out(n, 0));
	} while (n && !n->controls && is_pointwise(n));
	d->out = n;
	return n && n->op == HT_OP_BatchToSpaceND && !n->controls &&
	       ints(d->in->in[1], d->block, 2) && ints(n->in[1], block, 2) &&
	       block[0] == d->block[0] && block[1] == d->block[1] &&
	       ints(d->in->in[2], d->padding, 4) && ints(n->in[2], d->crop, 4) &&
	       ht_shape_known(d->out->out[0].shape);
}

static void dilate(struct ht_rw *r, struct dilation *d)
{
	int64_t explicit_paddings[8] = { 0 }, dilations[4] = { 1, d->block[0], d->block[1], 1 };
	struct ht_type type = d->out->out[0];

	for (int i = 0; i < 4; i++) {
		explicit_paddings[2 + i] = d->padding[i] - d->crop[i];
		if (explicit_paddings[2 + i] < 0) {
			ht_rw_miss(r, HT_FUSION_dilate, 1, d->out, "crops more than was padded");
			return;
		}
	}
	ht_rw_hit(r, HT_FUSION_dilate);
	for (struct ht_node *n = d->conv; n != d->out; n = ht_rw_only_user(r, ht_out(n, 0)))
		n->out[0].shape = type.shape;
	ht_rw_absorb(d->conv, d->in);
	ht_rw_absorb(d->conv, d->out);
	ht_attr_set_str(d->conv, "padding", HT_STR("EXPLICIT"));
	ht_attr_set_ints(d->conv, "explicit_paddings", explicit_paddings, 8);
	ht_attr_set_ints(d->conv, "dilations", dilations, 4);
	ht_rw_replace_node(r, d->out, d->out->in[0]);
	ht_rw_set_in(r, d->conv, 0, d->in->in[0]);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct dilation d;
	struct ht_node **all;
	size_t count;

	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++) {
		struct ht_node *n = all[i];

		if (n->graph && ht_is(n, HT_CONV | HT_DEPTHWISE) && match(&r, n, &d))
			dilate(&r, &d);
	}
	return HT_OK;
}

const struct ht_pass ht_pass_dilate = {
	.name = "dilate",
	.summary = "makes convolutions between space-to-batch ops dilated ones",
	.run = run,
};
