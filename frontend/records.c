/* Reads a file of records: finds where the frame of each begins, and verifies checksums.  A frame is a record with its length
 * and two checksums (halftone/records.h). */
#include "frontend/records.h"

#include "frontend/bundle.h"

#include <string.h>

struct ht_record_file {
	struct ht_file *file;
	struct ht_crc32c crc;
	uint64_t *at; /* by record: the offset of its frame */
	int64_t n;
	uint8_t *verified; /* bit i: the checksum of record i is correct */
};

/* Whether `n` bytes at `p` have the checksum that follows them. */
static bool is_sound(const struct ht_record_file *f, const uint8_t *p, size_t n)
{
	return (uint32_t)ht_load_i32(p + n, 0) == ht_crc32c_mask(ht_crc32c(&f->crc, 0, p, n));
}

static struct ht_where place(const struct ht_record_file *f, uint64_t at)
{
	struct ht_where w = HT_NOWHERE;

	w.path = f->file->path;
	w.offset = (int64_t)at;
	return w;
}

/* Whether the file begins like a gzip or zlib stream.  A file of records has the length of its
 * first record there. */
static bool is_compressed(const uint8_t *p)
{
	return (p[0] == 0x1f && p[1] == 0x8b) || (p[0] == 0x78 && (p[0] << 8 | p[1]) % 31 == 0);
}

static enum ht_status check_plain(const struct ht_record_file *f, struct ht_diags *d)
{
	const uint8_t *p = f->file->p;

	if (f->file->n < HT_RECORD_HEAD || is_sound(f, p, 8) || !is_compressed(p))
		return HT_OK;
	return ht_error(d, HT_E_UNSUPPORTED, place(f, 0),
		"the records are compressed; a file that is mapped has to be without compression");
}

/* Moves *at from the frame of record `i` to the end of that frame, which must be within the
 * file. */
static enum ht_status pass_frame(
	const struct ht_record_file *f, int64_t i, uint64_t *at, struct ht_diags *d)
{
	const uint8_t *p = f->file->p + *at;
	uint64_t left = f->file->n - *at, n;

	if (left < HT_RECORD_HEAD)
		return ht_error(d, HT_E_INPUT, place(f, *at),
			"record %lld is cut off: a length and its checksum are %d bytes, here are %llu",
			(long long)i, HT_RECORD_HEAD, (unsigned long long)left);
	if (!is_sound(f, p, 8))
		return ht_error(d, HT_E_INPUT, place(f, *at),
			"record %lld: the checksum of its length is wrong", (long long)i);
	n = (uint64_t)ht_load_i64(p, 0);
	left -= HT_RECORD_HEAD;
	if (left < HT_RECORD_TAIL || n > left - HT_RECORD_TAIL)
		return ht_error(d, HT_E_INPUT, place(f, *at),
			"record %lld is cut off: it has %llu bytes and a checksum of %d, here are %llu",
			(long long)i, (unsigned long long)n, HT_RECORD_TAIL,
			(unsigned long long)left);
	*at += HT_RECORD_HEAD + n + HT_RECORD_TAIL;
	return HT_OK;
}

/* Counts the frames.  Unless `at` is NULL, at[i] becomes the offset of frame i. */
static enum ht_status pass_all(
	struct ht_record_file *f, uint64_t *at, int64_t *n, struct ht_diags *d)
{
	uint64_t here = 0;

	for (*n = 0; here < f->file->n; ++*n) {
		if (at)
			at[*n] = here;
		HT_TRY(pass_frame(f, *n, &here, d));
	}
	return HT_OK;
}

static void unref(void *file)
{
	ht_file_unref(file);
}

enum ht_status ht_record_file_open(
	struct ht_arena *a, const char *path, struct ht_diags *d, struct ht_record_file **out)
{
	struct ht_record_file *f = HT_NEW(a, struct ht_record_file);

	ht_crc32c_init(&f->crc);
	HT_TRY(ht_file_map(path, SIZE_MAX, d, &f->file));
	ht_arena_defer(a, unref, f->file);
	HT_TRY(check_plain(f, d));
	HT_TRY(pass_all(f, NULL, &f->n, d));
	f->at = HT_NEW_ARRAY(a, uint64_t, (size_t)f->n + 1);
	f->verified = ht_alloc(a, (size_t)f->n / 8 + 1);
	HT_TRY(pass_all(f, f->at, &f->n, d));
	*out = f;
	return HT_OK;
}

const char *ht_record_file_path(const struct ht_record_file *f)
{
	return f->file->path;
}

size_t ht_record_file_offset(const struct ht_record_file *f, struct ht_str bytes)
{
	return (size_t)((const uint8_t *)bytes.p - f->file->p);
}

int64_t ht_record_file_count(const struct ht_record_file *f)
{
	return f->n;
}

enum ht_status ht_record_file_at(
	struct ht_record_file *f, int64_t i, struct ht_diags *d, struct ht_str *out)
{
	const uint8_t *p = f->file->p + f->at[i];
	const uint8_t bit = (uint8_t)(1 << i % 8);
	size_t n = (size_t)ht_load_i64(p, 0);

	if (!(f->verified[i / 8] & bit) && !is_sound(f, p + HT_RECORD_HEAD, n))
		return ht_error(d, HT_E_INPUT, place(f, f->at[i] + HT_RECORD_HEAD),
			"record %lld: the checksum of its bytes is wrong", (long long)i);
	f->verified[i / 8] |= bit;
	*out = (struct ht_str){ (const char *)p + HT_RECORD_HEAD, n };
	return HT_OK;
}
