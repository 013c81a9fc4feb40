/* Library kernels that draw candidate classes, the same ones as TensorFlow
 * (core/kernels/range_sampler.cc).
 *
 * candidates: buffers state, true classes (I64), sampled classes (I64), expected counts of the
 * true classes and of the sampled ones (F32), and what the classes are drawn by:
 * - by constant weights: their weights, then a share for each, then the sum of the weights (F32); and the
 *   alternative of each class (I32).  One draw takes a class uniformly, and with the probability 1 - share its alternative instead.
 * - by counts: their tree (I32), which the kernel increments by the true classes behind the draws; and how many rows of true classes
 *   the run has (I64).  Elements behind them are not counted.
 * Params: enum ht_candidates, whether they must be unique, the number of classes, of true classes, and of draws, and of true classes
 * in a row.  One tile.
 * Scratch: a table of the drawn classes. */
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

/* Likewise, of 32 bits of the stream. */
static uint32_t next_below_32(struct words *w, uint32_t n)
{
	uint32_t least = -n % n, x; /* 2^32 modulo n: 0 if n is a power of 2 */

	do
		x = next_word(w);
	while (x < least);
	return x % n;
}

static double next_unit(struct words *w)
{
	uint64_t high = next_word(w) & 0xfffff;

	return (double)(high << 32 | next_word(w)) * 0x1p-52;
}

static float next_unit_32(struct words *w)
{
	return (float)(next_word(w) & 0x7fffff) * 0x1p-23f;
}

struct classes {
	enum ht_candidates kind;
	int64_t count;
	double log_count;
	const float *weight;
	const int32_t *other;
	int32_t *tree;
	int64_t leaves, counted; /* true classes that the run has */
};

int64_t ht_candidates_leaves(int64_t classes)
{
	int64_t n = 1;

	while (n < classes)
		n *= 2;
	return n;
}

static int64_t draw_weighed(const struct classes *c, struct words *w)
{
	float unit = next_unit_32(w);
	uint32_t i = next_below_32(w, (uint32_t)c->count);

	return unit < c->weight[c->count + i] ? (int64_t)i : c->other[i];
}

static int64_t draw_counted(const struct classes *c, struct words *w)
{
	int32_t rest = (int32_t)next_below_32(w, (uint32_t)c->tree[1]);
	int64_t i = 1;

	while (i < c->leaves) {
		i *= 2;
		if (rest >= c->tree[i])
			rest -= c->tree[i++];
	}
	return i - c->leaves;
}

static int64_t draw(const struct classes *c, struct words *w)
{
	switch (c->kind) {
	case HT_CANDIDATES_LOG_UNIFORM:
		return ((int64_t)exp(next_unit(w) * c->log_count) - 1) % c->count;
	case HT_CANDIDATES_WEIGHED:
		return draw_weighed(c, w);
	case HT_CANDIDATES_COUNTED:
		return draw_counted(c, w);
	default:
		return (int64_t)next_below(w, (uint64_t)c->count);
	}
}

static float probability(const struct classes *c, int64_t x)
{
	switch (c->kind) {
	case HT_CANDIDATES_LOG_UNIFORM:
		return (float)(log(((double)x + 2.0) / ((double)x + 1.0)) / c->log_count);
	case HT_CANDIDATES_WEIGHED:
		return c->weight[x] / c->weight[2 * c->count];
	case HT_CANDIDATES_COUNTED:
		return (float)c->tree[c->leaves + x] / (float)c->tree[1];
	default:
		return (float)(1.0 / (double)c->count);
	}
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

static int64_t take_all(int64_t *samples, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		samples[i] = i;
	return n;
}

static void put_expected(const struct classes *c, const int64_t *x, float *out, int64_t count,
	int64_t samples, int64_t tries)
{
	for (int64_t i = 0; i < count; i++)
		out[i] = c->kind == HT_CANDIDATES_ALL
				 ? 1
				 : expected(probability(c, x[i]), samples, tries);
}

/* The sum of all counts does not grow beyond INT32_MAX. */
static void count_true(const struct classes *c, const int64_t *x)
{
	for (int64_t i = 0; i < c->counted && c->tree[1] < INT32_MAX; i++)
		for (int64_t at = c->leaves + x[i]; at; at /= 2)
			c->tree[at]++;
}

static struct classes classes_of(void *const *buffers, const int64_t *params)
{
	struct classes c = { .kind = (enum ht_candidates)params[0],
		.count = params[2],
		.log_count = log1p((double)params[2]) };

	if (c.kind == HT_CANDIDATES_WEIGHED) {
		c.weight = buffers[5];
		c.other = buffers[6];
	} else if (c.kind == HT_CANDIDATES_COUNTED) {
		c.tree = buffers[5];
		c.leaves = ht_candidates_leaves(c.count);
		c.counted = *(const int64_t *)buffers[6] * params[5];
	}
	return c;
}

static bool are_classes(const struct classes *c, const int64_t *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (x[i] < 0 || x[i] >= c->count)
			return false;
	return true;
}

int32_t ht_library_candidates(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	const struct classes c = classes_of(buffers, params);
	const int64_t *truth = buffers[1], trues = params[3], n = params[4];
	int64_t *samples = buffers[2], tries;
	struct words w = { .used = 4 };

	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	if (!are_classes(&c, truth, trues))
		return HT_FAULT_INDEX;
	memcpy(&w.p, buffers[0], sizeof w.p);
	tries = c.kind == HT_CANDIDATES_ALL ? take_all(samples, n)
					    : fill(&c, &w, samples, n, params[1] ? scratch : NULL);
	if (tries < 0)
		return HT_FAULT_SAMPLES;
	put_expected(&c, truth, buffers[3], trues, n, tries);
	put_expected(&c, samples, buffers[4], n, n, tries);
	if (c.kind == HT_CANDIDATES_COUNTED)
		count_true(&c, truth);
	return HT_FAULT_NONE;
}
