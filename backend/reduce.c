/* Reductions of loop stages: accumulators per copy, in lanes.  At the end they are combined, if
 * several accumulators or lanes belong to one result. */
#include "backend/emit.h"

#include <string.h>

#define FEW_POSITIONS 64

struct acc {
	LLVMValueRef value, at; /* allocas; at: the position, of ARGMIN and ARGMAX */
};

struct ht_e_reducer {
	struct ht_e *e;
	struct acc *wide;         /* [red][copy of the outer levels][number of the accumulator] */
	struct ht_e_total *total; /* [red][copy]: of sums that are divided into runs */
	struct acc *narrow;       /* [red][copy]: for the scalar remainder of a reduction along
				   * lanes */
	struct ht_e_ordered *ordered; /* [red][copy]: of extremes of floats */
	int side;                     /* accumulators per result */
	bool across;                  /* vec is reduced */
	LLVMTypeRef position;
};

static bool is_arg(enum ht_red op)
{
	return op == HT_RED_ARGMIN || op == HT_RED_ARGMAX;
}

static bool is_extreme(const struct ht_reduction *r)
{
	return (r->op == HT_RED_MIN || r->op == HT_RED_MAX) && ht_is_float(r->dtype);
}

/* Whether its sums are divided into runs if they are long. */
static bool has_runs(const struct ht_reduction *r)
{
	return r->op == HT_RED_ADD && r->dtype == HT_F32 && !r->keep;
}

static LLVMValueRef load(struct ht_e *e, LLVMValueRef slot)
{
	return LLVMBuildLoad2(e->b, LLVMGetAllocatedType(slot), slot, "");
}

/* Replaces `acc` by (value, at) if that is better, or equally good and earlier. */
static void improve(struct ht_e *e, const struct ht_reduction *r, struct acc acc,
	LLVMValueRef value, LLVMValueRef at, LLVMValueRef active, bool ordered)
{
	bool max = r->op == HT_RED_ARGMAX, real = ht_is_float(r->dtype);
	LLVMValueRef old = load(e, acc.value), where = load(e, acc.at), better, tie;

	if (real)
		better = LLVMBuildFCmp(e->b, max ? LLVMRealOGT : LLVMRealOLT, value, old, "");
	else if (ht_dtype_info(r->dtype)->kind == HT_KIND_INT)
		better = LLVMBuildICmp(e->b, max ? LLVMIntSGT : LLVMIntSLT, value, old, "");
	else
		better = LLVMBuildICmp(e->b, max ? LLVMIntUGT : LLVMIntULT, value, old, "");
	if (!ordered) {
		tie = real ? LLVMBuildFCmp(e->b, LLVMRealOEQ, value, old, "")
			   : LLVMBuildICmp(e->b, LLVMIntEQ, value, old, "");
		tie = LLVMBuildAnd(e->b, tie, LLVMBuildICmp(e->b, LLVMIntSLT, at, where, ""), "");
		better = LLVMBuildOr(e->b, better, tie, "");
	}
	if (active)
		better = LLVMBuildAnd(e->b, better, active, "");
	LLVMBuildStore(e->b, ht_e_select(e, better, value, old), acc.value);
	LLVMBuildStore(e->b, ht_e_select(e, better, at, where), acc.at);
}

/* Row-major position over the reduction dimensions. */
static LLVMValueRef position(struct ht_e_reducer *q, int lanes)
{
	struct ht_e *e = q->e;
	const struct ht_stage *s = e->s;
	LLVMValueRef v = ht_e_i64(e, 0);
	int64_t stride = 1, step = 0;

	for (int d = s->dims - 1; d >= 0; d--) {
		const struct ht_e_level *l = &e->level[e->level_of[d]];

		if (!s->dim[d].reduce)
			continue;
		if (d == s->vec)
			step = stride;
		v = LLVMBuildAdd(e->b, v,
			LLVMBuildMul(e->b,
				LLVMBuildAdd(
					e->b, l->index, ht_e_i64(e, e->off[d] * l->stride), ""),
				ht_e_i64(e, stride), ""),
			"");
		stride *= s->dim[d].extent;
	}
	v = LLVMBuildTrunc(e->b, v, q->position, "");
	if (lanes == 1)
		return v;
	return LLVMBuildAdd(
		e->b, ht_e_splat(e, v, lanes), ht_e_iota(e, q->position, step, lanes), "");
}

static int outer_memo(struct ht_e *e)
{
	uint32_t uses = 0;

	for (int l = 0; l < e->outer; l++)
		uses |= 1u << e->level[l].dim;
	return ht_e_memo(e, uses);
}

