/* float_status: the vendor's overflow flag. */
#ifndef HT_PASSES_FLOAT_STATUS_H
#define HT_PASSES_FLOAT_STATUS_H

#include "passes/outline.h"
#include "passes/rewrite.h"

/* A boolean scalar: all elements of the `n` tensors `v` are finite.  Makes a node `name` in front of `before`. */
struct ht_value ht_all_finite(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	const struct ht_value *v, int32_t n);
/* Replaces _FloatStatus `n` by _AllFinite and elementary ops.  Does nothing if the rank of an operand is unknown. */
void ht_write_float_status(struct ht_rw *r, struct ht_node *n);

#endif
