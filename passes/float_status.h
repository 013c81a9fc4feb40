/* float_status: the vendor's overflow flag. */
#ifndef HT_PASSES_FLOAT_STATUS_H
#define HT_PASSES_FLOAT_STATUS_H

#include "passes/outline.h"
#include "passes/rewrite.h"

/* A boolean scalar: all elements of `v` are finite, and `also` is true (also.node NULL: no second condition).  Makes nodes in front of
 * `before`, whose names begin with `of`.  The rank of `v` is known. */
struct ht_value ht_all_finite(struct ht_rw *r, struct ht_node *before, struct ht_str of,
	struct ht_value v, struct ht_value also);
/* Replaces _FloatStatus `n` by elementary ops.  Does nothing if the rank of an operand is unknown. */
void ht_write_float_status(struct ht_rw *r, struct ht_node *n);

#endif
