/* Kernels of nets (kernel/library_net.h). */
#define HT_FOR_NETS "ht_net_boxes"
#include "kernel/library_net.h"

#include "kernel/library_boxes.c" /* NOLINT(bugprone-suspicious-include): compiled a second time */
