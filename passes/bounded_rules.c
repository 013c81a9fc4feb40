/* Rules of open axes: where those of each op's operands are in its result, and what is neutral outside. */
#include "ir/einsum.h"
#include "ir/infer.h"
#include "passes/bounded_axes.h"

#include <string.h>

static bool is_zero(const struct ht_bounded *b, struct ht_value v, int32_t i)
{
	int64_t n;

	return is_number(b, v, i, &n) && n == 0;
}

/* The axis that element i of `v` names, of a tensor of `rank`; -1: it is not known. */
static int32_t named_axis(const struct ht_bounded *b, struct ht_value v, int32_t i, int32_t rank)
{
	int64_t axis;

	return is_number(b, v, i, &axis) && ht_fix_axis(&axis, rank) ? (int32_t)axis : -1;
}

/* A copy of all axes of an operand, in front of which nodes are made then: these have no axes of their own. */
struct axes {
	struct ht_open axis[HT_OPEN_RANK];
};

static struct axes axes_of(const struct ht_bounded *b, const struct ht_node *n, int32_t arg)
{
	const struct ht_open *a = ht_open_axes(b, n->in[arg]);
	struct axes all = { 0 };

	if (a)
		memcpy(all.axis, a, sizeof all.axis);
	return all;
}

/* ---- making nodes ---- */

static struct ht_node *mask_part(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open_axis a, const char *fill)
{
	struct ht_value v = ht_rw_unary(&b->r, n, HT_OP__Within, n->in[arg].node->name, n->in[arg]);

	ht_attr_set_int(v.node, "size", a.size);
	ht_attr_set_int(v.node, "axis", axis);
	ht_attr_set_int(v.node, "inner", a.inner);
	ht_attr_set_str(v.node, "fill", ht_str(fill));
	ht_open_wait(b, v.node, UINT64_C(1) << (a.size - 1));
	ht_rw_set_in(&b->r, n, arg, v);
	return v.node;
}

/* Operand `arg` is `fill` outside of open axis `axis`. */
static void mask(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, const char *fill)
{
	for (int i = 0; i < 2 && a.part[i].size; i++)
		mask_part(b, n, arg, axis, a.part[i], fill);
}

/* Likewise for a node that looks at all elements: none is left undefined. */
static void mask_all(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, const char *fill)
{
	for (int i = 0; i < 2 && a.part[i].size; i++)
		ht_attr_set_bool(mask_part(b, n, arg, axis, a.part[i], fill), "whole", true);
}

/* ---- rules ---- */

/* Operand `arg`, broadcast to the result. */
static enum ht_status align(const struct ht_bounded *b, const struct ht_node *n, int32_t arg,
	int32_t rank, struct ht_open *out)
{
	int32_t own = ht_in_shape(n, arg).rank;

	return put_axes(b, n, arg, 0, own, out, rank - own);
}

/* An operand that is not broadcast has as many as the others. */
static enum ht_status check_aligned(
	const struct ht_bounded *b, const struct ht_node *n, const struct ht_open *out)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i);
		int32_t lead = n->out[0].shape.rank - s.rank;

		for (int32_t k = 0; k < s.rank; k++)
			if (ht_open_some(out[lead + k]) && s.dim[k] != 1 &&
				!ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	}
	return HT_OK;
}

static enum ht_status aligned(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = n->out[0].shape.rank;
	struct axes divisor;

	for (int32_t i = 0; i < n->ins; i++)
		HT_TRY(align(b, n, i, rank, out));
	HT_TRY(check_aligned(b, n, out));
	if (n->ins != 2 || ht_is_float(n->out[0].dtype) || ht_is(n, HT_BASIC))
		return HT_OK;
	divisor = axes_of(b, n, 1);
	for (int32_t i = 0; i < ht_in_shape(n, 1).rank; i++) /* no division by zero outside */
		mask_all(b, n, 1, i, divisor.axis[i], "one");
	return HT_OK;
}

