/* attention: a product of queries and keys, the Softmax of its rows and their product with values, in one
 * kernel: a block of rows of one matrix after the other, whose scores stay in the first levels. */
#ifndef HT_LOWER_ATTENTION_H
#define HT_LOWER_ATTENTION_H

#include "lower/inside.h"

struct attention {
	struct ht_node *scores, *softmax, *context; /* roots */
};

/* Joins the kernel of `sink` with those behind it, where they are one and that pays. */
void try_attention(struct lower *l, struct ht_node *sink);
/* attention_emit.c: of struct attention. */
void emit_attention(struct lower *l, const void *of);

#endif
