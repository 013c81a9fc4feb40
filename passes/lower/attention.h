/* attention: a product of queries and keys, the Softmax of its rows and their product with values, in one
 * kernel: a block of rows of one matrix after the other, whose scores stay in the first levels. */
#ifndef HT_LOWER_ATTENTION_H
#define HT_LOWER_ATTENTION_H

#include "passes/lower/lower.h"

struct attention {
	struct ht_node *scores, *softmax, *context; /* roots */
};

/* attention_emit.c */
void emit_attention(struct lower *l, const struct attention *a);

#endif
