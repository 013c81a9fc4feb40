/* loss_scale: the two passes that scale gradients, loss_seed and loss_scale. */
#ifndef HT_PASSES_LOSS_SCALE_H
#define HT_PASSES_LOSS_SCALE_H

#include "passes/rewrite.h"

/* The handle of variable `name`, a scalar of type `t`.  If the graph has no such variable, makes it in front of `before`. */
struct ht_value ht_own_variable(
	struct ht_rw *r, struct ht_node *before, const char *name, enum ht_dtype t);
/* The node of variable `name`; NULL: the graph has no such variable. */
struct ht_node *ht_own_variable_find(const struct ht_graph *g, const char *name);

#endif
