/* Resizing of images and its gradients, with TensorFlow's arithmetic for positions. */
#include "lower/parts.h"
#include "lower/scatter.h"

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
	return n->op == HT_OP_ResizeBilinear || n->op == HT_OP_ResizeBilinearGrad
		       ? ht_xsub(b, x, ht_xf(b, .5))
		       : x;
}

static int32_t clamp(struct ht_xb *b, int32_t x, int64_t high)
{
	return ht_xmax(b, ht_xi(b, 0), ht_xmin(b, x, ht_xi(b, high)));
}

/* The pixel nearest to coordinate `c` of a resized image. */
static int32_t nearest_pixel(
	struct kernel_build *k, const struct ht_node *n, int32_t c, int64_t in, int64_t out)
{
	struct ht_xb *b = &k->xb;
	int32_t p = source_position(k, n, c, in, out);

	/* align_corners rounds half away from zero; positions are not negative */
	if (ht_attr_bool(n, "align_corners", false))
		p = ht_xadd(b, p, ht_xf(b, .5));
	return clamp(b, ht_xcvt(b, HT_I64, ht_xfloor(b, p)), in - 1);
}

static int32_t pull_nearest(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	int32_t x[4];

	x[0] = space_coord(b, s, 0);
	x[3] = space_coord(b, s, 3);
	for (int32_t i = 1; i < 3; i++)
		x[i] = nearest_pixel(k, n, space_coord(b, s, i), in.dim[i], s->dim[i]);
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

/* Bilinear resizing reads each element up to four times, so an operand is inlined only if it is
 * in memory. */
static bool resize_takes(const struct ht_node *n, int arg)
{
	(void)arg;
	return n->op != HT_OP_ResizeBilinear;
}

const struct lower_op lower_resize = {
	.family = FAMILY_MAP, .pull = pull_resize, .takes = resize_takes, .rows = rows_of_image
};

/* ---- gradients: each pixel's gradient is added to the pixels that it was interpolated from
 * ---- */

enum { COLUMNS = 64 };

/* Coordinate x of the gradient along dimension i: pixel `tap` of the two that were interpolated.
 * *share is multiplied by that pixel's weight. */
static int32_t linear_pixel(struct kernel_build *k, const struct ht_node *n, int32_t i, int32_t x,
	int32_t tap, int32_t *share)
{
	struct ht_xb *b = &k->xb;
	int64_t last = n->out[0].shape.dim[i] - 1;
	int32_t p = source_position(k, n, x, last + 1, shape_of(n, 0).dim[i]);
	int32_t low = ht_xfloor(b, p), far = ht_xsub(b, p, low);
	int32_t below = ht_xmax(b, ht_xcvt(b, HT_I64, low), ht_xi(b, 0));
	int32_t above = ht_xmin(b, ht_xcvt(b, HT_I64, ht_x1(b, HT_X_CEIL, p)), ht_xi(b, last));
	int32_t first = ht_xeq(b, tap, ht_xi(b, 0));

	*share = ht_xmul(b, *share, ht_xselect(b, first, ht_xsub(b, ht_xf(b, 1), far), far));
	return ht_xselect(b, first, below, above);
}

/* Each tile has one image and some of the channels, and visits them pixel by pixel. */
static void add_shares(struct lower *l, struct ht_node *n, const struct view *sums)
{
	struct ht_shape from = shape_of(n, 0), to = n->out[0].shape;
	const bool linear = n->op == HT_OP_ResizeBilinearGrad;
	const int64_t grid[2] = { from.dim[0], ht_ceil_div(from.dim[3], COLUMNS) };
	enum ht_dtype t = compute_type(n->out[0].dtype);
	struct space s = { .rank = 4, .groups = 4, .guard = -1 }, at;
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	int32_t tap = -1, x[4], share;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	kb_grid(&k, 2, grid);
	k.stage->sequential = true;
	x[0] = ht_xdim(b, kb_grid_dim(&k, 0, from.dim[0], 1));
	x[1] = ht_xdim(b, kb_dim(&k, from.dim[1]));
	x[2] = ht_xdim(b, kb_dim(&k, from.dim[2]));
	if (linear)
		tap = ht_xdim(b, kb_dim(&k, 4));
	k.stage->vec = kb_grid_dim(&k, 1, from.dim[3], COLUMNS);
	x[3] = ht_xdim(b, k.stage->vec);
	s = space_of_coords(&s, 4, from.dim, x);
	share = kb_pull_arg(&k, n, 0, &s);
	for (int32_t i = 1; i < 3; i++)
		x[i] = linear ? linear_pixel(&k, n, i, x[i],
					i == 1 ? ht_xdivi(b, tap, 2) : ht_xmodi(b, tap, 2), &share)
			      : nearest_pixel(&k, n, x[i], to.dim[i], from.dim[i]);
	at = space_of_coords(&s, 4, to.dim, x);
	kb_store(&k, sums, &at, ht_xadd(b, kb_load(&k, sums, &at), ht_xcvt(b, t, share)));
	kb_finish(&k, n);
}

static enum ht_status emit_resize_gradient(struct lower *l, struct ht_node *n)
{
	struct view sums;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	sums = scatter_zeros(l, n);
	if (ht_shape_count(shape_of(n, 0)))
		add_shares(l, n, &sums);
	scatter_round(l, n, &sums);
	return HT_OK;
}

const struct lower_op lower_resize_gradient = {
	.family = FAMILY_ROOT, .alone = true, .emit = emit_resize_gradient
};
