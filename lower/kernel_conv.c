/* Convolutions over NHWC images as contractions, and depthwise ones as loops. */
#include "lower/conv.h"
#include "lower/index.h"
#include "lower/pack.h"
#include "lower/parts.h"
#include "lower/strides.h"

#include <string.h>

void read_conv(const struct ht_node *n, struct conv *c)
{
	c->in = shape_of(n, 0);
	c->filter = shape_of(n, 1);
	c->out = n->out[0].shape;
	c->groups = c->filter.dim[2] ? c->in.dim[3] / c->filter.dim[2] : 1;
	read_windows(n, c->in, c->out, c->filter.dim, c->w);
}

static bool is_product(const struct conv *c)
{
	for (int i = 0; i < 2; i++)
		if (c->w[i].size != 1 || c->w[i].stride != 1 || window_leaves(&c->w[i]))
			return false;
	return true;
}

/* Images, height and width of a result, the last two of which may be open. */
enum { PIXEL_AXES = 3 };

/* Ends the rows of the contraction at the run's number of pixels, which are numbered without gaps.  Returns whether no row behind it is
 * computed (struct ht_cut). */
static bool cut_pixels(
	struct contraction *c, struct ht_shape out, const struct ht_open_axis end[PIXEL_AXES])
{
	struct ht_size_expr pixels = ht_size_number(1);
	int64_t run = 1;

	for (int i = 0; i < PIXEL_AXES; i++) {
		const struct ht_open_axis *a = &end[i];

		pixels = ht_size_product(pixels, a->size ? ht_size_multiple(a->inner, a->size - 1)
							 : ht_size_number(out.dim[i]));
		run *= a->size ? a->inner * c->l->g->size[a->size - 1].most : out.dim[i];
	}
	if (!ht_size_count(&pixels))
		return false;
	c->k.stage->dim[c->k.stage->contract.m].cut[0] = (struct ht_cut){ pixels, run };
	return run == c->rows;
}

/* Has rows number the run's pixels, without gaps between lines, so that blocks of rows are full for all sizes. */
static void number_pixels(struct contraction *c, struct ht_shape out)
{
	const struct ht_value stored =
		ht_out(c->k.sink, 0); /* neutral elements too, if it is a _Within */
	struct ht_open_axis end[PIXEL_AXES];
	struct ht_xb *b = &c->k.xb;
	int32_t *extent, count;
	bool exact;

	for (int i = 0; i < PIXEL_AXES; i++)
		end[i] = lower_axis_end(c->n, i);
	if (!end[1].size && !end[2].size) { /* only whole images are cut off */
		if (ht_shape_count(out) == ht_shape_count(ht_type_of(stored)->shape))
			kb_cut(&c->k, c->k.stage->contract.m, stored,
				(struct cut_span){
					.stride = out.dim[PIXEL_AXES], .extent = c->rows });
		return;
	}
	exact = cut_pixels(c, out, end);
	extent = HT_NEW_ARRAY(c->k.arena, int32_t, PIXEL_AXES + 1);
	for (int i = 0; i < PIXEL_AXES; i++)
		extent[i] = kb_axis_end(&c->k, &end[i], out.dim[i]);
	extent[PIXEL_AXES] = ht_xi(b, out.dim[PIXEL_AXES]);
	c->pixel_end = extent;
	if (exact)
		return;
	count = ht_xmul(b, ht_xmul(b, extent[0], extent[1]), extent[2]);
	c->pixel_guard = ht_xlt(b, c->m_x, count);
	c->pixel_x = ht_xmax(b, ht_xmin(b, c->m_x, ht_xaddi(b, count, -1)), ht_xi(b, 0));
}

struct space conv_pixels(struct contraction *c, struct ht_shape out)
{
	struct space s = { .rank = 3, .groups = 1, .guard = -1 };

	memcpy(s.dim, out.dim, 3 * sizeof *out.dim);
	number_pixels(c, out);
	s.end = c->pixel_end;
	s.group[0] = (struct space_group){ 0, 2, c->pixel_x };
	return s;
}

struct space conv_result(struct contraction *c, struct ht_shape out, int64_t group_channels)
{
	struct ht_xb *b = &c->k.xb;
	struct space s = { .rank = 4, .groups = 2, .guard = c->pixel_guard, .end = c->pixel_end };
	int32_t channel = ht_xadd(b, ht_xmuli(b, c->batch_x, group_channels), c->n_x);

