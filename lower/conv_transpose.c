/* Transposed convolutions: r[h, w, o] = sum of x[(h + before - kh) / stride, ..] * f[kh, kw, o,
 * c], over the taps for which the division has no remainder.  With groups, o is a channel of a group of r, and c runs
 * over the same group of x. */
#include "lower/conv.h"
#include "lower/index.h"

#include <string.h>

/* Of a filter [height, width, channels of a group, all channels of the gradient]. */
static int64_t groups_of(const struct ht_node *n)
{
	const int64_t each = shape_of(n, 1).dim[2];

	return each > 0 ? n->out[0].shape.dim[3] / each : 1;
}

void emit_by_image(struct lower *l, struct ht_node *n, const struct window w[2], bool depthwise)
{
	struct ht_shape from_shape = shape_of(n, 2), filter_shape = shape_of(n, 1);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, from, filter;
	int32_t x[4], f[4], product, weight;
	const int64_t depth = filter_shape.dim[3] / (depthwise ? 1 : groups_of(n));

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, n->out[0].shape.dim, ~0u);
	k.stage->vec = 3;
	kb_cut_space(&k, &out, ht_out(k.sink, 0));
	from = out;
	for (int i = 0; i < 2; i++) {
		f[i] = ht_xdim(b, kb_reduce_dim(&k, w[i].size));
		x[1 + i] = window_result(&k, &w[i], out.group[1 + i].x, f[i], &from.guard);
	}
	f[2] = out.group[3].x;
	f[3] = ht_xdim(b, kb_reduce_dim(&k, depth));
	x[0] = out.group[0].x;
	x[3] = f[3];
	if (depthwise)
		x[3] = ht_xadd(b, ht_xmuli(b, f[2], depth), f[3]);
	else if (depth < filter_shape.dim[3]) {
		int32_t group = ht_xdivi(b, f[2], filter_shape.dim[2]);

		f[2] = ht_xmodi(b, f[2], filter_shape.dim[2]);
		f[3] = x[3] = ht_xadd(b, ht_xmuli(b, group, depth), f[3]);
	}
	from = space_of_coords(&from, 4, from_shape.dim, x);
	filter = space_of_coords(&out, 4, filter_shape.dim, f);
	weight = kb_load(&k, lower_operand(l, n, 1), &filter);
	product = ht_xmul(b, kb_load(&k, lower_operand(l, n, 2), &from), weight);
	kb_store_root(
		&k, n, kb_reduce(&k, HT_RED_ADD, compute_type(n->out[0].dtype), product), &out);
	kb_finish(&k, n);
}

/* Whether windows neither overlap nor leave gaps, so that each result has one tap. */
static bool is_tiled(struct ht_shape from, struct ht_shape to, const struct window w[2])
{
	for (int i = 0; i < 2; i++)
		if (w[i].size != w[i].stride || w[i].dilation != 1 || w[i].before ||
			to.dim[1 + i] != from.dim[1 + i] * w[i].stride)
			return false;
	return true;
}

/* A product for each row of the window: its columns are the row's results of all channels, which are
 * one run of memory. */
static void emit_tiled(struct lower *l, struct ht_node *n, const struct window w[2])
{
	struct ht_shape from = shape_of(n, 2), to = n->out[0].shape;
	int64_t row = w[1].size * to.dim[3], depth = from.dim[3];
	struct view in = *lower_operand(l, n, 2);
	struct contraction c;
	struct ht_xb *b = &c.k.xb;
	struct space at, out = { .rank = 4, .groups = 3, .guard = -1 };

	contract_init(&c, l, n, ht_type_of(n->in[2])->dtype);
	c.batch = w[0].size;
	c.rows = from.dim[0] * from.dim[1] * from.dim[2];
	c.columns = row;
	c.depth = depth;
	c.a_step = in.stride[3];
	pack_filter(&c, n, 1, 0, 1, depth, c.batch, row * depth);
	contract_begin(&c);
	c.k.kernel->method = ht_method_info[HT_METHOD_WINDOW_ROWS].name;
	at = conv_pixels(&c, from);
	memcpy(out.dim, to.dim, 4 * sizeof *to.dim);
	out.group[0] = (struct space_group){ 0, 0, space_coord(b, &at, 0) };
	out.group[1] = (struct space_group){ 1, 1,
		ht_xadd(b, ht_xmuli(b, space_coord(b, &at, 1), w[0].stride), c.batch_x) };
	out.group[2] = (struct space_group){ 2, 3,
		ht_xadd(b, ht_xmuli(b, space_coord(b, &at, 2), row), c.n_x) };
	contract_end(&c, in.buffer, space_offset(b, &at, in.stride, in.offset),
		ht_xmuli(b, c.batch_x, c.packed_count), &out);
}

