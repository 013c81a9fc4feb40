/* What a session writes to checkpoints and reads from them. */
#include "api/session.h"

#include "base/object.h"
#include "frontend/bundle.h"

#include <stdlib.h>
#include <string.h>

#define OWN "_HALFTONE/" /* prefix of keys that are not the model's variables */
#define STREAMS OWN "streams"
#define NOTES OWN "notes/"

/* ---- notes ---- */

struct noting {
	struct ht_session *s;
	const char *name;
	const int64_t *value;
	size_t n;
};

void ht_session_put_note(struct ht_session *s, struct ht_str name, const int64_t *value, size_t n)
{
	struct ht_session_note *note = ht_map_get(&s->notes, name);

	if (!note) {
		note = HT_NEW(&s->arena, struct ht_session_note);
		ht_map_at(&s->notes, ht_str_copy(&s->arena, name))->value = note;
	}
	if (note->n != n)
		note->value = HT_NEW_ARRAY(&s->arena, int64_t, n);
	note->n = n;
	if (n)
		memcpy(note->value, value, n * sizeof *value);
}

static enum ht_status note(void *arg)
{
	struct noting *x = arg;

	ht_session_put_note(x->s, ht_str(x->name), x->value, x->n);
	return HT_OK;
}

enum ht_status ht_session_note(
	struct ht_session *s, const char *name, const int64_t *value, size_t n, struct ht_diags *d)
{
	struct noting x = { s, name, value, n };
	struct ht_work w;

	return ht_session_guarded(s, &w, note, &x, d);
}

const int64_t *ht_session_noted(const struct ht_session *s, const char *name, size_t *n)
{
	const struct ht_session_note *found = ht_map_get(&s->notes, ht_str(name));

	*n = found ? found->n : 0;
	return found ? found->value : NULL;
}

/* ---- saving ---- */

struct saving {
	struct ht_session *s;
	const char *prefix;
	struct ht_diags *d;
	struct ht_arena *a;
	struct ht_checkpoint_item *item;
	size_t n;
};

static void put(struct saving *x, struct ht_str key, enum ht_dtype t, struct ht_shape shape,
	const void *bytes, size_t n)
{
	x->item[x->n++] = (struct ht_checkpoint_item){
		.key = key, .dtype = t, .shape = shape, .bytes = bytes, .n = n
	};
}

static void put_numbers(
	struct saving *x, struct ht_str key, const int64_t *value, int64_t rows, int64_t columns)
{
	const int64_t dim[2] = { rows, columns };

	put(x, key, HT_I64, ht_shape_make(x->a, columns > 1 ? 2 : 1, dim), value,
		(size_t)(rows * columns) * sizeof *value);
}

/* One row for each stream: its name, its counter and key. */
enum { STREAM_COLUMNS = 1 + HT_PHILOX_WORDS / 2 };

static void put_streams(struct saving *x)
{
	const struct ht_session_stream *i;
	int64_t *row, n = 0;

	for (i = x->s->streams; i; i = i->next)
		n++;
	if (!n)
		return;
	row = HT_NEW_ARRAY(x->a, int64_t, (size_t)n *STREAM_COLUMNS);
	put_numbers(x, HT_STR(STREAMS), row, n, STREAM_COLUMNS);
	for (i = x->s->streams; i; i = i->next, row += STREAM_COLUMNS) {
		row[0] = (int64_t)i->name;
		memcpy(row + 1, &i->at, sizeof i->at);
	}
}

static void put_variables(struct saving *x, struct ht_map *keys)
{
	for (size_t i = 0; i < x->s->variables.count; i++) {
		const struct ht_session_variable *v = x->s->variables.entries[i].value;

		if (!v->set)
			continue;
		ht_map_at(keys, v->key)->value = x;
		put(x, v->key, v->dtype, v->shape, v->memory, v->bytes);
	}
}

/* Checkpoints do not have objects. */
static void tell_tables(const struct saving *x)
{
	for (size_t i = 0; i < x->s->objects.count; i++) {
		const struct ht_session_object *o = x->s->objects.entries[i].value;

		if (o && o->object && o->kind->reset)
			ht_warn(x->d,
				(struct ht_where){ .path = x->prefix,
					.node = x->s->objects.entries[i].key,
					.offset = -1 },
				"the checkpoint does not have the keys and values of this table");
	}
}

