/* Parses the command line by the table of options. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SETTINGS 512

const struct option_row option_rows[OPTION_END] = {
#define OPTION(id, name, letter, arg, env, verbs, help)                                            \
	[OPTION_##id] = { name, letter, arg, env, verbs, help },
#include "cli/options.def"
#undef OPTION
};

const struct verb verbs[] = {
	{ "inspect", INSPECT, "MODEL", "inputs, outputs, ops, what is unsupported, size",
		verb_inspect },
	{ "run", RUN, "MODEL", "computes the outputs; compares them with a reference", verb_run },
	{ "bench", BENCH, "MODEL", "measures latency and memory", verb_bench },
	{ "compare", COMPARE, "MODEL...",
		"accuracy, speed and memory of several policies on samples, and a verdict; of two folders of dumps: their tensors, one by one",
		verb_compare },
	{ "search", SEARCH, "MODEL",
		"the fewest nodes that have to stay in float32 for a tolerance, as a policy file",
		verb_search },
	{ "train", TRAIN, "MODEL",
		"trains a graph that has its gradients and its optimizer, on data, with checkpoints",
		verb_train },
	{ "compile", COMPILE, "MODEL",
		"compiles, with -o FILE.htx for later runs; --emit shows a stage", verb_compile },
	{ "aot", AOT, "MODEL",
		"compiles for C and C++ programs: object, libraries, header, without a run time",
		verb_aot },
	{ "sign", SIGN, "MODEL", "signs an artefact: --sign-key KEY.pem", verb_sign },
	{ "diff", DIFF_VERB, "A.htx B.htx", "what differs between two artefacts", verb_diff },
	{ "opt", OPT, "MODEL", "runs named passes and prints the graph", verb_opt },
	{ "cache", CACHE, "ACTION [ARG]",
		"the compile cache: stats, why-miss MODEL, key MODEL, verify, gc, clear, pin, path, "
		"export, import",
		verb_cache },
	{ "convert", CONVERT, "MODEL", "writes the graph, with a policy's casts, as a GraphDef",
		verb_convert },
	{ "explain", EXPLAIN, "MODEL", "what a policy decides", verb_explain },
	{ "report", REPORT, "RESULT.json...",
		"one HTML page of what compare, explain and train found (--format json), and of train's --log",
		verb_report },
	{ "tune", TUNE, "", "measures this machine", verb_tune },
	{ "config", CONFIG, "", "what is set, and where; --classes: what each option does here",
		verb_config },
	{ "atc", ATC, "", "takes the vendor's command line: --model=FILE --framework=3 …",
		verb_atc },
	{ "fusions", LISTS, "", "the fusions that can be switched, and their names", verb_list },
	{ "ops", OPS, "", "the table of ops; --missing MODEL: what of a model has no kernel",
		verb_ops },
	{ "targets", LISTS, "", "the machines to generate code for", verb_list },
	{ "options", LISTS, "", "the options of a policy, in the vendor's words and ours",
		verb_list },
	{ "policies", LISTS, "", "the precision policies", verb_list },
	{ "formats", LISTS, "", "the number formats that policies can round to", verb_list },
	{ "profiles", LISTS, "", "the machines that policies decide for", verb_list },
	{ "help", HELP_VERB, "[VERB]", "how to use the tool or a verb", verb_help },
	{ "completion", COMPLETION, "SHELL",
		"a script that completes command lines: bash, zsh or fish", verb_completion },
	{ "version", VERSION_VERB, "", "the version; --json: of all parts, and the targets",
		verb_version },
	{ 0 },
};

const char *option(const struct cli *c, enum option o, const char *fallback)
{
	const char *env = option_rows[o].env ? getenv(option_rows[o].env) : NULL;

	if (c->option[o].n)
		return c->option[o].value[c->option[o].n - 1];
	return env && *env ? env : fallback;
}

bool option_on(const struct cli *c, enum option o)
{
	return c->option[o].n > 0;
}

enum ht_status option_number(const struct cli *c, enum option o, long long fallback, long long low,
	long long high, long long *out)
{
	const char *s = option(c, o, NULL);
	char *end;

	*out = fallback;
	if (!s)
		return HT_OK;
	errno = 0;
	*out = strtoll(s, &end, 10);
	if (errno || *end || !strspn(s, "-0123456789") || end == s || *out < low || *out > high)
		return fail(HT_E_USAGE, "--%s: '%s' is no number from %lld to %lld",
			option_rows[o].name, s, low, high);
	return HT_OK;
}

enum ht_status option_json(const struct cli *c, enum ht_format *out)
{
	const char *s = option(c, OPTION_FORMAT, "text");

	*out = HT_FORMAT_TEXT;
	if (!strcmp(s, "json"))
		*out = HT_FORMAT_JSON;
	else if (strcmp(s, "text"))
		return fail(HT_E_USAGE, "--format: '%s' is neither text nor json", s);
	return HT_OK;
}

/* ---- parsing ---- */

