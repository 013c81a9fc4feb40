/* A growing byte buffer in an arena.  It always has room for a NUL behind its bytes. */
#include "base/base.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void ht_buf_init(struct ht_buf *b, struct ht_arena *a)
{
	*b = (struct ht_buf){ .arena = a };
}

/* Makes room for `n` more bytes and a NUL. */
static void reserve(struct ht_buf *b, size_t n)
{
	size_t wanted;

	if (!ht_add_size(b->n, n, &wanted) || !ht_add_size(wanted, 1, &wanted))
		ht_arena_fail(b->arena);
	while (b->cap < wanted)
		b->p = ht_grow(b->arena, b->p, b->cap, &b->cap, 1);
}

void ht_buf_reserve(struct ht_buf *b, size_t n)
{
	size_t wanted;
	char *p;

	if (!ht_add_size(b->n, n, &wanted) || !ht_add_size(wanted, 1, &wanted))
		ht_arena_fail(b->arena);
	if (wanted <= b->cap)
		return;
	p = ht_alloc(b->arena, wanted);
	if (b->n)
		memcpy(p, b->p, b->n);
	b->p = p;
	b->cap = wanted;
}

void ht_put(struct ht_buf *b, const void *p, size_t n)
{
	reserve(b, n);
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
}

void ht_puts(struct ht_buf *b, const char *s)
{
	ht_put(b, s, strlen(s));
}

void ht_put_str(struct ht_buf *b, struct ht_str s)
{
	ht_put(b, s.p, s.n);
}

void ht_putc(struct ht_buf *b, char c)
{
	ht_put(b, &c, 1);
}

void ht_put_int(struct ht_buf *b, int64_t v)
{
	char digit[20], *p = digit + sizeof digit;
	uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	do
		*--p = (char)('0' + rest % 10);
	while (rest /= 10);
	if (v < 0)
		*--p = '-';
	ht_put(b, p, (size_t)(digit + sizeof digit - p));
}

enum { SHORT = 64 };

/* Prints into the present room, and once more if that was too small. */
void ht_printf(struct ht_buf *b, const char *fmt, ...)
{
	va_list args;
	size_t room;
	int n;

	reserve(b, SHORT);
	room = b->cap - b->n;
	va_start(args, fmt);
	n = vsnprintf(b->p + b->n, room, fmt, args);
	va_end(args);
	if (n >= 0 && (size_t)n >= room) {
		reserve(b, (size_t)n);
		va_start(args, fmt);
		n = vsnprintf(b->p + b->n, (size_t)n + 1, fmt, args);
		va_end(args);
	}
	if (n < 0)
		ht_arena_fail(b->arena);
	b->n += (size_t)n;
}

void ht_put_json(struct ht_buf *b, struct ht_str s)
{
	ht_putc(b, '"');
	for (size_t i = 0; i < s.n;) {
		unsigned char c = (unsigned char)s.p[i];
		size_t n = ht_utf8_length(s.p + i, s.n - i);

		if (!n)
			ht_puts(b, "\\ufffd");
		else if (c == '"' || c == '\\')
			ht_printf(b, "\\%c", c);
		else if (c == '\n')
			ht_puts(b, "\\n");
		else if (c == '\t')
			ht_puts(b, "\\t");
		else if (c < 0x20 || c == 0x7f)
			ht_printf(b, "\\u%04x", c);
		else
			ht_put(b, s.p + i, n);
		i += n ? n : 1;
	}
	ht_putc(b, '"');
}

struct ht_str ht_buf_str(struct ht_buf *b)
{
	reserve(b, 0);
	b->p[b->n] = 0;
	return (struct ht_str){ b->p, b->n };
}

void ht_put_member(struct ht_buf *b, const char *key, struct ht_str value)
{
	ht_printf(b, ", \"%s\": ", key);
	ht_put_json(b, value);
}
