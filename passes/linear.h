/* linear: what is proportional to one value of a graph. */
#ifndef HT_PASSES_LINEAR_H
#define HT_PASSES_LINEAR_H

#include "ir/ir.h"

/* By node id: whether all float results of the node are multiplied by a number where `v` is, whatever else the graph is
 * fed; by the rules of each op's arithmetic, in exact arithmetic.  v's node counts as one.  *count (may be NULL): how many. */
bool *ht_linear_in(const struct ht_graph *g, struct ht_value v, struct ht_arena *a, size_t *count);
/* Whether `n` asks a value for its shape alone. */
bool ht_asks_shape_alone(const struct ht_node *n);

#endif
