/* ir: the graph, its op table, text form, verifier and shape inference.
 *
 * A graph models all of a GraphDef (names, attributes, control edges, functions, opaque ops), so
 * that import and export lose nothing; passes rewrite it step by step into a form that can be
 * lowered.  A graph and its nodes live in the graph's arena and never move. */
#ifndef HT_IR_H
#define HT_IR_H

#include "base/base.h"
#include "base/size_math.h"
#include "ir/traits.h"

/* ---- op table (ir/ops.def, op.c) ---- */

enum ht_op {
	HT_OP_OPAQUE, /* a type that the table does not list; the node's `type` names it */
#define OP(name, ...) HT_OP_##name,
#include "ir/ops.def"
#undef OP
	HT_OP_END
};

/* Effects; pruning and common subexpressions obey them. */
enum {
	HT_PURE = 0,
	HT_READS = 1,  /* reads state that others write */
	HT_WRITES = 2, /* writes state: is never removed while its state is reachable */
	HT_RANDOM = 4, /* two calls differ */
	HT_ORDERED =
		8, /* keeps its place among the other ordered ops (I/O, assertions, control flow) */
	HT_CALLS = 16, /* has the effects of the functions it names */
};

/* The precision class of an op that no profile lists. */
enum ht_op_prec {
	HT_PREC_NONE,   /* nothing */
	HT_PREC_LOW,    /* computes in a low dtype */
	HT_PREC_FOLLOW, /* in the dtype of its operands */
	HT_PREC_KEEP    /* in the dtype that the graph states */
};
const char *ht_op_prec_name(enum ht_op_prec prec); /* as written in ops.def */

struct ht_node;
struct ht_graph;
struct ht_function;
struct ht_infer; /* ir/infer.h */

#define HT_MAX_TYPE_ATTRS 4
#define HT_MAX_ARGS 24

/* One formal argument or result, parsed from a row's signature. */
struct ht_op_arg {
	struct ht_str name; /* TensorFlow's: function bodies refer to results by it */
	int8_t type_attr;   /* index into type_attrs; -1: `fixed` */
	int8_t type_list;   /* 1: the type attribute is list(type), one element a tensor */
	bool ref;           /* a reference to a variable ("T&") */
	enum ht_dtype fixed;
	struct ht_str number_attr; /* "N": this many tensors of one type; else empty */
	int8_t number_default;     /* of number_attr; -1: none */
};

struct ht_op_type_attr {
	struct ht_str name;     /* "T", "DstT" */
	enum ht_dtype fallback; /* the op definition's default; HT_INVALID: none */
	uint64_t allowed;       /* bit set over enum ht_dtype */
};

/* A row of ir/ops.def; the head of that file explains the columns. */
struct ht_op_info {
	enum ht_op op;
	struct ht_str name;
	const char *signature;
	unsigned effects;
	/* Sets the types of the results from operands and attributes. */
	enum ht_status (*infer)(struct ht_infer *in, struct ht_node *n);
	const char *lower_name; /* to print; lower/ops.c has a pointer */
	enum ht_op_prec prec;
	const char *test; /* the test that covers the row */
	const char *meaning;
	/* parsed from `signature`: */
	int args, results, type_attrs;
	struct ht_op_arg arg[HT_MAX_ARGS], result[HT_MAX_ARGS];
	struct ht_op_type_attr type_attr[HT_MAX_TYPE_ATTRS];
};

/* The row of an op; never NULL (HT_OP_OPAQUE has a row without a signature). */
const struct ht_op_info *ht_op_info(enum ht_op op);
/* The number of the argument of that name; -1: there is none. */
int32_t ht_named_argument(enum ht_op op, const char *name);
/* The index of the argument that receives a gradient, which TensorFlow marks by its name; -1: there is none. */
int32_t ht_gradient_argument(enum ht_op op);
/* The traits of each row; use ht_is(), ht_axes() and ht_number(). */
extern const uint64_t ht_op_traits[HT_OP_END];
/* HT_OP_OPAQUE when the table does not list it. */
enum ht_op ht_op_named(struct ht_str type);

/* signature.c: a row's formal arguments and results, resolved by a node's attributes. */

/* How many tensors a formal of the node's row stands for; -1 when its number attribute is missing or
 * wrong.  One list of operands without its attribute takes the remaining operands (TF.js leaves TArgs
 * of _FusedConv2D out). */
