/* HT_CHECK: ends the process when an invariant of this library is broken. */
#include "base/base.h"

#include <stdlib.h>

void ht_check_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "halftone: %s:%d: this must hold and does not: %s\n", file, line, cond);
	abort();
}
