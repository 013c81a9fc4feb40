/* Gathering, and tensors that are made from indices. */
#include "kernel/build.h"
#include "lower/index.h"
#include "lower/parts.h"

/* ---- gathering ---- */

/* The shape of the tensor to gather from: operand 0, or the variable whose handle it is. */
static struct ht_shape gathered_shape(const struct ht_node *n)
{
	return lower_op_of(n)->variables ? ht_variable_value(n->in[0].node)->shape : shape_of(n, 0);
}

int32_t checked_where(struct kernel_build *k, const struct space *s, int32_t i, int32_t ok)
{
	struct ht_xb *b = &k->xb;

	if (s->guard >= 0) {
		i = ht_xselect(b, s->guard, i, ht_xi(b, 0));
		ok = ht_xor(b, ok, ht_xnot(b, s->guard));
	}
	return ht_xcheck(b, i, ok, HT_FAULT_INDEX);
}

int32_t with_check(struct kernel_build *k, int32_t r, int32_t i)
{
	const struct ht_x x = *ht_xb_at(&k->xb, i);

	if (x.op != HT_X_CHECK || ht_x_uses(k->xb.stage, r, i))
		return r;
	return ht_xcheck(&k->xb, r, x.b, (enum ht_fault)x.imm);
}

/* An index (of any integer type), checked against its dimension.  The kernel fails if the index
 * is out of range.  If the node accepts such indices, *inside becomes false instead, and the
 * index becomes 0. */
static int32_t checked_index(struct kernel_build *k, const struct ht_node *n, const struct space *s,
	int32_t axis, int64_t size, int32_t *inside)
{
	struct ht_xb *b = &k->xb;
	int32_t i = ht_xcvt(b, HT_I64, kb_pull(k, n->in[1], s));
	int32_t ok = ht_xand(b, ht_xle(b, ht_xi(b, 0), i), ht_xlt(b, i, ht_xi(b, size)));

	if (ht_attr_find(n, "_open"))
		ok = ht_xand(b, ok, ht_xlt(b, i, kb_extent(k, n, axis, gathered_shape(n))));
	if (lower_mode(n) == HT_IMPL_OUT_OF_BOUND && size > 0) {
		*inside = *inside < 0 ? ok : ht_xand(b, *inside, ok);
		return ht_xselect(b, ok, i, ht_xi(b, 0));
	}
	return checked_where(k, s, i, ok);
}

static int32_t element(
	struct kernel_build *k, const struct ht_node *n, const struct space *s, const int32_t *x)
{
	struct view v;
	struct space at;

	if (!lower_op_of(n)->variables)
		return pull_at(k, n, 0, s, x);
	v = variable_view(k->l, n, 0);
	at = space_of_coords(s, v.rank, v.dim, x);
	return kb_load(k, &v, &at);
}

/* The element at `x`, or zero where an index was out of range. */
static int32_t gathered(struct kernel_build *k, const struct ht_node *n, const struct space *s,
	const int32_t *x, int32_t inside)
{
	int32_t r = element(k, n, s, x);

	if (inside < 0)
		return r;
	return ht_xselect(&k->xb, inside, r, ht_xk(&k->xb, compute_type(n->out[0].dtype), 0));
}

/* r[batch.., outer.., index.., inner..] = params[batch.., outer.., indices[batch.., index..], inner..] */
static int32_t pull_gather(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape params = gathered_shape(n), indices = shape_of(n, 1);
	int32_t batch_dims = axis_of(ht_attr_int(n, "batch_dims", 0), indices.rank);
	int32_t axis = batch_dims; /* the axis of ResourceGather and Gather, which have no other;
				    * batch_dims of Gather is 0 */
	int32_t at[HT_LOWER_RANK], x[HT_LOWER_RANK], coord[HT_LOWER_RANK], index_rank, inside = -1;
	struct space index_space;

	(void)out;
	if (n->op == HT_OP_GatherV2)
		axis = axis_of(const_int(n, 2, 0), params.rank);
	index_rank = indices.rank - batch_dims;
	for (int32_t i = 0; i < s->rank; i++)
		coord[i] = space_coord(&k->xb, s, i);
	for (int32_t i = 0; i < batch_dims; i++)
		at[i] = coord[i];
	for (int32_t i = 0; i < index_rank; i++)
		at[batch_dims + i] = coord[axis + i];
	index_space = space_of_coords(s, indices.rank, indices.dim, at);
	kb_only_within(k, n, &index_space);
	for (int32_t i = 0; i < axis; i++)
		x[i] = coord[i];
	x[axis] = checked_index(k, n, &index_space, axis, params.dim[axis], &inside);
	for (int32_t i = axis + 1; i < params.rank; i++)
		x[i] = coord[i - 1 + index_rank];
	return with_check(k, gathered(k, n, s, x, inside), x[axis]);
}

