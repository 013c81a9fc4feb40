/* Explaining what a policy decides. */
#include "cli/cli.h"

#include <string.h>

static enum ht_status explain_format(const struct cli *c, enum ht_format *out)
{
	static const struct {
		const char *name;
		enum ht_format format;
	} of[] = { { "text", HT_FORMAT_TEXT }, { "json", HT_FORMAT_JSON }, { "dot", HT_FORMAT_DOT },
		{ "node-data", HT_FORMAT_NODE_DATA } };
	const char *s = option(c, OPTION_FORMAT, "text");

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (!strcmp(s, of[i].name)) {
			*out = of[i].format;
			return HT_OK;
		}
	return fail(HT_E_USAGE, "--format: '%s' is not text, json, dot or node-data", s);
}

enum ht_status verb_explain(struct cli *c)
{
	struct ht_report *r = NULL;
	struct ht_model *m = NULL;
	struct ht_policy *p = NULL;
	struct ht_bytes b = { 0 };
	enum ht_format format = HT_FORMAT_TEXT;
	enum ht_status st = explain_format(c, &format);

	if (st == HT_OK)
		st = open_policy(c, &p);
	if (st == HT_OK)
		st = open_model(c, &m);
	if (st == HT_OK)
		st = ht_report_new(m, p, c->diags, &r);
	if (st == HT_OK)
		st = ht_report_print(r, format, option(c, OPTION_NODE, NULL), c->diags, &b);
	if (st == HT_OK)
		st = print_bytes(&b);
	ht_bytes_free(&b);
	ht_report_free(r);
	ht_model_free(m);
	ht_policy_free(p);
	return st;
}
