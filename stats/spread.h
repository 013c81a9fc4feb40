/* spread: quantiles of any number of values in memory that does not grow. */
#ifndef HT_SPREAD_H
#define HT_SPREAD_H

#include "base/base.h"

/* Values are counted in bins of 1/64 of their power of two, from 2^-80 to 2^80. */
enum { HT_SPREAD_POWER = 80, HT_SPREAD_BINS = (2 * HT_SPREAD_POWER << 6) + 2 };

struct ht_spread {
	uint64_t *
		/* HT_SPREAD_BINS bins: the first counts zeros, the second smaller values, the last
		 * larger ones */
		count;
	uint64_t n;
	double most;
};

void ht_spread_init(struct ht_spread *s, struct ht_arena *a);
/* Adds a value, which is at least 0 or infinite. */
void ht_spread_add(struct ht_spread *s, double x);
/* The ceil(q n)-th smallest value, or up to 1/64 more: the end of its bin, but at most the largest
 * value.  0: there are no values. */
double ht_spread_quantile(const struct ht_spread *s, double q);

#endif
