/* reach: how much of its arguments a kernel touches at the sizes of a run.  A kernel for open sizes has buffers of the largest sizes, and
 * its loops end at those of the run (struct ht_cut): what lies behind the last index of such a loop is not touched. */
#ifndef HT_KERNEL_REACH_H
#define HT_KERNEL_REACH_H

#include "base/size_math.h"
#include "kernel/kernel.h"

/* The sizes of a run, within these bounds: parameters of the kernel, by number. */
struct ht_reach_sizes {
	const int64_t *least, *most;
	int32_t n;
};

/* Elements: a product of sizes and a number more; the number alone where the product has no sizes. */
struct ht_kernel_reach {
	struct ht_size_expr of;
	int64_t add;
};

/* Of argument `arg` no element from *out on is read or written, whatever the sizes are.  False: no less than the whole buffer is known.
 * The kernel is one whose parameters are the sizes, or one without parameters. */
bool ht_kernel_reach(const struct ht_kernel *k, int32_t arg, const struct ht_reach_sizes *sizes,
	struct ht_kernel_reach *out);

#endif