int32_t ht_formal_count(const struct ht_node *n, const struct ht_op_arg *arg);
/* The dtype of the formal's tensor `i`; HT_INVALID when its type attribute is missing. */
enum ht_dtype ht_formal_dtype(const struct ht_node *n, const struct ht_op_arg *arg, int32_t i);
/* The number of operands and of results by the row; -1: opaque, or attributes missing. */
int32_t ht_node_arg_count(const struct ht_node *n);
int32_t ht_node_result_count(const struct ht_node *n);
/* The number, among all results, of result `index` of formal `port` ("node:port:index" in function
 * bodies); -1: there is none, or the node is opaque. */
int32_t ht_node_result_named(const struct ht_node *n, struct ht_str port, int32_t index);
/* The inverse: the formal of result `result`, and the place within it; empty: opaque. */
struct ht_str ht_node_result_name(const struct ht_node *n, int32_t result, int32_t *index);

/* ---- control.c: branches, loops and calls, which run functions ---- */

/* A branch runs [0] where its condition, operand 0, is true, else [1]; a loop asks [0] whether to go on and
 * runs [1]; a call runs [0].  NULL: there is none, or the library lacks it. */
struct ht_bodies {
	struct ht_function *of[2];
};
struct ht_bodies ht_control_bodies(const struct ht_node *n);
/* Whether a branch or loop has both functions for itself alone. */
bool ht_runs_own(const struct ht_node *n);
/* The attribute that names body i. */
const struct ht_attr *ht_control_attr(const struct ht_node *n, int i);
/* The operand that is the bodies' first argument. */
int32_t ht_control_first(const struct ht_node *n);

/* ---- calls.c ---- */

/* Fills `called` with the functions that the graph may call, by name; its memory is from `a`. */
void ht_called_functions(const struct ht_graph *g, struct ht_arena *a, struct ht_map *called);
/* Removes all others. */
void ht_drop_uncalled(struct ht_graph *g, struct ht_arena *scratch);
/* Whether running `f`, a function of `library`, can come to running it again, or leads from one such function to another.
 * The functions note the answer, so that all together cost one walk.  `a` for scratch. */
bool ht_recurs(struct ht_graph *library, struct ht_function *f, struct ht_arena *a);

/* ---- attributes ---- */

enum ht_attr_kind {
	HT_ATTR_NONE, /* an AttrValue without a value */
	HT_ATTR_STRING,
	HT_ATTR_INT,
	HT_ATTR_FLOAT,
	HT_ATTR_BOOL,
	HT_ATTR_TYPE,
	HT_ATTR_SHAPE,
	HT_ATTR_TENSOR,
	HT_ATTR_PLACEHOLDER, /* "$T" in function bodies */
	HT_ATTR_FUNC,
	HT_ATTR_LIST
};

/* The form of a tensor attribute in its file; export writes the same form. */
enum ht_tensor_form {
	HT_TENSOR_CONTENT, /* tensor_content: the bytes of all elements, little endian */
	HT_TENSOR_VALUES,  /* *_val: `values` of them; the last one is repeated */
	HT_TENSOR_SHARD    /* TF.js: the bytes are in a weight shard, nothing in the graph */
};

struct ht_tensor {
	enum ht_dtype dtype;
	struct ht_shape shape; /* known for constants; may be unknown in odd, valid graphs */
	enum ht_tensor_form form;
	size_t values;   /* of HT_TENSOR_VALUES */
	int64_t version; /* TensorProto.version_number */
	/* Elements in memory order, dense, all written out whatever `form` is.  HT_BOOL is one byte.
	 * NULL for HT_STRING and for types without fixed size; zero bytes, not NULL, for an empty
	 * tensor.  The tensor owns a reference, which ht_tensor_drop() releases. */
	struct ht_blob *blob;
	struct ht_str *strings; /* HT_STRING: `values` of them */
	struct ht_str extra;    /* fields that the IR does not model, wire form */
};

struct ht_func_ref {
	struct ht_str name;
	struct ht_attr *attrs; /* linked */
	struct ht_str extra;
};

/* What a file may say of a shape beside its dimensions. */
struct ht_shape_rest {
	struct ht_str *dim_names; /* NULL: all empty */
	struct ht_str extra;
};