static enum ht_status of_first(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	for (int32_t i = 1; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	return align(b, n, 0, n->out[0].shape.rank, out);
}

static enum ht_status normalised(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (ht_attr_bool(n, "is_training", true))
		return ht_open_refuse(b, n, "this takes the mean of it for training");
	return of_first(b, n, out);
}

static enum ht_status forwarded(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	for (int32_t i = 0; i < n->outs && i < n->ins; i++)
		if (ht_open_in(b, n, i))
			HT_TRY(put_axes(
				b, n, i, 0, ht_in_shape(n, i).rank, out + i * HT_OPEN_RANK, 0));
	return HT_OK;
}

/* Axis `to` of the result has the size that its extent says, from the first index on. */
static enum ht_status make(
	const struct ht_bounded *b, const struct ht_node *n, int32_t to, struct ht_open *out)
{
	int64_t dim = n->out[0].shape.dim[to];
	const struct ht_open_size *of[2];

	if (!ht_dim_sizes(b->r.g, dim, of))
		return HT_OK;
	if (of[0]->dim != dim)
		return ht_open_refuse(b, n, "this has a multiple of it as its size");
	return put(
		b, n, out, to, (struct ht_open){ { { (int32_t)(of[0] - b->r.g->size) + 1, 1 } } });
}

static enum ht_status made(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		HT_TRY(make(b, n, i, out));
	return HT_OK;
}

/* How far apart neighbours along `axis` are, where sizes are the largest. */
static int64_t stride_of(const struct ht_bounded *b, struct ht_shape s, int32_t axis)
{
	int64_t n = 1;

	for (int32_t i = axis + 1; i < s.rank; i++)
		n *= ht_open_most(b, s.dim[i]);
	return n;
}

/* One more size in an axis, behind those that are outside of it. */
static bool add_part(struct ht_open *to, struct ht_open_axis a)
{
	if (to->part[1].size)
		return false;
	to->part[1] = a;
	if (a.inner > to->part[0].inner || !to->part[0].size) {
		to->part[1] = to->part[0];
		to->part[0] = a;
	}
	return true;
}

/* The axis of the result in which the indices of a size, `stride` elements apart, are. */
static enum ht_status put_by_stride(const struct ht_bounded *b, const struct ht_node *n,
	int32_t size, int64_t stride, struct ht_open *out)
{
	int64_t most = b->r.g->size[size - 1].most;
	struct ht_shape s = n->out[0].shape;

	for (int32_t i = 0; i < s.rank; i++) {
		int64_t step = stride_of(b, s, i), all = step * ht_open_most(b, s.dim[i]);

		if (ht_open_has(b, s.dim[i], size) && stride >= step && stride % step == 0 &&
			all % (stride * most) == 0 &&
			add_part(&out[i], (struct ht_open_axis){ size, stride / step }))
			return HT_OK;
	}
	return ht_open_refuse(b, n, "a reshape divides it");
}

static enum ht_status reshaped(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);

	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		if (ht_open_most(b, n->out[0].shape.dim[i]) < 0)
			return ht_open_refuse(b, n, "the shape of this result is not known");
	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_open a = axis_of(b, n, 0, i);

		for (int k = 0; k < 2 && a.part[k].size; k++)
			HT_TRY(put_by_stride(
				b, n, a.part[k].size, a.part[k].inner * stride_of(b, s, i), out));
	}
	return HT_OK;
}

static enum ht_status transposed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank;

	for (int32_t i = 0; i < rank; i++) {
		int32_t from = named_axis(b, n->in[1], i, rank);

		if (from < 0)
			return ht_open_refuse(
				b, n, "its axes are in an order that is not constant");
		HT_TRY(put(b, n, out, i, axis_of(b, n, 0, from)));
	}
	return HT_OK;
}

/* Sums of products take what is outside as zeros. */
static enum ht_status sum_along(struct ht_bounded *b, struct ht_node *n, int32_t x, int32_t y)
{
	struct ht_open a = axis_of(b, n, 0, x), c = axis_of(b, n, 1, y);
	bool zeros = n->in[0].node->op == HT_OP_Softmax && x == ht_in_shape(n, 0).rank - 1;

	if (!ht_open_some(a) && !ht_open_some(c))
		return HT_OK;
	if (!is_same(a, c))
		return ht_open_refuse(b, n, "two sizes meet here, which may differ when it runs");
	if (!zeros)
		mask(b, n, 0, x, a, "zero");
	mask(b, n, 1, y, a, "zero");
	return HT_OK;
}

