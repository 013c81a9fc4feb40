/* paint: a graph as TensorFlow's painting passes see it.
 *
 * A vertex is one type attribute of one node, one element of a list attribute, or all that the op
 * fixes to one dtype.  Edges go from the vertex of a result to that of the operand.  What a graph
 * or body has that TensorFlow does not know (ops that are in none of its tables, calls of functions
 * by their name) has no vertices.
 *
 * Painting marks vertices; a painted vertex of float32 becomes the low type. */
#ifndef HT_PAINT_H
#define HT_PAINT_H

#include "base/base.h"
#include "ir/ir.h"
#include "precision/grappler/tensorflow_ops.h"

struct ht_decisions;

#define HT_NO_VERTEX UINT32_MAX

struct ht_vertex {
	struct ht_node *node;
	int32_t item;  /* of a list attribute; -1 */
	int16_t attr;  /* index into the op's type attributes; -1: a fixed dtype */
	uint8_t dtype; /* enum ht_dtype; HT_INVALID: the node does not say */
};

struct ht_paint_graph {
	struct ht_graph *graph; /* or the body of one of its functions */
	struct ht_arena *arena;
	const struct ht_tf_op **op; /* by node id; NULL: not known */
	struct ht_vertex *vertex;
	uint32_t vertices;
	uint32_t *first_vertex, *vertex_end; /* by node id */
	uint32_t *first_in;                  /* by node id: into in_vertex */
	uint32_t *first_out, *out_end;       /* by node id: into out_vertex */
	uint32_t *in_vertex, *out_vertex;    /* HT_NO_VERTEX: of an op that is not known */
	uint32_t outs;                       /* in out_vertex */
	uint32_t *fanin_start, *fanin, *fanout_start, *fanout; /* by vertex */
};

/* paint_graph.c */
void ht_paint_graph_build(struct ht_paint_graph *p, struct ht_graph *g, struct ht_arena *a);
/* The number of a value among the results of its node; -1: nobody knows. */
int32_t ht_paint_result(const struct ht_paint_graph *p, struct ht_value v);
/* The vertex of a value; HT_NO_VERTEX. */
uint32_t ht_paint_source(const struct ht_paint_graph *p, struct ht_value v);
/* Whether some kernel takes the node with `v` made `low`. */
bool ht_paint_kernel(
	const struct ht_paint_graph *p, uint32_t v, enum ht_dtype low, unsigned device);
/* Whether the op's definition allows it. */
bool ht_paint_allows(const struct ht_paint_graph *p, uint32_t v, enum ht_dtype low);

/* paint_rewrite.c: writes what is painted into the graph, and casts where colours meet: one for
 * each result and direction.  Types and casts are noted in `out` where it is not NULL. */
struct ht_painted {
	enum ht_dtype low;
	bool emulate;           /* types stay; painted nodes get and give values rounded to `low` */
	const bool *low_vertex; /* by vertex */
	const struct ht_dtype_reason *const
		*rule; /* by vertex: why; of those not painted where all is to be told */
	const struct ht_node *const *followed; /* by vertex: whom; NULL: nobody is told of */
	const char *suffix;                    /* of the names of casts */
	const bool *renamed; /* by node id: a batch norm that got an attribute U */
};
void ht_paint_rewrite(struct ht_paint_graph *p, const struct ht_painted *how, struct ht_str prefix,
	struct ht_decisions *out);

#endif
