/* simplify_index: brings index arithmetic (I64 with known bounds, so that nothing overflows)
 * into the form of sums of products, and takes parts that are multiples of the divisor out of
 * divisions.  Values never change. */
#include "kernel/simplify.h"

#define RANGE_LIMIT ((int64_t)1 << 61)

static struct ht_xrange range_of(const struct ht_xb *b, int32_t i)
{
	return i < 0 ? (struct ht_xrange){ 0 } : b->range[i];
}

static struct ht_xrange bounded(int64_t lo, int64_t hi)
{
	return (struct ht_xrange){ lo >= -RANGE_LIMIT && hi <= RANGE_LIMIT && lo <= hi, lo, hi };
}

static struct ht_xrange product(struct ht_xrange a, struct ht_xrange c)
{
	int64_t v[4], lo, hi;

	if (__builtin_mul_overflow(a.lo, c.lo, &v[0]) ||
		__builtin_mul_overflow(a.lo, c.hi, &v[1]) ||
		__builtin_mul_overflow(a.hi, c.lo, &v[2]) ||
		__builtin_mul_overflow(a.hi, c.hi, &v[3]))
		return (struct ht_xrange){ 0 };
	lo = hi = v[0];
	for (int i = 1; i < 4; i++) {
		lo = v[i] < lo ? v[i] : lo;
		hi = v[i] > hi ? v[i] : hi;
	}
	return bounded(lo, hi);
}

static int64_t floor_div(int64_t a, int64_t c)
{
	HT_CHECK(c > 0);
	return a / c - (a % c < 0);
}

static struct ht_xrange range_mod(struct ht_xrange a, int64_t c)
{
	if (a.known && floor_div(a.lo, c) == floor_div(a.hi, c))
		return bounded(a.lo - floor_div(a.lo, c) * c, a.hi - floor_div(a.hi, c) * c);
	return bounded(0, c - 1);
}

struct ht_xrange ht_xb_range(const struct ht_xb *b, const struct ht_x *x)
{
	struct ht_xrange none = { 0 }, a = range_of(b, x->a), c = range_of(b, x->b);
	const struct ht_stage *s = b->stage;

	if (x->dtype != HT_I64)
		return none;
	switch (x->op) {
	case HT_X_CONST:
		return bounded(x->imm, x->imm);
	case HT_X_DIM:
		if (x->imm < s->dims && s->dim[x->imm].extent > 0)
			return bounded(0, s->dim[x->imm].extent - 1);
		return none;
	case HT_X_CHECK:
		return a;
	case HT_X_ADD:
		return a.known && c.known ? bounded(a.lo + c.lo, a.hi + c.hi) : none;
	case HT_X_SUB:
		return a.known && c.known ? bounded(a.lo - c.hi, a.hi - c.lo) : none;
	case HT_X_MUL:
		return a.known && c.known ? product(a, c) : none;
	case HT_X_MIN:
		if (!a.known || !c.known)
			return none;
		return bounded(a.lo < c.lo ? a.lo : c.lo, a.hi < c.hi ? a.hi : c.hi);
	case HT_X_MAX:
		if (!a.known || !c.known)
			return none;
		return bounded(a.lo > c.lo ? a.lo : c.lo, a.hi > c.hi ? a.hi : c.hi);
	case HT_X_SELECT:
		a = range_of(b, x->b);
		c = range_of(b, x->c);
		if (!a.known || !c.known)
			return none;
		return bounded(a.lo < c.lo ? a.lo : c.lo, a.hi > c.hi ? a.hi : c.hi);
	case HT_X_FLOORDIV:
		if (!a.known || c.lo <= 0)
			return none;
		return bounded(floor_div(a.lo, c.lo), floor_div(a.hi, c.lo));
	case HT_X_FLOORMOD:
		return c.lo > 0 ? range_mod(a, c.lo) : none;
	case HT_X_CVT:
		switch (ht_xb_at(b, x->a)->dtype) {
		case HT_BOOL:
			return bounded(0, 1);
		case HT_I8:
			return bounded(INT8_MIN, INT8_MAX);
		case HT_U8:
			return bounded(0, UINT8_MAX);
		case HT_I16:
			return bounded(INT16_MIN, INT16_MAX);
		case HT_U16:
			return bounded(0, UINT16_MAX);
		case HT_I32:
			return bounded(INT32_MIN, INT32_MAX);
		case HT_U32:
			return bounded(0, UINT32_MAX);
		default:
			return none;
		}
	default:
		return none;
	}
}

