/* Kernels of nets (kernel/library_net.h). */
#define HT_FOR_NETS "ht_net_distance"
#include "kernel/library_net.h"

#include "kernel/library_distance.c" /* NOLINT(bugprone-suspicious-include): compiled a second time */
