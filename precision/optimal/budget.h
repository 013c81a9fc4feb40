/* budget: how far outputs may be from those of float32, and on what that is measured. */
#ifndef HT_BUDGET_H
#define HT_BUDGET_H

#include "base/base.h"
#include "ir/ir.h"

enum ht_metric {
	HT_METRIC_REL, /* max|a-b| / max|b| over a sample */
	HT_METRIC_ABS, /* max|a-b| */
	HT_METRIC_RMS  /* sqrt(sum (a-b)² / sum b²) */
};
const char *ht_metric_name(enum ht_metric m);

/* The largest over all samples. */
struct ht_budget_clause {
	struct ht_str output; /* empty: every output */
	enum ht_metric metric;
	double most;
};

/* What is fed at once. */
struct ht_sample {
	struct ht_str where; /* the file, or what the caller calls it */
	struct ht_str *name; /* of inputs; empty: the only one */
	struct ht_tensor **value;
	size_t n;
	struct ht_sample *next;
};

enum { HT_MAX_CLAUSES = 64, HT_MAX_SAMPLES = 4096 };

struct ht_budget {
	struct ht_budget_clause *clause;
	size_t clauses;
	struct ht_sample *sample; /* given */
	size_t samples;
	uint64_t random, seed; /* so many random ones where none is given */
	bool frontier;         /* the report has all of it */
};
#define HT_BUDGET_RANDOM 4
#define HT_BUDGET_SEED 1

/* Whether there is anything to be measured. */
static inline bool ht_budget_asked(const struct ht_budget *b)
{
	return b->clauses || b->frontier;
}

/* "[OUTPUT:]rel|abs|rms<=NUMBER,…" */
enum ht_status ht_budget_parse(
	struct ht_budget *b, const char *text, struct ht_arena *a, struct ht_diags *d);
/* "N" or "N:SEED": random samples. */
enum ht_status ht_samples_parse(struct ht_budget *b, const char *text, struct ht_diags *d);

/* Runs graphs as the precision pass leaves them, which it may change, on the samples.
 *
 * With `reference` the outputs are kept, to compare those of later calls with; `error` is left
 * alone.  Else *error has an entry a clause (without clauses one: `rel` over all outputs), infinite
 * where one of the two outputs is not finite and the other one is. */
struct ht_calibration {
	enum ht_status (*run)(void *self, struct ht_graph *g, bool reference, double *error);
	void *self;
};

#endif
