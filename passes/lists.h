/* Lists of tensors whose length and shape of elements are known, found in a graph and in the bodies of its
 * branches and loops. */
#ifndef HT_LISTS_H
#define HT_LISTS_H

#include "passes/rewrite.h"

/* A list through its life: all values that hand it on, changed or not, to each other. */
struct ht_list {
	struct ht_list *same;  /* the one that it was found to be; NULL: it stands for itself */
	enum ht_dtype dtype;   /* of its elements; HT_INVALID: not known */
	int64_t length;        /* -1: not known */
	struct ht_shape shape; /* of each element */
	bool joined; /* its elements are put one after the other, so they are no scalars */
	bool bad;    /* it has no one length or shape, or something else handles it */
};

struct ht_lists {
	struct ht_pass_context *c;
	struct ht_map of; /* by value */
};

/* Fills l->of for the lists of `g`, and of the bodies that it runs. */
void ht_lists_find(struct ht_lists *l, struct ht_graph *g);
/* The list that `v` is, or was when lists were found; NULL: it is none. */
struct ht_list *ht_list_of(struct ht_lists *l, struct ht_value v);
/* Whether the op is of a list, its first operand or its result, and can be of a tensor. */
bool ht_is_list_op(const struct ht_node *n);
/* Whether the list can be one tensor. */
bool ht_list_is_known(const struct ht_list *x);
/* The shape of that tensor: the length, then the element's. */
struct ht_shape ht_list_shape(const struct ht_list *x, struct ht_arena *a);

/* lists_dense.c: changes the nodes of `g`, and of the bodies that it runs, that handle known lists.  The
 * lists' values have the tensors' types. */
void ht_lists_make_dense(struct ht_lists *l, struct ht_graph *g);

#endif
