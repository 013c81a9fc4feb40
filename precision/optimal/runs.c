/* Short runs of float16 (docs/numerics.md): which contractions sum their products so under policy optimal.
 *
 * Where the machine adds products of float16 faster than of float32, a contraction that becomes float16 gets mode
 * high_performance, unless an option states a mode for it.  Its right operand has to be a constant: products of two
 * tensors are those of attention, and what a softmax makes of errors is not bounded by theirs.  A run errs by 1.1e-3 of
 * its result in the root mean square, less than the rounded factors of bfloat16 do (2.3e-3), which this policy uses without
 * being asked.  Under a budget the error is measured, so this machine has to be one that has such sums.
 *
 * While prices are made the modes are attributes of the graph, where pricing and the variants that are run find them. */
#include "precision/optimal/optimal.h"

static bool are_faster(const struct ht_precision *p, const struct ht_target *t)
{
	if (!t->sums_f16 || ht_target_products(t, HT_F16) <= ht_target_products(t, HT_F32))
		return false;
	return !ht_budget_asked(&p->policy->budget) || ht_target_host()->sums_f16;
}

static bool has_mode(const struct ht_node *n)
{
	return ht_attr_find(n, ht_mode_attribute);
}

static void set_mode(struct ht_short_runs *s, struct ht_node *n, enum ht_impl mode)
{
	ht_attr_set_str(n, ht_mode_attribute, ht_str(ht_impl_name(mode)));
	s->marked[s->marks++] = n;
}

/* Those that options state. */
static void set_stated(struct ht_precision *p, struct ht_short_runs *s)
{
	struct ht_decisions stated = { .arena = p->arena };
	struct ht_precision q = *p;

	ht_precision_unseen(&q);
	ht_impl_decide(&q, &stated);
	for (size_t i = 0; i < stated.impls; i++)
		if (ht_is(stated.impl[i].at, HT_CONTRACTS) && !has_mode(stated.impl[i].at))
			set_mode(s, stated.impl[i].at, stated.impl[i].mode);
}

void ht_short_runs_begin(struct ht_precision *p, const struct ht_target *t, struct ht_short_runs *s)
{
	bool *runs;

	*s = (struct ht_short_runs){ 0 };
	p->short_runs = NULL;
	if (!are_faster(p, t))
		return;
	runs = HT_NEW_ARRAY(p->arena, bool, p->graph->ids);
	s->marked = HT_NEW_ARRAY(p->arena, struct ht_node *, p->graph->nodes);
	set_stated(p, s);
	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		if (!ht_is(n, HT_CONTRACTS) || ht_is_depthwise(n) || has_mode(n) || n->ins < 2 ||
			!ht_is(n->in[1].node, HT_CONSTANT) || !ht_label_column(p, n, HT_LABEL_F16))
			continue;
		set_mode(s, n, HT_IMPL_HIGH_PERFORMANCE);
		runs[n->id] = true;
	}
	p->short_runs = runs;
}

void ht_short_runs_end(struct ht_short_runs *s)
{
	for (size_t i = 0; i < s->marks; i++)
		ht_attr_remove(s->marked[i], ht_mode_attribute);
}
