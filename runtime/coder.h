/* Structures as bytes.  One function describes a structure for both directions, so that they cannot
 * differ: numbers are 8 bytes, the low one first; a text is its length and its bytes; a list its length
 * and its elements. */
#ifndef HT_CODER_H
#define HT_CODER_H

#include "base/base.h"

struct ht_coder {
	struct ht_buf *out; /* writing */
	const uint8_t *p;   /* reading: what is left */
	size_t n;
	struct ht_arena *arena;
	const char *wrong; /* reading: the first thing that is, or NULL */
};

static inline bool ht_coder_reads(const struct ht_coder *c)
{
	return !c->out;
}
void ht_code_bytes(struct ht_coder *c, void *p, size_t n);
void ht_code_number(struct ht_coder *c, uint64_t *v);
/* Elements to come, each of at least `least` bytes: no more are believed than could be there. */
void ht_code_count(struct ht_coder *c, size_t *n, size_t least);
void ht_code_text(struct ht_coder *c, const char **s);
void ht_code_integers(struct ht_coder *c, int64_t **list, size_t *n);
/* NULL, or what is wrong with what was read, to its end. */
const char *ht_coder_end(const struct ht_coder *c);

/* Room for a list that is read. */
#define HT_CODE_LIST(c, list, n)                                                                   \
	do {                                                                                       \
		if (ht_coder_reads(c))                                                             \
			(list) = ht_alloc((c)->arena, (n) * sizeof *(list) + 1);                   \
	} while (0)

#endif
