/* loss_scale: the two passes that scale gradients, loss_seed and loss_scale. */
#ifndef HT_PASSES_LOSS_SCALE_H
#define HT_PASSES_LOSS_SCALE_H

#include "passes/rewrite.h"

/* The handle of variable `name`, scalar and of type `t`, which is made where the graph has none. */
struct ht_value ht_own_variable(
	struct ht_rw *r, struct ht_node *before, const char *name, enum ht_dtype t);
/* NULL: the graph has none. */
struct ht_node *ht_own_variable_find(const struct ht_graph *g, const char *name);

#endif
