/* What stages touch, from the bounds of index expressions.  What has no bound has that of the largest sizes. */
#include "kernel/bound.h"

#include <stdlib.h>

struct reach {
	const struct ht_kernel *k;
	const struct ht_stage *s;
	const struct ht_reach_sizes *sizes;
	struct ht_bound *x;     /* by expression of the stage */
	struct ht_bound *where; /* likewise, where a guard is true: of_guarded() */
	int32_t *below;         /* by expression: 1 + an expression that is larger there, or 0 */
};

/* floor(end) of a cut as a bound of the last index: behind it code executes as many as fill a step. */
static struct ht_bound ending(const struct reach *r, int dim, const struct ht_cut *c)
{
	const struct ht_dim *d = &r->s->dim[dim];
	struct ht_bound b = ht_bound_constant(0, d->extent - 1);
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
	b.add = ht_bound_ceil_div(add, c->end.divisor) + ht_cut_slack(r->s, dim) - 1;
	return ht_bound_settled(r->sizes, b);
}

static struct ht_bound of_dim(const struct reach *r, int dim)
{
	const struct ht_dim *d = &r->s->dim[dim];
	struct ht_bound b = ht_bound_constant(0, d->extent > 0 ? d->extent - 1 : 0);

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

static struct ht_bound difference(const struct reach *r, const struct ht_x *x)
{
	struct ht_bound b, minus_one = ht_bound_constant(-1, -1);
	int32_t q;

	if (is_multiple_below(r, x->b, x->a, &q) && r->x[x->a].lo >= 0) {
		b = ht_bound_sum(r->sizes, &r->x[q], &minus_one); /* the remainder */
		b.lo = 0;
		return b;
	}
	b = ht_bound_negative(&r->x[x->b]);
	return ht_bound_sum(r->sizes, &r->x[x->a], &b);
}

static struct ht_bound remainder_of(const struct ht_bound *a, const struct ht_bound *b)
{
	if (!b->known || b->lo < 1 || b->lo != b->hi)
		return HT_BOUND_UNKNOWN;
	if (a->known && a->lo >= 0 && a->hi < b->lo)
		return *a;
	return ht_bound_constant(0, b->lo - 1);
}

/* What a conversion from a narrower type to I64 may give. */
static struct ht_bound of_type(enum ht_dtype t)
{
	switch (t) {
	case HT_BOOL:
		return ht_bound_constant(0, 1);
	case HT_I32:
		return ht_bound_constant(INT32_MIN, INT32_MAX);
	case HT_U32:
		return ht_bound_constant(0, UINT32_MAX);
	default:
		return HT_BOUND_UNKNOWN;
	}
}

static struct ht_bound of_operation(const struct reach *r, const struct ht_x *x)
{
	const struct ht_bound *a = &r->x[x->a], *b = &r->x[x->b];

	if (x->op == HT_X_MIN && (a->known || b->known))
		return ht_bound_lower(r->sizes, a, b);
	if (!a->known || !b->known)
		return x->op == HT_X_FLOORMOD ? remainder_of(a, b) : HT_BOUND_UNKNOWN;
	switch (x->op) {
	case HT_X_ADD:
		return ht_bound_sum(r->sizes, a, b);
	case HT_X_SUB:
		return difference(r, x);
	case HT_X_MUL:
		return ht_bound_product(r->sizes, a, b);
	case HT_X_MAX:
		return ht_bound_higher(r->sizes, a, b);
	case HT_X_FLOORDIV:
		return ht_bound_divided(r->sizes, a, b->lo);
	case HT_X_DIV:
		return ht_bound_quotient(r->sizes, a, b);
	case HT_X_FLOORMOD:
		return remainder_of(a, b);
	default:
		return HT_BOUND_UNKNOWN;
	}
}

static struct ht_bound of_x(const struct reach *r, const struct ht_x *x)
{
	switch (x->op) {
	case HT_X_CONST:
		return x->imm < HT_BOUND_LIMIT_OF_SUM && x->imm > -HT_BOUND_LIMIT_OF_SUM
			       ? ht_bound_constant(x->imm, x->imm)
			       : HT_BOUND_UNKNOWN;
	case HT_X_DIM:
		return of_dim(r, (int)x->imm);
	case HT_X_GRID:
		return ht_bound_constant(0, r->k->grid[x->imm] > 0 ? r->k->grid[x->imm] - 1 : 0);
	case HT_X_PARAM:
		return x->imm < r->sizes->n ? ht_bound_of_size(r->sizes, (int32_t)x->imm)
					    : HT_BOUND_UNKNOWN;
	case HT_X_CHECK:
		return r->x[x->a];
	case HT_X_SELECT:
		if (!r->x[x->b].known || !r->x[x->c].known)
			return HT_BOUND_UNKNOWN;
		return ht_bound_joined(r->sizes, &r->x[x->b], &r->x[x->c]);
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
		return HT_BOUND_UNKNOWN;
	}
}

/* ---- where guards are true ---- */

/* Of expression i, with the bounds that r->below has. */
static struct ht_bound narrowed(const struct reach *r, int32_t i)
{
	const struct ht_bound minus_one = ht_bound_constant(-1, -1);
	struct ht_bound b = of_x(r, &r->s->x[i]), end;

