/* precision: decides the dtype of each tensor by the policy, and places the casts.
 *
 * Units and columns are built, the policy narrows and settles, the decision is written into the
 * graph.  Without a policy the graph stays as it is.  What was decided is left in the context's
 * decisions. */
#include "passes/precision/precision.h"

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_decisions unwanted = { .arena = c->scratch };
	struct ht_decisions *out = c->decisions ? c->decisions : &unwanted;
	struct ht_precision p = {
		.graph = g,
		.imported = c->imported ? c->imported : g,
		.arena = c->scratch,
		.diags = c->diags,
		.policy = c->policy,
		.target = c->target ? c->target : ht_target_host(),
		.decisions = out,
	};

	if (!c->policy)
		return HT_OK;
	p.profile = c->policy->profile;
	HT_TRY(ht_policy_check(c->policy, c->diags));
	if (ht_policy_effective(c->policy)->paint)
		return ht_policy_effective(c->policy)->paint(g, c, out);
	HT_TRY(ht_rules_resolve(&p));
	ht_units_build(&p);
	for (struct ht_node *n = g->first; n; n = n->next)
		ht_columns_build(&p, n, &p.choice[n->id]);
	HT_TRY(ht_customize_apply(&p));
	ht_policy_effective(c->policy)->decide(&p);
	ht_impl_decide(&p, out);
	ht_rules_report(&p, out);
	ht_precision_rewrite(&p, out);
	return HT_OK;
}

const struct ht_pass ht_pass_precision = {
	.name = "precision",
	.summary = "decides dtypes by the policy and places casts",
	.run = run,
};
