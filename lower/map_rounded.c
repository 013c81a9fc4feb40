/* Rounding to formats that the machine may lack (base/float_format.h), with integer
 * instructions.
 *
 * Kernels compute the same bits as ht_format_round().  The bits of a positive float32, read as
 * an integer, have the order of the numbers.  So limits are compared as integers, and subnormals
 * of float32 keep their value even where arithmetic flushes them to zero. */
#include "base/float_format.h"
#include "lower/index.h"

#include <math.h>
#include <string.h>

enum { FRACTION = 23 }; /* bits of float32's */

/* Rounding of one element. */
struct rounding_of {
	struct ht_xb *b;
	const struct ht_float_format *f;
	int32_t bits, size; /* the element as U32, and that without its sign */
	int32_t draw;       /* the random number, U32; -1: round to nearest */
};

static int32_t u32(const struct rounding_of *r, uint32_t u)
{
	return ht_xint(r->b, HT_U32, u);
}

static int32_t bits_of(const struct rounding_of *r, float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u32(r, u);
}

static int32_t as_bits(struct ht_xb *b, int32_t x)
{
	return ht_xbitcast(b, HT_U32, x);
}

static int32_t as_float(struct ht_xb *b, int32_t u)
{
	return ht_xbitcast(b, HT_F32, u);
}

/* ---- random numbers for stochastic rounding ---- */

/* (h ^ h >> by) * factor */
static int32_t stir(const struct rounding_of *r, int32_t h, int by, uint32_t factor)
{
	return ht_xmul(r->b, ht_xxor(r->b, h, ht_xshri(r->b, h, by)), u32(r, factor));
}

/* Computes ht_format_draw(). */
static int32_t draw(const struct rounding_of *r, int32_t index)
{
	struct ht_xb *b = r->b;
	int32_t h = ht_xmul(b, ht_xcvt(b, HT_U32, index), u32(r, 0x9e3779b1U));

	h = ht_xadd(b, h, u32(r, r->f->seed));
	h = ht_xxor(b, h, ht_xmul(b, r->bits, u32(r, 0x85ebca77U)));
	h = stir(r, h, 16, 0x85ebca6bU);
	h = stir(r, h, 13, 0xc2b2ae35U);
	return ht_xxor(b, h, ht_xshri(b, h, 16));
}

/* ---- magnitudes ---- */

/* For formats with float32's exponents: the low bits of the fraction are rounded away, of
 * subnormals too.  If the format has no fraction, a tie between two powers of 2 goes up. */
static int32_t without_low_bits(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	int drop = FRACTION - r->f->mantissa;
	uint32_t mask = (1U << drop) - 1;
	int32_t half;

	if (r->f->scale) {
		half = ht_xlt(b, r->size, u32(r, 1U << FRACTION));
		half = ht_xselect(b, half, u32(r, mask >> 1), u32(r, (mask >> 1) + 1));
	} else if (r->draw < 0) {
		half = ht_xand(b, ht_xshri(b, r->size, drop), u32(r, 1));
		half = ht_xadd(b, half, u32(r, mask >> 1));
	} else {
		half = ht_xlt(
			b, ht_xshri(b, r->draw, 32 - drop), ht_xand(b, r->size, u32(r, mask)));
		half = ht_xselect(b, half, u32(r, mask), u32(r, 0));
	}
	return ht_xand(b, ht_xadd(b, r->size, half), u32(r, ~mask));
}

/* The bits of 2^n, where n is the exponent of the magnitude, or the format's least exponent if
 * that is larger. */
static int32_t power_below(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	int32_t least = bits_of(r, (float)ht_format_least_normal(r->f));
	int32_t size = ht_xselect(b, ht_xlt(b, r->size, least), least, r->size);

	return ht_xand(b, size, u32(r, 0x7f800000));
}

/* Adds and subtracts a power of 2 that is so large that its last bit is the distance of the
 * format's numbers: float32's addition then rounds to nearest. */
static int32_t by_adding(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	uint32_t up = (uint32_t)(FRACTION - r->f->mantissa) << FRACTION;
	int32_t large = as_float(b, ht_xadd(b, power_below(r), u32(r, up)));

	return as_bits(b, ht_xsub(b, ht_xadd(b, as_float(b, r->size), large), large));
}

/* n * step, or (n + 1) * step if the random number is below the remainder. */
static int32_t by_drawing(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	uint32_t down = (uint32_t)r->f->mantissa << FRACTION;
	int32_t power = power_below(r), steps, whole, drawn, more;
	int32_t step = as_float(b, ht_xsub(b, power, u32(r, down)));
	int32_t per_step = as_float(b, ht_xsub(b, u32(r, (254U << FRACTION) + down), power));

	steps = ht_xmul(b, as_float(b, r->size), per_step);
	whole = ht_xfloor(b, steps);
	drawn = ht_xaddi(b, ht_xshli(b, ht_xshri(b, r->draw, 9), 1), 1);
	drawn = ht_xmul(b, ht_xcvt(b, HT_F32, ht_xbitcast(b, HT_I32, drawn)), ht_xf(b, 0x1p-24));
	more = ht_xlt(b, drawn, ht_xsub(b, steps, whole));
	more = ht_xselect(b, more, ht_xf(b, 1), ht_xf(b, 0));
	return as_bits(b, ht_xmul(b, ht_xadd(b, whole, more), step));
}

static int32_t rounded_size(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	int32_t size, least;

	if (ht_format_least_exponent(r->f) <= -126)
		size = without_low_bits(r);
	else
		size = r->draw < 0 ? by_adding(r) : by_drawing(r);
	if (r->f->subnormals || r->f->scale)
		return size;
	least = bits_of(r, (float)ht_format_least_normal(r->f));
	return ht_xselect(b, ht_xlt(b, size, least), u32(r, 0), size);
}

