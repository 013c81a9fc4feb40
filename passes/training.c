/* training: writes ops that only training uses as elementary ops, which share kernels with their
 * neighbours.
 *
 * These are FusedBatchNorm of training, which normalises by the moments of its batch; its
 * gradients, of training and of inference; SoftmaxCrossEntropyWithLogits and its sparse form,
 * with their gradients; BiasAddGrad; MirrorPadGrad.  All compute in float32, or in float64 if their tensors do,
 * and round once.
 *
 * Runs after the precision pass, since a policy decides on each of them as one op.  Left alone:
 * unknown shapes. */
#include "passes/float_status.h"

/* One op being written. */
struct writing {
	struct ht_rw *r;
	struct ht_node *n;
	int64_t axis;     /* of the channels */
	enum ht_dtype as; /* the type in which it computes */
};

static struct ht_str part(const struct writing *w, const char *name)
{
	return ht_rw_name_within(w->r, w->n, name);
}

static struct ht_value binary(
	struct writing *w, enum ht_op op, const char *name, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(w->r, w->n, op, part(w, name), a, b);
}

static struct ht_value unary(struct writing *w, enum ht_op op, const char *name, struct ht_value a)
{
	return ht_rw_unary(w->r, w->n, op, part(w, name), a);
}

static struct ht_value cast(
	struct writing *w, const char *name, struct ht_value v, enum ht_dtype to)
{
	return ht_type_of(v)->dtype == to ? v : ht_rw_cast(w->r, w->n, part(w, name), v, to);
}

static struct ht_value scaled(struct writing *w, const char *name, struct ht_value v, double by)
{
	struct ht_str constant = ht_str_printf(w->r->arena, "%s/y", name);

	return binary(w, HT_OP_Mul, name, v,
		ht_rw_const_float(w->r, w->n, part(w, constant.p), w->as, by));
}

/* The users of result i read `v` instead, in the result's type. */
static void give(struct writing *w, int32_t i, const char *name, struct ht_value v)
{
	if (w->n->graph && ht_rw_uses(w->r, ht_out(w->n, i)))
		ht_rw_replace(w->r, ht_out(w->n, i), cast(w, name, v, w->n->out[i].dtype));
}

/* Likewise those of result 0, which is replaced last; nodes that wait for the op wait for `v`. */
static void give_first(struct writing *w, struct ht_value v)
{
	if (w->n->graph)
		ht_rw_replace_node(w->r, w->n, cast(w, "rounded", v, w->n->out[0].dtype));
}

static bool begin(struct writing *w, struct ht_rw *r, struct ht_node *n, int image)
{
	struct ht_shape s = ht_type_of(n->in[image])->shape;
	bool first = ht_channels_first(n);
	enum ht_dtype t = ht_type_of(n->in[image])->dtype;

	*w = (struct writing){ .r = r, .n = n, .as = t == HT_F64 ? t : HT_F32 };
	w->axis = first && s.rank > 2 ? 1 : s.rank - 1;
	return s.rank >= 2 && ht_shape_known(s);
}

/* The sum over all axes but the channels: first within each image, so that fewer numbers are
 * added in sequence. */
static struct ht_value sum_of_channels(struct writing *w, const char *name, struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;
	struct ht_str inner = ht_str_printf(w->r->arena, "%s/image", name);
	int64_t axes[HT_MAX_RANK], count = 0, images = 0;

	for (int32_t i = 1; i < s.rank; i++)
		if (i != w->axis)
			axes[count++] = i;
	if (count)
		v = ht_rw_reduce(w->r, w->n, HT_OP_Sum, part(w, inner.p), v, axes, count, false);
	return ht_rw_reduce(w->r, w->n, HT_OP_Sum, part(w, name), v, &images, 1, false);
}

/* Reshapes one number per channel so that it broadcasts to the image. */
static struct ht_value across(struct writing *w, const char *name, struct ht_value v, int32_t rank)
{
	int64_t dim[HT_MAX_RANK] = { 0 };
	struct ht_shape s = { rank - (int32_t)w->axis, dim };

