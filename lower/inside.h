/* lower: from the graph to a plan of kernels.
 *
 * Every node is in one kernel, named after its sink: the one node of the kernel whose results are
 * stored.  Nodes between are inlined: a kernel's expressions are made by pulling the sink's value
 * at some coordinates, which pulls its operands at theirs, down to loads from memory.  A node that
 * needs a loop of its own (a contraction, a reduction, a window) is the kernel's root; what follows
 * it up to the sink is its epilogue, pulled around the root's result.
 *
 * Precision: pull() returns a value in the compute type (F32 for F16 and BF16).  What a kernel leaves in
 * memory is rounded to the tensor's dtype; of what passes between its nodes round.c tells. */
#ifndef HT_LOWER_INSIDE_H
#define HT_LOWER_INSIDE_H

#include "kernel/expr.h"
#include "lower/lower.h"
#include "lower/price.h"
#include "lower/refusals.h"

/* ---- view.c: where values are in memory ---- */

struct view {
	int32_t buffer; /* of the plan; -1: the value is not in memory */
	int64_t offset; /* elements */
	int32_t rank;
	int64_t dim[HT_LOWER_RANK], stride[HT_LOWER_RANK]; /* elements */
	/* By axis: the open sizes of an input or output whose memory has only as many elements
	 * as the sizes of the run; NULL: all axes have their largest size. */
	const struct ht_open_axis *open;
	/* By axis: how many indices memory has of it, a number or less than `dim`.  So the stride of an axis in front is as many times less than
	 * `stride`, which is for the largest sizes (strides.h).  NULL: `dim`. */
	const struct ht_size_expr *ends;
	/* The type to which each load rounds elements that are in memory as F32.  HT_INVALID: loads do not round. */
	enum ht_dtype rounds;
};

void view_dense(struct view *v, int32_t buffer, struct ht_shape s);
bool view_is_dense(const struct view *v);
int64_t view_count(const struct view *v);
/* The same elements in another shape; false when strides do not allow it. */
bool view_reshape(const struct view *v, int32_t rank, const int64_t *dim, struct view *out);

/* ---- space.c: coordinates of a tensor's element, as expressions ---- */

/* Dimensions first..last of the tensor share one expression: their linear index. */
struct space_group {
	int32_t first, last, x;
};

struct space {
	int32_t rank, groups;
	int64_t dim[HT_LOWER_RANK];
	struct space_group group[HT_LOWER_RANK];
	int32_t guard; /* BOOL: the element is asked for only where this is true; -1: always */
	/* By dimension, expressions: groups number as many indices of it; NULL: `dim`. */
	const int32_t *end;
};

/* Coordinate of dimension k. */
int32_t space_coord(struct ht_xb *b, const struct space *s, int32_t k);
/* The first dimension of a group that has several indices; the last one if none has. */
int32_t space_first(const struct space *s, const struct space_group *g);
/* Sum of coordinate * stride + offset. */
int32_t space_offset(struct ht_xb *b, const struct space *s, const int64_t *stride, int64_t offset);
/* Whether a group has the strides of one long dimension at the largest sizes; *last becomes its last dimension with several indices, or -1. */
bool space_is_linear(
	const struct space *s, const struct space_group *g, const int64_t *stride, int32_t *last);
/* Whether a group numbers the indices of the largest sizes. */
bool space_numbers_most(const struct ht_xb *b, const struct space *s, const struct space_group *g);
/* Linear index of the element. */
int32_t space_linear(struct ht_xb *b, const struct space *s);
/* The element of an operand of shape `dim` that is broadcast to `s`. */
struct space space_broadcast(
	struct ht_xb *b, const struct space *s, int32_t rank, const int64_t *dim);
/* The same element of the tensor reshaped to `dim`. */
struct space space_reshape(
	struct ht_xb *b, const struct space *s, int32_t rank, const int64_t *dim);
/* The space with one coordinate expression for each dimension. */
struct space space_of_coords(
	const struct space *like, int32_t rank, const int64_t *dim, const int32_t *x);
void space_and_guard(struct ht_xb *b, struct space *s, int32_t guard);

/* A set of elements of a tensor that are outside of the sizes of a run (outside.c).  Element e, in row-major order, belongs to it if
 * e / stride % most >= size.  There `size` is the value of an open size in the run, and `most` its largest value. */
struct open_part {
	int32_t size; /* 1 + number of the open size in the graph */
	bool neutral; /* _Within set them to the neutral element of the reduction that reads them, such as 0 */
	bool skipped; /* and no reader needs those behind the size rounded up to HT_CUT_ROUND */
	int64_t stride;
};
enum { OPEN_PARTS = 4 };
struct open_parts {
	int32_t n;
	struct open_part part[OPEN_PARTS];
};

/* ---- mode.c: how a node computes ---- */

/* The implementation mode of node `n` if it changes the node's kernel; HT_IMPL_NONE otherwise. */
enum ht_impl lower_mode(const struct ht_node *n);
/* The type in which `n` computes with tensors of type t: F32 for F16 and BF16, F64 for floats where
 * the mode asks for it. */
enum ht_dtype node_type(const struct ht_node *n, enum ht_dtype t);

/* ---- lower.c ---- */

enum place {
	PLACE_NOTHING, /* no value at run time: NoOp */
	PLACE_MEMORY,  /* sink of a kernel, a constant, an input */
	PLACE_VIEW,    /* a view of another value's memory */
	PLACE_INLINE   /* computed inside of the kernel of `owner` */
};

/* How a node takes part in fusion. */
enum family {
	FAMILY_NOTHING,
	FAMILY_SOURCE, /* Const, Placeholder */
	FAMILY_MAP,    /* each element is a function of operands' elements at mapped coordinates:
		      * has pull */
	FAMILY_VIEW,   /* MAP that may be a view of its first operand */
	FAMILY_ROOT    /* has a loop of its own: has emit */
};

struct lower;
struct joined;
struct kernel_build;
struct parts;

