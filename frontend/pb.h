/* Protocol buffers: the messages of TensorFlow from one table (schema.def), in three forms.
 *
 * Wire form is what importers read, through a bounded pull reader that copies nothing.  Text form
 * and proto3 JSON are translated to wire form by the table, with a list of marks that leads from a
 * byte of the wire form back to line and column, so that errors found later are located as well.
 * Writing goes the other way: wire form, printed as text or JSON by the table. */
#ifndef HT_FRONTEND_PB_H
#define HT_FRONTEND_PB_H

#include "base/base.h"

/* ---- pb_schema.c ---- */

enum ht_pb_kind {
	HT_PB_DOUBLE,
	HT_PB_FLOAT,
	HT_PB_INT64,
	HT_PB_UINT64,
	HT_PB_INT32,
	HT_PB_FIXED64,
	HT_PB_FIXED32,
	HT_PB_BOOL,
	HT_PB_STRING,
	HT_PB_MESSAGE,
	HT_PB_BYTES,
	HT_PB_UINT32,
	HT_PB_ENUM,
	HT_PB_SFIXED32,
	HT_PB_SFIXED64,
	HT_PB_SINT32,
	HT_PB_SINT64
};

enum ht_pb_type {
#define MESSAGE(name, full, map) HT_PB_##name,
#define FIELD(number, name, kind, repeated, ref, oneof)
#define END(name)
#define ENUM(name, full)
#define ENUMERATOR(name, number)
#define END_ENUM(name)
#include "frontend/schema.def"
	HT_PB_TYPES
};

struct ht_pb_enumerator {
	const char *name;
	int32_t number;
};

struct ht_pb_enum {
	const char *full_name;
	const struct ht_pb_enumerator *value;
	size_t count;
};

struct ht_pb_field {
	uint32_t number;
	const char *name;
	enum ht_pb_kind kind;
	bool repeated;
	int ref; /* of HT_PB_MESSAGE: enum ht_pb_type; of HT_PB_ENUM: index for ht_pb_enum() */
	int oneof;
};

struct ht_pb_message {
	const char *full_name;
	bool map_entry;
	const struct ht_pb_field *field; /* by number */
	size_t count;
};

const struct ht_pb_message *ht_pb_message(enum ht_pb_type t);
const struct ht_pb_enum *ht_pb_enum(int index);
/* NULL if there is none. */
const struct ht_pb_field *ht_pb_field_numbered(enum ht_pb_type t, uint32_t number);
const struct ht_pb_field *ht_pb_field_named(enum ht_pb_type t, struct ht_str name);
/* By its lowerCamelCase name, or by the name itself. */
const struct ht_pb_field *ht_pb_field_json(enum ht_pb_type t, struct ht_str name);
bool ht_pb_enum_named(int index, struct ht_str name, int32_t *number);
const char *ht_pb_enum_name(int index, int32_t number);
/* By full name; -1: none. */
int ht_pb_type_named(struct ht_str full_name);

/* Wire types. */
enum { HT_WIRE_VARINT = 0, HT_WIRE_64 = 1, HT_WIRE_BYTES = 2, HT_WIRE_32 = 5 };
int ht_pb_wire_type(enum ht_pb_kind k);

/* ---- pb_read.c ---- */

/* The place in a text from which a byte of the wire form was made. */
struct ht_pb_mark {
	size_t offset;
	uint32_t line, column;
};

/* Wire form to be read, and where it came from. */
struct ht_pb_source {
	const char *path;
	struct ht_diags *diags;
	const uint8_t *p;
	size_t n;
	size_t skipped;                 /* bytes of the file before `p` */
	struct ht_file *file;           /* the mapped file that contains `p`, or NULL */
	const struct ht_pb_mark *marks; /* NULL: the wire form is that of the file */
	size_t mark_count;
	bool translated; /* translated from JSON: there are no places */
	int depth;       /* how deep messages may nest */
};

struct ht_pb_reader {
	const struct ht_pb_source *src;
	enum ht_pb_type type;
	const uint8_t *p, *end;
	int depth;
	enum ht_status status;
};

/* One field as it was read. */
struct ht_pb_value {
	uint32_t number;
	const struct ht_pb_field *field; /* NULL: not in the table */
	bool packed;
	uint64_t u;           /* varint and fixed values */
	struct ht_str s;      /* bytes, strings, messages, packed items */
	struct ht_str record; /* all of it, tag included */
	const uint8_t *at;    /* the tag */
	size_t next;          /* how far ht_pb_item() has read */
};

struct ht_where ht_pb_where(const struct ht_pb_source *src, const void *at);
/* Records an error at byte `at` and returns `st`. */
enum ht_status ht_pb_error(const struct ht_pb_source *src, const void *at, enum ht_status st,
	const char *fmt, ...) HT_PRINTF(4, 5);

