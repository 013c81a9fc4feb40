/* emulation: what the files of it share. */
#ifndef HT_EMULATION_H
#define HT_EMULATION_H

#include "passes/rewrite.h"
#include "precision/precision.h"

/* One graph in which formats are put in the place of slots. */
struct ht_emulating {
	struct ht_rw rw;
	struct ht_diags *diags;
	const struct ht_emulation *e;
	uint8_t *role; /* by node id of the graph as it was decided: enum ht_role */
	uint32_t ids;  /* of that graph */
	enum ht_status status;
};

/* emulation.c: what a node's results are to the model. */
enum ht_role ht_emulated_role(const struct ht_emulating *x, const struct ht_node *n);

/* emulation_blocks.c: the axis of operand `arg` of contraction `n` that is summed over; of several the last; -1: it has none. */
int32_t ht_summed_axis(const struct ht_node *n, int32_t arg);
/* `v`, rounded to a format in front of `before`: with blocks along `axis`.  A constant becomes a rounded one.  Where the policy `asks`, the
 * value is rounded in any case; otherwise not between the nodes of one kernel of a contraction (lower/round.c). */
struct ht_value ht_round_to(struct ht_emulating *x, struct ht_node *before, struct ht_value v,
	const struct ht_float_format *f, int32_t axis, bool asks);

#endif