	memcpy(s.dim, out.dim, 4 * sizeof *out.dim);
	s.group[0] = (struct space_group){ 0, 2, c->pixel_x };
	s.group[1] = (struct space_group){ 3, 3, c->batch > 1 ? channel : c->n_x };
	return s;
}

/* Copies the tensor to dense memory if it is not dense, and makes `v` a view of the copy. */
static void make_dense(struct lower *l, const struct ht_node *n, struct view *v)
{
	struct ht_shape shape = { v->rank, v->dim };
	struct view copy;

	if (view_is_dense(v))
		return;
	view_dense(&copy,
		plan_buffer(l, HT_PLAN_TEMP, l->plan->buffer[v->buffer].dtype, view_count(v)),
		shape);
	emit_copy(l, n, v, &copy);
	*v = copy;
}

void pack_filter(struct contraction *c, struct ht_node *n, int arg, int64_t sq, int64_t sk,
	int64_t sn, int64_t groups, int64_t stride)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[arg]);
	struct view v = { .rank = 4 }, filter;
	int64_t taps = 1;

	if (t) {
		contract_pack_const(c, t, sq, sk, sn, groups, stride);
		return;
	}
	for (int i = 0; i < c->taps; i++)
		taps *= c->tap[i];
	filter = *lower_operand(c->l, n, arg);
	make_dense(c->l, n, &filter);
	v.buffer = filter.buffer;
	v.offset = filter.offset;
	v.rounds = filter.rounds;
	memcpy(v.dim, (int64_t[]){ groups, taps, c->depth, c->columns }, 4 * sizeof *v.dim);
	memcpy(v.stride, (int64_t[]){ stride, sq, sk, sn }, 4 * sizeof *v.stride);
	contract_pack_taps(c, &v, 1);
}

/* An image that stays in the second level is copied where few columns do not hide conversions; one of twice that size, where several panels of
 * columns widen each number again for each tap. */
static bool pays_to_widen(const struct contraction *c, const struct view *in)
{
	enum { FEW_VECTORS = 3 };
	const bool few = c->columns <= FEW_VECTORS * ht_target_lanes(c->l->target);
	const int64_t most = c->l->target->l2 / (int64_t)sizeof(float);
	bool open = false;

	for (int32_t i = 0; i < PIXEL_AXES; i++)
		open = open || lower_axis_end(c->n, i).size;
	return !open && !ht_const_tensor(c->n->in[1]) && contract_taps(c) > 1 && !c->short_sums &&
	       local_type(c->l, c->dtype) != c->dtype &&
	       c->l->plan->buffer[in->buffer].dtype == c->dtype &&
	       view_count(in) <= (few ? most : 2 * most);
}

struct view conv_image(struct contraction *c, int arg)
{
	const struct view in = *lower_operand(c->l, c->n, arg);
	const struct ht_value of = c->n->in[arg];
	const struct ht_shape shape = { in.rank, in.dim };
	struct view to;

	if (!pays_to_widen(c, &in))
		return in;
	c->dtype = HT_F32;
	c->a_step = 1;
	if (ht_value_eq(c->l->widened.of, of)) {
		view_dense(&to, c->l->widened.buffer, shape);
		return to;
	}
	view_dense(&to, plan_buffer(c->l, HT_PLAN_TEMP, HT_F32, view_count(&in)), shape);
	emit_copy(c->l, c->n, &in, &to);
	c->l->widened = (struct widened_rows){ of, to.buffer };
	return to;
}

/* ---- few channels: a padded copy, so that a row of the window is one run of memory ---- */

enum { FEW_CHANNELS = 8 };

bool conv_copies_image(const struct conv *c)
{
	return c->in.dim[3] <= FEW_CHANNELS && c->groups == 1 && c->w[1].size > 1 &&
	       c->w[1].dilation == 1;
}

/* Like window_shift(), in elements; a pixel has `channels`. */
static int32_t shifted_run(
	struct kernel_build *k, const struct window *w, int64_t channels, int32_t x)
{
	struct ht_xb *b = &k->xb;

	if (!w->shifts)
		return ht_xaddi(b, x, -w->before * channels);
	return ht_xadd(b, x, ht_xmuli(b, window_shift(k, w, ht_xi(b, 0)), channels));
}

static int32_t end_of_run(struct kernel_build *k, const struct window *w, int64_t channels)
{
	if (!w->open.size)
		return ht_xi(&k->xb, w->in * channels);
	return ht_xmuli(&k->xb, window_end(k, w), channels);
}

