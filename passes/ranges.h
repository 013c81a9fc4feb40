/* ranges: the possible values of a graph's integers in a run, through branches and counting
 * loops. */
#ifndef HT_PASSES_RANGES_H
#define HT_PASSES_RANGES_H

#include "ir/ir.h"

/* Bounds of all elements of a tensor of integers. */
struct ht_range {
	int64_t least, most; /* at most -HT_RANGE_OPEN, at least HT_RANGE_OPEN: there is no bound */
};
#define HT_RANGE_OPEN ((int64_t)1 << 40)

struct ht_ranges {
	struct ht_arena *arena;
	struct ht_map of; /* by value */
	int depth;        /* how many loops enclose the current graph */
	bool shapes;      /* the shapes in the graph are proved */
};

/* Finds the ranges in `g`, and, over all iterations, in the bodies that belong to its branches
 * and loops alone.  `shapes`: extents tell ranges, too; false where shapes are only hoped for
 * (ht_infer_types_hopefully()). */
void ht_ranges_find(struct ht_ranges *x, struct ht_graph *g, struct ht_arena *arena, bool shapes);
struct ht_range ht_range_of(const struct ht_ranges *x, struct ht_value v);
/* How many iterations loop `n` runs. */
struct ht_range ht_range_of_trips(const struct ht_ranges *x, struct ht_node *n);

#endif
