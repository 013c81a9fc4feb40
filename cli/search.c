/* halftone search: finds a minimal set of nodes that must stay in float32, and writes it as a
 * policy. */
#include "cli/cli.h"

#include <errno.h>
#include <halftone/search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct searching {
	struct cli *c;
	struct ht_model *model;
	struct ht_search *search;
	struct labelled_set set;
	struct text journal, command;
	const char *output;
	long long threads;
};

/* ---- the search ---- */

static enum ht_status check_options(struct searching *k)
{
	struct cli *c = k->c;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &k->threads);

	k->output = option(c, OPTION_OUTPUT, NULL);
	if (st == HT_OK && !k->output)
		return fail(
			HT_E_USAGE, "halftone search needs -o POLICY.json; - is standard output");
	if (st == HT_OK && !strcmp(k->output, "-") && option_on(c, OPTION_SEARCH_RESUME))
		return fail(HT_E_USAGE,
			"--resume goes on with the trials of a file, not of standard output");
	return st == HT_OK ? labelled_set_check(c) : st;
}

static enum ht_status start(struct searching *k)
{
	struct ht_search_options opt = HT_SEARCH_OPTIONS_INIT;
	struct comparison_setting setting;
	struct cli *c = k->c;

	comparison_settings(c, k->threads, &setting);
	opt.compare = &setting.options;
	opt.types = option(c, OPTION_TYPES, NULL);
	opt.rule = option(c, OPTION_RULE, NULL);
	opt.prefer = option(c, OPTION_PREFER, NULL);
	opt.resume = option_on(c, OPTION_SEARCH_RESUME);
	if (strcmp(k->output, "-") != 0) {
		text_printf(&k->journal, "%s.trials", k->output);
		opt.journal = k->journal.p;
	}
	return ht_search_new(k->model, &opt, c->diags, &k->search);
}

static enum ht_status feed(struct searching *k)
{
	enum ht_status st = k->set.taken ? labelled_set_rewind(&k->set) : HT_OK;

	for (size_t i = 0; st == HT_OK && i < sample_set_runs(k->set.samples); i++) {
		struct labelled_sample x;

		st = labelled_set_next(&k->set, &x);
		if (st == HT_OK)
			st = ht_search_sample(k->search, x.where, x.in, x.ins, x.expected,
				x.expecteds, x.label, k->c->diags);
	}
	return st;
}

static enum ht_status run(struct searching *k)
{
	struct progress p;
	enum ht_status st;
	int32_t more;

	progress_begin(&p, k->c, "trial");
	while ((st = ht_search_next(k->search, k->c->diags, &more)) == HT_OK && more) {
		struct ht_search_state state = HT_SEARCH_STATE_INIT;

		ht_search_look(k->search, k->c->diags, &state);
		progress_at(&p, state.trials, 0);
		st = feed(k);
		if (st != HT_OK)
			break;
	}
	progress_end(&p);
	return st == HT_OK ? ht_search_verdict(k->search, k->c->diags) : st;
}

/* ---- reproducers ---- */

/* Before the search begins, so that it is not in vain. */
static enum ht_status make_folder(struct cli *c)
{
	const char *path = option(c, OPTION_REPRODUCERS, NULL);
	struct stat info;

	if (!path || !mkdir(path, 0777))
		return HT_OK;
	if (errno != EEXIST)
		return fail(
			HT_E_ENVIRONMENT, "%s: cannot make the folder: %s", path, strerror(errno));
	return !stat(path, &info) && S_ISDIR(info.st_mode)
		       ? HT_OK
		       : fail(HT_E_ENVIRONMENT, "%s: cannot make the folder: a file has this name",
				 path);
}

/* Whether the comparison gets the option: all that both verbs take, except where the result
 * goes. */
static bool is_shared(enum option o)
{
	const unsigned both = COMPARE | SEARCH;

	return (option_rows[o].verbs & both) == both && o != OPTION_OUTPUT;
}

static void put_option(struct text *t, const struct cli *c, enum option o)
{
	for (size_t i = 0; i < c->option[o].n; i++) {
		text_printf(t, " --%s", option_rows[o].name);
		if (option_rows[o].arg)
			text_word(t, c->option[o].value[i]);
	}
}

/* Writes a shell script that compares the model under `policy`, which exceeds a tolerance: the comparison ends with exit code 1. */
static enum ht_status put_script(struct searching *k, const char *policy, const char *path)
{
	struct text t = { 0 };
	enum ht_status st;

	text_printf(&t, "#!/bin/sh\nexec halftone compare");
	text_word(&t, k->c->model);
	text_printf(&t, " --runs 0 --policy");
	text_word(&t, policy);
	for (int o = 0; o < OPTION_END; o++)
		if (is_shared((enum option)o))
			put_option(&t, k->c, (enum option)o);
	text_printf(&t, "\n");
	st = ht_file_write(path, t.p, t.n, k->c->diags);
	free(t.p);
	return st;
}

static enum ht_status put_reproducer(struct searching *k, const char *folder, size_t i)
{
	struct text policy = { 0 }, script = { 0 };
	struct ht_bytes without;
	const char *node;
	enum ht_status st = ht_search_member(k->search, i, k->c->diags, &node, &without);

	text_printf(&policy, "%s/%zu.json", folder, i + 1);
	text_printf(&script, "%s/%zu.sh", folder, i + 1);
	if (st == HT_OK)
		st = ht_file_write(policy.p, without.p, without.n, k->c->diags);
	if (st == HT_OK)
		st = put_script(k, policy.p, script.p);
	ht_bytes_free(&without);
	free(policy.p);
	free(script.p);
	return st;
}

static enum ht_status put_reproducers(struct searching *k)
{
	const char *folder = option(k->c, OPTION_REPRODUCERS, NULL);
	enum ht_status st = HT_OK;

	for (size_t i = 0; folder && st == HT_OK && i < ht_search_members(k->search); i++)
		st = put_reproducer(k, folder, i);
	return st;
}

/* ---- results ---- */

static enum ht_status put_policy(struct searching *k)
{
	struct ht_bytes b;
	enum ht_status st;

	text_command(&k->command, k->c);
	st = ht_search_print(k->search, HT_SEARCH_POLICY, k->command.p, k->c->diags, &b);
	if (st == HT_OK)
		st = strcmp(k->output, "-") ? ht_file_write(k->output, b.p, b.n, k->c->diags)
					    : print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status put_text(struct searching *k)
{
	struct ht_bytes b = { 0 };
	enum ht_status st = HT_OK;

	if (!strcmp(k->output, "-"))
		return HT_OK;
	st = ht_search_print(k->search, HT_SEARCH_TEXT, NULL, k->c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status search(struct searching *k)
{
	enum ht_status st = check_options(k);

	if (st == HT_OK)
		st = open_model(k->c, &k->model);
	if (st == HT_OK)
		st = start(k);
	if (st == HT_OK)
		st = labelled_set_open(k->c, k->model, ht_search_program(k->search),
			ht_search_rows(k->search), &k->set);
	if (st == HT_OK)
		st = make_folder(k->c);
	if (st == HT_OK)
		st = run(k);
	if (st == HT_OK)
		st = put_policy(k);
	if (st == HT_OK)
		st = put_reproducers(k);
	return st == HT_OK ? put_text(k) : st;
}

enum ht_status verb_search(struct cli *c)
{
	struct searching k = { .c = c };
	enum ht_status st = search(&k);

	labelled_set_close(&k.set);
	ht_search_free(k.search);
	ht_model_free(k.model);
	free(k.journal.p);
	free(k.command.p);
	return st;
}