/* How one `lower` column of the op table is lowered. */
struct lower_op {
	const char *never; /* why no node is lowered, in words; the other members are NULL then */
	enum family family;
	bool alone; /* ROOT: takes no epilogue */
	bool dense; /* ROOT: its results need dense memory of their own types, not a part of another tensor's */
	bool by_run; /* ROOT: operand 0 and the results may have strides that follow the run's sizes (strides.h) */
	bool aligned; /* MAP: operands are read at the result's (broadcast) coordinates, */
	bool (*unaligned)(const struct ht_node *n); /* except those of these nodes; may be NULL */
	/* MAP: the value of result `out` at `s`, in the compute type, before rounding. */
	int32_t (*pull)(
		struct kernel_build *k, const struct ht_node *n, int out, const struct space *s);
	/* VIEW: false when the result cannot be a view of `in`. */
	bool (*view)(const struct ht_node *n, int out, const struct view *in, struct view *v);
	int32_t view_arg;
	/* ROOT: whether its only result already is in memory that no step changes during the
	 * run. NULL: never. */
	bool (*given)(struct lower *l, const struct ht_node *n, struct view *v);
	/* ROOT: makes the steps that compute `n` and its epilogue up to the kernel's sink. */
	enum ht_status (*emit)(struct lower *l, struct ht_node *n);
	/* MAP: an element may stop the run, and the fault names this node.  The node is therefore the
	 * last of its kernel, which computes every element and is not joined with other kernels. */
	bool checks;
	bool apart; /* MAP: it asks for the coordinate of one axis, so axes do not share an index */
	int variables; /* the first operands are handles of variables, which are no kernel arguments */
	bool takes_text; /* operands may be constant strings; they become part of a message, not kernel arguments */
	/* NULL, or why this node cannot be lowered, in words. */
	const char *(*refuse)(const struct ht_node *n);
	/* ROOT: whether operand i may be inlined into the loop (each of its elements is read
	 * once). */
	bool (*takes)(const struct ht_node *n, int arg);
	/* ROOT: where operand `arg` lies within the result, whose place is known: a part of a
	 * Concat or Pack, or the tensor that the op updates in place. */
	void (*part)(struct lower *l, const struct ht_node *n, int arg, struct view *v);
	/* Whether operand `arg` lies within the result; NULL: every operand does, and the op
	 * leaves it unchanged. */
	bool (*owns)(struct lower *l, const struct ht_node *n, int arg);
	/* Whether the result has the batch's rows, given that some operand has them (parts.h);
	 * NULL: it has not. Aligned nodes are not asked. */
	bool (*rows)(const struct parts *p, const struct ht_node *n);
};

#define HT_MAX_VIEWS 64

const struct lower_op *lower_op_of(const struct ht_node *n); /* NULL: the op table has no row for
							      * the op */
bool lower_is_aligned(const struct ht_node *n);

/* The plan in the making. The lowering of the program and those of its branches and loops share
 * it. */
struct planning {
	struct ht_plan *plan;
	struct ht_map packed; /* plan.c: constants that are packed, to the buffer's number + 1 */
	size_t buffer_cap, step_cap, kernel_cap, probe_cap, tee_cap, choice_cap, stream_cap,
		variable_cap, object_cap, procedure_cap, derived_cap, member_cap;
	size_t bytes; /* of all buffers */
	int32_t made; /* steps made so far; steps that were removed later still count */
	struct ht_map kernel_texts; /* to the kernel's number + 1 */
	struct ht_map variables;    /* by name: to the variable's number + 1 */
	struct ht_map objects;      /* likewise */
	struct ht_map
		assigned;      /* by name: variables to which some node of the program may assign */
	struct ht_map named;   /* by name: variables that are nodes of the program */
	struct ht_map callees; /* control.c: functions that calls name, by name */
	struct open_call *open_calls; /* likewise */
	struct hoisted *hoisted; /* derived.c: steps of bodies and parts that move to the entry */
	bool observed; /* every tensor is made in each run: an observer reads them, or probes
		        * count their rounding */
	struct ht_arena *spare; /* empty, for the next kernel; or NULL */
};

/* Steps of the plan: from `first` on, before `end`. */
struct made_steps {
	int32_t first, end;
};

/* Which nodes inside kernels these kernels store for the observer (tee.c). */
struct inner_stores {
	bool is;                     /* a node: it is stored so */
	const struct ht_node *first; /* a sink: the first such node of its kernel */
	const struct ht_node
		*next; /* such a node: the next one of its kernel, in the graph's order */
};

/* A copy of a tensor of 16 bits as F32, in dense memory. */
struct widened_rows {
	struct ht_value of;
	int32_t buffer;
};

/* The lowering of one graph: of the program, or of a body. */
struct lower {
	struct ht_graph *g;
	const struct ht_lower_request *asked;
	const struct ht_target *target;
	struct ht_arena *arena; /* of the plan */
	struct ht_arena *scratch;
	struct planning *planning;
	struct ht_plan *plan; /* planning's */
	struct ht_plan_procedure
		procedure;  /* the procedure being made; plan_procedure() adds it to the plan */
	struct body **body; /* by node id: bodies of branches, loops and calls (control.c) */
	const struct lower_updated *updated; /* of a loop's body; NULL: none */
	struct lower_invariant *invariant;   /* likewise */
	bool numerics;                       /* every node has a kernel of its own, with probes */
	const struct ht_node *shadow; /* tee.c: the node that a second kernel computes for the
				       * observer; or NULL */
	bool shadow_stays_wide;       /* its kernel does not round the shadow's result */
	struct inner_stores *stored;  /* by node id; NULL: there are none */
	bool *apart; /* tee.c, by node id: each node of its kernel has a kernel of its own; NULL: none has */
	int64_t larger; /* weights are packed for this many times the rows of this part, which
			 * are the rows of the largest part */
	struct ht_fusions *fusions; /* or NULL */
	struct ht_uses uses;
	enum place *place;      /* by node id */
	struct ht_node **owner; /* by node id: the sink of the node's kernel */
	struct ht_node **root;  /* by node id of a sink: its kernel's root, or NULL */
	/* By node id of the last sink of joined kernels: their description; or NULL. */
	const struct joined **joined;
	struct open_parts **
		outside; /* by node id: for each result its elements that are outside; NULL: none are known */
	struct view **view;    /* by node id: one a result */
	int64_t **part_starts; /* by node id of a Concat or Pack (concat.c): one an operand */
	struct view *
		*operands;    /* by node id of a contraction: rounded copies by operand; or NULL */
	int32_t first_output; /* plan buffer of the entry's first output */
	int32_t **output_of;  /* by node id: the plan buffer of each result that is an output, or
			    * -1; NULL: no result is one */
	uint32_t *order;      /* by node id: position in the graph */
	int32_t *kernel_operands; /* by node id of a sink: operands of its kernel's nodes */
	uint32_t *walked;         /* by node id: last walk that met the node */
	uint32_t walk;
	bool *chosen;            /* by node id: the choice of its method is recorded */
	struct made_steps *made; /* by node id of a sink: members.c; NULL: the caller did not ask
				  * for members */
	struct widened_rows
		widened; /* kernel_matmul.c, kernel_conv.c: the last one; the node is NULL: there is none */
	struct tile_flags *
		*flags; /* by node id: all_finite.c; one a result; NULL: none are wanted */
	const struct ht_type **whole; /* that of struct lower_part; NULL: this is no part */
};