static void choose(struct lower *l, const struct ht_node *n, const struct window w[2], bool tiled)
{
	plan_choice(l, n,
		(struct ht_method_choice){
			.method = tiled ? HT_METHOD_WINDOW_ROWS : HT_METHOD_DIRECT,
			.other = HT_METHOD_END,
			.reason = tiled ? HT_REASON_SIDE_BY_SIDE : HT_REASON_OVERLAP,
			.is = (double)(w[0].size * w[1].size),
			.limit = 1 });
}

/* Whether it took the method. */
static bool takes_phases(struct lower *l, struct ht_node *n, const struct window w[2])
{
	double share = conv_phases_share(n, w);

	if (!(share < CONV_PHASES_WORTH))
		return false;
	plan_choice(l, n,
		(struct ht_method_choice){ .method = HT_METHOD_PHASES,
			.other = HT_METHOD_END,
			.reason = HT_REASON_FEWER_TAPS,
			.is = share,
			.limit = CONV_PHASES_WORTH });
	emit_phases(l, n, w);
	return true;
}

/* Whether it took Winograd's method: at a stride of 1 it is the convolution by the filter turned around. */
static bool takes_winograd(struct lower *l, struct ht_node *n)
{
	int64_t filter[4];
	struct conv v;
	struct ht_winograd by;

	if (!conv_turned(n, filter, &v))
		return false;
	by = wanted_winograd(l, n, &v);
	if (by.m)
		emit_winograd(l, n, &v, &by);
	return by.m != 0;
}

/* Whether it took the method, which needs a stride of 1. */
static bool takes_lines(const struct contraction *c, struct ht_shape from, const struct window w[2])
{
	struct lines_axis axis[2];

	for (int i = 0; i < 2; i++)
		axis[i] = (struct lines_axis){ .count = w[i].in,
			.step = 1,
			.taps = w[i].size,
			.each = -w[i].dilation,
			.phases = 1,
			.shift = w[i].before };
	return w[0].stride == 1 && w[1].stride == 1 && conv_by_lines(c, 2, from, axis);
}

/* A product for each group, over the taps of the window. */
static void emit_taps(struct lower *l, struct ht_node *n, const struct window w[2])
{
	struct ht_shape from = shape_of(n, 2), filter = shape_of(n, 1), to = n->out[0].shape;
	struct contraction c;
	struct ht_xb *b = &c.k.xb;
	struct space at, out;
	struct view in;
	int32_t x[4];

	contract_init(&c, l, n, ht_type_of(n->in[2])->dtype);
	c.batch = groups_of(n);
	c.rows = to.dim[0] * to.dim[1] * to.dim[2];
	c.columns = filter.dim[2];
	c.depth = filter.dim[3] / c.batch;
	c.taps = 2;
	c.tap[0] = w[0].size;
	c.tap[1] = w[1].size;
	c.a_step = lower_operand(l, n, 2)->stride[3];
	pack_filter(&c, n, 1, c.columns * filter.dim[3], 1, filter.dim[3], c.batch, c.depth);
	if (takes_lines(&c, from, w))
		return;
	in = conv_image(&c, 2);
	contract_begin(&c);
	at = conv_pixels(&c, to);
	x[0] = space_coord(b, &at, 0);
	for (int i = 0; i < 2; i++)
		x[1 + i] = window_result(
			&c.k, &w[i], space_coord(b, &at, 1 + i), c.tap_x[i], &c.a_guard);
	x[3] = ht_xmuli(b, c.batch_x, c.depth);
	at = space_of_coords(&at, 4, from.dim, x);
	out = conv_result(&c, to, c.columns);
	contract_end(&c, in.buffer, space_offset(b, &at, in.stride, in.offset),
		ht_xmuli(b, c.batch_x, c.packed_count), &out);
}

