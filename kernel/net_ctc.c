/* Kernels of nets (kernel/library_net.h). */
#define HT_FOR_NETS "ht_net_ctc"
#include "kernel/library_net.h"

#include "kernel/library_ctc.c" /* NOLINT(bugprone-suspicious-include): compiled a second time */