/* control.c: lowers the functions that nodes of the graph call. */
enum ht_status lower_bodies(struct lower *l);
/* Fills in the numbers of procedures that were still being made when a call of them was added. */
void lower_close_calls(struct planning *p);
/* An argument that a body updates in place: the loop passes it and its result as one buffer. */
struct lower_updated {
	struct ht_value arg, result;
	struct lower_updated *next;
};
/* carried.c: whether the body of a loop may have parameter `param` (-1: it does not read the value) and result `result`,
 * which are the old and the new value of what the loop carries, as one buffer. */
bool lower_may_overwrite(const struct ht_plan *p, int32_t procedure, int32_t param, int32_t result);
/* Whether the stage reads argument `arg` only where it stores to argument `out` in the same iteration. */
bool lower_is_pointwise(const struct ht_stage *s, int arg, int out);
/* Calls `fn` for each buffer that a branch, loop or call gets, once for each time that it gets it. */
void lower_each_of_control(
	const struct ht_plan_control *c, void (*fn)(void *arg, int32_t buffer), void *arg);
/* condition.c: whether no element makes the kernel stop the run. */
bool lower_never_stops(const struct ht_kernel *k);
/* condition.c: whether the body of a loop may compute the condition of the next iteration, in place of the procedure of the
 * condition. */
bool lower_condition_moves(const struct lower *l, int32_t condition);
/* Has the body do so behind its own steps, as its last result. `at`: by parameter of the condition, the buffer of the body that holds
 * the value of the next iteration. False: the body's procedure cannot have more steps. */
bool lower_move_condition(struct lower *l, int32_t condition, int32_t body, const int32_t *at);
struct lower_argument {
	struct ht_value value;
	const struct lower_argument *next;
};
/* Of the body of a loop: the steps that every iteration would repeat. */
struct lower_invariant {
	int32_t condition; /* the loop's other procedure */
	enum ht_recurrent_rows rows;
	const bool *same; /* by parameter of the body: all iterations get it unchanged */
	int32_t params;
	const struct lower_argument *carried; /* the arguments that iterations change */
	struct ht_value
		counter; /* one of them, which is odd in every other iteration; or no node */
	/* Set when the body is lowered: the steps that were taken out of it.  They still name buffers of the body.  Those among their
	 * results that the body reads have become further parameters of it. */
	const struct ht_plan_step *step;
	int32_t steps;
};
/* turns.c: an integer argument of a loop's body `f` that is odd in every other iteration.  No node: there is none among those that it
 * `takes`, by argument. */
struct ht_value lower_counter(const struct ht_function *f, const bool *takes);
/* lower.c: lowers body `f` with these arguments and results to a procedure. *out becomes its
 * number.  `invariant`: NULL unless it is the body of a loop. */
enum ht_status lower_function(struct lower *l, const struct ht_function *f,
	const struct ht_entry *entry, const struct lower_updated *updated,
	struct lower_invariant *invariant, int32_t *out);
/* invariant.c: adds the steps taken from a body in front of the loop. `given`: by parameter of the body, the buffer that the loop passes.
 * Stores the buffers of its further parameters in `more`, which has room for all buffers of the body, and returns how many they are. */
int32_t lower_move_invariant(struct lower *l, int32_t body, const struct lower_invariant *of,
	const int32_t *given, int32_t *more);

/* parts.c: sets plan->parts, and returns the graph of one part, or NULL if there is one part
 * only. */
struct lower_part {
	struct ht_graph *graph;
	struct ht_entry entry;
	const struct ht_type *
		*whole; /* by node id: the types of the results of all parts together, where they
			 * have rows */
};
struct lower_part *lower_parts(struct lower *l);
/* Of an entry with an open first dimension: sets the sizes in plan->rows, and gives in *out the graph of
 * each procedure, which the caller lowers.  *out is NULL where no input of the entry is open. */
enum ht_status lower_open_parts(struct lower *l, struct lower_part ***out);

/* members.c: lists which steps compute each imported node, if ht_lower_request.members is set. */
/* The steps from `first` on were made for the kernel of `sink`. */
void members_made(struct lower *l, const struct ht_node *sink, int32_t first);
/* Fills in plan->member, when all kernels are made. */
void members_list(struct lower *l);
/* Called when the plan is done: renumbers the steps of members, since some steps moved. Where
 * equal steps became one, the step keeps the nodes of the first. */
void members_end(struct planning *planning, struct ht_arena *scratch);

/* region.c: fills place, owner, root. */
void lower_regions(struct lower *l);
/* Whether each element of the node's result is computed from the elements at the same place of its operands; their shapes may differ. */
bool lower_keeps_places(const struct ht_node *n);

