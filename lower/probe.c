/* Probes: the kernel that computes a tensor also records what rounding to 16 bits, or to a
 * number format, did to each element.  Only programs that are compiled for numerics have them. */
#include "base/float_format.h"
#include "lower/inside.h"

#include <float.h>
#include <math.h>

/* low <= x <= high */
static int32_t between(struct ht_xb *b, int32_t x, double low, double high)
{
	return ht_xand(b, ht_xle(b, ht_xf(b, low), x), ht_xle(b, x, ht_xf(b, high)));
}

/* Whether x is a sentinel: about -1e9, allowing for an added score and for rounding to bfloat16,
 * or a type's lowest finite number. */
static int32_t is_sentinel(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	const double lowest = -(double)FLT_MAX, lowest_bf16 = -0x1.fep127;
	int32_t r = ht_xor(b, between(b, x, -1e9 * (1 + 0x1p-8), -1e9 * (1 - 0x1p-8)),
		between(b, x, lowest, lowest_bf16));

	if (t == HT_F16)
		r = ht_xor(b, r, ht_xeq(b, x, ht_xf(b, -65504)));
	return r;
}

/* The ht_rounding, as I32, of x, which rounds to y.  Normal numbers begin at `smallest`;
 * `overflow` says that y overflowed. */
static int32_t rounding(
	struct ht_xb *b, enum ht_dtype t, int32_t x, int32_t y, double smallest, int32_t overflow)
{
	int32_t zero = ht_xf(b, 0), top = ht_xf(b, INFINITY), size = ht_xabs(b, y), r;

	r = ht_xselect(b, ht_xlt(b, size, ht_xf(b, smallest)),
		ht_xint(b, HT_I32, HT_ROUNDED_SUBNORMAL), ht_xint(b, HT_I32, HT_ROUNDED_WELL));
	r = ht_xselect(b, ht_xeq(b, y, zero), ht_xint(b, HT_I32, HT_ROUNDED_UNDERFLOW), r);
	r = ht_xselect(b, ht_xeq(b, x, zero), ht_xint(b, HT_I32, HT_ROUNDED_WELL), r);
	r = ht_xselect(b, overflow, ht_xint(b, HT_I32, HT_ROUNDED_OVERFLOW), r);
	r = ht_xselect(b, is_sentinel(b, t, x), ht_xint(b, HT_I32, HT_ROUNDED_SENTINEL), r);
	r = ht_xselect(
		b, ht_xeq(b, ht_xabs(b, x), top), ht_xint(b, HT_I32, HT_ROUNDED_INFINITE), r);
	return ht_xselect(b, ht_xne(b, x, x), ht_xint(b, HT_I32, HT_ROUNDED_NAN), r);
}

/* In formats with blocks, the block's scale decides what the smallest numbers become, and no
 * element overflows. */
static int32_t rounding_to_format(struct kernel_build *k, const struct space *s, int32_t y)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_operand(k, k->sink, 0, s);
	struct ht_float_format f;

	HT_CHECK(lower_rounded_format(k->sink, &f));
	if (f.block)
		return rounding(b, HT_F32, x, y, 0, ht_xconst(b, HT_BOOL, 0, 0));
	return rounding(b, HT_F32, x, y, ht_format_least_normal(&f),
		ht_xle(b, ht_xf(b, (double)ht_format_overflow(&f)), ht_xabs(b, x)));
}

static void store_rounding(struct kernel_build *k, int32_t i, const struct space *s, int32_t r)
{
	int32_t arg = kb_arg(k, plan_probe(k->l, k->sink, i), HT_BUFFER_OUT);

	ht_xstore(&k->xb, arg, space_linear(&k->xb, s), ht_xcvt(&k->xb, HT_U8, r));
}

void probe_result(struct kernel_build *k, int32_t i, const struct space *s, int32_t x)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = k->sink->out[i].dtype;
	int32_t stored, exact, overflow;

	if (lower_rounds_to_format(k->sink)) {
		store_rounding(k, i, s, rounding_to_format(k, s, x));
		return;
	}
	if (t != HT_F16 && t != HT_BF16)
		return;
	/* The stored value is a conversion, whose operand is the unrounded value; or the node
	 * only moves bits. */
	stored = ht_xcvt(b, t, x);
	exact = k->stage->x[stored].op == HT_X_CVT ? k->stage->x[stored].a : x;
	stored = ht_xcvt(b, HT_F32, stored);
	overflow = ht_xeq(b, ht_xabs(b, stored), ht_xf(b, INFINITY));
	store_rounding(k, i, s, rounding(b, t, exact, stored, ht_least_normal(t), overflow));
}
