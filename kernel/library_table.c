/* Objects of kind "table": a value for each of some keys, which are integers.
 *
 * Library kernel table_fill.  Buffers: a table that is made without keys, keys, values.  Params: how many, type of keys, type of
 * values.  One tile.
 * Library kernel table_find.  Buffers: the table, keys, the value of keys that it lacks, values.  Params: how many keys, how
 * many of them a tile has, type of keys, type of values.
 * Library kernel table_size.  Buffers: the table, the number of its keys (I64).  One tile. */
#include "kernel/library.h"

#include <stdlib.h>
#include <string.h>

enum { KEY, VALUE, ROOM, PARAMS }; /* parameters of a table */

struct table {
	enum ht_dtype key, value;
	size_t value_bytes;
	int64_t room, n;
	bool filled;
	uint64_t places;
	int64_t *keys; /* `room` of them, at the beginning of the memory of all that follows */
	char *values;
	int32_t *place; /* open addressing: the number of a key plus one; 0: empty */
};

bool ht_table_types(enum ht_dtype key, enum ht_dtype value)
{
	if (!ht_is_index(key))
		return false;
	return value == HT_I64 || value == HT_I32 || value == HT_F32 || value == HT_F64 ||
	       (key == HT_I64 && value == HT_BOOL);
}

/* ---- keys and values ---- */

static int64_t key_at(enum ht_dtype t, const void *keys, uint64_t i)
{
	int32_t narrow;
	int64_t key;

	if (t == HT_I32) {
		memcpy(&narrow, (const char *)keys + i * sizeof narrow, sizeof narrow);
		return narrow;
	}
	memcpy(&key, (const char *)keys + i * sizeof key, sizeof key);
	return key;
}

/* Floats are compared as numbers: 0 equals -0, and NaN equals nothing. */
static bool are_equal(enum ht_dtype t, const void *a, const void *b)
{
	double d[2];
	float f[2];

	if (t == HT_F32) {
		memcpy(&f[0], a, sizeof *f);
		memcpy(&f[1], b, sizeof *f);
		return f[0] == f[1];
	}
	if (t == HT_F64) {
		memcpy(&d[0], a, sizeof *d);
		memcpy(&d[1], b, sizeof *d);
		return d[0] == d[1];
	}
	return !memcmp(a, b, ht_dtype_info(t)->bytes);
}

static uint64_t hash_of(int64_t key)
{
	uint64_t h = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);

	return h ^ h >> 32;
}

/* The place of a key, or the empty place where it belongs. */
static int32_t *place_of(const struct table *t, int64_t key)
{
	uint64_t at = hash_of(key) & (t->places - 1);

	while (t->place[at] && t->keys[t->place[at] - 1] != key)
		at = (at + 1) & (t->places - 1);
	return &t->place[at];
}

static const char *value_of(const struct table *t, int32_t place)
{
	return t->values + (size_t)(place - 1) * t->value_bytes;
}

/* Adds a key.  False: the key exists with another value, and *has is its number. */
static bool insert(struct table *t, int64_t key, const char *value, int32_t *has)
{
	int32_t *place = place_of(t, key);

	*has = *place - 1;
	if (*place)
		return are_equal(t->value, value_of(t, *place), value);
	t->keys[t->n] = key;
	memcpy(t->values + (size_t)t->n * t->value_bytes, value, t->value_bytes);
	*place = (int32_t)++t->n;
	return true;
}

/* ---- making ---- */

static uint64_t places_of(int64_t keys)
{
	uint64_t places = 16;

	while (places < 2 * (uint64_t)keys)
		places *= 2;
	return places;
}

static bool is_stated(const struct ht_object_parts *from)
{
	enum ht_dtype key, value;
	uint64_t room;

	if (from->params != PARAMS || from->param[ROOM] < 0 || from->param[ROOM] >= INT32_MAX ||
		from->param[KEY] < 0 || from->param[KEY] >= HT_REF || from->param[VALUE] < 0 ||
		from->param[VALUE] >= HT_REF)
		return false;
	key = (enum ht_dtype)from->param[KEY];
	value = (enum ht_dtype)from->param[VALUE];
	room = (uint64_t)from->param[ROOM];
	if (!ht_table_types(key, value) || !from->constants)
		return ht_table_types(key, value);
	return from->constants == 2 &&
	       from->constant[0].bytes == room * ht_dtype_info(key)->bytes &&
	       from->constant[1].bytes == room * ht_dtype_info(value)->bytes;
}

