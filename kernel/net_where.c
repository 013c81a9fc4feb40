/* Kernels of nets (kernel/library_net.h). */
#define HT_FOR_NETS "ht_net_where"
#include "kernel/library_net.h"

#include "kernel/library_where.c" /* NOLINT(bugprone-suspicious-include): compiled a second time */
