/* ctc: the loss of connectionist temporal classification (ctc.c), for pass rare. */
#ifndef HT_PASSES_CTC_H
#define HT_PASSES_CTC_H

#include "passes/rewrite.h"

bool ht_is_ctc_loss(const struct ht_node *n);
/* Writes such a node in common ops, if it has TensorFlow's default attributes and the rank of its scores is known. */
void ht_write_ctc_loss(struct ht_rw *r, struct ht_node *n);

#endif
