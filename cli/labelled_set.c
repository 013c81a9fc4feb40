/* The data set of compare and search: samples, with expected outputs and labels if the options state them. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static bool is_array_file(const char *s)
{
	size_t n = strlen(s);

	return n > 4 && (!strcmp(s + n - 4, ".npz") || !strcmp(s + n - 4, ".npy"));
}

enum ht_status labelled_set_check(const struct cli *c)
{
	const char *reference = option(c, OPTION_REFERENCE, "f32");

	if (strcmp(reference, "f32") && strcmp(reference, "f64") &&
		strcmp(reference, "tensorflow") && !is_array_file(reference))
		return fail(HT_E_USAGE,
			"--reference: '%s' is neither f32 nor f64 nor tensorflow nor a .npz or .npy file",
			reference);
	if (!strcmp(reference, "tensorflow") && option_on(c, OPTION_FLOAT64))
		return fail(HT_E_USAGE,
			"--reference tensorflow computes the model as it is, not the variant of --float64");
	if (option_on(c, OPTION_LABELS) && !option_on(c, OPTION_METRIC))
		return refuse(c, "--labels have no effect without --metric");
	return HT_OK;
}

void comparison_settings(const struct cli *c, long long threads, struct comparison_setting *s)
{
	s->compile = (struct ht_compile_options)HT_COMPILE_OPTIONS_INIT;
	s->compile.target = option(c, OPTION_TARGET, NULL);
	s->compile.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	s->compile.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	s->compile.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	s->compile.threads = (int)threads;
	s->options = (struct ht_comparison_options)HT_COMPARISON_OPTIONS_INIT;
	s->options.compile = &s->compile;
	s->options.reference = option(c, OPTION_REFERENCE, "f32");
	if (is_array_file(s->options.reference) || !strcmp(s->options.reference, "tensorflow"))
		s->options.reference = "given";
	s->options.metric = option(c, OPTION_METRIC, NULL);
	s->options.tolerance = c->option[OPTION_TOL].value;
	s->options.tolerances = c->option[OPTION_TOL].n;
}

/* ---- opening ---- */

static void describe(struct labelled_set *k)
{
	const struct ht_program *p = k->program;

	k->in = must_alloc(ht_program_inputs(p) * sizeof *k->in);
	k->out = must_alloc(ht_program_outputs(p) * sizeof *k->out);
	for (size_t i = 0; i < ht_program_inputs(p); i++)
		ht_program_input(p, i, &k->in[i]);
	for (size_t i = 0; i < ht_program_outputs(p); i++)
		ht_program_output(p, i, &k->out[i]);
}

static enum ht_status open_set(const struct labelled_set *k, const char *option_name,
	const struct ht_value_info *v, size_t n,
	bool (*named)(const struct ht_program *p, const char *name, size_t *i), const char *value,
	struct sample_set **out)
{
	struct wanted w = { option_name, v, n, named, k->program, .any_float = v == k->out };
	enum ht_status st = sample_set_open(&w, value, out);

	if (st == HT_OK && k->samples && sample_set_runs(*out) != sample_set_runs(k->samples))
		return fail(HT_E_INPUT, "%s: '%s' has %zu samples, --samples has %zu", option_name,
			value, sample_set_runs(*out) * k->rows,
			sample_set_runs(k->samples) * k->rows);
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

static const char *samples_option(const struct cli *c)
{
	return option(c, OPTION_SAMPLES, "4:1");
}

bool labelled_set_is_random(const struct cli *c)
{
	return is_sample_count(samples_option(c));
}

enum ht_status labelled_set_samples(const struct labelled_set *k, struct sample_set **out)
{
	return open_set(k, "--samples", k->in, ht_program_inputs(k->program), input_named,
		samples_option(k->c), out);
}

/* A label may have any type, and any shape behind its first dimension. */
static enum ht_status open_labels(struct labelled_set *k)
{
	const char *path = option(k->c, OPTION_LABELS, NULL);
	struct npy_head h;
	enum ht_status st;

