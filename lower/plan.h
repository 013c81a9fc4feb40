/* The plan of a program: the memory that its steps read and write, the steps in order, and where
 * temporary buffers lie in one arena.
 *
 * The bodies of branches and loops are procedures of the plan, called ones before their callers, but for calls that recur; the
 * last is the program's entry.  Each has buffers and steps of its own. */
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
	HT_PLAN_PARAM,    /* of a procedure that is not the entry: memory of its caller, read */
	HT_PLAN_RESULT,   /* likewise, written */
	HT_PLAN_STREAM,   /* a struct ht_philox: where a random op draws from in this run */
	HT_PLAN_VARIABLE, /* of the session: keeps its value from run to run */
	HT_PLAN_DERIVED,  /* likewise, made by steps from variables and steady inputs */
	HT_PLAN_OBJECT    /* has no bytes; a kernel is given the object */
};

/* Memory that steps read and write. */
struct ht_plan_buffer {
	enum ht_plan_kind kind;
	enum ht_dtype dtype;
	struct ht_shape shape; /* of the tensor, for inputs and outputs: of all parts */
	bool whole;            /* an input of which every part has all */
	bool strings;          /* an input or output: its elements are numbers of strings */
	bool steady; /* an input: runs may be told that it has the same elements as before */
	int64_t rows; /* of an input or output of a program for any number of rows: its own of each of these */
	const struct ht_open_axis
		*open;      /* of an input or output, by axis: has the sizes of the run; NULL: no */
	struct ht_str name; /* of the input or output, without ":0" */
	size_t bytes;       /* in one part */
	struct ht_blob *blob;       /* HT_PLAN_CONST; NULL until its `pack` ran */
	const struct ht_pack *pack; /* HT_PLAN_CONST: made from `packed_from` */
	struct ht_blob *packed_from;
	int64_t pack_first;  /* first element of packed_from */
	size_t pack_count;   /* so many matrices one after the other, */
	int64_t pack_stride; /* elements of packed_from apart */
	int32_t same; /* HT_PLAN_CONST, HT_PLAN_INPUT: 1 + the buffer of an earlier procedure that is this constant, or input; 0: none */
	size_t offset; /* HT_PLAN_TEMP: in the arena, aligned to 64; HT_PLAN_STREAM, HT_PLAN_VARIABLE, HT_PLAN_OBJECT: its number;
			* HT_PLAN_DERIVED: in plan->derived[derived] */
	int32_t derived;
	bool hoisted; /* of the entry: bodies or parts read it as a derived buffer of theirs */
	int32_t first_step, last_step; /* lifetime */
};

/* A stream of random numbers: of one node, from one run to the next. */
struct ht_plan_stream {
	uint64_t seed,
		seed2; /* as the node's; both 0: by the seed of whoever runs it, and the name */
	uint64_t name; /* a hash of the node's */
};

/* A variable that the graph changes. */
struct ht_plan_variable {
	struct ht_str name;
	enum ht_dtype dtype;
	struct ht_shape shape;
	int32_t initial; /* buffer: the constant that it begins as; -1: it has no value then */
	uint32_t use;    /* enum ht_image_use */
};

