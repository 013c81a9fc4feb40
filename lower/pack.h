/* pack: packs the right operand B of a contraction, so that a register tile reads it from one address after the other.
 *
 * Of each matrix, B has the depth of all taps as its rows, Q taps of K numbers, and N columns.  Packed, it consists of panels of nr columns; the
 * last panel ends with columns of zeros.  A panel consists of lines: a line has kp rows of a panel, with the kp numbers of a column side by side.
 * So element (tap q, depth k, column n) of a matrix is at
 *
 *   (n / nr) * (Q * K' / kp) * nr * kp + ((q * K' + k) / kp) * nr * kp + (n % nr) * kp + k % kp
 *
 * where K' is K, rounded up to a multiple of kp, and rows of a tap from K on are zeros.  This is the layout of struct ht_contract (kernel/kernel.h), which
 * reads it.  Matrices, one for each of the batch or each group, are one behind the other, packed_count numbers each.
 *
 * Units: sizes, strides and places count numbers of the type in question, those of `v` of the operand's type, places and packed_count
 * numbers of packed_type; not bytes.  A kernel that packs pairs (kp = 2) stores the two numbers of a pair as one U32, and its places then count pairs;
 * a stage that packs into a local buffer stores single numbers.
 *
 * Which kp and nr: the schedule of the target (ht_schedule_packing()).  Which type: packed_type, which is the operands' or F32.
 *
 * The functions change the contraction and add buffers, kernels and stages to its plan; they cannot fail.  One thread lowers a program. */
#ifndef HT_LOWER_PACK_H
#define HT_LOWER_PACK_H

#include "lower/inside.h"

/* With fewer rows than these, widening the weights before the product takes longer than it
 * saves. */
enum { CONTRACT_LEAST_ROWS = 32 };

/* The type in which the machine multiplies the numbers of the operands. */
enum ht_dtype contract_multiplied(const struct contraction *c);
/* Sets how a right operand that is computed in the run is packed: nr, kp, packed_type and packed_count. */
void contract_size(struct contraction *c);
/* Element (tap, depth, column) of matrix i is at i * stride + tap * sq + depth * sk + column * sn. */
void contract_pack_const(struct contraction *c, const struct ht_tensor *t, int64_t sq, int64_t sk,
	int64_t sn, int64_t count, int64_t stride);
/* `v` is [.., depth, columns]; adds a kernel that packs it. */
void contract_pack_value(struct contraction *c, const struct view *v);
/* `v` is [.., depth.., columns]: its first `lead` dimensions number matrices, those up to the last are taps and depth together. */
void contract_pack_taps(struct contraction *c, const struct view *v, int32_t lead);
/* Adds a prologue stage to `k` that packs one matrix of `v` into a local buffer, c->b. Dimension
 * 0 of the kernel's grid counts the matrices. */
void contract_pack_local(struct contraction *c, struct kernel_build *k, const struct view *v);
/* x as type t, 16 bits; and these bits as a U32.  A number that is loaded keeps its bits: the products that read it treat subnormals as
 * zero. */
int32_t contract_low(struct ht_xb *b, enum ht_dtype t, int32_t x);
int32_t contract_bits(struct ht_xb *b, enum ht_dtype t, int32_t x);
/* Describes the packed operand to k's open stage: buffer `b` of the kernel, from `base` on. */
void contract_packed(const struct contraction *c, struct kernel_build *k, int32_t b, int32_t base);

#endif
