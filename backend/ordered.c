/* Whether many numbers are all ordered, that is, none is NaN.  The maximum of numbers must be NaN if one of
 * them is, but the instruction for it does not do that.  Instead of a correction at each step, one
 * comparison notes two numbers at a time, and the end of the loop asks for the result. */
#include "backend/emit.h"

#include <math.h>

/* Masks if the target has them, else vectors of the lanes' own width. */
static LLVMTypeRef flag_type(struct ht_e *e, enum ht_dtype t)
{
	unsigned bits = (unsigned)ht_dtype_info(t)->bytes * 8;

	return e->t->masks ? e->i1 : LLVMIntTypeInContext(e->c, bits);
}

void ht_e_ordered_begin(struct ht_e *e, struct ht_e_ordered *o, enum ht_dtype t, int lanes)
{
	LLVMTypeRef type = ht_e_form(flag_type(e, t), lanes);

	o->last = NULL;
	o->all = ht_e_alloca(e, type, 0, "ordered");
	LLVMBuildStore(e->b, LLVMConstAllOnes(type), o->all);
}

static void note(struct ht_e *e, struct ht_e_ordered *o, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef type = LLVMGetAllocatedType(o->all);
	LLVMValueRef c = LLVMBuildFCmp(e->b, LLVMRealORD, a, b, "");

	if (LLVMTypeOf(c) != type)
		c = LLVMBuildSExt(e->b, c, type, "");
	c = LLVMBuildAnd(e->b, LLVMBuildLoad2(e->b, type, o->all, ""), c, "");
	LLVMBuildStore(e->b, c, o->all);
	o->last = NULL;
}

void ht_e_ordered_next(struct ht_e *e, struct ht_e_ordered *o, LLVMValueRef v)
{
	if (o->last)
		note(e, o, o->last, v);
	else
		o->last = v;
}

void ht_e_ordered_pause(struct ht_e *e, struct ht_e_ordered *o)
{
	if (o->last)
		note(e, o, o->last, o->last);
}

LLVMValueRef ht_e_ordered_end(struct ht_e *e, const struct ht_e_ordered *o, LLVMValueRef v)
{
	LLVMTypeRef type = LLVMGetAllocatedType(o->all);
	LLVMValueRef all = LLVMBuildLoad2(e->b, type, o->all, "");

	all = LLVMBuildICmp(e->b, LLVMIntNE, all, LLVMConstNull(type), "");
	return ht_e_select(e, all, v, ht_e_real(LLVMTypeOf(v), NAN));
}
