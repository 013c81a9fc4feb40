/* strides: memory whose strides follow the sizes of the run (struct view, `ends`). */
#ifndef HT_LOWER_STRIDES_H
#define HT_LOWER_STRIDES_H

#include "lower/inside.h"

/* A number that depends on sizes of the graph; the kernel takes them as parameters. */
int32_t kb_number(struct kernel_build *k, const struct ht_size_expr *e);
/* How far two elements are apart that are neighbours along the axis. */
int32_t kb_stride(struct kernel_build *k, const struct view *v, int32_t axis);
/* How many indices each axis has in memory: `end` of a space that numbers elements as they lie there. */
const int32_t *kb_ends(struct kernel_build *k, const struct view *v);
/* `s` is the space of the stage's loops.  Has it number elements as they lie in the memory of `v`, and ends the loops where that ends. */
void kb_number_as_held(struct kernel_build *k, struct space *s, const struct view *v);
/* The offset of element `s` of a view, which has `ends` if it is an open input or output; `from` is the view's own offset, or 0. */
int32_t kb_offset(
	struct kernel_build *k, const struct view *v, const struct space *s, int64_t from);
/* Adds to the guard of `s` that its indices are no places of other elements; with `all`, that memory has them. */
void kb_guard_ends(struct kernel_build *k, const struct view *v, struct space *s, bool all);
/* Makes `view` that of an input or output with these open axes; NULL: it has none. */
void lower_open_view(const struct lower *l, struct view *view, const struct ht_open_axis *open);
/* Whether the tensor that `n` makes of an input is read in the input's own memory, which becomes *view: all that read it read only what the
 * run has. */
bool lower_reads_input(struct lower *l, const struct ht_node *n, struct view *view);
/* Whether the kernel that stores `n` can do so in memory whose strides follow the run. */
bool lower_stores_by_coordinates(const struct lower *l, const struct ht_node *n);
/* Whether operand `arg` of `n`, which makes an output of it, is a concatenation that nothing else reads, and is made in the output's memory. */
bool lower_takes_memory(struct lower *l, const struct ht_node *n, int arg);
/* concat.c: whether a concatenation and its parts may be in memory whose strides follow the run along these axes. */
bool lower_joins_open(const struct ht_node *n, const struct ht_open_axis *open);
/* Sets `ends` of the view of a temporary tensor, if the kernel that stores it and all that read it can do that. */
void lower_follow_run(const struct lower *l, struct ht_value v, struct view *view);

#endif
