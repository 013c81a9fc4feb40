/* Windows over axes whose extents the run computes, with strides or paddings, for pass sizes.  All that windows of the largest image see is
 * gathered, neutral elements where the run's image has none; so the window has no padding, and constant extents.  Of its results those that
 * the run has are gathered.  Transposed convolutions likewise. */
#include "passes/computed_nodes.h"

#include <math.h>

/* A window along one axis of an image. */
struct slide {
	int64_t size, stride, spread; /* spread: how far its positions are apart */
	int64_t before, after;        /* paddings, where they are stated */
	bool same;                    /* the paddings follow from the extent */
	int64_t extent;               /* of the image; -1: open */
	bool computed;                /* the run computes how many results there are */
	int64_t most, results;        /* the extent of the largest image, and the results it has */
	/* Where it does, and of means that divide by the elements of the image: */
	struct ht_value length;   /* the extent of the image */
	struct ht_value count;    /* the results */
	struct ht_value in_front; /* the padding in front */
};

static int64_t reach(const struct slide *a)
{
	return (a->size - 1) * a->spread + 1;
}

static int64_t padding_of_same(const struct slide *a, int64_t extent)
{
	int64_t results = ht_ceil_div(extent, a->stride);
	int64_t all = (results - 1) * a->stride + reach(a) - extent;

	return all > 0 ? all : 0;
}

/* ---- which windows these are ---- */

static bool is_window(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Conv2D:
	case HT_OP_DepthwiseConv2dNative:
	case HT_OP_MaxPool:
	case HT_OP_AvgPool:
	case HT_OP_ExtractImagePatches:
		return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");
	default:
		return false;
	}
}

static bool is_computed(const struct ht_graph *g, const struct ht_node *n, int32_t axis)
{
	return ht_dim_is_open(g, ht_in_shape(n, 0).dim[axis]) &&
	       n->out[0].shape.dim[axis] == HT_DIM_UNKNOWN;
}

static bool is_open_window(const struct ht_graph *g, const struct ht_node *n)
{
	return is_window(n) && ht_in_shape(n, 0).rank == 4 && n->out[0].shape.rank == 4 &&
	       is_bounded_shape(g, ht_in_shape(n, 0));
}

static bool slides_open(const struct ht_graph *g, const struct ht_node *n)
{
	return is_open_window(g, n) && (is_computed(g, n, 1) || is_computed(g, n, 2));
}

/* Whether height or width is an axis that a reshape joined of several open ones: its neighbours are those of the run, so it has to be one of a
 * single size. */
static bool slides_joined(const struct ht_graph *g, const struct ht_node *n)
{
	for (int32_t i = 1; i < 3 && is_open_window(g, n); i++) {
		const struct ht_size_expr e = ht_dim_of_sizes(g, ht_in_shape(n, 0).dim[i]);

		if (ht_in_shape(n, 0).dim[i] < 0 && ht_size_count(&e) > 1)
			return true;
	}
	return false;
}

/* Number `i` of a list; 1 if the node has none. */
static int64_t listed(struct maker *f, const struct ht_node *n, const char *name, size_t i)
{
	size_t count;
	const int64_t *x = ht_attr_ints(n, name, &count, f->r->arena);

	return x && i < count ? x[i] : 1;
}

static int64_t size_of_window(struct maker *f, const struct ht_node *n, int32_t axis)
{
	if (n->ins > 1)
		return ht_in_shape(n, 1).rank == 4 ? ht_in_shape(n, 1).dim[axis - 1] : -1;
	return listed(f, n, n->op == HT_OP_ExtractImagePatches ? "ksizes" : "ksize", (size_t)axis);
}

static bool is_moderate(int64_t x, int64_t least)
{
	return x >= least && x <= MOST_COUNT;
}

