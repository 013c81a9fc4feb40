/* Rules of ops that move data: they reshape, permute, join or divide tensors. */
#include "ir/infer.h"

/* The product of the known dimensions, that without those that are 0, the number of the others, one of these, and whether a known one is
 * an open size that may be 0. */
struct product {
	struct ht_size_expr known, without_zeros;
	int32_t unknown, last;
	bool may_be_zero;
};

static struct product product_of(const struct ht_infer *in, struct ht_shape s)
{
	struct product p = { ht_size_number(1), ht_size_number(1), 0, -1, false };

	for (int32_t i = 0; i < s.rank; i++) {
		if (s.dim[i] == HT_DIM_UNKNOWN) {
			p.unknown++;
			p.last = i;
			continue;
		}
		p.known = ht_size_product(p.known, ht_dim_product(in->g, s.dim[i]));
		if (s.dim[i])
			p.without_zeros =
				ht_size_product(p.without_zeros, ht_dim_product(in->g, s.dim[i]));
		p.may_be_zero = p.may_be_zero || (s.dim[i] < 0 && !ht_dim_least(in->g, s.dim[i]));
	}
	return p;
}

static enum ht_status reshape_fail(
	struct ht_infer *in, const struct ht_node *n, struct ht_shape from, struct ht_shape to)
{
	return ht_infer_fail(in, n, "%.*s cannot be reshaped to %.*s",
		HT_STR_ARG(ht_shape_text(in, from)), HT_STR_ARG(ht_shape_text(in, to)));
}

/* Computes the extent in place of the shape's -1 where the operand has no elements and the shape has a 0 beside its -1.  TensorFlow divides the
 * operand's extents that are not 0 by those of the shape that are not 0, and ignores a remainder; so the extent need not be 0. */
static void complete_zeros(
	const struct product *is, const struct product *wants, bool is_rest, int64_t *d)
{
	if (is_rest && !ht_size_count(&is->without_zeros) && !ht_size_count(&wants->without_zeros))
		d[wants->last] = is->without_zeros.times / wants->without_zeros.times;
}

/* Whether only a run can tell the extent of `to` that is not known: a size that the shape states may be 0 in the run, and then the number of
 * elements does not tell the extent (complete_zeros()). */
static bool depends_on_zeros(
	struct ht_infer *in, const struct product *wants, bool is_rest, int64_t dim)
{
	return wants->may_be_zero && (!is_rest || !ht_dim_least(in->g, dim));
}

/* Computes the one unknown dimension of `to` from the number of elements, if that is known.  It is the shape's -1 if it is the rest, else
 * the shape has some number there. */
static enum ht_status complete(struct ht_infer *in, const struct ht_node *n, struct ht_shape from,
	struct ht_shape to, int64_t *d, bool is_rest)
{
	struct product is = product_of(in, from), wants = product_of(in, to);
	bool sizes = !ht_size_count(&is.known) && !ht_size_count(&wants.known) && !is.unknown;
	int64_t rest;

	if (ht_size_is_none(&is.known) || ht_size_is_none(&wants.known))
		return is.unknown || wants.unknown || !ht_shape_known(from) || !ht_shape_known(to)
			       ? HT_OK
			       : reshape_fail(in, n, from, to);
	if (sizes && !wants.unknown && is.known.times != wants.known.times)
		return reshape_fail(in, n, from, to);
	if (wants.unknown != 1 || is.unknown > 1)
		return HT_OK;
	if (is.unknown) {
		if (ht_size_equal(is.known, wants.known) && !wants.may_be_zero && wants.known.times)
			d[wants.last] = from.dim[is.last];
		return HT_OK;
	}
	if (sizes && wants.known.times == 0) {
		if (is.known.times)
			return reshape_fail(in, n, from, to);
		complete_zeros(&is, &wants, is_rest, d);
		return HT_OK;
	}
	if (sizes && is.known.times % wants.known.times)
		return reshape_fail(in, n, from, to);
	rest = ht_dim_of_product(in->g, ht_size_quotient(is.known, wants.known));
	if (!depends_on_zeros(in, &wants, is_rest, rest))
		d[wants.last] = rest;
	return HT_OK;
}

