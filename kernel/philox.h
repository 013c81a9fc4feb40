/* philox: many blocks of random numbers at once, with the bits of ht_philox_next(). */
#ifndef HT_KERNEL_PHILOX_H
#define HT_KERNEL_PHILOX_H

#include "base/philox.h"

/* Draws `blocks` blocks of four numbers. */
void ht_philox_draw(struct ht_philox *p, uint32_t *out, int64_t blocks);

#endif
