/* Lists all entries of a store. */
#include "cache/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct walk {
	struct ht_store *s;
	struct ht_entry_list *out;
	struct ht_arena *arena;
	size_t cap;
	enum ht_cache_kind kind;
	char part[3]; /* the first two digits */
	struct ht_hash *pin;
	size_t pins, pin_cap;
	bool failed;
};

static void note_entry(void *self, const char *name)
{
	struct walk *w = self;
	struct ht_entry_list *l = w->out;
	struct ht_listed_entry *e;
	struct ht_path path;
	char digits[HT_KEY_NAME + 1];
	struct stat st;

	if (*name == '.') {
		l->temporary++;
		return;
	}
	snprintf(digits, sizeof digits, "%s%s", w->part, name);
	l->entry = ht_grow(w->arena, l->entry, l->n, &w->cap, sizeof *l->entry);
	e = &l->entry[l->n];
	if (!ht_key_named(ht_str(digits), &e->find))
		return; /* not an entry */
	e->kind = w->kind;
	path = ht_store_entry_file(w->s, e->kind, e->find);
	if (w->s->files->lstat(path.s, &st))
		return; /* removed in the meantime */
	e->bytes = (uint64_t)st.st_size;
	e->used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	l->bytes += e->bytes;
	l->n++;
}

static void walk_part(void *self, const char *name)
{
	struct walk *w = self;

	if (strlen(name) != 2)
		return;
	memcpy(w->part, name, sizeof w->part);
	if (!ht_store_each(w->s, ht_store_file(w->s, "%s/%s", ht_cache_kind_name(w->kind), name).s,
		    note_entry, w))
		w->failed = true;
}

static void note_pin(void *self, const char *name)
{
	struct walk *w = self;

	w->pin = ht_grow(w->arena, w->pin, w->pins, &w->pin_cap, sizeof *w->pin);
	if (ht_key_named(ht_str(name), &w->pin[w->pins]))
		w->pins++;
}

static void mark_pinned(struct walk *w)
{
	for (size_t i = 0; i < w->out->n; i++)
		for (size_t k = 0; k < w->pins; k++)
			if (ht_hash_eq(w->out->entry[i].find, w->pin[k]))
				w->out->entry[i].pinned = true;
}

static enum ht_status cannot(struct ht_store *s, const char *what, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;

	at.path = s->dir;
	return ht_error(d, HT_E_ENVIRONMENT, at, "cannot %s: %s", what, strerror(errno));
}

enum ht_status ht_store_list(
	struct ht_store *s, struct ht_arena *a, struct ht_diags *d, struct ht_entry_list *out)
{
	struct walk w = { .s = s, .out = out, .arena = a };

	*out = (struct ht_entry_list){ 0 };
	for (int kind = 0; kind < HT_CACHE_KINDS && !w.failed; kind++) {
		w.kind = (enum ht_cache_kind)kind;
		w.failed = !ht_store_each(
			s, ht_store_file(s, "%s", ht_cache_kind_name(w.kind)).s, walk_part, &w);
	}
	if (w.failed || !ht_store_each(s, ht_store_file(s, "pins").s, note_pin, &w))
		return cannot(s, "list the cache", d);
	mark_pinned(&w);
	return HT_OK;
}

bool ht_store_remove(struct ht_store *s, const struct ht_listed_entry *e)
{
	return s->opt.mode == HT_CACHE_RW &&
	       s->files->unlink(ht_store_entry_file(s, e->kind, e->find).s) == 0;
}

enum ht_status ht_store_pin(
	struct ht_store *s, const struct ht_listed_entry *e, bool pinned, struct ht_diags *d)
{
	char name[HT_KEY_NAME];
	struct ht_path path;

	if (!ht_store_writes(s))
		return ht_error(d, HT_E_ENVIRONMENT,
			(struct ht_where){ .path = s->dir, .offset = -1 },
			"the entry cannot be %s: the cache is read only",
			pinned ? "pinned" : "unpinned");
	ht_key_name(e->find, name);
	path = ht_store_file(s, "pins/%s", name);
	if (pinned ? ht_store_publish(s, path.s, NULL, 0)
		   : !s->files->unlink(path.s) || errno == ENOENT)
		return HT_OK;
	return cannot(s, pinned ? "pin" : "unpin", d);
}
