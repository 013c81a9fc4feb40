/* block: a convolution, the depthwise convolution behind it and the 1 x 1 convolution behind that, as
 * they stand in inverted residual blocks, in one kernel. */
#ifndef HT_LOWER_BLOCK_H
#define HT_LOWER_BLOCK_H

#include "lower/conv.h"

struct block {
	struct ht_node *expand, *depthwise,
		*project; /* roots; project: NULL: it is not of the block */
	struct conv v[3]; /* of each */
};

/* When it pays: bytes of the result of `n`, and of its filter; cycles to write and read again so many
 * bytes from beyond the second level, and to read weights that do not stay in the first. */
double block_bytes(const struct ht_node *n);
double block_weights(const struct ht_node *n);
double block_trip(const struct lower *l, double bytes);
double block_reads(const struct lower *l, double weights);
/* Method `one` where it saves more cycles than it costs, else kernels. */
struct ht_method_choice block_choice(enum ht_method one, double saves, double costs);

/* Joins the kernel of `sink` with those behind it, where they are one and that pays. */
void try_block(struct lower *l, struct ht_node *sink);
/* block_emit.c: of struct block. */
void emit_block(struct lower *l, const void *of);

#endif
