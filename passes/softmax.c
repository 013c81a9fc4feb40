/* softmax: the arithmetic of Softmax or LogSoftmax over the last axis becomes one op.
 *
 *   d = x - max(x)
 *   Softmax     e = exp(d); e / sum(e), e * (1 / sum(e))
 *   LogSoftmax  d - log(sum(exp(d)))
 *
 * float32 only.  Left alone: forms that do not subtract the maximum, whose exp may overflow, and
 * the logarithm of a Softmax, which is -inf where LogSoftmax is finite. */
#include "passes/rewrite.h"

/* Whether `v` is a reduction `op` of the last axis that keeps the axis. */
static bool is_last_axis(struct ht_value v, enum ht_op op, struct ht_value *x)
{
	struct ht_node *n = v.node;
	int64_t axis;
	int count;

	if (n->op != op || n->controls || !ht_attr_bool(n, "keep_dims", false) ||
		!ht_const_small_ints(n->in[1], &axis, 1, &count) || count != 1)
		return false;
	*x = n->in[0];
	return ht_type_of(*x)->shape.rank > 0 &&
	       (axis == -1 || axis == ht_type_of(*x)->shape.rank - 1);
}

/* x - max(x) */
static bool is_below_max(
	const struct ht_rw *r, struct ht_value v, struct ht_value *x, enum ht_fusion_id id)
{
	struct ht_value of;

	if (v.node->op != HT_OP_Sub || v.node->controls) {
		ht_rw_miss(r, id, 1, v.node, "does not subtract the maximum: exp may overflow");
		return false;
	}
	*x = v.node->in[0];
	if (is_last_axis(v.node->in[1], HT_OP_Max, &of) && ht_value_eq(of, *x))
		return true;
	ht_rw_miss(r, id, 2, v.node, "does not subtract the maximum over the last axis");
	return false;
}

static bool may_fuse(const struct ht_rw *r, const struct ht_node *n, enum ht_fusion_id id)
{
	if (n->controls)
		ht_rw_miss(r, id, 3, n, "has control inputs");
	else if (n->out[0].dtype != HT_F32)
		ht_rw_miss(r, id, 4, n, "is not float32");
	else
		return true;
	return false;
}

static void fuse(struct ht_rw *r, struct ht_node *n, struct ht_value x, enum ht_fusion_id id)
{
	ht_rw_hit(r, id);
	ht_rw_absorb_between(n, x);
	ht_rw_become(r, n, id == HT_FUSION_softmax ? HT_OP_Softmax : HT_OP_LogSoftmax, &x, 1);
}

/* The operand e, if `n` is e / sum(e) or e * (1 / sum(e)). */
static bool is_share(struct ht_node *n, struct ht_value *e)
{
	struct ht_value of;

	if (n->op == HT_OP_RealDiv) {
		*e = n->in[0];
		return is_last_axis(n->in[1], HT_OP_Sum, &of) && ht_value_eq(of, *e);
	}
	for (int i = 0; n->op == HT_OP_Mul && i < 2; i++) {
		struct ht_node *inverse = n->in[1 - i].node;

		*e = n->in[i];
		if (inverse->op == HT_OP_Reciprocal && !inverse->controls &&
			is_last_axis(inverse->in[0], HT_OP_Sum, &of) && ht_value_eq(of, *e))
			return true;
	}
	return false;
}

static void softmax(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value e, x;

	if (!ht_rw_on(r, HT_FUSION_softmax) || !is_share(n, &e) || e.node->op != HT_OP_Exp ||
		e.node->controls)
		return;
	if (is_below_max(r, e.node->in[0], &x, HT_FUSION_softmax) &&
		may_fuse(r, n, HT_FUSION_softmax))
		fuse(r, n, x, HT_FUSION_softmax);
}

static void log_softmax(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *log = n->in[1].node;
	struct ht_value e, x;

	if (!ht_rw_on(r, HT_FUSION_log_softmax) || log->op != HT_OP_Log || log->controls ||
		!is_last_axis(log->in[0], HT_OP_Sum, &e) || e.node->op != HT_OP_Exp ||
		e.node->controls || !ht_value_eq(e.node->in[0], n->in[0]))
		return;
	if (is_below_max(r, n->in[0], &x, HT_FUSION_log_softmax) &&
		may_fuse(r, n, HT_FUSION_log_softmax))
		fuse(r, n, x, HT_FUSION_log_softmax);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	if (n->op == HT_OP_RealDiv || n->op == HT_OP_Mul)
		softmax(r, n);
	else if (n->op == HT_OP_Sub)
		log_softmax(r, n);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_softmax = {
	.name = "softmax",
	.summary = "recognises Softmax and LogSoftmax",
	.run = run,
};
