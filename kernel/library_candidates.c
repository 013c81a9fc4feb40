/* Library kernels that draw candidate classes, the same ones as TensorFlow
 * (core/kernels/range_sampler.cc).
 *
 * candidates: buffers state, true classes (I64), sampled classes (I64), expected counts of the
 * true classes and of the sampled ones (F32); params: whether classes are drawn log-uniformly,
 * whether they must be unique, the number of classes.  One tile.  Scratch: a table of the drawn
 * classes. */
#include "base/philox.h"
#include "kernel/library.h"

#include <math.h>
#include <string.h>

/* Reads the stream 32 bits at a time, from the state on. */
struct words {
	struct ht_philox p;
	uint32_t block[4];
	int used;
};

static uint32_t next_word(struct words *w)
{
	if (w->used == 4) {
		ht_philox_next(&w->p, w->block);
		w->used = 0;
	}
	return w->block[w->used++];
}

/* A number below `n`, uniformly distributed. */
static uint64_t next_below(struct words *w, uint64_t n)
{
	uint64_t least = -n % n, x; /* 2^64 modulo n */

	if ((n & (n - 1)) == 0) {
		x = next_word(w);
		return (x | (uint64_t)next_word(w) << 32) & (n - 1);
	}
	do {
		x = next_word(w);
		x |= (uint64_t)next_word(w) << 32;
	} while (x < least);
	return x % n;
}

static double next_unit(struct words *w)
{
	uint64_t high = next_word(w) & 0xfffff;

	return (double)(high << 32 | next_word(w)) * 0x1p-52;
}

struct classes {
	bool log_uniform;
	int64_t count;
	double log_count;
};

static int64_t draw(const struct classes *c, struct words *w)
{
	if (!c->log_uniform)
		return (int64_t)next_below(w, (uint64_t)c->count);
	return ((int64_t)exp(next_unit(w) * c->log_count) - 1) % c->count;
}

static float probability(const struct classes *c, int64_t x)
{
	if (!c->log_uniform)
		return (float)(1.0 / (double)c->count);
	return (float)(log(((double)x + 2.0) / ((double)x + 1.0)) / c->log_count);
}

/* How often a class of probability p is expected among `samples` classes that took `tries`
 * draws. */
static float expected(float p, int64_t samples, int64_t tries)
{
	if (tries == samples)
		return p * (float)samples;
	return -expm1f((float)tries * log1pf(-p));
}

/* The size of a hash table with open addressing; -1 marks an empty place. */
static int64_t table_size(int64_t samples)
{
	int64_t n = 16;

	while (n < 2 * samples)
		n *= 2;
	return n;
}

size_t ht_candidates_scratch(const struct ht_kernel *k)
{
	return (size_t)table_size(k->buffer[2].count) * sizeof(int64_t);
}

static bool insert(int64_t *table, int64_t size, int64_t x)
{
	uint64_t at = (uint64_t)x * UINT64_C(0x9e3779b97f4a7c15) >> 20;

	for (at &= (uint64_t)size - 1; table[at] >= 0; at = (at + 1) & ((uint64_t)size - 1))
		if (table[at] == x)
			return false;
	table[at] = x;
	return true;
}

/* The number of tries; -1: too many. */
static int64_t fill(
	const struct classes *c, struct words *w, int64_t *samples, int64_t n, int64_t *table)
{
	int64_t size = table_size(n), tries = 0;

	if (table)
		memset(table, -1, (size_t)size * sizeof *table);
	for (int64_t i = 0; i < n; tries++) {
		if (tries == INT32_MAX)
			return -1;
		samples[i] = draw(c, w);
		i += !table || insert(table, size, samples[i]);
	}
	return tries;
}

int32_t ht_library_candidates(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	const struct classes c = { params[0], params[2], log1p((double)params[2]) };
	const int64_t *truth = buffers[1], trues = params[3], n = params[4];
	int64_t *samples = buffers[2], tries;
	struct words w = { .used = 4 };

	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	memcpy(&w.p, buffers[0], sizeof w.p);
	tries = fill(&c, &w, samples, n, params[1] ? scratch : NULL);
	if (tries < 0)
		return HT_FAULT_SAMPLES;
	for (int64_t i = 0; i < trues; i++)
		((float *)buffers[3])[i] = expected(probability(&c, truth[i]), n, tries);
	for (int64_t i = 0; i < n; i++)
		((float *)buffers[4])[i] = expected(probability(&c, samples[i]), n, tries);
	return HT_FAULT_NONE;
}
