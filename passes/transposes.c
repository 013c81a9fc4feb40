/* transposes: a Transpose moves down through what does not care, until another one cancels it.
 *
 * What does not care: elementwise ops, Cast, BiasAdd, FusedBatchNorm of inference, Concat, Pack,
 * Pad, reductions, Softmax over an axis that stays last, Slice, StridedSlice without masks that change
 * the rank, Split, Tile, and Reshape, Squeeze and ExpandDims that keep together what the
 * Transpose does.  Their operands must all be transposed alike; constants and values with at most one
 * axis that is not 1 are rearranged instead, which costs nothing.  Where one operand is not
 * transposed but all users of the result undo the transposition, it is given a pair of them, so
 * that two others vanish for the one that is left.
 *
 * At the end, one behind a Pad goes before it.  Two in a row become one, or none.  One that only moves axes of size 1 becomes a Reshape.  A
 * Transpose whose result is an output, or has users that do care, is not moved for the others. */
#include "passes/rewrite.h"

#include <string.h>

enum { MAX_RANK = 8, ROUNDS = 8 };

struct perm {
	int rank;
	int64_t to[MAX_RANK]; /* result axis i is operand axis to[i] */
};

static bool is_identity(const struct perm *p)
{
	for (int i = 0; i < p->rank; i++)
		if (p->to[i] != i)
			return false;
	return true;
}

static bool perm_eq(const struct perm *a, const struct perm *b)
{
	return a->rank == b->rank && !memcmp(a->to, b->to, (size_t)a->rank * sizeof *a->to);
}

static struct perm inverse(const struct perm *p)
{
	struct perm q = { .rank = p->rank };

	for (int i = 0; i < p->rank; i++)
		q.to[p->to[i]] = i;
	return q;
}

/* First p, then q. */
static struct perm compose(const struct perm *p, const struct perm *q)
{
	struct perm r = { .rank = p->rank };

	for (int i = 0; i < p->rank; i++)
		r.to[i] = p->to[q->to[i]];
	return r;
}

/* The permutation of a Transpose of a tensor of known shape. */
static bool perm_of(const struct ht_node *n, struct perm *p)
{
	bool seen[MAX_RANK] = { false };

	if (n->op != HT_OP_Transpose || n->controls || !ht_shape_known(n->out[0].shape) ||
		!ht_const_small_ints(n->in[1], p->to, MAX_RANK, &p->rank) ||
		p->rank != n->out[0].shape.rank)
		return false;
	for (int i = 0; i < p->rank; i++) {
		if (p->to[i] < 0 || p->to[i] >= p->rank || seen[p->to[i]])
			return false;
		seen[p->to[i]] = true;
	}
	return true;
}

static struct ht_str derived(struct ht_rw *r, const struct ht_node *n, const char *what)
{
	return ht_str_printf(r->arena, "%.*s/%s", HT_STR_ARG(n->name), what);
}

/* The shape that permutes to `s`. */
static struct ht_shape before_perm(struct ht_rw *r, struct ht_shape s, const struct perm *p)
{
	int64_t dim[MAX_RANK];

	for (int i = 0; i < p->rank; i++)
		dim[p->to[i]] = s.dim[i];
	return ht_shape_make(r->g->arena, p->rank, dim);
}

/* ---- what may be moved through ---- */

enum kind {
	KIND_NONE,
	KIND_ELEMENTWISE, /* all operands are broadcast to the result */
	KIND_BIAS,        /* BiasAdd */
	KIND_NORM,        /* FusedBatchNorm: the first operand */
	KIND_CONCAT,
	KIND_PACK,
	KIND_PAD,
	KIND_REDUCE,
	KIND_SOFTMAX,
	KIND_SLICE,
	KIND_STRIDED,
	KIND_SPLIT,
	KIND_TILE,
	KIND_RESHAPE
};

