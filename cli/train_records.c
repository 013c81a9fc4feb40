/* Rows of a training from files of records: NAME=@FILE.tfrecord#FEATURE, where FILE may be a pattern.  Each record is a
 * tf.train.Example. */
#include "cli/train.h"

#include <glob.h>
#include <halftone/records.h>
#include <stdlib.h>
#include <string.h>

/* The files of one pattern.  Their records are numbered through, in the order of the files. */
struct record_files {
	char *pattern;
	struct ht_records **file;
	int64_t *end; /* by file: how many records it and the files before it have */
	size_t n;
	int uses; /* tensors whose rows come from these files */
};

/* ---- the pattern ---- */

bool is_records(const char *spec)
{
	const char *slash, *hash = strrchr(spec, '#'), *at;

	slash = hash ? memrchr(spec, '/', (size_t)(hash - spec)) : strrchr(spec, '/');
	at = strstr(slash ? slash : spec, ".tfrecord");
	return at && (!hash || at < hash);
}

/* Splits FILE#FEATURE.  Without FEATURE, the feature has the tensor's name. */
static void split(const char *spec, const char *tensor, char **pattern, char **feature)
{
	const char *hash = strrchr(spec, '#');
	bool says = hash && hash[1];

	*pattern = strndup(spec, hash ? (size_t)(hash - spec) : strlen(spec));
	*feature = strdup(says ? hash + 1 : tensor);
	if (!*pattern || !*feature)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
}

static enum ht_status open_one(const struct cli *c, struct record_files *f, const char *path)
{
	enum ht_status st = ht_records_open(path, c->diags, &f->file[f->n]);

	if (st != HT_OK)
		return st;
	f->end[f->n] = ht_records_count(f->file[f->n]) + (f->n ? f->end[f->n - 1] : 0);
	f->n++;
	return HT_OK;
}

static void close_files(struct record_files *f)
{
	if (!f || --f->uses)
		return;
	for (size_t i = 0; i < f->n; i++)
		ht_records_free(f->file[i]);
	free(f->file);
	free(f->end);
	free(f->pattern);
	free(f);
}

/* Opens the files in the order of their names.  Takes ownership of `pattern`. */
static enum ht_status open_files(const struct cli *c, char *pattern, struct record_files **out)
{
	struct record_files *f = must_alloc(sizeof *f);
	enum ht_status st = HT_OK;
	glob_t g;

	*f = (struct record_files){ .pattern = pattern, .uses = 1 };
	if (glob(pattern, GLOB_NOCHECK, NULL, &g))
		exit(fail(HT_E_ENVIRONMENT, "%s: cannot list the files", pattern));
	f->file = must_alloc(g.gl_pathc * sizeof(struct ht_records *));
	f->end = must_alloc(g.gl_pathc * sizeof *f->end);
	for (size_t i = 0; i < g.gl_pathc && st == HT_OK; i++)
		st = open_one(c, f, g.gl_pathv[i]);
	globfree(&g);
	if (st == HT_OK)
		*out = f;
	else
		close_files(f);
	return st;
}

/* ---- rows ---- */

enum ht_status records_open(const struct cli *c, struct data *d, struct rows *r, const char *spec)
{
	enum ht_status st = HT_OK;
	char *pattern;

	split(spec, r->name, &pattern, &r->feature);
	for (size_t i = 0; i < d->n && !r->records; i++)
		if (d->rows[i].records && !strcmp(d->rows[i].records->pattern, pattern))
			r->records = d->rows[i].records;
	if (r->records) {
		r->records->uses++;
		free(pattern);
	} else {
		st = open_files(c, pattern, &r->records);
	}
	if (st != HT_OK)
		return st;
	r->rank = 1;
	r->dim[0] = r->records->end[r->records->n - 1];
	return HT_OK;
}

void records_close(struct rows *r)
{
	close_files(r->records);
	free(r->feature);
}

/* Returns the file that row *i is in; *i becomes the number of its record in that file. */
static struct ht_records *file_of(const struct record_files *f, int64_t *i)
{
	size_t low = 0, high = f->n - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (*i < f->end[middle])
			high = middle;
		else
			low = middle + 1;
	}
	*i -= low ? f->end[low - 1] : 0;
	return f->file[low];
}

enum ht_status records_read(const struct cli *c, const struct rows *r, int64_t row, void *to)
{
	struct ht_records *file = file_of(r->records, &row);

	return ht_records_read(file, row, r->feature, r->dtype,
		(int64_t)(r->row_bytes / ht_dtype_bytes(r->dtype)), to, c->diags);
}

/* ---- shapes ---- */

static enum ht_dtype natural_dtype(enum ht_feature_kind kind)
{
	return kind == HT_FEATURE_FLOAT ? HT_F32 : kind == HT_FEATURE_INT64 ? HT_I64 : HT_U8;
}

static int64_t elements_of(const struct ht_feature *f, enum ht_dtype t)
{
	size_t size = ht_dtype_bytes(t);

	return f->kind != HT_FEATURE_BYTES ? f->elements : size ? f->bytes / (int64_t)size : 0;
}

/* Sets the shape of a row of `elements` elements to that of the input, in which one dimension may be open.  False: the row
 * does not have that shape. */
static bool shape_row(struct rows *r, const struct ht_value_info *v, int64_t elements)
{
	int64_t known = 1, *open = NULL;

	r->rank = v->rank >= 0 ? v->rank : elements == 1 ? 1 : 2;
	r->dim[1] = elements;
	for (int32_t i = 1; i < v->rank; i++) {
		r->dim[i] = v->dim[i];
		if (v->dim[i] >= 0)
			known *= v->dim[i];
		else if (open)
			return false;
		else
			open = &r->dim[i];
	}
	if (open && known)
		*open = elements / known;
	if (open)
		known *= *open;
	return r->rank >= 1 && (v->rank < 0 || known == elements);
}

enum ht_status records_fit(const struct cli *c, struct rows *r, const struct ht_value_info *v)
{
	struct ht_feature f = HT_FEATURE_INIT;
	int64_t row = 0, elements;
	char text[256];
	void *first;
	enum ht_status st;

	st = ht_records_feature(file_of(r->records, &row), row, r->feature, c->diags, &f);
	if (st != HT_OK)
		return st;
	r->dtype = v->dtype != HT_INVALID ? v->dtype : natural_dtype(f.kind);
	elements = elements_of(&f, r->dtype);
	if (!shape_row(r, v, elements))
		return fail(HT_E_INPUT,
			"--%s %s: the feature '%s' has %lld elements in its first record, which are no row of "
			"input '%s', %s",
			r->option, r->spec, r->feature, (long long)elements, v->name,
			input_text(v, text, sizeof text));
	r->row_bytes = (size_t)elements * ht_dtype_bytes(r->dtype);
	first = must_alloc(r->row_bytes + 1);
	st = records_read(c, r, 0, first);
	free(first);
	return st;
}
