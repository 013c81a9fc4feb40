/* Verbs that hand the library's text on: inspect, compile, opt, convert, explain, lists. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum ht_status verb_inspect(struct cli *c)
{
	struct ht_model *m = NULL;
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK && ht_is_artefact(c->model)) {
		st = ht_artefact_manifest(c->model, NULL, c->diags, &b);
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

static void put_program(
	const struct cli *c, const struct ht_program_info *i, enum ht_format format, struct text *t)
{
	if (format == HT_FORMAT_TEXT) {
		text_printf(t,
			"%s: target %s, policy %s: %zu steps, %zu kernels, %zu bytes of code, "
			"%zu of weights, %zu of arena\n",
			c->model, i->target, i->policy, i->steps, i->kernels, i->code_bytes,
			i->weight_bytes, i->arena_bytes);
		return;
	}
	text_printf(t, "{\"schema\": \"halftone.compile/1\",\n \"model\": ");
	text_json(t, c->model);
	text_printf(t,
		",\n \"policy\": \"%s\",\n \"target\": \"%s\",\n \"float_nodes\": %zu,\n"
		" \"low_nodes\": %zu,\n \"casts\": %zu,\n \"steps\": %zu,\n \"kernels\": %zu,\n"
		" \"code_bytes\": %zu,\n \"weight_bytes\": %zu,\n \"arena_bytes\": %zu,\n ",
		i->policy, i->target, i->float_nodes, i->low_nodes, i->casts, i->steps, i->kernels,
		i->code_bytes, i->weight_bytes, i->arena_bytes);
	text_without_effect(t, i);
	text_printf(t, "}\n");
}

/* Without --emit: the program, written to --output if that is stated, and its sizes. */
static enum ht_status compile_only(
	struct cli *c, const struct ht_model *m, const struct ht_compile_options *opt)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	const char *path = option(c, OPTION_OUTPUT, NULL);
	struct ht_program *p;
	struct text t = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st != HT_OK)
		return st;
	st = ht_compile(m, opt, c->diags, &p);
	if (st != HT_OK)
		return st;
	if (path)
		st = ht_program_save(p, path, c->diags);
	if (st == HT_OK && !(path && !strcmp(path, "-"))) {
		ht_program_about(p, &info);
		put_program(c, &info, format, &t);
		st = text_print(&t);
	}
	ht_program_free(p);
	return st;
}

enum ht_status verb_compile(struct cli *c)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	const char *form = option(c, OPTION_EMIT, NULL), *stop = option(c, OPTION_STOP_AFTER, NULL);
	const char *path = option(c, OPTION_OUTPUT, NULL);
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	struct ht_bytes b = { 0 };
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	opt.target = option(c, OPTION_TARGET, NULL);
	if (st == HT_OK && !opt.target && option_on(c, OPTION_STRICT_TARGET))
		st = fail(HT_E_USAGE, "no target stated; see halftone targets");
	if (st == HT_OK)
		st = open_policy(c, &p);
	if (st == HT_OK)
		st = open_model(c, &m);
	opt.policy = p;
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	opt.threads = (int)threads;
	if (st == HT_OK && !opt.target)
		note(c, "no target stated: code for this machine");
	if (st == HT_OK && !form && !stop) {
		st = compile_only(c, m, &opt);
	} else if (st == HT_OK) {
		st = ht_emit_code(m, &opt, form ? form : "hir", stop, path, c->diags, &b);
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
