/* Rounding to integers and the floating-point remainder, on targets where LLVM would call libm. */
#include "backend/emit.h"

static LLVMValueRef copy_sign(struct ht_e *e, LLVMValueRef v, LLVMValueRef sign)
{
	LLVMValueRef arg[2] = { v, sign };

	return ht_e_intrinsic(e, "llvm.copysign", LLVMTypeOf(v), arg, 2);
}

static LLVMValueRef magnitude(struct ht_e *e, LLVMValueRef v)
{
	return ht_e_intrinsic(e, "llvm.fabs", LLVMTypeOf(v), &v, 1);
}

static bool is_f64(struct ht_e *e, LLVMValueRef v)
{
	LLVMTypeRef t = LLVMTypeOf(v);

	return t == e->f64 || (ht_e_lanes_of(v) > 1 && LLVMGetElementType(t) == e->f64);
}

/* |v| rounded to nearest even: after adding 2^(mantissa bits) there is no bit for a fraction. */
static LLVMValueRef rint_magnitude(struct ht_e *e, LLVMValueRef v)
{
	LLVMValueRef abs = magnitude(e, v), big, r, large;

	big = ht_e_real(LLVMTypeOf(v), is_f64(e, v) ? 0x1p52 : 0x1p23);
	r = LLVMBuildFSub(e->b, LLVMBuildFAdd(e->b, abs, big, ""), big, "");
	large = LLVMBuildFCmp(e->b, LLVMRealOLT, abs, big, "");
	return ht_e_select(e, large, r, abs); /* large numbers and NaN stay */
}

static LLVMValueRef adjust(struct ht_e *e, LLVMValueRef r, LLVMValueRef v, bool down)
{
	LLVMValueRef one = ht_e_real(LLVMTypeOf(v), 1), off;

	off = LLVMBuildFCmp(e->b, down ? LLVMRealOGT : LLVMRealOLT, r, v, "");
	one = ht_e_select(e, off, one, LLVMConstNull(LLVMTypeOf(v)));
	return down ? LLVMBuildFSub(e->b, r, one, "") : LLVMBuildFAdd(e->b, r, one, "");
}

static LLVMValueRef round_plain(struct ht_e *e, enum ht_xop op, LLVMValueRef v)
{
	LLVMValueRef r = rint_magnitude(e, v);

	if (op == HT_X_TRUNC)
		return copy_sign(e, adjust(e, r, magnitude(e, v), true), v);
	r = copy_sign(e, r, v);
	if (op == HT_X_RINT)
		return r;
	return copy_sign(e, adjust(e, r, v, op == HT_X_FLOOR), v);
}

LLVMValueRef ht_e_round(struct ht_e *e, enum ht_xop op, LLVMValueRef v)
{
	if (!e->t->rounds)
		return round_plain(e, op, v);
	return ht_e_intrinsic(e,
		op == HT_X_FLOOR  ? "llvm.floor"
		: op == HT_X_CEIL ? "llvm.ceil"
		: op == HT_X_RINT ? "llvm.roundeven"
				  : "llvm.trunc",
		LLVMTypeOf(v), &v, 1);
}

/* Splits magnitude bits u into the exponent, at least 1, and the mantissa with its leading bit. */
static LLVMValueRef unpack(struct ht_e *e, LLVMValueRef u, int mantissa, LLVMValueRef *exponent)
{
	LLVMValueRef x = LLVMBuildLShr(e->b, u, ht_e_i64(e, mantissa), ""), m, normal;

	m = LLVMBuildAnd(e->b, u, ht_e_i64(e, ((int64_t)1 << mantissa) - 1), "");
	normal = LLVMBuildICmp(e->b, LLVMIntNE, x, ht_e_i64(e, 0), "");
	*exponent = ht_e_select(e, normal, x, ht_e_i64(e, 1));
	return ht_e_select(
		e, normal, LLVMBuildOr(e->b, m, ht_e_i64(e, (int64_t)1 << mantissa), ""), m);
}

/* Magnitude bits of r * 2^(exponent - bias - mantissa bits). */
static LLVMValueRef repack(struct ht_e *e, LLVMValueRef r, LLVMValueRef exponent, int mantissa)
{
	LLVMValueRef arg[2] = { r, LLVMConstInt(e->i1, 0, false) }, up, x, normal, tiny, m;

	up = LLVMBuildSub(e->b, ht_e_intrinsic(e, "llvm.ctlz", e->i64, arg, 2),
		ht_e_i64(e, 63 - mantissa), "");
	x = LLVMBuildSub(e->b, exponent, ht_e_i64(e, 1), "");
	tiny = LLVMBuildICmp(e->b, LLVMIntSGT, up, x, "");
	m = LLVMBuildShl(e->b, r, ht_e_select(e, tiny, x, up), "");
	normal = LLVMBuildShl(e->b, LLVMBuildSub(e->b, x, up, ""), ht_e_i64(e, mantissa), "");
	normal = LLVMBuildAdd(e->b, m, normal, "");
	m = ht_e_select(e, tiny, m, normal);
	return ht_e_select(e, LLVMBuildICmp(e->b, LLVMIntEQ, r, ht_e_i64(e, 0), ""), r, m);
}

