/* GraphDef messages ↔ graphs, shared by the files of this folder. */
#ifndef HT_FRONTEND_GRAPHDEF_H
#define HT_FRONTEND_GRAPHDEF_H

#include "frontend/frontend.h"
#include "frontend/pb.h"

/* The state of one import: its memory, its limits and how much of them is used. */
struct ht_importer {
	struct ht_arena *a;
	struct ht_arena *scratch; /* released at the end of the import */
	struct ht_diags *diags;
	struct ht_import_limits limit; /* all set */
	struct ht_map words;           /* names of attributes, devices and the like, each stored
				        * once */
	size_t nodes, functions;
	size_t bytes; /* allocated in addition to the file's own bytes */
	size_t budget;
	struct ht_input_file *inputs, **last_input;
};

void ht_importer_init(struct ht_importer *im, struct ht_arena *a,
	const struct ht_import_limits *limits, struct ht_diags *d);
/* A file may use 16 times its size in memory.  Called for each file. */
void ht_importer_add_input(struct ht_importer *im, size_t bytes);
/* Likewise for a mapped file, which the graph then lists among its files. */
void ht_importer_add_file(struct ht_importer *im, const struct ht_file *f);
/* import.c: maps a file, as long as the arena lives, and adds it. */
enum ht_status ht_importer_map(struct ht_importer *im, const char *path, struct ht_file **out);
/* HT_E_LIMIT if `bytes` more exceed the limit. */
bool ht_importer_charge(struct ht_importer *im, size_t count, size_t size);

/* ---- attr_read.c, tensor_read.c ---- */

/* By enum ht_attr_kind: the fields of AttrValue and of AttrValue.ListValue that have a value of this kind; 0: there is none. */
extern const struct ht_attr_field {
	uint8_t value, list;
} ht_attr_fields[HT_ATTR_KINDS];

struct ht_str ht_import_word(struct ht_importer *im, struct ht_str s);
/* A shape whose dimensions may have names. */
struct ht_import_shape {
	struct ht_shape shape;
	struct ht_str *names; /* NULL: none */
	struct ht_str extra;
};
enum ht_status ht_import_shape(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_import_shape *out);
enum ht_status ht_import_tensor(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_tensor **out);
enum ht_status ht_import_attr_value(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_attr_value *out);
/* One entry of a map<string, AttrValue>, to the end of the list `*end`. */
enum ht_status ht_import_attr_entry(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_attr ***end);
/* Refuses duplicate names. */
enum ht_status ht_import_check_attrs(struct ht_importer *im, const struct ht_attr *attrs,
	const struct ht_pb_source *src, const void *at);
/* Reports a field that is not in the table and cannot be kept. */
enum ht_status ht_import_unknown(const struct ht_pb_reader *r, const struct ht_pb_value *v);

/* ---- graph_read.c, function_read.c ---- */

/* Fills `g` from a GraphDef.  Nodes are in order, edges resolved. */
enum ht_status ht_import_graphdef(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_graph *g);
enum ht_status ht_import_node(
	struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r, const uint8_t *at);
enum ht_status ht_import_function(
	struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r, const uint8_t *at);

/* The edges of one graph or function body. */
struct ht_import_edges {
	struct ht_importer *im;
	struct ht_graph *g;
	const struct ht_pb_source *src;
	int32_t *outs; /* by node id: results that are used */
};
/* Reserves room for the names of `nodes` nodes in an empty graph, but not for more than the importer's limit allows. */
void ht_import_expect_nodes(const struct ht_importer *im, struct ht_graph *g, size_t nodes);
/* Reads the inputs of all nodes, which are field `number` of the message that `r` reads and stand in
 * the list from `first` on in the same order. */
enum ht_status ht_import_inputs(struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r,
	uint32_t number, struct ht_node *first);
/* "node", "node:1", and in functions "node:port:1". */
enum ht_status ht_import_ref(
	struct ht_import_edges *e, struct ht_str ref, struct ht_where at, struct ht_value *out);

/* ---- container_read.c ---- */

enum ht_status ht_import_metagraph(
	struct ht_importer *im, const struct ht_pb_source *src, struct ht_graph *g);
/* In a SavedModel: the MetaGraphDef tagged "serve", or else the first; NULL: there is none. */
const uint8_t *ht_savedmodel_choose(struct ht_pb_reader r);
enum ht_status ht_import_savedmodel(
	struct ht_importer *im, const struct ht_pb_source *src, struct ht_graph *g);

/* ---- restore.c ---- */

/* Sets up *meta to read the MetaGraphDef around the graph; false: the graph did not come in one.
 * *src becomes its source. */
bool ht_container_metagraph(
	const struct ht_graph *g, struct ht_pb_source *src, struct ht_pb_reader *meta);

/* ---- named_files.c ---- */

/* Reads the files that fill tables of the graph.  `dir`: the folder of the model's file, with a slash at its end; "" is the
 * working directory. */
enum ht_status ht_import_named_files(struct ht_importer *im, const char *dir, struct ht_graph *g);

/* ---- tfjs.c ---- */

/* `dir`: the folder of the shards; NULL: there are none. */
enum ht_status ht_import_tfjs(struct ht_importer *im, struct ht_str text, const char *path,
	const char *dir, struct ht_graph *g);

/* ---- entry_depth.c ---- */

/* By node id, in `a`: how many branches and loops of TensorFlow 1's form contain a node.  The
 * graph must be in order. */
int32_t *ht_control_depth(const struct ht_graph *g, struct ht_arena *a);

/* ---- entries.c ---- */

/* The graph's value for "name" or "name:0" of a signature. */
bool ht_entry_value(struct ht_graph *g, struct ht_str ref, struct ht_value *out);
void ht_entry_add(struct ht_graph *g, struct ht_entry *e);
void ht_entry_add_placeholders(struct ht_graph *g, struct ht_entry *e);

/* ---- bytes of other owners ---- */

/* A blob of bytes of `src`: many bytes stay in the mapped file, few are copied. */
struct ht_blob *ht_import_blob(
	struct ht_importer *im, const struct ht_file *file, const void *p, size_t n);

/* The field of TensorProto that has the values of a type one by one; 0: none. */
uint32_t ht_tensor_values_field(enum ht_dtype t);

/* ---- foreign.c ---- */

/* HT_E_INPUT if the content is that of another model format: names the format, and a tool that
 * converts it to a supported one. */
enum ht_status ht_refuse_foreign(
	struct ht_str bytes, const char *path, struct ht_arena *a, struct ht_diags *d);

#endif
