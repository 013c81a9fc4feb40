/* A stage: the order of its levels, how many copies of each run side by side, and its stores. */
#include "backend/emit.h"

#include <string.h>

/* How many expressions below the sink are searched for reductions. */
enum { MOST_REDUCED = 256 };

/* Reductions with longer bodies store their results one by one, or a few at a time. */
enum { LONG_BODY = 40 };

/* In bodies of so many operations or more, the operations of TOGETHER results alternate. */
enum { FUNCTION_BODY = 20, TOGETHER = 8 };
/* Likewise in loops without reductions whose bodies are long. */
enum { IN_TURN = 4 };

/* Orders the levels: dimensions in order, but the vector dimension innermost of its kind, and
 * reductions last. */
static void order_levels(struct ht_e *e)
{
	const struct ht_stage *s = e->s;

	e->levels = 0;
	for (int reduce = 0; reduce < 2; reduce++) {
		for (int last = 0; last < 2; last++)
			for (int d = 0; d < s->dims; d++)
				if (s->dim[d].reduce == (reduce == 1) &&
					(d == s->vec) == (last == 1))
					e->level[e->levels++].dim = d;
		if (!reduce)
			e->outer = e->levels;
	}
	for (int l = 0; l < e->levels; l++)
		e->level_of[e->level[l].dim] = l;
}

/* The most indices of a dimension in one tile. */
static int64_t span(const struct ht_dim *d)
{
	return d->grid >= 0 && d->step < d->extent ? d->step : d->extent;
}

static bool is_operation(const struct ht_x *x)
{
	return x->dtype != HT_I64 && x->op != HT_X_CONST;
}

/* What an expression is used for. */
enum { FOR_FLAGS = 1, FOR_MORE = 2 };

static void use(uint8_t *of, int32_t x, uint8_t what)
{
	if (x >= 0)
		of[x] |= what;
}

/* Whether the store only notes where its guard is true. */
static bool is_flag(const struct ht_stage *s, const struct ht_store *st)
{
	return st->guard >= 0 && s->x[st->value].op == HT_X_CONST;
}

/* Returns whether the stage stores flags. */
static bool mark_roots(const struct ht_stage *s, uint8_t *of)
{
	bool flags = false;

	for (int32_t i = 0; i < s->stores; i++) {
		const struct ht_store *st = &s->store[i];

		use(of, st->guard, is_flag(s, st) ? FOR_FLAGS : FOR_MORE);
		use(of, st->value, FOR_MORE);
		flags |= is_flag(s, st);
	}
	for (int32_t i = 0; i < s->reds; i++)
		use(of, s->red[i].x, FOR_MORE);
	if (s->kind == HT_STAGE_CONTRACT)
		use(of, s->contract.a_guard, FOR_MORE);
	return flags;
}

/* The operations that only flags need. */
static int flags_size(const struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	uint8_t *of = HT_NEW_ARRAY(e->arena, uint8_t, (size_t)s->xs + 1);
	int n = 0;

	if (!mark_roots(s, of))
		return 0;
	for (int32_t i = s->xs - 1; i >= 0; i--) {
		const struct ht_x *x = &s->x[i];

		use(of, x->a, of[i] == FOR_FLAGS ? FOR_FLAGS : FOR_MORE);
		use(of, x->b, of[i] == FOR_FLAGS ? FOR_FLAGS : FOR_MORE);
		use(of, x->c, of[i] == FOR_FLAGS ? FOR_FLAGS : FOR_MORE);
		n += of[i] == FOR_FLAGS && is_operation(x);
	}
	return n;
}

/* The operations on data.  Those of flags do not count, so that a kernel adds in the same order with them and without. */
static int body_size(const struct ht_e *e)
{
	int n = -flags_size(e);

	for (int32_t i = 0; i < e->s->xs; i++)
		n += is_operation(&e->s->x[i]);
	return n;
}

/* body_size() of only the reductions' expressions. */
static int reduced_size(const struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	bool used[MOST_REDUCED] = { false };
	int n = 0;

	for (int r = 0; r < s->reds; r++) {
		if (s->red[r].x >= MOST_REDUCED)
			return body_size(e);
		used[s->red[r].x] = true;
	}
	for (int32_t i = s->xs < MOST_REDUCED ? s->xs - 1 : MOST_REDUCED - 1; i >= 0; i--) {
		const struct ht_x *x = &s->x[i];

		if (!used[i])
			continue;
		n += is_operation(x);
		if (x->a >= 0)
			used[x->a] = true;
		if (x->b >= 0)
			used[x->b] = true;
		if (x->c >= 0)
			used[x->c] = true;
	}
	return n;
}

