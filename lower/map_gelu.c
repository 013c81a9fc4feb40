/* Gelu and Silu, which mostly follow products.  For a short product they take half of the time.
 * Coefficients: bench/math/coefficients.py. */
#include "lower/index.h"
#include "kernel/math.h"

#include <math.h>

static const double log2_e = 1.44269504088896340736;

static int32_t gelu(struct ht_xb *b, enum ht_dtype t, int32_t x, bool approximate)
{
	int32_t half_x = ht_xmul(b, ht_xk(b, t, .5), x), y;

	if (approximate) {
		int32_t cube = ht_xmul(b, ht_xmul(b, x, x), x);
		y = ht_xmuladd(b, ht_xk(b, t, .044715), cube, x);
		y = ht_xtanh(b, ht_xmul(b, ht_xk(b, t, 0.7978845608028654), y));
	} else {
		y = ht_xerf(b, ht_xmul(b, x, ht_xk(b, t, 0.7071067811865476)));
	}
	return ht_xmul(b, half_x, ht_xadd(b, y, ht_xk(b, t, 1)));
}

/* x Phi(x), accurate relative to the result where Phi is small: Phi(-a) = e^(-a^2/2) u P(u) / 2,
 * u = 1 / (1 + c a).  If x was rounded to 16 bits, its square is exact. */
static int32_t gelu_low(struct ht_xb *b, int32_t x)
{
	static const double c[] = { 0x1.b0d2bcp-3, 0x1.b9bb48p-3, 0x1.555410p-3, 0x1.21db1cp-2,
		-0x1.096af2p-3, 0x1.8d3fcep-2, -0x1.14ad4cp-3 };
	int32_t one = ht_xf(b, 1), a = ht_xabs(b, x), e, u, p;

	e = ht_xexp(b, ht_xmul(b, ht_xmul(b, x, x), ht_xf(b, -.5)));
	u = ht_xmuladd(b, a, ht_xf(b, .375 * 0.7071067811865476), one);
	u = ht_xdiv(b, one, u);
	p = ht_xf(b, c[HT_COUNT(c) - 1]);
	for (int i = (int)HT_COUNT(c) - 2; i >= 0; i--)
		p = ht_xmuladd(b, p, u, ht_xf(b, c[i]));
	p = ht_xmul(b, ht_xmul(b, p, u), ht_xmul(b, e, ht_xf(b, .5)));
	p = ht_xselect(b, ht_xlt(b, x, ht_xf(b, 0)), p, ht_xsub(b, one, p));
	return ht_xmul(b, x, p);
}

/* ---- Phi as a power of two whose exponent is a polynomial ---- */

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
static const double magic = 0x1.8p23;

/* 2^r for |r| <= 1/2: for results of float32, and within 2^-18 for those of bfloat16. */
static const double power[] = { 1, 0x1.62e430p-1, 0x1.ebfbdap-3, 0x1.c6aed4p-5, 0x1.3b2dbcp-7,
	0x1.5f456ap-10, 0x1.41d342p-13 };
static const double power_bf16[] = { 0x1.ffffe8p-1, 0x1.62e0dcp-1, 0x1.ec06dap-3, 0x1.ca1442p-5,
	0x1.3997e0p-7 };

/* How Phi(-a) = 2^-P(a) is computed. */
struct phi {
	double most; /* a from which on Phi(-a) counts as 0 */
	double p[10];
	const double *power;
	int powers;
	int up; /* exponent of a factor that is removed at the end: Phi may be subnormal where
		 * its product with a is not */
};

/* Accurate to the last bits of 1 - Phi. */
static const struct phi phi = { .most = 5.5,
	.p = { -1, -0x1.26aec4p+0, -0x1.d63e5ap-2, -0x1.ad84cap-5, 0x1.c5ce70p-8, 0x1.72102ep-16,
		-0x1.2ea690p-12, 0x1.409784p-14, -0x1.498864p-17, 0x1.1d716ep-21 },
	.power = power,
	.powers = HT_COUNT(power) };

