/* float16 and bfloat16 conversions against a reference in double arithmetic that rounds with the
 * machine's rint() instead of shifts. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

static uint32_t bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

static float of_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

/* The nearest number with `digits` significant bits and exponents from `least` on, ties to even. */
static double nearest(double v, int digits, int least)
{
	int exponent;

	if (v == 0 || !isfinite(v))
		return v;
	frexp(v, &exponent); /* v = 0.1… × 2^exponent */
	if (exponent - 1 < least)
		exponent = least + 1;
	return ldexp(rint(ldexp(v, digits - exponent)), exponent - digits);
}

static double value_of_f16(unsigned h)
{
	int exponent = (int)(h >> 10 & 31);
	double fraction = h & 1023, sign = h & 0x8000 ? -1 : 1;

	if (exponent == 31)
		return fraction != 0 ? (double)NAN : sign * HUGE_VAL;
	return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double value_of_bf16(unsigned h)
{
	int exponent = (int)(h >> 7 & 255);
	double fraction = h & 127, sign = h & 0x8000 ? -1 : 1;

	if (exponent == 255)
		return fraction != 0 ? (double)NAN : sign * HUGE_VAL;
	return exponent ? sign * ldexp(128 + fraction, exponent - 134) : copysign(0, sign);
}

static bool same(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	return a == b && signbit(a) == signbit(b);
}

static double expected_f16(double v)
{
	double r = nearest(v, 11, -14);

	return fabs(r) > 65504 ? copysign(HUGE_VAL, v) : copysign(r, v);
}

static double expected_bf16(double v)
{
	double r;

	if (fabs(v) < 0x1p-126)
		return copysign(0, v);
	r = nearest(v, 8, -126);
	return fabs(r) > 0x1.fep127 ? copysign(HUGE_VAL, v) : r;
}

static void every_half_widens_exactly(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x10000; h++) {
		assert_true(same((double)ht_f16_to_f32((uint16_t)h), value_of_f16(h)));
		assert_true(same((double)ht_bf16_to_f32((uint16_t)h), value_of_bf16(h)));
	}
}

static void every_half_survives_the_round_trip(void **state)
{
	(void)state;
	for (unsigned h = 0; h < 0x10000; h++) {
		bool nan16 = isnan(value_of_f16(h)), nanb = isnan(value_of_bf16(h));
		unsigned flushed = h & 0x7f80 ? h : h & 0x8000;

		assert_int_equal(ht_f32_to_f16(ht_f16_to_f32((uint16_t)h)), nan16 ? h | 0x200 : h);
		assert_int_equal(ht_f64_to_f16((double)ht_f16_to_f32((uint16_t)h)) | 0x200,
			h | (nan16 ? 0x200 : h & 0x200) | 0x200);
		assert_int_equal(
			ht_f32_to_bf16(ht_bf16_to_f32((uint16_t)h)), nanb ? h | 0x40 : flushed);
		if (!nanb)
			assert_int_equal(
				ht_f64_to_bf16((double)ht_bf16_to_f32((uint16_t)h)), flushed);
	}
}

static void check_float(uint32_t u)
{
	float f = of_bits(u);
	double v = (double)f;
	uint16_t h = ht_f32_to_f16(f), b = ht_f32_to_bf16(f);

	if (!same(value_of_f16(h), expected_f16(v)) || !same(value_of_bf16(b), expected_bf16(v)))
		fail_msg("float %08x gives %04x and %04x", u, h, b);
	if (!(b & 0x7f80) && b & 0x7f)
		fail_msg("float %08x gives a bfloat16 subnormal", u);
	if (!isnan(v) && (ht_f64_to_f16(v) != h || ht_f64_to_bf16(v) != b))
		fail_msg("float %08x as double differs", u);
}

/* All exponents and signs, with significands around every place where rounding changes; and all
 * lower halves for the most important upper halves. */
