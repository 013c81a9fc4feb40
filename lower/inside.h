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

#define HT_LOWER_RANK 8 /* tensors of a higher rank are not lowered */

/* ---- view.c: where a value is in memory ---- */

struct view {
	int32_t buffer; /* of the plan; -1: not in memory */
	int64_t offset; /* elements */
	int32_t rank;
	int64_t dim[HT_LOWER_RANK], stride[HT_LOWER_RANK]; /* elements */
	/* By axis: of an input or output whose memory has as many elements as the sizes of the run; NULL: of others. */
	const struct ht_open_axis *open;
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
};

/* Coordinate of dimension k. */
int32_t space_coord(struct ht_xb *b, const struct space *s, int32_t k);
/* Sum of coordinate * stride + offset. */
int32_t space_offset(struct ht_xb *b, const struct space *s, const int64_t *stride, int64_t offset);
/* Linear index of the element. */
int32_t space_linear(struct ht_xb *b, const struct space *s);
/* The element of an operand of shape `dim` that is broadcast to `s`. */
struct space space_broadcast(
	struct ht_xb *b, const struct space *s, int32_t rank, const int64_t *dim);
/* The same element after a reshape to `dim`. */
struct space space_reshape(
	struct ht_xb *b, const struct space *s, int32_t rank, const int64_t *dim);
/* One coordinate expression a dimension. */
struct space space_of_coords(
	const struct space *like, int32_t rank, const int64_t *dim, const int32_t *x);
void space_and_guard(struct ht_xb *b, struct space *s, int32_t guard);

/* A set of elements of a tensor that are outside of the sizes of a run (outside.c).  Element e, in row-major order, belongs to it if
 * e / stride % most >= size.  There `size` is the value of an open size in the run, and `most` its largest value. */
struct open_part {
	int32_t size; /* 1 + number of the open size in the graph */
	bool neutral; /* _Within set them to the neutral element of the reduction that reads them, such as 0 */
	int64_t stride;
};
enum { OPEN_PARTS = 4 };
struct open_parts {
	int32_t n;
	struct open_part part[OPEN_PARTS];
};

/* ---- mode.c: how a node is to compute ---- */

/* The implementation mode that node `n` is to have and that its kernel tells apart; HT_IMPL_NONE
 * otherwise. */
enum ht_impl lower_mode(const struct ht_node *n);
/* The type in which `n` computes with tensors of type t: F32 for F16 and BF16, F64 for floats where
 * the mode asks for it. */
enum ht_dtype node_type(const struct ht_node *n, enum ht_dtype t);

/* ---- lower.c ---- */

enum place {
	PLACE_NOTHING, /* no value at run time: NoOp */
	PLACE_MEMORY,  /* sink of a kernel, a constant, an input */
	PLACE_VIEW,    /* another value's memory, seen otherwise */
	PLACE_INLINE   /* part of the kernel of owner */
};

/* What a node is to fusion. */
enum family {
	FAMILY_NOTHING,
	FAMILY_SOURCE, /* Const, Placeholder */
	FAMILY_MAP,  /* element = function of operands' elements at mapped coordinates: has pull */
	FAMILY_VIEW, /* MAP that may be a view of its first operand */
	FAMILY_ROOT  /* has a loop of its own: has emit */
};

struct lower;
struct joined;
struct kernel_build;
struct parts;

