#include "passes/batch_moments.h"

bool ht_channels_read(struct ht_channels *c, struct ht_rw *r, struct ht_node *n, int32_t image)
{
	struct ht_type t = *ht_type_of(n->in[image]);
	const int32_t rank = t.shape.rank;

	*c = (struct ht_channels){ .m = { .r = r, .t = t.dtype == HT_F64 ? HT_F64 : HT_F32 },
		.shape = t.shape,
		.axis = ht_channels_first(n) && rank > 2 ? 1 : rank - 1 };
	make_at(&c->m, n);
	return rank >= 2 && t.shape.dim[c->axis] >= 0;
}

/* Within each image first, so that fewer numbers are added in sequence. */
struct ht_value ht_channels_sum(struct ht_channels *c, const char *name, struct ht_value v)
{
	struct ht_str inner = ht_str_printf(c->m.r->arena, "%s/image", name);
	int64_t axes[HT_MAX_RANK], count = 0, images = 0;

	for (int32_t i = 1; i < c->shape.rank; i++)
		if (i != c->axis)
			axes[count++] = i;
	if (count)
		v = reduced_over(part(&c->m, inner.p), HT_OP_Sum, v, axes, count, false);
	return reduced_over(part(&c->m, name), HT_OP_Sum, v, &images, 1, false);
}

static struct ht_value scaled(struct ht_channels *c, const char *name, struct ht_value v, double by)
{
	return with_number(&c->m, HT_OP_Mul, name, v, by);
}

/* Elements of a channel, of a known shape. */
static double population(const struct ht_channels *c)
{
	const int64_t elements = ht_shape_count(c->shape) / c->shape.dim[c->axis];

	return (double)elements;
}

/* The mean, of the sum over the elements of each channel. */
static struct ht_value mean_of(struct ht_channels *c, const char *name, struct ht_value sum)
{
	return c->count.node ? binary(part(&c->m, name), HT_OP_RealDiv, sum, c->count)
			     : scaled(c, name, sum, 1. / population(c));
}

/* The variance, times n / (n - 1) for n elements of a channel; of one element it is as it was. */
static struct ht_value unbiased(struct ht_channels *c, struct ht_value variance)
{
	struct maker *m = part(&c->m, "unbiased");
	struct ht_value one, others;

	if (!c->count.node) {
		const double n = population(c);

		return scaled(c, "unbiased", variance, n / (n > 1 ? n - 1 : 1));
	}
	one = number(m, 1);
	others = binary(m, HT_OP_Maximum, binary(m, HT_OP_Sub, c->count, one), one);
	return binary(m, HT_OP_Mul, variance, binary(m, HT_OP_RealDiv, c->count, others));
}

/* One number for each channel, reshaped so that it is broadcast to the images. */
static struct ht_value across(struct ht_channels *c, const char *name, struct ht_value v)
{
	int64_t dim[HT_MAX_RANK] = { c->shape.dim[c->axis] };
	struct ht_shape s = { c->shape.rank - c->axis, dim };

	if (s.rank == 1)
		return v;
	for (int32_t i = 1; i < s.rank; i++)
		dim[i] = 1;
	return reshaped(part(&c->m, name), v, s);
}

static struct ht_value inverse_root(struct ht_channels *c, struct ht_value variance)
{
	double epsilon = (double)ht_attr_float(c->m.at, "epsilon", 1e-4f);

	variance = binary(part(&c->m, "shifted"), HT_OP_AddV2, variance,
		number(part(&c->m, "epsilon"), epsilon));
	return unary(part(&c->m, "rsqrt"), HT_OP_Rsqrt, variance);
}

/* The new running value: (1 - factor) * old + factor * now. */
static struct ht_value running(
	struct ht_channels *c, const char *name, struct ht_value old, struct ht_value now)
{
	double factor = (double)ht_attr_float(c->m.at, "exponential_avg_factor", 1);
	struct ht_str kept = ht_str_printf(c->m.r->arena, "%s/kept", name);
	struct ht_str added = ht_str_printf(c->m.r->arena, "%s/added", name);

	if (factor == 1)
		return now;
	old = scaled(c, kept.p, old, 1 - factor);
	return binary(part(&c->m, name), HT_OP_AddV2, old, scaled(c, added.p, now, factor));
}

