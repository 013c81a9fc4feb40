/* size_math: makes, compares, prints and reads numbers that depend on sizes. */
#ifndef HT_SIZE_MATH_H
#define HT_SIZE_MATH_H

#include "base/base.h"
#include "base/size.h"

/* An unknown number, or one without this form.  ht_size_equal() and the functions that return an
 * expression accept it. */
#define HT_SIZE_NONE ((struct ht_size_expr){ .times = -1, .factor = 1, .divisor = 1 })
static inline bool ht_size_is_none(const struct ht_size_expr *e)
{
	return e->times < 0;
}

struct ht_size_expr ht_size_number(int64_t n);                     /* below 0: NONE */
struct ht_size_expr ht_size_multiple(int64_t times, int32_t size); /* size: its number, from 0 */

/* The number of sizes in the product; 0: the value is constant. */
int ht_size_count(const struct ht_size_expr *e);
/* Whether the value is a constant times sizes, if any. */
bool ht_size_is_product(const struct ht_size_expr *e);
/* Whether both have the same sizes, each as many times. */
bool ht_size_same_sizes(const struct ht_size_expr *a, const struct ht_size_expr *b);

/* These functions return the canonical form, and NONE if the result has no such form, does not fit,
 * or has more than HT_SIZE_FACTORS sizes. */
struct ht_size_expr ht_size_product(struct ht_size_expr a, struct ht_size_expr b);
/* a / b for products, if it is a product for all sizes. */
struct ht_size_expr ht_size_quotient(struct ht_size_expr a, struct ht_size_expr b);
/* floor((e + add) / divisor); the divisor is positive. */
struct ht_size_expr ht_size_floor(struct ht_size_expr e, int64_t add, int64_t divisor);
/* Two expressions are equal for all sizes if and only if the fields of their canonical forms are. */
struct ht_size_expr ht_size_canonical(struct ht_size_expr e);
bool ht_size_equal(struct ht_size_expr a, struct ht_size_expr b);

/* Computes ht_size_value() with checks; false: it does not fit, or `e` is NONE. */
bool ht_size_checked(const struct ht_size_expr *e, const int64_t *size, int64_t *value);

/* Prints 8 * ((2 * n + 3) / 4); `name` prints the name of a size.  The text has the same meaning in
 * C if the names are unsigned integers and no sum is negative. */
typedef void ht_size_name(const void *names, int32_t size, struct ht_buf *out);
void ht_size_print(
	const struct ht_size_expr *e, ht_size_name *name, const void *names, struct ht_buf *out);
/* Parses that text.  `number` returns the number of the size with a name, and -1 if there is none.
 * Returns how many bytes were read before the end of the expression, or before the first error;
 * then *e is NONE. */
typedef int32_t ht_size_number_of(const void *names, struct ht_str name);
size_t ht_size_parse(
	struct ht_str text, ht_size_number_of *number, const void *names, struct ht_size_expr *e);

#endif
