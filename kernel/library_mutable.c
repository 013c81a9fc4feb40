/* Objects of kind "mutable_table": a value, which may be a row of elements, for each of some
 * keys, both of which runs change.
 *
 * A table that has strings keeps them in an object of its own, since their numbers in the context
 * (base/strings.h) are those of one run.  Kernels of such a table take the context's strings as
 * their second buffer.
 *
 * Params of all kernels: type of keys, type of values, elements of a value; then
 * mutable_insert: how many keys, whether the table is emptied first.  Buffers: keys, values.
 * mutable_remove: how many keys.  Buffers: keys.
 * mutable_find: how many keys, how many of them a tile has, whether each key has a default value
 * of its own.  Buffers: keys, default values, values.
 * mutable_export: the most keys.  Buffers: keys, values, how many keys (I64).
 * mutable_size: none.  Buffers: the number of keys (I64).
 * All but mutable_find have one tile.  Exported keys are in ascending order: numbers by value,
 * strings by their bytes. */
#include "base/strings.h"
#include "kernel/library.h"

#include <stdlib.h>
#include <string.h>

/* Parameters of a table.  Two keys may be reserved (MutableDenseHashTable): none may be used. */
enum { KEY, VALUE, ROW, RESERVES, EMPTY_KEY, DELETED_KEY, PARAMS };
enum {
	COUNT = 3,
	TILE = 4,
	OWN_DEFAULTS = 5,
	CLEARS = 4
}; /* parameters of kernels, behind KEY to ROW */

struct mutable_table {
	enum ht_dtype key, value;
	int64_t row;
	size_t row_bytes;
	int64_t reserves, reserved[2];
	uint64_t most_bytes;
	struct ht_strings *text; /* NULL: neither keys nor values are strings */
	int64_t n, room;
	int64_t *keys; /* of strings the number in `text` */
	char *values;
	uint64_t places; /* a power of 2 */
	uint32_t *place; /* open addressing: the index of a key plus one; 0: none */
};

static bool is_key(enum ht_dtype t)
{
	return ht_is_index(t) || t == HT_STRING;
}

bool ht_mutable_table_types(enum ht_dtype key, enum ht_dtype value)
{
	return is_key(key) &&
	       (is_key(value) || value == HT_F32 || value == HT_F64 || value == HT_BOOL);
}

static size_t bytes_of(enum ht_dtype t)
{
	return t == HT_STRING ? sizeof(int64_t) : ht_dtype_info(t)->bytes;
}

/* ---- places ---- */

static uint64_t home_of(const struct mutable_table *t, int64_t key)
{
	uint64_t h = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);

	return (h ^ h >> 32) & (t->places - 1);
}

/* The place of a key, or the empty one where it belongs.  The table has places. */
static uint64_t place_of(const struct mutable_table *t, int64_t key)
{
	uint64_t at = home_of(t, key);

	while (t->place[at] && t->keys[t->place[at] - 1] != key)
		at = (at + 1) & (t->places - 1);
	return at;
}

/* The index of a key; -1: there is none. */
static int64_t index_of(const struct mutable_table *t, int64_t key)
{
	return t->n ? (int64_t)t->place[place_of(t, key)] - 1 : -1;
}

static void place_all(struct mutable_table *t)
{
	for (int64_t i = 0; i < t->n; i++)
		t->place[place_of(t, t->keys[i])] = (uint32_t)i + 1;
}

/* Empties place `at` and moves those behind it that would not be found any more. */
static void free_place(struct mutable_table *t, uint64_t at)
{
	uint64_t mask = t->places - 1;

	for (uint64_t next = (at + 1) & mask; t->place[next]; next = (next + 1) & mask) {
		uint64_t home = home_of(t, t->keys[t->place[next] - 1]);

		if (((next - home) & mask) < ((next - at) & mask))
			continue;
		t->place[at] = t->place[next];
		at = next;
	}
	t->place[at] = 0;
}

/* ---- memory ---- */

/* With so much room, and another string of `more` bytes. */
static uint64_t bytes_of_table(
	const struct mutable_table *t, int64_t room, uint64_t places, uint64_t more)
{
	uint64_t text = t->text ? ht_strings_bytes(t->text, more) : 0;

	return text + (uint64_t)room * (sizeof *t->keys + t->row_bytes) + places * sizeof *t->place;
}