struct ht_pb_reader ht_pb_open(const struct ht_pb_source *src, enum ht_pb_type t);
/* False at the end, or after an error, which is in r->status. */
bool ht_pb_next(struct ht_pb_reader *r, struct ht_pb_value *v);
/* How many fields of this number there are, up to the first malformed field, for which no error is reported. */
size_t ht_pb_count(struct ht_pb_reader r, uint32_t number);
/* The next number of a numeric field, packed or not, as its bits; for varints sign-extended. */
bool ht_pb_item(struct ht_pb_reader *r, struct ht_pb_value *v, uint64_t *item);
/* Reads the message that `v` holds.  If it is nested too deeply, the result has an error status. */
struct ht_pb_reader ht_pb_enter(const struct ht_pb_reader *r, const struct ht_pb_value *v);
/* Appends the field unchanged to `extra` (wire form), after it was checked completely. */
enum ht_status ht_pb_keep(
	struct ht_pb_reader *r, const struct ht_pb_value *v, struct ht_buf *extra);
/* Reads a string field; an error if it is not UTF-8. */
enum ht_status ht_pb_string(struct ht_pb_reader *r, const struct ht_pb_value *v, struct ht_str *s);

float ht_pb_float(uint64_t bits);
double ht_pb_double(uint64_t bits);

/* ---- pb_write.c: wire form; large pieces are not copied ---- */

struct ht_pb_piece {
	size_t at; /* the piece belongs in front of this byte of `buf` */
	const void *p;
	size_t n;
};

struct ht_pb_writer {
	struct ht_buf buf;
	struct ht_pb_piece *piece;
	size_t pieces, cap;
	size_t piece_bytes;
};

/* A message that is being written; its length is inserted in front when it is closed. */
struct ht_pb_open_message {
	size_t at, pieces, piece_bytes;
};

void ht_pb_writer_init(struct ht_pb_writer *w, struct ht_arena *a);
void ht_pb_writer_clear(struct ht_pb_writer *w);
size_t ht_pb_writer_bytes(const struct ht_pb_writer *w);
struct ht_pb_open_message ht_pb_begin(struct ht_pb_writer *w, uint32_t number);
void ht_pb_end(struct ht_pb_writer *w, struct ht_pb_open_message m);
void ht_pb_put_varint(struct ht_pb_writer *w, uint32_t number, uint64_t v);
void ht_pb_put_float(struct ht_pb_writer *w, uint32_t number, float f);
void ht_pb_put_double(struct ht_pb_writer *w, uint32_t number, double f);
void ht_pb_put_bytes(struct ht_pb_writer *w, uint32_t number, struct ht_str s);
/* The bytes are not copied; they must live until the writer's output was taken. */
void ht_pb_put_piece(struct ht_pb_writer *w, uint32_t number, const void *p, size_t n);
/* Appends records that are already in wire form. */
void ht_pb_put_raw(struct ht_pb_writer *w, struct ht_str records);
typedef enum ht_status ht_pb_sink(void *self, const void *p, size_t n);
enum ht_status ht_pb_flush(const struct ht_pb_writer *w, ht_pb_sink *sink, void *self);
/* The output in one string, with the pieces copied. */
struct ht_str ht_pb_flatten(const struct ht_pb_writer *w, struct ht_arena *a);

void ht_pb_varint(struct ht_buf *b, uint64_t v);
/* Inserts the length of what follows `at` in front of it; returns the bytes inserted. */
size_t ht_pb_insert_length(struct ht_buf *b, size_t at, size_t length);

/* ---- pb_text_read.c, pb_text_print.c ---- */

/* Translates text of message `t` to wire form; *src is set up to read it. */
enum ht_status ht_pb_from_text(struct ht_arena *a, struct ht_str text, const char *path,
	enum ht_pb_type t, int depth, struct ht_diags *d, struct ht_pb_source *src);
/* Prints the fields of message `t`, each line indented by `indent` tabs of two spaces. */
enum ht_status ht_pb_print(
	struct ht_str wire, enum ht_pb_type t, int indent, struct ht_diags *d, struct ht_buf *out);

/* ---- pb_json.c: proto3 JSON through cJSON ---- */

struct cJSON;
enum ht_status ht_pb_from_json(struct ht_arena *a, const struct cJSON *json, const char *path,
	enum ht_pb_type t, int depth, struct ht_diags *d, struct ht_pb_source *src);
enum ht_status ht_pb_print_json(
	struct ht_str wire, enum ht_pb_type t, struct ht_diags *d, struct ht_buf *out);
/* `text` becomes base64 in quotes. */
void ht_put_base64(struct ht_buf *out, struct ht_str bytes);

#endif
