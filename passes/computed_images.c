/* Images and sequences of open sizes that are resized or mirrored at their ends, for pass sizes: elements are
 * gathered by their places along each axis, which are computed of the sizes.  A convolution between SpaceToBatchND and BatchToSpaceND
 * whose paddings the run computes becomes a dilated one. */
#include "passes/computed_nodes.h"

#include <math.h>
#include <string.h>

/* ---- helpers ---- */

static bool is_open_image(const struct ht_graph *g, const struct ht_node *n)
{
	return n->ins && ht_shape_is_open(g, ht_in_shape(n, 0)) &&
	       is_bounded_shape(g, ht_in_shape(n, 0));
}

/* 0, 1, … below the extent of the result's axis, which the node's operand 1 states as its element `entry`. */
static struct ht_value counted_out(
	struct maker *f, const struct ht_node *n, int32_t axis, int32_t entry)
{
	int64_t to = n->out[0].shape.dim[axis];

	return to >= 0 ? numbers(f, HT_I64, to) : wide(f, range_of(f, element(f, n->in[1], entry)));
}

struct ht_value ht_places_in_source(
	struct maker *f, struct ht_value at, struct ht_value in, struct ht_value out)
{
	at = cast_to(f, at, HT_F64);
	at.node->out[0].shape = open_shape(f, 1);
	if (ht_attr_bool(f->at, "align_corners", false)) {
		struct ht_value less =
			cast_to(f, binary(f, HT_OP_Greater, out, whole(f, HT_I64, 1)), HT_I64);

		in = binary(f, HT_OP_Sub, in, less);
		out = binary(f, HT_OP_Sub, out, less);
	}
	if (ht_attr_bool(f->at, "half_pixel_centers", false))
		at = binary(f, HT_OP_AddV2, at, real(f, HT_F64, .5));
	in = rounded(f, binary(f, HT_OP_RealDiv, cast_to(f, in, HT_F64), cast_to(f, out, HT_F64)));
	return rounded(f, binary(f, HT_OP_Mul, at, in));
}

static struct ht_value within(struct maker *f, struct ht_value at, struct ht_value size)
{
	at = binary(f, HT_OP_Minimum, at, plus(f, size, -1));
	return binary(f, HT_OP_Maximum, at, whole(f, HT_I64, 0));
}

/* ---- resizing ---- */

/* For each place along an axis of the result, the place in the source that it is computed from: over / under, both integers. */
struct fraction {
	struct ht_value over, under;
};

static struct fraction source_of(struct maker *f, const struct ht_node *n, struct ht_value at,
	struct ht_value in, struct ht_value out)
{
	struct fraction x;

	if (ht_attr_bool(n, "align_corners", false)) {
		x.over = binary(f, HT_OP_Mul, at, plus(f, in, -1));
		x.under = plus(f, out, -1);
	} else if (ht_attr_bool(n, "half_pixel_centers", false)) {
		at = plus(f, binary(f, HT_OP_Mul, at, whole(f, HT_I64, 2)), 1);
		x.over = binary(f, HT_OP_Sub, binary(f, HT_OP_Mul, at, in), out);
		x.under = binary(f, HT_OP_Mul, out, whole(f, HT_I64, 2));
	} else {
		x.over = binary(f, HT_OP_Mul, at, in);
		x.under = out;
	}
	x.under = binary(f, HT_OP_Maximum, x.under, whole(f, HT_I64, 1));
	return x;
}

/* Resizes an axis by linear interpolation: at each place of the result the elements below and above the place in the source, weighted by the
 * distance from the one below. */
static struct ht_value resized_axis(
	struct maker *f, const struct ht_node *n, struct ht_value image, int32_t axis)
{
	struct ht_value in = extent(f, n, 0, axis), out = entry_of(f, n->in[1], axis - 1);
	struct fraction x = source_of(f, n, counted_out(f, n, axis, axis - 1), in, out);
	struct ht_value low = binary(f, HT_OP_FloorDiv, x.over, x.under), rest, high, share, a, b;

	rest = binary(f, HT_OP_Sub, x.over, binary(f, HT_OP_Mul, low, x.under));
	high = ht_rw_cast(f->r, f->at, f->at->name,
		binary(f, HT_OP_Greater, rest, whole(f, HT_I64, 0)), HT_I64);
	high = binary(f, HT_OP_AddV2, low, high);
	share = binary(f, HT_OP_RealDiv, cast_to(f, rest, HT_F32), cast_to(f, x.under, HT_F32));
	share = along(f, share, axis, 4);
	a = gathered(f, image, within(f, low, in), axis);
	b = gathered(f, image, within(f, high, in), axis);
	a.node->out[0].shape = b.node->out[0].shape = open_shape(f, 4);
	b = binary(f, HT_OP_Mul, binary(f, HT_OP_Sub, b, a), share);
	return binary(f, HT_OP_AddV2, a, b);
}

