/* Tokens of the .hir form. */
#include "ir/text_lex.h"

#include <string.h>

static struct ht_where place(const struct ht_lex *l, const char *at)
{
	struct ht_where w = { .path = l->path, .line = 1, .column = 1, .offset = -1 };

	HT_CHECK(at >= l->begin && at <= l->end);
	for (const char *p = l->begin; p < at; p++) {
		w.column++;
		if (*p == '\n') {
			w.line++;
			w.column = 1;
		}
	}
	return w;
}

static enum ht_status report(const struct ht_lex *l, enum ht_status st, const char *at,
	const char *fmt, va_list args) HT_PRINTF(4, 0);

static enum ht_status report(
	const struct ht_lex *l, enum ht_status st, const char *at, const char *fmt, va_list args)
{
	char text[512];

	vsnprintf(text, sizeof text, fmt, args);
	return ht_error(l->d, st, place(l, at), "%s", text);
}

enum ht_status ht_lex_fail(const struct ht_lex *l, const char *at, const char *fmt, ...)
{
	enum ht_status st;
	va_list args;

	va_start(args, fmt);
	st = report(l, HT_E_INPUT, at, fmt, args);
	va_end(args);
	return st;
}

enum ht_status ht_lex_limit(const struct ht_lex *l, const char *at, const char *fmt, ...)
{
	enum ht_status st;
	va_list args;

	va_start(args, fmt);
	st = report(l, HT_E_LIMIT, at, fmt, args);
	va_end(args);
	return st;
}

char ht_lex_peek(struct ht_lex *l)
{
	for (; l->p < l->end; l->p++) {
		if (*l->p == '#') {
			while (l->p < l->end && *l->p != '\n')
				l->p++;
			if (l->p == l->end)
				return 0;
		}
		if (!strchr(" \t\r\n", *l->p) || !*l->p)
			return *l->p;
	}
	return 0;
}

bool ht_lex_accept(struct ht_lex *l, char c)
{
	if (ht_lex_peek(l) != c || l->p == l->end)
		return false;
	l->p++;
	return true;
}

enum ht_status ht_lex_expect(struct ht_lex *l, char c)
{
	if (ht_lex_accept(l, c))
		return HT_OK;
	if (l->p == l->end)
		return ht_lex_fail(l, l->p, "expected '%c', the text ends", c);
	return ht_lex_fail(l, l->p, "expected '%c'", c);
}

static struct ht_str bare(struct ht_lex *l)
{
	struct ht_str s = { l->p, 0 };

	ht_lex_peek(l);
	s.p = l->p;
	while (l->p < l->end && ht_is_name_char(*l->p))
		l->p++;
	s.n = (size_t)(l->p - s.p);
	return s;
}

bool ht_lex_word(struct ht_lex *l, const char *word)
{
	const char *start;

	ht_lex_peek(l);
	start = l->p;
	if (ht_str_is(bare(l), word))
		return true;
	l->p = start;
	return false;
}