/* Whether the stage computes functions, in which each operation depends on the one before: the processor looks ahead by about two
 * functions, so operations of IN_TURN results alternate.  There must be registers for them. */
static bool alternates(const struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	bool functions = false;

	if (s->kind != HT_STAGE_LOOP || s->reds || s->vec < 0 || !e->t->masks ||
		body_size(e) <= LONG_BODY)
		return false;
	for (int32_t i = 0; i < s->xs; i++) {
		if (s->x[i].op == HT_X_CHECK)
			return false;
		functions = functions || s->x[i].op == HT_X_SCALE ||
			    (s->x[i].op == HT_X_DIV && s->x[i].dtype == HT_F32);
	}
	return functions;
}

/* Copies along vec hide latency and share values that do not depend on it; more than three cause
 * spills. */
static void plan_vec(struct ht_e *e, int budget)
{
	const struct ht_stage *s = e->s;
	int64_t vectors = span(&s->dim[s->vec]) / e->lanes;
	int size = body_size(e), n = size <= 12 ? 4 : size <= LONG_BODY ? 2 : 1;

	if (alternates(e))
		n = IN_TURN;

	if (s->dim[s->vec].unroll > 1)
		n = s->dim[s->vec].unroll;
	while (n > 1 && (n > vectors || n > budget))
		n /= 2;
	e->max_copies[s->vec] = n < 1 ? 1 : n;
}

/* Unrolls the innermost small reduction dimension completely, and an outer dimension that shares loads
 * with it by 4 (sliding windows: depthwise convolution, pooling). */
static void plan_window(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	int tap = -1, out = -1;

	for (int l = e->outer; l < e->levels; l++)
		if (e->level[l].dim != s->vec && s->dim[e->level[l].dim].extent > 1)
			tap = e->level[l].dim;
	if (tap < 0 || s->dim[tap].extent > 8)
		return;
	for (int32_t i = 0; i < s->xs; i++) {
		const struct ht_x *x = &s->x[i];
		const struct ht_e_info *o = x->op == HT_X_LOAD ? &e->info[x->a] : NULL;

		if (!o || !(o->uses >> tap & 1) || (o->opaque >> tap & 1))
			continue;
		for (int d = 0; d < s->dims; d++)
			if (!s->dim[d].reduce && d != s->vec && o->coef[d] && o->coef[tap] &&
				o->coef[d] % o->coef[tap] == 0 &&
				o->coef[d] < o->coef[tap] * s->dim[tap].extent &&
				span(&s->dim[d]) > 1 && (out < 0 || o->coef[d] < o->coef[out]))
				out = d;
		if (out >= 0)
			break;
	}
	e->max_copies[tap] = (int)s->dim[tap].extent;
	if (out < 0)
		return;
	for (int n = 4; n > 1; n--)
		if (n <= span(&s->dim[out]) && n * e->max_copies[tap] <= HT_E_MAX_COPIES) {
			e->max_copies[out] = n;
			return;
		}
}

/* Where there are fewer vectors, results of several rows alternate. */
static void plan_rows(struct ht_e *e)
{
	const int n = IN_TURN / e->max_copies[e->s->vec], level = e->outer - 2;

	if (n > 1 && level >= 0 && span(&e->s->dim[e->level[level].dim]) >= n)
		e->max_copies[e->level[level].dim] = n;
}

/* Copies of squares of turned loads, and no others: as many as whole lines have numbers, if there are as many. */
static bool plan_turned(struct ht_e *e)
{
	int in_line, copies;
	const int d = ht_e_turned(e, &in_line);
	const int64_t most = d < 0 ? 0 : span(&e->s->dim[d]);

	if (most < e->lanes)
		return false;
	copies = in_line > HT_E_MAX_COPIES ? HT_E_MAX_COPIES : in_line;
	if (copies > most || copies < e->lanes)
		copies = e->lanes;
	for (int i = 0; i < e->s->dims; i++) {
		if (e->s->dim[i].unroll > 1)
			return false;
		e->max_copies[i] = i == d ? copies : 1;
	}
	e->turned = d;
	return true;
}

