/* The policies by name, and their options. */
#include "passes/precision/precision.h"

#include <string.h>

const struct ht_policy_kind ht_policy_kinds[] = {
	{ "allow_fp32_to_bf16", "float32 where a kernel offers it, else bfloat16", NULL,
		HT_MODE_ALLOW_BF16, ht_ascend_decide },
	{ "allow_fp32_to_fp16", "float32 where a kernel offers it, else float16", NULL,
		HT_MODE_ALLOW_FP16, ht_ascend_decide },
	{ "allow_mix_precision", "float16 by the white, black and gray lists",
		"allow_mix_precision_fp16", HT_MODE_MIX_FP16, ht_ascend_decide },
	{ "allow_mix_precision_bf16", "bfloat16 by the white, black and gray lists", NULL,
		HT_MODE_MIX_BF16, ht_ascend_decide },
	{ "allow_mix_precision_fp16", "float16 by the white, black and gray lists", NULL,
		HT_MODE_MIX_FP16, ht_ascend_decide },
	{ "cube_fp16in_fp32out",
		"float16 operands and float32 results for matrix products and convolutions, "
		"float32 elsewhere",
		NULL, HT_MODE_CUBE, ht_ascend_decide },
	{ "force_fp16", "float16 wherever a kernel offers it", NULL, HT_MODE_FORCE_FP16,
		ht_ascend_decide },
	{ "force_fp32", "float32 wherever a kernel offers it", NULL, HT_MODE_FORCE_FP32,
		ht_ascend_decide },
	{ "fp16", "float16 wherever a kernel offers it", "force_fp16", HT_MODE_FORCE_FP16,
		ht_ascend_decide },
	{ "mixed_bfloat16", "bfloat16 by the white, black and gray lists",
		"allow_mix_precision_bf16", HT_MODE_MIX_BF16, ht_ascend_decide },
	{ "mixed_float16", "float16 by the white, black and gray lists", "allow_mix_precision_fp16",
		HT_MODE_MIX_FP16, ht_ascend_decide },
	{ "must_keep_origin_dtype", "every dtype as the graph has it", NULL, HT_MODE_KEEP,
		ht_ascend_decide },
	{ "origin", "every dtype as the graph has it", "must_keep_origin_dtype", HT_MODE_KEEP,
		ht_ascend_decide },
	{ 0 },
};

enum ht_status ht_policy_init(struct ht_policy *p, const char *name, struct ht_diags *d)
{
	struct ht_str names[HT_COUNT(ht_policy_kinds)], near[3];
	size_t n = 0;

	memset(p, 0, sizeof *p);
	for (const struct ht_policy_kind *k = ht_policy_kinds; k->name; k++) {
		names[n++] = ht_str(k->name);
		if (strcmp(k->name, name))
			continue;
		p->kind = k;
		p->profile = &ht_profile_cpu;
		snprintf(p->name, sizeof p->name, "%s", name);
		return HT_OK;
	}
	if (ht_near_names(ht_str(name), names, n, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no policy '%s'; did you mean '%.*s'?", name, HT_STR_ARG(near[0]));
	return ht_error(
		d, HT_E_USAGE, HT_NOWHERE, "there is no policy '%s'; see halftone policies", name);
}

enum ht_status ht_policy_option(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d)
{
	if (!strcmp(key, "profile"))
		return ht_profile_named(value, d, &p->profile);
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "policy '%s' has no option '%s'; it has profile",
		p->name, key);
}
