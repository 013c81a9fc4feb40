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

/* Sixteen numbers likewise. */
WITH("avx512f") inline __m512i wide_bf16_of(const float *src)
{
	__m512i u = _mm512_loadu_si512(src), top = _mm512_srli_epi32(u, 16);
	__m512i magnitude = _mm512_and_epi32(u, _mm512_set1_epi32(0x7fffffff));
	__m512i odd = _mm512_and_epi32(top, _mm512_set1_epi32(1));
	__m512i even = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
	__mmask16 tiny = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x00800000));
	__mmask16 nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
	__m512i r = _mm512_srli_epi32(even, 16);

	r = _mm512_mask_and_epi32(r, tiny, top, _mm512_set1_epi32(0x8000));
	return _mm512_mask_or_epi32(r, nan, top, _mm512_set1_epi32(0x40));
}

WITH("avx512f") int64_t wide_f32_to_bf16(const float *s, uint16_t *d, int64_t n)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16)
		_mm256_storeu_si256((__m256i *)(d + i), _mm512_cvtepi32_epi16(wide_bf16_of(s + i)));
	return i;
}

WITH("avx512f") int64_t wide_round_bf16(const float *s, float *d, int64_t n)
{
	int64_t i = 0;

	for (; i + 16 <= n; i += 16)
		_mm512_storeu_si512(d + i, _mm512_slli_epi32(wide_bf16_of(s + i), 16));
	return i;
}

WITH("avx2") int64_t round_bf16(const float *s, float *d, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8)
		_mm256_storeu_si256((__m256i *)(d + i), _mm256_slli_epi32(bf16_of(s + i), 16));
	return i;
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
	if (__builtin_cpu_supports("avx512f"))
		return wide_f32_to_bf16(src, dst, n);
	return __builtin_cpu_supports("avx2") ? f32_to_bf16(src, dst, n) : 0;
}

int64_t ht_native_round_bf16(const float *src, float *dst, int64_t n)
{
	if (__builtin_cpu_supports("avx512f"))
		return wide_round_bf16(src, dst, n);
	return __builtin_cpu_supports("avx2") ? round_bf16(src, dst, n) : 0;
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

WITH("avx512f") int64_t wide_bf16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
	const __m512i exponent = _mm512_set1_epi32(0x7f800000), sign = _mm512_set1_epi32(INT32_MIN);
	int64_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m512i u = _mm512_slli_epi32(
			_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(src + i))), 16);
		__mmask16 tiny = _mm512_testn_epi32_mask(u, exponent);

		_mm512_storeu_si512(dst + i, _mm512_mask_and_epi32(u, tiny, u, sign));
	}
	return i;
}

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
	if (__builtin_cpu_supports("avx512f"))
		return wide_bf16_to_f32(src, dst, n);
	return __builtin_cpu_supports("avx2") ? bf16_to_f32(src, dst, n) : 0;
}

int64_t ht_native_f16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
	return __builtin_cpu_supports("f16c") ? f16_to_f32(src, dst, n) : 0;
}

/* ---- sums ---- */

/* Tensors that are compared often lie in distant caches.  Fetching them this many elements ahead, for each line of 64 bytes, is faster
 * than waiting for the processor's own prefetching, which ends at each page. */
enum { AHEAD = 512, LINE = 16 };

static inline void fetch(const float *x, int64_t i)
{
	/* As an integer, because C does not define a pointer beyond the array. */
	uintptr_t ahead = (uintptr_t)x + (uintptr_t)(i + AHEAD) * sizeof *x;

	if (i % LINE == 0)
		__builtin_prefetch((const void *)ahead);
}

/* Differences of lanes first to first+7 of struct ht_native_sums. */
struct lanes {
	__m256d low, high; /* squares */
	__m256 most;
};

WITH("avx2") inline struct lanes load_lanes(const struct ht_native_sums *s, int first)
{
	return (struct lanes){ _mm256_loadu_pd(s->squares + first),
		_mm256_loadu_pd(s->squares + first + 4), _mm256_loadu_ps(s->most + first) };
}

