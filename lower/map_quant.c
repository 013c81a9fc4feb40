/* Rounding to a grid, for training that simulates integers (quantisation-aware training). */
#include "lower/index.h"

/* Rounds half away from zero; x is not negative. */
static int32_t rounded(struct ht_xb *b, int32_t x)
{
	return ht_xfloor(b, ht_xadd(b, x, ht_xf(b, 0.5)));
}

/* Eigen's minimum and maximum: the first operand if the second is NaN or if both are equal. */
static int32_t lesser(struct ht_xb *b, int32_t x, int32_t limit)
{
	return ht_xselect(b, ht_xlt(b, limit, x), limit, x);
}

static int32_t greater(struct ht_xb *b, int32_t x, int32_t limit)
{
	return ht_xselect(b, ht_xlt(b, x, limit), limit, x);
}

/* x clamped and rounded to a multiple of the step.  The ends of the range move a little, so that
 * 0 is a multiple. */
static int32_t to_grid(
	struct ht_xb *b, const struct ht_node *n, int32_t x, int32_t min, int32_t max)
{
	int32_t lowest = ht_xf(b, ht_attr_bool(n, "narrow_range", false) ? 1 : 0);
	int32_t highest = ht_xf(b, (double)(((int64_t)1 << ht_attr_int(n, "num_bits", 8)) - 1));
	int32_t step = ht_xdiv(b, ht_xsub(b, max, min), ht_xsub(b, highest, lowest));
	int32_t zero = ht_xsub(b, lowest, ht_xdiv(b, min, step)), per_step, first;

	zero = ht_xselect(b, ht_xlt(b, zero, lowest), lowest,
		ht_xselect(b, ht_xlt(b, highest, zero), highest, rounded(b, zero)));
	min = ht_xmul(b, ht_xsub(b, lowest, zero), step);
	max = ht_xmul(b, ht_xsub(b, highest, zero), step);
	per_step = ht_xdiv(b, ht_xf(b, 1), step);
	first = ht_xneg(b, ht_xmul(b, min, per_step));
	first = ht_xfloor(b, ht_xadd(b, first, ht_xf(b, 0.5)));
	x = ht_xsub(b, greater(b, lesser(b, x, max), min), min);
	x = ht_xsub(b, ht_xmul(b, x, per_step), first);
	x = ht_xfloor(b, ht_xadd(b, x, ht_xf(b, 0.5)));
	return ht_xmul(b, x, step);
}

static int32_t pull_fake_quant(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_operand(k, n, 0, s), min, max, zero = ht_xf(b, 0), none;

	(void)out;
	if (n->op == HT_OP_FakeQuantWithMinMaxArgs)
		return to_grid(b, n, x, ht_xf(b, (double)ht_attr_float(n, "min", -6)),
			ht_xf(b, (double)ht_attr_float(n, "max", 6)));
	min = kb_operand(k, n, 1, s);
	max = kb_operand(k, n, 2, s);
	none = ht_xand(b, ht_xeq(b, min, zero), ht_xeq(b, max, zero));
	return ht_xselect(b, none, zero, to_grid(b, n, x, min, max));
}

static const char *refuse_fake_quant(const struct ht_node *n)
{
	int64_t bits = ht_attr_int(n, "num_bits", 8);

	return bits < 2 || bits > 16 ? "has a number of bits that is not 2 to 16" : NULL;
}

const struct lower_op lower_fake_quant = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_fake_quant, .refuse = refuse_fake_quant
};
