/* work: how much a kernel does, and how fast a machine could do that at best. */
#ifndef HT_WORK_H
#define HT_WORK_H

#include "kernel/kernel.h"

/* Of one execution.  Multiplications whose results are summed, with their additions: those of the tile program, so that a
 * method with fewer products than the op's definition has fewer here.  Work within other expressions is not counted, and a
 * library kernel has bytes alone. */
struct ht_kernel_work {
	int64_t multiply_adds;
	double cycles;  /* that the multiply-adds take at the machine's peak, on one core */
	uint64_t bytes; /* of all arguments, each once */
};
struct ht_kernel_work ht_kernel_work_of(const struct ht_kernel *k, const struct ht_target *t);

/* Multiply-adds of these operands that the kernel does beside those. */
void ht_kernel_work_add(struct ht_kernel_work *w, int64_t multiply_adds, enum ht_dtype operands,
	const struct ht_target *t);

/* The roofline in picoseconds, by the rates of the target on one core: the longer of multiply-adds at their peak and bytes at
 * the rate of the level of cache that holds them all (`l1`, `l2`, else `l3`). */
double ht_work_limit_ps(const struct ht_kernel_work *w, const struct ht_target *t);

#endif
