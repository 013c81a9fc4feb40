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

/* What is one behind the other stays so. */
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

/* A view keeps the innermost dimension where it is, so that vectors stay vectors. */
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