	if (!r->below[i] || !r->where[r->below[i] - 1].known)
		return b;
	end = ht_bound_sum(r->sizes, &r->where[r->below[i] - 1], &minus_one);
	return end.known ? ht_bound_lower(r->sizes, &b, &end) : b;
}

/* Notes in r->below what guard `x` says, or forgets it. */
static void note_guard(const struct reach *r, int32_t x, bool note)
{
	const struct ht_x *e = &r->s->x[x];

	while (e->op == HT_X_AND) {
		note_guard(r, e->b, note);
		e = &r->s->x[e->a];
	}
	if (e->op == HT_X_LT && r->s->x[e->a].dtype == HT_I64)
		r->below[e->a] = note ? e->b + 1 : 0;
}

/* Expression `x` where expression `guard` (-1: always) is true.  It is computed again, with what the guard says of its terms. */
static struct ht_bound of_guarded(const struct reach *r, int32_t x, int32_t guard)
{
	struct reach in = *r;

	if (guard < 0)
		return r->x[x];
	note_guard(r, guard, true);
	in.x = r->where;
	in.where = r->x;
	for (int32_t i = 0; i <= x; i++)
		in.x[i] = in.s->x[i].dtype == HT_I64 ? narrowed(&in, i) : HT_BOUND_UNKNOWN;
	note_guard(r, guard, false);
	return in.x[x];
}

/* ---- what a stage touches ---- */

/* So far, of the argument. */
struct most {
	bool any, known;
	struct ht_bound b;
};

static void touches(const struct reach *r, struct most *m, struct ht_bound at)
{
	m->known = m->known && at.known;
	if (m->known)
		m->b = m->any ? ht_bound_joined(r->sizes, &m->b, &at) : at;
	m->known = m->known && m->b.known;
	m->any = true;
}

/* Element a_row + k * a_step of the left operand, for each k of the depth. */
static struct ht_bound row_end(const struct reach *r, const struct ht_contract *c)
{
	const struct ht_bound row = of_guarded(r, c->a_row, c->a_guard);
	struct ht_bound depth = of_dim(r, r->s->dims - 1);

	if (!row.known)
		return HT_BOUND_UNKNOWN;
	/* Where A is held as words of two numbers, a_step leads to the next word, and the depth has twice as many numbers as words: the bound is
	 * too high then, which is safe. */
	depth = ht_bound_scaled(r->sizes, &depth, c->a_step > 0 ? c->a_step : 0);
	return depth.known ? ht_bound_sum(r->sizes, &row, &depth) : HT_BOUND_UNKNOWN;
}

/* All of the panels, or of the columns of rows, from b_base on. */
static struct ht_bound panel_end(const struct reach *r, const struct ht_contract *c)
{
	const struct ht_bound *base = &r->x[c->b_base];
	struct ht_bound n;
	int64_t count = c->b_row ? c->b_row : ht_ceil_div(r->s->dim[c->n].extent, c->nr) * c->nr;

	for (int i = 0; i < r->s->dims; i++)
		if (r->s->dim[i].reduce) {
			int64_t all = r->s->dim[i].extent;

			if (i == r->s->dims - 1)
				all = ht_ceil_div(all, c->kp) * c->kp;
			if (count > HT_BOUND_LIMIT || all > HT_BOUND_LIMIT)
				return HT_BOUND_UNKNOWN;
			count *= all;
		}
	if (c->b_row && count > 0) /* of the last row, no columns behind these */
		count -= c->b_row - r->s->dim[c->n].extent;
	n = ht_bound_constant(0, count > 0 ? count - 1 : 0);
	return base->known && count < HT_BOUND_LIMIT_OF_SUM ? ht_bound_sum(r->sizes, base, &n)
							    : HT_BOUND_UNKNOWN;
}

static void of_stage(const struct reach *r, int32_t arg, struct most *m)
{
	const struct ht_stage *s = r->s;

	for (int32_t i = 0; i < s->xs; i++) {
		r->x[i] = s->x[i].dtype == HT_I64 ? of_x(r, &s->x[i]) : HT_BOUND_UNKNOWN;
		r->below[i] = 0;
	}
	for (int32_t i = 0; i < s->xs; i++)
		if (s->x[i].op == HT_X_LOAD && s->x[i].imm == arg)
			touches(r, m, of_guarded(r, s->x[i].a, s->x[i].b));
	for (int32_t i = 0; i < s->stores; i++)
		if (s->store[i].buffer == arg)
			touches(r, m, of_guarded(r, s->store[i].offset, s->store[i].guard));
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
	r.where = calloc((size_t)most_expressions(k) + 1, sizeof *r.where);
	r.below = calloc((size_t)most_expressions(k) + 1, sizeof *r.below);
	HT_CHECK(r.x && r.where && r.below);
	for (int32_t i = 0; i < k->stages && m.known; i++) {
		r.s = &k->stage[i];
		of_stage(&r, arg, &m);
	}
	free(r.x);
	free(r.where);
	free(r.below);
	if (!m.any || !m.known || !m.b.known)
		return false;
	out->of = ht_size_canonical(m.b.up);
	out->of.times = ht_bound_ceil_div(m.b.up.times, m.b.divisor);
	out->add = m.b.add + 1;
	return out->add < HT_BOUND_LIMIT;
}
