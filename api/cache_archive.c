/* All entries of a cache in one file, one after the other, unchanged. */
#include "api/api.h"

#include <halftone/cache.h>
#include <stdlib.h>
#include <string.h>

struct archive {
	struct ht_cache *c;
	const char *path;
	struct ht_diags *d;
	struct ht_cache_cleaned *out;
	struct ht_work *w;
};

static int by_name(const void *a, const void *b)
{
	const struct ht_listed_entry *x = a, *y = b;

	if (x->find.hi != y->find.hi)
		return x->find.hi < y->find.hi ? -1 : 1;
	return x->find.lo < y->find.lo ? -1 : x->find.lo > y->find.lo;
}

/* Entries are sorted, so that equal caches become equal files. */
static enum ht_status write_entries(
	struct archive *x, struct ht_store *s, struct ht_entry_list *list, struct ht_output *to)
{
	if (list->n)
		qsort(list->entry, list->n, sizeof *list->entry, by_name);
	for (size_t i = 0; i < list->n; i++) {
		struct ht_cached cached;
		const char *wrong;
		enum ht_status st;

		if (ht_cache_kind_is_local(list->entry[i].kind) ||
			ht_store_read(s, &list->entry[i], &cached, &wrong, NULL) != HT_ENTRY_GOOD)
			continue;
		st = ht_output_write(to, cached.bytes.p, cached.bytes.n);
		x->out->entries++;
		x->out->bytes += cached.bytes.n;
		ht_cached_release(&cached);
		HT_TRY(st);
	}
	return HT_OK;
}

static enum ht_status export_all(void *arg)
{
	struct archive *x = arg;
	struct ht_entry_list list;
	struct ht_output *to;
	struct ht_store *s;
	enum ht_status st;

	HT_TRY(ht_store_of(x->c, x->d, &s));
	HT_TRY(ht_store_list(s, &x->w->arena, x->d, &list));
	HT_TRY(ht_output_open(x->path, x->d, &to));
	st = write_entries(x, s, &list, to);
	if (st == HT_OK)
		return ht_output_commit(to);
	ht_output_abort(to);
	return st;
}

/* Imports the entry at `at`, and moves *at behind it. */
static enum ht_status import_one(
	struct archive *x, struct ht_store *s, const struct ht_file *f, size_t *at)
{
	struct ht_where where = { .path = x->path, .offset = (int64_t)*at };
	struct ht_str rest = { (const char *)f->p + *at, f->n - *at };
	struct ht_cache_entry e = { .piece = &rest, .pieces = 1, .bytes = ht_entry_bytes(rest) };
	const char *wrong = ht_entry_is_foreign(rest) ? "it is of another version"
						      : "here is no entry of a cache";
	struct ht_opened opened;
	struct ht_cache_key k;

	rest.n = e.bytes;
	if (e.bytes)
		wrong = ht_entry_check(rest, NULL, &opened);
	if (!wrong && ht_cache_kind_is_local(opened.kind))
		wrong = "what another machine remembers of its files or of itself";
	if (wrong)
		return ht_error(x->d, HT_E_INPUT, where, "this cannot be imported: %s", wrong);
	k = (struct ht_cache_key){ .kind = opened.kind, .text = opened.key, .find = opened.find };
	*at += e.bytes;
	if (!ht_store_put(s, &k, &e, x->d))
		return ht_error(x->d, HT_E_ENVIRONMENT, where, "the cache does not take it");
	x->out->entries++;
	x->out->bytes += e.bytes;
	return HT_OK;
}

static enum ht_status import_all(void *arg)
{
	struct archive *x = arg;
	enum ht_status st = HT_OK;
	struct ht_store *s;
	struct ht_file *f;

	HT_TRY(ht_store_of(x->c, x->d, &s));
	HT_TRY(ht_file_map(x->path, SIZE_MAX, x->d, &f));
	for (size_t at = 0; at < f->n && st == HT_OK;)
		st = import_one(x, s, f, &at);
	ht_file_unref(f);
	return st;
}

static enum ht_status run(struct archive *x, enum ht_status (*body)(void *arg))
{
	struct ht_work w;

	*x->out = (struct ht_cache_cleaned){ 0 };
	x->w = &w;
	return ht_work_run(&w, body, x, x->d);
}

enum ht_status ht_cache_export(
	struct ht_cache *c, const char *path, struct ht_diags *d, struct ht_cache_cleaned *out)
{
	return run(&(struct archive){ c, path, d, out, NULL }, export_all);
}

enum ht_status ht_cache_import(
	struct ht_cache *c, const char *path, struct ht_diags *d, struct ht_cache_cleaned *out)
{
	return run(&(struct archive){ c, path, d, out, NULL }, import_all);
}
