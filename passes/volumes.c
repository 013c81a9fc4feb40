/* volumes: writes convolutions and pooling over three spatial axes, and their gradients, as ops over images, whose kernels they share.
 *
 * The image of a convolution has an image for each depth of the result: the depths under its window, side by side as channels.  The filter's
 * depths become channels, too, so there is one product with one rounding.  Its gradient by the image is such a transposed convolution of
 * depths of the gradient, for each phase of the stride along the depth.  Pooling goes over rows and columns first, and then over depths.
 *
 * With groups, the channels of the images are ordered by group first: within one group, the channels of all its depths stand side by side.
 *
 * Runs after the precision pass, since a policy decides on each of them as one op.  Left alone: unknown shapes. */
#include "passes/maker.h"

#include <string.h>

enum { RANK = 5, SPATIAL = 3 };

/* One op being written.  Shapes and lists are those of NDHWC. */
struct volume {
	struct maker m;
	struct ht_node *n; /* the op; all nodes are made in front of it */
	bool channels_first;
	int64_t stride[SPATIAL], dilation[SPATIAL], size[SPATIAL]; /* of the window */
};

static const int64_t to_last[] = { 0, 2, 3, 4, 1 }, to_first[] = { 0, 4, 1, 2, 3 };

/* ---- nodes ---- */

static struct ht_shape shape(const struct volume *v, int32_t rank, const int64_t *dim)
{
	return ht_shape_make(v->m.r->g->arena, rank, dim);
}

/* The depths of a volume as images. */
static struct ht_value as_images(struct volume *v, const char *name, struct ht_value x)
{
	const int64_t *d = ht_type_of(x)->shape.dim;

	return reshaped(
		part(&v->m, name), x, shape(v, 4, (int64_t[]){ d[0] * d[1], d[2], d[3], d[4] }));
}

/* The extent that operand `arg` has, or of it the channels last. */
static struct ht_shape last_shape(const struct volume *v, struct ht_shape s, int64_t dim[RANK])
{
	for (int i = 0; i < RANK; i++)
		dim[i] = s.dim[v->channels_first ? to_last[i] : i];
	return (struct ht_shape){ RANK, dim };
}

static struct ht_value volume_of(struct volume *v, const char *name, int32_t arg)
{
	struct ht_value x = v->n->in[arg];

	return v->channels_first ? permuted(part(&v->m, name), x, to_last) : x;
}

/* Between two stages tensors of 16 bits are float32, so that there is one rounding. */
static struct ht_value wide_volume_of(struct volume *v, const char *name, int32_t arg)
{
	struct ht_value x = volume_of(v, name, arg);
	bool low = ht_is_low(ht_type_of(x)->dtype);

	return low ? cast_to(part(&v->m, "wide"), x, HT_F32) : x;
}

static void become_volume(struct volume *v, struct ht_value x)
{
	enum ht_dtype t = v->n->out[0].dtype;

	if (ht_type_of(x)->dtype != t)
		x = cast_to(part(&v->m, "rounded"), x, t);
	if (v->channels_first)
		x = permuted(part(&v->m, "ncdhw"), x, to_first);
	ht_rw_replace_node(v->m.r, v->n, x);
}

/* Every `step`th index along an axis, `count` of them from `from` on. */
static struct ht_value every(struct volume *v, struct ht_value x, int32_t axis, int64_t from,
	int64_t count, int64_t step)
{
	struct ht_type t = *ht_type_of(x);
	int64_t dim[RANK], begin[RANK] = { 0 }, end[RANK], steps[RANK];
	struct ht_value in[4] = { x };

	for (int32_t i = 0; i < t.shape.rank; i++) {
		end[i] = dim[i] = t.shape.dim[i];
		steps[i] = 1;
	}
	if (!from && count == dim[axis] && step == 1)
		return x;
	begin[axis] = from;
	end[axis] = from + (count - 1) * step + 1;
	steps[axis] = step;
	dim[axis] = count;
	in[1] = wholes(part(&v->m, "begin"), HT_I32, begin, t.shape.rank);
	in[2] = wholes(part(&v->m, "end"), HT_I32, end, t.shape.rank);
	in[3] = wholes(part(&v->m, "steps"), HT_I32, steps, t.shape.rank);
	return made(part(&v->m, "depths"), HT_OP_StridedSlice, in, 4, shape(v, t.shape.rank, dim));
}

