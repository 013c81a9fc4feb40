/* filter_product: what the two forms of the gradient of a convolution by its filter share. */
#ifndef HT_LOWER_FILTER_PRODUCT_H
#define HT_LOWER_FILTER_PRODUCT_H

#include "lower/conv.h"

/* The rows of a tile, at least, if the filter has as many: each number of the gradient that is packed is multiplied with all of them. */
enum { FILTER_LEAST_ROWS = 512 };

struct filter_product {
	struct lower *l;
	struct ht_node *n;
	const struct conv *v;
	struct contraction c; /* of a tile */
	struct kernel_build *k;
	struct ht_xb *b;
	int64_t lanes, blocks, channel_groups; /* channels of a block, blocks of a tile, tiles */
	int64_t column_groups;
	/* 2: both copies consist of words, each with the numbers of a pixel in two images, and the product multiplies pairs; if the number of images
	 * is odd, the last one shares words with zeros.  1: there are no words; pairs, if any, lie side by side (`together`). */
	int64_t word;
	int64_t images, lines; /* of a part; images count as words */
	int64_t each, bands;   /* parts: groups of images times bands of lines */
	/* The copy of the image.  Either all its pixels once, or those that one column of the filter reads, for each of these `shifts`
	 * apart.  Then the lines of the stride's `phases` are apart, too, and the lines of an image follow one another, so
	 * that the depth of the product is an image and not a line. */
	bool apart;
	/* Products ask for what the next tile copies and reads (filter_ahead.c). */
	bool asks;
	/* A buffer of the plan that has the shares of the gradient as tiles would pack them, one behind the other, and where the first of them
	 * begins; -1: each tile packs its own.  `in_place`: it is the gradient itself, in whose rows shares lie side by side. */
	int32_t packed;
	int64_t packed_begin;
	bool in_place;
	int64_t shifts, phases, height, width;
	int64_t together; /* images whose numbers of a pixel lie side by side (filter_matrix.c), of which a part has groups; 0: those of an image do */
	int32_t image, gradient; /* buffers of the kernel */
};

/* Channels of a block: those of a line of a cache, if that leaves none over. */
int64_t filter_lanes(int64_t channels);
/* Sets the columns of a tile, and how they are packed. */
void filter_size_columns(struct filter_product *p);
/* The least divisor of n that is at least `least`. */
int64_t filter_divisor(int64_t n, int64_t least);
/* How far the last row of the filter is behind the first, in lines of the image. */
int64_t filter_reach(const struct window *w);
/* Whether the machine multiplies pairs of BF16 for the gradient, by matrices or by dot products. */
bool filter_multiplies_pairs(const struct filter_product *p, bool matrices);
/* The number of the tile's part, an index of the stage, and where the part begins in the result. */
int32_t filter_part(struct filter_product *p);
int32_t filter_first_line(const struct filter_product *p, int32_t part);
int32_t filter_first_image(const struct filter_product *p, int32_t part);
/* Whether the numbers of an operand lie in memory, one behind the other. */
bool filter_lies_in_memory(const struct view *v);
/* An index of the stage that is the tile's coordinate in a dimension of the grid with `count` tiles. */
int32_t filter_grid_index(struct filter_product *p, int grid, int64_t count);
/* Stores the sum of a tile at x: part, then the place in the filter.  `parts`: where the sums of all parts are; NULL: there is one part. */
void filter_store(struct filter_product *p, const struct view *parts, const int32_t x[5]);

/* filter_ahead.c: lets the product of a tile ask for the shares of the image and of the gradient that the next tile copies or reads.  `part`, `channels`,
 * `columns`: the tile's coordinates in the grid. */
void filter_ask_ahead(struct filter_product *p, int32_t part, int32_t channels, int32_t columns);

/* filter_winograd.c: makes the gradient by Winograd's method; false: it does not pay, or has no such form. */
bool filter_by_winograd(struct filter_product *p);

/* filter_matrix.c: the form for matrices of pairs.  How many images lie together; 0: the gradient does not have that form. */
int64_t filter_images_together(const struct filter_product *p);
/* Sets the channels of a tile, and the sizes of the copy that are the same for all parts. */
void filter_matrix_channels(struct filter_product *p);
void filter_matrix_copy(struct filter_product *p);
/* How often the parts copy each line of the image. */
double filter_matrix_copies(const struct filter_product *p);
void filter_matrix_stages(struct filter_product *p, const struct view *parts);

#endif