static const struct verb *verb_named(const char *name)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (!strcmp(v->name, name))
			return v;
	return NULL;
}

static enum ht_status unknown_verb(const char *name)
{
	const char *names[32], *near;
	size_t n = 0;

	for (const struct verb *v = verbs; v->name; v++)
		names[n++] = v->name;
	near = near_name(name, names, n);
	if (near)
		return fail(HT_E_USAGE, "there is no verb '%s'; did you mean '%s'?", name, near);
	return fail(HT_E_USAGE, "there is no verb '%s'; see halftone help", name);
}

/* Compares names; '_' and '-' are equal, since the vendor's spelling has '_'. */
static bool same_name(const char *row, const char *s, size_t n)
{
	if (strlen(row) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (row[i] != s[i] && !(row[i] == '-' && s[i] == '_') &&
			!(row[i] == '_' && s[i] == '-'))
			return false;
	return true;
}

/* If two rows have the name, that of the verb counts. */
static int option_named(const struct verb *v, const char *s, size_t n)
{
	int found = -1;

	for (int i = 0; i < OPTION_END; i++)
		if (same_name(option_rows[i].name, s, n) &&
			(found < 0 || option_rows[i].verbs & v->bit))
			found = i;
	return found;
}

bool takes_settings(const struct verb *v)
{
	return v->bit & (POLICY | ATC);
}

static enum ht_status unknown_option(const struct cli *c, const char *arg, size_t n)
{
	const char *names[OPTION_END + MAX_SETTINGS], *near;
	struct ht_option_info o;
	char name[64];
	size_t count = 0;

	for (int i = 0; i < OPTION_END; i++)
		if (option_rows[i].verbs & c->verb->bit)
			names[count++] = option_rows[i].name;
	for (size_t i = 0; takes_settings(c->verb) && i < MAX_SETTINGS && ht_option(i, &o); i++)
		if (c->verb->bit == ATC || strncmp(o.name, "atc.", 4) != 0)
			names[count++] = strrchr(o.name, '.') ? strrchr(o.name, '.') + 1 : o.name;
	snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), arg);
	near = near_name(name, names, count);
	if (near)
		return fail(
			HT_E_USAGE, "there is no option '--%s'; did you mean '--%s'?", name, near);
	return fail(
		HT_E_USAGE, "there is no option '--%s'; see halftone help %s", name, c->verb->name);
}

void add_value(struct cli *c, int o, const char *value)
{
	size_t n = c->option[o].n;
	const char **grown = realloc(c->option[o].value, (n + 1) * sizeof *grown);

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	grown[n] = value;
	c->option[o].value = grown;
	c->option[o].n = n + 1;
}

