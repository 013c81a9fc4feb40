/* Kernels around one reduction: over axes, over windows, along one axis. */
#include "lower/inside.h"
#include "lower/index.h"
#include "lower/parts.h"

#include <string.h>

/* ---- reductions over axes ---- */

struct axes {
	bool reduced[HT_LOWER_RANK];
	int64_t count; /* elements that are reduced to one result */
};

static void read_axes(const struct ht_node *n, struct axes *a)
{
	struct ht_shape in = ht_type_of(n->in[0])->shape;
	const struct ht_tensor *t = n->ins > 1 ? ht_const_tensor(n->in[1]) : NULL;

	memset(a, 0, sizeof *a);
	a->count = 1;
	for (int32_t i = 0; i < in.rank; i++)
		a->reduced[i] = !t;
	for (int64_t i = 0, count = t ? ht_shape_count(t->shape) : 0; i < count; i++) {
		int64_t axis = ht_tensor_int(t, (size_t)i);
		a->reduced[axis < 0 ? axis + in.rank : axis] = true;
	}
	for (int32_t i = 0; i < in.rank; i++)
		if (a->reduced[i])
			a->count *= in.dim[i];
}

/* The stage's dimensions: kept groups, with the grid, then reduced ones.  `in` is the space of the
 * operand's elements, `kept` that of the results (kept dimensions only). */
static void reduction_space(struct kernel_build *k, struct ht_shape shape, const struct axes *axes,
	uint32_t bits, struct space *in, struct space *kept)
{
	int32_t first[HT_LOWER_RANK], last[HT_LOWER_RANK], index[HT_LOWER_RANK], groups, keeps = 0;
	int64_t extent[HT_LOWER_RANK], keep[HT_LOWER_RANK], step[HT_LOWER_RANK], grid[HT_MAX_GRID];
	int grid_dim = 0;

	for (int32_t i = 0; i + 1 < shape.rank; i++)
		if (axes->reduced[i] != axes->reduced[i + 1])
			bits |= 1u << i;
	groups = split_groups(shape.rank, shape.dim, bits, first, last, extent);
	for (int32_t i = 0; i < groups; i++)
		if (!axes->reduced[first[i]])
			keep[keeps++] = extent[i];
	kb_grid(k, choose_grid(keeps, keep, axes->count, step, grid), grid);
	*in = (struct space){ .rank = shape.rank, .guard = -1 };
	*kept = (struct space){ .guard = -1 };
	for (int32_t i = 0; i < shape.rank; i++)
		in->dim[i] = shape.dim[i];
	keeps = 0;
	for (int32_t i = 0; i < groups; i++)
		if (!axes->reduced[first[i]]) {
			index[i] = step[keeps] ? kb_grid_dim(k, grid_dim++, extent[i], step[keeps])
					       : kb_dim(k, extent[i]);
			keeps++;
		}
	for (int32_t i = 0; i < groups; i++)
		if (axes->reduced[first[i]])
			index[i] = kb_reduce_dim(k, extent[i]);
	for (int32_t i = 0; i < groups; i++) {
		int32_t x = ht_xdim(&k->xb, index[i]);
		in->group[in->groups++] = (struct space_group){ first[i], last[i], x };
		if (axes->reduced[first[i]])
			continue;
		kept->group[kept->groups++] =
			(struct space_group){ kept->rank, kept->rank + last[i] - first[i], x };
		for (int32_t j = first[i]; j <= last[i]; j++)
			kept->dim[kept->rank++] = shape.dim[j];
	}
	k->stage->vec = groups ? index[groups - 1] : -1;
}

static void finish_root(struct kernel_build *k, struct ht_node *n, int32_t x)
{
	k->root = n;
	k->root_x[0] = kb_result(k, n, 0, x);
}

static enum ht_red red_of(enum ht_op op)
{
	switch (op) {
	case HT_OP_Prod:
		return HT_RED_MUL;
	case HT_OP_Max:
		return HT_RED_MAX;
	case HT_OP_Min:
		return HT_RED_MIN;
	case HT_OP_All:
		return HT_RED_AND;
	case HT_OP_Any:
		return HT_RED_OR;
	default:
		return HT_RED_ADD;
	}
}

