/* conv: shared by the methods of convolution. */
#ifndef HT_LOWER_CONV_H
#define HT_LOWER_CONV_H

#include "kernel/winograd.h"
#include "lower/inside.h"

/* A convolution of NHWC images by a filter [height, width, channels of a group, results]. */
struct conv {
	struct ht_shape in, filter, out;
	struct window w[2]; /* height, width */
	int64_t groups;
};

void read_conv(const struct ht_node *n, struct conv *c);
/* The space of the image positions that m runs over. conv_pixels() returns that of the result:
 * pixels by m, channels by group and n. */
struct space conv_pixels(struct contraction *c, struct ht_shape out);
struct space conv_result(struct contraction *c, struct ht_shape out, int64_t group_channels);

/* Whether a convolution by products has few channels, so that it reads a padded copy of the image, in which a row of a window is one run of
 * memory. */
bool conv_copies_image(const struct conv *c);

/* Ends a loop that writes a padded copy of the image where the windows of the run's results end.  `index` is its index along the height
 * (i is 0) or the width, where each pixel has `each` indices. */
void conv_cut_copy(struct kernel_build *k, const struct ht_node *n, const struct conv *c, int i,
	int32_t index, int64_t each);

/* Packs the filter, operand `arg` of `n`, as the columns' weights: a constant once, one that is computed in each run.  Element (tap, depth,
 * column) of group i is at tap * sq + depth * sk + column * sn + i * stride. */
void pack_filter(struct contraction *c, struct ht_node *n, int arg, int64_t sq, int64_t sk,
	int64_t sn, int64_t groups, int64_t stride);

/* The image, operand `arg` of c->n, of a contraction over taps whose sizes are set.  Where the filter is computed in each run, an image
 * of 16 bits that each tap would widen again is copied as F32, if the copy stays in the second level and there are too few columns to
 * hide conversions.  c->dtype becomes the type of the copy. */
struct view conv_image(struct contraction *c, int arg);

/* Whether `n` is a convolution by a constant filter that has results, a register tile and no
 * implementation mode. The second function: whether it also is 1 x 1 at stride 1. */
bool conv_is_plain(const struct ht_node *n, struct conv *v);
bool conv_is_project(const struct ht_node *n, struct conv *v);
/* A convolution that is one product over pixels: by a filter of 1 x 1 at stride 1, or of few
 * channels, over a padded copy in which a row of the window is one run of memory. */
struct simple_conv {
	const struct conv *v;
	struct contraction c; /* its filter is packed; the stage is not open yet */
	struct view in;
};
bool conv_is_simple(const struct conv *v);
/* Whether `n` is a convolution of few channels whose windows leave the image, so that it makes a padded copy, unless it has another
 * method. */
bool conv_pads_image(const struct ht_node *n);
void simple_conv(struct lower *l, struct ht_node *n, const struct conv *v, struct simple_conv *s);
/* Where pixel (image, row, column) of the result begins in s->in, for the row `tap` of the filter. */
int32_t simple_conv_row(const struct simple_conv *s, struct kernel_build *k, const int32_t tap[],
	const int32_t pixel[3]);

/* conv_transpose.c: the gradient of a convolution by its image, which is a transposed
 * convolution, as a loop over its taps. Operands: the image's sizes, the filter, the gradient of
 * the result. */
void emit_by_image(struct lower *l, struct ht_node *n, const struct window w[2], bool depthwise);

/* conv_phases.c: that for a stride above 1 as a product for each pair of phases of the stride.  Its multiplications as a share of those of all
 * taps; infinite: it has no such form.  And the method, whose kernel in front pays where the share is below CONV_PHASES_WORTH. */
#define CONV_PHASES_WORTH 0.75
double conv_phases_share(const struct ht_node *n, const struct window w[2]);
void emit_phases(struct lower *l, struct ht_node *n, const struct window w[2]);

/* filter_product.c: the gradient of convolution `v`, which has results and no groups, by its filter, `n`. */
void emit_filter_product(struct lower *l, struct ht_node *n, const struct conv *v);

/* conv_lines.c: the product of a convolution, or of its gradient by the image, over lines of the image that each tile copies; the contraction's
 * filter is packed.  False: it has no such form.  Operand `arg` of c->n, of shape `from`, is the image.  Along an axis the results have
 * `phases`, each of `count` results with its own packed filter; result q of phase p reads for tap t position
 * q * step + floor((p + shift) / phases) + t * each, if the filter's `size` has tap t of the phase (0: it always has). */
struct lines_axis {
	int64_t count, step, taps, each, phases, shift, size;
};
bool conv_by_lines(const struct contraction *c, int arg, struct ht_shape from,
	const struct lines_axis axis[2]);

/* conv_few.c: a convolution of few channels over lines of the image that each tile copies; false: it has no such form. */
bool conv_of_few_channels(struct lower *l, struct ht_node *n, const struct conv *v);

/* conv_one.c: whether to use the method for a single result channel, and the method. */
bool conv_has_one_result(const struct lower *l, const struct conv *v);
void emit_one_result(struct lower *l, struct ht_node *n, const struct conv *v);

/* winograd.c: whether `n`, the gradient of a convolution by its image, is a convolution itself: by the filter turned around, which is
 * computed in the run, at a stride of 1.  *v becomes that convolution; `filter` holds the sizes of its filter. */
bool conv_turned(const struct ht_node *n, int64_t filter[4], struct conv *v);
/* The form of Winograd's method for `n` (m is 0: none), and the method.  `n` is a convolution, or the gradient of one by its
 * image, of which `v` is the convolution by the filter turned around. */
/* winograd.c: whether Winograd's method is taken, of which `share` is the estimate as a share of the direct method's time, and `narrow` the
 * fewer of the channels and the results; *why becomes the choice and its reason. */
bool winograd_is_faster(const struct ht_target *t, enum ht_method method, int64_t narrow,
	double share, double error, struct ht_method_choice *why);
struct ht_winograd wanted_winograd(struct lower *l, const struct ht_node *n, const struct conv *v);
void emit_winograd(
	struct lower *l, struct ht_node *n, const struct conv *v, const struct ht_winograd *by);
/* winograd_filter.c: a step that transforms the filter of c->n for F(m x m) and packs it; c->b becomes the buffer.  c->columns, depth,
 * packed_type, packed_count, nr and kp are set. */
void winograd_pack_computed(struct contraction *c, int m);

#endif
