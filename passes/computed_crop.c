/* CropAndResize to a size that is open or that the run computes, for pass sizes: the pixels of each box are gathered by their places in the
 * image.  Places are computed in float64 with TensorFlow's roundings to float32, so that no policy rounds them. */
#include "passes/computed_rows.h"

/* The pixels of all boxes along one axis of the image: [boxes, pixels]. */
struct crop_axis {
	struct ht_value low, high, weight,
		near; /* the pixels at both sides, how much the second one counts, the nearest one */
	struct ht_value inside;
};

static struct ht_value pair(struct maker *f, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return of_rank(f, rounded(f, of_rank(f, binary(f, op, a, b), 2)), 2);
}

/* Number `i` of each box: [boxes, 1]. */
static struct ht_value of_boxes(struct maker *f, const struct ht_node *n, int64_t i)
{
	return of_rank(f, cast_to(f, with_axis(f, column(f, n->in[1], i), 1), HT_F64), 2);
}

static struct ht_value as_real(struct maker *f, struct ht_value x)
{
	return cast_to(f, x, HT_F64);
}

/* Where each pixel is along axis `i` of the image, rows or columns. */
static struct ht_value places(
	struct maker *f, const struct ht_node *n, int32_t i, struct ht_value last)
{
	const int64_t to = n->out[0].shape.dim[1 + i];
	struct ht_value one = whole(f, HT_I64, 1), count = entry_of(f, n->in[3], i), at, step,
			first, a = of_boxes(f, n, i), b = of_boxes(f, n, 2 + i), middle;

	if (to == HT_DIM_UNKNOWN)
		count = unless_below(f, count, count, one);
	at = to >= 0 ? numbers(f, HT_I64, to) : of_rank(f, wide(f, range_of(f, count)), 1);
	at = of_rank(f, as_real(f, at), 1);
	step = pair(f, HT_OP_Mul, pair(f, HT_OP_Sub, b, a), last);
	step = pair(f, HT_OP_RealDiv, step,
		as_real(f, binary(f, HT_OP_Maximum, plus(f, count, -1), one)));
	first = pair(f, HT_OP_Mul, a, last);
	middle = pair(f, HT_OP_Mul, pair(f, HT_OP_AddV2, a, b), real(f, HT_F64, .5));
	middle = pair(f, HT_OP_Mul, middle, last);
	return of_rank(f,
		chosen(f, binary(f, HT_OP_Greater, count, one),
			pair(f, HT_OP_AddV2, first, pair(f, HT_OP_Mul, step, at)), middle),
		2);
}

static struct ht_value pixel_at(struct maker *f, struct ht_value place, struct ht_value last)
{
	struct ht_value at = binary(f, HT_OP_Minimum, place, last);

	at = binary(f, HT_OP_Maximum, at, real(f, HT_F64, 0));
	return of_rank(f, cast_to(f, of_rank(f, at, 2), HT_I64), 2);
}

static struct ht_value whole_below(struct maker *f, struct ht_value x)
{
	return of_rank(f, unary(f, HT_OP_Floor, x), 2);
}

static struct crop_axis axis_of(struct maker *f, const struct ht_node *n, int32_t i)
{
	struct ht_value last = as_real(f, plus(f, extent(f, n, 0, 1 + i), -1)),
			zero = real(f, HT_F64, 0), at = places(f, n, i, last), floor, up;
	struct crop_axis c;

	c.inside = both(f, of_rank(f, binary(f, HT_OP_LessEqual, zero, at), 2),
		of_rank(f, binary(f, HT_OP_LessEqual, at, last), 2));
	at = of_rank(f, chosen(f, of_rank(f, c.inside, 2), at, zero), 2);
	floor = whole_below(f, at);
	c.weight = cast_to(f, of_rank(f, difference(f, at, floor), 2), HT_F32);
	up = of_rank(f, unary(f, HT_OP_Ceil, at), 2);
	c.low = pixel_at(f, floor, last);
	c.high = pixel_at(f, up, last);
	c.near = pixel_at(f, whole_below(f, of_rank(f, sum(f, at, real(f, HT_F64, .5)), 2)), last);
	return c;
}

