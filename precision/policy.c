/* The policies by name, and their options. */
#include "precision/optimal/optimal.h"
#include "precision/precision.h"
#include "precision/presets/preset.h"
#include "precision/report/report.h"

#include <string.h>

#define V1 HT_NAMED_MODE
#define V2 HT_NAMED_MODE_V2
#define PRESET(mode) HT_PRESET_##mode, 0, ht_preset_decide, NULL, ht_preset_finish
#define MIXED(low) low " by the white, black and gray lists"

/* The vendor's modes decide by ht_ascend_decide. */
const struct ht_policy_kind ht_policy_kinds[] = {
	{ "allow_fp32_to_bf16", "float32 where a kernel offers it, else bfloat16", NULL,
		HT_MODE_ALLOW_BF16, V1, ht_ascend_decide, NULL, NULL },
	{ "allow_fp32_to_fp16", "float32 where a kernel offers it, else float16", NULL,
		HT_MODE_ALLOW_FP16, V1, ht_ascend_decide, NULL, NULL },
	{ "allow_mix_precision", MIXED("float16"), "allow_mix_precision_fp16", HT_MODE_MIX_FP16, V1,
		ht_ascend_decide, NULL, NULL },
	{ "allow_mix_precision_bf16", MIXED("bfloat16"), NULL, HT_MODE_MIX_BF16, V1,
		ht_ascend_decide, NULL, NULL },
	{ "allow_mix_precision_fp16", MIXED("float16"), NULL, HT_MODE_MIX_FP16, V1,
		ht_ascend_decide, NULL, NULL },
	{ "cube_fp16in_fp32out",
		"float16 operands and float32 results for matrix products and convolutions, "
		"float32 elsewhere",
		NULL, HT_MODE_CUBE, V1 | V2, ht_ascend_decide, NULL, NULL },
	{ "force_fp16", "float16 wherever a kernel offers it", NULL, HT_MODE_FORCE_FP16, V1,
		ht_ascend_decide, NULL, NULL },
	{ "force_fp32", "float32 wherever a kernel offers it", NULL, HT_MODE_FORCE_FP32, V1,
		ht_ascend_decide, NULL, NULL },
	{ "fp16", "float16 wherever a kernel offers it", "force_fp16", HT_MODE_FORCE_FP16, V2,
		ht_ascend_decide, NULL, NULL },
	{ "grappler-bf16", "bfloat16 as TensorFlow's auto_mixed_precision with oneDNN", NULL,
		HT_GRAPPLER_BF16, 0, NULL, ht_grappler_paint, NULL },
	{ "grappler-fp16", "float16 as TensorFlow's auto_mixed_precision on a GPU", NULL,
		HT_GRAPPLER_FP16, 0, NULL, ht_grappler_paint, NULL },
	{ "grappler-fp16-cpu", "float16 emulated as TensorFlow's auto_mixed_precision on a CPU",
		NULL, HT_GRAPPLER_FP16_CPU, 0, NULL, ht_grappler_paint, NULL },
	{ "keras-bf16", "bfloat16 as Keras' policy mixed_bfloat16", NULL, PRESET(KERAS_BF16) },
	{ "keras-fp16", "float16 as Keras' policy mixed_float16", NULL, PRESET(KERAS_FP16) },
	{ "mixed_bfloat16", MIXED("bfloat16"), "allow_mix_precision_bf16", HT_MODE_MIX_BF16, V2,
		ht_ascend_decide, NULL, NULL },
	{ "mixed_float16", MIXED("float16"), "allow_mix_precision_fp16", HT_MODE_MIX_FP16, V2,
		ht_ascend_decide, NULL, NULL },
	{ "must_keep_origin_dtype", "every dtype as the graph has it", NULL, HT_MODE_KEEP, V1,
		ht_ascend_decide, NULL, NULL },
	{ "onnx-fp16", "float16 as onnxconverter-common's float16 converter", NULL,
		PRESET(ONNX_FP16) },
	{ "openvino-bf16", "bfloat16 as OpenVINO's CPU plugin with inference_precision bf16", NULL,
		PRESET(OPENVINO_BF16) },
	{ "openvino-fp16", "float16 but for what OpenVINO marks as sensitive", NULL,
		PRESET(OPENVINO_FP16) },
	{ "optimal", "the cheapest types under the lists, by measured costs and a minimum cut",
		NULL, 0, 0, ht_optimal_decide, NULL, NULL },
	{ "origin", "every dtype as the graph has it", "must_keep_origin_dtype", HT_MODE_KEEP, V2,
		ht_ascend_decide, NULL, NULL },
	{ "pytorch-autocast-bf16", "bfloat16 as PyTorch's autocast on a CPU", NULL,
		PRESET(PYTORCH_BF16) },
	{ "pytorch-autocast-fp16", "float16 as PyTorch's autocast on a CPU", NULL,
		PRESET(PYTORCH_FP16) },
	{ "tvm-fp16", "float16 as TVM Relay's ToMixedPrecision", NULL, PRESET(TVM_FP16) },
	{ 0 },
};