/* joined.c: fills l->joined. A tensor that one stage hands to another is not in memory any more. */
void lower_join_kernels(struct lower *l);
/* joined_emit.c: makes the kernel that `d` describes. */
void lower_emit_joined(struct lower *l, const struct joined *d);

/* named.c: the fusion that puts `u`, which follows `root`, into root's kernel; or the one that
 * puts `n` into its user's kernel. HT_FUSION_END: the fusion has no name and cannot be switched
 * off. */
enum ht_fusion_id lower_name_behind(
	const struct ht_node *root, const struct ht_node *u, bool scores);
enum ht_fusion_id lower_name_before(struct lower *l, const struct ht_node *n, struct ht_node *user);
/* Whether `root` is the product of queries and keys of which attention takes the Softmax. */
bool lower_is_scores(struct lower *l, struct ht_node *root);

/* support.c: why no kernel can have values of type t, in words; NULL: some can. The other
 * functions: why the node cannot be lowered. */
const char *lower_refuse_type(struct ht_type t);
const char *lower_refuse(const struct ht_node *n);
bool lower_is_open_shape(const char *why); /* whether `why`, an answer of these functions, is an
					    * unknown shape */
/* Adds one diagnostic for each cause that ht_find_refusals() finds. */
enum ht_status lower_check_support(struct lower *l);

/* Makes the kernel of `sink`, which is not part of a joined kernel. Its results have memory
 * already. */
enum ht_status lower_kernel(struct lower *l, struct ht_node *sink);
/* Whether the kernel being made, that of `sink`, computes `n` itself instead of loading it. */
bool lower_is_inside(const struct lower *l, const struct ht_node *sink, const struct ht_node *n);
/* The memory of `v`, which must be in memory. */
const struct view *lower_view(struct lower *l, struct ht_value v);
bool lower_in_memory(struct lower *l, struct ht_value v);

/* variable.c: the memory of the variable whose handle is operand `i` of `n`. */
struct view variable_view(struct lower *l, const struct ht_node *n, int i);
/* The first function: why the variable of operand `i` has no memory, in words; NULL: it has. The
 * second: why the variable has not the type and shape of `t`. */
const char *variable_refuse(const struct ht_node *n, int i);
/* Fills planning->assigned and planning->named. */
void variable_find_assigned(struct lower *l);
bool variable_is_assigned(const struct lower *l, struct ht_str name);
const char *variable_refuse_type(const struct ht_node *n, int i, const struct ht_type *t);
/* Whether `n` changes every element of its variable, by a copy of a tensor of that shape. */
bool variable_assigns_all(const struct ht_node *n);

/* ---- plan.c ---- */

int32_t plan_buffer(struct lower *l, enum ht_plan_kind kind, enum ht_dtype t, int64_t count);
int32_t plan_const(struct lower *l, const struct ht_tensor *t);
/* A buffer of this procedure that is the constant of an earlier one, in buffer `same` - 1. */
int32_t plan_same_constant(struct lower *l, int32_t same);
/* A constant that is packed from `t` when the program is made. Equal requests get the same
 * buffer. */
int32_t plan_packed(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride);
/* Constant `buffer`, which is not packed, converted to F32. */
int32_t plan_widened(struct lower *l, int32_t buffer);
/* Adds a stream of random numbers; returns the buffer in which a kernel finds its state. */
int32_t plan_stream(struct lower *l, struct ht_plan_stream stream);
/* variable.c: notes how the graph uses each variable of the plan. */
void plan_variable_uses(struct lower *l);
/* Constants that lowering looked at and no step reads, such as weights of which a packed copy is read, are no part of the program. */
void plan_drop_constants(struct lower *l);
/* The memory of the session's variable `name`, whose first value is `t`. */
int32_t plan_variable(struct lower *l, struct ht_str name, const struct ht_tensor *t);
/* Likewise, of a variable that is no node of the graph and that one kernel reads and changes. If a variable of the graph has that
 * name, the name is made another one. */
int32_t plan_own_variable(struct lower *l, struct ht_str name, const struct ht_tensor *t);
/* The object `name`. If the name was used before, the first description counts. */
struct object_text {
	struct ht_str name;
	const char *kind;
	enum ht_image_owner owner;
	const struct ht_tensor *const *part; /* the constants that it is made from */
	int32_t parts;
	const int64_t *param;
	int32_t params;
};
int32_t plan_object(struct lower *l, const struct object_text *o);
/* strings.c: the object with the graph's constant strings (where each begins, and their bytes), to
 * which a run adds others. */
int32_t plan_strings_object(struct lower *l);
/* `n` strings as two parts of an object: where each begins and the last one ends, and their bytes. */
void plan_text_parts(
	struct lower *l, const struct ht_str *text, size_t n, const struct ht_tensor **part);
/* Adds that object if the entry has inputs or outputs of strings. */
void plan_strings(struct lower *l);
/* Appends a step for `node` that runs the kernel that was built. An equal kernel of an earlier
 * step is used again. */
void plan_step(struct lower *l, struct kernel_build *k, const struct ht_node *node);
/* Appends a step that runs procedures. */
void plan_control(struct lower *l, const struct ht_plan_control *c, const struct ht_node *node);
/* The buffer of a probe of result i of node `n`. */
int32_t plan_probe(struct lower *l, const struct ht_node *n, int32_t i);
/* Sets the message of the plan's last step: n pieces in the plan's arena. */
void plan_words(struct lower *l, const struct ht_words *words, size_t n);
/* tee.c, for programs with an observer: shows it the results of `n`, which are in memory. */
void tee_results(struct lower *l, const struct ht_node *n);
/* Fills in l->stored or l->apart. */
void tee_begin(struct lower *l);
/* Whether `n` has a kernel of its own that can store its result, of type `held`, over an operand that nothing reads any more and that was
 * shown before: the memory is in a near cache then.  *v becomes its view. */
bool tee_in_place(struct lower *l, const struct ht_node *n, enum ht_dtype held, struct view *v);
/* x is an element of the result of node `n`, as the kernel keeps it: stores it at `s` if the kernel stores the node's result for the
 * observer. */