static enum kind kind_of(const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	if (n->op == HT_OP_OPAQUE || info->effects || n->controls)
		return KIND_NONE;
	switch ((int)n->op) {
	case HT_OP_BiasAdd:
		return KIND_BIAS;
	case HT_OP_FusedBatchNorm:
	case HT_OP_FusedBatchNormV2:
	case HT_OP_FusedBatchNormV3:
		return ht_attr_bool(n, "is_training", true) ? KIND_NONE : KIND_NORM;
	case HT_OP_ConcatV2:
		return KIND_CONCAT;
	case HT_OP_Pack:
		return KIND_PACK;
	case HT_OP_Pad:
	case HT_OP_PadV2:
	case HT_OP_MirrorPad:
		return KIND_PAD;
	case HT_OP_Sum:
	case HT_OP_Mean:
	case HT_OP_Prod:
	case HT_OP_Max:
	case HT_OP_Min:
	case HT_OP_All:
	case HT_OP_Any:
	case HT_OP_ArgMax:
	case HT_OP_ArgMin:
		return KIND_REDUCE;
	case HT_OP_Softmax:
	case HT_OP_LogSoftmax:
		return KIND_SOFTMAX;
	case HT_OP_Slice:
		return KIND_SLICE;
	case HT_OP_StridedSlice:
		return KIND_STRIDED;
	case HT_OP_Split:
	case HT_OP_SplitV:
		return KIND_SPLIT;
	case HT_OP_Tile:
		return KIND_TILE;
	case HT_OP_Reshape:
	case HT_OP_Squeeze:
	case HT_OP_ExpandDims:
		return KIND_RESHAPE;
	case HT_OP_Cast:
	case HT_OP_SelectV2:
	case HT_OP_ClipByValue:
	case HT_OP_Prelu:
	case HT_OP_AddN:
		return KIND_ELEMENTWISE;
	default:
		/* The table knows the rest: unary and binary arithmetic. */
		if (!strcmp(info->lower_name, "unary") || !strcmp(info->lower_name, "binary"))
			return KIND_ELEMENTWISE;
		return KIND_NONE;
	}
}

/* Operands that are data, not axes and sizes: [first, end). */
static void data_operands(const struct ht_node *n, enum kind kind, int32_t *first, int32_t *end)
{
	*first = 0;
	*end = 1;
	if (kind == KIND_ELEMENTWISE || kind == KIND_PACK)
		*end = n->ins;
	else if (kind == KIND_CONCAT)
		*end = n->ins - 1;
	else if (kind == KIND_SPLIT && n->op == HT_OP_Split)
		*first = 1, *end = 2;
}

/* ---- operands ---- */

static int big_axes(struct ht_shape s)
{
	int n = 0;

	for (int32_t i = 0; i < s.rank; i++)
		n += s.dim[i] != 1;
	return n;
}

/* Rearranged for nothing: constants, and values that are a line. */
static bool is_free(struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;

	return ht_shape_known(s) &&
	       (ht_is_const(v) ? ht_const_tensor(v) != NULL : big_axes(s) <= 1);
}

static struct ht_value transposed_const(
	struct ht_rw *r, struct ht_node *n, struct ht_value v, const struct perm *q)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t bytes = ht_dtype_info(t->dtype)->bytes;
	struct ht_blob *b = ht_rw_blob(r, t->blob->n);
	int64_t dim[MAX_RANK], step[MAX_RANK], index[MAX_RANK] = { 0 };
	int64_t count = ht_shape_count(t->shape);
	char *out = (char *)(uintptr_t)b->p;

	for (int i = q->rank - 1; i >= 0; i--)
		step[i] = i == q->rank - 1 ? 1 : step[i + 1] * t->shape.dim[i + 1];
	for (int i = 0; i < q->rank; i++)
		dim[i] = t->shape.dim[q->to[i]];
	for (int64_t i = 0; i < count; i++) {
		int64_t from = 0;

		for (int k = 0; k < q->rank; k++)
			from += index[k] * step[q->to[k]];
		memcpy(out + (size_t)i * bytes, (const char *)t->blob->p + (size_t)from * bytes,
			bytes);
		for (int k = q->rank - 1; k >= 0 && ++index[k] == dim[k]; k--)
			index[k] = 0;
	}
	return ht_rw_const(r, n, v.node->name, t->dtype, (struct ht_shape){ q->rank, dim }, b);
}

/* `v` with axes of size 1 put in front, up to `rank`. */
static struct ht_value with_rank(struct ht_rw *r, struct ht_node *n, struct ht_value v, int rank)
{
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t dim[MAX_RANK];
	const struct ht_tensor *t = ht_const_tensor(v);