/* `x` with zeros around its depths. */
static struct ht_value padded(struct volume *v, struct ht_value x, int64_t before, int64_t after)
{
	struct ht_type t = *ht_type_of(x);
	const int64_t around[2 * RANK] = { 0, 0, before, after };
	int64_t dim[RANK];
	struct ht_value in[2] = { x };

	if (!before && !after)
		return x;
	memcpy(dim, t.shape.dim, sizeof dim);
	dim[1] += before + after;
	in[1] = wholes(part(&v->m, "around"), HT_I32, around, sizeof around / sizeof *around);
	in[1] = reshaped(part(&v->m, "paddings"), in[1], shape(v, 2, (int64_t[]){ RANK, 2 }));
	return made(part(&v->m, "padded"), HT_OP_Pad, in, 2, shape(v, RANK, dim));
}

/* Depths of a volume that a tap of the window sees: `count` of them, every `step`th from `from` on, which may be outside. */
struct seen {
	const int64_t *from; /* by tap */
	int64_t taps, count, step;
};

/* Channels of depths that lie side by side, in the order of groups: a group has its channels of all depths. */
static struct ht_value by_group(struct volume *v, struct ht_value x, int64_t taps, int64_t groups)
{
	static const int64_t groups_outside[] = { 0, 1, 2, 4, 3, 5 };
	const int64_t *d = ht_type_of(x)->shape.dim;
	const int64_t apart[] = { d[0], d[1], d[2], taps, groups, d[3] / taps / groups };

	if (taps == 1 || groups == 1)
		return x;
	x = reshaped(part(&v->m, "taps"), x, shape(v, sizeof apart / sizeof *apart, apart));
	x = permuted(part(&v->m, "groups"), x, groups_outside);
	return reshaped(part(&v->m, "groups"), x, shape(v, 4, d));
}

/* Images of the depths that the taps see, side by side as channels, which are in so many groups; zeros outside. */
static struct ht_value side_by_side(
	struct volume *v, struct ht_value x, struct seen s, int64_t groups)
{
	struct ht_type t = *ht_type_of(x);
	const int64_t *d = t.shape.dim, reach = (s.count - 1) * s.step + 1;
	int64_t before = 0, after = 0, dim[RANK] = { d[0], s.count, d[2], d[3], d[4] * s.taps };
	struct ht_value *in = HT_NEW_ARRAY(v->m.r->arena, struct ht_value, (size_t)s.taps + 1), y;

	for (int64_t i = 0; i < s.taps; i++) {
		before = -s.from[i] > before ? -s.from[i] : before;
		after = s.from[i] + reach - d[1] > after ? s.from[i] + reach - d[1] : after;
	}
	x = padded(v, x, before, after);
	for (int64_t i = 0; i < s.taps; i++)
		in[i] = every(v, x, 1, s.from[i] + before, s.count, s.step);
	y = in[0];
	if (s.taps > 1) {
		in[s.taps] = whole(part(&v->m, "axis"), HT_I32, RANK - 1);
		y = made(part(&v->m, "seen"), HT_OP_ConcatV2, in, (int32_t)s.taps + 1,
			shape(v, RANK, dim));
	}
	return by_group(v, as_images(v, "images", y), s.taps, groups);
}

/* ---- attributes ---- */

static void set_lists(const struct volume *v, struct ht_node *n, bool dilates)
{
	const int64_t *s = v->stride, *d = v->dilation;

	ht_attr_set_ints(n, "strides", (int64_t[]){ 1, s[1], s[2], 1 }, 4);
	if (dilates)
		ht_attr_set_ints(n, "dilations", (int64_t[]){ 1, d[1], d[2], 1 }, 4);
	ht_rw_copy_attr(n, v->n, "padding");
	ht_attr_set_str(n, "data_format", HT_STR("NHWC"));
}