static enum ht_status multiplied(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool matrix = ht_is(n, HT_MATMUL);
	bool tx = ht_attr_bool(n, matrix ? "transpose_a" : "adj_x", false);
	bool ty = ht_attr_bool(n, matrix ? "transpose_b" : "adj_y", false);
	int32_t rx = ht_in_shape(n, 0).rank, ry = ht_in_shape(n, 1).rank;
	int32_t rank = n->out[0].shape.rank;

	for (int32_t i = 2; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this adds to a product something of an open size");
	HT_TRY(put_axes(b, n, 0, 0, rx - 2, out, rank - rx));
	HT_TRY(put_axes(b, n, 1, 0, ry - 2, out, rank - ry));
	HT_TRY(put(b, n, out, rank - 2, axis_of(b, n, 0, tx ? rx - 1 : rx - 2)));
	HT_TRY(put(b, n, out, rank - 1, axis_of(b, n, 1, ty ? ry - 2 : ry - 1)));
	return sum_along(b, n, tx ? rx - 2 : rx - 1, ty ? ry - 1 : ry - 2);
}

/* By name of an axis: what is open in the operands. */
static enum ht_status read_terms(const struct ht_bounded *b, const struct ht_node *n,
	const struct ht_einsum *e, struct ht_open *named)
{
	for (int32_t i = 0; i < e->operands; i++) {
		int32_t rank = ht_in_shape(n, i).rank;

		for (int32_t k = 0; k < rank; k++)
			HT_TRY(put(b, n, named, ht_einsum_name(&e->in[i], rank, k),
				axis_of(b, n, i, k)));
	}
	return HT_OK;
}

static enum ht_status contracted(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_open named[HT_EINSUM_NAMES] = { { { { 0 } } } };
	bool kept[HT_EINSUM_NAMES] = { false };
	struct ht_einsum e;
	int32_t rank = n->out[0].shape.rank;

	if (ht_einsum_read(ht_attr_str(n, "equation", ""), &e))
		return ht_open_refuse(b, n, "the equation is not understood");
	HT_TRY(read_terms(b, n, &e, named));
	for (int32_t k = 0; k < rank; k++) {
		int32_t name = ht_einsum_name(&e.out, rank, k);

		kept[name] = true;
		out[k] = named[name];
	}
	for (int32_t i = 0; i < e.operands; i++) {
		int32_t own = ht_in_shape(n, i).rank;

		for (int32_t k = 0; k < own; k++) {
			int32_t name = ht_einsum_name(&e.in[i], own, k);

			if (ht_open_some(named[name]) && ht_in_shape(n, i).dim[k] >= 0)
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
			if (ht_open_some(named[name]) && !kept[name])
				mask(b, n, i, k, named[name], "zero");
		}
	}
	return HT_OK;
}

/* What leaves a reduction as it is; NULL: nothing does. */
static const char *neutral_of(enum ht_op op)
{
	switch (op) {
	case HT_OP_Sum:
	case HT_OP_Mean:
	case HT_OP_Any:
	case HT_OP_EuclideanNorm:
		return "zero";
	case HT_OP_Prod:
	case HT_OP_All:
		return "one";
	case HT_OP_Max:
		return "lowest";
	case HT_OP_Min:
		return "highest";
	default:
		return NULL;
	}
}

static bool read_axes(
	const struct ht_bounded *b, const struct ht_node *n, bool reduced[HT_OPEN_RANK])
{
	int64_t count = ht_shape_count(ht_in_shape(n, 1));

	for (int32_t i = 0; i < count; i++) {
		int32_t axis = named_axis(b, n->in[1], i, ht_in_shape(n, 0).rank);

		if (axis < 0)
			return false;
		reduced[axis] = true;
	}
	return count >= 0;
}

static enum ht_status reduced(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, to = 0;
	bool keeps = ht_attr_bool(n, "keep_dims", false), along[HT_OPEN_RANK] = { false };
	const char *neutral = neutral_of(n->op);
	int64_t size[2 * HT_OPEN_RANK];
	struct axes in = axes_of(b, n, 0);
	const struct ht_open *axis = in.axis;
	size_t sizes = 0;

	if (!neutral || !read_axes(b, n, along))
		return ht_open_refuse(
			b, n, "this reduces it in a way, or along axes, that are not supported");
	for (int32_t i = 0; i < rank; i++) {
		if (along[i])
			mask(b, n, 0, i, axis[i], neutral);
		for (int k = 0; k < 2 && along[i] && axis[i].part[k].size; k++)
			size[sizes++] = axis[i].part[k].size - 1;
		if (!along[i])
			HT_TRY(put(b, n, out, to, axis[i]));
		to += !along[i] || keeps;
	}
	if (n->op == HT_OP_Mean && sizes)
		ht_attr_set_ints(n, "_sizes", size, sizes);
	return HT_OK;
}

/* The place of an extreme: a row of minus infinity alone has its first. */
static enum ht_status found(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, axis = named_axis(b, n->in[1], 0, rank);

	if (axis < 0)
		return ht_open_refuse(b, n, "the axis is not constant");
	HT_TRY(put_axes(b, n, 0, 0, axis, out, 0));
	HT_TRY(put_axes(b, n, 0, axis + 1, rank, out, axis));
	if (ht_open_some(axis_of(b, n, 0, axis)))
		mask(b, n, 0, axis, axis_of(b, n, 0, axis),
			n->op == HT_OP_ArgMax ? "lowest" : "highest");
	return HT_OK;
}

static enum ht_status shared(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t last = n->out[0].shape.rank - 1;
	struct ht_open a = axis_of(b, n, 0, last);

	HT_TRY(of_first(b, n, out));
	mask(b, n, 0, last, a, "lowest");
	return HT_OK;
}

/* Tells the kernel how many indices of axes `first` up to `end` of a tensor the run has: a pair for each axis. */
static enum ht_status limit_axes(struct ht_bounded *b, struct ht_node *n, struct ht_shape s,
	const struct ht_open *axis, int32_t first, int32_t end)
{
	int64_t open[2 * HT_OPEN_RANK] = { 0 };
	uint64_t sizes = 0;

	for (int32_t i = first; i < end; i++) {
		struct ht_open a = axis[i];

		if (!ht_open_some(a))
			continue;
		if (!is_plain(b, s, i, a))
			return ht_open_refuse(
				b, n, "this takes it together with others, which a reshape joined");
		open[2 * i] = a.part[0].size;
		open[2 * i + 1] = a.part[0].inner;
		sizes |= UINT64_C(1) << (a.part[0].size - 1);
	}
	if (sizes)
		ht_attr_set_ints(n, "_open", open, 2 * (size_t)end);
	ht_open_wait(b, n, sizes);
	return HT_OK;
}

static enum ht_status limit(struct ht_bounded *b, struct ht_node *n, int32_t first, int32_t end)
{
	struct axes a = axes_of(b, n, 0);

	return limit_axes(b, n, ht_in_shape(n, 0), a.axis, first, end);
}

/* Tells the kernel of `n` which elements of operand `arg`, of `axes` axes and more, are outside: an axis, a size and its `inner` of
 * each.  So it follows no index there, and others have to be those of elements inside. */
static void tell_outside(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axes)
{
	int64_t within[2 * 3 * HT_OPEN_RANK];
	uint64_t sizes = 0;
	size_t count = 0;

	for (int32_t i = 0; i < axes; i++) {
		struct ht_open a = axis_of(b, n, arg, i);

		for (int p = 0; p < 2 && a.part[p].size; p++) {
			within[count++] = i;
			within[count++] = a.part[p].size;
			within[count++] = a.part[p].inner;
			sizes |= UINT64_C(1) << (a.part[p].size - 1);
		}
	}
	if (count)
		ht_attr_set_ints(n, "_within", within, count);
	ht_open_wait(b, n, sizes);
}

static enum ht_status gathered(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, own = ht_in_shape(n, 1).rank;
	int32_t axis = n->ins > 2 ? named_axis(b, n->in[2], 0, rank) : 0;

	if (axis < 0 || ht_attr_int(n, "batch_dims", 0))
		return ht_open_refuse(b, n, "this gathers along it");
	HT_TRY(limit(b, n, axis, axis + 1));
	HT_TRY(put_axes(b, n, 0, 0, axis, out, 0));
	HT_TRY(put_axes(b, n, 1, 0, own, out, axis));
	tell_outside(b, n, 1, own);
	return put_axes(b, n, 0, axis + 1, rank, out, axis + own);
}

/* Operands `indices` and `slices`, whose first `outer` axes count the slices; behind these come the axes of the target from `depth`
 * on, which has the axes `to`. */
struct scattering {
	int32_t indices, slices, outer, depth;
};

static enum ht_status scatter(struct ht_bounded *b, struct ht_node *n, struct scattering s,
	const struct ht_open to[HT_OPEN_RANK])
{
	for (int32_t i = 0; i < ht_in_shape(n, s.slices).rank; i++) {
		struct ht_open a =
			i < s.outer ? axis_of(b, n, s.indices, i) : to[s.depth + i - s.outer];

		if (!is_same(a, axis_of(b, n, s.slices, i)))
			return ht_open_refuse(b, n,
				"the slices that this scatters are not as many, or not as large");
	}
	tell_outside(b, n, s.indices, s.outer);
	return HT_OK;
}

static int32_t depth_of(const struct ht_node *n, int32_t indices)
{
	struct ht_shape s = ht_in_shape(n, indices);

	return s.rank && s.dim[s.rank - 1] >= 0 && s.dim[s.rank - 1] < HT_OPEN_RANK
		       ? (int32_t)s.dim[s.rank - 1]
		       : 0;
}

/* Indices of the first axes of the result are below the run's sizes, of which there is one an axis. */
static enum ht_status limit_result(
	struct ht_bounded *b, struct ht_node *n, int32_t end, const struct ht_open *out)
{
	return limit_axes(b, n, n->out[0].shape, out, 0, end);
}

static enum ht_status scattered(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t depth = depth_of(n, 0);
	struct scattering s = { 0, 1, ht_in_shape(n, 0).rank - 1, depth };

	HT_TRY(made(b, n, out));
	HT_TRY(limit_result(b, n, depth, out));
	return scatter(b, n, s, out);
}

static enum ht_status scattered_into(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t depth = depth_of(n, 1);
	struct scattering s = { 1, 2, ht_in_shape(n, 1).rank - 1, depth };

	HT_TRY(put_axes(b, n, 0, 0, ht_in_shape(n, 0).rank, out, 0));
	HT_TRY(limit_result(b, n, depth, out));
	return scatter(b, n, s, out);
}

/* Rows of operand 0 by the ids of operand 1. */
static enum ht_status segmented(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t outer = ht_in_shape(n, 1).rank;
	struct scattering s = { 1, 0, outer, 1 };

	HT_TRY(make(b, n, 0, out));
	HT_TRY(put_axes(b, n, 0, outer, ht_in_shape(n, 0).rank, out, 1));
	HT_TRY(limit_result(b, n, 1, out));
	return scatter(b, n, s, out);
}

/* Rows of a variable that are changed by rows of updates, or of a gradient. */
static int32_t updates_of(const struct ht_node *n)
{
	int32_t updates = ht_named_argument(n->op, "updates");

	return updates < 0 ? ht_named_argument(n->op, "grad") : updates;
}

static bool updates_rows(const struct ht_node *n)
{
	return n->outs == 0 && ht_named_argument(n->op, "indices") >= 0 && updates_of(n) >= 0;
}

static enum ht_status updated(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	const struct ht_open fixed[HT_OPEN_RANK] = { 0 };
	int32_t indices = ht_named_argument(n->op, "indices"), updates = updates_of(n);

	(void)out;
	for (int32_t i = 0; i < n->ins; i++)
		if (i != indices && i != updates && ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	return scatter(b, n,
		(struct scattering){ indices, updates, ht_in_shape(n, indices).rank, 0 }, fixed);
}

/* The last axis of the indices has an index of each of operand 0's first axes. */
static enum ht_status gathered_nd(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, last = ht_in_shape(n, 1).rank - 1;
	int64_t depth = last < 0 ? -1 : ht_in_shape(n, 1).dim[last];

	if (depth < 0 || depth > rank)
		return ht_open_refuse(b, n, "this gathers by so many indices");
	HT_TRY(limit(b, n, 0, (int32_t)depth));
	HT_TRY(put_axes(b, n, 1, 0, last, out, 0));
	tell_outside(b, n, 1, last);
	return put_axes(b, n, 0, (int32_t)depth, rank, out, last);
}

/* Positions of elements: outside there are none. */
static enum ht_status located(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct axes in = axes_of(b, n, 0);

	for (int32_t i = 0; i < s.rank; i++) {
		if (!ht_open_some(in.axis[i]))
			continue;
		if (!is_plain(b, s, i, in.axis[i]))
			return ht_open_refuse(b, n, "a reshape put it together with others");
		mask_all(b, n, 0, i, in.axis[i], "zero");
	}
	out[0] = (struct ht_open){ { { ht_computed_size(b->r.g, n), 1 } } };
	return HT_OK;
}

static bool is_open_elsewhere(
	const struct ht_bounded *b, const struct ht_node *n, int32_t arg, int32_t axis)
{
	for (int32_t i = 0; i < ht_in_shape(n, arg).rank; i++)
		if (i != axis && ht_open_some(axis_of(b, n, arg, i)))
			return true;
	return false;
}

static enum ht_status padded(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t axis = ht_attr_int(n, "axis", 0);

	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		if (i != axis)
			HT_TRY(put(b, n, out, i, axis_of(b, n, 0, i)));
	return HT_OK;
}

/* Boxes and their scores: as many as the run has. */
static enum ht_status suppressed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t size = ht_computed_size(b->r.g, n);

	for (int32_t i = 2; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	if (!is_same(axis_of(b, n, 0, 0), axis_of(b, n, 1, 0)) || is_open_elsewhere(b, n, 0, 0))
		return ht_open_refuse(b, n, "there are not as many boxes as scores");
	HT_TRY(limit(b, n, 0, 1));
	for (int32_t i = 0; size && i < n->outs && n->out[i].shape.rank; i++)
		out[i * HT_OPEN_RANK] = (struct ht_open){ { { size, 1 } } };
	return HT_OK;
}

/* Distinct slices, which of them each slice is, and how many each is. */
static enum ht_status distinct(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool given = n->ins > 1 && ht_shape_count(ht_in_shape(n, 1)) > 0;
	int32_t axis = given ? named_axis(b, n->in[1], 0, ht_in_shape(n, 0).rank) : 0;
	struct ht_open computed = { { { ht_computed_size(b->r.g, n), 1 } } };

	if (axis < 0)
		return ht_open_refuse(b, n, "the axis is not constant");
	if (is_open_elsewhere(b, n, 0, axis))
		return ht_open_refuse(b, n, "this compares slices of its size");
	HT_TRY(limit(b, n, axis, axis + 1));
	out[axis] = computed;
	out[HT_OPEN_RANK] = axis_of(b, n, 0, axis);
	if (n->outs > 2)
		out[2 * HT_OPEN_RANK] = computed;
	return HT_OK;
}

static enum ht_status hot(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (ht_attr_int(n, "axis", -1) != -1)
		return ht_open_refuse(b, n, "this puts an axis in front of it");
	for (int32_t i = 1; i < n->ins; i++)
		if (ht_open_in(b, n, i))
			return ht_open_refuse(
				b, n, "this takes it as an operand that it may not be of");
	return put_axes(b, n, 0, 0, ht_in_shape(n, 0).rank, out, 0);
}

/* Operands first.. up to `end` behind each other along an axis that is not open. */
static enum ht_status joined(struct ht_bounded *b, struct ht_node *n, int32_t first, int32_t end,
	int32_t axis, struct ht_open *out)
{
	int32_t rank = n->out[0].shape.rank;

	for (int32_t i = first; i < end; i++) {
		if (axis < 0 || ht_open_some(axis_of(b, n, i, axis)))
			return ht_open_refuse(b, n, "something is put behind it");
		HT_TRY(align(b, n, i, rank, out));
	}
	for (int32_t i = first; i < end; i++)
		for (int32_t k = 0; k < rank; k++)
			if (k != axis && ht_open_some(out[k]) && !ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	return HT_OK;
}

static enum ht_status concatenated(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool last = n->op == HT_OP_ConcatV2;
	int32_t rank = n->out[0].shape.rank;
	int32_t axis = named_axis(b, n->in[last ? n->ins - 1 : 0], 0, rank);

	return joined(b, n, last ? 0 : 1, last ? n->ins - 1 : n->ins, axis, out);
}

static enum ht_status packed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t axis = ht_attr_int(n, "axis", 0);
	int32_t rank = n->out[0].shape.rank;

	if (!ht_fix_axis(&axis, rank))
		return ht_open_refuse(b, n, "the axis is not known");
	for (int32_t i = 0; i < n->ins; i++) {
		HT_TRY(put_axes(b, n, i, 0, (int32_t)axis, out, 0));
		HT_TRY(put_axes(b, n, i, (int32_t)axis, rank - 1, out, (int32_t)axis + 1));
	}
	for (int32_t i = 0; i < n->ins; i++)
		for (int32_t k = 0; k < rank - 1; k++)
			if (ht_open_some(out[k + (k >= axis)]) &&
				!ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	return HT_OK;
}

static enum ht_status split(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t value = n->op == HT_OP_Split, rank = ht_in_shape(n, value).rank;
	int32_t axis = named_axis(b, n->in[value ? 0 : 2], 0, rank);

	if (axis < 0 || ht_open_some(axis_of(b, n, value, axis)))
		return ht_open_refuse(b, n, "this divides it");
	for (int32_t i = 0; i < n->outs; i++)
		HT_TRY(put_axes(b, n, value, 0, rank, out + i * HT_OPEN_RANK, 0));
	return HT_OK;
}

static enum ht_status unpacked(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t axis = ht_attr_int(n, "axis", 0);
	int32_t rank = ht_in_shape(n, 0).rank;

	if (!ht_fix_axis(&axis, rank) || ht_open_some(axis_of(b, n, 0, (int32_t)axis)))
		return ht_open_refuse(b, n, "this divides it");
	for (int32_t i = 0; i < n->outs; i++) {
		HT_TRY(put_axes(b, n, 0, 0, (int32_t)axis, out + i * HT_OPEN_RANK, 0));
		HT_TRY(put_axes(
			b, n, 0, (int32_t)axis + 1, rank, out + i * HT_OPEN_RANK, (int32_t)axis));
	}
	return HT_OK;
}

/* BroadcastTo and Tile: what is open already stays, or is made of one. */
static enum ht_status repeated(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int32_t lead = n->out[0].shape.rank - s.rank;

	HT_TRY(align(b, n, 0, n->out[0].shape.rank, out));
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_open_some(out[lead + i]) && s.dim[i] != n->out[0].shape.dim[lead + i])
			return ht_open_refuse(b, n, "this repeats it");
	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		if (!ht_open_some(out[i]))
			HT_TRY(make(b, n, i, out));
	return HT_OK;
}

static bool is_all(const struct ht_node *n, struct ht_elem end, int32_t axis)
{
	return (end.kind == HT_ELEM_INT && end.i == -1 && n->op == HT_OP_Slice) ||
	       (end.kind == HT_ELEM_DIM && end.i == ht_in_shape(n, 0).dim[axis]);
}

static enum ht_status sliced(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);

	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_open a = axis_of(b, n, 0, i);
		const struct ht_open_size *of[2];

		if (ht_open_some(a) && (!is_zero(b, n->in[1], i) ||
					       !is_all(n, ht_open_element(b, n->in[2], i), i)))
			return ht_open_refuse(b, n, "this takes a part of it");
		HT_TRY(put(b, n, out, i, a));
		if (ht_open_some(a) || !ht_dim_sizes(b->r.g, n->out[0].shape.dim[i], of))
			continue;
		if (!is_zero(b, n->in[1], i) || s.dim[i] < 0 || s.dim[i] < of[0]->most)
			return ht_open_refuse(
				b, n, "this takes so much of something that may have less");
		HT_TRY(make(b, n, i, out));
	}
	return HT_OK;
}