static struct acc *wide(struct ht_e_reducer *q, int red, int number)
{
	return &q->wide[(red * q->e->memo_size + outer_memo(q->e)) * q->side + number];
}

static struct acc *narrow(struct ht_e_reducer *q, int red)
{
	return &q->narrow[red * q->e->memo_size + outer_memo(q->e)];
}

static struct ht_e_total *total(struct ht_e_reducer *q, int red)
{
	return &q->total[red * q->e->memo_size + outer_memo(q->e)];
}

static struct ht_e_ordered *ordered(struct ht_e_reducer *q, int red)
{
	return &q->ordered[red * q->e->memo_size + outer_memo(q->e)];
}

/* Whether x is a product of BF16 numbers, or a single one. */
static bool is_pair_product(const struct ht_stage *s, const struct ht_reduction *r)
{
	const struct ht_x *x = &s->x[r->x];

	if (r->op != HT_RED_ADD || r->dtype != HT_F32 || r->keep)
		return false;
	if (x->op == HT_X_MUL)
		return ht_e_widened(s, x->a) >= 0 && ht_e_widened(s, x->b) >= 0;
	return ht_e_widened(s, r->x) >= 0;
}

/* Adds such products by the dot product of pairs, with zero as the other half of each pair.
 * That instruction treats subnormals as zero itself; a conversion needs several steps for it. */
static void add_pair_product(
	struct ht_e *e, const struct ht_reduction *r, struct acc a, LLVMValueRef mask)
{
	const struct ht_x *x = &e->s->x[r->x];
	bool product = x->op == HT_X_MUL;
	LLVMTypeRef pairs = ht_e_form(e->i32, e->vl);
	LLVMValueRef old = load(e, a.value), v, w = ht_e_int(e, pairs, 0x3f80);

	v = ht_e_get(e, ht_e_widened(e->s, product ? x->a : r->x), true);
	v = LLVMBuildZExt(e->b, v, pairs, "");
	if (product)
		w = LLVMBuildZExt(e->b, ht_e_get(e, ht_e_widened(e->s, x->b), true), pairs, "");
	v = ht_e_dot(e, old, v, w);
	if (mask)
		v = ht_e_select(e, mask, v, old);
	LLVMBuildStore(e->b, v, a.value);
}

static void add_product(
	struct ht_e *e, const struct ht_x *x, struct acc a, bool vector, LLVMValueRef mask)
{
	LLVMValueRef old = load(e, a.value), v;

	v = ht_e_muladd(e, ht_e_get(e, x->a, vector), ht_e_get(e, x->b, vector), old);
	if (mask)
		v = ht_e_select(e, mask, v, old);
	LLVMBuildStore(e->b, v, a.value);
}

/* Whether positions are visited in order: vec is innermost, and copies follow one another. */
static bool in_order(const struct ht_e *e)
{
	const struct ht_stage *s = e->s;

	for (int l = e->outer; l < e->levels - 1; l++)
		if (e->max_copies[e->level[l].dim] > 1)
			return false;
	return s->vec < 0 || !s->dim[s->vec].reduce || s->vec == s->dims - 1;
}

static void accumulate(struct ht_e_reducer *q, int red, int number)
{
	struct ht_e *e = q->e;
	const struct ht_reduction *r = &e->s->red[red];
	const struct ht_x *x = &e->s->x[r->x];
	bool scalar_rest = q->across && e->vl == 1 && e->lanes > 1, vector = e->vl > 1;
	struct acc a = scalar_rest ? *narrow(q, red) : *wide(q, red, number);
	LLVMValueRef mask = q->across ? ht_e_mask(e) : NULL, v;

	if (ht_e_neutral(e, r->x, r->op))
		return;
	if (vector && ht_e_has_dot(e, e->vl) && is_pair_product(e->s, r)) {
		add_pair_product(e, r, a, mask);
		return;
	}
	if (r->op == HT_RED_ADD && x->op == HT_X_MUL && ht_is_float(r->dtype) && !r->keep &&
		e->t->fused) {
		add_product(e, x, a, vector, mask);
		return;
	}
	v = ht_e_get(e, r->x, vector);
	if (is_arg(r->op)) {
		improve(e, r, a, v, position(q, vector ? e->vl : 1), mask, in_order(e));
		return;
	}
	if (mask)
		v = ht_e_select(e, mask, v, ht_e_neutral_of(e, r, e->vl));
	if (is_extreme(r) && !scalar_rest) {
		ht_e_ordered_next(e, ordered(q, red), v);
		v = ht_e_extreme(e, load(e, a.value), v, r->op == HT_RED_MAX);
		LLVMBuildStore(e->b, v, a.value);
		return;
	}
	LLVMBuildStore(e->b, ht_e_combine(e, r, load(e, a.value), v), a.value);
}

