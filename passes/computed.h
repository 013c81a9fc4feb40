/* computed: sizes that a run computes from data (computed.c), for pass sizes. */
#ifndef HT_PASSES_COMPUTED_H
#define HT_PASSES_COMPUTED_H

#include "passes/rewrite.h"

/* computed_spans.c: a range that contains all elements of the integer tensor `v`; false:
 * unknown. */
struct ht_span {
	int64_t least, most;
};
bool ht_span_of(const struct ht_graph *g, struct ht_value v, struct ht_span *s);

/* computed_partition.c: ops that always compute a size become Where and ops that gather or scatter by it; types must be known. */
void ht_expand_computing(struct ht_graph *g, struct ht_pass_context *c);

/* computed_forms.c: likewise ops whose sizes may be constant.  The first function returns whether it changed some.  The second says whether a
 * node concatenates along an open axis, or may take a part of one. */
enum ht_expansion {
	HT_EXPAND_KNOWN,    /* ops whose extents follow from sizes that are known */
	HT_EXPAND_COMPUTED, /* also those that other nodes might have told */
	HT_EXPAND_ALL /* also those that may be constant when branches, loops and lists are tensors */
};
bool ht_expand_computed(struct ht_graph *g, struct ht_pass_context *c, enum ht_expansion what);
bool ht_cuts_open(const struct ht_graph *g, const struct ht_node *n);
/* Whether an axis of an output has several open sizes. */
bool ht_joins_outputs(const struct ht_graph *g, const struct ht_entry *e);
/* Whether operand `first` of the node, or one behind it, may follow from a result of a branch or a loop, or from a list. */
bool ht_may_follow_control(const struct ht_node *n, int32_t first);

/* computed_meet.c: whether an open size meets another size, which may differ. */
bool ht_meets_open(const struct ht_graph *g, const struct ht_node *n);

/* computed_pieces.c: slices that take one operand of a concatenation become that operand, and sums of padded parts a concatenation,
 * where their extents are not known; concatenations and paddings to a fixed length become gathers
 * (computed_whole.c).  Says whether it changed some; types have to be inferred again then. */
bool ht_take_pieces(struct ht_graph *g, struct ht_pass_context *c);

/* grown.c: results of branches and loops whose extents these change get room for the longest, and their extent beside them; types must be
 * known.  *changed: there were some, so types have to be inferred again and the bodies compute further sizes. */
enum ht_status ht_give_room(struct ht_graph *g, struct ht_pass_context *c, bool *changed);
/* Whether a branch, a loop, or what merges both in TensorFlow 1, may have a result whose extent it changes; types must be known. */
bool ht_may_grow(const struct ht_node *n);
/* Whether a node of the body may give a tensor of another extent than its operands have; `loops`: the body is that of a loop, or has loops. */
bool ht_may_change_extents(const struct ht_graph *body, bool loops);
/* Whether the size of a result is computed, or may be where an operand is not known yet. */
bool ht_may_compute_size(const struct ht_node *n);
/* varying.c: whether bodies compute sizes, or give tensors of several extents, once they are functions of their own; types must be known. */
bool ht_needs_own_bodies(struct ht_graph *g, const struct ht_pass_context *c);
/* Whether a node makes a list of parts, or sets an element of a list in a body, and its extents are computed there; types must be known. */
bool ht_may_vary(const struct ht_node *n);
/* Whether a node takes all elements of a list that a loop may have added to as often as data say. */
bool ht_takes_filled(const struct ht_graph *g);
/* Whether extents of `v` that are not known are computed from what is no constant, as far as its graph tells. */
bool ht_follows_computed(struct ht_value v);

#endif
