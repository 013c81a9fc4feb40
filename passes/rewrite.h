/* rewrite: changes a graph for passes, keeps its uses up to date, and answers questions about
 * constants.
 *
 * A rewriter lives while one pass runs; the pass makes every change to operands through it.  Replacing
 * a value removes all nodes that thereby lose their last use, constants with their bytes included, but
 * never a placeholder, an output of an entry, or a node with an effect.  So after ht_rw_replace() any
 * node but the new ones may be gone: a removed node has `graph == NULL`. */
#ifndef HT_REWRITE_H
#define HT_REWRITE_H

#include "passes/passes.h"

struct ht_rw {
	struct ht_graph *g;
	struct ht_pass_context *c;
	struct ht_arena *arena;    /* scratch */
	struct ht_rw_index *index; /* rewrite_uses.c: all uses; made on demand */
	bool changed;
};

struct ht_rw_use {
	struct ht_node *node;
	int32_t arg;                    /* -1: a control edge */
	int32_t control;                /* the number of the control edge, if it is one */
	struct ht_rw_use *next, **prev; /* of the same result; ht_rw_next_use() continues with
					 * the other results */
};

void ht_rw_init(struct ht_rw *r, struct ht_graph *g, struct ht_pass_context *c);
/* Likewise for a pass that visits bodies: the ports of a function act as the entry of its graph.
 * *w must live as long as *r. */
struct ht_rw_within {
	struct ht_entry entry;
	struct ht_pass_context c;
};
void ht_rw_init_within(struct ht_rw *r, struct ht_rw_within *w, struct ht_graph *g,
	const struct ht_pass_context *c);
/* Runs passes on the body of `f`, whose ports act as the entry. */
enum ht_status ht_run_passes_within(
	const struct ht_pass_context *c, struct ht_function *f, const char *pipeline);

/* The current nodes in order, `*n` of them, for walks that change the graph.  If a node is
 * removed during the walk, its `graph` is NULL. */
struct ht_node **ht_rw_nodes(const struct ht_rw *r, size_t *n);

/* rewrite_uses.c: the uses of `n`'s results, result by result, then the control edges from `n`; entry
 * outputs are not among them.  Both functions return NULL at the end. */
const struct ht_rw_use *ht_rw_first_use(const struct ht_rw *r, const struct ht_node *n);
const struct ht_rw_use *ht_rw_next_use(const struct ht_rw *r, const struct ht_rw_use *u);
/* The number of uses as an operand or as an entry output. */
int ht_rw_uses(const struct ht_rw *r, struct ht_value v);
/* The number of uses of all results, control edges and entry outputs. */
int ht_rw_node_uses(const struct ht_rw *r, const struct ht_node *n);
/* The node that alone uses `v`, and only once; NULL if there are several uses or `v` is an
 * output. */
struct ht_node *ht_rw_only_user(const struct ht_rw *r, struct ht_value v);
bool ht_rw_is_output(const struct ht_rw *r, struct ht_value v);
/* Whether a control edge starts at `n`. */
bool ht_rw_has_control_users(const struct ht_rw *r, const struct ht_node *n);

/* The type of a list of tensors. */
#define HT_LIST_TYPE ((struct ht_type){ HT_VARIANT, HT_SHAPE_SCALAR })

/* The name NODE/what, for a node that a pass makes beside `n`. */
struct ht_str ht_rw_name_within(struct ht_rw *r, const struct ht_node *n, const char *what);
/* Makes a node of op `op` in front of `before`, with one result.  Its name is derived from `name`, its
 * origins are those of `before`.  Attributes that the op's row derives from operands are set: their types, and
 * the number of those that are a list of one type. */
struct ht_node *ht_rw_node(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, const struct ht_value *in, int32_t ins, struct ht_type type);
/* Likewise, with the dtype that the row gives to the first result. */
struct ht_value ht_rw_made(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, const struct ht_value *in, int32_t ins, struct ht_shape shape);
/* Likewise a constant, with an additional reference to `blob`. */
struct ht_value ht_rw_const(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob);
struct ht_value ht_rw_const_ints(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, const int64_t *v, int64_t count);
/* An integer scalar, or a zero of any type: its bytes are the first ones of `bits`,
 * little-endian. */
