/* SHA-256, with the CPU's instructions for it where it has them, which are six times as fast. */
#include "base/base.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sha2.h>
#include <string.h>

enum { BLOCK = 64 };

static const uint32_t round_constant[64] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
	0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152,
	0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
	0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624,
	0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
	0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

/* The instructions hold the state as ABEF and CDGH, and four words of a message at a time. */
__attribute__((target("sha,sse4.1,ssse3"))) static void blocks_sha(
	uint32_t state[8], const uint8_t *p, size_t blocks)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i lo = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	__m128i hi = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(lo, hi, 8), cdgh = _mm_blend_epi16(hi, lo, 0xf0);

	for (; blocks; blocks--, p += BLOCK) {
		__m128i was_abef = abef, was_cdgh = cdgh, w[4];

		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(
				_mm_loadu_si128((const __m128i *)(p + 16 * i)), swap);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i k = _mm_loadu_si128((const __m128i *)(round_constant + 4 * i));
			__m128i sum = _mm_add_epi32(w[i % 4], k);

			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
			if (i < 12)
				w[i % 4] = _mm_sha256msg2_epu32(
					_mm_add_epi32(
						_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]),
						_mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4)),
					w[(i + 3) % 4]);
		}
		abef = _mm_add_epi32(abef, was_abef);
		cdgh = _mm_add_epi32(cdgh, was_cdgh);
	}
	lo = _mm_shuffle_epi32(abef, 0x1b);
	hi = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(lo, hi, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(hi, lo, 8));
}

static void blocks_plain(uint32_t state[8], const uint8_t *p, size_t blocks)
{
	for (; blocks; blocks--, p += BLOCK)
		SHA256Transform(state, p);
}

static bool has_instructions(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_1 && c & bit_SSSE3 &&
	       __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

static void add_blocks(struct ht_sha256 *s, const uint8_t *p, size_t blocks)
{
	static int
		known; /* 1: no; 2: yes.  Threads that test at the same time get the same answer */
	int has = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (!has) {
		has = has_instructions() ? 2 : 1;
		__atomic_store_n(&known, has, __ATOMIC_RELAXED);
	}
	(has == 2 ? blocks_sha : blocks_plain)(s->state, p, blocks);
}

void ht_sha256_begin(struct ht_sha256 *s)
{
	*s = (struct ht_sha256){ { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
					 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
		0, { 0 } };
}

void ht_sha256_add(struct ht_sha256 *s, const void *from, size_t n)
{
	const uint8_t *p = from;
	size_t have = s->bytes % BLOCK, take = BLOCK - have < n ? BLOCK - have : n;

	s->bytes += n;
	if (have) {
		memcpy(s->rest + have, p, take);
		if (have + take < BLOCK)
			return;
		add_blocks(s, s->rest, 1);
		p += take;
		n -= take;
	}
	add_blocks(s, p, n / BLOCK);
	if (n % BLOCK)
		memcpy(s->rest, p + n / BLOCK * BLOCK, n % BLOCK);
}

void ht_sha256_end(struct ht_sha256 *s, uint8_t digest[32])
{
	static const uint8_t one[BLOCK] = { 0x80 };
	uint64_t bits = s->bytes * 8;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	ht_sha256_add(s, one, 1 + (2 * BLOCK - 9 - s->bytes % BLOCK) % BLOCK);
	ht_sha256_add(s, length, sizeof length);
	for (int i = 0; i < 32; i++)
		digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void ht_sha256(const void *p, size_t n, uint8_t digest[32])
{
	struct ht_sha256 s;

	ht_sha256_begin(&s);
	ht_sha256_add(&s, p, n);
	ht_sha256_end(&s, digest);
}
