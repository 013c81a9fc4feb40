/* line: a text in memory of fixed size, and numbers in it.
 *
 * The code is freestanding: it calls nothing, allocates nothing and has no data.  It is compiled into the library and, as a part of
 * the teller (aot/teller.c), into nets.  The teller defines HT_LINE_CALLED, which then declares each function that must not be
 * inlined. */
#ifndef HT_LINE_H
#define HT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HT_LINE_CALLED
#define HT_LINE_CALLED static inline
#endif

/* The text so far: `n` characters, of which those have been written that fit into `room` together with a final zero. */
struct ht_line {
	char *to; /* may be NULL if `room` is 0 */
	size_t room, n;
};

HT_LINE_CALLED void ht_line_char(struct ht_line *m, char c)
{
	if (m->n + 1 < m->room)
		m->to[m->n] = c;
	m->n++;
}

HT_LINE_CALLED void ht_line_text(struct ht_line *m, const char *s)
{
	while (*s)
		ht_line_char(m, *s++);
}

/* Writes the final zero.  A text that did not fit ends with "...", if there is room for that. */
HT_LINE_CALLED void ht_line_end(struct ht_line *m)
{
	size_t n = m->n < m->room ? m->n : m->room - 1;

	if (!m->room)
		return;
	for (size_t i = 1; n < m->n && n > 3 && i <= 3; i++)
		m->to[n - i] = '.';
	m->to[n] = 0;
}

HT_LINE_CALLED void ht_line_uint(struct ht_line *m, uint64_t x)
{
	uint64_t unit = 1;

	while (x / unit >= 10)
		unit *= 10;
	for (; unit; unit /= 10)
		ht_line_char(m, (char)('0' + x / unit % 10));
}

HT_LINE_CALLED void ht_line_int(struct ht_line *m, int64_t x)
{
	if (x < 0)
		ht_line_char(m, '-');
	ht_line_uint(m, x < 0 ? -(uint64_t)x : (uint64_t)x);
}

#endif
