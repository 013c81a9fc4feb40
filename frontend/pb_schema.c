/* The message table, expanded from schema.def. */
#include "frontend/pb.h"

#include <string.h>

enum {
	none = -1,
#define MESSAGE(name, full, map) message_##name = HT_PB_##name,
#define FIELD(number, name, kind, repeated, ref, oneof)
#define END(name)
#define ENUM(name, full)
#define ENUMERATOR(name, number)
#define END_ENUM(name)
#include "frontend/schema.def"
};

enum {
#define MESSAGE(name, full, map)
#define FIELD(number, name, kind, repeated, ref, oneof)
#define END(name)
#define ENUM(name, full) enum_##name,
#define ENUMERATOR(name, number)
#define END_ENUM(name)
#include "frontend/schema.def"
	ENUMS
};

/* Every array ends in an element that is not counted, since C has no empty arrays. */
#define MESSAGE(name, full, map) static const struct ht_pb_field fields_##name[] = {
#define FIELD(number, name, kind, repeated, ref, oneof)                                            \
	{ number, name, HT_PB_##kind, repeated, ref, oneof },
#define END(name)                                                                                  \
	{ 0, NULL, HT_PB_BOOL, false, none, -1 }                                                   \
	}                                                                                          \
	;
#define ENUM(name, full) static const struct ht_pb_enumerator values_##name[] = {
#define ENUMERATOR(name, number) { name, number },
#define END_ENUM(name)                                                                             \
	{ NULL, 0 }                                                                                \
	}                                                                                          \
	;
#include "frontend/schema.def"

static const struct ht_pb_message messages[HT_PB_TYPES] = {
#define MESSAGE(name, full, map)                                                                   \
	[HT_PB_##name] = { full, map, fields_##name, HT_COUNT(fields_##name) - 1 },
#define FIELD(number, name, kind, repeated, ref, oneof)
#define END(name)
#define ENUM(name, full)
#define ENUMERATOR(name, number)
#define END_ENUM(name)
#include "frontend/schema.def"
};

#define MESSAGE(name, full, map)
#define FIELD(number, name, kind, repeated, ref, oneof)
#define END(name)
#define ENUMERATOR(name, number)
#define END_ENUM(name)
#define ENUM(name, full) [enum_##name] = { full, values_##name, HT_COUNT(values_##name) - 1 },
static const struct ht_pb_enum enums[ENUMS] = {
#include "frontend/schema.def"
};

const struct ht_pb_message *ht_pb_message(enum ht_pb_type t)
{
	return &messages[t];
}

const struct ht_pb_enum *ht_pb_enum(int index)
{
	return &enums[index];
}

const struct ht_pb_field *ht_pb_field_numbered(enum ht_pb_type t, uint32_t number)
{
	const struct ht_pb_message *m = &messages[t];

	if (number && number <= m->count && m->field[number - 1].number == number)
		return &m->field[number - 1];
	for (size_t i = 0; i < m->count; i++)
		if (m->field[i].number == number)
			return &m->field[i];
	return NULL;
}

const struct ht_pb_field *ht_pb_field_named(enum ht_pb_type t, struct ht_str name)
{
	const struct ht_pb_message *m = &messages[t];

	for (size_t i = 0; i < m->count; i++)
		if (ht_str_is(name, m->field[i].name))
			return &m->field[i];
	return NULL;
}

/* "tensorShape" is tensor_shape. */
static bool is_camel_of(struct ht_str camel, const char *name)
{
	size_t i = 0;
	char c;

	for (; *name; name++, i++) {
		c = *name;
		if (c == '_' && name[1] >= 'a' && name[1] <= 'z')
			c = (char)(*++name - 'a' + 'A');
		else if (c == '_' && name[1])
			c = *++name;
		if (i >= camel.n || camel.p[i] != c)
			return false;
	}
	return i == camel.n;
}

const struct ht_pb_field *ht_pb_field_json(enum ht_pb_type t, struct ht_str name)
{
	const struct ht_pb_message *m = &messages[t];

	for (size_t i = 0; i < m->count; i++)
		if (is_camel_of(name, m->field[i].name) || ht_str_is(name, m->field[i].name))
			return &m->field[i];
	return NULL;
}

bool ht_pb_enum_named(int index, struct ht_str name, int32_t *number)
{
	const struct ht_pb_enum *e = &enums[index];

	for (size_t i = 0; i < e->count; i++) {
		if (ht_str_is(name, e->value[i].name)) {
			*number = e->value[i].number;
			return true;
		}
	}
	return false;
}

const char *ht_pb_enum_name(int index, int32_t number)
{
	const struct ht_pb_enum *e = &enums[index];

	for (size_t i = 0; i < e->count; i++)
		if (e->value[i].number == number)
			return e->value[i].name;
	return NULL;
}

int ht_pb_type_named(struct ht_str full_name)
{
	for (int i = 0; i < HT_PB_TYPES; i++)
		if (ht_str_is(full_name, messages[i].full_name))
			return i;
	return -1;
}

int ht_pb_wire_type(enum ht_pb_kind k)
{
	switch (k) {
	case HT_PB_DOUBLE:
	case HT_PB_FIXED64:
	case HT_PB_SFIXED64:
		return HT_WIRE_64;
	case HT_PB_FLOAT:
	case HT_PB_FIXED32:
	case HT_PB_SFIXED32:
		return HT_WIRE_32;
	case HT_PB_STRING:
	case HT_PB_BYTES:
	case HT_PB_MESSAGE:
		return HT_WIRE_BYTES;
	default:
		return HT_WIRE_VARINT;
	}
}
