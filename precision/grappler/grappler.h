/* grappler: TensorFlow 2.21's auto_mixed_precision, with the same decisions.
 *
 * Each op type is on one of four lists: allow ops become low; deny ops keep float32, and so do
 * the ops behind them; infer ops become low between and behind allow ops; clear ops follow their
 * neighbours.  Marks spread over the vertices of the imported graph (paint.h) in the order of
 * TensorFlow's passes, including their quirks, which docs/system-rules.md lists. */
#ifndef HT_GRAPPLER_H
#define HT_GRAPPLER_H

#include "passes/passes.h"
#include "precision/grappler/options.h"
#include "precision/grappler/paint.h"
#include "precision/reason.h"

struct ht_decisions;

struct ht_policy;

/* grappler.c: a policy's `paint`. */
enum ht_status ht_grappler_paint(const struct ht_policy *policy, struct ht_graph *g,
	struct ht_pass_context *c, struct ht_decisions *out);

/* ---- shared by the painter's files ---- */

enum {
	HT_MARK_ALLOW = 1,
	HT_MARK_DENY = 2,
	HT_MARK_UPSTREAM = 4, /* a deny or infer op, or leads to one through clear ops */
	HT_MARK_DENIED = 8,   /* reached from a deny op */
	HT_MARK_DOWNSTREAM = 16,
	HT_MARK_BETWEEN = 32,
	HT_MARK_SPREAD = 64,
	HT_MARK_SUPPORT_KNOWN = 128,
	HT_MARK_SUPPORTED = 256,
	HT_MARK_READS_LIST =
		512, /* the element type of an op that reads from, or writes to, a tensor list */
	HT_MARK_WRITES_LIST = 1024
};

/* Tensor lists.  What one op writes into a list, other ops read from it, along the edges of the
 * handle; marks spread along these too.  So each vertex of a handle has two shadows, along which
 * marks spread: one with the edges (down) and one against them (up). */
struct ht_handles {
	uint32_t *shadow; /* by vertex: its number + 1; NULL: the graph has no lists */
	uint32_t *vertex; /* by number */
	uint32_t count;
	uint32_t *member, *cluster; /* element types, and the list that each belongs to */
	uint32_t members;
	uint8_t *state; /* by cluster */
};

struct ht_painter {
	struct ht_paint_graph graph;
	enum ht_dtype low;
	unsigned device;
	bool emulate, force_all;
	const uint8_t *list; /* by row of ht_tf_ops: enum ht_paint_list */
	bool *processed;     /* by node id: the pass may change it */
	bool *renamed;       /* by node id: batch norms that became the op's second version */
	uint16_t *mark;      /* by vertex; then those of the shadows, down and up alternately */
	const struct ht_dtype_reason **rule; /* by vertex: why it is allowed */
	uint32_t *stack;
	uint32_t depth;
	struct ht_handles handles;
};

static inline enum ht_paint_list ht_list_of(const struct ht_painter *p, uint32_t v)
{
	const struct ht_tf_op *op = p->graph.op[p->graph.vertex[v].node->id];

	return (enum ht_paint_list)p->list[op - ht_tf_ops];
}

static inline bool ht_painter_is_f32(const struct ht_painter *p, uint32_t v)
{
	return p->graph.vertex[v].dtype == HT_F32;
}

static inline void ht_painter_allow(
	struct ht_painter *p, uint32_t v, const struct ht_dtype_reason *rule)
{
	if (!(p->mark[v] & HT_MARK_ALLOW))
		p->rule[v] = rule;
	p->mark[v] |= HT_MARK_ALLOW;
}

static inline bool ht_painter_is_allowed(const struct ht_painter *p, uint32_t v)
{
	return v != HT_NO_VERTEX && p->mark[v] & HT_MARK_ALLOW;
}

/* grappler.c */

/* eligible.c */

/* Whether the node may be on the mode's device. */
bool ht_painter_has_device(const struct ht_painter *p, const struct ht_node *n);
/* Fills p->processed, by device; fed and fetched nodes are excluded. */
void ht_painter_find_processed(
	struct ht_painter *p, const struct ht_graph *g, const struct ht_entry *e);
/* Excludes ops whose type attribute cannot become low; called when the vertices are known. */
void ht_painter_exclude_by_op(struct ht_painter *p);
void ht_painter_rename_batch_norms(struct ht_painter *p, struct ht_graph *g);

/* agree.c */

/* A NextIteration whose value a node other than a Merge reads, on which TensorFlow's pass fails;
 * NULL: there is none. */
const struct ht_node *ht_painter_odd_loop(const struct ht_graph *g, const struct ht_uses *uses);
void ht_painter_agree_round_loops(struct ht_painter *p, const struct ht_uses *uses);
void ht_painter_retarget_casts(struct ht_painter *p, const struct ht_uses *uses);

/* reasons.c: fills p->rule for vertices that were not painted, and finds the nodes that vertices
 * followed. */
void ht_painter_reasons(struct ht_painter *p, const bool *low, const struct ht_node **followed);

/* handles.c */

/* Finds the float32 lists.  A list is denied if the pass cannot see all of its uses. */
void ht_handles_find(struct ht_painter *p);
/* Gives all ops of one list the same colour; deny takes precedence. */
void ht_handles_agree(struct ht_painter *p);
/* The vertex of the element type of an op on a list, if that is float32. */
uint32_t ht_handles_element(const struct ht_painter *p, const struct ht_node *n);
/* The shadow along which marks spread from element type `v`; HT_NO_VERTEX: none. */
uint32_t ht_handles_shadow(const struct ht_painter *p, uint32_t v, bool down);

#endif