static bool grow(void **p, int64_t room, size_t each)
{
	void *more = realloc(*p, (size_t)room * each);

	if (more)
		*p = more;
	return more;
}

static int32_t resize(struct mutable_table *t, int64_t room, uint64_t places)
{
	void *keys = t->keys, *values = t->values;
	uint32_t *place = ht_sys_alloc((size_t)places * sizeof *place);
	bool grown =
		place && grow(&keys, room, sizeof *t->keys) && grow(&values, room, t->row_bytes);

	t->keys = keys;
	t->values = values;
	if (!grown) {
		free(place);
		return HT_FAULT_MEMORY;
	}
	free(t->place);
	t->place = place;
	t->places = places;
	t->room = room;
	place_all(t);
	return HT_FAULT_NONE;
}

/* Makes room for one more key. */
static int32_t make_room(struct mutable_table *t)
{
	int64_t room = t->room ? 2 * t->room : 16;

	if (t->n < t->room)
		return HT_FAULT_NONE;
	if (room > INT32_MAX || bytes_of_table(t, room, 2 * (uint64_t)room, 0) > t->most_bytes)
		return HT_FAULT_ROOM;
	return resize(t, room, 2 * (uint64_t)room);
}

/* ---- strings ---- */

static struct ht_strings *no_strings(void)
{
	static const uint64_t end = 0;

	return ht_strings_new(&end, 1, "");
}

static int64_t renumbered(struct ht_strings *to, const struct ht_strings *from, int64_t number)
{
	struct ht_str s = HT_STR("");

	(void)ht_strings_text(from, number, &s);
	return ht_strings_number(to, s);
}

static bool renumber(
	int64_t *number, int64_t n, struct ht_strings *to, const struct ht_strings *from)
{
	for (int64_t i = 0; i < n; i++) {
		number[i] = renumbered(to, from, number[i]);
		if (number[i] < 0)
			return false;
	}
	return true;
}

/* Forgets the strings of keys and values that are gone. */
static int32_t tidy(struct mutable_table *t)
{
	size_t keys = (size_t)t->n * sizeof *t->keys, values = (size_t)t->n * t->row_bytes;
	int64_t *key = ht_sys_alloc(keys + 1), *value = ht_sys_alloc(values + 1);
	struct ht_strings *text = no_strings();
	bool done = key && value && text;

	if (done && t->n) {
		memcpy(key, t->keys, keys);
		memcpy(value, t->values, values);
	}
	done = done && (t->key != HT_STRING || renumber(key, t->n, text, t->text)) &&
	       (t->value != HT_STRING || renumber(value, t->n * t->row, text, t->text));
	if (done) {
		struct ht_strings *old = t->text;

		t->text = text;
		text = old;
		if (t->n) {
			memcpy(t->keys, key, keys);
			memcpy(t->values, value, values);
		}
		if (t->places)
			memset(t->place, 0, (size_t)t->places * sizeof *t->place);
		place_all(t);
	}
	ht_strings_free(text);
	free(key);
	free(value);
	return done ? HT_FAULT_NONE : HT_FAULT_MEMORY;
}

/* The strings that the table has in use, at most. */
static uint64_t strings_in_use(const struct mutable_table *t)
{
	return (t->key == HT_STRING ? (uint64_t)t->n : 0) +
	       (t->value == HT_STRING ? (uint64_t)t->n * (uint64_t)t->row : 0);
}

static bool has_text_room(const struct mutable_table *t, uint64_t bytes)
{
	return bytes_of_table(t, t->room, t->places, bytes) <= t->most_bytes;
}

/* Makes room for another string of `bytes` bytes. */
static int32_t make_text_room(struct mutable_table *t, uint64_t bytes)
{
	enum { FEW = 1024 };
	uint64_t all = ht_strings_count(t->text) - 1;

	/* Several elements may have one string, so some may be gone even where these are more. */
	if (all > 2 * strings_in_use(t) + FEW || (all && !has_text_room(t, bytes))) {
		int32_t fault = tidy(t);

		if (fault)
			return fault;
	}
	return has_text_room(t, bytes) ? HT_FAULT_NONE : HT_FAULT_ROOM;
}