struct ht_value ht_rw_scalar(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, int64_t bits);
/* A scalar string. */
struct ht_value ht_rw_text(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, const char *text);
/* An Assert named after `before` and `what`: the run fails with the `count` tensors `data` where the condition is false. It runs if a node
 * that is needed waits for it. */
struct ht_node *ht_rw_assert(struct ht_rw *r, struct ht_node *before, const char *what,
	struct ht_value condition, const struct ht_value *data, int32_t count);
/* The operand `element_shape` of an op on lists, in front of `n`: the shape that attribute `attr` of `n` states, with -1 for an open
 * extent; a single -1 if it states none. */
struct ht_value ht_rw_element_shape(struct ht_rw *r, struct ht_node *n, const char *attr);
/* A scalar of a float type. */
struct ht_value ht_rw_const_float(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, double value);
/* Changes `n` to another op with other operands, and drops attributes that do not begin with "_"; those that operands tell are set as by
 * ht_rw_node().  `n` keeps its name, origins, control edges and result types. */
void ht_rw_become(
	struct ht_rw *r, struct ht_node *n, enum ht_op op, const struct ht_value *in, int32_t ins);
void ht_rw_set_ins(struct ht_rw *r, struct ht_node *n, const struct ht_value *in, int32_t ins);
void ht_rw_set_in(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_value v);
/* Replaces every use of `from` by `to`.  Control edges stay. */
void ht_rw_replace(struct ht_rw *r, struct ht_value from, struct ht_value to);
/* Likewise, except the use by `to`'s node, which now stands behind `from`. */
void ht_rw_replace_behind(struct ht_rw *r, struct ht_value from, struct ht_value to);
/* Replaces `n`'s first result by `to`, and moves control edges from `n` to `to`'s node; removes nodes
 * that only `n` needed. */
void ht_rw_replace_node(struct ht_rw *r, struct ht_node *n, struct ht_value to);
/* Likewise, and the new node takes over `n`'s name. */
void ht_rw_take_place(struct ht_rw *r, struct ht_node *n, struct ht_value to);
/* Removes `n` if it has no uses, and then likewise its operands. */
void ht_rw_drop(struct ht_rw *r, struct ht_node *n);
/* Removes a node although it has an effect, which another node has taken over; it must have no
 * uses. */
void ht_rw_remove(struct ht_rw *r, struct ht_node *n);
/* Whether `n` has a control edge from `other`. */
bool ht_waits_for(const struct ht_node *n, const struct ht_node *other);
/* The nodes that `n` waits for, then `more`. */
struct ht_node **ht_controls_and(
	struct ht_arena *a, const struct ht_node *n, struct ht_node *const *more, int32_t count);
/* Sets the control edges into `n`; nodes that lose one stay. */
void ht_rw_set_controls(
	struct ht_rw *r, struct ht_node *n, struct ht_node *const *control, int32_t count);
/* Makes a binary op of two operands that are broadcast. */
struct ht_value ht_rw_binary(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a, struct ht_value b);
struct ht_value ht_rw_unary(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a);
struct ht_value ht_rw_cast(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, enum ht_dtype to);
struct ht_value ht_rw_reshape(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, struct ht_shape to);
struct ht_value ht_rw_transpose(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, const int64_t *perm);
/* A reduction `op` over `count` axes. */
struct ht_value ht_rw_reduce(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a, const int64_t *axes, int64_t count, bool keep_dims);

/* The shape of two operands broadcast together, in arena `a`; unknown where it is not certain. */
struct ht_shape ht_broadcast_shape(struct ht_arena *a, struct ht_shape x, struct ht_shape y);

