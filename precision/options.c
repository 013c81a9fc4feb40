/* The options of a policy: each is a name and a function that takes its value. */
#include "precision/optimal/cost.h"
#include "precision/optimal/rates.h"
#include "precision/precision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)1 << 20)

struct setting {
	struct ht_policy *p;
	const char *key, *value;
	struct ht_diags *d;
	struct ht_sha256 digest; /* of the files that were read */
};

static enum ht_status illegal(const struct setting *s, const char *legal)
{
	return ht_error(s->d, HT_E_USAGE, HT_NOWHERE, "%s: '%s' is no value for it; there are %s",
		s->key, s->value, legal);
}

/* ---- the mode ---- */

static enum ht_status set_mode_by(struct setting *s, enum ht_named_by by, const char *legal)
{
	static const char *const option[] = { [HT_NAMED_POLICY] = "policy",
		[HT_NAMED_MODE] = "precision_mode",
		[HT_NAMED_MODE_V2] = "precision_mode_v2" };
	const struct ht_policy_kind *k = ht_policy_kinds;

	while (k->name && (strcmp(k->name, s->value) || !(k->spelling & by)))
		k++;
	if (!k->name)
		return illegal(s, legal);
	if (s->p->by != HT_NAMED_NONE && s->p->by != by)
		return ht_error(s->d, HT_E_USAGE, HT_NOWHERE,
			"%s and %s cannot be given at the same time", option[s->p->by], s->key);
	s->p->kind = k;
	s->p->by = by;
	snprintf(s->p->name, sizeof s->p->name, "%s", s->value);
	return HT_OK;
}

static enum ht_status set_mode(struct setting *s)
{
	return set_mode_by(s, HT_NAMED_MODE,
		"force_fp32, allow_fp32_to_fp16, force_fp16, must_keep_origin_dtype, "
		"allow_mix_precision, cube_fp16in_fp32out, allow_mix_precision_fp16, "
		"allow_mix_precision_bf16 and allow_fp32_to_bf16");
}

static enum ht_status set_mode_v2(struct setting *s)
{
	if (!strcmp(s->value, "cube_hif8") || !strcmp(s->value, "mixed_hif8"))
		return ht_error(s->d, HT_E_UNSUPPORTED, HT_NOWHERE,
			"%s: '%s' is known, but no kernel computes in hifloat8", s->key, s->value);
	return set_mode_by(s, HT_NAMED_MODE_V2,
		"fp16, origin, cube_fp16in_fp32out, mixed_float16 and mixed_bfloat16");
}

static enum ht_status set_run_mode(struct setting *s)
{
	if (strcmp(s->value, "0") && strcmp(s->value, "1"))
		return illegal(s, "0 (inference) and 1 (training)");
	s->p->run_mode = *s->value - '0';
	return HT_OK;
}

static enum ht_status set_random_seed(struct setting *s)
{
	if (ht_parse_int(ht_str(s->value), &s->p->random_seed) && s->p->random_seed >= 0)
		return HT_OK;
	return illegal(s, "whole numbers from 0 on");
}

static enum ht_status set_profile(struct setting *s)
{
	HT_TRY(ht_profile_named(s->value, s->d, &s->p->profile));
	s->value = s->p->profile->name;
	return HT_OK;
}

static enum ht_status read_bool(const struct setting *s, bool *out)
{
	*out = !strcmp(s->value, "1") || !strcmp(s->value, "true");
	return *out || !strcmp(s->value, "0") || !strcmp(s->value, "false")
		       ? HT_OK
		       : illegal(s, "true, 1, false and 0");
}

static enum ht_status set_lenient(struct setting *s)
{
	return read_bool(s, &s->p->lenient);
}

/* ---- files of rules ---- */

static void unref_file(void *file)
{
	ht_file_unref(file);
}

enum ht_status ht_policy_file(struct ht_parse *p, size_t limit, struct ht_str *text)
{
	struct ht_file *f;

