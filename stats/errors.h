/* errors: the distance of an output from its reference, over any number of samples, in memory that
 * does not grow with them.  Sums are in double precision, in the order of the elements.  One thread
 * at a time uses a struct ht_errors. */
#ifndef HT_ERRORS_H
#define HT_ERRORS_H

#include "stats/spread.h"
#include "stats/values.h"

enum ht_statistic {
#define STATISTIC(name, ...) HT_STAT_##name,
#include "stats/statistics.def"
#undef STATISTIC
	HT_STAT_END
};

struct ht_statistic_row {
	const char *name;
	bool more;        /* a larger value is better: a tolerance is a lower bound */
	double unbounded; /* the value if a difference is not finite */
	const char *meaning;
};
extern const struct ht_statistic_row ht_statistics[HT_STAT_END];
/* HT_STAT_END: no statistic has this name. */
enum ht_statistic ht_statistic_named(struct ht_str name);

struct ht_errors {
	enum ht_dtype output, low;
	uint64_t elements, rows, samples;
	/* in some element one side is not finite, and the other is finite or has another sign */
	bool unbounded;
	double rel, rms, cos;             /* of the worst sample */
	double sum, squares, own_squares; /* sums of |a-b|, of its square, of b's square */
	/* number of elements that count for max_rel and mean_rel */
	uint64_t relative;
	double max_rel, sum_rel;
	uint64_t argmax, top5;    /* number of rows that agree */
	uint64_t of[HT_STAT_END]; /* values of the statistics that are counts */
	struct ht_spread abs, ulp, low_ulp;
};

/* `output`: the type of the tensor; `low`: the lowest type of the policy. */
void ht_errors_init(
	struct ht_errors *e, enum ht_dtype output, enum ht_dtype low, struct ht_arena *a);
/* Adds a sample.  Both tensors have the same count and row, and types that are numbers. */
void ht_errors_add(struct ht_errors *e, const struct ht_values *got, const struct ht_values *want);
double ht_errors_get(const struct ht_errors *e, enum ht_statistic s);

#endif
