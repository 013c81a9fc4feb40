/* Facts about a stage's expressions at the current point of emission: their bounds inside the
 * loops entered so far, and the guards that these decide. */
#include "backend/emit.h"

#include <string.h>

static void dim_range(const struct ht_e *e, int d, int64_t *lo, int64_t *hi)
{
	const struct ht_e_level *l = &e->level[e->level_of[d]];

	*lo = 0;
	*hi = e->s->dim[d].extent - 1;
	if (e->level_of[d] >= e->open)
		return;
	*lo = l->lo;
	*hi = l->hi;
	if (l->exact) {
		*lo += e->off[d] * l->stride;
		if (d != e->s->vec)
			*hi = *lo;
		else if (*lo + e->vl - 1 < *hi)
			*hi = *lo + e->vl - 1;
	}
}

static void add_range(int64_t k, int64_t lo, int64_t hi, int64_t *rlo, int64_t *rhi)
{
	*rlo += k >= 0 ? k * lo : k * hi;
	*rhi += k >= 0 ? k * hi : k * lo;
}

/* Bounds of a linear form.  `local`: dimensions of the grid count as step * coordinate + a local index,
 * which gives closer bounds if the form subtracts the tile's origin. */
static void linear_range(
	const struct ht_e *e, const struct ht_e_info *p, bool local, int64_t *lo, int64_t *hi)
{
	const struct ht_stage *s = e->s;
	int64_t grid[HT_MAX_GRID];

	*lo = *hi = p->c;
	memcpy(grid, p->grid, sizeof grid);
	for (int d = 0; d < s->dims; d++) {
		const struct ht_dim *dim = &s->dim[d];
		int64_t a, b;

		if (!p->coef[d])
			continue;
		if (local && dim->grid >= 0) {
			grid[dim->grid] += p->coef[d] * dim->step;
			add_range(p->coef[d], 0,
				(dim->step < dim->extent ? dim->step : dim->extent) - 1, lo, hi);
			continue;
		}
		dim_range(e, d, &a, &b);
		add_range(p->coef[d], a, b, lo, hi);
	}
	for (int g = 0; g < e->k->grid_dims; g++)
		add_range(grid[g], 0, e->k->grid[g] - 1, lo, hi);
}