	HT_TRY(ht_file_map(p->path, limit, p->diags, &f));
	ht_arena_defer(p->arena, unref_file, f);
	*text = (struct ht_str){ (const char *)f->p, f->n };
	if (p->digest) {
		ht_sha256_add(p->digest, &(uint64_t){ text->n }, sizeof(uint64_t));
		ht_sha256_add(p->digest, text->p, text->n);
	}
	return HT_OK;
}

static struct ht_parse parse_of(struct setting *s)
{
	return (struct ht_parse){ .arena = &s->p->arena,
		.diags = s->d,
		.path = ht_str_copy(&s->p->arena, ht_str(s->value)).p,
		.lenient = s->p->lenient,
		.digest = &s->digest };
}

/* Reads a file of rules, which replaces the file of an earlier setting. */
static enum ht_status read_rules(struct setting *s, enum ht_rule_set set,
	enum ht_status (*parse)(struct ht_parse *p, struct ht_str text, struct ht_rules *out))
{
	struct ht_parse p = parse_of(s);
	struct ht_rules rules;
	struct ht_str text;

	HT_TRY(ht_policy_file(&p, FILE_LIMIT, &text));
	ht_rules_init(&rules, s->key, p.path, p.arena);
	HT_TRY(parse(&p, text, &rules));
	s->p->rules[set] = rules;
	return HT_OK;
}

static enum ht_status set_mixlist(struct setting *s)
{
	return read_rules(s, HT_RULES_MIX, ht_mixlist_parse);
}

static enum ht_status set_customize(struct setting *s)
{
	return read_rules(s, HT_RULES_CUSTOM, ht_customize_parse);
}

static enum ht_status set_keep_dtype(struct setting *s)
{
	return read_rules(s, HT_RULES_KEEP, ht_keep_dtype_parse);
}

static enum ht_status set_op_precision_mode(struct setting *s)
{
	return read_rules(s, HT_RULES_IMPL, ht_impl_parse);
}

static enum ht_status set_fusion_switch(struct setting *s)
{
	struct ht_parse p = parse_of(s);
	struct ht_rules rules;
	struct ht_str text;

	HT_TRY(ht_policy_file(&p, FILE_LIMIT, &text));
	ht_rules_init(&rules, s->key, p.path, p.arena);
	HT_TRY(ht_fusion_switch_parse(&p, text, &rules));
	s->p->fusions = rules;
	return HT_OK;
}

static enum ht_status set_optimization_switch(struct setting *s)
{
	struct ht_parse p = parse_of(s);
	struct ht_rules rules;

	ht_rules_init(&rules, s->key, NULL, p.arena);
	HT_TRY(ht_optimization_switch_parse(&p, ht_str(p.path), &rules));
	s->p->switches = rules;
	return HT_OK;
}

static enum ht_status set_oo_level(struct setting *s)
{
	if (s->value[0] != 'O' || s->value[1] < '0' || s->value[1] > '3' || s->value[2])
		return illegal(s, "O0, O1, O2 and O3");
	s->p->oo_level = s->value[1] - '0';
	return HT_OK;
}

static enum ht_status set_constant_folding(struct setting *s)
{
	bool on;

	HT_TRY(read_bool(s, &on));
	s->p->keep_constants = !on;
	return HT_OK;
}

static const char *copy(struct setting *s)
{
	return ht_str_copy(&s->p->arena, ht_str(s->value)).p;
}

static enum ht_status set_fusion_result(struct setting *s)
{
	s->p->fusion_result = copy(s);
	return HT_OK;
}

static enum ht_status set_dump_graphs(struct setting *s)
{
	s->p->dump_graphs = copy(s);
	return HT_OK;
}

static enum ht_status set_debug_dir(struct setting *s)
{
	s->p->debug_dir = copy(s);
	return HT_OK;
}

static enum ht_status set_debug_level(struct setting *s)
{
	s->p->debug_level = *s->value - '0'; /* the table of options accepts only 0 to 4 */
	return HT_OK;
}

