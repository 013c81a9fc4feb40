/* Helpers for the lowering of ops that compute or move elements one by one. */
#ifndef HT_LOWER_INDEX_H
#define HT_LOWER_INDEX_H

#include "lower/inside.h"

static inline struct ht_shape shape_of(const struct ht_node *n, int arg)
{
	return ht_type_of(n->in[arg])->shape;
}

static inline enum ht_dtype operand_type(const struct ht_node *n, int arg)
{
	return node_type(n, ht_type_of(n->in[arg])->dtype);
}

/* The axis counted from the front. */
static inline int32_t axis_of(int64_t axis, int32_t rank)
{
	return (int32_t)(axis < 0 ? axis + rank : axis);
}

/* Whether an operand is a constant tensor of integers. Functions `refuse` ask this, so other
 * functions may read such an operand with const_int(). */
bool is_const_ints(const struct ht_node *n, int arg);
int64_t const_int(const struct ht_node *n, int arg, size_t i);
/* Why operand `first` or one behind it is not constant, in words; NULL: all are. */
const char *refuse_unless_const(const struct ht_node *n, int first);
const char *refuse_after_first(const struct ht_node *n);

/* map_gelu.c: Gelu or Silu of x, the operand of `n`. */
int32_t lower_gelu(struct ht_xb *b, const struct ht_node *n, int32_t x);
int32_t lower_silu(struct ht_xb *b, const struct ht_node *n, int32_t x);

/* Operand `arg` at coordinates `x`, one a dimension. */
int32_t pull_at(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *like,
	const int32_t *x);

/* Index `i` if `ok` holds; otherwise the run stops.  Where nobody asks for the element at `s`, the index is 0. */
int32_t checked_where(struct kernel_build *k, const struct space *s, int32_t i, int32_t ok);
/* `r`, and the check of index `i`, if that is one: `r` need not read the index, of an axis of one element or of a tensor whose elements are
 * equal, and the run stops nevertheless. */
int32_t with_check(struct kernel_build *k, int32_t r, int32_t i);

/* 0 <= x < size */
int32_t index_inside(struct ht_xb *b, int32_t x, int64_t size);

#endif