/* A table without keys; NULL: out of memory. */
static struct table *empty(const struct ht_object_parts *from)
{
	uint64_t room = (uint64_t)from->param[ROOM], places = places_of(from->param[ROOM]);
	size_t value_bytes = ht_dtype_info((enum ht_dtype)from->param[VALUE])->bytes;
	struct table *t = ht_sys_alloc(sizeof *t + room * sizeof *t->keys + room * value_bytes +
				       places * sizeof *t->place);

	if (!t)
		return NULL;
	*t = (struct table){ .key = (enum ht_dtype)from->param[KEY],
		.value = (enum ht_dtype)from->param[VALUE],
		.value_bytes = value_bytes,
		.room = from->param[ROOM],
		.places = places };
	t->keys = (int64_t *)(void *)(t + 1);
	t->place = (int32_t *)(void *)(t->keys + room);
	t->values = (char *)(t->place + places); /* values need no alignment */
	return t;
}

/* Adds `n` keys, at most as many as there is room for.  Returns the first element whose key
 * already has another value; -1: there is none. */
static int64_t fill(struct table *t, const void *keys, const char *values, int64_t n, int32_t *has)
{
	for (int64_t i = 0; i < n; i++)
		if (!insert(t, key_at(t->key, keys, (uint64_t)i),
			    values + (size_t)i * t->value_bytes, has))
			return i;
	t->filled = true;
	return -1;
}

static int64_t fill_with_constants(
	struct table *t, const struct ht_object_parts *from, int32_t *has)
{
	return fill(t, from->constant[0].p, from->constant[1].p, t->room, has);
}

static int32_t make(const struct ht_object_parts *from, void **out)
{
	struct table *t;
	int32_t has;

	if (!is_stated(from))
		return HT_FAULT_OBJECT;
	t = empty(from);
	if (!t)
		return HT_FAULT_MEMORY;
	if (from->constants && fill_with_constants(t, from, &has) >= 0) {
		free(t);
		return HT_FAULT_KEYS;
	}
	*out = t;
	return HT_FAULT_NONE;
}

const struct ht_object_kind ht_table_kind = {
	.name = "table", .make = make, .release = free, .reset = NULL
};

bool ht_table_contradicts(const struct ht_object_parts *from, uint64_t *first, uint64_t *second)
{
	struct table *t = from->constants && is_stated(from) ? empty(from) : NULL;
	int64_t at;
	int32_t has;

	if (!t)
		return false;
	at = fill_with_constants(t, from, &has);
	*second = (uint64_t)at;
	/* Duplicate keys have no numbers of their own, so the number of a key may be smaller
	 * than that of its element. */
	for (*first = 0; at >= 0; ++*first)
		if (key_at(t->key, from->constant[0].p, *first) == t->keys[has])
			break;
	free(t);
	return at >= 0;
}

/* ---- kernels ---- */

int32_t ht_library_table_fill(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct table *t = buffers[0];
	int32_t has;

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	if ((int64_t)t->key != params[1] || (int64_t)t->value != params[2] || t->filled ||
		params[0] > t->room)
		return HT_FAULT_OBJECT;
	return fill(t, buffers[1], buffers[2], params[0], &has) >= 0 ? HT_FAULT_KEYS
								     : HT_FAULT_NONE;
}

int32_t ht_library_table_find(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	const struct table *t = buffers[0];
	int64_t end = tile_end * params[1] < params[0] ? tile_end * params[1] : params[0];
	char *values = buffers[3];

	(void)scratch;
	if ((int64_t)t->key != params[2] || (int64_t)t->value != params[3])
		return HT_FAULT_OBJECT;
	if (!t->filled)
		return HT_FAULT_UNFILLED;
	for (int64_t i = tile_begin * params[1]; i < end; i++) {
		int32_t place = *place_of(t, key_at(t->key, buffers[1], (uint64_t)i));

		memcpy(values + (size_t)i * t->value_bytes, place ? value_of(t, place) : buffers[2],
			t->value_bytes);
	}
	return HT_FAULT_NONE;
}

int32_t ht_library_table_size(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	const struct table *t = buffers[0];

	(void)params;
	(void)scratch;
	if (tile_begin < tile_end)
		*(int64_t *)buffers[1] = t->n;
	return t->filled ? HT_FAULT_NONE : HT_FAULT_UNFILLED;
}