/* False also if what the windows see of the largest image, paddings included, would need much memory. */
static bool read_slide(struct maker *f, const struct ht_node *n, int32_t axis, struct slide *a)
{
	struct ht_str padding = ht_attr_str(n, "padding", "VALID");
	size_t i = (size_t)axis;

	*a = (struct slide){ .size = size_of_window(f, n, axis),
		.stride = listed(f, n, "strides", i),
		.spread =
			listed(f, n, n->op == HT_OP_ExtractImagePatches ? "rates" : "dilations", i),
		.same = ht_str_is(padding, "SAME"),
		.extent = ht_in_shape(n, 0).dim[axis],
		.computed = is_computed(f->r->g, n, axis),
		.most = ht_dim_most(f->r->g, ht_in_shape(n, 0).dim[axis]) };
	if (ht_str_is(padding, "EXPLICIT")) {
		a->before = listed(f, n, "explicit_paddings", 2 * i);
		a->after = listed(f, n, "explicit_paddings", 2 * i + 1);
	}
	if (!is_moderate(a->size, 1) || !is_moderate(a->stride, 1) || !is_moderate(a->spread, 1) ||
		!is_moderate(a->before, 0) || !is_moderate(a->after, 0))
		return false;
	if (a->extent >= 0 && a->same) {
		a->before = padding_of_same(a, a->extent) / 2;
		a->after = padding_of_same(a, a->extent) - a->before;
	}
	/* Paddings beside an open extent that is none of the run's: all is computed. */
	a->computed = a->computed || (a->extent < 0 && (a->same || a->before || a->after));
	a->results =
		a->same ? ht_ceil_div(a->most, a->stride)
			: ht_floor_div(a->most + a->before + a->after - reach(a), a->stride) + 1;
	return a->results > 0 && is_moderate((a->results - 1) * a->stride + reach(a), 1);
}

/* ---- the image ---- */

static struct ht_value divided(struct maker *f, struct ht_value x, int64_t by)
{
	return by == 1 ? x : binary(f, HT_OP_FloorDiv, x, whole(f, HT_I64, by));
}

static struct ht_value times(struct maker *f, struct ht_value x, int64_t by)
{
	return by == 1 ? x : binary(f, HT_OP_Mul, x, whole(f, HT_I64, by));
}

/* Half of what `all`, the extent that the windows need, is above `extent`. */
static struct ht_value half_above(struct maker *f, struct ht_value all, struct ht_value extent)
{
	all = binary(f, HT_OP_Sub, all, extent);
	return divided(f, binary(f, HT_OP_Maximum, all, whole(f, HT_I64, 0)), 2);
}

static void count_results(struct maker *f, const struct ht_node *n, int32_t axis, struct slide *a)
{
	struct ht_value all;

	a->length = extent(f, n, 0, axis);
	if (!a->computed) {
		a->count = whole(f, HT_I64, a->results);
		a->in_front = whole(f, HT_I64, a->before);
		return;
	}
	if (a->same) {
		a->count = divided(f, plus(f, a->length, a->stride - 1), a->stride);
		a->in_front = half_above(
			f, plus(f, times(f, a->count, a->stride), reach(a) - a->stride), a->length);
		return;
	}
	/* As in TensorFlow, the run goes on with no results where less than a stride is missing for the first one. */
	all = plus(f, a->length, a->before + a->after - reach(a) + a->stride);
	a->count = divided(f, binary(f, HT_OP_Maximum, all, whole(f, HT_I64, 0)), a->stride);
	a->count = unless_below(f, a->count, all, whole(f, HT_I64, 1 - a->stride));
	a->in_front = whole(f, HT_I64, a->before);
}

/* What counts for nothing under the window. */
static struct ht_value neutral(struct maker *f, const struct ht_node *n, enum ht_dtype t)
{
	if (n->op == HT_OP_MaxPool)
		return real(f, t, -INFINITY);
	return ht_is_float(t) ? real(f, t, 0) : whole(f, t, 0);
}

