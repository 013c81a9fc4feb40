/* scatter: slices are written, one after the other, to the places that indices name. */
#ifndef HT_LOWER_SCATTER_H
#define HT_LOWER_SCATTER_H

#include "lower/index.h"

/* Makes the open stage, the first of its kernel, a sequential loop over slices of shape `dim`.
 * The first `outer` dimensions count the slices. These are visited in order, so that several
 * slices may have the same place. No dimension is 0. */
struct space kb_sequential_space(
	struct kernel_build *k, int32_t rank, const int64_t *dim, int32_t outer);

/* How operand `indices` of a node names the places of slices. */
enum scatter_index {
	SCATTER_TUPLES,  /* its last axis has tuples, which index the first axes */
	SCATTER_ROWS,    /* each element is an index of the first axis */
	SCATTER_SEGMENTS /* likewise; slices with negative indices are left out */
};
/* How many axes of the indices count slices. */
int32_t scatter_outer(const struct ht_node *n, int indices, enum scatter_index kind);
/* The place, in a tensor of shape `to`, of the element of the slices at `s`. Indices are
 * checked. */
struct space scatter_place(struct kernel_build *k, const struct ht_node *n, int indices,
	enum scatter_index kind, struct ht_shape to, const struct space *s);
/* Why slices of this shape do not fit the indices and the tensor of shape `to`, in words; NULL:
 * they fit. */
const char *scatter_refuse(const struct ht_node *n, int indices, enum scatter_index kind,
	struct ht_shape to, struct ht_shape slices);

/* Memory for the sums that become result 0 of `n`, filled with zeros. It is the result's memory,
 * or F32 memory if the result has 16 bits. */
struct view scatter_zeros(struct lower *l, struct ht_node *n);
/* Rounds the sums into the result, if they are not there already. */
void scatter_round(struct lower *l, struct ht_node *n, const struct view *sums);

#endif
