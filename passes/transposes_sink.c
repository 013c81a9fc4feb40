/* transposes_sink: a Transpose moves from a node's operands behind its results. */
#include "passes/transposes.h"

/* Puts a Transpose behind result i, which restores its shape. */
static void transpose_result(struct ht_rw *r, struct ht_node *n, int32_t i, const struct ht_perm *p)
{
	struct ht_value t;

	n->out[i].shape = ht_perm_before(r->g->arena, n->out[i].shape, p);
	if (ht_perm_is_identity(p) || !ht_rw_uses(r, ht_out(n, i)))
		return;
	t = ht_rw_transpose(r, n->next, ht_rw_name_within(r, n, "transpose"), ht_out(n, i), p->to);
	t.node->origins = 0;
	t.node->origin = NULL;
	ht_node_add_origin(t.node, n);
	ht_rw_replace_behind(r, ht_out(n, i), t);
}

static void take_operands(
	struct ht_rw *r, struct ht_node *n, enum ht_through kind, const struct ht_perm *p)
{
	int32_t first, end;

	ht_through_operands(n, kind, &first, &end);
	for (int32_t i = first; i < end; i++) {
		struct ht_value v = ht_untransposed(r, n, n->in[i], p);

		if (!ht_value_eq(v, n->in[i]))
			ht_rw_set_in(r, n, i, v);
	}
}

static bool all_fit(const struct ht_node *n, enum ht_through kind, const struct ht_perm *p)
{
	int32_t first, end;

	ht_through_operands(n, kind, &first, &end);
	for (int32_t i = first; i < end; i++) {
		struct ht_shape s = ht_type_of(n->in[i])->shape;

		if (!ht_shape_known(s) || s.rank > p->rank ||
			(kind != HT_THROUGH_ELEMENTWISE && s.rank != p->rank))
			return false;
	}
	return ht_shape_known(n->out[0].shape) && n->out[0].shape.rank == p->rank;
}

static bool sink_elementwise(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	if (!all_fit(n, HT_THROUGH_ELEMENTWISE, p))
		return false;
	take_operands(r, n, HT_THROUGH_ELEMENTWISE, p);
	transpose_result(r, n, 0, p);
	return true;
}

/* BiasAdd and batch norm: data_format must be able to express the new place of the channels. */
static bool sink_channels(
	struct ht_rw *r, struct ht_node *n, enum ht_through kind, const struct ht_perm *p)
{
	int64_t axis;

	if (!all_fit(n, kind, p) || p->rank < 2)
		return false;
	axis = p->to[ht_channels_first(n) ? 1 : p->rank - 1];
	if (axis != p->rank - 1 && axis != 1)
		return false;
	take_operands(r, n, kind, p);
	ht_attr_set_str(n, "data_format", axis == p->rank - 1 ? HT_STR("NHWC") : HT_STR("NCHW"));
	transpose_result(r, n, 0, p);
	return true;
}

static bool const_axis(struct ht_value v, int rank, int64_t *axis)
{
	int count;

	if (!ht_const_small_ints(v, axis, 1, &count) || count != 1)
		return false;
	if (*axis < 0)
		*axis += rank;
	return *axis >= 0 && *axis < rank;
}

static void set_scalar(struct ht_rw *r, struct ht_node *n, int32_t arg, int64_t x)
{
	struct ht_type t = *ht_type_of(n->in[arg]);
	struct ht_value v = ht_rw_const_ints(r, n, ht_rw_name_within(r, n, "axis"), t.dtype, &x, 1);

	if (t.shape.rank == 0) {
		v.node->out[0].shape = HT_SHAPE_SCALAR;
		ht_attr_find(v.node, "value")->value.tensor->shape = HT_SHAPE_SCALAR;
	}
	ht_rw_set_in(r, n, arg, v);
}

static void set_ints(struct ht_rw *r, struct ht_node *n, int32_t arg, const int64_t *x, int count,
	struct ht_shape shape)
{
	struct ht_value v = ht_rw_const_ints(
		r, n, ht_rw_name_within(r, n, "ints"), ht_type_of(n->in[arg])->dtype, x, count);

	shape = ht_shape_make(r->g->arena, shape.rank, shape.dim);
	v.node->out[0].shape = shape;
	ht_attr_find(v.node, "value")->value.tensor->shape = shape;
	ht_rw_set_in(r, n, arg, v);
}