/* The spatial entries of a list of five; ones without it. */
static bool read_list(const struct volume *v, const char *name, int64_t out[SPATIAL])
{
	size_t count;
	int64_t *x = ht_attr_ints(v->n, name, &count, v->m.r->arena);

	for (int i = 0; i < SPATIAL; i++)
		out[i] = 1;
	if (!x)
		return true;
	for (int i = 0; count == RANK && i < SPATIAL; i++)
		out[i] = x[1 + v->channels_first + i];
	return count == RANK;
}

/* How far the window of the first result along the depth begins before the volume. */
static int64_t depth_before(const struct volume *v, int64_t depth, int64_t results)
{
	int64_t all = (results - 1) * v->stride[0] + (v->size[0] - 1) * v->dilation[0] + 1 - depth;

	return ht_str_is(ht_attr_str(v->n, "padding", ""), "SAME") && all > 0 ? all / 2 : 0;
}

/* ---- convolutions ---- */

/* The images that a convolution sees, of a volume of which it makes so many depths. */
static struct ht_value seen_images(
	struct volume *v, struct ht_value x, int64_t results, int64_t groups)
{
	int64_t before = depth_before(v, ht_type_of(x)->shape.dim[1], results);
	int64_t *from = HT_NEW_ARRAY(v->m.r->arena, int64_t, (size_t)v->size[0]);

	for (int64_t i = 0; i < v->size[0]; i++)
		from[i] = i * v->dilation[0] - before;
	return side_by_side(v, x, (struct seen){ from, v->size[0], results, v->stride[0] }, groups);
}

static int64_t groups_of(struct ht_shape image, struct ht_shape filter)
{
	return image.dim[RANK - 1] / filter.dim[RANK - 2];
}

static void write_conv(struct volume *v)
{
	static const int64_t depth_inside[] = { 1, 2, 0, 3, 4 };
	int64_t dim[RANK], out[RANK];
	struct ht_shape x = last_shape(v, ht_type_of(v->n->in[0])->shape, dim),
			f = ht_type_of(v->n->in[1])->shape;
	struct ht_value in[2], y;

	last_shape(v, v->n->out[0].shape, out);
	in[0] = seen_images(v, volume_of(v, "ndhwc", 0), out[1], groups_of(x, f));
	in[1] = permuted(part(&v->m, "filter"), v->n->in[1], depth_inside);
	in[1] = reshaped(part(&v->m, "filter"), in[1],
		shape(v, 4, (int64_t[]){ f.dim[1], f.dim[2], f.dim[0] * f.dim[3], f.dim[4] }));
	y = made(part(&v->m, "product"), HT_OP_Conv2D, in, 2,
		shape(v, 4, (int64_t[]){ out[0] * out[1], out[2], out[3], out[4] }));
	set_lists(v, y.node, true);
	become_volume(v, reshaped(part(&v->m, "volume"), y, shape(v, RANK, out)));
}

/* Operands: the volume, sizes of the filter, gradient of the result. */
static void write_filter_gradient(struct volume *v)
{
	static const int64_t depth_outside[] = { 2, 0, 1, 3, 4 };
	const int64_t *f = v->n->out[0].shape.dim;
	const int64_t filter[] = { f[1], f[2], f[0] * f[3], f[4] };
	struct ht_value dy = volume_of(v, "gradient/ndhwc", 2), in[3], y;
	int64_t dim[RANK];
	struct ht_shape x = last_shape(v, ht_type_of(v->n->in[0])->shape, dim);

	in[0] = seen_images(v, volume_of(v, "ndhwc", 0), ht_type_of(dy)->shape.dim[1],
		groups_of(x, v->n->out[0].shape));
	in[1] = wholes(part(&v->m, "sizes"), HT_I32, filter, 4);
	in[2] = as_images(v, "gradient", dy);
	y = made(part(&v->m, "product"), HT_OP_Conv2DBackpropFilter, in, 3, shape(v, 4, filter));
	set_lists(v, y.node, true);
	y = reshaped(part(&v->m, "depths"), y,
		shape(v, RANK, (int64_t[]){ f[1], f[2], f[0], f[3], f[4] }));
	ht_rw_replace_node(v->m.r, v->n, permuted(part(&v->m, "filter"), y, depth_outside));
}

/* ---- the gradient by the volume ---- */