struct ht_attr_value {
	enum ht_attr_kind kind;
	union {
		struct ht_str s; /* string, placeholder */
		int64_t i;
		float f;
		bool b;
		enum ht_dtype type; /* may include HT_REF; unknown numbers are kept */
		struct {
			struct ht_shape shape;
			struct ht_shape_rest *rest; /* NULL: there is none */
		} shape;
		struct ht_tensor *tensor;
		struct ht_func_ref *func;
		struct {
			enum ht_attr_kind kind; /* of all items; NONE: an empty list */
			struct ht_attr_value *item;
			size_t n;
		} list;
	};
};

struct ht_attr {
	struct ht_str name;
	struct ht_attr_value value;
	struct ht_attr *next; /* in the order of the file; new ones at the end */
};

/* ---- nodes ---- */

struct ht_type {
	enum ht_dtype dtype; /* HT_INVALID: not known (yet) */
	struct ht_shape shape;
};

/* A use of a result.  In a function body as imported, `port` is the result's name
 * ("output" of "node:output:0") and `index` counts within it; where the op is in the table the
 * reader resolves it, so that `port` is empty and `index` counts over all results. */
struct ht_value {
	struct ht_node *node;
	int32_t index;
	struct ht_str port;
};

struct ht_node {
	uint32_t id; /* unique in its graph, below graph->ids; never reused */
	enum ht_op op;
	struct ht_str type; /* op type as written */
	struct ht_str name; /* unique in its graph */
	struct ht_str device;
	struct ht_value *in;
	struct ht_node **control; /* nodes that must run before */
	int32_t ins, controls;
	/* Other nodes may share them.  They are changed with ht_attr_set() and its variants, or after ht_attr_own(). */
	struct ht_attr *attrs;
	struct ht_type *out;   /* of an opaque node: one for each used result, untyped */
	int32_t outs, out_cap; /* allocated results; 0: `outs` */
	/* Fields of the NodeDef that the IR does not model, in wire format; NULL: there are none. */
	const struct ht_str *extra;
	const struct ht_str
		*origin; /* imported nodes that became this one; NULL: it was imported itself */
	struct ht_origin_set *origin_set; /* graph.c: an index of a long list */
	int32_t origins;
	bool shares_attrs; /* `attrs` belong to the node that this one was copied from */
	struct ht_node *prev,
		*next; /* the graph's order; operands first, but for loop back edges */
	struct ht_graph *graph;
};

/* Of an axis of a tensor that is as long as its open size can be, `most`: index i is in the tensor where
 * i / inner % most is below the size. */
struct ht_open_axis {
	int32_t size;  /* 1 + its number in the graph; 0: the axis is not open */
	int64_t inner; /* indices for each of the size */
};

/* A named input or output of a graph. */
struct ht_port {
	struct ht_str name;
	struct ht_str alias; /* its other name: the key in the signature; empty: none */
	struct ht_value value;
	bool open; /* an input: the program runs for any size of its first dimension */
	/* An input: runs may be told that it has the same elements as in the run before, and keep what they made of it. */
	bool steady;
	bool strings; /* behind the pass "strings": its elements, of int64, are numbers of strings */
	/* By axis, behind the pass "sizes": the value is as long as its sizes can be, and its memory has as
	 * many elements as they are.  NULL: no axis is open. */
	const struct ht_open_axis *axis;
	struct ht_port *next;
};

/* First dimension of open inputs behind the pass "sizes": the rows of the largest part of a batch.  A power of
 * 4, so that lowering makes smaller parts of it. */
enum { HT_PART_ROWS = 64 };

/* A way to run a graph: a signature of a SavedModel, or the inputs and outputs that the importer found. */
struct ht_entry {
	struct ht_str name; /* "serving_default"; "" for graphs without signatures */
	struct ht_str method;
	struct ht_port *inputs, *outputs;
	struct ht_port *targets; /* nodes to run for their effects; value.index is -1 */
	struct ht_entry *next;
};

/* A function of the library.  Its arguments are nodes of its body of type "_Arg" (attributes T,
 * index), its results `rets`. */
