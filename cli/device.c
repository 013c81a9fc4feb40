/* The vendor's device, its pages, and its limits of time. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The option, or the environment's value; -1: the whole machine. */
static enum ht_status device_of(const struct cli *c, long long *out)
{
	const char *stated = setting_value(c, "session_device_id"),
		   *env = getenv("ASCEND_DEVICE_ID");
	char *end;

	*out = stated ? strtoll(stated, NULL, 10) : -1;
	if (stated || !env || !*env)
		return HT_OK;
	errno = 0;
	*out = strtoll(env, &end, 10);
	if (*end || errno || *out < 0)
		return fail(HT_E_USAGE, "ASCEND_DEVICE_ID: '%s' is no number of a device", env);
	return HT_OK;
}

enum ht_status use_device(const struct cli *c)
{
	long long device;
	enum ht_status st = device_of(c, &device);

	if (st != HT_OK || device < 0)
		return st;
	return ht_use_device(device < INT32_MAX ? (int32_t)device : INT32_MAX, c->diags);
}

/* ---- pages ---- */

enum ht_pages pages_wanted(const struct cli *c)
{
	const char *value = setting_value(c, "memory_config.variable_use_1g_huge_page");

	return !value || !strcmp(value, "0") ? HT_PAGES_USUAL
	       : !strcmp(value, "1")         ? HT_PAGES_1G
					     : HT_PAGES_1G_OR_LESS;
}

/* ---- limits of time ---- */

enum { MS = 1000000, S = 1000000000 /* in nanoseconds */ };

/* The stated limit; 0: it is not stated, or it is unlimited. */
static uint64_t limit_of(const struct cli *c, const char *name, uint64_t unit)
{
	const char *value = setting_value(c, name);
	long long n = value ? strtoll(value, NULL, 10) : 0;

	if (n <= 0)
		return 0;
	return (uint64_t)n < UINT64_MAX / unit ? (uint64_t)n * unit : UINT64_MAX;
}

void read_limits(const struct cli *c, struct ht_context_options *out)
{
	out->timeout_ns = limit_of(c, "graph_exec_timeout", MS);
	out->sync_timeout_ns = limit_of(c, "stream_sync_timeout", MS);
	out->turn_timeout_ns = limit_of(c, "event_sync_timeout", MS);
	out->kernel_timeout_ns = limit_of(c, "op_execute_timeout", S);
	out->wait_timeout_ns = limit_of(c, "op_wait_timeout", S);
}
