/* Which implementation modes change the kernel of a node.
 *
 * A node carries its mode as attribute _implementation_mode, so passes, text forms and exports
 * keep it.  The mode changes the kernel's expressions, reductions, packing and faults, all of
 * which its canonical text shows. */
#include "lower/inside.h"

/* Gelu and Silu of bfloat16 have their shortest form even without a mode (map_gelu.c). */
static bool shortens(const struct ht_node *n, enum ht_dtype t, bool shortest)
{
	if (t == HT_BF16 && n->op == HT_OP_Silu)
		return false;
	if (t == HT_BF16 && n->op == HT_OP_Gelu && !shortest)
		return ht_attr_bool(n, "approximate", false);
	return ht_is(n, HT_SHORTENS) && ht_is_f32_or_low(t);
}

/* Whether the kernel of a node has a form that sums short runs. */
static bool has_short_runs(const struct ht_node *n)
{
	return ht_is(n, HT_CONTRACTS) && !ht_is_depthwise(n);
}

static const char short_runs[] = "sums short runs of products in float16, where the machine can";

const char *ht_mode_effect(const struct ht_node *n, enum ht_impl mode)
{
	enum ht_dtype t = n->outs ? n->out[0].dtype : HT_INVALID;

	switch (mode) {
	case HT_IMPL_HIGH_PRECISION:
		if (ht_is(n, HT_FUNCTION | HT_COMPOSED) && ht_is_f32_or_low(t))
			return "computes in float64 and rounds once";
		/* fall through */
	case HT_IMPL_FLOAT_32:
		if (ht_is(n, HT_CONTRACTS) && t == HT_BF16)
			return "multiplies in float32, not by pairs nor transformed";
		return ht_is(n, HT_CONV | HT_CONV_TRANSPOSE | HT_CONV_FILTER) &&
				       (t == HT_F16 || t == HT_F32)
			       ? "multiplies in float32, not transformed"
			       : NULL;
	case HT_IMPL_HI_FLOAT_32:
		return ht_is(n, HT_CONTRACTS) && t == HT_F32
			       ? "rounds the factors to 10 bits of fraction, sums in float32"
			       : NULL;
	case HT_IMPL_HIGH_PERFORMANCE:
		if (has_short_runs(n) && t == HT_F16)
			return short_runs;
		if (ht_is(n, HT_MATRIX_PRODUCT) && t == HT_F32)
			return "multiplies in pieces of bfloat16 in loops, where a matrix unit does";
		return shortens(n, t, false) ? "shorter polynomials, within 2^-15" : NULL;
	case HT_IMPL_SUPER_PERFORMANCE:
		return shortens(n, t, true) ? "the shortest polynomials, within 2^-9" : NULL;
	case HT_IMPL_KEEP_FP16:
		if (has_short_runs(n) && t == HT_F16)
			return short_runs;
		return ht_is(n, HT_COMPOSED) && ht_is_low(t) ? "rounds after every operation inside"
							     : NULL;
	case HT_IMPL_OUT_OF_BOUND:
		return ht_is(n, HT_GATHERS) ? "gives 0 where an index is out of range" : NULL;
	default:
		return NULL;
	}
}

enum ht_impl lower_mode(const struct ht_node *n)
{
	enum ht_impl mode = ht_impl_named(ht_attr_str(n, ht_mode_attribute, ""));

	if (mode == HT_IMPL_NONE || !ht_mode_effect(n, mode))
		return HT_IMPL_NONE;
	if (mode == HT_IMPL_HIGH_PRECISION && ht_is(n, HT_CONTRACTS))
		return HT_IMPL_FLOAT_32;
	if (mode == HT_IMPL_KEEP_FP16 && ht_is(n, HT_CONTRACTS))
		return HT_IMPL_HIGH_PERFORMANCE;
	return mode;
}

bool ht_sums_short(const struct ht_target *t, const struct ht_node *n, enum ht_dtype operands)
{
	enum ht_impl mode = ht_impl_named(ht_attr_str(n, ht_mode_attribute, ""));

	return t->sums_f16 && operands == HT_F16 && has_short_runs(n) &&
	       (mode == HT_IMPL_HIGH_PERFORMANCE || mode == HT_IMPL_KEEP_FP16);
}

enum ht_dtype node_type(const struct ht_node *n, enum ht_dtype t)
{
	if (ht_is_float(t) && lower_mode(n) == HT_IMPL_HIGH_PRECISION)
		return HT_F64;
	return compute_type(t);
}
