/* simplify: the simplest form of a new expression.
 *
 * Constants fold by the interpreter's own operations; identities that hold for every value go;
 * index arithmetic (I64 whose bounds are known, so that nothing overflows) is brought to sums of
 * products, with divisions taken out of what the divisor divides.  Never changes a value. */
#include "kernel/build.h"
#include "kernel/eval.h"

#include <math.h>
#include <string.h>

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

/* ---- constants ---- */

static bool foldable(enum ht_xop op)
{
	return op == HT_X_SELECT || (op >= HT_X_CVT && op <= HT_X_FLOORMOD);
}

static int64_t imm_of_bits(enum ht_dtype t, uint64_t bits)
{
	double f64;
	float f32;

	switch (t) {
	case HT_F64:
		memcpy(&f64, &bits, sizeof f64);
		return ht_x_imm(t, f64, 0);
	case HT_F32:
		memcpy(&f32, &bits, sizeof f32);
		return isnan(f32) ? (int64_t)(bits & UINT32_MAX) : ht_x_imm(t, f32, 0);
	case HT_F16:
	case HT_BF16:
		return (int64_t)(bits & UINT16_MAX);
	case HT_BOOL:
		return (bits & 0xff) != 0;
	default:
		return ht_x_imm(t, 0, (int64_t)bits);
	}
}

/* Division traps in C where HT_X_DIV is not defined: such an expression stays. */
static bool undefined_division(const struct ht_x *x, int64_t divisor)
{
	if (x->op == HT_X_FLOORDIV || x->op == HT_X_FLOORMOD)
		return divisor <= 0;
	return (x->op == HT_X_DIV || x->op == HT_X_REM) && !ht_is_float(x->dtype) &&
	       (divisor == 0 || divisor == -1);
}

static bool fold(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	int64_t v[3] = { 0 };
	const int32_t arg[3] = { x->a, x->b, x->c };
	uint64_t r = 0;

	if (!foldable(x->op))
		return false;
	for (int i = 0; i < ht_x_operands(x->op); i++)
		if (!ht_xb_const(b, arg[i], &v[i]))
			return false;
	if (undefined_division(x, v[1]))
		return false;
	ht_x_eval(x, ht_xb_at(b, x->a)->dtype, &r, &v[0], &v[1], &v[2], 1); /* little endian */
	*out = ht_xb_push(
		b, (struct ht_x){ HT_X_CONST, x->dtype, -1, -1, -1, imm_of_bits(x->dtype, r) });
	return true;
}

/* ---- helpers ---- */

static int32_t make2(struct ht_xb *b, enum ht_xop op, enum ht_dtype t, int32_t a, int32_t c)
{
	return ht_xb_make(b, (struct ht_x){ op, t, a, c, -1, 0 });
}

/* x is a constant float of exactly this value (and sign of zero). */
static bool is_float_const(const struct ht_xb *b, int32_t x, double want)
{
	int64_t imm;
	enum ht_dtype t = ht_xb_at(b, x)->dtype;

	return ht_is_float(t) && ht_xb_const(b, x, &imm) && imm == ht_x_imm(t, want, 0);
}

static bool is_int_const(const struct ht_xb *b, int32_t x, int64_t want)
{
	int64_t imm;
	enum ht_dtype t = ht_xb_at(b, x)->dtype;

	return !ht_is_float(t) && ht_xb_const(b, x, &imm) && imm == ht_x_imm(t, 0, want);
}

static bool is_one(const struct ht_xb *b, int32_t x)
{
	return is_float_const(b, x, 1) || is_int_const(b, x, 1);
}

static bool commutes(enum ht_xop op, enum ht_dtype t)
{
	switch (op) {
	case HT_X_MIN:
	case HT_X_MAX: /* of -0 and +0 they give the second */
		return !ht_is_float(t);
	case HT_X_ADD:
	case HT_X_MUL:
	case HT_X_AND:
	case HT_X_OR:
	case HT_X_XOR:
	case HT_X_EQ:
	case HT_X_NE:
	case HT_X_MULADD: /* its first two */
		return true;
	default:
		return false;
	}
}

