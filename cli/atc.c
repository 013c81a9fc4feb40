/* halftone atc: translates the vendor's command line to one of halftone, shows it and runs it. */
#include "cli/cli.h"

#include <halftone/cache.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 512

struct words {
	char *word[MAX_WORDS];
	int n;
};

static void add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct words *w, const char *fmt, ...)
{
	va_list ap;

	if (w->n == MAX_WORDS)
		exit(fail(HT_E_LIMIT, "at most %d options at a time", MAX_WORDS));
	va_start(ap, fmt);
	if (vasprintf(&w->word[w->n], fmt, ap) < 0)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	va_end(ap);
	w->n++;
}

static void add_option(struct words *w, const char *name, const char *value)
{
	add(w, "--%s=%s", name, value);
}

/* The last value of the option, whose name is given without "atc." */
static const char *value_of(const struct cli *c, const char *name)
{
	for (size_t i = c->settings; i-- > 0;)
		if (!strncmp(c->setting[i].name, "atc.", 4) &&
			!strcmp(c->setting[i].name + 4, name))
			return c->setting[i].value;
	return NULL;
}

static bool is_set(const struct cli *c, const char *name)
{
	for (size_t i = 0; i < c->settings; i++)
		if (!strcmp(c->setting[i].name, name))
			return true;
	return false;
}

/* ---- single options ---- */

static enum ht_status check_framework(const struct cli *c)
{
	static const char *const others[] = { "Caffe", "MindSpore", NULL, NULL, NULL, "ONNX" };
	const char *s = value_of(c, "framework");

	if (!s || !strcmp(s, "3"))
		return HT_OK;
	if (strlen(s) == 1 && *s >= '0' && *s <= '5' && others[*s - '0'])
		return fail(HT_E_UNSUPPORTED,
			"--framework=%s is %s; read are models of TensorFlow, --framework=3", s,
			others[*s - '0']);
	return fail(HT_E_USAGE, "--framework: '%s' is no framework; TensorFlow is 3", s);
}

/* Checks that --profile accepts the name. */
static enum ht_status check_soc(const char *name)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_policy *p = NULL;
	struct ht_message m;
	enum ht_status st = ht_policy_new(NULL, d, &p);

	if (st == HT_OK)
		st = ht_policy_set(p, "profile", name, d);
	if (st != HT_OK && ht_diags_get(d, 0, &m) == HT_OK)
		st = fail(HT_E_UNSUPPORTED, "--soc_version: %s", m.text);
	ht_policy_free(p);
	ht_diags_free(d);
	return st;
}

static enum ht_status take_soc(const struct cli *c, struct words *w)
{
	const char *s = value_of(c, "soc_version");
	enum ht_status st = s ? check_soc(s) : HT_OK;

	if (!s || st != HT_OK)
		return st;
	add_option(w, "profile", s);
	if (strcmp(s, "cpu") != 0)
		note(c, "--soc_version=%s: precision is decided as there; code is for this machine",
			s);
	return HT_OK;
}

static void take_out_nodes(const struct cli *c, struct words *w)
{
	const char *s = value_of(c, "out_nodes");

	if (!s)
		return;
	add_option(w, "outputs", s);
	for (char *p = w->word[w->n - 1]; *p; p++)
		*p = *p == ';' ? ',' : *p;
}

enum { MIN_PROFILES = 2, MAX_PROFILES = 100 }; /* the vendor's limits */

/* A value of --input-shape for each profile: each becomes a variant of the artefact. */
static enum ht_status take_profiles(
	struct words *w, const char *shape, const char *option, const char *profiles)
{
	const char *between = !strcmp(option, "dynamic_batch_size") ? "," : ";";
	int count = 0;

