/* Gradients of convolutions by their filters, and of depthwise ones by their images.
 *
 * The gradient by a filter is a contraction over all pixels of all images.  Its rows are the
 * filter's positions and channels, which it reads at the image positions that the convolution
 * read.  Its columns are the channels of the result's gradient, which is packed.  The pixels are
 * divided into parts whose packed columns stay in the second level; a second kernel adds the
 * parts. */
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

/* ---- a plain loop: types without a register tile, and groups ---- */

/* The sum over all pixels of image (at channel `channel`) times gradient (at channel `result`), for filter position out. */
static enum ht_status emit_loop_filter(
	struct lower *l, struct ht_node *n, const struct conv *v, bool depthwise)
{
	enum ht_dtype t = compute_type(ht_type_of(n->in[0])->dtype);
	int64_t multiplier = v->filter.dim[3];
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, from, by;
	int32_t x[4], y[4], product;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, v->filter.dim, ~0u);
	k.stage->vec = depthwise && multiplier == 1 ? 2 : 3;
	from = out;
	x[0] = y[0] = ht_xdim(b, kb_reduce_dim(&k, v->out.dim[0]));
	for (int i = 0; i < 2; i++) {
		y[1 + i] = ht_xdim(b, kb_reduce_dim(&k, v->out.dim[1 + i]));
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
	product = ht_xmul(b, kb_load(&k, lower_operand(l, n, 0), &from),
		kb_load(&k, lower_operand(l, n, 2), &by));
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, product), &out);
	kb_finish(&k, n);
	return HT_OK;
}

/* ---- a contraction ---- */

/* The pixels of a part: some images, or some rows of one image. */
struct parts_of {
	int64_t images, rows; /* of a part */
	int64_t each, bands;  /* parts: groups of images times bands of rows */
};

/* The least divisor of `n` that is at least `least`, or n. */
static int64_t divisor_from(int64_t n, int64_t least)
{
	int64_t d = least < 1 ? 1 : least;

	while (d < n && n % d)
		d++;
	return d < n ? d : n;
}

/* Packed columns of a part take at most half of the second level. */
static struct parts_of divide(const struct lower *l, const struct conv *v)
{
	enum { MOST_COLUMNS = 64 };
	int64_t columns = v->filter.dim[3] < MOST_COLUMNS ? v->filter.dim[3] : MOST_COLUMNS;
	int64_t row = v->out.dim[2] * columns * (int64_t)sizeof(float);
	int64_t rows = l->target->l2 / 2 / row, images;
	struct parts_of p = { .bands = 1 };

	rows = rows < 1 ? 1 : rows;
	images = rows / v->out.dim[1];
	p.each = divisor_from(v->out.dim[0], ht_ceil_div(v->out.dim[0], images < 1 ? 1 : images));
	if (images < 1)
		p.bands = divisor_from(v->out.dim[1], ht_ceil_div(v->out.dim[1], rows));
	p.images = v->out.dim[0] / p.each;
	p.rows = v->out.dim[1] / p.bands;
	return p;
}

/* Whether the image is copied to blocks of channels, which are rows of the contraction, of a line each.  `copied`: it is copied in any
 * case. */
static bool pays_to_block(const struct conv *v, bool copied)
{
	return v->in.dim[3] > LINE_ROWS && (copied || v->out.dim[3] >= BLOCKED_COLUMNS);
}

/* A view of the image by blocks of channels: [image, row, block, column, channel of the block]. */
static struct view in_blocks(const struct view *in, int64_t channels)
{
	struct view v = *in;

	v.rank = 5;
	memcpy(v.dim, (int64_t[]){ in->dim[0], in->dim[1], 1, in->dim[2], channels },
		5 * sizeof *v.dim);
	memcpy(v.stride,
		(int64_t[]){ in->stride[0], in->stride[1], 0, in->stride[2], in->stride[3] },
		5 * sizeof *v.stride);
	return v;
}

