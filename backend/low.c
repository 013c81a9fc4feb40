/* Sums, products and roundings of numbers of 16 bits by cheaper instructions than those of F32, with the same
 * bits. */
#include "backend/emit.h"

#include <math.h>
#include <string.h>

int32_t ht_e_widened(const struct ht_stage *s, int32_t i)
{
	const struct ht_x *x = &s->x[i];

	return x->op == HT_X_CVT && x->dtype == HT_F32 && s->x[x->a].dtype == HT_BF16 ? x->a : -1;
}

/* Whether expression i is only used rounded to BF16, possibly clamped before. */
static bool only_rounded(const struct ht_stage *s, int32_t i)
{
	for (int32_t j = i + 1; j < s->xs; j++) {
		const struct ht_x *x = &s->x[j];

		if (x->a != i && x->b != i && x->c != i)
			continue;
		if ((x->op == HT_X_MIN || x->op == HT_X_MAX)
				? !only_rounded(s, j)
				: x->op != HT_X_CVT || x->dtype != HT_BF16)
			return false;
	}
	for (int32_t j = 0; j < s->reds; j++)
		if (s->red[j].x == i)
			return false;
	for (int32_t j = 0; j < s->stores; j++)
		if (s->store[j].value == i)
			return false;
	return true;
}

/* The sum of two BF16 numbers, rounded to BF16, by a dot product of pairs: one number times 1,
 * plus 0 times -0.  That instruction flushes subnormals itself; a conversion needs several steps
 * for it.  NULL: x is not such a sum. */
static LLVMValueRef add_bf16(struct ht_e *e, int32_t i, LLVMValueRef a, LLVMValueRef b)
{
	const struct ht_stage *s = e->s;
	const struct ht_x *x = &s->x[i];
	int32_t first = ht_e_widened(s, x->a), second = ht_e_widened(s, x->b);
	LLVMTypeRef pairs = ht_e_form(e->i32, ht_e_lanes_of(a));
	LLVMValueRef v;
	bool swap;

	if (x->dtype != HT_F32 || !ht_e_has_dot(e, ht_e_lanes_of(a)) || first < 0 || second < 0 ||
		!only_rounded(s, i))
		return NULL;
	/* The operand from further in, or from memory, needs no conversion then. */
	swap = e->info[first].home != e->info[second].home
		       ? e->info[first].home < e->info[second].home
		       : s->x[first].op != HT_X_LOAD;
	v = LLVMBuildZExt(e->b, ht_e_get(e, swap ? second : first, true), pairs, "");
	return ht_e_dot(e, swap ? a : b, v, ht_e_int(e, pairs, (int32_t)0x80003f80));
}

/* Whether x was just rounded to F16. */
static bool rounded_half(const struct ht_stage *s, int32_t i)
{
	const struct ht_x *x = &s->x[i];

	return x->op == HT_X_CVT && x->dtype == HT_F32 && s->x[x->a].op == HT_X_CVT &&
	       s->x[x->a].dtype == HT_F16;
}

/* A constant 1 that LLVM does not recognise as such. */
static LLVMValueRef opaque_one(struct ht_e *e, LLVMTypeRef t)
{
	LLVMBuilderRef b;
	LLVMValueRef slot;

	if (e->one && LLVMTypeOf(e->one) == t)
		return e->one;
	b = LLVMCreateBuilderInContext(e->c);
	LLVMPositionBuilderBefore(b, LLVMGetBasicBlockTerminator(e->entry));
	slot = LLVMBuildAlloca(b, t, "one");
	LLVMBuildStore(b, ht_e_real(t, 1), slot);
	e->one = LLVMBuildLoad2(b, t, slot, "");
	LLVMSetVolatile(e->one, true);
	LLVMDisposeBuilder(b);
	return e->one;
}

static bool multiplies_and_adds(const struct ht_stage *s)
{
	for (int32_t i = 0; i < s->xs; i++)
		if (s->x[i].op == HT_X_MULADD)
			return true;
	return false;
}

/* An addition competes with conversions for their units; a multiply-add does not, unless a
 * function keeps its units busy.  With a multiply-add, rounding, adding and rounding again takes
 * 6.5 cycles a vector on a Zen 4 instead of 7.7. */
static LLVMValueRef add_half(struct ht_e *e, int32_t i, LLVMValueRef a, LLVMValueRef b)
{
	const struct ht_x *x = &e->s->x[i];

	if (x->dtype != HT_F32 || ht_e_lanes_of(a) == 1 || !e->t->fused ||
		multiplies_and_adds(e->s) ||
		(!rounded_half(e->s, x->a) && !rounded_half(e->s, x->b)))
		return NULL;
	return ht_e_muladd(e, a, opaque_one(e, LLVMTypeOf(a)), b);
}

