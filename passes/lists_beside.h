/* lists_beside: a value beside each value of some lists, such as the number of elements.  Nodes that pass on such a list, branches and
 * loops pass on the value with it. */
#ifndef HT_LISTS_BESIDE_H
#define HT_LISTS_BESIDE_H

#include "passes/lists.h"

/* One value of a list, and what is beside it. */
struct ht_beside_pair {
	struct ht_value list, value;
	struct ht_list *of;
};

struct ht_beside_part;
struct ht_beside {
	struct ht_lists *l;
	bool (*has)(const struct ht_beside *x,
		const struct ht_list *of); /* whether a value is beside those of the list */
	void (*change)(struct ht_beside_part *p, struct ht_node *n); /* an op on such a list */
	struct ht_type type;                                         /* of the values */
	struct ht_beside_pair *pair;
	size_t n, cap;
	struct ht_map of; /* by value of a list: number in `pair` + 1 */
};

/* One graph's part. */
struct ht_beside_part {
	struct ht_beside *x;
	struct ht_rw r;
	struct ht_node *
		*spare; /* nodes that only pass on a list, kept until all values are found */
	size_t spares, spare_cap;
};

/* Calls x->change() for the ops on such lists, in `g` and in the bodies that it runs, and adds the values to its branches and loops.
 * x->l, has, change and type must be set, all else zero. */
void ht_beside_add(struct ht_beside *x, struct ht_graph *g);

struct ht_value ht_beside_of(struct ht_beside *x, struct ht_value list);
void ht_beside_set(struct ht_beside *x, struct ht_value list, struct ht_value value);
/* `n` becomes an identity of its list, with another value beside it, and is removed in the end. */
void ht_beside_hand_on(struct ht_beside_part *p, struct ht_node *n, struct ht_value value);

#endif
