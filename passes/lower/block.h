/* block: a convolution, the depthwise convolution behind it and the 1 x 1 convolution behind that, as
 * they stand in inverted residual blocks, in one kernel. */
#ifndef HT_LOWER_BLOCK_H
#define HT_LOWER_BLOCK_H

#include "passes/lower/conv.h"

struct block {
	struct ht_node *expand, *depthwise,
		*project; /* roots; project: NULL: it is not of the block */
	struct conv v[3]; /* of each */
};

/* block_emit.c */
void emit_block(struct lower *l, const struct block *b);

#endif
