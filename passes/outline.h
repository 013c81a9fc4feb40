/* outline: a part of a graph becomes a function. */
#ifndef HT_PASSES_OUTLINE_H
#define HT_PASSES_OUTLINE_H

#include "ir/ir.h"

/* What is shared by all parts of a graph: room for so many nodes, by id. */
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

/* What surrounds the part: values of the graph that are the function's arguments. */
struct ht_outline {
	struct ht_outlines *shared;
	void *of;
	/* The number of the argument that `v` is; -1: the part computes it; -2: the part cannot have it. */
	int32_t (*argument)(void *of, struct ht_value v);
	enum ht_dtype (*type)(void *of, int32_t arg);
	/* Whether the part waits for `n`, which is in it then. */
	bool (*waits)(void *of, struct ht_node *n);
	int32_t args; /* that the function has in any case; argument() may number more */
};

/* A new function of the library whose results are `ret`; it computes what they need up to its arguments.
 * NULL: the part needs a value that it cannot have. */
struct ht_function *ht_outline(const struct ht_outline *o, struct ht_str name,
	const struct ht_value *ret, int32_t rets, struct ht_node *const *wait, int32_t waits);

/* Gives `f` arguments that it does not take, until it has so many. */
void ht_outline_fill(const struct ht_outline *o, struct ht_function *f, int32_t args);

/* Adds argument `i`, or a result, to a function; *end: the end of its list, which moves on. */
struct ht_value ht_function_add_arg(
	struct ht_function *f, struct ht_port ***end, enum ht_dtype t, int32_t i);
void ht_function_add_ret(struct ht_function *f, struct ht_port ***end, struct ht_value v);

/* List attributes of types, and attributes that name functions. */
void ht_attr_set_types(struct ht_node *n, const char *name, const enum ht_dtype *t, int32_t count);
void ht_attr_set_function(struct ht_node *n, const char *name, struct ht_str function);

#endif