static enum ht_status set_debug_config(struct setting *s)
{
	struct ht_parse p = parse_of(s);
	struct ht_debug_config config;
	struct ht_str text;

	HT_TRY(ht_policy_file(&p, FILE_LIMIT, &text));
	HT_TRY(ht_debug_config_parse(&p, text, &config));
	s->p->debug_config = config;
	return HT_OK;
}

static enum ht_status set_compile_stat(struct setting *s)
{
	s->p->export_stat = strcmp(s->value, "0") != 0;
	return HT_OK;
}

static enum ht_status set_scope_fusions(struct setting *s)
{
	struct ht_parse p = parse_of(s);
	struct ht_rules rules;

	ht_rules_init(&rules, s->key, NULL, p.arena);
	HT_TRY(ht_scope_fusions_parse(&p, ht_str(p.path), &rules));
	s->p->scopes = rules;
	return HT_OK;
}

static enum ht_status set_ops_info(struct setting *s)
{
	struct ht_parse p = parse_of(s);
	struct ht_ops_info *info = HT_NEW(p.arena, struct ht_ops_info);

	ht_map_init(&info->types, p.arena);
	HT_TRY(ht_ops_info_read(&p, info));
	s->p->ops_info = info;
	return HT_OK;
}

/* ---- implementation modes ---- */

static enum ht_status set_select_impl(struct setting *s)
{
	static const char *const legal[] = { "high_precision", "high_performance",
		"high_precision_for_all", "high_performance_for_all", "enable_float_32_execution",
		"enable_hi_float_32_execution" };

	for (size_t i = 0; i < HT_COUNT(legal); i++)
		if (!strcmp(legal[i], s->value)) {
			s->p->select_impl = legal[i];
			return HT_OK;
		}
	return illegal(s, "high_precision, high_performance, high_precision_for_all, "
			  "high_performance_for_all, enable_float_32_execution and "
			  "enable_hi_float_32_execution");
}

static enum ht_status set_optypelist(struct setting *s)
{
	struct ht_arena *a = &s->p->arena;
	const char *p = ht_str_copy(a, ht_str(s->value)).p;
	struct ht_rules rules;
	bool old;

	ht_rules_init(&rules, s->key, NULL, a);
	for (bool last = false; !last; p++) {
		size_t n = strcspn(p, ",");
		struct ht_str type = ht_trim((struct ht_str){ p, n });
		if (!type.n)
			return ht_error(s->d, HT_E_USAGE, HT_NOWHERE,
				"%s: an op type is missing in '%s'", s->key, s->value);
		ht_rules_add(&rules, a, type, true, 0, &old);
		p += n;
		last = !*p;
	}
	s->p->rules[HT_RULES_CHOSEN] = rules;
	return HT_OK;
}

/* Two digits: convolutions, matrix products; a single digit sets both. */
static enum ht_status set_hf32(struct setting *s)
{
	static const struct {
		const char *value;
		int hf32;
	} legal[] = { { "0", 0 }, { "00", 0 }, { "false", 0 }, { "01", 1 }, { "10", 2 }, { "1", 3 },
		{ "11", 3 }, { "true", 3 } };
	static const char *const spelling[] = { "00", "01", "10", "11" };

	for (size_t i = 0; i < HT_COUNT(legal); i++)
		if (!strcmp(legal[i].value, s->value)) {
			s->p->hf32 = legal[i].hf32;
			s->value = spelling[legal[i].hf32];
			return HT_OK;
		}
	return illegal(s, "0, 1, 00, 01, 10, 11, true and false");
}

static enum ht_status set_grappler(struct setting *s)
{
	return ht_grappler_option(&s->p->grappler, s->key, s->value, s->d);
}

/* ---- the machine ---- */

static enum ht_status set_rates(struct setting *s)
{
	struct ht_parse p = parse_of(s);
	struct ht_str text;

	HT_TRY(ht_policy_file(&p, HT_RATES_BYTES, &text));
	return ht_stated_rates_parse(text, p.path, p.arena, s->d, &s->p->rates);
}

