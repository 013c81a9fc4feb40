/* philox: many blocks of random numbers at once, with the bits of ht_philox_next(). */
#ifndef HT_KERNEL_PHILOX_H
#define HT_KERNEL_PHILOX_H

#include "base/philox.h"

/* Draws `blocks` blocks of four numbers. */
void ht_philox_draw(struct ht_philox *p, uint32_t *out, int64_t blocks);
/* The low 23 bits of each number of the blocks as a fraction. */
void ht_philox_units(const uint32_t *r, int64_t blocks, float *out);

#endif