enum ht_status ht_infer_reshape(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape from = ht_in_shape(n, 0), to;
	const struct ht_known *k = ht_in_known(in, n, 1);
	int64_t *d;
	int open = 0;
	bool ok;

	HT_TRY(ht_want_rank_of(in, n, 1, 0, 1));
	to = ht_in_as_shape(in, n, 1, &ok);
	if (!ok)
		return ht_infer_fail(in, n, "operand 1 is no shape");
	if (to.rank < 0)
		return HT_OK;
	for (int32_t i = 0; i < k->n; i++)
		open += k->e[i].kind == HT_ELEM_INT && k->e[i].i == -1;
	if (open > 1)
		return ht_infer_fail(in, n, "more than one size is -1");
	d = ht_new_dims(in, to.rank);
	for (int32_t i = 0; i < to.rank; i++)
		d[i] = to.dim[i];
	ht_set_shape(n, 0, to.rank, d);
	return from.rank < 0 ? HT_OK : complete(in, n, from, to, d, open == 1);
}

enum ht_status ht_infer_squeeze(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	bool out[HT_MAX_RANK] = { false };
	int32_t rank = 0;
	size_t count;
	int64_t *axes = ht_attr_ints(n, "squeeze_dims", &count, in->scratch);
	int64_t *d;

	if (!axes)
		axes = ht_attr_ints(n, "axis", &count, in->scratch);
	if (s.rank < 0)
		return HT_OK;
	for (size_t i = 0; i < count; i++) {
		int64_t axis = axes[i];

		if (!ht_fix_axis(&axis, s.rank) || (s.dim[axis] >= 0 && s.dim[axis] != 1))
			return ht_infer_fail(in, n, "axis %lld of %.*s cannot be squeezed out",
				(long long)axes[i], HT_STR_ARG(ht_shape_text(in, s)));
		out[axis] = true;
	}
	d = ht_new_dims(in, s.rank);
	for (int32_t i = 0; i < s.rank; i++) {
		if (!count && s.dim[i] < 0)
			return HT_OK; /* the dimension may be 1: even the rank is unknown */
		if (count ? !out[i] : s.dim[i] != 1)
			d[rank++] = s.dim[i];
	}
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

enum ht_status ht_infer_expand_dims(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axis;
	int64_t *d;

	if (s.rank < 0)
		return HT_OK;
	if (s.rank == HT_MAX_RANK)
		return ht_infer_refuse(in, n, "too many axes");
	d = ht_new_dims(in, s.rank + 1);
	ht_set_shape(n, 0, s.rank + 1, d);
	if (!ht_in_int(in, n, 1, &axis))
		return HT_OK;
	if (!ht_fix_axis(&axis, s.rank + 1))
		return ht_infer_fail(in, n, "axis %lld does not fit %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	for (int32_t i = 0; i <= s.rank; i++)
		d[i] = i < axis ? s.dim[i] : i == axis ? 1 : s.dim[i - 1];
	return HT_OK;
}

enum ht_status ht_infer_transpose(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *k = ht_in_known(in, n, 1);
	bool taken[HT_MAX_RANK] = { false };
	int64_t *d;

	HT_TRY(ht_want_rank(in, n, 1, 1));
	if (k && s.rank >= 0 && k->n != s.rank)
		return ht_infer_fail(
			in, n, "%d axes for %.*s", (int)k->n, HT_STR_ARG(ht_shape_text(in, s)));
	if (s.rank < 0 && (!k || k->n > HT_MAX_RANK))
		return HT_OK;
	d = ht_new_dims(in, s.rank < 0 ? k->n : s.rank);
	ht_set_shape(n, 0, s.rank < 0 ? k->n : s.rank, d);
	for (int32_t i = 0; k && s.rank >= 0 && i < k->n; i++) {
		int64_t axis = k->e[i].i;

		if (k->e[i].kind != HT_ELEM_INT)
			continue;
		if (!ht_fix_axis(&axis, s.rank) || taken[axis])
			return ht_infer_fail(in, n, "the axes are no permutation");
		taken[axis] = true;
		d[i] = s.dim[axis];
	}
	return HT_OK;
}

/* ---- joining ---- */

static enum ht_status concat_shapes(struct ht_infer *in, struct ht_node *n, int32_t first,
	int32_t count, bool has_axis, int64_t axis)
{
	int32_t rank = -1;
	int64_t *d;

	for (int32_t i = first; i < first + count; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		if (s.rank < 0)
			continue;
		if (s.rank == 0)
			return ht_infer_fail(in, n, "operand %d is a scalar", (int)i);
		if (rank >= 0 && s.rank != rank)
			return ht_infer_fail(in, n, "operand %d has %d axes, those before have %d",
				(int)i, (int)s.rank, (int)rank);
		rank = s.rank;
	}
	if (rank < 0)
		return HT_OK;
	if (has_axis && !ht_fix_axis(&axis, rank))
		return ht_infer_fail(
			in, n, "axis %lld does not exist in %d axes", (long long)axis, (int)rank);
	d = ht_new_dims(in, rank);
	ht_set_shape(n, 0, rank, d);
	if (!has_axis)
		return HT_OK;
	d[axis] = 0;
	for (int32_t i = first; i < first + count; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		if (s.rank < 0) {
			d[axis] = HT_DIM_UNKNOWN;
			continue;
		}
		for (int32_t j = 0; j < rank; j++) {
			if (j == axis)
				d[j] = ht_dim_add(d[j], s.dim[j]);
			else if (!ht_merge_dim(d[j], s.dim[j], &d[j]))
				return ht_infer_fail(in, n,
					"operand %d has shape %.*s, axis %d must be %lld", (int)i,
					HT_STR_ARG(ht_shape_text(in, s)), (int)j, (long long)d[j]);
		}
	}
	return HT_OK;
}

enum ht_status ht_infer_concat(struct ht_infer *in, struct ht_node *n)
{
	int64_t axis = 0;
	bool known = ht_in_int(in, n, 0, &axis);

	return concat_shapes(in, n, 1, n->ins - 1, known, axis);
}

enum ht_status ht_infer_concat_v2(struct ht_infer *in, struct ht_node *n)
{
	int64_t axis = 0;
	bool known = ht_in_int(in, n, n->ins - 1, &axis);

	return concat_shapes(in, n, 0, n->ins - 1, known, axis);
}

enum ht_status ht_infer_pack(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = HT_SHAPE_UNKNOWN, both;
	int64_t axis = ht_attr_int(n, "axis", 0);
	int64_t *d;

	for (int32_t i = 0; i < n->ins; i++) {
		if (!ht_merge_shape(in, s, ht_in_shape(n, i), &both))
			return ht_infer_fail(in, n,
				"operand %d has shape %.*s, those before have %.*s", (int)i,
				HT_STR_ARG(ht_shape_text(in, ht_in_shape(n, i))),
				HT_STR_ARG(ht_shape_text(in, s)));
		s = both;
	}
	if (s.rank < 0)
		return HT_OK;
	if (s.rank == HT_MAX_RANK || !ht_fix_axis(&axis, s.rank + 1))
		return ht_infer_fail(in, n, "axis %lld does not fit %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	d = ht_new_dims(in, s.rank + 1);
	for (int32_t i = 0; i <= s.rank; i++)
		d[i] = i < axis ? s.dim[i] : i == axis ? n->ins : s.dim[i - 1];
	ht_set_shape(n, 0, s.rank + 1, d);
	return HT_OK;
}

/* ---- dividing ---- */

enum ht_status ht_infer_unpack(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axis = ht_attr_int(n, "axis", 0);
	int64_t *d;

	if (s.rank < 0)
		return HT_OK;
	if (!ht_fix_axis(&axis, s.rank))
		return ht_infer_fail(in, n, "axis %lld does not exist in %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	if (s.dim[axis] >= 0 && s.dim[axis] != n->outs)
		return ht_infer_fail(in, n, "axis %lld of %.*s does not have size %d",
			(long long)axis, HT_STR_ARG(ht_shape_text(in, s)), (int)n->outs);
	d = ht_new_dims(in, s.rank - 1);
	for (int32_t i = 0, j = 0; i < s.rank; i++)
		if (i != axis)
			d[j++] = s.dim[i];
	for (int32_t i = 0; i < n->outs; i++)
		ht_set_shape(n, i, s.rank - 1, d);
	return HT_OK;
}

/* Gives every result its own copy of the shape of operand `x`, which the caller changes. */
static int64_t **parts(struct ht_infer *in, struct ht_node *n, int32_t x)
{
	struct ht_shape s = ht_in_shape(n, x);
	int64_t **d = HT_NEW_ARRAY(in->scratch, int64_t *, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++) {
		d[i] = ht_new_dims(in, s.rank);
		for (int32_t j = 0; j < s.rank; j++)
			d[i][j] = s.dim[j];
		ht_set_shape(n, i, s.rank, d[i]);
	}
	return d;
}

static void forget_shapes(struct ht_infer *in, struct ht_node *n, int32_t rank)
{
	for (int32_t i = 0; i < n->outs; i++)
		ht_set_shape(n, i, rank, ht_new_dims(in, rank));
}

enum ht_status ht_infer_split(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 1);
	int64_t axis;
	int64_t **d;

	if (n->outs < 1)
		return ht_infer_refuse(in, n, "attribute 'num_split' must be at least 1");
	HT_TRY(ht_want_rank_of(in, n, 1, 1, HT_MAX_RANK));
	if (s.rank < 0)
		return HT_OK;
	if (!ht_in_int(in, n, 0, &axis)) {
		forget_shapes(in, n, s.rank);
		return HT_OK;
	}
	if (!ht_fix_axis(&axis, s.rank) || (s.dim[axis] >= 0 && s.dim[axis] % n->outs))
		return ht_infer_fail(in, n, "%.*s does not split into %d along axis %lld",
			HT_STR_ARG(ht_shape_text(in, s)), (int)n->outs, (long long)axis);
	d = parts(in, n, 1);
	for (int32_t i = 0; i < n->outs; i++)
		if (s.dim[axis] >= 0)
			d[i][axis] = s.dim[axis] / n->outs;
		else if (n->outs > 1)
			d[i][axis] = HT_DIM_UNKNOWN;
	return HT_OK;
}

/* Operands: value, sizes (one may be -1, which stands for the rest), axis. */
enum ht_status ht_infer_split_v(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *k = ht_in_known(in, n, 1);
	int64_t axis, sum = 0;
	int32_t rest = -1;
	int64_t **d;

	if (k && k->n != n->outs)
		return ht_infer_fail(in, n, "%d sizes for %d parts", (int)k->n, (int)n->outs);
	HT_TRY(ht_want_rank_of(in, n, 0, 1, HT_MAX_RANK));
	if (s.rank < 0)
		return HT_OK;
	if (!k || !ht_in_int(in, n, 2, &axis)) {
		forget_shapes(in, n, s.rank);
		return HT_OK;
	}
	if (!ht_fix_axis(&axis, s.rank))
		return ht_infer_fail(in, n, "axis %lld does not exist in %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	d = parts(in, n, 0);
	for (int32_t i = 0; i < n->outs; i++) {
		d[i][axis] = ht_elem_dim(&k->e[i]);
		if (k->e[i].kind == HT_ELEM_INT && k->e[i].i == -1 && rest < 0)
			rest = i;
		else
			sum = ht_dim_add(sum, d[i][axis]);
	}
	if (sum < 0 || s.dim[axis] < 0)
		return HT_OK;
	if (rest < 0 ? sum != s.dim[axis] : sum > s.dim[axis])
		return ht_infer_fail(in, n, "the sizes do not add up to axis %lld of %.*s",
			(long long)axis, HT_STR_ARG(ht_shape_text(in, s)));
	if (rest >= 0)
		d[rest][axis] = s.dim[axis] - sum;
	return HT_OK;
}

/* DynamicStitch: the number of rows is one more than the largest index. */
static int64_t stitched_rows(struct ht_infer *in, const struct ht_node *n)
{
	int64_t rows = 0;

	for (int32_t i = 0; i < n->ins / 2; i++) {
		const struct ht_known *k = ht_in_known(in, n, i);

		if (!k || !k->e)
			return HT_DIM_UNKNOWN;
		for (int32_t j = 0; j < k->n; j++) {
			if (k->e[j].kind != HT_ELEM_INT)
				return HT_DIM_UNKNOWN;
			rows = k->e[j].i >= rows ? k->e[j].i + 1 : rows;
		}
	}
	return rows;
}

/* Operands: indices, then data.  The shape of data is the shape of its indices, followed by one
 * shape that all share. */
enum ht_status ht_infer_stitch(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape row = HT_SHAPE_UNKNOWN;
	int64_t *d;

	if (n->ins < 2 || n->ins % 2)
		return ht_infer_fail(in, n, "needs data for each operand of indices");
	for (int32_t i = 0; i < n->ins / 2; i++) {
		struct ht_shape indices = ht_in_shape(n, i), data = ht_in_shape(n, n->ins / 2 + i);
		struct ht_shape rest = { data.rank - indices.rank, NULL };

		if (indices.rank < 0 || data.rank < 0)
			continue;
		if (rest.rank > 0)
			rest.dim = data.dim + indices.rank;
		if (rest.rank < 0 || !ht_merge_shape(in, row, rest, &row))
			return ht_infer_fail(in, n, "data %.*s do not belong to indices %.*s",
				HT_STR_ARG(ht_shape_text(in, data)),
				HT_STR_ARG(ht_shape_text(in, indices)));
	}
	if (row.rank < 0)
		return HT_OK;
	d = ht_new_dims(in, row.rank + 1);
	d[0] = stitched_rows(in, n);
	for (int32_t i = 0; i < row.rank; i++)
		d[1 + i] = row.dim[i];
	ht_set_shape(n, 0, row.rank + 1, d);
	return HT_OK;
}
