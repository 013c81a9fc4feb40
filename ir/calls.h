/* The functions that single nodes call. */
#ifndef HT_IR_CALLS_H
#define HT_IR_CALLS_H

#include "ir/ir.h"

/* Adds the functions of `library` that node `n` calls itself to `called`, by name. */
void ht_add_called(const struct ht_graph *library, const struct ht_node *n, struct ht_map *called);
/* Adds those that the functions in `called` call, directly or indirectly. */
void ht_add_all_called(const struct ht_graph *library, struct ht_map *called);

#endif
