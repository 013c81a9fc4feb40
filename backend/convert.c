/* Conversions of values between element types (HT_X_CVT).  F16 and BF16 values are i16 bits. */
#include "backend/emit.h"

static LLVMTypeRef like(LLVMValueRef v, LLVMTypeRef t)
{
	return ht_e_form(t, ht_e_lanes_of(v));
}

static LLVMValueRef cast_bits(struct ht_e *e, LLVMValueRef v, LLVMTypeRef t)
{
	return LLVMBuildBitCast(e->b, v, like(v, t), "");
}

static LLVMValueRef k(struct ht_e *e, LLVMValueRef v, int64_t c)
{
	return ht_e_int(e, LLVMTypeOf(v), c);
}

static LLVMValueRef and (struct ht_e * e, LLVMValueRef v, int64_t c)
{
	return LLVMBuildAnd(e->b, v, k(e, v, c), "");
}

static LLVMValueRef below(struct ht_e *e, LLVMValueRef v, int64_t c)
{
	return LLVMBuildICmp(e->b, LLVMIntULT, v, k(e, v, c), "");
}

LLVMValueRef ht_e_widen(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u = LLVMBuildZExt(e->b, v, like(v, e->i32), "");

	return cast_bits(e, LLVMBuildShl(e->b, u, k(e, u, 16), ""), e->f32);
}

/* Classes of floats, as the instruction that finds them numbers them. */
enum { QUIET_NAN = 0x01, SUBNORMAL = 0x20, SIGNALLING_NAN = 0x80 };

static bool has_classes(const struct ht_e *e, LLVMValueRef v)
{
	const int lanes = ht_e_lanes_of(v);

	return e->t->classifies && (lanes == 16 || lanes == 8);
}

/* Which lanes of F32 belong to one of the classes. */
static LLVMValueRef in_class(struct ht_e *e, LLVMValueRef v, int classes)
{
	LLVMValueRef arg[] = { v, LLVMConstInt(e->i32, (unsigned)classes, false) };

	return ht_e_intrinsic(e,
		ht_e_lanes_of(v) == 16 ? "llvm.x86.avx512.fpclass.ps.512"
				       : "llvm.x86.avx512.fpclass.ps.256",
		NULL, arg, 2);
}

/* F32 r, but in lanes `which` v: a NaN made quiet, any other number as zero of its sign. */
static LLVMValueRef quiet_or_zero(
	struct ht_e *e, LLVMValueRef r, LLVMValueRef v, LLVMValueRef which)
{
	/* Four bits for each kind of number, from the lowest on: a quiet and a signalling NaN, zero, 1, the infinities, a negative and a
	 * positive number.  1 is the number itself, 2 it as a quiet NaN, 7 and 8 are the zeros. */
	const int64_t table = 0x87111122;
	const bool whole = ht_e_lanes_of(v) == 16;
	LLVMValueRef arg[] = { r, v, ht_e_int(e, like(v, e->i32), (int32_t)table),
		LLVMConstInt(e->i32, 0, false),
		LLVMBuildBitCast(e->b, which, whole ? e->i16 : e->i8, ""),
		LLVMConstInt(e->i32, 4, false) /* as the processor's mode says */ };

	return ht_e_intrinsic(e,
		whole ? "llvm.x86.avx512.mask.fixupimm.ps.512"
		      : "llvm.x86.avx512.mask.fixupimm.ps.256",
		NULL, arg, whole ? 6 : 5);
}

/* Subnormals count as zero of the same sign, as in dot products.  Multiplying by 1, and adding
 * the product of 0 and -0, which is -0, changes nothing else. */
static LLVMValueRef bf16_to_f32(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u, tiny;

	if (ht_e_has_dot(e, ht_e_lanes_of(v))) {
		u = LLVMBuildZExt(e->b, v, like(v, e->i32), "");
		return ht_e_dot(
			e, ht_e_real(like(v, e->f32), -0.), u, k(e, u, (int32_t)0x80003f80));
	}
	v = ht_e_widen(e, v);
	u = cast_bits(e, v, e->i32);
	tiny = has_classes(e, v)
		       ? in_class(e, v, SUBNORMAL)
		       : LLVMBuildICmp(e->b, LLVMIntEQ, and(e, u, 0x7f800000), k(e, u, 0), "");
	u = ht_e_select(e, tiny, and(e, u, (int32_t)0x80000000), u);
	return cast_bits(e, u, e->f32);
}