/* Constants last, else in order of number: so that a+b and b+a are one. */
static void order(struct ht_xb *b, struct ht_x *x)
{
	int64_t unused;
	int32_t t = x->a;
	bool a_const = ht_xb_const(b, x->a, &unused), b_const = ht_xb_const(b, x->b, &unused);

	if (a_const == b_const ? x->a > x->b : a_const) {
		x->a = x->b;
		x->b = t;
	}
}

/* ---- index arithmetic ---- */

static bool index_known(const struct ht_xb *b, int32_t x)
{
	return b->range[x].known;
}

/* x = *base * *k, k constant. */
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

/* (y / c) * (c * k) + (y mod c) * k is y * k. */
static bool rejoin(
	struct ht_xb *b, int32_t quotient, int64_t qk, int32_t rest, int64_t rk, int32_t *out)
{
	const struct ht_x *q = ht_xb_at(b, quotient), *r = ht_xb_at(b, rest);
	int64_t c, joined;

	if (q->op != HT_X_FLOORDIV || r->op != HT_X_FLOORMOD || q->a != r->a || q->b != r->b)
		return false;
	if (!ht_xb_const(b, q->b, &c) || __builtin_mul_overflow(c, rk, &joined) || joined != qk)
		return false;
	*out = make2(b, HT_X_MUL, HT_I64, q->a, ht_xi(b, rk));
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
	*out = make2(b, HT_X_MUL, HT_I64, ub, ht_xi(b, k));
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
		*out = make2(b, HT_X_ADD, HT_I64, e.a, joined);
		return true;
	}
	if (add_term(b, e.a, v, &joined)) {
		*out = make2(b, HT_X_ADD, HT_I64, joined, e.b);
		return true;
	}
	return false;
}

/* Sums keep their constant last: (x + 1) + y is (x + y) + 1. */
static bool add_index(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a), v = *ht_xb_at(b, x->b);
	int64_t cu, cv;
	bool u_const = u.op == HT_X_ADD && ht_xb_const(b, u.b, &cu);
	bool v_const = v.op == HT_X_ADD && ht_xb_const(b, v.b, &cv);

	if (v.op == HT_X_CONST) {
		if (!u_const) /* wraps like the sums it stands for */
			return false;
		*out = make2(b, HT_X_ADD, HT_I64, u.a,
			ht_xi(b, (int64_t)((uint64_t)cu + (uint64_t)v.imm)));
		return true;
	}
	if (u_const || v_const) {
		int64_t c = (int64_t)((u_const ? (uint64_t)cu : 0) + (v_const ? (uint64_t)cv : 0));
		int32_t sum =
			make2(b, HT_X_ADD, HT_I64, u_const ? u.a : x->a, v_const ? v.a : x->b);

		*out = make2(b, HT_X_ADD, HT_I64, sum, ht_xi(b, c));
		return true;
	}
	if (v.op != HT_X_ADD && add_term(b, x->a, x->b, out))
		return true;
	return u.op != HT_X_ADD && v.op == HT_X_ADD && add_term(b, x->b, x->a, out);
}

/* x * k, k constant. */
static bool mul_index(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	int64_t k, c;

	if (!ht_xb_const(b, x->b, &k) || !ht_xb_const(b, u.b < 0 ? x->a : u.b, &c) || u.b < 0)
		return false;
	if (u.op == HT_X_MUL) {
		*out = make2(
			b, HT_X_MUL, HT_I64, u.a, ht_xi(b, (int64_t)((uint64_t)c * (uint64_t)k)));
		return true;
	}
	if (u.op == HT_X_ADD) {
		int32_t m = make2(b, HT_X_MUL, HT_I64, u.a, x->b);

		*out = make2(
			b, HT_X_ADD, HT_I64, m, ht_xi(b, (int64_t)((uint64_t)c * (uint64_t)k)));
		return true;
	}
	return false;
}

/* x = *q * c + *r with as much as is seen to be divisible in q. */
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
		*q = make2(b, HT_X_MUL, HT_I64, e.a, ht_xi(b, k / c));
		*r = ht_xi(b, 0);
	} else if (e.op == HT_X_ADD) {
		split(b, e.a, c, depth + 1, &qa, &ra);
		split(b, e.b, c, depth + 1, &qb, &rb);
		*q = make2(b, HT_X_ADD, HT_I64, qa, qb);
		*r = make2(b, HT_X_ADD, HT_I64, ra, rb);
	}
}