static const struct ht_policy_kind *kind_named(const char *name)
{
	for (const struct ht_policy_kind *k = ht_policy_kinds; k->name; k++)
		if (!strcmp(k->name, name))
			return k;
	return NULL;
}

static enum ht_status read_report(struct ht_policy *p, const char *path, struct ht_diags *d)
{
	struct ht_sha256 digest;
	struct ht_parse parse = { .arena = &p->arena, .diags = d, .digest = &digest };
	const char *slash = strrchr(path, '/');

	if (setjmp(p->unwind.env))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	snprintf(p->name, sizeof p->name, "%s", slash ? slash + 1 : path);
	parse.path = ht_str_copy(&p->arena, ht_str(path)).p;
	ht_sha256_begin(&digest);
	HT_TRY(ht_report_load(&parse, &p->report));
	ht_sha256_end(&digest, p->report_digest);
	p->kind = ht_report_kind(p->report);
	return HT_OK;
}

enum ht_status ht_policy_init(struct ht_policy *p, const char *name, struct ht_diags *d)
{
	memset(p, 0, sizeof *p);
	ht_arena_init(&p->arena, &p->unwind);
	p->profile = &ht_profile_cpu;
	p->run_mode = p->hf32 = -1;
	p->random_seed = -1;
	p->oo_level = 3;
	if (!name)
		return HT_OK;
	p->by = HT_NAMED_POLICY;
	snprintf(p->name, sizeof p->name, "%s", name);
	if (ht_str_ends(ht_str(name), ".json"))
		return read_report(p, name, d);
	p->kind = kind_named(name);
	return p->kind ? HT_OK : ht_no_policy(name, d);
}

void ht_policy_release(struct ht_policy *p)
{
	ht_arena_release(&p->arena);
}

const struct ht_policy_kind *ht_policy_effective(const struct ht_policy *p)
{
	static const char *const keep = "must_keep_origin_dtype", *const inference = "force_fp16";

	ht_read(p, HT_READ_policy);
	if (p->kind)
		return p->kind;
	/* Then the key is that of the mode which is implied. */
	if (p->run_mode < 0)
		return kind_named(keep);
	if (ht_read(p, HT_READ_graph_run_mode)->run_mode == 1)
		ht_read(p, HT_READ_profile);
	return kind_named(p->run_mode == 0 ? inference : p->profile->training);
}

const char *ht_policy_label(const struct ht_policy *p)
{
	return *p->name ? p->name : ht_policy_effective(p)->name;
}

bool ht_policy_is_mixed(const struct ht_policy *p)
{
	const struct ht_policy_kind *k = ht_policy_effective(p);

	return k->decide == ht_ascend_decide &&
	       (k->mode == HT_MODE_MIX_FP16 || k->mode == HT_MODE_MIX_BF16);
}