/* A phase of the stride along the depth: which taps reach the depths phase + stride * j, and where they begin in the gradient. */
struct phase {
	int64_t first, step, taps; /* of the filter */
	int64_t *from;             /* by tap */
};

static struct phase phase_of(struct volume *v, int64_t phase, int64_t before)
{
	struct phase p = { .from = HT_NEW_ARRAY(v->m.r->arena, int64_t, (size_t)v->size[0]) };

	for (int64_t i = 0; i < v->size[0]; i++) {
		int64_t at = phase + before - i * v->dilation[0];

		if (at % v->stride[0])
			continue;
		if (!p.taps)
			p.first = i;
		p.step = p.taps == 1 ? i - p.first : p.taps ? p.step : 1;
		p.from[p.taps++] = at / v->stride[0];
	}
	return p;
}

static struct ht_value zeros(struct volume *v, int32_t rank, const int64_t *dim)
{
	enum ht_dtype t = v->n->out[0].dtype;
	const struct ht_value in[] = { wholes(part(&v->m, "shape"), HT_I32, dim, rank),
		whole(part(&v->m, "zero"), t, 0) };

	return made(part(&v->m, "zeros"), HT_OP_Fill, in, 2, shape(v, rank, dim));
}

/* `count` depths of the gradient by a volume of shape `to`, as images. */
static struct ht_value phase_images(struct volume *v, struct ht_value dy, const struct phase *p,
	int64_t count, const int64_t to[RANK])
{
	static const int64_t depth_inside[] = { 1, 2, 3, 0, 4 };
	const int64_t *f = ht_type_of(v->n->in[1])->shape.dim;
	const int64_t images[] = { to[0] * count, to[2], to[3], to[4] }, groups = to[4] / f[3];
	struct ht_value in[3], y;

	if (!p->taps)
		return zeros(v, 4, images);
	in[0] = wholes(part(&v->m, "sizes"), HT_I32, images, 4);
	in[1] = every(v, v->n->in[1], 0, p->first, p->taps, p->step);
	in[1] = permuted(part(&v->m, "filter"), in[1], depth_inside);
	in[1] = reshaped(part(&v->m, "filter"), in[1],
		shape(v, 4, (int64_t[]){ f[1], f[2], f[3], p->taps * f[4] }));
	in[1] = by_group(v, in[1], p->taps, groups);
	in[2] = side_by_side(v, dy, (struct seen){ p->from, p->taps, count, 1 }, groups);
	y = made(part(&v->m, "product"), HT_OP_Conv2DBackpropInput, in, 3, shape(v, 4, images));
	set_lists(v, y.node, true);
	return y;
}

/* Operands: sizes of the volume, the filter, gradient of the result. */
static void write_volume_gradient(struct volume *v)
{
	int64_t to[RANK], phases, count, before, rank = RANK + 1;
	struct ht_value dy, *in, y;

	last_shape(v, v->n->out[0].shape, to);
	/* A stride above the depth has phases without a depth. */
	phases = v->stride[0] < to[1] ? v->stride[0] : to[1];
	in = HT_NEW_ARRAY(v->m.r->arena, struct ht_value, (size_t)phases);
	dy = volume_of(v, "ndhwc", 2);
	before = depth_before(v, to[1], ht_type_of(dy)->shape.dim[1]);
	count = ht_ceil_div(to[1], v->stride[0]);
	for (int64_t i = 0; i < phases; i++) {
		struct phase p = phase_of(v, i, before);

		in[i] = reshaped(part(&v->m, "phase"), phase_images(v, dy, &p, count, to),
			shape(v, RANK, (int64_t[]){ to[0], count, to[2], to[3], to[4] }));
	}
	y = in[0];
	if (phases > 1) {
		const int64_t pack[] = { to[0], count, phases, to[2], to[3], to[4] };

		y = made(part(&v->m, "phases"), HT_OP_Pack, in, (int32_t)phases,
			shape(v, (int32_t)rank, pack));
		ht_attr_set_int(y.node, "axis", 2);
		y = reshaped(part(&v->m, "volume"), y,
			shape(v, RANK, (int64_t[]){ to[0], count * phases, to[2], to[3], to[4] }));
	}
	become_volume(v, every(v, y, 1, 0, to[1], 1));
}