struct ht_function {
	struct ht_str name;
	struct ht_graph *body;
	struct ht_port *args, *rets;  /* formal, in order; rets name values of the body */
	struct ht_port *control_rets; /* value.index is -1 */
	struct ht_attr *attrs;
	struct ht_str signature; /* the OpDef, wire form */
	struct ht_str extra;
	/* It is a copy that one branch or loop runs and nobody else, so that its arguments have the types
	 * of what that node passes (passes/bodies.c). */
	bool special;
	/* Of a copy that calls within it may come to run again (passes/recursion.c): the function that the call from outside
	 * enters, and that all copies for this call have in common; empty: of others. */
	struct ht_str recursion;
	/* Of such a copy that calls name: the types of its results.  NULL: branches and loops name it, or none. */
	struct ht_type *result;
	enum ht_recurs { HT_RECURS_UNKNOWN, HT_RECURS_NO, HT_RECURS } recurs; /* ht_recurs() */
	/* The body and all else is another graph's, which nobody may change: ht_functions_own(). */
	bool shared;
	struct ht_function *next;
};

/* A symbolic dimension, number -2 - dim of its graph: a name, or a number that depends on symbolic dimensions before it. */
struct ht_sym {
	struct ht_str name;     /* where `of` has no sizes */
	struct ht_size_expr of; /* canonical; its sizes are symbolic dimensions by number */
};

/* A size that is known only when a program runs, within bounds: that of all open dimensions of number `axis`, taken from the
 * inputs; where `by` is not empty, one that the node of this name computes (HT_COMPUTES_SIZE); where `from` has a size, one that
 * follows from that, which has a smaller number.  In types it is the symbol `dim`, up to the pass "sizes". */
enum {
	HT_MOST_SIZES = 8,     /* of inputs */
	HT_MOST_RUN_SIZES = 64 /* of a graph */
};
struct ht_open_size {
	int64_t dim;
	int32_t axis;
	int64_t least, most;
	struct ht_str by;
	struct ht_size_expr from; /* times 1, one size or none */
};

/* symbol.c: a dimension as a product of symbolic dimensions, by number, and a number; NONE: it is not known. */
struct ht_size_expr ht_dim_product(const struct ht_graph *g, int64_t dim);
/* The dimension that such a product is; HT_DIM_UNKNOWN: NONE, or a product of more than HT_DIM_SIZES symbolic dimensions. */
enum { HT_DIM_SIZES = 2 };
int64_t ht_dim_of_product(struct ht_graph *g, struct ht_size_expr e);
int64_t ht_dim_named(struct ht_graph *g, struct ht_str name);
/* A dimension as a product of open sizes of the graph, by number, and a number; NONE: it depends on something else. */
struct ht_size_expr ht_dim_of_sizes(const struct ht_graph *g, int64_t dim);
/* Whether it depends on open sizes, and on nothing else. */
bool ht_dim_is_open(const struct ht_graph *g, int64_t dim);
/* 1 + the number of the open size that it is; 0: it is none. */
int32_t ht_dim_size(const struct ht_graph *g, int64_t dim);
/* The most that a dimension can be; -1: not known. */
int64_t ht_dim_most(const struct ht_graph *g, int64_t dim);
/* floor((dim + add) / divisor), where `dim` is a number or a multiple of one size of the graph that is stated: a multiple again, or a
 * size that is added to the graph.  HT_DIM_UNKNOWN: it is no such dimension, there are too many sizes, or the result may be below 1. */
int64_t ht_dim_derived(struct ht_graph *g, int64_t dim, int64_t add, int64_t divisor);
/* Adds an open size to those of the graph, which are HT_MOST_RUN_SIZES at most. */
void ht_graph_add_size(struct ht_graph *g, struct ht_open_size size);
/* Whether a result of the node has a size that the run computes: it has the trait, and is not padded to max_output_size. */
bool ht_computes_size(const struct ht_node *n);
/* The number of the size that a node computes, from 1; 0: none that has a bound. */
int32_t ht_computed_size(const struct ht_graph *g, const struct ht_node *n);

/* Where a graph came from; decides how it is written again. */
enum ht_source {
	HT_SOURCE_NONE,
	HT_SOURCE_GRAPHDEF,
	HT_SOURCE_METAGRAPH,
	HT_SOURCE_SAVEDMODEL,
	HT_SOURCE_TFJS
};

struct ht_input_file {
	const struct ht_file *file;
	struct ht_input_file *next;
};

