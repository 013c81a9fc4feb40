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

/* A convolution that is one product over pixels: by a filter of 1 x 1 at stride 1, or of few
 * channels, over a padded copy in which a row of the window is one run of memory. */
struct simple_conv {
	const struct conv *v;
	struct contraction c; /* its filter is packed; the stage is to be opened */
	struct view in;
};
bool conv_is_simple(const struct conv *v);
void simple_conv(struct lower *l, struct ht_node *n, const struct conv *v, struct simple_conv *s);
/* Where pixel (image, row, column) of the result begins in s->in, for the row `tap` of the filter. */
int32_t simple_conv_row(
	const struct simple_conv *s, struct ht_xb *b, const int32_t tap[], const int32_t pixel[3]);

/* winograd.c: whether the method is to be used for `n`, and the method. */
bool wants_winograd(struct lower *l, const struct ht_node *n, const struct conv *v);
void emit_winograd(struct lower *l, struct ht_node *n, const struct conv *v);

#endif
