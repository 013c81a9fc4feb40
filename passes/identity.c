/* identity: removes ops that return their operand.
 *
 * These are: Identity and its kin; Cast to the same type; Reshape, Squeeze, Slice and the like
 * that keep the shape; Transpose that only moves axes of size 1 and keeps the shape; Pad by
 * nothing; ConcatV2 and AddN of one operand; reductions over no axes.
 *
 * Left alone: a PlaceholderWithDefault that is an input of the entry, CheckNumerics (it has an
 * effect), a node with control inputs (they order its readers), and identities of references,
 * which read a variable.  If control edges start at the node and its operand has several
 * results, it stays: behind a Switch such an edge says which branch was taken. */
#include "passes/rewrite.h"

static struct ht_value result(const struct ht_node *n)
{
	return ht_out((struct ht_node *)(uintptr_t)n, 0);
}

static bool same_known_shape(struct ht_value a, struct ht_value b)
{
	struct ht_shape x = ht_type_of(a)->shape, y = ht_type_of(b)->shape;

	if (x.rank < 0 || x.rank != y.rank)
		return false;
	for (int32_t i = 0; i < x.rank; i++)
		if (x.dim[i] == HT_DIM_UNKNOWN || x.dim[i] != y.dim[i])
			return false;
	return true;
}

/* Whether operand 0 and the result, which have the same elements, have equal shapes.  If each has at most one unknown
 * size, these are equal too; but a Reshape has any size there if another one is 0. */
static bool keeps_shape(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_value a = n->in[0], b = result(n);
	struct ht_shape x = ht_type_of(a)->shape, y = ht_type_of(b)->shape;
	int open = 0;
	bool may_be_zero = false;

	if (x.rank < 0 || x.rank != y.rank)
		return false;
	for (int32_t i = 0; i < x.rank; i++) {
		if (x.dim[i] != y.dim[i] || !x.dim[i])
			return same_known_shape(a, b);
		open += x.dim[i] == HT_DIM_UNKNOWN;
		may_be_zero = may_be_zero || (x.dim[i] < 0 && !ht_dim_least(g, x.dim[i]));
	}
	return open == 0 || (open == 1 && !(may_be_zero && ht_is(n, HT_SHAPED_BY_SECOND)));
}

static bool all_zero(struct ht_value v)
{
	int64_t x[2 * HT_MAX_RANK];
	int n;

	if (!ht_const_small_ints(v, x, 2 * HT_MAX_RANK, &n))
		return false;
	for (int i = 0; i < n; i++)
		if (x[i])
			return false;
	return true;
}

static bool is_trivial_transpose(const struct ht_node *n)
{
	int64_t perm[HT_MAX_RANK], last = -1;
	struct ht_shape s = ht_type_of(n->in[0])->shape;
	int count;
	bool identity = true;

	if (!ht_const_small_ints(n->in[1], perm, HT_MAX_RANK, &count))
		return false;
	for (int i = 0; i < count; i++)
		identity = identity && perm[i] == i;
	if (identity)
		return true;
	if (s.rank != count || !same_known_shape(n->in[0], result(n)))
		return false;
	/* The shape stays; so does the order of elements when only axes of size 1 change places. */
	for (int i = 0; i < count; i++) {
		if (perm[i] < 0 || perm[i] >= count)
			return false;
		if (s.dim[perm[i]] == 1)
			continue;
		if (perm[i] < last)
			return false;
		last = perm[i];
	}
	return true;
}

static bool is_trivial_slice(const struct ht_node *n)
{
	int64_t stride[HT_MAX_RANK];
	int count;

	if (ht_axes(n) == HT_AXES_STRIDED) {
		if (!ht_const_small_ints(n->in[3], stride, HT_MAX_RANK, &count))
			return false;
		for (int i = 0; i < count; i++)
			if (stride[i] < 1)
				return false;
	}
	return same_known_shape(n->in[0], result(n)) && !ht_rw_checks_index(n);
}

static bool has_no_axes(const struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);

	return t && ht_shape_count(t->shape) == 0;
}

