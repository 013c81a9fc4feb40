/* Protobuf's text form → wire form, by the message table.
 *
 * Accepts what TextFormat prints and reads for these messages: comments, `a: 1`, `a { }`, `a: <
 * >`, lists, adjacent strings, octal and hexadecimal numbers, enumerators by name or number, inf
 * and nan, `;` and `,` between fields, [type.googleapis.com/…] for Any.  Every field leaves a
 * mark, so that errors found later have a line and column too. */
#include "frontend/pb_text.h"

#include <string.h>

/* Fields of one message that were given so far, and the packed field that is still open. */
struct scope {
	enum ht_pb_type type;
	uint64_t given; /* by index in the table */
	uint64_t oneofs;
	const struct ht_pb_field *packed;
	size_t packed_at;
	size_t packed_mark;
};

static void put_mark(struct ht_pb_text *t, struct ht_pb_spot at)
{
	t->mark = ht_grow(t->a, t->mark, t->marks, &t->mark_cap, sizeof *t->mark);
	t->mark[t->marks++] = (struct ht_pb_mark){ t->out.n, at.line, at.column };
}

/* Inserts the length of the bytes from `at` on in front of them. */
static void close_length(struct ht_pb_text *t, size_t at, size_t first_mark)
{
	size_t n = ht_pb_insert_length(&t->out, at, t->out.n - at);

	for (size_t i = first_mark; i < t->marks; i++)
		t->mark[i].offset += n;
}

static void close_packed(struct ht_pb_text *t, struct scope *s)
{
	if (s->packed)
		close_length(t, s->packed_at, s->packed_mark);
	s->packed = NULL;
}

static bool parse_fields(struct ht_pb_text *t, enum ht_pb_type type, char close);

static bool parse_message(struct ht_pb_text *t, enum ht_pb_type type)
{
	size_t at = t->out.n, first_mark = t->marks;
	char close = ht_pb_text_at(t, '<') ? '>' : '}', f[24];
	struct ht_pb_spot start = ht_pb_text_here(t);
	bool ok;

	if (!ht_pb_text_accept(t, '{') && !ht_pb_text_accept(t, '<'))
		return ht_pb_text_fail(
			t, ht_pb_text_here(t), "expected '{', found %s", ht_pb_text_found(t, f));
	if (++t->depth > t->max_depth) {
		t->status = ht_error(t->diags, HT_E_LIMIT, ht_pb_text_where(t, start),
			"messages nest deeper than %d", t->max_depth);
		return false;
	}
	ok = parse_fields(t, type, close);
	t->depth--;
	if (ok)
		close_length(t, at, first_mark);
	return ok;
}

static bool parse_number(struct ht_pb_text *t, const struct ht_pb_field *f, uint64_t *u)
{
	float narrow;
	double d;

	switch (f->kind) {
	case HT_PB_DOUBLE:
		if (!ht_pb_text_double(t, &d))
			return false;
		memcpy(u, &d, sizeof d);
		return true;
	case HT_PB_FLOAT:
		if (!ht_pb_text_double(t, &d))
			return false;
		narrow = (float)d;
		*u = 0;
		memcpy(u, &narrow, sizeof narrow);
		return true;
	case HT_PB_INT64:
	case HT_PB_SFIXED64:
		return ht_pb_text_signed(t, INT64_MIN, INT64_MAX, u);
	case HT_PB_INT32:
	case HT_PB_SFIXED32:
		return ht_pb_text_signed(t, INT32_MIN, INT32_MAX, u);
	case HT_PB_SINT64:
		if (!ht_pb_text_signed(t, INT64_MIN, INT64_MAX, u))
			return false;
		*u = *u << 1 ^ (0 - (*u >> 63));
		return true;
	case HT_PB_SINT32:
		if (!ht_pb_text_signed(t, INT32_MIN, INT32_MAX, u))
			return false;
		*u = (uint32_t)(*u << 1 ^ (0 - (*u >> 63)));
		return true;
	case HT_PB_UINT64:
	case HT_PB_FIXED64:
		return ht_pb_text_unsigned(t, UINT64_MAX, u);
	case HT_PB_UINT32:
	case HT_PB_FIXED32:
		return ht_pb_text_unsigned(t, UINT32_MAX, u);
	case HT_PB_BOOL:
		return ht_pb_text_bool(t, u);
	default:
		return ht_pb_text_enum(t, f, u);
	}
}