/* The body of i64 rem(i64 x, i64 y), on bits of finite magnitudes, y not 0: the mantissa of x is
 * shifted up to the exponent difference in steps that fit 64 bits, each reduced by y's. */
static void remainder_body(struct ht_e *e, LLVMValueRef f, int mantissa)
{
	LLVMValueRef x = LLVMGetParam(f, 0), y = LLVMGetParam(f, 1), ex, ey, mx, my, r0, k0, r, k,
		     s;
	LLVMValueRef r1, k1, from[2];
	LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->c, f, "entry");
	LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(e->c, f, "head");
	LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(e->c, f, "body");
	LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->c, f, "done"), block[2];

	LLVMPositionBuilderAtEnd(e->b, entry);
	mx = unpack(e, x, mantissa, &ex);
	my = unpack(e, y, mantissa, &ey);
	r0 = LLVMBuildURem(e->b, mx, my, "");
	k0 = LLVMBuildSub(e->b, ex, ey, "");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	r = LLVMBuildPhi(e->b, e->i64, "r");
	k = LLVMBuildPhi(e->b, e->i64, "k");
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, k, ht_e_i64(e, 0), ""), body, done);
	LLVMPositionBuilderAtEnd(e->b, body);
	s = ht_e_smin(e, k, ht_e_i64(e, 63 - mantissa - 1));
	r1 = LLVMBuildURem(e->b, LLVMBuildShl(e->b, r, s, ""), my, "");
	k1 = LLVMBuildSub(e->b, k, s, "");
	LLVMBuildBr(e->b, head);
	block[0] = entry;
	block[1] = body;
	from[0] = r0;
	from[1] = r1;
	LLVMAddIncoming(r, from, block, 2);
	from[0] = k0;
	from[1] = k1;
	LLVMAddIncoming(k, from, block, 2);
	LLVMPositionBuilderAtEnd(e->b, done);
	/* If x < y, the remainder is x, whose exponent may be the smaller one. */
	LLVMBuildRet(e->b, ht_e_select(e, LLVMBuildICmp(e->b, LLVMIntULT, x, y, ""), x,
				   repack(e, r, ey, mantissa)));
}

static LLVMValueRef remainder_function(struct ht_e *e, bool wide, LLVMTypeRef *type)
{
	const char *name = wide ? "fmod64" : "fmod32";
	LLVMTypeRef arg[2] = { e->i64, e->i64 };
	LLVMValueRef f = LLVMGetNamedFunction(e->mod, name);
	LLVMBuilderRef outer = e->b;

	*type = LLVMFunctionType(e->i64, arg, 2, false);
	if (f)
		return f;
	f = LLVMAddFunction(e->mod, name, *type);
	LLVMSetLinkage(f, LLVMInternalLinkage);
	ht_e_attributes(e, f);
	e->b = LLVMCreateBuilderInContext(e->c);
	remainder_body(e, f, wide ? 52 : 23);
	LLVMDisposeBuilder(e->b);
	e->b = outer;
	return f;
}

LLVMValueRef ht_e_fmod(struct ht_e *e, LLVMValueRef a, LLVMValueRef b)
{
	bool wide = is_f64(e, a);
	int n = ht_e_lanes_of(a);
	LLVMTypeRef bits = ht_e_form(wide ? e->i64 : e->i32, n), wider = ht_e_form(e->i64, n), type;
	LLVMValueRef fn = remainder_function(e, wide, &type), good, x, y, r, zero, arg[2], one;

	zero = LLVMConstNull(LLVMTypeOf(a));
	/* b is neither 0 nor NaN, and a is finite; if b is infinite, the remainder is a. */
	good = LLVMBuildFCmp(e->b, LLVMRealONE, b, zero, "");
	good = LLVMBuildAnd(e->b, good,
		LLVMBuildFCmp(e->b, LLVMRealOEQ, LLVMBuildFSub(e->b, a, a, ""), zero, ""), "");
	x = LLVMBuildZExt(e->b, LLVMBuildBitCast(e->b, magnitude(e, a), bits, ""), wider, "");
	y = LLVMBuildZExt(e->b, LLVMBuildBitCast(e->b, magnitude(e, b), bits, ""), wider, "");
	x = ht_e_select(e, good, x, LLVMConstNull(wider));
	y = ht_e_select(e, good, y, ht_e_int(e, wider, 1));
	r = LLVMConstNull(wider);
	for (int i = 0; i < n; i++) {
		arg[0] = ht_e_lane(e, x, i);
		arg[1] = ht_e_lane(e, y, i);
		one = LLVMBuildCall2(e->b, type, fn, arg, 2, "");
		r = n == 1 ? one : LLVMBuildInsertElement(e->b, r, one, ht_e_i64(e, i), "");
	}
	r = LLVMBuildBitCast(e->b, LLVMBuildTrunc(e->b, r, bits, ""), LLVMTypeOf(a), "");
	return ht_e_select(
		e, good, copy_sign(e, r, a), ht_e_real(LLVMTypeOf(a), __builtin_nan("")));
}