/* ---- pooling ---- */

/* Images in which windows move along rows and columns, and images in which they move along depths, that lie side by side as rows. */
struct stage {
	int64_t size[2], stride[2];
};

static void set_stage(const struct volume *v, struct ht_node *n, const struct stage *s)
{
	ht_attr_set_ints(n, "ksize", (int64_t[]){ 1, s->size[0], s->size[1], 1 }, 4);
	ht_attr_set_ints(n, "strides", (int64_t[]){ 1, s->stride[0], s->stride[1], 1 }, 4);
	ht_rw_copy_attr(n, v->n, "padding");
	ht_attr_set_str(n, "data_format", HT_STR("NHWC"));
}

static struct stage of_images(const struct volume *v)
{
	return (struct stage){ { v->size[1], v->size[2] }, { v->stride[1], v->stride[2] } };
}

static struct stage of_depths(const struct volume *v)
{
	return (struct stage){ { v->size[0], 1 }, { v->stride[0], 1 } };
}

static struct ht_value pooled(struct volume *v, enum ht_op op, const char *name, struct ht_value x,
	struct stage s, const int64_t out[4])
{
	struct ht_value y = made(part(&v->m, name), op, &x, 1, shape(v, 4, out));

	set_stage(v, y.node, &s);
	return y;
}

/* The volume `x`, pooled within images, of which the result has the rows and columns. */
static struct ht_value pooled_images(
	struct volume *v, enum ht_op op, struct ht_value x, const int64_t out[RANK])
{
	const int64_t *d = ht_type_of(x)->shape.dim;

	return pooled(v, op, "within_images", as_images(v, "images", x), of_images(v),
		(int64_t[]){ d[0] * d[1], out[2], out[3], d[4] });
}

/* `x` with all rows and columns of a depth as one row, of `depths` depths. */
static struct ht_value as_depths(struct volume *v, const char *name, struct ht_value x,
	const int64_t out[RANK], int64_t depths)
{
	return reshaped(part(&v->m, name), x,
		shape(v, 4, (int64_t[]){ out[0], depths, out[2] * out[3], out[4] }));
}

static void write_pool(struct volume *v, enum ht_op op)
{
	struct ht_value x = (op == HT_OP_AvgPool ? wide_volume_of : volume_of)(v, "ndhwc", 0), y;
	int64_t out[RANK], depth = ht_type_of(x)->shape.dim[1];

	last_shape(v, v->n->out[0].shape, out);
	y = as_depths(v, "depths", pooled_images(v, op, x, out), out, depth);
	y = pooled(v, op, "along_depths", y, of_depths(v),
		(int64_t[]){ out[0], out[1], out[2] * out[3], out[4] });
	become_volume(v, reshaped(part(&v->m, "volume"), y, shape(v, RANK, out)));
}

/* Operands: the volume, the result, the gradient of the result, which every maximum of a window gets. */
static void write_max_gradient(struct volume *v)
{
	struct ht_value x = wide_volume_of(v, "ndhwc", 0), y = wide_volume_of(v, "result/ndhwc", 1),
			dy = wide_volume_of(v, "gradient/ndhwc", 2), in[3], first;
	const int64_t *to = ht_type_of(x)->shape.dim, *out = ht_type_of(y)->shape.dim;
	struct stage along = of_depths(v), within = of_images(v);

	first = pooled_images(v, HT_OP_MaxPool, x, out);
	in[0] = as_depths(v, "depths", first, out, to[1]);
	in[1] = as_depths(v, "result", y, out, out[1]);
	in[2] = as_depths(v, "gradient", dy, out, out[1]);
	dy = made(part(&v->m, "along_depths"), HT_OP_MaxPoolGrad, in, 3, ht_type_of(in[0])->shape);
	set_stage(v, dy.node, &along);
	ht_attr_set_bool(dy.node, "_ties", true);
	in[0] = as_images(v, "images", x);
	in[1] = first;
	in[2] = reshaped(part(&v->m, "gradient"), dy, shape(v, 4, ht_type_of(first)->shape.dim));
	dy = made(part(&v->m, "within_images"), HT_OP_MaxPoolGrad, in, 3, ht_type_of(in[0])->shape);
	set_stage(v, dy.node, &within);
	ht_attr_set_bool(dy.node, "_ties", true);
	become_volume(v, reshaped(part(&v->m, "volume"), dy, shape(v, RANK, to)));
}