/* The table's number of the context's string `number`, to which it is added if it is new. */
static int32_t take_string(
	struct mutable_table *t, const struct ht_strings *from, int64_t number, int64_t *own)
{
	struct ht_str s;
	int32_t fault;

	if (!ht_strings_text(from, number, &s))
		return HT_FAULT_OBJECT;
	*own = ht_strings_find(t->text, s);
	if (*own >= 0)
		return HT_FAULT_NONE;
	fault = make_text_room(t, s.n);
	if (fault)
		return fault;
	*own = ht_strings_number(t->text, s);
	return *own < 0 ? HT_FAULT_MEMORY : HT_FAULT_NONE;
}

/* ---- arguments of kernels ---- */

/* The buffers of a kernel without table and strings. */
struct call {
	struct mutable_table *t;
	struct ht_strings *strings; /* of the context; NULL: the table has none */
	void *const *buffer;
};

/* False: the table has other types than the step states. */
static bool begin(struct call *c, void *const *buffers, const int64_t *params)
{
	struct mutable_table *t = buffers[0];
	bool text = t->text;

	*c = (struct call){ t, text ? buffers[1] : NULL, buffers + 1 + text };
	return (int64_t)t->key == params[KEY] && (int64_t)t->value == params[VALUE] &&
	       t->row == params[ROW];
}

static int64_t number_at(enum ht_dtype t, const void *keys, int64_t i)
{
	int32_t narrow;
	int64_t key;

	if (t == HT_I32) {
		memcpy(&narrow, (const char *)keys + (size_t)i * sizeof narrow, sizeof narrow);
		return narrow;
	}
	memcpy(&key, (const char *)keys + (size_t)i * sizeof key, sizeof key);
	return key;
}

static bool is_reserved(const struct mutable_table *t, int64_t key)
{
	return (t->reserves > 0 && key == t->reserved[0]) ||
	       (t->reserves > 1 && key == t->reserved[1]);
}

/* The index of key `i` of an operand in the table; -1: there is none. */
static int32_t find_key(const struct call *c, const void *keys, int64_t i, int64_t *index)
{
	int64_t key = number_at(c->t->key, keys, i);
	struct ht_str s;

	*index = -1;
	if (c->t->key == HT_STRING)
		key = ht_strings_text(c->strings, key, &s) ? ht_strings_find(c->t->text, s) : -1;
	else if (is_reserved(c->t, key))
		return HT_FAULT_RESERVED;
	if (c->t->key != HT_STRING || key >= 0)
		*index = index_of(c->t, key);
	return HT_FAULT_NONE;
}

/* ---- inserting and removing ---- */

static char *value_at(const struct mutable_table *t, int64_t i)
{
	return t->values + (size_t)i * t->row_bytes;
}

/* The index of a key, which is added without a value if it is new. */
static int32_t index_for(struct mutable_table *t, int64_t key, int64_t *index)
{
	int32_t fault;

	*index = index_of(t, key);
	fault = *index >= 0 ? HT_FAULT_NONE : make_room(t);
	if (fault || *index >= 0)
		return fault;
	*index = t->n;
	t->place[place_of(t, key)] = (uint32_t)t->n + 1;
	t->keys[t->n] = key;
	memset(value_at(t, t->n++), 0, t->row_bytes);
	return HT_FAULT_NONE;
}

static int32_t insert_strings(const struct call *c, int64_t key, const void *values, int64_t i)
{
	int64_t index, number;
	int32_t fault = index_for(c->t, key, &index);

	for (int64_t k = 0; k < c->t->row && !fault; k++) {
		fault = take_string(
			c->t, c->strings, number_at(HT_I64, values, i * c->t->row + k), &number);
		if (!fault)
			memcpy(value_at(c->t, index) + (size_t)k * sizeof number, &number,
				sizeof number);
	}
	return fault;
}

