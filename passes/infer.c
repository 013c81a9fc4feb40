/* infer: dtypes and shapes of all values, from inputs, constants and attributes. */
#include "passes/passes.h"

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_infer_types(g, c->diags);
}

const struct ht_pass ht_pass_infer = {
	.name = "infer",
	.summary = "sets the dtypes and shapes of all values",
	.run = run,
};