/* As rounded_to_bf16(), where an instruction finds the numbers that adding does not round. */
static LLVMValueRef rounded_by_classes(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u = cast_bits(e, v, e->i32), odd, r;

	odd = LLVMBuildICmp(e->b, LLVMIntNE, and(e, u, 0x10000), k(e, u, 0), "");
	r = ht_e_select(e, odd, LLVMBuildAdd(e->b, u, k(e, u, 0x8000), ""),
		LLVMBuildAdd(e->b, u, k(e, u, 0x7fff), ""));
	r = quiet_or_zero(e, cast_bits(e, r, e->f32), v,
		in_class(e, v, QUIET_NAN | SIGNALLING_NAN | SUBNORMAL));
	return and(e, cast_bits(e, r, e->i32), (int32_t)0xffff0000);
}

/* The bits of F32 rounded to BF16, in the upper half; the lower half is 0. */
static LLVMValueRef rounded_to_bf16(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u = cast_bits(e, v, e->i32), nan, tiny, odd, r;

	if (has_classes(e, v))
		return rounded_by_classes(e, v);
	nan = LLVMBuildFCmp(e->b, LLVMRealUNO, v, v, "");
	tiny = LLVMBuildICmp(e->b, LLVMIntEQ, and(e, u, 0x7f800000), k(e, u, 0), "");
	odd = and(e, LLVMBuildLShr(e->b, u, k(e, u, 16), ""), 1);
	r = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, u, k(e, u, 0x7fff), ""), odd, "");
	r = ht_e_select(e, nan, LLVMBuildOr(e->b, u, k(e, u, 0x400000), ""), r);
	r = and(e, r, (int32_t)0xffff0000);
	return ht_e_select(e, tiny, and(e, u, (int32_t)0x80000000), r);
}

static LLVMValueRef f32_to_bf16_bits(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef r = rounded_to_bf16(e, v);

	return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, r, k(e, r, 16), ""), like(v, e->i16), "");
}

static bool narrows_bf16(const struct ht_e *e, int lanes)
{
	return e->t->narrows_bf16 && (lanes == 16 || lanes == 8);
}

LLVMValueRef ht_e_round_bf16(struct ht_e *e, LLVMValueRef v)
{
	if (narrows_bf16(e, ht_e_lanes_of(v)))
		return NULL;
	return cast_bits(e, rounded_to_bf16(e, v), e->f32);
}

static LLVMValueRef f32_to_bf16(struct ht_e *e, LLVMValueRef v)
{
	const int lanes = ht_e_lanes_of(v);

	if (!narrows_bf16(e, lanes))
		return f32_to_bf16_bits(e, v);
	v = ht_e_intrinsic(e,
		lanes == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512"
			    : "llvm.x86.avx512bf16.cvtneps2bf16.256",
		NULL, &v, 1);
	return cast_bits(e, v, e->i16);
}

/* Exact, also for subnormals: where the exponent is 0, the bits as an integer times 2^-24. */
static LLVMValueRef f16_to_f32_bits(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u = LLVMBuildZExt(e->b, v, like(v, e->i32), "");
	LLVMValueRef abs = and(e, u, 0x7fff),
		     sign = LLVMBuildShl(e->b, and(e, u, 0x8000), k(e, u, 16), "");
	LLVMValueRef r, tiny, wide = LLVMBuildShl(e->b, abs, k(e, u, 13), "");

	r = LLVMBuildAdd(e->b, wide, k(e, u, (127 - 15) << 23), "");
	/* Infinity; a NaN becomes quiet. */
	r = ht_e_select(
		e, below(e, abs, 0x7c00), r, LLVMBuildOr(e->b, wide, k(e, u, 0x7f800000), ""));
	r = ht_e_select(e, below(e, abs, 0x7c01), r, LLVMBuildOr(e->b, r, k(e, u, 0x400000), ""));
	tiny = LLVMBuildSIToFP(e->b, abs, like(v, e->f32), "");
	tiny = LLVMBuildFMul(e->b, tiny, ht_e_real(LLVMTypeOf(tiny), 0x1p-24), "");
	r = ht_e_select(e, below(e, abs, 0x400), cast_bits(e, tiny, e->i32), r);
	return cast_bits(e, LLVMBuildOr(e->b, r, sign, ""), e->f32);
}