/* How one `lower` column of the op table is lowered. */
struct lower_op {
	const char *never; /* why no node is lowered, in words; the others are NULL */
	enum family family;
	bool alone;   /* ROOT: takes no epilogue */
	bool dense;   /* ROOT: its results need dense memory of their own */
	bool aligned; /* MAP: operands are taken at the result's (broadcast) coordinates, */
	bool (*unaligned)(const struct ht_node *n); /* but for these nodes; may be NULL */
	/* MAP: the value of result `out` at `s`, in the compute type, before rounding. */
	int32_t (*pull)(
		struct kernel_build *k, const struct ht_node *n, int out, const struct space *s);
	/* VIEW: false when the result cannot be a view of `in`. */
	bool (*view)(const struct ht_node *n, int out, const struct view *in, struct view *v);
	int32_t view_arg;
	/* ROOT: whether its only result is in memory already, where no step changes it in the run; NULL: it is not. */
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
	/* ROOT: operand i may be inlined into the loop (each element is used once). */
	bool (*takes)(const struct ht_node *n, int arg);
	/* ROOT: where operand `arg` lies in the result, whose place is known: a part of Concat and Pack, or
	 * what others change there. */
	void (*part)(struct lower *l, const struct ht_node *n, int arg, struct view *v);
	/* Whether that operand lies in the result; NULL: all do, and stay there as they are. */
	bool (*owns)(struct lower *l, const struct ht_node *n, int arg);
	/* Whether the result has the batch's rows, given that some operand has (parts.h); NULL: it
	 * has not.  Not asked for nodes that are aligned. */
	bool (*rows)(const struct parts *p, const struct ht_node *n);
};

#define HT_MAX_VIEWS 64

const struct lower_op *lower_op_of(const struct ht_node *n); /* NULL: an op that the table lacks */
bool lower_is_aligned(const struct ht_node *n);

/* The plan in the making, which the bodies of branches and loops share with the program. */
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
	struct ht_map callees; /* control.c: functions that calls name, by name */
	struct open_call *open_calls; /* likewise */
	struct hoisted
		*hoisted; /* derived.c: steps of bodies and parts that the entry is to have */
	bool observed; /* all tensors are made in each run: an observer looks at them, or numerics counts them */
	struct ht_arena *spare; /* empty, for the next kernel; or NULL */
};

/* Steps of the plan: from `first` on, before `end`. */
struct made_steps {
	int32_t first, end;
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
		procedure;  /* the one being made; plan_procedure() adds it to the plan */
	struct body **body; /* by node id: of branches, loops and calls (control.c) */
	const struct lower_updated *updated; /* of a loop's body */
	bool numerics;                       /* every node has a kernel of its own, and probes */
	const struct ht_node *shadow; /* tee.c: the node that is computed once more; or NULL */
	bool shadow_stays_wide;       /* it does in its kernel */
	int64_t larger; /* weights are packed for so many times the rows of this part: those of the largest part */
	struct ht_fusions *fusions; /* or NULL */
	struct ht_uses uses;
	enum place *place;      /* by node id */
	struct ht_node **owner; /* by node id: the sink of the node's kernel */
	struct ht_node **root;  /* by node id of a sink: its kernel's root, or NULL */
	/* By node id of the last sink of kernels that are one: their description; or NULL. */
	const struct joined **joined;
	struct open_parts **
		outside; /* by node id: for each result its elements that are outside; NULL: none are known */
	struct view **view;    /* by node id: one a result */
	int64_t **part_starts; /* by node id of a Concat or Pack (concat.c): one an operand */
	struct view *
		*operands;    /* by node id of a contraction: rounded copies by operand; or NULL */
	int32_t first_output; /* plan buffer of the entry's first output */
	int32_t **
		output_of; /* by node id: plan buffers of results that are outputs, or -1; or NULL */
	uint32_t *order;   /* by node id: position in the graph */
	int32_t *kernel_operands; /* by node id of a sink: operands of its kernel's nodes */
	uint32_t *walked;         /* by node id: last walk that met the node */
	uint32_t walk;
	bool *chosen;            /* by node id: a choice is noted */
	struct made_steps *made; /* by node id of a sink: members.c; NULL: nobody wants to know */
	const struct ht_type **whole; /* lower_part's; NULL: this is no part */
};

/* control.c: lowers the functions that nodes of the graph run. */
enum ht_status lower_bodies(struct lower *l);
/* Calls of procedures that were being made get these procedures' numbers. */
void lower_close_calls(struct planning *p);
/* An argument that a body changes where its result is: a loop passes both as one, the result. */
struct lower_updated {
	struct ht_value arg, result;
	struct lower_updated *next;
};
/* lower.c: lowers `f`, a body, with these arguments and results, to a procedure, whose number *out is. */
enum ht_status lower_function(struct lower *l, const struct ht_function *f,
	const struct ht_entry *entry, const struct lower_updated *updated, int32_t *out);