static bool div_index(struct ht_xb *b, const struct ht_x *x, int32_t *out)
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
		*out = quotient ? ht_xi(b, k) : make2(b, HT_X_ADD, HT_I64, x->a, ht_xi(b, -k * c));
		return true;
	}
	if (quotient && u.op == HT_X_FLOORDIV && ht_xb_const(b, u.b, &k) &&
		!__builtin_mul_overflow(k, c, &joined)) {
		*out = make2(b, HT_X_FLOORDIV, HT_I64, u.a, ht_xi(b, joined));
		return true;
	}
	if (!quotient && u.op == HT_X_FLOORMOD && ht_xb_const(b, u.b, &k) && k % c == 0) {
		*out = make2(b, HT_X_FLOORMOD, HT_I64, u.a, x->b);
		return true;
	}
	if (!range.known || u.op == HT_X_CONST)
		return false;
	split(b, x->a, c, 0, &q, &r);
	if (is_int_const(b, q, 0) || !index_known(b, q) || !index_known(b, r))
		return false;
	r = make2(b, x->op, HT_I64, r, x->b);
	*out = quotient ? make2(b, HT_X_ADD, HT_I64, q, r) : r;
	return true;
}

static bool compare_index(struct ht_xb *b, const struct ht_x *x, int32_t *out)
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
	*out = ht_xconst(b, HT_BOOL, 0, known);
	return true;
}

/* ---- any type ---- */

/* 1/c is a normal power of two, so that x / c is x * (1/c) exactly. */
static bool exact_inverse(const struct ht_xb *b, int32_t x, double *inverse)
{
	const struct ht_x *e = ht_xb_at(b, x);
	double d;
	float f;
	int exponent;

	if (e->op != HT_X_CONST || (e->dtype != HT_F32 && e->dtype != HT_F64))
		return false;
	memcpy(&f, &e->imm, sizeof f);
	memcpy(&d, &e->imm, sizeof d);
	if (e->dtype == HT_F32)
		d = (double)f;
	if (!isfinite(d) || fabs(frexp(d, &exponent)) != 0.5 || exponent < -100 || exponent > 100)
		return false;
	*inverse = 1 / d;
	return true;
}

static bool arithmetic(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	bool index = x->dtype == HT_I64, real = ht_is_float(x->dtype);
	double inverse;
	int64_t imm;

	switch (x->op) {
	case HT_X_ADD:
		*out = x->a;
		if (is_int_const(b, x->b, 0) || is_float_const(b, x->b, -0.0))
			return true;
		return index && add_index(b, x, out);
	case HT_X_SUB:
		*out = x->a;
		if (is_int_const(b, x->b, 0) || is_float_const(b, x->b, 0.0))
			return true;
		if (!real && x->a == x->b) {
			*out = ht_xconst(b, x->dtype, 0, 0);
			return true;
		}
		if (!index)
			return false;
		if (ht_xb_const(b, x->b, &imm))
			imm = (int64_t)(0 - (uint64_t)imm);
		else if (!index_known(b, x->a) || !index_known(b, x->b))
			return false;
		else {
			*out = make2(b, HT_X_ADD, HT_I64, x->a,
				make2(b, HT_X_MUL, HT_I64, x->b, ht_xi(b, -1)));
			return true;
		}
		*out = make2(b, HT_X_ADD, HT_I64, x->a, ht_xi(b, imm));
		return true;
	case HT_X_MUL:
		*out = x->a;
		if (is_one(b, x->b))
			return true;
		*out = x->b;
		if (is_int_const(b, x->b, 0))
			return true;
		return index && mul_index(b, x, out);
	case HT_X_DIV:
		*out = x->a;
		if (is_one(b, x->b))
			return true;
		if (!exact_inverse(b, x->b, &inverse))
			return false;
		*out = make2(b, HT_X_MUL, x->dtype, x->a, ht_xconst(b, x->dtype, inverse, 0));
		return true;
	case HT_X_MULADD:
		if (is_float_const(b, x->b, 1)) {
			*out = make2(b, HT_X_ADD, x->dtype, x->a, x->c);
			return true;
		}
		if (is_float_const(b, x->c, -0.0)) {
			*out = make2(b, HT_X_MUL, x->dtype, x->a, x->b);
			return true;
		}
		return false;
	case HT_X_MIN:
	case HT_X_MAX:
		*out = x->a;
		return x->a == x->b;
	case HT_X_NEG:
		*out = ht_xb_at(b, x->a)->a;
		return ht_xb_at(b, x->a)->op == HT_X_NEG;
	case HT_X_ABS:
		*out = x->a;
		return ht_xb_at(b, x->a)->op == HT_X_ABS;
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		return div_index(b, x, out);
	default:
		return false;
	}
}