static void put_kept(struct saving *x, const struct ht_map *keys)
{
	for (size_t i = 0; i < x->s->kepts; i++)
		if (!ht_map_get(keys, x->s->kept[i].key))
			x->item[x->n++] = x->s->kept[i];
}

static enum ht_status save(void *arg)
{
	struct saving *x = arg;
	struct ht_session *s = x->s;
	struct ht_map keys;

	ht_map_init(&keys, x->a);
	ht_session_note_scale(s);
	x->item = HT_NEW_ARRAY(x->a, struct ht_checkpoint_item,
		s->variables.count + s->kepts + s->notes.count + 1);
	put_variables(x, &keys);
	put_kept(x, &keys);
	tell_tables(x);
	put_streams(x);
	for (size_t i = 0; i < s->notes.count; i++) {
		const struct ht_session_note *from = s->notes.entries[i].value;

		put_numbers(x,
			ht_str_printf(x->a, NOTES "%.*s", HT_STR_ARG(s->notes.entries[i].key)),
			from->value, (int64_t)from->n, 1);
	}
	return ht_checkpoint_write(x->a, x->prefix, x->item, x->n, x->d);
}

enum ht_status ht_session_save(struct ht_session *s, const char *prefix, struct ht_diags *d)
{
	struct ht_work w;
	struct saving x = { .s = s, .prefix = prefix, .d = d, .a = &w.arena };

	return ht_session_guarded(s, &w, save, &x, d);
}

/* ---- restoring ---- */

struct restoring {
	struct ht_session *s;
	struct ht_model *m;
	const char *prefix;
	struct ht_diags *d;
	struct ht_arena *a;
	struct ht_checkpoint *from;
	struct ht_checkpoint *models; /* the model's own checkpoint, if `from` is another */
	struct ht_tensor **value;     /* by variable; NULL: the checkpoint does not have it */
	struct ht_str *key;           /* likewise */
	size_t missing;
	bool own; /* the model's own checkpoint: variables that have a value keep it, and nothing is said of missing ones */
};

static struct ht_where at_variable(const struct restoring *x, struct ht_str name)
{
	return (struct ht_where){ .path = x->prefix, .node = name, .offset = -1 };
}

/* The key of a variable: where the model has a checkpoint, the one that it has there, since several variables may have one name. */
static enum ht_status find_key(struct restoring *x, struct ht_str name, struct ht_str *key)
{
	if (x->models) {
		HT_TRY(ht_checkpoint_key_of(x->models, name, x->d, key));
		if (ht_checkpoint_has(x->from, *key))
			return HT_OK;
	}
	return ht_checkpoint_key_of(x->from, name, x->d, key);
}

static enum ht_status read_variable(struct restoring *x, size_t i)
{
	const struct ht_session_variable *v = x->s->variables.entries[i].value;
	struct ht_tensor *t;

	HT_TRY(find_key(x, v->name, &x->key[i]));
	if (!x->key[i].n)
		x->key[i] = v->name; /* reading it fails and says why */
	else if (!ht_checkpoint_has(x->from, x->key[i])) {
		if (!x->missing++ && !x->own)
			ht_note(x->d, at_variable(x, v->name),
				"the checkpoint does not have the variable");
		return HT_OK;
	}
	HT_TRY(ht_checkpoint_read(x->from, x->key[i], x->a, x->d, &t));
	if (t->dtype != v->dtype || !ht_shape_eq(t->shape, v->shape) || !t->blob)
		return ht_error(x->d, HT_E_INPUT, at_variable(x, v->name),
			"the checkpoint has another type or shape for this variable");
	x->value[i] = t;
	ht_bundle_forget(
		t); /* until all are checked, so that a checkpoint and variables are not in memory together; tensors that are joined of pieces stay */
	return HT_OK;
}

static enum ht_status read_any(struct restoring *x, struct ht_str key, struct ht_tensor **out)
{
	return ht_checkpoint_read(x->from, key, x->a, x->d, out);
}