static void plan_copies(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	int total = 1;

	if (plan_turned(e))
		return;
	for (int d = 0; d < s->dims; d++) {
		int64_t n = d == s->vec ? 1 : s->dim[d].unroll, most = span(&s->dim[d]);

		e->max_copies[d] = (int)(n < 1 ? 1 : n > most ? (most < 1 ? 1 : most) : n);
		total *= e->max_copies[d];
	}
	if (total > HT_E_MAX_COPIES || total == 1) {
		for (int d = 0; d < s->dims; d++)
			e->max_copies[d] = 1;
		if (s->reds > 0 && s->vec >= 0 && !s->dim[s->vec].reduce && reduced_size(e) <= 24)
			plan_window(e);
		total = 1;
		for (int d = 0; d < s->dims; d++)
			total *= e->max_copies[d];
	}
	if (s->vec >= 0 && e->lanes > 1 && total <= 2)
		plan_vec(e, HT_E_MAX_COPIES / total);
	if (total == 1 && alternates(e))
		plan_rows(e);
}

static void plan_memo(struct ht_e *e)
{
	size_t n;

	e->memo_size = 1;
	for (int d = 0; d < e->s->dims; d++) {
		e->memo_stride[d] = e->memo_size;
		e->memo_size *= e->max_copies[d];
	}
	n = (size_t)(e->s->xs + 1) * (size_t)e->memo_size;
	e->scalar = HT_NEW_ARRAY(e->arena, LLVMValueRef, n);
	e->vector = HT_NEW_ARRAY(e->arena, LLVMValueRef, n);
	e->red = HT_NEW_ARRAY(
		e->arena, LLVMValueRef, (size_t)(e->s->reds + 1) * (size_t)e->memo_size);
}

void ht_e_stage_begin(struct ht_e *e, const struct ht_stage *given)
{
	struct ht_stage *s = HT_NEW(e->arena, struct ht_stage);

	*s = *given;
	if (s->kind == HT_STAGE_CONTRACT)
		s->vec = s->contract.n;
	e->s = s;
	e->lanes = s->vec >= 0 ? ht_target_lanes(e->t) : 1;
	if (s->vec >= 0 && !e->t->masks && s->kind == HT_STAGE_LOOP &&
		span(&s->dim[s->vec]) < e->lanes)
		e->lanes = 1;
	e->vl = e->lanes;
	e->open = 0;
	e->shared = NULL;
	e->shared_count = e->shared_cap = 0;
	e->mask = e->rem = NULL;
	e->turned = -1;
	e->here = NULL;
	memset(e->level, 0, sizeof e->level);
	memset(e->off, 0, sizeof e->off);
	e->assumed = HT_NEW_ARRAY(e->arena, uint8_t, (size_t)s->xs + 1);
	order_levels(e);
	if (s->kind == HT_STAGE_CONTRACT)
		ht_e_contract_plan(e);
	ht_e_analyse(e);
	if (s->kind == HT_STAGE_LOOP)
		plan_copies(e);
	plan_memo(e);
	ht_e_prefetch_plan(e, given);
}

/* Marks the operations that are computed from results of reductions; false: there are checks,
 * which must be emitted in order. */
static bool mark_results(const struct ht_stage *s, bool *of_results)
{
	for (int32_t i = 0; i < s->xs; i++) {
		const struct ht_x *x = &s->x[i];

		if (x->op == HT_X_CHECK)
			return false;
		of_results[i] = x->op == HT_X_RED ||
				(x->op != HT_X_LOAD && ((x->a >= 0 && of_results[x->a]) ||
							       (x->b >= 0 && of_results[x->b]) ||
							       (x->c >= 0 && of_results[x->c])));
	}
	return true;
}

/* Stores `n` copies from the current one on.  In a function each operation depends on the one
 * before, and the processor looks ahead by about two functions.  Therefore operations of several
 * copies are interleaved. */
static bool store_some(struct ht_e *e, const bool *of_results, int n)
{
	const struct ht_stage *s = e->s;
	int first[HT_MAX_DIMS];
	bool more = true;

	memcpy(first, e->off, sizeof first);
	for (int32_t x = 0; x < s->xs && n > 1; x++) {
		if (!of_results[x])
			continue;
		memcpy(e->off, first, sizeof first);
		for (int i = 0; i < n && (i == 0 || ht_e_next_copy(e, 0, e->outer)); i++)
			ht_e_natural(e, x);
	}
	memcpy(e->off, first, sizeof first);
	for (int i = 0; i < n && more; i++) {
		for (int32_t k = 0; k < s->stores; k++)
			ht_e_store(e, k, ht_e_natural(e, s->store[k].value));
		more = ht_e_next_copy(e, 0, e->outer);
	}
	return more;
}

