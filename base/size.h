/* size: numbers that depend on sizes which are known only when a program runs (docs/sizes.md).
 *
 * Dimensions of graphs, ends of loops in tile programs, and extents, bytes and instances in images
 * all have this form.  base/size_math.h makes, compares, prints and parses such numbers.  This file
 * is part of nets, which have no libc. */
#ifndef HT_SIZE_H
#define HT_SIZE_H

#include <stdint.h>

enum { HT_SIZE_FACTORS = 8 };

/* times * floor((factor * the product of the sizes + add) / divisor).
 *
 * Sizes, `times` and `factor` are not negative, and `divisor` is positive.  So the value never
 * decreases when a size grows: the least sizes give the least value, and the largest sizes the
 * largest. */
struct ht_size_expr {
	int64_t times, factor, add, divisor;
	int32_t size
		[HT_SIZE_FACTORS]; /* 1 + the numbers of the sizes, ascending; a 0 ends the list */
};

static inline int64_t ht_floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* The value for the given product of the sizes; it must fit. */
static inline int64_t ht_size_scaled(const struct ht_size_expr *e, int64_t product)
{
	return e->times * ht_floor_div(e->factor * product + e->add, e->divisor);
}

/* Likewise, for all sizes by number. */
static inline int64_t ht_size_value(const struct ht_size_expr *e, const int64_t *size)
{
	int64_t n = 1;

	for (int i = 0; i < HT_SIZE_FACTORS && e->size[i]; i++)
		n *= size[e->size[i] - 1];
	return ht_size_scaled(e, n);
}

#endif
