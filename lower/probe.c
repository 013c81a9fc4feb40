/* Probes: what rounding to 16 bits did to each element of a tensor, noted beside it by the kernel
 * that computes it.  For programs that are asked about it only. */
#include "lower/inside.h"

#include <float.h>
#include <math.h>

/* Lies between, ends included. */
static int32_t between(struct ht_xb *b, int32_t x, double low, double high)
{
	return ht_xand(b, ht_xle(b, ht_xf(b, low), x), ht_xle(b, x, ht_xf(b, high)));
}

/* A number that masks are made with: -1e9 with what a score adds and bfloat16 takes away, or a
 * type's lowest finite number. */
static int32_t is_sentinel(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	const double lowest = -(double)FLT_MAX, lowest_bf16 = -0x1.fep127;
	int32_t r = ht_xor(b, between(b, x, -1e9 * (1 + 0x1p-8), -1e9 * (1 - 0x1p-8)),
		between(b, x, lowest, lowest_bf16));

	if (t == HT_F16)
		r = ht_xor(b, r, ht_xeq(b, x, ht_xf(b, -65504)));
	return r;
}

/* An ht_rounding, as I32: of x, which rounds to y. */
static int32_t rounding(struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y)
{
	const double smallest = ht_least_normal(t);
	int32_t zero = ht_xf(b, 0), top = ht_xf(b, INFINITY), size = ht_xabs(b, y), r;

	r = ht_xselect(b, ht_xlt(b, size, ht_xf(b, smallest)),
		ht_xint(b, HT_I32, HT_ROUNDED_SUBNORMAL), ht_xint(b, HT_I32, HT_ROUNDED_WELL));
	r = ht_xselect(b, ht_xeq(b, y, zero), ht_xint(b, HT_I32, HT_ROUNDED_UNDERFLOW), r);
	r = ht_xselect(b, ht_xeq(b, x, zero), ht_xint(b, HT_I32, HT_ROUNDED_WELL), r);
	r = ht_xselect(b, ht_xeq(b, size, top), ht_xint(b, HT_I32, HT_ROUNDED_OVERFLOW), r);
	r = ht_xselect(b, is_sentinel(b, t, x), ht_xint(b, HT_I32, HT_ROUNDED_SENTINEL), r);
	r = ht_xselect(
		b, ht_xeq(b, ht_xabs(b, x), top), ht_xint(b, HT_I32, HT_ROUNDED_INFINITE), r);
	return ht_xselect(b, ht_xne(b, x, x), ht_xint(b, HT_I32, HT_ROUNDED_NAN), r);
}

void probe_result(struct kernel_build *k, int32_t i, const struct space *s, int32_t x)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = k->sink->out[i].dtype;
	int32_t stored, exact, arg;

	if (t != HT_F16 && t != HT_BF16)
		return;
	/* What is stored is a conversion, whose operand is the value before; or bits that move. */
	stored = ht_xcvt(b, t, x);
	exact = k->stage->x[stored].op == HT_X_CVT ? k->stage->x[stored].a : x;
	arg = kb_arg(k, plan_probe(k->l, k->sink, i), HT_BUFFER_OUT);
	ht_xstore(b, arg, space_linear(b, s),
		ht_xcvt(b, HT_U8, rounding(b, t, exact, ht_xcvt(b, HT_F32, stored))));
}