/* A row of pixels behind the number of its box, as [boxes, rows, 1] or [boxes, 1, columns]. */
static struct ht_value spread(struct maker *f, struct ht_value x, int32_t i)
{
	return of_rank(f, with_axis(f, of_rank(f, x, 2), i ? 1 : 2), 3);
}

/* The pixels in float32: [boxes, rows, columns, channels]. */
static struct ht_value pixels(
	struct maker *f, const struct ht_node *n, struct ht_value y, struct ht_value x)
{
	struct ht_value none = whole(f, HT_I64, 0), at[4], box = wide(f, n->in[2]);

	y = spread(f, y, 0);
	x = spread(f, x, 1);
	box = of_rank(f, with_axes(f, box, 2), 3);
	at[1] = of_rank(f, sum(f, y, product(f, x, none)), 3);
	at[2] = of_rank(f, sum(f, x, product(f, y, none)), 3);
	at[0] = of_rank(f, sum(f, box, product(f, at[1], none)), 3);
	for (int i = 0; i < 3; i++)
		at[i] = of_rank(f, with_axis(f, at[i], -1), 4);
	return of_rank(f, cast_to(f, taken_at(f, n->in[0], joined(f, at, 3, 3), 4), HT_F32), 4);
}

static struct ht_value between(
	struct maker *f, struct ht_value low, struct ht_value high, struct ht_value weight)
{
	struct ht_value all = of_rank(f, difference(f, high, low), 4);

	return of_rank(f, sum(f, low, of_rank(f, product(f, all, weight), 4)), 4);
}

static struct ht_value interpolated(
	struct maker *f, const struct ht_node *n, const struct crop_axis c[2])
{
	struct ht_value y = with_axis(f, spread(f, c[0].weight, 0), -1),
			x = with_axis(f, spread(f, c[1].weight, 1), -1);

	return between(f,
		between(f, pixels(f, n, c[0].low, c[1].low), pixels(f, n, c[0].low, c[1].high), x),
		between(f, pixels(f, n, c[0].high, c[1].low), pixels(f, n, c[0].high, c[1].high),
			x),
		y);
}

bool ht_crops_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape to = n->out[0].shape;

	return n->op == HT_OP_CropAndResize && to.rank == 4 && (to.dim[1] < 0 || to.dim[2] < 0) &&
	       ht_in_shape(n, 0).rank == 4 && is_bounded_shape(g, ht_in_shape(n, 0)) &&
	       is_bounded_shape(g, ht_in_shape(n, 1));
}

bool ht_expand_crop(struct maker *f, struct ht_node *n, bool room)
{
	struct ht_shape to = n->out[0].shape;
	struct crop_axis c[2];
	struct ht_value r, inside;

	if (!ht_crops_open(f->r->g, n) ||
		((to.dim[1] == HT_DIM_UNKNOWN || to.dim[2] == HT_DIM_UNKNOWN) && !room))
		return false;
	for (int32_t i = 0; i < 2; i++)
		c[i] = axis_of(f, n, i);
	r = ht_str_is(ht_attr_str(n, "method", "bilinear"), "nearest")
		    ? pixels(f, n, c[0].near, c[1].near)
		    : interpolated(f, n, c);
	inside = both(f, spread(f, c[0].inside, 0), spread(f, c[1].inside, 1));
	inside = of_rank(f, with_axis(f, of_rank(f, inside, 3), -1), 4);
	ht_rw_take_place(f->r, n,
		of_rank(f,
			chosen(f, inside, r,
				real(f, HT_F32,
					(double)ht_attr_float(n, "extrapolation_value", 0))),
			4));
	return true;
}
