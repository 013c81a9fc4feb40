/* Attribution: finds the nodes at which a policy's program loses accuracy (docs/compare.md#nodes).
 *
 * Four programs run on each sample:
 *   reference  the model without a policy, each node in a kernel of its own: such a program computes every tensor once, where one that
 *              also has the fused kernels computes those inside twice; its tensors are stored,
 *   policy     the policy's program; the difference of its tensors to the reference is their error,
 *   alone      the policy's nodes, each computed from the reference's operands, which are first rounded to the policy's types;
 *              the difference is the node's own error,
 *   wide       as alone, but nodes compute in float32 and round once at the end; the difference is the expected error.  It
 *              runs on the first HT_EXPECTED_SAMPLES only: the relative error that rounding causes varies little.
 * On one thread the programs run side by side: whenever the reference has computed a tensor, the others compute theirs of that name and are
 * measured, while all are in the caches.  So only a tensor that another program computes later than the reference's next one is stored.  On several
 * threads the programs run one after the other, each with memory of its own for that long, and all tensors of the reference are stored; if that takes
 * more than one wave, they run side by side on one thread.  Results are the same.
 * Each program reads constants of the compared programs and of those before it where its own are equal (api/constants.c): only those of `wide`,
 * which are rounded, are in memory besides.
 * Memory is bounded: the nodes are divided into waves, only the tensors of one wave are stored at a time, and the four
 * programs run once for each wave. */
#ifndef HT_API_ATTRIBUTE_H
#define HT_API_ATTRIBUTE_H

#include "api/api.h"
#include "api/coroutine.h"
#include "api/tee.h"

/* The seed of random ops, which draw the same numbers in all programs that are compared. */
#define HT_COMPARED_SEED 1

enum { HT_EXPECTED_SAMPLES = 4 };

/* What rounding can do to an element of a tensor of the policy's program. */
enum ht_numeric {
	HT_NUMERIC_OVERFLOW,  /* infinite, and finite in the reference */
	HT_NUMERIC_UNDERFLOW, /* zero, and not zero in the reference */
	HT_NUMERIC_SUBNORMAL, /* subnormal in its type */
	HT_NUMERIC_NAN,       /* NaN, and a number in the reference */
	HT_NUMERICS
};

/* Bin i of a histogram counts exponent HT_LEAST_EXPONENT + i; the first and last bin also count all beyond them. */
enum { HT_LEAST_EXPONENT = -150, HT_EXPONENTS = 280 };

/* A node is suspect from this own / expected error on: its kernel does more than compute and round. */
#define HT_NODE_SUSPECT 2.0
/* The key by which nodes are ranked. */
struct ht_rank {
	double excess; /* own error / expected error */
	double own;
	double order; /* position in the order of computation */
};
/* As qsort() compares: suspect nodes first, by excess; then the others, by own error; the largest first. */
int ht_rank_compare(const struct ht_rank *a, const struct ht_rank *b);
/* The excess rounded to three decimal places, for reports. */
double ht_excess_shown(double excess);

/* Differences between elements a of a tensor and b of the same tensor in the reference. */
struct ht_distance_sum {
	double squares; /* sum of (a-b)^2; a-b counts as infinite if only one is finite, or both are infinite with different signs */
	double most;    /* max|a-b| */
};

/* The errors of one tensor, over all samples. */
struct ht_node_error {
	/* From the program `alone`; its strings live as long as the comparison. */
	struct ht_tensor_info info;
	bool wide; /* the kernel computes the tensor in float32 and does not round it to its type */
	uint64_t elements;
	double squares, most;    /* sum of b^2 and max|b| of the reference's elements */
	double expected_squares; /* sum of b^2 over the samples that `expected` was measured on */
	struct ht_distance_sum error, own, expected;
	/* By enum ht_numeric: elements of the policy's tensor to which it happened, and the first sample with one, from 0. */
	uint64_t count[HT_NUMERICS];
	size_t sample[HT_NUMERICS];
	uint64_t order; /* position in the policy's order of computation */
	size_t depth; /* length of the longest chain of compared tensors from which it is computed */
};

/* The errors of all compared tensors of one policy. */
struct ht_node_errors {
	struct ht_node_error *of; /* in the order of the program `alone` */
	size_t n;
	size_t without; /* tensors that the reference does not have, or has in another shape */
	size_t samples, waves; /* samples 0: nodes were not compared */
	int64_t compile_ns, run_ns;
	/* Histogram of floor(log2|b|) over the finite, non-zero elements b of the reference's tensors that are float16 or bfloat16
	 * under the policy, on the first HT_EXPECTED_SAMPLES. */
	uint64_t exponent[HT_EXPONENTS];
};