static enum ht_status read_numbers(struct restoring *x, struct ht_str key, struct ht_tensor **out)
{
	HT_TRY(ht_checkpoint_read(x->from, key, x->a, x->d, out));
	if ((*out)->dtype == HT_I64 && (*out)->blob)
		return HT_OK;
	return ht_error(x->d, HT_E_INPUT, at_variable(x, key), "these are no numbers of a session");
}

static enum ht_status take_streams(struct restoring *x, const struct ht_tensor *t)
{
	const int64_t *row = t->blob->p;

	if (t->shape.rank != 2 || t->shape.dim[1] != STREAM_COLUMNS)
		return ht_error(x->d, HT_E_INPUT, at_variable(x, HT_STR(STREAMS)),
			"these are no states of random numbers");
	for (int64_t i = 0; i < t->shape.dim[0]; i++, row += STREAM_COLUMNS) {
		struct ht_philox at;

		memcpy(&at, row + 1, sizeof at);
		ht_session_stream_of(x->s, (uint64_t)row[0], at)->at = at;
	}
	return HT_OK;
}

static enum ht_status take_own(struct restoring *x, struct ht_str key)
{
	struct ht_tensor *t;

	HT_TRY(read_numbers(x, key, &t));
	if (ht_str_is(key, STREAMS))
		return take_streams(x, t);
	if (ht_str_starts(key, NOTES))
		ht_session_put_note(x->s,
			(struct ht_str){ key.p + strlen(NOTES), key.n - strlen(NOTES) }, t->blob->p,
			t->blob->n / sizeof(int64_t));
	return HT_OK;
}

/* Whether the tensor is one that a variable takes, or a piece of one. */
static bool is_variable(const struct restoring *x, struct ht_str key)
{
	for (size_t i = 0; i < x->s->variables.count; i++)
		if (x->value[i] && ht_checkpoint_share(x->key[i], key))
			return true;
	return false;
}

/* Copies the bytes, since the file may change. */
static enum ht_status keep_other(struct restoring *x, size_t i)
{
	struct ht_session *s = x->s;
	struct ht_checkpoint_item item;
	void *bytes;

	HT_TRY(ht_checkpoint_item(x->from, i, x->d, &item));
	bytes = ht_alloc(&s->kept_arena, item.n);
	if (item.n)
		memcpy(bytes, item.bytes, item.n);
	item.bytes = bytes;
	item.key = ht_str_copy(&s->kept_arena, item.key);
	item.shape = ht_shape_make(&s->kept_arena, item.shape.rank, item.shape.dim);
	s->kept[s->kepts++] = item;
	return HT_OK;
}

/* Checks all other values before anything changes. */
static enum ht_status check_others(struct restoring *x)
{
	struct ht_tensor *t;

	for (size_t i = 0; i < ht_checkpoint_count(x->from); i++) {
		struct ht_str key = ht_checkpoint_key(x->from, i);

		if (!is_variable(x, key))
			HT_TRY((ht_str_starts(key, OWN) ? read_numbers : read_any)(x, key, &t));
	}
	return HT_OK;
}

static bool is_kept(const struct ht_session *s, struct ht_str key)
{
	for (size_t i = 0; i < s->kepts; i++)
		if (ht_str_eq(s->kept[i].key, key))
			return true;
	return false;
}

/* Keeps the keys for variables of later entries.  Keys of values that stay are not replaced by those of the model's own checkpoint. */
static enum ht_status note_keys(struct restoring *x)
{
	struct ht_session *s = x->s;

	for (const struct ht_node *n = x->m ? x->m->graph->first : NULL; n; n = n->next) {
		struct ht_str name = ht_variable_name(n), key;
		const struct ht_str *noted = ht_map_get(&s->keys, name);
		struct ht_map_entry *e;

		if (!ht_is(n, HT_VARIABLE) || (x->own && noted && is_kept(s, *noted)))
			continue;
		HT_TRY(find_key(x, name, &key));
		if (!key.n)
			continue; /* no function takes the variable: it stays as it was in the checkpoint */
		e = noted ? ht_map_at(&s->keys, name)
			  : ht_map_at(&s->keys, ht_str_copy(&s->arena, name));
		e->value = HT_NEW(&s->arena, struct ht_str);
		*(struct ht_str *)e->value = ht_str_copy(&s->arena, key);
	}
	return HT_OK;
}

