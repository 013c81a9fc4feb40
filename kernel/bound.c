#include "kernel/bound.h"

struct ht_bound ht_bound_constant(int64_t lo, int64_t hi)
{
	return (struct ht_bound){
		.known = true, .lo = lo, .hi = hi, .up = ht_size_number(0), .divisor = 1, .add = hi
	};
}

bool ht_bound_is_constant(const struct ht_bound *b)
{
	return b->up.times == 0;
}

/* The value of a product for all sizes at their most or least; HT_BOUND_LIMIT_OF_SUM: it is larger than is kept. */
static int64_t value_of(const struct ht_reach_sizes *sizes, const struct ht_size_expr *e, bool most)
{
	int64_t n;

	if (!ht_size_checked(e, most ? sizes->most : sizes->least, &n) || n > HT_BOUND_LIMIT_OF_SUM)
		return HT_BOUND_LIMIT_OF_SUM;
	return n;
}

static int64_t highest(const struct ht_reach_sizes *sizes, const struct ht_bound *b)
{
	return ht_bound_ceil_div(value_of(sizes, &b->up, true), b->divisor) + b->add;
}

/* What is too large is not known, and a bound by sizes is given up where a number is as low. */
struct ht_bound ht_bound_settled(const struct ht_reach_sizes *sizes, struct ht_bound b)
{
	int64_t n;

	if (!b.known || b.lo > b.hi || b.lo < -HT_BOUND_LIMIT_OF_SUM ||
		b.hi > HT_BOUND_LIMIT_OF_SUM)
		return HT_BOUND_UNKNOWN;
	if (ht_bound_is_constant(&b))
		return ht_bound_constant(b.lo, b.hi < b.add ? b.hi : b.add);
	if (ht_size_is_none(&b.up) || b.up.times > HT_BOUND_LIMIT || b.divisor > HT_BOUND_LIMIT ||
		b.add > HT_BOUND_LIMIT || b.add < -HT_BOUND_LIMIT ||
		value_of(sizes, &b.up, true) == HT_BOUND_LIMIT_OF_SUM)
		return ht_bound_constant(b.lo, b.hi);
	n = highest(sizes, &b);
	b.hi = n < b.hi ? n : b.hi;
	return b;
}

struct ht_bound ht_bound_of_size(const struct ht_reach_sizes *sizes, int32_t size)
{
	return ht_bound_settled(sizes, (struct ht_bound){ .known = true,
					       .exact = true,
					       .lo = sizes->least[size],
					       .hi = sizes->most[size],
					       .up = ht_size_multiple(1, size),
					       .divisor = 1 });
}

/* up1 / divisor1 + up2 / divisor2 where both have the same sizes. */
static void add_products(struct ht_bound *r, const struct ht_bound *a, const struct ht_bound *b)
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

struct ht_bound ht_bound_sum(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	struct ht_bound s = { .known = true, .lo = a->lo + b->lo, .hi = a->hi + b->hi };
	const struct ht_bound *larger =
		highest(sizes, a) - a->add >= highest(sizes, b) - b->add ? a : b;

	if (!ht_bound_is_constant(a) && !ht_bound_is_constant(b) &&
		ht_size_same_sizes(&a->up, &b->up)) {
		add_products(&s, a, b);
		s.add = a->add + b->add;
		return ht_bound_settled(sizes, s);
	}
	s.up = larger->up;
	s.divisor = larger->divisor;
	s.add = larger->add + (larger == a ? b : a)->hi;
	return ht_bound_settled(sizes, s);
}

struct ht_bound ht_bound_negative(const struct ht_bound *a)
{
	return ht_bound_constant(-a->hi, -a->lo);
}

struct ht_bound ht_bound_scaled(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, int64_t by)
{
	struct ht_bound s = *a;

	if (by > HT_BOUND_LIMIT || by < -HT_BOUND_LIMIT || a->hi > HT_BOUND_LIMIT ||
		a->lo < -HT_BOUND_LIMIT)
		return HT_BOUND_UNKNOWN;
	if (by <= 0)
		return ht_bound_constant(a->hi * by, a->lo * by);
	s.lo *= by;
	s.hi *= by;
	s.add *= by;
	if (s.divisor % by == 0)
		s.divisor /= by;
	else if (by % s.divisor == 0)
		s.up = ht_size_product(s.up, ht_size_number(by / s.divisor)), s.divisor = 1;
	else
		s.up = ht_size_product(s.up, ht_size_number(by));
	if (ht_bound_is_constant(a))
		s.up = ht_size_number(0);
	return ht_bound_settled(sizes, s);
}

/* What is added to a product of sizes, if that is more than 0. */
static int64_t added(const struct ht_bound *b)
{
	return b->add > 0 ? b->add : 0;
}

/* Of a * b, where b is not negative, without lo and hi: (A + m) * (B + n) is at most A * B + m * B + n * A + m * n, where A and B are
 * products of sizes, which are at their largest in the terms behind the first. */