/* parts.c: sets plan->parts; the graph of one part, or NULL where there is one part. */
struct lower_part {
	struct ht_graph *graph;
	struct ht_entry entry;
	const struct ht_type *
		*whole; /* by node id: the results of all parts, where they have rows */
};
struct lower_part *lower_parts(struct lower *l);
/* Of an entry with an open first dimension: sets the sizes in plan->rows, and gives in *out the graph of
 * each procedure, which the caller lowers.  *out is NULL where no input of the entry is open. */
enum ht_status lower_open_parts(struct lower *l, struct lower_part ***out);

/* members.c: which steps compute which imported nodes, where ht_lower_request.members asks. */
/* The steps from `first` on were made for the kernel of `sink`. */
void members_made(struct lower *l, const struct ht_node *sink, int32_t first);
/* Fills in plan->member, when all kernels are made. */
void members_list(struct lower *l);
/* When the plan is done: members have the numbers of their steps, some of which moved.  Of equal steps that became one the nodes of the
 * first have it. */
void members_end(struct planning *planning, struct ht_arena *scratch);

/* region.c: fills place, owner, root. */
void lower_regions(struct lower *l);

/* joined.c: fills joined.  What kernels hand on in one is no longer in memory. */
void lower_join_kernels(struct lower *l);
/* joined_emit.c: the kernel of a description (joined.h). */
void lower_emit_joined(struct lower *l, const struct joined *d);

/* named.c: the fusion that puts `u`, behind `root`, into its kernel, or `n` into that of its user;
 * HT_FUSION_END: it has no name, and cannot be switched off. */
enum ht_fusion_id lower_name_behind(
	const struct ht_node *root, const struct ht_node *u, bool scores);
enum ht_fusion_id lower_name_before(struct lower *l, const struct ht_node *n, struct ht_node *user);
/* The product that attention takes the Softmax of. */
bool lower_is_scores(struct lower *l, struct ht_node *root);

/* support.c: NULL, or why values of type t have no kernels, or why the node cannot be lowered, in
 * words. */
const char *lower_refuse_type(struct ht_type t);
const char *lower_refuse(const struct ht_node *n);
bool lower_is_open_shape(const char *why); /* of these two: a shape is not known */
/* One diagnostic for each cause of ht_find_refusals(). */
enum ht_status lower_check_support(struct lower *l);

/* Makes the kernel of `sink`, which is joined with no other and whose results have their memory. */
enum ht_status lower_kernel(struct lower *l, struct ht_node *sink);
/* Whether the kernel of `sink` that is being made computes `n`, and does not read it. */
bool lower_is_inside(const struct lower *l, const struct ht_node *sink, const struct ht_node *n);
/* The value's memory; only of values that are in memory. */
const struct view *lower_view(struct lower *l, struct ht_value v);
bool lower_in_memory(struct lower *l, struct ht_value v);

/* variable.c: the memory of the variable whose handle operand `i` of `n` is. */
struct view variable_view(struct lower *l, const struct ht_node *n, int i);
/* Why the variable of operand `i` has none, in words, or NULL; why it is not of the type and shape of `t`. */
const char *variable_refuse(const struct ht_node *n, int i);
/* Fills planning->assigned. */
void variable_find_assigned(struct lower *l);
bool variable_is_assigned(const struct lower *l, struct ht_str name);
const char *variable_refuse_type(const struct ht_node *n, int i, const struct ht_type *t);

/* ---- plan.c ---- */

