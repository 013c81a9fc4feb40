/* passes: from the graph as imported to a plan of kernels.  One file a pass. */
#ifndef HT_PASSES_H
#define HT_PASSES_H

#include "base/base.h"
#include "base/words.h"
#include "ir/ir.h"
#include "kernel/kernel.h"
#include "passes/fusion.h"
#include "passes/precision/policy.h"

/* ---- pass.c: the pass interface and pipelines ---- */

/* Values of variables, by name: a checkpoint. */
struct ht_variable_source {
	enum ht_status (*read)(void *self, struct ht_str name, struct ht_arena *a,
		struct ht_diags *d, struct ht_tensor **out);
	void *self;
};

/* What a pass may read besides the graph. */
/* How 3 x 3 convolutions at stride 1 compute (kernel/winograd.h). */
enum ht_conv_method {
	HT_CONV_AUTO,        /* whichever is estimated to be faster */
	HT_CONV_DIRECT,      /* the sum over taps */
	HT_CONV_WINOGRAD,    /* F(4 x 4), wherever it is possible */
	HT_CONV_WINOGRAD_2X2 /* F(2 x 2), likewise */
};

/* How inverted residual blocks, squeeze and excitation, and attention compute. */
enum ht_block_method {
	HT_BLOCK_AUTO,    /* whichever is estimated to be faster */
	HT_BLOCK_KERNELS, /* each by a kernel of its own */
	HT_BLOCK_ROWS     /* row by row in one, wherever it is possible */
};

/* How a batch of which no result needs another's part computes. */
enum ht_batch_method {
	HT_BATCH_AUTO,  /* whichever is estimated to be faster */
	HT_BATCH_WHOLE, /* each kernel all of it */
	HT_BATCH_PARTS  /* all kernels one part after the other, wherever it is possible */
};

struct ht_pass_context {
	struct ht_arena *scratch; /* cleared after each pass */
	struct ht_diags *diags;
	const struct ht_target *target;
	const struct ht_entry *entry; /* the entry point that is compiled */
	struct ht_policy *policy;     /* passes/precision/precision.h; NULL: keep every dtype */
	const struct ht_graph
		*imported; /* the graph before any pass, for names; NULL: not at hand */
	struct ht_fusions
		*fusions; /* which are on, and what they did; NULL: all, and it is not kept */
	struct ht_decisions *decisions;             /* out: what the precision pass decided */
	const struct ht_variable_source *variables; /* for freeze; NULL: there is no checkpoint */
	const struct ht_calibration
		*calibration; /* passes/precision/optimal/budget.h; NULL: none */
	bool keep_variables;  /* freeze leaves them alone: for looking at graphs without values */
	bool keep_changed; /* likewise, where the graph changes one: for looking at those that train */
	bool numerics;     /* lower so that ht_plan.probe tells what rounding did */
	bool verify;       /* run the verifier before the first and after each pass */
	/* Called after each pass; a status other than HT_OK ends the run.  NULL: nothing is. */
	enum ht_status (*after)(void *self, const struct ht_graph *g, const char *pass);
	void *after_self;
	enum ht_conv_method conv_method;
	enum ht_block_method block_method;
	enum ht_batch_method batch_method;
	int threads; /* that passes may use for what is large; 0: 1 */
};

struct ht_pass {
	const char *name;
	const char *summary; /* one line for `halftone opt --list` */
	bool does_more;      /* than the fusions that name it: it runs when those are off */
	enum ht_status (*run)(struct ht_graph *g, struct ht_pass_context *c);
};

/* All passes, in alphabetical order, ended by NULL. */
extern const struct ht_pass *const ht_passes[];
const struct ht_pass *ht_pass_named(struct ht_str name);
/* "prune,fold,…": runs them in order.  An unknown name is HT_E_USAGE with near names.  With
 * `stop_after`, ends behind that pass. */
enum ht_status ht_run_passes(struct ht_graph *g, const char *pipeline, const char *stop_after,
	struct ht_pass_context *c);
