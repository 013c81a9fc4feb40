/* Strings with a length. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

struct ht_str ht_str(const char *zero_terminated)
{
	return (struct ht_str){ zero_terminated, strlen(zero_terminated) };
}

struct ht_str ht_str_copy(struct ht_arena *a, struct ht_str s)
{
	size_t n;
	char *p;

	if (!ht_add_size(s.n, 1, &n))
		ht_arena_fail(a);
	p = ht_alloc(a, n);
	if (s.n)
		memcpy(p, s.p, s.n);
	return (struct ht_str){ p, s.n };
}

const struct ht_str *ht_str_kept(struct ht_arena *a, struct ht_str s)
{
	struct ht_str *kept = HT_NEW(a, struct ht_str);

	*kept = s;
	return kept;
}

struct ht_str ht_str_printf(struct ht_arena *a, const char *fmt, ...)
{
	char most[256]; /* most texts fit, and are printed once */
	va_list args;
	int n;
	char *p;

	va_start(args, fmt);
	n = vsnprintf(most, sizeof most, fmt, args);
	va_end(args);
	if (n < 0)
		ht_arena_fail(a);
	p = ht_alloc(a, (size_t)n + 1);
	if ((size_t)n < sizeof most) {
		memcpy(p, most, (size_t)n);
		return (struct ht_str){ p, (size_t)n };
	}
	va_start(args, fmt);
	n = vsnprintf(p, (size_t)n + 1, fmt, args);
	va_end(args);
	if (n < 0)
		ht_arena_fail(a);
	return (struct ht_str){ p, (size_t)n };
}

bool ht_str_eq(struct ht_str a, struct ht_str b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

bool ht_str_is(struct ht_str a, const char *zero_terminated)
{
	return ht_str_eq(a, ht_str(zero_terminated));
}

int ht_str_cmp(struct ht_str a, struct ht_str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n ? memcmp(a.p, b.p, n) : 0;

	if (order)
		return order;
	return (a.n > b.n) - (a.n < b.n);
}

bool ht_str_starts(struct ht_str s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && (!n || !memcmp(s.p, prefix, n));
}

bool ht_str_ends(struct ht_str s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.n >= n && (!n || !memcmp(s.p + s.n - n, suffix, n));
}

bool ht_utf8_valid(struct ht_str s)
{
	for (size_t i = 0; i < s.n;) {
		size_t n = ht_utf8_length(s.p + i, s.n - i);

		if (!n)
			return false;
		i += n;
	}
	return true;
}

/* Follows the table of well-formed sequences of the Unicode standard (3-7): no overlong forms, no
 * surrogates, nothing above U+10FFFF. */
size_t ht_utf8_length(const char *p, size_t n)
{
	const unsigned char *s = (const unsigned char *)p;
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (!n)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (n < length)
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

/* ---- near names ---- */

enum { NEAR = 2, LONGEST_NAME = 64 };

/* The edit distance with swaps of neighbours; NEAR + 1: it is more than NEAR. */
static int distance(struct ht_str a, struct ht_str b)
{
	int row[3][LONGEST_NAME + 1];

	if (a.n > LONGEST_NAME || b.n > LONGEST_NAME || a.n > b.n + NEAR || b.n > a.n + NEAR)
		return NEAR + 1;
	for (size_t j = 0; j <= b.n; j++)
		row[0][j] = (int)j;
	for (size_t i = 1; i <= a.n; i++) {
		int *now = row[i % 3], *before = row[(i - 1) % 3], *swap = row[(i + 1) % 3];

		now[0] = (int)i;
		for (size_t j = 1; j <= b.n; j++) {
			int best = before[j - 1] + (a.p[i - 1] != b.p[j - 1]);

			if (before[j] + 1 < best)
				best = before[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] &&
				a.p[i - 2] == b.p[j - 1] && swap[j - 2] + 1 < best)
				best = swap[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[a.n % 3][b.n];
}

int ht_near_names(struct ht_str s, const struct ht_str *words, size_t n, struct ht_str near[3])
{
	int found = 0;

	for (int wanted = 0; wanted <= NEAR; wanted++)
		for (size_t i = 0; i < n && found < 3; i++) {
			size_t length = words[i].n > s.n ? words[i].n : s.n;

			/* Every very short word is within two edits of every other. */
			if ((size_t)wanted * 2 <= length && distance(s, words[i]) == wanted)
				near[found++] = words[i];
		}
	return found;
}
