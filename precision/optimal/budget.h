/* budget: how much outputs may differ from those of float32, and on which samples that is
 * measured. */
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

/* A bound for the largest error over all samples. */
struct ht_budget_clause {
	struct ht_str output; /* empty: every output */
	enum ht_metric metric;
	double most;
};

/* The inputs of one run. */
struct ht_sample {
	struct ht_str where; /* the file, or the caller's name for it */
	struct ht_str *name; /* of inputs; empty: the model has only one */
	struct ht_tensor **value;
	size_t n;
	struct ht_sample *next;
};

enum { HT_MAX_CLAUSES = 64, HT_MAX_SAMPLES = 4096 };

struct ht_budget {
	struct ht_budget_clause *clause;
	size_t clauses;
	struct ht_sample *sample; /* given by the user */
	size_t samples;
	uint64_t random, seed; /* this many random samples if none are given */
	bool frontier;         /* the report has the whole frontier */
};
#define HT_BUDGET_RANDOM 4
#define HT_BUDGET_SEED 1

/* Whether the user stated samples. */
static inline bool ht_has_samples(const struct ht_budget *b)
{
	return b->samples || b->random;
}
/* Whether anything must be measured. */
static inline bool ht_budget_asked(const struct ht_budget *b)
{
	return b->clauses || b->frontier;
}

/* "[OUTPUT:]rel|abs|rms<=NUMBER,…" */
enum ht_status ht_budget_parse(
	struct ht_budget *b, const char *text, struct ht_arena *a, struct ht_diags *d);
/* "N" or "N:SEED": random samples. */
enum ht_status ht_samples_parse(struct ht_budget *b, const char *text, struct ht_diags *d);

/* How many elements of a tensor are of which magnitude, by the eight bits of float32's exponent: at[e] are from 2^(e-127) to below
 * 2^(e-126).  Zeros are not counted; at[0] are subnormal, at[255] infinite or NaN. */
struct ht_magnitudes {
	int64_t at[256];
};

/* Runs graphs in the state in which the precision pass leaves them, on the samples; may change
 * the graphs.
 *
 * With `reference`, the outputs are kept, to be compared with those of later calls, and `error`
 * is not set.  Otherwise *error has an entry for each clause (without clauses one: `rel` over
 * all outputs).  It is infinite if an output is not finite where the reference is, or vice
 * versa. */
struct ht_calibration {
	enum ht_status (*run)(void *self, struct ht_graph *g, bool reference, double *error);
	/* Runs the graph, which changes variables, on the samples one after the other, from the values that the model has for its variables,
	 * with a loss scale of 1.  Counts the elements of each of the `n` outputs that it adds, values of float32.  May change the graph.
	 * *known false, without an error: the model has no values for its variables. */
	enum ht_status (*magnitudes)(void *self, struct ht_graph *g, const struct ht_value *value,
		size_t n, struct ht_magnitudes *out, bool *known);
	void *self;
};

#endif
