/* Splits loops where guards change along a dimension: the interior runs without guards, and
 * reduction loops run only over indices where their guards hold. */
#include "backend/emit.h"

#include <string.h>

/* For bodies with more expressions, further copies would cost more compile time than guards cost
 * run time. */
enum { MAX_SPLIT_BODY = 300 };

struct splits {
	const struct ht_e *e;
	int dim, n;
	int64_t at[HT_E_MAX_SPLITS];
	bool overflow;
};

static void add_split(struct splits *s, int64_t at)
{
	int i;

	if (at <= 0 || at >= s->e->s->dim[s->dim].extent)
		return;
	for (i = 0; i < s->n; i++)
		if (s->at[i] == at)
			return;
	if (s->n == HT_E_MAX_SPLITS) {
		s->overflow = true;
		return;
	}
	for (i = s->n++; i > 0 && s->at[i - 1] > at; i--)
		s->at[i] = s->at[i - 1];
	s->at[i] = at;
}

/* Splits s->dim where inequality p begins or ceases to hold for all, and for any, of the
 * reduction's indices, if p has only unrolled reduction dimensions besides s->dim.  If p has
 * another reduction dimension, that loop is clipped instead (ht_e_clip()), unless several copies
 * of s->dim share it. */
static void split_at(void *arg, int32_t x)
{
	struct splits *s = arg;
	const struct ht_stage *stage = s->e->s;
	struct ht_e_info p;
	int64_t min, max, k;

	if (!ht_e_inequality(s->e, x, &p) || p.coef[s->dim] == 0)
		return;
	min = max = p.c;
	for (int d = 0; d < stage->dims; d++) {
		int64_t far = p.coef[d] * (stage->dim[d].extent - 1);

		if (d == s->dim || p.coef[d] == 0)
			continue;
		if (!stage->dim[d].reduce || (s->e->max_copies[d] != stage->dim[d].extent &&
						     s->e->max_copies[s->dim] == 1))
			return;
		min += far < 0 ? far : 0;
		max += far > 0 ? far : 0;
	}
	for (int g = 0; g < HT_MAX_GRID; g++)
		if (p.grid[g])
			return;
	k = p.coef[s->dim];
	if (k > 0) {
		add_split(s, ht_ceil_div(-max, k));
		add_split(s, ht_ceil_div(-min, k));
	} else {
		add_split(s, ht_ceil_div(min + 1, -k));
		add_split(s, ht_ceil_div(max + 1, -k));
	}
}

int ht_e_splits(const struct ht_e *e, int d, int64_t *at)
{
	struct splits s = { .e = e, .dim = d };

	/* Columns of a contraction are processed in whole panels of B. */
	if (e->s->kind == HT_STAGE_CONTRACT && d == e->s->vec)
		return 0;
	/* Along lanes, a few masked vectors cost less than separate code for each border. */
	if (d == e->s->vec && e->s->dim[d].extent < 4 * e->lanes)
		return 0;
	if (d == e->s->vec)
		for (int32_t i = 0; i < e->s->xs; i++)
			if (e->s->x[i].op == HT_X_FLOORMOD && e->info[i].lane)
				return 0; /* it relies on whole vectors */
	for (int32_t i = 0; i < e->s->xs; i++) {
		const struct ht_x *x = &e->s->x[i];

		if (x->op == HT_X_LOAD && x->b >= 0)
			ht_e_conjuncts(e, x->b, split_at, &s);
		if (x->op == HT_X_SELECT)
			ht_e_conjuncts(e, x->a, split_at, &s);
	}
	for (int32_t i = 0; i < e->s->stores; i++)
		if (e->s->store[i].guard >= 0)
			ht_e_conjuncts(e, e->s->store[i].guard, split_at, &s);
	if (s.overflow || e->s->xs > MAX_SPLIT_BODY)
		return 0;
	memcpy(at, s.at, sizeof s.at);
	return s.n;
}

/* The linear form without dimension `dim`; false if that is not a scalar here. */
static bool rest_of(struct ht_e *e, const struct ht_e_info *p, int dim, LLVMValueRef *rest)
{
	LLVMValueRef v = ht_e_i64(e, p->c);

	for (int d = 0; d < e->s->dims; d++) {
		const struct ht_e_level *l = &e->level[e->level_of[d]];

		if (d == dim || !p->coef[d])
			continue;
		if (d == e->s->vec || e->level_of[d] >= e->open || l->copies != 1)
			return false;
		v = LLVMBuildNSWAdd(
			e->b, v, LLVMBuildNSWMul(e->b, l->index, ht_e_i64(e, p->coef[d]), ""), "");
	}
	for (int g = 0; g < e->k->grid_dims; g++)
		if (p->grid[g])
			v = LLVMBuildNSWAdd(e->b, v,
				LLVMBuildNSWMul(e->b, e->grid[g], ht_e_i64(e, p->grid[g]), ""), "");
	*rest = v;
	return true;
}

/* floor(a / b), b a positive constant */
static LLVMValueRef floor_of(struct ht_e *e, LLVMValueRef a, int64_t b)
{
	LLVMValueRef d = ht_e_i64(e, b), r;

	if (b == 1)
		return a;
	r = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildSRem(e->b, a, d, ""), ht_e_i64(e, 0), "");
	return LLVMBuildAdd(
		e->b, LLVMBuildSDiv(e->b, a, d, ""), LLVMBuildSExt(e->b, r, e->i64, ""), "");
}

void ht_e_clip(struct ht_e *e, int d, LLVMValueRef *begin, LLVMValueRef *count, uint8_t *set)
{
	const struct ht_stage *s = e->s;
	uint8_t *one = HT_NEW_ARRAY(e->arena, uint8_t, (size_t)s->xs + 1);
	LLVMValueRef end = LLVMBuildNSWAdd(e->b, *begin, *count, ""), rest;
	struct ht_e_info p;

	if (s->kind == HT_STAGE_CONTRACT)
		return;
	for (int r = 0; r < s->reds; r++) {
		memset(one, 0, (size_t)s->xs + 1);
		ht_e_strict(e, s->red[r].x, s->red[r].op, one);
		for (int32_t i = 0; i < s->xs; i++)
			set[i] = one[i] && (r == 0 || set[i]);
	}
	for (int32_t i = 0; i < s->xs; i++) {
		if (set[i] &&
			(e->assumed[i] || ht_e_decide(e, i) == 1 || !ht_e_inequality(e, i, &p) ||
				p.coef[d] == 0 || !rest_of(e, &p, d, &rest)))
			set[i] = 0;
		if (!set[i])
			continue;
		e->assumed[i] = 1;
		if (p.coef[d] > 0) { /* index >= ceil(-rest / k) = -floor(rest / k) */
			rest = LLVMBuildNeg(e->b, floor_of(e, rest, p.coef[d]), "");
			*begin = ht_e_smax(e, *begin, rest);
		} else { /* index <= floor(rest / k) */
			rest = floor_of(e, rest, -p.coef[d]);
			end = ht_e_smin(e, end, LLVMBuildNSWAdd(e->b, rest, ht_e_i64(e, 1), ""));
		}
	}
	*count = LLVMBuildNSWSub(e->b, end, *begin, "");
}
