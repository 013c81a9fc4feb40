/* Gradients of pooling: each element of the image sums the gradients of the windows that contain
 * it.
 *
 * MaxPoolGrad gives the whole gradient of a window to its first maximum: one kernel finds the
 * pixels of the maxima, another adds.  That of three spatial axes, of which pass "volumes" makes
 * two with attribute _ties, gives it to every maximum. */
#include "lower/index.h"
#include "lower/parts.h"

/* The coordinate of tap `tap` of result `out`. If the tap is outside of the image, the
 * coordinate of the nearest tap inside: repeating it changes neither the maximum nor the first
 * pixel that has it. */
static int32_t nearest_coord(struct ht_xb *b, const struct window *w, int32_t out, int32_t tap)
{
	int32_t x = ht_xadd(b, ht_xaddi(b, ht_xmuli(b, out, w->stride), -w->before), tap);

	return ht_xmin(b, ht_xmax(b, x, ht_xi(b, 0)), ht_xi(b, w->in - 1));
}

/* The pixel (row * width + column) of each window's first maximum, as I32 of the gradient's shape. */
static struct view maxima(struct lower *l, struct ht_node *n, const struct window w[2])
{
	struct ht_shape shape = shape_of(n, 2);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct view to;
	struct space out;
	int32_t x[4], row, column, at;

	view_dense(&to, plan_buffer(l, HT_PLAN_TEMP, HT_I32, ht_shape_count(shape)), shape);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, 4, shape.dim, ~0u);
	k.stage->vec = 3;
	kb_cut_space(&k, &out, n->in[2]);
	row = out.group[1].x;
	column = out.group[2].x;
	x[0] = out.group[0].x;
	x[1] = nearest_coord(b, &w[0], row, ht_xdim(b, kb_reduce_dim(&k, w[0].size)));
	x[2] = nearest_coord(b, &w[1], column, ht_xdim(b, kb_reduce_dim(&k, w[1].size)));
	x[3] = out.group[3].x;
	at = ht_xred(b, ht_xreduce(b, HT_RED_ARGMAX, pull_at(&k, n, 0, &out, x)), HT_I64);
	row = nearest_coord(b, &w[0], row, ht_xdivi(b, at, w[1].size));
	column = nearest_coord(b, &w[1], column, ht_xmodi(b, at, w[1].size));
	at = ht_xadd(b, ht_xmuli(b, row, w[1].in), column);
	kb_store(&k, &to, &out, ht_xcvt(b, HT_I32, at));
	kb_finish(&k, n);
	return to;
}

/* Opens a kernel over the image and over the windows that contain an element.  `out`
 * becomes the space of the elements, the returned space is that of the gradient. */
static struct space open_sum(struct kernel_build *k, struct lower *l, struct ht_node *n, int arg,
	const struct window w[2], struct space *out)
{
	struct space at;
	int32_t x[4], one;

	kb_init(k, l, n);
	kb_stage(k, HT_STAGE_LOOP);
	*out = kb_loop_space(k, 4, n->out[0].shape.dim, ~0u);
	k->stage->vec = 3;
	kb_cut_space(k, out, ht_out(k->sink, 0));
	at = *out;
	for (int i = 0; i < 2; i++) {
		one = ht_xdim(&k->xb, kb_reduce_dim(k, window_results(&w[i])));
		x[1 + i] = window_containing(k, &w[i], out->group[1 + i].x, one, &at.guard);
	}
	x[0] = out->group[0].x;
	x[3] = out->group[3].x;
	return space_of_coords(&at, 4, shape_of(n, arg).dim, x);
}

/* The gradient of a window goes to each pixel that has its maximum, operand 1. */
static enum ht_status emit_gradient_of_ties(
	struct lower *l, struct ht_node *n, const struct window w[2])
{
	enum ht_dtype t = operand_type(n, 2);
	struct kernel_build k;
	struct space out, at = open_sum(&k, l, n, 2, w, &out);
	int32_t here = ht_xeq(&k.xb, kb_pull_arg(&k, n, 0, &out), kb_pull_arg(&k, n, 1, &at));
	int32_t value = ht_xselect(&k.xb, here, kb_pull_arg(&k, n, 2, &at), ht_xk(&k.xb, t, 0));

	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, value), &out);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_max_pool_gradient(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = operand_type(n, 2);
	struct kernel_build k;
	struct window w[2];
	struct space out, at;
	struct view first;
	int32_t here, value;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_pool_windows(n, n->out[0].shape, shape_of(n, 2), w);
	if (ht_attr_bool(n, "_ties", false))
		return emit_gradient_of_ties(l, n, w);
	first = maxima(l, n, w);
	at = open_sum(&k, l, n, 2, w, &out);
	here = ht_xadd(&k.xb, ht_xmuli(&k.xb, out.group[1].x, w[1].in), out.group[2].x);
	here = ht_xeq(&k.xb, kb_load(&k, &first, &at), ht_xcvt(&k.xb, HT_I32, here));
	value = ht_xselect(&k.xb, here, kb_pull_arg(&k, n, 2, &at), ht_xk(&k.xb, t, 0));
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, value), &out);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_mean_pool_gradient(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = operand_type(n, 1);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct window w[2];
	struct space out, at;
	int32_t count, value;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_pool_windows(n, n->out[0].shape, shape_of(n, 1), w);
	at = open_sum(&k, l, n, 1, w, &out);
	count = ht_xmul(
		b, window_count(&k, &w[0], at.group[1].x), window_count(&k, &w[1], at.group[2].x));
	/* Where there is no window, the count is 0; the maximum avoids a division by it. */
	count = ht_xcvt(b, t, ht_xmax(b, count, ht_xi(b, 1)));
	value = ht_xdiv(b, kb_pull_arg(&k, n, 1, &at), count);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, value), &out);
	kb_finish(&k, n);
	return HT_OK;
}

/* Refuses unless the windows belong to an image of this shape and each has a gradient. */
static const char *refuse_gradient(const struct ht_node *n, int arg)
{
	struct ht_shape image = n->out[0].shape, gradient = shape_of(n, arg);

	if (image.rank != 4 || gradient.rank != 4)
		return "is about no image";
	if (image.dim[0] != gradient.dim[0] || image.dim[3] != gradient.dim[3])
		return "has a gradient of another batch, or of other channels";
	return refuse_pool(n);
}

static const char *refuse_max(const struct ht_node *n)
{
	const char *why = refuse_gradient(n, 2);

	if (!why && n->out[0].shape.dim[1] > INT32_MAX / (n->out[0].shape.dim[2] + 1))
		return "has more pixels than 32 bits number";
	return why;
}

static const char *refuse_mean(const struct ht_node *n)
{
	return refuse_gradient(n, 1);
}

const struct lower_op lower_max_pool_gradient = {
	.family = FAMILY_ROOT, .emit = emit_max_pool_gradient, .refuse = refuse_max
};
const struct lower_op lower_mean_pool_gradient = {
	.family = FAMILY_ROOT, .emit = emit_mean_pool_gradient, .refuse = refuse_mean
};
