/* Samples that are read one after the other, so that memory does not grow with their number. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The array of one tensor in the open file. */
struct stream {
	void *from; /* a member of an archive, or a FILE; NULL: the file has none */
};

struct sample_set {
	struct wanted w;
	char *text, **path; /* of files, in order */
	size_t paths, cap;
	uint64_t seed; /* for random samples */
	bool random;
	size_t runs; /* in all files */

	/* The open file. */
	size_t file;      /* its number + 1 */
	size_t at, count; /* its runs: how many were taken, and how many there are */
	bool counted;
	struct npz *npz; /* NULL: the file is a .npy */
	struct stream *stream;
	size_t next; /* number of the next run */
	struct array *array;
	struct ht_array *view;
};

static bool is_float(enum ht_dtype t)
{
	return t == HT_F32 || t == HT_F64 || t == HT_F16 || t == HT_BF16;
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);

	return n > k && !strcmp(s + n - k, suffix);
}

/* ---- which files ---- */

static enum ht_status add_path(struct sample_set *s, char *path)
{
	if (!has_suffix(path, ".npz") && !has_suffix(path, ".npy"))
		return fail(HT_E_USAGE, "%s: '%s' is no .npz or .npy file, no folder and no number",
			s->w.option, path);
	if (s->paths == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		char **grown = realloc(s->path, s->cap * sizeof *grown);
		if (!grown)
			return fail(HT_E_ENVIRONMENT, "out of memory");
		s->path = grown;
	}
	s->path[s->paths] = strdup(path);
	return s->path[s->paths] ? (s->paths++, HT_OK) : fail(HT_E_ENVIRONMENT, "out of memory");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum ht_status add_folder(struct sample_set *s, const char *folder)
{
	DIR *d = opendir(folder);
	enum ht_status st = HT_OK;

	if (!d)
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", folder, strerror(errno));
	for (struct dirent *e; st == HT_OK && (e = readdir(d));) {
		struct text path = { 0 };
		if (!has_suffix(e->d_name, ".npz") && !has_suffix(e->d_name, ".npy"))
			continue;
		text_printf(&path, "%s/%s", folder, e->d_name);
		st = add_path(s, path.p);
		free(path.p);
	}
	closedir(d);
	if (st == HT_OK && !s->paths)
		return fail(HT_E_INPUT, "%s: the folder has no .npz or .npy files", folder);
	if (s->paths)
		qsort(s->path, s->paths, sizeof *s->path, by_name);
	return st;
}

static enum ht_status find_files(struct sample_set *s, const char *value)
{
	struct stat info;
	enum ht_status st = HT_OK;
	char *at;

	if (!stat(value, &info) && S_ISDIR(info.st_mode))
		return add_folder(s, value);
	s->text = at = strdup(value);
	if (!s->text)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	for (char *path; st == HT_OK && (path = strsep(&at, ","));)
		st = add_path(s, path);
	return st;
}

/* ---- one file ---- */

static size_t read_file(void *from, void *to, size_t n)
{
	return fread(to, 1, n, from);
}

static enum ht_status open_regular(const char *path, FILE **out)
{
	struct stat info;

	*out = NULL;
	if (!stat(path, &info) && !S_ISREG(info.st_mode))
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: not a regular file", path);
	*out = fopen(path, "rb");
	return *out ? HT_OK : fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
}

enum ht_status npy_head_of(const char *path, struct npy_head *out)
{
	FILE *f;
	enum ht_status st = open_regular(path, &f);