/* A file that a constant, placeholder or variable of strings names: an asset of a SavedModel, or a text that fills a table. */
struct ht_named_file {
	struct ht_str node; /* of the graph: its value is the name of the file */
	const char *path;
	const struct ht_file *file; /* NULL: the file cannot be read, for the reason `why` */
	const char *why;
	struct ht_named_file *next;
};

struct ht_graph {
	struct ht_arena *arena; /* not owned */
	struct ht_node *first, *last;
	size_t nodes;        /* in the list */
	uint32_t ids;        /* one above the largest id ever given */
	struct ht_map names; /* name → node */
	struct ht_function *functions, *last_function;
	struct ht_map function_names;
	struct ht_entry *entries;
	struct ht_sym *syms; /* see ht_shape */
	size_t sym_count, sym_cap;
	/* Sizes that stay open, with bounds.  A program whose inputs have open first dimensions alone has none:
	 * struct ht_port. */
	struct ht_open_size *size; /* ht_graph_add_size(); NULL: none */
	int32_t sizes;
	bool closed; /* types have the extents of the largest sizes */
	/* Of a library: where signatures of ops say float32, they mean float64 too, and in place of a stated float32 float64. */
	bool wide;
	enum ht_source source;
	const char *path;       /* as given by the user; NULL for function bodies */
	struct ht_str versions; /* VersionDef, wire form */
	struct ht_str extra;    /* fields of the GraphDef that the IR does not model */
	/* The MetaGraphDef, SavedModel or model.json around the GraphDef, without the graph: in wire
	 * form (JSON text for TF.js). */
	struct ht_str container;
	/* Variables of a SavedModel or MetaGraphDef: where their values are, or NULL. */
	const char *checkpoint; /* path prefix of the bundle */
	struct ht_input_file
		*inputs; /* the files that it was read from, without the checkpoint; NULL: memory */
	struct ht_named_file *
		named_files; /* files that fill tables; those that were read are in `inputs`, too */
	struct ht_function *function; /* whose body this is, or NULL */
	struct ht_graph *
		library; /* whose functions its nodes run: of a body the program's graph, else itself */
	/* Behind the pass "strings": the constant strings of all its functions, in the order of their numbers; NULL: no tensor has
	 * numbers of strings. */
	const struct ht_map *strings;
	size_t folded;     /* bytes that passes/fold.c has made, of all its functions too */
	uint64_t verified; /* verify.c: the mark of the state that was found good; 0: none was */
};

struct ht_graph *ht_graph_new(struct ht_arena *a);
/* clone.c: a copy in another arena.  The original must outlive the copy and must not be changed: the copy shares its strings and
 * shapes, and the attributes that the copy does not change.  Tensors with bytes of a file are copied, and hold references to
 * these bytes. */
struct ht_graph *ht_graph_clone(const struct ht_graph *g, struct ht_arena *a);
/* Likewise to be compiled: without entries, with the functions that the graph can call, as
 * ht_function_share() adds them. */
struct ht_graph *ht_graph_clone_sharing(const struct ht_graph *g, struct ht_arena *a);
/* The library's shared functions get bodies of their own, or go where nothing calls them any more. */
void ht_functions_own(struct ht_graph *g);
/* A function with an empty body at the end of the library.  `name` must be free. */
struct ht_function *ht_function_new(struct ht_graph *g, struct ht_str name);
/* An empty body in place of the one it has. */
void ht_function_set_body(struct ht_graph *g, struct ht_function *f);
/* A function of another graph, which outlives `g`, as one of `g` too: to call it, not to change it. */
struct ht_function *ht_function_share(struct ht_graph *g, const struct ht_function *f);
/* clone.c: a copy of `f`, a function of library `g`, at its end.  Attributes of the body that are "$T" get
 * the value of T in `attrs`. */
struct ht_function *ht_function_copy(struct ht_graph *g, const struct ht_function *f,
	struct ht_str name, const struct ht_attr *attrs);
/* clone.c: a list of attributes with values of its own, "$T" likewise. */
struct ht_attr *ht_attrs_copy(
	const struct ht_attr *from, const struct ht_attr *with, struct ht_arena *a);
/* A node at the end of the graph, without operands or results.  `name` must be free. */
struct ht_node *ht_node_new(struct ht_graph *g, struct ht_str type, struct ht_str name);
/* The same of an op and of strings that outlive the graph. */
struct ht_node *ht_node_of(
	struct ht_graph *g, enum ht_op op, struct ht_str type, struct ht_str name);
