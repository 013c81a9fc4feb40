/* Images for pass rare: colours, and cubic resizing with its gradient.  Colours are computed in float32 (float64 where images are), and rounded once. */
#include "passes/rare.h"

/* ---- colours ---- */

static enum ht_dtype computed_in(enum ht_dtype t)
{
	return t == HT_F64 ? HT_F64 : HT_F32;
}

struct colour {
	struct ht_value of[3]; /* red, green and blue, or hue, saturation and value */
};

/* The three channels of operand 0. */
static struct colour channels(struct maker *f, enum ht_dtype t)
{
	struct ht_value x = cast_to(f, f->at->in[0], t);
	const struct ht_type all[3] = { { t, HT_SHAPE_UNKNOWN }, { t, HT_SHAPE_UNKNOWN },
		{ t, HT_SHAPE_UNKNOWN } };
	struct colour c;

	for (int64_t i = 0; i < 3; i++) {
		struct ht_value v = gathered(f, x, whole(f, HT_I32, i), -1);

		v.node->out[0] = all[i];
		c.of[i] = v;
	}
	return c;
}

/* Puts the three channels together as an image, which takes the place of the node. */
static void put_channels(struct maker *f, struct colour c)
{
	enum ht_dtype t = ht_type_of(c.of[0])->dtype;
	struct ht_value v = node(f, HT_OP_Pack, c.of, 3, t, HT_SHAPE_UNKNOWN);

	ht_attr_set_int(v.node, "axis", -1);
	v = cast_to(f, v, f->at->out[0].dtype);
	ht_rw_take_place(f->r, f->at, v);
}

static struct ht_value limited(struct maker *f, struct ht_value x)
{
	enum ht_dtype t = ht_type_of(x)->dtype;

	return binary(f, HT_OP_Minimum, binary(f, HT_OP_Maximum, x, real(f, t, 0)), real(f, t, 1));
}

static struct colour hsv_of(struct maker *f, struct colour rgb)
{
	enum ht_dtype t = ht_type_of(rgb.of[0])->dtype;
	struct ht_value r = rgb.of[0], g = rgb.of[1], b = rgb.of[2], zero = real(f, t, 0);
	struct ht_value v = binary(f, HT_OP_Maximum, r, binary(f, HT_OP_Maximum, g, b));
	struct ht_value least = binary(f, HT_OP_Minimum, r, binary(f, HT_OP_Minimum, g, b));
	struct ht_value range = binary(f, HT_OP_Sub, v, least), hue, green, blue, six;
	int32_t rank = ht_in_shape(f->at, 0).rank - 1;
	struct colour hsv;

	six = binary(f, HT_OP_Mul, range, real(f, t, 6));
	hue = binary(f, HT_OP_RealDiv, binary(f, HT_OP_Sub, g, b), six);
	green = binary(f, HT_OP_RealDiv, binary(f, HT_OP_Sub, b, r), six);
	blue = binary(f, HT_OP_RealDiv, binary(f, HT_OP_Sub, r, g), six);
	green = binary(f, HT_OP_AddV2, green, real(f, t, 2. / 6));
	blue = binary(f, HT_OP_AddV2, blue, real(f, t, 4. / 6));
	green = of_rank(f, chosen(f, binary(f, HT_OP_Equal, g, v), green, blue), rank);
	hue = of_rank(f, chosen(f, binary(f, HT_OP_Equal, r, v), hue, green), rank);
	hue = of_rank(f, chosen(f, binary(f, HT_OP_Greater, range, zero), hue, zero), rank);
	hsv.of[0] = of_rank(f,
		chosen(f, binary(f, HT_OP_Less, hue, zero),
			binary(f, HT_OP_AddV2, hue, real(f, t, 1)), hue),
		rank);
	hsv.of[1] = of_rank(f,
		chosen(f, binary(f, HT_OP_Greater, v, zero), binary(f, HT_OP_RealDiv, range, v),
			zero),
		rank);
	hsv.of[2] = v;
	return hsv;
}

/* How much of a channel is left where colours are saturated: `sign` · |6 h - middle| + `more`. */
static struct ht_value share_of(
	struct maker *f, struct ht_value six, double middle, double sign, double more)
{
	enum ht_dtype t = ht_type_of(six)->dtype;
	struct ht_value x = unary(f, HT_OP_Abs, binary(f, HT_OP_Sub, six, real(f, t, middle)));

	x = binary(f, HT_OP_Mul, x, real(f, t, sign));
	return limited(f, binary(f, HT_OP_AddV2, x, real(f, t, more)));
}