struct entry {
	struct ht_bounded *b;
	struct ht_node *n;
	struct ht_open *out;
	int32_t axis, to; /* of the operand, of the result */
};

static bool bit(const struct ht_node *n, const char *name, int32_t i)
{
	return i < 63 && ht_attr_int(n, name, 0) >> i & 1;
}

/* Entry i of a StridedSlice: one axis, from begin to end. */
static enum ht_status take_entry(struct entry *e, int32_t i)
{
	struct ht_open a = axis_of(e->b, e->n, 0, e->axis);
	bool whole_begin = bit(e->n, "begin_mask", i) || is_zero(e->b, e->n->in[1], i);
	struct ht_elem end = ht_open_element(e->b, e->n->in[2], i);
	bool whole_end = bit(e->n, "end_mask", i) || is_all(e->n, end, e->axis);
	bool takes_one = bit(e->n, "shrink_axis_mask", i);
	int64_t begin = 0, step;

	if (ht_open_some(a) && takes_one) {
		if (a.part[0].inner != 1 || !is_number(e->b, e->n->in[1], i, &begin) || begin < 0 ||
			begin >= e->b->r.g->size[a.part[0].size - 1].least)
			return ht_open_refuse(e->b, e->n,
				"this takes an element that the least size does not have");
	} else if (ht_open_some(a)) {
		if (!whole_begin || !whole_end || !is_number(e->b, e->n->in[3], i, &step) ||
			step != 1)
			return ht_open_refuse(e->b, e->n, "this takes a part of it");
		HT_TRY(put(e->b, e->n, e->out, e->to, a));
	} else if (!takes_one) {
		HT_TRY(make(e->b, e->n, e->to, e->out));
	}
	e->axis++;
	e->to += !takes_one;
	return HT_OK;
}