/* Changes the node's op; the caller adapts operands, results and attributes. */
void ht_node_set_type(struct ht_node *n, struct ht_str type);
/* `name` must be free, or the node's own. */
void ht_node_rename(struct ht_node *n, struct ht_str name);
/* Moves `n` in front of `before` (NULL: to the end). */
void ht_node_move(struct ht_node *n, struct ht_node *before);
/* Removes a node.  It must have no uses. */
void ht_node_remove(struct ht_node *n);
void ht_node_set_ins(struct ht_node *n, const struct ht_value *in, int32_t ins);       /* copies */
void ht_node_set_controls(struct ht_node *n, struct ht_node *const *c, int32_t count); /* copies */
void ht_node_set_outs(struct ht_node *n, int32_t outs); /* keeps the types of remaining results */
/* `base`, or `base` with "_1", "_2", … that no node, or no function, has. */
struct ht_str ht_graph_free_name(struct ht_graph *g, struct ht_str base);
struct ht_str ht_graph_free_function_name(struct ht_graph *library, struct ht_str base);
struct ht_node *ht_graph_node(const struct ht_graph *g, struct ht_str name); /* NULL: none */
struct ht_function *ht_graph_function(const struct ht_graph *g, struct ht_str name);
/* Every use of `from` (operands, entry outputs, results of the function) becomes `to`. */
void ht_replace_uses(struct ht_graph *g, struct ht_value from, struct ht_value to);
/* `n` takes over the origins of `from` (or `from` itself when it was imported). */
void ht_node_add_origin(struct ht_node *n, const struct ht_node *from);
/* Whether the row of the node's op has one of the traits; an opaque op has none. */
static inline bool ht_is(const struct ht_node *n, uint64_t traits)
{
	return (ht_op_traits[n->op] & traits) != 0;
}
static inline enum ht_axes ht_axes(const struct ht_node *n)
{
	return (enum ht_axes)(ht_op_traits[n->op] >> HT_AXES_BIT & 31);
}
/* Whether some numbers of operand 1 stop a kernel of `n`: a divisor of integers, or an exponent. */
static inline bool ht_checks_second(const struct ht_node *n)
{
	enum ht_kind kind = ht_dtype_info(n->out[0].dtype)->kind;

	return ht_is(n, HT_ELEMENTWISE) && n->ins == 2 &&
	       (kind == HT_KIND_INT || kind == HT_KIND_UINT) && !ht_is(n, HT_COMMUTES | HT_LINEAR);
}
static inline enum ht_number ht_number(const struct ht_node *n)
{
	return (enum ht_number)(ht_op_traits[n->op] >> HT_NUMBER_BIT);
}
/* The operand that a contraction multiplies with weights, or an op's image. */
static inline int32_t ht_data_operand(const struct ht_node *n)
{
	return ht_is(n, HT_CONV_TRANSPOSE) ? 2 : 0;
}
/* Whether operand `i` of an op of HT_LAYOUT is an image, in the layout that data_format says. */
bool ht_is_image(const struct ht_node *n, int32_t i);
static inline struct ht_value ht_out(struct ht_node *n, int32_t i)
{
	return (struct ht_value){ n, i, { 0 } };
}
static inline struct ht_type *ht_type_of(struct ht_value v)
{
	return &v.node->out[v.index];
}
static inline bool ht_value_eq(struct ht_value a, struct ht_value b)
{
	return a.node == b.node && a.index == b.index;
}

/* Attributes.  Getters return the fallback when the attribute is absent or of another kind. */
const struct ht_attr *ht_attr_find(const struct ht_node *n, const char *name);
/* ht_attr_find() for an attribute that is to be changed.  If the node shares its attributes, it gets copies of them, and of the items
 * of their lists. */
