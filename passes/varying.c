/* varying: whether bodies of branches and loops compute sizes, or give tensors of several extents.
 *
 * Where sizes are fixed, branches and loops get functions of their own behind the policy's decision.  Only then it is known which extents
 * differ and which numbers of elements are constant, and that is too late to number sizes.  So this looks at a copy of the graph in which
 * branches and loops have such functions already. */
#include "passes/computed.h"

static bool is_varying(const struct ht_type *t)
{
	return t->dtype != HT_VARIANT && t->dtype != HT_RESOURCE && t->dtype != HT_STRING &&
	       !ht_shape_is_told(t->shape);
}

static bool has_varying_result(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs && (ht_op_info(n->op)->effects & HT_CALLS); i++)
		if (is_varying(&n->out[i]))
			return true;
	return false;
}

static bool computes(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_may_compute_size(n))
			return true;
	return false;
}

/* Whether a function computes a size, if its arguments do not tell that size. */
static bool function_computes(const struct ht_graph *g)
{
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (f->body && computes(f->body))
			return true;
	return false;
}

/* Whether it is worth the copy.  Inference does not follow what loops of TensorFlow 1 carry. */
static bool may_need(const struct ht_graph *g)
{
	bool calls = false, enters = false;

	for (const struct ht_node *n = g->first; n; n = n->next) {
		if (has_varying_result(n))
			return true;
		calls = calls || (ht_op_info(n->op)->effects & HT_CALLS);
		enters = enters || ht_is(n, HT_ENTERS);
	}
	return (calls && function_computes(g)) ||
	       (enters && (ht_may_change_extents(g, true) || computes(g)));
}

/* Where branches and loops have functions of their own.  Tensors whose rank varies have no form anyway. */
static bool has_any_within(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		if (!ht_runs_own(n))
			continue;
		for (int32_t i = 0; i < n->outs; i++)
			if (n->out[i].shape.rank > 0 && is_varying(&n->out[i]))
				return true;
		for (int k = 0; k < 2; k++)
			if (computes(b.of[k]->body) || has_any_within(b.of[k]->body))
				return true;
	}
	return false;
}

static enum ht_status fold_bodies(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++) {
			HT_TRY(ht_run_passes_within(c, b.of[k], "fold,identity"));
			HT_TRY(fold_bodies(b.of[k]->body, c));
		}
	}
	return g->function ? HT_OK : ht_infer_types(g, c->diags);
}

bool ht_needs_own_bodies(struct ht_graph *g, const struct ht_pass_context *c)
{
	struct ht_pass_context of = *c;
	struct ht_arena *a;
	struct ht_graph *copy;
	struct ht_diags diags;
	bool needs = false;

	if (!may_need(g) || !g->entries || g->entries->next)
		return false;
	a = ht_arena_within(g->arena);
	copy = ht_graph_clone(g, a);
	ht_diags_init(&diags);
	of.scratch = ht_arena_within(a);
	of.diags = &diags;
	of.entry = copy->entries;
	of.fusions = NULL;
	of.verify = false;
	of.after = NULL;
	/* What is wrong with the graph is found again, and reported, where bodies are made of it. */
	if (ht_run_passes(copy, "tensor_arrays,prune,cases,functional", NULL, &of) == HT_OK &&
		ht_open_bodies(copy, &of) == HT_OK)
		needs = fold_bodies(copy, &of) == HT_OK && has_any_within(copy);
	ht_diags_release(&diags);
	ht_arena_release(of.scratch);
	ht_arena_release(a);
	return needs;
}