/* The relative error, sqrt(sum (a-b)^2 / sum b^2). */
double ht_node_rms(const struct ht_node_error *e, const struct ht_distance_sum *s);
/* The same for e->expected, which has samples of its own. */
double ht_node_expected(const struct ht_node_error *e);
/* Own error / expected error: about 1 if rounding explains the own error. */
double ht_node_excess(const struct ht_node_error *e);
/* The error that comes from the node's operands, sqrt(error^2 - own^2), if errors are independent. */
double ht_node_inherited(const struct ht_node_error *e);
/* The nodes in the order of ht_rank_compare(). */
const struct ht_node_error **ht_nodes_ranked(const struct ht_node_errors *n, struct ht_arena *a);
/* The node that is computed first of those with elements that `what` counts; NULL: there is none. */
const struct ht_node_error *ht_nodes_first(const struct ht_node_errors *n, enum ht_numeric what);
extern const char *const ht_numeric_names[HT_NUMERICS];

/* ---- attribute_elements.c ---- */

/* Elements of a floating-point type, each at a multiple of its size. */
struct ht_elements {
	const void *at;
	enum ht_dtype dtype;
};
/* The most elements that the next two functions convert. */
enum { HT_ELEMENTS_CHUNK = 1024 };
/* Elements first to first+n-1 as float32, rounded to `rounded_to` if that is float16 or bfloat16.  Returns `room`, or the
 * elements themselves if nothing has to be converted. */
const float *ht_elements_floats(
	struct ht_elements e, enum ht_dtype rounded_to, size_t first, size_t n, float *room);
/* The same as doubles; float64 is rounded to float32 first if `rounded_to` is not float64. */
void ht_elements_doubles(
	struct ht_elements e, enum ht_dtype rounded_to, size_t first, size_t n, double *to);
/* Rounds elements to `rounded_to`, then stores them in `out` as type `to`. */
void ht_elements_convert(
	struct ht_elements from, enum ht_dtype rounded_to, enum ht_dtype to, void *out, size_t n);

/* ---- attribute_sums.c: `want` is the reference's tensor, `got` the one compared with it, of `n` elements each ---- */

/* Rounds `got` to `rounded_to` before it subtracts. */
void ht_distance_add(struct ht_distance_sum *s, struct ht_elements got, enum ht_dtype rounded_to,
	struct ht_elements want, size_t n);
/* Adds the differences to e->own, and the reference's elements to e->squares, e->most and e->elements. */
void ht_own_add(struct ht_node_error *e, struct ht_elements got, struct ht_elements want, size_t n);
/* Adds the elements to the histogram ht_node_errors.exponent. */
void ht_exponents_add(uint64_t exponent[HT_EXPONENTS], struct ht_elements want, size_t n);
/* Adds the differences to e->error, and counts the elements of `got`, which are numbers of type `t`, by enum ht_numeric. */
void ht_error_add(struct ht_node_error *e, enum ht_dtype t, struct ht_elements got,
	struct ht_elements want, size_t n, size_t sample);

/* ---- the four programs ---- */

enum ht_looked_at {
	HT_LOOKED_REFERENCE,
	HT_LOOKED_POLICY,
	HT_LOOKED_ALONE,
	HT_LOOKED_WIDE,
	HT_LOOKED
};

/* One of the four programs, and the state of its current run.  A place is one of its struct ht_tee_place. */
struct ht_looked {
	struct ht_attribution *of;
	struct ht_program *program; /* the reference's belongs to the caller */
	struct ht_context *context; /* NULL: it has one during each run */
	struct ht_array *in, *out;
	void **room; /* by input: float32 copy of a 16-bit array; NULL: the array is passed as given */
	int32_t *tensor;           /* by place: index in ht_attribution.tensor; -1: none */
	uint64_t *executions;      /* by place: how often it was computed in this run */
	uint64_t seen;             /* calls of the observer in this run */
	struct ht_coroutine *side; /* runs the program beside the reference; NULL: behind it */
	struct ht_side {
		const struct ht_array *in; /* the sample */
		size_t ins;
		enum ht_status status; /* of the run */
		struct ht_diags said;
		const struct ht_kept *waits; /* for this tensor of the reference; NULL: for none */
		uint64_t execution;
	} run;
};