struct ht_attr *ht_attr_own(struct ht_node *n, const char *name);
void ht_attrs_own(struct ht_node *n);
/* Whether an attribute is type `t`, or a list with it; and each such `from` becomes `to`. */
bool ht_attrs_have_type(const struct ht_node *n, enum ht_dtype t);
void ht_attrs_retype(struct ht_node *n, enum ht_dtype from, enum ht_dtype to);
int64_t ht_attr_int(const struct ht_node *n, const char *name, int64_t fallback);
float ht_attr_float(const struct ht_node *n, const char *name, float fallback);
bool ht_attr_bool(const struct ht_node *n, const char *name, bool fallback);
struct ht_str ht_attr_str(const struct ht_node *n, const char *name, const char *fallback);
enum ht_dtype ht_attr_type(const struct ht_node *n, const char *name, enum ht_dtype fallback);
/* The value of a type attribute, with the op definition's default. */
enum ht_dtype ht_type_attr(const struct ht_node *n, const char *name);
/* Adds or replaces. */
struct ht_attr_value *ht_attr_set(struct ht_node *n, const char *name);
void ht_attr_set_int(struct ht_node *n, const char *name, int64_t i);
void ht_attr_set_bool(struct ht_node *n, const char *name, bool b);
void ht_attr_set_float(struct ht_node *n, const char *name, float f);
void ht_attr_set_shape(struct ht_node *n, const char *name, struct ht_shape s); /* shared */
void ht_attr_set_str(struct ht_node *n, const char *name, struct ht_str s);
void ht_attr_set_type(struct ht_node *n, const char *name, enum ht_dtype t);
void ht_attr_set_ints(struct ht_node *n, const char *name, const int64_t *v, size_t count);
void ht_attr_set_tensor(struct ht_node *n, const char *name, struct ht_tensor *t);
/* Integers of a list attribute; NULL and *count = 0 when absent. */
int64_t *ht_attr_ints(const struct ht_node *n, const char *name, size_t *count, struct ht_arena *a);
void ht_attr_remove(struct ht_node *n, const char *name);
/* An attribute whose name stands before it in the list, too; NULL: none.  `a` for scratch. */
const struct ht_attr *ht_attr_twice(const struct ht_attr *attrs, struct ht_arena *a);

/* Constants. */
/* A tensor in memory order; takes over the reference to `blob` (may be NULL). */
struct ht_tensor *ht_tensor_new(
	struct ht_arena *a, enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob);
/* Releases the bytes before the arena does; `blob` becomes NULL. */
void ht_tensor_drop(struct ht_tensor *t);
/* ht_tensor_drop() for a constant that is to be removed, unless it shares its attributes with another node. */
void ht_const_drop(const struct ht_node *n);
const struct ht_tensor *ht_const_tensor(struct ht_value v); /* NULL unless a Const with data */
/* The name by which a checkpoint and all nodes of one variable know it. */
struct ht_str ht_variable_name(const struct ht_node *n);
/* The value of a variable when a session begins, its attribute "_value" (passes/freeze.c), without elements where a session
 * brings them; NULL: not known. */
const struct ht_tensor *ht_variable_value(const struct ht_node *n);
/* table.c: whether a node is a table that one op fills, by handle, or one that is another table in each run; and whether it fills the table of operand 0 with keys and their
 * values. */
bool ht_is_table(const struct ht_node *n);
bool ht_is_table_of_run(const struct ht_node *n);
bool ht_fills_table(const struct ht_node *n);
/* Whether a table is one of those that runs change. */
bool ht_is_mutable_table(const struct ht_node *n);
/* The op of a mutable table like a dense one, which has an empty and a deleted key as operands; NULL: `n` is no dense table. */
const char *ht_general_table(const struct ht_node *n);
/* Whether a node reads tensors, whose names are operand 1, from a checkpoint. */
bool ht_restores(const struct ht_node *n);
/* The shape of a table's values. */
struct ht_shape ht_table_row(const struct ht_node *n);
/* The most keys that a program can list of a mutable table. */
int64_t ht_table_most_exported(const struct ht_node *table);
/* Whether a node fills the table of operand 0 with the lines of the text file that operand 1 names. */
bool ht_fills_table_from_file(const struct ht_node *n);
/* The "_keys" or "_values" of a table (passes/tables.c); NULL: not known. */
const struct ht_tensor *ht_table_part(const struct ht_node *n, const char *part);
/* The value of a Const of HT_STRING, with a known shape. */
const struct ht_tensor *ht_const_text(struct ht_value v);
/* strings.c: a tensor of the numbers of a tensor of strings: each string's place in `strings`, to which it is added where it is
 * missing.  The shape must be known, and `strings` has the empty string first. */
struct ht_tensor *ht_string_numbers(
	const struct ht_tensor *t, struct ht_map *strings, struct ht_arena *a);