void kb_tee(struct kernel_build *k, const struct ht_node *n, const struct space *s, int32_t x);
/* Shows what the kernel of `sink` has stored so. */
void tee_stored(struct lower *l, const struct ht_node *sink);
/* `n` is inside a kernel: gives its result a place if that kernel stores it; else makes another kernel that computes `n` alone, and shows
 * its results. */
enum ht_status tee_inside(struct lower *l, struct ht_node *n);
/* If tee_can_be_alone(), tee_alone() makes a kernel of `n` alone, instead of the kernel whose last node is `n`. */
bool tee_can_be_alone(struct lower *l, const struct ht_node *n);
enum ht_status tee_alone(struct lower *l, struct ht_node *n);
/* kernel_check.c: if `sink` checks data, sets the message of the last step, which was made for
 * `node`. */
void lower_words(struct lower *l, const struct ht_node *sink, const struct ht_node *node);
/* Records why node `n` is computed by its method. plan_choice() fills in the choice's node. */
void plan_choice(struct lower *l, const struct ht_node *n, struct ht_method_choice c);
/* Whether node `n` is computed with others in one joined kernel: as the option for blocks says,
 * else as choice `c` between that and HT_METHOD_KERNELS says. Records the choice. */
bool plan_block(struct lower *l, const struct ht_node *n, struct ht_method_choice c);
/* Ends the procedure: places its temporary buffers and adds it to the plan. Returns its number. */
int32_t plan_procedure(struct lower *l);
/* Appends a procedure whose steps, buffers and memory are in the plan: its number. */
int32_t plan_add_procedure(struct lower *l, const struct ht_plan_procedure *of);
/* Notes all that a step reads and writes, in the order of steps. */
void plan_uses(struct lower *l, int32_t step);
/* Likewise all steps of the procedure, anew. */
void plan_all_uses(struct lower *l);
/* beside.c: independent loops of the procedure become neighbours, and procedures that may run at once. */
void plan_loops_beside(struct lower *l);
/* What a step's procedures have alive; of a recursion the first calls alone. */
size_t plan_alive_in_callees(const struct ht_plan *p, const struct ht_plan_step *s);
/* copies.c: variables in place of copies of them. */
void plan_avoid_copies(struct lower *l);
/* join_updates.c: makes updates of variables one loop with loops whose results they read. */
void plan_join_updates(struct lower *l);
/* derived.c: the steps of the entry that compute the same in each run, until a variable or a steady input changes, become its
 * first, and what others read of theirs becomes derived buffers. */
void plan_derive(struct lower *l);
/* constant.c: by step of the procedure, whether it reads only memory that is steady, and memory that only such steps write to, and may
 * run earlier and less often.  `steady`: by buffer of the procedure; temporary buffers do not count. */
bool *plan_constant_steps(struct lower *l, const bool *steady);
/* invariant.c: takes the steps that l->invariant asks for from the procedure. */
void plan_take_invariant(struct lower *l);
/* Fills plan->prelude of a program whose batch is divided into parts. */
void plan_prelude(struct lower *l);
/* The n-th buffer of that kind of a procedure. */
int32_t plan_parameter(
	const struct ht_plan *p, int32_t procedure, enum ht_plan_kind kind, int32_t n);
/* How many parameters of kind HT_PLAN_PARAM a procedure has, which come first in its calls.  0 if it is still being made. */
int32_t plan_parameters(const struct ht_plan *p, int32_t procedure);
/* Appends a copy of step `s` that has other buffers. */
void plan_repeat(struct lower *l, const struct ht_plan_step *s, int32_t *buffer);
/* memory.c */
void plan_memory(struct lower *l);

/* ---- kernel_build.c: one kernel in the making ---- */

struct kernel_build {
	struct lower *l;
	struct ht_node *sink;   /* of the nodes that the stage being built computes; or NULL */
	struct ht_arena *arena; /* freed with the kernel; a child of the plan's */
	struct ht_kernel *kernel;
	struct ht_stage *stage; /* the one being built */
	struct ht_xb xb;
	size_t stage_cap;
	bool sized;                 /* the parameters are the sizes of the run */
	int32_t plan_buffer_of[64]; /* by the kernel's argument */
	int64_t *params;            /* of the step; NULL: none */
	struct ht_kernel_buffer local[8];
	int32_t locals;
	struct ht_node *root;  /* value taken from root_x instead of pulled */
	int32_t root_x[4];     /* by result; compute type */
	struct pulled *pulled; /* memo of the stage */
	size_t pulled_count, pulled_cap;
	int32_t flags; /* 1 + the plan buffer of the flags of its tiles (all_finite.c); 0: it has none */
};

/* A kernel that computes the nodes of the region of `n`; NULL: it computes no node. */
void kb_init(struct kernel_build *k, struct lower *l, const struct ht_node *n);
/* The number that the kernel has for a plan buffer, which becomes an input or output argument. */
int32_t kb_arg(struct kernel_build *k, int32_t plan_buffer, enum ht_buffer_kind kind);
/* The same memory as an argument with elements of another dtype. */
int32_t kb_arg_as(
	struct kernel_build *k, int32_t plan_buffer, enum ht_buffer_kind kind, enum ht_dtype dtype);
int32_t kb_local(struct kernel_build *k, enum ht_dtype t, int64_t count);
void kb_grid(struct kernel_build *k, int dims, const int64_t *count);
struct ht_stage *kb_stage(struct kernel_build *k, enum ht_stage_kind kind);
/* Likewise in a joined kernel: from here on the kernel computes nodes of the region of `n`. */
struct ht_stage *kb_stage_of(
	struct kernel_build *k, const struct ht_node *n, enum ht_stage_kind kind);
