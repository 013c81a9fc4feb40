/* kernel: sizes of a kernel, and names for its text. */
#include "kernel/kernel.h"
#include "kernel/eval.h"
#include "kernel/library.h"

int64_t ht_kernel_tiles(const struct ht_kernel *k)
{
	int64_t n = 1;

	for (int i = 0; i < k->grid_dims; i++)
		n *= k->grid[i];
	return n;
}

static size_t local_bytes(const struct ht_kernel_buffer *b)
{
	size_t n = (size_t)b->count * ht_dtype_info(b->dtype)->bytes;

	return (n + 63) & ~(size_t)63;
}

size_t ht_kernel_local_offset(const struct ht_kernel *k, int32_t b)
{
	size_t at = 0;

	HT_CHECK(b >= k->args && b < k->buffers);
	for (int32_t i = k->args; i < b; i++)
		at += local_bytes(&k->buffer[i]);
	return at;
}

size_t ht_kernel_scratch(const struct ht_kernel *k)
{
	size_t at = 0;

	if (k->library)
		return ht_library_scratch(k);
	for (int32_t i = k->args; i < k->buffers; i++)
		at += local_bytes(&k->buffer[i]);
	return at;
}

static const struct {
	const char *name;
	int operands;
} op_info[] = {
	[HT_X_CONST] = { "const", 0 },
	[HT_X_DIM] = { "dim", 0 },
	[HT_X_GRID] = { "grid", 0 },
	[HT_X_PARAM] = { "param", 0 },
	[HT_X_LOAD] = { "load", 3 },
	[HT_X_RED] = { "red", 0 },
	[HT_X_CHECK] = { "check", 2 },
	[HT_X_SELECT] = { "select", 3 },
	[HT_X_CVT] = { "cvt", 1 },
	[HT_X_BITCAST] = { "bitcast", 1 },
	[HT_X_ADD] = { "add", 2 },
	[HT_X_SUB] = { "sub", 2 },
	[HT_X_MUL] = { "mul", 2 },
	[HT_X_DIV] = { "div", 2 },
	[HT_X_REM] = { "rem", 2 },
	[HT_X_MULADD] = { "muladd", 3 },
	[HT_X_SCALE] = { "scale", 2 },
	[HT_X_MIN] = { "min", 2 },
	[HT_X_MAX] = { "max", 2 },
	[HT_X_NEG] = { "neg", 1 },
	[HT_X_ABS] = { "abs", 1 },
	[HT_X_SQRT] = { "sqrt", 1 },
	[HT_X_FLOOR] = { "floor", 1 },
	[HT_X_CEIL] = { "ceil", 1 },
	[HT_X_RINT] = { "rint", 1 },
	[HT_X_TRUNC] = { "trunc", 1 },
	[HT_X_AND] = { "and", 2 },
	[HT_X_OR] = { "or", 2 },
	[HT_X_XOR] = { "xor", 2 },
	[HT_X_NOT] = { "not", 1 },
	[HT_X_SHL] = { "shl", 2 },
	[HT_X_SHR] = { "shr", 2 },
	[HT_X_SAR] = { "sar", 2 },
	[HT_X_EQ] = { "eq", 2 },
	[HT_X_NE] = { "ne", 2 },
	[HT_X_LT] = { "lt", 2 },
	[HT_X_LE] = { "le", 2 },
	[HT_X_FLOORDIV] = { "floordiv", 2 },
	[HT_X_FLOORMOD] = { "floormod", 2 },
	[HT_X_EXP] = { "exp", 1 },
	[HT_X_EXPM1] = { "expm1", 1 },
	[HT_X_LOG] = { "log", 1 },
	[HT_X_LOG1P] = { "log1p", 1 },
	[HT_X_TANH] = { "tanh", 1 },
	[HT_X_SIGMOID] = { "sigmoid", 1 },
	[HT_X_ERF] = { "erf", 1 },
	[HT_X_SIN] = { "sin", 1 },
	[HT_X_COS] = { "cos", 1 },
	[HT_X_TAN] = { "tan", 1 },
	[HT_X_ATAN] = { "atan", 1 },
	[HT_X_ATAN2] = { "atan2", 2 },
	[HT_X_ASIN] = { "asin", 1 },
	[HT_X_ACOS] = { "acos", 1 },
	[HT_X_SINH] = { "sinh", 1 },
	[HT_X_COSH] = { "cosh", 1 },
	[HT_X_ASINH] = { "asinh", 1 },
	[HT_X_ACOSH] = { "acosh", 1 },
	[HT_X_ATANH] = { "atanh", 1 },
	[HT_X_ERFC] = { "erfc", 1 },
	[HT_X_RSQRT] = { "rsqrt", 1 },
	[HT_X_POW] = { "pow", 2 },
};

int ht_x_operands(enum ht_xop op)
{
	return op_info[op].operands;
}

const char *ht_xop_name(enum ht_xop op)
{
	return op_info[op].name;
}

static int64_t cut_end(
	const struct ht_dim *d, const struct ht_cut *c, const int64_t *params, int64_t end)
{
	int64_t at = ht_size_value(&c->end, params);

	if (c->run < d->extent && end > 0)
		at += (end - 1) / c->run * c->run;
	return at < end ? at : end;
}

int64_t ht_cut_end(const struct ht_dim *d, const int64_t *params, int64_t end)
{
	for (int i = 0; i < HT_CUTS && d->cut[i].run; i++)
		end = cut_end(d, &d->cut[i], params, end);
	return end;
}

int64_t ht_cut_slack(const struct ht_stage *s, int dim)
{
	enum { COPIES = 4, LANES = 16 };
	const struct ht_dim *d = &s->dim[dim];

	if (s->kind == HT_STAGE_LOOP)
		return dim == s->vec && !d->reduce
			       ? LANES * (d->unroll > COPIES ? d->unroll : COPIES) - 1
			       : 0;
	return dim == s->contract.n ? s->contract.nr - 1 : 0;
}
