/* Slices that go where indices say, one after the other. */
#ifndef HT_LOWER_SCATTER_H
#define HT_LOWER_SCATTER_H

#include "lower/index.h"

/* Makes the open stage, the first of its kernel, a sequential loop over slices of shape `dim`, of which the first `outer`
 * dimensions count the slices: those are gone through in order, so that slices for one place may be put there one after
 * the other.  No dimension is 0. */
struct space kb_sequential_space(
	struct kernel_build *k, int32_t rank, const int64_t *dim, int32_t outer);

/* How operand `indices` of a node says where slices go. */
enum scatter_index {
	SCATTER_TUPLES,  /* its last axis has tuples of indices, of the first axes */
	SCATTER_ROWS,    /* each element is an index of the first axis */
	SCATTER_SEGMENTS /* likewise; slices of indices below 0 go nowhere */
};
/* Axes of the indices that count slices. */
int32_t scatter_outer(const struct ht_node *n, int indices, enum scatter_index kind);
/* The place in a tensor of shape `to` of the slices' element at `s`; indices are checked. */
struct space scatter_place(struct kernel_build *k, const struct ht_node *n, int indices,
	enum scatter_index kind, struct ht_shape to, const struct space *s);
/* Why slices of this shape do not belong to the indices and the tensor of shape `to`, in words, or NULL. */
const char *scatter_refuse(const struct ht_node *n, int indices, enum scatter_index kind,
	struct ht_shape to, struct ht_shape slices);

/* Memory for sums that become result 0 of `n`, filled with zeros: the result's, or of numbers that are wider than its 16
 * bits. */
struct view scatter_zeros(struct lower *l, struct ht_node *n);
/* Rounds them into the result, if they are elsewhere. */
void scatter_round(struct lower *l, struct ht_node *n, const struct view *sums);

#endif
