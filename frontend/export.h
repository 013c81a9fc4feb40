/* Graphs → messages, shared by the writing files of this folder. */
#ifndef HT_FRONTEND_EXPORT_H
#define HT_FRONTEND_EXPORT_H

#include "frontend/frontend.h"
#include "frontend/graphdef.h"
#include "frontend/pb.h"

/* ---- tensor_write.c; `weights`: the elements of constants too, which a TF.js model has in its
 * shards instead ---- */

void ht_export_tensor(
	struct ht_pb_writer *w, uint32_t number, const struct ht_tensor *t, bool weights);
void ht_export_attrs(
	struct ht_pb_writer *w, uint32_t number, const struct ht_attr *attrs, bool weights);

/* ---- graph_write.c ---- */

void ht_export_node(struct ht_pb_writer *w, uint32_t number, const struct ht_node *n, bool weights);
/* Writes the library: functions, and the graph's extra fields that belong to it.  Writes nothing
 * if there is none. */
void ht_export_library(struct ht_pb_writer *w, const struct ht_graph *g, bool weights);
/* Versions and extra fields. */
void ht_export_rest(struct ht_pb_writer *w, const struct ht_graph *g);
/* All of a GraphDef. */
void ht_export_graph(struct ht_pb_writer *w, const struct ht_graph *g, bool weights);

#endif
