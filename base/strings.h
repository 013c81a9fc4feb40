/* strings: the strings that a context of a program knows, each of them once and with a number (docs/image-memory.md).
 *
 * The strings themselves are two buffers: where each one ends, and the bytes of all of them one behind the other.  A tensor
 * of strings is a tensor of their numbers.  Number 0 is the empty string.  The first numbers are those of the program's
 * constants; the strings that a run is given follow, and the next run forgets them. */
#ifndef HT_STRINGS_H
#define HT_STRINGS_H

#include "base/base.h"

struct ht_strings;

/* The strings of a program: `n` of them, at least the empty one, which is the first.  end[i], at any alignment, is where string i
 * ends in `bytes`; no end is before the end of the string in front.  Both are copied.  NULL: out of memory. */
struct ht_strings *ht_strings_new(const void *end, uint64_t n, const char *bytes);
void ht_strings_free(struct ht_strings *s);
/* Forgets the strings that were added; their memory is kept for those of the next run. */
void ht_strings_forget(struct ht_strings *s);
/* The number of a string, which is added if it is new.  -1: out of memory, or there are 2^31 strings. */
int64_t ht_strings_number(struct ht_strings *s, struct ht_str text);
/* The number of a string; -1: it is not there. */
int64_t ht_strings_find(const struct ht_strings *s, struct ht_str text);
uint64_t ht_strings_count(const struct ht_strings *s);
/* The bytes that all strings take, with another one of `more` bytes. */
uint64_t ht_strings_bytes(const struct ht_strings *s, uint64_t more);
/* The string of a number, until the next one is added.  False: there is none. */
bool ht_strings_text(const struct ht_strings *s, int64_t number, struct ht_str *out);

#endif