int32_t plan_buffer(struct lower *l, enum ht_plan_kind kind, enum ht_dtype t, int64_t count);
int32_t plan_const(struct lower *l, const struct ht_tensor *t);
/* A constant that is packed from `t` when the program is made; of equal ones the first. */
int32_t plan_packed(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride);
/* Constant `buffer`, which is not packed, as F32. */
int32_t plan_widened(struct lower *l, int32_t buffer);
/* Where a kernel finds the state of a new stream of random numbers. */
int32_t plan_stream(struct lower *l, struct ht_plan_stream stream);
/* variable.c: what the graph does with each variable of the plan. */
void plan_variable_uses(struct lower *l);
/* The memory of the session's variable `name`, which begins as `t`. */
int32_t plan_variable(struct lower *l, struct ht_str name, const struct ht_tensor *t);
/* The object `name`; of one name the first that was described. */
struct object_text {
	struct ht_str name;
	const char *kind;
	enum ht_image_owner owner;
	const struct ht_tensor *const *part; /* the constants that it is made of */
	int32_t parts;
	const int64_t *param;
	int32_t params;
};
int32_t plan_object(struct lower *l, const struct object_text *o);
/* strings.c: the object that has the strings of the entry's inputs and outputs, if some are of strings. */
void plan_strings(struct lower *l);
/* Appends a step for `node` by the kernel that was built; of equal ones the first is kept. */
void plan_step(struct lower *l, struct kernel_build *k, const struct ht_node *node);
/* A step that runs procedures. */
void plan_control(struct lower *l, const struct ht_plan_control *c, const struct ht_node *node);
/* The buffer of a probe of result i of node `n`. */
int32_t plan_probe(struct lower *l, const struct ht_node *n, int32_t i);
/* Sets the message of the plan's last step: n pieces in the plan's arena. */
void plan_words(struct lower *l, const struct ht_words *words, size_t n);
/* tee.c, for programs with an observer.  Shows the results of `n`, which are in memory, to the observer. */
void tee_results(struct lower *l, const struct ht_node *n);
/* `n` is inside a kernel: makes another kernel that computes `n` alone, and shows its results. */
enum ht_status tee_inside(struct lower *l, struct ht_node *n);
/* If tee_can_be_alone(), tee_alone() makes a kernel of `n` alone, instead of the kernel whose last node is `n`. */
bool tee_can_be_alone(struct lower *l, const struct ht_node *n);
enum ht_status tee_alone(struct lower *l, struct ht_node *n);
/* kernel_check.c: sets the message of the last step, made for `node`, if its kernel ends in `sink` and
 * that checks. */
void lower_words(struct lower *l, const struct ht_node *sink, const struct ht_node *node);
/* Notes why node `n` is computed as it is; the choice's node is filled in. */
void plan_choice(struct lower *l, const struct ht_node *n, struct ht_method_choice c);
/* Whether node `n` is computed with others in one kernel: as the option of blocks asks, else by choice `c`
 * between that and HT_METHOD_KERNELS.  It is noted. */
bool plan_block(struct lower *l, const struct ht_node *n, struct ht_method_choice c);
/* The procedure is done, its temporary buffers have their places, and it is in the plan: its number. */
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
/* derived.c: the steps of the entry that compute the same in each run, until a variable or a steady input changes, become its
 * first, and what others read of theirs becomes derived buffers. */
void plan_derive(struct lower *l);
/* Of a batch in parts: plan->prelude. */
void plan_prelude(struct lower *l);
/* Appends a step that is `s` over other buffers. */
void plan_repeat(struct lower *l, const struct ht_plan_step *s, int32_t *buffer);
/* memory.c */
void plan_memory(struct lower *l);

/* ---- kernel_build.c: one kernel in the making ---- */

struct kernel_build {
	struct lower *l;
	struct ht_node *sink;   /* of the nodes that the stage being built computes; or NULL */
	struct ht_arena *arena; /* of the kernel alone, in the plan's */
	struct ht_kernel *kernel;
	struct ht_stage *stage; /* the one being built */
	struct ht_xb xb;
	size_t stage_cap;
	bool sized;                 /* the parameters are the sizes of the run */
	int32_t plan_buffer_of[64]; /* by kernel argument */
	int64_t *params;            /* of the step; NULL: none */
	struct ht_kernel_buffer local[8];
	int32_t locals;
	struct ht_node *root;  /* value taken from root_x instead of pulled */
	int32_t root_x[4];     /* by result; compute type */
	struct pulled *pulled; /* memo of the stage */
	size_t pulled_count, pulled_cap;
};

