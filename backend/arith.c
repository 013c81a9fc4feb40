/* Arithmetic of expressions, the same for scalars and vectors.  There is no poison: shift
 * counts, divisors and conversions are made safe first. */
#include "backend/emit.h"

static bool is_signed(enum ht_dtype t)
{
	return ht_dtype_info(t)->kind == HT_KIND_INT;
}

/* A constant that is not a NaN (constant vectors here are splats). */
static bool is_number(LLVMValueRef v)
{
	LLVMBool lossy;
	double d;

	if (LLVMIsAConstantVector(v) || LLVMIsAConstantDataVector(v))
		v = LLVMGetAggregateElement(v, 0);
	if (LLVMIsAConstantAggregateZero(v))
		return true;
	if (!v || !LLVMIsAConstantFP(v))
		return false;
	d = LLVMConstRealGetDouble(v, &lossy);
	return d == d;
}

LLVMValueRef ht_e_extreme(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, bool max)
{
	LLVMValueRef c = LLVMBuildFCmp(e->b, max ? LLVMRealOGT : LLVMRealOLT, a, b, "");

	return ht_e_select(e, c, a, b);
}

LLVMValueRef ht_e_minmax(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, enum ht_dtype t, bool max)
{
	LLVMValueRef c, r;

	if (t == HT_BOOL)
		return max ? LLVMBuildOr(e->b, a, b, "") : LLVMBuildAnd(e->b, a, b, "");
	if (!ht_is_float(t)) {
		if (is_signed(t))
			c = LLVMBuildICmp(e->b, max ? LLVMIntSGT : LLVMIntSLT, a, b, "");
		else
			c = LLVMBuildICmp(e->b, max ? LLVMIntUGT : LLVMIntULT, a, b, "");
		return ht_e_select(e, c, a, b);
	}
	/* The instruction returns b if either is NaN, so only the case that a alone is NaN needs
	 * code. */
	if (!is_number(a) && is_number(b)) {
		r = a;
		a = b;
		b = r;
	}
	r = ht_e_extreme(e, a, b, max);
	if (is_number(a))
		return r;
	c = LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, "");
	return ht_e_select(e, c, a, r);
}

LLVMValueRef ht_e_muladd(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
	LLVMValueRef arg[3] = { a, b, c };

	if (e->t->fused)
		return ht_e_intrinsic(e, "llvm.fma", LLVMTypeOf(a), arg, 3);
	return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, a, b, ""), c, "");
}

/* 2^n from integers whose low bits are n + 127. */
static LLVMValueRef power_of_two(struct ht_e *e, LLVMValueRef w)
{
	w = LLVMBuildShl(e->b, w, ht_e_int(e, LLVMTypeOf(w), 23), "");
	return LLVMBuildBitCast(e->b, w, ht_e_form(e->f32, ht_e_lanes_of(w)), "");
}

/* a * 2^b by one instruction, or by two factors, of which the first is exact: one factor alone
 * could not represent subnormals or 2^128. */
static LLVMValueRef scale(struct ht_e *e, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(a), whole = ht_e_form(e->i32, ht_e_lanes_of(a));
	LLVMValueRef w, half;

	if (e->t->scales && ht_e_lanes_of(a) == 16) {
		LLVMValueRef all = LLVMConstAllOnes(e->i16),
			     nearest = LLVMConstInt(e->i32, 4, false);

		return ht_e_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", NULL,
			(LLVMValueRef[]){ a, b, a, all, nearest }, 5);
	}
	/* b + 254 in the low bits */
	w = LLVMBuildFAdd(e->b, b, ht_e_real(t, 0x1.8p23 + 2 * 127), "");
	w = LLVMBuildBitCast(e->b, w, whole, "");
	half = LLVMBuildLShr(e->b, w, ht_e_int(e, whole, 1), "");
	a = LLVMBuildFMul(e->b, a, power_of_two(e, half), "");
	return LLVMBuildFMul(e->b, a, power_of_two(e, LLVMBuildSub(e->b, w, half, "")), "");
}

bool ht_e_has_dot(const struct ht_e *e, int lanes)
{
	return e->t->dot_bf16 == 2 && (lanes == 16 || lanes == 8 || lanes == 4);
}

LLVMValueRef ht_e_dot(struct ht_e *e, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
	int n = ht_e_lanes_of(acc);
	LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(e->c), (unsigned)n * 2);
	LLVMValueRef arg[3] = { acc, LLVMBuildBitCast(e->b, a, pairs, ""),
		LLVMBuildBitCast(e->b, b, pairs, "") };

	return ht_e_intrinsic(e,
		n == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
		: n == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
			 : "llvm.x86.avx512bf16.dpbf16ps.128",
		NULL, arg, 3);
}