static void cut_sums(struct kernel_build *k, const struct ht_node *n, const struct space *in)
{
	const struct ht_shape shape = { in->rank, in->dim };

	for (int32_t i = 0; i < in->groups; i++) {
		int32_t dim = (int32_t)k->stage->x[in->group[i].x].imm;

		if (k->stage->dim[dim].reduce)
			kb_cut(k, dim, n->in[0],
				(struct cut_span){
					.stride = ht_shape_stride(shape, in->group[i].last),
					.extent = k->stage->dim[dim].extent,
					.reduced = true,
					.neutral = true });
	}
}

/* One kernel that reduces operand 0 over axes; `value` makes the result from an element. */
static enum ht_status emit_over_axes(struct lower *l, struct ht_node *n,
	int32_t (*value)(struct kernel_build *k, const struct ht_node *n, const struct axes *axes,
		int32_t x))
{
	struct kernel_build k;
	struct space from, to;
	struct axes axes;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_axes(n, &axes);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	reduction_space(&k, ht_type_of(n->in[0])->shape, &axes, kb_boundaries(l, k.sink, n->in[0]),
		&from, &to);
	kb_cut_space(&k, &to, ht_out(k.sink, 0));
	cut_sums(&k, n, &from);
	finish_root(&k, n, value(&k, n, &axes, kb_pull_arg(&k, n, 0, &from)));
	kb_store_sink(&k, &to);
	kb_finish(&k, n);
	return HT_OK;
}

/* The number of elements of a mean, as type t.  Elements beyond an open size do not count; they
 * are zeros (_Within). */
static int32_t elements_of(
	struct kernel_build *k, const struct ht_node *n, const struct axes *axes, enum ht_dtype t)
{
	struct ht_xb *b = &k->xb;
	size_t sizes;
	const int64_t *size = ht_attr_ints(n, "_sizes", &sizes, k->arena);
	int64_t rest = axes->count;
	int32_t x;

	if (!sizes)
		return ht_xconst(b, t, (double)rest, rest);
	for (size_t i = 0; i < sizes; i++)
		rest /= k->l->g->size[size[i]].most;
	x = ht_xi(b, rest);
	for (size_t i = 0; i < sizes; i++)
		x = ht_xmul(b, x, kb_size(k, (int32_t)size[i]));
	return ht_xcvt(b, t, x);
}

/* The term of a sum that an element gives. */
static int32_t term_of(struct ht_xb *b, const struct ht_node *n, int32_t x)
{
	return n->op == HT_OP_EuclideanNorm || n->op == HT_OP_L2Loss ? ht_xmul(b, x, x) : x;
}

/* The result, of type t, from the reduction of all terms. */
static int32_t result_of(struct kernel_build *k, const struct ht_node *n, const struct axes *axes,
	enum ht_dtype t, int32_t sum)
{
	struct ht_xb *b = &k->xb;
	int32_t divisor;

	switch (n->op) {
	case HT_OP_Mean:
		divisor = elements_of(k, n, axes, t);
		return ht_is_float(t) ? ht_xdiv(b, sum, divisor) : ht_xidiv(b, sum, divisor, false);
	case HT_OP_EuclideanNorm:
		if (ht_is_float(t))
			return ht_xsqrt(b, sum);
		return ht_xcvt(b, t, ht_xsqrt(b, ht_xcvt(b, HT_F64, sum)));
	case HT_OP_L2Loss:
		return ht_xmul(b, sum, ht_xk(b, t, .5));
	default:
		return sum;
	}
}

static int32_t reduced_value(
	struct kernel_build *k, const struct ht_node *n, const struct axes *axes, int32_t x)
{
	struct ht_xb *b = &k->xb;
	const enum ht_dtype t = node_type(n, ht_type_of(n->in[0])->dtype);

	x = term_of(b, n, x);
	return result_of(k, n, axes, t, ht_xred(b, ht_xreduce(b, red_of(n->op), x), t));
}

/* ---- of all elements, in parts ---- */

/* The parts of a reduction of many elements to one, so that several threads compute it; they depend on the sizes alone.  The first
 * dimension of the loop, which has `extent` indices, is divided evenly.  1: it is not. */
