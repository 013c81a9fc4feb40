/* Rules of open axes along which an op sums, reduces or normalises: which elements outside are
 * neutral. */
#include "ir/einsum.h"
#include "passes/bounded_axes.h"

#include <string.h>

/* Whether each run has elements of the axis. */
static bool has_some(const struct ht_bounded *b, struct ht_open a)
{
	for (int i = 0; i < ht_open_parts(a); i++)
		if (ht_size_at(b->r.g, a.part[i].size)->least < 1)
			return false;
	return true;
}

/* For sums of products, elements outside become zeros. */
static enum ht_status sum_along(struct ht_bounded *b, struct ht_node *n, int32_t x, int32_t y)
{
	struct ht_open a = axis_of(b, n, 0, x), c = axis_of(b, n, 1, y);
	bool zeros = ht_is(n->in[0].node, HT_SHARES) && x == ht_in_shape(n, 0).rank - 1 &&
		     has_some(b, a); /* shares of nothing are no numbers */

	if (!ht_open_some(a) && !ht_open_some(c))
		return HT_OK;
	if (!is_same(a, c))
		return ht_open_refuse(b, n, "two sizes meet here, which may differ when it runs");
	if (!zeros)
		ht_open_mask(b, n, 0, x, a, HT_NUMBER_ZERO);
	ht_open_mask(b, n, 1, y, a, HT_NUMBER_ZERO);
	return HT_OK;
}

enum ht_status ht_open_multiplied(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
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

/* By name of an axis: the open sizes in the operands. */
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

enum ht_status ht_open_contracted(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
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
				ht_open_mask(b, n, i, k, named[name], HT_NUMBER_ZERO);
		}
	}
	return HT_OK;
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

enum ht_status ht_open_reduced(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, to = 0;
	bool keeps = ht_attr_bool(n, "keep_dims", false), along[HT_OPEN_RANK] = { false };
	int64_t size[HT_OPEN_PARTS * HT_OPEN_RANK];
	struct axes in = axes_of(b, n, 0);
	const struct ht_open *axis = in.axis;
	size_t sizes = 0;

	if (!read_axes(b, n, along))
		return ht_open_refuse(b, n, "this reduces it along axes that are not constant");
	for (int32_t i = 0; i < rank; i++) {
		if (along[i])
			ht_open_mask(b, n, 0, i, axis[i], ht_number(n));
		for (int k = 0; along[i] && k < ht_open_parts(axis[i]); k++)
			size[sizes++] = axis[i].part[k].size - 1;
		if (!along[i])
			HT_TRY(put(b, n, out, to, axis[i]));
		to += !along[i] || keeps;
	}
	if (n->op == HT_OP_Mean && sizes)
		ht_attr_set_ints(n, "_sizes", size, sizes);
	return HT_OK;
}

enum ht_status ht_open_consumed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct axes in = axes_of(b, n, 0);

	(void)out;
	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		ht_open_mask(b, n, 0, i, in.axis[i], ht_number(n));
	return HT_OK;
}

/* The place of an extreme: a row of minus infinity alone has its first. */
enum ht_status ht_open_found(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank, axis = named_axis(b, n->in[1], 0, rank);
	struct ht_open along;

	if (axis < 0)
		return ht_open_refuse(b, n, "the axis is not constant");
	HT_TRY(put_axes(b, n, 0, 0, axis, out, 0));
	HT_TRY(put_axes(b, n, 0, axis + 1, rank, out, axis));
	along = axis_of(b, n, 0, axis);
	if (ht_open_some(along))
		ht_open_mask(b, n, 0, axis, along, ht_number(n));
	if (ht_open_is_joined(b, ht_in_shape(n, 0), axis, along))
		ht_open_find_in_run(b, n, along);
	return HT_OK;
}

enum ht_status ht_open_shared(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t last = n->out[0].shape.rank - 1;
	struct ht_open a = axis_of(b, n, 0, last);

	HT_TRY(ht_open_of_first(b, n, out));
	ht_open_mask(b, n, 0, last, a, HT_NUMBER_LOWEST);
	return HT_OK;
}

/* Losses of rows, by labels, and their gradients.  Rows that a run does not have get a label that is one. */
enum ht_status ht_open_judged(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_open rows = axis_of(b, n, 0, 0);

	if (ht_in_shape(n, 0).rank != 2 || ht_open_some(axis_of(b, n, 0, 1)) ||
		ht_open_some(axis_of(b, n, 1, 1)) || !is_same(rows, axis_of(b, n, 1, 0)))
		return ht_open_refuse(
			b, n, "of this, rows of logits and labels alone may both have it");
	if (!ht_open_some(rows))
		return HT_OK;
	HT_TRY(put(b, n, out, 0, rows));
	HT_TRY(put(b, n, out + HT_OPEN_RANK, 0, rows));
	ht_open_mask_all(b, n, 1, 0, rows, HT_NUMBER_ZERO);
	return HT_OK;
}

/* The largest elements of each row: those outside are the lowest, behind all others. */
enum ht_status ht_open_best(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t last = ht_in_shape(n, 0).rank - 1;
	struct ht_open a = axis_of(b, n, 0, last);
	bool joined = ht_open_is_joined(b, ht_in_shape(n, 0), last, a);

	for (int32_t i = 0; i < n->outs; i++) {
		HT_TRY(put_axes(b, n, 0, 0, last, out + i * HT_OPEN_RANK, 0));
		if (n->out[i].shape.dim[last] == ht_in_shape(n, 0).dim[last] && joined)
			return ht_open_refuse(
				b, n, "this sorts it together with others, which a reshape joined");
		if (n->out[i].shape.dim[last] == ht_in_shape(n, 0).dim[last])
			HT_TRY(put(b, n, out + i * HT_OPEN_RANK, last, a));
	}
	ht_open_mask_all(b, n, 0, last, a, HT_NUMBER_LOWEST);
	if (joined)
		ht_open_find_in_run(b, n, a);
	return HT_OK;
}
