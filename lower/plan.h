/* The plan of a program: the memory that its steps read and write, the steps in order, and where
 * temporary buffers lie in one arena.
 *
 * The bodies of branches and loops are procedures of the plan. A procedure comes before those
 * that call it, except for recursive calls; the last one is the program's entry. Each has
 * buffers and steps of its own. */
#ifndef HT_LOWER_PLAN_H
#define HT_LOWER_PLAN_H

#include "base/base.h"
#include "base/words.h"
#include "choice/method.h"
#include "image/image.h"
#include "ir/ir.h"
#include "kernel/kernel.h"

enum ht_plan_kind {
	HT_PLAN_INPUT,
	HT_PLAN_OUTPUT,
	HT_PLAN_CONST,
	HT_PLAN_TEMP,
	HT_PLAN_PARAM,    /* parameter of a procedure other than the entry: its caller's memory,
			   * read only */
	HT_PLAN_RESULT,   /* likewise, written */
	HT_PLAN_STREAM,   /* a struct ht_philox: the state from which a random op draws in this
			   * run */
	HT_PLAN_VARIABLE, /* of the session: keeps its value from run to run */
	HT_PLAN_DERIVED,  /* of the session: steps make it from variables and steady inputs */
	HT_PLAN_OBJECT    /* no bytes: the kernel gets the object */
};

/* Memory that steps read and write. */
struct ht_plan_buffer {
	enum ht_plan_kind kind;
	enum ht_dtype dtype;
	struct ht_shape shape; /* of the tensor; of inputs and outputs, that of all parts
			        * together */
	bool whole;            /* an input that every part reads as a whole */
	bool strings;          /* an input or output: its elements are numbers of strings */
	bool steady;  /* an input: the caller of a run may say that it is unchanged since the last
		      * run */
	int64_t rows; /* of an input or output of a program for any number of rows: how many of
		       * its own rows belong to each */
	const struct ht_open_axis
		*open;        /* of an input or output, by axis: which open size it has; NULL: no
			     * axis is open */
	struct ht_str name;   /* of the input or output, without ":0" */
	size_t bytes;         /* of one part */
	struct ht_blob *blob; /* HT_PLAN_CONST; NULL until its `pack` ran */
	const struct ht_pack *pack; /* HT_PLAN_CONST: made from `packed_from` */
	struct ht_blob *packed_from;
	int64_t pack_first;  /* first element of packed_from */
	size_t pack_count;   /* number of matrices, which begin */
	int64_t pack_stride; /* this many elements of packed_from apart */
	int32_t same;        /* HT_PLAN_CONST, HT_PLAN_INPUT: 1 + the buffer of the same constant or
		       * input in an earlier procedure; 0: none */
	size_t offset; /* HT_PLAN_TEMP: in the arena, aligned to 64; HT_PLAN_STREAM, HT_PLAN_VARIABLE, HT_PLAN_OBJECT: its number;
			* HT_PLAN_DERIVED: in plan->derived[derived] */
	int32_t derived;
	bool hoisted; /* of the entry: bodies or parts read it as one of their derived buffers */
	int32_t first_step, last_step; /* live range */
};

/* A stream of random numbers of one node. It continues from one run to the next. */
struct ht_plan_stream {
	uint64_t seed,
		seed2; /* the node's seeds; both 0: the context's seed and the name select the
		        * stream */
	uint64_t name; /* a hash of the node's name */
};

/* A variable that the graph changes. */
struct ht_plan_variable {
	struct ht_str name;
	enum ht_dtype dtype;
	struct ht_shape shape;
	int32_t initial; /* buffer of the constant that is its first value; -1: it has none at
			  * first */
	uint32_t use;    /* enum ht_image_use */
};

/* A group of steps of the entry that make derived buffers, from the same variables, to which the
 * program does not assign, and steady inputs. */
struct ht_plan_derived {
	int32_t step, steps;
	int32_t *source; /* buffers of those variables and inputs */
	int32_t sources;
	size_t bytes; /* of its buffers */
};

/* An object that the library makes (struct ht_image_object). */
struct ht_plan_object {
	struct ht_str name;
	const char *kind;
	enum ht_image_owner owner;
	int32_t *constant; /* buffers */
	int32_t constants;
	int64_t *param;
	int32_t params;
};

/* Copies the bytes of one buffer to another. */
struct ht_plan_move {
	int32_t to, from;
};

/* A call of procedure `procedure`, with buffers of the caller as its parameters and results, in
 * the procedure's order. */
struct ht_plan_call {
	int32_t procedure;
	int32_t *buffer;
	int32_t buffers;
};

/* A call runs call[0]. A branch runs call[0] if the condition is not zero, else call[1]. A
 * loop does the moves `begin`; then, as long as call[0] leaves a condition that is not zero, it
 * runs call[1] and does the moves `again`. If it `tests`, call[1] leaves the condition of the next iteration itself, and
 * call[0] runs once, in front of the first iteration. */
struct ht_plan_control {
	enum ht_plan_controls { HT_PLAN_CALLS, HT_PLAN_BRANCHES, HT_PLAN_LOOPS } kind;
	int32_t condition; /* buffer with one element of 1, 4 or 8 bytes; -1: a call, which has
			    * none */
	struct ht_plan_call call[2];
	struct ht_plan_move *begin, *again;
	int32_t begins, agains;
	bool tests;
};
/* How many of `call` there are. */
static inline int ht_plan_calls(const struct ht_plan_control *c)
{
	return c->kind == HT_PLAN_CALLS ? 1 : 2;
}