static const char *refuse_gather(const struct ht_node *n)
{
	if (n->op == HT_OP_GatherV2 && !is_const_ints(n, 2))
		return "needs a constant axis";
	return NULL;
}

/* Rows of indices read the same table. */
static bool gathered_rows(const struct parts *p, const struct ht_node *n)
{
	bool first = n->op != HT_OP_GatherV2 || const_int(n, 2, 0) == 0;

	return first && ht_attr_int(n, "batch_dims", 0) == 0 && shape_of(n, 1).rank &&
	       rows_of(p, n, 1);
}

const struct lower_op lower_gather = {
	.family = FAMILY_MAP, .pull = pull_gather, .refuse = refuse_gather, .rows = gathered_rows
};

static int32_t pull_gather_nd(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape params = gathered_shape(n), indices = shape_of(n, 1);
	int32_t depth = (int32_t)indices.dim[indices.rank - 1], x[HT_LOWER_RANK], at[HT_LOWER_RANK];
	int32_t inside = -1, r;

	(void)out;
	for (int32_t i = 0; i + 1 < indices.rank; i++)
		at[i] = space_coord(&k->xb, s, i);
	for (int32_t i = 0; i < depth; i++) {
		struct space index_space;
		at[indices.rank - 1] = ht_xi(&k->xb, i);
		index_space = space_of_coords(s, indices.rank, indices.dim, at);
		kb_only_within(k, n, &index_space);
		x[i] = checked_index(k, n, &index_space, i, params.dim[i], &inside);
	}
	for (int32_t i = depth; i < params.rank; i++)
		x[i] = space_coord(&k->xb, s, indices.rank - 1 + i - depth);
	r = gathered(k, n, s, x, inside);
	for (int32_t i = 0; i < depth; i++)
		r = with_check(k, r, x[i]);
	return r;
}

const struct lower_op lower_gather_nd = { .family = FAMILY_MAP, .pull = pull_gather_nd };

/* ---- gathering from variables that the graph changes: reads happen at the node's place in the
 * order ---- */

static enum ht_status emit_gathered(struct lower *l, struct ht_node *n,
	int32_t (*pull)(
		struct kernel_build *k, const struct ht_node *n, int out, const struct space *s))
{
	const struct view *to = &l->view[n->id][0];
	struct kernel_build k;
	struct space s;

	if (view_count(to) == 0)
		return HT_OK;
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, to->rank, to->dim, ~0u);
	kb_store(&k, to, &s, pull(&k, n, 0, &s));
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_gather(struct lower *l, struct ht_node *n)
{
	return emit_gathered(l, n, pull_gather);
}

static enum ht_status emit_gather_nd(struct lower *l, struct ht_node *n)
{
	return emit_gathered(l, n, pull_gather_nd);
}

static const char *refuse_variable(const struct ht_node *n)
{
	return variable_refuse(n, 0);
}

const struct lower_op lower_gather_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_gather,
	.refuse = refuse_variable };
const struct lower_op lower_gather_nd_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_gather_nd,
	.refuse = refuse_variable };

/* ---- made from indices ---- */

static int32_t pull_range(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = compute_type(n->out[0].dtype);
	struct space scalar = space_of_coords(s, 0, NULL, NULL);
	int32_t i = ht_xcvt(b, t, space_coord(b, s, 0)), start = kb_pull(k, n->in[0], &scalar);

	(void)out;
	return ht_xadd(b, start, ht_xmul(b, i, kb_pull(k, n->in[2], &scalar)));
}

