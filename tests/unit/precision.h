/* A graph in the making, and what it takes to decide about it. */
#ifndef HT_TEST_PRECISION_H
#define HT_TEST_PRECISION_H

#include "ir/ir.h"
#include "passes/passes.h"
#include "passes/precision/precision.h"

#include <string.h>

struct bench {
	struct ht_arena arena, scratch;
	struct ht_diags diags;
	struct ht_graph *g;
	struct ht_entry entry;
	struct ht_decisions decisions;
};

static void start(struct bench *b)
{
	memset(b, 0, sizeof *b);
	ht_arena_init(&b->arena, NULL);
	ht_arena_init(&b->scratch, NULL);
	ht_diags_init(&b->diags);
	b->g = ht_graph_new(&b->arena);
	b->g->entries = &b->entry;
	b->decisions.arena = &b->arena;
}

static void end(struct bench *b)
{
	ht_diags_release(&b->diags);
	ht_arena_release(&b->scratch);
	ht_arena_release(&b->arena);
}

#endif
