/* The object session_config of a run configuration: a ConfigProto as protobuf writes it in JSON,
 * or as a script writes it, with names in snake_case.
 *
 * This file reads allow_soft_placement, the switches of graph_options.rewrite_options that are
 * in the table of options, and the entry NpuOptimizer of custom_optimizers.  One note names all
 * members that are not read. */
#include "api/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef enum ht_status read_fn(struct reading *r, const char *name, const cJSON *value, long line);

/* Converts camelCase to snake_case.  Names longer than all known ones are cut. */
static void snake(const char *key, char out[HT_CONFIG_NAME])
{
	size_t n = 0;

	for (; *key && n + 2 < HT_CONFIG_NAME; key++) {
		if (isupper((unsigned char)*key) && n)
			out[n++] = '_';
		out[n++] = (char)tolower((unsigned char)*key);
	}
	out[n] = 0;
}

static void ignore(struct reading *r, const char *name)
{
	ht_printf(&r->ignored, "%s%.60s", ht_buf_str(&r->ignored).n ? ", " : "", name);
}

/* Calls `read` for each member, with its name in snake_case.  `read` moves behind the value. */
static enum ht_status each_member(
	struct reading *r, read_fn *read, const char *what, const cJSON *object)
{
	const cJSON *member;

	if (!cJSON_IsObject(object))
		return ht_json_error(
			&r->j, "%s is %s; it has to be an object", what, ht_json_kind(object));
	cJSON_ArrayForEach(member, object)
	{
		char name[HT_CONFIG_NAME];
		ht_json_step(&r->j);
		snake(member->string, name);
		HT_TRY(read(r, name, member, r->j.line));
	}
	return HT_OK;
}

/* ---- rewrite_options ---- */

/* Names of the numbers of protobuf's enumerations. */
static const char *const toggles[] = { "DEFAULT", "ON", "OFF", "AGGRESSIVE", "EXPERIMENTAL_MLIR",
	"EXPERIMENTAL_BOTH" };
static const char *const memory[] = { "DEFAULT_MEM_OPT", "NO_MEM_OPT", "MANUAL", "HEURISTICS",
	"SWAPPING_HEURISTICS", "RECOMPUTATION_HEURISTICS", "SCHEDULING_HEURISTICS" };

/* The name of an enumeration's value, or a boolean as a toggle; NULL: it is neither. */
static const char *enum_name(const cJSON *value, const char *const *names, size_t n)
{
	if (cJSON_IsBool(value))
		return cJSON_IsTrue(value) ? "ON" : "OFF";
	if (cJSON_IsNumber(value) && value->valuedouble == (double)value->valueint &&
		value->valueint >= 0 && (size_t)value->valueint < n)
		return names[value->valueint];
	return cJSON_IsString(value) ? value->valuestring : NULL;
}

static enum ht_status take_switch(
	struct reading *r, const struct ht_option_info *o, const cJSON *value, long line)
{
	bool of_memory = strstr(o->name, "memory_optimization") != NULL;
	const char *text = of_memory ? enum_name(value, memory, HT_COUNT(memory))
				     : enum_name(value, toggles, HT_COUNT(toggles));

	if (!text)
		return ht_json_error(&r->j, "%s is %s; it has to be one of %s", o->name,
			ht_json_kind(value), o->values);
	return ht_config_take(r, o, ht_str_copy(&r->c->arena, ht_str(text)).p, line);
}

/* The graph engine has its own option for constant folding, which is the one in the table. */
static enum ht_status take_folding(struct reading *r, const cJSON *value, long line)
{
	const char *text = enum_name(value, toggles, HT_COUNT(toggles));
	struct ht_option_info o;

	for (size_t i = 0; text && i < HT_COUNT(toggles); i++)
		if (!strcmp(text, toggles[i])) {
			ht_option_named("oo_constant_folding", &o);
			return ht_config_take(
				r, &o, strcmp(text, "OFF") != 0 ? "true" : "false", line);
		}
	return ht_json_error(&r->j,
		"session_config.graph_options.rewrite_options.constant_folding: '%.60s' is none of "
		"DEFAULT, ON, OFF and AGGRESSIVE",
		text ? text : ht_json_kind(value));
}

/* ---- custom_optimizers ---- */

static int sextet(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = strchr(digits, c);

	return c && at ? (int)(at - digits) : -1;
}

/* Decodes `s` from protobuf's base64; NULL: it is malformed. */
static const char *from_base64(struct ht_arena *a, const char *s)
{
	size_t n = strcspn(s, "="), length = 0;
	char *out = ht_alloc(a, n + 1);
	unsigned bits = 0;

	if (n % 4 == 1 || strspn(s + n, "=") != strlen(s + n) || strlen(s) % 4)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (sextet(s[i]) < 0)
			return NULL;
		bits = (bits << 6 | (unsigned)sextet(s[i])) & 0xFFFFFF;
		if (i % 4) {
			out[length] = (char)(bits >> (6 - i % 4 * 2));
			if (!out[length++])
				return NULL;
		}
	}
	out[length] = 0;
	return out;
}

/* The field of an AttrValue that has the option's value: .b, .i, .f or .s.  The last is base64
 * if protobuf wrote the file. */
static const char *attr_text(
	struct reading *r, const struct ht_option_info *o, const cJSON *attr, bool base64)
{
	const cJSON *field = attr->child;

