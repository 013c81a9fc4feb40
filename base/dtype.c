/* The table of element types, a row each. */
#include "base/base.h"

#include <math.h>

static const struct ht_dtype_info table[HT_DTYPE_END] = {
#define ROW(type, name, tag, proto, bytes, kind, exponent, mantissa)                               \
	[type] = { name, tag, proto, bytes, HT_KIND_##kind, exponent, mantissa },
	/* clang-format off */
	/*  type              name               tag          proto                  bytes kind  exp mantissa */
	ROW(HT_INVALID,       "invalid",         "invalid",   "DT_INVALID",          0, NONE,    0,  0)
	ROW(HT_F32,           "float32",         "f32",       "DT_FLOAT",            4, FLOAT,   8,  23)
	ROW(HT_F64,           "float64",         "f64",       "DT_DOUBLE",           8, FLOAT,   11, 52)
	ROW(HT_I32,           "int32",           "i32",       "DT_INT32",            4, INT,     0,  0)
	ROW(HT_U8,            "uint8",           "u8",        "DT_UINT8",            1, UINT,    0,  0)
	ROW(HT_I16,           "int16",           "i16",       "DT_INT16",            2, INT,     0,  0)
	ROW(HT_I8,            "int8",            "i8",        "DT_INT8",             1, INT,     0,  0)
	ROW(HT_STRING,        "string",          "str",       "DT_STRING",           0, OTHER,   0,  0)
	ROW(HT_C64,           "complex64",       "c64",       "DT_COMPLEX64",        8, COMPLEX, 8,  23)
	ROW(HT_I64,           "int64",           "i64",       "DT_INT64",            8, INT,     0,  0)
	ROW(HT_BOOL,          "bool",            "b1",        "DT_BOOL",             1, BOOL,    0,  0)
	ROW(HT_QI8,           "qint8",           "qi8",       "DT_QINT8",            1, OTHER,   0,  0)
	ROW(HT_QU8,           "quint8",          "qu8",       "DT_QUINT8",           1, OTHER,   0,  0)
	ROW(HT_QI32,          "qint32",          "qi32",      "DT_QINT32",           4, OTHER,   0,  0)
	ROW(HT_BF16,          "bfloat16",        "bf16",      "DT_BFLOAT16",         2, FLOAT,   8,  7)
	ROW(HT_QI16,          "qint16",          "qi16",      "DT_QINT16",           2, OTHER,   0,  0)
	ROW(HT_QU16,          "quint16",         "qu16",      "DT_QUINT16",          2, OTHER,   0,  0)
	ROW(HT_U16,           "uint16",          "u16",       "DT_UINT16",           2, UINT,    0,  0)
	ROW(HT_C128,          "complex128",      "c128",      "DT_COMPLEX128",       16, COMPLEX, 11, 52)
	ROW(HT_F16,           "float16",         "f16",       "DT_HALF",             2, FLOAT,   5,  10)
	ROW(HT_RESOURCE,      "resource",        "resource",  "DT_RESOURCE",         0, OTHER,   0,  0)
	ROW(HT_VARIANT,       "variant",         "variant",   "DT_VARIANT",          0, OTHER,   0,  0)
	ROW(HT_U32,           "uint32",          "u32",       "DT_UINT32",           4, UINT,    0,  0)
	ROW(HT_U64,           "uint64",          "u64",       "DT_UINT64",           8, UINT,    0,  0)
	ROW(HT_F8E5M2,        "float8_e5m2",     "f8e5m2",    "DT_FLOAT8_E5M2",      1, FLOAT,   5,  2)
	ROW(HT_F8E4M3FN,      "float8_e4m3fn",   "f8e4m3fn",  "DT_FLOAT8_E4M3FN",    1, FLOAT,   4,  3)
	ROW(HT_F8E4M3FNUZ,    "float8_e4m3fnuz", "f8e4m3fnuz", "DT_FLOAT8_E4M3FNUZ", 1, FLOAT,   4,  3)
	ROW(HT_F8E4M3B11FNUZ, "float8_e4m3b11fnuz", "f8e4m3b11fnuz", "DT_FLOAT8_E4M3B11FNUZ", 1, FLOAT, 4, 3)
	ROW(HT_F8E5M2FNUZ,    "float8_e5m2fnuz", "f8e5m2fnuz", "DT_FLOAT8_E5M2FNUZ", 1, FLOAT,   5,  2)
	/* TensorFlow stores each element of these narrow types in a byte of its own. */
	ROW(HT_I4,            "int4",            "i4",        "DT_INT4",             1, INT,     0,  0)
	ROW(HT_U4,            "uint4",           "u4",        "DT_UINT4",            1, UINT,    0,  0)
	ROW(HT_I2,            "int2",            "i2",        "DT_INT2",             1, INT,     0,  0)
	ROW(HT_U2,            "uint2",           "u2",        "DT_UINT2",            1, UINT,    0,  0)
	ROW(HT_F4E2M1FN,      "float4_e2m1fn",   "f4e2m1fn",  "DT_FLOAT4_E2M1FN",    1, FLOAT,   2,  1)
/* clang-format on */
#undef ROW
};

const struct ht_dtype_info *ht_dtype_info(enum ht_dtype t)
{
	unsigned n = (unsigned)t;

	if (n >= HT_REF)
		n -= HT_REF;
	return &table[n < HT_DTYPE_END ? n : HT_INVALID];
}

enum ht_dtype ht_dtype_named(struct ht_str name)
{
	for (int i = 1; i < HT_DTYPE_END; i++)
		if (ht_str_is(name, table[i].name) || ht_str_is(name, table[i].tag) ||
			ht_str_is(name, table[i].proto))
			return (enum ht_dtype)i;
	return HT_INVALID;
}

double ht_least_normal(enum ht_dtype t)
{
	const struct ht_dtype_info *info = ht_dtype_info(t);

	return info->kind == HT_KIND_FLOAT ? ldexp(1, 2 - (1 << (info->exponent - 1))) : 0;
}
