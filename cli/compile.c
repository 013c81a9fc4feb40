/* halftone compile: an artefact with a variant of each policy, target and set of shapes; or a stage. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = MOST_LISTED };

enum ht_status option_list(const struct cli *c, enum option o, struct option_list *out)
{
	const char *s = option(c, o, NULL);
	char *save = NULL;

	memset(out, 0, sizeof *out);
	if (!s)
		return HT_OK;
	out->text = strdup(s);
	if (!out->text)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	for (char *item = strtok_r(out->text, ",", &save); item;
		item = strtok_r(NULL, ",", &save)) {
		if (out->n == MOST)
			return fail(HT_E_LIMIT, "--%s: more than %d", option_rows[o].name, MOST);
		out->item[out->n++] = item;
	}
	if (!out->n)
		return fail(HT_E_USAGE, "--%s: '%s' lists nothing", option_rows[o].name, s);
	return HT_OK;
}

/* The number of values to compile for: one if the option was not stated. */
static size_t rounds(const struct option_list *l)
{
	return l->n ? l->n : 1;
}

static const char *item(const struct option_list *l, size_t i)
{
	return l->n ? l->item[i] : NULL;
}

static enum ht_status batch_of(const struct option_list *l, size_t i, long long *out)
{
	const char *s = item(l, i);
	char *end;

	*out = 0;
	if (!s)
		return HT_OK;
	*out = strtoll(s, &end, 10);
	if (*end || *out < 1 || *out > 1 << 20)
		return fail(HT_E_USAGE, "--batch: '%s' is no number from 1 to %d", s, 1 << 20);
	return HT_OK;
}

/* ---- output ---- */

static void put_sizes(const struct cli *c, const struct ht_program_info *i, struct text *t)
{
	text_printf(t,
		"%s: target %s, policy %s: %zu steps, %zu kernels, %zu bytes of code, "
		"%zu of weights, %zu of arena\n",
		c->model, i->target, i->policy, i->steps, i->kernels, i->code_bytes,
		i->weight_bytes, i->arena_bytes);
}

static void put_members(const struct ht_program_info *i, struct text *t)
{
	text_printf(t,
		"\"policy\": \"%s\",\n \"target\": \"%s\",\n \"float_nodes\": %zu,\n"
		" \"low_nodes\": %zu,\n \"casts\": %zu,\n \"steps\": %zu,\n \"kernels\": %zu,\n"
		" \"code_bytes\": %zu,\n \"weight_bytes\": %zu,\n \"arena_bytes\": %zu,\n ",
		i->policy, i->target, i->float_nodes, i->low_nodes, i->casts, i->steps, i->kernels,
		i->code_bytes, i->weight_bytes, i->arena_bytes);
	text_without_effect(t, i);
}

struct variants {
	struct cli *c;
	struct ht_compile_options opt;
	struct option_list policies, targets, batches;
	struct ht_policy *policy[MOST];    /* from `policies`; NULL: no policy is named */
	struct ht_artefact_writer *writer; /* NULL: no file is written */
	const char *path;                  /* of the file */
	enum ht_format format;
	struct text about; /* about the variants compiled so far */
	size_t n, all;     /* how many were compiled, of how many */
	struct entries entries;
};

static void put_variant(struct variants *v, const struct ht_program *p)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;

	ht_program_about(p, &info);
	if (v->format == HT_FORMAT_TEXT) {
		if (v->entries.name)
			text_printf(&v->about, "%s: ", v->entries.name);
		put_sizes(v->c, &info, &v->about);
		return;
	}
	text_printf(&v->about, v->all == 1 ? "" : v->n ? "},\n {" : "\n {");
	if (v->entries.name) {
		text_printf(&v->about, "\"entry\": ");
		text_json(&v->about, v->entries.name);
		text_printf(&v->about, ",\n ");
	}
	put_members(&info, &v->about);
}

static enum ht_status print(const struct variants *v)
{
	struct text t = { 0 };

	if (v->format == HT_FORMAT_JSON) {
		text_printf(&t, "{\"schema\": \"halftone.compile/1\",\n \"model\": ");
		text_json(&t, v->c->model);
		text_printf(&t, v->all > 1 ? ",\n \"variants\": [" : ",\n ");
	}
	text_printf(&t, "%s", v->about.p ? v->about.p : "");
	if (v->format == HT_FORMAT_JSON)
		text_printf(&t, v->all > 1 ? "}]}\n" : "}\n");
	return text_print(&t);
}

/* ---- compiling ---- */

static enum ht_status add_alone(struct variants *v, const struct ht_model *m)
{
	struct ht_program *p;
	enum ht_status st = HT_OK;

	if (v->writer && v->n)
		st = ht_artefact_writer_spill(v->writer, v->path, v->c->diags);
	if (st == HT_OK)
		st = compile_shown(v->c, m, &v->opt, &p);
	if (st != HT_OK)
		return st;
	put_variant(v, p);
	v->n++;
	if (v->writer)
		return ht_artefact_writer_take(v->writer, p, v->c->diags);
	ht_program_free(p);
	return HT_OK;
}

static enum ht_status add(struct variants *v, struct ht_model *m)
{
	const struct ht_program *p;
	enum ht_status st;

	if (!v->entries.name)
		return add_alone(v, m);
	st = entries_add(v->c, &v->entries, m, &v->opt, v->writer, &p);
	if (st != HT_OK)
		return st;
	put_variant(v, p);
	v->n++;
	return HT_OK;
}

static enum ht_status add_targets(struct variants *v, struct ht_model *m)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < rounds(&v->targets) && st == HT_OK; i++) {
		v->opt.target = item(&v->targets, i);
		st = add(v, m);
	}
	return st;
}

