/* Upper bounds of index expressions, each a product of sizes and a number more.  What has no such bound has that of the largest sizes. */
#include "kernel/reach.h"

#include <stdlib.h>

/* Numbers are no larger, so that sums and products of two of them fit. */
#define LIMIT ((int64_t)1 << 30)
#define LIMIT_OF_SUM ((int64_t)1 << 40)

/* lo <= x <= hi, and x <= up / divisor + add, where `up` is a product of sizes or 0. */
struct bound {
	bool known;
	bool exact; /* x is `up`, a product of sizes */
	int64_t lo, hi;
	struct ht_size_expr up;
	int64_t divisor, add;
};

struct reach {
	const struct ht_kernel *k;
	const struct ht_stage *s;
	const struct ht_reach_sizes *sizes;
	struct bound *x; /* by expression of the stage */
};

static const struct bound unknown = { .known = false };

static int64_t ceil_div(int64_t a, int64_t b)
{
	return -ht_floor_div(-a, b);
}

static struct bound constant(int64_t lo, int64_t hi)
{
	return (struct bound){
		.known = true, .lo = lo, .hi = hi, .up = ht_size_number(0), .divisor = 1, .add = hi
	};
}

static bool is_constant(const struct bound *b)
{
	return b->up.times == 0;
}

/* The value of a product for all sizes at their most or least; LIMIT_OF_SUM: it is larger than is kept. */
static int64_t value_of(const struct reach *r, const struct ht_size_expr *e, bool most)
{
	int64_t n;

	if (!ht_size_checked(e, most ? r->sizes->most : r->sizes->least, &n) || n > LIMIT_OF_SUM)
		return LIMIT_OF_SUM;
	return n;
}

static int64_t highest(const struct reach *r, const struct bound *b)
{
	return ceil_div(value_of(r, &b->up, true), b->divisor) + b->add;
}

/* What is too large is not known, and a bound by sizes is given up where a number is as low. */
static struct bound settled(const struct reach *r, struct bound b)
{
	int64_t n;

	if (!b.known || b.lo > b.hi || b.lo < -LIMIT_OF_SUM || b.hi > LIMIT_OF_SUM)
		return unknown;
	if (is_constant(&b))
		return constant(b.lo, b.hi < b.add ? b.hi : b.add);
	if (ht_size_is_none(&b.up) || b.up.times > LIMIT || b.divisor > LIMIT || b.add > LIMIT ||
		b.add < -LIMIT || value_of(r, &b.up, true) == LIMIT_OF_SUM)
		return constant(b.lo, b.hi);
	n = highest(r, &b);
	b.hi = n < b.hi ? n : b.hi;
	return b;
}

static struct bound exactly(const struct reach *r, int32_t size)
{
	return settled(r, (struct bound){ .known = true,
				  .exact = true,
				  .lo = r->sizes->least[size],
				  .hi = r->sizes->most[size],
				  .up = ht_size_multiple(1, size),
				  .divisor = 1 });
}

/* up1 / divisor1 + up2 / divisor2 where both have the same sizes. */
static void add_products(struct bound *r, const struct bound *a, const struct bound *b)
{
	r->up = a->up;
	r->divisor = a->divisor;
	if (a->divisor == b->divisor) {
		r->up.times += b->up.times;
		return;
	}
	r->up.times = a->up.times * b->divisor + b->up.times * a->divisor;
	r->divisor = a->divisor * b->divisor;
}

static struct bound sum(const struct reach *r, const struct bound *a, const struct bound *b)
{
	struct bound s = { .known = true, .lo = a->lo + b->lo, .hi = a->hi + b->hi };
	const struct bound *larger = highest(r, a) - a->add >= highest(r, b) - b->add ? a : b;

	if (!is_constant(a) && !is_constant(b) && ht_size_same_sizes(&a->up, &b->up)) {
		add_products(&s, a, b);
		s.add = a->add + b->add;
		return settled(r, s);
	}
	s.up = larger->up;
	s.divisor = larger->divisor;
	s.add = larger->add + (larger == a ? b : a)->hi;
	return settled(r, s);
}

static struct bound negative(const struct bound *a)
{
	return constant(-a->hi, -a->lo);
}

static struct bound scaled(const struct reach *r, const struct bound *a, int64_t by)
{
	struct bound s = *a;

	if (by > LIMIT || by < -LIMIT || a->hi > LIMIT || a->lo < -LIMIT)
		return unknown;
	if (by <= 0)
		return constant(a->hi * by, a->lo * by);
	s.lo *= by;
	s.hi *= by;
	s.add *= by;
	if (s.divisor % by == 0)
		s.divisor /= by;
	else if (by % s.divisor == 0)
		s.up = ht_size_product(s.up, ht_size_number(by / s.divisor)), s.divisor = 1;
	else
		s.up = ht_size_product(s.up, ht_size_number(by));
	if (is_constant(a))
		s.up = ht_size_number(0);
	return settled(r, s);
}

