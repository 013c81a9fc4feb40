/* walk: the cheapest assignment whose outputs are within a budget, found by running it. */
#ifndef HT_WALK_H
#define HT_WALK_H

#include "passes/precision/optimal/optimal.h"

/* `best`: by node id, the cheapest assignment; becomes the one that keeps the budget.  Without
 * clauses it stays, and the report has the frontier.  HT_E_VERDICT: none keeps it. */
enum ht_status ht_budget_walk(struct ht_precision *p, const struct ht_pricing *pricing,
	struct ht_safety *safety, const struct ht_column **best, struct ht_budget_report *report);

#endif
