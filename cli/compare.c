/* halftone compare: policies of one or several models, on the same samples, against a reference. */
#include "cli/cli.h"

#include <halftone/compare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the models of the command line. */
struct compared_model {
	const char *path;
	struct ht_model *model;
	struct ht_comparison *comparison;
	bool *failed; /* by policy: whether it could not be compiled */
	struct labelled_set set;
};

struct comparing {
	struct cli *c;
	struct compared_model *model;
	size_t models;
	struct ht_policy **policy;
	size_t policies;
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

/* Opens all policies of --policy; there is an error for each one that cannot be opened. */
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
	if (option_on(k->c, OPTION_NODE_DATA) && k->c->results > 1)
		return fail(HT_E_USAGE,
			"--node-data: the file has the nodes of one model, %zu are stated",
			k->c->results);
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

static enum ht_status start(struct comparing *k, struct compared_model *m)
{
	struct comparison_setting setting;

	comparison_settings(k->c, k->threads, &setting);
	return ht_comparison_new(m->model, &setting.options, k->c->diags, &m->comparison);
}

/* If a policy cannot be compiled, the report says so, and the others are still compared. */
static enum ht_status add_policies(struct comparing *k, struct compared_model *m)
{
	for (size_t i = 0; i < k->policies; i++) {
		enum ht_status st = ht_comparison_add(
			m->comparison, policy_name(k->c, i), k->policy[i], k->c->diags);
		if (st == HT_E_USAGE || st == HT_E_ENVIRONMENT)
			return st;
		m->failed[i] = st != HT_OK;
	}
	return HT_OK;
}

static enum ht_status take_sample(struct comparing *k, struct compared_model *m)
{
	struct labelled_sample x;
	enum ht_status st = labelled_set_next(&m->set, &x);

	return st == HT_OK ? ht_comparison_sample(m->comparison, x.where, x.in, x.ins, x.expected,
				     x.expecteds, x.label, k->c->diags)
			   : st;
}

static enum ht_status take_samples(struct comparing *k, struct compared_model *m)
{
	size_t n = sample_set_runs(m->set.samples);
	struct progress p;
	enum ht_status st = HT_OK;

	progress_begin(&p, k->c, "sample");
	for (size_t i = 0; i < n && st == HT_OK; i++) {
		st = take_sample(k, m);
		progress_at(&p, i + 1, n);
	}
	progress_end(&p);
	return st;
}

/* ---- nodes ---- */

static enum ht_status take_nodes(
	struct comparing *k, struct compared_model *m, struct sample_set *samples)
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
			st = ht_comparison_nodes_sample(m->comparison, where, in,
				ht_program_inputs(ht_comparison_program(m->comparison)),
				k->c->diags);
		progress_at(&p, i + 1, n);
	}
	progress_end(&p);
	return st;
}

/* Compares the nodes of one policy on the samples that its outputs were compared on. */
static enum ht_status compare_nodes_of(struct comparing *k, struct compared_model *m, size_t policy)
{
	struct sample_set *samples = NULL;
	enum ht_status st = ht_comparison_nodes(m->comparison, policy_name(k->c, policy),
		k->policy[policy], k->nodes_memory, k->c->diags);

	if (st == HT_OK)
		st = labelled_set_samples(&m->set, &samples);
	if (st == HT_OK)
		st = take_nodes(k, m, samples);
	sample_set_close(samples);
	return st;
}

/* Skips policies that could not be compiled. */
static enum ht_status compare_nodes(struct comparing *k, struct compared_model *m)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; option_on(k->c, OPTION_NODES) && i < k->policies && st == HT_OK; i++)
		if (!m->failed[i])
			st = compare_nodes_of(k, m, i);
	if (st == HT_OK)
		st = ht_comparison_nodes(m->comparison, NULL, NULL, 0, k->c->diags);
	return st;
}

static enum ht_status measure(struct comparing *k, struct compared_model *m)
{
	struct progress p;
	enum ht_status st = HT_OK;

	progress_begin(&p, k->c, "round");
	for (long long i = 0; i < k->runs && st == HT_OK; i++) {
		st = ht_comparison_time(m->comparison, 1, k->c->diags);
		progress_at(&p, (size_t)i + 1, (size_t)k->runs);
	}
	progress_end(&p);
	return st;
}

/* ---- several models ---- */

