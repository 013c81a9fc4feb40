/* Names and lines of machine code for perf and gdb: --jitdump, --perf-map, --gdb. */
#include "cli/cli.h"

bool announce_lines(const struct cli *c)
{
	return option_on(c, OPTION_JITDUMP) || option_on(c, OPTION_GDB);
}

enum ht_status announce(const struct cli *c, const struct ht_program *p)
{
	enum ht_status st = HT_OK;

	if (option_on(c, OPTION_JITDUMP))
		st = ht_program_announce(
			p, HT_ANNOUNCE_JITDUMP, option(c, OPTION_JITDUMP, NULL), c->diags);
	if (st == HT_OK && option_on(c, OPTION_PERF_MAP))
		st = ht_program_announce(p, HT_ANNOUNCE_PERF_MAP, NULL, c->diags);
	if (st == HT_OK && option_on(c, OPTION_GDB))
		st = ht_program_announce(p, HT_ANNOUNCE_GDB, option(c, OPTION_GDB, NULL), c->diags);
	return st;
}
