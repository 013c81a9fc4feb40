/* What a model is, for keys and provenance: hashes of its files. */
#include "api/api.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

void ht_put_digest(struct ht_buf *b, const uint8_t digest[32])
{
	for (size_t i = 0; i < 32; i++)
		ht_printf(b, "%02x", digest[i]);
	ht_putc(b, '\n');
}

static void put_file(
	struct ht_buf *b, const struct ht_model *m, const struct ht_file *f, struct ht_diags *d)
{
	struct timespec now;
	uint8_t digest[32];

	clock_gettime(CLOCK_REALTIME, &now);
	ht_cache_digest(m->cache, f, now.tv_sec * INT64_C(1000000000) + now.tv_nsec, d, digest);
	ht_put_digest(b, digest);
}

static enum ht_status put_named(
	struct ht_buf *b, const struct ht_model *m, const char *path, struct ht_diags *d)
{
	struct ht_file *f;

	HT_TRY(ht_file_map(path, SIZE_MAX, d, &f));
	put_file(b, m, f, d);
	ht_file_unref(f);
	return HT_OK;
}

/* Index and shards, in the order of their names. */
static enum ht_status put_checkpoint(struct ht_buf *b, const struct ht_model *m, struct ht_diags *d)
{
	const char *prefix = m->graph->checkpoint;
	struct ht_str name = ht_str(prefix);
	struct ht_buf pattern;
	enum ht_status st = HT_OK;
	glob_t found;

	ht_buf_init(&pattern, b->arena);
	for (size_t i = 0; i < name.n; i++) {
		if (strchr("*?[\\", name.p[i]))
			ht_putc(&pattern, '\\');
		ht_putc(&pattern, name.p[i]);
	}
	HT_TRY(put_named(b, m, ht_str_printf(b->arena, "%s.index", prefix).p, d));
	ht_puts(&pattern, ".data-*");
	if (glob(ht_buf_str(&pattern).p, 0, NULL, &found))
		return HT_OK;
	for (size_t i = 0; i < found.gl_pathc && st == HT_OK; i++)
		st = put_named(b, m, found.gl_pathv[i], d);
	globfree(&found);
	return st;
}

/* Large files are hashed once, however often the model is compiled. */
enum ht_status ht_content_of(const struct ht_model *m, struct ht_diags *d, struct ht_str *out)
{
	struct ht_model *model = (struct ht_model *)(uintptr_t)m;
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_buf b;
	volatile enum ht_status st = HT_OK;

	if (!m->content) {
		ht_arena_init(&a, &unwind);
		if (setjmp(unwind.env)) {
			ht_arena_release(&a);
			return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
		}
		ht_buf_init(&b, &a);
		for (const struct ht_input_file *i = m->graph->inputs; i; i = i->next)
			put_file(&b, m, i->file, d);
		if (m->graph->checkpoint)
			st = put_checkpoint(&b, m, d);
		if (st == HT_OK)
			model->content = strdup(ht_buf_str(&b).p);
		ht_arena_release(&a);
	}
	*out = ht_str(m->content ? m->content : "");
	return m->content ? HT_OK : st ? st : HT_E_ENVIRONMENT;
}

bool ht_content_changed(const struct ht_model *m)
{
	for (const struct ht_input_file *i = m->graph->inputs; i; i = i->next) {
		struct ht_file_stamp now = ht_file_stamp(i->file->path);

		if (!ht_file_stamp_eq(&now, &i->file->stamp))
			return true;
	}
	return false;
}
