/* computed_sums: integers of a graph as sums of sizes (computed_sums.c), for pass sizes.  Types must be known. */
#ifndef HT_PASSES_COMPUTED_SUMS_H
#define HT_PASSES_COMPUTED_SUMS_H

#include "passes/computed.h"

#include "ir/infer.h"

enum { HT_SUM_TERMS = 4 };

/* A number and sizes, each a symbolic dimension times a factor.  A sum that is not known equals no other one. */
struct ht_sum {
	bool known;
	int64_t number;
	int32_t terms;
	int64_t dim[HT_SUM_TERMS], times[HT_SUM_TERMS];
};

struct ht_sum ht_sum_number(int64_t number);
/* a + b for the sign 1, a - b for -1. */
struct ht_sum ht_sum_plus(struct ht_sum a, struct ht_sum b, int64_t sign);
bool ht_sum_equal(struct ht_sum a, struct ht_sum b);
/* Whether the sum is known to be this number. */
bool ht_sum_is(struct ht_sum s, int64_t number);

/* Element `i` of an operand of integers, in the order of its memory, and the extent of a tensor along an axis, which also follow from what
 * the tensor is computed of. */
struct ht_sum ht_sum_element(const struct ht_node *n, int32_t arg, int64_t i);
struct ht_sum ht_sum_extent(struct ht_value v, int32_t axis);

/* The axis of tensors of `rank` that operand `arg` of a node states; -1: it is not known. */
int32_t ht_stated_axis(const struct ht_node *n, int32_t arg, int32_t rank);
/* Whether a node is a gather of which each index takes one slice along an axis that is known. */
bool ht_is_plain_gather(const struct ht_node *n, int32_t *axis);

#endif