static struct colour rgb_of(struct maker *f, struct colour hsv)
{
	enum ht_dtype t = ht_type_of(hsv.of[0])->dtype;
	struct ht_value six = binary(f, HT_OP_Mul, hsv.of[0], real(f, t, 6));
	struct ht_value rest = binary(f, HT_OP_Sub, real(f, t, 1), hsv.of[1]);
	struct colour rgb = { { share_of(f, six, 3, 1, -1), share_of(f, six, 2, -1, 2),
		share_of(f, six, 4, -1, 2) } };

	for (int i = 0; i < 3; i++) {
		rgb.of[i] = binary(f, HT_OP_Mul, rgb.of[i], hsv.of[1]);
		rgb.of[i] =
			binary(f, HT_OP_Mul, binary(f, HT_OP_AddV2, rest, rgb.of[i]), hsv.of[2]);
	}
	return rgb;
}

void ht_rare_to_hsv(struct maker *f)
{
	put_channels(f, hsv_of(f, channels(f, computed_in(f->at->out[0].dtype))));
}

void ht_rare_to_rgb(struct maker *f)
{
	put_channels(f, rgb_of(f, channels(f, computed_in(f->at->out[0].dtype))));
}

void ht_rare_saturation(struct maker *f)
{
	struct colour c = hsv_of(f, channels(f, HT_F32));

	c.of[1] = limited(f, binary(f, HT_OP_Mul, c.of[1], f->at->in[1]));
	put_channels(f, rgb_of(f, c));
}

void ht_rare_hue(struct maker *f)
{
	struct colour c = hsv_of(f, channels(f, HT_F32));
	struct ht_value h = binary(f, HT_OP_AddV2, c.of[0], f->at->in[1]);

	c.of[0] = binary(f, HT_OP_Sub, h, unary(f, HT_OP_Floor, h));
	put_channels(f, rgb_of(f, c));
}

/* The distance from the mean of an image's channel is multiplied. */
void ht_rare_contrast(struct maker *f)
{
	const int64_t axes[2] = { -3, -2 };
	struct ht_value x = cast_to(f, f->at->in[0], HT_F32), mean;

	mean = ht_rw_reduce(f->r, f->at, HT_OP_Mean, f->at->name, x, axes, 2, true);
	x = binary(f, HT_OP_Mul, binary(f, HT_OP_Sub, x, mean), f->at->in[1]);
	ht_rw_take_place(
		f->r, f->at, cast_to(f, binary(f, HT_OP_AddV2, x, mean), f->at->out[0].dtype));
}

/* ---- cubic resizing ---- */

enum { PIXELS = 4, STEPS = 1024 /* TensorFlow rounds the distance to a pixel to so many */ };

/* The position in the source of each place along an axis of the result: an integer, and the distance from it, in float64. */
static struct ht_value positions(
	struct maker *f, struct ht_value in, struct ht_value out, struct ht_value *distance)
{
	struct ht_value at = ht_places_in_source(f, range_of(f, out), in, out), low;

	if (ht_attr_bool(f->at, "half_pixel_centers", false))
		at = rounded(f, binary(f, HT_OP_Sub, at, real(f, HT_F64, .5)));
	low = unary(f, HT_OP_Floor, at);
	at = binary(f, HT_OP_Mul, binary(f, HT_OP_Sub, at, low), real(f, HT_F64, STEPS));
	*distance = binary(f, HT_OP_Mul, unary(f, HT_OP_Rint, at), real(f, HT_F64, 1. / STEPS));
	return cast_to(f, low, HT_I64);
}

/* A polynomial of the third degree. */
static struct ht_value cubic(struct maker *f, struct ht_value x, const double k[4])
{
	struct ht_value v = real(f, HT_F64, k[3]);

	for (int i = 2; i >= 0; i--)
		v = binary(f, HT_OP_AddV2, binary(f, HT_OP_Mul, x, v), real(f, HT_F64, k[i]));
	return v;
}

/* The weight of pixel `i` of four, where the position is behind pixel 1 by the distance: a cubic convolution (Keys), whose parameter is -½ for half-pixel centres. */
static struct ht_value weight_of(struct maker *f, struct ht_value distance, int i)
{
	double a = ht_attr_bool(f->at, "half_pixel_centers", false) ? -.5 : -.75;
	const double near[4] = { 1, 0, -(a + 3), a + 2 }, far[4] = { -4 * a, 8 * a, -5 * a, a };
	struct ht_value x = distance;

	if (i > 1)
		x = binary(f, HT_OP_Sub, real(f, HT_F64, 1), x);
	if (i == 0 || i == 3)
		x = binary(f, HT_OP_AddV2, x, real(f, HT_F64, 1));
	return cubic(f, x, i == 0 || i == 3 ? far : near);
}

/* With half-pixel centres, pixels that are not in the image have no weight, and the others have 1 together. */
static void leave_out(
	struct maker *f, struct ht_value *weight, const struct ht_value *at, struct ht_value in)
{
	struct ht_value all = real(f, HT_F64, 0);

