/* tf.train.Example: a record with features by name, each a list of strings, floats or integers. */
#include "frontend/pb.h"
#include "frontend/records.h"

#include <inttypes.h>
#include <string.h>

enum { DEPTH = 8 };

/* The list of values of one feature of one record. */
struct found {
	struct ht_pb_source src;
	int64_t record;
	struct ht_str name;
	struct ht_pb_reader list;
	enum ht_list_kind kind;
};

static enum ht_status cannot(const struct found *f, const char *what)
{
	return ht_pb_error(&f->src, f->src.p, HT_E_INPUT, "record %lld, feature '%.*s': %s",
		(long long)f->record, HT_STR_ARG(f->name), what);
}

/* ---- finding ---- */

/* Reads an entry of the map from names to features.  True: the entry's name is f->name, and
 * *feature reads its value; or the entry is malformed, and feature->status is the error. */
static bool is_named(struct found *f, struct ht_pb_reader entry, struct ht_pb_reader *feature)
{
	struct ht_pb_value v;
	struct ht_str name = HT_STR("");
	bool has = false;

	while (ht_pb_next(&entry, &v)) {
		if (v.number == 1)
			name = v.s;
		else if (v.number == 2)
			*feature = ht_pb_enter(&entry, &v);
		has |= v.number == 2;
	}
	if (entry.status != HT_OK)
		feature->status = entry.status;
	return entry.status != HT_OK || (has && ht_str_eq(name, f->name));
}

/* If several entries have the name, the last one counts, as in Protocol Buffers.  *has becomes
 * whether there is one. */
static enum ht_status find_feature(struct found *f, struct ht_pb_reader *feature, bool *has)
{
	struct ht_pb_reader example = ht_pb_open(&f->src, HT_PB_Example), features, last;
	struct ht_pb_value v, w;

	*has = false;
	while (ht_pb_next(&example, &v)) {
		if (v.number != 1)
			continue;
		features = ht_pb_enter(&example, &v);
		while (ht_pb_next(&features, &w))
			if (w.number == 1 && is_named(f, ht_pb_enter(&features, &w), &last)) {
				HT_TRY(last.status);
				*feature = last;
				*has = true;
			}
		HT_TRY(features.status);
	}
	return example.status;
}

/* Finds the feature's list.  Of several lists the last one counts, as above. */
static enum ht_status find(struct ht_record_file *file, int64_t i, struct ht_str name,
	struct ht_diags *d, struct found *f)
{
	struct ht_pb_reader feature = { 0 };
	struct ht_pb_value v;
	struct ht_str bytes;
	bool has, full = false;

	HT_TRY(ht_record_file_at(file, i, d, &bytes));
	*f = (struct found){ .record = i, .name = name };
	f->src = (struct ht_pb_source){ .path = ht_record_file_path(file),
		.diags = d,
		.p = (const uint8_t *)bytes.p,
		.n = bytes.n,
		.skipped = ht_record_file_offset(file, bytes),
		.depth = DEPTH };
	HT_TRY(find_feature(f, &feature, &has));
	if (!has)
		return cannot(f, "the record has none of this name");
	while (ht_pb_next(&feature, &v))
		if (v.number >= 1 && v.number <= 3) {
			f->kind = (enum ht_list_kind)(v.number - 1);
			f->list = ht_pb_enter(&feature, &v);
			full = true;
		}
	HT_TRY(feature.status);
	return full ? f->list.status : cannot(f, "it has no list of values");
}

/* ---- reading ---- */

/* Moves to the next field with values of the list.  False: there is none, or r->status is an
 * error. */
static bool next_values(struct ht_pb_reader *r, struct ht_pb_value *v)
{
	while (ht_pb_next(r, v))
		if (v->number == 1)
			return true;
	return false;
}

/* Whether the field is an array of floats, which need not be read one by one. */
static bool is_packed_floats(const struct found *f, const struct ht_pb_value *v)
{
	return f->kind == HT_LIST_FLOAT && v->packed && v->s.n % sizeof(float) == 0;
}

static enum ht_status count(const struct found *f, struct ht_feature_list *out)
{
	struct ht_pb_reader r = f->list;
	struct ht_pb_value v;
	uint64_t item;

	*out = (struct ht_feature_list){ f->kind, 0, 0 };
	while (next_values(&r, &v))
		if (f->kind == HT_LIST_BYTES) {
			out->elements++;
			out->bytes += (int64_t)v.s.n;
		} else if (is_packed_floats(f, &v)) {
			out->elements += (int64_t)(v.s.n / sizeof(float));
		} else {
			while (ht_pb_item(&r, &v, &item))
				out->elements++;
		}
	return r.status;
}

