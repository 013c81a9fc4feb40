/* Library kernels: what does not fit a tile program, in C under the same calling convention. */
#ifndef HT_KERNEL_LIBRARY_H
#define HT_KERNEL_LIBRARY_H

#include "kernel/kernel.h"

/* Scratch bytes the library kernel of `k` needs. */
size_t ht_library_scratch(const struct ht_kernel *k);

#endif
