/* conv: what the methods of convolution share. */
#ifndef HT_LOWER_CONV_H
#define HT_LOWER_CONV_H

#include "passes/lower/lower.h"

/* Of NHWC images by a filter [height, width, channels of a group, results]. */
struct conv {
	struct ht_shape in, filter, out;
	struct window w[2]; /* height, width */
	int64_t groups;
};

void read_conv(const struct ht_node *n, struct conv *c);

/* winograd.c: whether the method is to be used for `n`, and the method. */
bool wants_winograd(struct lower *l, const struct ht_node *n, const struct conv *v);
void emit_winograd(struct lower *l, struct ht_node *n, const struct conv *v);

#endif