static LLVMValueRef f32_to_f16_bits(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u = cast_bits(e, v, e->i32), abs = and(e, u, 0x7fffffff);
	LLVMValueRef sign = LLVMBuildLShr(e->b, LLVMBuildXor(e->b, u, abs, ""), k(e, u, 16), "");
	LLVMValueRef odd, r, tiny, nan;

	odd = and(e, LLVMBuildLShr(e->b, abs, k(e, u, 13), ""), 1);
	r = LLVMBuildAdd(e->b, abs, k(e, u, 0xfff - ((127 - 15) << 23)), "");
	r = LLVMBuildLShr(e->b, LLVMBuildAdd(e->b, r, odd, ""), k(e, u, 13), "");
	r = ht_e_select(e, below(e, abs, 0x477ff000), r, k(e, u, 0x7c00)); /* from 65520 on */
	/* Adding 1/2 moves the last bit of a subnormal result to the last place. */
	tiny = cast_bits(e, abs, e->f32);
	tiny = LLVMBuildFAdd(e->b, tiny, ht_e_real(LLVMTypeOf(tiny), 0.5), "");
	tiny = LLVMBuildSub(e->b, cast_bits(e, tiny, e->i32), k(e, u, 0x3f000000), "");
	r = ht_e_select(e, below(e, abs, 0x38800000), tiny, r);
	nan = and(e, LLVMBuildLShr(e->b, abs, k(e, u, 13), ""), 0x3ff);
	nan = LLVMBuildOr(e->b, nan, k(e, u, 0x7e00), "");
	r = ht_e_select(e, below(e, abs, 0x7f800001), r, nan);
	return LLVMBuildTrunc(e->b, LLVMBuildOr(e->b, r, sign, ""), like(v, e->i16), "");
}

/* With a fence: otherwise LLVM would convert comparisons of the result back to half precision,
 * which has no instructions, and compare lane by lane. */
static LLVMValueRef f16_to_f32(struct ht_e *e, LLVMValueRef v)
{
	if (!e->t->widens_f16)
		return f16_to_f32_bits(e, v);
	v = cast_bits(e, v, LLVMHalfTypeInContext(e->c));
	v = LLVMBuildFPExt(e->b, v, like(v, e->f32), "");
	return ht_e_intrinsic(e, "llvm.arithmetic.fence", LLVMTypeOf(v), &v, 1);
}

static LLVMValueRef f32_to_f16(struct ht_e *e, LLVMValueRef v)
{
	if (!e->t->narrows_f16)
		return f32_to_f16_bits(e, v);
	v = LLVMBuildFPTrunc(e->b, v, like(v, LLVMHalfTypeInContext(e->c)), "");
	return cast_bits(e, v, e->i16);
}

/* F64 to F32 such that a further rounding to 16 bits is correct (round to odd): the last bit is
 * set if any of the dropped bits was. */
static LLVMValueRef f64_to_odd_f32(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef u = LLVMBuildBitCast(e->b, v, like(v, e->i64), ""), low, sticky;

	low = and(e, u, 0x1fffffff);
	sticky = LLVMBuildICmp(e->b, LLVMIntNE, low, k(e, u, 0), "");
	sticky =
		LLVMBuildShl(e->b, LLVMBuildZExt(e->b, sticky, LLVMTypeOf(u), ""), k(e, u, 29), "");
	u = LLVMBuildOr(e->b, LLVMBuildSub(e->b, u, low, ""), sticky, "");
	return LLVMBuildFPTrunc(
		e->b, LLVMBuildBitCast(e->b, u, LLVMTypeOf(v), ""), like(v, e->f32), "");
}

