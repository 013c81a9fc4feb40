#include "kernel/native.h"

#include <immintrin.h>

#define WITH(instructions) __attribute__((target(instructions))) static

/* ---- fused multiply and add ---- */

static bool fuses(void)
{
	return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
}

WITH("avx2,fma") void muladd_f32(float *r, const float *a, const float *b, const float *c, int n)
{
	for (int i = 0; i < n; i++)
		r[i] = __builtin_fmaf(a[i], b[i], c[i]);
}

WITH("avx2,fma")
void muladd_f64(double *r, const double *a, const double *b, const double *c, int n)
{
	for (int i = 0; i < n; i++)
		r[i] = __builtin_fma(a[i], b[i], c[i]);
}

int ht_native_muladd_f32(float *r, const float *a, const float *b, const float *c, int n)
{
	if (!fuses())
		return 0;
	muladd_f32(r, a, b, c, n);
	return n;
}

int ht_native_muladd_f64(double *r, const double *a, const double *b, const double *c, int n)
{
	if (!fuses())
		return 0;
	muladd_f64(r, a, b, c, n);
	return n;
}

/* ---- rounding to integers, without calls of libm ---- */

WITH("avx2") void round_f32(enum ht_xop op, float *r, const float *a, int n)
{
	for (int i = 0; i < n; i++)
		r[i] = op == HT_X_FLOOR  ? __builtin_floorf(a[i])
		       : op == HT_X_CEIL ? __builtin_ceilf(a[i])
		       : op == HT_X_RINT ? __builtin_rintf(a[i])
					 : __builtin_truncf(a[i]);
}

WITH("avx2") void round_f64(enum ht_xop op, double *r, const double *a, int n)
{
	for (int i = 0; i < n; i++)
		r[i] = op == HT_X_FLOOR  ? __builtin_floor(a[i])
		       : op == HT_X_CEIL ? __builtin_ceil(a[i])
		       : op == HT_X_RINT ? __builtin_rint(a[i])
					 : __builtin_trunc(a[i]);
}

int ht_native_round_f32(enum ht_xop op, float *r, const float *a, int n)
{
	if (!__builtin_cpu_supports("avx2"))
		return 0;
	round_f32(op, r, a, n);
	return n;
}

int ht_native_round_f64(enum ht_xop op, double *r, const double *a, int n)
{
	if (!__builtin_cpu_supports("avx2"))
		return 0;
	round_f64(op, r, a, n);
	return n;
}

/* ---- conversion to 16 bits ---- */

/* Eight numbers; each result is in the low half of 32 bits. */
WITH("avx2") inline __m256i bf16_of(const float *src)
{
	__m256i u = _mm256_loadu_si256((const __m256i *)src), top = _mm256_srli_epi32(u, 16);
	__m256i magnitude = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
	__m256i sign = _mm256_and_si256(top, _mm256_set1_epi32(0x8000));
	__m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
	__m256i even = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	__m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
	__m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
	__m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
	__m256i r = _mm256_blendv_epi8(_mm256_srli_epi32(even, 16), sign, tiny);

	return _mm256_blendv_epi8(r, quiet, nan);
}

WITH("avx2") int64_t f32_to_bf16(const float *s, uint16_t *d, int64_t n)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m256i r = _mm256_packus_epi32(bf16_of(s + i), bf16_of(s + i + 8));

		_mm256_storeu_si256((__m256i *)(d + i), _mm256_permute4x64_epi64(r, 0xd8));
	}
	return i;
}

WITH("avx2") int64_t f32_to_pairs(const float *a, const float *b, uint32_t *dst, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		__m256i high = _mm256_slli_epi32(bf16_of(b + i), 16);

		_mm256_storeu_si256((__m256i *)(dst + i), _mm256_or_si256(bf16_of(a + i), high));
	}
	return i;
}

WITH("avx,f16c") int64_t f32_to_f16(const float *src, uint16_t *dst, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((__m128i *)(dst + i),
			_mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
	return i;
}

int64_t ht_native_f32_to_bf16(const float *src, uint16_t *dst, int64_t n)
{
	return __builtin_cpu_supports("avx2") ? f32_to_bf16(src, dst, n) : 0;
}

int64_t ht_native_f32_to_f16(const float *src, uint16_t *dst, int64_t n)
{
	return __builtin_cpu_supports("f16c") ? f32_to_f16(src, dst, n) : 0;
}

int64_t ht_native_f32_to_bf16_pairs(const float *a, const float *b, uint32_t *dst, int64_t n)
{
	return __builtin_cpu_supports("avx2") ? f32_to_pairs(a, b, dst, n) : 0;
}

/* ---- conversion from 16 bits ---- */

WITH("avx2") int64_t bf16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
	const __m256i exponent = _mm256_set1_epi32(0x7f800000), sign = _mm256_set1_epi32(INT32_MIN);
	int64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		__m256i u = _mm256_slli_epi32(
			_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(src + i))), 16);
		__m256i tiny =
			_mm256_cmpeq_epi32(_mm256_and_si256(u, exponent), _mm256_setzero_si256());

		_mm256_storeu_si256((__m256i *)(dst + i),
			_mm256_blendv_epi8(u, _mm256_and_si256(u, sign), tiny));
	}
	return i;
}