/* The run of a row of the source, shifted by the padding and guarded as a whole. */
static int32_t load_run(
	struct kernel_build *k, const struct view *in, const struct conv *c, const struct space *s)
{
	int64_t channels = c->in.dim[3];
	struct ht_xb *b = &k->xb;
	int32_t h = window_shift(k, &c->w[0], s->group[1].x);
	int32_t run = shifted_run(k, &c->w[1], channels, s->group[2].x), ok;
	int32_t x[3] = { s->group[0].x, h, run };
	struct view rows = *in;
	struct ht_size_expr ends[3];
	struct space at;

	for (int32_t i = 0; in->ends && i < 3; i++)
		ends[i] = in->ends[i];
	if (in->ends) {
		ends[2] = ht_size_product(ends[2], ht_size_number(channels));
		rows.ends = ends;
	}
	rows.rank = 3;
	rows.dim[2] = c->in.dim[2] * channels;
	rows.stride[2] = 1;
	ok = ht_xand(b, ht_xle(b, ht_xi(b, 0), h), ht_xlt(b, h, window_end(k, &c->w[0])));
	ok = ht_xand(b, ok, ht_xle(b, ht_xi(b, 0), run));
	ok = ht_xand(b, ok, ht_xlt(b, run, end_of_run(k, &c->w[1], channels)));
	at = space_of_coords(s, 3, rows.dim, x);
	space_and_guard(b, &at, ok);
	return kb_load(k, &rows, &at);
}

static int32_t load_pixel(
	struct kernel_build *k, const struct view *in, const struct conv *c, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x[4], ok = ht_xint(b, HT_BOOL, 1);
	struct space at;

	for (int32_t i = 0; i < 4; i++)
		x[i] = space_coord(b, s, i);
	for (int i = 0; i < 2; i++) {
		x[1 + i] = window_shift(k, &c->w[i], x[1 + i]);
		ok = ht_xand(b, ok, ht_xle(b, ht_xi(b, 0), x[1 + i]));
		ok = ht_xand(b, ok, ht_xlt(b, x[1 + i], window_end(k, &c->w[i])));
	}
	at = space_of_coords(s, 4, c->in.dim, x);
	space_and_guard(b, &at, ok);
	return kb_load(k, in, &at);
}

/* How many indices of a padded copy, along height (i is 0) or width, the windows of the run's results reach. */
static struct ht_size_expr windows_reach(
	const struct lower *l, const struct ht_node *n, const struct conv *c, int i)
{
	const struct ht_open_axis end = lower_axis_end(n, 1 + i);
	const struct window *w = &c->w[i];
	const int64_t more = (w->size - 1) * w->dilation + 1 - w->stride;

	if (!end.size || end.inner * l->g->size[end.size - 1].most != w->out)
		return ht_size_number(w->stride * w->out + more);
	return ht_size_floor(ht_size_multiple(w->stride * end.inner, end.size - 1), more, 1);
}

void conv_cut_copy(struct kernel_build *k, const struct ht_node *n, const struct conv *c, int i,
	int32_t index, int64_t each)
{
	const struct ht_size_expr pixels = windows_reach(k->l, n, c, i);
	const struct ht_x *x = &k->stage->x[index];

	if (!ht_size_count(&pixels) || x->op != HT_X_DIM)
		return;
	kb_take_sizes(k);
	k->stage->dim[x->imm].cut[0] =
		(struct ht_cut){ ht_size_product(pixels, ht_size_number(each)),
			k->stage->dim[x->imm].extent };
}

/* Lines of the copy are as long as the run's. */
static void follow_windows(
	const struct lower *l, const struct ht_node *n, const struct conv *c, struct view *v)
{
	struct ht_size_expr *ends = HT_NEW_ARRAY(l->scratch, struct ht_size_expr, 4);

	for (int i = 0; i < 4; i++)
		ends[i] = i == 1 || i == 2 ? windows_reach(l, n, c, i - 1)
					   : ht_size_number(v->dim[i]);
	if (ht_size_count(&ends[1]) || ht_size_count(&ends[2]))
		v->ends = ends;
}

static struct view padded_copy(struct lower *l, struct ht_node *n, const struct conv *c)
{
	const struct view *in = lower_operand(l, n, 0);
	enum ht_dtype t = ht_type_of(n->in[0])->dtype; /* float16 is widened once, by this copy */
	bool runs = in->stride[3] == 1 && in->stride[2] == c->in.dim[3], inside = runs;
	int64_t dim[4] = { c->in.dim[0], 0, 0, c->in.dim[3] };
	struct kernel_build k;
	struct space s;
	struct view to;

