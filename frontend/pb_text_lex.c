/* Words, numbers and strings of the text form. */
#include "frontend/pb_text.h"

#include <math.h>
#include <string.h>

struct ht_pb_spot ht_pb_text_here(const struct ht_pb_text *t)
{
	return (struct ht_pb_spot){ t->line, (uint32_t)(t->p - t->line_start) + 1 };
}

struct ht_where ht_pb_text_where(const struct ht_pb_text *t, struct ht_pb_spot at)
{
	struct ht_where w = HT_NOWHERE;

	w.path = t->path;
	w.line = at.line;
	w.column = at.column;
	return w;
}

bool ht_pb_text_fail(struct ht_pb_text *t, struct ht_pb_spot at, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (t->status != HT_OK)
		return false;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	t->status = ht_error(t->diags, HT_E_INPUT, ht_pb_text_where(t, at), "%s", text);
	return false;
}

const char *ht_pb_text_found(const struct ht_pb_text *t, char out[24])
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

void ht_pb_text_skip(struct ht_pb_text *t)
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

bool ht_pb_text_at(const struct ht_pb_text *t, char c)
{
	return t->p < t->end && *t->p == c;
}

bool ht_pb_text_accept(struct ht_pb_text *t, char c)
{
	if (!ht_pb_text_at(t, c))
		return false;
	t->p++;
	ht_pb_text_skip(t);
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

bool ht_pb_text_word(struct ht_pb_text *t, struct ht_str *s)
{
	const char *start = t->p;

	if (t->p == t->end || !is_word_start(*t->p))
		return false;
	while (t->p < t->end && (is_word_start(*t->p) || is_digit(*t->p)))
		t->p++;
	*s = (struct ht_str){ start, (size_t)(t->p - start) };
	ht_pb_text_skip(t);
	return true;
}

/* ---- numbers ---- */

/* The token of a number: letters, digits, dot, and signs behind an exponent's e. */
static bool number_token(struct ht_pb_text *t, char *out, size_t room, bool *negative)
{
	size_t n = 0;
	bool hex;
	char f[24];

	*negative = false;
	if (ht_pb_text_at(t, '-')) {
		*negative = true;
		t->p++;
		ht_pb_text_skip(t);
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
		return ht_pb_text_fail(t, ht_pb_text_here(t), "expected a number, found %s",
			ht_pb_text_found(t, f));
	return true;
}

bool ht_pb_text_double(struct ht_pb_text *t, double *d)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
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
			return ht_pb_text_fail(t, start, "expected a number, found '%s'", token);
	} else {
		if (!ht_parse_double(ht_str(token), d))
			return ht_pb_text_fail(t, start, "'%s' is not a number", token);
	}
	if (negative)
		*d = -*d;
	ht_pb_text_skip(t);
	return true;
}

static bool parse_integer(struct ht_pb_text *t, bool *negative, uint64_t *u)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
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
		return ht_pb_text_fail(t, start, "'%s' is not an integer", token);
	for (; *p; p++) {
		int digit = is_digit(*p)         ? *p - '0'
			    : (*p | 0x20) >= 'a' ? (*p | 0x20) - 'a' + 10
						 : 99;

		if (digit >= base)
			return ht_pb_text_fail(t, start, "'%s' is not an integer", token);
		if (__builtin_mul_overflow(*u, (uint64_t)base, u) ||
			__builtin_add_overflow(*u, (uint64_t)digit, u))
			return ht_pb_text_fail(t, start, "%s does not fit 64 bits", token);
	}
	ht_pb_text_skip(t);
	return true;
}

bool ht_pb_text_signed(struct ht_pb_text *t, int64_t least, int64_t most, uint64_t *bits)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
	bool negative;
	uint64_t u;

	if (!parse_integer(t, &negative, &u))
		return false;
	if (negative ? u > (uint64_t)most + 1 || -(int64_t)(u - 1) - 1 < least : u > (uint64_t)most)
		return ht_pb_text_fail(t, start, "the number is out of range");
	*bits = negative ? 0 - u : u;
	return true;
}

