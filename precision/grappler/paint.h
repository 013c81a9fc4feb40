/* paint: a graph as TensorFlow's painting passes see it.
 *
 * A vertex is one type attribute of one node, one element of a list attribute, or all tensors of
 * the node to which the op gives one fixed dtype.  Edges go from the vertex of a result to that
 * of the operand.  Nodes that TensorFlow does not know (ops that are not in its tables, calls of
 * functions by name) have no vertices.
 *
 * Painting marks vertices; a painted float32 vertex becomes the low type. */
#ifndef HT_PAINT_H
#define HT_PAINT_H

#include "base/base.h"
#include "ir/ir.h"
#include "precision/grappler/tensorflow_ops.h"

struct ht_decisions;

#define HT_NO_VERTEX UINT32_MAX

struct ht_vertex {
	struct ht_node *node;
	int32_t item;  /* index in a list attribute; -1: none */
	int16_t attr;  /* index into the op's type attributes; -1: a fixed dtype */
	uint8_t dtype; /* enum ht_dtype; HT_INVALID: the node does not state it */
};

struct ht_paint_graph {
	struct ht_graph *graph; /* or the body of one of its functions */
	struct ht_arena *arena;
	const struct ht_tf_op **op; /* by node id; NULL: unknown */
	struct ht_vertex *vertex;
	uint32_t vertices;
	uint32_t *first_vertex, *vertex_end;                   /* by node id */
	uint32_t *first_in;                                    /* by node id: into in_vertex */
	uint32_t *first_out, *out_end;                         /* by node id: into out_vertex */
	uint32_t *in_vertex, *out_vertex;                      /* HT_NO_VERTEX: of an unknown op */
	uint32_t outs;                                         /* length of out_vertex */
	uint32_t *fanin_start, *fanin, *fanout_start, *fanout; /* by vertex */
};

/* paint_graph.c */
void ht_paint_graph_build(struct ht_paint_graph *p, struct ht_graph *g, struct ht_arena *a);
/* The number of a value among the results of its node; -1: unknown. */
int32_t ht_paint_result(const struct ht_paint_graph *p, struct ht_value v);
/* The vertex of a value, or HT_NO_VERTEX. */
uint32_t ht_paint_source(const struct ht_paint_graph *p, struct ht_value v);
/* Whether some kernel accepts the node with the type `low` for `v`. */
bool ht_paint_kernel(
	const struct ht_paint_graph *p, uint32_t v, enum ht_dtype low, unsigned device);
/* Whether the op's definition allows it. */
bool ht_paint_allows(const struct ht_paint_graph *p, uint32_t v, enum ht_dtype low);

/* paint_rewrite.c: writes the painted types into the graph, with casts between the colours: one
 * for each result and direction.  Types and casts are recorded in `out`, unless it is NULL. */
struct ht_painted {
	enum ht_dtype low;
	bool emulate;           /* types stay; operands and results of painted nodes are rounded
				 * to `low` */
	const bool *low_vertex; /* by vertex */
	const struct ht_dtype_reason *const
		*rule; /* by vertex: the reason; for unpainted vertices only in a complete report */
	const struct ht_node *const *followed; /* by vertex: the node that it followed; NULL:
					        * nobody asks for it */
	const char *suffix;                    /* end of the names of casts */
	const bool *renamed; /* by node id: a batch norm that got the attribute U */
};
void ht_paint_rewrite(struct ht_paint_graph *p, const struct ht_painted *how, struct ht_str prefix,
	struct ht_decisions *out);

#endif
