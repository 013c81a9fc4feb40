/* Shapes of atc: --input_shape, in which the profiles of another option replace the dimensions
 * -1. */
#include "cli/cli.h"

#include <string.h>

/* Writes `shape` with the numbers of profile p[0..n) in place of its dimensions -1; if `one` is
 * set, all get the same number.  False: the profile has more or fewer numbers. */
static bool fill(const char *shape, const char *p, size_t n, bool one, struct text *t)
{
	const char *end = p + n;
	bool filled = false;

	for (const char *s = shape; *s; s++) {
		if (s == shape || !strchr(":,", s[-1]) || strncmp(s, "-1", 2) != 0) {
			text_printf(t, "%c", *s);
			continue;
		}
		if (p >= end)
			return false;
		text_printf(t, "%.*s", (int)strcspn(p, ",;"), p);
		p += one ? 0 : strcspn(p, ",;") + 1;
		filled = true;
		s++;
	}
	return filled && (one || p > end);
}

enum ht_status atc_fill_shape(
	const char *option, const char *shape, const char *p, size_t n, struct text *t)
{
	int64_t dim[32];
	int32_t rank;
	bool legal = parse_dims(p, p + n, dim, &rank) && rank;

	for (int32_t i = 0; legal && i < rank; i++)
		legal = dim[i] >= 0;
	if (!legal)
		return fail(HT_E_USAGE, "--%s: '%.*s' is no list of dimensions", option, (int)n, p);
	if (!fill(shape, p, n, !strcmp(option, "dynamic_batch_size"), t))
		return fail(HT_E_USAGE,
			"--%s: '%.*s' has another number of dimensions than are -1 in --input_shape=%s",
			option, (int)n, p, shape);
	return HT_OK;
}
