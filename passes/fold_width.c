/* fold_width: the columns of an image become channels where no window moves along them.
 *
 * That is the case of the gradients of a convolution whose windows are as wide as the image, so that a row of results is one pixel: text is an
 * image as wide as a word's embedding, of one channel.  The gradient by the image would sum over all columns of the filter for each
 * column of the image, of which one counts, and have as few columns of its product as there are channels; so would the rows of the gradient by
 * the filter.  As [images, height, 1, width * channels] both are products of full size.  If the windows are as high as the image too, its
 * rows become channels as well.
 *
 * Pools and their gradients whose windows have one column, and move by one, compute each column like a channel.  Where an image has few
 * channels, its columns become channels, so that they lie along the lanes.
 *
 * Images are NHWC.  Reshapes on either side keep the shapes that other nodes see.  Left alone: groups, open heights and widths, unknown
 * sizes. */
#include "passes/rewrite.h"

/* Pools have channels along the lanes; so many fill half of a vector of 64 bytes. */
enum { FEW_CHANNELS = 8 };

/* A node and its image, which is an operand or the result. */
struct fold {
	struct ht_rw *r;
	struct ht_node *n;
	struct ht_shape image;
	int64_t rows; /* that remain of the image */
	bool whole;   /* a gradient: windows are as high as the image, too */
};

static int64_t list_item(const struct fold *f, const char *name, size_t i, int64_t fallback)
{
	size_t count;
	int64_t *p = ht_attr_ints(f->n, name, &count, f->r->arena);

	return p && i < count ? p[i] : fallback;
}

static bool is_padded(const struct fold *f, size_t axis)
{
	return ht_str_is(ht_attr_str(f->n, "padding", ""), "EXPLICIT") &&
	       (list_item(f, "explicit_paddings", 2 * axis, 0) ||
		       list_item(f, "explicit_paddings", 2 * axis + 1, 0));
}

/* Whether along `axis` of the image there is one window, which is all of it. */
static bool is_one_window(
	const struct fold *f, struct ht_shape filter, struct ht_shape result, int32_t axis)
{
	return filter.dim[axis - 1] == f->image.dim[axis] && result.dim[axis] == 1 &&
	       list_item(f, "dilations", (size_t)axis, 1) == 1 && !is_padded(f, (size_t)axis);
}

static struct ht_shape shape_of(const struct ht_node *n, int32_t arg)
{
	return ht_type_of(n->in[arg])->shape;
}

static bool is_image(struct ht_shape s)
{
	return s.rank == 4 && ht_shape_known(s) && ht_shape_count(s) > 0;
}

/* Elements of the image behind the axis of rows, or with it if the rows become channels too. */
static struct ht_shape folded_image(const struct fold *f, struct ht_shape s)
{
	const int64_t rows = f->rows < s.dim[1] ? f->rows : s.dim[1];
	const int64_t dim[4] = { s.dim[0], rows, 1, s.dim[1] / rows * s.dim[2] * s.dim[3] };

	return ht_shape_make(f->r->g->arena, 4, dim);
}

static struct ht_shape folded_filter(const struct fold *f, struct ht_shape s)
{
	const int64_t rows = f->rows < s.dim[0] ? f->rows : s.dim[0];
	const int64_t dim[4] = { rows, 1, s.dim[0] / rows * s.dim[1] * s.dim[2], s.dim[3] };

	return ht_shape_make(f->r->g->arena, 4, dim);
}

static struct ht_str name_of(const struct fold *f, const char *what, int32_t i)
{
	return i < 0 ? ht_rw_name_within(f->r, f->n, what)
		     : ht_str_printf(
			       f->r->arena, "%.*s/%s_%d", HT_STR_ARG(f->n->name), what, (int)i);
}

static void fold_operand(const struct fold *f, int32_t arg, struct ht_shape to)
{
	if (!ht_shape_eq(shape_of(f->n, arg), to))
		ht_rw_set_in(f->r, f->n, arg,
			ht_rw_reshape(f->r, f->n, name_of(f, "folded", arg), f->n->in[arg], to));
}

/* Operand `arg` lists the sizes of a tensor, which are known, even if the graph computes them. */
static void set_sizes(const struct fold *f, int32_t arg, struct ht_shape s)
{
	ht_rw_set_in(f->r, f->n, arg,
		ht_rw_const_ints(f->r, f->n, name_of(f, "sizes", -1), HT_I32, s.dim, s.rank));
}

