/* recursion: copies of recursive functions, including the functions that their branches and
 * loops run. */
#ifndef HT_PASSES_RECURSION_H
#define HT_PASSES_RECURSION_H

#include "passes/rewrite.h"

/* The copies that belong to one call from outside. */
struct ht_recursion_copies {
	struct ht_str original; /* the function that this call names, and */
	struct ht_str name;     /* its copy: ht_function.recursion of all */
	struct ht_map of;       /* copies of functions that are called by name, by their
				 * original's name */
};

/* A copy of `f`, which is called by name, in `library`, without copies of the functions that it
 * runs. */
struct ht_function *ht_recursion_copy(struct ht_recursion_copies *r, struct ht_graph *library,
	const struct ht_function *f, const struct ht_attr *attrs);
/* Makes call `n` name function `f`, a copy. */
void ht_recursion_name(struct ht_node *n, const struct ht_function *f);
/* A new function that only calls `f`, which is body `i` of the branch or loop `n`. */
struct ht_function *ht_recursion_caller(
	const struct ht_node *n, int i, const struct ht_function *f);
/* Whether `n` calls a recursive function from outside of the recursion. */
bool ht_enters_recursion(const struct ht_node *n);
/* Removes arguments that have one constant, variable or table in all calls: the functions get
 * these themselves. */
void ht_recursion_push_constants(struct ht_node *n, struct ht_arena *scratch);
/* Runs a pipeline on all functions of the recursion that are called by name. */
enum ht_status ht_recursion_run(
	const struct ht_node *n, const struct ht_pass_context *c, const char *pipeline);

/* named_calls.c: calls of recursive functions, in the program and its functions, become
 * StatefulPartitionedCall if they are nodes of the function's type. */
void ht_name_recursive_calls(struct ht_graph *g, struct ht_arena *scratch);

/* bodies.c: a node of `g` with the value that `v` has outside: a constant, or the handle of a
 * variable or table. */
struct ht_node *ht_same_inside(struct ht_graph *g, struct ht_value v);
bool ht_has_same_inside(struct ht_value v);
/* Keeps the chosen ports, or items of list attributes, and removes the others. */
void ht_keep_ports(struct ht_port **p, const bool *keep);
void ht_keep_items(struct ht_node *n, const char *attr, const bool *keep, int32_t count);
/* Keeps the chosen operands of a branch, loop or call, by argument, likewise. */
void ht_keep_operands(struct ht_node *n, const bool *keep);

#endif