	if (!shape)
		return fail(HT_E_USAGE,
			"--%s fills dimensions -1 of --input_shape, which is missing", option);
	for (const char *p = profiles; *p; count++) {
		size_t n = strcspn(p, between);
		struct text t = { 0 };
		enum ht_status st = atc_fill_shape(option, shape, p, n, &t);

		if (st == HT_OK)
			add_option(w, "input-shape", t.p);
		free(t.p);
		if (st != HT_OK)
			return st;
		p += n + (p[n] != 0);
	}
	if (count < MIN_PROFILES || count > MAX_PROFILES)
		return fail(HT_E_USAGE, "--%s: %d to %d profiles, not %d", option, MIN_PROFILES,
			MAX_PROFILES, count);
	return HT_OK;
}

/* `other`: another option that states shapes, which is an error; NULL: none. */
static enum ht_status take_ranges(struct words *w, const char *other, const char *ranges)
{
	struct text t = { 0 };
	enum ht_status st;

	if (other)
		return fail(HT_E_USAGE, "--input_shape_range and --%s at the same time", other);
	st = put_open_shapes(&t, "input_shape_range", ranges);
	if (st == HT_OK && t.p)
		add_option(w, "input-shape", t.p);
	free(t.p);
	return st;
}

static enum ht_status take_shapes(const struct cli *c, struct words *w)
{
	static const char *const dynamic[] = { "dynamic_batch_size", "dynamic_image_size",
		"dynamic_dims" };
	const char *shape = value_of(c, "input_shape"), *option = NULL;

	for (size_t i = 0; i < sizeof dynamic / sizeof *dynamic; i++) {
		if (!value_of(c, dynamic[i]))
			continue;
		if (option)
			return fail(
				HT_E_USAGE, "--%s and --%s at the same time", option, dynamic[i]);
		option = dynamic[i];
	}
	if (value_of(c, "input_shape_range"))
		return take_ranges(
			w, shape ? "input_shape" : option, value_of(c, "input_shape_range"));
	if (option)
		return take_profiles(w, shape, option, value_of(c, option));
	if (shape)
		add_option(w, "input-shape", shape);
	return HT_OK;
}

/* ---- what to do ---- */

static const struct form {
	const char *suffix, *verb, *emit;
} forms[] = {
	{ ".htx", "compile", NULL },
	{ ".pb", "convert", NULL },
	{ ".pbtxt", "convert", NULL },
	{ ".a", "compile", "obj" },
	{ ".hir", "compile", "hir" },
	{ ".ll", "compile", "llvm" },
	{ ".s", "compile", "asm" },
};

static const struct form *form_of(const char *path)
{
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		size_t n = strlen(path), m = strlen(forms[i].suffix);
		if (n > m && !strcmp(path + n - m, forms[i].suffix))
			return &forms[i];
	}
	return NULL;
}

static enum ht_status take_output(const struct cli *c, struct words *w)
{
	const char *path = value_of(c, "output");
	const struct form *f = path ? form_of(path) : NULL;

	if (path && strlen(path) > 3 && !strcmp(path + strlen(path) - 3, ".om"))
		return fail(HT_E_UNSUPPORTED,
			"--output=%s: no code is made for an NPU; an artefact for this machine is %.*s.htx",
			path, (int)strlen(path) - 3, path);
	add(w, "%s", f ? f->verb : "compile");
	if (f && f->emit)
		add_option(w, "emit", f->emit);
	/* atc appends its suffix to a name, so this verb does too. */
	if (path)
		add(w, "--output=%s%s", path, f ? "" : ".htx");
	if (value_of(c, "external_weight"))
		add_option(w, "external-weight", value_of(c, "external_weight"));
	return HT_OK;
}

static enum ht_status take_mode(const struct cli *c, struct words *w)
{
	const char *mode = value_of(c, "mode");

	if (!mode || !strcmp(mode, "0"))
		return take_output(c, w);
	if (!strcmp(mode, "6"))
		return fail(HT_E_UNSUPPORTED,
			"--mode=6 shows a model for an NPU; halftone inspect shows an artefact");
	if (value_of(c, "output"))
		return fail(HT_E_USAGE, "--mode=%s has no --output", mode);
	add(w, strcmp(mode, "3") != 0 ? "inspect" : "compile");
	if (strcmp(mode, "3") != 0)
		add_option(w, "format", "json");
	return HT_OK;
}