	if (!path)
		return HT_OK;
	st = npy_head_of(path, &h);
	if (st != HT_OK)
		return st;
	if (h.rank < 1 || h.dim[0] != (int64_t)(sample_set_runs(k->samples) * k->rows))
		return fail(HT_E_INPUT, "--labels: '%s' has %lld labels, --samples has %zu samples",
			path, h.rank < 1 ? 1LL : (long long)h.dim[0],
			sample_set_runs(k->samples) * k->rows);
	memcpy(k->label_dim, h.dim, sizeof k->label_dim);
	k->label_dim[0] = (int64_t)k->rows;
	k->label = (struct ht_value_info){
		.name = "the labels", .dtype = h.dtype, .rank = h.rank, .dim = k->label_dim
	};
	return open_set(k, "--labels", &k->label, 1, input_named, path, &k->labels);
}

enum ht_status labelled_set_open(struct cli *c, const struct ht_model *m,
	const struct ht_program *p, size_t rows, struct labelled_set *k)
{
	const char *reference = option(c, OPTION_REFERENCE, "f32");
	enum ht_status st;

	k->c = c;
	k->model = m;
	k->program = p;
	k->rows = rows;
	describe(k);
	st = labelled_set_samples(k, &k->samples);
	if (st == HT_OK && is_array_file(reference))
		st = open_set(k, "--reference", k->out, ht_program_outputs(p), output_named,
			reference, &k->reference);
	if (st == HT_OK && !strcmp(reference, "tensorflow") && !k->oracle)
		st = oracle_open(c, m, p, &k->oracle);
	if (st == HT_OK)
		st = open_labels(k);
	if (st == HT_OK && labelled_set_is_random(c) && !k->again)
		note(c, "the samples are random: %zu, seed %s", sample_set_runs(k->samples),
			strchr(samples_option(c), ':') ? strchr(samples_option(c), ':') + 1 : "1");
	return st;
}

enum ht_status labelled_set_rewind(struct labelled_set *k)
{
	struct labelled_set before = *k;

	k->oracle = NULL;
	labelled_set_close(k);
	k->again = true;
	k->oracle = before.oracle;
	return labelled_set_open(before.c, before.model, before.program, before.rows, k);
}

/* ---- samples ---- */

enum ht_status labelled_set_next(struct labelled_set *k, struct labelled_sample *out)
{
	struct text name = { 0 };
	const char *where, *other;
	enum ht_status st;

	*out = (struct labelled_sample){ .ins = ht_program_inputs(k->program) };
	st = sample_set_next(k->samples, &out->in, &where);
	if (st == HT_OK && k->reference) {
		st = sample_set_next(k->reference, &out->expected, &other);
		out->expecteds = ht_program_outputs(k->program);
	}
	if (st == HT_OK && k->oracle) {
		st = oracle_run(k->oracle, out->in, &out->expected);
		out->expecteds = ht_program_outputs(k->program);
	}
	if (st == HT_OK && k->labels)
		st = sample_set_next(k->labels, &out->label, &other);
	text_printf(&name, "sample %zu (%s)", ++k->taken, where);
	free(k->where);
	out->where = k->where = name.p;
	return st;
}

void labelled_set_close(struct labelled_set *k)
{
	sample_set_close(k->samples);
	sample_set_close(k->reference);
	sample_set_close(k->labels);
	oracle_close(k->oracle);
	free(k->in);
	free(k->out);
	free(k->where);
	*k = (struct labelled_set){ 0 };
}

/* ---- the command line ---- */

void text_word(struct text *t, const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./=:,+@%-";
	bool quote = !*s || s[strspn(s, plain)];

	text_printf(t, quote ? " '" : " ");
	for (; *s; s++)
		text_printf(t, *s == '\'' ? "'\\''" : "%c", *s);
	text_printf(t, quote ? "'" : "");
}

void text_command(struct text *t, const struct cli *c)
{
	text_printf(t, "halftone");
	for (int i = 0; i < c->words; i++)
		text_word(t, c->word[i]);
}