WITH("avx2") inline void store_lanes(struct ht_native_sums *s, int first, struct lanes l)
{
	_mm256_storeu_pd(s->squares + first, l.low);
	_mm256_storeu_pd(s->squares + first + 4, l.high);
	_mm256_storeu_ps(s->most + first, l.most);
}

/* A square of a float32 is exact in double. */
WITH("avx2") inline __m256d add_squares(__m256d sum, __m128 d)
{
	__m256d x = _mm256_cvtps_pd(d);

	return _mm256_add_pd(sum, _mm256_mul_pd(x, x));
}

WITH("avx2") inline void add_lanes(struct lanes *l, __m256 d)
{
	l->low = add_squares(l->low, _mm256_castps256_ps128(d));
	l->high = add_squares(l->high, _mm256_extractf128_ps(d, 1));
	l->most = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), d), l->most);
}

WITH("avx2")
int64_t differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n)
{
	struct lanes low = load_lanes(s, 0), high = load_lanes(s, 8);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		fetch(a, i);
		fetch(b, i);
		add_lanes(&low, _mm256_sub_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
		add_lanes(&high,
			_mm256_sub_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8)));
	}
	store_lanes(s, 0, low);
	store_lanes(s, 8, high);
	return i;
}

WITH("avx2")
int64_t compare(struct ht_native_sums *s, struct ht_native_sums *of, const float *a, const float *b,
	int64_t n)
{
	struct lanes low = load_lanes(s, 0), high = load_lanes(s, 8);
	struct lanes of_low = load_lanes(of, 0), of_high = load_lanes(of, 8);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		__m256 x = _mm256_loadu_ps(b + i), y = _mm256_loadu_ps(b + i + 8);

		fetch(a, i);
		fetch(b, i);
		add_lanes(&low, _mm256_sub_ps(_mm256_loadu_ps(a + i), x));
		add_lanes(&high, _mm256_sub_ps(_mm256_loadu_ps(a + i + 8), y));
		add_lanes(&of_low, x);
		add_lanes(&of_high, y);
	}
	store_lanes(s, 0, low);
	store_lanes(s, 8, high);
	store_lanes(of, 0, of_low);
	store_lanes(of, 8, of_high);
	return i;
}

/* The same sums, lane by lane, with instructions of 64 bytes. */
struct wide_lanes {
	__m512d low, high;
	__m512 most;
};

WITH("avx512f") inline struct wide_lanes load_wide(const struct ht_native_sums *s)
{
	return (struct wide_lanes){ _mm512_loadu_pd(s->squares), _mm512_loadu_pd(s->squares + 8),
		_mm512_loadu_ps(s->most) };
}

WITH("avx512f") inline void store_wide(struct ht_native_sums *s, struct wide_lanes l)
{
	_mm512_storeu_pd(s->squares, l.low);
	_mm512_storeu_pd(s->squares + 8, l.high);
	_mm512_storeu_ps(s->most, l.most);
}

WITH("avx512f") inline __m512d add_wide_squares(__m512d sum, __m256 d)
{
	__m512d x = _mm512_cvtps_pd(d);

	return _mm512_fmadd_pd(x, x, sum);
}

WITH("avx512f") inline void add_wide(struct wide_lanes *l, __m512 d)
{
	__m512d high = _mm512_castps_pd(d);

	l->low = add_wide_squares(l->low, _mm512_castps512_ps256(d));
	l->high = add_wide_squares(l->high, _mm256_castpd_ps(_mm512_extractf64x4_pd(high, 1)));
	l->most = _mm512_max_ps(_mm512_abs_ps(d), l->most);
}

WITH("avx512f")
int64_t wide_differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n)
{
	struct wide_lanes l = load_wide(s);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		fetch(a, i);
		fetch(b, i);
		add_wide(&l, _mm512_sub_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
	}
	store_wide(s, l);
	return i;
}

WITH("avx512f")
int64_t wide_compare(struct ht_native_sums *s, struct ht_native_sums *of, const float *a,
	const float *b, int64_t n)
{
	struct wide_lanes l = load_wide(s), of_b = load_wide(of);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		__m512 x = _mm512_loadu_ps(b + i);

		fetch(a, i);
		fetch(b, i);
		add_wide(&l, _mm512_sub_ps(_mm512_loadu_ps(a + i), x));
		add_wide(&of_b, x);
	}
	store_wide(s, l);
	store_wide(of, of_b);
	return i;
}

