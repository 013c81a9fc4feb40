/* The part of a comparison about time and memory. */
#include "api/compare.h"

#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct ht_latency ht_latency_of(const double *ms, size_t n, struct ht_arena *a)
{
	double *sorted = HT_NEW_ARRAY(a, double, n);
	struct ht_latency l = { .n = n };
	size_t low, high;

	if (!n)
		return l;
	memcpy(sorted, ms, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, by_size);
	l.least = sorted[0];
	l.most = sorted[n - 1];
	l.median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	l.bounded = ht_median_ranks(n, &low, &high);
	if (l.bounded) {
		l.low = sorted[low];
		l.high = sorted[high];
	}
	return l;
}

struct ht_latency ht_speedup_of(
	const struct ht_comparison *c, const struct ht_compared *r, struct ht_arena *a)
{
	size_t n = r->rounds < c->base.rounds ? r->rounds : c->base.rounds;
	double *ratio = HT_NEW_ARRAY(a, double, n);

	for (size_t i = 0; i < n; i++)
		ratio[i] = c->base.ms[i] / r->ms[i];
	return ht_latency_of(ratio, n, a);
}

uint64_t ht_compared_bytes(const struct ht_comparison *c, const struct ht_compared *r)
{
	const struct ht_program_info *i = &r->program->info;

	return i->weight_bytes + i->code_bytes + i->arena_bytes +
	       i->scratch_bytes * (uint64_t)c->compile.threads;
}
