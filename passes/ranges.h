/* ranges: what the integers of a graph can be in a run, through branches and through loops that count. */
#ifndef HT_PASSES_RANGES_H
#define HT_PASSES_RANGES_H

#include "ir/ir.h"

/* Bounds of all elements of a tensor of integers. */
struct ht_range {
	int64_t least, most; /* -HT_RANGE_OPEN or less, HT_RANGE_OPEN or more: there is no bound */
};
#define HT_RANGE_OPEN ((int64_t)1 << 40)

struct ht_ranges {
	struct ht_arena *arena;
	struct ht_map of; /* by value */
	int depth;        /* loops around what is looked at */
};

/* Finds the ranges in `g`, and in the bodies that its branches and loops have for themselves: in each iteration. */
void ht_ranges_find(struct ht_ranges *x, struct ht_graph *g, struct ht_arena *arena);
struct ht_range ht_range_of(const struct ht_ranges *x, struct ht_value v);

#endif
