/* values: the elements of a tensor as numbers, whatever their type. */
#ifndef HT_VALUES_H
#define HT_VALUES_H

#include "base/base.h"

#include <math.h>

/* A dense row-major tensor; not owned.  Complex tensors count as twice as many floats. */
struct ht_values {
	const void *data;
	enum ht_dtype dtype;
	size_t count;
	size_t row; /* number of elements of the last dimension; 1: a scalar */
};

/* The number of three decimal digits next to x: the nearest, or the next below or above (x itself
 * if it has no more digits).  x itself if it is not finite.  For numbers between 0.99 and 1 the
 * distance from 1 has three digits: 0.9999876. */
enum ht_digits { HT_DIGITS_NEAREST, HT_DIGITS_BELOW, HT_DIGITS_ABOVE };
double ht_three_digits(double x, enum ht_digits how);

/* Whether elements of this type can be compared as numbers. */
bool ht_values_are_numbers(enum ht_dtype t);
/* Element `i` as a double.  Integers beyond 2^53 are rounded. */
double ht_value(const struct ht_values *v, size_t i);
/* |x - y|: 0 if both are NaN or equal; infinity if only one of them is finite, or if they are infinities of different signs. */
static inline double ht_difference(double x, double y)
{
	/* Without branches, so that loops over elements vectorise. */
	double d = fabs(x - y), finite = d == d ? d : (double)INFINITY;

	return (x == y) | ((x != x) & (y != y)) ? 0 : finite;
}
/* ht_difference() of elements `i`.  Unequal integers differ by at least 1, even if they are equal as doubles. */
double ht_distance(const struct ht_values *a, const struct ht_values *b, size_t i);
/* The distance between neighbouring numbers of type `t` at |x|, which is finite; 1 for integers. */
double ht_spacing(enum ht_dtype t, double x);
/* The index of the largest of `n` elements from `start` on: the first of equal ones; NaN counts as
 * the largest. */
size_t ht_largest(const struct ht_values *v, size_t start, size_t n);
/* The indices of the `k` largest elements, the largest first; k <= HT_MAX_TOP and k <= n. */
enum { HT_MAX_TOP = 5 };
void ht_largest_k(const struct ht_values *v, size_t start, size_t n, size_t k, size_t *at);

#endif
