/* Help, from the tables of verbs and options. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

const struct exit_code exit_codes[] = {
	{ 0, "done" },
	{ 1, "done, with a negative verdict: a tolerance was exceeded" },
	{ 2, "wrong usage" },
	{ 3, "the model or data is invalid" },
	{ 4, "valid, but not supported" },
	{ 5, "cannot read, write or allocate" },
	{ 6, "a limit was reached" },
	{ 70, "a defect of halftone" },
	{ 0, NULL },
};

static void print_exit_codes(void)
{
	printf("\nexit codes:\n");
	for (const struct exit_code *e = exit_codes; e->help; e++)
		printf("  %-2d %s\n", e->code, e->help);
}

static void print_tool(void)
{
	printf("usage: halftone VERB [options] MODEL\n\n" MODEL_FORMS "\n\nverbs:\n");
	for (const struct verb *v = verbs; v->name; v++)
		printf("  %-11s %s\n", v->name, v->help);
	printf("\nhalftone help VERB tells a verb's options.\n");
	print_exit_codes();
}

static void print_option(const struct option_row *row)
{
	char left[64];

	snprintf(left, sizeof left, "%s%c%s--%s%s%s", row->letter ? "-" : " ",
		row->letter ? row->letter : ' ', row->letter ? ", " : "  ", row->name,
		row->arg ? " " : "", row->arg ? row->arg : "");
	printf("  %-32s %s", left, row->help);
	if (row->env)
		printf(" [%s]", row->env);
	putchar('\n');
}

void print_help(const struct verb *v)
{
	if (!v) {
		print_tool();
		return;
	}
	printf("usage: halftone %s [options]%s%s\n\n%s\n\noptions:\n", v->name, *v->args ? " " : "",
		v->args, v->help);
	for (int i = 0; i < OPTION_END; i++)
		if (option_rows[i].verbs & v->bit)
			print_option(&option_rows[i]);
	if (takes_settings(v))
		printf("and those of the vendor and of policies: halftone options\n");
	print_exit_codes();
}

static enum ht_status print_page(const struct verb *v, bool manual)
{
	if (manual)
		return print_manual(v);
	print_help(v);
	return HT_OK;
}

enum ht_status verb_help(struct cli *c)
{
	const char *format = option(c, OPTION_FORMAT, "text");
	const struct verb *v = verbs;
	bool manual = !strcmp(format, "man");

	if (!manual && strcmp(format, "text") != 0)
		return fail(HT_E_USAGE, "--format: '%s' is neither text nor man", format);
	if (!c->model)
		return print_page(NULL, manual);
	while (v->name && strcmp(v->name, c->model))
		v++;
	if (!v->name)
		return fail(HT_E_USAGE, "there is no verb '%s'; see halftone help", c->model);
	return print_page(v, manual);
}

enum ht_status verb_version(struct cli *c)
{
	struct ht_bytes b = { 0 };
	enum ht_format format;
	enum ht_status st = option_json(c, &format);

	if (st == HT_OK && (format == HT_FORMAT_JSON || option_on(c, OPTION_JSON)))
		st = ht_build_info(c->diags, &b);
	else if (st == HT_OK)
		printf("halftone %s\n", ht_version());
	if (b.n)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}
