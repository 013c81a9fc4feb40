/* eval: computes one operation over an array of values, exactly rounded to its dtype.
 *
 * This defines the meaning of the operations.  They are plain loops, which the compiler
 * vectorises where it can.  Floating point: round to nearest, no contraction (the build sets
 * -ffp-contract=off). */
#include "kernel/eval.h"
#include "kernel/native.h"

#include <math.h>
#include <string.h>

/* Loops over r[i] = expr, with x and y the operands' i-th values. */
#define ONE(R, T, expr)                                                                            \
	do {                                                                                       \
		R *r_ = r;                                                                         \
		const T *a_ = a;                                                                   \
		for (int i = 0; i < n; i++) {                                                      \
			T x = a_[i];                                                               \
			r_[i] = (R)(expr);                                                         \
		}                                                                                  \
	} while (0)
#define TWO(R, T, expr)                                                                            \
	do {                                                                                       \
		R *r_ = r;                                                                         \
		const T *a_ = a, *b_ = b;                                                          \
		for (int i = 0; i < n; i++) {                                                      \
			T x = a_[i], y = b_[i];                                                    \
			r_[i] = (R)(expr);                                                         \
		}                                                                                  \
	} while (0)

/* A case of a switch that ends the function. */
#define ON(label, loop)                                                                            \
	case label:                                                                                \
		loop;                                                                              \
		return;

static void muladd_f32(float *r, const float *a, const float *b, const float *c, int n)
{
	for (int i = ht_native_muladd_f32(r, a, b, c, n); i < n; i++)
		r[i] = fmaf(a[i], b[i], c[i]);
}

static void muladd_f64(double *r, const double *a, const double *b, const double *c, int n)
{
	for (int i = ht_native_muladd_f64(r, a, b, c, n); i < n; i++)
		r[i] = fma(a[i], b[i], c[i]);
}

static void round_f32(enum ht_xop op, float *r, const float *a, int n)
{
	for (int i = ht_native_round_f32(op, r, a, n); i < n; i++)
		r[i] = op == HT_X_FLOOR  ? floorf(a[i])
		       : op == HT_X_CEIL ? ceilf(a[i])
		       : op == HT_X_RINT ? rintf(a[i])
					 : truncf(a[i]);
}

static void round_f64(enum ht_xop op, double *r, const double *a, int n)
{
	for (int i = ht_native_round_f64(op, r, a, n); i < n; i++)
		r[i] = op == HT_X_FLOOR  ? floor(a[i])
		       : op == HT_X_CEIL ? ceil(a[i])
		       : op == HT_X_RINT ? rint(a[i])
					 : trunc(a[i]);
}

/* ---- arithmetic ---- */

#define FLOAT_OPS(T, FABS, SQRT, FMOD)                                                             \
	ON(HT_X_ADD, TWO(T, T, x + y))                                                             \
	ON(HT_X_SUB, TWO(T, T, x - y))                                                             \
	ON(HT_X_MUL, TWO(T, T, x *y))                                                              \
	ON(HT_X_DIV, TWO(T, T, x / y))                                                             \
	ON(HT_X_REM, TWO(T, T, FMOD(x, y)))                                                        \
	ON(HT_X_MIN, TWO(T, T, x != x ? x : y != y ? y : x < y ? x : y))                           \
	ON(HT_X_MAX, TWO(T, T, x != x ? x : y != y ? y : x > y ? x : y))                           \
	ON(HT_X_NEG, ONE(T, T, -x))                                                                \
	ON(HT_X_ABS, ONE(T, T, FABS(x)))                                                           \
	ON(HT_X_SQRT, ONE(T, T, SQRT(x)))

#define COMPARE_OPS(T)                                                                             \
	ON(HT_X_EQ, TWO(uint8_t, T, x == y))                                                       \
	ON(HT_X_NE, TWO(uint8_t, T, x != y))                                                       \
	ON(HT_X_LT, TWO(uint8_t, T, x < y))                                                        \
	ON(HT_X_LE, TWO(uint8_t, T, x <= y))

/* If b is NaN, a is NaN too. */
static float scaled(float a, float b)
{
	return scalbnf(a, b >= -250 && b <= 250 ? (int)b : 0);
}