WITH("avx,f16c") int64_t f16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(
			dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
	return i;
}

int64_t ht_native_bf16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
	return __builtin_cpu_supports("avx2") ? bf16_to_f32(src, dst, n) : 0;
}

int64_t ht_native_f16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
	return __builtin_cpu_supports("f16c") ? f16_to_f32(src, dst, n) : 0;
}

/* ---- sums ---- */

WITH("avx2") inline __m256d distance(const float *a, const float *b)
{
	__m256d d =
		_mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(a)), _mm256_cvtps_pd(_mm_loadu_ps(b)));

	return _mm256_andnot_pd(_mm256_set1_pd(-0.0), d);
}

WITH("avx2")
int64_t differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n)
{
	__m256d low = _mm256_loadu_pd(s->squares), high = _mm256_loadu_pd(s->squares + 4);
	__m256d low_most = _mm256_loadu_pd(s->most), high_most = _mm256_loadu_pd(s->most + 4);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		__m256d x = distance(a + i, b + i), y = distance(a + i + 4, b + i + 4);

		low = _mm256_add_pd(low, _mm256_mul_pd(x, x));
		high = _mm256_add_pd(high, _mm256_mul_pd(y, y));
		low_most = _mm256_max_pd(x, low_most);
		high_most = _mm256_max_pd(y, high_most);
	}
	_mm256_storeu_pd(s->squares, low);
	_mm256_storeu_pd(s->squares + 4, high);
	_mm256_storeu_pd(s->most, low_most);
	_mm256_storeu_pd(s->most + 4, high_most);
	return i;
}

/* The same sums, lane by lane, with instructions of eight doubles. */
WITH("avx512f")
int64_t wide_differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n)
{
	__m512d sum = _mm512_loadu_pd(s->squares), most = _mm512_loadu_pd(s->most);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		__m512d x = _mm512_abs_pd(_mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(a + i)),
			_mm512_cvtps_pd(_mm256_loadu_ps(b + i))));

		sum = _mm512_add_pd(sum, _mm512_mul_pd(x, x));
		most = _mm512_max_pd(x, most);
	}
	_mm512_storeu_pd(s->squares, sum);
	_mm512_storeu_pd(s->most, most);
	return i;
}

int64_t ht_native_differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n)
{
	if (__builtin_cpu_supports("avx512f"))
		return wide_differences(s, a, b, n);
	return __builtin_cpu_supports("avx2") ? differences(s, a, b, n) : 0;
}

/* ---- counts ---- */

WITH("avx2") inline uint32_t sum_of(__m256i lanes)
{
	uint32_t lane[8], sum = 0;

	_mm256_storeu_si256((__m256i *)lane, lanes);
	for (int i = 0; i < 8; i++)
		sum += lane[i];
	return sum;
}

WITH("avx2") inline __m256i magnitudes(const float *x)
{
	return _mm256_and_si256(
		_mm256_loadu_si256((const __m256i *)x), _mm256_set1_epi32(INT32_MAX));
}

/* The bits of magnitudes, as integers, have the order of the magnitudes. */
WITH("avx2")
int64_t small(
	const float *a, const float *b, float least, int64_t n, uint32_t *zeros, uint32_t *smaller)
{
	const __m256i limit = magnitudes(
			      (float[8]){ least, least, least, least, least, least, least, least }),
		      none = _mm256_setzero_si256();
	__m256i of_zero = none, of_small = none;
	int64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		__m256i x = magnitudes(a + i), zero = _mm256_cmpeq_epi32(x, none);
		__m256i both = _mm256_cmpeq_epi32(magnitudes(b + i), none);

		of_zero = _mm256_sub_epi32(of_zero, _mm256_andnot_si256(both, zero));
		of_small = _mm256_sub_epi32(
			of_small, _mm256_andnot_si256(zero, _mm256_cmpgt_epi32(limit, x)));
	}
	*zeros += sum_of(of_zero);
	*smaller += sum_of(of_small);
	return i;
}

int64_t ht_native_small(
	const float *a, const float *b, float least, int64_t n, uint32_t *zeros, uint32_t *smaller)
{
	return __builtin_cpu_supports("avx2") ? small(a, b, least, n, zeros, smaller) : 0;
}