/* The place in the source of each of `most` places along an axis that is resized from `in` to `out`, or in this proportion. */
static void nearest(const struct ht_node *n, int64_t in, int64_t out, int64_t most, int64_t *place)
{
	bool align = ht_attr_bool(n, "align_corners", false) && out > 1;
	float scale = align ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
	float first = ht_attr_bool(n, "half_pixel_centers", false) ? .5F : 0;

	for (int64_t i = 0; i < most; i++) {
		float x = ((float)i + first) * scale;

		place[i] = (int64_t)(align ? roundf(x) : floorf(x));
	}
}

/* Whether the places along an axis follow from the proportion of both extents, which is the same in every run. */
static bool has_proportion(
	const struct ht_graph *g, const struct ht_node *n, int64_t from, int64_t to)
{
	const struct ht_size_expr a = ht_dim_of_sizes(g, from), b = ht_dim_of_sizes(g, to);

	if (from >= 0 && to >= 0)
		return true;
	return !ht_attr_bool(n, "align_corners", false) && ht_size_count(&a) == 1 &&
	       ht_size_count(&b) == 1 && a.size[0] == b.size[0] && b.times % a.times == 0;
}

/* The nearest pixel to each place of the result, in a proportion that is the same in every run. */
static struct ht_value nearest_by_table(struct maker *f, const struct ht_node *n, int32_t axis)
{
	int64_t from = ht_dim_most(f->r->g, ht_in_shape(n, 0).dim[axis]);
	int64_t most = ht_dim_most(f->r->g, n->out[0].shape.dim[axis]);
	int64_t *place = HT_NEW_ARRAY(f->r->arena, int64_t, (size_t)most);
	struct ht_value at;

	nearest(n, from, most, most, place);
	at = wholes(f, HT_I64, place, most);
	if (n->out[0].shape.dim[axis] < 0)
		at = gathered(f, at, counted_out(f, n, axis, axis - 1), 0);
	return at;
}

/* The nearest pixel to each place of the result, where the proportion is another one in each run. */
static struct ht_value nearest_in_run(struct maker *f, const struct ht_node *n, int32_t axis)
{
	struct ht_value in = extent(f, n, 0, axis), out = entry_of(f, n->in[1], axis - 1);
	struct ht_value at = ht_places_in_source(f, counted_out(f, n, axis, axis - 1), in, out);

	if (ht_attr_bool(n, "align_corners", false)) /* half away from zero */
		at = binary(f, HT_OP_AddV2, at, real(f, HT_F64, .5));
	return cast_to(f, unary(f, HT_OP_Floor, at), HT_I64);
}

static struct ht_value nearest_axis(
	struct maker *f, const struct ht_node *n, struct ht_value image, int32_t axis)
{
	struct ht_shape s = ht_in_shape(n, 0), to = n->out[0].shape;
	struct ht_value at = has_proportion(f->r->g, n, s.dim[axis], to.dim[axis])
				     ? nearest_by_table(f, n, axis)
				     : nearest_in_run(f, n, axis);

	return gathered(f, image, within(f, at, extent(f, n, 0, axis)), axis);
}

static bool resizes_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), to = n->out[0].shape;

	return s.rank == 4 && to.rank == 4 && is_bounded_shape(g, s) &&
	       (!ht_shape_known(s) || !ht_shape_known(to));
}

static bool expand_resize(struct maker *f, struct ht_node *n)
{
	bool linear = n->op == HT_OP_ResizeBilinear;
	struct ht_value v = n->in[0];

	if (!resizes_open(f->r->g, n))
		return false;
	if (linear)
		v = cast_to(f, v, HT_F32);
	for (int32_t i = 2; i > 0; i--)
		v = linear ? resized_axis(f, n, v, i) : nearest_axis(f, n, v, i);
	ht_rw_take_place(f->r, n, v);
	return true;
}

/* ---- mirrored at the ends ---- */

/* A vector of the numbers from 0 to below size + more, where `size` is computed and `more` is the padding at both ends together. */
static struct ht_value numbers_and(struct maker *f, struct ht_value size, int64_t more)
{
	const int64_t pair[2] = { 0, more }, dim[2] = { 1, 2 };
	struct ht_value in[3] = { range_of(f, size) }, v;

	in[0] = ht_rw_cast(f->r, f->at, f->at->name,
		binary(f, HT_OP_GreaterEqual, in[0], whole(f, HT_I64, 0)), HT_I64);
	in[0].node->out[0].shape = open_shape(f, 1);
	in[1] = reshaped(f, wholes(f, HT_I32, pair, 2), ht_shape_make(f->r->g->arena, 2, dim));
	in[2] = whole(f, HT_I64, 1);
	v = node(f, HT_OP_PadV2, in, 3, HT_I64, open_shape(f, 1));
	in[0] = v;
	in[1] = whole(f, HT_I32, 0);
	v = node(f, HT_OP_Cumsum, in, 2, HT_I64, open_shape(f, 1));
	ht_attr_set_bool(v.node, "exclusive", true);
	return v;
}