static bool index_known(const struct ht_xb *b, int32_t x)
{
	return b->range[x].known;
}

/* x = *base * *k, where k is a constant. */
static void scaled(const struct ht_xb *b, int32_t x, int32_t *base, int64_t *k)
{
	const struct ht_x *e = ht_xb_at(b, x);
	int64_t imm;

	*base = x;
	*k = 1;
	if (e->op == HT_X_MUL && ht_xb_const(b, e->b, &imm)) {
		*base = e->a;
		*k = imm;
	}
}

/* (y / c) * (c * k) + (y mod c) * k becomes y * k. */
static bool rejoin(
	struct ht_xb *b, int32_t quotient, int64_t qk, int32_t rest, int64_t rk, int32_t *out)
{
	const struct ht_x *q = ht_xb_at(b, quotient), *r = ht_xb_at(b, rest);
	int64_t c, joined;

	if (q->op != HT_X_FLOORDIV || r->op != HT_X_FLOORMOD || q->a != r->a || q->b != r->b)
		return false;
	if (!ht_xb_const(b, q->b, &c) || __builtin_mul_overflow(c, rk, &joined) || joined != qk)
		return false;
	*out = ht_xmul(b, q->a, ht_xi(b, rk));
	return true;
}

/* The sum of two terms as one term. */
static bool join_terms(struct ht_xb *b, int32_t u, int32_t v, int32_t *out)
{
	int32_t ub, vb;
	int64_t uk, vk, k;

	if (!index_known(b, u) || !index_known(b, v))
		return false;
	scaled(b, u, &ub, &uk);
	scaled(b, v, &vb, &vk);
	if (rejoin(b, ub, uk, vb, vk, out) || rejoin(b, vb, vk, ub, uk, out))
		return true;
	if (ub != vb || ht_xb_at(b, ub)->op == HT_X_CONST || __builtin_add_overflow(uk, vk, &k))
		return false;
	*out = ht_xmul(b, ub, ht_xi(b, k));
	return true;
}

/* u + v where v is a single term and u may be a sum. */
static bool add_term(struct ht_xb *b, int32_t u, int32_t v, int32_t *out)
{
	const struct ht_x e = *ht_xb_at(b, u);
	int32_t joined;

	if (join_terms(b, u, v, out))
		return true;
	if (e.op != HT_X_ADD)
		return false;
	if (join_terms(b, e.b, v, &joined)) {
		*out = ht_xadd(b, e.a, joined);
		return true;
	}
	if (add_term(b, e.a, v, &joined)) {
		*out = ht_xadd(b, joined, e.b);
		return true;
	}
	return false;
}

/* Sums keep their constant last: (x + 1) + y becomes (x + y) + 1. */
bool ht_simplify_add(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a), v = *ht_xb_at(b, x->b);
	int64_t cu, cv;
	bool u_const = u.op == HT_X_ADD && ht_xb_const(b, u.b, &cu);
	bool v_const = v.op == HT_X_ADD && ht_xb_const(b, v.b, &cv);

	if (v.op == HT_X_CONST) {
		if (!u_const) /* it wraps like the sums that it replaces */
			return false;
		*out = ht_xadd(b, u.a, ht_xi(b, (int64_t)((uint64_t)cu + (uint64_t)v.imm)));
		return true;
	}
	if (u_const || v_const) {
		int64_t c = (int64_t)((u_const ? (uint64_t)cu : 0) + (v_const ? (uint64_t)cv : 0));
		int32_t sum = ht_xadd(b, u_const ? u.a : x->a, v_const ? v.a : x->b);

		*out = ht_xadd(b, sum, ht_xi(b, c));
		return true;
	}
	if (v.op != HT_X_ADD && add_term(b, x->a, x->b, out))
		return true;
	return u.op != HT_X_ADD && v.op == HT_X_ADD && add_term(b, x->b, x->a, out);
}

