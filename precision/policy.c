/* The policies by name, and their options. */
#include "precision/optimal/optimal.h"
#include "precision/precision.h"
#include "precision/presets/preset.h"
#include "precision/report/report.h"

#include <string.h>

#define V1 HT_NAMED_MODE
#define V2 HT_NAMED_MODE_V2

/* The vendor's modes. */
static const struct ht_policy_family ascend = {
	.can = HT_CAN_READ_RULES | HT_CAN_READ_IMPLS | HT_CAN_DECIDE_BODIES | HT_CAN_CROSS_CALLS,
	.decide = ht_ascend_decide,
};
/* TensorFlow's auto_mixed_precision, which finds bodies by itself. */
static const struct ht_policy_family grappler = {
	.can = HT_CAN_READ_GRAPPLER,
	.paint = ht_grappler_paint,
};
/* Other systems, by their published lists. */
static const struct ht_policy_family preset = {
	.can = HT_CAN_READ_RULES | HT_CAN_READ_IMPLS | HT_CAN_DECIDE_BODIES |
	       HT_CAN_DECIDE_FOR_CPU_ONLY | HT_CAN_BE_PRICED_IF_SMALL,
	.decide = ht_preset_decide,
	.finish = ht_preset_finish,
};
static const struct ht_policy_family optimal = {
	.can = HT_CAN_READ_RULES | HT_CAN_READ_LISTS | HT_CAN_READ_IMPLS | HT_CAN_READ_BUDGET,
	.decide = ht_optimal_decide,
};