static struct ht_value padded_by(struct maker *f, struct ht_value x, int32_t axis, int64_t before,
	int64_t after, struct ht_value with)
{
	int64_t pair[8] = { 0 };
	const int64_t dim[2] = { 4, 2 };
	enum ht_dtype t = ht_type_of(x)->dtype;
	struct ht_value in[3] = { x, { 0 }, with };

	if (!before && !after)
		return x;
	pair[2 * axis] = before;
	pair[2 * axis + 1] = after;
	in[1] = reshaped(f, wholes(f, HT_I32, pair, 8), ht_shape_make(f->r->g->arena, 2, dim));
	return node(f, HT_OP_PadV2, in, 3, t, open_shape(f, 4));
}

static struct ht_value taken(struct maker *f, struct ht_value x, struct ht_value at, int32_t axis)
{
	at.node->out[0].shape = open_shape(f, 1);
	x = gathered(f, x, at, axis);
	x.node->out[0].shape = open_shape(f, 4);
	return x;
}

/* The image as its windows see it.  Where they look beyond the image of the run, they find a neutral element, which is put in front of it. */
static struct ht_value image_of(struct maker *f, const struct ht_node *n, struct ht_value x,
	int32_t axis, const struct slide *a)
{
	struct ht_value zero, at, inside;

	if (!a->computed && !a->before && !a->after)
		return x;
	zero = neutral(f, n, ht_type_of(x)->dtype);
	if (!a->computed)
		return padded_by(f, x, axis, a->before, a->after, zero);
	at = numbers(f, HT_I64, (a->results - 1) * a->stride + reach(a));
	at = binary(f, HT_OP_Sub, at, a->in_front);
	inside = binary(f, HT_OP_LogicalAnd, binary(f, HT_OP_GreaterEqual, at, whole(f, HT_I64, 0)),
		binary(f, HT_OP_Less, at, a->length));
	inside = cast_to(f, inside, HT_I64);
	at = binary(f, HT_OP_Mul, plus(f, at, 1), inside);
	return taken(f, padded_by(f, x, axis, 1, 0, zero), at, axis);
}

/* ---- the window ---- */

static struct ht_value window_inside(struct maker *f, const struct ht_node *n, struct ht_value x)
{
	static const char *const attr[] = { "T", "strides", "dilations", "ksize", "ksizes", "rates",
		"data_format" };
	struct ht_value in[2] = { x };
	struct ht_value v;

	if (n->ins > 1)
		in[1] = n->in[1];
	v = node(f, n->op, in, n->ins, n->out[0].dtype, open_shape(f, 4));
	for (size_t i = 0; i < HT_COUNT(attr); i++)
		ht_rw_copy_attr(v.node, n, attr[i]);
	ht_attr_set_str(v.node, "padding", HT_STR("VALID"));
	return v;
}

/* Whether windows along this axis have fewer elements of the image than positions. */
static bool has_fewer_elements(const struct ht_node *n, const struct slide *a)
{
	return n->op == HT_OP_AvgPool && a->same && (a->computed || a->before || a->after);
}

/* Means over windows divide by the number of elements of the image: `x` divides by all positions. */
static struct ht_value by_elements(
	struct maker *f, struct ht_value x, int32_t axis, const struct slide *a)
{
	enum ht_dtype t = ht_type_of(x)->dtype;
	struct ht_value at = range_of(f, a->count), from, to;

	from = binary(f, HT_OP_Sub, times(f, at, a->stride), a->in_front);
	to = binary(f, HT_OP_Minimum, plus(f, from, a->size), a->length);
	to = binary(f, HT_OP_Sub, to, binary(f, HT_OP_Maximum, from, whole(f, HT_I64, 0)));
	from = real(f, HT_F32, (double)a->size);
	to = binary(f, HT_OP_RealDiv, from, cast_to(f, to, HT_F32));
	if (t != HT_F32)
		to = cast_to(f, to, t);
	x = binary(f, HT_OP_Mul, x, along(f, to, axis, 4));
	x.node->out[0].shape = open_shape(f, 4);
	return x;
}

