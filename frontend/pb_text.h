/* Words, numbers and strings of Protobuf's text form. */
#ifndef HT_FRONTEND_PB_TEXT_H
#define HT_FRONTEND_PB_TEXT_H

#include "frontend/pb.h"

struct ht_pb_text {
	struct ht_arena *a;
	struct ht_diags *diags;
	const char *path;
	const char *p, *end;
	const char *line_start;
	uint32_t line;
	int depth, max_depth;
	struct ht_buf out;
	struct ht_pb_mark *mark;
	size_t marks, mark_cap;
	enum ht_status status;
};

/* A place in the text, taken before reading on, since reading skips over line ends. */
struct ht_pb_spot {
	uint32_t line, column;
};

struct ht_pb_spot ht_pb_text_here(const struct ht_pb_text *t);
struct ht_where ht_pb_text_where(const struct ht_pb_text *t, struct ht_pb_spot at);
/* Returns false.  Only the first error is reported, and becomes the status. */
bool ht_pb_text_fail(struct ht_pb_text *t, struct ht_pb_spot at, const char *fmt, ...)
	HT_PRINTF(3, 4);
/* For messages: "the end of the file", or the beginning of the text at this place. */
const char *ht_pb_text_found(const struct ht_pb_text *t, char out[24]);
/* Skips blanks and comments. */
void ht_pb_text_skip(struct ht_pb_text *t);
bool ht_pb_text_at(const struct ht_pb_text *t, char c);
bool ht_pb_text_accept(struct ht_pb_text *t, char c);
bool ht_pb_text_word(struct ht_pb_text *t, struct ht_str *s);

/* These return false after an error. */
bool ht_pb_text_double(struct ht_pb_text *t, double *d);
bool ht_pb_text_signed(struct ht_pb_text *t, int64_t least, int64_t most, uint64_t *bits);
bool ht_pb_text_unsigned(struct ht_pb_text *t, uint64_t most, uint64_t *u);
bool ht_pb_text_bool(struct ht_pb_text *t, uint64_t *u);
bool ht_pb_text_enum(struct ht_pb_text *t, const struct ht_pb_field *f, uint64_t *u);
/* Reads adjacent strings in quotes, and appends their bytes to the output. */
bool ht_pb_text_string(struct ht_pb_text *t);

#endif
