/* halftone compare: policies on the same samples against a reference. */
#include "cli/cli.h"

#include <halftone/compare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comparing {
	struct cli *c;
	struct ht_model *model;
	struct ht_comparison *comparison;
	struct ht_policy **policy;
	size_t policies;
	bool *failed; /* by policy: it could not be compiled */
	struct labelled_set set;
	enum ht_comparison_form form;
	long long threads, runs;
	size_t nodes_memory;
};

/* ---- options ---- */

static enum ht_status form_of(const struct cli *c, enum ht_comparison_form *out)
{
	static const char *const names[] = {
		[HT_COMPARISON_TEXT] = "text",
		[HT_COMPARISON_JSON] = "json",
		[HT_COMPARISON_CSV] = "csv",
		[HT_COMPARISON_MARKDOWN] = "md",
		[HT_COMPARISON_JUNIT] = "junit",
		[HT_COMPARISON_GITHUB] = "github",
	};
	const char *s = option(c, OPTION_FORMAT, "text");

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(s, names[i])) {
			*out = (enum ht_comparison_form)i;
			return HT_OK;
		}
	return fail(HT_E_USAGE, "--format: '%s' is none of text, json, csv, md, junit, github", s);
}

static const char *policy_name(const struct cli *c, size_t i)
{
	return c->option[OPTION_POLICY].n ? c->option[OPTION_POLICY].value[i]
					  : option(c, OPTION_POLICY, NULL);
}

/* Opens the policies of all --policy; errors name each one that cannot be opened. */
static enum ht_status open_policies(struct comparing *k)
{
	struct cli *c = k->c;
	enum ht_status st = HT_OK;

	k->policies = c->option[OPTION_POLICY].n ? c->option[OPTION_POLICY].n
						 : option(c, OPTION_POLICY, NULL) != NULL;
	if (!k->policies)
		return fail(HT_E_USAGE,
			"halftone compare needs policies: --policy NAME, repeatable (see halftone policies)");
	k->policy = must_alloc(k->policies * sizeof *k->policy);
	k->failed = must_alloc(k->policies * sizeof *k->failed);
	for (size_t i = 0; i < k->policies; i++) {
		enum ht_status one = open_named_policy(c, policy_name(c, i), &k->policy[i]);
		if (one != HT_OK && (st == HT_OK || one != HT_E_USAGE))
			st = one;
	}
	return st;
}

static enum ht_status check_nodes(struct comparing *k)
{
	const char *memory = option(k->c, OPTION_NODES_MEMORY, NULL);

	if (!option_on(k->c, OPTION_NODES)) {
		if (memory)
			return refuse(k->c, "--nodes-memory has no effect without --nodes");
		return option_on(k->c, OPTION_NODE_DATA)
			       ? refuse(k->c, "--node-data has no effect without --nodes")
			       : HT_OK;
	}
	k->nodes_memory = memory ? parse_size(memory) : 0;
	if (memory && !k->nodes_memory)
		return fail(
			HT_E_USAGE, "--nodes-memory: '%s' is no size such as 500M or 2G", memory);
	if (option_on(k->c, OPTION_NODE_DATA) && k->c->option[OPTION_POLICY].n > 1)
		return fail(HT_E_USAGE,
			"--node-data: the file has the nodes of one policy, %zu are stated",
			k->c->option[OPTION_POLICY].n);
	if (k->form == HT_COMPARISON_CSV)
		k->form = HT_COMPARISON_NODES_CSV;
	return HT_OK;
}

static enum ht_status check_options(struct comparing *k)
{
	struct cli *c = k->c;
	enum ht_status st = form_of(c, &k->form);

	if (st == HT_OK)
		st = option_number(c, OPTION_THREADS, 1, 1, 1024, &k->threads);
	if (st == HT_OK)
		st = option_number(c, OPTION_RUNS, 10, 0, 1000000, &k->runs);
	if (st != HT_OK)
		return st;
	st = labelled_set_check(c);
	return st == HT_OK ? check_nodes(k) : st;
}

/* ---- the comparison ---- */

static enum ht_status start(struct comparing *k)
{
	struct comparison_setting setting;

	comparison_settings(k->c, k->threads, &setting);
	return ht_comparison_new(k->model, &setting.options, k->c->diags, &k->comparison);
}

/* A policy that cannot be compiled is in the report; the others go on. */
static enum ht_status add_policies(struct comparing *k)
{
	for (size_t i = 0; i < k->policies; i++) {
		enum ht_status st = ht_comparison_add(
			k->comparison, policy_name(k->c, i), k->policy[i], k->c->diags);
		if (st == HT_E_USAGE || st == HT_E_ENVIRONMENT)
			return st;
		k->failed[i] = st != HT_OK;
	}
	return HT_OK;
}

static enum ht_status take_sample(struct comparing *k)
{
	struct labelled_sample x;
	enum ht_status st = labelled_set_next(&k->set, &x);

	return st == HT_OK ? ht_comparison_sample(k->comparison, x.where, x.in, x.ins, x.expected,
				     x.expecteds, x.label, k->c->diags)
			   : st;
}

