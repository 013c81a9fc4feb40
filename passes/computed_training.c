/* Batch normalisation of training, and its gradients, where the batch or other axes are open, for pass sizes: elementary ops, with the number
 * of elements of a channel as the run has it.  Pass training writes those of known shapes. */
#include "passes/computed_nodes.h"

/* One op being written. */
struct normal {
	struct forms *f;
	struct ht_node *n;
	int32_t rank, axis;    /* of the images, and the channels' */
	struct ht_value count; /* elements of a channel */
};

static struct ht_value pair(struct normal *w, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return node(w->f, op, (struct ht_value[]){ a, b }, 2, HT_F32, HT_SHAPE_UNKNOWN);
}

static struct ht_value single(struct normal *w, enum ht_op op, struct ht_value a)
{
	return node(w->f, op, &a, 1, HT_F32, HT_SHAPE_UNKNOWN);
}

static struct ht_value scaled(struct normal *w, struct ht_value x, double by)
{
	return pair(w, HT_OP_Mul, x, real(w->f, HT_F32, by));
}

static struct ht_value sum(struct normal *w, struct ht_value x, const int64_t *axes, int64_t count)
{
	struct ht_value in[2] = { x,
		ht_rw_const_ints(&w->f->r, w->n, w->n->name, HT_I32, axes, count) };

	return node(w->f, HT_OP_Sum, in, 2, HT_F32, HT_SHAPE_UNKNOWN);
}

/* Of each channel: within each image first, so that fewer numbers are added in sequence. */
static struct ht_value sum_of_channels(struct normal *w, struct ht_value x)
{
	int64_t axes[HT_MAX_RANK], count = 0, images = 0;

	for (int32_t i = 1; i < w->rank; i++)
		if (i != w->axis)
			axes[count++] = i;
	return sum(w, sum(w, x, axes, count), &images, 1);
}

static struct ht_value mean_of_channels(struct normal *w, struct ht_value x)
{
	return pair(w, HT_OP_RealDiv, sum_of_channels(w, x), w->count);
}

/* One number for each channel, so that it broadcasts to the images. */
static struct ht_value across(struct normal *w, struct ht_value v)
{
	for (int32_t i = w->axis + 1; i < w->rank; i++)
		v = node(w->f, HT_OP_ExpandDims, (struct ht_value[]){ v, whole(w->f, HT_I32, -1) },
			2, HT_F32, HT_SHAPE_UNKNOWN);
	return v;
}

static struct ht_value inverse_root(struct normal *w, struct ht_value variance)
{
	double epsilon = (double)ht_attr_float(w->n, "epsilon", 1e-4f);

	return single(w, HT_OP_Rsqrt, pair(w, HT_OP_AddV2, variance, real(w->f, HT_F32, epsilon)));
}

/* The new running value: (1 - factor) * old + factor * now. */
static struct ht_value running(struct normal *w, struct ht_value old, struct ht_value now)
{
	double factor = (double)ht_attr_float(w->n, "exponential_avg_factor", 1);

	if (factor == 1)
		return now;
	old = scaled(w, cast_to(w->f, old, HT_F32), 1 - factor);
	return pair(w, HT_OP_AddV2, old, scaled(w, now, factor));
}

static void give(struct normal *w, int32_t i, struct ht_value v)
{
	if (w->n->graph && i < w->n->outs && ht_rw_uses(&w->f->r, ht_out(w->n, i)))
		ht_rw_replace(&w->f->r, ht_out(w->n, i), cast_to(w->f, v, w->n->out[i].dtype));
}

static bool begin(struct normal *w, struct forms *f, struct ht_node *n, int32_t image)
{
	struct ht_shape s = ht_in_shape(n, image);
	bool first = ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NCHW");

	*w = (struct normal){ .f = f, .n = n, .rank = s.rank, .axis = first ? 1 : s.rank - 1 };
	if (s.rank != 4 || ht_shape_known(s) || s.dim[w->axis] <= 0 || !is_bounded_shape(f->r.g, s))
		return false;
	w->count = real(f, HT_F32, 1);
	for (int32_t i = 0; i < s.rank; i++)
		if (i != w->axis)
			w->count = pair(
				w, HT_OP_Mul, w->count, cast_to(f, extent(f, n, image, i), HT_F32));
	return true;
}