static void eval_f32(enum ht_xop op, void *r, const void *a, const void *b, const void *c, int n)
{
	switch (op) {
		FLOAT_OPS(float, __builtin_fabsf, sqrtf, fmodf)
		ON(HT_X_SCALE, TWO(float, float, scaled(x, y)))
		COMPARE_OPS(float)
	case HT_X_MULADD:
		muladd_f32(r, a, b, c, n);
		return;
	case HT_X_FLOOR:
	case HT_X_CEIL:
	case HT_X_RINT:
	case HT_X_TRUNC:
		round_f32(op, r, a, n);
		return;
	default:
		HT_CHECK(!"an operation on F32");
	}
}

static void eval_f64(enum ht_xop op, void *r, const void *a, const void *b, const void *c, int n)
{
	switch (op) {
		FLOAT_OPS(double, __builtin_fabs, sqrt, fmod)
		COMPARE_OPS(double)
	case HT_X_MULADD:
		muladd_f64(r, a, b, c, n);
		return;
	case HT_X_FLOOR:
	case HT_X_CEIL:
	case HT_X_RINT:
	case HT_X_TRUNC:
		round_f64(op, r, a, n);
		return;
	default:
		HT_CHECK(!"an operation on F64");
	}
}

/* T: the type; U: unsigned and S: signed of its size.  Wrapping is done in W, an unsigned type to
 * which no promotion to int applies. */
#define DEFINE_INT(NAME, T, U, S, W, BITS)                                                         \
	static void NAME(enum ht_xop op, void *r, const void *a, const void *b, int n)             \
	{                                                                                          \
		switch (op) {                                                                      \
			COMPARE_OPS(T)                                                             \
			ON(HT_X_ADD, TWO(T, T, (W)x + (W)y))                                       \
			ON(HT_X_SUB, TWO(T, T, (W)x - (W)y))                                       \
			ON(HT_X_MUL, TWO(T, T, (W)x *(W)y))                                        \
			ON(HT_X_DIV, TWO(T, T, x / y))                                             \
			ON(HT_X_REM, TWO(T, T, x % y))                                             \
			ON(HT_X_MIN, TWO(T, T, x < y ? x : y))                                     \
			ON(HT_X_MAX, TWO(T, T, x > y ? x : y))                                     \
			ON(HT_X_NEG, ONE(T, T, 0 - (W)x))                                          \
			ON(HT_X_ABS, ONE(T, T, (S)x < 0 && (T) - 1 < 1 ? 0 - (W)x : (W)x))         \
			ON(HT_X_AND, TWO(T, T, x &y))                                              \
			ON(HT_X_OR, TWO(T, T, x | y))                                              \
			ON(HT_X_XOR, TWO(T, T, x ^ y))                                             \
			ON(HT_X_NOT, ONE(T, T, ~x))                                                \
			ON(HT_X_SHL, TWO(T, T, (U)y < BITS ? (W)(U)x << ((U)y & (BITS - 1)) : 0))  \
			ON(HT_X_SHR, TWO(T, T, (U)y < BITS ? (W)(U)x >> ((U)y & (BITS - 1)) : 0))  \
			ON(HT_X_SAR, TWO(T, T, (S)x >> ((U)y < BITS ? (U)y : BITS - 1)))           \
		default:                                                                           \
			HT_CHECK(!"an operation on integers");                                     \
		}                                                                                  \
	}

/* clang-format off */
DEFINE_INT(eval_i8, int8_t, uint8_t, int8_t, uint32_t, 8)
DEFINE_INT(eval_u8, uint8_t, uint8_t, int8_t, uint32_t, 8)
DEFINE_INT(eval_i16, int16_t, uint16_t, int16_t, uint32_t, 16)
DEFINE_INT(eval_u16, uint16_t, uint16_t, int16_t, uint32_t, 16)
DEFINE_INT(eval_i32, int32_t, uint32_t, int32_t, uint32_t, 32)
DEFINE_INT(eval_u32, uint32_t, uint32_t, int32_t, uint32_t, 32)
DEFINE_INT(eval_i64, int64_t, uint64_t, int64_t, uint64_t, 64)
DEFINE_INT(eval_u64, uint64_t, uint64_t, int64_t, uint64_t, 64)
/* clang-format on */