	if (s.rank == rank)
		return v;
	for (int i = 0; i < rank; i++)
		dim[i] = i < rank - s.rank ? 1 : s.dim[i - (rank - s.rank)];
	s = (struct ht_shape){ rank, dim };
	if (t)
		return ht_rw_const(r, n, v.node->name, t->dtype, s, ht_blob_ref(t->blob));
	return ht_rw_reshape(r, n, derived(r, n, "line"), v, s);
}

/* `v` as it must be for its transposition by `p` to be what it was. */
static struct ht_value untransposed(
	struct ht_rw *r, struct ht_node *n, struct ht_value v, const struct perm *p)
{
	struct perm q = inverse(p), have;
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t dim[MAX_RANK];

	if (perm_of(v.node, &have) && perm_eq(&have, p))
		return v.node->in[0];
	if (s.rank == 0 || (big_axes(s) == 0 && s.rank < p->rank))
		return v;
	v = with_rank(r, n, v, p->rank);
	s = ht_type_of(v)->shape;
	if (ht_is_const(v))
		return transposed_const(r, n, v, &q);
	for (int i = 0; i < p->rank; i++)
		dim[i] = s.dim[q.to[i]];
	if (big_axes(s) <= 1)
		return ht_rw_reshape(
			r, n, derived(r, n, "line"), v, (struct ht_shape){ p->rank, dim });
	return ht_rw_transpose(r, n, derived(r, n, "transposed"), v, q.to);
}

/* ---- is it worth it ---- */

static bool is_output(const struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (ht_rw_is_output(r, ht_out(n, i)))
			return true;
	return false;
}

/* Every user of the Transpose is one itself, or lets it through: it need not stay. */
static bool may_vanish(const struct ht_rw *r, struct ht_node *t, const struct ht_node *n)
{
	if (ht_rw_only_user(r, ht_out(t, 0)) == n)
		return true;
	if (is_output(r, t))
		return false;
	for (const struct ht_rw_use *u = r->uses[t->id]; u; u = u->next)
		if (u->arg < 0 || (u->node->op != HT_OP_Transpose && kind_of(u->node) == KIND_NONE))
			return false;
	return true;
}

static bool undone_by_users(const struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	struct perm q, want = inverse(p);

	if (n->outs != 1 || is_output(r, n) || !r->uses[n->id])
		return false;
	for (const struct ht_rw_use *u = r->uses[n->id]; u; u = u->next)
		if (u->arg != 0 || !perm_of(u->node, &q) || !perm_eq(&q, &want))
			return false;
	return true;
}

/* The permutation that n's operands share, when it may move down. */
static bool common_perm(const struct ht_rw *r, struct ht_node *n, enum kind kind, struct perm *p)
{
	int32_t first, end, transposed = 0, others = 0;
	struct perm q;
	bool all_vanish = true;

	data_operands(n, kind, &first, &end);
	for (int32_t i = first; i < end; i++) {
		if (perm_of(n->in[i].node, &q)) {
			if (transposed && !perm_eq(p, &q))
				return false;
			*p = q;
			transposed++;
			all_vanish = all_vanish && may_vanish(r, n->in[i].node, n);
		} else if (!is_free(n->in[i])) {
			others++;
		}
	}
	if (!transposed || is_identity(p))
		return false;
	if (others == 0)
		return all_vanish || undone_by_users(r, n, p);
	/* A new one for each other operand, for those that vanish before and behind. */
	return (kind == KIND_ELEMENTWISE || kind == KIND_CONCAT) && undone_by_users(r, n, p) &&
	       others < 1 + (all_vanish ? transposed : 0);
}

/* ---- moving down ---- */

/* Result i gets a Transpose behind it that makes of its new shape what it was. */
static void transpose_result(struct ht_rw *r, struct ht_node *n, int32_t i, const struct perm *p)
{
	struct ht_value t;

	n->out[i].shape = before_perm(r, n->out[i].shape, p);
	if (is_identity(p) || !ht_rw_uses(r, ht_out(n, i)))
		return;
	t = ht_rw_transpose(r, n->next, derived(r, n, "transpose"), ht_out(n, i), p->to);
	t.node->origins = 0;
	t.node->origin = NULL;
	ht_node_add_origin(t.node, n);
	ht_rw_replace_behind(r, ht_out(n, i), t);
}

