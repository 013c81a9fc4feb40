/* functional: TensorFlow 1's control flow becomes loops and branches that run functions: first
 * frames (functional_loops.c), then the nodes between Switches and Merges
 * (functional_branches.c).
 *
 * Control edges from Switch, Enter and the like, and from the Merge of a loop, only say that a node
 * is in a frame or branch, so they are not copied into functions.  A control edge from the
 * Merge of a branch is copied: the node waits for the branch.  Control flow in another form stays, and lowering refuses it. */
#include "passes/functional.h"
#include "passes/passes.h"

bool ht_is_exit(const struct ht_node *n)
{
	return n->op == HT_OP_Exit || n->op == HT_OP_RefExit;
}

bool ht_is_loop_condition(const struct ht_node *n)
{
	return n->op == HT_OP_LoopCond;
}

bool ht_routes(const struct ht_node *n)
{
	return ht_is(n, HT_SWITCHES | HT_MERGES | HT_ENTERS | HT_ITERATES) || ht_is_exit(n) ||
	       ht_is_loop_condition(n);
}

struct ht_str ht_scope_of(struct ht_str name)
{
	struct ht_str s = name;

	while (s.n && s.p[s.n - 1] != '/')
		s.n--;
	return s.n > 1 ? (struct ht_str){ s.p, s.n - 1 } : name;
}

struct ht_node *ht_functional_node(
	struct functional *f, struct ht_str type, const struct ht_node *from)
{
	struct ht_node *n =
		ht_node_new(f->g, type, ht_graph_free_name(f->g, ht_scope_of(from->name)));

	n->device = from->device;
	ht_node_add_origin(n, from);
	return n;
}

static bool has_any(const struct ht_graph *g, uint64_t traits)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, traits))
			return true;
	return false;
}

/* Each node that is made replaces an Enter or a Merge, except the values of value_index. */
static void convert(
	struct ht_graph *g, struct ht_arena *scratch, void (*part)(struct functional *f))
{
	struct functional f = { .g = g, .scratch = scratch, .ids = g->ids + g->nodes + 2 };

	ht_outlines_init(&f.outlines, g, f.ids, scratch);
	part(&f);
}

static enum ht_status prune(struct ht_graph *g, const struct ht_pass_context *of)
{
	struct ht_pass_context c = *of;

	c.after = NULL;
	return ht_run_passes(g, "prune", NULL, &c);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	bool any = has_any(g, HT_SWITCHES | HT_ENTERS);

	for (struct ht_function *f = g->functions; f && !any; f = f->next)
		any = has_any(f->body, HT_SWITCHES);
	if (!any)
		return HT_OK;
	convert(g, c->scratch, ht_functional_loops);
	HT_TRY(ht_graph_sort(g, c->diags));
	HT_TRY(prune(g, c));
	for (struct ht_function *f = g->functions; f; f = f->next)
		if (has_any(f->body, HT_SWITCHES))
			convert(f->body, c->scratch, ht_functional_branches);
	convert(g, c->scratch, ht_functional_branches);
	HT_TRY(ht_graph_sort(g, c->diags));
	return prune(g, c);
}

const struct ht_pass ht_pass_functional = {
	.name = "functional",
	.summary = "makes branches and loops that run functions of Switch, Merge and frames",
	.run = run,
};
