/* Verbs that only pass on the library's text: inspect, opt, convert, lists. */
#include "cli/cli.h"

enum ht_status verb_inspect(struct cli *c)
{
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct ht_model *m = NULL;
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK)
		st = artefact_trust(c, &opt);
	if (st == HT_OK && ht_is_artefact(c->model)) {
		st = ht_artefact_manifest(c->model, &opt, c->diags, &b);
	} else if (st == HT_OK) {
		st = open_model(c, &m);
		if (st == HT_OK)
			st = ht_model_inspect(m, format, c->diags, &b);
	}
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	ht_model_free(m);
	return st;
}

enum ht_status put_model(struct cli *c, struct ht_compile_options *opt, put_model_fn *put)
{
	const char *path = option(c, OPTION_OUTPUT, NULL);
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	struct ht_bytes b = { 0 };
	enum ht_status st = open_policy(c, &p);

	opt->policy = p;
	if (st == HT_OK)
		st = open_model(c, &m);
	if (st == HT_OK)
		st = put(c, m, opt, path, &b);
	if (st == HT_OK && !path)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

static enum ht_status convert(const struct cli *c, const struct ht_model *m,
	const struct ht_compile_options *opt, const char *path, struct ht_bytes *out)
{
	(void)out;
	return ht_convert(m, opt->policy, path, c->diags);
}

enum ht_status verb_convert(struct cli *c)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;

	if (!option(c, OPTION_OUTPUT, NULL))
		return fail(HT_E_USAGE, "halftone convert needs -o FILE");
	return put_model(c, &opt, convert);
}

static enum ht_status print_list(const struct cli *c, const char *what, enum ht_format format)
{
	struct ht_bytes b = { 0 };
	enum ht_status st = ht_list(what, format, c->diags, &b);

	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status rewrite(const struct cli *c, const struct ht_model *m,
	const struct ht_compile_options *opt, const char *path, struct ht_bytes *out)
{
	return ht_rewrite(m, option(c, OPTION_PASSES, ""), option(c, OPTION_STOP_AFTER, NULL), opt,
		path, c->diags, out);
}

enum ht_status verb_opt(struct cli *c)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;

	if (option_on(c, OPTION_LIST))
		return print_list(c, "passes", HT_FORMAT_TEXT);
	opt.target = option(c, OPTION_TARGET, NULL);
	return put_model(c, &opt, rewrite);
}

static enum ht_status print_missing(struct cli *c, enum ht_format format)
{
	struct ht_model *m = NULL;
	struct ht_bytes b = { 0 };
	enum ht_status st = open_model(c, &m);

	if (st == HT_OK)
		st = ht_model_missing(m, format, c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	ht_model_free(m);
	return st;
}

enum ht_status verb_ops(struct cli *c)
{
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	c->model = option(c, OPTION_MISSING, NULL);
	if (st != HT_OK)
		return st;
	return c->model ? print_missing(c, format) : print_list(c, "ops", format);
}

enum ht_status verb_list(struct cli *c)
{
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	return st == HT_OK ? print_list(c, c->verb->name, format) : st;
}
