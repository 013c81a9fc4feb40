/* Philox 4x32 with 10 rounds, as TensorFlow's random ops use it. */
#ifndef HT_BASE_PHILOX_H
#define HT_BASE_PHILOX_H

#include <stdint.h>

/* TensorFlow's numbers of the algorithms Philox and "automatic selection". */
enum { HT_PHILOX_ALGORITHM = 1, HT_ANY_ALGORITHM = 3 };
enum { HT_PHILOX_WORDS = 6 };
struct ht_philox {
	uint32_t counter[4], key[2];
};
_Static_assert(sizeof(struct ht_philox) == 4 * HT_PHILOX_WORDS, "no padding");

/* The constants of the algorithm: a round multiplies two words of the counter by the factors and adds the steps to the key. */
enum { HT_PHILOX_ROUNDS = 10 };
static const uint32_t ht_philox_factor[2] = { 0xd2511f53u, 0xcd9e8d57u };
static const uint32_t ht_philox_step[2] = { 0x9e3779b9u, 0xbb67ae85u };

/* The state that TensorFlow's GuardedPhiloxRandom::Init(seed, seed2) makes. */
static inline struct ht_philox ht_philox_init(uint64_t seed, uint64_t seed2)
{
	return (struct ht_philox){ { 0, 0, (uint32_t)seed2, (uint32_t)(seed2 >> 32) },
		{ (uint32_t)seed, (uint32_t)(seed >> 32) } };
}

/* Skips `blocks` results of four numbers. */
static inline void ht_philox_skip(struct ht_philox *p, uint64_t blocks)
{
	uint64_t lo = (uint64_t)p->counter[1] << 32 | p->counter[0];
	uint64_t hi = (uint64_t)p->counter[3] << 32 | p->counter[2];

	hi += lo + blocks < lo;
	lo += blocks;
	p->counter[0] = (uint32_t)lo;
	p->counter[1] = (uint32_t)(lo >> 32);
	p->counter[2] = (uint32_t)hi;
	p->counter[3] = (uint32_t)(hi >> 32);
}

static inline void ht_philox_next(struct ht_philox *p, uint32_t out[4])
{
	uint32_t c[4] = { p->counter[0], p->counter[1], p->counter[2], p->counter[3] };
	uint32_t k0 = p->key[0], k1 = p->key[1];

	for (int i = 0; i < HT_PHILOX_ROUNDS; i++) {
		uint64_t p0 = (uint64_t)ht_philox_factor[0] * c[0],
			 p1 = (uint64_t)ht_philox_factor[1] * c[2];
		uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0,
			 n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;

		c[0] = n0;
		c[1] = (uint32_t)p1;
		c[2] = n2;
		c[3] = (uint32_t)p0;
		k0 += ht_philox_step[0];
		k1 += ht_philox_step[1];
	}
	for (int i = 0; i < 4; i++)
		out[i] = c[i];
	ht_philox_skip(p, 1);
}

/* The stream that begins at the counter (a, b) encrypted with `key`.  Different (a, b) give
 * different streams, since Philox with one key maps no two counters to the same result. */
static inline struct ht_philox ht_philox_mixed(uint64_t a, uint64_t b, uint64_t key)
{
	struct ht_philox p = { { (uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b,
				       (uint32_t)(b >> 32) },
		{ (uint32_t)key, (uint32_t)(key >> 32) } };
	uint32_t mix[4];

	ht_philox_next(&p, mix);
	return (struct ht_philox){ { 0, 0, mix[2], mix[3] }, { mix[0], mix[1] } };
}

/* The stream of TensorFlow's stateless ops with these seeds; the key is TensorFlow's. */
static inline struct ht_philox ht_philox_stateless(uint64_t seed, uint64_t seed2)
{
	return ht_philox_mixed(seed, seed2, UINT64_C(0x02461e293ec8f720));
}

/* The stream of a random op without seeds, in a context with `seed`; `name` is a hash of the op's
 * name.  The key is arbitrary, but differs from that of stateless ops. */
static inline struct ht_philox ht_philox_named(uint64_t seed, uint64_t name)
{
	return ht_philox_mixed(seed, name, UINT64_C(0x9d5c4be1f2067a83));
}

#endif
