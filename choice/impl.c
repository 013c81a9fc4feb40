/* Names of implementation modes. */
#include "choice/impl.h"

const char ht_mode_attribute[] = "_implementation_mode";

static const char *const names[HT_IMPL_END] = {
	[HT_IMPL_NONE] = "",
	[HT_IMPL_HIGH_PERFORMANCE] = "high_performance",
	[HT_IMPL_HIGH_PRECISION] = "high_precision",
	[HT_IMPL_SUPER_PERFORMANCE] = "super_performance",
	[HT_IMPL_KEEP_FP16] = "keep_fp16",
	[HT_IMPL_OUT_OF_BOUND] = "support_out_of_bound_index",
	[HT_IMPL_FLOAT_32] = "enable_float_32_execution",
	[HT_IMPL_HI_FLOAT_32] = "enable_hi_float_32_execution",
	[HT_IMPL_NORM_CLASS] = "norm_class",
};

const char *ht_impl_name(enum ht_impl i)
{
	return names[i];
}

enum ht_impl ht_impl_named(struct ht_str name)
{
	for (int i = HT_IMPL_NONE + 1; i < HT_IMPL_END; i++)
		if (ht_str_is(name, names[i]))
			return (enum ht_impl)i;
	return HT_IMPL_NONE;
}