	for (int i = 0; i < 2; i++) {
		dim[1 + i] = (c->w[i].out - 1) * c->w[i].stride +
			     (c->w[i].size - 1) * c->w[i].dilation + 1;
		inside = inside && !window_leaves(&c->w[i]);
	}
	if (inside && !in->open && in->rounds == HT_INVALID)
		return *in;
	view_dense(&to,
		plan_buffer(l, HT_PLAN_TEMP, contract_sums_short(l, n) ? t : local_type(l, t),
			dim[0] * dim[1] * dim[2] * dim[3]),
		(struct ht_shape){ 4, dim });
	follow_windows(l, n, c, &to);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	/* row by row; pixels and channels of a row are one run of memory */
	s = kb_loop_space(&k, 4, dim, 3u);
	conv_cut_copy(&k, n, c, 0, s.group[1].x, 1);
	conv_cut_copy(&k, n, c, 1, s.group[2].x, dim[3]);
	kb_store(&k, &to, &s, runs ? load_run(&k, in, c, &s) : load_pixel(&k, in, c, &s));
	kb_finish(&k, n);
	return to;
}

bool conv_pads_image(const struct ht_node *n)
{
	struct conv v;

	if (!ht_is(n, HT_CONV))
		return false;
	read_conv(n, &v);
	return conv_copies_image(&v) && (window_leaves(&v.w[0]) || window_leaves(&v.w[1]));
}

bool conv_is_simple(const struct conv *v)
{
	return v->groups == 1 && (is_product(v) || conv_copies_image(v));
}

bool conv_is_plain(const struct ht_node *n, struct conv *v)
{
	if (lower_mode(n) != HT_IMPL_NONE || !contract_type(n->out[0].dtype) ||
		!ht_const_tensor(n->in[1]) || ht_shape_count(n->out[0].shape) == 0)
		return false;
	read_conv(n, v);
	return ht_shape_count(v->in) > 0 && ht_shape_count(v->filter) > 0;
}

bool conv_is_project(const struct ht_node *n, struct conv *v)
{
	return ht_is(n, HT_CONV) && conv_is_plain(n, v) && conv_is_simple(v) &&
	       v->filter.dim[0] == 1 && v->filter.dim[1] == 1;
}

void simple_conv(struct lower *l, struct ht_node *n, const struct conv *v, struct simple_conv *s)
{
	struct contraction *c = &s->c;

	s->v = v;
	contract_init(c, l, n, ht_type_of(n->in[0])->dtype);
	c->rows = v->out.dim[0] * v->out.dim[1] * v->out.dim[2];
	c->columns = v->filter.dim[3];
	if (is_product(v)) {
		s->in = *lower_operand(l, n, 0);
		c->a_step = s->in.stride[3];
	} else {
		c->taps = 1;
		c->tap[0] = v->w[0].size;
		s->in = padded_copy(l, n, v);
		if (s->in.buffer == lower_operand(l, n, 0)->buffer) /* it needs no padding */
			s->in = conv_image(c, 0);
	}
	c->depth = v->w[1].size * v->in.dim[3];
	pack_filter(c, n, 1, c->depth * c->columns, c->columns, 1, 1, 0);
}

int32_t simple_conv_row(const struct simple_conv *s, struct kernel_build *k, const int32_t tap[],
	const int32_t pixel[3])
{
	const struct window *w = s->v->w;
	struct ht_xb *b = &k->xb;
	int32_t x[3] = { pixel[0], ht_xmuli(b, pixel[1], w[0].stride) };
	struct space at = { .guard = -1 };

	if (s->c.taps)
		x[1] = ht_xadd(b, x[1], ht_xmuli(b, tap[0], w[0].dilation));
	x[2] = ht_xmuli(b, pixel[2], w[1].stride);
	at = space_of_coords(&at, 3, s->in.dim, x);
	return kb_offset(k, &s->in, &at, s->in.offset);
}

