/* loop_handles: who takes the handle of a variable from a loop that returns it takes the handle that the loop was given.
 *
 * A loop returns the variables that it was given, and gradients of loops ask these results for the shape of the variable. */
#include "passes/rewrite.h"

/* The argument of `f` that `v` is; -1: it is none. */
static int32_t argument_of(const struct ht_function *f, struct ht_value v)
{
	const struct ht_node *n = ht_forwarded(v).node;
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++)
		if (p->value.node == n)
			return i;
	return -1;
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	const struct ht_function *body = ht_is(n, HT_LOOPS) ? ht_control_bodies(n).of[1] : NULL;
	int32_t i = 0;

	for (const struct ht_port *p = body ? body->rets : NULL; p && i < n->outs;
		p = p->next, i++) {
		struct ht_value given = n->in[ht_control_first(n) + i];

		if (ht_may_be_variable(given.node) && argument_of(body, p->value) == i)
			ht_rw_replace_behind(r, ht_out(n, i), given);
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_function *f = g->functions; f; f = f->next)
		HT_TRY(ht_rw_each(f->body, c, visit));
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_loop_handles = {
	.name = "loop_handles",
	.summary = "takes handles of variables from in front of a loop, not from behind it",
	.run = run,
};
