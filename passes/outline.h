/* outline: a part of a graph becomes a function. */
#ifndef HT_PASSES_OUTLINE_H
#define HT_PASSES_OUTLINE_H

#include "ir/ir.h"

/* Shared by all parts of a graph: arrays for so many nodes, by id. */
struct ht_outlines {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_node **copy; /* NULL between outlines */
	bool *met;             /* false between outlines */
	struct ht_node **touched, **stack;
	size_t touched_cap, stack_cap;
};
void ht_outlines_init(
	struct ht_outlines *o, struct ht_graph *g, size_t ids, struct ht_arena *scratch);

/* The surroundings of the part: values of the graph that are the function's arguments. */
struct ht_outline {
	struct ht_outlines *shared;
	void *of;
	/* The number of argument `v`; -1: the part computes it; -2: the part cannot have it. */
	int32_t (*argument)(void *of, struct ht_value v);
	enum ht_dtype (*type)(void *of, int32_t arg);
	/* Whether the part waits for `n`, which then belongs to it. */
	bool (*waits)(void *of, struct ht_node *n);
	int32_t args; /* the least number of arguments; argument() may add more */
};

/* A new function of the library that returns `ret`, and computes all values that these need up
 * to its arguments.  NULL: the part needs a value that it cannot have. */
struct ht_function *ht_outline(const struct ht_outline *o, struct ht_str name,
	const struct ht_value *ret, int32_t rets, struct ht_node *const *wait, int32_t waits);

/* Adds unused arguments to `f` until it has so many. */
void ht_outline_fill(const struct ht_outline *o, struct ht_function *f, int32_t args);

/* Adds argument `i`, or a result, to a function; *end is the end of its list, which advances. */
struct ht_value ht_function_add_arg(
	struct ht_function *f, struct ht_port ***end, enum ht_dtype t, int32_t i);
void ht_function_add_ret(struct ht_function *f, struct ht_port ***end, struct ht_value v);

/* Sets list attributes of types, and attributes that name functions. */
void ht_attr_set_types(struct ht_node *n, const char *name, const enum ht_dtype *t, int32_t count);
void ht_attr_set_function(struct ht_node *n, const char *name, struct ht_str function);

#endif
