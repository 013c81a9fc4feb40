/* proto3 JSON ↔ wire form, by the message table.  Reading goes through cJSON. */
#include "frontend/pb.h"

#include <cjson/cJSON.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The way from the document's root to a value, for messages. */
struct step {
	const struct step *up;
	const char *name; /* NULL: `index` */
	size_t index;
};

struct json {
	struct ht_arena *a;
	struct ht_diags *diags;
	const char *path;
	int max_depth;
	bool ignores; /* a member was not read, and a warning names it */
	struct ht_buf out;
};

static void put_step(struct ht_buf *b, const struct step *s)
{
	if (!s)
		return;
	put_step(b, s->up);
	if (s->name)
		ht_printf(b, "%s%.80s", b->n ? "." : "", s->name);
	else
		ht_printf(b, "[%zu]", s->index);
}

static enum ht_status fail(struct json *j, const struct step *s, enum ht_status st, const char *fmt,
	...) HT_PRINTF(4, 5);
static enum ht_status fail(
	struct json *j, const struct step *s, enum ht_status st, const char *fmt, ...)
{
	struct ht_where w = HT_NOWHERE;
	struct ht_buf at;
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	ht_buf_init(&at, j->a);
	put_step(&at, s);
	w.path = j->path;
	return ht_error(j->diags, st, w, "%.*s: %s", HT_STR_ARG(ht_buf_str(&at)), text);
}

/* TF.js reads the members that it knows and no others, so that tools leave what they compute there. */
static void ignore(struct json *j, const struct step *s, const char *message)
{
	struct ht_where w = HT_NOWHERE;
	struct ht_buf at;

	if (j->ignores)
		return;
	j->ignores = true;
	ht_buf_init(&at, j->a);
	put_step(&at, s);
	w.path = j->path;
	ht_warn(j->diags, w, "%.*s: %s has no such field; this and all others like it are ignored",
		HT_STR_ARG(ht_buf_str(&at)), message);
}

static enum ht_status put_base64_bytes(struct json *j, const struct step *s, const char *p)
{
	uint32_t bits = 0;
	int have = 0, digit;

	for (; *p && *p != '='; p++) {
		if (*p >= 'A' && *p <= 'Z')
			digit = *p - 'A';
		else if (*p >= 'a' && *p <= 'z')
			digit = *p - 'a' + 26;
		else if (*p >= '0' && *p <= '9')
			digit = *p - '0' + 52;
		else if (*p == '+' || *p == '-')
			digit = 62;
		else if (*p == '/' || *p == '_')
			digit = 63;
		else
			return fail(j, s, HT_E_INPUT, "the bytes are not base64");
		bits = bits << 6 | (uint32_t)digit;
		have += 6;
		if (have >= 8) {
			have -= 8;
			ht_putc(&j->out, (char)(bits >> have & 0xff));
		}
	}
	while (*p == '=')
		p++;
	return *p || have >= 6 ? fail(j, s, HT_E_INPUT, "the bytes are not base64") : HT_OK;
}

/* Integers come as numbers or as strings. */
static bool read_integer(const cJSON *v, bool is_signed, uint64_t *u)
{
	const char *p = v->valuestring;
	bool negative = false;

	if (cJSON_IsNumber(v)) {
		double d = v->valuedouble;

		if (d != floor(d) || d < (is_signed ? -9223372036854775808.0 : 0.0) ||
			d >= (is_signed ? 9223372036854775808.0 : 18446744073709551616.0))
			return false;
		*u = d < 0 ? (uint64_t)(int64_t)d : (uint64_t)d;
		return true;
	}
	if (!cJSON_IsString(v))
		return false;
	if (*p == '-' && is_signed) {
		negative = true;
		p++;
	}
	if (!*p)
		return false;
	for (*u = 0; *p; p++)
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(*u, (uint64_t)10, u) ||
			__builtin_add_overflow(*u, (uint64_t)(*p - '0'), u))
			return false;
	if (is_signed && *u > (uint64_t)INT64_MAX + (negative ? 1 : 0))
		return false;
	if (negative)
		*u = 0 - *u;
	return true;
}

static bool read_double(const cJSON *v, double *d)
{
	if (cJSON_IsNumber(v)) {
		*d = v->valuedouble;
		return true;
	}
	if (!cJSON_IsString(v) || !*v->valuestring)
		return false;
	if (!strcmp(v->valuestring, "NaN"))
		*d = NAN;
	else if (!strcmp(v->valuestring, "Infinity"))
		*d = INFINITY;
	else if (!strcmp(v->valuestring, "-Infinity"))
		*d = -INFINITY;
	else
		return ht_parse_double(ht_str(v->valuestring), d);
	return true;
}

