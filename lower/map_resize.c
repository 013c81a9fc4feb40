/* Resizing of images, with TensorFlow's arithmetic for positions. */
#include "lower/index.h"
#include "lower/parts.h"

/* Size of a source pixel in target pixels, as TensorFlow computes it, in F32. */
static float resize_scale(const struct ht_node *n, int64_t in, int64_t out)
{
	if (ht_attr_bool(n, "align_corners", false) && out > 1)
		return (float)(in - 1) / (float)(out - 1);
	return (float)in / (float)out;
}

static int32_t source_position(
	struct kernel_build *k, const struct ht_node *n, int32_t c, int64_t in, int64_t out)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xcvt(b, HT_F32, c), scale = ht_xf(b, resize_scale(n, in, out));

	if (!ht_attr_bool(n, "half_pixel_centers", false))
		return ht_xmul(b, x, scale);
	x = ht_xmul(b, ht_xadd(b, x, ht_xf(b, .5)), scale);
	return n->op == HT_OP_ResizeBilinear ? ht_xsub(b, x, ht_xf(b, .5)) : x;
}

static int32_t clamp(struct ht_xb *b, int32_t x, int64_t high)
{
	return ht_xmax(b, ht_xi(b, 0), ht_xmin(b, x, ht_xi(b, high)));
}

static int32_t pull_nearest(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	enum ht_xop round = ht_attr_bool(n, "align_corners", false) ? HT_X_END : HT_X_FLOOR;
	int32_t x[4];

	x[0] = space_coord(b, s, 0);
	x[3] = space_coord(b, s, 3);
	for (int32_t i = 1; i < 3; i++) {
		int32_t p = source_position(k, n, space_coord(b, s, i), in.dim[i], s->dim[i]);
		/* align_corners rounds half away from zero; positions are not negative */
		p = round == HT_X_END ? ht_xfloor(b, ht_xadd(b, p, ht_xf(b, .5)))
				      : ht_x1(b, round, p);
		x[i] = clamp(b, ht_xcvt(b, HT_I64, p), in.dim[i] - 1);
	}
	return pull_at(k, n, 0, s, x);
}

/* low + (high - low) * weight in x, then in y. */
static int32_t pull_bilinear(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	int32_t low[4], high[4], weight[4], row[2];

	for (int32_t i = 1; i < 3; i++) {
		int32_t p = source_position(k, n, space_coord(b, s, i), in.dim[i], s->dim[i]);
		int32_t f = ht_xfloor(b, p), i64 = ht_xcvt(b, HT_I64, f);
		weight[i] = ht_xsub(b, p, f);
		low[i] = clamp(b, i64, in.dim[i] - 1);
		high[i] = clamp(b, ht_xaddi(b, i64, 1), in.dim[i] - 1);
	}
	for (int y = 0; y < 2; y++) {
		int32_t x[4] = { space_coord(b, s, 0), y ? high[1] : low[1], low[2],
			space_coord(b, s, 3) },
			left, right;
		left = ht_xcvt(b, HT_F32, pull_at(k, n, 0, s, x));
		x[2] = high[2];
		right = ht_xcvt(b, HT_F32, pull_at(k, n, 0, s, x));
		row[y] = ht_xadd(b, left, ht_xmul(b, ht_xsub(b, right, left), weight[2]));
	}
	return ht_xadd(b, row[0], ht_xmul(b, ht_xsub(b, row[1], row[0]), weight[1]));
}

static int32_t pull_resize(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return n->op == HT_OP_ResizeBilinear ? pull_bilinear(k, n, s) : pull_nearest(k, n, s);
}

/* Bilinear resizing takes each element up to four times: only what is in memory. */
static bool resize_takes(const struct ht_node *n, int arg)
{
	(void)arg;
	return n->op != HT_OP_ResizeBilinear;
}

const struct lower_op lower_resize = {
	.family = FAMILY_MAP, .pull = pull_resize, .takes = resize_takes, .rows = rows_of_image
};