static void read_floats(const struct found *f, char *to)
{
	struct ht_pb_reader r = f->list;
	struct ht_pb_value v;
	uint64_t item;

	while (next_values(&r, &v))
		if (is_packed_floats(f, &v)) {
			memcpy(to, v.s.p, v.s.n);
			to += v.s.n;
		} else {
			for (; ht_pb_item(&r, &v, &item); to += sizeof(float))
				memcpy(to, &item, sizeof(float));
		}
}

struct range {
	int64_t least, most;
};

/* The numbers that both int64 and the type can represent; false: `t` is not an integer type. */
static bool range_of(enum ht_dtype t, struct range *out)
{
	int bits = 8 * (int)ht_dtype_info(t)->bytes;

	switch (t) {
	case HT_BOOL:
		*out = (struct range){ 0, 1 };
		return true;
	case HT_I8:
	case HT_I16:
	case HT_I32:
		*out = (struct range){ -(1LL << (bits - 1)), (1LL << (bits - 1)) - 1 };
		return true;
	case HT_U8:
	case HT_U16:
	case HT_U32:
		*out = (struct range){ 0, (1LL << bits) - 1 };
		return true;
	case HT_I64:
		*out = (struct range){ INT64_MIN, INT64_MAX };
		return true;
	case HT_U64:
		*out = (struct range){ 0, INT64_MAX };
		return true;
	default:
		return false;
	}
}

static enum ht_status read_integers(const struct found *f, enum ht_dtype dtype, char *to)
{
	struct ht_pb_reader r = f->list;
	size_t bytes = ht_dtype_info(dtype)->bytes;
	struct range range;
	struct ht_pb_value v;
	char text[128];
	uint64_t item;

	if (!range_of(dtype, &range)) {
		snprintf(text, sizeof text, "it has integers, where %s is read",
			ht_dtype_info(dtype)->name);
		return cannot(f, text);
	}
	while (next_values(&r, &v))
		while (ht_pb_item(&r, &v, &item)) {
			if ((int64_t)item < range.least || (int64_t)item > range.most) {
				snprintf(text, sizeof text, "%" PRId64 " is no %s", (int64_t)item,
					ht_dtype_info(dtype)->name);
				return cannot(f, text);
			}
			memcpy(to, &item, bytes); /* little-endian, as all supported hosts are */
			to += bytes;
		}
	return HT_OK;
}

static enum ht_status read_raw(const struct found *f, enum ht_dtype dtype, size_t n, char *to)
{
	struct ht_pb_reader r = f->list;
	struct ht_pb_value v;

	while (next_values(&r, &v))
		memcpy(to, v.s.p, n);
	for (size_t i = 0; i < n && dtype == HT_BOOL; i++)
		if ((unsigned char)to[i] > 1)
			return cannot(f, "its bytes are read as Booleans, and are not all 0 or 1");
	return HT_OK;
}

static enum ht_status check_length(const struct found *f, const struct ht_feature_list *has,
	enum ht_dtype dtype, int64_t elements)
{
	int64_t size = (int64_t)ht_dtype_info(dtype)->bytes, bytes = elements * size;
	char text[256];

	if (has->kind == HT_LIST_FLOAT && dtype != HT_F32)
		snprintf(text, sizeof text, "it has floats, where %s is read",
			ht_dtype_info(dtype)->name);
	else if (has->kind == HT_LIST_BYTES && (!size || has->elements != 1))
		snprintf(text, sizeof text,
			"it has %lld strings, where one is read as the bytes of %s",
			(long long)has->elements, ht_dtype_info(dtype)->name);
	else if (has->kind == HT_LIST_BYTES && has->bytes != bytes)
		snprintf(text, sizeof text,
			"its string has %lld bytes, where %lld elements of %s are %lld",
			(long long)has->bytes, (long long)elements, ht_dtype_info(dtype)->name,
			(long long)bytes);
	else if (has->kind != HT_LIST_BYTES && has->elements != elements)
		snprintf(text, sizeof text, "it has %lld elements, where %lld are read",
			(long long)has->elements, (long long)elements);
	else
		return HT_OK;
	return cannot(f, text);
}

enum ht_status ht_example_feature(struct ht_record_file *file, int64_t i, struct ht_str name,
	struct ht_diags *d, struct ht_feature_list *out)
{
	struct found f;

	HT_TRY(find(file, i, name, d, &f));
	return count(&f, out);
}

enum ht_status ht_example_read(struct ht_record_file *file, int64_t i, struct ht_str name,
	enum ht_dtype dtype, int64_t elements, void *to, struct ht_diags *d)
{
	struct ht_feature_list has;
	struct found f;

	HT_TRY(find(file, i, name, d, &f));
	HT_TRY(count(&f, &has));
	HT_TRY(check_length(&f, &has, dtype, elements));
	if (has.kind == HT_LIST_BYTES)
		return read_raw(&f, dtype, (size_t)has.bytes, to);
	if (has.kind == HT_LIST_INT64)
		return read_integers(&f, dtype, to);
	read_floats(&f, to);
	return HT_OK;
}