/* x - y becomes x + -y: a constant is negated, another value is multiplied by -1. */
bool ht_simplify_sub(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	int64_t imm;
	int32_t negative;

	if (ht_xb_const(b, x->b, &imm))
		negative = ht_xi(b, (int64_t)(0 - (uint64_t)imm));
	else if (index_known(b, x->a) && index_known(b, x->b))
		negative = ht_xmul(b, x->b, ht_xi(b, -1));
	else
		return false;
	*out = ht_xadd(b, x->a, negative);
	return true;
}

/* x * k, k constant. */
bool ht_simplify_mul(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	int64_t k, c;

	if (!ht_xb_const(b, x->b, &k) || !ht_xb_const(b, u.b < 0 ? x->a : u.b, &c) || u.b < 0)
		return false;
	if (u.op == HT_X_MUL) {
		*out = ht_xmul(b, u.a, ht_xi(b, (int64_t)((uint64_t)c * (uint64_t)k)));
		return true;
	}
	if (u.op == HT_X_ADD) {
		int32_t m = ht_xmul(b, u.a, x->b);

		*out = ht_xadd(b, m, ht_xi(b, (int64_t)((uint64_t)c * (uint64_t)k)));
		return true;
	}
	return false;
}

/* x = *q * c + *r, where *q has as much of x as is known to be divisible. */
static void split(struct ht_xb *b, int32_t x, int64_t c, int depth, int32_t *q, int32_t *r)
{
	const struct ht_x e = *ht_xb_at(b, x);
	int64_t k;
	int32_t qa, ra, qb, rb;

	*q = ht_xi(b, 0);
	*r = x;
	if (depth > 16)
		return;
	if (e.op == HT_X_CONST) {
		*q = ht_xi(b, floor_div(e.imm, c));
		*r = ht_xi(b, e.imm - floor_div(e.imm, c) * c);
	} else if (e.op == HT_X_MUL && ht_xb_const(b, e.b, &k) && k % c == 0) {
		*q = ht_xmul(b, e.a, ht_xi(b, k / c));
		*r = ht_xi(b, 0);
	} else if (e.op == HT_X_ADD) {
		split(b, e.a, c, depth + 1, &qa, &ra);
		split(b, e.b, c, depth + 1, &qb, &rb);
		*q = ht_xadd(b, qa, qb);
		*r = ht_xadd(b, ra, rb);
	}
}

bool ht_simplify_div(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	bool quotient = x->op == HT_X_FLOORDIV;
	struct ht_xrange range = b->range[x->a];
	int64_t c, k, joined;
	int32_t q, r;

	HT_CHECK(ht_xb_const(b, x->b, &c) && c > 0);
	if (c == 1) {
		*out = quotient ? x->a : ht_xi(b, 0);
		return true;
	}
	if (range.known && floor_div(range.lo, c) == floor_div(range.hi, c)) {
		k = floor_div(range.lo, c);
		*out = quotient ? ht_xi(b, k) : ht_xadd(b, x->a, ht_xi(b, -k * c));
		return true;
	}
	if (quotient && u.op == HT_X_FLOORDIV && ht_xb_const(b, u.b, &k) &&
		!__builtin_mul_overflow(k, c, &joined)) {
		*out = ht_xfloordiv(b, u.a, ht_xi(b, joined));
		return true;
	}
	if (!quotient && u.op == HT_X_FLOORMOD && ht_xb_const(b, u.b, &k) && k % c == 0) {
		*out = ht_xfloormod(b, u.a, x->b);
		return true;
	}
	if (!range.known || u.op == HT_X_CONST)
		return false;
	split(b, x->a, c, 0, &q, &r);
	if (is_int_const(b, q, 0) || !index_known(b, q) || !index_known(b, r))
		return false;
	r = ht_x2(b, x->op, r, x->b);
	*out = quotient ? ht_xadd(b, q, r) : r;
	return true;
}

bool ht_simplify_compare(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	struct ht_xrange a = range_of(b, x->a), c = range_of(b, x->b);
	int known = -1;

	if (!a.known || !c.known)
		return false;
	if (x->op == HT_X_LT)
		known = a.hi < c.lo ? 1 : a.lo >= c.hi ? 0 : -1;
	else if (x->op == HT_X_LE)
		known = a.hi <= c.lo ? 1 : a.lo > c.hi ? 0 : -1;
	else if (a.hi < c.lo || a.lo > c.hi)
		known = x->op == HT_X_NE;
	if (known < 0)
		return false;
	*out = ht_xint(b, HT_BOOL, known);
	return true;
}
