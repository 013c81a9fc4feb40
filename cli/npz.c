/* NumPy's .npz: a zip archive of .npy members. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

/* Limits against malicious archives; far above any real one. */
enum { MAX_MEMBERS = 65536 };
#define MAX_MEMBER_BYTES ((size_t)16 << 30)

struct npz {
	zip_t *zip;
	const char *path;
	char **name;
	size_t names;
};

static enum ht_status read_names(struct npz *z)
{
	zip_int64_t n = zip_get_num_entries(z->zip, 0);

	if (n < 0 || n > MAX_MEMBERS)
		return fail(HT_E_LIMIT, "%s: %lld members", z->path, (long long)n);
	z->name = must_alloc((size_t)n * sizeof *z->name);
	for (zip_int64_t i = 0; i < n; i++) {
		const char *name = zip_get_name(z->zip, (zip_uint64_t)i, 0);
		size_t len = name ? strlen(name) : 0;
		if (len < 4 || strcmp(name + len - 4, ".npy"))
			continue;
		z->name[z->names++] = strndup(name, len - 4);
	}
	return HT_OK;
}

/* A file that exists and can be read is no archive, or is damaged; libzip may report it as
 * absent. */
static enum ht_status cannot_open(const char *path, int why)
{
	struct stat s;
	zip_error_t e;
	enum ht_status st = HT_E_INPUT;

	if (stat(path, &s) || access(path, R_OK))
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: %s", path, strerror(errno));
	if (!S_ISREG(s.st_mode))
		return fail(HT_E_ENVIRONMENT, "%s: cannot read: not a regular file", path);
	if (why == ZIP_ER_MEMORY)
		return fail(HT_E_ENVIRONMENT, "%s: no memory to read it", path);
	errno = 0;
	zip_error_init_with_code(&e, why);
	fail(st, "%s: this is no .npz file, or a damaged one%s%s", path,
		why == ZIP_ER_NOZIP || why == ZIP_ER_OPEN || why == ZIP_ER_NOENT ? "" : ": ",
		why == ZIP_ER_NOZIP || why == ZIP_ER_OPEN || why == ZIP_ER_NOENT
			? ""
			: zip_error_strerror(&e));
	zip_error_fini(&e);
	return st;
}

enum ht_status npz_open(const char *path, struct npz **out)
{
	struct npz *z = must_alloc(sizeof *z);
	enum ht_status st;
	int why = 0;

	*out = NULL;
	z->path = path;
	z->zip = zip_open(path, ZIP_RDONLY, &why);
	if (!z->zip) {
		free(z);
		return cannot_open(path, why);
	}
	st = read_names(z);
	if (st != HT_OK)
		npz_close(z);
	else
		*out = z;
	return st;
}

void npz_close(struct npz *z)
{
	if (!z)
		return;
	for (size_t i = 0; i < z->names; i++)
		free(z->name[i]);
	free(z->name);
	zip_discard(z->zip);
	free(z);
}

size_t npz_members(const struct npz *z)
{
	return z->names;
}

const char *npz_name(const struct npz *z, size_t i)
{
	return z->name[i];
}

static enum ht_status no_member(const struct npz *z, const char *key)
{
	const char *near = near_name(key, (const char *const *)z->name, z->names);

	if (near)
		return fail(
			HT_E_INPUT, "%s: no member '%s'; did you mean '%s'?", z->path, key, near);
	return fail(HT_E_INPUT, "%s: no member '%s'%s%s%s", z->path, key,
		z->names ? "; its first is '" : "", z->names ? z->name[0] : "",
		z->names ? "'" : "");
}

/* Reads a whole member to its end, where libzip checks the CRC. */
static bool read_whole(zip_file_t *f, char *data, size_t n)
{
	char more;

	return zip_fread(f, data, n) == (zip_int64_t)n && zip_fread(f, &more, 1) == 0;
}

static const char *why_not(zip_error_t *e)
{
	switch (zip_error_code_zip(e)) {
	case ZIP_ER_OK:
	case ZIP_ER_INVAL:
	case ZIP_ER_SEEK:
	case ZIP_ER_READ:
	case ZIP_ER_EOF:
		return "its size or place is not what the directory of the archive says";
	default:
		return zip_error_strerror(e);
	}
}

static enum ht_status read_member(
	struct npz *z, const char *key, const zip_stat_t *s, struct array *out)
{
	char *data = malloc((size_t)s->size + 1);
	zip_file_t *f = data ? zip_fopen_index(z->zip, s->index, 0) : NULL;
	char where[512];
	enum ht_status st;

	snprintf(where, sizeof where, "%.250s#%.250s", z->path, key);
	if (!data)
		st = fail(HT_E_ENVIRONMENT, "%s: no memory for %zu bytes", where, (size_t)s->size);
	else if (!f || !read_whole(f, data, (size_t)s->size))
		st = fail(HT_E_INPUT, "%s: this member is damaged: %s", where,
			why_not(f ? zip_file_get_error(f) : zip_get_error(z->zip)));
	else
		st = npy_parse(where, data, (size_t)s->size, out);
	if (f)
		zip_fclose(f);
	free(data);
	return st;
}

