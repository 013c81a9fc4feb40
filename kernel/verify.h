/* The verifier's answer, for tests that want malformed kernels refused. */
#ifndef HT_KERNEL_VERIFY_H
#define HT_KERNEL_VERIFY_H

#include "kernel/kernel.h"

/* False when `k` breaks a rule of kernel.h; the rule is then appended to `why`.  Reads nothing out
 * of bounds whatever the numbers in `k` are, as long as its counts describe its arrays. */
bool ht_kernel_valid(const struct ht_kernel *k, struct ht_buf *why);

#endif
