/* stated: compares what a node states with the tensor that it is about, where only a run can tell.
 *
 * - A Reshape states an extent that inference does not follow, all others are known, and so the number of elements tells it.  The Reshape then
 *   takes what that number tells, and an Assert in front of it compares both.
 * - MatrixBandPart states more diagonals than an open or computed matrix may have.
 *
 * What such a node states may also be -1: what the number of elements leaves, or all diagonals. */
#include "passes/computed_nodes.h"

static struct ht_value is_rest(struct maker *f, struct ht_value x)
{
	return binary(f, HT_OP_Less, x, whole(f, ht_type_of(x)->dtype, 0));
}

/* ---- Reshape ---- */

/* The entry of a Reshape's shape that is not known, while all extents of the result are; -1: there is none. */
static int32_t untold(const struct ht_node *n, const struct ht_known *shape)
{
	int32_t at = -1;

	if (ht_is_const(n->in[1]) || !shape || !shape->e || shape->n != n->out[0].shape.rank ||
		!ht_shape_is_told(n->out[0].shape) || !ht_shape_is_told(ht_in_shape(n, 0)))
		return -1;
	for (int32_t i = 0; i < shape->n; i++) {
		if (shape->e[i].kind == HT_ELEM_UNKNOWN && at >= 0)
			return -1;
		if (shape->e[i].kind == HT_ELEM_UNKNOWN)
			at = i;
		else if (shape->e[i].kind == HT_ELEM_INT && shape->e[i].i < 0)
			return -1;
	}
	return at;
}

static void compare_elements(struct maker *f, struct ht_node *n, int32_t at)
{
	struct ht_value entry[HT_MAX_RANK], all = whole(f, HT_I64, 1), fits,
					    total = size_of(f, n->in[0], HT_I64);

	for (int32_t i = 0; i < n->out[0].shape.rank; i++) {
		entry[i] = element(f, n->in[1], i);
		all = binary(f, HT_OP_Mul, all, wide(f, entry[i]));
	}
	fits = binary(
		f, HT_OP_LogicalOr, binary(f, HT_OP_Equal, all, total), is_rest(f, entry[at]));
	expect(f, n, fits, "the elements of the operand, and the shape that is stated:",
		(struct ht_value[]){ total, n->in[1] }, 2);
	entry[at] = whole(f, ht_type_of(n->in[1])->dtype, -1);
	ht_rw_set_in(f->r, n, 1, packed(f, entry, n->out[0].shape.rank));
}

/* ---- MatrixBandPart ---- */

/* Whether operand `i`, a number of diagonals, may be larger than extent `dim`. */
static bool may_exceed(const struct ht_graph *g, const struct ht_known *of, int64_t dim)
{
	struct ht_elem e = of && of->e ? of->e[0] : (struct ht_elem){ .kind = HT_ELEM_UNKNOWN };

	if (e.kind == HT_ELEM_INT)
		return e.i > 0 && dim < 0 && e.i > ht_dim_least(g, dim);
	return e.kind == HT_ELEM_UNKNOWN || e.i != dim;
}

static void compare_diagonals(struct maker *f, struct ht_node *n, int32_t i)
{
	struct ht_value extents = shape_of(f, n->in[0], ht_type_of(n->in[i])->dtype),
			extent = element(f, extents, ht_in_shape(n, 0).rank - 3 + i);

	expect(f, n, binary(f, HT_OP_LessEqual, n->in[i], extent),
		i == 1 ? "num_lower, and the rows of the matrix:"
		       : "num_upper, and the columns of the matrix:",
		(struct ht_value[]){ n->in[i], extent }, 2);
}

/* ---- all nodes ---- */

static void visit(struct maker *f, struct ht_node *n, struct ht_known *const *known)
{
	make_at(f, n);
	if (n->op == HT_OP_Reshape) {
		const struct ht_known *k = known[n->in[1].node->id];
		int32_t at = untold(n, k ? &k[n->in[1].index] : NULL);

		if (at >= 0)
			compare_elements(f, n, at);
	}
	for (int32_t i = 1; n->op == HT_OP_MatrixBandPart && i <= 2; i++) {
		struct ht_shape s = ht_in_shape(n, 0);
		const struct ht_known *k = known[n->in[i].node->id];

		if (s.rank >= 2 && s.dim[s.rank - 3 + i] != HT_DIM_UNKNOWN &&
			may_exceed(f->r->g, k ? &k[n->in[i].index] : NULL, s.dim[s.rank - 3 + i]))
			compare_diagonals(f, n, i);
	}
}

static bool states(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if ((n->op == HT_OP_Reshape && !ht_is_const(n->in[1])) ||
			n->op == HT_OP_MatrixBandPart)
			return true;
	return false;
}

/* `g`, and the bodies of branches and loops that have functions of their own. */
static void visit_all(struct ht_graph *g, struct ht_pass_context *c, const struct ht_map *all)
{
	struct ht_known **known = ht_known_of(all, g);
	struct ht_rw_within within;
	struct ht_node **node;
	struct ht_rw r;
	struct maker f = { .r = &r };
	size_t n;

	ht_rw_init_within(&r, &within, g, c);
	node = ht_rw_nodes(&r, &n);
	for (size_t i = 0; i < n; i++) {
		struct ht_bodies b = ht_control_bodies(node[i]);

		for (int k = 0; k < 2 && ht_runs_own(node[i]); k++)
			visit_all(b.of[k]->body, c, all);
		if (known)
			visit(&f, node[i], known);
	}
}

static bool states_within(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			if (states_within(b.of[k]->body))
				return true;
	}
	return states(g);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_map all;

	if (!states_within(g))
		return HT_OK;
	HT_TRY(ht_infer_all_known(g, g->arena, c->diags, false, &all));
	visit_all(g, c, &all);
	return ht_infer_types(g, c->diags);
}

const struct ht_pass ht_pass_stated = {
	.name = "stated",
	.summary = "compares what nodes state with their operands where only a run can tell",
	.run = run,
};
