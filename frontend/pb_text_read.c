/* Protobuf's text form → wire form, by the message table.
 *
 * Accepts what TextFormat prints and reads for these messages: comments, `a: 1`, `a { }`, `a: < >`,
 * lists, adjacent strings, octal and hexadecimal numbers, enumerators by name or number, inf and
 * nan, `;` and `,` between fields, [type.googleapis.com/…] for Any.  Every field leaves a mark, so
 * that what is found wrong later has its line and column too. */
#include "frontend/pb.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct text {
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

/* Fields of one message that were given so far, and the packed field that is still open. */
struct scope {
	enum ht_pb_type type;
	uint64_t given; /* by index in the table */
	uint64_t oneofs;
	const struct ht_pb_field *packed;
	size_t packed_at;
	size_t packed_mark;
};

/* Taken before reading on: reading skips over line ends. */
struct spot {
	uint32_t line, column;
};

static struct spot here(const struct text *t)
{
	return (struct spot){ t->line, (uint32_t)(t->p - t->line_start) + 1 };
}

static struct ht_where where(const struct text *t, struct spot at)
{
	struct ht_where w = HT_NOWHERE;

	w.path = t->path;
	w.line = at.line;
	w.column = at.column;
	return w;
}

static bool fail(struct text *t, struct spot at, const char *fmt, ...) HT_PRINTF(3, 4);
static bool fail(struct text *t, struct spot at, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (t->status != HT_OK)
		return false;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	t->status = ht_error(t->diags, HT_E_INPUT, where(t, at), "%s", text);
	return false;
}

/* "end of file" or the start of what stands there, for messages. */
static const char *found(const struct text *t, char out[24])
{
	size_t n = 0;

	if (t->p == t->end)
		return "the end of the file";
	out[n++] = '\'';
	while (n < 20 && t->p + n - 1 < t->end && t->p[n - 1] > ' ' && t->p[n - 1] < 0x7f) {
		out[n] = t->p[n - 1];
		n++;
	}
	if (n == 1)
		return "a byte that is not text";
	out[n++] = '\'';
	out[n] = '\0';
	return out;
}

static void skip(struct text *t)
{
	while (t->p < t->end) {
		if (*t->p == '\n') {
			t->line++;
			t->line_start = t->p + 1;
		} else if (*t->p == '#') {
			while (t->p + 1 < t->end && t->p[1] != '\n')
				t->p++;
		} else if (!strchr(" \t\r\v\f", *t->p) || !*t->p) {
			return;
		}
		t->p++;
	}
}

static bool at_char(const struct text *t, char c)
{
	return t->p < t->end && *t->p == c;
}

static bool accept(struct text *t, char c)
{
	if (!at_char(t, c))
		return false;
	t->p++;
	skip(t);
	return true;
}

static bool is_word_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool word(struct text *t, struct ht_str *s)
{
	const char *start = t->p;

	if (t->p == t->end || !is_word_start(*t->p))
		return false;
	while (t->p < t->end && (is_word_start(*t->p) || is_digit(*t->p)))
		t->p++;
	*s = (struct ht_str){ start, (size_t)(t->p - start) };
	skip(t);
	return true;
}

/* ---- numbers ---- */

/* The token of a number: letters, digits, dot, and signs behind an exponent's e. */
static bool number_token(struct text *t, char *out, size_t room, bool *negative)
{
	size_t n = 0;
	bool hex;
	char f[24];

	*negative = false;
	if (at_char(t, '-')) {
		*negative = true;
		t->p++;
		skip(t);
	}
	hex = t->end - t->p > 1 && t->p[0] == '0' && (t->p[1] == 'x' || t->p[1] == 'X');
	while (t->p < t->end && n + 1 < room) {
		char c = *t->p;
		bool sign = (c == '-' || c == '+') && n && !hex && strchr("eE", out[n - 1]);

		if (!is_word_start(c) && !is_digit(c) && c != '.' && !sign)
			break;
		out[n++] = c;
		t->p++;
	}
	out[n] = '\0';
	if (!n || n + 1 == room)
		return fail(t, here(t), "expected a number, found %s", found(t, f));
	return true;
}

