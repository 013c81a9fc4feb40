/* recurrent: parts of pass `recurrent`. */
#ifndef HT_PASSES_RECURRENT_H
#define HT_PASSES_RECURRENT_H

#include "passes/ranges.h"
#include "passes/rewrite.h"

/* recurrent_sums.c: products that loop `n` adds up step by step become one product behind the loop. */
void ht_recurrent_sums(
	struct ht_node *n, struct ht_pass_context *c, const struct ht_ranges *ranges);

#endif