static int64_t parts_of_all(int64_t extent, int64_t count)
{
	enum { LEAST_ELEMENTS = 1 << 16, MOST_PARTS = 64 };
	int64_t parts = count / LEAST_ELEMENTS;

	if (parts > MOST_PARTS)
		parts = MOST_PARTS;
	while (parts > 1 && extent % parts)
		parts--;
	return parts;
}

/* Reduces each part to an element of `to`. */
static void emit_each_part(
	struct lower *l, struct ht_node *n, enum ht_dtype t, uint32_t bits, const struct view *to)
{
	const struct ht_shape shape = ht_type_of(n->in[0])->shape;
	int32_t first[HT_LOWER_RANK], last[HT_LOWER_RANK], index[HT_LOWER_RANK], groups, part, x;
	int64_t extent[HT_LOWER_RANK], parts = to->dim[0], each;
	struct space in = { .rank = shape.rank, .guard = -1 }, out = { .guard = -1 };
	struct kernel_build k;

	groups = split_groups(shape.rank, shape.dim, bits, first, last, extent);
	each = extent[0] / parts;
	kb_init(&k, l, n);
	kb_grid(&k, 1, &parts);
	kb_stage(&k, HT_STAGE_LOOP);
	part = kb_grid_dim(&k, 0, parts, 1);
	for (int32_t i = 0; i < groups; i++)
		index[i] = kb_reduce_dim(&k, i ? extent[i] : each);
	k.stage->vec = k.stage->dims - 1;
	part = ht_xdim(&k.xb, part);
	memcpy(in.dim, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
	for (int32_t i = 0; i < groups; i++) {
		x = ht_xdim(&k.xb, index[i]);
		if (i == 0)
			x = ht_xadd(&k.xb, ht_xmuli(&k.xb, part, each), x);
		in.group[in.groups++] = (struct space_group){ first[i], last[i], x };
	}
	x = term_of(&k.xb, n, kb_pull_arg(&k, n, 0, &in));
	out = space_of_coords(&out, 1, to->dim, &part);
	kb_store(&k, to, &out, ht_xred(&k.xb, ht_xreduce(&k.xb, red_of(n->op), x), t));
	kb_finish(&k, n);
}

static void emit_of_parts(struct lower *l, struct ht_node *n, enum ht_dtype t,
	const struct axes *axes, const struct view *parts)
{
	struct space at = { .guard = -1 }, to = { .guard = -1 };
	struct kernel_build k;
	int32_t part;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	part = kb_reduce_dim(&k, parts->dim[0]);
	k.stage->vec = part;
	part = ht_xdim(&k.xb, part);
	at = space_of_coords(&at, 1, parts->dim, &part);
	part = ht_xreduce(&k.xb, red_of(n->op), kb_load(&k, parts, &at));
	finish_root(&k, n, result_of(&k, n, axes, t, ht_xred(&k.xb, part, t)));
	kb_store_sink(&k, &to);
	kb_finish(&k, n);
}

/* False: it has one part. */
static bool emit_in_parts(struct lower *l, struct ht_node *n)
{
	const struct ht_shape shape = ht_type_of(n->in[0])->shape;
	const enum ht_dtype t = node_type(n, ht_type_of(n->in[0])->dtype);
	const uint32_t bits = kb_boundaries(l, l->owner[n->id], n->in[0]);
	int32_t first[HT_LOWER_RANK], last[HT_LOWER_RANK];
	int64_t extent[HT_LOWER_RANK], parts;
	struct axes axes;
	struct view sums;

	read_axes(n, &axes);
	if (!ht_is_float(t) || l->g->sizes || !shape.rank || axes.count != ht_shape_count(shape))
		return false;
	split_groups(shape.rank, shape.dim, bits, first, last, extent);
	parts = parts_of_all(extent[0], axes.count);
	if (parts < 2)
		return false;
	view_dense(&sums, plan_buffer(l, HT_PLAN_TEMP, t, parts), (struct ht_shape){ 1, &parts });
	emit_each_part(l, n, t, bits, &sums);
	emit_of_parts(l, n, t, &axes, &sums);
	return true;
}

static enum ht_status emit_reduce(struct lower *l, struct ht_node *n)
{
	return emit_in_parts(l, n) ? HT_OK : emit_over_axes(l, n, reduced_value);
}

static const char *refuse_reduce(const struct ht_node *n)
{
	if (n->ins > 1 && !ht_const_tensor(n->in[1]))
		return "needs constant axes";
	if (n->op == HT_OP_Mean && !ht_is_float(n->out[0].dtype) &&
		ht_shape_count(ht_type_of(n->in[0])->shape) == 0)
		return "takes the mean of no integers";
	return NULL;
}

static bool takes_first(const struct ht_node *n, int arg)
{
	(void)n;
	return arg == 0;
}

static bool reduced_rows(const struct parts *p, const struct ht_node *n)
{
	const struct ht_tensor *axes = ht_const_tensor(n->in[1]);
	struct ht_shape in = shape_of(n, 0);

	if (!axes || !in.rank || !n->out[0].shape.rank || !rows_of_first(p, n))
		return false;
	for (int64_t i = 0; i < ht_shape_count(axes->shape); i++)
		if (axis_of(ht_tensor_int(axes, (size_t)i), in.rank) == 0)
			return false;
	return true;
}

const struct lower_op lower_reduce = { .family = FAMILY_ROOT,
	.emit = emit_reduce,
	.refuse = refuse_reduce,
	.takes = takes_first,
	.rows = reduced_rows,
	.by_run = true };
const struct lower_op lower_l2_loss = {
	.family = FAMILY_ROOT, .emit = emit_reduce, .takes = takes_first
};

/* ---- position of an extreme along one axis ---- */

static int32_t extreme_position(
	struct kernel_build *k, const struct ht_node *n, const struct axes *axes, int32_t x)
{
	int red;

