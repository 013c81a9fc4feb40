/* Eight or four blocks side by side: each word of a block is the low half of a lane of 64 bits, whose high half does not matter.  So a
 * multiplication of low halves gives both halves of the product, and a round takes six instructions. */
#include "kernel/philox.h"
#include "kernel/target.h"

#include <immintrin.h>

#define WITH(instructions) __attribute__((target(instructions))) static

/* The number, hidden from the compiler, which would otherwise store a whole vector of it in the code. */
static inline uint32_t hidden(uint32_t x)
{
	__asm__("" : "+r"(x));
	return x;
}

static uint64_t low_counter(const struct ht_philox *p)
{
	return (uint64_t)p->counter[1] << 32 | p->counter[0];
}

/* The next word of each block: the high half of a product, another word and the key. */
WITH("avx512f") inline __m512i mix8(__m512i product, __m512i word, uint32_t key)
{
	const __m512i high = _mm512_srli_epi64(product, 32);

	return _mm512_ternarylogic_epi32(high, word, _mm512_set1_epi32((int)key), 0x96);
}

/* The lanes hold the blocks in the order 0, 4, 1, 5, 2, 6, 3, 7, so that the last two instructions leave them in ascending order in memory. */
WITH("avx512f") void draw8(const struct ht_philox *p, uint32_t *out)
{
	const __m512i lane = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(0x0703060205010400));
	const __m512i by0 = _mm512_set1_epi64(hidden(ht_philox_factor[0])),
		      by2 = _mm512_set1_epi64(hidden(ht_philox_factor[1]));
	__m512i c0 = _mm512_add_epi64(_mm512_set1_epi64((long long)low_counter(p)), lane);
	__m512i c1 = _mm512_srli_epi64(c0, 32), c2 = _mm512_set1_epi64(p->counter[2]);
	__m512i c3 = _mm512_set1_epi64(p->counter[3]), first, second;
	uint32_t k0 = p->key[0], k1 = p->key[1];

	for (int i = 0; i < HT_PHILOX_ROUNDS;
		i++, k0 += ht_philox_step[0], k1 += ht_philox_step[1]) {
		const __m512i p0 = _mm512_mul_epu32(c0, by0), p2 = _mm512_mul_epu32(c2, by2);

		c0 = mix8(p2, c1, k0);
		c2 = mix8(p0, c3, k1);
		c1 = p2;
		c3 = p0;
	}
	first = _mm512_mask_mov_epi32(c0, 0xaaaa, _mm512_slli_epi64(c1, 32));
	second = _mm512_mask_mov_epi32(c2, 0xaaaa, _mm512_slli_epi64(c3, 32));
	_mm512_storeu_si512(out, _mm512_unpacklo_epi64(first, second));
	_mm512_storeu_si512(out + 16, _mm512_unpackhi_epi64(first, second));
}

WITH("avx2") inline __m256i mix4(__m256i product, __m256i word, uint32_t key)
{
	const __m256i high = _mm256_srli_epi64(product, 32);

	return _mm256_xor_si256(_mm256_xor_si256(high, word), _mm256_set1_epi32((int)key));
}

WITH("avx2") void draw4(const struct ht_philox *p, uint32_t *out)
{
	const __m256i lane = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(0x03010200));
	const __m256i by0 = _mm256_set1_epi64x(hidden(ht_philox_factor[0])),
		      by2 = _mm256_set1_epi64x(hidden(ht_philox_factor[1]));
	__m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x((long long)low_counter(p)), lane);
	__m256i c1 = _mm256_srli_epi64(c0, 32), c2 = _mm256_set1_epi64x(p->counter[2]);
	__m256i c3 = _mm256_set1_epi64x(p->counter[3]), first, second;
	uint32_t k0 = p->key[0], k1 = p->key[1];

	for (int i = 0; i < HT_PHILOX_ROUNDS;
		i++, k0 += ht_philox_step[0], k1 += ht_philox_step[1]) {
		const __m256i p0 = _mm256_mul_epu32(c0, by0), p2 = _mm256_mul_epu32(c2, by2);

		c0 = mix4(p2, c1, k0);
		c2 = mix4(p0, c3, k1);
		c1 = p2;
		c3 = p0;
	}
	first = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xaa);
	second = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xaa);
	_mm256_storeu_si256((__m256i *)out, _mm256_unpacklo_epi64(first, second));
	_mm256_storeu_si256((__m256i *)(out + 8), _mm256_unpackhi_epi64(first, second));
}

/* Draws as many blocks as a vector has lanes, or one. */
static int64_t draw_some(struct ht_philox *p, uint32_t *out, int64_t blocks, int lanes)
{
	if (lanes < 4 || blocks < lanes || low_counter(p) > UINT64_MAX - 8) {
		ht_philox_next(p, out);
		return 1;
	}
	(lanes == 8 ? draw8 : draw4)(p, out);
	ht_philox_skip(p, (uint64_t)lanes);
	return lanes;
}

void ht_philox_draw(struct ht_philox *p, uint32_t *out, int64_t blocks)
{
	const int lanes = ht_target_host()->vector_bytes / (int)sizeof(uint64_t);

	for (int64_t done = 0; done < blocks;)
		done += draw_some(p, out + 4 * done, blocks - done, lanes);
}

void ht_philox_units(const uint32_t *r, int64_t blocks, float *out)
{
	const __m128i low = _mm_set1_epi32(0x7fffff);
	const __m128 unit = _mm_set1_ps(0x1p-23f);

	for (int64_t i = 0; i < 4 * blocks; i += 4) {
		const __m128i bits = _mm_and_si128(_mm_loadu_si128((const __m128i *)(r + i)), low);

		_mm_storeu_ps(out + i, _mm_mul_ps(_mm_cvtepi32_ps(bits), unit));
	}
}
