/* parts: whether ops keep the rows of a batch apart (parts.c). */
#ifndef HT_LOWER_PARTS_H
#define HT_LOWER_PARTS_H

#include "lower/inside.h"

struct parts {
	struct lower *l;
	int64_t batch; /* the inputs' first dimension */
	bool *by_rows; /* by node id: the results have rows of the batch */
};

bool has_rows(const struct parts *p, const struct ht_node *n, int32_t arg);

/* Values of lower_op.rows: */

/* Only operand `arg` has rows, and the result as many. */
bool rows_of(const struct parts *p, const struct ht_node *n, int32_t arg);
bool rows_of_first(const struct parts *p, const struct ht_node *n);
bool rows_of_image(const struct parts *p, const struct ht_node *n);
/* Operands with rows have them in the result's dimension; the others are the same for each row. */
bool broadcast_rows(const struct parts *p, const struct ht_node *n);

#endif
