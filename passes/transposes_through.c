/* transposes_through: through which nodes a Transpose may move, whether this pays, and how
 * operands that are not transposed are changed. */
#include "passes/transposes.h"

#include <string.h>

enum ht_through ht_through_kind(const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	if (n->op == HT_OP_OPAQUE || info->effects || n->controls)
		return HT_THROUGH_NONE;
	if (ht_is(n, HT_ELEMENTWISE))
		return HT_THROUGH_ELEMENTWISE;
	if (ht_is(n, HT_REDUCES | HT_FINDS))
		return HT_THROUGH_REDUCE;
	if (ht_is(n, HT_RESHAPES))
		return HT_THROUGH_RESHAPE;
	if (ht_is(n, HT_BATCH_NORM))
		return ht_attr_bool(n, "is_training", true) ? HT_THROUGH_NONE : HT_THROUGH_NORM;
	switch ((int)n->op) {
	case HT_OP_BiasAdd:
		return HT_THROUGH_BIAS;
	case HT_OP_ConcatV2:
		return HT_THROUGH_CONCAT;
	case HT_OP_Pack:
		return HT_THROUGH_PACK;
	case HT_OP_Pad:
	case HT_OP_PadV2:
	case HT_OP_MirrorPad:
		return HT_THROUGH_PAD;
	case HT_OP_Softmax:
	case HT_OP_LogSoftmax:
		return HT_THROUGH_SOFTMAX;
	case HT_OP_Slice:
		return HT_THROUGH_SLICE;
	case HT_OP_StridedSlice:
		return HT_THROUGH_STRIDED;
	case HT_OP_Split:
	case HT_OP_SplitV:
		return HT_THROUGH_SPLIT;
	case HT_OP_Tile:
		return HT_THROUGH_TILE;
	default:
		return HT_THROUGH_NONE;
	}
}

void ht_through_operands(
	const struct ht_node *n, enum ht_through kind, int32_t *first, int32_t *end)
{
	*first = 0;
	*end = 1;
	if (kind == HT_THROUGH_ELEMENTWISE || kind == HT_THROUGH_PACK)
		*end = n->ins;
	else if (kind == HT_THROUGH_CONCAT)
		*end = n->ins - 1;
	else if (kind == HT_THROUGH_SPLIT && n->op == HT_OP_Split)
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

/* Whether rearranging costs nothing: constants, and values with at most one axis of more than
 * one element. */
static bool is_free(struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;

	return ht_shape_known(s) &&
	       (ht_is_const(v) ? ht_const_tensor(v) != NULL : big_axes(s) <= 1);
}

static struct ht_value transposed_const(
	struct ht_rw *r, struct ht_node *n, struct ht_value v, const struct ht_perm *q)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t bytes = ht_dtype_info(t->dtype)->bytes;
	struct ht_blob *b = ht_rw_blob(r, t->blob->n);
	int64_t dim[HT_PERM_RANK], step[HT_PERM_RANK], index[HT_PERM_RANK] = { 0 };
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
	int64_t dim[HT_PERM_RANK];
	const struct ht_tensor *t = ht_const_tensor(v);

	if (s.rank == rank)
		return v;
	for (int i = 0; i < rank; i++)
		dim[i] = i < rank - s.rank ? 1 : s.dim[i - (rank - s.rank)];
	s = (struct ht_shape){ rank, dim };
	if (t)
		return ht_rw_const(r, n, v.node->name, t->dtype, s, t->blob);
	return ht_rw_reshape(r, n, ht_rw_name_within(r, n, "line"), v, s);
}

struct ht_value ht_untransposed(
	struct ht_rw *r, struct ht_node *n, struct ht_value v, const struct ht_perm *p)
{
	struct ht_perm q = ht_perm_inverse(p), have;
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t dim[HT_PERM_RANK];

	if (ht_perm_of(v.node, &have) && ht_perm_eq(&have, p))
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
		return ht_rw_reshape(r, n, ht_rw_name_within(r, n, "line"), v,
			(struct ht_shape){ p->rank, dim });
	return ht_rw_transpose(r, n, ht_rw_name_within(r, n, "transposed"), v, q.to);
}

/* ---- whether it pays ---- */

static bool is_output(const struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (ht_rw_is_output(r, ht_out(n, i)))
			return true;
	return false;
}

/* Whether every user of the Transpose is a Transpose or lets it through, so that it need not
 * stay. */
static bool may_vanish(const struct ht_rw *r, struct ht_node *t, const struct ht_node *n)
{
	if (ht_rw_only_user(r, ht_out(t, 0)) == n)
		return true;
	if (is_output(r, t))
		return false;
	for (const struct ht_rw_use *u = ht_rw_first_use(r, t); u; u = ht_rw_next_use(r, u))
		if (u->arg < 0 || (u->node->op != HT_OP_Transpose &&
					  ht_through_kind(u->node) == HT_THROUGH_NONE))
			return false;
	return true;
}

static bool undone_by_users(const struct ht_rw *r, struct ht_node *n, const struct ht_perm *p)
{
	struct ht_perm q, want = ht_perm_inverse(p);

	if (n->outs != 1 || is_output(r, n) || !ht_rw_first_use(r, n))
		return false;
	for (const struct ht_rw_use *u = ht_rw_first_use(r, n); u; u = ht_rw_next_use(r, u))
		if (u->arg != 0 || !ht_perm_of(u->node, &q) || !ht_perm_eq(&q, &want))
			return false;
	return true;
}

bool ht_through_perm(
	const struct ht_rw *r, struct ht_node *n, enum ht_through kind, struct ht_perm *p)
{
	int32_t first, end, transposed = 0, others = 0;
	struct ht_perm q;
	bool all_vanish = true;

	ht_through_operands(n, kind, &first, &end);
	for (int32_t i = first; i < end; i++) {
		if (ht_perm_of(n->in[i].node, &q)) {
			if (transposed && !ht_perm_eq(p, &q))
				return false;
			*p = q;
			transposed++;
			all_vanish = all_vanish && may_vanish(r, n->in[i].node, n);
		} else if (!is_free(n->in[i])) {
			others++;
		}
	}
	if (!transposed || ht_perm_is_identity(p))
		return false;
	if (others == 0)
		return all_vanish || undone_by_users(r, n, p);
	/* Compares the new Transposes, one for each other operand, with those that disappear
	 * before and behind. */
	return (kind == HT_THROUGH_ELEMENTWISE || kind == HT_THROUGH_CONCAT) &&
	       undone_by_users(r, n, p) && others < 1 + (all_vanish ? transposed : 0);
}
