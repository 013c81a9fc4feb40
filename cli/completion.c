/* Scripts that complete halftone's command line in bash, zsh and fish, made from the tables of
 * verbs and options.  The scripts ask the installed tool for names of policies, targets and
 * profiles, so these are always current. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* An option of a verb, from either table. */
struct item {
	const char *name, *help;
	char letter;
	bool takes_value;
	const char *values; /* "a|b", or NULL: free text */
	const char *list;   /* the verb that lists its values, or NULL */
};

typedef void put_item_fn(struct text *t, const struct item *item);

/* Writes `s` for use between single quotes; `quote` replaces each quote in it. */
static void put_quoted(struct text *t, const char *s, const char *quote)
{
	for (; *s; s++)
		if (*s == '\'')
			text_printf(t, "%s", quote);
		else
			text_printf(t, "%c", *s);
}

static const char *listing_verb(const char *option)
{
	static const char *const of[][2] = { { "policy", "policies" }, { "target", "targets" },
		{ "profile", "profiles" }, { "cost_target", "targets" } };

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (!strcmp(of[i][0], option))
			return of[i][1];
	return NULL;
}

static const char *alternatives(const char *values)
{
	return values && strchr(values, '|') && !strpbrk(values, " ;=") ? values : NULL;
}

static void each_own(struct text *t, const struct verb *v, put_item_fn *put)
{
	for (int i = 0; i < OPTION_END; i++) {
		const struct option_row *row = &option_rows[i];
		if (row->verbs & v->bit)
			put(t, &(struct item){ row->name, row->help, row->letter, row->arg != NULL,
				       alternatives(row->arg), listing_verb(row->name) });
	}
}

/* Calls `put` for the settings in the library's table: only those of `halftone atc`, or all
 * others. */
static void each_setting(struct text *t, bool of_atc, put_item_fn *put)
{
	struct ht_option_info o;

	for (size_t i = 0; ht_option(i, &o); i++) {
		const char *dot = strrchr(o.name, '.'), *name = dot ? dot + 1 : o.name;
		if (of_atc == !strncmp(o.name, "atc.", 4))
			put(t, &(struct item){ name, o.help, 0, true, alternatives(o.values),
				       listing_verb(name) });
	}
}

/* The variables of a script that hold a verb's settings. */
static const char *settings_of(const struct verb *v)
{
	return !takes_settings(v) ? "" : v->bit == ATC ? " $settings $of_atc" : " $settings";
}

static void put_words(struct text *t, const char *values)
{
	for (; *values; values++)
		text_printf(t, "%c", *values == '|' ? ' ' : *values);
}

/* ---- bash and zsh: the branches of a case that complete the value of an option ---- */

static void put_bash_values(struct text *t, const struct item *item)
{
	if (item->list) {
		text_printf(t, "\t--%s) words=$(halftone %s 2>/dev/null | cut -d' ' -f1) ;;\n",
			item->name, item->list);
	} else if (item->values) {
		text_printf(t, "\t--%s) words='", item->name);
		put_words(t, item->values);
		text_printf(t, "' ;;\n");
	}
}

/* Writes the values of each option once, whichever verbs have it. */
static void put_value_cases(struct text *t)
{
	const struct verb every = { .bit = EVERY };

	text_printf(t, "\tcase $previous in\n");
	each_own(t, &every, put_bash_values);
	each_setting(t, false, put_bash_values);
	each_setting(t, true, put_bash_values);
	text_printf(t, "\tesac\n");
}

static void put_bash_name(struct text *t, const struct item *item)
{
	text_printf(t, " --%s", item->name);
}

static void put_bash(struct text *t)
{
	text_printf(t,
		"# bash completion for halftone\n"
		"_halftone() {\n"
		"\tlocal word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tlocal words= settings='");
	each_setting(t, false, put_bash_name);
	text_printf(t, "' of_atc='");
	each_setting(t, true, put_bash_name);
	text_printf(t, "'\n\tCOMPREPLY=()\n"
		       "\t# '=' is a word of its own here.\n"
		       "\t[ \"$word\" = = ] && word=\n"
		       "\t[ \"$previous\" = = ] && previous=${COMP_WORDS[COMP_CWORD-2]}\n");
	put_value_cases(t);
	text_printf(t, "\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='--help --version");
	for (const struct verb *v = verbs; v->name; v++)
		text_printf(t, " %s", v->name);
	text_printf(t, "'\n\telif [[ $word == -* ]]; then\n\t\tcase ${COMP_WORDS[1]} in\n");
	for (const struct verb *v = verbs; v->name; v++) {
		text_printf(t, "\t\t%s) words=\"", v->name);
		each_own(t, v, put_bash_name);
		text_printf(t, "%s\" ;;\n", settings_of(v));
	}
	text_printf(t, "\t\tesac\n\tfi\n"
		       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
		       "}\n"
		       "complete -o default -F _halftone halftone\n");
}

/* ---- zsh ---- */

