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

/* What a file may ask for; 0 takes the default. */
struct ht_import_limits {
	size_t file_bytes;   /* files of this size and more are refused; 2 GiB */
	size_t nodes;        /* in the graph and in all functions together; 4 Mi */
	size_t functions;    /* 256 Ki */
	size_t node_inputs;  /* of one node; 1 Mi */
	size_t attrs;        /* of one node; 1 Mi */
	size_t tensor_bytes; /* in total, beyond those stored as they are; 16 × input + 64 MiB */
	int depth;           /* nested messages, texts and JSON values; 64 */
};

#define HT_IMPORT_LIMITS_DEFAULT ((struct ht_import_limits){ 0 })

/* Reads a model.  The form is found by content, the name's extension only helps:
 *   GraphDef (.pb, .pbtxt), MetaGraphDef (.meta, wire or text), SavedModel (a directory or its
 *   saved_model.pb or .pbtxt), TF.js graph model (.json with its weight shards, or a directory with
 *   model.json), .hir (constants in FILE.weights).
 *
 * The graph lies in `a`, which keeps mapped files as long as it lives.  `limits` may be NULL.
 * graph->entries has what the file says about inputs and outputs, the preferred one first.
 * A failed allocation unwinds to the arena's owner. */
enum ht_status ht_import(struct ht_arena *a, const char *path,
	const struct ht_import_limits *limits, struct ht_diags *d, struct ht_graph **out);

/* The same from memory: wire or text GraphDef, MetaGraphDef or SavedModel, JSON without shards.
 * The bytes are copied where the graph needs them.  `path` names them in diagnostics. */
enum ht_status ht_import_memory(struct ht_arena *a, const void *p, size_t n, const char *path,
	const struct ht_import_limits *limits, struct ht_diags *d, struct ht_graph **out);

/* A graph without signatures: an entry whose inputs are the placeholders and whose outputs are
 * the nodes that nobody uses, but for those within branches and loops of TensorFlow 1's form. */
struct ht_entry *ht_default_entry(struct ht_graph *g);
/* An entry for outputs named by the user: "node", "node:1"; a node without results, such as that of
 * a training step, becomes a target.  HT_E_USAGE with near names when there is none, or when one is
 * named twice.  Inputs are those of `like`, whose outputs go also by their aliases; or the
 * placeholders when it is NULL. */
enum ht_status ht_entry_for_outputs(struct ht_graph *g, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d, struct ht_entry **out);

/* ---- entry_feed.c ---- */

/* By its name ("node", "node:1", also "node:0") or else by its alias; NULL: there is none. */
struct ht_port *ht_port_named(struct ht_port *first, struct ht_str name);
/* `like` with other inputs: those that it needs when the tensors `names` are fed, and these.  A name
 * is that of an input or of any other tensor.  HT_E_USAGE with near names when there is none, and when a
 * tensor is named twice; a tensor that no output needs is left out with a warning. */
enum ht_status ht_entry_for_inputs(struct ht_graph *g, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d, struct ht_entry **out);

/* ---- graph_write.c: graphs → messages ---- */

enum ht_export_form { HT_EXPORT_WIRE, HT_EXPORT_TEXT };

/* Takes the next `n` bytes of the result; a status other than HT_OK ends the export with it. */
typedef enum ht_status ht_export_sink(void *self, const void *p, size_t n);

/* The graph as a GraphDef, function library included.  Constants are passed to `sink` from where
 * they lie; no second copy is made.  Small working memory comes from `work`. */
enum ht_status ht_export_graphdef_to(const struct ht_graph *g, enum ht_export_form form,
	struct ht_arena *work, struct ht_diags *d, ht_export_sink *sink, void *self);
/* The message that the graph came in (graph->source: GraphDef, MetaGraphDef or SavedModel), with
 * the graph as it is now put back. */
enum ht_status ht_export_container_to(const struct ht_graph *g, enum ht_export_form form,
	struct ht_arena *work, struct ht_diags *d, ht_export_sink *sink, void *self);
/* The same into a buffer. */
enum ht_status ht_export_graphdef(
	const struct ht_graph *g, enum ht_export_form form, struct ht_diags *d, struct ht_buf *out);
