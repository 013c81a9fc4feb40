#include "stats/spread.h"

#include <math.h>
#include <string.h>

/* The biased exponent of 2^-80 with the first 6 bits of the fraction, all 0. */
#define FIRST ((uint64_t)(1023 - HT_SPREAD_POWER) << 6)

void ht_spread_init(struct ht_spread *s, struct ht_arena *a)
{
	*s = (struct ht_spread){ .count = HT_NEW_ARRAY(a, uint64_t, HT_SPREAD_BINS) };
}

static size_t bin_of(double x)
{
	uint64_t bits;

	if (!(x > 0))
		return 0;
	memcpy(&bits, &x, sizeof bits);
	bits >>= 46;
	if (bits < FIRST)
		return 1;
	bits = bits - FIRST + 1;
	return bits < HT_SPREAD_BINS ? (size_t)bits : HT_SPREAD_BINS - 1;
}

static double end_of(size_t bin)
{
	uint64_t bits = (bin + FIRST) << 46;
	double x;

	if (!bin)
		return 0;
	if (bin == HT_SPREAD_BINS - 1)
		return INFINITY;
	memcpy(&x, &bits, sizeof x);
	return x;
}

void ht_spread_add(struct ht_spread *s, double x)
{
	s->count[bin_of(x)]++;
	s->n++;
	if (x > s->most)
		s->most = x;
}

double ht_spread_quantile(const struct ht_spread *s, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)s->n), seen = 0;
	size_t bin = 0;

	if (!s->n)
		return 0;
	if (!rank)
		rank = 1;
	while (bin < HT_SPREAD_BINS - 1 && (seen += s->count[bin]) < rank)
		bin++;
	return fmin(end_of(bin), s->most);
}
