/* precision: decides the dtype of each tensor by the policy, and places the casts.
 *
 * Units and columns are built, the policy narrows and settles, the decision is written into the
 * graph.  Without a policy the graph stays as it is.  What was decided is left in the context's
 * decisions. */
#include "passes/precision/precision.h"

/* A mode of bfloat16 asks for a machine that has it. */
static enum ht_status check_machine(const struct ht_policy *p, struct ht_diags *d)
{
	bool bf16 = p->kind->decide == ht_ascend_decide &&
		    (p->kind->mode == HT_MODE_ALLOW_BF16 || p->kind->mode == HT_MODE_MIX_BF16);

	if (!bf16 || p->profile->bf16)
		return HT_OK;
	return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE, "policy '%s': profile %s has no bfloat16",
		p->name, p->profile->name);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_decisions unwanted = { .arena = c->scratch };
	struct ht_precision p = {
		.graph = g, .arena = c->scratch, .diags = c->diags, .policy = c->policy
	};

	if (!c->policy)
		return HT_OK;
	p.profile = c->policy->profile;
	HT_TRY(check_machine(c->policy, c->diags));
	ht_units_build(&p);
	for (struct ht_node *n = g->first; n; n = n->next)
		ht_columns_build(&p, n, &p.choice[n->id]);
	c->policy->kind->decide(&p);
	ht_precision_rewrite(&p, c->decisions ? c->decisions : &unwanted);
	return HT_OK;
}

const struct ht_pass ht_pass_precision = {
	.name = "precision",
	.summary = "decides dtypes by the policy and places casts",
	.run = run,
};
