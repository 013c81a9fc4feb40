/* Measures how much the error grows when each group of nodes alone becomes low. */
#include "precision/optimal/frontier.h"
#include "precision/optimal/walk.h"

#include <math.h>
#include <string.h>

enum { MOST_GROUPS = 32 };

static bool can_have(const struct walk *w, uint32_t unit, int l)
{
	return w->problem.assign.cost[unit][l] != HT_COST_NEVER;
}

enum ht_label ht_walk_base_label(const struct walk *w, uint32_t unit)
{
	int l = HT_LABEL_F32;

	for (int k = 0; k < HT_LABELS && !can_have(w, unit, l); k++)
		l = k;
	return (enum ht_label)l;
}

static bool has_choice(const struct walk *w, uint32_t unit)
{
	return can_have(w, unit, HT_LABEL_F32) &&
	       (can_have(w, unit, HT_LABEL_F16) || can_have(w, unit, HT_LABEL_BF16));
}

void ht_walk_build_problem(struct walk *w)
{
	struct ht_trial t;

	ht_trial_make(w->p, w->best, w->pricing, &t);
	ht_problem_build(w->p, w->safety, w->pricing, &t, w->work, &w->problem);
	ht_trial_free(&t);
}

/* Nodes in float16 will be run, and constants outside of its range are not a matter of degree,
 * so these are excluded. */
static void check_ranges(struct walk *w)
{
	bool denied = false;

	for (const struct ht_node *n = w->p->graph->first; n; n = n->next) {
		uint32_t unit = w->problem.unit[n->id];
		if (unit != UINT32_MAX && has_choice(w, unit) && can_have(w, unit, HT_LABEL_F16))
			denied |= ht_safety_check(w->safety, n);
	}
	if (!denied)
		return;
	ht_safety_spread(w->p, w->safety);
	ht_walk_build_problem(w);
}

/* Groups kernels of the float32 program in the graph's order, so many together that there are at
 * most MOST_GROUPS groups. */
static void find_groups(struct walk *w)
{
	struct ht_arena *a = ht_arena_of(w->p);
	struct ht_trial t;
	uint32_t *number, kernels = 0;

	memset(w->taken, 0, w->p->graph->ids * sizeof *w->taken);
	ht_trial_make(w->p, w->taken, w->pricing, &t);
	number = HT_NEW_ARRAY(a, uint32_t, t.graph->ids);
	w->group = HT_NEW_ARRAY(w->work, uint32_t, w->problem.assign.units);
	memset(w->group, 0xff, w->problem.assign.units * sizeof *w->group);
	for (const struct ht_node *n = w->p->graph->first; n; n = n->next) {
		const struct ht_node *kernel = t.fusion.kernel[t.copy[n->id]->id];
		uint32_t unit = w->problem.unit[n->id], *of;
		if (unit == UINT32_MAX || !has_choice(w, unit))
			continue;
		of = &number[kernel ? kernel->id : t.copy[n->id]->id];
		if (!*of)
			*of = ++kernels;
		w->group[unit] = *of - 1;
	}
	w->report->groups = kernels < MOST_GROUPS ? kernels : MOST_GROUPS;
	for (uint32_t u = 0; u < w->problem.assign.units; u++)
		if (w->group[u] != UINT32_MAX)
			w->group[u] =
				(uint32_t)((uint64_t)w->group[u] * w->report->groups / kernels);
	ht_trial_free(&t);
	ht_arena_release(a);
}

static void take_group(struct walk *w, uint32_t group, enum ht_label l)
{
	for (const struct ht_node *n = w->p->graph->first; n; n = n->next) {
		uint32_t unit = w->problem.unit[n->id];
		enum ht_label own;
		w->taken[n->id] = NULL;
		if (unit == UINT32_MAX)
			continue;
		own = w->group[unit] == group && can_have(w, unit, l) ? l
								      : ht_walk_base_label(w, unit);
		w->taken[n->id] = ht_label_column(w->p, n, own);
	}
}

