/* What of a graph cannot be lowered, and why. */
#ifndef HT_LOWER_REFUSALS_H
#define HT_LOWER_REFUSALS_H

#include "ir/ir.h"

bool ht_can_lower(const struct ht_node *n);
/* Why no node of this op is lowered, in words; NULL: some are, or nobody knows the op. */
const char *ht_never_lowered(const struct ht_node *n);

/* Why a graph cannot be lowered.  A node of which an operand cannot be computed is counted with what
 * that waits for, unless it could not be lowered anyhow. */
struct ht_refusal {
	struct ht_str type, first; /* op type, and the first node of it */
	struct ht_str part;        /* the name scope that all of them are in; may be empty */
	const char *why;
	bool open_shape;     /* `why` is a shape that is not known */
	size_t nodes;        /* of this type that are refused for this */
	struct ht_str *name; /* theirs; NULL: of the first alone */
	size_t cap;          /* of `name` */
	size_t blocks;       /* others behind them; each counts once in all */
};
struct ht_refusals {
	struct ht_refusal *item;
	size_t n, cap;
};
/* Of a graph in order, and of one of its entries; in `a`. */
void ht_find_refusals(const struct ht_graph *g, const struct ht_entry *e, struct ht_arena *a,
	struct ht_refusals *out);
/* "is control flow, … (2 nodes in 'model/rnn'; 41 behind them cannot be computed either)" */
void ht_refusal_print(const struct ht_refusal *r, struct ht_buf *b);

#endif
