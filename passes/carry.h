/* carry: branches and loops that run functions of their own get a further operand, argument or result, behind those that they
 * have.  What is added to a node has to be added to its functions too. */
#ifndef HT_PASSES_CARRY_H
#define HT_PASSES_CARRY_H

#include "passes/rewrite.h"

void ht_carry_operand(struct ht_rw *r, struct ht_node *n, struct ht_value v);
struct ht_value ht_carry_result(struct ht_node *n, struct ht_type t);
struct ht_value ht_carry_argument(struct ht_function *f, struct ht_type t);
void ht_carry_return(struct ht_function *f, struct ht_value v);

#endif