/* Nothing named is the same as naming what that implies, but that customize_dtypes then acts. */
static void put_policy(struct ht_buf *b, const struct ht_policy *p)
{
	struct ht_policy unread = *p;

	unread.reads = NULL;
	ht_printf(b, "%s", ht_policy_label(&unread));
	if (strcmp(ht_policy_label(&unread), ht_policy_effective(&unread)->name) != 0)
		ht_printf(b, " %s", ht_policy_effective(&unread)->name);
	if (p->by == HT_NAMED_NONE && p->rules[HT_RULES_CUSTOM].option)
		ht_puts(b, " customized");
}

struct ht_str ht_read_value(const struct ht_policy *p, enum ht_read r, struct ht_arena *a)
{
	struct ht_buf b;

	if (r != HT_READ_policy)
		return ht_str(p->stated[r] ? p->stated[r] : "");
	ht_buf_init(&b, a);
	put_policy(&b, p);
	for (size_t i = 0; p->report && i < sizeof p->report_digest; i++)
		ht_printf(&b, "%s%02x", i ? "" : " ", p->report_digest[i]);
	return ht_buf_str(&b);
}

/* ---- whether options go together ---- */

/* Policy optimal reads lists as the mixed modes do. */
static bool reads_lists(const struct ht_policy *p)
{
	return ht_policy_is_mixed(p) || ht_policy_effective(p)->decide == ht_optimal_decide;
}

static enum ht_status check_mixlist(const struct ht_policy *p, struct ht_diags *d)
{
	static const char legal[] = "it goes with allow_mix_precision, allow_mix_precision_fp16, "
				    "allow_mix_precision_bf16, mixed_float16 or mixed_bfloat16";
	const char *mode = ht_policy_effective(p)->name;

	if (!p->rules[HT_RULES_MIX].option || reads_lists(p))
		return HT_OK;
	if (p->by == HT_NAMED_NONE)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"modify_mixlist: no precision mode is stated; %s", legal);
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "modify_mixlist does not go with %s '%s'; %s",
		p->by == HT_NAMED_MODE_V2 ? "precision_mode_v2" : "precision mode", mode, legal);
}

/* high_performance is the default, and means something only of the types that a list names. */
bool ht_policy_selects_impl(const struct ht_policy *p)
{
	return p->select_impl &&
	       (p->rules[HT_RULES_CHOSEN].n || strcmp(p->select_impl, "high_performance") != 0);
}

/* A mode that was asked for and keeps every dtype leaves customize_dtypes nothing to do. */
bool ht_policy_customizes(const struct ht_policy *p)
{
	return p->by == HT_NAMED_NONE || p->kind->decide != ht_ascend_decide ||
	       p->kind->mode != HT_MODE_KEEP;
}

static enum ht_status check_customize(const struct ht_policy *p, struct ht_diags *d)
{
	static const char text[] = "customize_dtypes has no effect under '%s'; without a "
				   "precision mode it acts alone";

	if (!p->rules[HT_RULES_CUSTOM].option || ht_policy_customizes(p))
		return HT_OK;
	if (!p->lenient)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, text, p->name);
	ht_warn(d, HT_NOWHERE, text, p->name);
	return HT_OK;
}

/* A mode of bfloat16 asks for a machine that has it. */
static enum ht_status check_machine(const struct ht_policy *p, struct ht_diags *d)
{
	const struct ht_policy_kind *k = ht_policy_effective(p);
	bool bf16 = k->mode == HT_MODE_ALLOW_BF16 || k->mode == HT_MODE_MIX_BF16;

	if (k->decide == ht_preset_decide && !p->profile->computed_columns)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"policy '%s' does not go with profile %s; it decides for profile cpu",
			k->name, p->profile->name);
	if (k->decide != ht_ascend_decide || !bf16 || p->profile->bf16)
		return HT_OK;
	return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE, "policy '%s': profile %s has no bfloat16",
		k->name, p->profile->name);
}

static enum ht_status check_grappler(const struct ht_policy *p, struct ht_diags *d)
{
	const struct ht_policy_kind *k = ht_policy_effective(p);

	if (!p->grappler.option || k->paint == ht_grappler_paint)
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"%s is for policies grappler-bf16, grappler-fp16 and grappler-fp16-cpu, not '%s'",
		p->grappler.option, k->name);
}

