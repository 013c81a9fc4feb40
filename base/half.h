/* half: conversions of single numbers that are compiled into their callers.  half.c makes functions of them, and says what they do. */
#ifndef HT_HALF_H
#define HT_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ht_half_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float ht_half_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

/* x / 2^shift to the nearest integer, ties to even; shift is 1 to 63. */
static inline uint64_t ht_half_round_shift(uint64_t x, int shift)
{
	uint64_t half = (uint64_t)1 << (shift - 1);
	uint64_t odd = x >> shift & 1;

	return (x + (half - 1) + odd) >> shift;
}

static inline float ht_f16_widened(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t rest = h & 0x7fff;

	if (rest >= 0x7c00) /* infinity, NaN */
		return ht_half_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x0400)
		return ht_half_float(sign | ((rest << 13) + ((127 - 15) << 23)));
	/* A subnormal is rest × 2^-24, which float32 holds as a normal number: its exponent is 24 less than that of `rest`. */
	return ht_half_float(
		rest ? sign | (ht_half_bits((float)(int32_t)rest) - (24 << 23)) : sign);
}

/* Converts the bits of a double; float32 is widened to double first.  One rounding shifts the
 * significand with its implicit bit to float16's position, also for subnormal results; a carry out
 * of the significand correctly increments the exponent. */
static inline uint16_t ht_f16_of_double_bits(uint64_t u)
{
	uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
	uint64_t fraction = u & 0xfffffffffffff;
	int exponent = (int)(u >> 52 & 0x7ff) - 1023;

	if (exponent == 1024) /* NaN stays NaN: quiet, with the top bits of its payload */
		return (uint16_t)(sign | 0x7c00 | (fraction ? 0x200 | fraction >> 42 : 0));
	if (exponent > 15)
		return sign | 0x7c00;
	if (exponent >= -14) {
		uint64_t biased = (uint64_t)(exponent + 15) << 52 | fraction;

		return (uint16_t)(sign | ht_half_round_shift(biased, 42));
	}
	if (exponent < -25)
		return sign;
	return (uint16_t)(sign | ht_half_round_shift(fraction | (uint64_t)1 << 52, 28 - exponent));
}

static inline uint64_t ht_half_double_bits(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof u);
	return u;
}

static inline uint16_t ht_f16_narrowed(float f)
{
	uint32_t u = ht_half_bits(f);

	if ((u & 0x7fffffff) >
		0x7f800000) /* with integers alone, since floating-point instructions may trap */
		return (uint16_t)((u >> 16 & 0x8000) | 0x7e00 | (u >> 13 & 0x3ff));
	return ht_f16_of_double_bits(ht_half_double_bits((double)f));
}

static inline float ht_bf16_widened(uint16_t h)
{
	if (!(h & 0x7f80))
		h &= 0x8000;
	return ht_half_float((uint32_t)h << 16);
}

#endif
