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

/* The rank of result `i` of a function; -1: it is not known, or the function has no such result. */
static int32_t rank_of_result(const struct ht_function *f, int32_t i)
{
	const struct ht_port *p = f->rets;

	for (; p && i; i--)
		p = p->next;
	return p ? ht_type_of(p->value)->shape.rank : -1;
}

/* Ranks of result `i`: of both sides of a branch, or in front of an iteration and behind it. */
static void ranks_of(const struct ht_node *n, int32_t i, int32_t rank[2])
{
	const struct ht_bodies b = ht_control_bodies(n);
	const bool loops = ht_is(n, HT_LOOPS);

	for (int k = 0; k < 2; k++)
		rank[k] = rank_of_result(b.of[loops ? 1 : k], i);
	if (loops)
		rank[0] = i < n->ins ? ht_type_of(n->in[i])->shape.rank : -1;
}

const char *ht_varies_in_rank(const struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);
	int32_t rank[2];

	if (!ht_is(n, HT_BRANCHES | HT_LOOPS) || !b.of[0] || !b.of[1])
		return NULL;
	for (int32_t i = 0; i < n->outs; i++) {
		if (n->out[i].shape.rank >= 0)
			continue;
		ranks_of(n, i, rank);
		if (rank[0] < 0 || rank[1] < 0 || rank[0] == rank[1])
			continue;
		return ht_is(n, HT_LOOPS)
			       ? "gives a result whose number of dimensions its iterations change; a "
				 "tensor of a program has one in every run"
			       : "gives a result whose number of dimensions depends on the side that "
				 "runs; a tensor of a program has one in every run";
	}
	return NULL;
}
