/* strings: the strings of a context, each stored once and identified by a number
 * (docs/image-memory.md).
 *
 * Two buffers hold the strings: the offsets where each one ends, and the bytes of all of them,
 * concatenated.  A tensor of strings is a tensor of their numbers.  Number 0 is the empty string.
 * The first numbers belong to the constants of the program; the strings of a run's inputs follow,
 * and the next run forgets them. */
#ifndef HT_STRINGS_H
#define HT_STRINGS_H

#include "base/base.h"

struct ht_strings;

/* The strings of a program: `n` of them, of which the first is the empty one.  end[i], at any
 * alignment, is the offset in `bytes` where string i ends; the offsets never decrease.  Both arrays
 * are copied.  NULL: out of memory. */
struct ht_strings *ht_strings_new(const void *end, uint64_t n, const char *bytes);
void ht_strings_free(struct ht_strings *s);
/* Forgets the strings that were added after the program's; their memory is kept for the next
 * run. */
void ht_strings_forget(struct ht_strings *s);
/* The number of a string, which is added if it is new.  -1: out of memory, or there are 2^31
 * strings. */
int64_t ht_strings_number(struct ht_strings *s, struct ht_str text);
/* The number of a string; -1: it is not there. */
int64_t ht_strings_find(const struct ht_strings *s, struct ht_str text);
uint64_t ht_strings_count(const struct ht_strings *s);
/* The bytes that all strings take, with another one of `more` bytes. */
uint64_t ht_strings_bytes(const struct ht_strings *s, uint64_t more);
/* The string of a number, until the next one is added.  False: there is none. */
bool ht_strings_text(const struct ht_strings *s, int64_t number, struct ht_str *out);

#endif
