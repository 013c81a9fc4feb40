/* Manual pages in the man(7) macros, from the tables of verbs and options. */
#include "cli/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Writes literal text, which must not be an escape or, at the beginning of a line, a request. */
static void put(struct text *t, const char *s)
{
	for (; *s; s++) {
		bool line_begins = !t->n || t->p[t->n - 1] == '\n';
		if (line_begins && (*s == '.' || *s == '\''))
			text_printf(t, "\\&");
		if (*s == '\\')
			text_printf(t, "\\e");
		else if (*s == '-')
			text_printf(t, "\\-");
		else
			text_printf(t, "%c", *s);
	}
}

static void put_line(struct text *t, const char *s)
{
	put(t, s);
	text_printf(t, "\n");
}

static void put_head(struct text *t, const char *name, const char *help)
{
	text_printf(t, ".TH \"");
	for (const char *s = name; *s; s++)
		text_printf(t, "%c", toupper((unsigned char)*s));
	text_printf(t, "\" 1 \"\" \"halftone %s\" \"Halftone\"\n.SH NAME\n", ht_version());
	put(t, name);
	text_printf(t, " \\- ");
	put_line(t, help);
}

static void put_exit_status(struct text *t)
{
	text_printf(t, ".SH EXIT STATUS\n");
	for (const struct exit_code *e = exit_codes; e->help; e++) {
		text_printf(t, ".TP\n%d\n", e->code);
		put_line(t, e->help);
	}
}

static void put_reference(struct text *t, const char *verb, const char *behind)
{
	text_printf(t, ".BR halftone%s%s (1)%s\n", *verb ? "\\-" : "", verb, behind);
}

/* ---- the tool ---- */

static void put_environment(struct text *t)
{
	text_printf(t, ".SH ENVIRONMENT\n");
	for (int i = 0; i < OPTION_END; i++) {
		const struct option_row *row = &option_rows[i];
		if (!row->env)
			continue;
		text_printf(t, ".TP\n.B %s\n", row->env);
		text_printf(t, "Stands for ");
		text_printf(t, "\\fB\\-\\-");
		put(t, row->name);
		text_printf(t, "\\fR where that is not given: ");
		put(t, row->help);
		text_printf(t, ".\n");
	}
}

static void put_tool(struct text *t)
{
	put_head(t, "halftone", "mixed-precision graph compiler for TensorFlow graphs");
	text_printf(
		t, ".SH SYNOPSIS\n.B halftone\n.I VERB\n[options]\n.I MODEL\n.SH DESCRIPTION\n");
	put_line(t,
		"Halftone compiles TensorFlow graphs to native CPU code under a chosen precision "
		"policy.");
	put_line(t, MODEL_FORMS);
	put_line(
		t, "Options are --name value or --name=value. @FILE stands for the words in FILE.");
	text_printf(t, ".SH VERBS\n");
	for (const struct verb *v = verbs; v->name; v++) {
		text_printf(t, ".TP\n");
		put_reference(t, v->name, "");
		put_line(t, v->help);
	}
	put_environment(t);
	put_exit_status(t);
}

/* ---- a verb ---- */

static void put_option(struct text *t, const struct option_row *row)
{
	text_printf(t, ".TP\n");
	if (row->letter)
		text_printf(t, "\\fB\\-%c\\fR, ", row->letter);
	text_printf(t, "\\fB\\-\\-");
	put(t, row->name);
	text_printf(t, "\\fR");
	if (row->arg) {
		text_printf(t, " \\fI");
		put(t, row->arg);
		text_printf(t, "\\fR");
	}
	text_printf(t, "\n");
	put(t, row->help);
	if (row->env)
		text_printf(t, " [%s]", row->env);
	text_printf(t, "\n");
}

/* The options of the library's table, as the manual page of the verb that lists them. */
static void put_settings(struct text *t)
{
	static const char *const classes[] = { [HT_OPTION_HONOURED] = "Honoured",
		[HT_OPTION_ACCEPTED] = "Accepted, without effect here",
		[HT_OPTION_REFUSED] = "Refused" };
	struct ht_option_info o;

	text_printf(t, ".SH THE OPTIONS\n");
	for (size_t i = 0; ht_option(i, &o); i++) {
		text_printf(t, ".TP\n\\fB");
		put(t, o.name);
		text_printf(t, "\\fR \\fI");
		put(t, o.values);
		text_printf(t, "\\fR\n%s: ", classes[o.option_class]);
		put(t, o.help);
		text_printf(t, ".\n");
		if (!*o.fallback)
			continue;
		text_printf(t, "The default is ");
		put(t, o.fallback);
		text_printf(t, ".\n");
	}
}

static void put_verb(struct text *t, const struct verb *v)
{
	char name[64];

	snprintf(name, sizeof name, "halftone-%s", v->name);
	put_head(t, name, v->help);
	text_printf(t, ".SH SYNOPSIS\n.B halftone %s\n[options]\n.I ", v->name);
	put_line(t, *v->args ? v->args : "\\&");
	text_printf(t, ".SH OPTIONS\n");
	for (int i = 0; i < OPTION_END; i++)
		if (option_rows[i].verbs & v->bit)
			put_option(t, &option_rows[i]);
	if (takes_settings(v)) {
		text_printf(t, ".PP\nThe options of policies and of the vendor's run "
			       "configurations are in\n");
		put_reference(t, "options", ".");
	}
	if (!strcmp(v->name, "options"))
		put_settings(t);
	put_exit_status(t);
	text_printf(t, ".SH SEE ALSO\n");
	put_reference(t, "", "");
}

enum ht_status print_manual(const struct verb *v)
{
	struct text t = { 0 };

	if (v)
		put_verb(&t, v);
	else
		put_tool(&t);
	return text_print(&t);
}