static void put_zsh_option(struct text *t, const struct item *item)
{
	text_printf(t, " '--%s:", item->name);
	put_quoted(t, item->help, "'\\''");
	text_printf(t, "'");
}

static void put_zsh(struct text *t)
{
	text_printf(t,
		"#compdef halftone\n"
		"_halftone() {\n"
		"\tlocal previous=${words[CURRENT-1]} word=${words[CURRENT]} verb=${words[2]}\n"
		"\tlocal -a verbs options settings of_atc\n"
		"\tverbs=(");
	for (const struct verb *v = verbs; v->name; v++) {
		text_printf(t, " '%s:", v->name);
		put_quoted(t, v->help, "'\\''");
		text_printf(t, "'");
	}
	text_printf(t, " )\n\tsettings=(");
	each_setting(t, false, put_zsh_option);
	text_printf(t, " )\n\tof_atc=(");
	each_setting(t, true, put_zsh_option);
	text_printf(t, " )\n\tif (( CURRENT == 2 )); then\n"
		       "\t\t_describe verb verbs\n\t\treturn\n\tfi\n"
		       "\tif [[ $word == --*=* ]]; then\n"
		       "\t\tprevious=${word%%%%=*}\n\t\tcompset -P '*='\n\tfi\n"
		       "\tlocal words=\n");
	put_value_cases(t);
	text_printf(t, "\tif [[ -n $words ]]; then\n\t\tcompadd -- ${=words}\n"
		       "\telif [[ $word == -* && $word != *=* ]]; then\n"
		       "\t\tcase $verb in\n");
	for (const struct verb *v = verbs; v->name; v++) {
		text_printf(t, "\t\t%s) options=(", v->name);
		each_own(t, v, put_zsh_option);
		text_printf(t, "%s ) ;;\n", settings_of(v));
	}
	text_printf(t, "\t\tesac\n\t\t_describe -o option options\n"
		       "\telse\n\t\t_files\n\tfi\n"
		       "}\n"
		       "_halftone \"$@\"\n");
}

/* ---- fish ---- */

static void put_fish_item(struct text *t, const struct item *item)
{
	if (item->letter)
		text_printf(t, " -s %c", item->letter);
	text_printf(t, " -l %s", item->name);
	if (item->list) {
		text_printf(t, " -x -a '(halftone %s 2>/dev/null | cut -d\" \" -f1)'", item->list);
	} else if (item->values) {
		text_printf(t, " -x -a '");
		put_words(t, item->values);
		text_printf(t, "'");
	} else if (item->takes_value) {
		text_printf(t, " -r");
	}
	text_printf(t, " -d '");
	put_quoted(t, item->help, "\\'");
	text_printf(t, "'\n");
}

static void put_fish_setting(struct text *t, const struct item *item)
{
	text_printf(t, "complete -c halftone -n \"__fish_seen_subcommand_from $settings\"");
	put_fish_item(t, item);
}

static void put_fish_of_atc(struct text *t, const struct item *item)
{
	text_printf(t, "complete -c halftone -n '__fish_seen_subcommand_from atc'");
	put_fish_item(t, item);
}

static void put_fish_own(struct text *t, const struct option_row *row)
{
	text_printf(t, "complete -c halftone -n '__fish_seen_subcommand_from");
	for (const struct verb *v = verbs; v->name; v++)
		if (row->verbs & v->bit)
			text_printf(t, " %s", v->name);
	text_printf(t, "'");
	put_fish_item(t, &(struct item){ row->name, row->help, row->letter, row->arg != NULL,
				 alternatives(row->arg), listing_verb(row->name) });
}

static void put_fish(struct text *t)
{
	text_printf(t, "# fish completion for halftone\nset -l settings");
	for (const struct verb *v = verbs; v->name; v++)
		if (takes_settings(v))
			text_printf(t, " %s", v->name);
	text_printf(t, "\n");
	for (const struct verb *v = verbs; v->name; v++) {
		text_printf(
			t, "complete -c halftone -n __fish_use_subcommand -f -a %s -d '", v->name);
		put_quoted(t, v->help, "\\'");
		text_printf(t, "'\n");
	}
	for (int i = 0; i < OPTION_END; i++)
		put_fish_own(t, &option_rows[i]);
	each_setting(t, false, put_fish_setting);
	each_setting(t, true, put_fish_of_atc);
}

enum ht_status verb_completion(struct cli *c)
{
	static const struct {
		const char *name;
		void (*put)(struct text *t);
	} shells[] = { { "bash", put_bash }, { "zsh", put_zsh }, { "fish", put_fish } };
	struct text t = { 0 };

	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
		if (c->model && !strcmp(c->model, shells[i].name)) {
			shells[i].put(&t);
			return text_print(&t);
		}
	return c->model ? fail(HT_E_USAGE,
				  "there is no completion for '%s'; there is for bash, "
				  "zsh and fish",
				  c->model)
			: fail(HT_E_USAGE, "halftone completion needs a shell: bash, zsh or fish");
}
