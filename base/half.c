/* Conversions of single float16 and bfloat16 numbers, which round to nearest even.
 *
 * bfloat16 conversions treat subnormals as zero, in both directions, like processors' instructions
 * that multiply pairs of bfloat16; float16 conversions keep them. */
#include "base/base.h"
#include "base/half.h"

float ht_f16_to_f32(uint16_t h)
{
	return ht_f16_widened(h);
}

uint16_t ht_f32_to_f16(float f)
{
	return ht_f16_narrowed(f);
}

uint16_t ht_f64_to_f16(double d)
{
	return ht_f16_of_double_bits(ht_half_double_bits(d));
}

float ht_bf16_to_f32(uint16_t h)
{
	return ht_bf16_widened(h);
}

float ht_f32_to_hf32(float f)
{
	uint32_t u = ht_half_bits(f);

	if ((u & 0x7f800000) == 0x7f800000)
		return f;
	return ht_half_float((u + 0xfff + (u >> 13 & 1)) & ~(uint32_t)0x1fff);
}

uint16_t ht_f32_to_bf16(float f)
{
	uint32_t u = ht_half_bits(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	if (!(u & 0x7f800000))
		return (uint16_t)(u >> 16 & 0x8000);
	return (uint16_t)ht_half_round_shift(u, 16);
}

/* Magnitudes below the smallest normal number count as zero before rounding, as in conversions from
 * float32. */
uint16_t ht_f64_to_bf16(double d)
{
	uint64_t u = ht_half_double_bits(d);
	uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
	uint64_t fraction = u & 0xfffffffffffff;
	int exponent = (int)(u >> 52 & 0x7ff) - 1023;

	if (exponent == 1024)
		return (uint16_t)(sign | 0x7f80 | (fraction ? 0x40 | fraction >> 45 : 0));
	if (exponent < -126)
		return sign;
	if (exponent > 127)
		return sign | 0x7f80;
	return (uint16_t)(sign |
			  ht_half_round_shift((uint64_t)(exponent + 127) << 52 | fraction, 45));
}
