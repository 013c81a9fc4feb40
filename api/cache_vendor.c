/* The files that the vendor's users may put into graph_compiler_cache_dir themselves:
 * cache.conf, which says how the cache is used, and a graph without an index, NAME.om. */
#include "api/api.h"

#include "precision/json.h"

#include <string.h>
#include <unistd.h>

#define CONF_LIMIT ((size_t)1 << 16)

struct conf {
	const char *dir, *graph_key;
	struct ht_diags *d;
	struct ht_work *w;
	bool *reads_only;
};

/* cache_manual_check concerns parts of a graph that are the user's own programs, of which there
 * are none here. */
static enum ht_status take(struct conf *c, struct ht_json *j, const cJSON *m)
{
	bool debug = !strcmp(m->string, "cache_debug_mode");

	ht_json_step(j);
	if (!debug && strcmp(m->string, "cache_manual_check") != 0)
		return ht_json_error(j,
			"cache.conf has no member '%s'; it has cache_manual_check and "
			"cache_debug_mode",
			m->string);
	if (!cJSON_IsBool(m))
		return ht_json_error(
			j, "%s is %s; it has to be true or false", m->string, ht_json_kind(m));
	if (debug)
		*c->reads_only = cJSON_IsTrue(m);
	else if (cJSON_IsTrue(m))
		ht_warn(c->d, ht_at_line(j->parse->path, j->line),
			"cache_manual_check has no effect: an edited graph is compiled anew");
	return HT_OK;
}

static enum ht_status read_conf(struct conf *c)
{
	struct ht_arena *a = &c->w->arena;
	struct ht_parse p = {
		.arena = a, .diags = c->d, .path = ht_str_printf(a, "%s/cache.conf", c->dir).p
	};
	struct ht_str text;
	struct ht_json j;
	const cJSON *m;

	if (access(p.path, F_OK))
		return HT_OK;
	HT_TRY(ht_policy_file(&p, CONF_LIMIT, &text));
	HT_TRY(ht_json_parse(&p, text, true, &j));
	if (!cJSON_IsObject(j.root))
		return ht_json_error(
			&j, "cache.conf is %s; it has to be an object", ht_json_kind(j.root));
	cJSON_ArrayForEach(m, j.root) HT_TRY(take(c, &j, m));
	return HT_OK;
}

static enum ht_status look(void *arg)
{
	struct conf *c = arg;
	struct ht_arena *a = &c->w->arena;
	const char *om = ht_str_printf(a, "%s/%s.om", c->dir, c->graph_key).p;

	if (!access(om, F_OK) &&
		access(ht_str_printf(a, "%s/%s.idx", c->dir, c->graph_key).p, F_OK))
		ht_warn(c->d, (struct ht_where){ .path = om, .offset = -1 },
			"this model is not read: graphs are found by %s.idx, which is not there",
			c->graph_key);
	return read_conf(c);
}

enum ht_status ht_cache_vendor_files(
	const char *dir, const char *graph_key, struct ht_diags *d, bool *reads_only)
{
	struct ht_work w;
	struct conf c = { dir, graph_key, d, &w, reads_only };

	*reads_only = false;
	return ht_work_run(&w, look, &c, d);
}
