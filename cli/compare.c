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
	struct ht_value_info *in, *out, label;
	int64_t label_dim[32];
	struct sample_set *samples, *reference, *labels;
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

static bool is_array_file(const char *s)
{
	size_t n = strlen(s);

	return n > 4 && (!strcmp(s + n - 4, ".npz") || !strcmp(s + n - 4, ".npy"));
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
	const char *reference = option(c, OPTION_REFERENCE, "f32");
	enum ht_status st = form_of(c, &k->form);

	if (st == HT_OK)
		st = option_number(c, OPTION_THREADS, 1, 1, 1024, &k->threads);
	if (st == HT_OK)
		st = option_number(c, OPTION_RUNS, 10, 0, 1000000, &k->runs);
	if (st != HT_OK)
		return st;
	if (strcmp(reference, "f32") != 0 && !is_array_file(reference))
		return fail(HT_E_USAGE, "--reference: '%s' is neither f32 nor a .npz or .npy file",
			reference);
	if (option_on(c, OPTION_LABELS) && !option_on(c, OPTION_METRIC))
		return refuse(c, "--labels have no effect without --metric");
	return check_nodes(k);
}

/* ---- the comparison ---- */

static enum ht_status start(struct comparing *k)
{
	struct ht_comparison_options opt = HT_COMPARISON_OPTIONS_INIT;
	struct ht_compile_options compile = HT_COMPILE_OPTIONS_INIT;
	struct cli *c = k->c;

	compile.target = option(c, OPTION_TARGET, NULL);
	compile.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	compile.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	compile.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	compile.threads = (int)k->threads;
	opt.compile = &compile;
	opt.reference = is_array_file(option(c, OPTION_REFERENCE, "f32")) ? "given" : "f32";
	opt.metric = option(c, OPTION_METRIC, NULL);
	opt.tolerance = c->option[OPTION_TOL].value;
	opt.tolerances = c->option[OPTION_TOL].n;
	return ht_comparison_new(k->model, &opt, c->diags, &k->comparison);
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

static void describe(struct comparing *k)
{
	const struct ht_program *p = ht_comparison_program(k->comparison);

	k->in = must_alloc(ht_program_inputs(p) * sizeof *k->in);
	k->out = must_alloc(ht_program_outputs(p) * sizeof *k->out);
	for (size_t i = 0; i < ht_program_inputs(p); i++)
		ht_program_input(p, i, &k->in[i]);
	for (size_t i = 0; i < ht_program_outputs(p); i++)
		ht_program_output(p, i, &k->out[i]);
}

static enum ht_status open_set(struct comparing *k, const char *option_name,
	const struct ht_value_info *v, size_t n,
	bool (*named)(const struct ht_program *p, const char *name, size_t *i), const char *value,
	struct sample_set **out)
{
	struct wanted w = { option_name, v, n, named, ht_comparison_program(k->comparison),
		.any_float = v == k->out };
	enum ht_status st = sample_set_open(&w, value, out);

	if (st == HT_OK && k->samples && sample_set_runs(*out) != sample_set_runs(k->samples))
		return fail(HT_E_INPUT, "%s: '%s' has %zu samples, --samples has %zu", option_name,
			value, sample_set_runs(*out) * ht_comparison_rows(k->comparison),
			sample_set_runs(k->samples) * ht_comparison_rows(k->comparison));
	return st;
}

static bool input_named(const struct ht_program *p, const char *name, size_t *i)
{
	return ht_program_input_named(p, name, i);
}

static bool output_named(const struct ht_program *p, const char *name, size_t *i)
{
	return ht_program_output_named(p, name, i);
}

static const char *samples_option(const struct comparing *k)
{
	return option(k->c, OPTION_SAMPLES, "4:1");
}

static enum ht_status open_samples(struct comparing *k, struct sample_set **out)
{
	return open_set(k, "--samples", k->in,
		ht_program_inputs(ht_comparison_program(k->comparison)), input_named,
		samples_option(k), out);
}

/* A label has any type, and any shape behind its first dimension. */
static enum ht_status open_labels(struct comparing *k)
{
	const char *path = option(k->c, OPTION_LABELS, NULL);
	size_t rows = ht_comparison_rows(k->comparison);
	struct npy_head h;
	enum ht_status st;