/* Memory for the image in blocks of `block` channels, each of which is one piece. */
static struct view blocked_memory(struct lower *l, const int64_t dim[4], int64_t block)
{
	const int64_t blocks = ht_ceil_div(dim[3], block), pixels = dim[0] * dim[1] * dim[2];
	struct view v;

	view_dense(&v, plan_buffer(l, HT_PLAN_TEMP, HT_F32, blocks * pixels * block),
		(struct ht_shape){ 5, (int64_t[]){ dim[0], dim[1], blocks, dim[2], block } });
	v.stride[0] = dim[1] * dim[2] * block;
	v.stride[1] = dim[2] * block;
	v.stride[2] = pixels * block;
	return v;
}

/* The image as F32 with its padding, so that each position of each window is inside, by blocks of channels.  It is the image itself if
 * no position was outside, the type is F32, and blocks do not pay. */
static struct view padded_image(struct lower *l, struct ht_node *n, const struct conv *v)
{
	const struct view *in = lower_operand(l, n, 0);
	int64_t dim[4] = { v->in.dim[0], 0, 0, v->in.dim[3] }, block;
	bool inside = ht_type_of(n->in[0])->dtype == HT_F32;
	struct kernel_build k;
	struct space s, at;
	struct view to;
	int32_t x[4];

	for (int i = 0; i < 2; i++) {
		dim[1 + i] = (v->w[i].out - 1) * v->w[i].stride +
			     (v->w[i].size - 1) * v->w[i].dilation + 1;
		inside = inside && !window_leaves(&v->w[i]);
	}
	block = pays_to_block(v, !inside) ? LINE_ROWS : dim[3];
	if (inside && block == dim[3])
		return in_blocks(in, dim[3]);
	to = blocked_memory(l, dim, block);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, 5, to.dim, ~0u);
	k.stage->vec = 4;
	at = s;
	x[0] = space_coord(&k.xb, &s, 0);
	x[1] = space_coord(&k.xb, &s, 1);
	x[2] = space_coord(&k.xb, &s, 3);
	x[3] = ht_xadd(&k.xb, ht_xmuli(&k.xb, space_coord(&k.xb, &s, 2), block),
		space_coord(&k.xb, &s, 4));
	for (int i = 0; i < 2; i++) {
		x[1 + i] = ht_xaddi(&k.xb, x[1 + i], -v->w[i].before);
		space_and_guard(&k.xb, &at, index_inside(&k.xb, x[1 + i], v->in.dim[1 + i]));
	}
	if (dim[3] % block)
		space_and_guard(&k.xb, &at, ht_xlt(&k.xb, x[3], ht_xi(&k.xb, dim[3])));
	at = space_of_coords(&at, 4, v->in.dim, x);
	kb_store(&k, &to, &s, kb_load(&k, in, &at));
	kb_finish(&k, n);
	return to;
}

static void pack_gradient(struct contraction *c, const struct parts_of *p)
{
	struct view from = *lower_operand(c->l, c->n, 2), v = from;

	v.rank = 6;
	memcpy(v.dim,
		(int64_t[]){ p->each, p->bands, p->images, p->rows, from.dim[2], from.dim[3] },
		6 * sizeof *v.dim);
	memcpy(v.stride,
		(int64_t[]){ p->images * from.stride[0], p->rows * from.stride[1], from.stride[0],
			from.stride[1], from.stride[2], from.stride[3] },
		6 * sizeof *v.stride);
	contract_pack_taps(c, &v, 2);
}

/* Where row m of the contraction begins in the image `in`, which is in blocks of channels: filter position and channel, at the first
 * pixel of the part and the tap. */
