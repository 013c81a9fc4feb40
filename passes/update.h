/* update: helpers for fusions of optimisers, which replace the nodes of one step by one op.
 *
 * The region of a fusion is the set of nodes that its op replaces: reads of variables, arithmetic,
 * writes.  It may be fused if the separate nodes could have run one after the other without a node
 * outside between them: no node that the region needs may need part of the region.  Nodes that needed
 * part of the region then need the op. */
#ifndef HT_UPDATE_H
#define HT_UPDATE_H

#include "passes/rewrite.h"

#define HT_UPDATE_NODES 32

struct ht_update {
	struct ht_rw *r;
	enum ht_fusion_id id;
	struct ht_node *write; /* the write to the variable, which becomes the op */
	struct ht_node *node[HT_UPDATE_NODES];
	int nodes;
};

/* An addition to a variable, or a subtraction. */
struct ht_step {
	struct ht_value var, by;
	struct ht_value old; /* node NULL: it is not read separately */
	bool adds;
};

/* An assignment to a variable. */
struct ht_slot {
	struct ht_value var;
	struct ht_value value; /* the new value, or the addend */
	bool adds;
};

/* Begins a region that ends with `write`; false unless `write` adds to a variable or subtracts. */
bool ht_update_begin(struct ht_update *u, struct ht_rw *r, enum ht_fusion_id id,
	struct ht_node *write, struct ht_step *step);
/* Adds `n` to the region; false if the region is full. */
bool ht_update_take(struct ht_update *u, struct ht_node *n);
/* Whether `v` is `op` of two operands, in *a and *b. */
bool ht_update_binary(struct ht_update *u, struct ht_value v, enum ht_op op, struct ht_value *a,
	struct ht_value *b);
bool ht_update_sum(struct ht_update *u, struct ht_value v, struct ht_value *a, struct ht_value *b);
/* Whether `v` is a scalar times another value, in either order. */
bool ht_update_scaled(
	struct ht_update *u, struct ht_value v, struct ht_value *scalar, struct ht_value *of);
/* Whether `v` is the value of `var`. */
bool ht_update_read(struct ht_update *u, struct ht_value v, struct ht_value var);
/* Whether `v` is the new value of a variable of the same step, or a read behind its assignment. */
bool ht_update_slot(struct ht_update *u, struct ht_value v, struct ht_slot *slot);

bool ht_is_scalar(struct ht_value v);
/* Whether both are the same value, or equal constants. */
bool ht_same_scalar(struct ht_value a, struct ht_value b);

/* Whether the region may become one op; otherwise a miss is noted. */
bool ht_update_may_fuse(struct ht_update *u);
/* Turns the write into `op` and removes the rest of the region. */
void ht_update_fuse(
	struct ht_update *u, enum ht_op op, const struct ht_value *in, int32_t ins, bool nesterov);
/* Whether `grad` is float32 with a known shape, equal to that of `like` (any shape if its node is NULL);
 * otherwise a miss is noted. */
bool ht_update_fits(const struct ht_update *u, struct ht_value grad, struct ht_value like);

#endif