static struct ht_bound highest_product(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	int64_t most_a = highest(sizes, a) - a->add, most_b = highest(sizes, b) - b->add;
	struct ht_bound p = { .known = true, .divisor = a->divisor * b->divisor };

	if (ht_bound_is_constant(a) != ht_bound_is_constant(b)) { /* m * B */
		const struct ht_bound *of = ht_bound_is_constant(a) ? b : a;

		return ht_bound_scaled(sizes, of, added(of == a ? b : a));
	}
	p.up = ht_size_product(a->up, b->up);
	if (most_a > HT_BOUND_LIMIT || most_b > HT_BOUND_LIMIT || added(a) > HT_BOUND_LIMIT / 2 ||
		added(b) > HT_BOUND_LIMIT / 2)
		return HT_BOUND_UNKNOWN;
	p.add = added(a) * most_b + added(b) * most_a + added(a) * added(b);
	return p;
}

struct ht_bound ht_bound_product(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	struct ht_bound p;

	if (a->lo == a->hi)
		return ht_bound_scaled(sizes, b, a->lo);
	if (b->lo == b->hi)
		return ht_bound_scaled(sizes, a, b->lo);
	if (b->lo < 0)
		return a->lo < 0 ? HT_BOUND_UNKNOWN : ht_bound_product(sizes, b, a);
	if (a->lo < -HT_BOUND_LIMIT || a->hi > HT_BOUND_LIMIT || b->hi > HT_BOUND_LIMIT)
		return HT_BOUND_UNKNOWN;
	p = highest_product(sizes, a, b);
	p.lo = a->lo * (a->lo < 0 ? b->hi : b->lo);
	p.hi = a->hi * (a->hi < 0 ? b->lo : b->hi);
	p.exact = a->exact && b->exact;
	return ht_bound_settled(sizes, p);
}

/* floor(a / by) */
struct ht_bound ht_bound_divided(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, int64_t by)
{
	struct ht_bound q = *a;
	bool whole;

	q.exact = false;
	q.lo = ht_floor_div(a->lo, by);
	q.hi = ht_floor_div(a->hi, by);
	if (by > HT_BOUND_LIMIT || ht_bound_is_constant(a))
		return ht_bound_constant(q.lo, q.hi);
	whole = a->divisor == 1 && a->up.times % by == 0;
	if (whole)
		q.up.times /= by;
	else
		q.divisor *= by;
	q.add = whole ? ht_floor_div(a->add, by) : ht_bound_ceil_div(a->add, by);
	return ht_bound_settled(sizes, q);
}

/* a / b, neither of which is negative; a <= q * b + add gives a / b <= q + floor(add / b). */
struct ht_bound ht_bound_quotient(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	struct ht_bound q = { .known = true, .divisor = 1 };

	if (a->lo < 0 || b->lo < 1)
		return HT_BOUND_UNKNOWN;
	if (b->lo == b->hi)
		return ht_bound_divided(sizes, a, b->lo);
	q.lo = a->lo / b->hi;
	q.hi = a->hi / b->lo;
	q.up = b->exact && a->divisor == 1 && !ht_bound_is_constant(a)
		       ? ht_size_quotient(a->up, b->up)
		       : HT_SIZE_NONE;
	q.add = a->add < 0 ? -1 : a->add / b->lo;
	return ht_bound_settled(sizes, q);
}

struct ht_bound ht_bound_lower(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	struct ht_bound m;

	if (!a->known ||
		!b->known) { /* the lower bound is HT_BOUND_UNKNOWN, and that of an index is checked by nobody */
		m = a->known ? *a : *b;
		m.lo = -HT_BOUND_LIMIT_OF_SUM;
		m.exact = false;
		return m;
	}
	m = highest(sizes, a) < highest(sizes, b) ||
			    (highest(sizes, a) == highest(sizes, b) && !ht_bound_is_constant(a))
		    ? *a
		    : *b;
	if (!ht_bound_is_constant(a) && !ht_bound_is_constant(b) &&
		highest(sizes, a) == highest(sizes, b))
		m = a->add < b->add ? *a : *b;
	m.exact = false;
	m.lo = a->lo < b->lo ? a->lo : b->lo;
	m.hi = a->hi < b->hi ? a->hi : b->hi;
	return ht_bound_settled(sizes, m);
}

/* A bound of both. */
struct ht_bound ht_bound_joined(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	const struct ht_bound *larger = highest(sizes, a) >= highest(sizes, b) ? a : b;
	const struct ht_bound *other = larger == a ? b : a;
	struct ht_bound j = *larger;

	j.lo = a->lo < b->lo ? a->lo : b->lo;
	j.hi = a->hi > b->hi ? a->hi : b->hi;
	j.exact = false;
	if (ht_bound_is_constant(larger))
		return ht_bound_constant(j.lo, j.hi);
	if (ht_bound_is_constant(other)) { /* the product may be small where the number is not */
		if (ht_floor_div(value_of(sizes, &j.up, false), j.divisor) + j.add < other->hi)
			j.add = j.add > other->hi ? j.add : other->hi;
	} else if (ht_size_same_sizes(&a->up, &b->up) && a->divisor == b->divisor) {
		j.up.times = a->up.times > b->up.times ? a->up.times : b->up.times;
		j.add = a->add > b->add ? a->add : b->add;
	} else {
		return ht_bound_constant(j.lo, j.hi);
	}
	return ht_bound_settled(sizes, j);
}

struct ht_bound ht_bound_higher(
	const struct ht_reach_sizes *sizes, const struct ht_bound *a, const struct ht_bound *b)
{
	struct ht_bound m;

	if (b->lo == b->hi && b->hi <= a->lo)
		return *a;
	m = ht_bound_joined(sizes, a, b);
	if (m.known)
		m.lo = a->lo > b->lo ? a->lo : b->lo;
	return m;
}