static void pure_range(const struct ht_e *e, const struct ht_e_info *p, int64_t *lo, int64_t *hi)
{
	int64_t a, b;

	linear_range(e, p, false, lo, hi);
	linear_range(e, p, true, &a, &b);
	if (a > *lo)
		*lo = a;
	if (b < *hi)
		*hi = b;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static bool range_of(const struct ht_e *e, int32_t i, int depth, int64_t *lo, int64_t *hi)
{
	const struct ht_x *x = &e->s->x[i];
	int64_t a, b, c, d;

	if (x->dtype != HT_I64 || depth > 8)
		return false;
	if (e->info[i].pure) {
		pure_range(e, &e->info[i], lo, hi);
		return true;
	}
	switch (x->op) {
	case HT_X_FLOORDIV:
		if (!range_of(e, x->a, depth + 1, &a, &b) || !ht_e_is_const(&e->info[x->b]))
			return false;
		*lo = floor_div(a, e->info[x->b].c);
		*hi = floor_div(b, e->info[x->b].c);
		return true;
	case HT_X_FLOORMOD:
		if (!ht_e_is_const(&e->info[x->b]))
			return false;
		*lo = 0;
		*hi = e->info[x->b].c - 1;
		if (range_of(e, x->a, depth + 1, &a, &b) && a >= 0 && b <= *hi)
			*lo = a, *hi = b;
		return true;
	case HT_X_ADD:
	case HT_X_SUB:
	case HT_X_MIN:
	case HT_X_MAX:
		if (!range_of(e, x->a, depth + 1, &a, &b) || !range_of(e, x->b, depth + 1, &c, &d))
			return false;
		if (x->op == HT_X_ADD)
			*lo = a + c, *hi = b + d;
		else if (x->op == HT_X_SUB)
			*lo = a - d, *hi = b - c;
		else if (x->op == HT_X_MIN)
			*lo = a < c ? a : c, *hi = b < d ? b : d;
		else
			*lo = a > c ? a : c, *hi = b > d ? b : d;
		return true;
	case HT_X_MUL:
		if (ht_e_is_const(&e->info[x->a]) || !ht_e_is_const(&e->info[x->b]))
			return false;
		if (!range_of(e, x->a, depth + 1, &a, &b))
			return false;
		*lo = *hi = 0;
		add_range(e->info[x->b].c, a, b, lo, hi);
		return true;
	default:
		return false;
	}
}

bool ht_e_range(const struct ht_e *e, int32_t x, int64_t *lo, int64_t *hi)
{
	return range_of(e, x, 0, lo, hi);
}

bool ht_e_comparison(const struct ht_e *e, int32_t x, struct ht_e_comparison *c)
{
	const struct ht_x *v = &e->s->x[x];
	bool negated = v->op == HT_X_NOT;

	if (negated)
		v = &e->s->x[v->a];
	if ((v->op != HT_X_LT && v->op != HT_X_LE) || e->s->x[v->a].dtype != HT_I64)
		return false;
	c->low = negated ? v->b : v->a;
	c->high = negated ? v->a : v->b;
	c->strict = (v->op == HT_X_LT) != negated;
	return true;
}

bool ht_e_inequality(const struct ht_e *e, int32_t x, struct ht_e_info *p)
{
	struct ht_e_comparison c;

	if (!ht_e_comparison(e, x, &c))
		return false;
	memset(p, 0, sizeof *p);
	p->pure = true;
	ht_e_add_scaled(p, &e->info[c.high], 1);
	ht_e_add_scaled(p, &e->info[c.low], -1);
	p->c -= c.strict;
	return p->pure || (!p->opaque && e->info[c.high].of_indices && e->info[c.low].of_indices);
}

static int decide_compare(const struct ht_e *e, const struct ht_x *x)
{
	int64_t a, b, c, d;

	if (e->s->x[x->a].dtype != HT_I64)
		return -1;
	if (!ht_e_range(e, x->a, &a, &b) || !ht_e_range(e, x->b, &c, &d))
		return -1;
	switch (x->op) {
	case HT_X_LT:
		return b < c ? 1 : a >= d ? 0 : -1;
	case HT_X_LE:
		return b <= c ? 1 : a > d ? 0 : -1;
	case HT_X_EQ:
		return a == b && c == d && a == c ? 1 : b < c || d < a ? 0 : -1;
	default:
		return a == b && c == d && a == c ? 0 : b < c || d < a ? 1 : -1;
	}
}

static int decide(const struct ht_e *e, int32_t i, int depth)
{
	const struct ht_x *x = &e->s->x[i];
	struct ht_e_info p;
	int64_t lo, hi;
	int a, b;

	if (x->dtype != HT_BOOL || depth > 16)
		return -1;
	if (e->assumed[i])
		return 1;
	if (ht_e_inequality(e, i, &p) && p.pure) {
		pure_range(e, &p, &lo, &hi);
		return lo >= 0 ? 1 : hi < 0 ? 0 : -1;
	}
	switch (x->op) {
	case HT_X_CONST:
		return x->imm != 0;
	case HT_X_NOT:
		a = decide(e, x->a, depth + 1);
		return a < 0 ? -1 : !a;
	case HT_X_AND:
	case HT_X_OR:
		a = decide(e, x->a, depth + 1);
		b = decide(e, x->b, depth + 1);
		if (x->op == HT_X_AND)
			return a == 0 || b == 0 ? 0 : a == 1 && b == 1 ? 1 : -1;
		return a == 1 || b == 1 ? 1 : a == 0 && b == 0 ? 0 : -1;
	case HT_X_LT:
	case HT_X_LE:
	case HT_X_EQ:
	case HT_X_NE:
		return decide_compare(e, x);
	default:
		return -1;
	}
}

int ht_e_decide(const struct ht_e *e, int32_t x)
{
	return decide(e, x, 0);
}

void ht_e_conjuncts(const struct ht_e *e, int32_t x, void (*fn)(void *, int32_t), void *arg)
{
	if (e->s->x[x].op == HT_X_AND) {
		ht_e_conjuncts(e, e->s->x[x].a, fn, arg);
		ht_e_conjuncts(e, e->s->x[x].b, fn, arg);
		return;
	}
	fn(arg, x);
}

/* Whether constant `bits` of type t is neutral: 0 for sums, the lowest value for MAX, … */
static bool neutral_bits(enum ht_dtype t, int64_t bits, enum ht_red op)
{
	const size_t size = ht_dtype_info(t)->bytes * 8;
	const uint64_t sign = UINT64_C(1) << (size - 1),
		       element = (uint64_t)bits & (sign | (sign - 1));

	switch (op) {
	case HT_RED_ADD:
	case HT_RED_OR:
		return bits == 0 || (ht_is_kernel_float(t) && element == sign);
	case HT_RED_MAX:
		return ht_is_kernel_float(t) && element == (sign | ht_infinity_bits(t));
	case HT_RED_MIN:
		return ht_is_kernel_float(t) && element == ht_infinity_bits(t);
	default:
		return false;
	}
}

/* Products nest; a deeper search is not worth its time. */
#define MAX_NESTING 8

static bool neutral(const struct ht_e *e, int32_t i, enum ht_red op, int depth)
{
	const struct ht_x *x = &e->s->x[i];

	if (depth > MAX_NESTING)
		return false;
	switch (x->op) {
	case HT_X_CONST:
		return neutral_bits(x->dtype, x->imm, op);
	case HT_X_LOAD:
		return x->b >= 0 && ht_e_decide(e, x->b) == 0 && neutral(e, x->c, op, depth + 1);
	case HT_X_SELECT:
		return ht_e_decide(e, x->a) == 0 && neutral(e, x->c, op, depth + 1);
	case HT_X_CVT:
		return ht_is_float(e->s->x[x->a].dtype) == ht_is_float(x->dtype) &&
		       neutral(e, x->a, op, depth + 1);
	case HT_X_MUL:
		return op == HT_RED_ADD &&
		       (neutral(e, x->a, op, depth + 1) || neutral(e, x->b, op, depth + 1));
	default:
		return false;
	}
}

bool ht_e_neutral(const struct ht_e *e, int32_t x, enum ht_red op)
{
	return neutral(e, x, op, 0);
}

static void mark(void *set, int32_t x)
{
	((uint8_t *)set)[x] = 1;
}

static void strict(const struct ht_e *e, int32_t i, enum ht_red op, uint8_t *set, int depth)
{
	const struct ht_x *x = &e->s->x[i];

	if (depth > MAX_NESTING)
		return;
	switch (x->op) {
	case HT_X_LOAD:
		if (x->b >= 0 && ht_e_neutral(e, x->c, op))
			ht_e_conjuncts(e, x->b, mark, set);
		return;
	case HT_X_SELECT:
		if (ht_e_neutral(e, x->c, op))
			ht_e_conjuncts(e, x->a, mark, set);
		return;
	case HT_X_CVT:
		if (ht_is_float(e->s->x[x->a].dtype) == ht_is_float(x->dtype))
			strict(e, x->a, op, set, depth + 1);
		return;
	case HT_X_MUL:
		if (op == HT_RED_ADD) {
			strict(e, x->a, op, set, depth + 1);
			strict(e, x->b, op, set, depth + 1);
		}
		return;
	default:
		return;
	}
}

void ht_e_strict(const struct ht_e *e, int32_t x, enum ht_red op, uint8_t *set)
{
	strict(e, x, op, set, 0);
}