	(void)axes;
	if (ht_type_of(n->in[0])->dtype == HT_BOOL)
		x = ht_xcvt(&k->xb, HT_U8, x);
	red = ht_xreduce(&k->xb, n->op == HT_OP_ArgMax ? HT_RED_ARGMAX : HT_RED_ARGMIN, x);
	return ht_xcvt(&k->xb, n->out[0].dtype, ht_xred(&k->xb, red, HT_I64));
}

static enum ht_status emit_arg_reduce(struct lower *l, struct ht_node *n)
{
	return emit_over_axes(l, n, extreme_position);
}

static const char *refuse_arg_reduce(const struct ht_node *n)
{
	struct ht_shape in = ht_type_of(n->in[0])->shape;
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	int64_t axis;

	if (!t)
		return "needs a constant axis";
	axis = ht_tensor_int(t, 0);
	return in.dim[axis < 0 ? axis + in.rank : axis] ? NULL : "searches along an axis of size 0";
}

const struct lower_op lower_arg_reduce = { .family = FAMILY_ROOT,
	.emit = emit_arg_reduce,
	.refuse = refuse_arg_reduce,
	.takes = takes_first,
	.rows = reduced_rows };

/* ---- running sums and products ---- */

/* r[i] reduces the elements j <= i (exclusive: j < i; reverse: the other way). */
static enum ht_status emit_cumulate(struct lower *l, struct ht_node *n)
{
	struct ht_shape shape = n->out[0].shape;
	enum ht_dtype t = node_type(n, n->out[0].dtype);
	int64_t axis = ht_tensor_int(ht_const_tensor(n->in[1]), 0);
	bool exclusive = ht_attr_bool(n, "exclusive", false),
	     reverse = ht_attr_bool(n, "reverse", false);
	enum ht_red red = n->op == HT_OP_Cumsum ? HT_RED_ADD : HT_RED_MUL;
	struct kernel_build k;
	struct space out, in;
	int32_t i, j, x, inside;

