/* halftone VERB [options] MODEL */
#include "cli/cli.h"

#include <fcntl.h>
#include <halftone/cache.h>
#include <stdio.h>
#include <unistd.h>

static enum ht_status run(struct cli *c)
{
	if (option_on(c, OPTION_HELP)) {
		print_help(c->verb);
		return HT_OK;
	}
	if (option_on(c, OPTION_VERSION))
		return verb_version(c);
	if (option_on(c, OPTION_SHOW))
		return show_options(c);
	return c->verb->run(c);
}

/* Opens standard streams that are closed, so that no file gets their numbers.  They are
 * read-only, so writing to standard output still fails. */
static void hold_streams(void)
{
	while (1) {
		int fd = open("/dev/null", O_RDONLY);
		if (fd < 0 || fd > STDERR_FILENO) {
			if (fd >= 0)
				close(fd);
			return;
		}
	}
}

int main(int argc, char **argv)
{
	struct cli c = { 0 };
	size_t ignored;
	enum ht_status st;

	hold_streams();
	report_begin(&c);
	ht_tool_signals();
	ht_guard_files();
	c.diags = ht_diags_new();
	if (!c.diags)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	st = parse_command(argc, argv, &c);
	if (st == HT_OK)
		st = run(&c);
	ht_cache_close(c.cache, c.diags);
	print_diags();
	ignored = ignored_settings();
	if (ignored)
		fprintf(stderr, "halftone: %zu setting%s had no effect\n", ignored,
			ignored == 1 ? "" : "s");
	if (st == HT_E_INTERNAL)
		fputs("halftone: this is a defect of halftone; please report it with the model\n",
			stderr);
	if (st == HT_OK && fflush(stdout))
		st = fail(HT_E_ENVIRONMENT, "cannot write to standard output");
	cli_release(&c);
	return (int)st;
}
