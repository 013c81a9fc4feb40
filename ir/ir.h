/* ir: the graph, its op table, text form, verifier and shape inference.
 *
 * A graph models all of a GraphDef (names, attributes, control edges, functions, opaque ops), so
 * import and export lose nothing; passes rewrite it step by step into a form that can be lowered.
 * A graph and its nodes live in the graph's arena and never move.  While a thread changes a graph,
 * no other thread may use it. */
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

/* Effects.  Pruning and the elimination of common subexpressions respect them. */
enum {
	HT_PURE = 0,
	HT_READS = 1,  /* reads state that other nodes write */
	HT_WRITES = 2, /* writes state: is never removed while its state is reachable */
	HT_RANDOM = 4, /* two calls give different results */
	HT_ORDERED =
		8, /* keeps its place among the other ordered ops (I/O, assertions, control flow) */
	HT_CALLS = 16, /* has the effects of the functions it names */
};

/* The precision class of an op that no profile lists. */
enum ht_op_prec {
	HT_PREC_NONE,   /* no arithmetic */
	HT_PREC_LOW,    /* computes in a low dtype */
	HT_PREC_FOLLOW, /* computes in the dtype of its operands */
	HT_PREC_KEEP    /* computes in the dtype that the graph states */
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
	struct ht_str name; /* TensorFlow's name, by which function bodies refer to results */
	int8_t type_attr;   /* index into type_attrs; -1: the type is `fixed` */
	int8_t type_list;   /* 1: the type attribute is list(type), one element a tensor */
	bool ref;           /* a reference to a variable ("T&") */
	enum ht_dtype fixed;
	/* "N": there are this many tensors of one type; empty: one tensor */
	struct ht_str number_attr;
	int8_t number_default; /* default of number_attr; -1: none */
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
	const char *lower_name; /* for printing; lower/ops.c has the pointer */
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
/* The index of the argument with that name; -1: there is none. */
int32_t ht_named_argument(enum ht_op op, const char *name);
/* The index of the argument that receives a gradient, which TensorFlow marks by its name; -1: there is none. */
int32_t ht_gradient_argument(enum ht_op op);
/* The traits of each row; use ht_is(), ht_axes() and ht_number(). */
extern const uint64_t ht_op_traits[HT_OP_END];
/* HT_OP_OPAQUE: the table does not list the type. */
enum ht_op ht_op_named(struct ht_str type);

/* signature.c: a row's formal arguments and results, resolved by a node's attributes. */

/* The number of tensors of a formal argument or result of the node's row; -1: its number attribute
 * is missing or wrong.  One list of operands without its attribute takes the remaining operands
 * (TF.js leaves TArgs of _FusedConv2D out). */
int32_t ht_formal_count(const struct ht_node *n, const struct ht_op_arg *arg);
/* The dtype of tensor `i` of the formal; HT_INVALID: its type attribute is missing. */
enum ht_dtype ht_formal_dtype(const struct ht_node *n, const struct ht_op_arg *arg, int32_t i);
/* The number of operands, or of results, by the row; -1: the node is opaque, or lacks
 * attributes. */
int32_t ht_node_arg_count(const struct ht_node *n);
int32_t ht_node_result_count(const struct ht_node *n);
/* The index among all results of result `index` of formal `port` ("node:port:index" in function
 * bodies); -1: there is none, or the node is opaque. */
int32_t ht_node_result_named(const struct ht_node *n, struct ht_str port, int32_t index);
/* The inverse of ht_node_result_named(): the formal of result `result`, and its index there; empty:
 * the node is opaque. */
struct ht_str ht_node_result_name(const struct ht_node *n, int32_t result, int32_t *index);

/* ---- control.c: branches, loops and calls, which run functions ---- */

/* The functions of a node.  A branch runs [0] if its condition, operand 0, is true, else [1].  The
 * condition of a loop is [0], its body [1].  A call runs [0].  NULL: the node has no such function,
 * or the library lacks it. */
struct ht_bodies {
	struct ht_function *of[2];
};
struct ht_bodies ht_control_bodies(const struct ht_node *n);
/* Whether no other node runs the functions of this branch or loop. */
bool ht_runs_own(const struct ht_node *n);
/* The attribute that names body i. */
const struct ht_attr *ht_control_attr(const struct ht_node *n, int i);
/* The index of the operand that is the bodies' first argument. */
int32_t ht_control_first(const struct ht_node *n);
/* Why no program can have a result of this branch or loop, "gives …": the run decides how many dimensions it has.  NULL: each has one number of them, or
 * nothing is known of it. */
const char *ht_varies_in_rank(const struct ht_node *n);

/* ---- calls.c ---- */

/* Fills `called` with the functions that the graph may call, by name, in memory from `a`. */
void ht_called_functions(const struct ht_graph *g, struct ht_arena *a, struct ht_map *called);
/* Removes all functions that the graph cannot call. */
void ht_drop_uncalled(struct ht_graph *g, struct ht_arena *scratch);
/* Whether `f`, a function of `library`, is recursive, or lies on a path of calls from one recursive
 * function to another.  The functions record the answer, so all queries together cost one walk. `a`
 * for scratch. */
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
enum { HT_ATTR_KINDS = HT_ATTR_LIST + 1 };

/* The form of a tensor attribute in its file; export writes the same form. */
enum ht_tensor_form {
	HT_TENSOR_CONTENT, /* tensor_content: the bytes of all elements, little endian */
	HT_TENSOR_VALUES,  /* *_val: `values` of them; the last one is repeated */
	HT_TENSOR_SHARD    /* TF.js: the bytes are in a weight shard; the graph has none */
};

struct ht_tensor {
	enum ht_dtype dtype;
	struct ht_shape shape; /* known for constants; may be unknown in unusual, valid graphs */
	enum ht_tensor_form form;
	size_t values;   /* number of values in HT_TENSOR_VALUES */
	int64_t version; /* TensorProto.version_number */
	/* Elements in memory order, dense, all present whatever `form` is.  HT_BOOL has one byte.
	 * NULL for HT_STRING and for types without fixed size; zero bytes, not NULL, for an empty
	 * tensor.  The tensor owns a reference, which ht_tensor_drop() releases. */
	struct ht_blob *blob;
	struct ht_str *strings; /* HT_STRING: `values` strings */
	struct ht_str extra;    /* fields that the IR does not model, in wire format */
};

struct ht_func_ref {
	struct ht_str name;
	struct ht_attr *attrs; /* a linked list */
	struct ht_str extra;
};

/* Further properties of a shape in a file, beside its dimensions. */
struct ht_shape_rest {
	struct ht_str *dim_names; /* NULL: all names are empty */
	struct ht_str extra;
};

struct ht_attr_value {
	enum ht_attr_kind kind;
	union {
		struct ht_str s; /* of kinds STRING and PLACEHOLDER */
		int64_t i;
		float f;
		bool b;
		enum ht_dtype type; /* may include HT_REF; numbers of unknown types are kept */
		struct {
			struct ht_shape shape;
			struct ht_shape_rest *rest; /* NULL: there is none */
		} shape;
		struct ht_tensor *tensor;
		struct ht_func_ref *func;
		struct {
			enum ht_attr_kind kind; /* of all items; HT_ATTR_NONE: an empty list */
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
	enum ht_dtype dtype; /* HT_INVALID: not known, or not yet */
	struct ht_shape shape;
};

/* A use of a result.  In a function body as imported, `port` is the result's name ("output" of
 * "node:output:0") and `index` counts within it.  If the op is in the table, the reader resolves
 * the name; then `port` is empty and `index` counts over all results. */
struct ht_value {
	struct ht_node *node;
	int32_t index;
	struct ht_str port;
};

struct ht_node {
	uint32_t id; /* unique in its graph, below graph->ids; never reused */
	enum ht_op op;
	struct ht_str type; /* op type as the file has it */
	struct ht_str name; /* unique in its graph */
	struct ht_str device;
	struct ht_value *in;
	struct ht_node **control; /* nodes that must run before this one */
	int32_t ins, controls;
	/* Other nodes may share the attributes.  Change them only with ht_attr_set() and its
	 * variants, or after ht_attr_own(). */
	struct ht_attr *attrs;
	struct ht_type *out;   /* for an opaque node: one for each used result, without a type */
	int32_t outs, out_cap; /* allocated results; 0: `outs` */
	/* Fields of the NodeDef that the IR does not model, in wire format; NULL: there are none. */
	const struct ht_str *extra;
	const struct ht_str
		/* the imported nodes from which passes made this one; NULL: the node was imported
		 * itself */
		*origin;
	struct ht_origin_set *origin_set; /* graph.c: an index of a long list */
	int32_t origins;
	bool shares_attrs; /* `attrs` belong to the node that this one was copied from */
	/* By inference: why each run of this node fails, if it may be that none runs it; NULL: nothing is known that would make it fail.  The
	 * shapes of its results are unknown then. */
	const char *fault;
	struct ht_node *prev,
		/* the next node in the graph's order: operands first, except for loop back edges */
		*next;
	struct ht_graph *graph;
};

/* An axis of a tensor with the extent of the largest value, `most`, of its open size.  Index i is
 * inside the tensor if i / inner % most is below the size of the run. */
struct ht_open_axis {
	int32_t size;  /* 1 + its number in the graph; 0: the axis is not open */
	int64_t inner; /* the number of consecutive indices that belong to one index of the size */
};

/* A named input or output of a graph. */
struct ht_port {
	struct ht_str name;
	struct ht_str alias; /* its key in the signature; empty: none */
	struct ht_value value;
	bool open; /* for an input: the program runs for any size of its first dimension */
	/* For an input: a run may be told that the input has the same elements as in the run
	 * before, and then uses what earlier runs derived from it. */
	bool steady;
	bool strings; /* after the pass "strings": its elements, of int64, are numbers of strings */
	/* By axis, after the pass "sizes": the value's type has the extents of the largest sizes;
	 * its memory has only the elements of the run's sizes.  NULL: no axis is open. */
	const struct ht_open_axis *axis;
	struct ht_port *next;
};

/* The first dimension of open inputs after the pass "sizes": the rows of the largest part of a
 * batch. A power of 4, from which lowering makes smaller parts. */
enum { HT_PART_ROWS = 64 };

/* A way to run a graph: a signature of a SavedModel, or the inputs and outputs that the importer found. */
struct ht_entry {
	struct ht_str name; /* "serving_default"; "" if the graph has no signatures */
	struct ht_str method;
	struct ht_port *inputs, *outputs;
	struct ht_port *targets; /* nodes that run for their effects; value.index is -1 */
	struct ht_entry *next;
};

/* A function of the library.  Its arguments are nodes of its body of type "_Arg" (attributes T,
 * index), its results are `rets`. */
struct ht_function {
	struct ht_str name;
	struct ht_graph *body;
	/* formal arguments and results, in order; `rets` name values of the body */
	struct ht_port *args, *rets;
	struct ht_port *control_rets; /* value.index is -1 */
	struct ht_attr *attrs;
	struct ht_str signature; /* the OpDef in wire format */
	struct ht_str extra;
	/* The function is a copy that only one branch or loop runs, so its arguments have the types
	 * of that node's operands (passes/bodies.c). */
	bool special;
	/* For a copy that is recursive (passes/recursion.c): the name of the function that the call
	 * from outside enters, which all copies for this call share.  Empty: for all other
	 * functions. */
	struct ht_str recursion;
	/* For such a copy that calls refer to: the types of its results.  NULL: only branches and
	 * loops refer to it, or nothing does. */
	struct ht_type *result;
	/* the answer of ht_recurs() */
	enum ht_recurs { HT_RECURS_UNKNOWN, HT_RECURS_NO, HT_RECURS } recurs;
	/* The body and all else belong to another graph and must not be changed: see
	 * ht_functions_own(). */
	bool shared;
	struct ht_function *next;
};

/* A symbolic dimension, number -2 - dim of its graph.  It is a name, or a number that depends on
 * symbolic dimensions before it. */
struct ht_sym {
	struct ht_str name;     /* if `of` has no sizes */
	struct ht_size_expr of; /* in canonical form; its sizes are symbolic dimensions by number */
};

/* A size that is known only when a program runs, within bounds.  It is the extent of all open dimensions of inputs that have number `axis`
 * of the model's open sizes, which images and reports call `name`.  Or, if `by` is not empty, the node of this
 * name computes it (HT_COMPUTES_SIZE); if that node is in a body, each run of the body computes it
 * anew, and no result of the body has it.  Or, if `from` has a size, it follows from that size,
 * which has a smaller number.  Up to the pass "sizes", types contain it as symbol `dim`. */
enum {
	HT_MOST_SIZES = 8,      /* that inputs give */
	HT_MOST_RUN_SIZES = 256 /* of a graph in all */
};
struct ht_open_size {
	int64_t dim;
	int32_t axis;
	int64_t least, most;
	struct ht_str name;       /* empty: it is not taken from inputs */
	struct ht_str by, within; /* within: the function whose body has the node; empty: none */
	struct ht_size_expr from; /* `times` is 1; one size, or none */
};

/* symbol.c: a dimension as a product of a number and symbolic dimensions, by number; NONE: not
 * known. */
struct ht_size_expr ht_dim_product(const struct ht_graph *g, int64_t dim);
/* The dimension that such a product is.  HT_DIM_UNKNOWN: the product is NONE, or has more than
 * HT_DIM_SIZES symbolic dimensions, as many as images have axes besides their channels. */
enum { HT_DIM_SIZES = 3 };
int64_t ht_dim_of_product(struct ht_graph *g, struct ht_size_expr e);
int64_t ht_dim_named(struct ht_graph *g, struct ht_str name);
/* A dimension as a product of a number and open sizes of the graph, by number; NONE: it depends on
 * something else. */
struct ht_size_expr ht_dim_of_sizes(const struct ht_graph *g, int64_t dim);
/* Whether a dimension depends on open sizes, and on nothing else. */
bool ht_dim_is_open(const struct ht_graph *g, int64_t dim);
/* Whether one of a shape's dimensions does. */
bool ht_shape_is_open(const struct ht_graph *g, struct ht_shape s);
/* Whether the rank is known, and each dimension is a number or a symbol. */
bool ht_shape_is_told(struct ht_shape s);
/* 1 + the number of the open size that a dimension is; 0: it is none. */
int32_t ht_dim_size(const struct ht_graph *g, int64_t dim);
/* The largest value of a dimension; -1: not known. */
int64_t ht_dim_most(const struct ht_graph *g, int64_t dim);
int64_t ht_dim_least(
	const struct ht_graph *g, int64_t dim); /* likewise where all sizes are the least */
/* floor((dim + add) / divisor), where `dim` is a number or a multiple of one size of the graph that
 * is stated.  The result is again a multiple, or a size that is added to the graph.
 * HT_DIM_UNKNOWN: `dim` is no such dimension, there are too many sizes, or the result may be below
 * 1. */
int64_t ht_dim_derived(struct ht_graph *g, int64_t dim, int64_t add, int64_t divisor);
/* Adds an open size to the graph, which has at most HT_MOST_RUN_SIZES. */
void ht_graph_add_size(struct ht_graph *g, struct ht_open_size size);
/* Whether a result of the node has a size that the run computes: the op has the trait, and the
 * result is not padded to max_output_size. */
bool ht_computes_size(const struct ht_node *n);
/* 1 + the number of the size that a node computes; 0: it computes none with a bound. */
int32_t ht_computed_size(const struct ht_graph *g, const struct ht_node *n);
/* The node of `g` that computes size `size`, counted from 1; NULL: `g` has none. */
struct ht_node *ht_size_node(const struct ht_graph *g, int32_t size);
/* The first size of a program that a run computes, NULL: there is none; and whether an input has an open size. */
const struct ht_open_size *ht_first_computed_size(const struct ht_graph *g);
bool ht_has_open_inputs(const struct ht_graph *g);
/* Size `size` of the program that `g` belongs to, counted from 1. */
const struct ht_open_size *ht_size_at(const struct ht_graph *g, int32_t size);
/* Lets `to`, a copy that is only read, refer to the symbols and sizes of the program that `from` belongs to.  They stay `from`'s. */
void ht_graph_share_sizes(struct ht_graph *to, const struct ht_graph *from);
/* Element `i` of attribute `of` of a node _Sizes: a number, and the sizes by which it is multiplied, counted from 1 (0: none).
 * False: the attribute says no such thing, since it came from a file. */
bool ht_stated_product(const struct ht_node *n, int64_t i, int64_t of[1 + HT_DIM_SIZES]);

/* The format from which a graph was read, and in which it is written again. */
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
	size_t nodes;        /* number of nodes in the list */
	uint32_t ids;        /* one more than the largest id given so far */
	struct ht_map names; /* name → node */
	struct ht_function *functions, *last_function;
	struct ht_map function_names;
	struct ht_entry *entries;
	struct ht_sym *syms; /* see ht_shape */
	size_t sym_count, sym_cap;
	/* Sizes that stay open, with bounds.  There are none if only first dimensions of inputs are
	 * open (struct ht_port). */
	struct ht_open_size *size; /* ht_graph_add_size(); NULL: none */
	int32_t sizes;
	bool closed; /* after the pass "sizes": types have the extents of the largest sizes */
	/* For a library: wherever signatures of ops say float32, they also allow float64, and a
	 * stated float32 may be float64. */
	bool wide;
	enum ht_source source;
	const char *path;       /* as the user gave it; NULL for function bodies */
	struct ht_str versions; /* the VersionDef in wire format */
	struct ht_str extra;    /* fields of the GraphDef that the IR does not model */
	/* The MetaGraphDef, SavedModel or model.json around the GraphDef, without the graph: in
	 * wire format (JSON text for TF.js). */
	struct ht_str container;
	/* Variables of a SavedModel or MetaGraphDef: where their values are, or NULL. */
	const char *checkpoint; /* path prefix of the bundle */
	struct ht_input_file
		*inputs; /* the files that it was read from, without the checkpoint; NULL: memory */
	struct ht_named_file *
		named_files; /* files that fill tables; those that were read are in `inputs`, too */
	struct ht_function *function; /* whose body this is, or NULL */
	struct ht_graph *
		/* the graph with the functions that the nodes run: for a body the program's graph,
		 * else the graph itself */
		library;
	/* After the pass "strings": the constant strings of the graph and its functions, in the
	 * order of their numbers; NULL: no tensor has numbers of strings. */
	const struct ht_map *strings;
	size_t folded; /* the bytes that passes/fold.c has made, for all functions together */
	/* verify.c: the mark of the last state that passed the verifier; 0: none did */
	uint64_t verified;
};

struct ht_graph *ht_graph_new(struct ht_arena *a);
/* clone.c: a copy in another arena.  The original must outlive the copy and must not change: the
 * copy shares its strings and shapes, and the attributes that the copy does not change.  Tensors
 * with bytes of a file are copied, and hold references to these bytes. */
struct ht_graph *ht_graph_clone(const struct ht_graph *g, struct ht_arena *a);
/* As ht_graph_clone(), for compilation: without entries, and with the functions that the graph can
 * call, added as by ht_function_share(). */
struct ht_graph *ht_graph_clone_sharing(const struct ht_graph *g, struct ht_arena *a);
/* Gives the library's shared functions bodies of their own, or removes them if nothing calls them
 * any more. */
void ht_functions_own(struct ht_graph *g);
/* A new function with an empty body, at the end of the library.  `name` must be free. */
struct ht_function *ht_function_new(struct ht_graph *g, struct ht_str name);
/* Replaces the body by an empty one. */
void ht_function_set_body(struct ht_graph *g, struct ht_function *f);
/* Adds a function of another graph, which must outlive `g`, to the library of `g`, which may call
 * it but must not change it. */
struct ht_function *ht_function_share(struct ht_graph *g, const struct ht_function *f);
/* clone.c: adds a copy of `f`, a function of library `g`, at the end of the library.  Attributes of
 * the body that are "$T" get the value of T in `attrs`. */
struct ht_function *ht_function_copy(struct ht_graph *g, const struct ht_function *f,
	struct ht_str name, const struct ht_attr *attrs);
/* clone.c: a copy of a list of attributes; "$T" is replaced likewise. */
struct ht_attr *ht_attrs_copy(
	const struct ht_attr *from, const struct ht_attr *with, struct ht_arena *a);
/* A new node at the end of the graph, without operands or results.  `name` must be free. */
struct ht_node *ht_node_new(struct ht_graph *g, struct ht_str type, struct ht_str name);
/* As ht_node_new(), for an op and for strings that outlive the graph. */
struct ht_node *ht_node_of(
	struct ht_graph *g, enum ht_op op, struct ht_str type, struct ht_str name);
/* Changes the node's op; the caller adapts operands, results and attributes. */
void ht_node_set_type(struct ht_node *n, struct ht_str type);
/* `name` must be free, or be the node's own. */
void ht_node_rename(struct ht_node *n, struct ht_str name);
/* Moves `n` in front of `before` (NULL: to the end). */
void ht_node_move(struct ht_node *n, struct ht_node *before);
/* Removes a node.  It must have no uses. */
void ht_node_remove(struct ht_node *n);
void ht_node_set_ins(struct ht_node *n, const struct ht_value *in, int32_t ins);       /* copies */
void ht_node_set_controls(struct ht_node *n, struct ht_node *const *c, int32_t count); /* copies */
void ht_node_set_outs(struct ht_node *n, int32_t outs); /* keeps the types of remaining results */
/* `base`, or `base` with the first suffix "_1", "_2", … that makes a name that no node, or no
 * function, has. */
struct ht_str ht_graph_free_name(struct ht_graph *g, struct ht_str base);
struct ht_str ht_graph_free_function_name(struct ht_graph *library, struct ht_str base);
struct ht_node *ht_graph_node(const struct ht_graph *g, struct ht_str name); /* NULL: none */
struct ht_function *ht_graph_function(const struct ht_graph *g, struct ht_str name);
/* Replaces every use of `from` (operands, entry outputs, results of the function) by `to`. */
void ht_replace_uses(struct ht_graph *g, struct ht_value from, struct ht_value to);
/* Adds the origins of `from` to those of `n` (or `from` itself if it was imported). */
void ht_node_add_origin(struct ht_node *n, const struct ht_node *from);
/* Whether the row of the node's op has one of the traits; an opaque op has none. */
/* Port number `i` of a list that has more than that many. */
static inline struct ht_port *ht_port_at(struct ht_port *first, int32_t i)
{
	for (; i > 0; i--)
		first = first->next;
	return first;
}

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
/* The index of the operand that a contraction multiplies with weights, or of an op's image. */
static inline int32_t ht_data_operand(const struct ht_node *n)
{
	return ht_is(n, HT_CONV_TRANSPOSE) ? 2 : 0;
}
/* Whether operand `i` of an op with HT_LAYOUT is an image in the layout of data_format. */
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

/* Attributes.  Getters return the fallback if the attribute is absent or of another kind. */
const struct ht_attr *ht_attr_find(const struct ht_node *n, const char *name);
/* ht_attr_find() for an attribute that the caller changes.  If the node shares its attributes, it
 * first gets copies of them, and of the items of their lists. */
struct ht_attr *ht_attr_own(struct ht_node *n, const char *name);
void ht_attrs_own(struct ht_node *n);
/* Whether an attribute is type `t`, or a list that contains it; and a function that replaces each
 * `from` by `to`. */
bool ht_attrs_have_type(const struct ht_node *n, enum ht_dtype t);
void ht_attrs_retype(struct ht_node *n, enum ht_dtype from, enum ht_dtype to);
int64_t ht_attr_int(const struct ht_node *n, const char *name, int64_t fallback);
float ht_attr_float(const struct ht_node *n, const char *name, float fallback);
bool ht_attr_bool(const struct ht_node *n, const char *name, bool fallback);
struct ht_str ht_attr_str(const struct ht_node *n, const char *name, const char *fallback);
/* Whether attribute data_format of an op on images or volumes says that the channels are axis 1 (NCHW, NCDHW); otherwise, and without the
 * attribute, they are the last axis. */
bool ht_channels_first(const struct ht_node *n);
enum ht_dtype ht_attr_type(const struct ht_node *n, const char *name, enum ht_dtype fallback);
/* The value of a type attribute, or the default of the op definition. */
enum ht_dtype ht_type_attr(const struct ht_node *n, const char *name);
/* A NUL-terminated copy of a name: names in the op table are parts of its text, without a NUL, but the getters above and the setters below
 * need one.  It lives as long as the enclosing expression. */
struct ht_attr_name {
	char s[64];
};
struct ht_attr_name ht_attr_name(struct ht_str name);
/* Adds or replaces an attribute; the caller fills in the value. */
struct ht_attr_value *ht_attr_set(struct ht_node *n, const char *name);
void ht_attr_set_int(struct ht_node *n, const char *name, int64_t i);
void ht_attr_set_bool(struct ht_node *n, const char *name, bool b);
void ht_attr_set_float(struct ht_node *n, const char *name, float f);
void ht_attr_set_shape(struct ht_node *n, const char *name, struct ht_shape s); /* shared */
void ht_attr_set_str(struct ht_node *n, const char *name, struct ht_str s);
void ht_attr_set_type(struct ht_node *n, const char *name, enum ht_dtype t);
void ht_attr_set_ints(struct ht_node *n, const char *name, const int64_t *v, size_t count);
void ht_attr_set_tensor(struct ht_node *n, const char *name, struct ht_tensor *t);
/* The integers of a list attribute; NULL and *count = 0: it is absent. */
int64_t *ht_attr_ints(const struct ht_node *n, const char *name, size_t *count, struct ht_arena *a);
void ht_attr_remove(struct ht_node *n, const char *name);
/* The first attribute whose name occurs before it in the list; NULL: none.  `a` for scratch. */
const struct ht_attr *ht_attr_twice(const struct ht_attr *attrs, struct ht_arena *a);

/* Constants. */
/* A tensor in memory order; takes over the reference to `blob` (may be NULL). */
struct ht_tensor *ht_tensor_new(
	struct ht_arena *a, enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob);
/* Releases the bytes before the arena is released; `blob` becomes NULL. */
void ht_tensor_drop(struct ht_tensor *t);
/* ht_tensor_drop() for a constant that is to be removed, unless it shares its attributes with another node. */
void ht_const_drop(const struct ht_node *n);
const struct ht_tensor *ht_const_tensor(struct ht_value v); /* NULL: not a Const with data */
/* The name that a checkpoint and all nodes of one variable use for it. */
struct ht_str ht_variable_name(const struct ht_node *n);
/* The value of a variable when a session begins: its attribute "_value" (passes/freeze.c), which
 * has no elements if the session provides them; NULL: not known. */
const struct ht_tensor *ht_variable_value(const struct ht_node *n);
/* table.c: whether a node is a table, given by handle, that one op fills; whether it is a table
 * that may be another one in each run; and whether it fills the table of operand 0 with keys and
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
/* The value of a Const of HT_STRING with a known shape; NULL: it is none. */
const struct ht_tensor *ht_const_text(struct ht_value v);
/* strings.c: the tensor of numbers for a tensor of strings: the index of each string in `strings`,
 * to which a missing string is added.  The shape must be known, and the first of `strings` must be
 * the empty string. */
struct ht_tensor *ht_string_numbers(
	const struct ht_tensor *t, struct ht_map *strings, struct ht_arena *a);
void ht_strings_init(struct ht_map *strings, struct ht_arena *a);
/* Whether an op has the same meaning for numbers of strings as for strings: it moves them, passes
 * them on, or tests them for equality. */
bool ht_takes_string_numbers(const struct ht_node *n);
/* The integers of a constant i32 or i64 tensor; false: it is none. */
bool ht_const_ints(struct ht_value v, struct ht_arena *a, int64_t **p, size_t *n);
/* Element i of an i16, i32 or i64 tensor. */
int64_t ht_tensor_int(const struct ht_tensor *t, size_t i);
/* A new Const node; takes over the reference to `blob`. */
struct ht_node *ht_const_new(struct ht_graph *g, struct ht_str name, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *blob);
/* As ht_const_new(), with an additional reference: the caller keeps its own, so nothing leaks when
 * memory runs out. */
struct ht_node *ht_const_sharing(struct ht_graph *g, struct ht_str name, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *blob);
struct ht_tensor *ht_tensor_sharing(
	struct ht_arena *a, enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob);

/* The uses of every result, in the caller's arena; invalid after any change to the graph. */
struct ht_uses {
	struct ht_use {
		struct ht_node *node;
		int32_t arg; /* index of the operand; -1: a control edge */
		struct ht_use *next;
	} **of;          /* by node id: uses of any of its results */
	bool *is_output; /* by node id: it is an output of an entry or a result of the function */
	size_t *first_count; /* by node id: the index of its first result in `count` */
	int *count;          /* ht_use_count() of each result */
	struct ht_graph *graph;
};
struct ht_uses ht_graph_uses(struct ht_graph *g, struct ht_arena *a);
int ht_use_count(const struct ht_uses *u, struct ht_value v); /* an output counts as a use */
/* Marks, by node id, all nodes that the marked nodes depend on; `controls`: by control edges, too. */
void ht_mark_operands(const struct ht_graph *g, bool *marked, bool controls);
/* Whether a node that `n` takes a value of, or waits for, is marked, by node id. */
bool ht_needs_marked(const struct ht_node *n, const bool *marked);

/* Orders the nodes so that operands and control inputs come first (stable).  Cycles must contain a
 * back edge NextIteration → Merge; for any other cycle it reports the nodes and returns
 * HT_E_INPUT. */
enum ht_status ht_graph_sort(struct ht_graph *g, struct ht_diags *d);
/* Makes `order`, which has each of the g->nodes nodes once, the order of the nodes. */
void ht_graph_set_order(struct ht_graph *g, struct ht_node *const *order);
/* Whether the edge is the back edge of a loop, which the order ignores. */
bool ht_closes_loop(const struct ht_node *from, const struct ht_node *to);

/* ---- verify.c ---- */

/* Checks that names are unique, operands are in the graph and in range, arity, operand dtypes and
 * attributes agree with the op table, and nodes are in order.  A failure after a pass is a defect
 * of the pass; after import it is an error of the file (HT_E_INPUT).  A graph that passed and has
 * not changed since is not checked again. */
enum ht_status ht_verify(struct ht_graph *g, struct ht_diags *d);

/* ---- infer.c: dtypes and shapes ---- */

/* Sets the types of all results, in order, also in functions.  Shape arithmetic reads constants and
 * infers values through Shape, Pack, StridedSlice and similar ops.  Shapes that cannot be known
 * stay unknown; a contradiction is HT_E_INPUT with the node's name. */
enum ht_status ht_infer_types(struct ht_graph *g, struct ht_diags *d);
/* As ht_infer_types(), but shapes that are unknown until lists are tensors do not spread through
 * control flow: a value of a loop keeps its first shape while the result of an iteration is unknown,
 * and a branch has the shape of its one known side.  The result is a guess, to be checked by
 * ht_infer_types() when more is known. */
enum ht_status ht_infer_types_hopefully(struct ht_graph *g, struct ht_diags *d);
/* The shape that a placeholder states; `library` is the graph that has the version.  Before version
 * 22, a Placeholder of unknown shape stated []. */
struct ht_shape ht_placeholder_shape(const struct ht_graph *library, const struct ht_node *n);

/* ---- text.c: the .hir form (docs/hir.md) ---- */

struct ht_text_options {
	/* print all constants inline; otherwise those of more than 64 elements go to the weights
	 * file */
	bool weights_inline;
};
/* Prints the graph.  Constants that are not printed inline are appended to `weights` (may be NULL
 * with weights_inline), and the text refers to them by hash. */
void ht_text_print(const struct ht_graph *g, const struct ht_text_options *opt, struct ht_buf *out,
	struct ht_buf *weights);
/* Parses a text.  `path` names the source in diagnostics; `weights` may be NULL. */
enum ht_status ht_text_parse(struct ht_arena *a, struct ht_str text, const char *path,
	struct ht_file *weights, struct ht_diags *d, struct ht_graph **out);

#endif
