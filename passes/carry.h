/* carry: adds an operand, argument or result to a branch or loop that has its own functions,
 * behind the existing ones.  If one is added to a node, it must be added to its functions too. */
#ifndef HT_PASSES_CARRY_H
#define HT_PASSES_CARRY_H

#include "passes/rewrite.h"

void ht_carry_operand(struct ht_rw *r, struct ht_node *n, struct ht_value v);
struct ht_value ht_carry_result(struct ht_node *n, struct ht_type t);
struct ht_value ht_carry_argument(struct ht_function *f, struct ht_type t);
void ht_carry_return(struct ht_function *f, struct ht_value v);

/* The attributes of a node that hands on tensors, such as an identity, an argument, a branch or a loop, say from now on that argument i,
 * or result i, has type `t`. */
void ht_carry_operand_type(struct ht_node *n, int32_t i, struct ht_type t);
void ht_carry_result_type(struct ht_node *n, int32_t i, struct ht_type t);

#endif