static enum ht_status strided(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct entry e = { b, n, out, 0, 0 };
	int32_t entries = (int32_t)ht_shape_count(ht_in_shape(n, 1)), named = 0, rest;

	if (entries < 0)
		return ht_open_refuse(b, n, "the slice is not known");
	for (int32_t i = 0; i < entries; i++)
		named += !bit(n, "new_axis_mask", i) && !bit(n, "ellipsis_mask", i);
	rest = ht_in_shape(n, 0).rank - named;
	for (int32_t i = 0; i < entries; i++) {
		if (bit(n, "ellipsis_mask", i)) {
			HT_TRY(put_axes(b, n, 0, e.axis, e.axis + rest, out, e.to));
			e.axis += rest;
			e.to += rest;
		} else if (bit(n, "new_axis_mask", i)) {
			e.to++;
		} else {
			HT_TRY(take_entry(&e, i));
		}
	}
	return put_axes(b, n, 0, e.axis, ht_in_shape(n, 0).rank, out, e.to);
}

static enum ht_status summed_up(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (ht_attr_bool(n, "reverse", false))
		return ht_open_refuse(b, n, "this sums from its end");
	return of_first(b, n, out);
}

static enum ht_status selected(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	if (ht_in_shape(n, 0).rank != ht_in_shape(n, 1).rank && ht_in_shape(n, 0).rank)
		return ht_open_refuse(b, n, "this selects rows by a vector");
	return aligned(b, n, out);
}

