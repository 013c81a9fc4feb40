/* The functions that branches, loops and calls run. */
#include "ir/ir.h"

const struct ht_attr *ht_control_attr(const struct ht_node *n, int i)
{
	static const char *const branch[] = { "then_branch", "else_branch" }, *const loop[] = {
		"cond", "body"
	};
	const char *call = i ? "" : "f";
	const struct ht_attr *a = ht_attr_find(n, ht_is(n, HT_LOOPS)       ? loop[i]
						  : ht_is(n, HT_CALLS_ONE) ? call
									   : branch[i]);

	return a && a->value.kind == HT_ATTR_FUNC ? a : NULL;
}

struct ht_bodies ht_control_bodies(const struct ht_node *n)
{
	struct ht_bodies b = { { NULL } };

	for (int i = 0; i < 2; i++) {
		const struct ht_attr *a = ht_control_attr(n, i);

		b.of[i] = a ? ht_graph_function(n->graph->library, a->value.func->name) : NULL;
	}
	return b;
}

int32_t ht_control_first(const struct ht_node *n)
{
	return ht_is(n, HT_BRANCHES) ? 1 : 0;
}

bool ht_runs_own(const struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);

	return ht_is(n, HT_BRANCHES | HT_LOOPS) && b.of[0] && b.of[1] && b.of[0]->special &&
	       b.of[1]->special;
}

/* Ranks of result `i`: of both sides of a branch, or in front of an iteration and behind it. */
static void ranks_of(const struct ht_node *n, int32_t i, int32_t rank[2])
{
	const struct ht_bodies b = ht_control_bodies(n);
	const bool loops = ht_is(n, HT_LOOPS);

	for (int k = 0; k < 2; k++)
		rank[k] = ht_type_of(ht_port_at(b.of[loops ? 1 : k]->rets, i)->value)->shape.rank;
	if (loops)
		rank[0] = ht_type_of(n->in[i])->shape.rank;
}

const char *ht_varies_in_rank(const struct ht_node *n)
{
	const bool loops = ht_is(n, HT_LOOPS);
	const struct ht_bodies b = ht_control_bodies(n);
	int32_t rank[2];

	if (!ht_is(n, HT_BRANCHES | HT_LOOPS) || !b.of[0] || !b.of[1])
		return NULL;
	for (int32_t i = 0; i < n->outs; i++) {
		if (n->out[i].shape.rank >= 0)
			continue;
		ranks_of(n, i, rank);
		if (!loops && rank[0] >= 0 && rank[1] >= 0 && rank[0] != rank[1])
			return "gives a result whose number of dimensions depends on the side that runs; a tensor of a "
			       "program has one in every run";
		if (loops && rank[0] >= 0 && rank[1] != rank[0] && n->out[i].dtype != HT_VARIANT)
			return "gives a result whose number of dimensions its iterations may change; a tensor of a "
			       "program has one in every run";
	}
	return NULL;
}