static const char *refuse_range(const struct ht_node *n)
{
	return n->op == HT_OP_Range ? NULL : "has no kernel";
}

const struct lower_op lower_range = {
	.family = FAMILY_MAP, .pull = pull_range, .refuse = refuse_range
};

/* The formula of TensorFlow, in which the last element is exactly `stop`. */
static int32_t pull_lin_space(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = compute_type(n->out[0].dtype);
	struct space scalar = space_of_coords(s, 0, NULL, NULL);
	int64_t last = n->out[0].shape.dim[0] - 1;
	int32_t at = space_coord(b, s, 0), start = kb_pull(k, n->in[0], &scalar);
	int32_t stop = kb_pull(k, n->in[1], &scalar), step, r;

	(void)out;
	if (last == 0)
		return start;
	step = ht_xdiv(b, ht_xsub(b, stop, start), ht_xk(b, t, (double)last));
	r = ht_xadd(b, start, ht_xmul(b, step, ht_xcvt(b, t, at)));
	return ht_xselect(b, ht_xeq(b, at, ht_xi(b, last)), stop, r);
}

const struct lower_op lower_lin_space = { .family = FAMILY_MAP, .pull = pull_lin_space };

/* r = on_value where the coordinate along axis is the index; indices out of range give rows of off_value. */
static int32_t pull_one_hot(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape indices = shape_of(n, 0);
	int64_t attr = ht_attr_int(n, "axis", -1);
	int32_t axis = (int32_t)(attr < 0 ? indices.rank : attr), x[HT_LOWER_RANK], i;
	struct space at, scalar = space_of_coords(s, 0, NULL, NULL);

	(void)out;
	for (int32_t d = 0; d < indices.rank; d++)
		x[d] = space_coord(b, s, d < axis ? d : d + 1);
	at = space_of_coords(s, indices.rank, indices.dim, x);
	i = ht_xcvt(b, HT_I64, kb_pull(k, n->in[0], &at));
	return ht_xselect(b, ht_xeq(b, i, space_coord(b, s, axis)), kb_pull(k, n->in[2], &scalar),
		kb_pull(k, n->in[3], &scalar));
}

const struct lower_op lower_one_hot = { .family = FAMILY_MAP, .pull = pull_one_hot };

/* Known shapes are constants. */
static int32_t pull_shape(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = n->out[out].dtype;
	struct ht_shape in = shape_of(n, out);
	int32_t r;

	if (n->op == HT_OP_Size)
		return ht_xint(b, t, ht_shape_count(in));
	if (n->op == HT_OP_Rank)
		return ht_xint(b, t, in.rank);
	r = ht_xk(b, t, 0);
	for (int32_t i = 0; i < in.rank; i++)
		r = ht_xselect(b, ht_xeq(b, space_coord(b, s, 0), ht_xi(b, i)),
			ht_xint(b, t, in.dim[i]), r);
	return r;
}

const struct lower_op lower_shape = { .family = FAMILY_MAP, .pull = pull_shape };

/* The inverse of a permutation: the position of the element equal to the coordinate. */
static int32_t pull_invert_permutation(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t c = space_coord(b, s, 0), r = ht_xi(b, 0);

	(void)out;
	for (int64_t i = 0; i < s->dim[0]; i++) {
		int32_t x = ht_xi(b, i);
		struct space at = space_of_coords(s, 1, s->dim, &x);
		r = ht_xselect(
			b, ht_xeq(b, ht_xcvt(b, HT_I64, kb_pull(k, n->in[0], &at)), c), x, r);
	}
	return ht_xcvt(b, n->out[0].dtype, r);
}

static const char *refuse_invert_permutation(const struct ht_node *n)
{
	return shape_of(n, 0).dim[0] <= 16 ? NULL : "has no kernel for more than 16 elements";
}

const struct lower_op lower_invert_permutation = {
	.family = FAMILY_MAP, .pull = pull_invert_permutation, .refuse = refuse_invert_permutation
};
