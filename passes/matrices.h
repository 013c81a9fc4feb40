/* matrices: ops of linear algebra as loops, for pass rare. */
#ifndef HT_PASSES_MATRICES_H
#define HT_PASSES_MATRICES_H

#include "passes/rewrite.h"

/* Whether the op is one of them; and lets a loop take the place of such a node, unless it leaves it alone. */
bool ht_has_matrices(const struct ht_node *n);
void ht_write_matrices(struct ht_rw *r, struct ht_node *n);

#endif
