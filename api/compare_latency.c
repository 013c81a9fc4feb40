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

/* ---- measuring ---- */

struct timing {
	struct ht_comparison *c;
	struct ht_compared **row; /* programs that can be run, the base first */
	size_t rows, rounds;
	struct ht_diags *d;
};

static enum ht_status time_one(struct timing *t, struct ht_compared *r)
{
	int64_t before;

	HT_TRY(ht_compared_run(t->c, r, t->d)); /* loads its weights and arena into the caches */
	before = ht_now_ns();
	HT_TRY(ht_compared_run(t->c, r, t->d));
	r->ms[r->rounds++] = (double)(ht_now_ns() - before) / 1e6;
	return HT_OK;
}

static enum ht_status time_all(void *arg)
{
	struct timing *t = arg;
	struct ht_comparison *c = t->c;
	int64_t before = ht_now_ns();

	t->row = HT_NEW_ARRAY(&c->scratch, struct ht_compared *, c->policies + 1);
	t->row[t->rows++] = &c->base;
	for (struct ht_compared *r = c->first; r; r = r->next)
		if (r->status == HT_OK)
			t->row[t->rows++] = r;
	for (size_t i = 0; i < t->rows; i++) {
		double *ms = HT_NEW_ARRAY(&c->arena, double, t->row[i]->rounds + t->rounds);
		if (t->row[i]->rounds)
			memcpy(ms, t->row[i]->ms, t->row[i]->rounds * sizeof *ms);
		t->row[i]->ms = ms;
	}
	for (size_t k = 0; k < t->rounds; k++)
		for (size_t i = 0; i < t->rows; i++)
			HT_TRY(time_one(t, t->row[(i + k) % t->rows]));
	ht_arena_release(&c->scratch);
	c->all_ns += ht_now_ns() - before;
	return HT_OK;
}

enum ht_status ht_comparison_time(struct ht_comparison *c, size_t rounds, struct ht_diags *d)
{
	struct timing t = { .c = c, .rounds = rounds, .d = d };

	if (!c->runs)
		return ht_error(
			d, HT_E_USAGE, ht_compared_place(c), "there is no sample to measure with");
	return ht_guarded(&c->unwind, time_all, &t, d);
}