#define MODE(name, mode, low, can, spelling, same_as, summary)                                     \
	{ name, summary, &ascend, HT_MODE_##mode, HT_##low, can, spelling, same_as }
#define MIX(name, mode, low, spelling, same_as, dtype)                                             \
	MODE(name, MIX_##mode, low, HT_CAN_READ_LISTS | HT_CAN_BE_PRICED, spelling, same_as,       \
		dtype " by the white, black and gray lists")
#define GRAPPLER(name, mode, low, can, summary)                                                    \
	{ name, summary, &grappler, HT_GRAPPLER_##mode, HT_##low, can, 0, NULL }
#define PRESET(name, mode, low, summary)                                                           \
	{ name, summary, &preset, HT_PRESET_##mode, HT_##low, 0, 0, NULL }

const struct ht_policy_kind ht_policy_kinds[] = {
	MODE("allow_fp32_to_bf16", ALLOW_BF16, BF16, 0, V1, NULL,
		"float32 where a kernel offers it, else bfloat16"),
	MODE("allow_fp32_to_fp16", ALLOW_FP16, F16, 0, V1, NULL,
		"float32 where a kernel offers it, else float16"),
	MIX("allow_mix_precision", FP16, F16, V1, "allow_mix_precision_fp16", "float16"),
	MIX("allow_mix_precision_bf16", BF16, BF16, V1, NULL, "bfloat16"),
	MIX("allow_mix_precision_fp16", FP16, F16, V1, NULL, "float16"),
	MODE("cube_fp16in_fp32out", CUBE, F16, 0, V1 | V2, NULL,
		"float16 operands and float32 results for matrix products and convolutions, "
		"float32 elsewhere"),
	MODE("force_fp16", FORCE_FP16, F16, 0, V1, NULL, "float16 wherever a kernel offers it"),
	MODE("force_fp32", FORCE_FP32, F16, 0, V1, NULL, "float32 wherever a kernel offers it"),
	MODE("fp16", FORCE_FP16, F16, 0, V2, "force_fp16", "float16 wherever a kernel offers it"),
	GRAPPLER("grappler-bf16", BF16, BF16, HT_CAN_BE_PRICED,
		"bfloat16 as TensorFlow's auto_mixed_precision with oneDNN"),
	GRAPPLER("grappler-fp16", FP16, F16, HT_CAN_BE_PRICED,
		"float16 as TensorFlow's auto_mixed_precision on a GPU"),
	GRAPPLER("grappler-fp16-cpu", FP16_CPU, F16, 0,
		"float16 emulated as TensorFlow's auto_mixed_precision on a CPU"),
	PRESET("keras-bf16", KERAS, BF16, "bfloat16 as Keras' policy mixed_bfloat16"),
	PRESET("keras-fp16", KERAS, F16, "float16 as Keras' policy mixed_float16"),
	MIX("mixed_bfloat16", BF16, BF16, V2, "allow_mix_precision_bf16", "bfloat16"),
	MIX("mixed_float16", FP16, F16, V2, "allow_mix_precision_fp16", "float16"),
	MODE("must_keep_origin_dtype", KEEP, INVALID, HT_CAN_CHANGE_NOTHING, V1, NULL,
		"every dtype as the graph has it"),
	PRESET("onnx-fp16", ONNX, F16, "float16 as onnxconverter-common's float16 converter"),
	PRESET("openvino-bf16", OPENVINO_BF16, BF16,
		"bfloat16 as OpenVINO's CPU plugin with inference_precision bf16"),
	PRESET("openvino-fp16", OPENVINO_FP16, F16,
		"float16 but for what OpenVINO marks as sensitive"),
	{ "optimal", "the cheapest types under the lists, by measured costs and a minimum cut",
		&optimal, 0, HT_INVALID, 0, 0, NULL },
	MODE("origin", KEEP, INVALID, HT_CAN_CHANGE_NOTHING, V2, "must_keep_origin_dtype",
		"every dtype as the graph has it"),
	PRESET("pytorch-autocast-bf16", PYTORCH, BF16, "bfloat16 as PyTorch's autocast on a CPU"),
	PRESET("pytorch-autocast-fp16", PYTORCH, F16, "float16 as PyTorch's autocast on a CPU"),
	PRESET("tvm-fp16", TVM, F16, "float16 as TVM Relay's ToMixedPrecision"),
	{ 0 },
};

static const struct ht_policy_kind *kind_named(const char *name)
{
	for (const struct ht_policy_kind *k = ht_policy_kinds; k->name; k++)
		if (!strcmp(k->name, name))
			return k;
	return NULL;
}

/* `text` NULL: the text is read from the file `path`. */
static enum ht_status read_report(
	struct ht_policy *p, const char *path, const struct ht_str *text, struct ht_diags *d)
{
	struct ht_sha256 digest;
	struct ht_parse parse = { .arena = &p->arena, .diags = d, .digest = &digest };
	const char *slash = strrchr(path, '/');

	if (setjmp(p->unwind.env))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	snprintf(p->name, sizeof p->name, "%s", slash ? slash + 1 : path);
	parse.path = ht_str_copy(&p->arena, ht_str(path)).p;
	ht_sha256_begin(&digest);
	HT_TRY(ht_report_load(&parse, text, &p->report));
	ht_sha256_end(&digest, p->report_digest);
	p->kind = ht_report_kind(p->report);
	p->emulations = p->report->decisions.emulations;
	for (size_t i = 0; i < p->emulations; i++)
		p->emulation[i] = p->report->decisions.emulation[i];
	return HT_OK;
}

static void init(struct ht_policy *p, const char *name)
{
	memset(p, 0, sizeof *p);
	ht_arena_init(&p->arena, &p->unwind);
	p->profile = &ht_profile_cpu;
	p->run_mode = p->hf32 = -1;
	p->random_seed = -1;
	p->oo_level = 3;
	p->measures = true;
	if (!name)
		return;
	p->by = HT_NAMED_POLICY;
	snprintf(p->name, sizeof p->name, "%s", name);
}

/* A policy with number formats in the place of its low type. */
static enum ht_status emulate(
	struct ht_policy *p, const char *name, const char *formats, struct ht_diags *d)
{
	struct ht_emulation *e = &p->emulation[0];

	if (!p->kind->low || p->kind->mode == HT_MODE_FORCE_FP32)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "policy '%s': %s", name,
			p->kind->family == &optimal
				? "optimal decides by speed, and formats that are emulated have none"
				: "formats take the place of a low type, and this policy gives none");
	HT_TRY(ht_emulation_parse(ht_str(formats), name, d, e));
	e->slot = p->kind->low;
	p->emulations = e->native != e->slot;
	return HT_OK;
}

static enum ht_status named(struct ht_policy *p, const char *name, struct ht_diags *d)
{
	const char *formats = strchr(name, ':');
	char base[sizeof p->name];

	if (strlen(name) >= sizeof p->name)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"the name of a policy has at most %zu characters", sizeof p->name - 1);
	snprintf(base, sizeof base, "%.*s", formats ? (int)(formats - name) : (int)strlen(name),
		name);
	p->kind = kind_named(base);
	if (!p->kind)
		return ht_no_policy(base, d);
	return formats ? emulate(p, name, formats + 1, d) : HT_OK;
}

const struct ht_emulation *ht_policy_emulation(const struct ht_policy *p, enum ht_dtype t)
{
	for (size_t i = 0; i < p->emulations; i++)
		if (p->emulation[i].slot == t)
			return &p->emulation[i];
	return NULL;
}

enum ht_status ht_policy_init(struct ht_policy *p, const char *name, struct ht_diags *d)
{
	init(p, name);
	if (!name)
		return HT_OK;
	if (ht_str_ends(ht_str(name), ".json"))
		return read_report(p, name, NULL, d);
	return named(p, name, d);
}

enum ht_status ht_policy_init_text(
	struct ht_policy *p, const char *name, struct ht_str text, struct ht_diags *d)
{
	init(p, name);
	return read_report(p, name, &text, d);
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
	/* Then the key is that of the implied mode. */
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

/* A policy without a mode has the same key as the mode that it implies.  Exception:
 * customize_dtypes is applied only if no mode was named. */
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

/* ---- whether options may be combined ---- */

static enum ht_status check_mixlist(const struct ht_policy *p, struct ht_diags *d)
{
	static const char legal[] = "it goes with allow_mix_precision, allow_mix_precision_fp16, "
				    "allow_mix_precision_bf16, mixed_float16 or mixed_bfloat16";
	const struct ht_policy_kind *k = ht_policy_effective(p);

	if (!p->rules[HT_RULES_MIX].option || ht_policy_can(k, HT_CAN_READ_LISTS))
		return HT_OK;
	if (p->by == HT_NAMED_NONE)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"modify_mixlist: no precision mode is stated; %s", legal);
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "modify_mixlist does not go with %s '%s'; %s",
		p->by == HT_NAMED_MODE_V2 ? "precision_mode_v2" : "precision mode", k->name, legal);
}

