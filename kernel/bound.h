/* bound: upper bounds of integer expressions over the sizes of a run, each a product of sizes and a number more. */
#ifndef HT_KERNEL_BOUND_H
#define HT_KERNEL_BOUND_H

#include "kernel/reach.h"

/* Numbers are no larger, so that sums and products of two of them fit. */
#define HT_BOUND_LIMIT ((int64_t)1 << 30)
#define HT_BOUND_LIMIT_OF_SUM ((int64_t)1 << 40)

/* lo <= x <= hi, and x <= up / divisor + add, where `up` is a product of sizes or 0. */
struct ht_bound {
	bool known;
	bool exact; /* x is `up`, a product of sizes */
	int64_t lo, hi;
	struct ht_size_expr up;
	int64_t divisor, add;
};
#define HT_BOUND_UNKNOWN ((struct ht_bound){ .known = false })

static inline int64_t ht_bound_ceil_div(int64_t a, int64_t b)
{
	return -ht_floor_div(-a, b);
}

/* Operands are known where nothing else is said.  A result may be unknown. */
/* Of numbers from lo to hi. */
struct ht_bound ht_bound_constant(int64_t lo, int64_t hi);
/* Whether it has no sizes. */
bool ht_bound_is_constant(const struct ht_bound *b);
/* The bound as it is kept: unknown where it is too large, and without sizes where a number is as low. */
struct ht_bound ht_bound_settled(const struct ht_reach_sizes *sizes, struct ht_bound b);
/* Of size number `size`. */
struct ht_bound ht_bound_of_size(const struct ht_reach_sizes *sizes, int32_t size);
/* Of a + b. */
struct ht_bound ht_bound_sum(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b);
/* Of -a. */
struct ht_bound ht_bound_negative(const struct ht_bound *a);
/* Of a * by. */
struct ht_bound ht_bound_scaled(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, int64_t by);
/* Of a * b. */
struct ht_bound ht_bound_product(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b);
/* Of floor(a / by); `by` is positive. */
struct ht_bound ht_bound_divided(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, int64_t by);
/* Of a / b, neither of which may be negative. */
struct ht_bound ht_bound_quotient(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b);
/* Of the lower one of both; one of them may be unknown. */
struct ht_bound ht_bound_lower(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b);
/* A bound of both. */
struct ht_bound ht_bound_joined(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b);
/* Of the higher one of both. */
struct ht_bound ht_bound_higher(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b);

#endif