/* Adds the values that the session does not have yet. */
static enum ht_status add_others(struct restoring *x)
{
	struct ht_session *s = x->s;
	size_t n = ht_checkpoint_count(x->from);
	struct ht_checkpoint_item *had = s->kept;

	s->kept = HT_NEW_ARRAY(&s->kept_arena, struct ht_checkpoint_item, s->kepts + n);
	if (s->kepts)
		memcpy(s->kept, had, s->kepts * sizeof *had);
	for (size_t i = 0; i < n; i++) {
		struct ht_str key = ht_checkpoint_key(x->from, i);

		if (!ht_str_starts(key, OWN) && !is_variable(x, key) && !is_kept(s, key))
			HT_TRY(keep_other(x, i));
	}
	return HT_OK;
}

static enum ht_status take_others(struct restoring *x)
{
	struct ht_session *s = x->s;

	HT_TRY(note_keys(x));
	if (x->own && s->restored)
		return add_others(x);
	ht_arena_release(&s->kept_arena);
	s->kepts = 0;
	HT_TRY(add_others(x));
	for (size_t i = 0; i < ht_checkpoint_count(x->from); i++) {
		struct ht_str key = ht_checkpoint_key(x->from, i);

		if (ht_str_starts(key, OWN))
			HT_TRY(take_own(x, key));
	}
	return HT_OK;
}

static void take_values(struct restoring *x)
{
	for (size_t i = 0; i < x->s->variables.count; i++) {
		struct ht_session_variable *v = x->s->variables.entries[i].value;

		const bool stays = x->own && v->set;

		/* A value that the caller assigned is saved under the key of the model's checkpoint, too. */
		if ((x->m || x->value[i]) && !(stays && x->s->restored))
			v->key = ht_str_copy(&x->s->arena, x->key[i]);
		if (!x->value[i] || stays)
			continue;
		ht_session_write(v, x->value[i]->blob->p);
		ht_bundle_forget(x->value[i]);
	}
}

static enum ht_status restore(void *arg)
{
	struct restoring *x = arg;
	size_t n = x->s->variables.count;

	HT_TRY(ht_checkpoint_open(x->a, x->prefix, NULL, x->d, &x->from));
	if (x->m)
		ht_checkpoint_follow(x->from, x->m->graph);
	if (x->m && !x->own && x->m->graph->checkpoint) {
		HT_TRY(ht_checkpoint_open(x->a, x->m->graph->checkpoint, NULL, x->d, &x->models));
		ht_checkpoint_follow(x->models, x->m->graph);
	}
	x->value = HT_NEW_ARRAY(x->a, struct ht_tensor *, n + 1);
	x->key = HT_NEW_ARRAY(x->a, struct ht_str, n + 1);
	for (size_t i = 0; i < n; i++)
		HT_TRY(read_variable(x, i));
	HT_TRY(check_others(x));
	HT_TRY(take_others(x));
	take_values(x);
	if (!x->own || !x->s->restored)
		ht_session_take_scale(x->s);
	x->s->restored = true;
	x->s->chosen |= !x->own;
	return HT_OK;
}

static enum ht_status run_restore(struct restoring *x)
{
	struct ht_work w;

	x->a = &w.arena;
	return ht_session_guarded(x->s, &w, restore, x, x->d);
}

enum ht_status ht_session_restore_own(
	struct ht_session *s, struct ht_model *m, const char *prefix, struct ht_diags *d)
{
	struct restoring x = { .s = s, .m = m, .prefix = prefix, .d = d, .own = true };

	return run_restore(&x);
}

enum ht_status ht_session_restore(struct ht_session *s, struct ht_model *m, const char *prefix,
	size_t *missing, struct ht_diags *d)
{
	struct restoring x = { .s = s, .m = m, .prefix = prefix, .d = d };
	enum ht_status st = run_restore(&x);

	if (missing)
		*missing = x.missing;
	return st;
}
