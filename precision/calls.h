/* calls: dtypes across the boundaries of function bodies.
 *
 * The vendor's code decides a body at its call: an argument has the decided dtype of the
 * operand, and a result of the call has the dtype that it has in the body.  TensorFlow shares a
 * function among its callers, so only bodies with one caller are decided in this way; others
 * keep their signature. */
#ifndef HT_CALLS_H
#define HT_CALLS_H

#include "precision/precision.h"

/* The list attributes with the dtypes of a call's operands from `first` on, and of its results. */
struct ht_call_lists {
	enum ht_op op;
	int32_t first;
	const char *in, *out;  /* list attributes */
	const char *condition; /* of a loop, whose results are its next arguments; NULL: it is no
			        * loop */
};
/* NULL: the node is not a call, or its lists do not match its operands. */
const struct ht_call_lists *ht_call_lists_of(const struct ht_node *n);

/* The bodies of one program and their decisions. */
struct ht_calls;
struct ht_calls *ht_calls_new(struct ht_precision *program);
/* Decides the bodies that `n` runs with the function `decide`, for the dtypes of the operands;
 * sets the dtypes of the results.  Errors become the status of the program's decision. */
void ht_calls_decide(
	struct ht_precision *p, const struct ht_node *n, void (*decide)(struct ht_precision *p));
/* The decision for a body, made at its call; NULL: there is none. */
struct ht_precision *ht_calls_body(const struct ht_calls *c, const struct ht_function *f);

/* States the dtypes of a call's operands and results.  False: one of its bodies has other callers too. */
bool ht_calls_state(
	struct ht_precision *p, const struct ht_node *n, const uint8_t *in, const uint8_t *out);
/* The stated dtypes of a body's arguments or results; NULL: none. */
const uint8_t *ht_calls_stated(const struct ht_calls *c, const struct ht_function *f, bool results);

/* The decided dtype of an item of a call's list attribute. */
enum ht_dtype ht_carried_dtype(const struct ht_choice *c, const struct ht_node *n,
	struct ht_str attr, int item, enum ht_dtype was);

#endif