/* --diff A B, or --diff=A --diff=B. */
static enum ht_status take_two(
	struct cli *c, const char *first, bool one, char **argv, int argc, int *i)
{
	add_value(c, OPTION_DIFF, first);
	if (one)
		return HT_OK;
	if (*i + 1 >= argc || !*argv[*i + 1])
		return fail(HT_E_USAGE, "--diff needs two policies or reports");
	add_value(c, OPTION_DIFF, argv[++*i]);
	return HT_OK;
}

static bool is_boolean(const char *s)
{
	return !strcmp(s, "true") || !strcmp(s, "false") || !strcmp(s, "1") || !strcmp(s, "0");
}

/* A flag of the tool that is also an option in the library's table. */
static bool is_switch(const struct cli *c, const struct option_row *row)
{
	struct ht_option_info o;

	return !row->arg && takes_settings(c->verb) && ht_option_named(row->name, &o) &&
	       !strcmp(o.name, row->name);
}

static enum ht_status take_switch(struct cli *c, int o, const char *value)
{
	if (!is_boolean(value))
		return fail(
			HT_E_USAGE, "--%s: '%s' is none of true|false", option_rows[o].name, value);
	c->option[o].n = 0;
	if (!strcmp(value, "true") || !strcmp(value, "1"))
		add_value(c, o, "");
	return HT_OK;
}

static enum ht_status take_option(
	struct cli *c, int o, const char *value, char **argv, int argc, int *i)
{
	const struct option_row *row = &option_rows[o];
	bool inline_value = value != NULL;

	if (!(row->verbs & c->verb->bit))
		return fail(
			HT_E_USAGE, "halftone %s has no option '--%s'", c->verb->name, row->name);
	if (is_switch(c, row) && (value || (*i + 1 < argc && is_boolean(argv[*i + 1]))))
		return take_switch(c, o, value ? value : argv[++*i]);
	if (!row->arg && value)
		return fail(HT_E_USAGE, "--%s takes no value", row->name);
	if (row->arg && !value) {
		if (*i + 1 >= argc)
			return fail(HT_E_USAGE, "--%s needs a value: %s", row->name, row->arg);
		value = argv[++*i];
	}
	/* --passes may be empty: no passes. */
	if (row->arg && !*value && o != OPTION_PASSES)
		return fail(
			HT_E_USAGE, "--%s has an empty value; it needs %s", row->name, row->arg);
	if (o == OPTION_DIFF)
		return take_two(c, value, inline_value, argv, argc, i);
	add_value(c, o, value ? value : "");
	return HT_OK;
}

void add_setting(struct cli *c, struct setting s)
{
	struct setting *grown = realloc(c->setting, (c->settings + 1) * sizeof *grown);

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	c->setting = grown;
	c->setting[c->settings++] = s;
}

/* --profile names a machine; if its value is a file name, it means --trace. */
static bool is_trace(const struct cli *c, const struct ht_option_info *o, const char *value)
{
	size_t n = strlen(value);

	return option_rows[OPTION_TRACE].verbs & c->verb->bit && !strcmp(o->name, "profile") &&
	       n > 5 && !strcmp(value + n - 5, ".json");
}

/* Takes an option of the library's table: --name=value or --name value.  A Boolean option takes
 * the next word only if that is one of its values; otherwise it becomes true. */
static enum ht_status take_setting(struct cli *c, const struct ht_option_info *o, const char *value,
	char **argv, int argc, int *i)
{
	if (!takes_settings(c->verb))
		return fail(HT_E_USAGE, "halftone %s has no option '--%s'", c->verb->name, o->name);
	if (!value && !strcmp(o->values, "true|false") &&
		(*i + 1 >= argc || !is_boolean(argv[*i + 1])))
		value = "true";
	if (!value && *i + 1 >= argc)
		return fail(HT_E_USAGE, "--%s needs a value: %s", o->name, o->values);
	value = value ? value : argv[++*i];
	if (!*value)
		return fail(HT_E_USAGE, "--%s has an empty value; it needs %s", o->name, o->values);
	if (is_trace(c, o, value))
		add_value(c, OPTION_TRACE, value);
	else
		add_setting(c, (struct setting){ o->name, value, NULL, 0 });
	return HT_OK;
}