/* atc compiles for inference. */
static const struct setting inference = { "graph_run_mode", "0", NULL, 0 };

static bool implies_inference(const struct cli *c)
{
	const char *mode = value_of(c, "mode");

	return (!mode || (*mode != '1' && *mode != '5')) && !is_set(c, inference.name);
}

/* Checks all settings, implied ones included. */
static enum ht_status check_all(const struct cli *c)
{
	struct cli all = *c;
	enum ht_status st;

	all.setting = must_alloc((c->settings + 1) * sizeof *all.setting);
	if (c->settings)
		memcpy(all.setting, c->setting, c->settings * sizeof *all.setting);
	if (implies_inference(c))
		all.setting[all.settings++] = inference;
	st = check_settings(&all);
	free(all.setting);
	return st;
}

/* Checks that options are legal, and that each option of atc either has an effect or is reported
 * to have none. */
static enum ht_status check_own(const struct cli *c)
{
	enum ht_status st = check_all(c);

	for (size_t i = 0; st == HT_OK && i < c->settings; i++) {
		const struct setting *s = &c->setting[i];
		struct ht_option_info o;
		if (strncmp(s->name, "atc.", 4) != 0 || !ht_option_named(s->name, &o))
			continue;
		if (o.option_class == HT_OPTION_ACCEPTED && strcmp(o.fallback, s->value) != 0)
			warn(c, "--%s has no effect: %s", o.name + 4, o.help);
	}
	return st;
}

/* Translates everything but the model. */
static enum ht_status translate(const struct cli *c, struct words *w)
{
	enum ht_status st = check_own(c);

	if (st == HT_OK)
		st = check_framework(c);
	if (st == HT_OK)
		st = take_mode(c, w);
	if (st == HT_OK)
		st = take_soc(c, w);
	if (st == HT_OK)
		st = take_shapes(c, w);
	if (st != HT_OK)
		return st;
	take_out_nodes(c, w);
	if (implies_inference(c))
		add_option(w, inference.name, inference.value);
	for (size_t i = 0; i < c->settings; i++)
		if (strncmp(c->setting[i].name, "atc.", 4) != 0)
			add_option(w, c->setting[i].name, c->setting[i].value);
	if (option_on(c, OPTION_LENIENT))
		add(w, "--lenient");
	if (option_on(c, OPTION_QUIET))
		add(w, "--quiet");
	return HT_OK;
}

/* Quotes the word for a shell if necessary. */
static void put_word(struct text *t, const char *s)
{
	bool quote = s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "-_=+.,:/@%")] != 0;

	text_printf(t, quote ? " '" : " ");
	for (; *s; s++)
		text_printf(t, *s == '\'' ? "'\\%c'" : "%c", *s);
	text_printf(t, quote ? "'" : "");
}

static void show(const struct cli *c, const struct words *w)
{
	struct text t = { 0 };

	for (int i = 1; i < w->n; i++)
		put_word(&t, w->word[i]);
	note(c, "halftone%s", t.p);
	free(t.p);
}

static enum ht_status run_native(struct cli *c, struct words *w)
{
	struct cli native = { .diags = c->diags };
	enum ht_status st;

	report_begin(&native);
	st = parse_command(w->n, w->word, &native);
	if (st == HT_OK)
		st = native.verb->run(&native);
	ht_cache_close(native.cache, native.diags);
	print_diags();
	report_begin(c);
	native.diags = NULL;
	cli_release(&native);
	return st;
}

enum ht_status verb_atc(struct cli *c)
{
	const char *model = value_of(c, "model");
	struct words w = { 0 };
	enum ht_status st;

	if (option_on(c, OPTION_HELP_COMPAT))
		return verb_config(c);
	add(&w, "halftone");
	st = translate(c, &w);
	if (st == HT_OK && !model)
		st = fail(HT_E_USAGE, "halftone atc needs --model=FILE");
	if (st == HT_OK) {
		add(&w, "--");
		add(&w, "%s", model);
		show(c, &w);
		st = run_native(c, &w);
	}
	while (w.n)
		free(w.word[--w.n]);
	return st;
}