	if (w->axis == rank - 1)
		return v;
	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = 1;
	dim[0] = ht_type_of(v)->shape.dim[0];
	return ht_rw_reshape(w->r, w->n, part(w, name), v, s);
}

/* ---- batch normalisation ---- */

/* Elements of a channel. */
static int64_t population(const struct writing *w, struct ht_value image)
{
	struct ht_shape s = ht_type_of(image)->shape;

	return ht_shape_count(s) / (s.dim[w->axis] > 0 ? s.dim[w->axis] : 1);
}

static struct ht_value inverse_root(struct writing *w, struct ht_value variance)
{
	double epsilon = (double)ht_attr_float(w->n, "epsilon", 1e-4f);
	struct ht_value e = ht_rw_const_float(w->r, w->n, part(w, "epsilon"), w->as, epsilon);

	return unary(w, HT_OP_Rsqrt, "rsqrt", binary(w, HT_OP_AddV2, "shifted", variance, e));
}

/* The new running value: (1 - factor) * old + factor * now. */
static struct ht_value running(
	struct writing *w, const char *name, struct ht_value old, struct ht_value now)
{
	double factor = (double)ht_attr_float(w->n, "exponential_avg_factor", 1);
	struct ht_str kept = ht_str_printf(w->r->arena, "%s/kept", name);
	struct ht_str added = ht_str_printf(w->r->arena, "%s/added", name);

	if (factor == 1)
		return now;
	old = scaled(w, kept.p, old, 1 - factor);
	return binary(w, HT_OP_AddV2, name, old, scaled(w, added.p, now, factor));
}

/* Result 5 of FusedBatchNormV3, which has no elements: the operand of its gradient reads none, but a branch or loop may hand it on. */
static struct ht_value nothing_kept(struct writing *w)
{
	const int64_t none = 0;
	const struct ht_value in[] = { ht_rw_const_ints(
					       w->r, w->n, part(w, "none"), HT_I32, &none, 1),
		ht_rw_const_float(w->r, w->n, part(w, "zero"), w->as, 0) };

	return ht_out(ht_rw_node(w->r, w->n, HT_OP_Fill, part(w, "kept"), in, 2,
			      (struct ht_type){ w->as, w->n->out[5].shape }),
		0);
}

static void write_batch_norm(struct ht_rw *r, struct ht_node *n)
{
	struct writing w;
	struct ht_value x, mean, difference, variance, scale, y, unbiased;
	struct ht_value offset = n->in[2], old_mean = n->in[3], old_variance = n->in[4];
	int32_t rank = ht_type_of(n->in[0])->shape.rank;
	int64_t count;

	if (!ht_attr_bool(n, "is_training", true) || !begin(&w, r, n, 0))
		return;
	count = population(&w, n->in[0]);
	if (count == 0)
		return;
	x = cast(&w, "wide", n->in[0], w.as);
	mean = scaled(&w, "mean", sum_of_channels(&w, "sum", x), 1. / (double)count);
	difference = binary(&w, HT_OP_Sub, "difference", x, across(&w, "means", mean, rank));
	variance = sum_of_channels(&w, "squares", unary(&w, HT_OP_Square, "square", difference));
	variance = scaled(&w, "variance", variance, 1. / (double)count);
	scale = binary(&w, HT_OP_Mul, "scale", inverse_root(&w, variance), n->in[1]);
	y = binary(&w, HT_OP_Mul, "scaled", difference, across(&w, "scales", scale, rank));
	y = binary(&w, HT_OP_AddV2, "y", y, across(&w, "offsets", offset, rank));
	unbiased = scaled(
		&w, "unbiased", variance, (double)count / (double)(count > 1 ? count - 1 : 1));
	give(&w, 1, "mean", running(&w, "running_mean", old_mean, mean));
	give(&w, 2, "variance", running(&w, "running_variance", old_variance, unbiased));
	give(&w, 3, "mean", mean);
	give(&w, 4, "variance", variance);
	if (n->outs > 5 && ht_rw_uses(r, ht_out(n, 5)))
		give(&w, 5, "kept", nothing_kept(&w));
	give_first(&w, y);
}

