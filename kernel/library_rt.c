/* In libhalftone-rt, in place of library_mutable.c: it has no mutable tables. */
#include "kernel/library.h"

const struct ht_library_more ht_library_more = { .object = NULL };