static void pause(struct ht_e *e)
{
	ht_e_first_copy(e, 0, e->outer);
	do {
		for (int i = 0; i < e->s->reds; i++)
			if (is_extreme(&e->s->red[i]))
				ht_e_ordered_pause(e, ordered(e->reducer, i));
	} while (ht_e_next_copy(e, 0, e->outer));
}

/* The innermost body.  Its outer loop is over reduction copies, so that consecutive operations
 * use different accumulators. */
static void reduce_leaf(struct ht_e *e)
{
	int number = 0;

	ht_e_first_copy(e, e->outer, e->levels);
	do {
		ht_e_first_copy(e, 0, e->outer);
		do {
			for (int i = 0; i < e->s->reds; i++) {
				ht_e_part(e, HT_PART_RED, i);
				accumulate(e->reducer, i, number % e->reducer->side);
			}
		} while (ht_e_next_copy(e, 0, e->outer));
		number++;
	} while (ht_e_next_copy(e, e->outer, e->levels));
	pause(e);
}

static struct acc new_acc(struct ht_e_reducer *q, const struct ht_reduction *r, int lanes)
{
	struct ht_e *e = q->e;
	struct acc a = { 0 };

	a.value = ht_e_alloca(e, ht_e_form(ht_e_type(e, r->dtype), lanes), 0, "acc");
	LLVMBuildStore(e->b, ht_e_neutral_of(e, r, lanes), a.value);
	if (!is_arg(r->op))
		return a;
	a.at = ht_e_alloca(e, ht_e_form(q->position, lanes), 0, "at");
	LLVMBuildStore(e->b, LLVMConstNull(LLVMGetAllocatedType(a.at)), a.at);
	return a;
}

/* Adds `b` to `a` as a partial result. */
static void merge(struct ht_e_reducer *q, const struct ht_reduction *r, struct acc a,
	LLVMValueRef value, LLVMValueRef at)
{
	struct ht_e *e = q->e;

	if (is_arg(r->op))
		improve(e, r, a, value, at, NULL, false);
	else
		LLVMBuildStore(e->b, ht_e_combine(e, r, load(e, a.value), value), a.value);
}

static struct acc halve(
	struct ht_e_reducer *q, const struct ht_reduction *r, struct acc a, int lanes)
{
	struct ht_e *e = q->e;
	struct acc half = new_acc(q, r, lanes / 2);
	LLVMValueRef v = load(e, a.value), at = a.at ? load(e, a.at) : NULL;

	LLVMBuildStore(e->b, ht_e_slice(e, v, 0, lanes / 2), half.value);
	if (at)
		LLVMBuildStore(e->b, ht_e_slice(e, at, 0, lanes / 2), half.at);
	merge(q, r, half, ht_e_slice(e, v, lanes / 2, lanes / 2),
		at ? ht_e_slice(e, at, lanes / 2, lanes / 2) : NULL);
	return half;
}

/* Combines the accumulators of one result into the first. */
static struct acc merge_sides(struct ht_e_reducer *q, int red)
{
	struct ht_e *e = q->e;
	const struct ht_reduction *r = &e->s->red[red];
	struct acc a = *wide(q, red, 0);

	for (int i = 1; i < q->side; i++) {
		struct acc b = *wide(q, red, i);

		if (is_extreme(r))
			LLVMBuildStore(e->b,
				ht_e_extreme(
					e, load(e, a.value), load(e, b.value), r->op == HT_RED_MAX),
				a.value);
		else
			merge(q, r, a, load(e, b.value), b.at ? load(e, b.at) : NULL);
	}
	return a;
}

/* Adds the accumulators of one result to its total. */
static void add_run(struct ht_e_reducer *q, int red)
{
	struct ht_e *e = q->e;

	ht_e_total_add(e, *total(q, red), load(e, merge_sides(q, red).value));
	for (int i = 0; i < q->side; i++) {
		LLVMValueRef slot = wide(q, red, i)->value;

		LLVMBuildStore(e->b, LLVMConstNull(LLVMGetAllocatedType(slot)), slot);
	}
}

void ht_e_end_run(struct ht_e *e)
{
	ht_e_first_copy(e, 0, e->outer);
	do {
		for (int i = 0; i < e->s->reds; i++)
			if (has_runs(&e->s->red[i]))
				add_run(e->reducer, i);
	} while (ht_e_next_copy(e, 0, e->outer));
}

