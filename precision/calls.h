/* calls: dtypes across the edges into bodies of functions and out of them.
 *
 * The vendor's code judges a body where it is called: an argument has the dtype that was decided for
 * what is passed, and a result of the call the one that the body gives.  TensorFlow shares a function
 * among its callers, so that only bodies of one caller are decided so; others keep their signature. */
#ifndef HT_CALLS_H
#define HT_CALLS_H

#include "precision/precision.h"

/* Where a call has the types of its edges: of operands from `first` on, and of results. */
struct ht_call_lists {
	enum ht_op op;
	int32_t first;
	const char *in, *out;  /* list attributes */
	const char *condition; /* of a loop, whose results are its next arguments; NULL: no loop */
};
/* NULL: the node is no call, or its lists do not fit its operands. */
const struct ht_call_lists *ht_call_lists_of(const struct ht_node *n);

/* The bodies of one program and what was decided for them. */
struct ht_calls;
struct ht_calls *ht_calls_new(struct ht_precision *program);
/* Decides the bodies that `n` runs, by `decide`, with what arrives at it; the dtypes of its results are
 * known then.  Errors go into the status of the program's decision. */
void ht_calls_decide(
	struct ht_precision *p, const struct ht_node *n, void (*decide)(struct ht_precision *p));
/* The decision about a body that was made at its caller; NULL: there is none. */
struct ht_precision *ht_calls_body(const struct ht_calls *c, const struct ht_function *f);

/* A call is stated to take and give these dtypes, by operand and by result.  False: a body of it has
 * other callers too. */
bool ht_calls_state(
	struct ht_precision *p, const struct ht_node *n, const uint8_t *in, const uint8_t *out);
/* What was stated so of a body's arguments or of its results; NULL: nothing. */
const uint8_t *ht_calls_stated(const struct ht_calls *c, const struct ht_function *f, bool results);

/* The dtype of an item of a call's list attribute as decided. */
enum ht_dtype ht_carried_dtype(const struct ht_choice *c, const struct ht_node *n,
	struct ht_str attr, int item, enum ht_dtype was);

#endif
