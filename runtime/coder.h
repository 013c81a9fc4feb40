/* Serialisation of structures.  One function per structure serves reading and writing, so that
 * both agree.  Numbers have 8 bytes, low byte first; a text is its length and its bytes; a list
 * its length and its elements. */
#ifndef HT_CODER_H
#define HT_CODER_H

#include "base/base.h"

struct ht_coder {
	struct ht_buf *out; /* writing */
	const uint8_t *p;   /* reading: the bytes that are left */
	size_t n;
	struct ht_arena *arena;
	const char *wrong; /* reading: the first error, or NULL */
};

static inline bool ht_coder_reads(const struct ht_coder *c)
{
	return !c->out;
}
void ht_code_bytes(struct ht_coder *c, void *p, size_t n);
void ht_code_number(struct ht_coder *c, uint64_t *v);
/* The number of elements that follow, each of at least `least` bytes.  A number is refused if
 * the remaining bytes could not hold so many. */
void ht_code_count(struct ht_coder *c, size_t *n, size_t least);
void ht_code_text(struct ht_coder *c, const char **s);
void ht_code_integers(struct ht_coder *c, int64_t **list, size_t *n);
/* NULL, or the error in what was read; bytes behind the end are an error too. */
const char *ht_coder_end(const struct ht_coder *c);

/* Allocates a list that is being read. */
#define HT_CODE_LIST(c, list, n)                                                                   \
	do {                                                                                       \
		if (ht_coder_reads(c))                                                             \
			(list) = ht_alloc((c)->arena, (n) * sizeof *(list) + 1);                   \
	} while (0)

#endif
