/* walk: the cheapest assignment whose outputs are within a budget, found by running it. */
#ifndef HT_WALK_H
#define HT_WALK_H

#include "precision/optimal/optimal.h"

/* `best`, by node id: the cheapest assignment; becomes the one that keeps the budget.  Without
 * clauses it stays, and only the report gets the frontier.  HT_E_VERDICT: no assignment keeps
 * the budget. */
enum ht_status ht_budget_walk(struct ht_precision *p, const struct ht_pricing *pricing,
	struct ht_safety *safety, const struct ht_column **best, struct ht_budget_report *report);

/* ---- shared by walk.c and sensitivity.c ---- */

struct walk {
	struct ht_precision *p;
	const struct ht_pricing *pricing;
	struct ht_safety *safety;
	const struct ht_column **best;  /* in and out */
	const struct ht_column **taken; /* of the variant that is run or priced next */
	struct ht_budget_report *report;
	struct ht_arena *work; /* memory of the following members */
	struct ht_problem problem;
	uint32_t *group;   /* by unit; UINT32_MAX: it has no choice */
	uint32_t *members; /* by group and label: number of units that can have the label */
	double *squared;   /* by group and label: square of the measured error; infinite:
			    * excluded */
	int64_t (*error)[HT_LABELS];
	double scale; /* scaled error for a square of 1 */
	struct point *point;
	size_t points;
};

/* Runs w->taken; *worst is the largest error of all clauses. */
enum ht_status ht_walk_run(struct walk *w, bool reference, double *worst);
/* Builds the problem, priced for the fusion of the cheapest assignment. */
void ht_walk_build_problem(struct walk *w);
/* Float32, or the label that the user's rules leave. */
enum ht_label ht_walk_base_label(const struct walk *w, uint32_t unit);
/* Fills groups, squares and errors. */
enum ht_status ht_walk_measure(struct walk *w);

#endif