static int32_t insert(const struct call *c, const void *keys, const void *values, int64_t i)
{
	int64_t key = number_at(c->t->key, keys, i), index;
	int32_t fault = HT_FAULT_NONE;

	if (c->t->key == HT_STRING)
		fault = take_string(c->t, c->strings, key, &key);
	else if (is_reserved(c->t, key))
		fault = HT_FAULT_RESERVED;
	if (fault)
		return fault;
	if (c->t->value == HT_STRING)
		return insert_strings(c, key, values, i);
	fault = index_for(c->t, key, &index);
	if (!fault)
		memcpy(value_at(c->t, index), (const char *)values + (size_t)i * c->t->row_bytes,
			c->t->row_bytes);
	return fault;
}

static void clear(struct mutable_table *t)
{
	t->n = 0;
	if (t->places)
		memset(t->place, 0, (size_t)t->places * sizeof *t->place);
}

static int32_t do_insert(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct call c;
	int32_t fault = HT_FAULT_NONE;

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	if (!begin(&c, buffers, params))
		return HT_FAULT_OBJECT;
	if (params[CLEARS])
		clear(c.t);
	for (int64_t i = 0; i < params[COUNT] && !fault; i++)
		fault = insert(&c, c.buffer[0], c.buffer[1], i);
	return fault;
}

/* The last key takes the index of the one that is removed. */
static void remove_key(struct mutable_table *t, int64_t index)
{
	int64_t last = t->n - 1;

	free_place(t, place_of(t, t->keys[index]));
	if (index != last) {
		t->place[place_of(t, t->keys[last])] = (uint32_t)index + 1;
		t->keys[index] = t->keys[last];
		memcpy(value_at(t, index), value_at(t, last), t->row_bytes);
	}
	t->n = last;
}

static int32_t do_remove(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct call c;
	int32_t fault = HT_FAULT_NONE;

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	if (!begin(&c, buffers, params))
		return HT_FAULT_OBJECT;
	for (int64_t i = 0; i < params[COUNT] && !fault; i++) {
		int64_t index;

		fault = find_key(&c, c.buffer[0], i, &index);
		if (!fault && index >= 0)
			remove_key(c.t, index);
	}
	return fault;
}

/* ---- reading ---- */

/* Value `i` of the table as elements of a result: strings get numbers of the context. */
static int32_t give_value(const struct call *c, int64_t i, char *to)
{
	const char *from = value_at(c->t, i);

	if (c->t->value != HT_STRING) {
		memcpy(to, from, c->t->row_bytes);
		return HT_FAULT_NONE;
	}
	for (int64_t k = 0; k < c->t->row; k++) {
		int64_t number = renumbered(c->strings, c->t->text, number_at(HT_I64, from, k));

		if (number < 0)
			return HT_FAULT_MEMORY;
		memcpy(to + (size_t)k * sizeof number, &number, sizeof number);
	}
	return HT_FAULT_NONE;
}

static int32_t do_find(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	int64_t end =
		tile_end * params[TILE] < params[COUNT] ? tile_end * params[TILE] : params[COUNT];
	struct call c;
	int32_t fault = HT_FAULT_NONE;

	(void)scratch;
	if (!begin(&c, buffers, params))
		return HT_FAULT_OBJECT;
	for (int64_t i = tile_begin * params[TILE]; i < end && !fault; i++) {
		size_t row = c.t->row_bytes;
		char *to = (char *)c.buffer[2] + (size_t)i * row;
		const char *none = c.buffer[1];
		int64_t index;

		fault = find_key(&c, c.buffer[0], i, &index);
		if (!fault && index >= 0)
			fault = give_value(&c, index, to);
		else if (!fault)
			memcpy(to, none + (params[OWN_DEFAULTS] ? (size_t)i * row : 0), row);
	}
	return fault;
}

static int32_t do_size(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct call c;

	(void)scratch;
	if (!begin(&c, buffers, params))
		return HT_FAULT_OBJECT;
	if (tile_begin < tile_end)
		*(int64_t *)c.buffer[0] = c.t->n;
	return HT_FAULT_NONE;
}

