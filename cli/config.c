/* Run configurations, and the list of all settings with their sources. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_mode(const char *name)
{
	return !strncmp(name, "precision_mode", 14);
}

bool states_mode(const struct cli *c)
{
	for (size_t i = 0; i < c->settings; i++)
		if (is_mode(c->setting[i].name))
			return true;
	return false;
}

static bool is_set(const struct cli *c, size_t settings, const char *name)
{
	for (size_t i = 0; i < settings; i++)
		if (!strcmp(c->setting[i].name, name))
			return true;
	return false;
}

/* The last setting of a name counts. */
static const struct setting *setting_of(const struct cli *c, const char *name)
{
	for (size_t i = c->settings; i-- > 0;)
		if (!strcmp(c->setting[i].name, name))
			return &c->setting[i];
	return NULL;
}

const char *setting_value(const struct cli *c, const char *name)
{
	const struct setting *s = setting_of(c, name);

	return s ? s->value : NULL;
}

static enum ht_status read_config(struct cli *c, const char *path)
{
	struct ht_config **grown =
		realloc(c->config, (c->configs + 1) * sizeof(struct ht_config *));
	enum ht_status st;

	if (!grown)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	c->config = grown;
	st = ht_config_parse(path, option_on(c, OPTION_LENIENT), c->diags, &grown[c->configs]);
	c->configs += st == HT_OK;
	return st;
}

enum ht_status check_settings(const struct cli *c)
{
	struct ht_stated *s = must_alloc((c->settings + 1) * sizeof *s);
	enum ht_status st;

	for (size_t i = 0; i < c->settings; i++)
		s[i] = (struct ht_stated){ c->setting[i].name, c->setting[i].value,
			c->setting[i].path, c->setting[i].line };
	st = ht_settings_check(s, c->settings, c->diags);
	free(s);
	return st;
}

/* Names in the vendor's configurations for options of a verb. */
static const struct {
	const char *setting;
	enum option option;
} of_verbs[] = { { "experimental_config.accelerate_train_mode", OPTION_PHASES },
	{ "iterations_per_loop", OPTION_LOOP } };

/* Turns the setting `name` into the value of option `o`, unless the option is stated. */
static void become_option(struct cli *c, const char *name, enum option o)
{
	size_t n = 0;

	for (size_t i = 0; i < c->settings; i++)
		if (strcmp(c->setting[i].name, name) != 0)
			c->setting[n++] = c->setting[i];
		else if (!option_on(c, o))
			add_value(c, o, c->setting[i].value);
	c->settings = n;
}

static void become_options(struct cli *c)
{
	for (size_t i = 0; i < sizeof of_verbs / sizeof *of_verbs; i++)
		if (option_rows[of_verbs[i].option].verbs & c->verb->bit)
			become_option(c, of_verbs[i].setting, of_verbs[i].option);
}

enum ht_status load_configs(struct cli *c)
{
	bool mode = option(c, OPTION_POLICY, NULL) || states_mode(c);
	size_t typed = c->settings;
	struct ht_setting s;
	enum ht_status st;

	if (c->configured)
		return HT_OK;
	c->configured = true;
	for (size_t i = 0; i < c->option[OPTION_CONFIG].n; i++) {
		const char *path = c->option[OPTION_CONFIG].value[i];
		st = read_config(c, path);
		if (st != HT_OK)
			return st;
		for (size_t k = 0; ht_config_get(c->config[i], k, &s); k++)
			if (!is_set(c, typed, s.name) && !(mode && is_mode(s.name)))
				add_setting(c, (struct setting){ s.name, s.value, path, s.line });
	}
	become_options(c);
	st = check_settings(c);
	return st == HT_OK ? take_dynamic(c) : st;
}

/* ---- halftone config --classes ---- */

static const char *const class_names[] = { "honoured", "accepted", "refused" };

static void put_class_json(struct text *t, enum ht_option_class class)
{
	struct ht_option_info o;
	size_t n = 0;

	text_printf(
		t, "%s\n \"%s\": [", class == HT_OPTION_HONOURED ? "" : ",", class_names[class]);
	for (size_t i = 0; ht_option(i, &o); i++) {
		if (o.option_class != class)
			continue;
		text_printf(t, n++ ? ",\n  {\"name\": " : "\n  {\"name\": ");
		text_json(t, o.name);
		text_printf(t, class == HT_OPTION_HONOURED ? ", \"does\": " : ", \"reason\": ");
		text_json(t, o.help);
		text_printf(t, "}");
	}
	text_printf(t, "]");
}

