/* The hash that finds entries of the cache and equal data in memory. */
#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct ht_hash ht_hash_bytes(const void *p, size_t n)
{
	XXH128_hash_t h = XXH3_128bits(n ? p : "", n);

	return (struct ht_hash){ h.low64, h.high64 };
}

struct ht_hash ht_hash_pieces(const struct ht_str *piece, size_t n)
{
	XXH3_state_t s;
	XXH128_hash_t h;

	XXH3_128bits_reset(&s);
	for (size_t i = 0; i < n; i++)
		XXH3_128bits_update(&s, piece[i].n ? piece[i].p : "", piece[i].n);
	h = XXH3_128bits_digest(&s);
	return (struct ht_hash){ h.low64, h.high64 };
}

bool ht_hash_eq(struct ht_hash a, struct ht_hash b)
{
	return a.lo == b.lo && a.hi == b.hi;
}
