/* linear: what is proportional to one value of a graph. */
#ifndef HT_PASSES_LINEAR_H
#define HT_PASSES_LINEAR_H

#include "ir/ir.h"

/* Sets is[id] for each of the graph's ids: whether all floating-point results of that node are proportional to `v`, whatever
 * else the graph is fed, by the rules of each op in exact arithmetic.  The node of `v` is one of them.  Returns how many there
 * are. */
size_t ht_linear_in(const struct ht_graph *g, struct ht_value v, bool *is);
/* Whether `n` asks a value for its shape alone. */
bool ht_asks_shape_alone(const struct ht_node *n);

#endif
