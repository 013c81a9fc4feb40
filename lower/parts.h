/* parts: whether ops compute each row of a batch independently (parts.c). */
#ifndef HT_LOWER_PARTS_H
#define HT_LOWER_PARTS_H

#include "lower/inside.h"

struct parts {
	struct lower *l;
	int64_t batch; /* the inputs' first dimension */
	bool *by_rows; /* by node id: the results have the batch's rows */
};

bool has_rows(const struct parts *p, const struct ht_node *n, int32_t arg);

/* Functions for lower_op.rows: */

/* Only operand `arg` has rows, and the result has as many. */
bool rows_of(const struct parts *p, const struct ht_node *n, int32_t arg);
bool rows_of_first(const struct parts *p, const struct ht_node *n);
bool rows_of_image(const struct parts *p, const struct ht_node *n);
/* Operands with rows have them in the dimension where the result has them; the other operands
 * are the same for each row. */
bool broadcast_rows(const struct parts *p, const struct ht_node *n);

#endif
