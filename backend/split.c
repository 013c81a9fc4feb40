/* Splits loops where guards change along a dimension: the interior runs without guards, and
 * reduction loops run only over indices where their guards hold.  Where a guard changes may depend on sizes of the run. */
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

/* The least and the most of form p over the indices of reductions, without dimension `dim`.  False: p has another dimension, or a
 * reduction dimension that is not unrolled.  Then that loop is clipped instead (ht_e_clip()), unless several copies of `dim` share
 * it. */
static bool spans(
	const struct ht_e *e, int dim, const struct ht_e_info *p, int64_t *least, int64_t *most)
{
	const struct ht_stage *s = e->s;

	*least = *most = p->c;
	for (int d = 0; d < s->dims; d++) {
		int64_t far = p->coef[d] * (s->dim[d].extent - 1);

		if (d == dim || p->coef[d] == 0)
			continue;
		if (!s->dim[d].reduce ||
			(e->max_copies[d] != s->dim[d].extent && e->max_copies[dim] == 1))
			return false;
		*least += far < 0 ? far : 0;
		*most += far > 0 ? far : 0;
	}
	for (int g = 0; g < HT_MAX_GRID; g++)
		if (p->grid[g])
			return false;
	return true;
}

/* Splits s->dim where inequality x begins or ceases to hold for all, and for any, of the
 * reduction's indices. */
static void split_at(void *arg, int32_t x)
{
	struct splits *s = arg;
	struct ht_e_info p;
	int64_t min, max, k;

	if (!ht_e_inequality(s->e, x, &p) || !p.pure || p.coef[s->dim] == 0 ||
		!spans(s->e, s->dim, &p, &min, &max))
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

/* Calls fn for every conjunct of every guard of the stage. */
static void each_guard(const struct ht_e *e, void (*fn)(void *, int32_t), void *arg)
{
	for (int32_t i = 0; i < e->s->xs; i++) {
		const struct ht_x *x = &e->s->x[i];

		if (x->op == HT_X_LOAD && x->b >= 0)
			ht_e_conjuncts(e, x->b, fn, arg);
		if (x->op == HT_X_SELECT)
			ht_e_conjuncts(e, x->a, fn, arg);
	}
	for (int32_t i = 0; i < e->s->stores; i++)
		if (e->s->store[i].guard >= 0)
			ht_e_conjuncts(e, e->s->store[i].guard, fn, arg);
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
	each_guard(e, split_at, &s);
	if (s.overflow || e->s->xs > MAX_SPLIT_BODY)
		return 0;
	memcpy(at, s.at, sizeof s.at);
	return s.n;
}

/* The term of I64 expression x that no index changes, besides the constant of its linear form.  Each operand is a statement of its own:
 * C does not fix the order in which arguments are evaluated, and both emit code. */
static LLVMValueRef term_of_run(struct ht_e *e, int32_t x)
{
	const struct ht_x *v = &e->s->x[x];
	LLVMValueRef a;

	if (e->info[x].pure)
		return ht_e_i64(e, 0);
	switch (v->op) {
	case HT_X_ADD:
		a = term_of_run(e, v->a);
		return LLVMBuildNSWAdd(e->b, a, term_of_run(e, v->b), "");
	case HT_X_SUB:
		a = term_of_run(e, v->a);
		return LLVMBuildNSWSub(e->b, a, term_of_run(e, v->b), "");
	case HT_X_NEG:
		return LLVMBuildNSWNeg(e->b, term_of_run(e, v->a), "");
	case HT_X_MUL:
		if (ht_e_is_const(&e->info[v->a]))
			return LLVMBuildNSWMul(
				e->b, term_of_run(e, v->b), ht_e_i64(e, e->info[v->a].c), "");
		if (ht_e_is_const(&e->info[v->b]))
			return LLVMBuildNSWMul(
				e->b, term_of_run(e, v->a), ht_e_i64(e, e->info[v->b].c), "");
		break;
	default:
		break;
	}
	return ht_e_get(e, x, false);
}

/* The same of inequality x. */
static LLVMValueRef term_of_inequality(struct ht_e *e, int32_t x)
{
	struct ht_e_comparison c = { 0 };
	LLVMValueRef high;

	ht_e_comparison(e, x, &c);
	high = term_of_run(e, c.high);
	return LLVMBuildNSWSub(e->b, high, term_of_run(e, c.low), "");
}

/* Inequality x, whose form is p, without dimension `dim`; false if that is not a scalar here. */
static bool rest_of(
	struct ht_e *e, int32_t x, const struct ht_e_info *p, int dim, LLVMValueRef *rest)
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
	if (!p->pure)
		v = LLVMBuildNSWAdd(e->b, v, term_of_inequality(e, x), "");
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
				p.coef[d] == 0 || !rest_of(e, i, &p, d, &rest)))
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

/* ---- guards that depend on sizes of the run ---- */

struct inner {
	struct ht_e *e;
	int dim;
	LLVMValueRef begin, end;
	uint8_t *set;
	bool front, behind; /* some indices there are left out */
};

/* Leaves out the indices where guard x does not hold for all indices of the reductions. */
static void narrow(void *arg, int32_t x)
{
	struct inner *in = arg;
	struct ht_e *e = in->e;
	struct ht_e_info p;
	int64_t least, most, k;
	LLVMValueRef rest;

	if (in->set[x] || ht_e_decide(e, x) >= 0 || !ht_e_inequality(e, x, &p) || p.pure ||
		p.coef[in->dim] == 0 || !spans(e, in->dim, &p, &least, &most))
		return;
	k = p.coef[in->dim];
	rest = LLVMBuildNSWAdd(e->b, term_of_inequality(e, x), ht_e_i64(e, least), "");
	if (k > 0) {
		rest = LLVMBuildNeg(e->b, floor_of(e, rest, k), "");
		in->begin = ht_e_smax(e, in->begin, rest);
		in->front = true;
	} else {
		rest = LLVMBuildNSWAdd(e->b, floor_of(e, rest, -k), ht_e_i64(e, 1), "");
		in->end = ht_e_smin(e, in->end, rest);
		in->behind = true;
	}
	in->set[x] = 1;
}

bool ht_e_inner(struct ht_e *e, int d, LLVMValueRef *begin, LLVMValueRef *end, uint8_t *set)
{
	struct inner in = { .e = e, .dim = d, .begin = *begin, .end = *end, .set = set };

	if (d == e->s->vec || e->s->kind == HT_STAGE_CONTRACT || e->s->reds == 0 ||
		e->s->xs > MAX_SPLIT_BODY)
		return false;
	each_guard(e, narrow, &in);
	if (in.front)
		*begin = ht_e_smin(e, in.begin, *end);
	if (in.behind)
		*end = ht_e_smax(e, in.end, *begin);
	return in.front || in.behind;
}
