/* Optional tensors of gradients of branches (optionals.c, optionals_split.c, fakes.c). */
#ifndef HT_PASSES_OPTIONALS_H
#define HT_PASSES_OPTIONALS_H

#include "passes/rewrite.h"

/* Whether the value is a result of a node, and a variant. */
bool ht_is_variant(struct ht_value v);
/* optionals_split.c: a result of branches for which both sides have an optional tensor becomes two, in `g` and in all bodies.  False: this
 * is not possible for one of them; the graph, which may be changed, still computes the same. */
bool ht_split_optionals(struct ht_graph *g, struct ht_pass_context *c);

#endif
