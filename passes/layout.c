/* layout: NCHW images become NHWC, with a Transpose on either side of each op.
 *
 * This concerns the ops of HT_LAYOUT, which have kernels only for NHWC; BiasAdd and
 * FusedBatchNorm follow in `transposes`, which also removes Transposes that cancel.  Filters are
 * the same in both layouts. */
#include "passes/rewrite.h"

static const int64_t to_nhwc[4] = { 0, 2, 3, 1 }, to_nchw[4] = { 0, 3, 1, 2 };

static void permute_attr(struct ht_rw *r, struct ht_node *n, const char *name)
{
	size_t count;
	int64_t *p = ht_attr_ints(n, name, &count, r->arena), out[8];
	size_t each = count / 4;

	if (count != 4 && count != 8)
		return;
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < each; k++)
			out[i * each + k] = p[(size_t)to_nhwc[i] * each + k];
	ht_attr_set_ints(n, name, out, count);
}

/* Whether operand 0 is the sizes of the result: a gradient of a convolution by its image, or of
 * average pooling. */
static bool has_sizes(const struct ht_node *n)
{
	return ht_is(n, HT_CONV_TRANSPOSE) ||
	       (ht_is(n, HT_UNPOOLS) && ht_type_of(n->in[0])->shape.rank == 1);
}

static bool permute_sizes(struct ht_rw *r, struct ht_node *n)
{
	int64_t size[4], out[4];
	int count;
	struct ht_str name = ht_str_printf(r->arena, "%.*s/sizes", HT_STR_ARG(n->name));

	if (!ht_const_small_ints(n->in[0], size, 4, &count) || count != 4)
		return false;
	for (int i = 0; i < 4; i++)
		out[i] = size[to_nhwc[i]];
	ht_rw_set_in(r, n, 0, ht_rw_const_ints(r, n, name, HT_I32, out, 4));
	return true;
}

/* If the node has several images, the names of all but the first have numbers. */
static struct ht_str nhwc_name(struct ht_rw *r, const struct ht_node *n, int32_t i)
{
	if (i == ht_data_operand(n))
		return ht_str_printf(r->arena, "%.*s/nhwc", HT_STR_ARG(n->name));
	return ht_str_printf(r->arena, "%.*s/nhwc_%d", HT_STR_ARG(n->name), (int)i);
}

static void turn_operands(struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_is_image(n, i))
			ht_rw_set_in(r, n, i,
				ht_rw_transpose(r, n, nhwc_name(r, n, i), n->in[i], to_nhwc));
}

static bool are_images(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_is_image(n, i) && ht_type_of(n->in[i])->shape.rank != 4)
			return false;
	return n->out[0].shape.rank == 4;
}

/* `n`, which `after` follows, returns NHWC: its users get the result transposed back. */
static void turn_result(struct ht_rw *r, struct ht_node *n, struct ht_node *after)
{
	struct ht_shape out = n->out[0].shape;
	struct ht_value back;
	int64_t dim[4];

	for (int i = 0; i < 4; i++)
		dim[i] = out.dim[to_nhwc[i]];
	n->out[0].shape = ht_shape_make(r->g->arena, 4, dim);
	back = ht_rw_transpose(r, after, ht_str_printf(r->arena, "%.*s/nchw", HT_STR_ARG(n->name)),
		ht_out(n, 0), to_nchw);
	back.node->origins = 0;
	back.node->origin = NULL;
	ht_node_add_origin(back.node, n);
	ht_rw_replace_behind(r, ht_out(n, 0), back);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	static const char *const lists[] = { "strides", "dilations", "ksize", "explicit_paddings",
		"_open", "_ends" };
	struct ht_node *after = n->next;

	if (!ht_is(n, HT_LAYOUT) || !ht_channels_first(n) || !are_images(n))
		return;
	if (has_sizes(n) && !permute_sizes(r, n))
		return;
	turn_operands(r, n);
	for (size_t i = 0; i < HT_COUNT(lists); i++)
		permute_attr(r, n, lists[i]);
	ht_attr_set_str(n, "data_format", HT_STR("NHWC"));
	if (!ht_is(n, HT_CONV_FILTER))
		turn_result(r, n, after);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_layout = {
	.name = "layout",
	.summary = "turns NCHW ops to NHWC",
	.run = run,
};