static bool parse_double(struct text *t, double *d)
{
	struct spot start = here(t);
	char token[400];
	bool negative;
	size_t n;

	if (!number_token(t, token, sizeof token, &negative))
		return false;
	n = strlen(token);
	if (is_digit(token[0]) && n > 1 && strchr("fF", token[n - 1]) && token[1] != 'x' &&
		token[1] != 'X')
		token[n - 1] = '\0';
	if (is_word_start(token[0])) {
		for (char *c = token; *c; c++)
			*c |= 0x20;
		if (!strcmp(token, "inf") || !strcmp(token, "infinity"))
			*d = INFINITY;
		else if (!strcmp(token, "nan"))
			*d = NAN;
		else
			return fail(t, start, "expected a number, found '%s'", token);
	} else {
		if (!ht_parse_double(ht_str(token), d))
			return fail(t, start, "'%s' is not a number", token);
	}
	if (negative)
		*d = -*d;
	skip(t);
	return true;
}

static bool parse_integer(struct text *t, bool *negative, uint64_t *u)
{
	struct spot start = here(t);
	char token[80];
	int base = 10;
	const char *p = token;

	if (!number_token(t, token, sizeof token, negative))
		return false;
	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
		base = 16;
		p += 2;
	} else if (p[0] == '0' && p[1]) {
		base = 8;
		p++;
	}
	*u = 0;
	if (!*p)
		return fail(t, start, "'%s' is not an integer", token);
	for (; *p; p++) {
		int digit = is_digit(*p)         ? *p - '0'
			    : (*p | 0x20) >= 'a' ? (*p | 0x20) - 'a' + 10
						 : 99;

		if (digit >= base)
			return fail(t, start, "'%s' is not an integer", token);
		if (__builtin_mul_overflow(*u, (uint64_t)base, u) ||
			__builtin_add_overflow(*u, (uint64_t)digit, u))
			return fail(t, start, "%s does not fit 64 bits", token);
	}
	skip(t);
	return true;
}

static bool parse_signed(struct text *t, int64_t least, int64_t most, uint64_t *bits)
{
	struct spot start = here(t);
	bool negative;
	uint64_t u;

	if (!parse_integer(t, &negative, &u))
		return false;
	if (negative ? u > (uint64_t)most + 1 || -(int64_t)(u - 1) - 1 < least : u > (uint64_t)most)
		return fail(t, start, "the number is out of range");
	*bits = negative ? 0 - u : u;
	return true;
}

static bool parse_unsigned(struct text *t, uint64_t most, uint64_t *u)
{
	struct spot start = here(t);
	bool negative;

	if (!parse_integer(t, &negative, u))
		return false;
	if ((negative && *u) || *u > most)
		return fail(t, start, "the number is out of range");
	return true;
}

static bool parse_bool(struct text *t, uint64_t *u)
{
	struct spot start = here(t);
	struct ht_str s;

	if (!word(t, &s))
		return parse_unsigned(t, 1, u);
	*u = ht_str_is(s, "true") || ht_str_is(s, "True") || ht_str_is(s, "t");
	if (!*u && !ht_str_is(s, "false") && !ht_str_is(s, "False") && !ht_str_is(s, "f"))
		return fail(t, start, "expected true or false, found '%.*s'", HT_STR_ARG(s));
	return true;
}

static bool parse_enum(struct text *t, const struct ht_pb_field *f, uint64_t *u)
{
	struct spot start = here(t);
	struct ht_str s;
	int32_t number;

	if (!word(t, &s))
		return parse_signed(t, INT32_MIN, INT32_MAX, u);
	if (!ht_pb_enum_named(f->ref, s, &number))
		return fail(t, start, "%s has no value '%.*s'", ht_pb_enum(f->ref)->full_name,
			HT_STR_ARG(s));
	*u = (uint64_t)(int64_t)number;
	return true;
}

