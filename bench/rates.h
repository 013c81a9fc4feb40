/* rates: multiply-adds of registers alone, the limit of products, to which the ratios in bench/ refer. */
#ifndef HT_RATES_H
#define HT_RATES_H

#include "base/base.h"

#include <stdbool.h>
#include <stddef.h>

enum ht_rate { HT_RATE_F32, HT_RATE_BF16, HT_RATE_F16, HT_RATE_MATRICES, HT_RATE_COUNT };

/* Whether this machine has the instructions; also requests the state of tiles. */
bool ht_rate_has(enum ht_rate rate);

/* The multiply-adds of one round. */
double ht_rate_round(enum ht_rate rate);

/* Fills memory with numbers from -1 to 1, always the same, of f32, bf16 or f16; other dtypes are left alone. */
void ht_rate_fill(void *p, enum ht_dtype t, size_t bytes);

/* Multiplies so many rounds.  Operands are random numbers, since products of zeros take less power and processors slow down other ones. */
void ht_rate_run(enum ht_rate rate, long rounds);

#endif