static void eval_bool(enum ht_xop op, void *r, const void *a, const void *b, int n)
{
	switch (op) {
		COMPARE_OPS(uint8_t)
		ON(HT_X_XOR, TWO(uint8_t, uint8_t, x ^ y))
		ON(HT_X_NOT, ONE(uint8_t, uint8_t, !x))
	case HT_X_AND:
	case HT_X_MUL:
	case HT_X_MIN:
		TWO(uint8_t, uint8_t, x &y);
		return;
	case HT_X_OR:
	case HT_X_MAX:
	case HT_X_ADD:
		TWO(uint8_t, uint8_t, x | y);
		return;
	default:
		HT_CHECK(!"an operation on BOOL");
	}
}

static void eval_index(enum ht_xop op, void *r, const void *a, const void *b, int n)
{
	if (op == HT_X_FLOORDIV)
		TWO(int64_t, int64_t, x / y - (x % y < 0));
	else
		TWO(int64_t, int64_t, x % y + (x % y < 0 ? y : 0));
}

/* ---- conversions ---- */

struct ht_truncation ht_truncation_to(enum ht_dtype to)
{
	const bool is_wide = to == HT_U32 || to == HT_I64 || to == HT_U64;

	return (struct ht_truncation){ is_wide ? 64 : 32, to == HT_U64 };
}

/* The result for values out of range is -2^63, which is also a value of 64 bits. */
static int64_t truncated(double x, struct ht_truncation by)
{
	const double limit = by.bits == 32 ? 0x1p31 : 0x1p63;

	return x > -limit - 1 && x < limit ? (int64_t)x : by.bits == 32 ? INT32_MIN : INT64_MIN;
}

static int64_t float_to_int(double x, struct ht_truncation by)
{
	if (by.halved && x >= 0x1p63)
		return truncated(x - 0x1p63, by) ^ INT64_MIN;
	return truncated(x, by);
}

#define CVT_FROM_FLOAT(T)                                                                          \
	switch (to) {                                                                              \
		ON(HT_F32, ONE(float, T, x))                                                       \
		ON(HT_F64, ONE(double, T, x))                                                      \
		ON(HT_F16, ONE(uint16_t, T, ht_f32_to_f16((float)x)))                              \
		ON(HT_BF16, ONE(uint16_t, T, ht_f32_to_bf16((float)x)))                            \
		ON(HT_I8, ONE(int8_t, T, float_to_int(x, by)))                                     \
		ON(HT_U8, ONE(uint8_t, T, float_to_int(x, by)))                                    \
		ON(HT_I16, ONE(int16_t, T, float_to_int(x, by)))                                   \
		ON(HT_U16, ONE(uint16_t, T, float_to_int(x, by)))                                  \
		ON(HT_I32, ONE(int32_t, T, float_to_int(x, by)))                                   \
		ON(HT_U32, ONE(uint32_t, T, float_to_int(x, by)))                                  \
		ON(HT_I64, ONE(int64_t, T, float_to_int(x, by)))                                   \
		ON(HT_U64, ONE(uint64_t, T, float_to_int(x, by)))                                  \
		ON(HT_BOOL, ONE(uint8_t, T, x != 0))                                               \
	default:                                                                                   \
		HT_CHECK(!"a conversion");                                                         \
	}

#define CVT_FROM_INT(T)                                                                            \
	switch (to) {                                                                              \
		ON(HT_F32, ONE(float, T, x))                                                       \
		ON(HT_F64, ONE(double, T, x))                                                      \
		ON(HT_I8, ONE(int8_t, T, x))                                                       \
		ON(HT_U8, ONE(uint8_t, T, x))                                                      \
		ON(HT_I16, ONE(int16_t, T, x))                                                     \
		ON(HT_U16, ONE(uint16_t, T, x))                                                    \
		ON(HT_I32, ONE(int32_t, T, x))                                                     \
		ON(HT_U32, ONE(uint32_t, T, x))                                                    \
		ON(HT_I64, ONE(int64_t, T, x))                                                     \
		ON(HT_U64, ONE(uint64_t, T, x))                                                    \
		ON(HT_BOOL, ONE(uint8_t, T, x != 0))                                               \
	default:                                                                                   \
		HT_CHECK(!"a conversion");                                                         \
	}