int kb_dim(struct kernel_build *k, int64_t extent); /* a dimension of the stage */
int kb_grid_dim(struct kernel_build *k, int grid, int64_t extent, int64_t step);
int kb_reduce_dim(struct kernel_build *k, int64_t extent);
/* The index of grid dimension `dim` of the stage, counted from where the tile begins. */
int32_t kb_within(struct kernel_build *k, int dim);
/* Ends the kernel: expands, schedules, deduplicates, appends a step for `node`. */
void kb_finish(struct kernel_build *k, const struct ht_node *node);

enum ht_dtype compute_type(enum ht_dtype t); /* F32 for F16 and BF16, else t */
/* The type in which a local buffer holds a tensor of type t. A 16-bit tensor is held as F32 if
 * each product would otherwise widen it again. */
enum ht_dtype local_type(const struct lower *l, enum ht_dtype t);
/* Value `v` at `s` in the compute type, rounded as kb_result() rounds: loaded if it is in
 * memory, else pulled. */
int32_t kb_pull(struct kernel_build *k, struct ht_value v, const struct space *s);
/* Operand `arg` of `n` at `s`, in the type in which n computes. */
int32_t kb_pull_arg(
	struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s);
/* Operand `arg` of `n` at `s`, which are coordinates of n's result: it is broadcast to them. */
int32_t kb_operand(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s);
/* open.c: makes the open sizes of the run the parameters of the kernel. */
void kb_take_sizes(struct kernel_build *k);
/* Open size number `size` of the run, as I64. */
int32_t kb_size(struct kernel_build *k, int32_t size);
/* The open size at which axis `axis` of the operand ends, from attribute _open of `n`, which
 * pass sizes sets. Its number is 0 if the axis is not open. */
struct ht_open_axis lower_open_axis(const struct ht_node *n, int32_t axis);
/* Likewise from attribute _ends: where the axis of the result ends. */
struct ht_open_axis lower_axis_end(const struct ht_node *n, int32_t axis);
/* Where an axis ends: at the run's size, or at `extent` if it is not open. */
int32_t kb_axis_end(struct kernel_build *k, const struct ht_open_axis *a, int64_t extent);
/* How many indices axis `axis` has in the run, as I64, for the tensor of shape `s` that
 * attribute _open of `n` describes. That attribute has the size and its `inner` for each axis, 0
 * where the axis is not open. */
int32_t kb_extent(struct kernel_build *k, const struct ht_node *n, int32_t axis, struct ht_shape s);
/* Adds to the guard of `s`, whose first axes are those of the indices of `n`, that these are
 * inside. Attribute _within has axis, size and `inner` of each open size; with axis -1 all are
 * inside or outside: inside if the size is not 0. */
void kb_only_within(struct kernel_build *k, const struct ht_node *n, struct space *s);
/* The offset of element `s` of an open view. *guard (-1: true) is and-ed with whether the run
 * has that element. */
int32_t kb_open_offset(
	struct kernel_build *k, const struct view *v, const struct space *s, int32_t *guard);
/* Loads an element of a view. */
int32_t kb_load(struct kernel_build *k, const struct view *v, const struct space *s);
/* The sum (or other reduction) of x over the stage's reduction dimensions, in type t. */
int32_t kb_reduce(struct kernel_build *k, enum ht_red red, enum ht_dtype t, int32_t x);
/* Stores result 0 of the sink at `s` and returns it; x is the element of root n before rounding. */
int32_t kb_epilogue(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s);
void kb_store_root(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s);
/* Stores result 0 of the sink for the root's element at `s`. */
void kb_store_sink(struct kernel_build *k, const struct space *s);
/* Stores x (compute type) as result i of the sink at `s`; `v` is the result's memory. */
void kb_store_result(
	struct kernel_build *k, int32_t i, const struct view *v, const struct space *s, int32_t x);
/* round.c: x, which is result i of `n` (in the compute type, or F64), as the nodes that read it
 * in this kernel get it, in the compute type. It is rounded to the tensor's type, except some
 * 16-bit tensors between two nodes of one kernel. */
int32_t kb_result(struct kernel_build *k, const struct ht_node *n, int32_t i, int32_t x);
/* Whether the other nodes in the kernel of `sink` get the result of `n` unrounded. */
bool lower_stays_wide(const struct lower *l, const struct ht_node *sink, const struct ht_node *n);
/* lower.c: whether `n` joins its operands in one tensor, parts of which they may be made in. */
bool lower_is_concat(const struct ht_node *n);
/* Whether the kernel of sink `n` needs dense memory for its results (struct lower_op). */
bool lower_wants_dense(const struct lower *l, const struct ht_node *n);
/* The node that alone uses `v`, as operand *arg, so that `v` may be made in that node's result;
 * NULL: there is none. */
struct ht_node *lower_gathering_user(struct lower *l, struct ht_value v, int32_t *arg);
/* The type in which result 0 of sink `n` is in memory: its own, or F32 for some tensors of F16.
 * The values are rounded to its own type in both cases. */
enum ht_dtype lower_held_type(struct lower *l, const struct ht_node *n);
/* Whether `n` rounds a variable or an input for products that pack or copy it, so that they can read it where it is: *v becomes the view
 * of it that rounds. */
bool lower_rounds_when_read(struct lower *l, const struct ht_node *n, struct view *v);
/* map_rounded.c: whether `n` rounds to a number format, and that format. */
bool lower_rounds_to_format(const struct ht_node *n);
struct ht_float_format;
bool lower_rounded_format(const struct ht_node *n, struct ht_float_format *f);
/* probe.c: makes the kernel record what rounding did to x, result i of the sink, which it
 * stores. */
void probe_result(struct kernel_build *k, int32_t i, const struct space *s, int32_t x);
/* Stores x (compute type) at `s`, if the guard of `s` is true. */
void kb_store(struct kernel_build *k, const struct view *v, const struct space *s, int32_t x);
int lanes(const struct lower *l); /* F32 lanes of the target's vectors */

/* ---- all_finite.c ---- */

/* Who stores a tensor that _AllFinite checks: for each kernel that stores the tensor or a part of it, the plan buffer with a flag for
 * each of the kernel's tiles.  A flag says whether all values that the tile stored are finite. */