/* A kernel that computes the nodes of the region of `n`; NULL: it computes no node. */
void kb_init(struct kernel_build *k, struct lower *l, const struct ht_node *n);
/* The kernel's number of a plan buffer, as an input or output argument. */
int32_t kb_arg(struct kernel_build *k, int32_t plan_buffer, enum ht_buffer_kind kind);
/* The same memory as elements of another dtype. */
int32_t kb_arg_as(
	struct kernel_build *k, int32_t plan_buffer, enum ht_buffer_kind kind, enum ht_dtype dtype);
int32_t kb_local(struct kernel_build *k, enum ht_dtype t, int64_t count);
void kb_grid(struct kernel_build *k, int dims, const int64_t *count);
struct ht_stage *kb_stage(struct kernel_build *k, enum ht_stage_kind kind);
/* The same in joined kernels: from here on the nodes of the region of `n` are computed. */
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
/* In which a local buffer holds a tensor of type t: what was rounded to 16 bits stays as F32 where it would be widened for
 * each product. */
enum ht_dtype local_type(const struct lower *l, enum ht_dtype t);
/* The value `v` at `s`: pulled, or loaded where it is in memory.  Compute type, rounded as
 * kb_result() does. */
int32_t kb_pull(struct kernel_build *k, struct ht_value v, const struct space *s);
/* Operand `arg` of `n` at `s`, in the type in which n computes. */
int32_t kb_pull_arg(
	struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s);
/* The same at the coordinates of n's result, broadcast. */
int32_t kb_operand(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s);
/* open.c: makes the open sizes of the run parameters of the kernel. */
void kb_take_sizes(struct kernel_build *k);
/* A size of the run, by its number, as I64. */
int32_t kb_size(struct kernel_build *k, int32_t size);
/* What attribute _open of `n`, which pass sizes sets, has for an axis: the open size at which the operand ends, and 0 if it does not. */
struct ht_open_axis lower_open_axis(const struct ht_node *n, int32_t axis);
/* The same of its attribute _ends: where the result ends. */
struct ht_open_axis lower_axis_end(const struct ht_node *n, int32_t axis);
/* Where an axis ends: at the run's size, or at `extent` if it is not open. */
int32_t kb_axis_end(struct kernel_build *k, const struct ht_open_axis *a, int64_t extent);
/* How many indices of axis `axis` the run has, as I64, of the tensor of shape `s` that attribute _open of `n` is about: it has the size
 * and its `inner` of each axis, 0 where none is open. */
int32_t kb_extent(struct kernel_build *k, const struct ht_node *n, int32_t axis, struct ht_shape s);
/* The guard of `s`, whose first axes are those of the indices of `n`, is that these are not outside: attribute _within has axis, size
 * and `inner` of each open size. */
void kb_only_within(struct kernel_build *k, const struct ht_node *n, struct space *s);
/* Where element `s` of an open view is; *guard (-1: true) is and-ed with whether the run has it. */
int32_t kb_open_offset(
	struct kernel_build *k, const struct view *v, const struct space *s, int32_t *guard);
/* Loads an element of a view. */
int32_t kb_load(struct kernel_build *k, const struct view *v, const struct space *s);
/* The sum (or other reduction) of x over the stage's reduction dimensions, in type t. */
int32_t kb_reduce(struct kernel_build *k, enum ht_red red, enum ht_dtype t, int32_t x);
/* Result 0 of the sink at `s`, and stores it there: where x, before rounding, is root n's element. */
int32_t kb_epilogue(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s);
void kb_store_root(struct kernel_build *k, struct ht_node *n, int32_t x, const struct space *s);
/* Stores result 0 of the sink for the root's element at `s`. */
void kb_store_sink(struct kernel_build *k, const struct space *s);
/* Stores x (compute type), result i of the sink, at `s`, where the result is `v`. */
void kb_store_result(
	struct kernel_build *k, int32_t i, const struct view *v, const struct space *s, int32_t x);
