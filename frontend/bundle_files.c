/* Finds the files of a checkpoint. */
#include "frontend/bundle.h"
#include "frontend/frontend.h"

#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct files {
	struct ht_arena *a;
	struct ht_diags *d;
	struct ht_input_file **last;
};

static void unref_file(void *file)
{
	ht_file_unref(file);
}

static enum ht_status add(struct files *f, const char *path, size_t limit)
{
	struct ht_input_file *i = HT_NEW(f->a, struct ht_input_file);
	struct ht_file *file;

	HT_TRY(ht_file_map_watched(path, limit, f->d, &file));
	ht_arena_defer(f->a, unref_file, file);
	i->file = file;
	*f->last = i;
	f->last = &i->next;
	return HT_OK;
}

static void free_glob(void *found)
{
	globfree(found);
}

static enum ht_status add_shards(struct files *f, const char *prefix)
{
	glob_t *found = HT_NEW(f->a, glob_t);
	struct ht_buf pattern;

	ht_buf_init(&pattern, f->a);
	for (const char *p = prefix; *p; p++) {
		if (strchr("*?[\\", *p))
			ht_putc(&pattern, '\\');
		ht_putc(&pattern, *p);
	}
	ht_puts(&pattern, ".data-*");
	ht_arena_defer(f->a, free_glob, found);
	if (glob(ht_buf_str(&pattern).p, 0, NULL, found))
		return HT_OK;
	for (size_t i = 0; i < found->gl_pathc; i++)
		HT_TRY(add(f, found->gl_pathv[i], HT_BUNDLE_SHARD_LIMIT));
	return HT_OK;
}

enum ht_status ht_checkpoint_files(
	struct ht_arena *a, const char *prefix, struct ht_diags *d, struct ht_input_file **out)
{
	struct files f = { .a = a, .d = d, .last = out };

	*out = NULL;
	HT_TRY(add(&f, ht_str_printf(a, "%s.index", prefix).p, HT_BUNDLE_INDEX_LIMIT));
	return add_shards(&f, prefix);
}

enum ht_status ht_bundle_file(const struct ht_input_file *files, const char *path, size_t limit,
	struct ht_diags *d, struct ht_file **out)
{
	if (!files)
		return ht_file_map(path, limit, d, out);
	*out = NULL;
	for (const struct ht_input_file *i = files; i; i = i->next)
		if (!strcmp(i->file->path, path)) {
			*out = ht_file_ref((struct ht_file *)(uintptr_t)i->file);
			return HT_OK;
		}
	return ht_error(d, HT_E_ENVIRONMENT, (struct ht_where){ .path = path, .offset = -1 },
		"cannot read: %s", strerror(ENOENT));
}

/* Pages that it shares with other tensors are read again, too. */
void ht_bundle_forget(const struct ht_tensor *t)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)t->blob->p;
	const uintptr_t from = at & ~(page - 1);

	if (t->blob->file && t->blob->n)
		madvise((void *)from, at + t->blob->n - from, MADV_DONTNEED);
}