static LLVMValueRef finish(struct ht_e_reducer *q, int red)
{
	struct ht_e *e = q->e;
	const struct ht_reduction *r = &e->s->red[red];
	struct acc a = merge_sides(q, red);
	LLVMValueRef v;

	if (q->total && has_runs(r)) {
		ht_e_total_add(e, *total(q, red), load(e, a.value));
		LLVMBuildStore(e->b, ht_e_total_value(e, *total(q, red)), a.value);
	}
	if (is_extreme(r))
		LLVMBuildStore(
			e->b, ht_e_ordered_end(e, ordered(q, red), load(e, a.value)), a.value);
	if (q->across)
		for (int n = e->lanes; n > 1; n /= 2)
			a = halve(q, r, a, n);
	if (q->narrow) {
		struct acc b = *narrow(q, red);

		merge(q, r, a, load(e, b.value), b.at ? load(e, b.at) : NULL);
	}
	v = load(e, is_arg(r->op) ? a.at : a.value);
	if (is_arg(r->op))
		v = LLVMBuildSExt(e->b, v, ht_e_form(e->i64, ht_e_lanes_of(v)), "");
	return v;
}

/* The number of reduced values in an innermost body. */
static int inner_copies(const struct ht_e *e)
{
	int inner = 1;

	for (int l = e->outer; l < e->levels; l++)
		inner *= e->max_copies[e->level[l].dim];
	return inner;
}

/* How many independent accumulators hide the latency of an addition.  A few positions, as in a
 * window, are always summed in one order, also at the image's border. */
static int accumulators(struct ht_e *e, int64_t positions)
{
	bool few = positions <= FEW_POSITIONS;
	int outer = 1, inner = inner_copies(e);

	for (int l = 0; l < e->outer; l++)
		outer *= e->level[l].copies > 0 && !few ? e->level[l].copies
							: e->max_copies[e->level[l].dim];
	outer = outer >= 4 ? 1 : 4 / outer;
	return inner < outer ? inner : outer;
}

/* Makes totals for sums that are long. */
static void plan_totals(struct ht_e_reducer *q)
{
	struct ht_e *e = q->e;
	bool any = false;

	for (int i = 0; i < e->s->reds; i++)
		any = any || has_runs(&e->s->red[i]);
	e->runs = (struct ht_e_runs){ .level = -1 };
	if (any)
		e->runs = ht_e_plan_runs(e, ht_ceil_div(inner_copies(e), q->side));
	if (e->runs.level >= 0)
		q->total = HT_NEW_ARRAY(
			e->arena, struct ht_e_total, (size_t)e->s->reds * (size_t)e->memo_size);
}

void ht_e_reduce(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	struct ht_e_reducer q = { .e = e };
	int64_t positions = 1;
	int32_t line;
	size_t n = (size_t)s->reds * (size_t)e->memo_size;
	int lanes = e->vl;

	for (int d = 0; d < s->dims; d++)
		if (s->dim[d].reduce)
			positions *= s->dim[d].extent;
	q.position = positions < INT32_MAX ? e->i32 : e->i64;
	q.side = accumulators(e, positions);
	q.across = s->vec >= 0 && s->dim[s->vec].reduce && e->lanes > 1;
	q.wide = HT_NEW_ARRAY(e->arena, struct acc, n * (size_t)q.side);
	q.ordered = HT_NEW_ARRAY(e->arena, struct ht_e_ordered, n);
	if (q.across && !e->t->masks &&
		(s->dim[s->vec].extent % e->lanes != 0 || s->dim[s->vec].cut[0].run))
		q.narrow = HT_NEW_ARRAY(e->arena, struct acc, n);
	plan_totals(&q);
	e->reducer = &q;
	line = ht_e_part(e, HT_PART_RED, 0);
	ht_e_first_copy(e, 0, e->outer);
	do {
		for (int i = 0; i < s->reds; i++) {
			for (int k = 0; k < q.side; k++)
				*wide(&q, i, k) = new_acc(&q, &s->red[i], lanes);
			if (q.total && has_runs(&s->red[i]))
				*total(&q, i) = ht_e_total_new(
					e, LLVMGetAllocatedType(wide(&q, i, 0)->value));
			if (q.narrow)
				*narrow(&q, i) = new_acc(&q, &s->red[i], 1);
			if (is_extreme(&s->red[i]))
				ht_e_ordered_begin(e, ordered(&q, i), s->red[i].dtype, lanes);
		}
	} while (ht_e_next_copy(e, 0, e->outer));
	if (positions > 0)
		ht_e_nest(e, e->outer, e->levels, reduce_leaf);
	do {
		for (int i = 0; i < s->reds; i++) {
			ht_e_part(e, HT_PART_RED, i);
			e->red[i * e->memo_size + outer_memo(e)] = finish(&q, i);
		}
	} while (ht_e_next_copy(e, 0, e->outer));
	ht_e_line(e, line);
	e->reducer = NULL;
}