static enum ht_status emit_any_transpose(struct lower *l, struct ht_node *n)
{
	struct ht_shape from = shape_of(n, 2), to = n->out[0].shape;
	struct window w[2];
	bool tiled, plain = groups_of(n) == 1;

	if (ht_shape_count(to) == 0)
		return HT_OK;
	read_windows(n, to, from, shape_of(n, 1).dim, w);
	if (!contract_type(n->out[0].dtype) || ht_shape_count(from) == 0) {
		emit_by_image(l, n, w, false);
		return HT_OK;
	}
	tiled = plain && is_tiled(from, to, w);
	if (plain && !tiled && (takes_phases(l, n, w) || takes_winograd(l, n)))
		return HT_OK;
	if (!l->chosen[n->id]) /* Winograd's method was not considered */
		choose(l, n, w, tiled);
	if (tiled)
		emit_tiled(l, n, w);
	else
		emit_taps(l, n, w);
	return HT_OK;
}

static enum ht_status emit_conv_transpose(struct lower *l, struct ht_node *n)
{
	contract_round_operands(l, n, false);
	return emit_any_transpose(l, n);
}

/* Whether a filter belongs to so many channels of the image and of the result, in groups. */
static bool fits_groups(struct ht_shape filter, int64_t image, int64_t result)
{
	if (filter.dim[3] != result)
		return false;
	if (filter.dim[2] == image)
		return true;
	return filter.dim[2] > 0 && image > 0 && image % filter.dim[2] == 0 &&
	       result % (image / filter.dim[2]) == 0;
}

static const char *refuse_conv_transpose(const struct ht_node *n)
{
	if (!ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC"))
		return "has no kernel for this data_format";
	if (!fits_groups(shape_of(n, 1), n->out[0].shape.dim[3], shape_of(n, 2).dim[3]))
		return "has operands that do not belong to one convolution";
	return NULL;
}

const struct lower_op lower_conv2d_transpose = {
	.family = FAMILY_ROOT, .emit = emit_conv_transpose, .refuse = refuse_conv_transpose
};

/* Whether there is one window, which is the whole image. */
static bool is_one_window(const struct window *w)
{
	return w->size == w->in && w->out == 1 && w->dilation == 1 && !window_leaves(w);
}

double ht_products_share(const struct ht_node *n)
{
	struct ht_shape from, to;
	struct window w[2];
	double all, share;

	if (!ht_is(n, HT_CONV_TRANSPOSE) || ht_multiply_adds(n) <= 0 || refuse_conv_transpose(n))
		return 1;
	from = shape_of(n, 2);
	to = n->out[0].shape;
	if (to.rank != 4 || !ht_shape_known(to) || !ht_shape_known(from))
		return 1;
	read_windows(n, to, from, shape_of(n, 1).dim, w);
	if (groups_of(n) == 1 && is_tiled(from, to, w))
		return 1;
	all = (double)to.dim[1] * (double)to.dim[2] / ((double)from.dim[1] * (double)from.dim[2]);
	for (int i = 1; i >= 0 && is_one_window(&w[i]); i--) /* pass fold_width */
		all /= (double)w[i].in;
	share = conv_phases_share(n, w);
	return all * (share < CONV_PHASES_WORTH ? share : 1);
}