static void take_operands(struct ht_rw *r, struct ht_node *n, enum kind kind, const struct perm *p)
{
	int32_t first, end;

	data_operands(n, kind, &first, &end);
	for (int32_t i = first; i < end; i++) {
		struct ht_value v = untransposed(r, n, n->in[i], p);

		if (!ht_value_eq(v, n->in[i]))
			ht_rw_set_in(r, n, i, v);
	}
}

static bool all_fit(const struct ht_node *n, enum kind kind, const struct perm *p)
{
	int32_t first, end;

	data_operands(n, kind, &first, &end);
	for (int32_t i = first; i < end; i++) {
		struct ht_shape s = ht_type_of(n->in[i])->shape;

		if (!ht_shape_known(s) || s.rank > p->rank ||
			(kind != KIND_ELEMENTWISE && s.rank != p->rank))
			return false;
	}
	return ht_shape_known(n->out[0].shape) && n->out[0].shape.rank == p->rank;
}

static bool sink_elementwise(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	if (!all_fit(n, KIND_ELEMENTWISE, p))
		return false;
	take_operands(r, n, KIND_ELEMENTWISE, p);
	transpose_result(r, n, 0, p);
	return true;
}

static bool is_nchw(const struct ht_node *n)
{
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NCHW");
}

/* BiasAdd and batch norm: the channels must come to a place that data_format can say. */
static bool sink_channels(struct ht_rw *r, struct ht_node *n, enum kind kind, const struct perm *p)
{
	int64_t axis;

	if (!all_fit(n, kind, p) || p->rank < 2)
		return false;
	axis = p->to[is_nchw(n) ? 1 : p->rank - 1];
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
	struct ht_value v = ht_rw_const_ints(r, n, derived(r, n, "axis"), t.dtype, &x, 1);

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
		r, n, derived(r, n, "ints"), ht_type_of(n->in[arg])->dtype, x, count);

	shape = ht_shape_make(r->g->arena, shape.rank, shape.dim);
	v.node->out[0].shape = shape;
	ht_attr_find(v.node, "value")->value.tensor->shape = shape;
	ht_rw_set_in(r, n, arg, v);
}

static bool sink_concat(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	int64_t axis;

	if (!all_fit(n, KIND_CONCAT, p) || !const_axis(n->in[n->ins - 1], p->rank, &axis))
		return false;
	take_operands(r, n, KIND_CONCAT, p);
	set_scalar(r, n, n->ins - 1, p->to[axis]);
	transpose_result(r, n, 0, p);
	return true;
}

/* The new axis stays where it is; the others change places around it. */
static bool sink_pack(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	int64_t axis = ht_attr_int(n, "axis", 0);
	struct perm q = { .rank = p->rank + 1 };

	axis += axis < 0 ? q.rank : 0;
	if (q.rank > MAX_RANK || axis < 0 || axis >= q.rank || !ht_shape_known(n->out[0].shape))
		return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_type_of(n->in[i])->shape.rank != p->rank)
			return false;
	for (int i = 0; i < q.rank; i++) {
		int64_t from = i == axis ? -1 : p->to[i < axis ? i : i - 1];

		q.to[i] = i == axis ? axis : from + (from >= axis);
	}
	take_operands(r, n, KIND_PACK, p);
	transpose_result(r, n, 0, &q);
	return true;
}

static bool sink_split(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	int32_t arg = n->op == HT_OP_Split ? 0 : 2;
	int64_t axis;

	if (!all_fit(n, KIND_SPLIT, p) || !const_axis(n->in[arg], p->rank, &axis))
		return false;
	for (int32_t i = 0; i < n->outs; i++)
		if (!ht_shape_known(n->out[i].shape))
			return false;
	take_operands(r, n, KIND_SPLIT, p);
	set_scalar(r, n, arg, p->to[axis]);
	for (int32_t i = 0; i < n->outs; i++)
		transpose_result(r, n, i, p);
	return true;
}

