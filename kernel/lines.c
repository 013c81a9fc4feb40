/* lines: serialised as the number of entries, the entries, and the frame. */
#include "kernel/lines.h"

#include <string.h>

void ht_code_lines_pack(const struct ht_code_lines *l, struct ht_buf *out)
{
	uint32_t n = (uint32_t)l->lines;

	ht_put(out, &n, sizeof n);
	ht_put(out, l->line, l->lines * sizeof *l->line);
	ht_put_str(out, l->frame);
}

bool ht_code_lines_unpack(struct ht_str packed, struct ht_code_lines *out)
{
	const char *at = packed.p + sizeof(uint32_t);
	size_t rest;
	uint32_t n;

	*out = (struct ht_code_lines){ 0 };
	if (packed.n < sizeof n)
		return false;
	memcpy(&n, packed.p, sizeof n);
	rest = packed.n - sizeof n;
	if (n > rest / sizeof *out->line)
		return false;
	rest -= n * sizeof *out->line;
	*out = (struct ht_code_lines){ (const void *)at, n, { at + n * sizeof *out->line, rest } };
	return true;
}
