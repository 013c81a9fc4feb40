/* Boxes and windows that are cut out of images. */
#include "lower/index.h"
#include "lower/parts.h"

/* ---- CropAndResize ---- */

/* A box along one axis of the image: the coordinates of its ends, as parts of the distance between the first pixel and the last one, and the
 * number of pixels that it becomes. */
struct box_axis {
	int32_t from, to;
	int64_t pixels;
};

/* The coordinate in the image of pixel `x` of the result; `last` is that of the last pixel. */
static int32_t box_position(struct ht_xb *b, const struct box_axis *a, int32_t x, int32_t last)
{
	int32_t step;

	if (a->pixels <= 1)
		return ht_xmul(b, ht_xmul(b, ht_xf(b, .5), ht_xadd(b, a->from, a->to)), last);
	step = ht_xdiv(
		b, ht_xmul(b, ht_xsub(b, a->to, a->from), last), ht_xf(b, (float)(a->pixels - 1)));
	return ht_xadd(b, ht_xmul(b, a->from, last), ht_xmul(b, ht_xcvt(b, HT_F32, x), step));
}

/* Where a pixel of the result is along an axis of the image. */
struct crop_axis {
	int32_t low, high,
		weight; /* the pixels at both sides of it, and how much the second one counts */
	int32_t near;
};

static int32_t clamped(struct ht_xb *b, int32_t x, int64_t high)
{
	return ht_xmax(b, ht_xi(b, 0), ht_xmin(b, ht_xcvt(b, HT_I64, x), ht_xi(b, high)));
}

/* Halves are rounded away from zero. */
static struct crop_axis axis_at(struct ht_xb *b, int32_t position, int64_t extent)
{
	int32_t floor = ht_xfloor(b, position), weight = ht_xsub(b, position, floor);
	int32_t up = ht_xadd(b, floor, ht_xf(b, 1));
	int32_t near = ht_xselect(b, ht_xle(b, ht_xf(b, .5), weight), up, floor);

	return (struct crop_axis){ .low = clamped(b, floor, extent - 1),
		.high = clamped(b, ht_x1(b, HT_X_CEIL, position), extent - 1),
		.weight = weight,
		.near = clamped(b, near, extent - 1) };
}

/* The image of box `box`, which must be one of those that there are. */
static int32_t image_of_box(
	struct kernel_build *k, const struct ht_node *n, const struct space *s, int32_t box)
{
	struct ht_xb *b = &k->xb;
	struct space at = space_of_coords(s, 1, shape_of(n, 2).dim, &box);
	int32_t i, ok;

	kb_only_within(k, n, &at);
	i = ht_xcvt(b, HT_I64, kb_pull(k, n->in[2], &at));
	ok = ht_xand(b, ht_xle(b, ht_xi(b, 0), i), ht_xlt(b, i, ht_xi(b, shape_of(n, 0).dim[0])));
	if (ht_attr_find(n, "_open"))
		ok = ht_xand(b, ok, ht_xlt(b, i, kb_extent(k, n, 0, shape_of(n, 0))));
	return checked_where(k, &at, i, ok);
}

static int32_t number_of_box(struct kernel_build *k, const struct ht_node *n, const struct space *s,
	int32_t box, int64_t number)
{
	int32_t x[2] = { box, ht_xi(&k->xb, number) };
	struct space at = space_of_coords(s, 2, shape_of(n, 1).dim, x);

	return kb_pull(k, n->in[1], &at);
}

static int32_t pixel(struct kernel_build *k, const struct ht_node *n, const struct space *s,
	int32_t image, int32_t y, int32_t x)
{
	int32_t at[4] = { image, y, x, space_coord(&k->xb, s, 3) };

	return ht_xcvt(&k->xb, HT_F32, pull_at(k, n, 0, s, at));
}

static int32_t between(struct ht_xb *b, int32_t low, int32_t high, int32_t weight)
{
	return ht_xadd(b, low, ht_xmul(b, ht_xsub(b, high, low), weight));
}

static int32_t pull_crop(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t box = space_coord(b, s, 0), image = image_of_box(k, n, s, box);
	int32_t inside = ht_xle(
		b, ht_xi(b, 0), image); /* of a single image, nothing else reads the number */
	int32_t r;
	struct crop_axis c[2];

	(void)out;
	for (int i = 0; i < 2; i++) {
		const struct box_axis a = { number_of_box(k, n, s, box, i),
			number_of_box(k, n, s, box, 2 + i), s->dim[1 + i] };
		int32_t last = ht_xaddi(b, kb_extent(k, n, 1 + i, shape_of(n, 0)), -1), at, ok;

		last = ht_xcvt(b, HT_F32, last);
		at = box_position(b, &a, space_coord(b, s, 1 + i), last);
		ok = ht_xand(b, ht_xle(b, ht_xf(b, 0), at), ht_xle(b, at, last));
		inside = ht_xand(b, inside, ok);
		c[i] = axis_at(b, ht_xselect(b, ok, at, ht_xf(b, 0)), shape_of(n, 0).dim[1 + i]);
	}
	if (ht_str_is(ht_attr_str(n, "method", "bilinear"), "nearest"))
		r = pixel(k, n, s, image, c[0].near, c[1].near);
	else
		r = between(b,
			between(b, pixel(k, n, s, image, c[0].low, c[1].low),
				pixel(k, n, s, image, c[0].low, c[1].high), c[1].weight),
			between(b, pixel(k, n, s, image, c[0].high, c[1].low),
				pixel(k, n, s, image, c[0].high, c[1].high), c[1].weight),
			c[0].weight);
	return ht_xselect(b, inside, r, ht_xf(b, ht_attr_float(n, "extrapolation_value", 0)));
}

static const char *refuse_crop(const struct ht_node *n)
{
	struct ht_str method = ht_attr_str(n, "method", "bilinear");

	return ht_str_is(method, "bilinear") || ht_str_is(method, "nearest")
		       ? NULL
		       : "has no kernel for this method";
}

/* Several pixels of the result read an element. */
static bool no_operand(const struct ht_node *n, int arg)
{
	(void)n;
	(void)arg;
	return false;
}

const struct lower_op lower_crop_and_resize = {
	.family = FAMILY_MAP, .pull = pull_crop, .takes = no_operand, .refuse = refuse_crop
};

/* ---- ExtractImagePatches ---- */

static int32_t pull_patches(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	int32_t c = space_coord(b, s, 3), tap, tap_at[2], x[4], value;
	struct space at = *s;
	struct window w[2];

	(void)out;
	read_patch_windows(n, in, n->out[0].shape, w);
	tap = ht_xdivi(b, c, in.dim[3]);
	tap_at[0] = ht_xdivi(b, tap, w[1].size);
	tap_at[1] = ht_xmodi(b, tap, w[1].size);
	x[0] = space_coord(b, s, 0);
	x[3] = ht_xmodi(b, c, in.dim[3]);
	for (int i = 0; i < 2; i++)
		x[1 + i] = window_coord(k, &w[i], space_coord(b, s, 1 + i), tap_at[i], &at);
	at = space_of_coords(&at, 4, in.dim, x);
	value = kb_pull(k, n->in[0], &at);
	if (at.guard < 0)
		return value;
	return ht_xselect(b, at.guard, value, ht_xk(b, compute_type(n->out[0].dtype), 0));
}

const struct lower_op lower_patches = {
	.family = FAMILY_MAP, .pull = pull_patches, .takes = no_operand, .rows = rows_of_image
};
