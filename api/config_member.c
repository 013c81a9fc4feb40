/* Members of run configurations: finds the option of a member, and turns its value into a
 * setting. */
#include "api/config.h"

#include <math.h>
#include <string.h>

bool ht_config_find(const char *object, const char *key, struct ht_option_info *out)
{
	char name[HT_CONFIG_NAME];

	if (!*object)
		return strncmp(key, "atc.", 4) != 0 && ht_option_named(key, out);
	return snprintf(name, sizeof name, "%s.%s", object, key) < HT_CONFIG_NAME &&
	       ht_option_named(name, out);
}

/* The members of the object, for suggestions. */
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

enum ht_status ht_config_unknown(struct reading *r, const char *object, const char *key)
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

/* Older manuals have Python lists where newer ones have text with colons. */
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

const struct ht_setting *ht_config_stated(const struct ht_config *c, const char *name)
{
	for (size_t i = 0; i < c->settings; i++)
		if (!strcmp(c->setting[i].name, name))
			return &c->setting[i];
	return NULL;
}

enum ht_status ht_config_take(
	struct reading *r, const struct ht_option_info *o, const char *text, long line)
{
	const struct ht_setting *before = ht_config_stated(r->c, o->name);

	if (before)
		return ht_json_error(
			&r->j, "%s is stated twice, first in line %ld", o->name, before->line);
	HT_TRY(ht_option_legal_at(o->name, text, ht_at_line(r->path, line), r->d));
	r->c->setting[r->c->settings++] = (struct ht_setting){ o->name, text, line };
	return HT_OK;
}