enum ht_status ht_export_container(
	const struct ht_graph *g, enum ht_export_form form, struct ht_diags *d, struct ht_buf *out);

/* A TF.js graph model: the text of model.json, and the bytes of its weights, one after the other, which
 * the text says are in the shards `name`.  Weights are written as they are used (dequantised).
 * HT_E_UNSUPPORTED, with the node, for what TF.js has not: types, variables. */
enum ht_status ht_export_tfjs(const struct ht_graph *g, const struct ht_str *name, size_t shards,
	struct ht_diags *d, struct ht_buf *json, ht_export_sink *weights, void *self);
/* How many bytes the weights will be.  Small working memory comes from `work`. */
enum ht_status ht_tfjs_weight_bytes(
	const struct ht_graph *g, struct ht_arena *work, struct ht_diags *d, size_t *bytes);

/* ---- bundle.c: checkpoints (TensorBundle) ---- */

struct ht_checkpoint;

/* Index and shards, in the order of their names, watched; they live as long as the arena.  `prefix`: the
 * path without ".index" and ".data-00000-of-00001". */
enum ht_status ht_checkpoint_files(
	struct ht_arena *a, const char *prefix, struct ht_diags *d, struct ht_input_file **out);
/* To be ended with ht_checkpoint_close(), or by the arena.  `files`: of ht_checkpoint_files(), and no
 * others are read; NULL: those that have the names when they are needed. */
enum ht_status ht_checkpoint_open(struct ht_arena *a, const char *prefix,
	const struct ht_input_file *files, struct ht_diags *d, struct ht_checkpoint **out);
void ht_checkpoint_close(struct ht_checkpoint *c);
/* Names of variables are from now on those of this graph, as it was imported: the op that restores
 * its variables tells which tensor of the checkpoint each of them gets. */
void ht_checkpoint_follow(struct ht_checkpoint *c, struct ht_graph *g);
/* The tensor of a variable of the graph that is followed, of a key, or of a variable named so in the
 * checkpoint's object graph ("dense/kernel" → "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE").  Strings
 * included.
 * HT_E_INPUT when absent, damaged, or when two variables have that name. */
enum ht_status ht_checkpoint_read(struct ht_checkpoint *c, struct ht_str name, struct ht_arena *a,
	struct ht_diags *d, struct ht_tensor **out);
/* The key of that tensor; without one the name itself. */
enum ht_status ht_checkpoint_key_of(
	struct ht_checkpoint *c, struct ht_str name, struct ht_diags *d, struct ht_str *key);
bool ht_checkpoint_has(struct ht_checkpoint *c, struct ht_str key);
/* A tensor of a checkpoint as it is stored. */
struct ht_checkpoint_item {
	struct ht_str key;
	enum ht_dtype dtype;
	struct ht_shape shape;
	const void *bytes;
	size_t n;
	bool stored;  /* with the checksum `crc` of an older file */
	uint32_t crc; /* masked */
};
/* Tensor `i` in order of the keys, of any type; its bytes, which are not held against the checksum, are valid until the
 * checkpoint is closed. */
enum ht_status ht_checkpoint_item(
	struct ht_checkpoint *c, size_t i, struct ht_diags *d, struct ht_checkpoint_item *out);
/* Writes prefix.index and prefix.data-00000-of-00001, sorting the items by key.  Where one of the files cannot be
 * written, neither appears.  Small working memory comes from `a`. */
enum ht_status ht_checkpoint_write(struct ht_arena *a, const char *prefix,
	struct ht_checkpoint_item *item, size_t n, struct ht_diags *d);
/* The name of the node in collection "train_op" of a MetaGraphDef; empty: the collection names none, or several. */
struct ht_str ht_train_op(const struct ht_graph *g);
/* Which op gives each variable its first value: from the name of a variable to its node.  Variables of which the
 * graph does not say it are absent. */
void ht_initialisers(struct ht_graph *g, struct ht_arena *a, struct ht_map *of);
/* Keys in order, for listings. */
size_t ht_checkpoint_count(const struct ht_checkpoint *c);
struct ht_str ht_checkpoint_key(const struct ht_checkpoint *c, size_t i);

#endif