struct tile_flags {
	int32_t *buffer;
	int32_t buffers;
	size_t cap;
};
/* Fills l->flags: of which tensors kernels shall have flags. */
void lower_want_flags(struct lower *l);
/* If they are wanted of result i of the sink: the kernel clears the flag of its tile where x (compute type), which it stores as that
 * result at `s`, is infinite or NaN when it is rounded to the result's type `t` in memory. */
void kb_flag_result(
	struct kernel_build *k, int32_t i, const struct space *s, enum ht_dtype t, int32_t x);
/* Adds a stage in front of the others, in which each tile sets its flag. */
void kb_set_flags(struct kernel_build *k);

/* ---- outside.c ---- */

/* Fills l->outside. */
void lower_find_outside(struct lower *l);
/* The elements of `v` that are outside; NULL: none are known. */
const struct open_parts *lower_outside(const struct lower *l, struct ht_value v);
/* Whether some indices of axis `axis` of `v` are outside, whatever the other indices are. */
bool lower_ends_with_run(const struct lower *l, struct ht_value v, int32_t axis);

/* Which elements of a dense tensor a loop over one dimension visits: `extent` elements that lie `stride` apart.  One index of the
 * dimension stands for `each` of them (0: one). */
struct cut_span {
	int64_t stride, extent, each;
	bool reduced; /* a reduction dimension */
	/* Neutral elements may be skipped too: the stage reduces them, or all readers of what it stores skip them. */
	bool neutral;
};
/* Ends dimension `dim` of the stage (struct ht_cut) where all further elements of `v` are outside. */
void kb_cut(struct kernel_build *k, int dim, struct ht_value v, struct cut_span span);
/* The same for each dimension whose index is a group of `s`.  The stage stores `v`, or a reshape of it, at `s`. */
void kb_cut_space(struct kernel_build *k, const struct space *s, struct ht_value v);
/* The result of product `n` consists of runs of rows (struct ht_cut), in each of which an open size ends once.  Returns the rows of a
 * run, for several open sizes the fewest, and `rows` if no size is open. */
int64_t lower_rows_of_run(
	const struct lower *l, const struct ht_node *n, int64_t rows, int64_t columns);
/* Whether the sum of product `n` ends at the size of the run, rounded up to HT_CUT_ROUND. */
bool lower_cuts_depth(const struct lower *l, const struct ht_node *n);
/* Whether the node is a product whose sum ends before the elements `p` of operand `arg`, so that it needs none of these behind the size
 * rounded up to HT_CUT_ROUND. */
bool lower_sum_skips(
	const struct lower *l, const struct ht_node *n, int32_t arg, const struct open_part *p);
/* If lower_cuts_depth(), ends dimension `dim` there, which runs along the summed axis of operand `v`. */
void kb_cut_depth(struct kernel_build *k, int dim, const struct ht_node *n, struct ht_value v,
	struct cut_span span);

/* ---- skipped.c ---- */

/* Sets `skipped` in l->outside. */
void lower_find_skipped(struct lower *l);
/* Whether it is set for the same elements of the node's only result. */
bool lower_skips(const struct lower *l, const struct ht_node *n, const struct open_part *p);

/* ---- boundaries.c ---- */

/* Which dimensions cannot share an index: bit i is set for dimensions i and i+1 of a tensor of
 * shape `dim` to which `v` is broadcast; of value `v` as pulled through the kernel of `sink`; of
 * result i of `sink`, its store included. */
uint32_t view_boundaries(const struct view *v, int32_t rank, const int64_t *dim);
uint32_t kb_boundaries(struct lower *l, const struct ht_node *sink, struct ht_value v);
uint32_t kb_out_boundaries(struct lower *l, struct ht_node *sink, int32_t i);
/* The same for a loop that numbers elements as they lie in the memory of the result (struct view, `ends`). */
uint32_t kb_run_boundaries(struct lower *l, struct ht_node *sink, int32_t i);
/* Splits dimensions by `bits` into groups: first[i]..last[i] of group i; returns the number. */
int split_groups(int32_t rank, const int64_t *dim, uint32_t bits, int32_t *first, int32_t *last,
	int64_t *extent);

/* ---- loop.c ---- */

/* Loops over a tensor of shape `dim`, split by boundaries `bits`, with a grid; the space of its
 * elements.  For the first stage of a kernel. */
struct space kb_loop_space(struct kernel_build *k, int32_t rank, const int64_t *dim, uint32_t bits);
enum ht_status emit_loop(struct lower *l, struct ht_node *sink);
void emit_copy(
	struct lower *l, const struct ht_node *n, const struct view *from, const struct view *to);
/* Likewise of the elements of `v`, except for those outside of the sizes of the run. */
void emit_copy_of(struct lower *l, const struct ht_node *n, struct ht_value v,
	const struct view *from, const struct view *to);

/* Splits the outermost of `groups` loops into tiles of about a fixed amount of work, `work` a
 * point.  step[i]: indices a tile, 0 for loops that are not split; returns the grid's dimensions. */
int choose_grid(int groups, const int64_t *extent, int64_t work, int64_t *step, int64_t *grid);

/* ---- window.c ---- */

/* A sliding window along one spatial dimension.  Where the dimension is open, numbers are those of the largest sizes. */
struct window {
	int64_t in, out, size, stride, dilation, before; /* before: padding in front */
	struct ht_open_axis open; /* of the image, which ends at the run's size; size 0: at `in` */
	bool shifts;              /* the padding in front depends on the run's size */
};

/* Height and width of NHWC images, from strides, dilations, padding, explicit_paddings and _open. */
void read_windows(const struct ht_node *n, struct ht_shape in, struct ht_shape out,
	const int64_t size[2], struct window w[2]);
void read_pool_windows(
	const struct ht_node *n, struct ht_shape in, struct ht_shape out, struct window w[2]);
/* Likewise from ksizes and rates. */
void read_patch_windows(
	const struct ht_node *n, struct ht_shape in, struct ht_shape out, struct window w[2]);
