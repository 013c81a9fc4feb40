/* What lowerings to library kernels share. */
#ifndef HT_LOWER_LIBRARY_H
#define HT_LOWER_LIBRARY_H

#include "lower/inside.h"

/* Library kernels read dense memory: a buffer that has the operand's elements in order. */
int32_t dense_operand(struct lower *l, const struct ht_node *n, int arg);
/* Likewise, one that no operand before it has: a kernel's arguments are told apart by buffer. */
int32_t distinct_operand(struct lower *l, const struct ht_node *n, int arg);
/* Likewise, one that no other operand has. */
int32_t dense_copy(struct lower *l, const struct ht_node *n, int arg);
/* The buffer of a result; one that nobody uses still needs memory. */
int32_t dense_result(struct lower *l, const struct ht_node *n, int out);
/* Begins a kernel that is the function `name`, with room for so many parameters in k->params. */
void library_kernel(
	struct kernel_build *k, struct lower *l, const char *name, int64_t tiles, int params);

/* How many indices of axis `axis` of operand 0 the run has (kb_extent()): the buffer of an I64. */
int32_t rows_operand(struct lower *l, const struct ht_node *n, int32_t axis);
/* The buffer of a float32 that is `x`. */
int32_t number_operand(struct lower *l, const struct ht_node *n, float x);

/* Makes the step of kernel `k`, whose arguments are all there but one more, an I64: the size that `n` computes. */
void finish_computing(struct kernel_build *k, struct lower *l, struct ht_node *n);

/* kernel_random.c: the stream that a random op draws from, by its seeds. */
int32_t random_stream(struct lower *l, const struct ht_node *n);
/* Moves it on by so many blocks of Philox: the next numbers, in this run or a later one, are others. */
void random_move(struct lower *l, const struct ht_node *n, int32_t stream, int64_t blocks);

#endif
