/* calls: dtypes across the boundaries of function bodies.
 *
 * The vendor's code judges a body where it is called: an argument has the decided dtype of the value
 * passed, and a result of the call has the body's dtype.  TensorFlow shares a function among its
 * callers, so only bodies with one caller are decided in this way; others keep their signature. */
#ifndef HT_CALLS_H
#define HT_CALLS_H

#include "precision/precision.h"

/* The list attributes with the dtypes of a call's operands from `first` on, and of its results. */
struct ht_call_lists {
	enum ht_op op;
	int32_t first;
	const char *in, *out;  /* list attributes */
	const char *condition; /* of a loop, whose results are its next arguments; NULL: no loop */
};
/* NULL: the node is no call, or its lists do not fit its operands. */
const struct ht_call_lists *ht_call_lists_of(const struct ht_node *n);

/* The bodies of one program and their decisions. */
struct ht_calls;
struct ht_calls *ht_calls_new(struct ht_precision *program);
/* Decides the bodies that `n` runs, by `decide`, for the dtypes of its operands; this gives the dtypes of
 * its results.  Errors go into the status of the program's decision. */
void ht_calls_decide(
	struct ht_precision *p, const struct ht_node *n, void (*decide)(struct ht_precision *p));
/* The decision for a body, made at its caller; NULL: there is none. */
struct ht_precision *ht_calls_body(const struct ht_calls *c, const struct ht_function *f);

/* States the dtypes of a call's operands and results.  False: one of its bodies has other callers too. */
bool ht_calls_state(
	struct ht_precision *p, const struct ht_node *n, const uint8_t *in, const uint8_t *out);
/* The stated dtypes of a body's arguments or results; NULL: none. */
const uint8_t *ht_calls_stated(const struct ht_calls *c, const struct ht_function *f, bool results);

/* The dtype of an item of a call's list attribute as decided. */
enum ht_dtype ht_carried_dtype(const struct ht_choice *c, const struct ht_node *n,
	struct ht_str attr, int item, enum ht_dtype was);

#endif
