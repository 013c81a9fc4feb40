/* Kernels of nets (kernel/library_net.h). */
#define HT_FOR_NETS "ht_net_unique"
#include "kernel/library_net.h"

#include "kernel/library_unique.c" /* NOLINT(bugprone-suspicious-include): compiled a second time */