static int compare(const void *a, const void *b, void *table)
{
	const struct mutable_table *t = table;
	int64_t x = t->keys[*(const int64_t *)a], y = t->keys[*(const int64_t *)b];
	struct ht_str s = HT_STR(""), o = HT_STR("");

	if (t->key != HT_STRING)
		return (x > y) - (x < y);
	(void)ht_strings_text(t->text, x, &s);
	(void)ht_strings_text(t->text, y, &o);
	return ht_str_cmp(s, o);
}

static int32_t give_key(const struct call *c, int64_t i, void *keys, int64_t at)
{
	int64_t key = c->t->keys[i];
	int32_t narrow = (int32_t)key;

	if (c->t->key == HT_STRING)
		key = renumbered(c->strings, c->t->text, key);
	if (c->t->key == HT_STRING && key < 0)
		return HT_FAULT_MEMORY;
	if (c->t->key == HT_I32)
		memcpy((char *)keys + (size_t)at * sizeof narrow, &narrow, sizeof narrow);
	else
		memcpy((char *)keys + (size_t)at * sizeof key, &key, sizeof key);
	return HT_FAULT_NONE;
}

static size_t export_scratch(const struct ht_kernel *k)
{
	return (size_t)k->buffer[k->args - 3].count * sizeof(int64_t);
}

static int32_t do_export(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	int64_t *order = scratch;
	int32_t fault = HT_FAULT_NONE;
	struct call c;

	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	if (!begin(&c, buffers, params))
		return HT_FAULT_OBJECT;
	if (c.t->n > params[COUNT])
		return HT_FAULT_ROOM;
	for (int64_t i = 0; i < c.t->n; i++)
		order[i] = i;
	if (c.t->n)
		qsort_r(order, (size_t)c.t->n, sizeof *order, compare, c.t);
	for (int64_t i = 0; i < c.t->n && !fault; i++) {
		fault = give_key(&c, order[i], c.buffer[0], i);
		if (!fault)
			fault = give_value(
				&c, order[i], (char *)c.buffer[1] + (size_t)i * c.t->row_bytes);
	}
	*(int64_t *)c.buffer[2] = c.t->n;
	return fault;
}

/* ---- making ---- */

static void release_keys(struct mutable_table *t)
{
	free(t->keys);
	free(t->values);
	free(t->place);
	t->keys = NULL;
	t->values = NULL;
	t->place = NULL;
	t->n = t->room = 0;
	t->places = 0;
}

static void release(void *object)
{
	struct mutable_table *t = object;

	release_keys(t);
	ht_strings_free(t->text);
	free(t);
}

static bool is_stated(const struct ht_object_parts *from)
{
	const int64_t *p = from->param;

	return from->params == PARAMS && p[KEY] >= 0 && p[KEY] < HT_REF && p[VALUE] >= 0 &&
	       p[VALUE] < HT_REF &&
	       ht_mutable_table_types((enum ht_dtype)p[KEY], (enum ht_dtype)p[VALUE]) &&
	       p[ROW] > 0 && p[ROW] < INT32_MAX && p[RESERVES] >= 0 && p[RESERVES] <= 2 &&
	       (!p[RESERVES] || p[KEY] != HT_STRING);
}

/* ---- the contents with which a table begins ---- */

static uint64_t offset_at(const struct ht_object_constant *text, int64_t i)
{
	uint64_t offset;

	memcpy(&offset, (const char *)text->p + (size_t)i * sizeof offset, sizeof offset);
	return offset;
}

/* The number of elements of a part of the contents.  Strings are two constants: where each begins
 * and the last one ends, and their bytes.  -1: these are malformed. */
static int64_t elements_of(const struct ht_object_constant *part, enum ht_dtype t)
{
	int64_t n = (int64_t)(part->bytes / bytes_of(t)) - (t == HT_STRING);

	if (t != HT_STRING)
		return n;
	if (n < 0 || offset_at(part, 0) || offset_at(part, n) != part[1].bytes)
		return -1;
	for (int64_t i = 0; i < n; i++)
		if (offset_at(part, i) > offset_at(part, i + 1))
			return -1;
	return n;
}

static int32_t own_number(
	struct mutable_table *t, const struct ht_object_constant *part, int64_t i, int64_t *number)
{
	uint64_t begin = offset_at(part, i), end = offset_at(part, i + 1);
	int32_t fault = make_text_room(t, end - begin);

