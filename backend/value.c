/* Values of expressions: each is emitted once per copy, at its home, in the forms that are used. */
#include "backend/emit.h"

bool ht_e_is_vector(const struct ht_e *e, int32_t x)
{
	return e->vl > 1 && e->info[x].varies;
}

LLVMValueRef ht_e_mask(const struct ht_e *e)
{
	return e->mask && e->off[e->s->vec] == e->mask_copy ? e->mask : NULL;
}

int ht_e_memo(const struct ht_e *e, uint32_t uses)
{
	int m = 0;

	for (int d = 0; d < e->s->dims; d++)
		if (uses >> d & 1)
			m += e->off[d] * e->memo_stride[d];
	return m;
}

void ht_e_forget(struct ht_e *e, int level)
{
	size_t kept = 0;

	for (int32_t x = 0; x < e->s->xs; x++) {
		if (e->info[x].home <= level)
			continue;
		for (int m = 0; m < e->memo_size; m++)
			e->scalar[x * e->memo_size + m] = e->vector[x * e->memo_size + m] = NULL;
	}
	for (size_t i = 0; i < e->shared_count; i++)
		if (e->shared[i].home <= level)
			e->shared[kept++] = e->shared[i];
	e->shared_count = kept;
}

static void stand(struct ht_e *e, LLVMBasicBlockRef pre)
{
	if (pre)
		LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(pre));
	else
		LLVMPositionBuilderAtEnd(e->b, e->end_block);
	e->here = pre;
}

static LLVMBasicBlockRef home_of(const struct ht_e *e, int home)
{
	for (int l = home; l < e->open; l++)
		if (e->level[l].pre)
			return e->level[l].pre;
	return NULL;
}

static LLVMValueRef check(struct ht_e *e, const struct ht_x *x, bool vector)
{
	LLVMValueRef v = ht_e_get(e, x->a, vector), ok, bad, old, new, mask;

	if (ht_e_decide(e, x->b) == 1)
		return v;
	ok = ht_e_get(e, x->b, vector && ht_e_is_vector(e, x->b));
	mask = ht_e_lanes_of(ok) > 1 ? ht_e_mask(e) : NULL;
	bad = LLVMBuildNot(e->b, ok, "");
	if (mask)
		bad = LLVMBuildAnd(e->b, bad, mask, "");
	bad = ht_e_any(e, bad);
	old = LLVMBuildLoad2(e->b, e->i32, e->fault, "");
	new = LLVMBuildICmp(e->b, LLVMIntEQ, old, LLVMConstNull(e->i32), "");
	new = LLVMBuildAnd(e->b, new, bad, "");
	new = ht_e_select(e, new, LLVMConstInt(e->i32, (uint64_t)x->imm, false), old);
	LLVMBuildStore(e->b, new, e->fault);
	if (mask)
		ok = LLVMBuildAnd(e->b, ok, mask, "");
	/* A checked value may be an index.  Where the check failed it becomes 0, which is a
	 * valid index of every non-empty buffer. */
	if (ht_is_float(x->dtype))
		return v;
	return ht_e_select(e, ok, v, LLVMConstNull(LLVMTypeOf(v)));
}

/* The growth of I64 x between copy 0 and the current one, in the dimensions in which it is
 * linear; their offsets are set to 0. */
static int64_t displacement(struct ht_e *e, int32_t x)
{
	uint32_t linear = e->info[x].uses & ~e->info[x].opaque;
	int64_t sum = 0;

	for (int d = 0; d < e->s->dims; d++) {
		if (!(linear >> d & 1) || !e->off[d])
			continue;
		sum += e->info[x].coef[d] * e->off[d] * e->level[e->level_of[d]].stride;
		e->off[d] = 0;
	}
	return sum;
}