bool pool_is_spatial(const struct ht_node *n);
const char *refuse_pool(const struct ht_node *n); /* kernel_reduce.c */
bool window_leaves(const struct window *w);       /* whether the window has positions outside of
						   * the image */
/* The first function: where the image ends. The second: image coordinate `x` without the padding
 * in front. */
int32_t window_end(struct kernel_build *k, const struct window *w);
int32_t window_shift(struct kernel_build *k, const struct window *w, int32_t x);
/* The image coordinate of window position `tap` of result `out`; adds to s->guard where it may be outside. */
int32_t window_coord(
	struct kernel_build *k, const struct window *w, int32_t out, int32_t tap, struct space *s);
/* The result whose window has position `x` of the image as its tap `tap`; ands *guard (-1: true) with
 * whether there is one.  Here `open` is the size of the results. */
int32_t window_result(
	struct kernel_build *k, const struct window *w, int32_t x, int32_t tap, int32_t *guard);
/* How many results' windows may contain one position of the image, where they are not dilated; and the result of number `i` of these, the last
 * one first, as window_result() finds it. */
int64_t window_results(const struct window *w);
int32_t window_containing(
	struct kernel_build *k, const struct window *w, int32_t x, int32_t i, int32_t *guard);
/* How many taps of result `out` are inside the image. */
int32_t window_count(struct kernel_build *k, const struct window *w, int32_t out);
/* The lowest number of type t. */
int32_t lowest_of(struct ht_xb *b, enum ht_dtype t);
/* Like kb_loop_space(), for the results of windows over `in`, which are NHWC of shape `dim`. A
 * result is a sum, or an extreme if `extremes` is set. *rows becomes true if several rows of
 * results are unrolled side by side; then unroll only the width of the window. */
struct space kb_window_space(struct kernel_build *k, const struct ht_type *in,
	const struct window w[2], const int64_t dim[4], bool extremes, bool *rows);

/* ---- contract.c ---- */

/* A contraction in the making: sizes first, then the packed right operand (lower/pack.h), then the stage. */
struct contraction {
	struct lower *l;
	struct ht_node *n;
	enum ht_dtype dtype;          /* of the operands */
	int64_t batch, rows, columns; /* of the result; batch also counts groups */
	int64_t tap[2], depth;        /* sizes of the dimensions that are summed over */
	int taps;
	int64_t a_step;
	int32_t a_guard;
	int64_t rows_of_run;       /* lower_rows_of_run(); 0: not a matrix product */
	bool short_sums;           /* of F16; possible only if consecutive numbers of A are
				    * adjacent */
	int32_t nr, kp, b;         /* packing; plan buffer of the packed operand */
	int64_t packed_count;      /* elements of one packed matrix */
	int32_t pieces;            /* of each number (lower/pieces.c); 0: numbers are not divided */
	enum ht_dtype packed_type; /* in memory */
	int64_t constants; /* packed constant matrices: 1, or one for each of the batch; 0: B is
			    * not constant */
	/* Each tile widens a panel of columns, or its rows, to F32 in a local buffer. */
	bool wide_columns, wide_rows;
	bool by_panels; /* the grid's tiles have one panel of columns each, and those of a panel follow each other */
	bool apart; /* rows are not at one distance from each other in memory */
	bool gathers; /* and each tile has them side by side in a local buffer, all taps of a row together */
	struct kernel_build k;
	int32_t batch_x, m_x, n_x, tap_x[2];
	/* Where row m is in the result, and whether the result has it (-1: always).
	 * conv_pixels() sets both for open heights and widths. */
	int32_t pixel_x, pixel_guard;
	const int32_t *pixel_end; /* `end` of the space of pixels */
};

/* Rows of a left operand that is transposed lie side by side: those of a line of a cache, F32 numbers, are LINE_ROWS.  A product reads
 * eight rows at a time, one step in depth after another, and would read each line at a large distance from the last one, for every
 * eight rows and every panel of columns again.  So the rows of a line are copied to one piece of memory, if there are
 * BLOCKED_COLUMNS columns that read the copy. */
enum { LINE_ROWS = 16, BLOCKED_COLUMNS = 64 };

bool contract_type(enum ht_dtype t); /* whether a register tile computes products of type t */
/* Whether contraction `n` sums short runs of products of F16 in F16: its mode permits it, and
 * the machine can. */
bool contract_sums_short(const struct lower *l, const struct ht_node *n);
/* Whether a matrix unit computes contraction `n`. */
bool contract_in_matrices(const struct lower *l, const struct ht_node *n);
/* Makes rounded copies of the operands of contraction `n`, if its mode asks for that.
 * `constants`: of constant operands too, which are then read in place and not packed. */
void contract_round_operands(struct lower *l, const struct ht_node *n, bool constants);
/* The memory from which contraction `n` reads operand `arg`: its rounded copy, or the operand's
 * own. */
const struct view *lower_operand(struct lower *l, const struct ht_node *n, int arg);
/* The number of taps of the contraction: a row of the left operand has `depth` numbers for each tap. */
int64_t contract_taps(const struct contraction *c);
void contract_init(struct contraction *c, struct lower *l, struct ht_node *n, enum ht_dtype t);
/* Opens the stage and sets batch_x, m_x, n_x and tap_x. */
void contract_begin(struct contraction *c);
/* Closes the stage; `out` is the space of the root's result. */
void contract_end(
	struct contraction *c, int32_t a, int32_t a_row, int32_t b_base, const struct space *out);
/* Likewise, but stores the sums at `out` of `to`: they are partial sums of the root's result. */
void contract_end_part(struct contraction *c, int32_t a, int32_t a_row, int32_t b_base,
	const struct view *to, const struct space *out);
/* turns.c: iterations of a loop go over the tiles of the kernel in turn from the first to the last and from the last to the first, if they
 * read so many weights that the second level has few of them left. */
void lower_turn_tiles(struct contraction *c);
/* Adds a kernel that adds the partial sums of contraction `n`, [part, ..the result..], and stores the result. */
void contract_add_parts(struct lower *l, struct ht_node *n, const struct view *parts);

#endif
