/* rows: kernels that need each row of the last dimension several times. */
#ifndef HT_LOWER_ROWS_H
#define HT_LOWER_ROWS_H

#include "lower/inside.h"

struct rows {
	struct kernel_build *k;
	struct ht_node *n;
	struct ht_shape shape;
	int64_t matrices; /* counted by grid dimension 0, their rows by 1; 0: all rows are one
			   * dimension */
	int64_t count, columns, step; /* number of rows; elements of one; rows in a tile */
	bool skips;                   /* all readers of the result skip its neutral elements */
	int32_t row;                  /* in the current stage: row within the tile */
	struct space at;              /* in the current stage: the element */
	int32_t x; /* local buffer of the operand's rows; -1: they are read in place */
};

/* The type in which the rows of `n` are computed. */
enum ht_dtype rows_type(const struct ht_node *n);
/* Makes all stages of Softmax or LogSoftmax and leaves the last one open. Returns the result's
 * value at r->at. */
int32_t rows_softmax(struct rows *r);

#endif
