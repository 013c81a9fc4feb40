/* halftone explain: reports of decisions, reasons, differences, and conditions on them. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static enum ht_status explain_format(const struct cli *c, enum ht_format *out)
{
	static const struct {
		const char *name;
		enum ht_format format;
	} of[] = { { "text", HT_FORMAT_TEXT }, { "json", HT_FORMAT_JSON }, { "dot", HT_FORMAT_DOT },
		{ "node-data", HT_FORMAT_NODE_DATA } };
	const char *s = option(c, OPTION_FORMAT, "text");
	bool compares = option_on(c, OPTION_WHY_NOT) || option_on(c, OPTION_DIFF) ||
			option_on(c, OPTION_AGAINST);

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (!strcmp(s, of[i].name)) {
			*out = of[i].format;
			if (compares && *out != HT_FORMAT_TEXT && *out != HT_FORMAT_JSON)
				return fail(HT_E_USAGE,
					"--format %s is for a report alone, not for --why-not, --diff or --against",
					s);
			return HT_OK;
		}
	return fail(HT_E_USAGE, "--format: '%s' is not text, json, dot or node-data", s);
}

static enum ht_status asked_dtype(const struct cli *c, enum ht_dtype *out)
{
	static const struct {
		const char *name, *other;
		enum ht_dtype dtype;
	} of[] = { { "f32", "float32", HT_F32 }, { "f16", "float16", HT_F16 },
		{ "bf16", "bfloat16", HT_BF16 } };
	const char *s = option(c, OPTION_WHY_NOT, "");

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (!strcmp(s, of[i].name) || !strcmp(s, of[i].other)) {
			*out = of[i].dtype;
			return HT_OK;
		}
	return fail(HT_E_USAGE, "--why-not: '%s' is not f32, f16 or bf16", s);
}

/* Checks for options that exclude each other. */
static enum ht_status check_options(const struct cli *c)
{
	bool diff = option_on(c, OPTION_DIFF), against = option_on(c, OPTION_AGAINST);

	if (diff + against + option_on(c, OPTION_WHY_NOT) > 1)
		return fail(HT_E_USAGE, "one of --why-not, --diff and --against at a time");
	if (diff && c->option[OPTION_DIFF].n != 2)
		return fail(HT_E_USAGE, "--diff needs two policies or reports");
	if (diff && option_on(c, OPTION_POLICY))
		return fail(HT_E_USAGE, "--policy does not go with --diff, which names two");
	if (against != option_on(c, OPTION_FAIL_ON))
		return fail(HT_E_USAGE, against ? "--against needs --fail-on"
						: "--fail-on needs --against REPORT.json");
	if ((diff || against) && option_on(c, OPTION_NODE))
		return refuse(c, "--node has no effect with --diff and --against");
	return HT_OK;
}

static bool is_report(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && !strcmp(name + n - 5, ".json");
}

/* ---- the report ---- */

static enum ht_status print_report(
	struct cli *c, struct ht_report *r, enum ht_format format, struct ht_bytes *b)
{
	enum ht_dtype asked = HT_F32;
	const char *node = option(c, OPTION_NODE, NULL);
	enum ht_status st;

	if (!option_on(c, OPTION_WHY_NOT))
		return ht_report_print(r, format, node, c->diags, b);
	st = asked_dtype(c, &asked);
	return st == HT_OK ? ht_report_why_not(r, asked, node, format, c->diags, b) : st;
}

/* The verdict is printed after the difference. */
static enum ht_status check_against(
	struct cli *c, struct ht_report *r, enum ht_format format, struct ht_bytes *b)
{
	struct ht_report *before;
	enum ht_status st = ht_report_read(option(c, OPTION_AGAINST, NULL), c->diags, &before);
	enum ht_status verdict = HT_OK;

	if (st == HT_OK)
		st = ht_report_diff(before, r, format, c->diags, b);
	for (size_t i = 0; st == HT_OK && i < c->option[OPTION_FAIL_ON].n; i++) {
		st = ht_report_check(before, r, c->option[OPTION_FAIL_ON].value[i], c->diags);
		if (st == HT_E_VERDICT) {
			verdict = st;
			st = HT_OK;
		}
	}
	if (st == HT_OK)
		st = print_bytes(b);
	ht_report_free(before);
	return st == HT_OK ? verdict : st;
}

static enum ht_status make_report(struct cli *c, const struct ht_model *m,
	const struct ht_policy *policy, struct ht_report **out)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;

	opt.policy = policy;
	opt.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	opt.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	return ht_report_new(m, &opt, c->diags, out);
}

static enum ht_status explain_policy(struct cli *c, enum ht_format format)
{
	struct ht_report *r = NULL;
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	struct ht_bytes b = { 0 };
	enum ht_status st = open_policy(c, &p);

	if (st == HT_OK)
		st = open_model(c, &m);
	if (st == HT_OK)
		st = make_report(c, m, p, &r);
	if (st == HT_OK && option_on(c, OPTION_AGAINST)) {
		st = check_against(c, r, format, &b);
	} else if (st == HT_OK) {
		st = print_report(c, r, format, &b);
		if (st == HT_OK)
			st = print_bytes(&b);
	}
	ht_bytes_free(&b);
	ht_report_free(r);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

/* ---- two reports ---- */

struct side {
	struct ht_policy *policy;
	struct ht_report *report;
};

static enum ht_status open_side(
	struct cli *c, const struct ht_model *m, const char *name, struct side *s)
{
	enum ht_status st;

	if (is_report(name))
		return ht_report_read(name, c->diags, &s->report);
	st = open_named_policy(c, name, &s->policy);
	return st == HT_OK ? make_report(c, m, s->policy, &s->report) : st;
}

static enum ht_status diff(struct cli *c, enum ht_format format)
{
	struct side side[2] = { 0 };
	struct ht_model *m = NULL;
	struct ht_bytes b = { 0 };
	enum ht_status st = load_configs(c);

	if (st == HT_OK)
		st = open_model(c, &m);
	for (int i = 0; i < 2 && st == HT_OK; i++)
		st = open_side(c, m, c->option[OPTION_DIFF].value[i], &side[i]);
	if (st == HT_OK)
		st = ht_report_diff(side[0].report, side[1].report, format, c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	for (int i = 0; i < 2; i++) {
		ht_report_free(side[i].report);
		ht_policy_free(side[i].policy);
	}
	ht_model_free(m);
	return st;
}

enum ht_status verb_explain(struct cli *c)
{
	enum ht_format format = HT_FORMAT_TEXT;
	enum ht_dtype asked;
	enum ht_status st = explain_format(c, &format);

	if (st == HT_OK)
		st = check_options(c);
	if (st == HT_OK && option_on(c, OPTION_WHY_NOT))
		st = asked_dtype(c, &asked);
	if (st != HT_OK)
		return st;
	return option_on(c, OPTION_DIFF) ? diff(c, format) : explain_policy(c, format);
}
