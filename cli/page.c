/* halftone report: results as one HTML page. */
#include "cli/cli.h"

#include <halftone/page.h>
#include <stdlib.h>
#include <string.h>

enum ht_status verb_report(struct cli *c)
{
	const char *path = option(c, OPTION_OUTPUT, "-");
	struct ht_page_source *source = must_alloc(c->results * sizeof *source);
	struct ht_bytes b;
	enum ht_status st;

	for (size_t i = 0; i < c->results; i++)
		source[i].path = c->result[i];
	st = ht_page_print(source, c->results, c->diags, &b);
	free(source);
	if (st == HT_OK)
		st = strcmp(path, "-") ? ht_file_write(path, b.p, b.n, c->diags) : print_bytes(&b);
	ht_bytes_free(&b);
	return st;
}