static bool negated_compare(struct ht_xb *b, const struct ht_x *e, int32_t *out)
{
	static const enum ht_xop opposite[] = { [HT_X_EQ - HT_X_EQ] = HT_X_NE,
		[HT_X_NE - HT_X_EQ] = HT_X_EQ,
		[HT_X_LT - HT_X_EQ] = HT_X_LE,
		[HT_X_LE - HT_X_EQ] = HT_X_LT };
	bool ordered = e->op == HT_X_LT || e->op == HT_X_LE;

	if (!ht_x_is_compare(e->op) || (ordered && ht_is_float(ht_xb_at(b, e->a)->dtype)))
		return false; /* both a < b and b <= a are false on NaN */
	*out = make2(b, opposite[e->op - HT_X_EQ], HT_BOOL, ordered ? e->b : e->a,
		ordered ? e->a : e->b);
	return true;
}

static bool logic(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	int64_t all = x->dtype == HT_BOOL ? 1 : -1;

	switch (x->op) {
	case HT_X_AND:
	case HT_X_OR:
		*out = x->a;
		if (x->a == x->b || is_int_const(b, x->b, x->op == HT_X_AND ? all : 0))
			return true;
		*out = x->b;
		return is_int_const(b, x->b, x->op == HT_X_AND ? 0 : all);
	case HT_X_XOR:
		*out = x->a;
		return is_int_const(b, x->b, 0);
	case HT_X_NOT:
		*out = u.a;
		return u.op == HT_X_NOT || negated_compare(b, &u, out);
	case HT_X_SHL:
	case HT_X_SHR:
	case HT_X_SAR:
		*out = x->a;
		return is_int_const(b, x->b, 0);
	case HT_X_EQ:
	case HT_X_LE:
		*out = ht_xconst(b, HT_BOOL, 0, 1);
		return (x->a == x->b && !ht_is_float(u.dtype)) || compare_index(b, x, out);
	case HT_X_NE:
	case HT_X_LT:
		*out = ht_xconst(b, HT_BOOL, 0, 0);
		return (x->a == x->b && !ht_is_float(u.dtype)) || compare_index(b, x, out);
	default:
		return false;
	}
}

/* Every value of integer type `from` is one of type `to`. */
static bool widens(enum ht_dtype from, enum ht_dtype to)
{
	const struct ht_dtype_info *f = ht_dtype_info(from), *t = ht_dtype_info(to);
	bool f_signed = f->kind == HT_KIND_INT, t_signed = t->kind == HT_KIND_INT;

	if (f->kind == HT_KIND_BOOL)
		return t->kind == HT_KIND_INT || t->kind == HT_KIND_UINT;
	if ((!f_signed && f->kind != HT_KIND_UINT) || (!t_signed && t->kind != HT_KIND_UINT))
		return false;
	return f_signed == t_signed ? t->bytes >= f->bytes : t_signed && t->bytes > f->bytes;
}

static bool convert(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x u = *ht_xb_at(b, x->a);
	enum ht_dtype inner;

	if (u.op != HT_X_CVT)
		return false;
	inner = ht_xb_at(b, u.a)->dtype;
	if (widens(inner, u.dtype)) {
		*out = ht_xcvt(b, x->dtype, u.a); /* by way of a wider integer */
		return true;
	}
	if (inner != x->dtype)
		return false;
	/* There and back.  A bfloat16 from memory may be a subnormal, which the way flushes. */
	*out = u.a;
	if (u.dtype == HT_F32)
		return inner == HT_F16 || (inner == HT_BF16 && ht_xb_at(b, u.a)->op == HT_X_CVT);
	return u.dtype == HT_F64 && inner == HT_F32;
}

