/* What is told of lists while they are found (lists_told.c): by nodes (lists_find.c), and by what becomes known of other lists (lists.c). */
#ifndef HT_LISTS_TOLD_H
#define HT_LISTS_TOLD_H

#include "ir/infer.h"
#include "passes/by_value.h"
#include "passes/lists.h"

bool ht_is_list(struct ht_value v);
/* The list that stands for `x`, which was found to be the same as others. */
struct ht_list *ht_list_standing(struct ht_list *x);

/* Whether sizes of the program are open. */
bool ht_lists_have_sizes(const struct ht_lists *l);
/* Whether what inference knows of elements counts: where sizes are open, or lists have extents. */
bool ht_lists_ask_elements(const struct ht_lists *l);
/* The dimension, or HT_DIM_UNKNOWN: one that is no number tells something if it is an open size of the program. */
int64_t ht_lists_told_dim(const struct ht_lists *l, int64_t dim);
struct ht_shape ht_lists_told_shape(const struct ht_lists *l, struct ht_shape s);
/* The length that an operand states, as a dimension. */
int64_t ht_list_stated_length(const struct ht_lists *l, struct ht_value v);

/* ---- facts ---- */

/* Its elements have this type; HT_INVALID tells nothing. */
void ht_list_tell_dtype(struct ht_list *x, enum ht_dtype t);
/* It has so many elements; one that has several lengths grows. */
void ht_list_tell_length(struct ht_list *x, int64_t n);
/* Its maker states that it has at most so many; a negative number tells nothing. */
void ht_list_tell_limit(struct ht_list *x, int64_t n);
/* An element has this shape.  A dimension that is not a number adds no information. */
void ht_list_tell_shape(struct ht_lists *l, struct ht_list *x, struct ht_shape s);
/* An operand that states the elements' shape, with -1 for what it does not say; a scalar says nothing. */
void ht_list_tell_stated(struct ht_lists *l, struct ht_list *x, struct ht_value stated);
/* A node of this graph makes it. */
void ht_list_tell_home(struct ht_lists *l, struct ht_list *x, const struct ht_graph *home);
/* `v` becomes an element. */
void ht_list_tell_element(const struct ht_lists *l, struct ht_list *x, struct ht_value v);
/* The lists of both values, which may be none, are one. */
void ht_list_tell_same(struct ht_lists *l, struct ht_value a, struct ht_value b);
/* The list of the value, which may be none, cannot become a tensor. */
void ht_list_tell_bad(struct ht_lists *l, struct ht_value v);

#endif
