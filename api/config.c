/* Run configurations: NPURunConfig's arguments as a JSON object.  Each member is a row of the table
 * of options; an object holds the members whose rows begin with its name and a dot. */
#include "api/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT ((size_t)1 << 20)
#define LONGEST_NAME 128

static bool is_object_name(const char *name, size_t n)
{
	struct ht_option_info o;

	for (size_t i = 0; ht_option(i, &o); i++)
		if (!strncmp(o.name, name, n) && o.name[n] == '.' && strncmp(name, "atc", n) != 0)
			return true;
	return false;
}

/* The member of `object` ("": of the configuration itself) called `key`.  A member of the
 * configuration may also be called by a session's name for it. */
static bool find(const char *object, const char *key, struct ht_option_info *out)
{
	char name[LONGEST_NAME];

	if (!*object)
		return strncmp(key, "atc.", 4) != 0 && ht_option_named(key, out);
	return snprintf(name, sizeof name, "%s.%s", object, key) < LONGEST_NAME &&
	       ht_option_named(name, out);
}

/* What could have been meant: members of the object. */
static size_t member_names(const char *object, struct ht_str *names, size_t room)
{
	size_t n = 0, skip = *object ? strlen(object) + 1 : 0;
	struct ht_option_info o;

	for (size_t i = 0; ht_option(i, &o) && n + 2 < room; i++) {
		if (!strncmp(o.name, "atc.", 4) ||
			(skip && (strncmp(o.name, object, skip - 1) || o.name[skip - 1] != '.')))
			continue;
		names[n] = (struct ht_str){ o.name + skip, strcspn(o.name + skip, ".") };
		n += !n || !ht_str_eq(names[n], names[n - 1]);
		if (strrchr(o.name + skip, '.'))
			names[n++] = ht_str(strrchr(o.name, '.') + 1);
	}
	return n;
}

static enum ht_status unknown(struct reading *r, const char *object, const char *key)
{
	struct ht_str names[512], near[3];
	size_t n = member_names(object, names, HT_COUNT(names)), all = *object ? n : 0;
	struct ht_buf text;

	ht_buf_init(&text, &r->c->arena);
	ht_printf(&text, "%s has no member '%s'", *object ? object : "a run configuration", key);
	n = (size_t)ht_near_names(ht_str(key), names, n, near);
	for (size_t i = 0; i < n; i++)
		ht_printf(&text, "%s'%.*s'%s", i ? " or " : "; did you mean ", HT_STR_ARG(near[i]),
			i + 1 < n ? "" : "?");
	if (!n && !*object)
		ht_puts(&text, "; see halftone options");
	for (size_t i = 0; !n && i < all; i++)
		ht_printf(&text, "%s%.*s", i ? ", " : "; it has ", HT_STR_ARG(names[i]));
	if (!r->lenient)
		return ht_json_error(&r->j, "%s", ht_buf_str(&text).p);
	ht_warn(r->d, ht_at_line(r->path, r->j.line), "%s", ht_buf_str(&text).p);
	return HT_OK;
}

static const char *number_text(struct ht_arena *a, double x)
{
	char number[32];

	if (x != trunc(x) || fabs(x) > 9007199254740992.0)
		return NULL;
	snprintf(number, sizeof number, "%.0f", x);
	return ht_str_copy(a, ht_str(number)).p;
}

/* Older manuals have Python's lists for what is a text with colons elsewhere. */
static const char *list_text(struct ht_arena *a, const cJSON *list)
{
	const cJSON *item;
	struct ht_buf b;

	ht_buf_init(&b, a);
	cJSON_ArrayForEach(item, list)
	{
		if (!cJSON_IsString(item))
			return NULL;
		ht_printf(&b, "%s%s", item == list->child ? "" : ":", item->valuestring);
	}
	return ht_buf_str(&b).p;
}

const char *ht_config_text(struct reading *r, const char *option, const cJSON *value)
{
	struct ht_arena *a = &r->c->arena;

	if (cJSON_IsString(value))
		return ht_str_copy(a, ht_str(value->valuestring)).p;
	if (cJSON_IsBool(value))
		return cJSON_IsTrue(value) ? "true" : "false";
	if (cJSON_IsArray(value) && (!strcmp(option, "profiling_config.enable_options") ||
					    !strcmp(option, "profiling_config.profiling_options")))
		return list_text(a, value);
	return cJSON_IsNumber(value) ? number_text(a, value->valuedouble) : NULL;
}

static const struct ht_setting *stated(const struct ht_config *c, const char *name)
{
	for (size_t i = 0; i < c->settings; i++)
		if (!strcmp(c->setting[i].name, name))
			return &c->setting[i];
	return NULL;
}

enum ht_status ht_config_take(
	struct reading *r, const struct ht_option_info *o, const char *text, long line)
{
	const struct ht_setting *before = stated(r->c, o->name);

	if (before)
		return ht_json_error(
			&r->j, "%s is stated twice, first in line %ld", o->name, before->line);
	HT_TRY(ht_option_legal_at(o->name, text, ht_at_line(r->path, line), r->d));
	r->c->setting[r->c->settings++] = (struct ht_setting){ o->name, text, line };
	return HT_OK;
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

enum ht_status ht_config_unknown(struct reading *r, const char *key)
{
	return unknown(r, "", key);
}

static enum ht_status read_object(struct reading *r, const char *object, const cJSON *members);

static enum ht_status read_member(struct reading *r, const char *object, const cJSON *member)
{
	char name[LONGEST_NAME];
	struct ht_option_info o;
	long line;
	int n = snprintf(name, sizeof name, "%s%s%s", object, *object ? "." : "", member->string);

	ht_json_step(&r->j);
	line = r->j.line;
	if (!*object && !strcmp(name, "session_config") && cJSON_IsObject(member))
		return ht_config_session(r, member);
	if (n < LONGEST_NAME && is_object_name(name, (size_t)n)) {
		if (cJSON_IsNull(member))
			return HT_OK;
		if (!cJSON_IsObject(member))
			return ht_json_error(&r->j, "%s is %s; it has to be an object", name,
				ht_json_kind(member));
		return read_object(r, name, member);
	}
	if (!find(object, member->string, &o)) {
		HT_TRY(unknown(r, object, member->string));
		ht_json_skip(&r->j, member);
		return HT_OK;
	}
	ht_json_skip(&r->j, member);
	/* None is what Python has for an argument that is not given. */
	return cJSON_IsNull(member) ? HT_OK : take(r, &o, member, line);
}

static enum ht_status read_object(struct reading *r, const char *object, const cJSON *members)
{
	const cJSON *member;

	cJSON_ArrayForEach(member, members) HT_TRY(read_member(r, object, member));
	return HT_OK;
}

/* A run configuration trains unless it says otherwise. */
static void imply_run_mode(struct ht_config *c)
{
	if (!stated(c, "graph_run_mode"))
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
