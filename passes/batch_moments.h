/* batch_moments: batch normalisation of training, by the moments of its batch, and its gradients, in elementary ops.  Pass training writes
 * those of known shapes, pass sizes those of open ones (computed_training.c); the formulas are here. */
#ifndef HT_PASSES_BATCH_MOMENTS_H
#define HT_PASSES_BATCH_MOMENTS_H

#include "passes/maker.h"

/* The images or volumes that op `m.at` normalises, or those of another op with channels. */
struct ht_channels {
	struct maker m; /* m.t: the type in which it computes, float64 or float32 */
	struct ht_shape shape;
	int32_t axis; /* of the channels */
	struct ht_value
		count; /* elements of a channel as the run has them, of type m.t; without a node, the shape tells it */
};

/* Reads operand `image` of `n`.  False: its rank or its channels are not known, or its rank is below 2. */
bool ht_channels_read(struct ht_channels *c, struct ht_rw *r, struct ht_node *n, int32_t image);
/* The sum over all axes but the channels. */
struct ht_value ht_channels_sum(struct ht_channels *c, const char *name, struct ht_value v);

/* What uses results of the op uses the new nodes then.  There must be elements. */
void ht_write_batch_norm(struct ht_channels *c);
void ht_write_batch_norm_gradient(struct ht_channels *c);

#endif