	if (ht_shape_count(shape) == 0)
		return HT_OK;
	axis = axis < 0 ? axis + shape.rank : axis;
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, shape.rank, shape.dim, ~0u);
	j = ht_xdim(&k.xb, kb_reduce_dim(&k, shape.dim[axis]));
	in = out;
	i = in.group[axis].x;
	in.group[axis].x = j;
	if (axis == shape.rank - 1) /* along the last axis all lanes would read one element: keep
				     * the loop scalar */
		k.stage->vec = -1;
	inside = ht_x2(&k.xb, exclusive ? HT_X_LT : HT_X_LE, reverse ? i : j, reverse ? j : i);
	x = ht_xselect(&k.xb, inside, kb_pull_arg(&k, n, 0, &in),
		ht_xconst(&k.xb, t, n->op == HT_OP_Cumprod, n->op == HT_OP_Cumprod));
	x = ht_xred(&k.xb, ht_xreduce(&k.xb, red, x), t);
	finish_root(&k, n, x);
	kb_store_sink(&k, &out);
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse_cumulate(const struct ht_node *n)
{
	return ht_const_tensor(n->in[1]) ? NULL : "needs a constant axis";
}

const struct lower_op lower_cumsum = {
	.family = FAMILY_ROOT, .emit = emit_cumulate, .refuse = refuse_cumulate
};

/* ---- pooling ---- */

static enum ht_status emit_pool(struct lower *l, struct ht_node *n)
{
	struct ht_type in = *ht_type_of(n->in[0]);
	enum ht_dtype t = node_type(n, in.dtype);
	struct window w[2];
	struct kernel_build k;
	struct space out, at;
	int32_t x[4], value;
	bool max = n->op == HT_OP_MaxPool, rows;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	read_pool_windows(n, in.shape, n->out[0].shape, w);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_window_space(&k, &in, w, n->out[0].shape.dim, max, &rows);
	kb_cut_space(&k, &out, ht_out(k.sink, 0));
	x[0] = out.group[0].x;
	x[3] = out.group[3].x;
	at = out;
	for (int i = 0; i < 2; i++) {
		int d = kb_reduce_dim(&k, w[i].size);
		if (rows && i == 1)
			k.stage->dim[d].unroll = (int8_t)w[i].size;
		x[1 + i] = window_coord(&k, &w[i], out.group[1 + i].x, ht_xdim(&k.xb, d), &at);
	}
	k.stage->vec = 3;
	at = space_of_coords(&at, 4, in.shape.dim, x);
	value = kb_pull_arg(&k, n, 0, &at);
	if (max && at.guard >= 0)
		value = ht_xselect(&k.xb, at.guard, value, lowest_of(&k.xb, t));
	value = ht_xred(&k.xb, ht_xreduce(&k.xb, max ? HT_RED_MAX : HT_RED_ADD, value), t);
	if (!max) {
		int32_t count = ht_xmul(&k.xb, window_count(&k, &w[0], out.group[1].x),
			window_count(&k, &w[1], out.group[2].x));
		value = ht_xdiv(&k.xb, value, ht_xcvt(&k.xb, t, count));
	}
	finish_root(&k, n, value);
	kb_store_sink(&k, &out);
	kb_finish(&k, n);
	return HT_OK;
}

const char *refuse_pool(const struct ht_node *n)
{
	if (!ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC"))
		return "has no kernel for this data_format";
	return pool_is_spatial(n) ? NULL : "pools over batch or channels, which has no kernel";
}

static bool pooled_rows(const struct parts *p, const struct ht_node *n)
{
	return pool_is_spatial(n) && rows_of_image(p, n);
}

const struct lower_op lower_pool = { .family = FAMILY_ROOT,
	.emit = emit_pool,
	.refuse = refuse_pool,
	.rows = pooled_rows,
	.by_run = true };

/* ---- local response normalisation ---- */

static int32_t number_of(
	struct kernel_build *k, const struct ht_node *n, const char *attr, float standard)
{
	return ht_xk(
		&k->xb, node_type(n, n->out[0].dtype), (double)ht_attr_float(n, attr, standard));
}

/* Opens a kernel over the image, whose reduction goes over neighbouring channels: *at. */
static struct space open_channels(
	struct kernel_build *k, struct lower *l, struct ht_node *n, struct space *at)
{
	struct ht_shape shape = n->out[0].shape;
	int64_t radius = ht_attr_int(n, "depth_radius", 5);
	struct ht_xb *b = &k->xb;
	struct space out;
	int32_t c, ok;

	if (radius >= shape.dim[3]) /* a larger radius reaches no more channels */
		radius = shape.dim[3] - 1;
	kb_init(k, l, n);
	kb_stage(k, HT_STAGE_LOOP);
	*at = out = kb_loop_space(k, 4, shape.dim, ~0u);
	c = ht_xadd(b, out.group[3].x,
		ht_xaddi(b, ht_xdim(b, kb_reduce_dim(k, 2 * radius + 1)), -radius));
	ok = ht_xand(b, ht_xle(b, ht_xi(b, 0), c), ht_xlt(b, c, ht_xi(b, shape.dim[3])));
	at->group[3].x = c;
	space_and_guard(b, at, ok);
	return out;
}

/* bias + alpha * sum of squares of operand `image` */
static int32_t norm_of_channels(
	struct kernel_build *k, const struct ht_node *n, int image, const struct space *at)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_pull_arg(k, n, image, at);

	x = kb_reduce(k, HT_RED_ADD, node_type(n, n->out[0].dtype), ht_xmul(b, x, x));
	return ht_xmuladd(b, number_of(k, n, "alpha", 1), x, number_of(k, n, "bias", 1));
}

static int32_t to_minus_beta(struct kernel_build *k, const struct ht_node *n, int32_t norm)
{
	return ht_xpow(&k->xb, norm, ht_xneg(&k->xb, number_of(k, n, "beta", .5f)));
}

/* r = x / norm ^ beta */
static enum ht_status emit_lrn(struct lower *l, struct ht_node *n)
{
	struct kernel_build k;
	struct space out, at;
	int32_t x;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	out = open_channels(&k, l, n, &at);
	x = to_minus_beta(&k, n, norm_of_channels(&k, n, 0, &at));
	finish_root(&k, n, ht_xmul(&k.xb, kb_pull_arg(&k, n, 0, &out), x));
	kb_store_sink(&k, &out);
	kb_finish(&k, n);
	return HT_OK;
}

const struct lower_op lower_lrn = {
	.family = FAMILY_ROOT, .emit = emit_lrn, .rows = rows_of_image
};

/* The norms of image `image`, in the compute type. */
static struct view norms(struct lower *l, struct ht_node *n, int image)
{
	enum ht_dtype t = node_type(n, n->out[0].dtype);
	struct kernel_build k;
	struct space out, at;
	struct view v;