static void emit_few_channels(struct lower *l, struct ht_node *n, const struct conv *v)
{
	struct simple_conv s;
	struct ht_xb *b = &s.c.k.xb;
	struct space at, out;
	int32_t pixel[3];

	simple_conv(l, n, v, &s);
	contract_begin(&s.c);
	at = conv_pixels(&s.c, v->out);
	for (int i = 0; i < 3; i++)
		pixel[i] = space_coord(b, &at, i);
	out = conv_result(&s.c, v->out, s.c.columns);
	contract_end(&s.c, s.in.buffer, simple_conv_row(&s, &s.c.k, s.c.tap_x, pixel), ht_xi(b, 0),
		&out);
}

/* ---- the general case: a tap for each position of the window ---- */

static bool takes_lines(struct contraction *c, const struct conv *v)
{
	struct lines_axis axis[2];

	for (int i = 0; i < 2; i++)
		axis[i] = (struct lines_axis){ .count = v->w[i].out,
			.step = v->w[i].stride,
			.taps = v->w[i].size,
			.each = v->w[i].dilation,
			.phases = 1,
			.shift = -v->w[i].before };
	return c->apart && conv_by_lines(c, 0, v->in, axis);
}

static void emit_taps(struct lower *l, struct ht_node *n, const struct conv *v)
{
	int64_t group_channels = v->filter.dim[3] / v->groups;
	struct contraction c;
	struct space at, out;
	struct ht_xb *b = &c.k.xb;
	struct view in;
	int32_t a_row;

	contract_init(&c, l, n, ht_type_of(n->in[0])->dtype);
	c.batch = v->groups;
	c.rows = v->out.dim[0] * v->out.dim[1] * v->out.dim[2];
	c.columns = group_channels;
	c.depth = v->filter.dim[2];
	c.apart = !is_product(v);
	if (c.apart) {
		c.taps = 2;
		c.tap[0] = v->w[0].size;
		c.tap[1] = v->w[1].size;
	}
	c.a_step = lower_operand(l, n, 0)->stride[3];
	pack_filter(&c, n, 1, c.depth * v->filter.dim[3], v->filter.dim[3], 1, v->groups,
		group_channels);
	if (takes_lines(&c, v))
		return;
	in = conv_image(&c, 0);
	contract_begin(&c);
	at = conv_pixels(&c, v->out);
	if (c.taps) {
		int32_t x[4] = { space_coord(b, &at, 0) };
		struct space from = { .guard = -1 };
		x[3] = ht_xi(b, 0);
		for (int i = 0; i < 2; i++)
			x[1 + i] = window_coord(
				&c.k, &v->w[i], space_coord(b, &at, 1 + i), c.tap_x[i], &from);
		c.a_guard = from.guard;
		from = space_of_coords(&from, 4, v->in.dim, x);
		a_row = kb_offset(&c.k, &in, &from, in.offset);
	} else {
		a_row = kb_offset(&c.k, &in, &at, in.offset);
	}
	a_row = ht_xadd(b, a_row, ht_xmuli(b, c.batch_x, v->filter.dim[2] * in.stride[3]));
	out = conv_result(&c, v->out, group_channels);
	contract_end(&c, in.buffer, a_row, ht_xmuli(b, c.batch_x, c.packed_count), &out);
}

/* ---- types without a register tile: a plain loop ---- */

static void emit_loop_conv(struct lower *l, struct ht_node *n, const struct conv *v)
{
	enum ht_dtype t = compute_type(ht_type_of(n->in[0])->dtype);
	int64_t group_channels = v->filter.dim[3] / (v->groups ? v->groups : 1);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, from, filter;
	int32_t x[4], f[4], product, weight, depth;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, v->out.dim, ~0u);
	k.stage->vec = 3;
	kb_cut_space(&k, &out, ht_out(k.sink, 0));
	from = out;
	for (int i = 0; i < 2; i++) {
		f[i] = ht_xdim(b, kb_reduce_dim(&k, v->w[i].size));
		x[1 + i] = window_coord(&k, &v->w[i], out.group[1 + i].x, f[i], &from);
	}
	depth = ht_xdim(b, kb_reduce_dim(&k, v->filter.dim[2]));
	x[0] = out.group[0].x;
	x[3] = depth;
	if (v->groups > 1)
		x[3] = ht_xadd(b, depth,
			ht_xmuli(b, ht_xdivi(b, out.group[3].x, group_channels), v->filter.dim[2]));
	f[2] = depth;
	f[3] = out.group[3].x;
	from = space_of_coords(&from, 4, v->in.dim, x);
	filter = space_of_coords(&out, 4, v->filter.dim, f);
	weight = kb_load(&k, lower_operand(l, n, 1), &filter);
	product = ht_xmul(b, kb_load(&k, lower_operand(l, n, 0), &from), weight);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, product), &out);
	kb_finish(&k, n);
}