static int32_t row_of(struct contraction *c, const struct conv *v, const struct parts_of *p,
	const struct view *in)
{
	struct ht_xb *b = &c->k.xb;
	struct space filter = { .rank = 3, .groups = 1, .guard = -1 };
	int32_t image, line, channel, at[5];
	struct space pixel;

	memcpy(filter.dim, v->filter.dim, 3 * sizeof *filter.dim);
	filter.group[0] = (struct space_group){ 0, 2, c->m_x };
	image = ht_xadd(b, ht_xmuli(b, ht_xdivi(b, c->batch_x, p->bands), p->images), c->tap_x[0]);
	line = ht_xadd(b, ht_xmuli(b, ht_xmodi(b, c->batch_x, p->bands), p->rows), c->tap_x[1]);
	at[0] = image;
	at[1] = ht_xadd(b, ht_xmuli(b, line, v->w[0].stride),
		ht_xmuli(b, space_coord(b, &filter, 0), v->w[0].dilation));
	channel = space_coord(b, &filter, 2);
	at[2] = ht_xdivi(b, channel, in->dim[4]);
	at[3] = ht_xmuli(b, space_coord(b, &filter, 1), v->w[1].dilation);
	at[4] = ht_xmodi(b, channel, in->dim[4]);
	pixel = space_of_coords(&filter, 5, in->dim, at);
	return space_offset(b, &pixel, in->stride, in->offset);
}

/* Adds the parts, [part, ..the filter..]. */
static void add_parts(struct lower *l, struct ht_node *n, const struct view *parts)
{
	struct kernel_build k;
	struct space out, at;
	int32_t x[5];

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, n->out[0].shape.dim,
		kb_out_boundaries(l, k.sink, 0) | kb_boundaries(l, k.sink, ht_out(n, 0)));
	x[0] = ht_xdim(&k.xb, kb_reduce_dim(&k, parts->dim[0]));
	for (int i = 0; i < 4; i++)
		x[1 + i] = space_coord(&k.xb, &out, i);
	at = space_of_coords(&out, 5, parts->dim, x);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, HT_F32, kb_load(&k, parts, &at)), &out);
	kb_finish(&k, n);
}

static enum ht_status emit_contraction(struct lower *l, struct ht_node *n, const struct conv *v)
{
	struct parts_of p = divide(l, v);
	struct view in = padded_image(l, n, v), parts;
	int64_t dim[5] = { p.each * p.bands };
	struct contraction c;
	struct space out;
	int32_t row, base;

	contract_init(&c, l, n, HT_F32);
	c.batch = dim[0];
	c.rows = v->filter.dim[0] * v->filter.dim[1] * v->filter.dim[2];
	c.columns = v->filter.dim[3];
	c.taps = 2;
	c.tap[0] = p.images;
	c.tap[1] = p.rows;
	c.depth = v->out.dim[2];
	c.a_step = v->w[1].stride * in.stride[3];
	pack_gradient(&c, &p);
	contract_begin(&c);
	row = row_of(&c, v, &p, &in);
	base = ht_xmuli(&c.k.xb, c.batch_x, c.packed_count);
	if (c.batch == 1) {
		out = conv_result(&c, v->filter, c.columns);
		contract_end(&c, in.buffer, row, base, &out);
		return HT_OK;
	}
	memcpy(dim + 1, v->filter.dim, 4 * sizeof *dim);
	view_dense(&parts, plan_buffer(l, HT_PLAN_TEMP, HT_F32, c.batch * c.rows * c.columns),
		(struct ht_shape){ 5, dim });
	out = (struct space){ .rank = 5, .groups = 3, .guard = -1 };
	memcpy(out.dim, dim, sizeof dim);
	out.group[0] = (struct space_group){ 0, 0, c.batch_x };
	out.group[1] = (struct space_group){ 1, 3, c.m_x };
	out.group[2] = (struct space_group){ 4, 4, c.n_x };
	contract_end_part(&c, in.buffer, row, base, &parts, &out);
	add_parts(l, n, &parts);
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
		ht_shape_count(v.out) == 0)
		return emit_loop_filter(l, n, &v, depthwise);
	return emit_contraction(l, n, &v);
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