struct ht_plan_step {
	int32_t kernel; /* among the plan's; -1: see `control` */
	const struct ht_plan_control *control;
	int32_t *buffer; /* as many plan buffers as the kernel has arguments */
	int64_t *params; /* NULL: all 0, or the sizes of the run, */
	bool sized;      /* where this says so */
	int32_t made;    /* its number among all that were made, in this order */
	int32_t beside;  /* of so many calls that may run at once, it is the first; 0: of none */
	bool undivided;  /* likewise: each of them on one thread, however many there are */
	int32_t computes; /* 1 + the size of the run that the last argument, an int64_t, becomes; 0: none */
	struct ht_str node;           /* for messages: the node it was made for */
	const struct ht_node *of;     /* likewise; of the graph that was lowered */
	const struct ht_words *words; /* likewise: what it says when it stops */
	size_t words_count;
};

/* The effect of rounding on a value. */
enum ht_rounding {
	HT_ROUNDED_WELL,
	HT_ROUNDED_NAN,       /* it was NaN */
	HT_ROUNDED_INFINITE,  /* it was infinite */
	HT_ROUNDED_SENTINEL,  /* it stands for minus infinity: about -1e9, or the lowest finite
			      * number of float32 or of the type */
	HT_ROUNDED_OVERFLOW,  /* it was finite and became infinite */
	HT_ROUNDED_UNDERFLOW, /* it was not zero and became zero */
	HT_ROUNDED_SUBNORMAL,
	HT_ROUNDINGS
};
/* A tensor of 16 bits or of a number format, with the temporary buffer (U8, live until the end)
 * that has an ht_rounding for each of its elements, in order. */
struct ht_plan_probe {
	struct ht_str tensor; /* "node" or "node:1" */
	enum ht_dtype dtype;
	struct ht_str format; /* if the node rounds to a number format: its name; else empty */
	int32_t buffer;
};

/* A tensor that the run's observer gets. At a place where it is in memory, the plan has a step
 * of library kernel "tee"; the step's parameter is the index in plan->tee. */
struct ht_plan_tee {
	const struct ht_node *node; /* of the graph that was lowered; */
	int32_t result;             /* the number of the node's result */
	enum ht_dtype held; /* type in memory: the tensor's, or F32 before it is rounded to that */
	bool rounded;       /* the values are rounded to the tensor's type, even if `held` is F32 */
	bool own;           /* the run owns the memory: it is neither an input nor a constant */
	int64_t offset;     /* elements of that type, from where the step's argument begins */
	int32_t rank;
	const int64_t *dim, *stride; /* of the tensor; strides in elements */
	const struct ht_type
		*whole; /* in a part of a batch: the tensor of all parts; NULL: all parts have
			 * the same one */
};

/* A step that helps to compute a node of the imported graph. */
struct ht_plan_member {
	struct ht_str node;
	int32_t step;
};

struct ht_plan_procedure {
	struct ht_str name;
	int32_t buffer, buffers; /* its own buffers: `buffers` of them from `buffer` on */
	int32_t step, steps;
	size_t arena_bytes; /* of its part of the arena */
	size_t live_bytes;  /* most bytes alive at once, its callees' included */
};

/* The numbers of rows for which a program runs. Its parts are procedures for a fixed number of
 * rows, the smallest first: the first has 1 row, and each number is a multiple of the one
 * before. */
struct ht_plan_rows {
	int64_t least, most;
	struct ht_plan_rows_part {
		int64_t rows;
		int32_t procedure;
	} *part;
	int32_t parts; /* 0: all sizes are constants */
};

struct ht_plan {
	struct ht_plan_procedure *procedure; /* the entry is the last */
	int32_t procedures;
	/* Of a batch in parts: the steps that the entry runs before the parts. The parts are the
	 * last procedures. Often there are no such steps. */
	struct ht_plan_procedure prelude;
	struct ht_plan_buffer *buffer;
	int32_t buffers;
	struct ht_plan_step *step;
	int32_t steps;
	struct ht_plan_probe *probe; /* with ht_lower_request.numerics */
	int32_t probes;
	struct ht_plan_tee *tee; /* with ht_lower_request.tee */
	int32_t tees;
	struct ht_plan_member *member; /* with ht_lower_request.members */
	int32_t members;
	struct ht_plan_stream *stream;
	int32_t streams;
	struct ht_plan_variable *variable;
	int32_t variables;
	struct ht_plan_derived *derived; /* their steps are the first of the entry, in this order */
	int32_t deriveds;
	struct ht_plan_object *object;
	int32_t objects;
	struct ht_method_choice *choice; /* methods that lowering chose itself */
	int32_t choices;
	const struct ht_kernel **kernel; /* all different */
	int32_t kernels;
	size_t scratch_bytes;                        /* per thread */
	struct ht_open_size size[HT_MOST_RUN_SIZES]; /* the open sizes, as in the graph */
	int32_t sizes;
	int64_t parts; /* of the batch, each of which runs all steps; 1: the batch is not divided */
	struct ht_plan_rows rows;
};
static inline const struct ht_plan_procedure *ht_plan_entry(const struct ht_plan *p)
{
	return &p->procedure[p->procedures - 1];
}

#endif
