/* frontier: the assignments that are not worse than another one in both cost and error.
 *
 * Each label of a unit has an error besides its cost, and errors add up.  The points on the
 * lower hull of all assignments are the optima for some exchange rate between cost and error.
 * Each takes one minimum cut; if the cut for two neighbours finds nothing below them, there is
 * no further point between them.  The frontier also has assignments above the hull: finding the
 * cheapest below a given error is a knapsack problem; two neighbours on the hull bracket it. */
#ifndef HT_FRONTIER_H
#define HT_FRONTIER_H

#include "precision/optimal/assign.h"

/* The sum over all units of their largest errors must not exceed this. */
#define HT_FRONTIER_ERROR (INT64_C(1) << 18)

struct ht_frontier_point {
	int64_t cost, error;
	uint8_t *label; /* by unit */
};
struct ht_frontier {
	struct ht_frontier_point
		*point; /* the cheapest first; both coordinates are strictly monotone */
	size_t points;
	bool whole; /* false: there were more points than `most` */
};
/* `error`: by unit, not negative.  Works in `scratch`.  No points: some unit has no label. */
void ht_frontier_solve(const struct ht_assign *p, const int64_t (*error)[HT_LABELS], size_t most,
	struct ht_arena *a, struct ht_arena *scratch, struct ht_frontier *out);
/* The sum of the errors of labels. */
int64_t ht_frontier_error(
	const struct ht_assign *p, const int64_t (*error)[HT_LABELS], const uint8_t *label);

#endif
