/* Helpers for lowering to library kernels. */
#ifndef HT_LOWER_LIBRARY_H
#define HT_LOWER_LIBRARY_H

#include "lower/inside.h"

/* A buffer with the operand's elements, dense and in order, as library kernels read them. */
int32_t dense_operand(struct lower *l, const struct ht_node *n, int arg);
/* Likewise, but a different buffer from those of the operands before it: a kernel's arguments
 * are identified by their buffers. */
int32_t distinct_operand(struct lower *l, const struct ht_node *n, int arg);
/* Likewise, but a copy, which no other operand shares. */
int32_t dense_copy(struct lower *l, const struct ht_node *n, int arg);
/* The buffer of a result. It has memory even if nobody reads the result. */
int32_t dense_result(struct lower *l, const struct ht_node *n, int out);
/* Begins a kernel that is the function `name`, with room for so many parameters in k->params. */
void library_kernel(
	struct kernel_build *k, struct lower *l, const char *name, int64_t tiles, int params);

/* The buffer of an I64: how many indices axis `axis` of operand 0 has in the run (kb_extent()). */
int32_t rows_operand(struct lower *l, const struct ht_node *n, int32_t axis);
/* The buffer of a float32 that is `x`. */
int32_t number_operand(struct lower *l, const struct ht_node *n, float x);

/* Makes the step of kernel `k`. All its arguments are there except the last, an I64, which this
 * function adds: the size that `n` computes. */
void finish_computing(struct kernel_build *k, struct lower *l, struct ht_node *n);

/* kernel_random.c: a name of the node that is unique in the program, as bodies of one function have nodes of the same name. */
struct ht_str lower_own_name(struct lower *l, const struct ht_node *n);
/* The stream of a random op, which its seeds select. */
int32_t random_stream(struct lower *l, const struct ht_node *n);
/* Advances the stream by so many blocks of Philox, so that later draws, in this run or the next,
 * get other numbers. */
void random_move(struct lower *l, const struct ht_node *n, int32_t stream, int64_t blocks);

#endif
