/* Shared by the files of pass transposes. */
#ifndef HT_PASSES_TRANSPOSES_H
#define HT_PASSES_TRANSPOSES_H

#include "passes/rewrite.h"

/* ---- permutation.c ---- */

enum { HT_PERM_RANK = 8 };

struct ht_perm {
	int rank;
	int64_t to[HT_PERM_RANK]; /* result axis i is operand axis to[i] */
};

bool ht_perm_is_identity(const struct ht_perm *p);
bool ht_perm_eq(const struct ht_perm *a, const struct ht_perm *b);
struct ht_perm ht_perm_inverse(const struct ht_perm *p);
/* The permutation that applies p and then q. */
struct ht_perm ht_perm_compose(const struct ht_perm *p, const struct ht_perm *q);
/* The permutation of a Transpose of a tensor of known shape; false for other nodes. */
bool ht_perm_of(const struct ht_node *n, struct ht_perm *p);
/* The shape that p permutes to `s`. */
struct ht_shape ht_perm_before(struct ht_arena *a, struct ht_shape s, const struct ht_perm *p);
/* p permuted another shape to `from`, and a reshape turns `from` into `to`. *q becomes the
 * permutation with the same effect behind a reshape of that other shape.  False if p separates
 * axes that the reshape joins or splits. */
bool ht_perm_behind_reshape(
	const struct ht_perm *p, struct ht_shape from, struct ht_shape to, struct ht_perm *q);

/* ---- transposes_through.c ---- */

enum ht_through {
	HT_THROUGH_NONE,
	HT_THROUGH_ELEMENTWISE, /* all operands are broadcast to the result */
	HT_THROUGH_BIAS,        /* BiasAdd */
	HT_THROUGH_NORM,        /* FusedBatchNorm: the first operand */
	HT_THROUGH_CONCAT,
	HT_THROUGH_PACK,
	HT_THROUGH_PAD,
	HT_THROUGH_REDUCE,
	HT_THROUGH_SOFTMAX,
	HT_THROUGH_SLICE,
	HT_THROUGH_STRIDED,
	HT_THROUGH_SPLIT,
	HT_THROUGH_TILE,
	HT_THROUGH_RESHAPE
};

enum ht_through ht_through_kind(const struct ht_node *n);
/* The operands [first, end) that are data, not axes or sizes. */
void ht_through_operands(
	const struct ht_node *n, enum ht_through kind, int32_t *first, int32_t *end);
/* The permutation that n's operands share, if it may move down. */
bool ht_through_perm(
	const struct ht_rw *r, struct ht_node *n, enum ht_through kind, struct ht_perm *p);
/* The value whose transposition by `p` is `v`. */
struct ht_value ht_untransposed(
	struct ht_rw *r, struct ht_node *n, struct ht_value v, const struct ht_perm *p);

/* ---- transposes_sink.c ---- */

/* Moves the Transpose of n's operands behind its results; false: it cannot. */
bool ht_transpose_sink(struct ht_rw *r, struct ht_node *n);
/* Reorders operand `arg`, which has `each` integers for each axis (see ht_axis_ints()), for the
 * axes before p. */
void ht_permute_axis_ints(
	struct ht_rw *r, struct ht_node *n, int32_t arg, int each, const struct ht_perm *p);
/* Whether `v` is a constant of `want` integers. */
bool ht_axis_ints(struct ht_value v, int want);

#endif
