/* halftone aot: a model as an object, libraries and a header. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TARGETS = 16 };

struct targets {
	char *text;
	const char *name[MAX_TARGETS];
	struct ht_program *program[MAX_TARGETS];
	size_t n;
};

/* The names of --target; without it this machine. */
static enum ht_status split_targets(struct cli *c, struct targets *t)
{
	const char *list = option(c, OPTION_TARGET, NULL);
	char *save = NULL;

	if (!list && option_on(c, OPTION_STRICT_TARGET))
		return fail(HT_E_USAGE, "no target stated; see halftone targets");
	if (!list)
		note(c, "no target stated: code for this machine");
	t->text = strdup(list ? list : "host");
	if (!t->text)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	for (char *s = strtok_r(t->text, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		if (t->n == MAX_TARGETS)
			return fail(HT_E_USAGE, "--target: more than %d targets", MAX_TARGETS);
		t->name[t->n++] = s;
	}
	return t->n ? HT_OK : fail(HT_E_USAGE, "--target: there is no name in '%s'", list);
}

/* The model's file without folders and suffix, as a name that files and C can have. */
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

static enum ht_status compile_all(struct cli *c, struct targets *t)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	long long threads;
	enum ht_status st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);

	if (st == HT_OK)
		st = open_policy(c, &p);
	if (st == HT_OK)
		st = open_model(c, &m);
	opt.policy = p;
	opt.conv_method = option(c, OPTION_CONV_METHOD, NULL);
	opt.threads = (int)threads;
	for (size_t i = 0; i < t->n && st == HT_OK; i++) {
		opt.target = t->name[i];
		st = ht_compile(m, &opt, c->diags, &t->program[i]);
	}
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}

static enum ht_status write_net(struct cli *c, const struct targets *t, enum ht_format format)
{
	struct ht_aot_options opt = HT_AOT_OPTIONS_INIT;
	char *name = default_name(c->model);
	struct ht_bytes b = { 0 };
	enum ht_status st;

	opt.name = option(c, OPTION_NAME, name);
	opt.prefix = option(c, OPTION_PREFIX, NULL);
	opt.external_weights = option_on(c, OPTION_WEIGHTS_FILE);
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
	struct targets t = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK && !option_on(c, OPTION_OUTPUT))
		st = fail(HT_E_USAGE, "halftone aot needs -o FOLDER");
	if (st == HT_OK)
		st = split_targets(c, &t);
	if (st == HT_OK)
		st = compile_all(c, &t);
	if (st == HT_OK)
		st = write_net(c, &t, format);
	for (size_t i = 0; i < t.n; i++)
		ht_program_free(t.program[i]);
	free(t.text);
	return st;
}