void ht_strings_init(struct ht_map *strings, struct ht_arena *a);
/* Whether an op makes of numbers of strings what it would make of the strings: it moves them, hands them on, or asks whether
 * they are equal. */
bool ht_takes_string_numbers(const struct ht_node *n);
/* Integers of a constant i32 or i64 tensor; false when it is none. */
bool ht_const_ints(struct ht_value v, struct ht_arena *a, int64_t **p, size_t *n);
/* Element i of an i16, i32 or i64 tensor. */
int64_t ht_tensor_int(const struct ht_tensor *t, size_t i);
/* A new Const node; takes over the reference to `blob`. */
struct ht_node *ht_const_new(struct ht_graph *g, struct ht_str name, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *blob);
/* Likewise with an additional reference: the caller keeps its own, so that nothing leaks when memory
 * runs out. */
struct ht_node *ht_const_sharing(struct ht_graph *g, struct ht_str name, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *blob);
struct ht_tensor *ht_tensor_sharing(
	struct ht_arena *a, enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob);

/* The users of every result, in the caller's arena; stale after any change to the graph. */
struct ht_uses {
	struct ht_use {
		struct ht_node *node;
		int32_t arg; /* operand number; -1: a control edge */
		struct ht_use *next;
	} **of;          /* by node id: uses of any of its results */
	bool *is_output; /* by node id: it is an output of an entry or a result of the function */
	size_t *first_count; /* by node id: index of its first result in `count` */
	int *count;          /* ht_use_count() of each result */
	struct ht_graph *graph;
};
struct ht_uses ht_graph_uses(struct ht_graph *g, struct ht_arena *a);
int ht_use_count(const struct ht_uses *u, struct ht_value v); /* outputs count as uses */

/* Puts nodes in an order where operands and control inputs come first (stable).  Cycles must pass
 * through NextIteration → Merge; any other is HT_E_INPUT, and names the nodes of one cycle. */
enum ht_status ht_graph_sort(struct ht_graph *g, struct ht_diags *d);
/* The edge of a loop that the order leaves out. */
bool ht_closes_loop(const struct ht_node *from, const struct ht_node *to);

/* ---- verify.c ---- */

/* Checks that names are unique, operands are in the graph and in range, arity, operand dtypes and
 * attributes agree with the op table, and nodes are in order.  A failure after a pass is a defect of the
 * pass; after import it is an error of the file (HT_E_INPUT).  Graphs that were good and have not
 * changed since are not looked at again. */
enum ht_status ht_verify(struct ht_graph *g, struct ht_diags *d);

/* ---- infer.c: dtypes and shapes ---- */

/* Sets the types of all results, in order, also in functions.  Shape arithmetic reads constants and
 * follows values through Shape, Pack, StridedSlice and similar ops.  Shapes that cannot be known stay
 * unknown; a contradiction is HT_E_INPUT with the node's name. */
enum ht_status ht_infer_types(struct ht_graph *g, struct ht_diags *d);
/* Likewise, but what is not known yet does not spread through control flow: a loop's value keeps the shape that it
 * begins with while nothing is known of what an iteration makes of it, and a branch has the shape of its one
 * known side.  A guess, to be checked by ht_infer_types() when more is known. */
enum ht_status ht_infer_types_hopefully(struct ht_graph *g, struct ht_diags *d);
/* The shape that a placeholder states; `library` is the graph that has the version.  Before version 22 a
 * Placeholder stated [] where its shape was not known. */
struct ht_shape ht_placeholder_shape(const struct ht_graph *library, const struct ht_node *n);

/* ---- text.c: the .hir form (docs/hir.md) ---- */

struct ht_text_options {
	bool weights_inline; /* print all constants inline; else those above 64 elements go to the weights file */
};
/* Prints the graph; constants that do not go inline are appended to `weights` (may be NULL with
 * weights_inline) and referred to by hash. */
void ht_text_print(const struct ht_graph *g, const struct ht_text_options *opt, struct ht_buf *out,
	struct ht_buf *weights);
/* `path` names the source in diagnostics; `weights` may be NULL. */
enum ht_status ht_text_parse(struct ht_arena *a, struct ht_str text, const char *path,
	struct ht_file *weights, struct ht_diags *d, struct ht_graph **out);

#endif
