/* The vendor's options, file and variables of its kernel cache, as settings of this cache.
 *
 * Kernels and graphs are in DIR/kernel_cache/PROFILE; op_cache.ini beside that has the maximum
 * size and the version that filled it. --cache-dir, --cache-mode and --no-cache take precedence. */
#include "cli/cli.h"

#include <halftone/cache.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GRAPH_DIR "experimental_config.graph_compiler_cache_dir"
#define GRAPH_KEY "graph_key"
#define RECENT_SECONDS 1800

struct ageing {
	long long mib, percent; /* mib -1: never ages */
};

static const struct setting *stated(const struct cli *c, const char *name)
{
	const struct setting *found = NULL;

	for (size_t i = 0; i < c->settings; i++)
		if (!strcmp(c->setting[i].name, name))
			found = &c->setting[i];
	return found;
}

static enum ht_status wrong(const struct setting *s, const char *why)
{
	if (s->path && s->line)
		return fail(HT_E_INPUT, "%s:%ld: %s: '%s' %s", s->path, s->line, s->name, s->value,
			why);
	return fail(HT_E_USAGE, "%s: '%s' %s", s->name, s->value, why);
}

static bool is_number(const char *s, long long low, long long high, long long *out)
{
	char *end;

	*out = strtoll(s, &end, 10);
	return end != s && !*end && *out >= low && *out <= high;
}

static bool is_size(const char *s, long long *out)
{
	return is_number(s, -1, 2147483647, out) && *out != 0;
}

/* ---- op_cache.ini ---- */

struct ini {
	char max[64], ratio[64], version[64];
	bool there;
};

static void trim(char *s)
{
	size_t n = strlen(s), skip = 0;

	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = 0;
	while (isspace((unsigned char)s[skip]))
		skip++;
	memmove(s, s + skip, n - skip + 1);
}

static void take_key(struct ini *ini, char *line)
{
	char *value = strchr(line, '=');

	if (!value)
		return;
	*value++ = 0;
	trim(line);
	trim(value);
	if (!strcmp(line, "max_op_cache_size"))
		snprintf(ini->max, sizeof ini->max, "%.60s", value);
	else if (!strcmp(line, "remain_cache_size_ratio"))
		snprintf(ini->ratio, sizeof ini->ratio, "%.60s", value);
	else if (!strcmp(line, "ops_version"))
		snprintf(ini->version, sizeof ini->version, "%.60s", value);
}

static void read_ini(const char *path, struct ini *ini)
{
	FILE *f = fopen(path, "r");
	bool ours = false;
	char line[512];

	memset(ini, 0, sizeof *ini);
	if (!f)
		return;
	ini->there = true;
	while (fgets(line, sizeof line, f)) {
		if (*line == '#')
			continue;
		if (strchr(line, '['))
			ours = strstr(line, "[op_compiler_cache]") != NULL;
		else if (ours)
			take_key(ini, line);
	}
	fclose(f);
}

/* Reports a failure in maintaining the cache as a warning, since it does not prevent a
 * compilation. */
static void warn_instead(const struct cli *c, struct ht_diags *d)
{
	struct ht_message m;

	for (size_t i = 0; i < ht_diags_count(d); i++)
		if (ht_diags_get(d, i, &m) == HT_OK)
			warn(c, "%s: %s", m.path ? m.path : ht_cache_dir(c->cache), m.text);
	ht_diags_free(d);
}

/* Writes the version that fills the cache from now on; the sizes stay. */
static void write_ini(struct cli *c, const char *path, const struct ini *ini)
{
	struct ht_diags *d = ht_diags_new();
	struct text t = { 0 };

	text_printf(&t, "[op_compiler_cache]\n");
	if (*ini->max)
		text_printf(&t, "max_op_cache_size=%s\n", ini->max);
	if (*ini->ratio)
		text_printf(&t, "remain_cache_size_ratio=%s\n", ini->ratio);
	text_printf(&t, "adk_version=%s\nops_version=%s\n", ht_version(), ht_version());
	ht_file_write(path, t.p, t.n, d);
	warn_instead(c, d);
	free(t.p);
}

static long long of_environment(
	const struct cli *c, const char *name, bool size, long long fallback)
{
	const char *s = getenv(name);
	long long n;

	if (!s || !*s)
		return fallback;
	if (size ? is_size(s, &n) : is_number(s, 1, 100, &n))
		return n;
	warn(c, "%s: '%s' is not %s; it counts as %lld", name, s,
		size ? "a number of MB from 1, or -1" : "a number from 1 to 100", fallback);
	return fallback;
}

/* The file takes precedence over the environment if both of its numbers are valid. */
static struct ageing ageing_of(const struct cli *c, const char *path, const struct ini *ini)
{
	struct ageing a = { of_environment(c, "ASCEND_MAX_OP_CACHE_SIZE", true, 500),
		of_environment(c, "ASCEND_REMAIN_CACHE_SIZE_RATIO", false, 50) };
	struct ageing file;

	if (!*ini->max && !*ini->ratio)
		return a;
	if (is_size(ini->max, &file.mib) && is_number(ini->ratio, 1, 100, &file.percent))
		return file;
	warn(c,
		"%s has no effect: it needs max_op_cache_size, -1 or from 1, and "
		"remain_cache_size_ratio, from 1 to 100",
		path);
	return a;
}

/* ---- the directory ---- */

