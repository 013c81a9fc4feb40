/* cases: helpers of the two forms of a choice by number. */
#ifndef HT_PASSES_CASES_H
#define HT_PASSES_CASES_H

#include "ir/ir.h"

/* Branches from `from` up to `to` are halved here; one branch has no halves. */
static inline int32_t ht_middle_case(int32_t from, int32_t to)
{
	return from + (to - from + 1) / 2;
}

/* A node in `g` on behalf of `from`, in front of it where both are in one graph.  The caller adds results. */
struct ht_node *ht_case_node(struct ht_graph *g, struct ht_node *from, struct ht_str type,
	const char *name, const struct ht_value *in, int32_t ins);
/* index < than */
struct ht_value ht_case_less(
	struct ht_graph *g, struct ht_node *from, struct ht_value index, int32_t than);
/* `index`, or the number of the last branch where there is no such branch. */
struct ht_value ht_case_index(struct ht_node *from, struct ht_value index, int32_t branches);

/* Makes Switches of each _SwitchN, and Merges of two of each larger Merge. */
void ht_split_switches(struct ht_graph *g, struct ht_arena *scratch);

#endif
