/* rewrite_uses: the uses that a rewriter keeps; only rewrite.c uses this.
 *
 * Each use is a record in a list of its result's uses, so moving or removing it takes constant
 * time. */
#ifndef HT_REWRITE_USES_H
#define HT_REWRITE_USES_H

#include "passes/rewrite.h"

/* The uses of `r->g` are collected on demand: most passes need none. */
void ht_rw_uses_init(struct ht_rw *r);
/* Adds `n`'s operands and control edges to the lists.  They must be removed from the lists
 * before they change or `n` is removed. */
void ht_rw_note_uses_by(struct ht_rw *r, struct ht_node *n);
void ht_rw_forget_uses_by(struct ht_rw *r, const struct ht_node *n);
/* Sets operand `i` of `n` to `to`. */
void ht_rw_move_use(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_value to);
/* Replaces `from` by `to` in operands and outputs, except operands of `except`. */
void ht_rw_move_uses(
	struct ht_rw *r, struct ht_value from, struct ht_value to, const struct ht_node *except);
void ht_rw_move_control_edges(struct ht_rw *r, struct ht_node *from, struct ht_node *to);
/* Whether an entry feeds `n`. */
bool ht_rw_is_input(const struct ht_rw *r, const struct ht_node *n);

#endif