static bool fits(enum ht_pb_kind k, uint64_t u)
{
	int64_t i = (int64_t)u;

	switch (k) {
	case HT_PB_INT32:
	case HT_PB_SINT32:
	case HT_PB_SFIXED32:
	case HT_PB_ENUM:
		return i >= INT32_MIN && i <= INT32_MAX;
	case HT_PB_UINT32:
	case HT_PB_FIXED32:
		return u <= UINT32_MAX;
	default:
		return true;
	}
}

static enum ht_status read_number(struct json *j, const struct step *s, const struct ht_pb_field *f,
	const cJSON *v, uint64_t *u)
{
	bool is_unsigned = f->kind == HT_PB_UINT32 || f->kind == HT_PB_UINT64 ||
			   f->kind == HT_PB_FIXED32 || f->kind == HT_PB_FIXED64;
	int32_t number;
	float narrow;
	double d;

	if (f->kind == HT_PB_BOOL) {
		if (!cJSON_IsBool(v))
			return fail(j, s, HT_E_INPUT, "expected true or false");
		*u = cJSON_IsTrue(v);
		return HT_OK;
	}
	if (f->kind == HT_PB_ENUM && cJSON_IsString(v)) {
		if (!ht_pb_enum_named(f->ref, ht_str(v->valuestring), &number))
			return fail(j, s, HT_E_INPUT, "%s has no value '%.60s'",
				ht_pb_enum(f->ref)->full_name, v->valuestring);
		*u = (uint64_t)(int64_t)number;
		return HT_OK;
	}
	if (f->kind == HT_PB_FLOAT || f->kind == HT_PB_DOUBLE) {
		if (!read_double(v, &d))
			return fail(j, s, HT_E_INPUT, "expected a number");
		narrow = (float)d;
		*u = 0;
		if (f->kind == HT_PB_FLOAT)
			memcpy(u, &narrow, sizeof narrow);
		else
			memcpy(u, &d, sizeof d);
		return HT_OK;
	}
	if (!read_integer(v, !is_unsigned, u) || !fits(f->kind, *u))
		return fail(j, s, HT_E_INPUT, "expected an integer of this field's range");
	if (f->kind == HT_PB_SINT32 || f->kind == HT_PB_SINT64)
		*u = *u << 1 ^ (0 - (*u >> 63));
	return HT_OK;
}

static enum ht_status put_message(
	struct json *j, const struct step *s, const cJSON *v, enum ht_pb_type t, int depth);

static enum ht_status put_value(struct json *j, const struct step *s, const struct ht_pb_field *f,
	const cJSON *v, int depth)
{
	int wire = ht_pb_wire_type(f->kind);
	uint64_t u;
	size_t at;

	if (wire != HT_WIRE_BYTES)
		HT_TRY(read_number(j, s, f, v, &u));
	ht_pb_varint(&j->out, (uint64_t)f->number << 3 | (uint64_t)wire);
	at = j->out.n;
	if (wire == HT_WIRE_VARINT) {
		ht_pb_varint(&j->out, u);
		return HT_OK;
	}
	if (wire != HT_WIRE_BYTES) {
		for (int i = 0; i < (wire == HT_WIRE_64 ? 8 : 4); i++, u >>= 8)
			ht_putc(&j->out, (char)(u & 0xff));
		return HT_OK;
	}
	if (f->kind == HT_PB_MESSAGE) {
		HT_TRY(put_message(j, s, v, (enum ht_pb_type)f->ref, depth));
	} else {
		if (!cJSON_IsString(v))
			return fail(j, s, HT_E_INPUT, "expected a string");
		if (f->kind == HT_PB_BYTES)
			HT_TRY(put_base64_bytes(j, s, v->valuestring));
		else if (!ht_utf8_valid(ht_str(v->valuestring)))
			return fail(j, s, HT_E_INPUT, "the string is not UTF-8");
		else
			ht_puts(&j->out, v->valuestring);
	}
	ht_pb_insert_length(&j->out, at, j->out.n - at);
	return HT_OK;
}

/* An object whose members are the entries of a map. */
static enum ht_status put_map(struct json *j, const struct step *s, const struct ht_pb_field *f,
	const cJSON *object, int depth)
{
	const struct ht_pb_message *entry = ht_pb_message((enum ht_pb_type)f->ref);
	const cJSON *v;
	cJSON key = { .type = cJSON_String };
	size_t at;

	if (!cJSON_IsObject(object))
		return fail(j, s, HT_E_INPUT, "expected an object");
	cJSON_ArrayForEach(v, object)
	{
		struct step inner = { s, v->string, 0 };

		ht_pb_varint(&j->out, (uint64_t)f->number << 3 | HT_WIRE_BYTES);
		at = j->out.n;
		key.valuestring = v->string;
		HT_TRY(put_value(j, &inner, &entry->field[0], &key, depth));
		HT_TRY(put_value(j, &inner, &entry->field[1], v, depth));
		ht_pb_insert_length(&j->out, at, j->out.n - at);
	}
	return HT_OK;
}