static void put_class_text(struct text *t, enum ht_option_class class)
{
	static const char *const titles[] = { "honoured:", "accepted, without effect here:",
		"refused, unless stated with their defaults:" };
	struct ht_option_info o;

	text_printf(t, "%s%s\n", class == HT_OPTION_HONOURED ? "" : "\n", titles[class]);
	for (size_t i = 0; ht_option(i, &o); i++)
		if (o.option_class == class)
			text_printf(t, "  %-38s %s\n", o.name, o.help);
}

static enum ht_status print_classes(enum ht_format format)
{
	struct text t = { 0 };

	if (format == HT_FORMAT_JSON)
		text_printf(&t, "{\"schema\": \"halftone.classes/1\",");
	for (int i = HT_OPTION_HONOURED; i <= HT_OPTION_REFUSED; i++) {
		if (format == HT_FORMAT_JSON)
			put_class_json(&t, (enum ht_option_class)i);
		else
			put_class_text(&t, (enum ht_option_class)i);
	}
	if (format == HT_FORMAT_JSON)
		text_printf(&t, "}\n");
	return text_print(&t);
}

/* ---- halftone config ---- */

struct listing {
	struct text text;
	enum ht_format format;
	size_t n;
};

static void put_value(struct listing *l, const char *name, const char *value, const char *origin)
{
	if (l->format == HT_FORMAT_TEXT) {
		text_printf(&l->text, "%-32s %-28s %s\n", name, value, origin);
		return;
	}
	text_printf(&l->text, l->n++ ? ",\n  {\"name\": " : "\n  {\"name\": ");
	text_json(&l->text, name);
	text_printf(&l->text, ", \"value\": ");
	text_json(&l->text, value);
	text_printf(&l->text, ", \"origin\": ");
	text_json(&l->text, origin);
	text_printf(&l->text, "}");
}

/* Lists options of the tool that the environment can set. */
static void put_own(struct listing *l, const struct cli *c)
{
	static const enum option own[] = { OPTION_TARGET, OPTION_THREADS };

	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		const char *value = option(c, own[i], NULL);
		if (value)
			put_value(l, option_rows[own[i]].name, value,
				option_on(c, own[i]) ? "command line" : option_rows[own[i]].env);
	}
}

static void put_setting(struct listing *l, const struct setting *s)
{
	char origin[512];

	if (!s->path)
		snprintf(origin, sizeof origin, "command line");
	else if (s->line)
		snprintf(origin, sizeof origin, "%s:%ld", s->path, s->line);
	else
		snprintf(origin, sizeof origin, "%s, implied", s->path);
	put_value(l, s->name, s->value, origin);
}

/* Lists the policy in force and the setting that chose it. */
static void put_policy(struct listing *l, const struct cli *c, const struct ht_policy *p)
{
	const char *origin = "default";

	if (option_on(c, OPTION_POLICY))
		origin = "command line";
	else if (states_mode(c))
		origin = "precision_mode";
	else if (option(c, OPTION_POLICY, NULL))
		origin = option_rows[OPTION_POLICY].env;
	else if (setting_of(c, "graph_run_mode"))
		origin = "graph_run_mode";
	put_value(l, "policy", p ? ht_policy_name(p) : "must_keep_origin_dtype", origin);
}

static enum ht_status print_values(
	const struct cli *c, const struct ht_policy *p, enum ht_format format)
{
	struct listing l = { { 0 }, format, 0 };
	struct ht_option_info o;

	if (format == HT_FORMAT_JSON)
		text_printf(&l.text, "{\"schema\": \"halftone.config/1\", \"config\": [");
	put_policy(&l, c, p);
	put_own(&l, c);
	for (size_t i = 0; ht_option(i, &o); i++) {
		const struct setting *s = setting_of(c, o.name);
		if (s)
			put_setting(&l, s);
		else if (*o.fallback && strncmp(o.name, "atc.", 4) != 0 && !is_mode(o.name))
			put_value(&l, o.name, o.fallback, "default");
	}
	if (format == HT_FORMAT_JSON)
		text_printf(&l.text, "]}\n");
	return text_print(&l.text);
}

enum ht_status verb_config(struct cli *c)
{
	struct ht_policy *p = NULL;
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK && (option_on(c, OPTION_CLASSES) || option_on(c, OPTION_HELP_COMPAT)))
		return print_classes(format);
	/* All settings must be legal. */
	if (st == HT_OK)
		st = open_policy(c, &p);
	if (st == HT_OK && p)
		st = ht_policy_validate(p, c->diags);
	if (st == HT_OK)
		st = print_values(c, p, format);
	ht_policy_free(p);
	return st;
}