/* Computes what the stage stores, one operation of each copy in turn. */
static void compute_in_turn(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	bool *of_stores = HT_NEW_ARRAY(e->arena, bool, (size_t)s->xs + 1);

	for (int32_t i = 0; i < s->stores; i++)
		of_stores[s->store[i].value] = true;
	for (int32_t i = s->xs - 1; i >= 0; i--) {
		const int32_t arg[3] = { s->x[i].a, s->x[i].b, s->x[i].c };

		for (int k = 0; k < 3 && of_stores[i]; k++)
			if (arg[k] >= 0 && s->x[i].op != HT_X_LOAD)
				of_stores[arg[k]] = true;
	}
	for (int32_t i = 0; i < s->xs; i++) {
		if (!of_stores[i])
			continue;
		ht_e_first_copy(e, 0, e->outer);
		do {
			ht_e_natural(e, i);
		} while (ht_e_next_copy(e, 0, e->outer));
	}
	ht_e_first_copy(e, 0, e->outer);
}

void ht_e_stores(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	bool *of_results;
	int together;

	/* A register tile has more copies than there are registers, and a function has many
	 * intermediate values.  Values are therefore stored one by one, or a few at a time. */
	ht_e_first_copy(e, 0, e->outer);
	if (s->kind == HT_STAGE_CONTRACT || (s->reds > 0 && body_size(e) > LONG_BODY)) {
		of_results = HT_NEW_ARRAY(e->arena, bool, (size_t)s->xs + 1);
		together =
			mark_results(s, of_results) && body_size(e) >= FUNCTION_BODY ? TOGETHER : 1;
		while (store_some(e, of_results, together))
			;
		return;
	}
	if (alternates(e))
		compute_in_turn(e);
	/* All values are computed first: a store may alias the loads of the next copy. */
	do {
		for (int32_t i = 0; i < s->stores; i++)
			ht_e_natural(e, s->store[i].value);
	} while (ht_e_next_copy(e, 0, e->outer));
	do {
		for (int32_t i = 0; i < s->stores; i++)
			ht_e_store(e, i, ht_e_natural(e, s->store[i].value));
	} while (ht_e_next_copy(e, 0, e->outer));
}

static void leaf(struct ht_e *e)
{
	ht_e_prefetch(e);
	if (e->s->reds > 0)
		ht_e_reduce(e);
	ht_e_stores(e);
}

/* False: no tile has work in this stage.  `some`: NULL if all tiles have, else the condition. */
static bool runs(struct ht_e *e, const struct ht_stage *s, LLVMValueRef *some)
{
	LLVMValueRef c;

	*some = s->start ? e->starts : NULL;
	for (int d = 0; d < s->dims; d++) {
		const struct ht_dim *dim = &s->dim[d];

		if (dim->extent <= 0 && !dim->reduce)
			return false;
		if (dim->grid < 0 || (e->k->grid[dim->grid] - 1) * dim->step < dim->extent)
			continue;
		c = LLVMBuildNSWMul(e->b, e->grid[dim->grid], ht_e_i64(e, dim->step), "");
		c = LLVMBuildICmp(e->b, LLVMIntSLT, c, ht_e_i64(e, dim->extent), "");
		*some = *some ? LLVMBuildAnd(e->b, *some, c, "") : c;
	}
	return true;
}

void ht_e_stage(struct ht_e *e, const struct ht_stage *s)
{
	LLVMBasicBlockRef yes, no = NULL;
	LLVMValueRef some;

	ht_e_part(e, HT_PART_STAGE, 0);
	if (!runs(e, s, &some))
		return;
	if (some) {
		yes = ht_e_block(e, "stage");
		no = ht_e_block(e, "skip");
		LLVMBuildCondBr(e->b, some, yes, no);
		LLVMPositionBuilderAtEnd(e->b, yes);
	}
	ht_e_stage_begin(e, s);
	if (s->kind == HT_STAGE_CONTRACT)
		ht_e_contract_stage(e);
	else
		ht_e_nest(e, 0, e->outer, leaf);
	ht_e_part(e, HT_PART_STAGE, 0);
	if (some) {
		LLVMBuildBr(e->b, no);
		LLVMMoveBasicBlockAfter(no, LLVMGetInsertBlock(e->b));
		LLVMPositionBuilderAtEnd(e->b, no);
	}
}