static enum ht_status check_letters(const struct setting *s)
{
	for (const unsigned char *p = (const unsigned char *)s->value; *p; p++)
		if (*p < 0x80 && !isalnum(*p) && !strchr("/_.-", *p))
			return wrong(s, "has a letter other than A-Z a-z 0-9 _ . - /");
	return HT_OK;
}

static enum ht_status graph_dir(
	struct cli *c, const struct setting *graph, struct ht_cache_settings *s)
{
	const struct setting *key = stated(c, GRAPH_KEY);
	struct stat st;

	if (stat(graph->value, &st)) {
		if (errno != ENOENT && errno != ENOTDIR)
			return fail(HT_E_ENVIRONMENT, "%s: '%s': cannot read: %s", graph->name,
				graph->value, strerror(errno));
		st.st_mode = 0;
	}
	if (!S_ISDIR(st.st_mode))
		return wrong(graph, "is no directory that is there");
	if (key && *key->value && !ht_cache_graph_key_check(key->value))
		return wrong(key, "is not 1 to 128 of A-Z a-z 0-9 _ -");
	s->graph_key = key && *key->value ? key->value : NULL;
	s->dir = graph->value;
	s->no_kernels = s->mode == HT_CACHE_OFF;
	s->mode = HT_CACHE_RW;
	if (stated(c, "op_compiler_cache_dir"))
		return refuse(c,
			"op_compiler_cache_dir has no effect beside %s, which has kernels too",
			GRAPH_DIR);
	return HT_OK;
}

static const char *variable(const char *name)
{
	const char *s = getenv(name);

	return s && *s ? s : NULL;
}

/* The folder that contains kernel_cache; false: there is none, and the cache is in its normal
 * place. */
static bool find_top(const struct setting *dir, struct text *t)
{
	const char *home = variable("HALFTONE_CACHE_DIR") ? NULL : variable("HOME");
	const char *top = dir && *dir->value ? dir->value : variable("ASCEND_CACHE_PATH");

	if (top || home)
		text_printf(t, "%s%s", top ? top : home, top ? "" : "/atc_data");
	return top || home;
}

enum ht_status vendor_cache_settings(struct cli *c, struct ht_cache_settings *s)
{
	const struct setting *mode = stated(c, "op_compiler_cache_mode");
	const struct setting *dir = stated(c, "op_compiler_cache_dir");
	const struct setting *graph = stated(c, GRAPH_DIR), *profile = stated(c, "profile");
	const struct setting *key = stated(c, GRAPH_KEY), *debug = stated(c, "op_debug_level"),
			     *config = stated(c, "op_debug_config");
	struct text t = { 0 };

	if (option_on(c, OPTION_CACHE_DIR) || option_on(c, OPTION_CACHE_MODE) ||
		option_on(c, OPTION_NO_CACHE))
		return HT_OK;
	/* These two write files of the compilation, so nothing may come from the cache. */
	if ((mode && !strcmp(mode->value, "disable")) ||
		(debug && strcmp(debug->value, "0") != 0) || (config && *config->value))
		s->mode = HT_CACHE_OFF;
	if (graph)
		return graph_dir(c, graph, s);
	if (key && *key->value)
		return refuse(c, "%s has no effect without %s", GRAPH_KEY, GRAPH_DIR);
	if (dir && s->mode != HT_CACHE_OFF && check_letters(dir) != HT_OK)
		return dir->path && dir->line ? HT_E_INPUT : HT_E_USAGE;
	if (s->mode == HT_CACHE_OFF || !(mode || dir) || !find_top(dir, &t))
		return HT_OK;
	text_printf(&t, "/kernel_cache/%s", profile ? profile->value : "cpu");
	c->vendor_dir = t.p;
	s->dir = t.p;
	s->max_bytes = UINT64_MAX; /* it ages only when it is opened */
	return HT_OK;
}

/* ---- after it was opened ---- */

static void empty(struct cli *c)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_cache_cleaned n;

	ht_cache_gc(c->cache, 0, d, &n);
	warn_instead(c, d);
}

static void age(struct cli *c, const struct ageing *a)
{
	const uint64_t most = (uint64_t)a->mib << 20;
	struct ht_diags *d = ht_diags_new();
	struct ht_cache_cleaned n;

	ht_cache_age(c->cache, most, most / 100 * (uint64_t)a->percent, RECENT_SECONDS, d, &n);
	warn_instead(c, d);
}

void vendor_cache_begin(struct cli *c)
{
	const struct setting *mode = stated(c, "op_compiler_cache_mode");
	struct text path = { 0 };
	struct ageing a;
	struct ini ini;

	if (mode && !strcmp(mode->value, "force") && *ht_cache_dir(c->cache))
		empty(c);
	if (!c->vendor_dir || !*ht_cache_dir(c->cache))
		return;
	text_printf(&path, "%.*s/op_cache.ini", (int)(strrchr(c->vendor_dir, '/') - c->vendor_dir),
		c->vendor_dir);
	read_ini(path.p, &ini);
	if (ini.there && *ini.version && strcmp(ini.version, ht_version()) != 0)
		empty(c);
	if (strcmp(ini.version, ht_version()) != 0)
		write_ini(c, path.p, &ini);
	a = ageing_of(c, path.p, &ini);
	if (a.mib > 0)
		age(c, &a);
	free(path.p);
}
