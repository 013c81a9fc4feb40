/* Conversions of single float16 and bfloat16 numbers, which round to nearest even.
 *
 * bfloat16 conversions treat subnormals as zero, in both directions, like processors' instructions
 * that multiply pairs of bfloat16; float16 conversions keep them. */
#include "base/base.h"

#include <string.h>

static uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static uint64_t bits_of_double(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof u);
	return u;
}

/* x / 2^shift to the nearest integer, ties to even; shift is 1 to 63. */
static uint64_t round_shift(uint64_t x, int shift)
{
	uint64_t half = (uint64_t)1 << (shift - 1);
	uint64_t odd = x >> shift & 1;

	return (x + (half - 1) + odd) >> shift;
}

float ht_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t rest = h & 0x7fff;

	if (rest >= 0x7c00) /* infinity, NaN */
		return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	if (rest >= 0x0400)
		return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
	/* A subnormal is rest × 2^-24, which float32 holds as a normal number. */
	return float_of(sign | bits_of((float)rest * 0x1p-24f));
}

/* Converts the bits of a double; float32 is widened to double first.  One rounding shifts the
 * significand with its implicit bit to float16's position, also for subnormal results; a carry out
 * of the significand correctly increments the exponent. */
static uint16_t f16_of_double_bits(uint64_t u)
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

		return (uint16_t)(sign | round_shift(biased, 42));
	}
	if (exponent < -25)
		return sign;
	return (uint16_t)(sign | round_shift(fraction | (uint64_t)1 << 52, 28 - exponent));
}

uint16_t ht_f32_to_f16(float f)
{
	uint32_t u = bits_of(f);

	if ((u & 0x7fffffff) >
		0x7f800000) /* with integers alone, since floating-point instructions may trap */
		return (uint16_t)((u >> 16 & 0x8000) | 0x7e00 | (u >> 13 & 0x3ff));
	return f16_of_double_bits(bits_of_double((double)f));
}

uint16_t ht_f64_to_f16(double d)
{
	return f16_of_double_bits(bits_of_double(d));
}

float ht_bf16_to_f32(uint16_t h)
{
	if (!(h & 0x7f80))
		h &= 0x8000;
	return float_of((uint32_t)h << 16);
}

float ht_f32_to_hf32(float f)
{
	uint32_t u = bits_of(f);

	if ((u & 0x7f800000) == 0x7f800000)
		return f;
	return float_of((u + 0xfff + (u >> 13 & 1)) & ~(uint32_t)0x1fff);
}

uint16_t ht_f32_to_bf16(float f)
{
	uint32_t u = bits_of(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	if (!(u & 0x7f800000))
		return (uint16_t)(u >> 16 & 0x8000);
	return (uint16_t)round_shift(u, 16);
}

/* Magnitudes below the smallest normal number count as zero before rounding, as in conversions from
 * float32. */
uint16_t ht_f64_to_bf16(double d)
{
	uint64_t u = bits_of_double(d);
	uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
	uint64_t fraction = u & 0xfffffffffffff;
	int exponent = (int)(u >> 52 & 0x7ff) - 1023;

	if (exponent == 1024)
		return (uint16_t)(sign | 0x7f80 | (fraction ? 0x40 | fraction >> 45 : 0));
	if (exponent < -126)
		return sign;
	if (exponent > 127)
		return sign | 0x7f80;
	return (uint16_t)(sign | round_shift((uint64_t)(exponent + 127) << 52 | fraction, 45));
}
