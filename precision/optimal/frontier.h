/* frontier: the assignments that no other one beats in both cost and error.
 *
 * Beside its cost a label of a unit has an error, and errors add up.  The points of the frontier
 * that lie on the lower hull of all assignments are the answers for some exchange rate between the
 * two; each takes one minimum cut, and between two neighbours that a cut finds nothing below there
 * is no further one.  Assignments above the hull exist too: to find the cheapest below a given
 * error is a knapsack problem, which two neighbours bracket. */
#ifndef HT_FRONTIER_H
#define HT_FRONTIER_H

#include "precision/optimal/assign.h"

/* The errors of all units together, each with its largest one, stay at or below this. */
#define HT_FRONTIER_ERROR (INT64_C(1) << 18)

struct ht_frontier_point {
	int64_t cost, error;
	uint8_t *label; /* by unit */
};
struct ht_frontier {
	struct ht_frontier_point
		*point; /* the cheapest first; both coordinates are strictly monotone */
	size_t points;
	bool whole; /* false: there were more than `most` */
};
/* `error`: by unit, not negative.  Works in `scratch`.  No points: some unit has no label. */
void ht_frontier_solve(const struct ht_assign *p, const int64_t (*error)[HT_LABELS], size_t most,
	struct ht_arena *a, struct ht_arena *scratch, struct ht_frontier *out);
/* The error of labels. */
int64_t ht_frontier_error(
	const struct ht_assign *p, const int64_t (*error)[HT_LABELS], const uint8_t *label);

#endif
