/* Run configurations: NPURunConfig's arguments as a JSON object.  Each member is a row of the table
 * of options; an object holds the members whose rows begin with its name and a dot. */
#include "api/config.h"

#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)1 << 20)

static bool is_object_name(const char *name, size_t n)
{
	struct ht_option_info o;

	for (size_t i = 0; ht_option(i, &o); i++)
		if (!strncmp(o.name, name, n) && o.name[n] == '.' && strncmp(name, "atc", n) != 0)
			return true;
	return false;
}

static enum ht_status take(
	struct reading *r, const struct ht_option_info *o, const cJSON *value, long line)
{
	const char *text = ht_config_text(r, o->name, value);

	if (!text)
		return ht_json_error(&r->j, "%s is %s; it has to be %s", o->name,
			cJSON_IsNumber(value) ? "no whole number" : ht_json_kind(value), o->values);
	return ht_config_take(r, o, text, line);
}

static enum ht_status read_object(struct reading *r, const char *object, const cJSON *members);

static enum ht_status read_member(struct reading *r, const char *object, const cJSON *member)
{
	char name[HT_CONFIG_NAME];
	struct ht_option_info o;
	long line;
	int n = snprintf(name, sizeof name, "%s%s%s", object, *object ? "." : "", member->string);

	ht_json_step(&r->j);
	line = r->j.line;
	if (!*object && !strcmp(name, "session_config") && cJSON_IsObject(member))
		return ht_config_session(r, member);
	if (n < HT_CONFIG_NAME && is_object_name(name, (size_t)n)) {
		if (cJSON_IsNull(member))
			return HT_OK;
		if (!cJSON_IsObject(member))
			return ht_json_error(&r->j, "%s is %s; it has to be an object", name,
				ht_json_kind(member));
		return read_object(r, name, member);
	}
	if (!ht_config_find(object, member->string, &o)) {
		HT_TRY(ht_config_unknown(r, object, member->string));
		ht_json_skip(&r->j, member);
		return HT_OK;
	}
	ht_json_skip(&r->j, member);
	/* Python has None for an argument that is not given. */
	return cJSON_IsNull(member) ? HT_OK : take(r, &o, member, line);
}

static enum ht_status read_object(struct reading *r, const char *object, const cJSON *members)
{
	const cJSON *member;

	cJSON_ArrayForEach(member, members) HT_TRY(read_member(r, object, member));
	return HT_OK;
}

/* A run configuration is for training unless it states otherwise. */
static void imply_run_mode(struct ht_config *c)
{
	if (!ht_config_stated(c, "graph_run_mode"))
		c->setting[c->settings++] = (struct ht_setting){ "graph_run_mode", "1", 0 };
}

static enum ht_status read_config(void *arg)
{
	struct reading *r = arg;
	struct ht_parse p = {
		.arena = &r->c->arena, .diags = r->d, .path = r->path, .lenient = r->lenient
	};
	struct ht_option_info o;
	struct ht_str text;
	size_t n = 0;

	while (ht_option(n, &o))
		n++;
	r->c->setting = ht_alloc(&r->c->arena, n * sizeof *r->c->setting);
	HT_TRY(ht_policy_file(&p, FILE_LIMIT, &text));
	HT_TRY(ht_json_parse(&p, text, true, &r->j));
	if (!cJSON_IsObject(r->j.root))
		return ht_json_error(&r->j, "a run configuration is %s; it has to be an object",
			ht_json_kind(r->j.root));
	HT_TRY(read_object(r, "", r->j.root));
	imply_run_mode(r->c);
	return HT_OK;
}

enum ht_status ht_config_parse(
	const char *path, int lenient, struct ht_diags *d, struct ht_config **out)
{
	struct reading r = { path, lenient != 0, d, ht_sys_alloc(sizeof *r.c), { 0 }, { 0 } };
	enum ht_status st;

	*out = NULL;
	if (!r.c)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&r.c->arena, &r.c->unwind);
	st = ht_guarded(&r.c->unwind, read_config, &r, d);
	if (st == HT_OK)
		*out = r.c;
	else
		ht_config_free(r.c);
	return st;
}

static enum ht_status check(const struct ht_config *c, const char *path, struct ht_diags *d)
{
	struct ht_stated *s = ht_sys_alloc(c->settings * sizeof *s);
	enum ht_status st;

	if (!s)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	for (size_t i = 0; i < c->settings; i++)
		s[i] = (struct ht_stated){ c->setting[i].name, c->setting[i].value, path,
			c->setting[i].line };
	st = ht_settings_check(s, c->settings, d);
	free(s);
	return st;
}

enum ht_status ht_config_read(
	const char *path, int lenient, struct ht_diags *d, struct ht_config **out)
{
	enum ht_status st = ht_config_parse(path, lenient, d, out);

	if (st == HT_OK)
		st = check(*out, path, d);
	if (st != HT_OK) {
		ht_config_free(*out);
		*out = NULL;
	}
	return st;
}

int ht_config_get(const struct ht_config *c, size_t i, struct ht_setting *out)
{
	if (i >= c->settings)
		return 0;
	*out = c->setting[i];
	return 1;
}

void ht_config_free(struct ht_config *c)
{
	if (!c)
		return;
	ht_arena_release(&c->arena);
	free(c);
}