bool ht_pb_text_unsigned(struct ht_pb_text *t, uint64_t most, uint64_t *u)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
	bool negative;

	if (!parse_integer(t, &negative, u))
		return false;
	if ((negative && *u) || *u > most)
		return ht_pb_text_fail(t, start, "the number is out of range");
	return true;
}

bool ht_pb_text_bool(struct ht_pb_text *t, uint64_t *u)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
	struct ht_str s;

	if (!ht_pb_text_word(t, &s))
		return ht_pb_text_unsigned(t, 1, u);
	*u = ht_str_is(s, "true") || ht_str_is(s, "True") || ht_str_is(s, "t");
	if (!*u && !ht_str_is(s, "false") && !ht_str_is(s, "False") && !ht_str_is(s, "f"))
		return ht_pb_text_fail(
			t, start, "expected true or false, found '%.*s'", HT_STR_ARG(s));
	return true;
}

bool ht_pb_text_enum(struct ht_pb_text *t, const struct ht_pb_field *f, uint64_t *u)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
	struct ht_str s;
	int32_t number;

	if (!ht_pb_text_word(t, &s))
		return ht_pb_text_signed(t, INT32_MIN, INT32_MAX, u);
	if (!ht_pb_enum_named(f->ref, s, &number))
		return ht_pb_text_fail(t, start, "%s has no value '%.*s'",
			ht_pb_enum(f->ref)->full_name, HT_STR_ARG(s));
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

static bool hex_escape(struct ht_pb_text *t, int least, int most, uint32_t *value)
{
	struct ht_pb_spot start = ht_pb_text_here(t);
	int n = 0;

	*value = 0;
	while (n < most && t->p < t->end && hex_digit(*t->p) >= 0) {
		*value = *value << 4 | (uint32_t)hex_digit(*t->p++);
		n++;
	}
	return n >= least ||
	       ht_pb_text_fail(t, start, "the escape needs %d hexadecimal digits", least);
}

/* Reads the escape behind a backslash. */
static bool escape(struct ht_pb_text *t)
{
	static const char from[] = "nrtabfv\\'\"?", to[] = "\n\r\t\a\b\f\v\\'\"?";
	struct ht_pb_spot start = ht_pb_text_here(t);
	const char *known;
	uint32_t c = 0;
	int n;

	if (t->p == t->end)
		return ht_pb_text_fail(t, start, "the string does not end");
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
			return ht_pb_text_fail(t, start, "the escape does not fit a byte");
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
		return ht_pb_text_fail(t, start, "unknown escape in a string");
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
			return ht_pb_text_fail(t, start, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return ht_pb_text_fail(t, start, "the escape is no character");
	put_utf8(&t->out, c);
	return true;
}

bool ht_pb_text_string(struct ht_pb_text *t)
{
	char f[24];

	if (!ht_pb_text_at(t, '"') && !ht_pb_text_at(t, '\''))
		return ht_pb_text_fail(t, ht_pb_text_here(t), "expected a string, found %s",
			ht_pb_text_found(t, f));
	while (ht_pb_text_at(t, '"') || ht_pb_text_at(t, '\'')) {
		struct ht_pb_spot start = ht_pb_text_here(t);
		char quote = *t->p++;

		for (;;) {
			const char *run = t->p;

			while (t->p < t->end && *t->p != quote && *t->p != '\\' && *t->p != '\n')
				t->p++;
			ht_put(&t->out, run, (size_t)(t->p - run));
			if (t->p == t->end || *t->p == '\n')
				return ht_pb_text_fail(
					t, start, "the string does not end on its line");
			if (*t->p++ == quote)
				break;
			if (!escape(t))
				return false;
		}
		ht_pb_text_skip(t);
	}
	return true;
}