/* round.c: x, which `n` computed of its result i (compute type, or F64), as those in the kernel see it
 * who read the result: rounded to the tensor's type, but for some tensors of 16 bits that are between
 * two nodes of one kernel.  Compute type. */
int32_t kb_result(struct kernel_build *k, const struct ht_node *n, int32_t i, int32_t x);
/* Whether the result of `n` goes on to the other nodes of the kernel of `sink` as it was computed. */
bool lower_stays_wide(const struct lower *l, const struct ht_node *sink, const struct ht_node *n);
/* The type in memory of result 0 of sink `n`, rounded to its own: F32 for some of F16. */
enum ht_dtype lower_held_type(const struct lower *l, const struct ht_node *n);
/* map_rounded.c: whether `n` rounds to a number format, and its format; false: it has none. */
bool lower_rounds_to_format(const struct ht_node *n);
struct ht_float_format;
bool lower_rounded_format(const struct ht_node *n, struct ht_float_format *f);
/* probe.c: has the kernel note what rounding did to x, result i of the sink, which it stores. */
void probe_result(struct kernel_build *k, int32_t i, const struct space *s, int32_t x);
/* Stores x (compute type) at `s`, where its guard holds. */
void kb_store(struct kernel_build *k, const struct view *v, const struct space *s, int32_t x);
int lanes(const struct lower *l); /* F32 lanes of the target's vectors */

/* ---- outside.c ---- */

/* Fills l->outside. */
void lower_find_outside(struct lower *l);
/* The elements of `v` that are outside; NULL: none are known. */
const struct open_parts *lower_outside(const struct lower *l, struct ht_value v);

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
/* If lower_cuts_depth(), ends dimension `dim` there, which runs along the summed axis of operand `v`. */
void kb_cut_depth(struct kernel_build *k, int dim, const struct ht_node *n, struct ht_value v,
	struct cut_span span);

/* ---- boundaries.c ---- */

/* Which dimensions cannot share an index: bit i is set for dimensions i and i+1 of a tensor of
 * shape `dim` to which `v` is broadcast; of value `v` as pulled through the kernel of `sink`; of
 * result i of `sink`, its store included. */
uint32_t view_boundaries(const struct view *v, int32_t rank, const int64_t *dim);
uint32_t kb_boundaries(struct lower *l, const struct ht_node *sink, struct ht_value v);
uint32_t kb_out_boundaries(struct lower *l, struct ht_node *sink, int32_t i);
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
bool pool_is_spatial(const struct ht_node *n);
const char *refuse_pool(const struct ht_node *n); /* kernel_reduce.c */
bool window_leaves(const struct window *w);       /* some position is outside the image */
/* Where the image ends, and image coordinate `x` counted without the padding in front. */
int32_t window_end(struct kernel_build *k, const struct window *w);
int32_t window_shift(struct kernel_build *k, const struct window *w, int32_t x);
/* The image coordinate of window position `tap` of result `out`; adds to s->guard where it may be outside. */
int32_t window_coord(
	struct kernel_build *k, const struct window *w, int32_t out, int32_t tap, struct space *s);
/* The result whose window has position `x` of the image as its tap `tap`; ands *guard (-1: true) with
 * whether there is one.  Here `open` is the size of the results. */
int32_t window_result(
	struct kernel_build *k, const struct window *w, int32_t x, int32_t tap, int32_t *guard);
/* How many taps of result `out` are inside the image. */
int32_t window_count(struct kernel_build *k, const struct window *w, int32_t out);
/* What no number of type t is below. */
int32_t lowest_of(struct ht_xb *b, enum ht_dtype t);
/* As kb_loop_space() for the results, NHWC of shape `dim`, of windows over `in`: sums, or extremes.
 * True in *rows: several rows of them are side by side, so only the window's width is to be
 * unrolled. */
