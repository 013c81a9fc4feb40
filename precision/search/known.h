/* known: the answers of one search, and what follows from them if passing is monotone: a set passes if a set within it does, and fails if a
 * set that it is within does. */
#ifndef HT_SEARCH_KNOWN_H
#define HT_SEARCH_KNOWN_H

#include "precision/search/minimal.h"

/* Sets that were asked for. */
struct ht_sets {
	struct ht_asked {
		uint8_t *set;
		uint64_t *bits; /* of 64 units each */
		size_t size;
	} *of;
	size_t n, cap;
};

struct ht_known {
	const struct ht_minimal *m;
	struct ht_arena *a;
	struct ht_sets passed, failed;
};

/* Asks for the set itself. */
enum ht_answer ht_known_ask(struct ht_known *k, const uint8_t *set);
/* Asks for the set only if no earlier answer decides. */
enum ht_answer ht_known_infer(struct ht_known *k, const uint8_t *set);
size_t ht_set_size(const struct ht_minimal *m, const uint8_t *set);

/* ---- smallest.c ---- */

/* Replaces `kept`, which passes, by a set with the fewest members that pass, if passing is monotone.  If 256 answers do not decide, it is
 * the smallest set so far.  Leaves it if there are more than HT_SMALLEST_UNITS units. */
enum ht_found ht_smallest_find(struct ht_known *k, uint8_t *kept);

#endif
