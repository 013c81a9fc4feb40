/* cases: helpers for the two forms of a Case. */
#ifndef HT_PASSES_CASES_H
#define HT_PASSES_CASES_H

#include "ir/ir.h"

/* Where the branches from `from` to before `to` are halved; there are at least two. */
static inline int32_t ht_middle_case(int32_t from, int32_t to)
{
	return from + (to - from + 1) / 2;
}

/* Makes a node in `g` with the origins of `from`, in front of it if both are in the same graph.
 * The caller adds results. */
struct ht_node *ht_case_node(struct ht_graph *g, struct ht_node *from, struct ht_str type,
	const char *name, const struct ht_value *in, int32_t ins);
/* index < than */
struct ht_value ht_case_less(
	struct ht_graph *g, struct ht_node *from, struct ht_value index, int32_t than);
/* `index`, or the number of the last branch if there is no branch `index`. */
struct ht_value ht_case_index(struct ht_node *from, struct ht_value index, int32_t branches);

/* Turns each _SwitchN into Switches, and each Merge of more than two operands into Merges of
 * two. */
void ht_split_switches(struct ht_graph *g, struct ht_arena *scratch);

#endif
