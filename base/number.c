/* Numbers as text, the same in every locale: the library's caller may have set a locale with a
 * decimal comma. */
#include "base/base.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 400 };

/* Prints with a decimal point, whatever the locale's decimal separator is (it may have several
 * bytes). */
static size_t print(char *out, size_t size, const char *fmt, int digits, double v)
{
	const char *point = localeconv()->decimal_point;
	size_t n = (size_t)snprintf(out, size, fmt, digits, v);
	char *at = strcmp(point, ".") ? strstr(out, point) : NULL;

	if (at) {
		size_t skip = strlen(point);

		*at = '.';
		memmove(at + 1, at + skip, strlen(at + skip) + 1);
		n -= skip - 1;
	}
	return n;
}

static void put_shortest(struct ht_buf *b, double v, int most, bool single)
{
	char text[64];
	size_t n = 0;

	if (isnan(v)) {
		ht_puts(b, "nan");
		return;
	}
	if (isinf(v)) {
		ht_puts(b, v < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 1; digits <= most; digits++) {
		double back;

		n = print(text, sizeof text, "%.*g", digits, v);
		if (!ht_parse_double((struct ht_str){ text, n }, &back))
			continue;
		if (single ? (float)back == (float)v : back == v)
			break;
	}
	ht_put(b, text, n);
}

void ht_put_double(struct ht_buf *b, double v)
{
	put_shortest(b, v, 17, false);
}

void ht_put_float(struct ht_buf *b, float v)
{
	put_shortest(b, (double)v, 9, true);
}

void ht_put_fixed(struct ht_buf *b, double v, int decimals)
{
	char text[LONGEST_NUMBER];

	HT_CHECK(decimals >= 0 && decimals <= 40);
	if (!isfinite(v)) {
		ht_put_double(b, v);
		return;
	}
	ht_put(b, text, print(text, sizeof text, "%.*f", decimals, v));
}

/* Only characters of decimal and hexadecimal numbers; strtod() alone would accept leading
 * blanks. */
static bool looks_like_number(struct ht_str s)
{
	if (!s.n || s.n >= LONGEST_NUMBER)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!s.p[i] || !strchr("0123456789abcdefABCDEFxXpP+-.infatyINFATY", s.p[i]))
			return false;
	return true;
}

bool ht_parse_double(struct ht_str s, double *out)
{
	const char *point = localeconv()->decimal_point;
	size_t width = strlen(point), n = 0;
	char text[LONGEST_NUMBER * 4 + 1];
	char *end;

	if (!looks_like_number(s) || width > 4)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '.') {
			memcpy(text + n, point, width);
			n += width;
		} else {
			text[n++] = s.p[i];
		}
	}
	text[n] = 0;
	*out = strtod(text, &end);
	return end == text + n;
}

bool ht_parse_int(struct ht_str s, int64_t *out)
{
	bool minus = s.n && s.p[0] == '-';
	size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+');
	uint64_t v = 0;

	if (i == s.n)
		return false;
	for (; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
			return false;
	}
	if (v > (uint64_t)INT64_MAX + minus)
		return false;
	*out = minus ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

uint64_t ht_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}