/* A divisor that cannot trap.  The program excludes the trapping cases, but not in lanes that
 * are masked off or whose check has failed. */
static LLVMValueRef safe_divisor(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, bool sign)
{
	LLVMTypeRef t = LLVMTypeOf(b), scalar = t;
	LLVMValueRef bad = LLVMBuildICmp(e->b, LLVMIntEQ, b, LLVMConstNull(t), ""), min;

	if (LLVMGetTypeKind(t) == LLVMVectorTypeKind)
		scalar = LLVMGetElementType(t);
	if (sign) {
		min = ht_e_int(e, t, INT64_MIN >> (64 - LLVMGetIntTypeWidth(scalar)));
		min = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, a, min, ""),
			LLVMBuildICmp(e->b, LLVMIntEQ, b, ht_e_int(e, t, -1), ""), "");
		bad = LLVMBuildOr(e->b, bad, min, "");
	}
	return ht_e_select(e, bad, ht_e_int(e, t, 1), b);
}

static LLVMValueRef divide(struct ht_e *e, const struct ht_x *x, LLVMValueRef a, LLVMValueRef b)
{
	bool rem = x->op == HT_X_REM;

	if (ht_is_float(x->dtype))
		return rem ? ht_e_fmod(e, a, b) : LLVMBuildFDiv(e->b, a, b, "");
	b = safe_divisor(e, a, b, is_signed(x->dtype));
	if (is_signed(x->dtype))
		return rem ? LLVMBuildSRem(e->b, a, b, "") : LLVMBuildSDiv(e->b, a, b, "");
	return rem ? LLVMBuildURem(e->b, a, b, "") : LLVMBuildUDiv(e->b, a, b, "");
}

static LLVMValueRef shift(struct ht_e *e, const struct ht_x *x, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(a);
	int64_t bits = (int64_t)ht_dtype_info(x->dtype)->bytes * 8;
	LLVMValueRef in, n, r;

	in = LLVMBuildICmp(e->b, LLVMIntULT, b, ht_e_int(e, t, bits), "");
	n = ht_e_select(e, in, b, ht_e_int(e, t, x->op == HT_X_SAR ? bits - 1 : 0));
	if (x->op == HT_X_SAR)
		return LLVMBuildAShr(e->b, a, n, "");
	r = x->op == HT_X_SHL ? LLVMBuildShl(e->b, a, n, "") : LLVMBuildLShr(e->b, a, n, "");
	return ht_e_select(e, in, r, LLVMConstNull(t));
}

static LLVMValueRef compare(struct ht_e *e, const struct ht_x *x, LLVMValueRef a, LLVMValueRef b)
{
	enum ht_dtype t = e->s->x[x->a].dtype;
	int col = x->op - HT_X_EQ;
	static const LLVMRealPredicate real[] = { LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
		LLVMRealOLE };
	static const LLVMIntPredicate sign[] = { LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE };
	static const LLVMIntPredicate plain[] = { LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE };

	if (ht_is_float(t))
		return LLVMBuildFCmp(e->b, real[col], a, b, "");
	return LLVMBuildICmp(e->b, is_signed(t) ? sign[col] : plain[col], a, b, "");
}

/* Division by a positive constant.  If the bounds permit, it is a cheaper 32-bit unsigned
 * division. */
static LLVMValueRef floor_division(
	struct ht_e *e, const struct ht_x *x, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(a), narrow = ht_e_form(e->i32, ht_e_lanes_of(a));
	bool mod = x->op == HT_X_FLOORMOD;
	int64_t lo, hi;
	LLVMValueRef q, r, negative;

	if (ht_e_range(e, x->a, &lo, &hi) && lo >= 0 && hi < INT32_MAX &&
		e->info[x->b].c < INT32_MAX) {
		a = LLVMBuildTrunc(e->b, a, narrow, "");
		b = ht_e_int(e, narrow, e->info[x->b].c);
		q = mod ? LLVMBuildURem(e->b, a, b, "") : LLVMBuildUDiv(e->b, a, b, "");
		return LLVMBuildZExt(e->b, q, t, "");
	}
	r = LLVMBuildSRem(e->b, a, b, "");
	negative = LLVMBuildICmp(e->b, LLVMIntSLT, r, LLVMConstNull(t), "");
	if (mod)
		return ht_e_select(e, negative, LLVMBuildAdd(e->b, r, b, ""), r);
	q = LLVMBuildSDiv(e->b, a, b, "");
	return LLVMBuildAdd(e->b, q, LLVMBuildSExt(e->b, negative, t, ""), "");
}

static LLVMValueRef negate(struct ht_e *e, enum ht_dtype t, LLVMValueRef a)
{
	return ht_is_float(t) ? LLVMBuildFNeg(e->b, a, "") : LLVMBuildNeg(e->b, a, "");
}

