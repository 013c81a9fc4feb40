/* update: what the fusions of optimisers share: the nodes that write variables a step, taken for
 * one op that does all of it.
 *
 * The region of a fusion is what its op stands for: reads of variables, arithmetic, writes.  It is
 * fused when running it in one go is an order in which the separate nodes might have run: nothing
 * that it needs needs part of it.  What needed any of its nodes then needs the op. */
#ifndef HT_UPDATE_H
#define HT_UPDATE_H

#include "passes/rewrite.h"

#define HT_UPDATE_NODES 32

struct ht_update {
	struct ht_rw *r;
	enum ht_fusion_id id;
	struct ht_node *write; /* of the variable: it becomes the op */
	struct ht_node *node[HT_UPDATE_NODES];
	int nodes;
};

/* What is added to a variable or taken from it. */
struct ht_step {
	struct ht_value var, by;
	struct ht_value old; /* node NULL: it is not read */
	bool adds;
};

/* What a variable is set to. */
struct ht_slot {
	struct ht_value var;
	struct ht_value value; /* what it is set to, or what is added to it */
	bool adds;
};

/* A region that ends with `write`; false where that neither adds to a variable nor subtracts. */
bool ht_update_begin(struct ht_update *u, struct ht_rw *r, enum ht_fusion_id id,
	struct ht_node *write, struct ht_step *step);
/* `n` belongs to the region.  More than fit do not match. */
bool ht_update_take(struct ht_update *u, struct ht_node *n);
/* `v` is `op` of two operands, of which `a` is the one and `b` the other. */
bool ht_update_binary(struct ht_update *u, struct ht_value v, enum ht_op op, struct ht_value *a,
	struct ht_value *b);
bool ht_update_sum(struct ht_update *u, struct ht_value v, struct ht_value *a, struct ht_value *b);
/* `v` is a scalar times something, in either order. */
bool ht_update_scaled(
	struct ht_update *u, struct ht_value v, struct ht_value *scalar, struct ht_value *of);
/* `v` is the value of `var`. */
bool ht_update_read(struct ht_update *u, struct ht_value v, struct ht_value var);
/* `v` is what a variable is set to in the same step, or its value read behind that. */
bool ht_update_slot(struct ht_update *u, struct ht_value v, struct ht_slot *slot);

bool ht_is_scalar(struct ht_value v);
/* The same value, or equal constants. */
bool ht_same_scalar(struct ht_value a, struct ht_value b);

/* May the region become one op?  Otherwise it is a miss. */
bool ht_update_may_fuse(struct ht_update *u);
/* The write becomes `op`; the rest of the region goes. */
void ht_update_fuse(
	struct ht_update *u, enum ht_op op, const struct ht_value *in, int32_t ins, bool nesterov);
/* `grad` is float32, and has a known shape, that of `like` (node NULL: nothing); else a miss. */
bool ht_update_fits(const struct ht_update *u, struct ht_value grad, struct ht_value like);

#endif