static bool reads_all(struct maker *f, const struct ht_node *n, struct slide a[3])
{
	enum ht_dtype t = ht_type_of(n->in[0])->dtype;

	if (n->op == HT_OP_MaxPool && !ht_is_float(t))
		return false;
	for (int32_t i = 1; i < 3; i++)
		if (!read_slide(f, n, i, &a[i]))
			return false;
	return true;
}

static bool expand_window(struct maker *f, struct ht_node *n)
{
	struct ht_value x;
	struct slide a[3];

	if (slides_joined(f->r->g, n)) /* when the types are known again */
		return ht_flatten(f, n, 0, 1) || ht_flatten(f, n, 0, 2);
	if (!slides_open(f->r->g, n) || !reads_all(f, n, a))
		return false;
	x = n->in[0];
	for (int32_t i = 1; i < 3; i++)
		if (a[i].computed && ht_flatten(f, n, 0, i))
			return true; /* when the types are known again */
	for (int32_t i = 1; i < 3; i++) {
		if (a[i].computed || has_fewer_elements(n, &a[i]))
			count_results(f, n, i, &a[i]);
		x = image_of(f, n, x, i, &a[i]);
	}
	x = window_inside(f, n, x);
	for (int32_t i = 1; i < 3; i++) {
		if (a[i].computed && (!a[i].same || a[i].stride > 1))
			a[i].count =
				size_of(f, ht_bounded_range(f, a[i].count, a[i].results), HT_I64);
		if (a[i].computed)
			x = taken(f, x, range_of(f, a[i].count), i);
		if (has_fewer_elements(n, &a[i]))
			x = by_elements(f, x, i, &a[i]);
	}
	ht_rw_take_place(f->r, n, x);
	return true;
}

/* ---- transposed convolutions ---- */

/* Whether the extents of the result follow from those of the image otherwise than by the stride alone (ht_open_unwindow()). */
static bool is_irregular(
	const struct ht_graph *g, const struct ht_node *n, int32_t axis, int64_t stride)
{
	int64_t dim = ht_in_shape(n, 2).dim[axis], to = n->out[0].shape.dim[axis];
	const struct ht_size_expr a = ht_dim_of_sizes(g, dim), b = ht_dim_of_sizes(g, to);

	if (!ht_dim_is_open(g, dim))
		return false;
	return to >= 0 || ht_size_count(&a) != 1 || ht_size_count(&b) != 1 ||
	       a.size[0] != b.size[0] || b.times != a.times * stride;
}

static bool is_transposed(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape f = n->ins == 3 ? ht_in_shape(n, 1) : HT_SHAPE_UNKNOWN;

	return n->op == HT_OP_Conv2DBackpropInput &&
	       ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") &&
	       !ht_str_is(ht_attr_str(n, "padding", ""), "EXPLICIT") && ht_shape_known(f) &&
	       ht_in_shape(n, 2).rank == 4 && n->out[0].shape.rank == 4 &&
	       is_bounded_shape(g, ht_in_shape(n, 2)) && ht_in_shape(n, 0).rank == 1 &&
	       (ht_in_shape(n, 0).dim[0] == 4 || n->in[0].node->op == HT_OP_Pack);
}

static bool is_open_transposed(const struct ht_graph *g, const struct ht_node *n)
{
	return is_transposed(g, n) && !ht_shape_known(ht_in_shape(n, 2));
}

/* A transposed convolution along one axis: so many rows of zeros come in front of the image and behind it; then the result is as often as
 * large as the stride says, and has in it the one that is asked for. */
struct unslide {
	int64_t size, stride, first, front, behind;
	struct ht_value in, out; /* extents */
};

static void read_unslide(struct maker *f, const struct ht_node *n, int32_t axis, struct unslide *a)
{
	a->size = ht_in_shape(n, 1).dim[axis - 1];
	a->stride = listed(f, n, "strides", (size_t)axis);
	a->first = a->size > a->stride ? (a->size - a->stride) / 2 : 0;
	a->front = ht_ceil_div(a->first, a->stride);
	a->behind = ht_ceil_div(a->size + a->stride, a->stride);
	a->in = extent(f, n, 2, axis);
	a->out = entry_of(f, n->in[0], axis);
}