static enum ht_status add_policies(struct variants *v, struct ht_model *m)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < rounds(&v->policies) && st == HT_OK; i++) {
		v->opt.policy = v->policy[i];
		st = add_targets(v, m);
	}
	return st;
}

/* If at most one policy is stated, all options together make the policy. */
static enum ht_status open_policies(struct variants *v)
{
	enum ht_status st;

	if (v->policies.n < 2)
		return open_policy(v->c, &v->policy[0]);
	st = load_configs(v->c);
	for (size_t i = 0; i < v->policies.n && st == HT_OK; i++)
		st = open_named_policy(v->c, v->policies.item[i], &v->policy[i]);
	return st;
}

static enum ht_status add_shapes(struct variants *v)
{
	size_t sets = shape_sets(v->c), batches = rounds(&v->batches);
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < sets * batches && st == HT_OK; i++) {
		struct ht_model *m = NULL;
		long long batch;

		st = batch_of(&v->batches, i % batches, &batch);
		if (st == HT_OK)
			st = open_shaped_model(v->c, i / batches, batch, &m);
		if (st == HT_OK)
			st = add_policies(v, m);
		ht_model_free(m);
	}
	return st;
}

static enum ht_status add_all(struct variants *v)
{
	size_t n = v->entries.session ? v->c->option[OPTION_ENTRY].n : 1;
	enum ht_status st = HT_OK;

	v->all = n * shape_sets(v->c) * rounds(&v->batches) * rounds(&v->policies) *
		 rounds(&v->targets);
	for (size_t i = 0; i < n && st == HT_OK; i++) {
		st = entries_begin(v->c, &v->entries, i);
		if (st == HT_OK)
			st = add_shapes(v);
	}
	return st == HT_OK && v->entries.session
		       ? entries_end(v->c, &v->entries, &v->opt, v->writer)
		       : st;
}

enum ht_status external_weight(const struct cli *c, int *out)
{
	static const struct {
		const char *text;
		int how;
	} known[] = { { "0", 0 }, { "false", 0 }, { "1", 1 }, { "true", 1 }, { "2", 2 } };
	const char *s = option(c, OPTION_EXTERNAL, "0");

	for (size_t i = c->settings; i-- > 0 && !option_on(c, OPTION_EXTERNAL);)
		if (!strcmp(c->setting[i].name, "external_weight"))
			s = c->setting[i].value;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(s, known[i].text)) {
			*out = known[i].how;
			return HT_OK;
		}
	return fail(HT_E_USAGE, "--external-weight: '%s' is not 0, 1, 2, true or false", s);
}

/* Without --emit: the programs, written to --output if that is stated, and their sizes. */
static enum ht_status compile(struct cli *c, const struct ht_compile_options *opt)
{
	struct ht_save_options save = HT_SAVE_OPTIONS_INIT;
	const char *path = option(c, OPTION_OUTPUT, NULL);
	struct variants v = { .c = c, .opt = *opt, .path = path };
	enum ht_status st = option_json(c, &v.format);

	if (st == HT_OK)
		st = option_list(c, OPTION_POLICY, &v.policies);
	if (st == HT_OK)
		st = option_list(c, OPTION_TARGET, &v.targets);
	if (st == HT_OK)
		st = option_list(c, OPTION_BATCH, &v.batches);
	if (st == HT_OK)
		st = open_policies(&v);
	if (st == HT_OK)
		st = external_weight(c, &save.external_weight);
	save.sign_key = option(c, OPTION_SIGN_KEY, NULL);
	if (st == HT_OK && (save.external_weight || save.sign_key) && !path)
		st = refuse(c, "--external-weight and --sign-key have no effect without --output");
	if (st == HT_OK && path)
		st = ht_artefact_writer_new(&save, c->diags, &v.writer);
	if (st == HT_OK)
		st = entries_open(c, &v.entries);
	if (st == HT_OK)
		st = add_all(&v);
	if (st == HT_OK && path)
		st = ht_artefact_writer_write(v.writer, path, c->diags);
	if (st == HT_OK && !(path && !strcmp(path, "-")))
		st = print(&v);
	ht_artefact_writer_free(v.writer);
	entries_close(c, &v.entries);
	free(v.about.p);
	for (size_t i = 0; i < MOST; i++)
		ht_policy_free(v.policy[i]);
	free(v.policies.text);
	free(v.targets.text);
	free(v.batches.text);
	return st;
}

static enum ht_status emit(const struct cli *c, const struct ht_model *m,
	const struct ht_compile_options *opt, const char *path, struct ht_bytes *out)
{
	return ht_emit_code(m, opt, option(c, OPTION_EMIT, "hir"),
		option(c, OPTION_STOP_AFTER, NULL), path, c->diags, out);
}

enum ht_status verb_compile(struct cli *c)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	if (st != HT_OK)
		return st;
	opt.target = option(c, OPTION_TARGET, NULL);
	opt.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	opt.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	opt.threads = (int)threads;
	opt.sources = 1;
	if (!opt.target && option_on(c, OPTION_STRICT_TARGET))
		return fail(HT_E_USAGE, "no target stated; see halftone targets");
	if (!opt.target)
		note(c, "no target stated: code for this machine");
	if (option_on(c, OPTION_ENTRY) &&
		(option_on(c, OPTION_EMIT) || option_on(c, OPTION_STOP_AFTER)))
		return fail(HT_E_USAGE,
			"--entry: stages are shown of one program; state its --outputs");
	return option_on(c, OPTION_EMIT) || option_on(c, OPTION_STOP_AFTER)
		       ? put_model(c, &opt, emit)
		       : compile(c, &opt);
}
