/* excite: squeeze and excitation from its mean on, with the 1 x 1 convolution behind it, in one kernel:
 * two 1 x 1 convolutions of one pixel make a gate by channel, elementwise nodes scale an image by it,
 * and the convolution takes that from a local buffer. */
#ifndef HT_LOWER_EXCITE_H
#define HT_LOWER_EXCITE_H

#include "lower/conv.h"

struct excite {
	struct ht_node *gate[2];   /* roots of the convolutions of one pixel */
	struct ht_node *map;       /* sink of the elementwise kernel */
	struct ht_node *project;   /* root of the convolution behind it */
	struct conv of_gate[2], v; /* of each; v: of the last */
	int64_t step;              /* pixels of a tile */
};

/* Joins the kernel of `sink` with those behind it, where they are one and that pays. */
void try_excite(struct lower *l, struct ht_node *sink);
/* excite_emit.c: of struct excite. */
void emit_excite(struct lower *l, const void *of);

#endif
