/* float_status: the vendor's overflow flag. */
#ifndef HT_PASSES_FLOAT_STATUS_H
#define HT_PASSES_FLOAT_STATUS_H

#include "passes/outline.h"
#include "passes/rewrite.h"

/* Writes a _FloatStatus, whose operands have known ranks, in elementary ops. */
void ht_write_float_status(struct ht_rw *r, struct ht_node *n);

#endif