	if (!path)
		return HT_OK;
	st = npy_head_of(path, &h);
	if (st != HT_OK)
		return st;
	if (h.rank < 1 || h.dim[0] != (int64_t)(sample_set_runs(k->samples) * rows))
		return fail(HT_E_INPUT, "--labels: '%s' has %lld labels, --samples has %zu samples",
			path, h.rank < 1 ? 1LL : (long long)h.dim[0],
			sample_set_runs(k->samples) * rows);
	memcpy(k->label_dim, h.dim, sizeof k->label_dim);
	k->label_dim[0] = (int64_t)rows;
	k->label = (struct ht_value_info){
		.name = "the labels", .dtype = h.dtype, .rank = h.rank, .dim = k->label_dim
	};
	return open_set(k, "--labels", &k->label, 1, input_named, path, &k->labels);
}

static enum ht_status open_sets(struct comparing *k)
{
	const struct ht_program *p = ht_comparison_program(k->comparison);
	const char *samples = samples_option(k), *reference = option(k->c, OPTION_REFERENCE, "f32");
	enum ht_status st;

	describe(k);
	st = open_samples(k, &k->samples);
	if (st == HT_OK && is_array_file(reference))
		st = open_set(k, "--reference", k->out, ht_program_outputs(p), output_named,
			reference, &k->reference);
	if (st == HT_OK)
		st = open_labels(k);
	if (st == HT_OK && is_sample_count(samples))
		note(k->c, "the samples are random: %zu, seed %s", sample_set_runs(k->samples),
			strchr(samples, ':') ? strchr(samples, ':') + 1 : "1");
	return st;
}

static enum ht_status take_sample(struct comparing *k, size_t number)
{
	const struct ht_program *p = ht_comparison_program(k->comparison);
	const struct ht_array *in, *expected = NULL, *label = NULL;
	struct text name = { 0 };
	const char *where, *other;
	enum ht_status st = sample_set_next(k->samples, &in, &where);

	if (st == HT_OK && k->reference)
		st = sample_set_next(k->reference, &expected, &other);
	if (st == HT_OK && k->labels)
		st = sample_set_next(k->labels, &label, &other);
	text_printf(&name, "sample %zu (%s)", number + 1, where);
	if (st == HT_OK)
		st = ht_comparison_sample(k->comparison, name.p, in, ht_program_inputs(p), expected,
			expected ? ht_program_outputs(p) : 0, label, k->c->diags);
	free(name.p);
	return st;
}

static enum ht_status take_samples(struct comparing *k)
{
	size_t n = sample_set_runs(k->samples);
	struct progress p;
	enum ht_status st = HT_OK;

	progress_begin(&p, k->c, "sample");
	for (size_t i = 0; i < n && st == HT_OK; i++) {
		st = take_sample(k, i);
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
		st = open_samples(k, &samples);
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

/* The command line, so that a shell reads it back. */
static void put_command(struct text *t, const struct cli *c)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./=:,+@%-";

	text_printf(t, "halftone");
	for (int i = 0; i < c->words; i++) {
		const char *s = c->word[i];
		bool quote = !*s || s[strspn(s, plain)];
		text_printf(t, quote ? " '" : " ");
		for (; *s; s++)
			text_printf(t, *s == '\'' ? "'\\''" : "%c", *s);
		text_printf(t, quote ? "'" : "");
	}
}

static enum ht_status put_report(struct comparing *k)
{
	const char *path = option(k->c, OPTION_OUTPUT, "-");
	const struct ht_comparison *one = k->comparison;
	struct text command = { 0 };
	struct ht_bytes b;
	enum ht_status st;

	put_command(&command, k->c);
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
		st = open_sets(k);
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
	sample_set_close(k.samples);
	sample_set_close(k.reference);
	sample_set_close(k.labels);
	ht_comparison_free(k.comparison);
	for (size_t i = 0; k.policy && i < k.policies; i++)
		ht_policy_free(k.policy[i]);
	free(k.policy);
	free(k.failed);
	free(k.in);
	free(k.out);
	ht_model_free(k.model);
	return st;
}
