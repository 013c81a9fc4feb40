/* functional: what its two halves, loops and branches, share. */
#ifndef HT_PASSES_FUNCTIONAL_H
#define HT_PASSES_FUNCTIONAL_H

#include "passes/outline.h"

/* The graph whose control flow is converted. */
struct functional {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_outlines outlines;
	size_t ids; /* room by id: nodes that the pass makes included */
};

/* Each makes what it can of the graph, which is in order and has types; it is to be sorted afterwards. */
void ht_functional_loops(struct functional *f);
void ht_functional_branches(struct functional *f);

/* A node only says where a value goes: Switch, Merge, Enter, Exit, NextIteration, LoopCond. */
bool ht_routes(const struct ht_node *n);
bool ht_is_exit(const struct ht_node *n);
bool ht_is_loop_condition(const struct ht_node *n);
/* "a/b" of a name "a/b/c"; the whole name when it has no scope. */
struct ht_str ht_scope_of(struct ht_str name);
/* A node for control flow that `from` was part of, with a name in its scope. */
struct ht_node *ht_functional_node(
	struct functional *f, struct ht_str type, const struct ht_node *from);

#endif
