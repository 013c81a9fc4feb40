/* Which nodes of a graph cannot be lowered, and why. */
#ifndef HT_LOWER_REFUSALS_H
#define HT_LOWER_REFUSALS_H

#include "ir/ir.h"

#define HT_LOWER_RANK 8 /* tensors of a higher rank are not lowered */

bool ht_can_lower(const struct ht_node *n);
/* Why no node of this op can be lowered, in words; NULL: some can, or the op is unknown. */
const char *ht_never_lowered(const struct ht_node *n);

/* One cause why a graph cannot be lowered. A node whose operand cannot be computed counts as
 * blocked by that operand's cause, unless it could not be lowered in any case. */
struct ht_refusal {
	struct ht_str type, first; /* op type, and the first node of it */
	struct ht_str part;        /* the innermost name scope that contains them all; may be
				    * empty */
	const char *why;
	bool open_shape;     /* `why` is a shape that is not known */
	size_t nodes;        /* nodes of this type that are refused for this reason */
	struct ht_str *name; /* their names; NULL: only the name of the first */
	size_t cap;          /* of `name` */
	size_t blocks;       /* nodes that depend on them; a node counts for one cause only */
};
struct ht_refusals {
	struct ht_refusal *item;
	size_t n, cap;
};
/* Finds the causes in a graph, in its order, or in one of its entries. The result is in `a`. */
void ht_find_refusals(const struct ht_graph *g, const struct ht_entry *e, struct ht_arena *a,
	struct ht_refusals *out);
/* "is control flow, … (2 nodes in 'model/rnn'; 41 behind them cannot be computed either)" */
void ht_refusal_print(const struct ht_refusal *r, struct ht_buf *b);

#endif