static void floats_narrow_to_the_nearest(void **state)
{
	static const uint32_t low[] = { 0, 1, 2, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff,
		0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xf001, 0xffff };

	(void)state;
	for (uint32_t high = 0; high < 0x10000; high++)
		for (size_t i = 0; i < HT_COUNT(low); i++)
			check_float(high << 16 | low[i]);
	/* 0x477f…: the end of float16's range; 0x387f…, 0x32ff…: of its normals and subnormals. */
	static const uint32_t edges[] = { 0x0000, 0x007f, 0x0080, 0x32ff, 0x3300, 0x33ff, 0x387f,
		0x3880, 0x3f80, 0x477f, 0x4780, 0x7f7f, 0x7f80, 0xff7f, 0x807f };
	for (size_t i = 0; i < HT_COUNT(edges); i++)
		for (uint32_t l = 0; l < 0x10000; l++)
			check_float(edges[i] << 16 | l);
	/* HALFTONE_EXHAUSTIVE=1: all numbers, in some minutes. */
	if (getenv("HALFTONE_EXHAUSTIVE"))
		for (uint64_t u = 0; u < (uint64_t)1 << 32; u++)
			check_float((uint32_t)u);
}

static void doubles_round_once(void **state)
{
	uint64_t seed = 1;

	(void)state;
	/* Just above a tie: by way of float32 it would become the tie and round down. */
	assert_int_equal(ht_f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
	assert_int_equal(ht_f32_to_f16((float)(1 + 0x1p-11 + 0x1p-40)), 0x3c00);
	assert_int_equal(ht_f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
	assert_int_equal(ht_f64_to_bf16(0x1p-126 * (1 - 0x1p-40)), 0);
	assert_int_equal(ht_f64_to_bf16(-0x1p-1060), 0x8000);
	assert_int_equal(ht_f64_to_f16(0x1p-25), 0);
	assert_int_equal(ht_f64_to_f16(0x1.0000000000001p-25), 1);
	assert_int_equal(ht_f64_to_f16(-0x1p-1060), 0x8000);
	assert_int_equal(ht_f64_to_f16(65519.999), 0x7bff);
	assert_int_equal(ht_f64_to_f16(65520), 0x7c00);
	for (int i = 0; i < 2000000; i++) {
		double v;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		/* float16's exponents and bfloat16's, in turn */
		uint64_t exponent =
			i & 1 ? 1023 - 30 + (seed >> 33) % 50 : 1023 - 130 + (seed >> 33) % 260;
		uint64_t u = (seed & 0x800fffffffffffff) | exponent << 52;
		if (i & 2) /* near a tie */
			u = (u & ~(uint64_t)0x1ffffffffff) | ((seed >> 20) % 3) << 40;
		memcpy(&v, &u, sizeof v);
		if (!same(value_of_f16(ht_f64_to_f16(v)), expected_f16(v)))
			fail_msg("double %a to float16", v);
		if (!same(value_of_bf16(ht_f64_to_bf16(v)), expected_bf16(v)))
			fail_msg("double %a to bfloat16", v);
	}
}

static void nans_stay_and_keep_their_sign(void **state)
{
	(void)state;
	/* A NaN with a payload only in the lower bits must not become infinity. */
	assert_int_equal(ht_f32_to_f16(of_bits(0x7f800001)), 0x7e00);
	assert_int_equal(ht_f32_to_f16(of_bits(0xff800001)), 0xfe00);
	assert_int_equal(ht_f32_to_bf16(of_bits(0x7f800001)), 0x7fc0);
	assert_int_equal(ht_f32_to_bf16(of_bits(0xffc12345)), 0xffc1);
	assert_int_equal(bits(ht_f16_to_f32(0x7e00)), 0x7fc00000);
	assert_int_equal(bits(ht_bf16_to_f32(0xffc0)), 0xffc00000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_half_widens_exactly),
		cmocka_unit_test(every_half_survives_the_round_trip),
		cmocka_unit_test(floats_narrow_to_the_nearest),
		cmocka_unit_test(doubles_round_once),
		cmocka_unit_test(nans_stay_and_keep_their_sign),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
