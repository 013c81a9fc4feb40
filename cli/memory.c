/* Checks the memory that a run needs before it is allocated. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- available memory ---- */

/* The number behind `key` at the beginning of a line of a system file, times `unit`; SIZE_MAX:
 * there is none. */
static size_t system_number(const char *path, const char *key, size_t unit)
{
	char line[512];
	size_t n = SIZE_MAX, len = strlen(key);
	unsigned long long number;
	char *end;
	FILE *f = fopen(path, "re");

	while (f && n == SIZE_MAX && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, len) != 0)
			continue;
		number = strtoull(line + len, &end, 10);
		if (end != line + len && !__builtin_mul_overflow(number, unit, &n))
			break;
		n = SIZE_MAX;
	}
	if (f)
		fclose(f);
	return n;
}

static size_t number_in(const char *folder, const char *name)
{
	char path[1200];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return system_number(path, "", 1);
}

/* The bytes that one control group has left: its limit minus the memory of its processes.
 * Cached files do not count. */
static size_t left_in_group(
	const char *folder, const char *limit, const char *usage, const char *cached)
{
	size_t most = number_in(folder, limit), used = number_in(folder, usage), files;
	char path[1200];

	if (most == SIZE_MAX || used == SIZE_MAX)
		return SIZE_MAX;
	snprintf(path, sizeof path, "%s/memory.stat", folder);
	files = system_number(path, cached, 1);
	if (files != SIZE_MAX)
		used -= files < used ? files : used;
	return used < most ? most - used : 0;
}

/* The least that is left in the group at `path` below `root` and in the groups that contain it. */
static size_t left_in_groups(const char *root, const char *path, bool unified)
{
	char folder[1024];
	size_t least = SIZE_MAX, left, end;
	int n = snprintf(folder, sizeof folder, "%s%s", root, path);

	if (n < 0 || (size_t)n >= sizeof folder)
		return least;
	for (end = (size_t)n; end >= strlen(root); end--) {
		if (folder[end] && folder[end] != '/')
			continue;
		folder[end] = 0;
		left = unified ? left_in_group(
					 folder, "memory.max", "memory.current", "inactive_file ")
			       : left_in_group(folder, "memory.limit_in_bytes",
					 "memory.usage_in_bytes", "total_inactive_file ");
		if (left < least)
			least = left;
	}
	return least;
}

/* What the control groups of this process, of either version, have left; SIZE_MAX: no limit. */
static size_t left_in_own_groups(void)
{
	char line[1024], *path, *which;
	size_t least = SIZE_MAX, left = SIZE_MAX;
	FILE *f = fopen("/proc/self/cgroup", "re");

	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		which = strchr(line, ':');
		path = which ? strchr(which + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		which++;
		if (!*which)
			left = left_in_groups("/sys/fs/cgroup", path, true);
		else if (!strcmp(which, "memory"))
			left = left_in_groups("/sys/fs/cgroup/memory", path, false);
		if (left < least)
			least = left;
	}
	if (f)
		fclose(f);
	return least;
}

/* The memory that this process can still allocate: the least of the machine's free memory and
 * what its control groups have left. */
static size_t free_memory(void)
{
	size_t have = system_number("/proc/meminfo", "MemAvailable:", 1024);
	size_t left = left_in_own_groups();

	if (have == SIZE_MAX)
		have = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	return left < have ? left : have;
}

/* ---- memory of a run ---- */

struct needs {
	size_t data;  /* inputs and outputs */
	size_t saved; /* the file that outputs are written to */
	size_t arena; /* of all threads, with the scratch memory of each */
	size_t held;  /* allocated already: graph, constants, packed weights, the code generator */
};

static struct needs needs_of(const struct cli *c, const struct session *s, size_t threads)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	size_t arenas = 1, outputs = 0;
	struct needs n = { 0 };
	struct ht_value_info v;

	ht_program_about(s->program, &info);
	/* Lowering refuses sizes above a quarter of the address space. */
	for (size_t i = 0; ht_program_input(s->program, i, &v); i++)
		n.data += v.bytes;
	for (size_t i = 0; ht_program_output(s->program, i, &v); i++)
		outputs += v.bytes;
	n.data += outputs;
	if (!strcmp(c->verb->name, "run") && option(c, OPTION_OUTPUT, NULL))
		n.saved = outputs * 2; /* the file is built in memory, which grows by doubling */
	if (info.parts > 1 && threads <= info.parts)
		arenas = threads;
	n.arena = arenas * info.arena_bytes + threads * info.scratch_bytes;
	n.held = system_number("/proc/self/status", "RssAnon:", 1024);
	if (n.held == SIZE_MAX || n.held < info.weight_bytes)
		n.held = info.weight_bytes;
	return n;
}

enum ht_status check_memory(const struct cli *c, const struct session *s, long long threads)
{
	const char *text = option(c, OPTION_MAX_MEMORY, NULL);
	struct needs n = needs_of(c, s, (size_t)threads);
	size_t more = n.data + n.saved + n.arena, most = text ? parse_size(text) : free_memory();

	if (text && !most)
		return fail(HT_E_USAGE, "--max-memory: '%s' is no size such as 500M or 2G", text);
	/* A stated limit includes memory that is allocated already; free memory does not. */
	if (text ? more + n.held <= most : more <= most)
		return HT_OK;
	return fail(HT_E_LIMIT,
		"a run needs %zu bytes: %zu of inputs and outputs, %zu to write them, %zu of arena, "
		"%zu of graph, weights and code, which are there already; %s %zu",
		more + n.held, n.data, n.saved, n.arena, n.held,
		text ? "--max-memory allows" : "beside those this machine has free", most);
}