static bool setting_named(const struct cli *c, const char *s, size_t n, struct ht_option_info *o)
{
	char name[128];

	if (c->verb->bit == ATC && n < 100) {
		snprintf(name, sizeof name, "atc.%.*s", (int)n, s);
		if (ht_option_named(name, o))
			return true;
	}
	if (n >= sizeof name)
		return false;
	snprintf(name, sizeof name, "%.*s", (int)n, s);
	return ht_option_named(name, o) && strncmp(o->name, "atc.", 4) != 0;
}

/* If a name is in both tables, it means the tool's option if the verb has it, else the vendor's. */
static enum ht_status parse_long(struct cli *c, char **argv, int argc, int *i)
{
	const char *name = argv[*i] + 2;
	size_t n = strcspn(name, "=");
	int o = option_named(c->verb, name, n);
	struct ht_option_info setting;

	if ((o < 0 || (takes_settings(c->verb) && !(option_rows[o].verbs & c->verb->bit))) &&
		setting_named(c, name, n, &setting))
		return take_setting(c, &setting, name[n] ? name + n + 1 : NULL, argv, argc, i);
	if (o < 0)
		return unknown_option(c, name, n);
	return take_option(c, o, name[n] ? name + n + 1 : NULL, argv, argc, i);
}

static enum ht_status parse_short(struct cli *c, char **argv, int argc, int *i)
{
	const char *s = argv[*i] + 1;

	for (int o = 0; o < OPTION_END; o++)
		if (option_rows[o].letter == *s)
			return take_option(c, o, s[1] ? s + 1 : NULL, argv, argc, i);
	return fail(
		HT_E_USAGE, "there is no option '-%c'; see halftone help %s", *s, c->verb->name);
}

static enum ht_status parse_words(int argc, char **argv, struct cli *c, int depth);

/* The words in a file replace its name. */
static enum ht_status parse_file(struct cli *c, const char *path, int depth)
{
	enum { DEEPEST = 8 };
	struct args *grown = realloc(c->files, (c->file_count + 1) * sizeof *grown), words;
	enum ht_status st;

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	c->files = grown;
	if (depth == DEEPEST)
		return fail(HT_E_USAGE, "@%s: files of arguments name each other too deeply", path);
	st = args_of_file(path, &words);
	c->files[c->file_count++] = words;
	return st == HT_OK ? parse_words((int)words.n, words.word, c, depth + 1) : st;
}

static void add_result(struct cli *c, const char *path)
{
	const char **grown = realloc(c->result, (c->results + 1) * sizeof *grown);

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	grown[c->results++] = path;
	c->result = grown;
}

static enum ht_status parse_words(int argc, char **argv, struct cli *c, int depth)
{
	bool options = true;

	for (int i = 0; i < argc; i++) {
		enum ht_status st = HT_OK;
		if (options && !strcmp(argv[i], "--"))
			options = false;
		else if (options && !strncmp(argv[i], "--", 2))
			st = parse_long(c, argv, argc, &i);
		else if (options && argv[i][0] == '-' && argv[i][1])
			st = parse_short(c, argv, argc, &i);
		else if (options && argv[i][0] == '@')
			st = parse_file(c, argv[i] + 1, depth);
		else if (!*argv[i])
			st = fail(HT_E_USAGE, "the name of the %s is empty",
				c->verb->bit == REPORT ? "result" : "model");
		else if (c->verb->bit & (REPORT | COMPARE))
			add_result(c, argv[i]);
		else if (c->model && c->verb->bit == DIFF_VERB && !c->other)
			c->other = argv[i];
		else if (c->verb->bit == CACHE && !c->action)
			c->action = argv[i];
		else if (c->model)
			st = fail(HT_E_USAGE, "one model at a time; '%s' is too many", argv[i]);
		else
			c->model = argv[i];
		if (st != HT_OK)
			return st;
	}
	return HT_OK;
}

