/* transposes: moves a Transpose down through ops that do not depend on the order of axes, until
 * another one cancels it.
 *
 * Such ops are: elementwise ops, Cast, BiasAdd, FusedBatchNorm of inference, Concat, Pack, Pad,
 * reductions, Softmax over an axis that stays last, Slice, StridedSlice without masks that
 * change the rank, Split, Tile, and Reshape, Squeeze and ExpandDims that keep together the axes
 * which the Transpose keeps together.  All their operands must be transposed in the same way;
 * constants, and values with at most one axis of more than one element, are rearranged instead,
 * which costs nothing.  If one operand is not transposed but all users of the result undo the
 * transposition, it gets a pair of Transposes, so that two others disappear for the one that is
 * left.
 *
 * At the end, a Transpose behind a Pad moves in front of it.  Two in a row become one or none.
 * One that only moves axes of size 1 becomes a Reshape.  A Transpose whose result is an output,
 * or has users that depend on the order of axes, is not moved for its other users. */
#include "passes/transposes.h"

enum { ROUNDS = 8 };

/* ---- two in a row, and none at all ---- */

static bool merge(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *inner;
	struct ht_perm p, q, both;
	struct ht_value in[2];

	if (!ht_perm_of(n, &q) || !ht_perm_of(n->in[0].node, &p))
		return false;
	inner = n->in[0].node;
	both = ht_perm_compose(&p, &q);
	if (ht_perm_is_identity(&both)) {
		if (ht_rw_is_output(r, ht_out(n, 0)) && inner->in[0].node->op == HT_OP_Placeholder)
			return false;
		ht_rw_hit(r, HT_FUSION_transposes);
		ht_rw_replace_node(r, n, inner->in[0]);
		return true;
	}
	in[0] = inner->in[0];
	in[1] = ht_rw_const_ints(r, n, ht_rw_name_within(r, n, "perm"), HT_I32, both.to, both.rank);
	ht_rw_set_ins(r, n, in, 2);
	ht_attr_set_type(n, "Tperm", HT_I32);
	return true;
}

/* Whether all axes of more than one element keep their order. */
static bool moves_units_only(const struct ht_node *n, const struct ht_perm *p)
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
	struct ht_perm p;

	if (!ht_perm_of(n, &p) || !moves_units_only(n, &p))
		return;
	s = n->out[0].shape;
	in[0] = n->in[0];
	in[1] = ht_rw_const_ints(r, n, ht_rw_name_within(r, n, "shape"), HT_I64, s.dim, s.rank);
	ht_rw_become(r, n, HT_OP_Reshape, in, 2);
}

/* Moves a Transpose behind a Pad in front of it: there are fewer elements to move, and the Pad
 * becomes the neighbour of an op that may absorb it. */
static void before_pad(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *pad;
	struct ht_perm p, q;
	struct ht_value moved;

	if (!ht_perm_of(n, &p))
		return;
	pad = n->in[0].node;
	if (ht_through_kind(pad) != HT_THROUGH_PAD || ht_rw_only_user(r, n->in[0]) != n ||
		!ht_shape_known(ht_type_of(pad->in[0])->shape) ||
		!ht_axis_ints(pad->in[1], 2 * p.rank))
		return;
	q = ht_perm_inverse(&p);
	moved = ht_rw_transpose(r, pad, ht_rw_name_within(r, pad, "transposed"), pad->in[0], p.to);
	ht_rw_set_in(r, pad, 0, moved);
	ht_permute_axis_ints(r, pad, 1, 2, &q);
	pad->out[0].shape = n->out[0].shape;
	ht_rw_replace_node(r, n, ht_out(pad, 0));
}

/* ---- the walk ---- */

static bool round_of(struct ht_rw *r)
{
	struct ht_node **all;
	size_t count;
	bool moved = false;

	all = ht_rw_nodes(r, &count);
	for (size_t i = 0; i < count; i++) {
		while (all[i]->graph && merge(r, all[i]))
			moved = true;
		if (all[i]->graph && ht_transpose_sink(r, all[i]))
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
