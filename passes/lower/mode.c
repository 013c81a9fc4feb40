/* Which implementation modes the kernel of a node tells apart.
 *
 * A node carries its mode as attribute _implementation_mode, so that it goes through passes, text
 * forms and exports.  What a mode changes ends up in the kernel's expressions, reductions, packing
 * and faults, which its canonical text shows. */
#include "passes/lower/lower.h"

const char ht_mode_attribute[] = "_implementation_mode";

/* By a polynomial that has shorter forms, or dividing where multiplying would do. */
static bool shortens(enum ht_op op)
{
	switch (op) {
	case HT_OP_Exp:
	case HT_OP_Expm1:
	case HT_OP_Log:
	case HT_OP_Log1p:
	case HT_OP_Tanh:
	case HT_OP_Sigmoid:
	case HT_OP_Erf:
	case HT_OP_Elu:
	case HT_OP_Selu:
	case HT_OP_Softplus:
	case HT_OP_Gelu:
	case HT_OP_Silu:
	case HT_OP_Xlogy:
	case HT_OP_Xlog1py:
	case HT_OP_Softmax:
	case HT_OP_LogSoftmax:
		return true;
	default:
		return false;
	}
}

/* By several operations, each of which may round. */
static bool is_composed(enum ht_op op)
{
	switch (op) {
	case HT_OP_Elu:
	case HT_OP_Selu:
	case HT_OP_Softplus:
	case HT_OP_Gelu:
	case HT_OP_Silu:
	case HT_OP_Xlogy:
	case HT_OP_Xlog1py:
	case HT_OP_Softmax:
	case HT_OP_LogSoftmax:
	case HT_OP_Softsign:
	case HT_OP_HardSwish:
	case HT_OP_HardSigmoid:
	case HT_OP_FloorDiv:
	case HT_OP_FloorMod:
	case HT_OP_SquaredDifference:
	case HT_OP_AddN:
	case HT_OP_Sum:
	case HT_OP_Mean:
	case HT_OP_Prod:
	case HT_OP_EuclideanNorm:
	case HT_OP_L2Loss:
	case HT_OP_Cumsum:
	case HT_OP_Cumprod:
	case HT_OP_AvgPool:
	case HT_OP_LRN:
	case HT_OP_LayerNorm:
	case HT_OP_RmsNorm:
		return true;
	default:
		return false;
	}
}

/* Computes by one function, whose result is rounded anyway. */
static bool is_function(enum ht_op op)
{
	switch (op) {
	case HT_OP_Exp:
	case HT_OP_Expm1:
	case HT_OP_Log:
	case HT_OP_Log1p:
	case HT_OP_Tanh:
	case HT_OP_Sigmoid:
	case HT_OP_Erf:
	case HT_OP_Erfc:
	case HT_OP_Rsqrt:
	case HT_OP_Sin:
	case HT_OP_Cos:
	case HT_OP_Tan:
	case HT_OP_Asin:
	case HT_OP_Acos:
	case HT_OP_Atan:
	case HT_OP_Sinh:
	case HT_OP_Cosh:
	case HT_OP_Asinh:
	case HT_OP_Acosh:
	case HT_OP_Atanh:
	case HT_OP_Pow:
	case HT_OP_Atan2:
		return true;
	default:
		return false;
	}
}

bool lower_contracts(enum ht_op op)
{
	switch (op) {
	case HT_OP_MatMul:
	case HT_OP_BatchMatMul:
	case HT_OP_BatchMatMulV2:
	case HT_OP_BatchMatMulV3:
	case HT_OP_Einsum:
	case HT_OP_Conv2D:
	case HT_OP_DepthwiseConv2dNative:
	case HT_OP_Conv2DBackpropInput:
		return true;
	default:
		return false;
	}
}

static bool gathers(enum ht_op op)
{
	return op == HT_OP_Gather || op == HT_OP_GatherV2 || op == HT_OP_GatherNd;
}

const char *ht_mode_effect(const struct ht_node *n, enum ht_impl mode)
{
	enum ht_dtype t = n->outs ? n->out[0].dtype : HT_INVALID;
	bool low = t == HT_F16 || t == HT_BF16;

	switch (mode) {
	case HT_IMPL_HIGH_PRECISION:
		if ((is_function(n->op) || is_composed(n->op)) && (low || t == HT_F32))
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
		return shortens(n->op) && (low || t == HT_F32) ? "shorter polynomials, within 2^-15"
							       : NULL;
	case HT_IMPL_SUPER_PERFORMANCE:
		return shortens(n->op) && (low || t == HT_F32)
			       ? "the shortest polynomials, within 2^-9"
			       : NULL;
	case HT_IMPL_KEEP_FP16:
		return is_composed(n->op) && low ? "rounds after every operation inside" : NULL;
	case HT_IMPL_OUT_OF_BOUND:
		return gathers(n->op) ? "gives 0 where an index is out of range" : NULL;
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
