/* frontend: files → graphs, and graphs → GraphDefs.
 *
 * Import is lossless: every node, name, attribute, control edge, function body and unknown op
 * survives, and ht_export_*() gives an equal message up to order.  Nothing here judges whether a
 * graph can be compiled; inlining calls and freezing variables are passes.
 *
 * Everything read from a file is bounded: sizes are checked against the bytes that are left before
 * anything is allocated from them, nesting against a depth, totals against ht_import_limits.  Every
 * error names the byte offset or line:column, and the node where there is one. */
#ifndef HT_FRONTEND_H
#define HT_FRONTEND_H

#include "base/base.h"
#include "ir/ir.h"

/* ---- import.c: files ---- */

/* Limits of what one file may need; 0 takes the default. */
struct ht_import_limits {
	size_t file_bytes;   /* files of this size and more are refused; 2 GiB */
	size_t nodes;        /* in the graph and in all functions together; 4 Mi */
	size_t functions;    /* 256 Ki */
	size_t node_inputs;  /* of one node; 1 Mi */
	size_t attrs;        /* of one node; 1 Mi */
	size_t tensor_bytes; /* total of tensors that are not stored as plain bytes; 16 × input +
			      * 64 MiB */
	int depth;           /* nested messages, texts and JSON values; 64 */
};

#define HT_IMPORT_LIMITS_DEFAULT ((struct ht_import_limits){ 0 })

/* Reads a model.  The form is recognised by content; the name's extension only helps:
 *
 *   GraphDef (.pb, .pbtxt), MetaGraphDef (.meta, wire or text), SavedModel (a directory or its
 *   saved_model.pb or .pbtxt), TF.js graph model (.json with its weight shards, or a directory with
 *   model.json), .hir (constants in FILE.weights).
 *
 * The graph lies in `a`, which keeps mapped files as long as it lives.  `limits` may be NULL.
 * graph->entries has the inputs and outputs that the file states, the preferred entry first.  A
 * failed allocation unwinds to the arena's owner. */
enum ht_status ht_import(struct ht_arena *a, const char *path,
	const struct ht_import_limits *limits, struct ht_diags *d, struct ht_graph **out);

/* Likewise from memory: wire or text form of a GraphDef, MetaGraphDef or SavedModel, or JSON
 * without shards.  Bytes that the graph needs are copied.  `path` names the model in
 * diagnostics. */
enum ht_status ht_import_memory(struct ht_arena *a, const void *p, size_t n, const char *path,
	const struct ht_import_limits *limits, struct ht_diags *d, struct ht_graph **out);

/* The entry of a graph without signatures: its inputs are the placeholders, its outputs the
 * nodes that no other node uses, except those within branches and loops of TensorFlow 1's form. */
struct ht_entry *ht_default_entry(struct ht_graph *g);
/* An entry for outputs that the user names: "node", "node:1". A node without results, such as
 * that of a training step, becomes a target.  HT_E_USAGE, with similar names, if there is none,
 * or if one is named twice.  Inputs are those of `like`, whose outputs may also be named by
 * their second names; or the placeholders if it is NULL. */
enum ht_status ht_entry_for_outputs(struct ht_graph *g, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d, struct ht_entry **out);

/* ---- entry_feed.c ---- */

/* The port with this name ("node", "node:1", also "node:0"), or else with this second name;
 * NULL: there is none. */
struct ht_port *ht_port_named(struct ht_port *first, struct ht_str name);
/* `like` with other inputs: the tensors `names` are fed, and the inputs that the outputs still
 * need remain.  A name may be that of an input or of any other tensor.  HT_E_USAGE, with similar
 * names, if there is none, or if a tensor is named twice.  A tensor that no output needs is left
 * out with a warning. */
enum ht_status ht_entry_for_inputs(struct ht_graph *g, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d, struct ht_entry **out);

/* ---- graph_write.c: graphs → messages ---- */

enum ht_export_form { HT_EXPORT_WIRE, HT_EXPORT_TEXT };

/* Takes the next `n` bytes of the result; a status other than HT_OK ends the export with it. */
typedef enum ht_status ht_export_sink(void *self, const void *p, size_t n);

/* Writes the graph as a GraphDef, function library included.  Bytes of constants are passed to
 * `sink` without a copy.  Small working memory comes from `work`. */
enum ht_status ht_export_graphdef_to(const struct ht_graph *g, enum ht_export_form form,
	struct ht_arena *work, struct ht_diags *d, ht_export_sink *sink, void *self);
/* Writes the message that the graph came in (graph->source: GraphDef, MetaGraphDef or
 * SavedModel) with the current graph in it. */
enum ht_status ht_export_container_to(const struct ht_graph *g, enum ht_export_form form,
	struct ht_arena *work, struct ht_diags *d, ht_export_sink *sink, void *self);
