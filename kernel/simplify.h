/* Shared by simplify.c and simplify_index.c. */
#ifndef HT_KERNEL_SIMPLIFY_H
#define HT_KERNEL_SIMPLIFY_H

#include "kernel/build.h"

static inline bool is_int_const(const struct ht_xb *b, int32_t x, int64_t want)
{
	int64_t imm;
	enum ht_dtype t = ht_xb_at(b, x)->dtype;

	return !ht_is_float(t) && ht_xb_const(b, x, &imm) && imm == ht_x_imm(t, 0, want);
}

/* The simpler form of an I64 sum, difference, product, or quotient and remainder by a constant;
 * or of a comparison that the bounds decide.  False: there is none. */
bool ht_simplify_add(struct ht_xb *b, const struct ht_x *x, int32_t *out);
bool ht_simplify_sub(struct ht_xb *b, const struct ht_x *x, int32_t *out);
bool ht_simplify_mul(struct ht_xb *b, const struct ht_x *x, int32_t *out);
bool ht_simplify_div(struct ht_xb *b, const struct ht_x *x, int32_t *out);
bool ht_simplify_compare(struct ht_xb *b, const struct ht_x *x, int32_t *out);

#endif