/* dx = scale / root * (dy - mean of dy - (x - mean) * mean of dy * (x - mean) / root^2), root^2 being the
 * variance and epsilon; of inference scale / root * dy. */
static void write_batch_norm_gradient(struct ht_rw *r, struct ht_node *n)
{
	struct writing w;
	struct ht_value dy, x, scale = n->in[2], mean = n->in[3], difference, root, offsets,
			       products;
	struct ht_value factor, dx;
	int32_t rank = ht_type_of(n->in[1])->shape.rank;
	double each;

	if (!begin(&w, r, n, 1) || population(&w, n->in[1]) == 0)
		return;
	each = 1. / (double)population(&w, n->in[1]);
	dy = cast(&w, "wide_gradient", n->in[0], w.as);
	x = cast(&w, "wide", n->in[1], w.as);
	difference = binary(&w, HT_OP_Sub, "difference", x, across(&w, "means", mean, rank));
	root = inverse_root(&w, n->in[4]);
	offsets = sum_of_channels(&w, "offsets", dy);
	products =
		sum_of_channels(&w, "products", binary(&w, HT_OP_Mul, "product", dy, difference));
	dx = dy;
	if (ht_attr_bool(n, "is_training", true)) {
		struct ht_value shift = scaled(&w, "mean_gradient", offsets, each);

		factor = scaled(&w, "mean_product", products, each);
		factor = binary(
			&w, HT_OP_Mul, "slope", factor, unary(&w, HT_OP_Square, "precision", root));
		dx = binary(&w, HT_OP_Sub, "centred", dx, across(&w, "shifts", shift, rank));
		dx = binary(&w, HT_OP_Sub, "straight", dx,
			binary(&w, HT_OP_Mul, "along", difference,
				across(&w, "slopes", factor, rank)));
	}
	factor = across(&w, "scales", binary(&w, HT_OP_Mul, "scale", root, scale), rank);
	dx = binary(&w, HT_OP_Mul, "gradient", dx, factor);
	give(&w, 1, "by_scale", binary(&w, HT_OP_Mul, "by_scale", products, root));
	give(&w, 2, "by_offset", offsets);
	give_first(&w, dx);
}

/* ---- losses ---- */

/* The element of each row that its class in operand 1 selects. */
static struct ht_value of_class(struct writing *w, struct ht_value rows)
{
	int64_t one = 1;
	struct ht_value axis = ht_rw_scalar(w->r, w->n, part(w, "axis"), HT_I32, one);
	struct ht_type t = { w->as, ht_type_of(w->n->in[1])->shape };
	struct ht_node *n = ht_rw_node(w->r, w->n, HT_OP_GatherV2, part(w, "of_class"),
		(struct ht_value[]){ rows, w->n->in[1], axis }, 3, t);

	ht_attr_set_int(n, "batch_dims", 1);
	return ht_out(n, 0);
}

static struct ht_value one_hot(struct writing *w, int64_t classes, struct ht_shape shape)
{
	struct ht_value depth = ht_rw_scalar(w->r, w->n, part(w, "depth"), HT_I32, classes);
	struct ht_value on = ht_rw_const_float(w->r, w->n, part(w, "on"), w->as, 1);
	struct ht_value off = ht_rw_const_float(w->r, w->n, part(w, "off"), w->as, 0);
	struct ht_node *n = ht_rw_node(w->r, w->n, HT_OP_OneHot, part(w, "one_hot"),
		(struct ht_value[]){ w->n->in[1], depth, on, off }, 4,
		(struct ht_type){ w->as, shape });

	ht_attr_set_int(n, "axis", -1);
	return ht_out(n, 0);
}