static bool sink_concat(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	int64_t axis;

	if (!all_fit(n, HT_THROUGH_CONCAT, p) || !const_axis(n->in[n->ins - 1], p->rank, &axis))
		return false;
	take_operands(r, n, HT_THROUGH_CONCAT, p);
	set_scalar(r, n, n->ins - 1, p->to[axis]);
	transpose_result(r, n, 0, p);
	return true;
}

/* The new axis stays in its place; the other axes are permuted around it. */
static bool sink_pack(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	int64_t axis = ht_attr_int(n, "axis", 0);
	struct ht_perm q = { .rank = p->rank + 1 };

	axis += axis < 0 ? q.rank : 0;
	if (q.rank > HT_PERM_RANK || axis < 0 || axis >= q.rank || !ht_shape_known(n->out[0].shape))
		return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_type_of(n->in[i])->shape.rank != p->rank)
			return false;
	for (int i = 0; i < q.rank; i++) {
		int64_t from = i == axis ? -1 : p->to[i < axis ? i : i - 1];

		q.to[i] = i == axis ? axis : from + (from >= axis);
	}
	take_operands(r, n, HT_THROUGH_PACK, p);
	transpose_result(r, n, 0, &q);
	return true;
}

static bool sink_split(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	int32_t arg = n->op == HT_OP_Split ? 0 : 2;
	int64_t axis;

	if (!all_fit(n, HT_THROUGH_SPLIT, p) || !const_axis(n->in[arg], p->rank, &axis))
		return false;
	for (int32_t i = 0; i < n->outs; i++)
		if (!ht_shape_known(n->out[i].shape))
			return false;
	take_operands(r, n, HT_THROUGH_SPLIT, p);
	set_scalar(r, n, arg, p->to[axis]);
	for (int32_t i = 0; i < n->outs; i++)
		transpose_result(r, n, i, p);
	return true;
}

void ht_permute_axis_ints(
	struct ht_rw *r, struct ht_node *n, int32_t arg, int each, const struct ht_perm *p)
{
	int64_t x[2 * HT_PERM_RANK], y[2 * HT_PERM_RANK];
	int count;

	HT_CHECK(ht_const_small_ints(n->in[arg], x, 2 * HT_PERM_RANK, &count));
	for (int i = 0; i < p->rank; i++)
		for (int k = 0; k < each; k++)
			y[p->to[i] * each + k] = x[i * each + k];
	set_ints(r, n, arg, y, count, ht_type_of(n->in[arg])->shape);
}

bool ht_axis_ints(struct ht_value v, int want)
{
	int64_t x[2 * HT_PERM_RANK];
	int count;

	return ht_const_small_ints(v, x, 2 * HT_PERM_RANK, &count) && count == want;
}

static bool sink_by_axis(struct ht_rw *r, struct ht_node *n, enum ht_through kind, int each,
	int32_t first, int32_t end, const struct ht_perm *p)
{
	if (!all_fit(n, kind, p))
		return false;
	for (int32_t i = first; i < end; i++)
		if (!ht_axis_ints(n->in[i], each * p->rank))
			return false;
	take_operands(r, n, kind, p);
	for (int32_t i = first; i < end; i++)
		ht_permute_axis_ints(r, n, i, each, p);
	transpose_result(r, n, 0, p);
	return true;
}

static int64_t permute_mask(int64_t mask, const struct ht_perm *p)
{
	int64_t out = 0;

	for (int i = 0; i < p->rank; i++)
		if (mask >> i & 1)
			out |= (int64_t)1 << p->to[i];
	return out;
}

static bool sink_strided(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	static const char *const masks[] = { "begin_mask", "end_mask" };
	int64_t permuted[2];

	if (ht_attr_int(n, "ellipsis_mask", 0) || ht_attr_int(n, "new_axis_mask", 0) ||
		ht_attr_int(n, "shrink_axis_mask", 0))
		return false;
	for (int i = 0; i < 2; i++)
		permuted[i] = permute_mask(ht_attr_int(n, masks[i], 0), p);
	if (!sink_by_axis(r, n, HT_THROUGH_STRIDED, 1, 1, 4, p))
		return false;
	for (int i = 0; i < 2; i++)
		ht_attr_set_int(n, masks[i], permuted[i]);
	return true;
}