/* A tensor of the reference that a wave stores, in the type that held it in memory. */
struct ht_kept {
	bool wanted; /* the current wave needs it */
	bool stays; /* it is computed several times, or the other programs see it so often: each execution is stored */
	size_t readers;      /* places of the other programs at which it is compared, in this run */
	const void *passing; /* while the reference shows it: its elements */
	uint64_t now;        /* which execution that is */
	size_t wave;         /* while waves are made: the last one that needs it, from 1 */
	size_t count, bytes; /* of one execution */
	size_t room;         /* bytes that one execution takes of a wave's memory */
	char **execution;    /* its elements, by iteration where it is in a loop */
	size_t executions;   /* of this run that are stored */
	size_t cap;          /* capacity of `execution` */
};

/* Memory for the tensors that a wave stores.  All waves and samples use the same mapping, so that the system provides its
 * pages once; iterations of loops that do not fit into it have memory of their own. */
struct ht_wave_memory {
	char *at;
	size_t n, used;           /* bytes of the mapping, and those that the current wave uses */
	struct ht_beyond *beyond; /* what does not fit, until the wave ends */
};

/* A tensor of the program `alone` that the reference has too. */
struct ht_attributed {
	int32_t kept;     /* its place in the reference */
	int32_t place;    /* its place in `alone` */
	int32_t *operand; /* tensors that its node reads: indices in ht_attribution.tensor */
	size_t operands;
	struct ht_node_error *of; /* NULL: its type is not floating-point */
};

/* What ht_attribution_new() attributes; all that it points to outlives the attribution. */
struct ht_attribution_of {
	const struct ht_model *model;
	const struct ht_compile_options *compile; /* target, threads and methods */
	const struct ht_program *base;            /* the model as it is */
	const struct ht_program *row;             /* the model under `policy` */
	const struct ht_policy *policy;           /* NULL: the model as it is */
	/* The model as it is, which shows its tensors; NULL: made at the first attribution, the caller frees it. */
	struct ht_program **reference;
	struct ht_node_errors *nodes; /* what is filled, with memory of `results` */
	struct ht_arena *results;
	struct ht_unwind *unwind;
	/* Most bytes of reference tensors in a wave; 0: as many as the model's and the policy's program take, at least 16 MiB, or 128 MiB if the
	 * programs run side by side. */
	size_t memory;
	/* For tests: struct ht_lower_request. */
	struct ht_str fault;
	double fault_by;
};

struct ht_attribution {
	struct ht_arena arena; /* allocations only inside of ht_guarded() */
	struct ht_attribution_of of;
	struct ht_looked looked[HT_LOOKED];
	struct ht_kept *kept; /* by place of the reference */
	struct ht_attributed *tensor;
	size_t tensors;
	size_t waves;
	size_t *end;        /* by wave: one past its last tensor; the next wave begins there */
	size_t first, last; /* the current wave measures tensors first..last-1 */
	int threads;        /* of its runs; 1: the programs run side by side, if they can */
	size_t budget;      /* most bytes of reference tensors in a wave */
	size_t most; /* bytes of the largest wave: more than `budget` if a single node needs them */
	struct ht_wave_memory memory;
	void *room
		[3]; /* buffers, each for the largest tensor as doubles: got, put, and what the reference shows */
	bool failed; /* memory for a tensor ran out */
	bool ended;  /* the reference's run has ended: nobody waits for its tensors */
};

/* ---- attribute.c ---- */

enum ht_status ht_attribution_new(
	const struct ht_attribution_of *of, struct ht_diags *d, struct ht_attribution **out);
void ht_attribution_free(struct ht_attribution *a);
/* A context of one of the four programs. */
enum ht_status ht_attribution_context(const struct ht_attribution *a, const struct ht_program *p,
	struct ht_diags *d, struct ht_context **out);
/* ---- attribute_run.c ---- */

/* Maps a->memory for the largest wave; false: out of memory. */
bool ht_attribution_map(struct ht_attribution *a);
/* Frees the stored tensors of the reference. */
void ht_attribution_forget(struct ht_attribution *a);
/* Runs all waves on one sample.  Messages call the sample `where`. */
enum ht_status ht_attribution_sample(struct ht_attribution *a, const char *where,
	const struct ht_array *in, size_t ins, struct ht_diags *d);

#endif
