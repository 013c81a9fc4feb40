/* perf's map of names: a line "ADDRESS SIZE NAME" for each function, the numbers in hexadecimal. */
#include "debug/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum ht_status ht_perf_map_add(const struct ht_debug_code *c, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;
	char path[64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
	at.path = path;
	f = fopen(path, "ae");
	ok = f != NULL;
	for (size_t i = 0; ok && i < c->n; i++) {
		const struct ht_debug_function *one = &c->function[i];

		ok = fprintf(f, "%" PRIxPTR " %zx %s\n", (uintptr_t)one->code.p, one->code.n,
			     one->name) > 0;
	}
	if (f && fclose(f))
		ok = false;
	return ok ? HT_OK : ht_error(d, HT_E_ENVIRONMENT, at, "cannot write: %s", strerror(errno));
}
