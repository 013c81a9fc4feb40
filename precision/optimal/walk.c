/* Under a budget: measures sensitivities, computes the frontier, and walks along it.
 *
 * The cheapest assignment of all is run first; if it keeps the budget, the work is done.
 * Otherwise neighbouring kernels are grouped, and each group is run in each low type, with all
 * other nodes in float32.  Squares of errors add up, as those of independent roundings do; a
 * group's square is divided evenly among its nodes.  That gives a frontier of cost against
 * error.  From the cheapest point that keeps the budget by this model, the walk goes to cheaper
 * points as long as they keep it when run, or to more exact ones until one does.
 *
 * Errors are fractions of the budget: 1 is the whole budget. */
#include "precision/optimal/walk.h"
#include "precision/optimal/frontier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 64 };

struct point {
	const struct ht_column **taken;
	struct ht_frontier_entry entry;
};

/* ---- running variants ---- */

/* A copy of the graph with the types of w->taken. */
static struct ht_graph *write_variant(struct walk *w, struct ht_arena *a)
{
	struct ht_precision q = *w->p;
	struct ht_decisions unwanted = { .arena = a };
	const struct ht_node *n = q.graph->first;
	uint32_t ids;

	q.graph = ht_graph_clone(w->p->graph, a);
	q.arena = a;
	q.decisions = &unwanted;
	ht_units_build(&q);
	for (struct ht_node *copy = q.graph->first; copy; copy = copy->next, n = n->next) {
		const struct ht_column *c = w->taken[n->id];
		q.choice[copy->id] = w->p->choice[n->id];
		q.choice[copy->id].taken = c;
		for (int i = 0; c && i < ht_op_info(n->op)->type_attrs; i++)
			ht_unit_of(&q, copy, i)->to = c->dtype[i];
	}
	ids = q.graph->ids;
	ht_precision_rewrite(&q, &unwanted);
	ht_fit_constants(q.graph, ids, &(struct ht_fit){ q.policy, NULL, a, &unwanted });
	return q.graph;
}

enum ht_status ht_walk_run(struct walk *w, bool reference, double *worst)
{
	const struct ht_calibration *c = w->p->calibration;
	const struct ht_budget *b = w->report->budget;
	struct ht_arena *a = ht_arena_of(w->p);
	enum ht_status st = c->run(c->self, write_variant(w, a), reference, w->report->measured);

	ht_arena_release(a);
	w->report->runs += !reference;
	*worst = 0;
	for (size_t i = 0; i < w->report->clauses && st == HT_OK && !reference; i++) {
		double x = w->report->measured[i], most = b->clauses ? b->clause[i].most : 1;
		x = x > 0 ? x / most : 0;
		*worst = x > *worst ? x : *worst;
	}
	return st;
}

/* ---- the frontier ---- */

static void add_point(struct walk *w, const uint8_t *label)
{
	struct point *q = &w->point[w->points++];
	struct ht_trial t;

	q->taken = HT_NEW_ARRAY(w->work, const struct ht_column *, w->p->graph->ids);
	ht_problem_columns(w->p, &w->problem, label, q->taken);
	ht_trial_make(w->p, q->taken, w->pricing, &t);
	q->entry = (struct ht_frontier_entry){ .price = t.price,
		.error = sqrt((double)ht_frontier_error(&w->problem.assign,
				      (const int64_t(*)[HT_LABELS])w->error, label) /
			      w->scale),
		.measured = -1 };
	for (uint32_t u = HT_LABELS; u < w->problem.assign.units; u++)
		q->entry.low += label[u] != HT_LABEL_F32;
	ht_trial_free(&t);
}

static int by_price(const void *a, const void *b)
{
	const struct ht_frontier_entry *x = &((const struct point *)a)->entry,
				       *y = &((const struct point *)b)->entry;

	if (x->price != y->price)
		return x->price < y->price ? -1 : 1;
	return (x->error > y->error) - (x->error < y->error);
}

/* Removes dominated points: when they are priced with their own fusion, a point may be both
 * cheaper and more exact than another. */
static void drop_dominated(struct walk *w)
{
	size_t kept = 0;

	qsort(w->point, w->points, sizeof *w->point, by_price);
	for (size_t i = 0; i < w->points; i++)
		if (!kept || w->point[i].entry.error < w->point[kept - 1].entry.error)
			w->point[kept++] = w->point[i];
	w->points = kept;
}

static void find_points(struct walk *w)
{
	struct ht_arena *scratch = ht_arena_of(w->p);
	uint8_t *label = HT_NEW_ARRAY(w->work, uint8_t, w->problem.assign.units);
	const struct ht_node *culprit;
	struct ht_frontier f;

	ht_frontier_solve(&w->problem.assign, (const int64_t(*)[HT_LABELS])w->error, MOST_POINTS,
		w->work, scratch, &f);
	w->report->whole = f.whole;
	w->points = 0;
	w->point = HT_NEW_ARRAY(w->work, struct point, f.points + 3);
	for (size_t i = 0; i < f.points; i++)
		add_point(w, f.point[i].label);
	if (ht_problem_labels(w->p, &w->problem, w->best, label, &culprit))
		add_point(w, label); /* the decision of a painting policy may be above the hull */
	drop_dominated(w);
}

