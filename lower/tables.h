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

/* The table that the node reads or writes: its first operand. */
static inline const struct ht_node *table_of(const struct ht_node *n)
{
	return n->in[0].node;
}

/* Whether operand `arg` has the type that attribute `attr` of the table states. */
static inline bool has_type(const struct ht_node *n, int arg, const char *attr)
{
	return ht_type_of(n->in[arg])->dtype == ht_type_attr(table_of(n), attr);
}

#define OTHER_TYPES "has keys or values of other types than its table"

#endif