/* Memory for a constant; unwinds if there is none. */
struct ht_blob *ht_rw_blob(struct ht_rw *r, size_t n);
/* Whether all elements of the constant `v` equal *x, which is set (floats and integers; exact). */
bool ht_const_splat(struct ht_value v, double *x);
/* The elements of a constant of type F32, at any alignment (ht_load_f32); NULL if it is none. */
const void *ht_const_f32(struct ht_value v, int64_t *n);
/* Whether `v` is a constant whose elements all equal `x`, including the sign of zero. */
bool ht_const_is(struct ht_value v, double x);
/* Whether `n` is an Assert of a constant that always is `condition`. */
bool ht_asserts(const struct ht_node *n, bool condition);
/* The integers of a constant; false unless it is an integer constant with at most `max`
 * elements. */
bool ht_const_small_ints(struct ht_value v, int64_t *out, int max, int *count);
bool ht_is_const(struct ht_value v);

/* Adds the origins of `swallowed` to `n`. */
void ht_rw_absorb(struct ht_node *n, const struct ht_node *swallowed);
/* Adds the origins of all nodes between `x` and `n` to `n`; call it before `n` changes. */
void ht_rw_absorb_between(struct ht_node *n, struct ht_value x);
/* Copies an attribute if `from` has it. */
void ht_rw_copy_attr(struct ht_node *to, const struct ht_node *from, const char *name);

/* The value that `v` is behind nodes that hand on their operands, such as Identity. */
struct ht_value ht_forwarded(struct ht_value v);
/* Whether `n` is a slice that stops a run whose indices are outside of its operand: the begin of a Slice is not constant, or the indices of a
 * StridedSlice, one of which takes one element. */
bool ht_rw_checks_index(const struct ht_node *n);

/* Whether `n`'s first result has the shape of `x`, from which it is computed: both shapes are known, or
 * only ops that keep a shape lie between. */
bool ht_rw_same_shape(const struct ht_node *n, struct ht_value x);
/* Whether `v` is the result of `op` on *x and a constant with equal elements *c, in either
 * order. */
bool ht_match_with_const(struct ht_value v, enum ht_op op, double *c, struct ht_value *x);

/* `n` as a product: constants multiplied up to `factor`, the other operands in `of`.  Follows
 * Mul and division by constants into operands without other uses. */
#define HT_PRODUCT_MAX 4
struct ht_product {
	double factor;
	struct ht_value of[HT_PRODUCT_MAX];
	int count;
	struct ht_node *node[8]; /* the nodes of the product, `n` first */
	int nodes;
};
bool ht_rw_product(const struct ht_rw *r, struct ht_node *n, struct ht_product *p);

/* Whether both nodes have the same attributes with the same values: none of functions, tensors or floats. */
bool ht_same_attrs(const struct ht_node *a, const struct ht_node *b);

/* Control edges of a node that stepped aside (aside.c). */
struct ht_aside {
	struct ht_node *n, *first;
	struct ht_node **control; /* for which it waited */
	int32_t controls;
	struct ht_node **behind; /* by result: the Identity behind it; NULL: it has no uses */
};
/* Moves the control edges of `n`, which is to be replaced, to Identities behind its results; false, with nothing changed: it has an effect, no
 * operands or no uses. */
bool ht_rw_step_aside(struct ht_rw *r, struct ht_node *n, struct ht_aside *a);
/* Undoes it, where the node was not replaced. */
void ht_rw_step_back(struct ht_rw *r, const struct ht_aside *a);
/* Whether `n` has no control edges that would be lost with it. */
bool ht_rw_plain(const struct ht_rw *r, const struct ht_node *n);

/* Runs a pass node by node: `visit` gets every node that the graph had at the start, unless it was
 * removed before its turn. */
enum ht_status ht_rw_each(struct ht_graph *g, struct ht_pass_context *c,
	void (*visit)(struct ht_rw *r, struct ht_node *n));

/* Likewise for the nodes that `wants` selects, in the graph and in the bodies of its functions.
 * If there are any, types are inferred first. */
enum ht_status ht_rw_everywhere(struct ht_graph *g, struct ht_pass_context *c,
	bool (*wants)(const struct ht_node *n), void (*visit)(struct ht_rw *r, struct ht_node *n));