static bool is_loop(const struct ht_node *n, const struct conv *v)
{
	return !contract_type(ht_type_of(n->in[0])->dtype) || ht_shape_count(v->in) == 0 ||
	       ht_shape_count(v->filter) == 0 || ht_is_depthwise(n); /* channels along lanes */
}

static enum ht_status emit_any_conv(struct lower *l, struct ht_node *n)
{
	struct ht_winograd by;
	struct conv v;

	read_conv(n, &v);
	if (is_loop(n, &v)) {
		emit_loop_conv(l, n, &v);
		return HT_OK;
	}
	by = wanted_winograd(l, n, &v);
	if (by.m)
		emit_winograd(l, n, &v, &by);
	else if (conv_has_one_result(l, &v))
		emit_one_result(l, n, &v);
	else if (!conv_copies_image(&v))
		emit_taps(l, n, &v);
	else if (!conv_of_few_channels(l, n, &v))
		emit_few_channels(l, n, &v);
	return HT_OK;
}

static enum ht_status emit_conv(struct lower *l, struct ht_node *n)
{
	struct conv v;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_conv(n, &v);
	contract_round_operands(l, n, is_loop(n, &v) || conv_has_one_result(l, &v));
	return emit_any_conv(l, n);
}

static const char *refuse_conv(const struct ht_node *n)
{
	if (n->op != HT_OP_Conv2D && n->op != HT_OP_DepthwiseConv2dNative)
		return "is to be expanded before lowering";
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC")
		       ? NULL
		       : "has no kernel for this data_format";
}

const struct lower_op lower_conv2d = { .family = FAMILY_ROOT,
	.emit = emit_conv,
	.refuse = refuse_conv,
	.rows = rows_of_image,
	.by_run = true };

/* ---- depthwise: channels along lanes, several pixels side by side so that they share weights ---- */

enum { PIXELS_SIDE_BY_SIDE = 4, MAX_UNROLLED_TAPS = 49 };

static enum ht_status emit_depthwise_loop(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = compute_type(ht_type_of(n->in[0])->dtype);
	struct conv v;
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, from, filter;
	int32_t x[4], f[4], product, weight;
	int64_t multiplier;
	bool rows;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_conv(n, &v);
	multiplier = v.filter.dim[3];
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_window_space(&k, ht_type_of(n->in[0]), v.w, v.out.dim, false, &rows);
	k.stage->vec = 3;
	kb_cut_space(&k, &out, ht_out(k.sink, 0));
	if (!rows && v.out.dim[2] >= PIXELS_SIDE_BY_SIDE)
		k.stage->dim[2].unroll = PIXELS_SIDE_BY_SIDE;
	from = out;
	for (int i = 0; i < 2; i++) {
		int d = kb_reduce_dim(&k, v.w[i].size);
		if (rows ? i == 1 : v.w[0].size * v.w[1].size <= MAX_UNROLLED_TAPS)
			k.stage->dim[d].unroll = (int8_t)v.w[i].size;
		f[i] = ht_xdim(b, d);
		x[1 + i] = window_coord(&k, &v.w[i], out.group[1 + i].x, f[i], &from);
	}
	x[0] = out.group[0].x;
	x[3] = v.in.dim[3] == 1 ? ht_xi(b, 0) : out.group[3].x;
	f[2] = x[3];
	f[3] = v.in.dim[3] == 1 ? out.group[3].x : ht_xi(b, 0);
	if (multiplier > 1 && v.in.dim[3] > 1) {
		x[3] = f[2] = ht_xdivi(b, out.group[3].x, multiplier);
		f[3] = ht_xmodi(b, out.group[3].x, multiplier);
	}
	from = space_of_coords(&from, 4, v.in.dim, x);
	filter = space_of_coords(&out, 4, v.filter.dim, f);
	weight = kb_load(&k, lower_operand(l, n, 1), &filter);
	product = ht_xmul(b, kb_load(&k, lower_operand(l, n, 0), &from), weight);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, product), &out);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_depthwise(struct lower *l, struct ht_node *n)
{
	contract_round_operands(l, n, true);
	return emit_depthwise_loop(l, n);
}

const struct lower_op lower_depthwise = { .family = FAMILY_ROOT,
	.emit = emit_depthwise,
	.refuse = refuse_conv,
	.rows = rows_of_image,
	.by_run = true };
