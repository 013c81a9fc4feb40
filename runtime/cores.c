/* Cores of devices, and threads that run on them. */
#include "runtime/cores.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Parses a list such as "0-3,8". */
static void read_list(const char *at, cpu_set_t *out)
{
	CPU_ZERO(out);
	while (*at >= '0' && *at <= '9') {
		char *end;
		unsigned long first = strtoul(at, &end, 10),
			      last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

		for (unsigned long i = first; i <= last && i < CPU_SETSIZE; i++)
			CPU_SET(i, out);
		at = end + (*end == ',');
	}
}

bool ht_device_cores(const char *nodes, int device, struct ht_cores *out)
{
	char path[PATH_MAX], *line = NULL;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/node%d/cpulist", nodes, device);
	f = device >= 0 && device < HT_MOST_DEVICES ? fopen(path, "re") : NULL;
	if (!f)
		return false;
	read_list(getline(&line, &cap, f) > 0 ? line : "", &out->set);
	fclose(f);
	free(line);
	return CPU_COUNT(&out->set) > 0;
}

/* If the cores are no longer permitted, nothing changes: the system keeps the thread on
 * permitted ones. */
void ht_cores_enter(const struct ht_cores *on, struct ht_cores *before)
{
	if (sched_getaffinity(0, sizeof before->set, &before->set) != 0)
		*before = *on;
	if (!CPU_EQUAL(&before->set, &on->set))
		sched_setaffinity(0, sizeof on->set, &on->set);
}

void ht_cores_leave(const struct ht_cores *on, const struct ht_cores *before)
{
	if (!CPU_EQUAL(&before->set, &on->set))
		sched_setaffinity(0, sizeof before->set, &before->set);
}
