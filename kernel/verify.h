/* The verifier's result, for tests with malformed kernels. */
#ifndef HT_KERNEL_VERIFY_H
#define HT_KERNEL_VERIFY_H

#include "kernel/kernel.h"

/* False if `k` breaks a rule of kernel.h; the rule is then appended to `why`. Never reads out of
 * bounds, whatever numbers are in `k`, as long as its counts match its arrays. */
bool ht_kernel_valid(const struct ht_kernel *k, struct ht_buf *why);

#endif
