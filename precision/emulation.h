/* Internal: shared by the emulation*.c files. */
#ifndef HT_EMULATION_H
#define HT_EMULATION_H

#include "passes/rewrite.h"
#include "precision/precision.h"

/* A graph in which formats take the place of slots. */
struct ht_emulating {
	struct ht_rw rw;
	struct ht_diags *diags;
	const struct ht_emulation *e;
	uint8_t *role; /* by node id of the decided graph: enum ht_role */
	uint32_t ids;  /* of that graph */
	enum ht_status status;
};

/* emulation.c: the role of a node's results in the model. */
enum ht_role ht_emulated_role(const struct ht_emulating *x, const struct ht_node *n);

/* emulation_blocks.c: the axis of operand `arg` of contraction `n` that is summed over; if there
 * are several, the last; -1: there is none. */
int32_t ht_summed_axis(const struct ht_node *n, int32_t arg);
/* `v` rounded to a format, in front of `before`; a format of blocks has them along `axis`. A
 * constant becomes a rounded constant.  If the policy `asks` for it, the value is rounded in any
 * case; otherwise it is not rounded between the nodes of one kernel of a contraction
 * (lower/round.c). */
struct ht_value ht_round_to(struct ht_emulating *x, struct ht_node *before, struct ht_value v,
	const struct ht_float_format *f, int32_t axis, bool asks);

#endif
