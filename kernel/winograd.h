/* winograd: convolution with 3 x 3 filters at stride 1 by fewer multiplications.
 *
 * F(4 x 4, 3 x 3): a tile of 4 x 4 results comes from 6 x 6 elements of the image.  Both that tile
 * and the filter are transformed (each by the same 6-row matrix from both sides); then 36 products
 * of matrices, tiles by channels with channels by results, give the transformed results.  36
 * multiplications stand for 144.
 *
 * Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, with other points
 * than theirs: 0, +-5/8, +-3/2 and infinity instead of 0, +-1, +-2.  All coefficients on the images'
 * side are exact in float32, and the error (root mean square, relative to the results') is about
 * 7e-7 where it is 2.2e-6 with theirs and 3e-7 by direct sums. */
#ifndef HT_WINOGRAD_H
#define HT_WINOGRAD_H

#include "kernel/kernel.h"

enum {
	HT_WINOGRAD_RESULTS = 4, /* of a tile, in each direction */
	HT_WINOGRAD_IMAGE = 6,   /* elements of the image that they come from */
	HT_WINOGRAD_PRODUCTS = HT_WINOGRAD_IMAGE * HT_WINOGRAD_IMAGE
};

/* One direction each; x and r are expressions of F32. */
void ht_winograd_image(
	struct ht_xb *b, const int32_t x[HT_WINOGRAD_IMAGE], int32_t r[HT_WINOGRAD_IMAGE]);
void ht_winograd_result(
	struct ht_xb *b, const int32_t x[HT_WINOGRAD_IMAGE], int32_t r[HT_WINOGRAD_RESULTS]);

/* One row of filters: x[tap * columns + i], 9 taps row by row, to r[product * columns + i]. */
void ht_winograd_filter(const float *x, int64_t columns, float *r);

/* How a convolution of `tiles[0]` by `tiles[1]` tiles of 4 x 4 an image is divided. */
struct ht_winograd {
	int64_t rows;    /* rows of tiles in one block */
	int64_t columns; /* results' channels in one block: a multiple of the register tile's */
	double cycles;   /* estimate for all of it */
};
struct ht_winograd ht_schedule_winograd(const struct ht_target *t, int64_t images,
	const int64_t tiles[2], int64_t channels, int64_t results);

#endif