enum ht_status npz_load(struct npz *z, const char *key, struct array *out)
{
	char *name = must_alloc(strlen(key) + 5);
	zip_stat_t s;
	int found;

	memset(out, 0, sizeof *out);
	sprintf(name, "%s.npy", key);
	found = zip_stat(z->zip, name, 0, &s);
	free(name);
	if (found)
		return no_member(z, key);
	if (!(s.valid & ZIP_STAT_SIZE) || s.size > MAX_MEMBER_BYTES)
		return fail(HT_E_LIMIT, "%s: member '%s' claims %llu bytes", z->path, key,
			(unsigned long long)s.size);
	return read_member(z, key, &s, out);
}

/* ---- streams ---- */

enum ht_status npz_stream(struct npz *z, size_t i, void **out)
{
	char *name = must_alloc(strlen(z->name[i]) + 5);

	sprintf(name, "%s.npy", z->name[i]);
	*out = zip_fopen(z->zip, name, 0);
	free(name);
	if (*out)
		return HT_OK;
	return fail(HT_E_INPUT, "%s#%s: this member is damaged: %s", z->path, z->name[i],
		why_not(zip_get_error(z->zip)));
}

size_t npz_read(void *stream, void *to, size_t n)
{
	zip_int64_t got = zip_fread(stream, to, n);

	return got < 0 ? 0 : (size_t)got;
}

void npz_stream_close(void *stream)
{
	if (stream)
		zip_fclose(stream);
}

/* ---- writing ---- */

/* Adds one member; the archive takes ownership of `data` (from malloc). */
static bool add(zip_t *zip, const char *name, const char *suffix, void *data, size_t n)
{
	char *full = must_alloc(strlen(name) + strlen(suffix) + 1);
	zip_source_t *src = zip_source_buffer(zip, data, n, 1);
	zip_int64_t i;

	sprintf(full, "%s%s", name, suffix);
	if (!src) {
		free(data);
		free(full);
		return false;
	}
	i = zip_file_add(zip, full, src, ZIP_FL_ENC_UTF_8);
	free(full);
	if (i < 0) {
		zip_source_free(src);
		return false;
	}
	/* Stored without compression, and dated 1980, so that equal arrays give equal files. */
	return !zip_set_file_compression(zip, (zip_uint64_t)i, ZIP_CM_STORE, 0) &&
	       !zip_file_set_dostime(zip, (zip_uint64_t)i, 0, 0x21, 0);
}

static bool add_array(zip_t *zip, const char *name, const struct ht_array *a, bool widen)
{
	static const char bf16[] = "{\"dtype\": \"bfloat16\"}\n";
	struct ht_bytes npy;

	if (npy_print(a, widen, &npy) != HT_OK || !add(zip, name, ".npy", npy.p, npy.n))
		return false;
	if (a->dtype != HT_BF16 || widen)
		return true;
	/* libzip takes ownership. */
	return add(zip, name, ".dtype.json", strdup(bf16), sizeof bf16 - 1); /* NOLINT */
}

static enum ht_status write_out(struct cli *c, const char *path, zip_source_t *archive)
{
	zip_stat_t s;
	bool whole = false;
	enum ht_status st;
	char *p = NULL;

	if (!zip_source_stat(archive, &s) && (p = malloc(s.size + 1)) &&
		!zip_source_open(archive)) {
		whole = zip_source_read(archive, p, s.size) == (zip_int64_t)s.size;
		zip_source_close(archive);
	}
	st = whole ? ht_file_write(path, p, s.size, c->diags)
		   : fail(HT_E_ENVIRONMENT, "%s: no memory for the archive", path);
	free(p);
	return st;
}

enum ht_status npz_save(struct cli *c, const char *path, const char *const *name,
	const struct ht_array *a, size_t n, bool widen)
{
	zip_source_t *archive = zip_source_buffer_create(NULL, 0, 0, NULL);
	zip_t *zip = archive ? zip_open_from_source(archive, ZIP_TRUNCATE, NULL) : NULL;
	enum ht_status st = HT_OK;

	if (!zip)
		return fail(HT_E_ENVIRONMENT, "%s: no memory for the archive", path);
	zip_source_keep(archive);
	for (size_t i = 0; i < n && st == HT_OK; i++)
		if (!add_array(zip, name[i], &a[i], widen))
			st = fail(HT_E_ENVIRONMENT, "%s: cannot add '%s': %s", path, name[i],
				zip_strerror(zip));
	if (st != HT_OK)
		zip_discard(zip);
	else if (zip_close(zip))
		st = fail(HT_E_ENVIRONMENT, "%s: %s", path, zip_strerror(zip));
	else
		st = write_out(c, path, archive);
	zip_source_free(archive);
	return st;
}