static void put_number(struct ht_pb_text *t, int wire, uint64_t u)
{
	if (wire == HT_WIRE_VARINT)
		ht_pb_varint(&t->out, u);
	else
		for (int i = 0; i < (wire == HT_WIRE_64 ? 8 : 4); i++, u >>= 8)
			ht_putc(&t->out, (char)(u & 0xff));
}

/* Parses one value.  `at` is the place of the field's name. */
static bool parse_value(
	struct ht_pb_text *t, struct scope *s, const struct ht_pb_field *f, struct ht_pb_spot at)
{
	int wire = ht_pb_wire_type(f->kind);
	size_t start, first_mark;
	uint64_t u;

	if (s->packed != f)
		close_packed(t, s);
	if (wire == HT_WIRE_BYTES) {
		put_mark(t, at);
		ht_pb_varint(&t->out, (uint64_t)f->number << 3 | HT_WIRE_BYTES);
		if (f->kind == HT_PB_MESSAGE)
			return parse_message(t, (enum ht_pb_type)f->ref);
		start = t->out.n;
		first_mark = t->marks;
		if (!ht_pb_text_string(t))
			return false;
		if (f->kind == HT_PB_STRING &&
			!ht_utf8_valid((struct ht_str){ t->out.p + start, t->out.n - start }))
			return ht_pb_text_fail(t, at, "'%s' is not UTF-8", f->name);
		close_length(t, start, first_mark);
		return true;
	}
	if (!parse_number(t, f, &u))
		return false;
	if (!s->packed) {
		put_mark(t, at);
		ht_pb_varint(&t->out,
			(uint64_t)f->number << 3 | (uint64_t)(f->repeated ? HT_WIRE_BYTES : wire));
		if (f->repeated) {
			s->packed = f;
			s->packed_at = t->out.n;
			s->packed_mark = t->marks;
		}
	}
	put_number(t, wire, u);
	return true;
}

static bool parse_list(
	struct ht_pb_text *t, struct scope *s, const struct ht_pb_field *f, struct ht_pb_spot at)
{
	char c[24];

	if (ht_pb_text_accept(t, ']'))
		return true;
	do {
		if (!parse_value(t, s, f, at))
			return false;
	} while (ht_pb_text_accept(t, ','));
	return ht_pb_text_accept(t, ']') ||
	       ht_pb_text_fail(t, ht_pb_text_here(t), "expected ',' or ']', found %s",
		       ht_pb_text_found(t, c));
}

/* Refuses a second occurrence of a field that is not repeated, and a second field of a oneof. */
static bool note_given(
	struct ht_pb_text *t, struct scope *s, const struct ht_pb_field *f, struct ht_pb_spot at)
{
	size_t i = (size_t)(f - ht_pb_message(s->type)->field);

	if (f->repeated)
		return true;
	if (s->given & (uint64_t)1 << i)
		return ht_pb_text_fail(t, at, "'%s' is given twice", f->name);
	s->given |= (uint64_t)1 << i;
	if (f->oneof >= 0) {
		if (s->oneofs & (uint64_t)1 << f->oneof)
			return ht_pb_text_fail(
				t, at, "'%s' excludes another field that is given", f->name);
		s->oneofs |= (uint64_t)1 << f->oneof;
	}
	return true;
}

