/* The initial value of a reduction, and the combination of two partial results. */
#include "backend/emit.h"

static LLVMValueRef farthest(struct ht_e *e, enum ht_dtype t, bool lowest, int lanes)
{
	const struct ht_dtype_info *info = ht_dtype_info(t);
	int bits = (int)info->bytes * 8;
	uint64_t sign = UINT64_C(1) << (bits - 1);

	if (t == HT_F32 || t == HT_F64)
		return ht_e_const(
			e, t, (int64_t)(ht_infinity_bits(t) | (lowest ? sign : 0)), lanes);
	if (info->kind == HT_KIND_INT)
		return ht_e_const(
			e, t, lowest ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits), lanes);
	return ht_e_const(e, t, lowest ? 0 : -1, lanes);
}

LLVMValueRef ht_e_neutral_of(struct ht_e *e, const struct ht_reduction *r, int lanes)
{
	LLVMTypeRef t = ht_e_form(ht_e_type(e, r->dtype), lanes);

	switch (r->op) {
	case HT_RED_ADD:
	case HT_RED_OR:
		return LLVMConstNull(t);
	case HT_RED_MUL:
		return ht_is_float(r->dtype) ? ht_e_real(t, 1) : ht_e_int(e, t, 1);
	case HT_RED_AND:
		return ht_e_int(e, t, -1);
	case HT_RED_MIN:
	case HT_RED_ARGMIN:
		return farthest(e, r->dtype, false, lanes);
	default:
		return farthest(e, r->dtype, true, lanes);
	}
}

static LLVMValueRef combine_exact(
	struct ht_e *e, const struct ht_reduction *r, LLVMValueRef a, LLVMValueRef b)
{
	bool real = ht_is_float(r->dtype);

	switch (r->op) {
	case HT_RED_ADD:
		if (r->dtype == HT_BOOL)
			return LLVMBuildOr(e->b, a, b, "");
		return real ? LLVMBuildFAdd(e->b, a, b, "") : LLVMBuildAdd(e->b, a, b, "");
	case HT_RED_MUL:
		return real ? LLVMBuildFMul(e->b, a, b, "") : LLVMBuildMul(e->b, a, b, "");
	case HT_RED_AND:
		return LLVMBuildAnd(e->b, a, b, "");
	case HT_RED_OR:
		return LLVMBuildOr(e->b, a, b, "");
	default:
		return ht_e_minmax(e, a, b, r->dtype, r->op == HT_RED_MAX);
	}
}

LLVMValueRef ht_e_combine(
	struct ht_e *e, const struct ht_reduction *r, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef v = combine_exact(e, r, a, b);

	if (!r->keep)
		return v;
	return ht_e_convert(e, ht_e_convert(e, v, HT_F32, r->keep), r->keep, HT_F32);
}