static struct ht_value mean_gradient(
	struct volume *v, const char *name, struct ht_value dy, struct stage s, const int64_t to[4])
{
	const struct ht_value in[] = { wholes(part(&v->m, "sizes"), HT_I32, to, 4), dy };

	dy = made(part(&v->m, name), HT_OP_AvgPoolGrad, in, 2, shape(v, 4, to));
	set_stage(v, dy.node, &s);
	return dy;
}

/* Operands: sizes of the volume, the gradient of the result. */
static void write_mean_gradient(struct volume *v)
{
	struct ht_value dy = wide_volume_of(v, "ndhwc", 1);
	const int64_t *out = ht_type_of(dy)->shape.dim;
	int64_t to[RANK];

	last_shape(v, v->n->out[0].shape, to);
	dy = mean_gradient(v, "along_depths", as_depths(v, "gradient", dy, out, out[1]),
		of_depths(v), (int64_t[]){ out[0], to[1], out[2] * out[3], out[4] });
	dy = reshaped(part(&v->m, "gradient"), dy,
		shape(v, 4, (int64_t[]){ out[0] * to[1], out[2], out[3], out[4] }));
	dy = mean_gradient(v, "within_images", dy, of_images(v),
		(int64_t[]){ to[0] * to[1], to[2], to[3], to[4] });
	become_volume(v, reshaped(part(&v->m, "volume"), dy, shape(v, RANK, to)));
}

/* ---- all ---- */

/* Whether all tensors with a volume or a filter are known and have elements. */
static bool are_known(const struct ht_node *n)
{
	struct ht_shape s = n->out[0].shape;

	if (s.rank != RANK || ht_shape_count(s) <= 0)
		return false;
	for (int32_t i = 0; i < n->ins; i++) {
		s = ht_type_of(n->in[i])->shape;
		if (s.rank != 1 && (s.rank != RANK || ht_shape_count(s) <= 0))
			return false;
	}
	return true;
}

static bool begin(struct volume *v, const char *window)
{
	v->channels_first = ht_channels_first(v->n);
	if (!are_known(v->n) || !read_list(v, "strides", v->stride) ||
		!read_list(v, "dilations", v->dilation))
		return false;
	return !window || read_list(v, window, v->size);
}

static void use_filter(struct volume *v, struct ht_shape filter)
{
	memcpy(v->size, filter.dim, sizeof v->size);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct volume v = { .m = { .r = r, .at = n, .name = n->name }, .n = n };

	switch (n->op) {
	case HT_OP_Conv3D:
		if (!begin(&v, NULL))
			return;
		use_filter(&v, ht_type_of(n->in[1])->shape);
		write_conv(&v);
		return;
	case HT_OP_Conv3DBackpropInputV2:
		if (!begin(&v, NULL))
			return;
		use_filter(&v, ht_type_of(n->in[1])->shape);
		write_volume_gradient(&v);
		return;
	case HT_OP_Conv3DBackpropFilterV2:
		if (!begin(&v, NULL))
			return;
		use_filter(&v, n->out[0].shape);
		write_filter_gradient(&v);
		return;
	case HT_OP_MaxPool3D:
		if (begin(&v, "ksize"))
			write_pool(&v, HT_OP_MaxPool);
		return;
	case HT_OP_AvgPool3D:
		if (begin(&v, "ksize"))
			write_pool(&v, HT_OP_AvgPool);
		return;
	case HT_OP_MaxPool3DGrad:
		if (begin(&v, "ksize"))
			write_max_gradient(&v);
		return;
	case HT_OP_AvgPool3DGrad:
		if (begin(&v, "ksize"))
			write_mean_gradient(&v);
		return;
	default:
		return;
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_volumes = {
	.name = "volumes",
	.summary = "writes ops over three spatial axes as ops over images",
	.run = run,
};