/* With e = exp(x - max): loss = log(sum of e) - (x - max) of the class, gradient = e / sum - label; of
 * probabilities the loss is the sum over classes, weighted by them. */
static void write_softmax_loss(struct ht_rw *r, struct ht_node *n)
{
	struct ht_shape shape = ht_type_of(n->in[0])->shape;
	bool sparse = n->op == HT_OP_SparseSoftmaxCrossEntropyWithLogits;
	struct writing w;
	struct ht_value x, most, e, sum, log, loss, label;
	int64_t last = 1;

	if (!begin(&w, r, n, 0) || shape.rank != 2 || shape.dim[1] == 0 ||
		!ht_shape_known(ht_type_of(n->in[1])->shape))
		return;
	if (!sparse && !ht_shape_eq(shape, ht_type_of(n->in[1])->shape))
		return;
	x = cast(&w, "wide", n->in[0], w.as);
	most = ht_rw_reduce(r, n, HT_OP_Max, part(&w, "max"), x, &last, 1, true);
	x = binary(&w, HT_OP_Sub, "shifted", x, most);
	e = unary(&w, HT_OP_Exp, "exp", x);
	sum = ht_rw_reduce(r, n, HT_OP_Sum, part(&w, "sum"), e, &last, 1, true);
	log = unary(&w, HT_OP_Log, "log", sum);
	if (sparse) {
		struct ht_shape rows = { 1, shape.dim };

		label = one_hot(&w, shape.dim[1], shape);
		loss = of_class(&w, x);
		log = ht_rw_reshape(r, n, part(&w, "logs"), log, rows);
		loss = binary(&w, HT_OP_Sub, "loss", log, loss);
	} else {
		label = cast(&w, "wide_labels", n->in[1], w.as);
		loss = binary(&w, HT_OP_Mul, "losses", label,
			binary(&w, HT_OP_Sub, "negative_logs", log, x));
		loss = ht_rw_reduce(r, n, HT_OP_Sum, part(&w, "loss"), loss, &last, 1, false);
	}
	give(&w, 1, "rounded_gradient",
		binary(&w, HT_OP_Sub, "gradient", binary(&w, HT_OP_RealDiv, "softmax", e, sum),
			label));
	give_first(&w, loss);
}

static void write_bias_gradient(struct ht_rw *r, struct ht_node *n)
{
	struct writing w;
	struct ht_value v = n->in[0];

	if (!begin(&w, r, n, 0))
		return;
	if (ht_is_float(n->out[0].dtype))
		v = cast(&w, "wide", v, w.as);
	give_first(&w, sum_of_channels(&w, "sum", v));
}

/* ---- mirrored borders ---- */

/* `count` elements along an axis, from `from` on. */
static struct ht_value slice(
	struct writing *w, struct ht_value x, int32_t axis, int64_t from, int64_t count)
{
	struct ht_type t = *ht_type_of(x);
	int64_t begin[HT_MAX_RANK] = { 0 }, size[HT_MAX_RANK];
	struct ht_value in[3] = { x };

	for (int32_t i = 0; i < t.shape.rank; i++)
		size[i] = i == axis ? count : t.shape.dim[i];
	begin[axis] = from;
	in[1] = ht_rw_const_ints(w->r, w->n, part(w, "begin"), HT_I32, begin, t.shape.rank);
	in[2] = ht_rw_const_ints(w->r, w->n, part(w, "size"), HT_I32, size, t.shape.rank);
	t.shape = ht_shape_make(w->r->g->arena, t.shape.rank, size);
	return ht_out(ht_rw_node(w->r, w->n, HT_OP_Slice, part(w, "slice"), in, 3, t), 0);
}

