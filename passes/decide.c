/* precision: sets the dtype of each tensor as the context's decider says. */
#include "passes/passes.h"

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return c->decider ? c->decider->decide(c->decider, g, c) : HT_OK;
}

const struct ht_pass ht_pass_precision = {
	.name = "precision",
	.summary = "decides dtypes by the policy and places casts",
	.run = run,
};
