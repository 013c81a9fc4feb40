/* functional: shared by its two halves, loops and branches. */
#ifndef HT_PASSES_FUNCTIONAL_H
#define HT_PASSES_FUNCTIONAL_H

#include "passes/outline.h"

/* The graph whose control flow is converted. */
struct functional {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_outlines outlines;
	size_t ids; /* ids that arrays have room for, including nodes that the pass makes */
};

/* Each converts what it can of the graph, which must be in order and have types.  The caller
 * sorts the graph afterwards. */
void ht_functional_loops(struct functional *f);
void ht_functional_branches(struct functional *f);

/* Whether a node only routes a value: Switch, Merge, Enter, Exit, NextIteration, LoopCond. */
bool ht_routes(const struct ht_node *n);
bool ht_is_exit(const struct ht_node *n);
bool ht_is_loop_condition(const struct ht_node *n);
/* "a/b" of a name "a/b/c"; the whole name if it has no scope. */
struct ht_str ht_scope_of(struct ht_str name);
/* A node that replaces control flow which `from` was part of, with a name in from's scope. */
struct ht_node *ht_functional_node(
	struct functional *f, struct ht_str type, const struct ht_node *from);

#endif
