/* Whether threads can run at the same time: each on a processor, and within the processor time
 * that control groups grant in each period (version 2; Linux,
 * Documentation/admin-guide/cgroup-v2.rst, "cpu.max"). */
#include "runtime/cores.h"
#include "runtime/pool.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Reads "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static bool grants(const char *path, int threads)
{
	FILE *f = fopen(path, "re");
	long long quota, period;
	bool less = f && fscanf(f, "%lld %lld", &quota, &period) == 2 && period > 0 &&
		    quota / period < threads;

	if (f)
		fclose(f);
	return !less;
}

/* The path of the process' group, "" for the root group; false: there is none. */
static bool own_group(const char *file, char group[static PATH_MAX])
{
	FILE *f = fopen(file, "re");
	bool found = false;

	while (f && !found && fgets(group, PATH_MAX, f))
		found = strncmp(group, "0::/", 4) == 0;
	if (f)
		fclose(f);
	if (found) {
		size_t n;

		memmove(group, group + 3, strlen(group + 3) + 1);
		n = strcspn(group, "\n");
		group[n > 1 ? n : 0] = 0;
	}
	return found;
}

bool ht_quota_grants(const char *own, const char *groups, int threads)
{
	char group[PATH_MAX], path[2 * PATH_MAX];

	if (!own_group(own, group))
		return true;
	for (;;) {
		char *last = strrchr(group, '/');

		snprintf(path, sizeof path, "%s%s/cpu.max", groups, group);
		if (!grants(path, threads))
			return false;
		if (!last)
			return true;
		*last = 0;
	}
}

bool ht_run_at_once(int threads, const struct ht_cores *cores)
{
	struct ht_cores own;

	if (!cores && sched_getaffinity(0, sizeof own.set, &own.set) != 0)
		return false;
	return CPU_COUNT(&(cores ? cores : &own)->set) >= threads &&
	       ht_quota_grants("/proc/self/cgroup", "/sys/fs/cgroup", threads);
}