static enum ht_status put_field(struct json *j, const struct step *s, const struct ht_pb_field *f,
	const cJSON *v, int depth)
{
	const cJSON *item;
	size_t i = 0;

	if (cJSON_IsNull(v))
		return HT_OK;
	if (!f->repeated)
		return put_value(j, s, f, v, depth);
	if (f->kind == HT_PB_MESSAGE && ht_pb_message((enum ht_pb_type)f->ref)->map_entry)
		return put_map(j, s, f, v, depth);
	if (!cJSON_IsArray(v))
		return fail(j, s, HT_E_INPUT, "expected an array");
	cJSON_ArrayForEach(item, v)
	{
		struct step inner = { s, NULL, i++ };

		HT_TRY(put_value(j, &inner, f, item, depth));
	}
	return HT_OK;
}

static enum ht_status put_message(
	struct json *j, const struct step *s, const cJSON *v, enum ht_pb_type t, int depth)
{
	uint64_t given = 0, oneofs = 0, bit;
	const struct ht_pb_field *f;
	const cJSON *member;

	if (depth <= 0)
		return fail(j, s, HT_E_LIMIT, "values nest deeper than %d", j->max_depth);
	if (!cJSON_IsObject(v))
		return fail(j, s, HT_E_INPUT, "expected an object");
	cJSON_ArrayForEach(member, v)
	{
		struct step inner = { s, member->string, 0 };

		f = ht_pb_field_json(t, ht_str(member->string));
		if (!f) {
			ignore(j, &inner, ht_pb_message(t)->full_name);
			continue;
		}
		bit = (uint64_t)1 << (f - ht_pb_message(t)->field);
		if (given & bit)
			return fail(j, &inner, HT_E_INPUT, "given twice");
		given |= bit;
		if (f->oneof >= 0 && !cJSON_IsNull(member)) {
			if (oneofs & (uint64_t)1 << f->oneof)
				return fail(j, &inner, HT_E_INPUT,
					"excludes another field that is given");
			oneofs |= (uint64_t)1 << f->oneof;
		}
		HT_TRY(put_field(j, &inner, f, member, depth - 1));
	}
	return HT_OK;
}

enum ht_status ht_pb_from_json(struct ht_arena *a, const struct cJSON *json, const char *path,
	enum ht_pb_type t, int depth, struct ht_diags *d, struct ht_pb_source *src)
{
	struct json j = { .a = a, .diags = d, .path = path, .max_depth = depth };
	struct step root = { NULL, json->string ? json->string : "document", 0 };

	ht_buf_init(&j.out, a);
	HT_TRY(put_message(&j, &root, json, t, depth));
	*src = (struct ht_pb_source){
		.path = path,
		.diags = d,
		.p = (const uint8_t *)j.out.p,
		.n = j.out.n,
		.translated = true,
		.depth = depth,
	};
	return HT_OK;
}

/* ---- writing ---- */