/* Whether some node would take label `l` if errors did not count.  If none would, none will
 * under any budget: the costs of its nodes and of the casts around them do not depend on the
 * other low type. */
static bool pays(struct walk *w, enum ht_label l)
{
	struct ht_arena *a = ht_arena_of(w->p);
	struct ht_assign only = w->problem.assign;
	struct ht_assignment s;
	bool any = false;

	only.cost = (int64_t(*)[HT_LABELS])ht_alloc_array(a, only.units, sizeof *only.cost);
	for (uint32_t u = 0; u < only.units; u++)
		for (int k = 0; k < HT_LABELS; k++)
			only.cost[u][k] = k == HT_LABEL_F32 || k == (int)l ||
							  (u < HT_LABELS || !has_choice(w, u))
						  ? w->problem.assign.cost[u][k]
						  : HT_COST_NEVER;
	ht_assign_solve(&only, a, a, &s);
	for (uint32_t u = HT_LABELS; u < only.units && !any; u++)
		any = has_choice(w, u) && s.label[u] == l;
	ht_arena_release(a);
	return any;
}

static enum ht_status measure_group(struct walk *w, uint32_t group, enum ht_label l)
{
	double e;

	take_group(w, group, l);
	HT_TRY(ht_walk_run(w, false, &e));
	w->squared[group * HT_LABELS + l] = e * e;
	return HT_OK;
}

static enum ht_status measure_groups(struct walk *w)
{
	static const enum ht_label low[] = { HT_LABEL_BF16, HT_LABEL_F16 };

	w->squared = HT_NEW_ARRAY(w->work, double, w->report->groups *HT_LABELS);
	w->members = HT_NEW_ARRAY(w->work, uint32_t, w->report->groups *HT_LABELS);
	for (uint32_t u = 0; u < w->problem.assign.units; u++)
		for (int l = 0; l < HT_LABELS && w->group[u] != UINT32_MAX; l++)
			w->members[w->group[u] * HT_LABELS + (uint32_t)l] += can_have(w, u, l);
	for (size_t i = 0; i < HT_COUNT(low); i++) {
		bool wanted = pays(w, low[i]);
		for (uint32_t g = 0; g < w->report->groups; g++) {
			w->squared[g * HT_LABELS + low[i]] = INFINITY;
			if (wanted && w->members[g * HT_LABELS + low[i]])
				HT_TRY(measure_group(w, g, low[i]));
		}
	}
	return HT_OK;
}

/* Sets errors as integers for the cut; groups with an infinite error are forbidden. */
static void set_errors(struct walk *w)
{
	struct ht_assign *a = &w->problem.assign;
	double total = 0;

	w->error = (int64_t(*)[HT_LABELS])ht_alloc_array(w->work, a->units, sizeof *w->error);
	for (uint32_t g = 0; g < w->report->groups; g++) {
		double most = 0;
		for (int l = 0; l < HT_LABELS; l++) {
			double e = w->squared[g * HT_LABELS + (uint32_t)l];
			most = isfinite(e) && e > most ? e : most;
		}
		total += most;
	}
	w->scale = total > 0 ? (double)HT_FRONTIER_ERROR / 2 / total : 1;
	for (uint32_t u = 0; u < a->units; u++)
		for (int l = 0; l < HT_LABELS && w->group[u] != UINT32_MAX; l++) {
			uint32_t at = w->group[u] * HT_LABELS + (uint32_t)l;
			double share = w->members[at] ? w->squared[at] / w->members[at] : 0;
			if (!isfinite(share))
				a->cost[u][l] = HT_COST_NEVER;
			else if (share > 0)
				w->error[u][l] =
					llround(share * w->scale) +
					(a->units < HT_FRONTIER_ERROR / 2); /* rounded up */
		}
}

enum ht_status ht_walk_measure(struct walk *w)
{
	check_ranges(w);
	find_groups(w);
	HT_TRY(measure_groups(w));
	set_errors(w);
	return HT_OK;
}