int64_t ht_native_differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n)
{
	if (__builtin_cpu_supports("avx512f"))
		return wide_differences(s, a, b, n);
	return __builtin_cpu_supports("avx2") ? differences(s, a, b, n) : 0;
}

int64_t ht_native_compare(struct ht_native_sums *s, struct ht_native_sums *of, const float *a,
	const float *b, int64_t n)
{
	if (__builtin_cpu_supports("avx512f"))
		return wide_compare(s, of, a, b, n);
	return __builtin_cpu_supports("avx2") ? compare(s, of, a, b, n) : 0;
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
void small(struct ht_native_small *found, const float *a, const float *b, float least, int64_t n)
{
	const __m256i limit = magnitudes(
			      (float[8]){ least, least, least, least, least, least, least, least }),
		      none = _mm256_setzero_si256();
	__m256i of_zero = none, of_small = none;

	for (int64_t i = 0; i + 8 <= n; i += 8) {
		__m256i x = magnitudes(a + i), zero = _mm256_cmpeq_epi32(x, none);
		__m256i both = _mm256_cmpeq_epi32(magnitudes(b + i), none);

		of_zero = _mm256_sub_epi32(of_zero, _mm256_andnot_si256(both, zero));
		of_small = _mm256_sub_epi32(
			of_small, _mm256_andnot_si256(zero, _mm256_cmpgt_epi32(limit, x)));
	}
	found->zeros += sum_of(of_zero);
	found->smaller += sum_of(of_small);
}

WITH("avx512f") inline __m512i count_in(__m512i sum, __mmask16 where)
{
	return _mm512_mask_sub_epi32(sum, where, sum, _mm512_set1_epi32(-1));
}

/* Counts of elements so far, by lane. */
struct wide_counts {
	__m512i zeros, smaller;
};

/* Most vectors of most tensors have no such element. */
WITH("avx512f")
inline void count_small(struct wide_counts *c, __m512i a, __m512i b, __m512i limit)
{
	const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
	__m512i size = _mm512_and_epi32(a, magnitude);
	__mmask16 small = _mm512_cmplt_epi32_mask(size, limit), some;

	if (!small)
		return;
	some = _mm512_mask_test_epi32_mask(small, size, size);
	c->smaller = count_in(c->smaller, some);
	c->zeros = count_in(
		c->zeros, _mm512_mask_test_epi32_mask((__mmask16)(small & ~some), b, magnitude));
}

WITH("avx512f")
int64_t wide_errors(struct ht_native_sums *s, struct ht_native_small *found, const float *a,
	const float *b, float least, int64_t n)
{
	const __m512i limit = _mm512_castps_si512(_mm512_set1_ps(least));
	struct wide_counts c = { _mm512_setzero_si512(), _mm512_setzero_si512() };
	struct wide_lanes l = load_wide(s);
	int64_t i = 0;

	for (; i + HT_NATIVE_LANES <= n; i += HT_NATIVE_LANES) {
		__m512 x = _mm512_loadu_ps(a + i), y = _mm512_loadu_ps(b + i);

		fetch(a, i);
		fetch(b, i);
		add_wide(&l, _mm512_sub_ps(x, y));
		count_small(&c, _mm512_castps_si512(x), _mm512_castps_si512(y), limit);
	}
	store_wide(s, l);
	found->zeros += (uint32_t)_mm512_reduce_add_epi32(c.zeros);
	found->smaller += (uint32_t)_mm512_reduce_add_epi32(c.smaller);
	return i;
}

int64_t ht_native_errors(struct ht_native_sums *s, struct ht_native_small *found, const float *a,
	const float *b, float least, int64_t n)
{
	if (__builtin_cpu_supports("avx512f"))
		return wide_errors(s, found, a, b, least, n);
	if (!__builtin_cpu_supports("avx2"))
		return 0;
	n = differences(s, a, b, n);
	small(found, a, b, least, n);
	return n;
}
