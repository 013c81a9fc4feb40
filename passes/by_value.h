/* by_value: maps from values of a graph to what a pass knows of them. */
#ifndef HT_PASSES_BY_VALUE_H
#define HT_PASSES_BY_VALUE_H

#include "ir/ir.h"

/* What is known of the value; NULL: nothing is. */
void *ht_by_value(const struct ht_map *m, struct ht_value v);
/* From now on `known` is what is known of the value.  `a` must live as long as the map. */
void ht_set_by_value(struct ht_map *m, struct ht_arena *a, struct ht_value v, void *known);
/* The value of entry `i` of the map. */
struct ht_value ht_value_of_entry(const struct ht_map *m, size_t i);

#endif