/* Result 5 is for a gradient on other machines, which is written without it. */
static bool gives_used(struct forms *f, struct ht_node *n)
{
	if (n->outs > 5 && ht_rw_is_output(&f->r, ht_out(n, 5)))
		return false;
	for (int32_t i = 0; i < 5 && i < n->outs; i++)
		if (ht_rw_uses(&f->r, ht_out(n, i)))
			return true;
	return false;
}

static bool expand_batch_norm(struct forms *f, struct ht_node *n)
{
	struct normal w;
	struct ht_value x, mean, difference, variance, scale, y, others;

	if (!ht_attr_bool(n, "is_training", true) || !gives_used(f, n) || !begin(&w, f, n, 0))
		return false;
	x = cast_to(f, n->in[0], HT_F32);
	mean = mean_of_channels(&w, x);
	difference = pair(&w, HT_OP_Sub, x, across(&w, mean));
	variance = mean_of_channels(&w, single(&w, HT_OP_Square, difference));
	scale = pair(&w, HT_OP_Mul, inverse_root(&w, variance), cast_to(f, n->in[1], HT_F32));
	y = pair(&w, HT_OP_Mul, difference, across(&w, scale));
	y = pair(&w, HT_OP_AddV2, y, across(&w, cast_to(f, n->in[2], HT_F32)));
	others = pair(&w, HT_OP_Maximum, pair(&w, HT_OP_Sub, w.count, real(f, HT_F32, 1)),
		real(f, HT_F32, 1));
	others = pair(&w, HT_OP_Mul, variance, pair(&w, HT_OP_RealDiv, w.count, others));
	give(&w, 1, running(&w, n->in[3], mean));
	give(&w, 2, running(&w, n->in[4], others));
	give(&w, 3, mean);
	give(&w, 4, variance);
	give(&w, 0, y);
	return true;
}

/* The formula is that of pass training, which writes gradients of known shapes (write_batch_norm_gradient()). */
static bool expand_gradient(struct forms *f, struct ht_node *n)
{
	struct normal w;
	struct ht_value dy, difference, root, offsets, products, factor, dx;

	if (!begin(&w, f, n, 1))
		return false;
	dy = cast_to(f, n->in[0], HT_F32);
	difference = pair(&w, HT_OP_Sub, cast_to(f, n->in[1], HT_F32),
		across(&w, cast_to(f, n->in[3], HT_F32)));
	root = inverse_root(&w, cast_to(f, n->in[4], HT_F32));
	offsets = sum_of_channels(&w, dy);
	products = sum_of_channels(&w, pair(&w, HT_OP_Mul, dy, difference));
	dx = dy;
	if (ht_attr_bool(n, "is_training", true)) {
		factor = pair(&w, HT_OP_RealDiv, products, w.count);
		factor = pair(&w, HT_OP_Mul, factor, single(&w, HT_OP_Square, root));
		dx = pair(&w, HT_OP_Sub, dx, across(&w, pair(&w, HT_OP_RealDiv, offsets, w.count)));
		dx = pair(&w, HT_OP_Sub, dx, pair(&w, HT_OP_Mul, difference, across(&w, factor)));
	}
	factor = pair(&w, HT_OP_Mul, root, cast_to(f, n->in[2], HT_F32));
	dx = pair(&w, HT_OP_Mul, dx, across(&w, factor));
	give(&w, 1, pair(&w, HT_OP_Mul, products, root));
	give(&w, 2, offsets);
	give(&w, 0, dx);
	return true;
}

bool ht_expand_training(struct forms *f, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_FusedBatchNorm:
	case HT_OP_FusedBatchNormV2:
	case HT_OP_FusedBatchNormV3:
		return expand_batch_norm(f, n);
	case HT_OP_FusedBatchNormGrad:
	case HT_OP_FusedBatchNormGradV2:
	case HT_OP_FusedBatchNormGradV3:
		return expand_gradient(f, n);
	default:
		return false;
	}
}