static struct ht_value mirrored_axis(struct maker *f, struct ht_value v, struct ht_value size,
	int32_t axis, const int64_t pad[2], int64_t again)
{
	struct ht_value at = plus(f, numbers_and(f, size, pad[0] + pad[1]), -pad[0]), back;

	/* `again` is 1 in mode SYMMETRIC, which repeats the element at the end, and 0 in mode REFLECT. */
	back = binary(f, HT_OP_Sub, whole(f, HT_I64, -again), at);
	at = binary(f, HT_OP_Maximum, at, back);
	/* The run stops where the padding is so large that an element would be mirrored twice. */
	size = unless_below(
		f, size, size, whole(f, HT_I64, (pad[0] > pad[1] ? pad[0] : pad[1]) + 1 - again));
	back = binary(f, HT_OP_Sub,
		plus(f, binary(f, HT_OP_Mul, size, whole(f, HT_I64, 2)), again - 2), at);
	return gathered(f, v, binary(f, HT_OP_Minimum, at, back), axis);
}

static bool expand_mirror(struct maker *f, struct ht_node *n)
{
	bool again = ht_str_is(ht_attr_str(n, "mode", ""), "SYMMETRIC");
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t pad[2 * HT_OPEN_RANK];
	int count;
	struct ht_value v = n->in[0];

	if (!is_open_image(f->r->g, n) ||
		!ht_const_small_ints(n->in[1], pad, 2 * HT_OPEN_RANK, &count) ||
		count != 2 * s.rank)
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		if (pad[2 * i] || pad[2 * i + 1])
			v = mirrored_axis(f, v, extent(f, n, 0, i), i, &pad[2 * i], again);
	if (ht_value_eq(v, n->in[0]))
		return false;
	ht_rw_take_place(f->r, n, v);
	return true;
}

/* ---- dilated convolutions ---- */

/* An element of a tensor of integers, and a constant added to it. */
struct sum {
	struct ht_value of; /* of no node: the constant alone */
	int64_t element, more;
};

static bool is_one_element(const struct ht_node *n, int64_t *i)
{
	int count;

	return n->op == HT_OP_StridedSlice && ht_attr_int(n, "shrink_axis_mask", 0) == 1 &&
	       ht_in_shape(n, 0).rank == 1 && ht_const_small_ints(n->in[1], i, 1, &count) &&
	       count == 1 && *i >= 0;
}

/* Element `i` of a scalar, a vector, or a matrix of rows that Pack makes. */
static struct sum sum_of(struct ht_value v, int64_t i)
{
	struct sum s = { v, i, 0 };

	for (;;) {
		const struct ht_node *n = s.of.node;
		const struct ht_tensor *t = ht_const_tensor(s.of);
		int64_t rows, x;

		if (t && s.element < ht_shape_count(t->shape)) {
			s.more += ht_tensor_int(t, (size_t)s.element);
			s.of.node = NULL;
			return s;
		}
		if (n->op == HT_OP_Identity) {
			s.of = n->in[0];
		} else if (is_one_element(n, &x)) {
			s.of = n->in[0];
			s.element = x;
		} else if (n->op == HT_OP_Pack && ht_attr_int(n, "axis", 0) == 0 &&
			   ht_shape_known(ht_in_shape(n, 0)) &&
			   s.element < n->ins * (rows = ht_shape_count(ht_in_shape(n, 0)))) {
			s.of = n->in[s.element / rows];
			s.element %= rows;
		} else if (n->op == HT_OP_AddV2 && ht_is_const(n->in[0]) &&
			   ht_in_shape(n, 0).rank == ht_in_shape(n, 1).rank) {
			s.more += sum_of(n->in[0], s.element).more;
			s.of = n->in[1];
		} else {
			return s;
		}
	}
}

struct dilation {
	struct ht_node *in, *conv;
	int64_t block[2], pad[4];
	int axes;
};

/* Between the two ops: a convolution that neither moves by more than one nor pads, what makes an image of a sequence, and ops of single
 * elements. */
static bool stays_between(const struct ht_node *n, struct dilation *d)
{
	if (ht_is(n, HT_CONV | HT_DEPTHWISE) && !d->conv) {
		d->conv = (struct ht_node *)(uintptr_t)n;
		return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") &&
		       ht_str_is(ht_attr_str(n, "padding", ""), "VALID");
	}
	return n->op == HT_OP_ExpandDims || n->op == HT_OP_Squeeze || n->op == HT_OP_BiasAdd ||
	       (ht_is(n, HT_ELEMENTWISE) && n->ins == 1);
}