struct space kb_window_space(struct kernel_build *k, const struct ht_type *in,
	const struct window w[2], const int64_t dim[4], bool extremes, bool *rows);

/* ---- contract.c ---- */

/* A contraction in the making: sizes first, then the packed right operand, then the stage. */
struct contraction {
	struct lower *l;
	struct ht_node *n;
	enum ht_dtype dtype;          /* of the operands */
	int64_t batch, rows, columns; /* of the result; batch also counts groups */
	int64_t tap[2], depth;        /* what is summed over */
	int taps;
	int64_t a_step;
	int32_t a_guard;
	int64_t rows_of_run;       /* lower_rows_of_run(); 0: not a matrix product */
	bool short_sums;           /* of F16, where A's numbers lie side by side */
	int32_t nr, kp, b;         /* packing; plan buffer of the packed operand */
	int64_t packed_count;      /* elements of one packed matrix */
	enum ht_dtype packed_type; /* in memory */
	int64_t constants; /* packed constant matrices: 1, or one for each of the batch; 0: others */
	/* Each tile has a panel of its columns, its rows as F32 in a local buffer. */
	bool wide_columns, wide_rows;
	bool apart; /* rows are not at one distance from each other in memory */
	bool gathers; /* and each tile has them side by side in a local buffer, all taps of a row together */
	struct kernel_build k;
	int32_t batch_x, m_x, n_x, tap_x[2];
	/* Where row m is in the result, and whether it is in there (-1: it always is).  conv_pixels() sets both for open heights and widths. */
	int32_t pixel_x, pixel_guard;
};

bool contract_type(enum ht_dtype t); /* has a register tile */
/* Whether the mode of contraction `n` lets short runs of products of F16 be summed in F16, and the machine can. */
bool contract_sums_short(const struct lower *l, const struct ht_node *n);
/* Has the operands of contraction `n` rounded, into copies, where its mode asks for that: constants too,
 * where they are read in place and not packed. */
void contract_round_operands(struct lower *l, const struct ht_node *n, bool constants);
/* Where contraction `n` reads operand `arg`: its rounded copy, or its memory. */
const struct view *lower_operand(struct lower *l, const struct ht_node *n, int arg);
void contract_init(struct contraction *c, struct lower *l, struct ht_node *n, enum ht_dtype t);
/* Element (tap, depth, column) of matrix i is at i * stride + tap * sq + depth * sk + column * sn. */
void contract_pack_const(struct contraction *c, const struct ht_tensor *t, int64_t sq, int64_t sk,
	int64_t sn, int64_t count, int64_t stride);
/* `v` is [.., depth, columns]; adds a kernel that packs it. */
void contract_pack_value(struct contraction *c, const struct view *v);
/* `v` is [.., depth.., columns]: its first `lead` dimensions number matrices, those up to the last are taps and depth together. */
void contract_pack_taps(struct contraction *c, const struct view *v, int32_t lead);
/* Adds a stage that starts to `k`, whose grid's dimension 0 counts the matrices of `v`: it packs one into
 * a local buffer, c->b. */
void contract_pack_local(struct contraction *c, struct kernel_build *k, const struct view *v);
/* Tells k's open stage of the packed operand: buffer `b` of the kernel, from `base` on. */
void contract_packed(const struct contraction *c, struct kernel_build *k, int32_t b, int32_t base);
/* Opens the stage: batch_x, m_x, n_x, tap_x. */
void contract_begin(struct contraction *c);
/* Closes it; `out` is the space of the root's result. */
void contract_end(
	struct contraction *c, int32_t a, int32_t a_row, int32_t b_base, const struct space *out);
/* Likewise, but stores the sums themselves: at `out` of `to`, which are parts of the root's. */
void contract_end_part(struct contraction *c, int32_t a, int32_t a_row, int32_t b_base,
	const struct view *to, const struct space *out);

#endif