/* Steps of the entry that make derived buffers, together: of variables that the program does not assign, and of steady inputs. */
struct ht_plan_derived {
	int32_t step, steps;
	int32_t *source; /* buffers: of each variable and input one */
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

/* The bytes of one buffer to another. */
struct ht_plan_move {
	int32_t to, from;
};

/* Calls procedure `procedure`: its parameters and results are these buffers of the caller, in the order of
 * its own. */
struct ht_plan_call {
	int32_t procedure;
	int32_t *buffer;
	int32_t buffers;
};

/* A call calls [0].  A branch calls [0] where the condition is not zero, else [1].  A loop begins with the moves `begin`; then,
 * as long as the condition that call [0] leaves is not zero, it calls [1] and does the moves `again`. */
struct ht_plan_control {
	enum ht_plan_controls { HT_PLAN_CALLS, HT_PLAN_BRANCHES, HT_PLAN_LOOPS } kind;
	int32_t condition; /* buffer: one element of 1, 4 or 8 bytes; -1: of a call */
	struct ht_plan_call call[2];
	struct ht_plan_move *begin, *again;
	int32_t begins, agains;
};

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

/* What became of a value that was rounded to 16 bits. */
enum ht_rounding {
	HT_ROUNDED_WELL,
	HT_ROUNDED_NAN,      /* it was NaN */
	HT_ROUNDED_INFINITE, /* it was infinite */
	HT_ROUNDED_SENTINEL, /* stands for minus infinity: about -1e9, or the lowest finite number of float32 or of the type */
	HT_ROUNDED_OVERFLOW,  /* finite, and became infinite */
	HT_ROUNDED_UNDERFLOW, /* not zero, and became zero */
	HT_ROUNDED_SUBNORMAL,
	HT_ROUNDINGS
};
/* A tensor of 16 bits or of a number format, and the temporary buffer (U8, kept to the end) that has an ht_rounding for each
 * of its elements, in order. */
struct ht_plan_probe {
	struct ht_str tensor; /* "node" or "node:1" */
	enum ht_dtype dtype;
	struct ht_str format; /* of a node that rounds to one; empty: of others */
	int32_t buffer;
};

/* A tensor that the run's observer gets to see: a step of library kernel "tee", whose parameter is the number in
 * plan->tee, stands where it is in memory. */
struct ht_plan_tee {
	const struct ht_node *node; /* of the graph that was lowered; */
	int32_t result;             /* this one of its results */
	enum ht_dtype held; /* type in memory: the tensor's, or F32 before it is rounded to that */
	bool rounded;       /* the values are rounded to the tensor's type, even if `held` is F32 */
	bool own;           /* the run owns the memory: it is neither an input nor a constant */
	int64_t offset;     /* elements of that type, from where the step's argument begins */
	int32_t rank;
	const int64_t *dim, *stride; /* elements */
	const struct ht_type
		*whole; /* of a part of a batch: the tensor of all parts; NULL: all have the same */
};

/* A step that has part in computing a node of the imported graph. */
struct ht_plan_member {
	struct ht_str node;
	int32_t step;
};

struct ht_plan_procedure {
	struct ht_str name;
	int32_t buffer, buffers; /* its own are those from `buffer` on */
	int32_t step, steps;
	size_t arena_bytes; /* of its frame */
	size_t live_bytes;  /* in use at once at most, callees' included */
};

/* Numbers of rows for which a program runs, and its parts, each a procedure for so many rows, the smallest first;
 * each is a multiple of the one before, and the first has 1. */
struct ht_plan_rows {
	int64_t least, most;
	struct ht_plan_rows_part {
		int64_t rows;
		int32_t procedure;
	} *part;
	int32_t parts; /* 0: all sizes are numbers */
};

struct ht_plan {
	struct ht_plan_procedure *procedure; /* the entry is the last */
	int32_t procedures;
	/* Of a batch in parts: what the entry does before it runs parts, which are the last procedures; no steps: nothing. */
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
	struct ht_plan_derived
		*derived; /* theirs are the first steps of the entry, in this order */
	int32_t deriveds;
	struct ht_plan_object *object;
	int32_t objects;
	struct ht_method_choice *choice; /* methods that were not asked for */
	int32_t choices;
	const struct ht_kernel **kernel; /* distinct ones */
	int32_t kernels;
	size_t scratch_bytes;                        /* per thread */
	struct ht_open_size size[HT_MOST_RUN_SIZES]; /* those of the run, as the graph's */
	int32_t sizes;
	int64_t parts; /* of the batch, each of which takes all steps; 1: it is not divided */
	struct ht_plan_rows rows;
};
static inline const struct ht_plan_procedure *ht_plan_entry(const struct ht_plan *p)
{
	return &p->procedure[p->procedures - 1];
}

#endif
