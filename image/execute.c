/* The executor, for the library and its runtime. */
#include "image/executor.h"

void ht_exec_begin(struct ht_exec *x)
{
	ht_exec_forget(x);
}

bool ht_exec_run(struct ht_exec *x, const void *const *in, void *const *out)
{
	return ht_exec_once(x, in, out);
}