static enum ht_status check_budget(const struct ht_policy *p, struct ht_diags *d)
{
	const struct ht_budget *b = &p->budget;
	const char *option = b->clauses ? "budget" : b->frontier ? "frontier" : "samples";

	if (!ht_budget_asked(b) && !b->random && !b->samples)
		return HT_OK;
	if (ht_policy_effective(p)->decide != ht_optimal_decide)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "%s is for policy optimal, not '%s'",
			option, ht_policy_effective(p)->name);
	if (!ht_budget_asked(b))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"samples have no effect without budget or frontier");
	return HT_OK;
}

/* A painter takes no rules, and another system's rule has lists of its own. */
static enum ht_status check_readers(const struct ht_policy *p, struct ht_diags *d)
{
	const struct ht_policy_kind *k = ht_policy_effective(p);

	if (k->decide == ht_ascend_decide || reads_lists(p))
		return HT_OK;
	for (int set = HT_RULES_MIX; set <= (k->paint ? HT_RULES_KEEP : HT_RULES_MIX); set++)
		if (p->rules[set].option)
			return ht_error(d, HT_E_USAGE, HT_NOWHERE, "policy '%s' does not read %s",
				p->name, p->rules[set].option);
	return HT_OK;
}

/* A report has decided; what it does not state it cannot take from elsewhere. */
static enum ht_status check_report(const struct ht_policy *p, struct ht_diags *d)
{
	const char *option = NULL;

	if (!p->report)
		return HT_OK;
	for (int set = 0; set < HT_RULE_SETS && !option; set++)
		option = p->rules[set].option;
	if (!option && p->ops_info)
		option = "ops_info";
	if (!option && ht_policy_selects_impl(p))
		option = "op_select_implmode";
	if (!option && p->hf32 >= 0)
		option = "allow_hf32";
	if (!option)
		option = p->fusions.option    ? p->fusions.option
			 : p->switches.option ? p->switches.option
			 : p->scopes.option   ? p->scopes.option
			 : p->oo_level != 3   ? "oo_level"
			 : p->keep_constants  ? "oo_constant_folding"
					      : NULL;
	return option ? ht_error(d, HT_E_USAGE, HT_NOWHERE,
				"%s does not go with a report: what it says was decided when the "
				"report was made",
				option)
		      : HT_OK;
}

/* Painting decides on the graph as imported, whose nodes are not those that kernels are made of. */
static enum ht_status check_modes(const struct ht_policy *p, struct ht_diags *d)
{
	const char *option = p->rules[HT_RULES_IMPL].option;

	if (!option && ht_policy_selects_impl(p))
		option = "op_select_implmode";
	if (!option && p->hf32 >= 0)
		option = "allow_hf32";
	if (!option || !ht_policy_effective(p)->paint)
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "policy '%s' does not read %s", p->name, option);
}

enum ht_status ht_policy_check(const struct ht_policy *p, struct ht_diags *d)
{
	if (!p->kind && p->run_mode >= 0)
		ht_note(d, HT_NOWHERE, "no precision mode is stated: %s, the default of %s on %s",
			ht_policy_effective(p)->name, p->run_mode ? "training" : "inference",
			p->profile->name);
	HT_TRY(check_report(p, d));
	HT_TRY(check_grappler(p, d));
	HT_TRY(check_readers(p, d));
	HT_TRY(check_modes(p, d));
	HT_TRY(check_mixlist(p, d));
	HT_TRY(check_customize(p, d));
	HT_TRY(check_machine(p, d));
	HT_TRY(check_budget(p, d));
	if (p->rules[HT_RULES_CHOSEN].option && !p->select_impl)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"optypelist_for_implmode: op_select_implmode must be set too");
	if (p->rules[HT_RULES_IMPL].option && ht_policy_selects_impl(p))
		ht_warn(d, HT_NOWHERE,
			"op_select_implmode has no effect: op_precision_mode is given");
	return p->together ? p->together(p, d) : HT_OK;
}
