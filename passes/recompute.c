/* recompute: gives each user of a cheap node one of its own, in graphs that change variables.
 *
 * In a training step the normalisation of a batch has the differences of a tensor from its means, which the gradient reads again, and
 * in mixed precision the tensor itself widened to float32.  A node with users in several kernels is stored, so these stay in memory up to
 * the gradient.  If each user has its own, each kernel computes it again from what it is computed from: the tensor in the type in which it was
 * stored anyway.  That costs an instruction or two an element and saves a kernel and its memory; in 16 bits the tensor takes half of what the differences do.
 *
 * Only nodes whose users all compute them in their own loops are repeated: elementwise nodes and reductions. */
#include "passes/rewrite.h"

/* Smaller tensors stay in the caches, and are many: parameters and what is computed from them. */
#define LEAST_ELEMENTS ((int64_t)1 << 14)
enum {
	LEAST_SHARE = 16, /* the elements of a tensor for each of one that is broadcast to it */
	MOST_CHAIN =
		4 /* nodes that are computed again, each from the one before: each user computes all of them */
};

static int64_t count_of(struct ht_value v)
{
	return ht_shape_count(ht_type_of(v)->shape);
}

static bool widens(const struct ht_node *n)
{
	return ht_is(n, HT_CASTS) && ht_dtype_info(ht_type_of(n->in[0])->dtype)->bytes <
					     ht_dtype_info(n->out[0].dtype)->bytes;
}

/* The difference of a tensor from one that is broadcast to it. */
static bool is_difference(const struct ht_node *n)
{
	return n->op == HT_OP_Sub && count_of(n->in[0]) == ht_shape_count(n->out[0].shape) &&
	       count_of(n->in[1]) >= 0 &&
	       count_of(n->in[1]) <= ht_shape_count(n->out[0].shape) / LEAST_SHARE;
}

static bool is_cheap(const struct ht_node *n)
{
	return n->outs == 1 && ht_shape_count(n->out[0].shape) >= LEAST_ELEMENTS &&
	       ht_is_float(n->out[0].dtype) && (widens(n) || is_difference(n)) &&
	       !ht_is_const(n->in[0]);
}

/* Whether few cheap nodes are behind each other up to this one. */
static bool ends_short_chain(const struct ht_node *n)
{
	int count = 0;

	for (; is_cheap(n); n = n->in[0].node)
		if (++count > MOST_CHAIN)
			return false;
	return count > 0;
}

/* Whether all users compute the node's elements in their own loops. */
static bool all_compute(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_rw_use *u = ht_rw_first_use(r, n);

	while (u && u->arg >= 0 && ht_is(u->node, HT_ELEMENTWISE | HT_REDUCES))
		u = ht_rw_next_use(r, u);
	return !u && !ht_rw_is_output(r, ht_out((struct ht_node *)(uintptr_t)n, 0));
}

static struct ht_value again(struct ht_rw *r, const struct ht_node *n, struct ht_node *user)
{
	struct ht_node *copy = ht_rw_node(r, user, n->op, n->name, n->in, n->ins, n->out[0]);

	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		ht_rw_copy_attr(copy, n, a->name.p);
	ht_rw_absorb(copy, n);
	return ht_out(copy, 0);
}

/* The first user keeps the node. */
static void repeat(struct ht_rw *r, struct ht_node *n)
{
	size_t uses = (size_t)ht_rw_uses(r, ht_out(n, 0)), count = 0;
	struct ht_rw_use *all = HT_NEW_ARRAY(r->arena, struct ht_rw_use, uses + 1);

	for (const struct ht_rw_use *u = ht_rw_first_use(r, n); u; u = ht_rw_next_use(r, u))
		all[count++] = *u;
	for (size_t i = 1; i < count; i++)
		ht_rw_set_in(r, all[i].node, all[i].arg, again(r, n, all[i].node));
}

/* Backwards, so that a difference has its copies before what it is computed from. */
static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct ht_node **all;
	size_t n;

	if (!ht_changes_any(g))
		return HT_OK;
	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &n);
	while (n--)
		if (ends_short_chain(all[n]) && all_compute(&r, all[n]))
			repeat(&r, all[n]);
	return HT_OK;
}

const struct ht_pass ht_pass_recompute = {
	.name = "recompute",
	.summary = "computes cheap nodes again in each kernel of a training step that reads them",
	.spares_functions = true,
	.run = run,
};