	view_dense(&v, plan_buffer(l, HT_PLAN_TEMP, t, ht_shape_count(n->out[0].shape)),
		n->out[0].shape);
	out = open_channels(&k, l, n, &at);
	kb_store(&k, &v, &out, norm_of_channels(&k, n, image, &at));
	kb_finish(&k, n);
	return v;
}

/* dx = dy / norm ^ beta - 2 * alpha * beta * x * (sum of dy * y / norm over neighbouring channels).  Operands: dy, x, y. */
static enum ht_status emit_lrn_gradient(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = node_type(n, n->out[0].dtype);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space out, at;
	struct view norm;
	int32_t own, others;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	norm = norms(l, n, 1);
	out = open_channels(&k, l, n, &at);
	others = ht_xmul(b, kb_pull_arg(&k, n, 0, &at), kb_pull_arg(&k, n, 2, &at));
	/* Beyond the channels there is no norm, and the term is 0. */
	others = ht_xselect(
		b, at.guard, ht_xdiv(b, others, kb_load(&k, &norm, &at)), ht_xk(b, t, 0));
	others = kb_reduce(&k, HT_RED_ADD, t, others);
	others = ht_xmul(b, others, kb_pull_arg(&k, n, 1, &out));
	others = ht_xmul(
		b, others, ht_xmul(b, number_of(&k, n, "alpha", 1), number_of(&k, n, "beta", .5f)));
	own = ht_xmul(
		b, kb_pull_arg(&k, n, 0, &out), to_minus_beta(&k, n, kb_load(&k, &norm, &out)));
	finish_root(&k, n, ht_xsub(b, own, ht_xadd(b, others, others)));
	kb_store_sink(&k, &out);
	kb_finish(&k, n);
	return HT_OK;
}

const struct lower_op lower_lrn_gradient = { .family = FAMILY_ROOT, .emit = emit_lrn_gradient };