/* ---- strings ---- */

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_utf8(struct ht_buf *b, uint32_t c)
{
	if (c < 0x80) {
		ht_putc(b, (char)c);
	} else if (c < 0x800) {
		ht_putc(b, (char)(0xc0 | c >> 6));
		ht_putc(b, (char)(0x80 | (c & 0x3f)));
	} else if (c < 0x10000) {
		ht_putc(b, (char)(0xe0 | c >> 12));
		ht_putc(b, (char)(0x80 | (c >> 6 & 0x3f)));
		ht_putc(b, (char)(0x80 | (c & 0x3f)));
	} else {
		ht_putc(b, (char)(0xf0 | c >> 18));
		ht_putc(b, (char)(0x80 | (c >> 12 & 0x3f)));
		ht_putc(b, (char)(0x80 | (c >> 6 & 0x3f)));
		ht_putc(b, (char)(0x80 | (c & 0x3f)));
	}
}

static bool hex_escape(struct text *t, int least, int most, uint32_t *value)
{
	struct spot start = here(t);
	int n = 0;

	*value = 0;
	while (n < most && t->p < t->end && hex_digit(*t->p) >= 0) {
		*value = *value << 4 | (uint32_t)hex_digit(*t->p++);
		n++;
	}
	return n >= least || fail(t, start, "the escape needs %d hexadecimal digits", least);
}

