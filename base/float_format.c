/* Number formats: their table, and the definition of rounding to them. */
#include "base/float_format.h"

#include <math.h>
#include <string.h>

#define IEEE(NAME, EXPONENT, MANTISSA)                                                             \
	{ .name = NAME,                                                                            \
		.exponent = EXPONENT,                                                              \
		.mantissa = MANTISSA,                                                              \
		.bias = (1 << (EXPONENT - 1)) - 1,                                                 \
		.subnormals = true }
#define OTHER(NAME, EXPONENT, MANTISSA, BIAS, NAN_IS)                                              \
	{ .name = NAME,                                                                            \
		.exponent = EXPONENT,                                                              \
		.mantissa = MANTISSA,                                                              \
		.bias = BIAS,                                                                      \
		.nan = HT_FORMAT_NAN_##NAN_IS,                                                     \
		.subnormals = true,                                                                \
		.saturates = HT_FORMAT_NAN_##NAN_IS == HT_FORMAT_NAN_NONE }
#define BLOCKS(NAME, EXPONENT, MANTISSA, NAN_IS)                                                   \
	{ .name = NAME,                                                                            \
		.exponent = EXPONENT,                                                              \
		.mantissa = MANTISSA,                                                              \
		.bias = (1 << (EXPONENT - 1)) - 1,                                                 \
		.nan = HT_FORMAT_NAN_##NAN_IS,                                                     \
		.subnormals = true,                                                                \
		.saturates = true,                                                                 \
		.block = 32 }

const struct ht_float_format ht_formats[] = {
	IEEE("bf16", 8, 7),
	IEEE("f16", 5, 10),
	IEEE("tf32", 8, 10),
	IEEE("hf32", 8, 10),
	IEEE("e5m2", 5, 2),
	IEEE("e4m3", 4, 3),
	IEEE("e3m4", 3, 4),
	OTHER("e4m3fn", 4, 3, 7, LAST),
	OTHER("e4m3fnuz", 4, 3, 8, ZERO),
	OTHER("e4m3b11fnuz", 4, 3, 11, ZERO),
	OTHER("e5m2fnuz", 5, 2, 16, ZERO),
	OTHER("e3m2fn", 3, 2, 3, NONE),
	OTHER("e2m3fn", 2, 3, 1, NONE),
	OTHER("e2m1fn", 2, 1, 1, NONE),
	{ .name = "e8m0fnu", .exponent = 8, .bias = 127, .nan = HT_FORMAT_NAN_LAST, .scale = true },
	BLOCKS("mxfp8_e5m2", 5, 2, IEEE),
	BLOCKS("mxfp8_e4m3", 4, 3, LAST),
	BLOCKS("mxfp6_e3m2", 3, 2, NONE),
	BLOCKS("mxfp6_e2m3", 2, 3, NONE),
	BLOCKS("mxfp4_e2m1", 2, 1, NONE),
	{ 0 },
};

bool ht_format_same(const struct ht_float_format *a, const struct ht_float_format *b)
{
	return a->exponent == b->exponent && a->mantissa == b->mantissa && a->bias == b->bias &&
	       a->nan == b->nan && a->subnormals == b->subnormals && a->saturates == b->saturates &&
	       a->scale == b->scale && a->stochastic == b->stochastic && a->seed == b->seed &&
	       a->block == b->block && a->has_axis == b->has_axis && a->axis == b->axis;
}

enum ht_dtype ht_format_dtype(const struct ht_float_format *f)
{
	static const enum ht_dtype of[] = { HT_BF16, HT_F16 };

	for (size_t i = 0; i < HT_COUNT(of); i++)
		if (ht_format_same(f, &ht_formats[i]))
			return of[i];
	return HT_INVALID;
}

enum ht_dtype ht_format_like(const struct ht_float_format *f)
{
	static const enum ht_dtype types[] = { HT_F16, HT_BF16, HT_F8E4M3FN, HT_F8E5M2 };

	for (size_t i = 0; i < HT_COUNT(types); i++)
		if (ht_dtype_info(types[i])->mantissa <= f->mantissa)
			return types[i];
	return HT_F4E2M1FN;
}

/* ---- the numbers of a format ---- */

int ht_format_least_exponent(const struct ht_float_format *f)
{
	return (f->scale ? 0 : 1) - f->bias;
}

/* Whether the largest exponent has no finite numbers: all its codes are infinity or NaN, or its
 * only code, without fraction bits, is NaN. */
static bool top_is_taken(const struct ht_float_format *f)
{
	return f->nan == HT_FORMAT_NAN_IEEE || (f->nan == HT_FORMAT_NAN_LAST && !f->mantissa);
}

int ht_format_greatest_exponent(const struct ht_float_format *f)
{
	return (1 << f->exponent) - (top_is_taken(f) ? 2 : 1) - f->bias;
}

double ht_format_largest(const struct ht_float_format *f)
{
	int codes = (2 << f->mantissa) - 1;

	if (f->nan == HT_FORMAT_NAN_LAST && !top_is_taken(f))
		codes--;
	return ldexp(codes, ht_format_greatest_exponent(f) - f->mantissa);
}

double ht_format_least_normal(const struct ht_float_format *f)
{
	return ldexp(1, ht_format_least_exponent(f));
}

float ht_format_beyond(const struct ht_float_format *f)
{
	if (f->saturates)
		return (float)ht_format_largest(f);
	return f->nan == HT_FORMAT_NAN_IEEE ? INFINITY : NAN;
}

/* The number after the largest one would be even if the largest one is odd; a tie then rounds up to
 * it. */
float ht_format_overflow(const struct ht_float_format *f)
{
	double largest = ht_format_largest(f);
	double step = ldexp(1, ht_format_greatest_exponent(f) - f->mantissa);
	bool even = f->nan == HT_FORMAT_NAN_LAST && !top_is_taken(f);
	float tie = (float)(largest + step / 2);

	if (f->stochastic)
		return nextafterf((float)largest, INFINITY);
	return even ? nextafterf(tie, INFINITY) : tie;
}

/* ---- rounding ---- */

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

/* The finalizer of MurmurHash3 over a mixture of seed, index and bits. */
uint32_t ht_format_draw(const struct ht_float_format *f, uint32_t index, uint32_t bits)
{
	uint32_t h = index * 0x9e3779b1U + f->seed;

	h ^= bits * 0x85ebca77U;
	h = (h ^ h >> 16) * 0x85ebca6bU;
	h = (h ^ h >> 13) * 0xc2b2ae35U;
	return h ^ h >> 16;
}

/* Draws 23 bits: an odd multiple of 2^-24 between 0 and 1. */
static double draw_between(const struct ht_float_format *f, uint32_t index, float x)
{
	return (2. * (ht_format_draw(f, index, bits_of(x)) >> 9) + 1) * 0x1p-24;
}

/* The magnitude as a multiple of the spacing of the format's numbers there, as if exponents had no
 * upper bound. */
static double rounded(const struct ht_float_format *f, float x, uint32_t index)
{
	double a = fabs((double)x), step, n;
	int e = ht_format_least_exponent(f);

	if (a >= ldexp(1, e))
		e = ilogb(a);
	step = ldexp(1, e - f->mantissa);
	n = floor(a / step);
	if (!f->stochastic)
		n = rint(a / step);
	else if (draw_between(f, index, x) < a / step - n)
		n++;
	return n * step;
}

/* NaN keeps its sign if the format has a NaN of that sign. */
static float nan_of(const struct ht_float_format *f, float x)
{
	uint32_t sign = bits_of(x) & 0x80000000;

	if (f->nan == HT_FORMAT_NAN_NONE)
		return float_of(sign ^ 0x80000000);
	if (f->scale)
		sign = 0;
	if (f->nan == HT_FORMAT_NAN_ZERO)
		sign = 0x80000000;
	return float_of(sign | 0x7fc00000);
}

/* The nearer of two powers of 2; if both are equally near, the larger one, as in ml_dtypes.  Below
 * 2^-126, where float32 has only subnormals, the result is 2^-127 for magnitudes up to that number,
 * and 2^-126 above. */
static double nearest_power(double x)
{
	if (x < 0x1p-126)
		return x > 0x1p-127 ? 0x1p-126 : 0x1p-127;
	return ldexp(1, ilogb(x) + (x >= ldexp(1.5, ilogb(x))));
}

static float round_scale(const struct ht_float_format *f, float x)
{
	double r = x > 0 ? nearest_power((double)x) : 0;

	return r == 0 || r > ht_format_largest(f) ? nan_of(f, x) : (float)r;
}

float ht_format_round(const struct ht_float_format *f, float x, uint32_t index)
{
	double r;

	if (isnan(x))
		return nan_of(f, x);
	if (f->scale)
		return round_scale(f, x);
	r = isinf(x) ? HUGE_VAL : rounded(f, x, index);
	if (!f->subnormals && r < ht_format_least_normal(f))
		r = 0;
	if (r > ht_format_largest(f))
		r = (double)ht_format_beyond(f);
	if (isnan(r))
		return nan_of(f, x);
	if (r == 0 && f->nan == HT_FORMAT_NAN_ZERO)
		return 0;
	return copysignf((float)r, x);
}

float ht_format_block_factor(const struct ht_float_format *f, float most)
{
	int e = (most >= 0x1p-126F ? ilogbf(most) : -126) - ht_format_greatest_exponent(f);

	return ldexpf(1, e < -126 ? -126 : e);
}

/* ---- tensors ---- */

struct block {
	float *x;                     /* the first element */
	int64_t first, stride, count; /* the index of that element in the tensor */
};

/* Elements of blocks are divided and multiplied by the block's factor with subnormals of float32
 * treated as zero. */
static float without_subnormal(float x)
{
	return fabsf(x) < 0x1p-126F ? copysignf(0, x) : x;
}

/* If a block contains NaN or infinity, all its elements become NaN. */
static void round_block(const struct ht_float_format *f, const struct block *b)
{
	float most = 0, factor;

	for (int64_t i = 0; i < b->count && isfinite(most); i++) {
		float a = fabsf(b->x[i * b->stride]);
		most = a <= most ? most : a;
	}
	factor = isfinite(most) ? ht_format_block_factor(f, most) : NAN;
	for (int64_t i = 0; i < b->count; i++) {
		float *x = &b->x[i * b->stride];
		uint32_t index = (uint32_t)(b->first + i * b->stride);
		float r = ht_format_round(f, without_subnormal(*x) / factor, index);
		*x = isnan(factor) ? NAN : without_subnormal(r * factor);
	}
}

void ht_format_round_all(
	const struct ht_float_format *f, float *x, int64_t rows, int64_t along, int64_t columns)
{
	if (!f->block) {
		for (int64_t i = 0; i < rows * along * columns; i++)
			x[i] = ht_format_round(f, x[i], (uint32_t)i);
		return;
	}
	for (int64_t row = 0; row < rows; row++)
		for (int64_t at = 0; at < along; at += f->block)
			for (int64_t column = 0; column < columns; column++) {
				int64_t first = (row * along + at) * columns + column;
				int64_t left = along - at;

				round_block(
					f, &(struct block){ .x = x + first,
						   .first = first,
						   .stride = columns,
						   .count = left < f->block ? left : f->block });
			}
}
