/* The vendor's device: a NUMA node of this machine. */
#include "cli/cli.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_NODES = 1024, PREFERRED = 1 /* MPOL_PREFERRED of set_mempolicy(2) */ };

/* "0-3,8": the processors of a node; false: the machine has no such node, or says nothing of it. */
static bool read_cores(long long node, cpu_set_t *out)
{
	char path[96], *line = NULL, *at;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof path, "/sys/devices/system/node/node%lld/cpulist", node);
	f = fopen(path, "re");
	if (!f)
		return false;
	CPU_ZERO(out);
	at = getline(&line, &cap, f) > 0 ? line : NULL;
	fclose(f);
	while (at && *at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &at, 10),
			      last = *at == '-' ? strtoul(at + 1, &at, 10) : first;

		for (unsigned long i = first; i <= last && i < CPU_SETSIZE; i++)
			CPU_SET(i, out);
		at += *at == ',';
	}
	free(line);
	return CPU_COUNT(out) > 0;
}

static int count_nodes(void)
{
	cpu_set_t cores;
	int n = 0;

	for (int i = 0; i < MOST_NODES; i++)
		n += read_cores(i, &cores);
	return n;
}

/* The option, or the environment's; -1: the whole machine. */
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
	unsigned long nodes[MOST_NODES / (8 * sizeof(unsigned long))] = { 0 };
	const size_t word = 8 * sizeof *nodes;
	cpu_set_t cores, allowed;
	long long device;
	enum ht_status st = device_of(c, &device);

	if (st != HT_OK || device < 0)
		return st;
	if (device >= MOST_NODES || !read_cores(device, &cores))
		return fail(HT_E_ENVIRONMENT,
			"there is no device %lld: a device is a NUMA node with cores, and this machine has %d",
			device, count_nodes());
	if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
		CPU_AND(&cores, &cores, &allowed);
	if (sched_setaffinity(0, sizeof cores, &cores) != 0)
		return fail(HT_E_ENVIRONMENT,
			"device %lld: this process may not run on its cores: %s", device,
			strerror(errno));
	nodes[(size_t)device / word] = 1UL << (size_t)device % word;
	/* Memory that is far is slower, no error. */
	syscall(SYS_set_mempolicy, PREFERRED, nodes, (unsigned long)MOST_NODES);
	return HT_OK;
}
