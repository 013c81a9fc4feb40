/* Lists of tensors in a graph and in the bodies of its branches and loops: which values are one
 * list, and its properties.
 *
 * A list that grows becomes a list of a fixed length and its number of elements (lists_grow.c);
 * a list whose elements have several sizes becomes one of equal elements and one of their sizes (lists_varied.c);
 * a list of known length and element shape becomes a tensor (lists_dense.c). */
#ifndef HT_LISTS_H
#define HT_LISTS_H

#include "passes/rewrite.h"

/* A list over its lifetime: all values that nodes pass on to each other, changed or not. */
struct ht_list {
	struct ht_list *same; /* the one that it was found to be; NULL: it stands for itself */
	enum ht_dtype dtype;  /* of its elements; HT_INVALID: not known */
	enum ht_dtype
		rows; /* of rows of ragged tensors, which its elements are as variants; HT_INVALID: they are none */
	int64_t length; /* -1: not known; an open size is a dimension of the program */
	int64_t room;   /* of a list that grows: the most elements that it gets */
	int64_t limit;  /* what it may have at most, as its maker states; -1: nothing is stated */
	struct ht_shape shape; /* of each element */
	/* Bit i: elements have several extents along axis i, or one that a body computes each time that it runs, and so no common one. */
	uint32_t varied;
	int64_t most[HT_MAX_RANK]; /* by axis: the largest extent that is told, 0 if none is */
	const struct ht_graph *
		home; /* the graph with the nodes that make the list; the whole program's if these are in several graphs */
	/* The value of each of its elements, if it was empty at first; NULL: no constant, or no
	 * element was set. */
	const struct ht_tensor *constant;
	/* Likewise of vectors and scalars of sizes that each run has, as dimensions; rank -1: they are not known, or constant. */
	struct ht_shape sizes;
	bool various; /* its elements are not known to be one constant, or the same sizes */
	bool empty;   /* no element is read that was not set before */
	bool whole;   /* an op takes or sets several of its elements, or adds to them */
	bool waits;   /* it becomes a tensor when no other list can */
	bool unsure;  /* an element has extents that are computed, and not numbered yet */
	bool held; /* whether its elements have several sizes is known when those that bodies compute have numbers */
	bool joined; /* its elements are concatenated, so they are not scalars */
	bool grows;  /* its length changes, or is computed */
	bool computed; /* its length is computed, and may prove to be an open size once other lists are tensors */
	bool open;  /* it is made from a tensor of unknown length */
	bool parts; /* it is made of parts of a tensor */
	/* resized: its length is set; shrinks: several times, and it never gets more elements so; extended: an element behind its end may be set; popped: it loses elements */
	bool resized, shrinks, extended, popped;
	bool summed; /* lists are added to each other */
	bool bad;    /* its elements have no common rank, or an unknown op handles it */
};

/* The room of a list that may have any number of elements. */
enum { HT_LIST_ROOM = 1024 };

/* Attribute of a TensorListReserve: the list is empty, and elements that were not set are not read. */
#define HT_LIST_EMPTY "_empty"
/* Attribute of TensorListSetItem and TensorListScatterIntoExistingList: new elements are added
 * to the existing ones. */
#define HT_LIST_ADDS "_adds"

struct ht_lists {
	struct ht_pass_context *c;
	const struct ht_graph *g; /* whose lists these are, and of its bodies */
	struct ht_map
		known; /* ht_infer_all_known(), where sizes are open, or lists have extents of shapes */
	bool numbered;    /* sizes that bodies compute have numbers */
	bool settled;     /* nothing more becomes known of computed lengths */
	bool shapes;      /* there are lists of single extents of shapes */
	bool computes;    /* sizes that the run computes may still be added (computed.c) */
	struct ht_map of; /* by value */
};

/* Fills l->of for the lists of `g`, and of the bodies that it runs. */
void ht_lists_find(struct ht_lists *l, struct ht_graph *g);
/* The list that `v` is, or was when lists were found; NULL: it is not a list. */
struct ht_list *ht_list_of(struct ht_lists *l, struct ht_value v);
/* Whether an op makes a list from operands that are not lists. */
bool ht_makes_list(const struct ht_node *n);
/* Whether the op's first operand or its result is a list that can become a tensor. */
bool ht_is_list_op(const struct ht_node *n);
/* Whether the list can become one tensor. */
bool ht_list_is_known(const struct ht_list *x);
/* Whether all elements, of which there may be none, are one constant, or the same sizes of the run. */
bool ht_list_has_one(const struct ht_list *x);
/* The shape of that tensor: the length, then the element's shape. */
struct ht_shape ht_list_shape(const struct ht_list *x, struct ht_arena *a);

/* lists_grow.c: lists that grow, in `g` and in the bodies that it runs, get a fixed length, and
 * beside each value its number of elements.  *changed: there were some; the caller must find
 * lists again. */
enum ht_status ht_lists_grow(struct ht_lists *l, struct ht_graph *g, bool *changed);

/* lists_items.c: elements that are read at constant places are what was set there. */
void ht_lists_hand_on_items(struct ht_graph *g, struct ht_pass_context *c);

/* lists_ragged.c: lists whose elements are rows of ragged tensors in variants, in `g` and in the bodies that it runs, get the rows as elements. */
void ht_lists_of_ragged(struct ht_graph *g, struct ht_pass_context *c);

/* lists_varied.c: lists of known length whose elements have several sizes, in `g` and in the bodies that it runs, get elements as long as
 * the longest, and beside each value a list of their extents.  *changed: there were some; the caller must find lists again. */
void ht_lists_split_sizes(struct ht_lists *l, struct ht_graph *g, bool *changed);

/* lists_shapes.c: known lists whose elements are shapes, in `g` and in the bodies that it runs, become a list of each extent alone.
 * *changed: there were some; the caller must find lists again. */
void ht_lists_split_shapes(struct ht_lists *l, struct ht_graph *g, bool *changed);

/* lists_dense.c: changes the nodes that handle known lists, in `g` and in the bodies that it
 * runs.  The lists' values must have the tensors' types. */
void ht_lists_make_dense(struct ht_lists *l, struct ht_graph *g);

#endif
