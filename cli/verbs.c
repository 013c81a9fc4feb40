/* Verbs that hand the library's text on: inspect, opt, convert, lists. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

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

enum ht_status verb_convert(struct cli *c)
{
	const char *path = option(c, OPTION_OUTPUT, NULL);
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	enum ht_status st;

	if (!path)
		return fail(HT_E_USAGE, "halftone convert needs -o FILE");
	st = open_policy(c, &p);
	if (st == HT_OK)
		st = open_model(c, &m);
	if (st == HT_OK)
		st = ht_convert(m, p, path, c->diags);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

enum ht_status verb_opt(struct cli *c)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	const char *path = option(c, OPTION_OUTPUT, NULL);
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	struct ht_bytes b = { 0 };
	enum ht_status st;

	if (option_on(c, OPTION_LIST)) {
		st = ht_list("passes", HT_FORMAT_TEXT, c->diags, &b);
		if (st == HT_OK)
			st = print_bytes(&b);
	} else {
		st = open_policy(c, &p);
		opt.policy = p;
		opt.target = option(c, OPTION_TARGET, NULL);
		if (st == HT_OK)
			st = open_model(c, &m);
		if (st == HT_OK)
			st = ht_rewrite(m, option(c, OPTION_PASSES, ""),
				option(c, OPTION_STOP_AFTER, NULL), &opt, path, c->diags, &b);
		if (st == HT_OK && !path)
			st = print_bytes(&b);
	}
	ht_bytes_free(&b);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

enum ht_status verb_list(struct cli *c)
{
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK)
		st = ht_list(c->verb->name, format, c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}
