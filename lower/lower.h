/* lower: from a graph with dtypes to a plan of kernels.  This header makes plans;
 * lower/price.h says how lowering would treat nodes, lower/refusals.h which nodes it cannot lower. */
#ifndef HT_LOWER_H
#define HT_LOWER_H

#include "choice/fusion.h"
#include "choice/reads.h"
#include "lower/plan.h"

/* Which tensors a run shows to its observer: plan->tee. */
enum ht_lower_tee {
	HT_LOWER_TEE_NOTHING,
	HT_LOWER_TEE_ALL, /* all, including those inside kernels */
	/* All, and each node has a kernel of its own.  That kernel reads the operands from memory, where the observer may have
	 * replaced them, and rounds like the kernel that the node would otherwise be part of. */
	HT_LOWER_TEE_ALONE
};

/* Attribute of loops that pass recurrent made of one with an open number of rows: whether a run that comes to it has few rows or many. */
#define HT_RECURRENT_ROWS "_rows"
enum ht_recurrent_rows { HT_RECURRENT_ANY, HT_RECURRENT_FEW, HT_RECURRENT_MANY };

static inline enum ht_recurrent_rows ht_recurrent_rows_of(const struct ht_node *loop)
{
	return (enum ht_recurrent_rows)ht_attr_int(loop, HT_RECURRENT_ROWS, HT_RECURRENT_ANY);
}

/* The input of lowering besides the graph. */
struct ht_lower_request {
	struct ht_arena *scratch;
	struct ht_diags *diags;
	const struct ht_target *target;
	const struct ht_entry *entry; /* the entry point that is compiled */
	struct ht_fusions *fusions;   /* NULL: all are on, and no record is kept */
	struct ht_reads *reads;       /* notes the options that were read; NULL: not wanted */
	struct ht_methods_asked asked;
	int64_t random_seed; /* of random ops without seeds of their own; -1: the context's */
	bool numerics;       /* the plan gets probes, which count the effects of rounding */
	enum ht_lower_tee tee;
	bool members; /* the plan lists the steps that compute each imported node */
	/* An injected fault, for tests of the search for faults: results of the node of this name are multiplied by
	 * 1 + fault_by before they are rounded.  Empty: no fault. */
	struct ht_str fault;
	double fault_by;
	/* Numbers of rows for which the program is compiled, if inputs of the entry are open
	 * (struct ht_port); in the graph these inputs have HT_PART_ROWS. most 0: as many rows as
	 * memory can hold. */
	struct ht_open_rows {
		int64_t least, most;
	} open;
};

/* Lowers entry `how->entry`.  One error reports all unsupported ops, grouped by type. */
enum ht_status ht_lower(struct ht_graph *g, const struct ht_lower_request *how, struct ht_arena *a,
	struct ht_plan **out);
/* Whether each row of the outputs depends on the same row of the inputs alone, of an entry with open inputs: the program can then
 * compute any number of rows in parts. */
bool ht_rows_are_apart(struct ht_graph *g, const struct ht_entry *e, struct ht_arena *scratch);
struct ht_image_port_text; /* image/build.h */
/* Writes the plan's image into `a`. The caller describes inputs and outputs in the order of the
 * plan's buffers; constants are in the order of their buffers. */
struct ht_str ht_plan_write_image(const struct ht_plan *p, const struct ht_image_port_text *input,
	size_t inputs, const struct ht_image_port_text *output, size_t outputs, struct ht_arena *a);
/* Lowers one node whose operands are all Const, for constant folding, which interprets the
 * result. The plan has only constant and output buffers, one output for each result. Reads only
 * scratch, diags and target of `how`. */
enum ht_status ht_lower_node(struct ht_node *n, const struct ht_lower_request *how,
	struct ht_arena *a, struct ht_plan **out);

#endif
