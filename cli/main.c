/* halftone VERB [options] MODEL */
#include "cli/cli.h"

#include <stdio.h>

static enum ht_status run(struct cli *c)
{
	if (option_on(c, OPTION_HELP)) {
		print_help(c->verb);
		return HT_OK;
	}
	if (option_on(c, OPTION_VERSION))
		return verb_version(c);
	return c->verb->run(c);
}

int main(int argc, char **argv)
{
	struct cli c = { 0 };
	enum ht_status st;

	ht_tool_signals();
	c.diags = ht_diags_new();
	if (!c.diags)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	st = parse_command(argc, argv, &c);
	if (st == HT_OK)
		st = run(&c);
	print_diags(&c);
	if (st == HT_E_INTERNAL)
		fputs("halftone: this is a defect of halftone; please report it with the model\n",
			stderr);
	if (st == HT_OK && fflush(stdout))
		st = fail(HT_E_ENVIRONMENT, "cannot write to standard output");
	cli_release(&c);
	return (int)st;
}