/* Relative error of Phi 2^-17, and Phi(0) is exactly 1/2. */
static const struct phi phi_bf16 = { .most = 13.25,
	.p = { -0x1.ffffdep-1, -0x1.26b88ep+0, -0x1.d54abep-2, -0x1.bd1502p-5, 0x1.20c23cp-7,
		-0x1.140f4cp-10, 0x1.708836p-14, -0x1.415b1ap-18, 0x1.469cccp-23, -0x1.241926p-29 },
	.power = power_bf16,
	.powers = HT_COUNT(power_bf16),
	.up = 8 };

static int32_t shift_to_exponent(struct ht_xb *b, int32_t x)
{
	return ht_xshli(b, ht_xas_int(b, x), 23);
}

/* x Phi(x) */
static int32_t gelu_by_power(struct ht_xb *b, int32_t x, const struct phi *f)
{
	int32_t shift = ht_xf(b, magic + f->up), one = ht_xf(b, ldexp(1, f->up)), p, t, q;
	int32_t below;

	p = HT_XPOLY(b, ht_xmost(b, ht_xabs(b, x), f->most), f->p);
	t = ht_xadd(b, p, shift);
	q = ht_xpoly(b, ht_xsub(b, p, ht_xsub(b, t, shift)), f->power, f->powers);
	q = ht_xbitcast(b, HT_F32, ht_xadd(b, ht_xas_int(b, q), shift_to_exponent(b, t)));
	below = ht_xselect(b, ht_xlt(b, ht_xf(b, -f->most), x), q, ht_xf(b, 0));
	q = ht_xselect(b, ht_xlt(b, x, ht_xf(b, 0)), below, ht_xsub(b, one, q));
	return ht_xmul(b, ht_xmul(b, x, ht_xf(b, ldexp(1, -f->up))), q);
}

/* x / (1 + e^-x).  Numerator and denominator are scaled by 2^-8, so that e^-x is finite where
 * the quotient is normal.  For lower x it is infinite; for higher x no term overflows. */
static int32_t silu_bf16(struct ht_xb *b, int32_t x)
{
	int32_t within = ht_xleast(b, ht_xmost(b, x, 82), -94.5), rate = ht_xf(b, -log2_e), t, n, e;
	int32_t shift = ht_xf(b, magic + 127 - 8), scale = ht_xf(b, 0x1p-8);

	t = ht_xmuladd(b, within, rate, shift);
	n = ht_xsub(b, t, shift);
	e = HT_XPOLY(b, ht_xmuladd(b, within, rate, ht_xneg(b, n)), power_bf16);
	e = ht_xmul(b, e, ht_xbitcast(b, HT_F32, shift_to_exponent(b, t)));
	return ht_xdiv(b, ht_xmul(b, x, scale), ht_xadd(b, e, scale));
}

/* Whether the result, of type t, is rounded to the node's own type, with no rounding before. */
static bool is_rounded_once(const struct ht_xb *b, enum ht_dtype own, enum ht_dtype t)
{
	return t == HT_F32 && own != t && !b->keep;
}

int32_t lower_gelu(struct ht_xb *b, const struct ht_node *n, int32_t x)
{
	enum ht_dtype own = ht_type_of(n->in[0])->dtype, t = operand_type(n, 0);

	if (ht_attr_bool(n, "approximate", false))
		return gelu(b, t, x, true);
	if (t == HT_F64 && own != HT_F64)
		return ht_xmul(b, ht_xmul(b, x, ht_xk(b, t, .5)),
			ht_xerfc(b, ht_xmul(b, x, ht_xk(b, t, -0.7071067811865476))));
	if (t == HT_F32 && own == t && b->accuracy == HT_ACCURACY_FULL)
		return gelu_by_power(b, x, &phi);
	if (is_rounded_once(b, own, t) && b->accuracy != HT_ACCURACY_SHORTEST)
		return own == HT_BF16 ? gelu_by_power(b, x, &phi_bf16) : gelu_low(b, x);
	return gelu(b, t, x, false);
}

int32_t lower_silu(struct ht_xb *b, const struct ht_node *n, int32_t x)
{
	enum ht_dtype own = ht_type_of(n->in[0])->dtype;

	/* This is faster even than the shortest Sigmoid. */
	if (own == HT_BF16 && is_rounded_once(b, own, operand_type(n, 0)))
		return silu_bf16(b, x);
	return ht_xmul(b, x, ht_xsigmoid(b, x));
}