static ht_open_rule *named_rule(enum ht_op op)
{
	switch (op) {
	case HT_OP_BiasAdd:
	case HT_OP_ZerosLike:
	case HT_OP_OnesLike:
	case HT_OP_MatrixBandPart:
		return of_first;
	case HT_OP_Transpose:
		return transposed;
	case HT_OP_ConcatV2:
	case HT_OP_Concat:
		return concatenated;
	case HT_OP_Pack:
		return packed;
	case HT_OP_Unpack:
		return unpacked;
	case HT_OP_Split:
	case HT_OP_SplitV:
		return split;
	case HT_OP_Slice:
		return sliced;
	case HT_OP_StridedSlice:
		return strided;
	case HT_OP_OneHot:
		return hot;
	case HT_OP_Select:
		return selected;
	case HT_OP_Cumsum:
		return summed_up;
	case HT_OP_BroadcastTo:
	case HT_OP_Tile:
		return repeated;
	case HT_OP_Fill:
	case HT_OP_Range:
		return made;
	case HT_OP_Gather:
	case HT_OP_GatherV2:
		return gathered;
	case HT_OP_GatherNd:
		return gathered_nd;
	case HT_OP_ScatterNd:
		return scattered;
	case HT_OP_TensorScatterUpdate:
	case HT_OP_TensorScatterAdd:
	case HT_OP_TensorScatterSub:
	case HT_OP_TensorScatterMin:
	case HT_OP_TensorScatterMax:
		return scattered_into;
	case HT_OP_UnsortedSegmentSum:
	case HT_OP_UnsortedSegmentMax:
	case HT_OP_UnsortedSegmentMin:
	case HT_OP_UnsortedSegmentProd:
		return segmented;
	case HT_OP__Padded:
		return padded;
	case HT_OP_Where:
		return located;
	case HT_OP_NonMaxSuppression:
	case HT_OP_NonMaxSuppressionV2:
	case HT_OP_NonMaxSuppressionV3:
	case HT_OP_NonMaxSuppressionV4:
	case HT_OP_NonMaxSuppressionV5:
		return suppressed;
	case HT_OP_Unique:
	case HT_OP_UniqueV2:
	case HT_OP_UniqueWithCounts:
	case HT_OP_UniqueWithCountsV2:
		return distinct;
	case HT_OP_Pad:
	case HT_OP_PadV2:
		return ht_open_padded;
	case HT_OP_MaxPool:
	case HT_OP_AvgPool:
		return ht_open_window;
	default:
		return NULL;
	}
}

ht_open_rule *ht_open_rule_of(const struct ht_node *n)
{
	static const struct {
		uint64_t trait;
		ht_open_rule *rule;
	} by_trait[] = { { HT_ELEMENTWISE, aligned }, { HT_FORWARDS, forwarded },
		{ HT_RESHAPES, reshaped }, { HT_MATRIX_PRODUCT, multiplied },
		{ HT_EINSUM, contracted }, { HT_REDUCES, reduced }, { HT_FINDS, found },
		{ HT_BATCH_NORM, normalised }, { HT_CONV, ht_open_window },
		{ HT_DEPTHWISE, ht_open_window } };

	if (ht_is(n, HT_ROWS) && n->ins == 1)
		return shared;
	for (size_t i = 0; i < HT_COUNT(by_trait); i++)
		if (ht_is(n, by_trait[i].trait))
			return by_trait[i].rule;
	return updates_rows(n) ? updated : named_rule(n->op);
}
