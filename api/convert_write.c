/* Writes a graph as the files of one of the formats, all of them or none. */
#include "api/convert.h"

#include <halftone/halftone.h>

#include <string.h>

/* Shards have the size that TF.js' converter uses, or a larger one if there would be too many. */
enum { SHARD_BYTES = 4 << 20, MOST_SHARDS = 12 };

struct files {
	struct ht_output *o[MOST_SHARDS + 1]; /* the last file refers to the others */
	size_t n;
	size_t shard_bytes, at, in_shard; /* of the shard being written */
};

static enum ht_status write_some(void *self, const void *p, size_t n)
{
	return ht_output_write(self, p, n);
}

static void abort_files(void *arg)
{
	struct files *f = arg;

	for (size_t i = 0; i < f->n; i++)
		ht_output_abort(f->o[i]);
	f->n = 0;
}

static struct files *files_new(const struct ht_convert_to *to)
{
	struct files *f = HT_NEW(to->work, struct files);

	ht_arena_defer(to->work, abort_files, f);
	return f;
}

static enum ht_status add_file(
	struct files *f, const struct ht_convert_to *to, const struct ht_model *m, const char *path)
{
	HT_TRY(ht_convert_keep(to, m, path));
	HT_TRY(ht_output_open(path, to->diags, &f->o[f->n]));
	f->n++;
	return HT_OK;
}

/* The files appear only when all of them are written. */
static enum ht_status commit(struct files *f)
{
	enum ht_status st = HT_OK;
	size_t done = 0;

	for (size_t i = 0; i < f->n; i++)
		HT_TRY(ht_output_flush(f->o[i]));
	for (; done < f->n && st == HT_OK; done++)
		st = ht_output_commit(f->o[done]);
	for (; done < f->n; done++)
		ht_output_abort(f->o[done]);
	f->n = 0;
	return st;
}

/* ---- GraphDefs ---- */

static enum ht_status write_graph(
	const struct ht_convert_to *to, const struct ht_model *m, const struct ht_graph *g)
{
	enum ht_export_form form = to->form == HT_CONVERT_TEXT ? HT_EXPORT_TEXT : HT_EXPORT_WIRE;
	struct files *f = files_new(to);

	HT_TRY(add_file(f, to, m, to->path));
	if (to->as_imported && ht_str_ends(ht_str(to->path), ".meta"))
		HT_TRY(ht_export_container_to(g, form, to->work, to->diags, write_some, f->o[0]));
	else
		HT_TRY(ht_export_graphdef_to(g, form, to->work, to->diags, write_some, f->o[0]));
	return commit(f);
}

/* ---- TF.js graph models ---- */

static enum ht_status write_shards(void *self, const void *p, size_t n)
{
	struct files *f = self;
	const char *from = p;
	size_t part;

	while (n) {
		if (f->in_shard == f->shard_bytes) {
			f->at++;
			f->in_shard = 0;
		}
		part = f->shard_bytes - f->in_shard < n ? f->shard_bytes - f->in_shard : n;
		HT_TRY(ht_output_write(f->o[f->at], from, part));
		f->in_shard += part;
		from += part;
		n -= part;
	}
	return HT_OK;
}

/* model.json has the names that TF.js' converter would give; other models may be in the same
 * folder. */
static struct ht_str shard_name(const struct ht_convert_to *to, size_t i, size_t count)
{
	const char *slash = strrchr(to->path, '/'), *file = slash ? slash + 1 : to->path;
	bool usual = !strcmp(file, "model.json");

	return ht_str_printf(to->work, "%.*s%sgroup1-shard%zuof%zu.bin",
		usual ? 0 : (int)(strlen(file) - strlen(".json")), file, usual ? "" : "-", i + 1,
		count);
}

static enum ht_status write_tfjs(
	const struct ht_convert_to *to, const struct ht_model *m, const struct ht_graph *g)
{
	const char *slash = strrchr(to->path, '/');
	int folder = slash ? (int)(slash - to->path + 1) : 0;
	struct ht_str name[MOST_SHARDS];
	struct files *f = files_new(to);
	struct ht_buf json;
	size_t bytes, count;

	HT_TRY(ht_tfjs_weight_bytes(g, to->work, to->diags, &bytes));
	f->shard_bytes = (bytes + MOST_SHARDS - 1) / MOST_SHARDS;
	if (f->shard_bytes < SHARD_BYTES)
		f->shard_bytes = SHARD_BYTES;
	count = bytes ? (bytes + f->shard_bytes - 1) / f->shard_bytes : 1;
	for (size_t i = 0; i < count; i++) {
		name[i] = shard_name(to, i, count);
		HT_TRY(add_file(f, to, m,
			ht_str_printf(to->work, "%.*s%s", folder, to->path, name[i].p).p));
	}
	HT_TRY(add_file(f, to, m, to->path));
	ht_buf_init(&json, to->work);
	HT_TRY(ht_export_tfjs(g, name, count, to->diags, &json, write_shards, f));
	HT_TRY(ht_output_write(f->o[count], json.p, json.n));
	return commit(f);
}

/* ---- both formats ---- */

enum ht_status ht_convert_write(
	const struct ht_convert_to *to, const struct ht_model *m, const struct ht_graph *g)
{
	struct ht_str path = ht_str(to->path);

	if (to->form == HT_CONVERT_TFJS)
		return write_tfjs(to, m, g);
	if (to->form != HT_CONVERT_HIR)
		return write_graph(to, m, g);
	HT_TRY(ht_convert_keep(
		to, m, ht_str_printf(to->work, "%.*s.weights", (int)path.n - 4, path.p).p));
	return ht_put_text(g, to->path, to->work, to->diags, NULL);
}