/* The node gives its result in shape `to`; its users get it as it was. */
static void fold_result(const struct fold *f, struct ht_shape to)
{
	const struct ht_shape was = f->n->out[0].shape;
	struct ht_value back;

	f->n->out[0].shape = to;
	back = ht_rw_reshape(f->r, f->n->next, name_of(f, "unfolded", -1), ht_out(f->n, 0), was);
	back.node->origins = 0;
	back.node->origin = NULL;
	ht_node_add_origin(back.node, f->n);
	ht_rw_replace_behind(f->r, ht_out(f->n, 0), back);
}

static bool is_fixed(const struct ht_node *n)
{
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") &&
	       !ht_attr_find(n, "_open") && !ht_attr_find(n, "_ends");
}

/* ---- gradients of convolutions ---- */

/* Reads the convolution whose gradient the node is; whether its columns become channels. */
static bool read_gradient(struct fold *f, struct ht_shape filter, struct ht_shape result)
{
	if (!is_image(f->image) || !is_image(filter) || !is_image(result) ||
		filter.dim[2] != f->image.dim[3] || !is_one_window(f, filter, result, 2))
		return false;
	f->whole = is_one_window(f, filter, result, 1);
	f->rows = f->whole ? 1 : f->image.dim[1];
	return f->image.dim[2] > 1 || f->rows < f->image.dim[1];
}

/* There is one window along the axes that are folded, so it does not move. */
static void stand_still(const struct fold *f)
{
	const int64_t strides[] = { 1, f->whole ? 1 : list_item(f, "strides", 1, 1), 1, 1 };

	ht_attr_set_ints(f->n, "strides", strides, HT_COUNT(strides));
}

static void fold_by_image(struct fold *f)
{
	const struct ht_shape filter = shape_of(f->n, 1);
	struct ht_shape to;

	f->image = f->n->out[0].shape;
	if (!read_gradient(f, filter, shape_of(f->n, 2)))
		return;
	to = folded_image(f, f->image);
	set_sizes(f, 0, to);
	fold_operand(f, 1, folded_filter(f, filter));
	stand_still(f);
	fold_result(f, to);
}

static void fold_by_filter(struct fold *f)
{
	const struct ht_shape filter = f->n->out[0].shape;
	struct ht_shape to;

	f->image = shape_of(f->n, 0);
	if (!read_gradient(f, filter, shape_of(f->n, 2)))
		return;
	to = folded_filter(f, filter);
	fold_operand(f, 0, folded_image(f, f->image));
	set_sizes(f, 1, to);
	stand_still(f);
	fold_result(f, to);
}

/* ---- pools ---- */

static bool takes_one_column(const struct fold *f)
{
	for (size_t i = 0; i < 4; i++)
		if (i != 1 &&
			(list_item(f, "ksize", i, 1) != 1 || list_item(f, "strides", i, 1) != 1))
			return false;
	return !is_padded(f, 2);
}

static bool takes_images(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_is_image(n, i) && !is_image(shape_of(n, i)))
			return false;
	return is_image(n->out[0].shape);
}

static void fold_pool(struct fold *f)
{
	struct ht_node *n = f->n;

	f->image = n->out[0].shape;
	if (!takes_images(n) || !takes_one_column(f) || f->image.dim[2] == 1 ||
		f->image.dim[3] > FEW_CHANNELS)
		return;
	f->rows = INT64_MAX;
	for (int32_t i = 0; i < n->ins; i++) {
		if (ht_is_image(n, i))
			fold_operand(f, i, folded_image(f, shape_of(n, i)));
		else
			set_sizes(f, i, folded_image(f, f->image));
	}
	fold_result(f, folded_image(f, f->image));
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct fold f = { .r = r, .n = n };

	if (!ht_is(n, HT_LAYOUT) || !is_fixed(n))
		return;
	if (ht_is(n, HT_CONV_TRANSPOSE))
		fold_by_image(&f);
	else if (n->op == HT_OP_Conv2DBackpropFilter)
		fold_by_filter(&f);
	else if (ht_is(n, HT_POOLS | HT_UNPOOLS))
		fold_pool(&f);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_fold_width = {
	.name = "fold_width",
	.summary = "makes columns of images channels where no window moves along them",
	.run = run,
};
