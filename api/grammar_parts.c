/* Helpers of grammars: parts of a value, and the reason why one is malformed. */
#include "api/grammar.h"

#include <stdarg.h>
#include <string.h>

bool ht_why(struct ht_why *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->text, sizeof w->text, fmt, ap);
	va_end(ap);
	return false;
}

bool ht_next_part(struct ht_str *rest, char stop, struct ht_str *part)
{
	const char *end;

	if (!rest->p)
		return false;
	end = memchr(rest->p, stop, rest->n);
	*part = (struct ht_str){ rest->p, end ? (size_t)(end - rest->p) : rest->n };
	*rest = end ? (struct ht_str){ end + 1, rest->n - part->n - 1 } : (struct ht_str){ 0 };
	return true;
}

bool ht_digits(struct ht_str s, int64_t *out)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n && ht_parse_int(s, out);
}

bool ht_one_of(struct ht_str s, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ht_str_eq(s, ht_str(names[i])))
			return true;
	return false;
}
