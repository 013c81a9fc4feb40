/* lists_vector: vectors of lists, for pass versions. */
#ifndef HT_LISTS_VECTOR_H
#define HT_LISTS_VECTOR_H

#include "passes/rewrite.h"

/* Whether the node takes lists of a vector, if its operand is one. */
bool ht_takes_of_lists(const struct ht_node *n);
/* Whoever takes such a list from the node takes the list itself, if it is known. */
void ht_take_of_lists(struct ht_rw *r, struct ht_node *n);

#endif