	if (st == HT_OK)
		st = npy_head(path, read_file, f, out);
	if (f)
		fclose(f);
	return st;
}

static size_t read_stream(const struct sample_set *s, const struct stream *from, void *to, size_t n)
{
	return s->npz ? npz_read(from->from, to, n) : read_file(from->from, to, n);
}

static void close_file(struct sample_set *s)
{
	for (size_t i = 0; i < s->w.n; i++) {
		if (s->npz)
			npz_stream_close(s->stream[i].from);
		else if (s->stream[i].from)
			fclose(s->stream[i].from);
		s->stream[i].from = NULL;
	}
	npz_close(s->npz);
	s->npz = NULL;
}

static bool same_dims(const int64_t *a, const int64_t *b, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* The number of arrays of the tensor's shape that the file's array consists of; -1: it has another shape. */
static int64_t runs_of(const struct npy_head *h, const struct ht_value_info *v)
{
	if (h->rank == v->rank && same_dims(h->dim, v->dim, v->rank))
		return 1;
	if (h->rank == v->rank + 1 && same_dims(h->dim + 1, v->dim, v->rank))
		return h->dim[0];
	if (h->rank == v->rank && v->rank > 0 && v->dim[0] > 0 && h->dim[0] % v->dim[0] == 0 &&
		same_dims(h->dim + 1, v->dim + 1, v->rank - 1))
		return h->dim[0] / v->dim[0];
	return -1;
}

/* The bytes of the tensor's type, or of another float type if that is permitted. */
static enum ht_status set_type(struct sample_set *s, const struct npy_head *h, size_t i, bool *fits)
{
	const struct ht_value_info *v = &s->w.v[i];
	enum ht_dtype t = h->raw16 && v->dtype == HT_BF16 ? HT_BF16 : h->dtype;
	enum ht_status st = HT_OK;

	*fits = t == v->dtype || (s->w.any_float && is_float(t) && is_float(v->dtype));
	if (!*fits || t == s->view[i].dtype)
		return HT_OK;
	array_free(&s->array[i]);
	st = array_make(&s->array[i], t, v->rank, v->dim);
	s->view[i] = s->array[i].a;
	return st;
}

static enum ht_status misfit(
	const struct sample_set *s, const char *where, const struct npy_head *h, size_t i)
{
	struct ht_value_info is = { .dtype = h->dtype, .rank = h->rank, .dim = h->dim };
	char array[256], tensor[256];

	return fail(HT_E_INPUT, "%s: %s: the array is %s; '%s' is %s, or several of them stacked",
		s->w.option, where, input_text(&is, array, sizeof array), s->w.v[i].name,
		input_text(&s->w.v[i], tensor, sizeof tensor));
}

static enum ht_status take_head(struct sample_set *s, const char *where, size_t i)
{
	const struct ht_value_info *v = &s->w.v[i];
	struct stream *t = &s->stream[i];
	struct npy_head h;
	enum ht_status st = npy_head(where, s->npz ? npz_read : read_file, t->from, &h);
	int64_t runs;
	bool fits;

	if (st != HT_OK)
		return st;
	if (h.fortran && h.rank > 1)
		return fail(HT_E_UNSUPPORTED,
			"%s: %s is in Fortran's order, in which samples are not one behind the other",
			s->w.option, where);
	runs = runs_of(&h, v);
	st = set_type(s, &h, i, &fits);
	if (st != HT_OK)
		return st;
	if (!fits || runs < 0)
		return misfit(s, where, &h, i);
	if (s->counted && s->count != (size_t)runs)
		return fail(HT_E_INPUT, "%s: %s has %lld samples, another array there has %zu",
			s->w.option, where, (long long)runs, s->count);
	s->counted = true;
	s->count = (size_t)runs;
	return HT_OK;
}

static enum ht_status open_npy(struct sample_set *s, const char *path)
{
	enum ht_status st;
	FILE *f;

	if (s->w.n != 1)
		return fail(HT_E_USAGE, "%s: %s: there are %zu tensors; .npz holds several",
			s->w.option, path, s->w.n);
	st = open_regular(path, &f);
	s->stream[0].from = f;
	return st == HT_OK ? take_head(s, path, 0) : st;
}

static enum ht_status no_tensor(const struct sample_set *s, const char *path, const char *name)
{
	const char **names = must_alloc((s->w.n + 1) * sizeof *names), *near;

	for (size_t i = 0; i < s->w.n; i++)
		names[i] = s->w.v[i].name;
	near = near_name(name, names, s->w.n);
	fail(HT_E_INPUT, "%s: %s: there is no tensor '%s'%s%s%s", s->w.option, path, name,
		near ? "; did you mean '" : "; the first is '", near ? near : s->w.v[0].name, "'");
	free(names);
	return HT_E_INPUT;
}

static enum ht_status open_member(struct sample_set *s, const char *path, size_t member)
{
	const char *name = npz_name(s->npz, member);
	struct text where = { 0 };
	enum ht_status st;
	size_t i;

	if (!s->w.named(s->w.program, name, &i))
		return no_tensor(s, path, name);
	if (s->stream[i].from)
		return fail(HT_E_INPUT, "%s: %s has two arrays for '%s'", s->w.option, path,
			s->w.v[i].name);
	st = npz_stream(s->npz, member, &s->stream[i].from);
	if (st != HT_OK)
		return st;
	text_printf(&where, "%s#%s", path, name);
	st = take_head(s, where.p, i);
	free(where.p);
	return st;
}

static enum ht_status open_npz(struct sample_set *s, const char *path)
{
	enum ht_status st = npz_open(path, &s->npz);

	for (size_t i = 0; st == HT_OK && i < npz_members(s->npz); i++)
		st = open_member(s, path, i);
	for (size_t i = 0; st == HT_OK && i < s->w.n; i++)
		if (!s->stream[i].from && !s->w.v[i].value)
			st = fail(HT_E_INPUT, "%s: %s has nothing for '%s'", s->w.option, path,
				s->w.v[i].name);
	if (st == HT_OK && !s->counted)
		st = fail(HT_E_INPUT, "%s: %s has no arrays", s->w.option, path);
	return st;
}

static enum ht_status open_next(struct sample_set *s)
{
	const char *path = s->path[s->file];

	close_file(s);
	s->at = s->count = 0;
	s->counted = false;
	s->file++;
	return has_suffix(path, ".npz") ? open_npz(s, path) : open_npy(s, path);
}

/* ---- the whole set ---- */

static enum ht_status count_runs(struct sample_set *s)
{
	enum ht_status st = HT_OK;

	while (s->file < s->paths && st == HT_OK) {
		st = open_next(s);
		s->runs += s->count;
	}
	close_file(s);
	s->file = s->at = s->count = 0;
	if (st == HT_OK && !s->runs)
		return fail(HT_E_INPUT, "%s: there are no samples", s->w.option);
	return st;
}

/* More would run for days. */
enum { MOST_RANDOM = 1000000 };

static enum ht_status set_random(struct sample_set *s, const char *value)
{
	char *end;

	errno = 0;
	s->random = true;
	s->runs = (size_t)strtoull(value, &end, 10);
	s->seed = *end ? strtoull(end + 1, NULL, 10) : 1;
	if (errno || !s->runs || s->runs > MOST_RANDOM)
		return fail(HT_E_USAGE, "%s: '%s' is no number of samples from 1 to %d",
			s->w.option, value, MOST_RANDOM);
	return HT_OK;
}

static enum ht_status refuse_open(const struct ht_value_info *v)
{
	for (int32_t i = 0; i < v->rank; i++)
		if (v->dim[i] < 0)
			return fail(HT_E_UNSUPPORTED,
				"dimension %d of '%s' is open, but samples are compared in one size; "
				"state it with --input-shape",
				(int)i, v->name);
	if (v->dtype == HT_STRING)
		return fail(
			HT_E_UNSUPPORTED, "'%s' is of strings, which samples do not have", v->name);
	return HT_OK;
}

static enum ht_status make_arrays(struct sample_set *s)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < s->w.n && st == HT_OK; i++) {
		const struct ht_value_info *v = &s->w.v[i];