/* The standard pipeline, as text: exact clean-ups and named fusions, precision, casts, layout. */
extern const char ht_pipeline_cleanup[];   /* up to the graph on which policies decide */
extern const char ht_pipeline_precision[]; /* precision, cast placement and merging */
extern const char ht_pipeline_painted[];   /* in its place where the policy painted the import */
extern const char ht_pipeline_layout[];    /* what lowering wants: NHWC, expanded, folded */

/* ---- evaluate.c: constants by the interpreter ---- */

/* Computes node `n`, whose operands are all constant, through lowering and the interpreter.
 * *out has one tensor a result.  HT_E_UNSUPPORTED without a diagnostic when it has no lowering. */
enum ht_status ht_evaluate(
	struct ht_node *n, struct ht_pass_context *c, struct ht_arena *a, struct ht_tensor **out);

/* ---- lower/: graph → plan ---- */

enum ht_plan_kind {
	HT_PLAN_INPUT,
	HT_PLAN_OUTPUT,
	HT_PLAN_CONST,
	HT_PLAN_TEMP,
	HT_PLAN_STREAM /* a struct ht_philox: where a random op draws from in this run */
};

/* Memory that steps read and write. */
struct ht_plan_buffer {
	enum ht_plan_kind kind;
	enum ht_dtype dtype;
	struct ht_shape shape;      /* of the tensor, for inputs and outputs: of all parts */
	bool whole;                 /* an input of which every part has all */
	struct ht_str name;         /* of the input or output, without ":0" */
	size_t bytes;               /* in one part */
	struct ht_blob *blob;       /* HT_PLAN_CONST; NULL until its `pack` ran */
	const struct ht_pack *pack; /* HT_PLAN_CONST: made from `packed_from` */
	struct ht_blob *packed_from;
	int64_t pack_first;  /* first element of packed_from */
	size_t pack_count;   /* so many matrices one after the other, */
	int64_t pack_stride; /* elements of packed_from apart */
	size_t offset; /* HT_PLAN_TEMP: in the arena, aligned to 64; HT_PLAN_STREAM: its number */
	int32_t first_step, last_step; /* lifetime */
	int32_t alias;                 /* an output or temp that is another buffer's memory; -1 */
};

/* A stream of random numbers: of one node, from one run to the next. */
struct ht_plan_stream {
	uint64_t seed,
		seed2;   /* as the node's; both 0: by the seed of whoever runs it, and the name */
	uint64_t name;   /* a hash of the node's */
	uint64_t blocks; /* of four numbers of 32 bits: how many a run takes, needed or not */
};

