/* Types, constants and small helpers of emission. */
#include "backend/emit.h"

#include <string.h>

LLVMTypeRef ht_e_mem_type(struct ht_e *e, enum ht_dtype t)
{
	switch (t) {
	case HT_F32:
		return e->f32;
	case HT_F64:
		return e->f64;
	case HT_BOOL:
		return e->i8;
	default:
		return LLVMIntTypeInContext(e->c, (unsigned)ht_dtype_info(t)->bytes * 8);
	}
}

LLVMTypeRef ht_e_type(struct ht_e *e, enum ht_dtype t)
{
	return t == HT_BOOL ? e->i1 : ht_e_mem_type(e, t);
}

LLVMTypeRef ht_e_form(LLVMTypeRef t, int lanes)
{
	return lanes > 1 ? LLVMVectorType(t, (unsigned)lanes) : t;
}

int ht_e_lanes_of(LLVMValueRef v)
{
	LLVMTypeRef t = LLVMTypeOf(v);

	return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

LLVMValueRef ht_e_i64(struct ht_e *e, int64_t v)
{
	return LLVMConstInt(e->i64, (uint64_t)v, true);
}

static LLVMValueRef spread(LLVMValueRef v, int lanes)
{
	LLVMValueRef lane[64];

	if (lanes <= 1)
		return v;
	HT_CHECK(lanes <= 64);
	for (int i = 0; i < lanes; i++)
		lane[i] = v;
	return LLVMConstVector(lane, (unsigned)lanes);
}

LLVMValueRef ht_e_int(struct ht_e *e, LLVMTypeRef like, int64_t v)
{
	(void)e;
	if (LLVMGetTypeKind(like) == LLVMVectorTypeKind)
		return spread(LLVMConstInt(LLVMGetElementType(like), (uint64_t)v, true),
			(int)LLVMGetVectorSize(like));
	return LLVMConstInt(like, (uint64_t)v, true);
}

LLVMValueRef ht_e_real(LLVMTypeRef type, double v)
{
	if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
		return spread(
			LLVMConstReal(LLVMGetElementType(type), v), (int)LLVMGetVectorSize(type));
	return LLVMConstReal(type, v);
}

LLVMValueRef ht_e_const(struct ht_e *e, enum ht_dtype t, int64_t bits, int lanes)
{
	LLVMTypeRef type = ht_e_type(e, t);
	LLVMValueRef v;

	if (t == HT_F32)
		v = LLVMConstBitCast(LLVMConstInt(e->i32, (uint32_t)bits, false), type);
	else if (t == HT_F64)
		v = LLVMConstBitCast(LLVMConstInt(e->i64, (uint64_t)bits, false), type);
	else if (t == HT_BOOL)
		v = LLVMConstInt(type, bits != 0, false);
	else
		v = LLVMConstInt(type, (uint64_t)bits, true);
	return spread(v, lanes);
}

LLVMValueRef ht_e_splat(struct ht_e *e, LLVMValueRef v, int lanes)
{
	LLVMTypeRef t;
	LLVMValueRef one;

	if (lanes <= 1)
		return v;
	if (LLVMIsConstant(v) && !LLVMIsAGlobalValue(v))
		return spread(v, lanes);
	t = LLVMVectorType(LLVMTypeOf(v), (unsigned)lanes);
	one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, LLVMConstInt(e->i64, 0, false), "");
	return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t),
		LLVMConstNull(LLVMVectorType(e->i32, (unsigned)lanes)), "");
}

LLVMValueRef ht_e_iota(struct ht_e *e, LLVMTypeRef elem, int64_t step, int lanes)
{
	LLVMValueRef lane[64];

	(void)e;
	HT_CHECK(lanes <= 64);
	if (lanes == 1)
		return LLVMConstInt(elem, 0, true);
	for (int i = 0; i < lanes; i++)
		lane[i] = LLVMConstInt(elem, (uint64_t)(i * step), true);
	return LLVMConstVector(lane, (unsigned)lanes);
}

LLVMValueRef ht_e_lane(struct ht_e *e, LLVMValueRef v, int lane)
{
	if (ht_e_lanes_of(v) == 1)
		return v;
	return LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i64, (unsigned)lane, false), "");
}

LLVMValueRef ht_e_any(struct ht_e *e, LLVMValueRef condition)
{
	const int lanes = ht_e_lanes_of(condition);
	LLVMTypeRef bits = LLVMIntTypeInContext(e->c, (unsigned)lanes);

	if (lanes == 1)
		return condition;
	condition = LLVMBuildBitCast(e->b, condition, bits, "");
	return LLVMBuildICmp(e->b, LLVMIntNE, condition, LLVMConstNull(bits), "");
}

LLVMValueRef ht_e_select(struct ht_e *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(e->b, c, a, b, "");
}

LLVMValueRef ht_e_intrinsic(
	struct ht_e *e, const char *name, LLVMTypeRef overload, LLVMValueRef *arg, int args)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	size_t n = overload ? 1 : 0;
	LLVMValueRef fn;

	HT_CHECK(id != 0);
	fn = LLVMGetIntrinsicDeclaration(e->mod, id, &overload, n);
	return LLVMBuildCall2(
		e->b, LLVMIntrinsicGetType(e->c, id, &overload, n), fn, arg, (unsigned)args, "");
}

LLVMValueRef ht_e_alloca(struct ht_e *e, LLVMTypeRef t, unsigned align, const char *name)
{
	LLVMBasicBlockRef at = LLVMGetInsertBlock(e->b);
	LLVMValueRef first = LLVMGetFirstInstruction(e->entry), v;

	if (first)
		LLVMPositionBuilderBefore(e->b, first);
	else
		LLVMPositionBuilderAtEnd(e->b, e->entry);
	v = LLVMBuildAlloca(e->b, t, name);
	if (align)
		LLVMSetAlignment(v, align);
	LLVMPositionBuilderAtEnd(e->b, at);
	ht_e_line(e, e->line);
	return v;
}

bool ht_e_const_i64(LLVMValueRef v, int64_t *c)
{
	if (!LLVMIsAConstantInt(v))
		return false;
	*c = LLVMConstIntGetSExtValue(v);
	return true;
}

LLVMBasicBlockRef ht_e_block(struct ht_e *e, const char *name)
{
	return LLVMAppendBasicBlockInContext(e->c, e->fn, name);
}

LLVMValueRef ht_e_slice(struct ht_e *e, LLVMValueRef v, int from, int count)
{
	LLVMValueRef lane[64];

	HT_CHECK(count <= 64);
	if (count == 1)
		return ht_e_lane(e, v, from);
	for (int i = 0; i < count; i++)
		lane[i] = LLVMConstInt(e->i32, (unsigned)(from + i), false);
	return LLVMBuildShuffleVector(
		e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(lane, (unsigned)count), "");
}

LLVMValueRef ht_e_smin(struct ht_e *e, LLVMValueRef a, LLVMValueRef b)
{
	return ht_e_select(e, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b);
}

LLVMValueRef ht_e_smax(struct ht_e *e, LLVMValueRef a, LLVMValueRef b)
{
	return ht_e_select(e, LLVMBuildICmp(e->b, LLVMIntSGT, a, b, ""), a, b);
}
