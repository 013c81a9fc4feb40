/* winograd: convolution with 3 x 3 filters at stride 1 with fewer multiplications.
 *
 * F(m x m, 3 x 3): a tile of m x m results is computed from (m + 2) x (m + 2) elements of the
 * image.  Both these elements and the filter are transformed (each by a matrix from both sides);
 * then (m + 2)^2 matrix products, tiles by channels times channels by results, give the
 * transformed results.  For m = 4, 36 multiplications replace 144; for m = 2, 16 replace 36.
 *
 * Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.  For m = 4 the
 * points differ from theirs: 0, +-5/8, +-3/2 and infinity instead of 0, +-1, +-2.  All
 * coefficients on the images' side are exact in float32.  The error (root mean square, relative
 * to the results') is about 7e-7; it is 2.2e-6 with their points and 3e-7 for direct sums.
 *
 * F(3 x 3, 2 x 2), of the gradient by the filter, sums products of the same tiles of the image and of
 * transformed tiles of 2 x 2 numbers of the gradient (lower/filter_winograd.c).
 *
 * The transforms of m = 2 (points 0, +-1 and infinity) only add and halve, so their results may
 * be rounded to BF16 and multiplied in pairs, with an error of 3.8e-3; rounding the results of
 * the convolution to BF16 has one of 1.7e-3.  They may also be rounded to F16 and multiplied in
 * short runs of it, with an error of 1.2e-3. */
#ifndef HT_WINOGRAD_H
#define HT_WINOGRAD_H

#include "kernel/expr.h"

enum { HT_WINOGRAD_MOST = 6 }; /* the largest m + 2 */

/* One direction of each transform of F(m x m). x and r are m + 2 expressions of F32; of results,
 * r has m. */
void ht_winograd_image(struct ht_xb *b, int m, const int32_t x[], int32_t r[]);
void ht_winograd_result(struct ht_xb *b, int m, const int32_t x[], int32_t r[]);

/* Transforms one row of filters: x[tap * columns + i], 9 taps row by row, to r[product * columns
 * + i]. */
void ht_winograd_filter(int m, const float *x, int64_t columns, float *r);
/* The same of one filter as expressions of F64: x[tap] to r[product]. */
void ht_winograd_filter_of_run(struct ht_xb *b, int m, const int32_t x[9], int32_t r[]);

/* A convolution of NHWC images. */
enum { HT_WINOGRAD_SIZES = 4 };
struct ht_winograd_shape {
	int64_t images, channels, results;
	int64_t together; /* the most images of a block */
	int sizes;        /* of out */
	int64_t out[HT_WINOGRAD_SIZES]
		   [2]; /* heights and widths for which it is priced; the division into blocks is
			    * that of the first, which is the largest */
	int64_t filter_loads; /* loads of a vector of filters that is transformed in each run; 0:
			       * the filter is constant */
};

/* How a convolution is divided into tiles and blocks. */
struct ht_winograd {
	int m;               /* 4, or 2 */
	enum ht_dtype dtype; /* of the factors: F32, or BF16 or F16 in pairs */
	int64_t tiles[2];    /* of an image */
	int64_t images;      /* images in a block; if more than 1, all of their rows */
	int64_t rows;        /* rows of tiles in a block */
	int64_t columns;     /* result channels in a block: a multiple of the register tile's */
	double cycles; /* estimate for the whole convolution: the geometric mean over the sizes */
};
struct ht_winograd ht_schedule_winograd(const struct ht_target *t,
	const struct ht_winograd_shape *shape, int m, enum ht_dtype dtype);
/* The measured error of F(m x m, 3 x 3) and of F(3 x 3, 2 x 2) (m = 2) with factors of this dtype, without the rounding of results: root mean
 * square, relative to the results (docs/contraction-numerics.md). */
double ht_winograd_error(int m, enum ht_dtype dtype);

#endif