static enum ht_status take_samples(struct comparing *k)
{
	size_t n = sample_set_runs(k->set.samples);
	struct progress p;
	enum ht_status st = HT_OK;

	progress_begin(&p, k->c, "sample");
	for (size_t i = 0; i < n && st == HT_OK; i++) {
		st = take_sample(k);
		progress_at(&p, i + 1, n);
	}
	progress_end(&p);
	return st;
}

/* ---- nodes ---- */

static enum ht_status take_nodes(struct comparing *k, struct sample_set *samples)
{
	size_t n = sample_set_runs(samples);
	struct progress p;
	enum ht_status st = HT_OK;

	progress_begin(&p, k->c, "sample's nodes");
	for (size_t i = 0; i < n && st == HT_OK; i++) {
		const struct ht_array *in;
		const char *where;

		st = sample_set_next(samples, &in, &where);
		if (st == HT_OK)
			st = ht_comparison_nodes_sample(k->comparison, where, in,
				ht_program_inputs(ht_comparison_program(k->comparison)),
				k->c->diags);
		progress_at(&p, i + 1, n);
	}
	progress_end(&p);
	return st;
}

/* Compares the nodes of one policy on the samples that its outputs were compared on. */
static enum ht_status compare_nodes_of(struct comparing *k, size_t policy)
{
	struct sample_set *samples = NULL;
	enum ht_status st = ht_comparison_nodes(k->comparison, policy_name(k->c, policy),
		k->policy[policy], k->nodes_memory, k->c->diags);

	if (st == HT_OK)
		st = labelled_set_samples(&k->set, &samples);
	if (st == HT_OK)
		st = take_nodes(k, samples);
	sample_set_close(samples);
	return st;
}

/* Skips policies that could not be compiled. */
static enum ht_status compare_nodes(struct comparing *k)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; option_on(k->c, OPTION_NODES) && i < k->policies && st == HT_OK; i++)
		if (!k->failed[i])
			st = compare_nodes_of(k, i);
	if (st == HT_OK)
		st = ht_comparison_nodes(k->comparison, NULL, NULL, 0, k->c->diags);
	return st;
}

static enum ht_status put_node_data(struct comparing *k)
{
	const struct ht_comparison *one = k->comparison;
	const char *path = option(k->c, OPTION_NODE_DATA, NULL);
	struct ht_bytes b;
	enum ht_status st;

	if (!path)
		return HT_OK;
	st = ht_comparison_print(&one, 1, HT_COMPARISON_NODE_DATA, NULL, k->c->diags, &b);
	if (st == HT_OK)
		st = ht_file_write(path, b.p, b.n, k->c->diags);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status measure(struct comparing *k)
{
	struct progress p;
	enum ht_status st = HT_OK;

	progress_begin(&p, k->c, "round");
	for (long long i = 0; i < k->runs && st == HT_OK; i++) {
		st = ht_comparison_time(k->comparison, 1, k->c->diags);
		progress_at(&p, (size_t)i + 1, (size_t)k->runs);
	}
	progress_end(&p);
	return st;
}

/* ---- the report ---- */

static enum ht_status put_report(struct comparing *k)
{
	const char *path = option(k->c, OPTION_OUTPUT, "-");
	const struct ht_comparison *one = k->comparison;
	struct text command = { 0 };
	struct ht_bytes b;
	enum ht_status st;

	text_command(&command, k->c);
	st = ht_comparison_print(&one, 1, k->form, command.p, k->c->diags, &b);
	free(command.p);
	if (st == HT_OK)
		st = strcmp(path, "-") ? ht_file_write(path, b.p, b.n, k->c->diags)
				       : print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status compare(struct comparing *k)
{
	enum ht_status st = check_options(k);

	if (st == HT_OK)
		st = load_configs(k->c);
	if (st == HT_OK)
		st = open_policies(k);
	if (st == HT_OK)
		st = open_model(k->c, &k->model);
	if (st == HT_OK)
		st = start(k);
	if (st == HT_OK)
		st = labelled_set_open(k->c, ht_comparison_program(k->comparison),
			ht_comparison_rows(k->comparison), &k->set);
	if (st == HT_OK)
		st = add_policies(k);
	if (st == HT_OK)
		st = take_samples(k);
	if (st == HT_OK)
		st = measure(k);
	if (st == HT_OK)
		st = compare_nodes(k);
	if (st == HT_OK)
		st = put_report(k);
	if (st == HT_OK)
		st = put_node_data(k);
	return st == HT_OK ? ht_comparison_verdict(k->comparison, k->c->diags) : st;
}

enum ht_status verb_compare(struct cli *c)
{
	struct comparing k = { .c = c };
	enum ht_status st;

	if (c->other)
		return compare_dumps(c);
	st = compare(&k);
	labelled_set_close(&k.set);
	ht_comparison_free(k.comparison);
	for (size_t i = 0; k.policy && i < k.policies; i++)
		ht_policy_free(k.policy[i]);
	free(k.policy);
	free(k.failed);
	ht_model_free(k.model);
	return st;
}