	for (int i = 0; i < PIXELS; i++) {
		struct ht_value inside = binary(f, HT_OP_LogicalAnd,
			binary(f, HT_OP_GreaterEqual, at[i], whole(f, HT_I64, 0)),
			binary(f, HT_OP_Less, at[i], in));

		weight[i] = of_rank(f, chosen(f, inside, weight[i], real(f, HT_F64, 0)), 1);
		all = binary(f, HT_OP_AddV2, all, weight[i]);
	}
	for (int i = 0; i < PIXELS; i++)
		weight[i] = binary(f, HT_OP_RealDiv, weight[i], all);
}

/* For each place along an axis that is resized from `in` to `out`, the four pixels of the source, which are in the image, and their weights. */
struct cubic {
	struct ht_value weight[PIXELS], place[PIXELS];
};

static struct cubic cubic_of(struct maker *f, struct ht_value in, struct ht_value out)
{
	struct ht_value low, distance, at[PIXELS];
	struct cubic c;

	low = positions(f, in, out, &distance);
	for (int i = 0; i < PIXELS; i++) {
		c.weight[i] = weight_of(f, distance, i);
		at[i] = plus(f, low, i - 1);
	}
	if (ht_attr_bool(f->at, "half_pixel_centers", false))
		leave_out(f, c.weight, at, in);
	for (int i = 0; i < PIXELS; i++)
		c.place[i] = binary(f, HT_OP_Maximum,
			binary(f, HT_OP_Minimum, at[i], plus(f, in, -1)), whole(f, HT_I64, 0));
	return c;
}

static struct ht_value cubic_axis(struct maker *f, struct ht_value image, int32_t axis)
{
	struct ht_value in = extent_of_operand(f, 0, 4, axis),
			out = entry_of(f, f->at->in[1], axis - 1);
	struct cubic c = cubic_of(f, in, out);
	struct ht_value sum = { 0 };

	for (int i = 0; i < PIXELS; i++) {
		struct ht_value w = along(f, cast_to(f, c.weight[i], HT_F32), axis, 4);
		struct ht_value pixel = gathered(f, image, c.place[i], axis);

		pixel.node->out[0].shape = open_shape(f, 4);
		pixel = binary(f, HT_OP_Mul, pixel, w);
		sum = i ? binary(f, HT_OP_AddV2, sum, pixel) : pixel;
	}
	return sum;
}

void ht_rare_cubic(struct maker *f)
{
	struct ht_value v = cast_to(f, f->at->in[0], HT_F32);

	if (ht_in_shape(f->at, 0).rank != 4)
		return;
	for (int32_t i = 1; i < 3; i++)
		v = cubic_axis(f, v, i);
	ht_rw_take_place(f->r, f->at, v);
}

/* Two axes of a tensor of rank 4 change their places. */
static struct ht_value exchanged(struct maker *f, struct ht_value v, int32_t axis)
{
	int64_t order[4] = { 0, 1, 2, 3 };

	order[0] = axis;
	order[axis] = 0;
	v = permuted(f, v, order);
	v.node->out[0].shape = open_shape(f, 4);
	return v;
}

/* Every pixel of the source adds up what it gave to the places that were computed from it. */
static struct ht_value cubic_gradient_axis(struct maker *f, struct ht_value v, int32_t axis)
{
	struct ht_value in = extent_of_operand(f, 1, 4, axis),
			out = extent_of_operand(f, 0, 4, axis), sum = { 0 };
	struct cubic c = cubic_of(f, in, out);
	enum ht_dtype t = ht_type_of(v)->dtype;

	v = exchanged(f, v, axis);
	for (int i = 0; i < PIXELS; i++) {
		struct ht_value w = along(f, cast_to(f, c.weight[i], t), 0, 4), args[3];

		args[0] = binary(f, HT_OP_Mul, v, w);
		args[0].node->out[0].shape = open_shape(f, 4);
		args[1] = c.place[i];
		args[2] = in;
		w = node(f, HT_OP_UnsortedSegmentSum, args, 3, t, open_shape(f, 4));
		sum = i ? binary(f, HT_OP_AddV2, sum, w) : w;
		sum.node->out[0].shape = open_shape(f, 4);
	}
	return exchanged(f, sum, axis);
}

void ht_rare_cubic_gradient(struct maker *f)
{
	struct ht_value v = f->at->in[0];

	if (ht_in_shape(f->at, 0).rank != 4 || ht_in_shape(f->at, 1).rank != 4)
		return;
	v = cast_to(f, v, f->at->out[0].dtype == HT_F64 ? HT_F64 : HT_F32);
	for (int32_t i = 1; i < 3; i++)
		v = cubic_gradient_axis(f, v, i);
	ht_rw_take_place(f->r, f->at, cast_to(f, v, f->at->out[0].dtype));
}