/* ---- limits and signs ---- */

static int32_t is_beyond(const struct rounding_of *r, int32_t size)
{
	if (r->draw < 0)
		return ht_xle(r->b, bits_of(r, ht_format_overflow(r->f)), r->size);
	return ht_xor(r->b, ht_xlt(r->b, bits_of(r, (float)ht_format_largest(r->f)), size),
		ht_xle(r->b, u32(r, 0x7f800000), r->size));
}

/* The bits of magnitude `size` with the element's sign. */
static int32_t with_sign(const struct rounding_of *r, int32_t size)
{
	struct ht_xb *b = r->b;
	int32_t sign = ht_xand(b, r->bits, u32(r, 0x80000000));
	int32_t nan = ht_xlt(b, u32(r, 0x7f800000), size), zero = ht_xeq(b, size, u32(r, 0));

	if (r->f->nan == HT_FORMAT_NAN_ZERO) {
		sign = ht_xselect(b, nan, u32(r, 0x80000000), sign);
		sign = ht_xselect(b, zero, u32(r, 0), sign);
	}
	return ht_xor(b, size, sign);
}

static int32_t rounded(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	const int32_t infinity = u32(r, 0x7f800000), nan = u32(r, 0x7fc00000);
	int32_t size = rounded_size(r), u, is_nan = ht_xlt(b, infinity, r->size);
	float beyond = ht_format_beyond(r->f);

	size = ht_xselect(b, is_beyond(r, size), isnan(beyond) ? nan : bits_of(r, beyond), size);
	if (!isnan(beyond) && r->f->nan != HT_FORMAT_NAN_NONE)
		size = ht_xselect(b, is_nan, nan, size);
	u = with_sign(r, size);
	if (r->f->nan == HT_FORMAT_NAN_NONE)
		u = ht_xselect(b, is_nan, ht_xand(b, ht_xnot(b, r->bits), u32(r, 0x80000000)), u);
	return as_float(b, u);
}

/* Formats of powers of 2 alone: zero, negative numbers and infinity become NaN. */
static int32_t rounded_scale(const struct rounding_of *r)
{
	struct ht_xb *b = r->b;
	int32_t size = rounded_size(r), top = u32(r, 0x7f800000), wrong;

	size = ht_xselect(b, ht_xeq(b, size, u32(r, 0)), bits_of(r, 0x1p-127F), size);
	wrong = ht_xor(b, ht_xle(b, top, size), ht_xeq(b, r->bits, u32(r, 0)));
	wrong = ht_xor(b, wrong, ht_xle(b, u32(r, 0x80000000), r->bits));
	return as_float(b, ht_xselect(b, wrong, u32(r, 0x7fc00000), size));
}

static int32_t round_element(
	struct ht_xb *b, const struct ht_float_format *f, int32_t x, int32_t index)
{
	struct rounding_of r = { .b = b, .f = f, .bits = as_bits(b, x), .draw = -1 };
	enum ht_dtype t = ht_format_dtype(f);

	if (t == HT_F16) /* every machine converts to it, subnormals included */
		return ht_xcvt(b, HT_F32, ht_xcvt(b, t, x));
	r.size = ht_xand(b, r.bits, u32(&r, 0x7fffffff));
	if (f->stochastic)
		r.draw = draw(&r, index);
	return f->scale ? rounded_scale(&r) : rounded(&r);
}

/* ---- ops ---- */

bool lower_rounds_to_format(const struct ht_node *n)
{
	return n->op == HT_OP__Rounded || n->op == HT_OP__RoundedBlock;
}

bool lower_rounded_format(const struct ht_node *n, struct ht_float_format *f)
{
	return ht_format_parse(ht_attr_str(n, "format", ""), "", NULL, f) == HT_OK;
}

static int32_t pull_rounded(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	int32_t x = kb_operand(k, n, 0, s);
	struct ht_float_format f;

	(void)out;
	if (lower_stays_wide(k->l, k->sink, n))
		return x;
	HT_CHECK(lower_rounded_format(n, &f));
	return round_element(&k->xb, &f, x, space_linear(&k->xb, s));
}

/* Operand 1 is the largest magnitude of the element's block. */
static int32_t pull_rounded_block(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_operand(k, n, 0, s), most = as_bits(b, kb_operand(k, n, 1, s)), e, y;
	struct ht_float_format f;
	struct rounding_of r = { .b = b, .f = &f };
	int32_t least;

	(void)out;
	HT_CHECK(lower_rounded_format(n, &f));
	least = (1 + ht_format_greatest_exponent(&f)) << FRACTION;
	e = ht_xand(b, most, u32(&r, 0x7f800000));
	e = ht_xselect(b, ht_xlt(b, e, u32(&r, (uint32_t)least)), u32(&r, (uint32_t)least), e);
	e = ht_xsub(b, e, u32(&r, (uint32_t)least - (1U << FRACTION)));
	y = ht_xmul(b, x, as_float(b, ht_xsub(b, u32(&r, 254U << FRACTION), e)));
	y = ht_xmul(b, round_element(b, &f, y, space_linear(b, s)), as_float(b, e));
	return ht_xselect(b, ht_xle(b, u32(&r, 0x7f800000), most), ht_xf(b, NAN), y);
}

static const char *refuse_rounded(const struct ht_node *n)
{
	struct ht_float_format f;

	return lower_rounded_format(n, &f) ? NULL
					   : "has an attribute format that names no number format";
}

const struct lower_op lower_rounded = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_rounded, .refuse = refuse_rounded
};
const struct lower_op lower_rounded_block = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_rounded_block, .refuse = refuse_rounded
};