/* Operand `arg`: `each` integers an axis. */
static bool permute_ints(
	struct ht_rw *r, struct ht_node *n, int32_t arg, int each, const struct perm *p)
{
	int64_t x[2 * MAX_RANK], y[2 * MAX_RANK];
	int count;

	if (!ht_const_small_ints(n->in[arg], x, 2 * MAX_RANK, &count) || count != each * p->rank)
		return false;
	for (int i = 0; i < p->rank; i++)
		for (int k = 0; k < each; k++)
			y[p->to[i] * each + k] = x[i * each + k];
	set_ints(r, n, arg, y, count, ht_type_of(n->in[arg])->shape);
	return true;
}

static bool has_ints(struct ht_value v, int want)
{
	int64_t x[2 * MAX_RANK];
	int count;

	return ht_const_small_ints(v, x, 2 * MAX_RANK, &count) && count == want;
}

static bool sink_by_axis(struct ht_rw *r, struct ht_node *n, enum kind kind, int each,
	int32_t first, int32_t end, const struct perm *p)
{
	if (!all_fit(n, kind, p))
		return false;
	for (int32_t i = first; i < end; i++)
		if (!has_ints(n->in[i], each * p->rank))
			return false;
	take_operands(r, n, kind, p);
	for (int32_t i = first; i < end; i++)
		permute_ints(r, n, i, each, p);
	transpose_result(r, n, 0, p);
	return true;
}

static int64_t permute_mask(int64_t mask, const struct perm *p)
{
	int64_t out = 0;

	for (int i = 0; i < p->rank; i++)
		if (mask >> i & 1)
			out |= (int64_t)1 << p->to[i];
	return out;
}

static bool sink_strided(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	static const char *const masks[] = { "begin_mask", "end_mask" };
	int64_t permuted[2];

	if (ht_attr_int(n, "ellipsis_mask", 0) || ht_attr_int(n, "new_axis_mask", 0) ||
		ht_attr_int(n, "shrink_axis_mask", 0))
		return false;
	for (int i = 0; i < 2; i++)
		permuted[i] = permute_mask(ht_attr_int(n, masks[i], 0), p);
	if (!sink_by_axis(r, n, KIND_STRIDED, 1, 1, 4, p))
		return false;
	for (int i = 0; i < 2; i++)
		ht_attr_set_int(n, masks[i], permuted[i]);
	return true;
}

/* ---- reductions ---- */

static bool is_arg_reduce(const struct ht_node *n)
{
	return n->op == HT_OP_ArgMax || n->op == HT_OP_ArgMin;
}