/* ---- the walk ---- */

static enum ht_status verify(struct walk *w, size_t i, bool *kept)
{
	struct point *q = &w->point[i];

	memcpy(w->taken, q->taken, w->p->graph->ids * sizeof *w->taken);
	HT_TRY(ht_walk_run(w, false, &q->entry.measured));
	*kept = q->entry.measured <= 1;
	if (*kept) {
		w->report->chosen = i;
		memcpy(w->report->kept, w->report->measured,
			w->report->clauses * sizeof *w->report->kept);
	}
	return HT_OK;
}

/* Adds the point with every possible node in float32. */
static size_t add_base(struct walk *w)
{
	uint8_t *label = HT_NEW_ARRAY(w->work, uint8_t, w->problem.assign.units);

	for (uint32_t u = 0; u < w->problem.assign.units; u++)
		label[u] = (uint8_t)ht_walk_base_label(w, u);
	add_point(w, label);
	return w->points - 1;
}

static enum ht_status refuse(struct walk *w, const struct point *q)
{
	return ht_error(w->p->diags, HT_E_VERDICT, HT_NOWHERE,
		"the budget cannot be kept: with float32 wherever it may be the outputs err by "
		"%.3g times the budget; rules of customize_dtypes leave %zu nodes in low precision",
		q->entry.measured, q->entry.low);
}

static enum ht_status walk(struct walk *w)
{
	size_t i = 0;
	bool kept;

	while (i + 1 < w->points && w->point[i].entry.error > 1)
		i++;
	HT_TRY(verify(w, i, &kept));
	if (kept) {
		while (kept && i-- > 0)
			HT_TRY(verify(w, i, &kept));
		return HT_OK;
	}
	while (!kept && ++i < w->points)
		HT_TRY(verify(w, i, &kept));
	if (!kept)
		HT_TRY(verify(w, i = add_base(w), &kept));
	return kept ? HT_OK : refuse(w, &w->point[i]);
}

static void report_points(struct walk *w, struct ht_arena *a)
{
	w->report->point = HT_NEW_ARRAY(a, struct ht_frontier_entry, w->points);
	w->report->points = w->points;
	for (size_t i = 0; i < w->points; i++)
		w->report->point[i] = w->point[i].entry;
}

/* Whether the cheapest assignment of all keeps the budget; if so, no other variant is run. */
static enum ht_status try_best(struct walk *w, bool *kept)
{
	struct ht_trial t;

	w->point = HT_NEW_ARRAY(w->work, struct point, 1);
	w->points = 1;
	ht_trial_make(w->p, w->best, w->pricing, &t);
	w->point->taken = w->best;
	w->point->entry = (struct ht_frontier_entry){ .price = t.price, .error = -1 };
	for (const struct ht_node *n = w->p->graph->first; n; n = n->next) {
		uint32_t unit = w->problem.unit[n->id];
		w->point->entry.low += unit != UINT32_MAX && w->best[n->id] &&
				       w->best[n->id] != ht_label_column(w->p, n, HT_LABEL_F32);
	}
	ht_trial_free(&t);
	return verify(w, 0, kept);
}

static enum ht_status keep_budget(struct walk *w)
{
	const struct ht_budget *b = w->report->budget;
	struct ht_arena *a = w->p->decisions->arena;
	bool kept = false;
	double none;

	memset(w->taken, 0, w->p->graph->ids * sizeof *w->taken);
	HT_TRY(ht_walk_run(w, true, &none));
	ht_walk_build_problem(w);
	if (b->clauses && !b->frontier)
		HT_TRY(try_best(w, &kept));
	if (!kept) {
		HT_TRY(ht_walk_measure(w));
		find_points(w);
		if (b->clauses) {
			HT_TRY(walk(w));
			memcpy(w->best, w->point[w->report->chosen].taken,
				w->p->graph->ids * sizeof *w->best);
		}
	}
	report_points(w, a);
	return HT_OK;
}

enum ht_status ht_budget_walk(struct ht_precision *p, const struct ht_pricing *pricing,
	struct ht_safety *safety, const struct ht_column **best, struct ht_budget_report *report)
{
	struct ht_arena *a = p->decisions->arena;
	struct walk w = { .p = p,
		.pricing = pricing,
		.safety = safety,
		.best = best,
		.report = report,
		.work = ht_arena_of(p) };
	enum ht_status st;

	if (!p->calibration)
		return ht_error(p->diags, HT_E_USAGE, HT_NOWHERE,
			"a budget or frontier is measured by running the model, which single passes "
			"do not; run, bench, compile, convert and explain do");
	report->budget = &p->policy->budget;
	report->clauses = report->budget->clauses ? report->budget->clauses : 1;
	report->measured = HT_NEW_ARRAY(a, double, report->clauses);
	report->kept = HT_NEW_ARRAY(a, double, report->clauses);
	w.taken = HT_NEW_ARRAY(p->arena, const struct ht_column *, p->graph->ids);
	st = keep_budget(&w);
	ht_arena_release(w.work);
	return st;
}