/* 0; the run stops where the extents do not fit together. */
static struct ht_value fits(struct maker *f, const struct unslide *a, bool same)
{
	struct ht_value of = plus(f, a->out, same ? a->stride - 1 : a->stride - a->size);

	return check_equal(f, divided(f, of, a->stride), a->in);
}

/* The places of the result in the larger one. */
static struct ht_value places(
	struct maker *f, const struct ht_node *n, int32_t axis, const struct unslide *a, bool same)
{
	int64_t to = n->out[0].shape.dim[axis],
		most = ht_dim_most(f->r->g, ht_in_shape(n, 2).dim[axis]);
	struct ht_value at, from = whole(f, HT_I64, a->front * a->stride - a->first);

	if (to >= 0)
		at = numbers(f, HT_I64, to);
	else if (to == HT_DIM_UNKNOWN)
		at = ht_bounded_range(f, a->out, most * a->stride + a->size);
	else
		at = wide(f, range_of(f, element(f, n->in[0], axis)));
	if (same)
		from = binary(f, HT_OP_AddV2, from,
			half_above(f, plus(f, times(f, a->in, a->stride), a->size - a->stride),
				a->out));
	from = binary(f, HT_OP_AddV2, from, fits(f, a, same));
	return binary(f, HT_OP_AddV2, at, from);
}

static bool expand_transposed(struct maker *f, struct ht_node *n)
{
	static const char *const attr[] = { "T", "strides", "data_format" };
	const bool same = ht_str_is(ht_attr_str(n, "padding", ""), "SAME");
	const enum ht_dtype t = n->outs ? n->out[0].dtype : HT_INVALID;
	struct ht_value x, in[3], size[4], v;
	struct unslide a[3];
	bool some = false;

	if (!is_open_transposed(f->r->g, n))
		return false;
	for (int32_t i = 1; i < 3; i++) {
		if (listed(f, n, "dilations", (size_t)i) != 1)
			return false;
		some = some || is_irregular(f->r->g, n, i, listed(f, n, "strides", (size_t)i));
	}
	if (!some)
		return false;
	x = n->in[2];
	for (int32_t i = 1; i < 3; i++) {
		read_unslide(f, n, i, &a[i]);
		x = padded_by(f, x, i, a[i].front, a[i].behind, real(f, t, 0));
	}
	v = shape_of(f, x, HT_I64);
	size[0] = element(f, v, 0);
	for (int32_t i = 1; i < 3; i++)
		size[i] = times(f, element(f, v, i), a[i].stride);
	size[3] = whole(f, HT_I64,
		n->out[0].shape.dim[3] >= 0 ? n->out[0].shape.dim[3] : ht_in_shape(n, 1).dim[2]);
	for (int32_t i = 0; i < 4; i++)
		size[i] = cast_to(f, size[i], HT_I32);
	in[0] = packed(f, size, 4);
	in[1] = n->in[1];
	in[2] = x;
	v = node(f, n->op, in, 3, t, open_shape(f, 4));
	for (size_t i = 0; i < HT_COUNT(attr); i++)
		ht_rw_copy_attr(v.node, n, attr[i]);
	ht_attr_set_str(v.node, "padding", HT_STR("SAME"));
	for (int32_t i = 1; i < 3; i++)
		v = taken(f, v, places(f, n, i, &a[i], same), i);
	ht_rw_take_place(f->r, n, v);
	return true;
}

/* ---- every node ---- */

bool ht_expand_windows(struct maker *f, struct ht_node *n)
{
	return expand_window(f, n) || expand_transposed(f, n);
}

bool ht_slides_open(const struct ht_graph *g, const struct ht_node *n)
{
	return slides_open(g, n) || slides_joined(g, n) || is_open_transposed(g, n);
}
