/* minimal: finds a small set of units that have to stay in float32, by asking which sets pass.
 *
 * Each function here is a pure function of the answers so far.  Every call begins from the start: it asks for sets in an order
 * that depends on earlier answers only, and ends at the first set whose answer is not known yet.  The caller finds that
 * answer, stores it, and calls again.  So a search can be interrupted at any moment and resumed from the stored answers. */
#ifndef HT_MINIMAL_H
#define HT_MINIMAL_H

#include "base/base.h"

enum ht_answer { HT_ANSWER_UNKNOWN, HT_ANSWER_PASS, HT_ANSWER_FAIL };

/* Up to so many units the set is shown to have the fewest members. */
enum { HT_SMALLEST_UNITS = 16 };
/* So many points of a frontier take four answers. */
enum { HT_FRONTIER_POINTS = 15 };

/* A set of units is an array of a byte for each unit: 1 if the unit is in the set. */
struct ht_minimal {
	size_t units;
	/* A permutation of the units: those that most likely have to stay in float32 come first. */
	const uint32_t *rank;
	/* By unit: the number of its region, which is below `units`.  The search first finds out which regions are needed, then which of
	 * their units.  NULL: there are no regions. */
	const uint32_t *region;
	/* Sets that may pass and are tried first. */
	const uint8_t *const *candidate;
	size_t candidates;
	/* Sets of which each is cheaper than the next one, and has larger errors: the first of them that passes is found by bisection. */
	const uint8_t *const *frontier;
	size_t points;
	/* Whether the model keeps the tolerances if the units of `kept` are in float32 and all others are low. */
	enum ht_answer (*ask)(void *self, const uint8_t *kept);
	void *self;
};

enum ht_found {
	HT_FOUND, /* the search has ended with a set */
	HT_ASKED, /* the answer for the set that `ask` was called with last is not known yet */
	HT_NO_SET /* even the set of all units fails */
};

/* Finds a set that passes, and that fails without any one of its members.  If passing is monotone (each superset of a set that passes
 * passes, too), then it needs fewer than 3 k log2(n) + 20 answers where exactly the supersets of a set of k among n units pass, with one
 * candidate and up to HT_FRONTIER_POINTS points.  No set with fewer members passes
 *   - if the error of the model is the sum of the errors of the low units, and `rank` has units with large errors first, or
 *   - if passing is monotone, there are at most HT_SMALLEST_UNITS units, and the search for a smaller one did not give up after 256 answers.
 * If passing is monotone, the set has at most as many members as that of ht_bisection_find().  `a` is working memory. */
enum ht_found ht_minimal_find(const struct ht_minimal *m, struct ht_arena *a, uint8_t *kept);

/* ---- peers.c: the rules of other tools, for comparisons ---- */

/* The rule of `polygraphy debug precision --mode bisect`: the first (`reverse`: the last) n units in the order of the graph stay in
 * float32, and n is found by bisection. */
enum ht_found ht_bisection_find(const struct ht_minimal *m, bool reverse, uint8_t *kept);
/* The rule of auto_mixed_precision in onnxconverter-common: units in the order of the graph are cut into segments.  The largest segment
 * goes low, together with those that did before.  If the set then fails, the segment is halved; a segment of one unit stays in
 * float32. */
enum ht_found ht_segments_find(const struct ht_minimal *m, struct ht_arena *a, uint8_t *kept);

#endif
