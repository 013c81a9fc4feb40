/* block: an inverted residual block in one kernel: a convolution, a depthwise convolution and a 1 x 1
 * convolution. */
#ifndef HT_LOWER_BLOCK_H
#define HT_LOWER_BLOCK_H

#include "lower/conv.h"

struct block {
	struct ht_node *expand, *depthwise, *project; /* roots; project: NULL: the block has none */
	struct conv v[3];                             /* of each */
};

/* For the estimate: bytes of the result of `n`, and of its filter; cycles to write bytes beyond the second
 * level and read them again, and to read weights that do not stay in the first level. */
double block_bytes(const struct lower *l, const struct ht_node *n);
double block_weights(const struct ht_node *n);
double block_trip(const struct lower *l, double bytes);
double block_reads(const struct lower *l, double weights);
/* Method `one` where it saves more cycles than it costs, else kernels. */
struct ht_method_choice block_choice(enum ht_method one, double saves, double costs);

/* Joins the kernel of `sink` with the kernels behind it, if they form a block and that is faster. */
void try_block(struct lower *l, struct ht_node *sink);
/* block_emit.c: of struct block. */
void emit_block(struct lower *l, const void *of);

#endif
