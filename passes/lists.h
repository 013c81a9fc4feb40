/* Lists of tensors in a graph and in the bodies of its branches and loops: which values are one list, and what is known of it.
 *
 * A list that grows becomes a list of a fixed length and the number of elements that it has (lists_grow.c); a list of known length
 * and shape of elements becomes a tensor (lists_dense.c). */
#ifndef HT_LISTS_H
#define HT_LISTS_H

#include "passes/rewrite.h"

/* A list through its life: all values that hand it on, changed or not, to each other. */
struct ht_list {
	struct ht_list *same; /* the one that it was found to be; NULL: it stands for itself */
	enum ht_dtype dtype;  /* of its elements; HT_INVALID: not known */
	int64_t length;       /* -1: not known; an open size is a dimension of the program */
	int64_t room;         /* of a list that grows: the most elements that it gets */
	int64_t limit; /* what it may have at most, as its maker states; -1: nothing is stated */
	struct ht_shape shape; /* of each element */
	/* What each of its elements is, of a list that was empty at first; NULL: no constant, or nothing is set. */
	const struct ht_tensor *constant;
	bool various;         /* its elements are not one constant, or are not seen to be */
	bool empty;           /* it was at first, and grew */
	bool waits;           /* it becomes a tensor when no other list does */
	bool joined;          /* its elements are put one after the other, so they are no scalars */
	bool grows;           /* its length changes, or is computed */
	bool open;            /* it is made of a tensor of unknown length */
	bool resized, popped; /* it gets another length at once; it loses elements */
	bool bad;             /* it has no one shape of elements, or something else handles it */
};

/* Room for so many elements has a list that may have any number. */
enum { HT_LIST_ROOM = 1024 };

/* Attribute of a TensorListReserve: the list is empty, and elements that were not set are not read. */
#define HT_LIST_EMPTY "_empty"
/* Attribute of TensorListSetItem and TensorListScatterIntoExistingList: elements are added to those that there are. */
#define HT_LIST_ADDS "_adds"

struct ht_lists {
	struct ht_pass_context *c;
	const struct ht_graph *g; /* whose lists these are, and of its bodies */
	struct ht_map known;      /* ht_infer_all_known(), where sizes are open */
	struct ht_map of;         /* by value */
};

/* Fills l->of for the lists of `g`, and of the bodies that it runs. */
void ht_lists_find(struct ht_lists *l, struct ht_graph *g);
/* The list that `v` is, or was when lists were found; NULL: it is none. */
struct ht_list *ht_list_of(struct ht_lists *l, struct ht_value v);
/* Whether an op makes a list of nothing that is one. */
bool ht_makes_list(const struct ht_node *n);
/* Whether the op is of a list, its first operand or its result, and can be of a tensor. */
bool ht_is_list_op(const struct ht_node *n);
/* Whether the list can be one tensor. */
bool ht_list_is_known(const struct ht_list *x);
/* The shape of that tensor: the length, then the element's. */
struct ht_shape ht_list_shape(const struct ht_list *x, struct ht_arena *a);

/* lists_grow.c: lists of `g`, and of the bodies that it runs, that grow get a fixed length, and beside each value the number of
 * elements.  *changed: there were some; they are to be found again. */
enum ht_status ht_lists_grow(struct ht_lists *l, struct ht_graph *g, bool *changed);

/* lists_dense.c: changes the nodes of `g`, and of the bodies that it runs, that handle known lists.  The
 * lists' values have the tensors' types. */
void ht_lists_make_dense(struct ht_lists *l, struct ht_graph *g);

#endif
