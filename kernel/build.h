/* Shared by build.c and simplify*.c, and for code that copies expressions of another stage. */
#ifndef HT_KERNEL_BUILD_H
#define HT_KERNEL_BUILD_H

#include "kernel/expr.h"

/* Bounds of an I64 expression.  They are known only if both are far from overflow. */
struct ht_xrange {
	bool known;
	int64_t lo, hi;
};

/* Adds expression x, or returns an equal one; does not simplify. */
int32_t ht_xb_push(struct ht_xb *b, struct ht_x x);
/* Adds x in its simplest form. */
int32_t ht_xb_make(struct ht_xb *b, struct ht_x x);
static inline const struct ht_x *ht_xb_at(const struct ht_xb *b, int32_t i)
{
	return &b->stage->x[i];
}
/* Whether expression i is a constant; *imm becomes its bits. */
bool ht_xb_const(const struct ht_xb *b, int32_t i, int64_t *imm);
/* The bits of a constant of type t, in the form of HT_X_CONST's imm. */
int64_t ht_x_imm(enum ht_dtype t, double f, int64_t i);
/* The range of x, from the ranges of its operands. */
struct ht_xrange ht_xb_range(const struct ht_xb *b, const struct ht_x *x);

#endif