static bool choose(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x cond = *ht_xb_at(b, x->a);

	if (cond.op == HT_X_CONST || x->b == x->c) {
		*out = cond.op == HT_X_CONST && !cond.imm ? x->c : x->b;
		return true;
	}
	if (cond.op == HT_X_NOT) {
		*out = ht_xselect(b, cond.a, x->c, x->b);
		return true;
	}
	if (x->dtype == HT_BOOL && is_int_const(b, x->b, 1) && is_int_const(b, x->c, 0)) {
		*out = x->a;
		return true;
	}
	return false;
}

static bool simpler(struct ht_xb *b, const struct ht_x *x, int32_t *out)
{
	const struct ht_x *u = ht_xb_at(b, x->a);

	switch (x->op) {
	case HT_X_SELECT:
		return choose(b, x, out);
	case HT_X_CVT:
		return convert(b, x, out);
	case HT_X_BITCAST:
		*out = x->a;
		if (u->dtype == x->dtype)
			return true;
		if (u->op != HT_X_BITCAST)
			return false;
		*out = ht_xbitcast(b, x->dtype, u->a);
		return true;
	default:
		return arithmetic(b, x, out) || logic(b, x, out);
	}
}

int32_t ht_xb_make(struct ht_xb *b, struct ht_x x)
{
	int32_t out;

	if (commutes(x.op, x.dtype))
		order(b, &x);
	if (fold(b, &x, &out) || simpler(b, &x, &out))
		return out;
	return ht_xb_push(b, x);
}

/* ---- questions about expressions ---- */

/* Adds k times the change of x when `dim` grows by one to *step. */
static bool step_of(const struct ht_stage *s, int32_t i, int dim, int64_t *step)
{
	const struct ht_x *x = &s->x[i];
	int64_t l, r;

	*step = 0;
	if (!ht_x_uses_dim(s, i, dim))
		return true;
	switch (x->op) {
	case HT_X_DIM:
		*step = 1;
		return true;
	case HT_X_ADD:
	case HT_X_SUB:
		if (!step_of(s, x->a, dim, &l) || !step_of(s, x->b, dim, &r))
			return false;
		*step = x->op == HT_X_ADD ? l + r : l - r;
		return true;
	case HT_X_MUL:
		if (s->x[x->b].op != HT_X_CONST || !step_of(s, x->a, dim, &l))
			return false;
		return !__builtin_mul_overflow(l, s->x[x->b].imm, step);
	case HT_X_NEG:
		if (!step_of(s, x->a, dim, &l))
			return false;
		*step = -l;
		return true;
	default:
		return false;
	}
}

bool ht_x_step(const struct ht_stage *s, int32_t x, int dim, int64_t *step)
{
	return step_of(s, x, dim, step);
}

static bool red_uses_dim(const struct ht_stage *s, int64_t red, int dim)
{
	if (s->kind == HT_STAGE_CONTRACT)
		return dim < s->dims && !s->dim[dim].reduce;
	return ht_x_uses_dim(s, s->red[red].x, dim);
}

static bool uses_itself(const struct ht_stage *s, const struct ht_x *e, int dim)
{
	return (e->op == HT_X_DIM && e->imm == dim) ||
	       (e->op == HT_X_RED && red_uses_dim(s, e->imm, dim));
}

bool ht_x_uses_dim(const struct ht_stage *s, int32_t x, int dim)
{
	/* Marks by a walk from x down: operands have smaller numbers. */
	enum { MARKS = 8192 };
	uint8_t mark[MARKS];

	if (x < 0)
		return false;
	if (x >= MARKS) { /* rare: without marks */
		const struct ht_x *e = &s->x[x];

		return uses_itself(s, e, dim) || ht_x_uses_dim(s, e->a, dim) ||
		       ht_x_uses_dim(s, e->b, dim) || ht_x_uses_dim(s, e->c, dim);
	}
	memset(mark, 0, (size_t)x + 1);
	mark[x] = 1;
	for (int32_t i = x; i >= 0; i--) {
		const struct ht_x *e = &s->x[i];

		if (!mark[i])
			continue;
		if (uses_itself(s, e, dim))
			return true;
		if (e->a >= 0)
			mark[e->a] = 1;
		if (e->b >= 0)
			mark[e->b] = 1;
		if (e->c >= 0)
			mark[e->c] = 1;
	}
	return false;
}