/* If the entry does not name an input, it always has its default. */
static bool is_never_fed(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_port *p = r->c->entry ? r->c->entry->inputs : NULL;

	if (!r->c->entry || r->g->function)
		return false;
	for (; p; p = p->next)
		if (p->value.node == n)
			return false;
	return true;
}

/* The operand that the node's first result equals, judged by the trait of how its axes pass; -1:
 * none. */
static int passes_on_axes(const struct ht_node *n)
{
	switch (ht_axes(n)) {
	case HT_AXES_REPEATED:
		return same_known_shape(n->in[0], result(n)) ? 0 : -1;
	case HT_AXES_SLICED:
	case HT_AXES_STRIDED:
		return is_trivial_slice(n) ? 0 : -1;
	case HT_AXES_PERMUTED:
		return is_trivial_transpose(n) ? 0 : -1;
	case HT_AXES_PADDED:
		return all_zero(n->in[1]) ? 0 : -1;
	case HT_AXES_JOINED_V2:
		return n->ins == 2 ? 0 : -1;
	case HT_AXES_JOINED:
		return n->ins == 2 ? 1 : -1;
	case HT_AXES_SPLIT:
		return n->outs == 1 ? n->ins == 2 : -1;
	default:
		return -1;
	}
}

static bool is_same_type(const struct ht_node *n)
{
	enum ht_dtype from = ht_type_of(n->in[0])->dtype;

	return from != HT_INVALID && from == n->out[0].dtype;
}

/* Whether an op without that trait returns operand 0 unchanged. */
static bool gives_back(const struct ht_rw *r, const struct ht_node *n)
{
	if (ht_is(n, HT_HAS_DEFAULT))
		return is_never_fed(r, n);
	if (n->op == HT_OP_EnsureShape)
		return same_known_shape(n->in[0], result(n));
	if (n->op == HT_OP_MirrorPad)
		return all_zero(n->in[1]);
	if (n->op == HT_OP_EuclideanNorm) /* of one number: its magnitude */
		return false;
	return ht_is(n, HT_FORWARDS)   ? n->ins == 1
	       : ht_is(n, HT_CASTS)    ? is_same_type(n)
	       : ht_is(n, HT_RESHAPES) ? keeps_shape(r->g, n)
	       : ht_is(n, HT_REDUCES)  ? has_no_axes(n)
				       : n->op == HT_OP_AddN && n->ins == 1;
}

static int passes_on(const struct ht_rw *r, const struct ht_node *n)
{
	return gives_back(r, n) ? 0 : passes_on_axes(n);
}

static void remove_identity_n(struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_type_of(n->in[i])->dtype >= HT_REF)
			return;
	for (int32_t i = 0; i < n->ins && n->graph; i++)
		ht_rw_replace(r, ht_out(n, i), n->in[i]);
}

/* Whether removing the node would make an output of the graph an input; it keeps a name of its
 * own then. */
static bool would_feed_through(const struct ht_rw *r, const struct ht_node *n, struct ht_value to)
{
	return ht_rw_is_output(r, result(n)) &&
	       (to.node->op == HT_OP_Placeholder || ht_is(to.node, HT_HAS_DEFAULT));
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value to;
	int arg;

	if (n->controls)
		return;
	if (n->op == HT_OP_IdentityN && !ht_rw_has_control_users(r, n)) {
		remove_identity_n(r, n);
		ht_rw_hit(r, HT_FUSION_identity);
		return;
	}
	arg = passes_on(r, n);
	if (arg < 0)
		return;
	to = n->in[arg];
	if (ht_type_of(to)->dtype >= HT_REF || would_feed_through(r, n, to))
		return;
	if (ht_rw_has_control_users(r, n) && (to.node->outs != 1 || to.node->op == HT_OP_OPAQUE))
		return;
	ht_rw_hit(r, HT_FUSION_identity);
	ht_rw_replace_node(r, n, to);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_identity = {
	.name = "identity",
	.summary = "removes ops that return their operand",
	.run = run,
};
