/* Files of records (TFRecord): data of trainings, and what TensorBoard reads.  Errors and threads: as in halftone.h.
 *
 * A record is a length (8 bytes, little-endian), the masked CRC-32C of the length, the bytes, and their masked CRC-32C. */
#ifndef HALFTONE_RECORDS_H
#define HALFTONE_RECORDS_H

#include <halftone/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- records of tf.train.Example ---- */

/* A file of records, each a tf.train.Example.  Belongs to one thread at a time. */
struct ht_records;

enum ht_feature_kind { HT_FEATURE_BYTES, HT_FEATURE_FLOAT, HT_FEATURE_INT64 };
struct ht_feature {
	size_t struct_size;
	enum ht_feature_kind kind;
	int64_t elements; /* floats, integers, or strings */
	int64_t bytes;    /* of all strings together */
};
#define HT_FEATURE_INIT { sizeof(struct ht_feature), HT_FEATURE_BYTES, 0, 0 }

/* Maps the file and finds its records, for which it keeps 8 bytes each, and verifies the checksums of their lengths.
 * HT_E_INPUT: a length is damaged, or the last record is cut off.  HT_E_UNSUPPORTED: the file is compressed. */
HT_API enum ht_status ht_records_open(
	const char *path, struct ht_diags *d, struct ht_records **out);
HT_API void ht_records_free(struct ht_records *r);
HT_API int64_t ht_records_count(const struct ht_records *r);
/* Describes a feature of record `i`, whose checksum is verified when it is first read.  HT_E_INPUT: the record is damaged, is
 * no Example, or has no such feature. */
HT_API enum ht_status ht_records_feature(struct ht_records *r, int64_t i, const char *name,
	struct ht_diags *d, struct ht_feature *out);
/* Writes the feature's elements to `to`, `elements` of them, as `dtype`: floats as HT_F32; integers as any integer type or
 * HT_BOOL; a single string as the elements' bytes, little-endian, of any numeric type.  HT_E_INPUT: as above, or the record has
 * another number of elements or another kind of them, or an integer does not fit the type. */
HT_API enum ht_status ht_records_read(struct ht_records *r, int64_t i, const char *name,
	enum ht_dtype dtype, int64_t elements, void *to, struct ht_diags *d);

/* ---- event files ---- */

/* A file of scalars by step, which TensorBoard reads while it grows.  Belongs to one thread at a time. */
struct ht_event_file;

struct ht_event_scalar {
	const char *tag;
	double value;            /* stored as float32 */
	const char *description; /* shown beside the curve, as Markdown; NULL: none */
};

/* Makes the folder, where there is none, and in it a new file events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER.  `first` above 0
 * begins a run that goes on behind that many steps: readers then drop what older files of the folder say of later ones. */
HT_API enum ht_status ht_event_file_open(
	const char *dir, int64_t first, struct ht_diags *d, struct ht_event_file **out);
/* Adds `n` scalars of step `step`.  They reach the file within two seconds of the next call, or at ht_event_file_close().  An
 * error is kept until ht_event_file_close(). */
HT_API void ht_event_file_scalars(
	struct ht_event_file *e, int64_t step, const struct ht_event_scalar *scalar, size_t n);
/* Frees `e`, which may be NULL.  HT_E_ENVIRONMENT: the file could not be written. */
HT_API enum ht_status ht_event_file_close(struct ht_event_file *e, struct ht_diags *d);

#ifdef __cplusplus
}
#endif
#endif
