/* functional_branches: in which branches the values of a graph are alive. */
#ifndef HT_PASSES_FUNCTIONAL_BRANCHES_H
#define HT_PASSES_FUNCTIONAL_BRANCHES_H

#include "passes/functional.h"

/* The predicates under which a node is alive; NULL: always. */
struct context {
	struct ht_value pred;
	bool taken;
	int depth; /* from 1 */
	struct context *outer;
	struct context *next; /* in the list of the contexts made for this predicate */
};

/* Merges of one predicate in one context that become results of one node. */
struct branch {
	struct context *outer;
	struct ht_value pred;
	struct ht_node **merge;
	int32_t merges;
	struct branch *beside; /* the next one of this depth */
};

struct branches {
	struct functional *f;
	struct context **of;   /* by node id */
	bool *odd;             /* by node id: its context is unknown */
	bool *indexed;         /* by node id of a Merge: its value_index is used */
	struct context **made; /* by node id of a predicate */
	struct branch **at;    /* by depth of the outer context */
	size_t depths;
	/* The branch that is being outlined. */
	const struct branch *looked;
	struct context *inner;
	struct ht_map number; /* by the value outside of the branch: its argument + 1 */
	struct ht_value *arg;
	int32_t args;
	size_t arg_cap;
	struct ht_node *index[2]; /* values of value_index; NULL: not made yet */
};

/* Fills `of`, `odd`, `indexed` and `at`. */
void ht_find_branches(struct branches *x);

/* The predicate `v` without identities. */
struct ht_value ht_predicate(struct ht_value v);
/* The context in `outer` where `pred` is `taken`. */
struct context *ht_context_within(
	struct branches *x, struct context *outer, struct ht_value pred, bool taken);
/* A value's context: that of a Switch's result is one deeper than the Switch. */
struct context *ht_context_of(struct branches *x, struct ht_value v);
bool ht_context_is_within(const struct context *c, const struct context *outer);

#endif
