/* interval: confidence intervals of 95 %. */
#ifndef HT_INTERVAL_H
#define HT_INTERVAL_H

#include "base/base.h"

struct ht_interval {
	double low, high; /* infinite on both sides: the data give no interval */
};

/* The quantile p, in [0.5, 1), of Student's distribution with `freedom` >= 1 degrees of freedom. */
double ht_student_quantile(double p, double freedom);
/* The interval of a mean, by Student's t, from the sums of `n` values and of their squares. */
struct ht_interval ht_mean_interval(size_t n, double sum, double squares);
/* The interval of the difference of two paired proportions, (lost - won) / n, by the score interval
 * of Tango (Statistics in Medicine 17, 1998, pages 891 to 908).  `lost`: pairs of which only the
 * first is a success; `won`: only the second. */
struct ht_interval ht_paired_interval(size_t lost, size_t won, size_t n);
/* The interval of a median, by order statistics, which assume no distribution: sorted[low] to
 * sorted[high], counted from 0, is an interval of at least 95 %.  False: n < 6, which gives
 * none. */
bool ht_median_ranks(size_t n, size_t *low, size_t *high);

/* A metric of two models on the same samples, in pairs.  Its drop is the mean of the first minus
 * the mean of the second. */
struct ht_paired {
	size_t n, lost, won;
	bool fractions; /* some value is neither 0 nor 1 */
	double first, second, drop, squares;
};
void ht_paired_add(struct ht_paired *p, double first, double second);
/* The interval of the drop: Tango's if all values are 0 or 1, otherwise Student's. */
struct ht_interval ht_paired_drop(const struct ht_paired *p);
const char *ht_paired_method(const struct ht_paired *p);

#endif