/* `border` reversed along an axis, `before` zeros in front of it, and as many behind it as the sum has elements; added to the sum. */
static struct ht_value add_mirrored(struct writing *w, struct ht_value sum, struct ht_value border,
	int32_t axis, int64_t before)
{
	struct ht_type t = *ht_type_of(border), to = *ht_type_of(sum);
	int64_t around[2 * HT_MAX_RANK] = { 0 }, along = axis, pairs[] = { t.shape.rank, 2 };
	struct ht_value in[2] = { border };
	struct ht_node *n;

	around[2 * axis] = before;
	around[2 * axis + 1] = to.shape.dim[axis] - t.shape.dim[axis] - before;
	in[1] = ht_rw_const_ints(w->r, w->n, part(w, "axis"), HT_I32, &along, 1);
	n = ht_rw_node(w->r, w->n, HT_OP_ReverseV2, part(w, "mirrored"), in, 2, t);
	in[0] = ht_out(n, 0);
	in[1] = ht_rw_const_ints(
		w->r, w->n, part(w, "around"), HT_I32, around, 2 * (int64_t)t.shape.rank);
	in[1] = ht_rw_reshape(
		w->r, w->n, part(w, "paddings"), in[1], (struct ht_shape){ 2, pairs });
	n = ht_rw_node(w->r, w->n, HT_OP_Pad, part(w, "padded"), in, 2, to);
	return binary(w, HT_OP_AddV2, "sum", sum, ht_out(n, 0));
}

static bool is_number(enum ht_dtype t)
{
	enum ht_kind kind = ht_dtype_info(t)->kind;

	return ht_is_float(t) || kind == HT_KIND_INT || kind == HT_KIND_UINT;
}

/* Each axis gets the gradients of its two borders; those of corners are then in the borders of the next axis. */
static void write_mirror_gradient(struct ht_rw *r, struct ht_node *n)
{
	struct writing w = { .r = r, .n = n, .as = n->out[0].dtype };
	int64_t around[2 * HT_MAX_RANK];
	int64_t edge = !ht_str_is(ht_attr_str(n, "mode", ""), "SYMMETRIC"); /* it is not repeated */
	struct ht_shape s = ht_type_of(n->in[0])->shape;
	struct ht_value v = n->in[0];
	int count;

	if (!ht_shape_known(s) || ht_shape_count(n->out[0].shape) <= 0 ||
		!ht_const_small_ints(n->in[1], around, 2 * HT_MAX_RANK, &count) ||
		count != 2 * s.rank || !is_number(w.as))
		return;
	w.as = ht_is_low(w.as) ? HT_F32 : w.as;
	v = cast(&w, "wide", v, w.as);
	for (int32_t i = 0; i < s.rank; i++) {
		const int64_t before = around[2 * i], after = around[2 * i + 1],
			      size = s.dim[i] - before - after;
		struct ht_value sum = before || after ? slice(&w, v, i, before, size) : v;

		if (before)
			sum = add_mirrored(&w, sum, slice(&w, v, i, 0, before), i, edge);
		if (after)
			sum = add_mirrored(&w, sum, slice(&w, v, i, before + size, after), i,
				size - after - edge);
		v = sum;
	}
	give_first(&w, v);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_FusedBatchNorm:
	case HT_OP_FusedBatchNormV2:
	case HT_OP_FusedBatchNormV3:
		write_batch_norm(r, n);
		return;
	case HT_OP_FusedBatchNormGrad:
	case HT_OP_FusedBatchNormGradV2:
	case HT_OP_FusedBatchNormGradV3:
		write_batch_norm_gradient(r, n);
		return;
	case HT_OP_SoftmaxCrossEntropyWithLogits:
	case HT_OP_SparseSoftmaxCrossEntropyWithLogits:
		write_softmax_loss(r, n);
		return;
	case HT_OP__FloatStatus:
		ht_write_float_status(r, n);
		return;
	case HT_OP_BiasAddGrad:
		write_bias_gradient(r, n);
		return;
	case HT_OP_MirrorPadGrad:
		write_mirror_gradient(r, n);
		return;
	default:
		return;
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_training = {
	.name = "training",
	.summary = "writes losses, batch norm of training and gradients in elementary ops",
	.run = run,
};