/* The same into a buffer. */
enum ht_status ht_export_graphdef(
	const struct ht_graph *g, enum ht_export_form form, struct ht_diags *d, struct ht_buf *out);
enum ht_status ht_export_container(
	const struct ht_graph *g, enum ht_export_form form, struct ht_diags *d, struct ht_buf *out);

/* Writes a TF.js graph model: the text of model.json, and the bytes of its weights, one after
 * the other, which the text places in the shards `name`. Weights are dequantised.
 * HT_E_UNSUPPORTED, with the node, for types and variables that TF.js does not have. */
enum ht_status ht_export_tfjs(const struct ht_graph *g, const struct ht_str *name, size_t shards,
	struct ht_diags *d, struct ht_buf *json, ht_export_sink *weights, void *self);
/* How many bytes the weights will be.  Small working memory comes from `work`. */
enum ht_status ht_tfjs_weight_bytes(
	const struct ht_graph *g, struct ht_arena *work, struct ht_diags *d, size_t *bytes);

/* ---- bundle*.c: checkpoints (TensorBundle) ---- */

struct ht_checkpoint;

/* The index and the shards, in the order of their names.  Each is mapped and watched for changes
 * as long as the arena lives.  `prefix`: the path without ".index" and ".data-00000-of-00001". */
enum ht_status ht_checkpoint_files(
	struct ht_arena *a, const char *prefix, struct ht_diags *d, struct ht_input_file **out);
/* The caller or the arena ends it with ht_checkpoint_close().  `files`: from
 * ht_checkpoint_files(), no others are read; NULL: files are opened by name when they are
 * needed. */
enum ht_status ht_checkpoint_open(struct ht_arena *a, const char *prefix,
	const struct ht_input_file *files, struct ht_diags *d, struct ht_checkpoint **out);
void ht_checkpoint_close(struct ht_checkpoint *c);
/* From this call on, names of variables are those of this imported graph.  Its op that restores
 * variables determines which tensor of the checkpoint each variable gets. */
void ht_checkpoint_follow(struct ht_checkpoint *c, struct ht_graph *g);
/* The tensor of a variable of the graph of ht_checkpoint_follow(), of a key, or of a variable
 * with this name in the checkpoint's object graph ("dense/kernel" →
 * "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE").  It may have strings.  HT_E_INPUT if it is absent
 * or damaged, if two variables have that name, or if the graph restores it with a malformed shape_and_slice. */
enum ht_status ht_checkpoint_read(struct ht_checkpoint *c, struct ht_str name, struct ht_arena *a,
	struct ht_diags *d, struct ht_tensor **out);
/* The key of that tensor; the name itself if it has none; empty if several variables have the name. */
enum ht_status ht_checkpoint_key_of(
	struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d, struct ht_str *key);
/* Whether there is a tensor with this key, or one, whole or in slices, that has its elements. Reading it may still fail. */
bool ht_checkpoint_has(struct ht_checkpoint *c, struct ht_str key);
/* Whether tensors with these keys have elements in common: they are one, or slices of one. */
bool ht_checkpoint_share(struct ht_str key, struct ht_str other);
/* A tensor of a checkpoint as it is stored. */
struct ht_checkpoint_item {
	struct ht_str key; /* a name, or the key of a slice (slices.h) */
	enum ht_dtype dtype;
	struct ht_shape shape;
	const void *bytes;
	size_t n;
	bool stored;  /* the bytes and the checksum `crc` are those of an older file */
	uint32_t crc; /* masked */
};
/* Tensor `i`, in the order of the keys, of any type.  Its bytes, whose checksum is not verified,
 * are valid until the checkpoint is closed. */
enum ht_status ht_checkpoint_item(
	struct ht_checkpoint *c, size_t i, struct ht_diags *d, struct ht_checkpoint_item *out);
/* Writes prefix.index and prefix.data-00000-of-00001, with the items sorted by key.  Those whose
 * keys are of slices are written as slices of one tensor.  HT_E_INPUT if two items have one key, if an item does not have the shape of the
 * slice that its key says, or if slices of one tensor have different types.  If one of the files cannot be written, neither appears.  Small
 * working memory comes from `a`. */
enum ht_status ht_checkpoint_write(struct ht_arena *a, const char *prefix,
	struct ht_checkpoint_item *item, size_t n, struct ht_diags *d);
/* The name of the node in collection "train_op" of a MetaGraphDef; empty: the collection names none, or several. */
struct ht_str ht_train_op(const struct ht_graph *g);
/* Fills a map from each variable's name to the node that gives it its first value.  It lacks
 * variables for which the graph has no such node. */
void ht_initialisers(struct ht_graph *g, struct ht_arena *a, struct ht_map *of);
/* Keys in order, for listings. */
size_t ht_checkpoint_count(const struct ht_checkpoint *c);
struct ht_str ht_checkpoint_key(const struct ht_checkpoint *c, size_t i);

#endif
