/* product: the operands of a matrix product. */
#ifndef HT_LOWER_PRODUCT_H
#define HT_LOWER_PRODUCT_H

#include "lower/inside.h"

struct product {
	struct view a, b; /* [.., m, k] and [.., k, n] */
	int64_t rows, columns, depth;
};

/* Whether `n` transposes its left operand, or its right one. */
bool product_transposes(const struct ht_node *n, bool left);
/* The right operand, [.., k, n]. */
struct view product_right(struct lower *l, const struct ht_node *n);
void read_product(struct lower *l, const struct ht_node *n, struct product *p);
/* pieces.c: whether product `n`, of one matrix by constant weights, multiplies pieces of its numbers. */
bool product_in_pieces(const struct lower *l, const struct ht_node *n, const struct product *p);
/* Adds a kernel that divides the rows of the left operand, and tells why. */
struct view product_divide_rows(struct lower *l, struct ht_node *n, const struct view *a);
/* Pieces of a number. */
enum { PIECES = 3 };
/* Copies a transposed left operand if the product needs pairs of the depth to be adjacent. */
void straighten(struct lower *l, const struct ht_node *n, struct view *a);
/* Where matrix `batch` begins in an operand. The index counts the result's leading dimensions,
 * along which operands broadcast. */
int32_t batch_offset(struct ht_xb *b, int32_t batch, const struct space *out, int32_t rank,
	const int64_t *dim, const int64_t *stride);

#endif
