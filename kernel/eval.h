/* Computes one operation. The builder folds constants with it; the interpreter runs it. */
#ifndef HT_KERNEL_EVAL_H
#define HT_KERNEL_EVAL_H

#include "kernel/kernel.h"

/* Computes `n` values of operation x (CONST, SELECT, CVT, BITCAST, and all from ADD to FLOORMOD)
 * from arrays of its operands, each in the memory layout of its dtype (F16, BF16: uint16_t; BOOL:
 * one byte, 0 or 1).  `from` is the dtype of operand a, for CVT, BITCAST and comparisons.  Integer
 * divisors must be as HT_X_DIV says.  `r` may be one of the operands but for CVT and BITCAST. */
void ht_x_eval(const struct ht_x *x, enum ht_dtype from, void *r, const void *a, const void *b,
	const void *c, int n);

/* Number of operands that are expressions: 0 to 3. */
int ht_x_operands(enum ht_xop op);
/* "ADD", as the text form prints it in small letters. */
const char *ht_xop_name(enum ht_xop op);
static inline bool ht_x_is_compare(enum ht_xop op)
{
	return op >= HT_X_EQ && op <= HT_X_LE;
}

#endif