static void convert_float(enum ht_dtype from, enum ht_dtype to, void *r, const void *a, int n)
{
	const struct ht_truncation by = ht_truncation_to(to);

	if (from == HT_F32)
		CVT_FROM_FLOAT(float)
	else if (from == HT_F64)
		CVT_FROM_FLOAT(double)
	else if (from == HT_F16)
		ONE(float, uint16_t, ht_f16_to_f32(x));
	else
		ONE(float, uint16_t, ht_bf16_to_f32(x));
}

static void convert(enum ht_dtype from, enum ht_dtype to, void *r, const void *a, int n)
{
	switch (from) {
	case HT_I8:
		CVT_FROM_INT(int8_t)
	case HT_BOOL:
	case HT_U8:
		CVT_FROM_INT(uint8_t)
	case HT_I16:
		CVT_FROM_INT(int16_t)
	case HT_U16:
		CVT_FROM_INT(uint16_t)
	case HT_I32:
		CVT_FROM_INT(int32_t)
	case HT_U32:
		CVT_FROM_INT(uint32_t)
	case HT_I64:
		CVT_FROM_INT(int64_t)
	case HT_U64:
		CVT_FROM_INT(uint64_t)
	default:
		HT_CHECK(ht_is_float(from));
		HT_CHECK((from != HT_F16 && from != HT_BF16) || to == HT_F32);
		convert_float(from, to, r, a, n);
	}
}

/* ---- other operations ---- */

#define SELECT_AS(T)                                                                               \
	for (int i = 0; i < n; i++)                                                                \
	((T *)r)[i] = ((const uint8_t *)a)[i] ? ((const T *)b)[i] : ((const T *)c)[i]

static void choose(size_t bytes, void *r, const void *a, const void *b, const void *c, int n)
{
	switch (bytes) {
	case 1:
		SELECT_AS(uint8_t);
		return;
	case 2:
		SELECT_AS(uint16_t);
		return;
	case 4:
		SELECT_AS(uint32_t);
		return;
	default:
		SELECT_AS(uint64_t);
	}
}

static void fill(enum ht_dtype t, void *r, int64_t imm, int n)
{
	size_t bytes = ht_dtype_info(t)->bytes;

	for (int i = 0; i < n; i++)
		memcpy((char *)r + (size_t)i * bytes, &imm, bytes); /* little endian */
}

static void arithmetic(const struct ht_x *x, enum ht_dtype from, void *r, const void *a,
	const void *b, const void *c, int n)
{
	switch (from) {
	case HT_F32:
		eval_f32(x->op, r, a, b, c, n);
		return;
	case HT_F64:
		eval_f64(x->op, r, a, b, c, n);
		return;
	case HT_I8:
		eval_i8(x->op, r, a, b, n);
		return;
	case HT_U8:
		eval_u8(x->op, r, a, b, n);
		return;
	case HT_I16:
		eval_i16(x->op, r, a, b, n);
		return;
	case HT_U16:
		eval_u16(x->op, r, a, b, n);
		return;
	case HT_I32:
		eval_i32(x->op, r, a, b, n);
		return;
	case HT_U32:
		eval_u32(x->op, r, a, b, n);
		return;
	case HT_I64:
		eval_i64(x->op, r, a, b, n);
		return;
	case HT_U64:
		eval_u64(x->op, r, a, b, n);
		return;
	case HT_BOOL:
		eval_bool(x->op, r, a, b, n);
		return;
	default:
		HT_CHECK(!"a type that computes");
	}
}

void ht_x_eval(const struct ht_x *x, enum ht_dtype from, void *r, const void *a, const void *b,
	const void *c, int n)
{
	switch (x->op) {
	case HT_X_CONST:
		fill(x->dtype, r, x->imm, n);
		return;
	case HT_X_SELECT:
		choose(ht_dtype_info(x->dtype)->bytes, r, a, b, c, n);
		return;
	case HT_X_CVT:
		convert(from, x->dtype, r, a, n);
		return;
	case HT_X_BITCAST:
		memcpy(r, a, (size_t)n * ht_dtype_info(x->dtype)->bytes);
		return;
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		eval_index(x->op, r, a, b, n);
		return;
	default:
		arithmetic(x, from, r, a, b, c, n);
	}
}
