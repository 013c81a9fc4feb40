/* Analyses a stage's expressions before they are emitted: which dimensions they use, their
 * linear forms, and how they vary along the lanes. */
#include "backend/emit.h"

bool ht_e_is_const(const struct ht_e_info *i)
{
	return i->pure && i->uses == 0 && !i->grid[0] && !i->grid[1] && !i->grid[2] && !i->grid[3];
}

void ht_e_add_scaled(struct ht_e_info *r, const struct ht_e_info *a, int64_t k)
{
	for (int d = 0; d < HT_MAX_DIMS; d++)
		r->coef[d] += k * a->coef[d];
	for (int g = 0; g < HT_MAX_GRID; g++)
		r->grid[g] += k * a->grid[g];
	r->c += k * a->c;
	r->opaque |= a->opaque;
	r->pure = r->pure && a->pure;
}

static void linear(struct ht_e *e, const struct ht_x *x, struct ht_e_info *r)
{
	const struct ht_e_info *a = x->a >= 0 ? &e->info[x->a] : NULL;
	const struct ht_e_info *b = x->b >= 0 ? &e->info[x->b] : NULL;

	r->pure = true;
	switch (x->op) {
	case HT_X_CONST:
		r->c = x->imm;
		return;
	case HT_X_DIM:
		r->coef[x->imm] = 1;
		return;
	case HT_X_GRID:
		r->grid[x->imm] = 1;
		return;
	case HT_X_ADD:
		ht_e_add_scaled(r, a, 1);
		ht_e_add_scaled(r, b, 1);
		return;
	case HT_X_SUB:
		ht_e_add_scaled(r, a, 1);
		ht_e_add_scaled(r, b, -1);
		return;
	case HT_X_NEG:
		ht_e_add_scaled(r, a, -1);
		return;
	case HT_X_MUL:
		if (ht_e_is_const(a) || ht_e_is_const(b)) {
			ht_e_add_scaled(
				r, ht_e_is_const(a) ? b : a, ht_e_is_const(a) ? a->c : b->c);
			return;
		}
		break;
	default:
		break;
	}
	r->pure = false;
	r->opaque = r->uses;
}

/* Whether the value in lane 0 is a multiple of the number of lanes: a division by such a multiple then
 * gives the same result in all lanes. */
static bool aligned(const struct ht_e *e, const struct ht_e_info *a)
{
	const struct ht_stage *s = e->s;
	int64_t n = e->lanes;

	if (!a->pure || !a->lane || a->lane_step != 1 || a->c % n != 0)
		return false;
	for (int d = 0; d < s->dims; d++)
		if (d != s->vec && a->coef[d] % n != 0)
			return false;
	for (int g = 0; g < HT_MAX_GRID; g++)
		if (a->grid[g] % n != 0)
			return false;
	return s->dim[s->vec].grid < 0 || s->dim[s->vec].step % n == 0;
}

static void lanes(struct ht_e *e, const struct ht_x *x, struct ht_e_info *r)
{
	const struct ht_e_info *a = x->a >= 0 ? &e->info[x->a] : NULL;
	const struct ht_e_info *b = x->b >= 0 ? &e->info[x->b] : NULL;

	switch (x->op) {
	case HT_X_DIM:
		if (x->imm == e->s->vec) {
			r->varies = r->lane = true;
			r->lane_step = 1;
		}
		return;
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		if (a->varies && b->pure && b->c % e->lanes == 0 && aligned(e, a)) {
			r->varies = r->lane = x->op == HT_X_FLOORMOD;
			r->lane_step = r->lane;
			return;
		}
		break;
	default:
		break;
	}
	if (x->dtype != HT_I64 || !r->varies)
		return;
	switch (x->op) {
	case HT_X_ADD:
	case HT_X_SUB:
		if ((a->varies && !a->lane) || (b->varies && !b->lane))
			return;
		r->lane_step = a->lane_step + (x->op == HT_X_ADD ? b->lane_step : -b->lane_step);
		r->lane = r->varies = r->lane_step != 0;
		return;
	case HT_X_MUL:
		if (ht_e_is_const(b) && a->lane)
			r->lane_step = a->lane_step * b->c;
		else if (ht_e_is_const(a) && b->lane)
			r->lane_step = b->lane_step * a->c;
		else
			return;
		r->lane = r->varies = r->lane_step != 0;
		return;
	case HT_X_NEG:
		r->lane = a->lane;
		r->lane_step = -a->lane_step;
		return;
	default:
		return;
	}
}

static void analyse_one(struct ht_e *e, const struct ht_x *x, struct ht_e_info *r)
{
	const struct ht_stage *s = e->s;
	const int32_t arg[3] = { x->a, x->b, x->c };

	r->of_indices = x->op != HT_X_LOAD && x->op != HT_X_RED && x->op != HT_X_CHECK;
	for (int i = 0; i < 3; i++) {
		if (arg[i] < 0)
			continue;
		r->of_indices = r->of_indices && e->info[arg[i]].of_indices;
		r->uses |= e->info[arg[i]].uses;
		r->varies = r->varies || e->info[arg[i]].varies;
	}
	if (x->op == HT_X_DIM)
		r->uses = 1u << x->imm;
	if (x->op == HT_X_RED)
		for (int d = 0; d < s->dims; d++)
			if (!s->dim[d].reduce)
				r->uses |= 1u << d;
	/* Earlier iterations may have stored there, so the load must not move in front of the
	 * loop. */
	if (x->op == HT_X_LOAD && s->sequential && e->k->buffer[x->imm].kind != HT_BUFFER_IN)
		for (int d = 0; d < s->dims; d++)
			if (d != s->vec)
				r->uses |= 1u << d;
	if (x->op == HT_X_RED)
		r->varies = s->vec >= 0 && !s->dim[s->vec].reduce;
	if (x->dtype == HT_I64)
		linear(e, x, r);
	else
		r->opaque = r->uses;
	if (s->vec >= 0)
		lanes(e, x, r);
	for (int l = e->levels; l > 0 && r->home == 0; l--)
		if (r->uses >> e->level[l - 1].dim & 1)
			r->home = (int8_t)l;
}

void ht_e_analyse(struct ht_e *e)
{
	const struct ht_stage *s = e->s;

	e->info = HT_NEW_ARRAY(e->arena, struct ht_e_info, (size_t)s->xs + 1);
	for (int32_t i = 0; i < s->xs; i++)
		analyse_one(e, &s->x[i], &e->info[i]);
}