/* `[type.googleapis.com/tensorflow.X] { … }` inside an Any. */
static bool parse_any(struct ht_pb_text *t, struct scope *s, struct ht_pb_spot at)
{
	const char *start = t->p, *slash;
	struct ht_str url;
	int type;

	while (t->p < t->end && *t->p != ']' && *t->p != '\n')
		t->p++;
	url = (struct ht_str){ start, (size_t)(t->p - start) };
	if (!ht_pb_text_accept(t, ']'))
		return ht_pb_text_fail(t, at, "expected ']'");
	slash = memchr(url.p, '/', url.n);
	if (s->type != HT_PB_Any || !slash)
		return ht_pb_text_fail(t, at, "extensions do not occur in this message");
	type = ht_pb_type_named((struct ht_str){ slash + 1, url.n - (size_t)(slash + 1 - url.p) });
	if (type < 0)
		return ht_pb_text_fail(t, at, "the type '%.*s' is not known", HT_STR_ARG(url));
	put_mark(t, at);
	ht_pb_varint(&t->out, 1 << 3 | HT_WIRE_BYTES);
	ht_pb_varint(&t->out, url.n);
	ht_put_str(&t->out, url);
	ht_pb_varint(&t->out, 2 << 3 | HT_WIRE_BYTES);
	ht_pb_text_accept(t, ':');
	return parse_message(t, (enum ht_pb_type)type);
}

static bool parse_field(struct ht_pb_text *t, struct scope *s)
{
	const struct ht_pb_field *f;
	struct ht_pb_spot at = ht_pb_text_here(t);
	struct ht_str name;
	bool colon;
	char c[24];

	if (ht_pb_text_accept(t, '[')) {
		close_packed(t, s);
		return parse_any(t, s, at);
	}
	if (!ht_pb_text_word(t, &name))
		return ht_pb_text_fail(
			t, at, "expected a field name, found %s", ht_pb_text_found(t, c));
	f = ht_pb_field_named(s->type, name);
	if (!f)
		return ht_pb_text_fail(t, at, "%s has no field '%.*s'",
			ht_pb_message(s->type)->full_name, HT_STR_ARG(name));
	if (!note_given(t, s, f, at))
		return false;
	colon = ht_pb_text_accept(t, ':');
	if (!colon && f->kind != HT_PB_MESSAGE)
		return ht_pb_text_fail(t, ht_pb_text_here(t), "expected ':' after '%s', found %s",
			f->name, ht_pb_text_found(t, c));
	if (f->repeated && ht_pb_text_accept(t, '['))
		return parse_list(t, s, f, at);
	return parse_value(t, s, f, at);
}

/* Parses fields up to `close`, or to the end of the text if it is 0. */
static bool parse_fields(struct ht_pb_text *t, enum ht_pb_type type, char close)
{
	struct scope s = { .type = type };
	struct ht_pb_spot start = ht_pb_text_here(t);

	while (close ? !ht_pb_text_at(t, close) : t->p < t->end) {
		if (t->p == t->end)
			return ht_pb_text_fail(
				t, start, "'%c' is missing at the end of the file", close);
		if (!parse_field(t, &s))
			return false;
		if (!ht_pb_text_accept(t, ';'))
			ht_pb_text_accept(t, ',');
	}
	close_packed(t, &s);
	return !close || ht_pb_text_accept(t, close);
}

enum ht_status ht_pb_from_text(struct ht_arena *a, struct ht_str text, const char *path,
	enum ht_pb_type type, int depth, struct ht_diags *d, struct ht_pb_source *src)
{
	struct ht_pb_text t = {
		.a = a,
		.diags = d,
		.path = path,
		.p = text.p,
		.end = text.p + text.n,
		.line_start = text.p,
		.line = 1,
		.max_depth = depth,
	};

	ht_buf_init(&t.out, a);
	if (text.n >= 3 && !memcmp(text.p, "\xef\xbb\xbf", 3))
		t.p += 3;
	ht_pb_text_skip(&t);
	if (!parse_fields(&t, type, 0))
		return t.status;
	put_mark(&t, ht_pb_text_here(&t));
	*src = (struct ht_pb_source){
		.path = path,
		.diags = d,
		.p = (const uint8_t *)t.out.p,
		.n = t.out.n,
		.marks = t.mark,
		.mark_count = t.marks,
		.depth = depth,
	};
	return HT_OK;
}
