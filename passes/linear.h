/* linear: finds the nodes whose results are proportional to a value of a graph. */
#ifndef HT_PASSES_LINEAR_H
#define HT_PASSES_LINEAR_H

#include "ir/ir.h"

enum { HT_LINEAR_MOST = 64 };

/* Sets bit i of linear[id] for each node id of the graph: whether all floating-point results of
 * the node are proportional to the first result of of[i] in exact arithmetic, for every value of
 * the graph's other inputs. 0 may also mean that this is unknown.  It is 1 for of[i] itself.
 * Nodes that are `fixed` (NULL: none), by node id, count as proportional to nothing but themselves.
 * count[i] is the number of nodes with bit i.  There are at most HT_LINEAR_MOST nodes `of`, in
 * the graph's order. */
void ht_linear_in(const struct ht_graph *g, struct ht_node *const *of, size_t n, const bool *fixed,
	uint64_t *linear, size_t *count);
/* loss_seed.c: the constant at which the gradients of `loss` begin; NULL: none is found.  Sets `needed`, by node id, for the nodes that the loss
 * depends on. */
struct ht_node *ht_gradient_seed(
	const struct ht_graph *g, struct ht_node *loss, bool *needed, struct ht_arena *a);
/* step_gradients.c: the gradients of `loss` that updates in elementary ops take, of a graph that is sorted and whose types are inferred.
 * False: no gradient was found for some update that depends on gradients. */
bool ht_step_gradients(const struct ht_graph *g, struct ht_node *loss, struct ht_arena *a,
	struct ht_value **found, size_t *n);
/* Whether `n` reads the shape of its operand, and none of its elements. */
bool ht_asks_shape_alone(const struct ht_node *n);

#endif