/* Like add_bf16(): the product of two BF16 numbers, plus 0 times -0, so that a zero keeps its
 * sign. */
LLVMValueRef ht_e_multiply_low(struct ht_e *e, int32_t i)
{
	const struct ht_stage *s = e->s;
	const struct ht_x *x = &s->x[i];
	int32_t first = ht_e_widened(s, x->a), second = ht_e_widened(s, x->b);
	LLVMTypeRef pairs = ht_e_form(e->i32, e->vl);
	LLVMValueRef a, b, minus = ht_e_int(e, pairs, INT32_MIN);

	if (x->dtype != HT_F32 || !ht_e_is_vector(e, i) || !ht_e_has_dot(e, e->vl) || first < 0 ||
		second < 0 || !only_rounded(s, i))
		return NULL;
	a = LLVMBuildZExt(e->b, ht_e_get(e, first, true), pairs, "");
	b = LLVMBuildZExt(e->b, ht_e_get(e, second, true), pairs, "");
	return ht_e_dot(e, LLVMBuildBitCast(e->b, minus, ht_e_form(e->f32, e->vl), ""), a,
		LLVMBuildOr(e->b, b, minus, ""));
}

LLVMValueRef ht_e_add_low(struct ht_e *e, int32_t i, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef v = add_bf16(e, i, a, b);

	return v ? v : add_half(e, i, a, b);
}

/* ---- roundings between limits ---- */

/* The constant of operation `op` of F32 at i; NaN: it is none with a constant. */
static float limit(const struct ht_stage *s, int32_t i, enum ht_xop op)
{
	const struct ht_x *x = &s->x[i];
	float f = NAN;

	if (x->op == op && x->dtype == HT_F32 && s->x[x->b].op == HT_X_CONST)
		memcpy(&f, &s->x[x->b].imm, sizeof f);
	return f;
}

/* Of a value that expression i limits to 0 and a number above: what is limited, and the upper limit as an expression.  The latter is
 * so far below the largest F32 that 65536 times it is one too. */
static bool limits(const struct ht_stage *s, int32_t i, int32_t *of, int32_t *upper)
{
	const struct ht_x *outer = &s->x[i], *inner;
	const bool min = outer->op == HT_X_MIN;
	float low, high;

	if (!min && outer->op != HT_X_MAX)
		return false;
	inner = &s->x[outer->a];
	low = min ? limit(s, outer->a, HT_X_MAX) : limit(s, i, HT_X_MAX);
	high = min ? limit(s, i, HT_X_MIN) : limit(s, outer->a, HT_X_MIN);
	*of = inner->a;
	*upper = min ? outer->b : inner->b;
	return low == 0 && high >= 0x1p-100F && high <= 0x1p100F;
}

/* Whether a multiplication, a comparison and a multiply-add take less time than to narrow and to widen. */
static bool multiplies_cheaper(const struct ht_e *e)
{
	const struct ht_rates *r = e->t->rates;

	return e->t->fused && 3 < r->products * (e->t->narrows_bf16 ? r->convert : r->convert_bits);
}

/* 65536 x - r(65535 x), where r rounds to F32, is x rounded to the 8 bits of BF16, ties to even: 65535 x = 65536 x - x, and one unit in the
 * last place of it is one of a BF16 number as large as x, of which 65536 x is a multiple, an even one where x is in the middle of
 * two.  (Below 2^e (1 + 2^-16), for the least number 2^e of an exponent, the unit is half as large; x is rounded to 2^e there too.)  What is
 * below the normal numbers becomes 0, so the lower limit needs no operation. */
LLVMValueRef ht_e_round_limited(struct ht_e *e, int32_t i, bool vector)
{
	int32_t of, upper;
	LLVMValueRef v, less, normal;
	LLVMTypeRef t;

	if (!multiplies_cheaper(e) || !limits(e->s, i, &of, &upper))
		return NULL;
	v = ht_e_minmax(e, ht_e_get(e, of, vector), ht_e_get(e, upper, vector), HT_F32, false);
	t = LLVMTypeOf(v);
	normal = LLVMBuildFCmp(e->b, LLVMRealUGE, v, ht_e_real(t, 0x1p-126), "");
	less = LLVMBuildFMul(e->b, v, ht_e_real(t, 65535), "");
	v = ht_e_muladd(e, v, ht_e_real(t, 65536), LLVMBuildFNeg(e->b, less, ""));
	return ht_e_select(e, normal, v, LLVMConstNull(t));
}
