/* concat_split: tensors that are split and joined again stay whole, and likewise those that are
 * joined and split again.
 *
 *   ConcatV2 of ConcatV2 on one axis, which has no other user → one ConcatV2
 *   ConcatV2 of all parts of Split or SplitV, in order, on its axis → the operand of the split;
 *   Pack of Unpack likewise
 *   Split or SplitV of a ConcatV2 on its axis, into parts of its operands' sizes → the operands;
 *   Unpack of Pack likewise
 *
 * Exact, in any type. */
#include "passes/rewrite.h"

static bool axis_of(struct ht_value v, int32_t rank, int64_t *axis)
{
	int count;

	if (rank < 0 || !ht_const_small_ints(v, axis, 1, &count) || count != 1)
		return false;
	if (*axis < 0)
		*axis += rank;
	return *axis >= 0 && *axis < rank;
}

static bool concat_axis(const struct ht_node *n, int64_t *axis)
{
	return n->op == HT_OP_ConcatV2 && axis_of(n->in[n->ins - 1], n->out[0].shape.rank, axis);
}

static bool pack_axis(const struct ht_node *n, int32_t rank, int64_t *axis)
{
	*axis = ht_attr_int(n, "axis", 0);
	if (*axis < 0)
		*axis += rank;
	return rank >= 0;
}

/* ---- joins of joins ---- */

static bool inner_concat(struct ht_rw *r, struct ht_node *n, int64_t axis, struct ht_value v)
{
	const enum ht_fusion_id id = HT_FUSION_concat_nested;
	int64_t inner;

	if (v.node->op != HT_OP_ConcatV2)
		return false;
	if (v.node->controls)
		ht_rw_miss(r, id, 1, v.node, "has control inputs");
	else if (!concat_axis(v.node, &inner) || inner != axis)
		ht_rw_miss(r, id, 2, v.node, "is along another axis");
	else if (ht_rw_only_user(r, v) != n)
		ht_rw_miss(r, id, 3, v.node, "has another user");
	else
		return true;
	return false;
}

static bool concat_of_concat(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value *in;
	int64_t axis;
	int32_t count = 0, total = 0;

	if (!ht_rw_on(r, HT_FUSION_concat_nested) || !concat_axis(n, &axis))
		return false;
	for (int32_t i = 0; i + 1 < n->ins; i++)
		total += inner_concat(r, n, axis, n->in[i]) ? n->in[i].node->ins - 1 : 1;
	if (total == n->ins - 1)
		return false;
	in = HT_NEW_ARRAY(r->arena, struct ht_value, (size_t)total + 1);
	for (int32_t i = 0; i + 1 < n->ins; i++) {
		struct ht_node *x = n->in[i].node;

		if (!inner_concat(r, n, axis, n->in[i])) {
			in[count++] = n->in[i];
			continue;
		}
		ht_rw_absorb(n, x);
		for (int32_t k = 0; k + 1 < x->ins; k++)
			in[count++] = x->in[k];
	}
	in[count] = n->in[n->ins - 1];
	ht_rw_hit(r, HT_FUSION_concat_nested);
	ht_rw_set_ins(r, n, in, count + 1);
	ht_attr_set_int(n, "N", count);
	return true;
}

/* ---- cut and joined ---- */

/* The operand of a Split, SplitV or Unpack, and the axis along which it cuts; false for other
 * nodes. */
static bool cut_axis(const struct ht_node *n, struct ht_value *x, int64_t *axis)
{
	bool split = n->op == HT_OP_Split;

	if (!split && n->op != HT_OP_SplitV && n->op != HT_OP_Unpack)
		return false;
	*x = n->in[split];
	if (n->op == HT_OP_Unpack)
		return pack_axis(n, ht_type_of(*x)->shape.rank, axis);
	return axis_of(n->in[split ? 0 : 2], ht_type_of(*x)->shape.rank, axis);
}

static int32_t operands_of(const struct ht_node *join)
{
	return join->op == HT_OP_ConcatV2 ? join->ins - 1 : join->ins;
}

static bool joins(enum ht_op join, enum ht_op cut)
{
	return join == HT_OP_Pack
		       ? cut == HT_OP_Unpack
		       : join == HT_OP_ConcatV2 && (cut == HT_OP_Split || cut == HT_OP_SplitV);
}

static bool join_axis(const struct ht_node *n, int64_t *axis)
{
	return n->op == HT_OP_Pack ? pack_axis(n, n->out[0].shape.rank, axis)
				   : concat_axis(n, axis);
}

static void join_of_parts(struct ht_rw *r, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_split_concat;
	struct ht_node *cut = n->in[0].node;
	struct ht_value x;
	int64_t axis, of_cut;

	if (!joins(n->op, cut->op) || !ht_rw_on(r, id))
		return;
	if (!join_axis(n, &axis) || !cut_axis(cut, &x, &of_cut) || axis != of_cut) {
		ht_rw_miss(r, id, 1, n, "joins along another axis than what it joins was cut");
		return;
	}
	for (int32_t i = 0; i < operands_of(n); i++)
		if (operands_of(n) != cut->outs || !ht_value_eq(n->in[i], ht_out(cut, i))) {
			ht_rw_miss(r, id, 2, n, "does not join all parts in order");
			return;
		}
	if (ht_rw_is_output(r, ht_out(n, 0)) && x.node->op == HT_OP_Placeholder) {
		ht_rw_miss(r, id, 3, n, "is an output, and would become an input");
		return;
	}
	ht_rw_hit(r, id);
	ht_rw_replace_node(r, n, x);
}

static bool same_size(struct ht_value a, struct ht_value b, int64_t axis)
{
	struct ht_shape x = ht_type_of(a)->shape, y = ht_type_of(b)->shape;

	return x.rank >= 0 && x.rank == y.rank && axis < x.rank && x.dim[axis] != HT_DIM_UNKNOWN &&
	       x.dim[axis] == y.dim[axis];
}

static void cut_of_join(struct ht_rw *r, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_split_concat;
	struct ht_value x;
	struct ht_node *join;
	int64_t axis, of_join;

	if (!cut_axis(n, &x, &axis) || !joins(x.node->op, n->op) || !ht_rw_on(r, id))
		return;
	join = x.node;
	if (!join_axis(join, &of_join) || axis != of_join) {
		ht_rw_miss(r, id, 1, n, "cuts along another axis than what it cuts was joined");
		return;
	}
	for (int32_t i = 0; i < n->outs; i++) {
		if (operands_of(join) != n->outs ||
			(n->op != HT_OP_Unpack && !same_size(ht_out(n, i), join->in[i], axis))) {
			ht_rw_miss(r, id, 2, n, "does not cut into what was joined");
			return;
		}
		if (ht_rw_is_output(r, ht_out(n, i))) {
			ht_rw_miss(r, id, 3, n, "is an output");
			return;
		}
	}
	if (!ht_rw_plain(r, n))
		return;
	ht_rw_hit(r, id);
	for (int32_t i = 0; i < n->outs && n->graph; i++)
		ht_rw_replace(r, ht_out(n, i), join->in[i]);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	if (n->controls || n->ins == 0)
		return;
	while (concat_of_concat(r, n))
		;
	if (n->op == HT_OP_ConcatV2 || n->op == HT_OP_Pack)
		join_of_parts(r, n);
	else
		cut_of_join(r, n);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_concat_split = {
	.name = "concat_split",
	.summary = "joins of joins, and joins of what was cut",
	.run = run,
};