		st = refuse_open(v);
		if (st == HT_OK)
			st = array_make(&s->array[i], v->dtype, v->rank, v->dim);
		s->view[i] = s->array[i].a;
		s->view[i].dim = s->array[i].shape;
	}
	return st;
}

enum ht_status sample_set_open(const struct wanted *w, const char *value, struct sample_set **out)
{
	struct sample_set *s = must_alloc(sizeof *s);
	enum ht_status st;

	s->w = *w;
	s->stream = must_alloc((w->n + 1) * sizeof *s->stream);
	s->array = must_alloc((w->n + 1) * sizeof *s->array);
	s->view = must_alloc((w->n + 1) * sizeof *s->view);
	st = make_arrays(s);
	if (st == HT_OK && is_sample_count(value))
		st = set_random(s, value);
	else if (st == HT_OK)
		st = find_files(s, value);
	if (st == HT_OK && !s->random)
		st = count_runs(s);
	*out = s;
	return st;
}

size_t sample_set_runs(const struct sample_set *s)
{
	return s->runs;
}

static void make_random(struct sample_set *s)
{
	for (size_t i = 0; i < s->w.n; i++) {
		if (s->w.v[i].value)
			s->view[i].data = NULL;
		else
			fill_random(&s->array[i], (s->seed * 1000003 + s->next) * 1009 + i);
	}
}

static enum ht_status read_arrays(struct sample_set *s)
{
	for (size_t i = 0; i < s->w.n; i++) {
		struct ht_array *a = &s->view[i];
		a->data = s->stream[i].from ? s->array[i].a.data : NULL;
		if (a->data && read_stream(s, &s->stream[i], a->data, a->bytes) != a->bytes)
			return fail(HT_E_INPUT, "%s: %s: sample %zu of '%s' is cut off or damaged",
				s->w.option, s->path[s->file - 1], s->at + 1, s->w.v[i].name);
	}
	s->at++;
	return HT_OK;
}

enum ht_status sample_set_next(
	struct sample_set *s, const struct ht_array **out, const char **where)
{
	enum ht_status st = HT_OK;

	*out = s->view;
	if (s->random) {
		*where = "a random sample";
		make_random(s);
	} else {
		while (st == HT_OK && s->at == s->count)
			st = open_next(s);
		*where = s->path[s->file - 1];
		if (st == HT_OK)
			st = read_arrays(s);
	}
	s->next++;
	return st;
}

void sample_set_close(struct sample_set *s)
{
	if (!s)
		return;
	close_file(s);
	for (size_t i = 0; i < s->paths; i++)
		free(s->path[i]);
	arrays_free(s->array, s->w.n); /* frees the arrays too */
	free(s->path);
	free(s->text);
	free(s->stream);
	free(s->view);
	free(s);
}
