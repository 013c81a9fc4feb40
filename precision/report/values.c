/* Reads values and objects of JSON into structures, by tables of members. */
#include "precision/report/reading.h"

#include <math.h>
#include <string.h>

enum ht_status ht_read_wrong(struct ht_reading *r, const cJSON *value, const char *legal)
{
	if (value->string)
		return ht_json_error(&r->j, "%s is %s; it has to be %s", value->string,
			ht_json_kind(value), legal);
	return ht_json_error(&r->j, "%s, where there has to be %s", ht_json_kind(value), legal);
}

enum ht_status ht_read_str(struct ht_reading *r, const cJSON *value, void *to)
{
	if (!cJSON_IsString(value))
		return ht_read_wrong(r, value, "a string");
	ht_json_step(&r->j);
	*(struct ht_str *)to = ht_str(value->valuestring);
	return HT_OK;
}

enum ht_status ht_read_text(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_str s;

	HT_TRY(ht_read_str(r, value, &s));
	*(const char **)to = s.p;
	return HT_OK;
}

enum ht_status ht_read_reason(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_str s;

	HT_TRY(ht_read_str(r, value, &s));
	*(const struct ht_dtype_reason **)to = ht_reason_of_text(s, r->a);
	return HT_OK;
}

enum ht_status ht_read_dtype(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_str s;

	HT_TRY(ht_read_str(r, value, &s));
	*(enum ht_dtype *)to = ht_dtype_named(s);
	if (*(enum ht_dtype *)to == HT_INVALID)
		return ht_json_error(
			&r->j, "'%.*s' is no dtype; such are float32 and bfloat16", HT_STR_ARG(s));
	return HT_OK;
}

enum ht_status ht_read_bool(struct ht_reading *r, const cJSON *value, void *to)
{
	if (!cJSON_IsBool(value))
		return ht_read_wrong(r, value, "true or false");
	*(bool *)to = cJSON_IsTrue(value);
	return HT_OK;
}

/* A whole number, or null, which is -1. */
enum ht_status ht_read_count(struct ht_reading *r, const cJSON *value, void *to)
{
	double x = cJSON_IsNumber(value) ? value->valuedouble : -1;

	if (!cJSON_IsNull(value) && !(x >= 0 && x <= 9007199254740992.0 && x == trunc(x)))
		return ht_read_wrong(r, value, "a whole number that is not negative, or null");
	*(int64_t *)to = (int64_t)x;
	return HT_OK;
}

enum ht_status ht_read_class(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_str s;

	HT_TRY(ht_read_str(r, value, &s));
	for (int c = HT_CLASS_UNKNOWN; c <= HT_CLASS_GRAY; c++)
		if (ht_str_is(s, ht_class_name((enum ht_class)c))) {
			*(enum ht_class *)to = (enum ht_class)c;
			return HT_OK;
		}
	return ht_json_error(&r->j, "'%.*s' is no class; there are unknown, white, black and gray",
		HT_STR_ARG(s));
}

enum ht_status ht_read_array(struct ht_reading *r, const cJSON *value)
{
	return cJSON_IsArray(value) ? HT_OK : ht_read_wrong(r, value, "an array");
}

size_t ht_read_items(const cJSON *array)
{
	size_t n = 0;

	for (const cJSON *i = array->child; i; i = i->next)
		n++;
	return n;
}

enum ht_status ht_read_dtypes(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_dtype_list *out = to;
	uint8_t *dtype;
	const cJSON *i;

	HT_TRY(ht_read_array(r, value));
	dtype = HT_NEW_ARRAY(r->a, uint8_t, ht_read_items(value));
	cJSON_ArrayForEach(i, value)
	{
		enum ht_dtype t = HT_INVALID;
		if (!cJSON_IsNull(i))
			HT_TRY(ht_read_dtype(r, i, &t));
		dtype[out->n++] = (uint8_t)t;
	}
	out->dtype = dtype;
	return HT_OK;
}

/* ---- objects ---- */

enum ht_status ht_read_members(
	struct ht_reading *r, const cJSON *value, const struct ht_member *members, void *to)
{
	unsigned seen = 0;
	long line = r->j.line;
	const cJSON *i;

	if (!cJSON_IsObject(value))
		return ht_read_wrong(r, value, "an object");
	cJSON_ArrayForEach(i, value)
	{
		const struct ht_member *m = members;
		ht_json_step(&r->j);
		line = i == value->child ? r->j.line : line;
		while (m->name && strcmp(m->name, i->string) != 0)
			m++;
		if (!m->name) {
			ht_json_skip(&r->j, i);
			continue;
		}
		if (seen >> (m - members) & 1)
			return ht_json_error(&r->j, "%s stands twice", m->name);
		seen |= 1u << (m - members);
		HT_TRY(m->read(r, i, (char *)to + m->offset));
	}
	for (const struct ht_member *m = members; m->name; m++)
		if (m->needed && !(seen >> (m - members) & 1)) {
			r->j.line = line;
			return ht_json_error(&r->j, "%s is missing", m->name);
		}
	r->line = line;
	return HT_OK;
}