static struct bound product(const struct reach *r, const struct bound *a, const struct bound *b)
{
	struct bound p = { .known = true, .divisor = 1 };

	if (a->lo == a->hi)
		return scaled(r, b, a->lo);
	if (b->lo == b->hi)
		return scaled(r, a, b->lo);
	if (a->lo < 0 || b->lo < 0 || a->hi > LIMIT || b->hi > LIMIT)
		return unknown;
	p.lo = a->lo * b->lo;
	p.hi = a->hi * b->hi;
	if (a->add > 0 || b->add > 0 || is_constant(a) || is_constant(b))
		return constant(p.lo, p.hi);
	p.exact = a->exact && b->exact;
	p.up = ht_size_product(a->up, b->up);
	p.divisor = a->divisor * b->divisor;
	return settled(r, p);
}

/* floor(a / by) */
static struct bound divided(const struct reach *r, const struct bound *a, int64_t by)
{
	struct bound q = *a;
	bool whole;

	q.exact = false;
	q.lo = ht_floor_div(a->lo, by);
	q.hi = ht_floor_div(a->hi, by);
	if (by > LIMIT || is_constant(a))
		return constant(q.lo, q.hi);
	whole = a->divisor == 1 && a->up.times % by == 0;
	if (whole)
		q.up.times /= by;
	else
		q.divisor *= by;
	q.add = whole ? ht_floor_div(a->add, by) : ceil_div(a->add, by);
	return settled(r, q);
}

/* a / b, neither of which is negative; a <= q * b + add gives a / b <= q + floor(add / b). */
static struct bound quotient(const struct reach *r, const struct bound *a, const struct bound *b)
{
	struct bound q = { .known = true, .divisor = 1 };

	if (a->lo < 0 || b->lo < 1)
		return unknown;
	if (b->lo == b->hi)
		return divided(r, a, b->lo);
	q.lo = a->lo / b->hi;
	q.hi = a->hi / b->lo;
	q.up = b->exact && a->divisor == 1 && !is_constant(a) ? ht_size_quotient(a->up, b->up)
							      : HT_SIZE_NONE;
	q.add = a->add < 0 ? -1 : a->add / b->lo;
	return settled(r, q);
}

static struct bound lower_of(const struct reach *r, const struct bound *a, const struct bound *b)
{
	struct bound m;

	if (!a->known ||
		!b->known) { /* the lower bound is unknown, and that of an index is checked by nobody */
		m = a->known ? *a : *b;
		m.lo = -LIMIT_OF_SUM;
		m.exact = false;
		return m;
	}
	m = highest(r, a) < highest(r, b) || (highest(r, a) == highest(r, b) && !is_constant(a))
		    ? *a
		    : *b;
	if (!is_constant(a) && !is_constant(b) && highest(r, a) == highest(r, b))
		m = a->add < b->add ? *a : *b;
	m.exact = false;
	m.lo = a->lo < b->lo ? a->lo : b->lo;
	m.hi = a->hi < b->hi ? a->hi : b->hi;
	return settled(r, m);
}

/* A bound of both. */
static struct bound joined(const struct reach *r, const struct bound *a, const struct bound *b)
{
	const struct bound *larger = highest(r, a) >= highest(r, b) ? a : b;
	const struct bound *other = larger == a ? b : a;
	struct bound j = *larger;

	j.lo = a->lo < b->lo ? a->lo : b->lo;
	j.hi = a->hi > b->hi ? a->hi : b->hi;
	j.exact = false;
	if (is_constant(larger))
		return constant(j.lo, j.hi);
	if (is_constant(other)) { /* the product may be small where the number is not */
		if (ht_floor_div(value_of(r, &j.up, false), j.divisor) + j.add < other->hi)
			j.add = j.add > other->hi ? j.add : other->hi;
	} else if (ht_size_same_sizes(&a->up, &b->up) && a->divisor == b->divisor) {
		j.up.times = a->up.times > b->up.times ? a->up.times : b->up.times;
		j.add = a->add > b->add ? a->add : b->add;
	} else {
		return constant(j.lo, j.hi);
	}
	return settled(r, j);
}

static struct bound higher_of(const struct reach *r, const struct bound *a, const struct bound *b)
{
	struct bound m;

	if (b->lo == b->hi && b->hi <= a->lo)
		return *a;
	m = joined(r, a, b);
	if (m.known)
		m.lo = a->lo > b->lo ? a->lo : b->lo;
	return m;
}

