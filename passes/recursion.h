/* recursion: functions that come to call themselves get copies, which branches and loops have of their functions too. */
#ifndef HT_PASSES_RECURSION_H
#define HT_PASSES_RECURSION_H

#include "passes/rewrite.h"

/* The copies that one call from outside enters. */
struct ht_recursion_copies {
	struct ht_str original; /* the function that this call names, and */
	struct ht_str name;     /* its copy: ht_function.recursion of all */
	struct ht_map of;       /* copies that calls name, by their original's name */
};

/* A copy of `f` that calls name, in `library`, without those of functions that it runs. */
struct ht_function *ht_recursion_copy(struct ht_recursion_copies *r, struct ht_graph *library,
	const struct ht_function *f, const struct ht_attr *attrs);
/* Names function `f`, a copy, in the call `n`. */
void ht_recursion_name(struct ht_node *n, const struct ht_function *f);
/* A new function that calls `f`, body `i` of the branch or loop `n`, and does nothing else. */
struct ht_function *ht_recursion_caller(
	const struct ht_node *n, int i, const struct ht_function *f);
/* Whether `n` calls a function that recurs, and is not within the recursion. */
bool ht_enters_recursion(const struct ht_node *n);
/* Arguments that have one constant, variable or table in all calls go: these are in the functions themselves then. */
void ht_recursion_push_constants(struct ht_node *n, struct ht_arena *scratch);
/* Runs a pipeline on all functions that calls of the recursion name. */
enum ht_status ht_recursion_run(
	const struct ht_node *n, const struct ht_pass_context *c, const char *pipeline);

/* named_calls.c: calls of functions that recur, in the program and its functions, become StatefulPartitionedCall where they are
 * nodes of the function's type. */
void ht_name_recursive_calls(struct ht_graph *g, struct ht_arena *scratch);

/* bodies.c: a node of `g` that is what `v` is outside: a constant, or the handle of a variable or table. */
struct ht_node *ht_same_inside(struct ht_graph *g, struct ht_value v);
bool ht_has_same_inside(struct ht_value v);
/* Leaves ports, and items of list attributes, that are to be kept. */
void ht_keep_ports(struct ht_port **p, const bool *keep);
void ht_keep_items(struct ht_node *n, const char *attr, const bool *keep, int32_t count);
/* Operands of a branch, loop or call, by argument, likewise. */
void ht_keep_operands(struct ht_node *n, const bool *keep);

#endif
