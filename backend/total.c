/* Long sums of F32: values are added in runs, and the runs are added to totals with almost no
 * rounding error.
 *
 * The error of n additions is about sqrt(n) roundings if signs are random, and more otherwise.
 * So an accumulator is added to a total after about MOST_OF_RUN values, and reset.  A total is
 * two numbers (Neumaier's summation): the rounded sum, and the sum of the rounding errors.  So
 * the error is that of one run, however many there are. */
#include "backend/emit.h"

enum { MOST_OF_RUN = 128 };

/* How many values an accumulator adds in one pass of level `l`; the levels further in add
 * `each`. */
static int64_t values_of_level(const struct ht_e *e, int l, int64_t each)
{
	int dim = e->level[l].dim;
	int64_t at_once = (int64_t)e->max_copies[dim] * (dim == e->s->vec ? e->lanes : 1);

	return each * ht_ceil_div(e->s->dim[dim].extent, at_once);
}

struct ht_e_runs ht_e_plan_runs(const struct ht_e *e, int64_t each)
{
	struct ht_e_runs runs = { .level = -1 };

	for (int l = e->levels - 1; l >= e->outer; l--) {
		int64_t whole = values_of_level(e, l, each);

		if (each <= MOST_OF_RUN && whole > MOST_OF_RUN)
			runs = (struct ht_e_runs){ .level = l, .rounds = MOST_OF_RUN / each };
		each = whole;
	}
	return each > 2 * MOST_OF_RUN ? runs : (struct ht_e_runs){ .level = -1 };
}

struct ht_e_total ht_e_total_new(struct ht_e *e, LLVMTypeRef type)
{
	struct ht_e_total t = { ht_e_alloca(e, type, 0, "total"), ht_e_alloca(e, type, 0, "lost") };

	LLVMBuildStore(e->b, LLVMConstNull(type), t.sum);
	LLVMBuildStore(e->b, LLVMConstNull(type), t.lost);
	return t;
}

void ht_e_total_add(struct ht_e *e, struct ht_e_total t, LLVMValueRef v)
{
	LLVMTypeRef type = LLVMTypeOf(v);
	LLVMValueRef old = LLVMBuildLoad2(e->b, type, t.sum, ""), sum, part, lost;

	sum = LLVMBuildFAdd(e->b, old, v, "");
	part = LLVMBuildFSub(e->b, sum, old, ""); /* the part of v that is in the sum */
	lost = LLVMBuildFSub(e->b, old, LLVMBuildFSub(e->b, sum, part, ""), "");
	lost = LLVMBuildFAdd(e->b, lost, LLVMBuildFSub(e->b, v, part, ""), "");
	lost = LLVMBuildFAdd(e->b, LLVMBuildLoad2(e->b, type, t.lost, ""), lost, "");
	LLVMBuildStore(e->b, sum, t.sum);
	LLVMBuildStore(e->b, lost, t.lost);
}

LLVMValueRef ht_e_total_value(struct ht_e *e, struct ht_e_total t)
{
	LLVMTypeRef type = LLVMGetAllocatedType(t.sum);
	LLVMValueRef sum = LLVMBuildLoad2(e->b, type, t.sum, ""),
		     lost = LLVMBuildLoad2(e->b, type, t.lost, "");
	/* The difference of infinities is NaN; the plain sum is correct then. */
	LLVMValueRef number = LLVMBuildFCmp(e->b, LLVMRealORD, lost, lost, "");

	return ht_e_select(e, number, LLVMBuildFAdd(e->b, sum, lost, ""), sum);
}