static int hex_digit(char c)
{
	if (ht_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static enum ht_status escape(struct ht_lex *l, struct ht_buf *b)
{
	char c = l->p + 1 < l->end ? l->p[1] : 0;
	int high, low;

	if (c == 'x' && l->end - l->p >= 4) {
		high = hex_digit(l->p[2]);
		low = hex_digit(l->p[3]);
		if (high < 0 || low < 0)
			return ht_lex_fail(l, l->p, "\\x takes two hexadecimal digits");
		ht_putc(b, (char)(high << 4 | low));
		l->p += 4;
		return HT_OK;
	}
	if (c != 'n' && c != 't' && c != '"' && c != '\\')
		return ht_lex_fail(l, l->p, "unknown escape; there are \\n \\t \\\" \\\\ \\xHH");
	ht_putc(b, c == 'n' ? '\n' : c == 't' ? '\t' : c);
	l->p += 2;
	return HT_OK;
}

enum ht_status ht_lex_string(struct ht_lex *l, struct ht_str *s)
{
	const char *start;
	struct ht_buf b;

	ht_lex_peek(l);
	start = l->p;
	if (!ht_lex_accept(l, '"'))
		return ht_lex_fail(l, start, "expected a string in quotes");
	ht_buf_init(&b, l->a);
	while (l->p < l->end && *l->p != '"') {
		const char *run = l->p;

		if (*l->p == '\\') {
			HT_TRY(escape(l, &b));
			continue;
		}
		while (l->p < l->end && *l->p != '"' && *l->p != '\\')
			l->p++;
		ht_put(&b, run, (size_t)(l->p - run));
	}
	if (l->p == l->end)
		return ht_lex_fail(l, start, "the string has no end");
	l->p++;
	*s = ht_buf_str(&b);
	return HT_OK;
}

enum ht_status ht_lex_name(struct ht_lex *l, struct ht_str *s)
{
	if (ht_lex_peek(l) == '"')
		return ht_lex_string(l, s);
	*s = bare(l);
	return s->n ? HT_OK : ht_lex_fail(l, l->p, "expected a name");
}

enum ht_status ht_lex_token(struct ht_lex *l, struct ht_str *s)
{
	ht_lex_peek(l);
	s->p = l->p;
	while (l->p < l->end && (ht_is_name_char(*l->p) || *l->p == '+'))
		l->p++;
	s->n = (size_t)(l->p - s->p);
	return s->n ? HT_OK : ht_lex_fail(l, l->p, "expected a value");
}

bool ht_is_decimal(struct ht_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ht_is_digit(s.p[i]) && !memchr("+-.e", s.p[i], 4))
			return ht_str_is(s, "inf") || ht_str_is(s, "-inf");
	return s.n > 0;
}

enum ht_status ht_lex_int(struct ht_lex *l, int64_t *i)
{
	struct ht_str s;

	HT_TRY(ht_lex_token(l, &s));
	return ht_parse_int(s, i)
		       ? HT_OK
		       : ht_lex_fail(l, s.p, "'%.*s' is no integer of 64 bits", HT_STR_ARG(s));
}

enum ht_status ht_lex_count(struct ht_lex *l, size_t *n)
{
	const char *start;
	int64_t i;

	ht_lex_peek(l);
	start = l->p;
	HT_TRY(ht_lex_int(l, &i));
	if (i < 0)
		return ht_lex_fail(l, start, "a count is not negative");
	*n = (size_t)i;
	return HT_OK;
}

enum ht_status ht_lex_strings(struct ht_lex *l, struct ht_str **s, size_t *n)
{
	size_t cap = 0;

	*n = 0;
	*s = HT_NEW_ARRAY(l->a, struct ht_str, 0);
	HT_TRY(ht_lex_expect(l, '{'));
	if (ht_lex_accept(l, '}'))
		return HT_OK;
	do {
		*s = ht_grow(l->a, *s, *n, &cap, sizeof **s);
		HT_TRY(ht_lex_string(l, &(*s)[*n]));
		++*n;
	} while (ht_lex_accept(l, ','));
	return ht_lex_expect(l, '}');
}

enum ht_status ht_lex_dtype(struct ht_lex *l, enum ht_dtype *t)
{
	struct ht_str s = bare(l);
	int64_t number;

	*t = ht_dtype_named(s);
	if (*t == HT_INVALID && ht_str_starts(s, "dtype") &&
		ht_parse_int((struct ht_str){ s.p + 5, s.n - 5 }, &number) &&
		number >= HT_DTYPE_END && number < INT32_MAX / 2)
		*t = (enum ht_dtype)number;
	if (*t == HT_INVALID && !ht_str_is(s, "invalid"))
		return ht_lex_fail(l, s.p, "'%.*s' is no element type", HT_STR_ARG(s));
	if (l->p < l->end && *l->p == '&') {
		l->p++;
		*t = (enum ht_dtype)(*t + HT_REF);
	}
	return HT_OK;
}

enum ht_status ht_lex_dim(struct ht_lex *l, size_t syms, int64_t *dim)
{
	struct ht_str s;
	int64_t number;

	*dim = HT_DIM_UNKNOWN;
	if (ht_lex_accept(l, '?'))
		return HT_OK;
	HT_TRY(ht_lex_token(l, &s));
	if (ht_is_digit(s.p[0]) && ht_parse_int(s, dim))
		return HT_OK;
	if (s.p[0] != 'd' || s.n < 2 || !ht_is_digit(s.p[1]) ||
		!ht_parse_int((struct ht_str){ s.p + 1, s.n - 1 }, &number))
		return ht_lex_fail(l, s.p, "'%.*s' is no dimension", HT_STR_ARG(s));
	if ((uint64_t)number >= syms)
		return ht_lex_fail(
			l, s.p, "there is no dimension d%lld before this line", (long long)number);
	*dim = -2 - number;
	return HT_OK;
}

enum ht_status ht_lex_shape(struct ht_lex *l, size_t syms, struct ht_shape *s)
{
	int64_t dim[HT_MAX_RANK];
	int32_t rank = 0;

	*s = HT_SHAPE_UNKNOWN;
	HT_TRY(ht_lex_expect(l, '['));
	if (ht_lex_accept(l, '*'))
		return ht_lex_expect(l, ']');
	if (!ht_lex_accept(l, ']')) {
		do {
			if (rank == HT_MAX_RANK)
				return ht_lex_limit(l, l->p, "more than %d axes", HT_MAX_RANK);
			HT_TRY(ht_lex_dim(l, syms, &dim[rank++]));
		} while (ht_lex_accept(l, ','));
		HT_TRY(ht_lex_expect(l, ']'));
	}
	*s = ht_shape_make(l->a, rank, dim);
	return HT_OK;
}
