/* float_status: the vendor's overflow flag. */
#ifndef HT_PASSES_FLOAT_STATUS_H
#define HT_PASSES_FLOAT_STATUS_H

#include "passes/outline.h"
#include "passes/rewrite.h"

/* Whether all elements of `v` are finite, and `also` holds (node NULL: nothing else has to).  Nodes are named after `of`. */
struct ht_value ht_all_finite(struct ht_rw *r, struct ht_node *before, struct ht_str of,
	struct ht_value v, struct ht_value also);
/* Writes a _FloatStatus, whose operands have known ranks, in elementary ops. */
void ht_write_float_status(struct ht_rw *r, struct ht_node *n);

#endif
