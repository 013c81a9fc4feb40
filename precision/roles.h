/* roles: what the tensors of a model are for.
 *
 * Weights are values computed only from constants and variables.  Gradients are values that no
 * output needs, in a graph that changes variables; outputs that are written to variables do not
 * count.  All other values are activations. */
#ifndef HT_PRECISION_ROLES_H
#define HT_PRECISION_ROLES_H

#include "ir/ir.h"
#include "precision/policy.h"

/* By node id: enum ht_role of its results; in `a`. */
uint8_t *ht_roles_of(const struct ht_graph *g, struct ht_arena *a);

#endif