void ht_put_base64(struct ht_buf *out, struct ht_str bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	ht_putc(out, '"');
	for (size_t i = 0; i < bytes.n; i += 3) {
		size_t have = bytes.n - i < 3 ? bytes.n - i : 3;
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < have ? (unsigned char)bytes.p[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			ht_putc(out, k <= have ? digits[bits >> (18 - 6 * k) & 63] : '=');
	}
	ht_putc(out, '"');
}

static void put_json_double(struct ht_buf *out, double d, bool single)
{
	if (isnan(d) || isinf(d)) {
		ht_puts(out, isnan(d) ? "\"NaN\"" : d < 0 ? "\"-Infinity\"" : "\"Infinity\"");
		return;
	}
	if (single)
		ht_put_float(out, (float)d);
	else
		ht_put_double(out, d);
}

static void put_json_number(struct ht_buf *out, const struct ht_pb_field *f, uint64_t u)
{
	const char *name;

	switch (f->kind) {
	case HT_PB_DOUBLE:
		put_json_double(out, ht_pb_double(u), false);
		break;
	case HT_PB_FLOAT:
		put_json_double(out, (double)ht_pb_float(u), true);
		break;
	case HT_PB_BOOL:
		ht_puts(out, u ? "true" : "false");
		break;
	case HT_PB_ENUM:
		name = ht_pb_enum_name(f->ref, (int32_t)u);
		if (name)
			ht_printf(out, "\"%s\"", name);
		else
			ht_printf(out, "%" PRId32, (int32_t)u);
		break;
	case HT_PB_INT64:
	case HT_PB_SINT64:
	case HT_PB_SFIXED64:
		ht_printf(out, "\"%" PRId64 "\"", (int64_t)u);
		break;
	case HT_PB_UINT64:
	case HT_PB_FIXED64:
		ht_printf(out, "\"%" PRIu64 "\"", u);
		break;
	case HT_PB_UINT32:
	case HT_PB_FIXED32:
		ht_printf(out, "%" PRIu32, (uint32_t)u);
		break;
	default:
		ht_printf(out, "%" PRId32, (int32_t)(uint32_t)u);
	}
}

static enum ht_status print_object(const struct ht_pb_reader *outer, struct ht_buf *out);

static enum ht_status print_value(struct ht_pb_reader *r, struct ht_pb_value *v, struct ht_buf *out)
{
	struct ht_pb_reader inner;

	if (v->field->kind == HT_PB_MESSAGE) {
		inner = ht_pb_enter(r, v);
		return inner.status != HT_OK ? inner.status : print_object(&inner, out);
	}
	if (v->field->kind == HT_PB_BYTES)
		ht_put_base64(out, v->s);
	else
		ht_put_json(out, v->s);
	return HT_OK;
}

static enum ht_status print_entry(
	const struct ht_pb_reader *r, const struct ht_pb_value *v, struct ht_buf *out)
{
	struct ht_pb_reader entry = ht_pb_enter(r, v);
	struct ht_pb_value part, value = { 0 };
	struct ht_str key = HT_STR("");

	while (ht_pb_next(&entry, &part)) {
		if (part.number == 1 && part.field->kind == HT_PB_STRING)
			key = part.s;
		else if (part.number == 2)
			value = part;
	}
	if (entry.status != HT_OK)
		return entry.status;
	ht_put_json(out, key);
	ht_putc(out, ':');
	if (value.field)
		return print_value(&entry, &value, out);
	ht_puts(out, "{}");
	return HT_OK;
}

/* All occurrences of one field. */
static enum ht_status print_member(const struct ht_pb_reader *outer, const struct ht_pb_field *f,
	struct ht_buf *out, bool *first)
{
	struct ht_pb_reader r = *outer;
	struct ht_pb_value v;
	bool map, any = false;
	uint64_t item;

	map = f->kind == HT_PB_MESSAGE && ht_pb_message((enum ht_pb_type)f->ref)->map_entry;
	while (ht_pb_next(&r, &v)) {
		bool number = ht_pb_wire_type(f->kind) != HT_WIRE_BYTES;

		if (v.field != f)
			continue;
		while (!number || ht_pb_item(&r, &v, &item)) {
			if (!any) {
				ht_printf(out, "%s\"", *first ? "" : ",");
				for (const char *c = f->name; *c; c++)
					if (*c == '_' && c[1] >= 'a' && c[1] <= 'z')
						ht_putc(out, (char)(*++c - 'a' + 'A'));
					else
						ht_putc(out, *c);
				ht_printf(out, "\":%s", map ? "{" : f->repeated ? "[" : "");
			} else {
				ht_putc(out, ',');
			}
			any = true;
			*first = false;
			if (number)
				put_json_number(out, f, item);
			else
				HT_TRY(map ? print_entry(&r, &v, out) : print_value(&r, &v, out));
			if (!number)
				break;
		}
	}
	if (any && f->repeated)
		ht_putc(out, map ? '}' : ']');
	return r.status;
}

static enum ht_status print_object(const struct ht_pb_reader *outer, struct ht_buf *out)
{
	const struct ht_pb_message *m = ht_pb_message(outer->type);
	struct ht_pb_reader r = *outer;
	struct ht_pb_value v;
	bool first = true;

	while (ht_pb_next(&r, &v))
		if (!v.field)
			return ht_pb_error(r.src, v.at, HT_E_UNSUPPORTED,
				"field %" PRIu32
				" of %s has no name, so it cannot be written as JSON",
				v.number, m->full_name);
	if (r.status != HT_OK)
		return r.status;
	ht_putc(out, '{');
	for (size_t i = 0; i < m->count; i++)
		HT_TRY(print_member(outer, &m->field[i], out, &first));
	ht_putc(out, '}');
	return HT_OK;
}

enum ht_status ht_pb_print_json(
	struct ht_str wire, enum ht_pb_type t, struct ht_diags *d, struct ht_buf *out)
{
	struct ht_pb_source src = { .diags = d,
		.p = (const uint8_t *)wire.p,
		.n = wire.n,
		.translated = true,
		.depth = 200 };
	struct ht_pb_reader r = ht_pb_open(&src, t);

	return print_object(&r, out);
}
