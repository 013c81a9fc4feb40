/* Tables: nodes of immutable and of mutable ones have the same ops to look keys up. */
#ifndef HT_LOWER_TABLES_H
#define HT_LOWER_TABLES_H

#include "lower/inside.h"

/* kernel_mutable.c: how nodes that take a mutable table are lowered. */
enum ht_status mutable_emit_fill(struct lower *l, struct ht_node *n);
enum ht_status mutable_emit_find(struct lower *l, struct ht_node *n);
enum ht_status mutable_emit_size(struct lower *l, struct ht_node *n);
/* NULL, or why they are not. */
const char *mutable_refuse_fill(const struct ht_node *n);
const char *mutable_refuse_find(const struct ht_node *n);
const char *mutable_refuse(const struct ht_node *n);
/* Whether looking up a key of the table adds strings to those of the run. */
bool mutable_gives_strings(const struct ht_node *table);

#endif