LLVMValueRef ht_e_base(struct ht_e *e, int32_t x, int64_t *displace)
{
	int saved[HT_MAX_DIMS];
	LLVMValueRef v;

	for (int d = 0; d < e->s->dims; d++)
		saved[d] = e->off[d];
	*displace = displacement(e, x);
	v = ht_e_get(e, x, false);
	for (int d = 0; d < e->s->dims; d++)
		e->off[d] = saved[d];
	return v;
}

static bool displaced(const struct ht_e *e, int32_t x)
{
	uint32_t linear = e->info[x].uses & ~e->info[x].opaque;

	for (int d = 0; d < e->s->dims; d++)
		if ((linear >> d & 1) && e->off[d])
			return true;
	return false;
}

static LLVMValueRef make(struct ht_e *e, int32_t i, bool vector)
{
	const struct ht_x *x = &e->s->x[i];
	const struct ht_e_info *info = &e->info[i];
	LLVMValueRef a, b, c;
	int64_t shift;
	int known;

	if (vector && !ht_e_is_vector(e, i))
		return ht_e_splat(e, ht_e_get(e, i, false), e->vl);
	if (vector && info->lane)
		return LLVMBuildAdd(e->b, ht_e_splat(e, ht_e_get(e, i, false), e->vl),
			ht_e_iota(e, e->i64, info->lane_step, e->vl), "");
	HT_CHECK(vector || !ht_e_is_vector(e, i) || info->lane);
	if (!vector && x->dtype == HT_I64 && displaced(e, i)) {
		a = ht_e_base(e, i, &shift);
		return LLVMBuildAdd(e->b, a, ht_e_i64(e, shift), "");
	}
	known = x->dtype == HT_BOOL ? ht_e_decide(e, i) : -1;
	if (known >= 0)
		return ht_e_const(e, HT_BOOL, known, vector ? e->vl : 1);
	switch (x->op) {
	case HT_X_CONST:
		return ht_e_const(e, x->dtype, x->imm, 1);
	case HT_X_DIM:
		return e->level[e->level_of[x->imm]].index;
	case HT_X_GRID:
		return e->grid[x->imm];
	case HT_X_PARAM:
		return e->param[x->imm];
	case HT_X_LOAD:
		return ht_e_load(e, i, vector);
	case HT_X_RED:
		return e->red[x->imm * e->memo_size + ht_e_memo(e, info->uses)];
	case HT_X_CHECK:
		return check(e, x, vector);
	case HT_X_SELECT:
		known = ht_e_decide(e, x->a);
		if (known >= 0)
			return ht_e_get(e, known ? x->b : x->c, vector);
		a = ht_e_get(e, x->a, vector && ht_e_is_vector(e, x->a));
		return ht_e_select(e, a, ht_e_get(e, x->b, vector), ht_e_get(e, x->c, vector));
	default:
		break;
	}
	a = ht_e_get(e, x->a, vector);
	b = x->b >= 0 ? ht_e_get(e, x->b, vector) : NULL;
	c = x->c >= 0 ? ht_e_get(e, x->c, vector) : NULL;
	return ht_e_arith(e, i, a, b, c);
}

LLVMValueRef ht_e_get(struct ht_e *e, int32_t x, bool vector)
{
	LLVMBasicBlockRef before = e->here, home = home_of(e, e->info[x].home);
	LLVMValueRef *slot;
	int memo = ht_e_memo(e, e->info[x].uses);
	int32_t line;

	vector = vector && e->vl > 1;
	slot = &(vector ? e->vector : e->scalar)[x * e->memo_size + memo];
	if (*slot)
		return *slot;
	if (!before)
		e->end_block = LLVMGetInsertBlock(e->b);
	if (home != before)
		stand(e, home);
	line = ht_e_part(e, HT_PART_X, x);
	*slot = make(e, x, vector);
	if (home != before)
		stand(e, before);
	ht_e_line(e, line);
	return *slot;
}

LLVMValueRef ht_e_natural(struct ht_e *e, int32_t x)
{
	return ht_e_get(e, x, ht_e_is_vector(e, x));
}