/* Result 5 of FusedBatchNormV3, which is for gradients on other machines: it has no elements, but a branch or a loop may hand it on. */
static struct ht_value nothing_kept(struct ht_channels *c)
{
	const int64_t none = 0;
	struct maker *m = part(&c->m, "kept");
	const struct ht_value in[] = { ht_rw_const_ints(m->r, m->at, m->name, HT_I32, &none, 1),
		number(m, 0) };

	return node(m, HT_OP_Fill, in, 2, m->t, m->at->out[5].shape);
}

void ht_write_batch_norm(struct ht_channels *c)
{
	struct maker *m = &c->m;
	struct ht_node *n = m->at;
	struct ht_value offset = in_own_type(&c->m, "wide_offset", n->in[2]), old_mean,
			old_variance;
	struct ht_value x, mean, difference, variance, scale, y, now;

	x = in_own_type(&c->m, "wide", n->in[0]);
	mean = mean_of(c, "mean", ht_channels_sum(c, "sum", x));
	difference = binary(part(m, "difference"), HT_OP_Sub, x, across(c, "means", mean));
	variance =
		ht_channels_sum(c, "squares", unary(part(m, "square"), HT_OP_Square, difference));
	variance = mean_of(c, "variance", variance);
	scale = binary(part(m, "scale"), HT_OP_Mul, inverse_root(c, variance),
		in_own_type(&c->m, "wide_scale", n->in[1]));
	y = binary(part(m, "scaled"), HT_OP_Mul, difference, across(c, "scales", scale));
	y = binary(part(m, "y"), HT_OP_AddV2, y, across(c, "offsets", offset));
	now = unbiased(c, variance);
	old_mean = in_own_type(&c->m, "wide_mean", n->in[3]);
	old_variance = in_own_type(&c->m, "wide_variance", n->in[4]);
	give(part(m, "mean"), 1, running(c, "running_mean", old_mean, mean));
	give(part(m, "variance"), 2, running(c, "running_variance", old_variance, now));
	give(part(m, "mean"), 3, mean);
	give(part(m, "variance"), 4, variance);
	if (n->outs > 5 && ht_rw_uses(m->r, ht_out(n, 5)))
		give(part(m, "kept"), 5, nothing_kept(c));
	give_first(m, y);
}

/* dx = scale / root * (dy - mean of dy - (x - mean) * mean of dy * (x - mean) / root^2), root^2 being the
 * variance and epsilon; of inference scale / root * dy. */
void ht_write_batch_norm_gradient(struct ht_channels *c)
{
	struct maker *m = &c->m;
	struct ht_node *n = m->at;
	struct ht_value dy = in_own_type(&c->m, "wide_gradient", n->in[0]),
			x = in_own_type(&c->m, "wide", n->in[1]);
	struct ht_value scale = in_own_type(&c->m, "wide_scale", n->in[2]), mean, difference, root,
			offsets;
	struct ht_value products, factor, dx = dy;

	mean = in_own_type(&c->m, "wide_mean", n->in[3]);
	difference = binary(part(m, "difference"), HT_OP_Sub, x, across(c, "means", mean));
	root = inverse_root(c, in_own_type(&c->m, "wide_variance", n->in[4]));
	offsets = ht_channels_sum(c, "offsets", dy);
	products = ht_channels_sum(
		c, "products", binary(part(m, "product"), HT_OP_Mul, dy, difference));
	if (ht_attr_bool(n, "is_training", true)) {
		struct ht_value shift = mean_of(c, "mean_gradient", offsets);

		factor = mean_of(c, "mean_product", products);
		factor = binary(part(m, "slope"), HT_OP_Mul, factor,
			unary(part(m, "precision"), HT_OP_Square, root));
		dx = binary(part(m, "centred"), HT_OP_Sub, dx, across(c, "shifts", shift));
		dx = binary(part(m, "straight"), HT_OP_Sub, dx,
			binary(part(m, "along"), HT_OP_Mul, difference,
				across(c, "slopes", factor)));
	}
	factor = binary(part(m, "scale"), HT_OP_Mul, root, scale);
	dx = binary(part(m, "gradient"), HT_OP_Mul, dx, across(c, "scales", factor));
	give(part(m, "by_scale"), 1, binary(part(m, "by_scale"), HT_OP_Mul, products, root));
	give(part(m, "by_offset"), 2, offsets);
	give_first(m, dx);
}