/* floor(end) of a cut as a bound of the last index: behind it code executes as many as fill a step. */
static struct bound ending(const struct reach *r, int dim, const struct ht_cut *c)
{
	const struct ht_dim *d = &r->s->dim[dim];
	struct bound b = constant(0, d->extent - 1);
	int64_t factor, add;

	for (int i = 0; i < HT_SIZE_FACTORS && c->end.size[i]; i++)
		if (c->end.size[i] > r->sizes->n)
			return b;
	if (__builtin_mul_overflow(c->end.times, c->end.factor, &factor) ||
		__builtin_mul_overflow(c->end.times, c->end.add, &add))
		return b;
	b.up = (struct ht_size_expr){ .times = factor, .factor = 1, .divisor = 1 };
	for (int i = 0; i < HT_SIZE_FACTORS; i++)
		b.up.size[i] = c->end.size[i];
	b.divisor = c->end.divisor;
	if (factor % b.divisor == 0) {
		b.up.times = factor / b.divisor;
		b.divisor = 1;
	}
	b.add = ceil_div(add, c->end.divisor) + ht_cut_slack(r->s, dim) - 1;
	return settled(r, b);
}

static struct bound of_dim(const struct reach *r, int dim)
{
	const struct ht_dim *d = &r->s->dim[dim];
	struct bound b = constant(0, d->extent > 0 ? d->extent - 1 : 0);

	if (d->reduce && r->s->kind == HT_STAGE_CONTRACT) /* code need not skip any */
		return b;
	for (int c = 0; c < HT_CUTS && d->cut[c].run; c++)
		if (d->cut[c].run >= d->extent && d->extent > 0)
			b = ending(r, dim, &d->cut[c]);
	return b;
}

/* Whether x is (a / d) * q, where d is q or max(q, 1), and q is at least 1. */
static bool is_multiple_below(const struct reach *r, int32_t x, int32_t a, int32_t *q)
{
	const struct ht_x *m = &r->s->x[x], *e;

	if (m->op != HT_X_MUL)
		return false;
	for (int side = 0; side < 2; side++) {
		const struct ht_x *d = &r->s->x[side ? m->a : m->b];

		*q = side ? m->b : m->a;
		if ((d->op != HT_X_DIV && d->op != HT_X_FLOORDIV) || d->a != a)
			continue;
		e = &r->s->x[d->b];
		if (r->x[*q].known && r->x[*q].lo >= 1 &&
			(d->b == *q || (e->op == HT_X_MAX && e->a == *q && r->x[d->b].exact)))
			return true;
	}
	return false;
}

static struct bound difference(const struct reach *r, const struct ht_x *x)
{
	struct bound b, minus_one = constant(-1, -1);
	int32_t q;

	if (is_multiple_below(r, x->b, x->a, &q) && r->x[x->a].lo >= 0) {
		b = sum(r, &r->x[q], &minus_one); /* the remainder */
		b.lo = 0;
		return b;
	}
	b = negative(&r->x[x->b]);
	return sum(r, &r->x[x->a], &b);
}

static struct bound remainder_of(const struct bound *a, const struct bound *b)
{
	if (!b->known || b->lo < 1 || b->lo != b->hi)
		return unknown;
	if (a->known && a->lo >= 0 && a->hi < b->lo)
		return *a;
	return constant(0, b->lo - 1);
}

/* What a conversion from a narrower type to I64 may give. */
static struct bound of_type(enum ht_dtype t)
{
	switch (t) {
	case HT_BOOL:
		return constant(0, 1);
	case HT_I32:
		return constant(INT32_MIN, INT32_MAX);
	case HT_U32:
		return constant(0, UINT32_MAX);
	default:
		return unknown;
	}
}

static struct bound of_operation(const struct reach *r, const struct ht_x *x)
{
	const struct bound *a = &r->x[x->a], *b = &r->x[x->b];

	if (x->op == HT_X_MIN && (a->known || b->known))
		return lower_of(r, a, b);
	if (!a->known || !b->known)
		return x->op == HT_X_FLOORMOD ? remainder_of(a, b) : unknown;
	switch (x->op) {
	case HT_X_ADD:
		return sum(r, a, b);
	case HT_X_SUB:
		return difference(r, x);
	case HT_X_MUL:
		return product(r, a, b);
	case HT_X_MAX:
		return higher_of(r, a, b);
	case HT_X_FLOORDIV:
		return divided(r, a, b->lo);
	case HT_X_DIV:
		return quotient(r, a, b);
	case HT_X_FLOORMOD:
		return remainder_of(a, b);
	default:
		return unknown;
	}
}

