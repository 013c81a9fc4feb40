/* softmax_loss: losses by softmax with their gradients by the logits, in elementary ops.  Pass training writes those of known shapes, pass
 * sizes those of open ones (computed_training.c); the formula is here. */
#ifndef HT_PASSES_SOFTMAX_LOSS_H
#define HT_PASSES_SOFTMAX_LOSS_H

#include "passes/maker.h"

bool ht_is_softmax_loss(const struct ht_node *n);
/* The type in which the loss is computed: float64 or float32. */
enum ht_dtype ht_softmax_loss_type(const struct ht_node *n);

/* Writes the loss `m->at` as simpler nodes, in front of it, and makes the users of its results use theirs.  m->t is ht_softmax_loss_type().
 * Where labels are numbers of classes, `marked` makes the matrix, of type m->t, that is one in the column of each row's class, and else zero. */
void ht_write_softmax_loss(struct maker *m, struct ht_value (*marked)(struct maker *m));

#endif
