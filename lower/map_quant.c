/* Rounding to a grid, as training for integers does it. */
#include "lower/index.h"

static int32_t number(struct ht_xb *b, double f)
{
	return ht_xf(b, f);
}

/* Half away from zero; x is not negative. */
static int32_t rounded(struct ht_xb *b, int32_t x)
{
	return ht_x1(b, HT_X_FLOOR, ht_x2(b, HT_X_ADD, x, number(b, 0.5)));
}

/* Eigen's minimum and maximum: the first operand where the second is NaN or equal. */
static int32_t lesser(struct ht_xb *b, int32_t x, int32_t limit)
{
	return ht_xselect(b, ht_x2(b, HT_X_LT, limit, x), limit, x);
}

static int32_t greater(struct ht_xb *b, int32_t x, int32_t limit)
{
	return ht_xselect(b, ht_x2(b, HT_X_LT, x, limit), limit, x);
}

/* x clamped and rounded to a multiple of the step; the ends move a little, so that 0 is one. */
static int32_t to_grid(
	struct ht_xb *b, const struct ht_node *n, int32_t x, int32_t min, int32_t max)
{
	int32_t lowest = number(b, ht_attr_bool(n, "narrow_range", false) ? 1 : 0);
	int32_t highest = number(b, (double)(((int64_t)1 << ht_attr_int(n, "num_bits", 8)) - 1));
	int32_t step = ht_x2(
		b, HT_X_DIV, ht_x2(b, HT_X_SUB, max, min), ht_x2(b, HT_X_SUB, highest, lowest));
	int32_t zero = ht_x2(b, HT_X_SUB, lowest, ht_x2(b, HT_X_DIV, min, step)), per_step, first;

	zero = ht_xselect(b, ht_x2(b, HT_X_LT, zero, lowest), lowest,
		ht_xselect(b, ht_x2(b, HT_X_LT, highest, zero), highest, rounded(b, zero)));
	min = ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_SUB, lowest, zero), step);
	max = ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_SUB, highest, zero), step);
	per_step = ht_x2(b, HT_X_DIV, number(b, 1), step);
	first = ht_x1(b, HT_X_NEG, ht_x2(b, HT_X_MUL, min, per_step));
	first = ht_x1(b, HT_X_FLOOR, ht_x2(b, HT_X_ADD, first, number(b, 0.5)));
	x = ht_x2(b, HT_X_SUB, greater(b, lesser(b, x, max), min), min);
	x = ht_x2(b, HT_X_SUB, ht_x2(b, HT_X_MUL, x, per_step), first);
	x = ht_x1(b, HT_X_FLOOR, ht_x2(b, HT_X_ADD, x, number(b, 0.5)));
	return ht_x2(b, HT_X_MUL, x, step);
}

static int32_t pull_fake_quant(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_operand(k, n, 0, s), min, max, zero = number(b, 0), none;

	(void)out;
	if (n->op == HT_OP_FakeQuantWithMinMaxArgs)
		return to_grid(b, n, x, number(b, (double)ht_attr_float(n, "min", -6)),
			number(b, (double)ht_attr_float(n, "max", 6)));
	min = kb_operand(k, n, 1, s);
	max = kb_operand(k, n, 2, s);
	none = ht_x2(b, HT_X_AND, ht_x2(b, HT_X_EQ, min, zero), ht_x2(b, HT_X_EQ, max, zero));
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
