#include "runtime/coder.h"

#include <string.h>

void ht_code_bytes(struct ht_coder *c, void *p, size_t n)
{
	if (!ht_coder_reads(c)) {
		ht_put(c->out, p, n);
		return;
	}
	if (c->wrong || n > c->n) {
		if (!c->wrong)
			c->wrong = "it ends too early";
		memset(p, 0, n);
		return;
	}
	memcpy(p, c->p, n);
	c->p += n;
	c->n -= n;
}

void ht_code_number(struct ht_coder *c, uint64_t *v)
{
	uint8_t b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (uint8_t)(*v >> 8 * i);
	ht_code_bytes(c, b, sizeof b);
	*v = 0;
	for (int i = 0; i < 8; i++)
		*v |= (uint64_t)b[i] << 8 * i;
}

void ht_code_count(struct ht_coder *c, size_t *n, size_t least)
{
	uint64_t v = *n;

	ht_code_number(c, &v);
	if (ht_coder_reads(c) && v > c->n / least) {
		c->wrong = "a list is longer than the whole";
		v = 0;
	}
	*n = (size_t)v;
}

void ht_code_text(struct ht_coder *c, const char **s)
{
	size_t n = ht_coder_reads(c) ? 0 : strlen(*s);
	char *to;

	ht_code_count(c, &n, 1);
	if (!ht_coder_reads(c)) {
		ht_put(c->out, *s, n);
		return;
	}
	to = ht_alloc(c->arena, n + 1);
	ht_code_bytes(c, to, n);
	to[n] = 0;
	if (strlen(to) != n)
		c->wrong = "a text has a zero in it";
	*s = to;
}

void ht_code_integers(struct ht_coder *c, int64_t **list, size_t *n)
{
	ht_code_count(c, n, 8);
	HT_CODE_LIST(c, *list, *n);
	for (size_t i = 0; i < *n; i++) {
		uint64_t v = (uint64_t)(*list)[i];

		ht_code_number(c, &v);
		(*list)[i] = (int64_t)v;
	}
}

const char *ht_coder_end(const struct ht_coder *c)
{
	if (c->wrong)
		return c->wrong;
	return c->n ? "something follows it" : NULL;
}