/* ---- fusions ---- */

/* Like the functions of choice/fusion.h; `met` of a miss is how many conditions held before it. */
bool ht_rw_on(const struct ht_rw *r, enum ht_fusion_id id);
void ht_rw_hit(struct ht_rw *r, enum ht_fusion_id id);
void ht_rw_miss(const struct ht_rw *r, enum ht_fusion_id id, int met, const struct ht_node *n,
	const char *condition);

/* layer_norm.c: fuses the norm whose 1 / sqrt(…), or sqrt(…), is `n`, as fusion `id`;
 * HT_FUSION_END: as the fusion to which its form belongs. */
void ht_rw_layer_norm(struct ht_rw *r, struct ht_node *n, enum ht_fusion_id id);

/* tensor_arrays.c: whether the node gives elements of an array of TensorFlow 1 (TensorArrayGatherV3 and the like). */
bool ht_reads_array(const struct ht_node *n);
/* handles.c: stacks and TensorArrays of TensorFlow 1 become lists, in `g` and in the bodies that
 * belong to its branches and loops alone.  Types are inferred again. */
enum ht_status ht_handles_to_lists(struct ht_graph *g, struct ht_pass_context *c);
/* optionals.c: optional tensors become tensors, in `g` and in the bodies that belong to its branches and loops alone.  Types are inferred
 * again. */
enum ht_status ht_optionals_to_tensors(struct ht_graph *g, struct ht_pass_context *c);
/* fakes.c: results of one side of a branch that nothing reads (FakeParam) become zeros of the shape that those of the other side have.
 * `all`: also where only the run tells that shape; such extents are 0.  Otherwise they stay.  Types are inferred again. */
enum ht_status ht_settle_fakes(struct ht_graph *g, struct ht_pass_context *c, bool all);
/* faults.c: in bodies of branches and loops that have functions of their own, an Assert takes the place of each node that fails in all runs
 * that reach it (struct ht_node, fault), and of all that is behind it.  HT_E_INPUT: every run of `g` fails.  Types are inferred again. */
enum ht_status ht_settle_faults(struct ht_graph *g, struct ht_pass_context *c);
/* lists.c: lists become tensors if their length and element shape are known, in `g` and in the
 * bodies that belong to its branches and loops alone.  Types are inferred again.  If `computes`, the caller runs
 * ht_add_computed_sizes() afterwards, so a list that grows may get a length that the run computes. */
enum ht_status ht_lists_to_tensors(struct ht_graph *g, struct ht_pass_context *c, bool computes);

/* bodies.c: of a graph whose sizes are open, all that pass "bodies" does before it makes bodies ready to be lowered: branches and loops
 * get functions of their own, lists become tensors, and constants are in the bodies that take them. */
enum ht_status ht_open_bodies(struct ht_graph *g, struct ht_pass_context *c);
/* Likewise of a branch or loop that has functions of its own: constant operands move into these, and arguments that nothing takes go. */
void ht_settle_arguments(struct ht_node *n, struct ht_pass_context *c);

/* ---- changed.c ---- */

/* Whether `n` writes to a variable that it takes; whether `g` or a function of its library does;
 * and the names of the variables that are written to.  A variable that is passed to a function counts if
 * the function, or one that it runs, writes to any. */
bool ht_changes_variable(const struct ht_node *n);
/* Whether `n` is a variable, or an argument that may be one. */
bool ht_may_be_variable(const struct ht_node *n);
/* Whether `n` takes operand `i` by reference; only ops whose arguments are one tensor each can. */
bool ht_takes_reference(const struct ht_node *n, int32_t i);
/* By node id: the variable whose handle the node's result is, also through identities; NULL: it
 * is no handle. */
struct ht_node **ht_variable_handles(const struct ht_graph *g, struct ht_arena *a);
bool ht_changes_any(const struct ht_graph *g);
void ht_changed_variables(const struct ht_graph *g, struct ht_arena *a, struct ht_map *changed);

#endif
