/* cut: minimum cuts of networks with integer capacities.
 *
 * A vertex is on the source's or on the sink's side.  An arc u → v costs its capacity if u is on
 * the source's side and v on the sink's.  Among all cuts of least cost, the result is the one
 * with the smallest source's side (the vertices that the source still reaches after a maximum
 * flow).  It is unique, so it depends neither on the order of vertices and arcs nor on the
 * algorithm.
 *
 * Dinic's algorithm, for one connected part of the network after the other.  Memory is linear;
 * the code is not recursive. */
#ifndef HT_CUT_H
#define HT_CUT_H

#include "base/base.h"

/* An infinite capacity.  The sum of all others must stay below HT_CUT_MOST. */
#define HT_CUT_NEVER INT64_MAX
#define HT_CUT_MOST (INT64_C(1) << 61)

/* Ends of arcs that are not vertices. */
#define HT_CUT_SOURCE (UINT32_MAX - 1)
#define HT_CUT_SINK UINT32_MAX

struct ht_cut_arc;

struct ht_cut {
	struct ht_arena *arena;
	uint32_t vertices;
	struct ht_cut_arc *arc;
	size_t arcs, arc_cap;
	int64_t *terminal; /* by vertex: capacity from the source; negative: to the sink */
	size_t terminal_cap;
	int64_t base;      /* paid by every cut */
	bool *from_source; /* by vertex, when solved */
	uint32_t parts;    /* connected parts that had to be solved */
	uint32_t largest;  /* vertices of the largest of them */
};

void ht_cut_init(struct ht_cut *c, struct ht_arena *a);
uint32_t ht_cut_vertex(struct ht_cut *c);
/* Adds the arc u → v; either end may be HT_CUT_SOURCE or HT_CUT_SINK. */
void ht_cut_arc(struct ht_cut *c, uint32_t u, uint32_t v, int64_t capacity);
/* The least cost; HT_CUT_NEVER if every cut contains an arc of infinite capacity.  Works in
 * `scratch`. */
int64_t ht_cut_solve(struct ht_cut *c, struct ht_arena *scratch);
/* Whether a vertex (or HT_CUT_SOURCE, HT_CUT_SINK) is on the source's side. */
static inline bool ht_cut_from_source(const struct ht_cut *c, uint32_t v)
{
	return v == HT_CUT_SOURCE || (v != HT_CUT_SINK && c->from_source[v]);
}

#endif