static enum ht_status compare_model(struct comparing *k, struct compared_model *m)
{
	enum ht_status st;

	k->c->model = m->path;
	memset(k->c->open, 0, sizeof k->c->open); /* --input-shape is read for each model */
	m->failed = must_alloc(k->policies * sizeof *m->failed);
	st = open_model(k->c, &m->model);
	if (st == HT_OK)
		st = start(k, m);
	if (st == HT_OK)
		st = labelled_set_open(k->c, m->model, ht_comparison_program(m->comparison),
			ht_comparison_rows(m->comparison), &m->set);
	if (st == HT_OK)
		st = add_policies(k, m);
	if (st == HT_OK)
		st = take_samples(k, m);
	if (st == HT_OK)
		st = measure(k, m);
	if (st == HT_OK)
		st = compare_nodes(k, m);
	labelled_set_close(&m->set);
	return st;
}

/* Replaces the model's comparison by its error, the last one that was printed. */
static enum ht_status keep_error(struct comparing *k, struct compared_model *m, enum ht_status st)
{
	ht_comparison_free(m->comparison);
	m->comparison = NULL;
	return ht_comparison_failed(m->path, st, last_error(), k->c->diags, &m->comparison);
}

/* If one of several models fails, the report has its error, and the others are still compared. */
static enum ht_status compare_models(struct comparing *k)
{
	enum ht_status st = HT_OK;

	k->models = k->c->results;
	k->model = must_alloc(k->models * sizeof *k->model);
	for (size_t i = 0; i < k->models; i++)
		k->model[i].path = k->c->result[i];
	for (size_t i = 0; i < k->models && st == HT_OK; i++) {
		st = compare_model(k, &k->model[i]);
		if (st != HT_OK && k->models > 1)
			st = keep_error(k, &k->model[i], st);
	}
	return st;
}

/* ---- the report ---- */

/* An array of all comparisons; the caller frees it. */
static const struct ht_comparison **comparisons(const struct comparing *k)
{
	const struct ht_comparison **all = must_alloc(k->models * sizeof *all);

	for (size_t i = 0; i < k->models; i++)
		all[i] = k->model[i].comparison;
	return all;
}

static enum ht_status put_node_data(struct comparing *k)
{
	const struct ht_comparison *one = k->model->comparison;
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

static enum ht_status put_report(struct comparing *k)
{
	const char *path = option(k->c, OPTION_OUTPUT, "-");
	const struct ht_comparison **all = comparisons(k);
	struct text command = { 0 };
	struct ht_bytes b;
	enum ht_status st;

	text_command(&command, k->c);
	st = ht_comparison_print(all, k->models, k->form, command.p, k->c->diags, &b);
	free(command.p);
	free(all);
	if (st == HT_OK)
		st = strcmp(path, "-") ? ht_file_write(path, b.p, b.n, k->c->diags)
				       : print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}

static enum ht_status verdict(struct comparing *k)
{
	enum ht_status worst = HT_OK;

	for (size_t i = 0; i < k->models; i++)
		worst = ht_worse_status(
			worst, ht_comparison_verdict(k->model[i].comparison, k->c->diags));
	return worst;
}

static enum ht_status compare(struct comparing *k)
{
	enum ht_status st = check_options(k);

	if (st == HT_OK)
		st = load_configs(k->c);
	if (st == HT_OK)
		st = open_policies(k);
	if (st == HT_OK)
		st = compare_models(k);
	if (st == HT_OK)
		st = put_report(k);
	if (st == HT_OK)
		st = put_node_data(k);
	return st == HT_OK ? verdict(k) : st;
}

static void close_model(struct compared_model *m)
{
	labelled_set_close(&m->set);
	ht_comparison_free(m->comparison);
	free(m->failed);
	ht_model_free(m->model);
}

enum ht_status verb_compare(struct cli *c)
{
	struct comparing k = { .c = c };
	enum ht_status st;

	if (c->results == 2 && are_dumps(c->result[0], c->result[1]))
		return compare_dumps(c);
	st = compare(&k);
	for (size_t i = 0; i < k.models; i++)
		close_model(&k.model[i]);
	free(k.model);
	for (size_t i = 0; k.policy && i < k.policies; i++)
		ht_policy_free(k.policy[i]);
	free(k.policy);
	return st;
}
