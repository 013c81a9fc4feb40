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