	if (!cJSON_IsObject(attr) || !field || field->next || strlen(field->string) != 1 ||
		!strchr("bifs", *field->string))
		return NULL;
	if (*field->string == 'b' && !cJSON_IsBool(field))
		return NULL;
	if (*field->string == 's')
		return !cJSON_IsString(field) ? NULL
		       : base64               ? from_base64(&r->c->arena, field->valuestring)
					      : ht_config_text(r, o->name, field);
	if (*field->string == 'f' && cJSON_IsNumber(field)) {
		struct ht_buf b;
		ht_buf_init(&b, &r->c->arena);
		ht_put_double(&b, field->valuedouble);
		return ht_buf_str(&b).p;
	}
	return *field->string == 'f' ? NULL : ht_config_text(r, o->name, field);
}

static enum ht_status read_parameter(struct reading *r, const cJSON *member, bool base64, long line)
{
	struct ht_option_info o;
	const char *text;

	if (!strncmp(member->string, "atc.", 4) || !ht_option_named(member->string, &o)) {
		HT_TRY(ht_config_unknown(r, "", member->string));
		ht_json_skip(&r->j, member);
		return HT_OK;
	}
	text = attr_text(r, &o, member, base64);
	if (!text)
		return ht_json_error(&r->j,
			"%s has to be {\"b\": true}, {\"i\": 1}, {\"f\": 0.5} or {\"s\": %s}",
			o.name, base64 ? "\"BASE64\"" : "\"TEXT\"");
	ht_json_skip(&r->j, member);
	return ht_config_take(r, &o, text, line);
}

static enum ht_status read_parameters(struct reading *r, const cJSON *map, bool base64)
{
	const cJSON *member;

	if (!cJSON_IsObject(map))
		return ht_json_error(
			&r->j, "parameter_map is %s; it has to be an object", ht_json_kind(map));
	cJSON_ArrayForEach(member, map)
	{
		ht_json_step(&r->j);
		HT_TRY(read_parameter(r, member, base64, r->j.line));
	}
	return HT_OK;
}

static enum ht_status read_optimizer(struct reading *r, const cJSON *optimizer)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(optimizer, "name"), *member;
	bool npu = cJSON_IsString(name) && !strcmp(name->valuestring, "NpuOptimizer");

	if (!cJSON_IsObject(optimizer) || !cJSON_IsString(name))
		return ht_json_error(&r->j, "an entry of custom_optimizers needs a name: "
					    "{\"name\": \"NpuOptimizer\", \"parameter_map\": {}}");
	if (!npu)
		ignore(r, name->valuestring);
	cJSON_ArrayForEach(member, optimizer)
	{
		bool snaked = !strcmp(member->string, "parameter_map");
		ht_json_step(&r->j);
		if (npu && (snaked || !strcmp(member->string, "parameterMap"))) {
			HT_TRY(read_parameters(r, member, !snaked));
			continue;
		}
		if (member != name)
			ignore(r, member->string);
		ht_json_skip(&r->j, member);
	}
	return HT_OK;
}

static enum ht_status read_optimizers(struct reading *r, const cJSON *list)
{
	const cJSON *optimizer;

	if (!cJSON_IsArray(list))
		return ht_json_error(&r->j, "custom_optimizers is %s; it has to be an array",
			ht_json_kind(list));
	cJSON_ArrayForEach(optimizer, list) HT_TRY(read_optimizer(r, optimizer));
	return HT_OK;
}

/* ---- the objects ---- */

static enum ht_status read_rewrite(
	struct reading *r, const char *name, const cJSON *value, long line)
{
	char option[2 * HT_CONFIG_NAME];
	struct ht_option_info o;

	if (!strcmp(name, "custom_optimizers"))
		return read_optimizers(r, value);
	snprintf(option, sizeof option, "session_config.graph_options.rewrite_options.%s", name);
	if (!strcmp(name, "constant_folding"))
		HT_TRY(take_folding(r, value, line));
	else if (ht_option_named(option, &o))
		HT_TRY(take_switch(r, &o, value, line));
	else
		ignore(r, name);
	ht_json_skip(&r->j, value);
	return HT_OK;
}

static enum ht_status read_graph(struct reading *r, const char *name, const cJSON *value, long line)
{
	(void)line;
	if (!strcmp(name, "rewrite_options"))
		return each_member(r, read_rewrite, name, value);
	ignore(r, name);
	ht_json_skip(&r->j, value);
	return HT_OK;
}

static enum ht_status read_session(
	struct reading *r, const char *name, const cJSON *value, long line)
{
	struct ht_option_info o;

	if (!strcmp(name, "graph_options"))
		return each_member(r, read_graph, name, value);
	if (!strcmp(name, "allow_soft_placement")) {
		ht_option_named("session_config.allow_soft_placement", &o);
		if (!cJSON_IsBool(value))
			return ht_json_error(&r->j, "%s is %s; it has to be true or false", o.name,
				ht_json_kind(value));
		return ht_config_take(r, &o, cJSON_IsTrue(value) ? "true" : "false", line);
	}
	ignore(r, name);
	ht_json_skip(&r->j, value);
	return HT_OK;
}

enum ht_status ht_config_session(struct reading *r, const cJSON *session)
{
	long line = r->j.line;

	ht_buf_init(&r->ignored, &r->c->arena);
	HT_TRY(each_member(r, read_session, "session_config", session));
	if (ht_buf_str(&r->ignored).n)
		ht_note(r->d, ht_at_line(r->path, line), "session_config: these are not read: %s",
			ht_buf_str(&r->ignored).p);
	return HT_OK;
}