/* ---- reductions ---- */

static bool is_arg_reduce(const struct ht_node *n)
{
	return ht_is(n, HT_FINDS);
}

/* The permutation of the remaining axes. */
static struct ht_perm left_over(const struct ht_perm *p, const bool *reduced)
{
	struct ht_perm q = { 0 };

	for (int i = 0; i < p->rank; i++) {
		if (reduced[i])
			continue;
		q.to[q.rank] = 0;
		for (int k = 0; k < p->rank; k++)
			q.to[q.rank] += !reduced[k] && p->to[k] < p->to[i];
		q.rank++;
	}
	return q;
}

static bool sink_reduce(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	int64_t axis[HT_PERM_RANK];
	bool reduced[HT_PERM_RANK] = { false };
	struct ht_perm rest;
	struct ht_shape axes_shape = ht_type_of(n->in[1])->shape;
	int count;
	bool keep = !is_arg_reduce(n) && ht_attr_bool(n, "keep_dims", false);

	if (ht_type_of(n->in[0])->shape.rank != p->rank || !ht_shape_known(n->out[0].shape) ||
		!ht_const_small_ints(n->in[1], axis, HT_PERM_RANK, &count))
		return false;
	for (int i = 0; i < count; i++) {
		axis[i] += axis[i] < 0 ? p->rank : 0;
		if (axis[i] < 0 || axis[i] >= p->rank)
			return false;
		reduced[axis[i]] = true;
		axis[i] = p->to[axis[i]];
	}
	rest = left_over(p, reduced);
	take_operands(r, n, HT_THROUGH_REDUCE, p);
	set_ints(r, n, 1, axis, count, axes_shape);
	transpose_result(r, n, 0, keep ? p : &rest);
	return true;
}

static bool sink_softmax(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	if (p->to[p->rank - 1] != p->rank - 1)
		return false;
	return sink_elementwise(r, n, p);
}

/* Reshape(Transpose(x, p)) becomes Transpose(Reshape(x), q). */
static bool sink_reshape(struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	struct ht_shape mid;
	struct ht_perm q;
	struct ht_value in[2];

	if (!ht_perm_behind_reshape(p, ht_type_of(n->in[0])->shape, n->out[0].shape, &q))
		return false;
	mid = ht_perm_before(r->g->arena, n->out[0].shape, &q);
	in[0] = n->in[0].node->in[0];
	in[1] = ht_rw_const_ints(r, n, ht_rw_name_within(r, n, "shape"), HT_I64, mid.dim, mid.rank);
	ht_rw_become(r, n, HT_OP_Reshape, in, 2);
	transpose_result(r, n, 0, &q);
	return true;
}

bool ht_transpose_sink(struct ht_rw *r, struct ht_node *n)
{
	enum ht_through kind = ht_through_kind(n);
	struct ht_perm p;

	if (kind == HT_THROUGH_NONE || !n->outs || !ht_through_perm(r, n, kind, &p))
		return false;
	switch (kind) {
	case HT_THROUGH_NONE:
		return false;
	case HT_THROUGH_ELEMENTWISE:
		return sink_elementwise(r, n, &p);
	case HT_THROUGH_BIAS:
	case HT_THROUGH_NORM:
		return sink_channels(r, n, kind, &p);
	case HT_THROUGH_CONCAT:
		return sink_concat(r, n, &p);
	case HT_THROUGH_PACK:
		return sink_pack(r, n, &p);
	case HT_THROUGH_PAD:
		return sink_by_axis(r, n, kind, 2, 1, 2, &p);
	case HT_THROUGH_REDUCE:
		return sink_reduce(r, n, &p);
	case HT_THROUGH_SOFTMAX:
		return sink_softmax(r, n, &p);
	case HT_THROUGH_SLICE:
		return sink_by_axis(r, n, kind, 1, 1, 3, &p);
	case HT_THROUGH_STRIDED:
		return sink_strided(r, n, &p);
	case HT_THROUGH_SPLIT:
		return sink_split(r, n, &p);
	case HT_THROUGH_TILE:
		return sink_by_axis(r, n, kind, 1, 1, 2, &p);
	case HT_THROUGH_RESHAPE:
		return sink_reshape(r, n, &p);
	}
	return false;
}