static bool all_ones(const struct maker *f, const struct ht_node *n, const char *name)
{
	size_t count;
	const int64_t *x = ht_attr_ints(n, name, &count, f->r->arena);

	for (size_t i = 0; i < count; i++)
		if (x[i] != 1)
			return false;
	return true;
}

static bool find_between(const struct maker *f, const struct ht_node *n, struct dilation *d)
{
	struct ht_value v = n->in[0];

	while (v.node->op != HT_OP_SpaceToBatchND) {
		if (v.node->controls || !stays_between(v.node, d) || ht_rw_uses(f->r, v) != 1)
			return false;
		v = v.node->in[0];
	}
	d->in = v.node;
	return d->conv && !d->in->controls && ht_rw_uses(f->r, v) == 1 &&
	       all_ones(f, d->conv, "strides") && all_ones(f, d->conv, "dilations");
}

/* Finds the padding of the convolution: what SpaceToBatchND pads at each end of an axis less what BatchToSpaceND crops there. */
static bool find_padding(const struct ht_node *n, struct dilation *d)
{
	for (int64_t i = 0; i < 2 * (int64_t)d->axes; i++) {
		struct sum pad = sum_of(d->in->in[2], i), crop = sum_of(n->in[2], i);

		if (pad.of.node != crop.of.node ||
			(pad.of.node &&
				(pad.of.index != crop.of.index || pad.element != crop.element)))
			return false;
		d->pad[i] = pad.more - crop.more;
		if (d->pad[i] < 0)
			return false;
	}
	return true;
}

static bool is_dilated(const struct maker *f, const struct ht_node *n, struct dilation *d)
{
	int64_t block[2];
	int32_t rank = ht_in_shape(n, 0).rank;

	*d = (struct dilation){ .in = NULL };
	return find_between(f, n, d) && ht_const_small_ints(n->in[1], block, 2, &d->axes) &&
	       ht_const_small_ints(d->in->in[1], d->block, 2, &d->axes) && rank == d->axes + 2 &&
	       block[0] == d->block[0] && (d->axes == 1 || block[1] == d->block[1]) &&
	       find_padding(n, d);
}

static struct ht_value around(struct maker *f, const struct dilation *d)
{
	int32_t rank = d->axes + 2;
	int64_t pair[8] = { 0 };
	const int64_t dim[2] = { rank, 2 };
	enum ht_dtype t = ht_type_of(d->in->in[0])->dtype;
	struct ht_value in[2] = { d->in->in[0] }, v;

	memcpy(pair + 2, d->pad, 2 * (size_t)d->axes * sizeof *pair);
	in[1] = ht_rw_reshape(f->r, d->in, f->at->name,
		ht_rw_const_ints(f->r, d->in, f->at->name, HT_I32, pair, 2 * (int64_t)rank),
		ht_shape_make(f->r->g->arena, 2, dim));
	v = ht_out(ht_rw_node(f->r, d->in, HT_OP_Pad, f->at->name, in, 2,
			   (struct ht_type){ t, open_shape(f, rank) }),
		0);
	return v;
}

static bool expand_dilated(struct maker *f, struct ht_node *n)
{
	struct dilation d;
	int64_t dilations[4] = { 1, 1, 1, 1 };

	if (!is_open_image(f->r->g, n) && ht_shape_known(ht_in_shape(n, 0)))
		return false;
	if (!is_dilated(f, n, &d))
		return false;
	for (int i = 0; i < d.axes; i++)
		dilations[3 - d.axes + i] = d.block[i];
	for (struct ht_node *x = n->in[0].node; x != d.in; x = x->in[0].node)
		x->out[0].shape = open_shape(f, x->out[0].shape.rank);
	ht_attr_set_ints(d.conv, "dilations", dilations, 4);
	ht_rw_replace(f->r, ht_out(d.in, 0), around(f, &d));
	ht_rw_replace_node(f->r, n, n->in[0]);
	return true;
}

/* ---- which nodes these are ---- */

bool ht_expand_image(struct maker *f, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_ResizeBilinear:
	case HT_OP_ResizeNearestNeighbor:
		return expand_resize(f, n);
	case HT_OP_MirrorPad:
		return expand_mirror(f, n);
	case HT_OP_BatchToSpaceND:
		return expand_dilated(f, n);
	default:
		return false;
	}
}

bool ht_is_open_image(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_ResizeBilinear:
	case HT_OP_ResizeNearestNeighbor:
		return resizes_open(g, n);
	case HT_OP_MirrorPad:
		return is_open_image(g, n);
	case HT_OP_CropAndResize:
		return ht_crops_open(g, n);
	case HT_OP_BatchToSpaceND:
		return g->library->sizes && !ht_shape_known(ht_in_shape(n, 0));
	default:
		return false;
	}
}
