/* work: how much a kernel computes, and the least time in which a machine could do that. */
#ifndef HT_WORK_H
#define HT_WORK_H

#include "kernel/kernel.h"

/* The work of one execution.  Multiply-adds are counted in the tile program, so a method with
 * fewer products than the op's definition has fewer.  Work in other expressions is not counted;
 * of a library kernel only bytes are known. */
struct ht_kernel_work {
	int64_t multiply_adds;
	double cycles;  /* that the multiply-adds take at the machine's peak, on one core */
	uint64_t bytes; /* of all arguments, each once */
};
struct ht_kernel_work ht_kernel_work_of(const struct ht_kernel *k, const struct ht_target *t);

/* Adds multiply-adds of these operands that the kernel does in addition. */
void ht_kernel_work_add(struct ht_kernel_work *w, int64_t multiply_adds, enum ht_dtype operands,
	const struct ht_target *t);

/* The roofline in picoseconds, by the rates of the target on one core: the longer of multiply-adds at their peak and bytes at
 * the rate of the level of cache that holds them all (`l1`, `l2`, else `l3`). */
double ht_work_limit_ps(const struct ht_kernel_work *w, const struct ht_target *t);

#endif