static struct bound of_x(const struct reach *r, const struct ht_x *x)
{
	switch (x->op) {
	case HT_X_CONST:
		return x->imm < LIMIT_OF_SUM && x->imm > -LIMIT_OF_SUM ? constant(x->imm, x->imm)
								       : unknown;
	case HT_X_DIM:
		return of_dim(r, (int)x->imm);
	case HT_X_GRID:
		return constant(0, r->k->grid[x->imm] > 0 ? r->k->grid[x->imm] - 1 : 0);
	case HT_X_PARAM:
		return x->imm < r->sizes->n ? exactly(r, (int32_t)x->imm) : unknown;
	case HT_X_CHECK:
		return r->x[x->a];
	case HT_X_SELECT:
		if (!r->x[x->b].known || !r->x[x->c].known)
			return unknown;
		return joined(r, &r->x[x->b], &r->x[x->c]);
	case HT_X_CVT:
		return of_type(r->s->x[x->a].dtype);
	case HT_X_ADD:
	case HT_X_SUB:
	case HT_X_MUL:
	case HT_X_DIV:
	case HT_X_MIN:
	case HT_X_MAX:
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		return of_operation(r, x);
	default:
		return unknown;
	}
}

/* ---- what a stage touches ---- */

/* So far, of the argument. */
struct most {
	bool any, known;
	struct bound b;
};

static void touches(const struct reach *r, struct most *m, struct bound at)
{
	m->known = m->known && at.known;
	if (m->known)
		m->b = m->any ? joined(r, &m->b, &at) : at;
	m->known = m->known && m->b.known;
	m->any = true;
}

/* Element a_row + k * a_step of the left operand, for each k of the depth. */
static struct bound row_end(const struct reach *r, const struct ht_contract *c)
{
	const struct bound *row = &r->x[c->a_row];
	struct bound depth = of_dim(r, r->s->dims - 1);

	if (!row->known)
		return unknown;
	depth = scaled(r, &depth, c->a_step > 0 ? c->a_step : 0);
	return depth.known ? sum(r, row, &depth) : unknown;
}

/* All of the panels from b_base on. */
static struct bound panel_end(const struct reach *r, const struct ht_contract *c)
{
	const struct bound *base = &r->x[c->b_base];
	struct bound n;
	int64_t count = ht_ceil_div(r->s->dim[c->n].extent, c->nr) * c->nr;

	for (int i = 0; i < r->s->dims; i++)
		if (r->s->dim[i].reduce) {
			int64_t all = r->s->dim[i].extent;

			if (i == r->s->dims - 1)
				all = ht_ceil_div(all, c->kp) * c->kp;
			if (count > LIMIT || all > LIMIT)
				return unknown;
			count *= all;
		}
	n = constant(0, count > 0 ? count - 1 : 0);
	return base->known && count < LIMIT_OF_SUM ? sum(r, base, &n) : unknown;
}

static void of_stage(const struct reach *r, int32_t arg, struct most *m)
{
	const struct ht_stage *s = r->s;

	for (int32_t i = 0; i < s->xs; i++) {
		r->x[i] = s->x[i].dtype == HT_I64 ? of_x(r, &s->x[i]) : unknown;
		if (s->x[i].op == HT_X_LOAD && s->x[i].imm == arg)
			touches(r, m, r->x[s->x[i].a]);
	}
	for (int32_t i = 0; i < s->stores; i++)
		if (s->store[i].buffer == arg)
			touches(r, m, r->x[s->store[i].offset]);
	if (s->kind == HT_STAGE_CONTRACT && s->contract.a_buffer == arg)
		touches(r, m, row_end(r, &s->contract));
	if (s->kind == HT_STAGE_CONTRACT && s->contract.b_buffer == arg)
		touches(r, m, panel_end(r, &s->contract));
}

static int32_t most_expressions(const struct ht_kernel *k)
{
	int32_t n = 0;

	for (int32_t i = 0; i < k->stages; i++)
		n = k->stage[i].xs > n ? k->stage[i].xs : n;
	return n;
}

bool ht_kernel_reach(const struct ht_kernel *k, int32_t arg, const struct ht_reach_sizes *sizes,
	struct ht_kernel_reach *out)
{
	struct reach r = { .k = k, .sizes = sizes };
	struct most m = { .known = true };

	if (k->library)
		return false;
	r.x = calloc((size_t)most_expressions(k) + 1, sizeof *r.x);
	HT_CHECK(r.x);
	for (int32_t i = 0; i < k->stages && m.known; i++) {
		r.s = &k->stage[i];
		of_stage(&r, arg, &m);
	}
	free(r.x);
	if (!m.any || !m.known || !m.b.known || is_constant(&m.b))
		return false;
	out->of = ht_size_canonical(m.b.up);
	out->of.times = ceil_div(m.b.up.times, m.b.divisor);
	out->add = m.b.add + 1;
	return out->add < LIMIT;
}
