/* computed: sizes that a run computes of data (computed.c), for pass sizes. */
#ifndef HT_PASSES_COMPUTED_H
#define HT_PASSES_COMPUTED_H

#include "passes/rewrite.h"

/* computed_spans.c: between which numbers all elements of `v`, whole numbers, are; false: it is not known. */
struct ht_span {
	int64_t least, most;
};
bool ht_span_of(const struct ht_graph *g, struct ht_value v, struct ht_span *s);

/* computed_forms.c: ops whose sizes are computed become Where, and what gathers or scatters by it; types are known.  The first function
 * is about those that compute a size always.  The second is about those that may have a fixed one, and says whether it changed
 * some. */
void ht_expand_computing(struct ht_graph *g, struct ht_pass_context *c);
bool ht_expand_computed(struct ht_graph *g, struct ht_pass_context *c);

/* computed_pieces.c: slices that take one operand of a concatenation become that operand, and sums of padded parts a concatenation,
 * where their extents are not known.  Says whether it changed some; types have to be inferred again then. */
bool ht_take_pieces(struct ht_graph *g, struct ht_pass_context *c);

#endif