	if (!fault)
		*number = ht_strings_number(t->text,
			(struct ht_str){ (const char *)part[1].p + begin, (size_t)(end - begin) });
	return fault ? fault : *number < 0 ? HT_FAULT_MEMORY : HT_FAULT_NONE;
}

/* Dense tables are saved with their reserved keys, which they do not have. */
static int32_t begin_with(struct mutable_table *t, const struct ht_object_constant *keys,
	const struct ht_object_constant *values, int64_t i)
{
	int64_t key = 0, index = 0, number;
	int32_t fault = HT_FAULT_NONE;

	if (t->key == HT_STRING)
		fault = own_number(t, keys, i, &key);
	else
		key = number_at(t->key, keys->p, i);
	if (is_reserved(t, key))
		return fault;
	if (!fault)
		fault = index_for(t, key, &index);
	if (!fault && t->value != HT_STRING)
		memcpy(value_at(t, index), (const char *)values->p + (size_t)i * t->row_bytes,
			t->row_bytes);
	for (int64_t k = 0; t->value == HT_STRING && k < t->row && !fault; k++) {
		fault = own_number(t, values, i * t->row + k, &number);
		if (!fault)
			memcpy(value_at(t, index) + (size_t)k * sizeof number, &number,
				sizeof number);
	}
	return fault;
}

static int32_t begin_with_all(struct mutable_table *t, const struct ht_object_parts *from)
{
	const struct ht_object_constant *keys = from->constant,
					*values = keys + 1 + (t->key == HT_STRING);
	int32_t fault = HT_FAULT_NONE;
	int64_t n;

	if (!from->constants)
		return HT_FAULT_NONE;
	if (from->constants != 2 + (uint32_t)(t->key == HT_STRING) + (t->value == HT_STRING))
		return HT_FAULT_OBJECT;
	n = elements_of(keys, t->key);
	if (n < 0 || n > INT32_MAX || elements_of(values, t->value) != n * t->row)
		return HT_FAULT_OBJECT;
	for (int64_t i = 0; i < n && !fault; i++)
		fault = begin_with(t, keys, values, i);
	return fault;
}

static int32_t make(const struct ht_object_parts *from, void **out)
{
	const int64_t *p = from->param;
	struct mutable_table *t;
	int32_t fault;

	if (!is_stated(from))
		return HT_FAULT_OBJECT;
	t = ht_sys_alloc(sizeof *t);
	if (!t)
		return HT_FAULT_MEMORY;
	*t = (struct mutable_table){ .key = (enum ht_dtype)p[KEY],
		.value = (enum ht_dtype)p[VALUE],
		.row = p[ROW],
		.row_bytes = (size_t)p[ROW] * bytes_of((enum ht_dtype)p[VALUE]),
		.reserves = p[RESERVES],
		.reserved = { p[EMPTY_KEY], p[DELETED_KEY] },
		.most_bytes = from->most_bytes };
	if (t->key == HT_STRING || t->value == HT_STRING)
		t->text = no_strings();
	if ((t->key == HT_STRING || t->value == HT_STRING) && !t->text)
		fault = HT_FAULT_MEMORY;
	else
		fault = begin_with_all(t, from);
	if (fault)
		release(t);
	else
		*out = t;
	return fault;
}

/* All memory is released first, so the contents with which the table began fit into its limit, as they did then. */
static void reset(void *object, const struct ht_object_parts *from)
{
	struct mutable_table *t = object;
	struct ht_strings *text = t->text ? no_strings() : NULL;

	if (text) {
		ht_strings_free(t->text);
		t->text = text;
	}
	release_keys(t);
	(void)begin_with_all(t, from);
}

static const struct ht_object_kind kind = {
	.name = "mutable_table", .make = make, .release = release, .reset = reset
};

const struct ht_library_more ht_library_more = {
	.kernel = { { "mutable_export", do_export, export_scratch },
		{ "mutable_find", do_find, NULL }, { "mutable_insert", do_insert, NULL },
		{ "mutable_remove", do_remove, NULL }, { "mutable_size", do_size, NULL } },
	.object = &kind
};