static enum ht_status check_color(const struct cli *c)
{
	const char *when = option(c, OPTION_COLOR, "auto");

	if (!strcmp(when, "auto") || !strcmp(when, "always") || !strcmp(when, "never"))
		return HT_OK;
	return fail(HT_E_USAGE, "--color: '%s' is not auto, always or never", when);
}

enum ht_status show_options(const struct cli *c)
{
	for (int o = 0; o < OPTION_END; o++) {
		const struct option_row *row = &option_rows[o];
		const char *env =
			row->verbs & c->verb->bit ? option(c, (enum option)o, NULL) : NULL;
		for (size_t i = 0; i < c->option[o].n && o != OPTION_SHOW; i++) {
			printf(row->arg ? "--%s=" : "--%s", row->name);
			if (row->arg)
				args_print_word(c->option[o].value[i]);
			putchar('\n');
		}
		if (!c->option[o].n && env) {
			printf("--%s=", row->name);
			args_print_word(env);
			printf(" # %s\n", row->env);
		}
	}
	for (size_t i = 0; i < c->settings; i++) {
		printf("--%s=", c->setting[i].name);
		args_print_word(c->setting[i].value);
		putchar('\n');
	}
	for (size_t i = 0; i < c->results; i++) {
		args_print_word(c->result[i]);
		putchar('\n');
	}
	if (c->model) {
		args_print_word(c->model);
		putchar('\n');
	}
	return HT_OK;
}

enum ht_status parse_command(int argc, char **argv, struct cli *c)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	bool called_atc = argc && !strcmp(slash ? slash + 1 : argv[0], "atc");
	enum ht_status st;

	c->word = argv + 1;
	c->words = argc - 1;
	if (argc < 2)
		return fail(HT_E_USAGE, "halftone VERB [options] MODEL; see halftone help");
	if (called_atc)
		;
	else if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		argv[1] = "help";
	else if (!strcmp(argv[1], "--version"))
		argv[1] = "version";
	c->verb = verb_named(called_atc ? "atc" : argv[1]);
	if (!c->verb)
		return unknown_verb(argv[1]);
	st = parse_words(argc - 2 + called_atc, argv + 2 - called_atc, c, 0);
	if (st == HT_OK)
		st = check_color(c);
	if (st != HT_OK || option_on(c, OPTION_HELP) || option_on(c, OPTION_VERSION))
		return st;
	if (!*c->verb->args && c->model)
		return fail(HT_E_USAGE, "halftone %s takes no argument; '%s' was given",
			c->verb->name, c->model);
	if (c->verb->bit == DIFF_VERB && !c->other)
		return fail(HT_E_USAGE, "halftone diff needs two artefacts");
	if (c->verb->bit == REPORT && !c->results)
		return fail(HT_E_USAGE,
			"halftone report needs results: files that compare, explain or train wrote with --format json, or logs of train");
	if (!strncmp(c->verb->args, "MODEL", 5) && !c->model && !c->results &&
		!option_on(c, OPTION_LIST))
		return fail(HT_E_USAGE, "halftone %s needs a model; see halftone help %s",
			c->verb->name, c->verb->name);
	return HT_OK;
}

void cli_release(struct cli *c)
{
	for (int i = 0; i < OPTION_END; i++)
		free(c->option[i].value);
	for (size_t i = 0; i < c->file_count; i++)
		args_free(&c->files[i]);
	free(c->files);
	free(c->result);
	fed_free(c);
	free(c->vendor_dir);
	while (c->mades)
		free(c->made[--c->mades]);
	free(c->made);
	free(c->setting);
	for (size_t i = 0; i < c->configs; i++)
		ht_config_free(c->config[i]);
	free(c->config);
	ht_diags_free(c->diags);
}