/* v as a signed integer of `bits`, as struct ht_truncation defines it. */
static LLVMValueRef truncate(struct ht_e *e, LLVMValueRef v, int bits)
{
	LLVMTypeRef real = LLVMTypeOf(v), t = like(v, LLVMIntTypeInContext(e->c, (unsigned)bits));
	double limit = bits == 32 ? 0x1p31 : 0x1p63;
	/* For F64 to 32 bits, values above -2^31 - 1 truncate into range. */
	bool wide = bits == 32 && LLVMTypeOf(ht_e_lane(e, v, 0)) == e->f64;
	LLVMValueRef low = ht_e_real(real, wide ? -limit - 1 : -limit), in;

	in = LLVMBuildFCmp(e->b, wide ? LLVMRealOGT : LLVMRealOGE, v, low, "");
	in = LLVMBuildAnd(
		e->b, in, LLVMBuildFCmp(e->b, LLVMRealOLT, v, ht_e_real(real, limit), ""), "");
	v = ht_e_select(e, in, v, LLVMConstNull(real));
	return ht_e_select(e, in, LLVMBuildFPToSI(e->b, v, t, ""),
		ht_e_int(e, t, bits == 32 ? INT32_MIN : INT64_MIN));
}

/* v as U64: struct ht_truncation with `halved`. */
static LLVMValueRef to_u64(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef limit = ht_e_real(LLVMTypeOf(v), 0x1p63), big, high;

	big = LLVMBuildFCmp(e->b, LLVMRealOGE, v, limit, "");
	high = truncate(e, LLVMBuildFSub(e->b, v, limit, ""), 64);
	high = LLVMBuildXor(e->b, high, k(e, high, INT64_MIN), "");
	return ht_e_select(e, big, high, truncate(e, v, 64));
}

static LLVMValueRef real_to_int(struct ht_e *e, LLVMValueRef v, enum ht_dtype to)
{
	const struct ht_truncation by = ht_truncation_to(to);

	v = by.halved ? to_u64(e, v) : truncate(e, v, by.bits);
	if ((int)ht_dtype_info(to)->bytes * 8 == by.bits)
		return v;
	return LLVMBuildTrunc(e->b, v, like(v, ht_e_type(e, to)), "");
}

static LLVMValueRef int_to_int(struct ht_e *e, LLVMValueRef v, enum ht_dtype from, enum ht_dtype to)
{
	LLVMTypeRef t = like(v, ht_e_type(e, to));
	size_t a = from == HT_BOOL ? 0 : ht_dtype_info(from)->bytes, b = ht_dtype_info(to)->bytes;

	if (a == b)
		return v;
	if (a > b)
		return LLVMBuildTrunc(e->b, v, t, "");
	if (ht_dtype_info(from)->kind == HT_KIND_INT)
		return LLVMBuildSExt(e->b, v, t, "");
	return LLVMBuildZExt(e->b, v, t, "");
}

static LLVMValueRef to_bool(struct ht_e *e, LLVMValueRef v, enum ht_dtype from)
{
	if (ht_is_float(from))
		return LLVMBuildFCmp(e->b, LLVMRealUNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

LLVMValueRef ht_e_convert(struct ht_e *e, LLVMValueRef v, enum ht_dtype from, enum ht_dtype to)
{
	LLVMTypeRef t;

	if (from == to)
		return v;
	if (from == HT_BF16)
		return ht_e_convert(e, bf16_to_f32(e, v), HT_F32, to);
	if (from == HT_F16)
		return ht_e_convert(e, f16_to_f32(e, v), HT_F32, to);
	if (to == HT_BF16 || to == HT_F16) {
		if (from == HT_F64)
			v = f64_to_odd_f32(e, v);
		else
			v = ht_e_convert(e, v, from, HT_F32);
		return to == HT_BF16 ? f32_to_bf16(e, v) : f32_to_f16(e, v);
	}
	t = like(v, ht_e_type(e, to));
	if (to == HT_BOOL)
		return from == HT_BOOL ? v : to_bool(e, v, from);
	if (ht_is_float(from) && ht_is_float(to))
		return LLVMBuildFPCast(e->b, v, t, "");
	if (ht_is_float(from))
		return real_to_int(e, v, to);
	if (!ht_is_float(to))
		return int_to_int(e, v, from, to);
	if (ht_dtype_info(from)->kind == HT_KIND_INT)
		return LLVMBuildSIToFP(e->b, v, t, "");
	return LLVMBuildUIToFP(e->b, v, t, "");
}
