/* Files of records (TFRecord): tf.train.Example, and TensorBoard's events. */
#ifndef HT_FRONTEND_RECORDS_H
#define HT_FRONTEND_RECORDS_H

#include "base/base.h"

/* ---- records.c ---- */

struct ht_record_file;

/* Maps the file until `a`, from which *out is allocated, is released. */
enum ht_status ht_record_file_open(
	struct ht_arena *a, const char *path, struct ht_diags *d, struct ht_record_file **out);
const char *ht_record_file_path(const struct ht_record_file *f);
/* The offset in the file of `bytes`, which ht_record_file_at() returned. */
size_t ht_record_file_offset(const struct ht_record_file *f, struct ht_str bytes);
int64_t ht_record_file_count(const struct ht_record_file *f);
/* *out becomes the bytes of record `i`, in the mapped file.  The first call for a record verifies their checksum. */
enum ht_status ht_record_file_at(
	struct ht_record_file *f, int64_t i, struct ht_diags *d, struct ht_str *out);

/* ---- example.c ---- */

enum ht_list_kind { HT_LIST_BYTES, HT_LIST_FLOAT, HT_LIST_INT64 };
struct ht_feature_list {
	enum ht_list_kind kind;
	int64_t elements; /* floats, integers, or strings */
	int64_t bytes;    /* of all strings together */
};
/* Describes the list of the feature `name` of record `i`. */
enum ht_status ht_example_feature(struct ht_record_file *f, int64_t i, struct ht_str name,
	struct ht_diags *d, struct ht_feature_list *out);
/* Writes `elements` elements of type `dtype` to `to`; the conversions are those of ht_records_read(). */
enum ht_status ht_example_read(struct ht_record_file *f, int64_t i, struct ht_str name,
	enum ht_dtype dtype, int64_t elements, void *to, struct ht_diags *d);

/* ---- events.c ---- */

struct ht_event_writer;

/* Makes a file in `dir`, as ht_event_file_open() does.  The writer is allocated from `a`, whose release closes the file. */
enum ht_status ht_event_writer_open(struct ht_arena *a, const char *dir, int64_t first,
	struct ht_diags *d, struct ht_event_writer **out);
/* An event is written by one call of _begin, one of _scalar for each scalar (`description` may be NULL), and one of _end.  An
 * error of writing is kept until ht_event_writer_close(), which returns it. */
void ht_event_writer_begin(struct ht_event_writer *w, int64_t step);
void ht_event_writer_scalar(
	struct ht_event_writer *w, const char *tag, double value, const char *description);
void ht_event_writer_end(struct ht_event_writer *w);
enum ht_status ht_event_writer_close(struct ht_event_writer *w, struct ht_diags *d);

/* ---- the frame of a record, in bytes ---- */

#define HT_RECORD_HEAD 12 /* before the record: its length and the length's checksum */
#define HT_RECORD_TAIL 4  /* behind it: its checksum */

#endif
