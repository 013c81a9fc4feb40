/* Which implementation modes the kernel of a node tells apart.
 *
 * A node carries its mode as attribute _implementation_mode, so that it goes through passes, text
 * forms and exports.  What a mode changes ends up in the kernel's expressions, reductions, packing
 * and faults, which its canonical text shows. */
#include "lower/inside.h"

/* How an op computes, as far as modes change it. */
enum {
	FUNCTION = 1, /* by one function, whose result is rounded anyway */
	COMPOSED = 2, /* by several operations, each of which may round */
	SHORTENS = 4, /* by a polynomial that has shorter forms, or dividing needlessly */
	CONTRACTS = 8,
	GATHERS = 16
};

static const uint8_t computes[HT_OP_END] = {
	[HT_OP_Exp] = FUNCTION | SHORTENS,
	[HT_OP_Expm1] = FUNCTION | SHORTENS,
	[HT_OP_Log] = FUNCTION | SHORTENS,
	[HT_OP_Log1p] = FUNCTION | SHORTENS,
	[HT_OP_Tanh] = FUNCTION | SHORTENS,
	[HT_OP_Sigmoid] = FUNCTION | SHORTENS,
	[HT_OP_Erf] = FUNCTION | SHORTENS,
	[HT_OP_Erfc] = FUNCTION,
	[HT_OP_Rsqrt] = FUNCTION,
	[HT_OP_Sin] = FUNCTION,
	[HT_OP_Cos] = FUNCTION,
	[HT_OP_Tan] = FUNCTION,
	[HT_OP_Asin] = FUNCTION,
	[HT_OP_Acos] = FUNCTION,
	[HT_OP_Atan] = FUNCTION,
	[HT_OP_Sinh] = FUNCTION,
	[HT_OP_Cosh] = FUNCTION,
	[HT_OP_Asinh] = FUNCTION,
	[HT_OP_Acosh] = FUNCTION,
	[HT_OP_Atanh] = FUNCTION,
	[HT_OP_Pow] = FUNCTION,
	[HT_OP_Atan2] = FUNCTION,
	[HT_OP_Elu] = COMPOSED | SHORTENS,
	[HT_OP_Selu] = COMPOSED | SHORTENS,
	[HT_OP_Softplus] = COMPOSED | SHORTENS,
	[HT_OP_Gelu] = COMPOSED | SHORTENS,
	[HT_OP_Silu] = COMPOSED | SHORTENS,
	[HT_OP_Xlogy] = COMPOSED | SHORTENS,
	[HT_OP_Xlog1py] = COMPOSED | SHORTENS,
	[HT_OP_Softmax] = COMPOSED | SHORTENS,
	[HT_OP_LogSoftmax] = COMPOSED | SHORTENS,
	[HT_OP_Softsign] = COMPOSED,
	[HT_OP_HardSwish] = COMPOSED,
	[HT_OP_HardSigmoid] = COMPOSED,
	[HT_OP_FloorDiv] = COMPOSED,
	[HT_OP_FloorMod] = COMPOSED,
	[HT_OP_SquaredDifference] = COMPOSED,
	[HT_OP_AddN] = COMPOSED,
	[HT_OP_Sum] = COMPOSED,
	[HT_OP_Mean] = COMPOSED,
	[HT_OP_Prod] = COMPOSED,
	[HT_OP_EuclideanNorm] = COMPOSED,
	[HT_OP_L2Loss] = COMPOSED,
	[HT_OP_Cumsum] = COMPOSED,
	[HT_OP_Cumprod] = COMPOSED,
	[HT_OP_AvgPool] = COMPOSED,
	[HT_OP_LRN] = COMPOSED,
	[HT_OP_LayerNorm] = COMPOSED,
	[HT_OP_RmsNorm] = COMPOSED,
	[HT_OP_MatMul] = CONTRACTS,
	[HT_OP_BatchMatMul] = CONTRACTS,
	[HT_OP_BatchMatMulV2] = CONTRACTS,
	[HT_OP_BatchMatMulV3] = CONTRACTS,
	[HT_OP_Einsum] = CONTRACTS,
	[HT_OP_Conv2D] = CONTRACTS,
	[HT_OP_DepthwiseConv2dNative] = CONTRACTS,
	[HT_OP_Conv2DBackpropInput] = CONTRACTS,
	[HT_OP_Gather] = GATHERS,
	[HT_OP_GatherV2] = GATHERS,
	[HT_OP_GatherNd] = GATHERS,
};

bool lower_contracts(enum ht_op op)
{
	return computes[op] & CONTRACTS;
}

/* Gelu and Silu of bfloat16 are as short without a mode (map_gelu.c). */
static bool shortens(const struct ht_node *n, enum ht_dtype t, bool shortest)
{
	if (t == HT_BF16 && n->op == HT_OP_Silu)
		return false;
	if (t == HT_BF16 && n->op == HT_OP_Gelu && !shortest)
		return ht_attr_bool(n, "approximate", false);
	return (computes[n->op] & SHORTENS) && (t == HT_F16 || t == HT_BF16 || t == HT_F32);
}

const char *ht_mode_effect(const struct ht_node *n, enum ht_impl mode)
{
	enum ht_dtype t = n->outs ? n->out[0].dtype : HT_INVALID;
	bool low = t == HT_F16 || t == HT_BF16;

	switch (mode) {
	case HT_IMPL_HIGH_PRECISION:
		if ((computes[n->op] & (FUNCTION | COMPOSED)) && (low || t == HT_F32))
			return "computes in float64 and rounds once";
		/* fall through */
	case HT_IMPL_FLOAT_32:
		if (lower_contracts(n->op) && t == HT_BF16)
			return "multiplies in float32, not by pairs nor transformed";
		return n->op == HT_OP_Conv2D && (t == HT_F16 || t == HT_F32)
			       ? "multiplies in float32, not transformed"
			       : NULL;
	case HT_IMPL_HI_FLOAT_32:
		return lower_contracts(n->op) && t == HT_F32
			       ? "rounds the factors to 10 bits of fraction, sums in float32"
			       : NULL;
	case HT_IMPL_HIGH_PERFORMANCE:
		return shortens(n, t, false) ? "shorter polynomials, within 2^-15" : NULL;
	case HT_IMPL_SUPER_PERFORMANCE:
		return shortens(n, t, true) ? "the shortest polynomials, within 2^-9" : NULL;
	case HT_IMPL_KEEP_FP16:
		return (computes[n->op] & COMPOSED) && low ? "rounds after every operation inside"
							   : NULL;
	case HT_IMPL_OUT_OF_BOUND:
		return computes[n->op] & GATHERS ? "gives 0 where an index is out of range" : NULL;
	default:
		return NULL;
	}
}

enum ht_impl lower_mode(const struct ht_node *n)
{
	enum ht_impl mode = ht_impl_named(ht_attr_str(n, ht_mode_attribute, ""));

	if (mode == HT_IMPL_NONE || !ht_mode_effect(n, mode))
		return HT_IMPL_NONE;
	if (mode == HT_IMPL_HIGH_PRECISION && lower_contracts(n->op))
		return HT_IMPL_FLOAT_32;
	return mode;
}

enum ht_dtype node_type(const struct ht_node *n, enum ht_dtype t)
{
	if (ht_is_float(t) && lower_mode(n) == HT_IMPL_HIGH_PRECISION)
		return HT_F64;
	return compute_type(t);
}
