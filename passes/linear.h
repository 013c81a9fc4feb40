/* linear: finds the nodes whose results are proportional to one value of a graph. */
#ifndef HT_PASSES_LINEAR_H
#define HT_PASSES_LINEAR_H

#include "ir/ir.h"

/* Sets is[id] for each node id of the graph: whether all floating-point results of the node are proportional to `v` in exact
 * arithmetic, for every value of the graph's other inputs.  False may also mean that this is not known.  True for v's own node.
 * Returns the number of nodes for which it is true. */
size_t ht_linear_in(const struct ht_graph *g, struct ht_value v, bool *is);
/* Whether `n` reads the shape of its operand, and none of its elements. */
bool ht_asks_shape_alone(const struct ht_node *n);

#endif
