/* Loops that count from a constant, one by one, up to the length of a list that they read element by element, as recurrent layers,
 * map_fn and scan do.  The length is a constant, or a size of the run: then the list has the memory of the largest size. */
#ifndef HT_COUNTED_LOOP_H
#define HT_COUNTED_LOOP_H

#include "passes/outline.h"
#include "passes/rewrite.h"

struct ht_counted_loop {
	struct ht_pass_context *c;
	struct ht_node *node;
	struct ht_function *condition, *body;
	struct ht_rw outside, inside,
		asking; /* rewriters: of the graph, of the body, of the condition */
	struct ht_rw_within within[2];
	struct ht_port **args_end[2], **rets_end;
	int64_t steps; /* at most */
};

/* False: `n` is no loop that counts, or has one step.  The loop may not move in memory afterwards. */
bool ht_counted_init(struct ht_counted_loop *x, struct ht_node *n, struct ht_pass_context *c);

/* The number of the argument that `v` is; -1: it is none. */
int32_t ht_counted_argument(const struct ht_function *f, struct ht_value v);
struct ht_value ht_counted_result(const struct ht_function *f, int32_t i);

/* The value outside of the loop of `v` of the body, which every iteration has alike; node NULL: it changes. */
struct ht_value ht_counted_kept(const struct ht_counted_loop *x, struct ht_value v);
bool ht_counted_keeps(const struct ht_counted_loop *x, struct ht_value v);
/* Whether argument i is a counter: its first value is a constant, *from, and each iteration adds 1. */
bool ht_counted_counts(const struct ht_counted_loop *x, int32_t i, int64_t *from);
/* Whether `n` of the body gathers the element of a list that has the number of the step, each once at most, and stops the run where the list
 * has none. */
bool ht_counted_reads(const struct ht_counted_loop *x, const struct ht_node *n);

/* A gather of the step's element of `list`, in front of the node `before` of the body and by its name.  `read` gathers the element of another
 * list of the same steps: its index and what it knows of the run's sizes are taken over.  The list has the steps along `axis`. */
struct ht_node *ht_counted_element(struct ht_counted_loop *x, struct ht_node *before,
	struct ht_value list, const struct ht_node *read, int32_t axis, struct ht_type type);

/* What the loop is given in addition, and keeps. */
struct ht_counted_arg {
	struct ht_value condition, body; /* the arguments of the functions */
};
struct ht_counted_arg ht_counted_pass(struct ht_counted_loop *x, struct ht_value v);
/* Likewise a tensor with open axes: a size and the indices for each of it, by axis, `count` numbers in all (bounded_bodies.c). */
struct ht_counted_arg ht_counted_pass_open(
	struct ht_counted_loop *x, struct ht_value v, const int64_t *ends, size_t count);

/* carried_lists.c: lists of which loop `n` sets every element need not begin with zeros. */
void ht_carried_lists(struct ht_node *n, struct ht_pass_context *c);
/* recurrent.c: the operand that is computed step by step, where `n` of the body computes with its elements in their places; -1: it does not. */
int32_t ht_recurrent_stepped(const struct ht_counted_loop *x, const struct ht_node *n);
/* recurrent_terms.c: convolutions that a step adds to each other become one. */
void ht_recurrent_terms(struct ht_counted_loop *x);
/* recurrent_end.c: where steps behind the last that a mask lets count change nothing, the loop ends there. */
void ht_recurrent_end(struct ht_counted_loop *x);
/* recurrent_lists.c: a list that was transposed is read where it was before.  The loop may not be looked into with `x` afterwards. */
void ht_recurrent_lists(struct ht_counted_loop *x);
/* recurrent_states.c: states that each step narrows and widens are carried in 16 bits. */
void ht_recurrent_states(struct ht_counted_loop *x);
#endif