static enum ht_status set_measure(struct setting *s)
{
	return read_bool(s, &s->p->measures);
}

/* ---- options of policy optimal ---- */

static enum ht_status set_cost_table(struct setting *s)
{
	const size_t limit = (size_t)16 << 20;
	struct ht_parse p = parse_of(s);
	struct ht_str text;

	HT_TRY(ht_policy_file(&p, limit, &text));
	return ht_costs_parse(text, p.path, p.arena, s->d, &s->p->costs);
}

static enum ht_status set_cost_target(struct setting *s)
{
	s->p->cost_target = ht_target_named(s->value);
	return s->p->cost_target
		       ? HT_OK
		       : ht_error(s->d, HT_E_USAGE, HT_NOWHERE,
				 "%s: unknown target '%s'; see halftone targets", s->key, s->value);
}

static enum ht_status set_priced_node(struct setting *s)
{
	s->p->priced = ht_str_copy(&s->p->arena, ht_str(s->value)).p;
	return HT_OK;
}

/* Bytes: a number from 1 on, perhaps with K, M or G for powers of 1024. */
static enum ht_status set_activation_memory(struct setting *s)
{
	static const char unit[] = "KMG";
	const char *at;
	char *end;
	long long n;

	errno = 0;
	n = strtoll(s->value, &end, 10);
	at = *end ? strchr(unit, *end) : NULL;
	if (end == s->value || errno || n < 1 || (*end && (!at || end[1])) ||
		__builtin_mul_overflow(n, INT64_C(1) << (at ? 10 * (at - unit + 1) : 0), &n))
		return illegal(s, "sizes such as 500M or 2G");
	s->p->activation_memory = n;
	return HT_OK;
}

static enum ht_status set_budget(struct setting *s)
{
	return ht_budget_parse(&s->p->budget, s->value, &s->p->arena, s->d);
}

static enum ht_status set_frontier(struct setting *s)
{
	return read_bool(s, &s->p->budget.frontier);
}

static enum ht_status set_samples(struct setting *s)
{
	return ht_samples_parse(&s->p->budget, s->value, s->d);
}

static enum ht_status set_sentinels(struct setting *s)
{
	s->p->clamps_sentinels = !strcmp(s->value, "clamp");
	return s->p->clamps_sentinels || !strcmp(s->value, "keep") ? HT_OK
								   : illegal(s, "keep and clamp");
}

static const struct option {
	const char *key, *fallback;
	enum ht_read read;
	enum ht_status (*set)(struct setting *s);
} options[] = {
#define READ_VALUE(name) HT_READ_##name
#define READ_PLACE(name) HT_READ_##name
#define READ_MODE(name) HT_READ_policy
#define POLICY_OPTION(name, values, fallback, parser, read, ...)                                   \
	{ #name, fallback, READ_##read(name), set_##parser },
#include "choice/options.def"
};

/* Records the setting for cache keys; for a file, its content, independent of its path. */
static void state(struct setting *s, enum ht_read read)
{
	uint64_t files = s->digest.bytes;
	uint8_t digest[32];
	char hex[65];

	if (!files) {
		s->p->stated[read] = copy(s);
		return;
	}
	ht_sha256_end(&s->digest, digest);
	for (size_t i = 0; i < sizeof digest; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	s->p->stated[read] =
		ht_str_printf(&s->p->arena, "%s %s", s->p->lenient ? "lenient" : "strict", hex).p;
}

enum ht_status ht_policy_option(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d)
{
	struct setting s = { .p = p, .key = key, .value = value, .d = d };
	const struct option *o = options, *end = options + HT_COUNT(options);

	while (o < end && strcmp(o->key, key))
		o++;
	if (o == end)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "a policy has no option '%s'", key);
	s.key = o->key;
	if (setjmp(p->unwind.env))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_sha256_begin(&s.digest);
	HT_TRY(o->set(&s));
	if (*o->fallback && !strcmp(o->fallback, value))
		p->stated[o->read] = NULL;
	else
		state(&s, o->read);
	return HT_OK;
}