static LLVMValueRef absolute(struct ht_e *e, enum ht_dtype t, LLVMValueRef a)
{
	LLVMValueRef c;

	if (ht_is_float(t))
		return ht_e_intrinsic(e, "llvm.fabs", LLVMTypeOf(a), &a, 1);
	if (!is_signed(t))
		return a;
	c = LLVMBuildICmp(e->b, LLVMIntSLT, a, LLVMConstNull(LLVMTypeOf(a)), "");
	return ht_e_select(e, c, LLVMBuildNeg(e->b, a, ""), a);
}

static LLVMValueRef bitcast(struct ht_e *e, enum ht_dtype to, LLVMValueRef a)
{
	return LLVMBuildBitCast(e->b, a, ht_e_form(ht_e_type(e, to), ht_e_lanes_of(a)), "");
}

static LLVMValueRef multiply(struct ht_e *e, int32_t i, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef v = ht_e_lanes_of(a) > 1 ? ht_e_multiply_low(e, i) : NULL;

	if (v)
		return v;
	return ht_is_float(e->s->x[i].dtype) ? LLVMBuildFMul(e->b, a, b, "")
					     : LLVMBuildMul(e->b, a, b, "");
}

static LLVMValueRef add(struct ht_e *e, int32_t i, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef v = ht_e_add_low(e, i, a, b);

	if (v)
		return v;
	return ht_is_float(e->s->x[i].dtype) ? LLVMBuildFAdd(e->b, a, b, "")
					     : LLVMBuildAdd(e->b, a, b, "");
}

/* Converts to F32 a value that was just rounded to BF16, so it is not subnormal. */
static LLVMValueRef widen_rounded(struct ht_e *e, const struct ht_x *low, LLVMValueRef v)
{
	const bool vector = ht_e_lanes_of(v) > 1;
	LLVMValueRef r = NULL;

	if (e->s->x[low->a].dtype == HT_F32) {
		r = ht_e_round_limited(e, low->a, vector);
		r = r ? r : ht_e_round_bf16(e, ht_e_get(e, low->a, vector));
	}
	return r ? r : ht_e_widen(e, v);
}

static LLVMValueRef convert(struct ht_e *e, const struct ht_x *x, LLVMValueRef v)
{
	const struct ht_x *from = &e->s->x[x->a];

	if (from->op == HT_X_CVT && from->dtype == HT_BF16 && x->dtype == HT_F32)
		return widen_rounded(e, from, v);
	return ht_e_convert(e, v, from->dtype, x->dtype);
}

LLVMValueRef ht_e_arith(struct ht_e *e, int32_t i, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
	const struct ht_x *x = &e->s->x[i];
	bool real = ht_is_float(x->dtype);

	switch (x->op) {
	case HT_X_CVT:
		return convert(e, x, a);
	case HT_X_BITCAST:
		return bitcast(e, x->dtype, a);
	case HT_X_ADD:
		return add(e, i, a, b);
	case HT_X_SUB:
		return real ? LLVMBuildFSub(e->b, a, b, "") : LLVMBuildSub(e->b, a, b, "");
	case HT_X_MUL:
		return multiply(e, i, a, b);
	case HT_X_DIV:
	case HT_X_REM:
		return divide(e, x, a, b);
	case HT_X_MULADD:
		return ht_e_muladd(e, a, b, c);
	case HT_X_SCALE:
		return scale(e, a, b);
	case HT_X_MIN:
	case HT_X_MAX:
		return ht_e_minmax(e, a, b, x->dtype, x->op == HT_X_MAX);
	case HT_X_NEG:
		return negate(e, x->dtype, a);
	case HT_X_ABS:
		return absolute(e, x->dtype, a);
	case HT_X_SQRT:
		return ht_e_intrinsic(e, "llvm.sqrt", LLVMTypeOf(a), &a, 1);
	case HT_X_FLOOR:
	case HT_X_CEIL:
	case HT_X_RINT:
	case HT_X_TRUNC:
		return real ? ht_e_round(e, x->op, a) : a;
	case HT_X_AND:
		return LLVMBuildAnd(e->b, a, b, "");
	case HT_X_OR:
		return LLVMBuildOr(e->b, a, b, "");
	case HT_X_XOR:
		return LLVMBuildXor(e->b, a, b, "");
	case HT_X_NOT:
		return LLVMBuildNot(e->b, a, "");
	case HT_X_SHL:
	case HT_X_SHR:
	case HT_X_SAR:
		return shift(e, x, a, b);
	case HT_X_EQ:
	case HT_X_NE:
	case HT_X_LT:
	case HT_X_LE:
		return compare(e, x, a, b);
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		return floor_division(e, x, a, b);
	default:
		HT_CHECK(!"an operation that the backend knows");
		return NULL;
	}
}