/* The permutation of the axes that are left. */
static struct perm left_over(const struct perm *p, const bool *reduced)
{
	struct perm q = { 0 };

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

static bool sink_reduce(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	int64_t axis[MAX_RANK];
	bool reduced[MAX_RANK] = { false };
	struct perm rest;
	struct ht_shape axes_shape = ht_type_of(n->in[1])->shape;
	int count;
	bool keep = !is_arg_reduce(n) && ht_attr_bool(n, "keep_dims", false);

	if (ht_type_of(n->in[0])->shape.rank != p->rank || !ht_shape_known(n->out[0].shape) ||
		!ht_const_small_ints(n->in[1], axis, MAX_RANK, &count))
		return false;
	for (int i = 0; i < count; i++) {
		axis[i] += axis[i] < 0 ? p->rank : 0;
		if (axis[i] < 0 || axis[i] >= p->rank)
			return false;
		reduced[axis[i]] = true;
		axis[i] = p->to[axis[i]];
	}
	rest = left_over(p, reduced);
	take_operands(r, n, KIND_REDUCE, p);
	set_ints(r, n, 1, axis, count, axes_shape);
	transpose_result(r, n, 0, keep ? p : &rest);
	return true;
}

static bool sink_softmax(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	if (p->to[p->rank - 1] != p->rank - 1)
		return false;
	return sink_elementwise(r, n, p);
}

/* ---- reshapes ---- */

/* The axes of a shape that are not 1. */
struct big {
	int count;
	int64_t size[MAX_RANK];
	int place[MAX_RANK];
};

static bool big_of(struct ht_shape s, struct big *b)
{
	b->count = 0;
	if (!ht_shape_known(s) || s.rank > MAX_RANK)
		return false;
	for (int i = 0; i < s.rank; i++) {
		if (s.dim[i] == 0)
			return false;
		if (s.dim[i] == 1)
			continue;
		b->size[b->count] = s.dim[i];
		b->place[b->count++] = i;
	}
	return true;
}

/* The place of each of `from`'s axes among those before the Transpose. */
static void places_before(const struct big *from, const struct perm *p, int *before)
{
	for (int i = 0; i < from->count; i++) {
		before[i] = 0;
		for (int k = 0; k < from->count; k++)
			before[i] += p->to[from->place[k]] < p->to[from->place[i]];
	}
}

/* Cuts both shapes into the shortest groups of equal size; sets, for each axis of `to`, where its
 * group begins before the Transpose.  False where a group is torn apart by it. */
static bool match_groups(
	const struct big *from, const struct big *to, const int *before, int *begins)
{
	int f = 0, t = 0;

	while (f < from->count && t < to->count) {
		int first = f, first_to = t;
		int64_t size = from->size[f++], size_to = to->size[t++];

		while (size != size_to) {
			if (size < size_to) {
				if (f == from->count)
					return false;
				size *= from->size[f++];
			} else {
				if (t == to->count)
					return false;
				size_to *= to->size[t++];
			}
		}
		for (int i = first + 1; i < f; i++)
			if (before[i] != before[i - 1] + 1)
				return false;
		for (int i = first_to; i < t; i++)
			begins[i] = before[first];
	}
	return f == from->count && t == to->count;
}

/* Reshape(Transpose(x, p)) becomes Transpose(Reshape(x), q), when the axes that it joins or takes
 * apart lie side by side in x too.  Axes of size 1 stay where the result has them, the others are
 * permuted among the places of the others. */
static bool sink_reshape(struct ht_rw *r, struct ht_node *n, const struct perm *p)
{
	struct ht_shape to_shape = n->out[0].shape, mid;
	struct big from, to;
	int before[MAX_RANK], begins[MAX_RANK];
	struct perm q = { .rank = to_shape.rank };
	struct ht_value in[2];

	if (!big_of(ht_type_of(n->in[0])->shape, &from) || !big_of(to_shape, &to))
		return false;
	places_before(&from, p, before);
	if (!match_groups(&from, &to, before, begins))
		return false;
	for (int i = 0; i < to_shape.rank; i++)
		q.to[i] = i;
	for (int i = 0; i < to.count; i++) {
		int place = 0;

		for (int k = 0; k < to.count; k++)
			place += begins[k] < begins[i] || (begins[k] == begins[i] && k < i);
		q.to[to.place[i]] = to.place[place];
	}
	mid = before_perm(r, to_shape, &q);
	in[0] = n->in[0].node->in[0];
	in[1] = ht_rw_const_ints(r, n, derived(r, n, "shape"), HT_I64, mid.dim, mid.rank);
	ht_rw_become(r, n, HT_OP_Reshape, in, 2);
	ht_attr_set_type(n, "T", n->out[0].dtype);
	ht_attr_set_type(n, "Tshape", HT_I64);
	transpose_result(r, n, 0, &q);
	return true;
}

/* ---- two in a row, and none at all ---- */

static bool merge(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *inner;
	struct perm p, q, both;
	struct ht_value in[2];

	if (!perm_of(n, &q) || !perm_of(n->in[0].node, &p))
		return false;
	inner = n->in[0].node;
	both = compose(&p, &q);
	if (is_identity(&both)) {
		if (ht_rw_is_output(r, ht_out(n, 0)) && inner->in[0].node->op == HT_OP_Placeholder)
			return false;
		ht_rw_replace_node(r, n, inner->in[0]);
		return true;
	}
	in[0] = inner->in[0];
	in[1] = ht_rw_const_ints(r, n, derived(r, n, "perm"), HT_I32, both.to, both.rank);
	ht_rw_set_ins(r, n, in, 2);
	ht_attr_set_type(n, "Tperm", HT_I32);
	return true;
}

/* No axis of more than one element changes its place among those. */
static bool moves_units_only(const struct ht_node *n, const struct perm *p)
{
	int64_t last = -1;

	for (int i = 0; i < p->rank; i++) {
		if (n->out[0].shape.dim[i] == 1)
			continue;
		if (p->to[i] < last)
			return false;
		last = p->to[i];
	}
	return true;
}

static void as_reshape(struct ht_rw *r, struct ht_node *n)
{
	struct ht_shape s;
	struct ht_value in[2];
	struct perm p;

	if (!perm_of(n, &p) || !moves_units_only(n, &p))
		return;
	s = n->out[0].shape;
	in[0] = n->in[0];
	in[1] = ht_rw_const_ints(r, n, derived(r, n, "shape"), HT_I64, s.dim, s.rank);
	ht_rw_become(r, n, HT_OP_Reshape, in, 2);
	ht_attr_set_type(n, "T", n->out[0].dtype);
	ht_attr_set_type(n, "Tshape", HT_I64);
}

/* A Transpose behind a Pad goes before it, where there is less to move, and where the Pad is next
 * to what may take it in. */
static void before_pad(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *pad;
	struct perm p, q;
	struct ht_value moved;

	if (!perm_of(n, &p))
		return;
	pad = n->in[0].node;
	if (kind_of(pad) != KIND_PAD || ht_rw_only_user(r, n->in[0]) != n ||
		!ht_shape_known(ht_type_of(pad->in[0])->shape) || !has_ints(pad->in[1], 2 * p.rank))
		return;
	q = inverse(&p);
	moved = ht_rw_transpose(r, pad, derived(r, pad, "transposed"), pad->in[0], p.to);
	ht_rw_set_in(r, pad, 0, moved);
	permute_ints(r, pad, 1, 2, &q);
	pad->out[0].shape = n->out[0].shape;
	ht_rw_replace_node(r, n, ht_out(pad, 0));
}

/* ---- the walk ---- */

static bool sink(struct ht_rw *r, struct ht_node *n)
{
	enum kind kind = kind_of(n);
	struct perm p;

	if (kind == KIND_NONE || !n->outs || !common_perm(r, n, kind, &p))
		return false;
	switch (kind) {
	case KIND_NONE:
		return false;
	case KIND_ELEMENTWISE:
		return sink_elementwise(r, n, &p);
	case KIND_BIAS:
	case KIND_NORM:
		return sink_channels(r, n, kind, &p);
	case KIND_CONCAT:
		return sink_concat(r, n, &p);
	case KIND_PACK:
		return sink_pack(r, n, &p);
	case KIND_PAD:
		return sink_by_axis(r, n, kind, 2, 1, 2, &p);
	case KIND_REDUCE:
		return sink_reduce(r, n, &p);
	case KIND_SOFTMAX:
		return sink_softmax(r, n, &p);
	case KIND_SLICE:
		return sink_by_axis(r, n, kind, 1, 1, 3, &p);
	case KIND_STRIDED:
		return sink_strided(r, n, &p);
	case KIND_SPLIT:
		return sink_split(r, n, &p);
	case KIND_TILE:
		return sink_by_axis(r, n, kind, 1, 1, 2, &p);
	case KIND_RESHAPE:
		return sink_reshape(r, n, &p);
	}
	return false;
}

static bool round_of(struct ht_rw *r)
{
	struct ht_node **all;
	size_t count;
	bool moved = false;

	all = ht_rw_nodes(r, &count);
	for (size_t i = 0; i < count; i++) {
		while (all[i]->graph && merge(r, all[i]))
			moved = true;
		if (all[i]->graph && sink(r, all[i]))
			moved = true;
	}
	return moved;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct ht_node **all;
	size_t count;
	int rounds = 0;

	ht_rw_init(&r, g, c);
	while (round_of(&r) && ++rounds < ROUNDS)
		;
	all = ht_rw_nodes(&r, &count);
	for (size_t i = count; i-- > 0;)
		if (all[i]->graph)
			before_pad(&r, all[i]);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			as_reshape(&r, all[i]);
	return HT_OK;
}

const struct ht_pass ht_pass_transposes = {
	.name = "transposes",
	.summary = "moves transposes together and cancels them",
	.run = run,
};