struct ht_plan_step {
	const struct ht_kernel *kernel; /* equal kernels are one pointer */
	int32_t *buffer;                /* kernel->args plan buffers */
	int64_t *params;
	struct ht_str node;           /* for messages: the node it was made for */
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
/* A 16-bit tensor, and the temporary buffer (U8, kept to the end) that has an ht_rounding for each
 * of its elements, in order. */
struct ht_plan_probe {
	struct ht_str tensor; /* "node" or "node:1" */
	enum ht_dtype dtype;
	int32_t buffer;
};

/* Of the kernel of a node that had a choice (methods.def). */
enum ht_method {
#define METHOD(id, name, ask) HT_METHOD_##id,
#define REASON(id, name, is, limit)
#include "passes/methods.def"
	HT_METHOD_END
};
enum ht_reason {
#define METHOD(id, name, ask)
#define REASON(id, name, is, limit) HT_REASON_##id,
#include "passes/methods.def"
	HT_REASON_END
};
struct ht_method_info {
	const char *name, *ask;
};
struct ht_reason_info {
	const char *name, *is, *limit;
};
extern const struct ht_method_info ht_method_info[HT_METHOD_END];
extern const struct ht_reason_info ht_reason_info[HT_REASON_END];

struct ht_method_choice {
	struct ht_str node; /* the root of the kernel */
	enum ht_method method,
		other; /* other: what may be asked for instead; HT_METHOD_END: none */
	enum ht_reason reason;
	double is, limit; /* the reason's numbers */
	double error; /* measured root mean square, as a share of the results'; 0: of the same bits */
};

struct ht_plan {
	struct ht_plan_buffer *buffer;
	int32_t buffers;
	struct ht_plan_step *step;
	int32_t steps;
	struct ht_plan_probe *probe; /* with ht_pass_context.numerics */
	int32_t probes;
	struct ht_plan_stream *stream;
	int32_t streams;
	struct ht_method_choice *choice; /* methods that were not asked for */
	int32_t choices;
	const struct ht_kernel **kernel; /* distinct ones */
	int32_t kernels;
	size_t arena_bytes, scratch_bytes; /* scratch: per thread */
	size_t live_bytes; /* that are in use at once at most: no arena can be smaller */
	int64_t parts;     /* of the batch, each of which takes all steps; 1: it is not divided */
};

/* Lowers entry c->entry.  Unsupported ops are reported all in one, grouped by type. */
enum ht_status ht_lower(
	struct ht_graph *g, struct ht_pass_context *c, struct ht_arena *a, struct ht_plan **out);
/* Lowers one node whose operands are all Const; the plan has constant and output buffers only, one
 * output a result.  For constant folding: the interpreter runs it. */
enum ht_status ht_lower_node(
	struct ht_node *n, struct ht_pass_context *c, struct ht_arena *a, struct ht_plan **out);
/* Which nodes share a kernel, for costs and reports: of any graph, an op without a lowering being a
 * kernel by itself.  Arrays by node id, in `a`. */
struct ht_fusion {
	struct ht_node *
		*kernel; /* the sink of the node's kernel; NULL: the node computes nothing */
	struct ht_node *
		*root; /* of a sink: the node of its kernel that has a loop of its own, or NULL */
};
struct ht_fusion ht_fusion_of(struct ht_graph *g, struct ht_fusions *fusions, struct ht_arena *a);
/* Whether a node is an input by itself: a placeholder of any kind. */
bool ht_is_placeholder(const struct ht_node *n);
/* The type of a tensor as far as the graph says it without inference. */
struct ht_type ht_stated_type(struct ht_value v);
bool ht_can_lower(const struct ht_node *n);
/* Why no node of this op is lowered, in words; NULL: some are, or nobody knows the op. */
const char *ht_never_lowered(const struct ht_node *n);

/* Why a graph cannot be lowered.  A node of which an operand cannot be computed is counted with what
 * that waits for, unless it could not be lowered anyhow. */
struct ht_refusal {
	struct ht_str type, first; /* op type, and the first node of it */
	struct ht_str part;        /* the name scope that all of them are in; may be empty */
	const char *why;
	bool open_shape; /* `why` is a shape that is not known */
	size_t nodes;    /* of this type that are refused for this */
	size_t blocks;   /* others behind them; each counts once in all */
};
struct ht_refusals {
	struct ht_refusal *item;
	size_t n, cap;
};
/* Of a graph in order, and of one of its entries; in `a`. */
void ht_find_refusals(const struct ht_graph *g, const struct ht_entry *e, struct ht_arena *a,
	struct ht_refusals *out);
/* "is control flow, … (2 nodes in 'model/rnn'; 41 behind them cannot be computed either)" */
void ht_refusal_print(const struct ht_refusal *r, struct ht_buf *b);
/* The attribute in which a node carries its implementation mode by name. */
extern const char ht_mode_attribute[];
/* How the kernel of node `n` differs under an implementation mode, in words; NULL: not at all. */
const char *ht_mode_effect(const struct ht_node *n, enum ht_impl mode);
/* Multiplications and additions (pairs) of a node with known shapes; 0 where it is no contraction. */
int64_t ht_multiply_adds(const struct ht_node *n);
/* Estimated time of a convolution of type `t` by the faster form of Winograd's method over that
 * of its taps summed in F32; 0 where AUTO sums taps. */
double ht_winograd_share(const struct ht_target *target, const struct ht_node *n, enum ht_dtype t);

#endif
