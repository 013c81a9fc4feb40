/* Files that appear whole or not at all, for tools. */
#include <halftone/tool.h>

#include "base/base.h"

enum ht_status ht_file_write(const char *path, const void *p, size_t n, struct ht_diags *d)
{
	struct ht_output *o;
	enum ht_status st;

	HT_TRY(ht_output_open(path, d, &o));
	st = ht_output_write(o, p, n);
	if (st == HT_OK)
		return ht_output_commit(o);
	ht_output_abort(o);
	return st;
}

void ht_tool_signals(void)
{
	ht_output_install_signals();
}
