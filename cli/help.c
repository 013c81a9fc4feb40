/* Help, from the tables of verbs and options. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const char EXIT_CODES[] = "exit codes:\n"
				 "  0  done\n"
				 "  1  done, with a negative verdict: a tolerance was exceeded\n"
				 "  2  wrong usage\n"
				 "  3  the model or data is invalid\n"
				 "  4  valid, but not supported\n"
				 "  5  cannot read, write or allocate\n"
				 "  6  a limit was reached\n"
				 "  70 a defect of halftone\n";

static void print_tool(void)
{
	printf("usage: halftone VERB [options] MODEL\n\n"
	       "MODEL is a GraphDef (.pb, .pbtxt), a TF.js graph model (model.json), a SavedModel directory,\n"
	       "a MetaGraphDef (.meta) or a .hir file.\n\nverbs:\n");
	for (const struct verb *v = verbs; v->name; v++)
		printf("  %-10s %s\n", v->name, v->help);
	printf("\nhalftone help VERB tells a verb's options.\n\n%s", EXIT_CODES);
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
	if (v->bit & (POLICY | ATC))
		printf("and those of the vendor and of policies: halftone options\n");
	printf("\n%s", EXIT_CODES);
}

enum ht_status verb_help(struct cli *c)
{
	const struct verb *v = verbs;

	if (!c->model) {
		print_help(NULL);
		return HT_OK;
	}
	while (v->name && strcmp(v->name, c->model))
		v++;
	if (!v->name)
		return fail(HT_E_USAGE, "there is no verb '%s'; see halftone help", c->model);
	print_help(v);
	return HT_OK;
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
