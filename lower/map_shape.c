/* Ops that keep all elements and move them: reshapes, transposes, repetition, reversal. */
#include "lower/index.h"
#include "lower/parts.h"

/* ---- identity, reshape ---- */

static int32_t pull_identity(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	return kb_operand(k, n, out, s);
}

static bool view_identity(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	*v = *in;
	return out == 0 && n->outs == 1;
}

const struct lower_op lower_identity = {
	.family = FAMILY_VIEW, .aligned = true, .pull = pull_identity, .view = view_identity
};
const struct lower_op lower_nothing = { .family = FAMILY_NOTHING };

static int32_t pull_reshape(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape shape = shape_of(n, 0);
	struct space at = space_reshape(&k->xb, s, shape.rank, shape.dim);

	(void)out;
	return kb_pull(k, n->in[0], &at);
}

static bool view_reshaped(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	return view_reshape(in, n->out[out].shape.rank, n->out[out].shape.dim, v);
}

/* Rows stay rows, since a reshape keeps the order of elements. */
static bool reshaped_rows(const struct parts *p, const struct ht_node *n)
{
	for (int32_t i = 1; i < n->ins; i++)
		if (has_rows(p, n, i))
			return false;
	return has_rows(p, n, 0);
}

const struct lower_op lower_reshape = {
	.family = FAMILY_VIEW, .pull = pull_reshape, .view = view_reshaped, .rows = reshaped_rows
};

/* ---- transpose ---- */

static int32_t pull_transpose(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i < s->rank; i++)
		x[axis_of(const_int(n, 1, (size_t)i), s->rank)] = space_coord(&k->xb, s, i);
	return pull_at(k, n, 0, s, x);
}

/* A transpose is a view only if it keeps the innermost dimension, so that vector loads stay
 * contiguous. */
static bool view_transpose(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	int32_t rank = in->rank;

	(void)out;
	*v = *in;
	for (int32_t i = 0; i < rank; i++) {
		int32_t from = axis_of(const_int(n, 1, (size_t)i), rank);
		v->dim[i] = in->dim[from];
		v->stride[i] = in->stride[from];
	}
	return rank == 0 || v->stride[rank - 1] == 1 || v->dim[rank - 1] == 1;
}

static bool transposed_rows(const struct parts *p, const struct ht_node *n)
{
	return rows_of_first(p, n) && axis_of(const_int(n, 1, 0), n->out[0].shape.rank) == 0;
}

const struct lower_op lower_transpose = { .family = FAMILY_VIEW,
	.pull = pull_transpose,
	.view = view_transpose,
	.refuse = refuse_after_first,
	.rows = transposed_rows };

/* ---- repetition ---- */

static int32_t pull_tile(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape in = shape_of(n, 0);
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		x[i] = space_coord(&k->xb, s, i);
		if (in.dim[i] != s->dim[i])
			x[i] = ht_xmodi(&k->xb, x[i], in.dim[i]);
	}
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_tile = { .family = FAMILY_MAP, .pull = pull_tile };

static int32_t pull_broadcast(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return kb_operand(k, n, 0, s);
}

const struct lower_op lower_broadcast = {
	.family = FAMILY_MAP, .pull = pull_broadcast, .rows = broadcast_rows
};

/* ---- reversal ---- */

static int32_t pull_reverse(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	struct ht_shape in = shape_of(n, 0);
	bool turned[HT_LOWER_RANK] = { false };
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int64_t i = 0, count = ht_shape_count(t->shape); i < count; i++) {
		if (t->dtype == HT_BOOL)
			turned[i] = ((const uint8_t *)t->blob->p)[i] != 0;
		else
			turned[axis_of(ht_tensor_int(t, (size_t)i), in.rank)] = true;
	}
	for (int32_t i = 0; i < in.rank; i++) {
		x[i] = space_coord(&k->xb, s, i);
		if (turned[i])
			x[i] = ht_xsub(&k->xb, ht_xi(&k->xb, in.dim[i] - 1), x[i]);
	}
	return pull_at(k, n, 0, s, x);
}

static const char *refuse_reverse(const struct ht_node *n)
{
	return ht_const_tensor(n->in[1]) ? NULL : "needs constant axes";
}

const struct lower_op lower_reverse = {
	.family = FAMILY_MAP, .pull = pull_reverse, .refuse = refuse_reverse
};

