/* halftone aot: a model as an object, libraries and a header. */
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct nets {
	struct option_list targets;
	struct ht_program *program[MOST_LISTED];
	size_t n;
};

/* The name of the model's file without folders and suffix, with only characters that are valid
 * in file names and in C. */
static char *default_name(const char *model)
{
	size_t end = strlen(model), begin, dot;
	char *name;

	while (end > 1 && model[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && model[begin - 1] != '/';)
		begin--;
	for (dot = end; dot > begin && model[dot - 1] != '.';)
		dot--;
	if (dot > begin + 1)
		end = dot - 1;
	name = strndup(model + begin, end - begin);
	for (char *s = name; s && *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *s))
			*s = '_';
	return name;
}

static enum ht_status compile(struct cli *c, struct nets *t)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	if (st == HT_OK && !t->targets.n && option_on(c, OPTION_STRICT_TARGET))
		st = fail(HT_E_USAGE, "no target stated; see halftone targets");
	if (st == HT_OK)
		st = open_policy(c, &p);
	if (st == HT_OK)
		st = open_model(c, &m);
	if (st == HT_OK && !t->targets.n)
		note(c, "no target stated: code for this machine");
	opt.policy = p;
	opt.block_method = option(c, OPTION_BLOCK_METHOD, NULL);
	opt.batch_method = option(c, OPTION_BATCH_METHOD, NULL);
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	opt.threads = (int)threads;
	do {
		opt.target = t->targets.n ? t->targets.item[t->n] : NULL;
		if (st == HT_OK)
			st = compile_shown(c, m, &opt, &t->program[t->n++]);
	} while (st == HT_OK && t->n < t->targets.n);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

static enum ht_status write_net(struct cli *c, const struct nets *t, enum ht_format format)
{
	struct ht_aot_options opt = HT_AOT_OPTIONS_INIT;
	char *name = default_name(c->model);
	struct ht_bytes b = { 0 };
	enum ht_status st = external_weight(c, &opt.external_weights);
	long long iterations = 0;

	if (st == HT_OK)
		st = option_number(c, OPTION_MAX_ITERATIONS, 0, 1, LLONG_MAX, &iterations);
	opt.max_iterations = (uint64_t)iterations;
	opt.name = option(c, OPTION_NAME, name);
	opt.prefix = option(c, OPTION_PREFIX, NULL);
	opt.keep_subnormals = option_on(c, OPTION_KEEP_SUBNORMALS);
	if (st == HT_OK)
		st = ht_aot_write((const struct ht_program *const *)t->program, t->n, &opt,
			option(c, OPTION_OUTPUT, NULL), format, c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	free(name);
	return st;
}

enum ht_status verb_aot(struct cli *c)
{
	struct nets t = { .n = 0 };
	enum ht_format format;
	bool is_artefact = ht_is_artefact(c->model);
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK && !option_on(c, OPTION_OUTPUT))
		st = fail(HT_E_USAGE, "halftone aot needs -o FOLDER");
	/* As elsewhere, the target from the environment does not select variants. */
	if (st == HT_OK && (!is_artefact || option_on(c, OPTION_TARGET)))
		st = option_list(c, OPTION_TARGET, &t.targets);
	if (st == HT_OK)
		st = is_artefact ? open_variants(c, &t.targets, t.program, MOST_LISTED, &t.n)
				 : compile(c, &t);
	if (st == HT_OK)
		st = write_net(c, &t, format);
	while (t.n)
		ht_program_free(t.program[--t.n]);
	free(t.targets.text);
	return st;
}