/* high_performance is the default, so it has an effect only for types that a list names. */
bool ht_policy_selects_impl(const struct ht_policy *p)
{
	return p->select_impl &&
	       (p->rules[HT_RULES_CHOSEN].n || strcmp(p->select_impl, "high_performance") != 0);
}

/* If the user asked for a mode that keeps every dtype, customize_dtypes has no effect. */
bool ht_policy_customizes(const struct ht_policy *p)
{
	return p->by == HT_NAMED_NONE || !ht_policy_can(p->kind, HT_CAN_CHANGE_NOTHING);
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

/* A mode of bfloat16 requires a machine that has it. */
static enum ht_status check_machine(const struct ht_policy *p, struct ht_diags *d)
{
	const struct ht_policy_kind *k = ht_policy_effective(p);

	if (ht_policy_can(k, HT_CAN_DECIDE_FOR_CPU_ONLY) && !p->profile->computed_columns)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"policy '%s' does not go with profile %s; it decides for profile cpu",
			k->name, p->profile->name);
	if (k->low != HT_BF16 || p->profile->bf16 || k->family->paint)
		return HT_OK;
	return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE, "policy '%s': profile %s has no bfloat16",
		k->name, p->profile->name);
}

static enum ht_status check_grappler(const struct ht_policy *p, struct ht_diags *d)
{
	const struct ht_policy_kind *k = ht_policy_effective(p);

	if (!p->grappler.option || ht_policy_can(k, HT_CAN_READ_GRAPPLER))
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
	if (!ht_policy_can(ht_policy_effective(p), HT_CAN_READ_BUDGET))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "%s is for policy optimal, not '%s'",
			option, ht_policy_effective(p)->name);
	return HT_OK;
}

static enum ht_status check_activation_memory(const struct ht_policy *p, struct ht_diags *d)
{
	if (!p->activation_memory)
		return HT_OK;
	if (!ht_policy_can(ht_policy_effective(p), HT_CAN_READ_BUDGET))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"activation_memory is for policy optimal, not '%s'",
			ht_policy_effective(p)->name);
	if (ht_budget_asked(&p->budget))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"activation_memory does not go with budget and frontier");
	return HT_OK;
}

/* check_mixlist() checks modify_mixlist for the vendor's modes. */
static enum ht_status check_readers(const struct ht_policy *p, struct ht_diags *d)
{
	static const struct {
		enum ht_rule_set set;
		enum ht_policy_can reads;
	} of[] = { { HT_RULES_MIX, HT_CAN_READ_LISTS }, { HT_RULES_CUSTOM, HT_CAN_READ_RULES },
		{ HT_RULES_KEEP, HT_CAN_READ_RULES } };
	const struct ht_policy_kind *k = ht_policy_effective(p);

	for (size_t i = k->spelling ? 1 : 0; i < HT_COUNT(of); i++)
		if (p->rules[of[i].set].option && !ht_policy_can(k, of[i].reads))
			return ht_error(d, HT_E_USAGE, HT_NOWHERE, "policy '%s' does not read %s",
				p->name, p->rules[of[i].set].option);
	return HT_OK;
}

/* A report contains all decisions, so other options cannot add any. */
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

/* Painting decides on the imported graph, whose nodes differ from those of which kernels are
 * made. */
static enum ht_status check_modes(const struct ht_policy *p, struct ht_diags *d)
{
	const char *option = p->rules[HT_RULES_IMPL].option;

	if (!option && ht_policy_selects_impl(p))
		option = "op_select_implmode";
	if (!option && p->hf32 >= 0)
		option = "allow_hf32";
	if (!option || ht_policy_can(ht_policy_effective(p), HT_CAN_READ_IMPLS))
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
	HT_TRY(check_activation_memory(p, d));
	if (p->rules[HT_RULES_CHOSEN].option && !p->select_impl)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"optypelist_for_implmode: op_select_implmode must be set too");
	if (p->rules[HT_RULES_IMPL].option && ht_policy_selects_impl(p))
		ht_warn(d, HT_NOWHERE,
			"op_select_implmode has no effect: op_precision_mode is given");
	return p->together ? p->together(p, d) : HT_OK;
}