/* The first seq_lengths[b] elements along seq_dim in reverse, where b is the coordinate along batch_dim. */
static int32_t pull_reverse_sequence(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	int32_t along = axis_of(ht_attr_int(n, "seq_dim", 0), in.rank), x[HT_LOWER_RANK], length,
		ok;
	int32_t row = axis_of(ht_attr_int(n, "batch_dim", 0), in.rank);

	(void)out;
	for (int32_t i = 0; i < in.rank; i++)
		x[i] = space_coord(b, s, i);
	length = ht_xcvt(b, HT_I64, pull_at(k, n, 1, s, &x[row]));
	ok = ht_xle(b, ht_xi(b, 0), length);
	ok = ht_xand(b, ok, ht_xle(b, length, kb_extent(k, n, along, in)));
	if (s->guard >= 0) /* where no element is asked for, any length will do */
		ok = ht_xor(b, ok, ht_xnot(b, s->guard));
	length = ht_xcheck(b, length, ok, HT_FAULT_INDEX);
	ok = ht_xlt(b, x[along], length);
	length = ht_xsub(b, ht_xsub(b, length, ht_xi(b, 1)), x[along]);
	x[along] = ht_xselect(b, ok, length, x[along]);
	return pull_at(k, n, 0, s, x);
}

static const char *refuse_reverse_sequence(const struct ht_node *n)
{
	struct ht_shape in = shape_of(n, 0), lengths = shape_of(n, 1);
	int64_t along = ht_attr_int(n, "seq_dim", 0), row = ht_attr_int(n, "batch_dim", 0);

	if (along < 0 || along >= in.rank || row < 0 || row >= in.rank || along == row)
		return "has a seq_dim or batch_dim that does not fit its operand";
	return lengths.rank == 1 && lengths.dim[0] == in.dim[row]
		       ? NULL
		       : "needs one length for each index of batch_dim";
}

const struct lower_op lower_reverse_sequence = {
	.family = FAMILY_MAP, .pull = pull_reverse_sequence, .refuse = refuse_reverse_sequence
};

/* ---- Roll ---- */

/* How far axis i moves towards its end, from 0 to its length - 1. */
static int64_t shift_along(const struct ht_node *n, int32_t i)
{
	const struct ht_tensor *shift = ht_const_tensor(n->in[1]),
			       *axis = ht_const_tensor(n->in[2]);
	struct ht_shape in = shape_of(n, 0);
	int64_t by = 0;

	for (int64_t k = 0, count = ht_shape_count(axis->shape); k < count && in.dim[i]; k++)
		if (axis_of(ht_tensor_int(axis, (size_t)k), in.rank) == i)
			by = (by + ht_tensor_int(shift, (size_t)k) % in.dim[i]) % in.dim[i];
	return by < 0 ? by + in.dim[i] : by;
}

static int32_t pull_roll(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		int64_t by = shift_along(n, i);
		int32_t inside, moved;

		x[i] = space_coord(b, s, i);
		if (!by)
			continue;
		inside = ht_xle(b, ht_xi(b, by), x[i]);
		moved = ht_xselect(b, inside, ht_xi(b, -by), ht_xi(b, in.dim[i] - by));
		x[i] = ht_xadd(b, x[i], moved);
	}
	return pull_at(k, n, 0, s, x);
}

static const char *refuse_roll(const struct ht_node *n)
{
	const struct ht_tensor *shift = ht_const_tensor(n->in[1]),
			       *axis = ht_const_tensor(n->in[2]);
	int32_t rank = shape_of(n, 0).rank;

	if (!shift || !axis || !is_const_ints(n, 1) || !is_const_ints(n, 2))
		return "needs constant shifts and axes";
	if (!ht_shape_eq(shift->shape, axis->shape) || shift->shape.rank > 1)
		return "needs as many shifts as axes";
	for (int64_t i = 0, count = ht_shape_count(axis->shape); i < count; i++)
		if (ht_tensor_int(axis, (size_t)i) < -rank ||
			ht_tensor_int(axis, (size_t)i) >= rank)
			return "has an axis that its operand does not have";
	return NULL;
}

const struct lower_op lower_roll = {
	.family = FAMILY_MAP, .pull = pull_roll, .refuse = refuse_roll
};