/* Behind the backslash. */
static bool escape(struct text *t)
{
	static const char from[] = "nrtabfv\\'\"?", to[] = "\n\r\t\a\b\f\v\\'\"?";
	struct spot start = here(t);
	const char *known;
	uint32_t c = 0;
	int n;

	if (t->p == t->end)
		return fail(t, start, "the string does not end");
	known = *t->p ? strchr(from, *t->p) : NULL;
	if (known) {
		t->p++;
		ht_putc(&t->out, to[known - from]);
		return true;
	}
	if (*t->p >= '0' && *t->p <= '7') {
		for (n = 0; n < 3 && t->p < t->end && *t->p >= '0' && *t->p <= '7'; n++)
			c = c << 3 | (uint32_t)(*t->p++ - '0');
		if (c > 255)
			return fail(t, start, "the escape does not fit a byte");
		ht_putc(&t->out, (char)c);
		return true;
	}
	switch (*t->p++) {
	case 'x':
	case 'X':
		if (!hex_escape(t, 1, 2, &c))
			return false;
		ht_putc(&t->out, (char)c);
		return true;
	case 'u':
		n = 4;
		break;
	case 'U':
		n = 8;
		break;
	default:
		return fail(t, start, "unknown escape in a string");
	}
	if (!hex_escape(t, n, n, &c))
		return false;
	if (n == 4 && c >= 0xd800 && c < 0xdc00 && t->end - t->p > 6 && t->p[0] == '\\' &&
		t->p[1] == 'u') {
		uint32_t low;

		t->p += 2;
		if (!hex_escape(t, 4, 4, &low))
			return false;
		if (low < 0xdc00 || low > 0xdfff)
			return fail(t, start, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return fail(t, start, "the escape is no character");
	put_utf8(&t->out, c);
	return true;
}

/* Adjacent strings in quotes; the bytes go to the output. */
static bool parse_string(struct text *t)
{
	char f[24];

	if (!at_char(t, '"') && !at_char(t, '\''))
		return fail(t, here(t), "expected a string, found %s", found(t, f));
	while (at_char(t, '"') || at_char(t, '\'')) {
		struct spot start = here(t);
		char quote = *t->p++;

		for (;;) {
			const char *run = t->p;

			while (t->p < t->end && *t->p != quote && *t->p != '\\' && *t->p != '\n')
				t->p++;
			ht_put(&t->out, run, (size_t)(t->p - run));
			if (t->p == t->end || *t->p == '\n')
				return fail(t, start, "the string does not end on its line");
			if (*t->p++ == quote)
				break;
			if (!escape(t))
				return false;
		}
		skip(t);
	}
	return true;
}

/* ---- fields ---- */

static void put_mark(struct text *t, struct spot at)
{
	t->mark = ht_grow(t->a, t->mark, t->marks, &t->mark_cap, sizeof *t->mark);
	t->mark[t->marks++] = (struct ht_pb_mark){ t->out.n, at.line, at.column };
}

/* The bytes from `at` on get their length in front. */
static void close_length(struct text *t, size_t at, size_t first_mark)
{
	size_t n = ht_pb_insert_length(&t->out, at, t->out.n - at);

	for (size_t i = first_mark; i < t->marks; i++)
		t->mark[i].offset += n;
}

static void close_packed(struct text *t, struct scope *s)
{
	if (s->packed)
		close_length(t, s->packed_at, s->packed_mark);
	s->packed = NULL;
}

static bool parse_fields(struct text *t, enum ht_pb_type type, char close);

static bool parse_message(struct text *t, enum ht_pb_type type)
{
	size_t at = t->out.n, first_mark = t->marks;
	char close = at_char(t, '<') ? '>' : '}', f[24];
	struct spot start = here(t);
	bool ok;

	if (!accept(t, '{') && !accept(t, '<'))
		return fail(t, here(t), "expected '{', found %s", found(t, f));
	if (++t->depth > t->max_depth) {
		t->status = ht_error(t->diags, HT_E_LIMIT, where(t, start),
			"messages nest deeper than %d", t->max_depth);
		return false;
	}
	ok = parse_fields(t, type, close);
	t->depth--;
	if (ok)
		close_length(t, at, first_mark);
	return ok;
}

static bool parse_number(struct text *t, const struct ht_pb_field *f, uint64_t *u)
{
	float narrow;
	double d;

	switch (f->kind) {
	case HT_PB_DOUBLE:
		if (!parse_double(t, &d))
			return false;
		memcpy(u, &d, sizeof d);
		return true;
	case HT_PB_FLOAT:
		if (!parse_double(t, &d))
			return false;
		narrow = (float)d;
		*u = 0;
		memcpy(u, &narrow, sizeof narrow);
		return true;
	case HT_PB_INT64:
	case HT_PB_SFIXED64:
		return parse_signed(t, INT64_MIN, INT64_MAX, u);
	case HT_PB_INT32:
	case HT_PB_SFIXED32:
		return parse_signed(t, INT32_MIN, INT32_MAX, u);
	case HT_PB_SINT64:
		if (!parse_signed(t, INT64_MIN, INT64_MAX, u))
			return false;
		*u = *u << 1 ^ (0 - (*u >> 63));
		return true;
	case HT_PB_SINT32:
		if (!parse_signed(t, INT32_MIN, INT32_MAX, u))
			return false;
		*u = (uint32_t)(*u << 1 ^ (0 - (*u >> 63)));
		return true;
	case HT_PB_UINT64:
	case HT_PB_FIXED64:
		return parse_unsigned(t, UINT64_MAX, u);
	case HT_PB_UINT32:
	case HT_PB_FIXED32:
		return parse_unsigned(t, UINT32_MAX, u);
	case HT_PB_BOOL:
		return parse_bool(t, u);
	default:
		return parse_enum(t, f, u);
	}
}

static void put_number(struct text *t, int wire, uint64_t u)
{
	if (wire == HT_WIRE_VARINT)
		ht_pb_varint(&t->out, u);
	else
		for (int i = 0; i < (wire == HT_WIRE_64 ? 8 : 4); i++, u >>= 8)
			ht_putc(&t->out, (char)(u & 0xff));
}

/* One value.  `at` is the field's name in the text. */
static bool parse_value(
	struct text *t, struct scope *s, const struct ht_pb_field *f, struct spot at)
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
		if (!parse_string(t))
			return false;
		if (f->kind == HT_PB_STRING &&
			!ht_utf8_valid((struct ht_str){ t->out.p + start, t->out.n - start }))
			return fail(t, at, "'%s' is not UTF-8", f->name);
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

static bool parse_list(struct text *t, struct scope *s, const struct ht_pb_field *f, struct spot at)
{
	char c[24];

	if (accept(t, ']'))
		return true;
	do {
		if (!parse_value(t, s, f, at))
			return false;
	} while (accept(t, ','));
	return accept(t, ']') || fail(t, here(t), "expected ',' or ']', found %s", found(t, c));
}

/* A field that is not repeated comes once, and one of a oneof alone. */
static bool note_given(struct text *t, struct scope *s, const struct ht_pb_field *f, struct spot at)
{
	size_t i = (size_t)(f - ht_pb_message(s->type)->field);

	if (f->repeated)
		return true;
	if (s->given & (uint64_t)1 << i)
		return fail(t, at, "'%s' is given twice", f->name);
	s->given |= (uint64_t)1 << i;
	if (f->oneof >= 0) {
		if (s->oneofs & (uint64_t)1 << f->oneof)
			return fail(t, at, "'%s' excludes another field that is given", f->name);
		s->oneofs |= (uint64_t)1 << f->oneof;
	}
	return true;
}

/* `[type.googleapis.com/tensorflow.X] { … }` inside an Any. */
static bool parse_any(struct text *t, struct scope *s, struct spot at)
{
	const char *start = t->p, *slash;
	struct ht_str url;
	int type;

	while (t->p < t->end && *t->p != ']' && *t->p != '\n')
		t->p++;
	url = (struct ht_str){ start, (size_t)(t->p - start) };
	if (!accept(t, ']'))
		return fail(t, at, "expected ']'");
	slash = memchr(url.p, '/', url.n);
	if (s->type != HT_PB_Any || !slash)
		return fail(t, at, "extensions do not occur in this message");
	type = ht_pb_type_named((struct ht_str){ slash + 1, url.n - (size_t)(slash + 1 - url.p) });
	if (type < 0)
		return fail(t, at, "the type '%.*s' is not known", HT_STR_ARG(url));
	put_mark(t, at);
	ht_pb_varint(&t->out, 1 << 3 | HT_WIRE_BYTES);
	ht_pb_varint(&t->out, url.n);
	ht_put_str(&t->out, url);
	ht_pb_varint(&t->out, 2 << 3 | HT_WIRE_BYTES);
	accept(t, ':');
	return parse_message(t, (enum ht_pb_type)type);
}

static bool parse_field(struct text *t, struct scope *s)
{
	const struct ht_pb_field *f;
	struct spot at = here(t);
	struct ht_str name;
	bool colon;
	char c[24];

	if (accept(t, '[')) {
		close_packed(t, s);
		return parse_any(t, s, at);
	}
	if (!word(t, &name))
		return fail(t, at, "expected a field name, found %s", found(t, c));
	f = ht_pb_field_named(s->type, name);
	if (!f)
		return fail(t, at, "%s has no field '%.*s'", ht_pb_message(s->type)->full_name,
			HT_STR_ARG(name));
	if (!note_given(t, s, f, at))
		return false;
	colon = accept(t, ':');
	if (!colon && f->kind != HT_PB_MESSAGE)
		return fail(t, here(t), "expected ':' after '%s', found %s", f->name, found(t, c));
	if (f->repeated && accept(t, '['))
		return parse_list(t, s, f, at);
	return parse_value(t, s, f, at);
}

/* Fields up to `close`, or to the end of the text when it is 0. */
static bool parse_fields(struct text *t, enum ht_pb_type type, char close)
{
	struct scope s = { .type = type };
	struct spot start = here(t);

	while (close ? !at_char(t, close) : t->p < t->end) {
		if (t->p == t->end)
			return fail(t, start, "'%c' is missing at the end of the file", close);
		if (!parse_field(t, &s))
			return false;
		if (!accept(t, ';'))
			accept(t, ',');
	}
	close_packed(t, &s);
	return !close || accept(t, close);
}

enum ht_status ht_pb_from_text(struct ht_arena *a, struct ht_str text, const char *path,
	enum ht_pb_type type, int depth, struct ht_diags *d, struct ht_pb_source *src)
{
	struct text t = {
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
	skip(&t);
	if (!parse_fields(&t, type, 0))
		return t.status;
	put_mark(&t, here(&t));
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
