/* Comparing precision policies: accuracy, speed and memory of each on the same samples, with a verdict
 * (docs/compare.md).  Errors and threads: as in halftone.h. */
#ifndef HALFTONE_COMPARE_H
#define HALFTONE_COMPARE_H

#include <halftone/halftone.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Policies of one model, and what was measured of them.  Belongs to one thread at a time. */
struct ht_comparison;

struct ht_comparison_options {
	size_t struct_size;
	/* Target, threads and methods of all programs; `policy` and `numerics` are not read.  NULL: the
	 * defaults. */
	const struct ht_compile_options *compile;
	/* What the outputs of the policies are compared with.  "f32" (NULL): the outputs of the model with
	 * the types that it has.  "f64": those of its float64 variant, ht_model_widen().  "given": arrays that ht_comparison_sample() gets. */
	const char *reference;
	/* The task, "[OUTPUT:]METRIC" of the metrics top1, top5, iou, f-measure, keypoints and cosine;
	 * without OUTPUT it is the first one's.  NULL: none. */
	const char *metric;
	/* Tolerances: "[OUTPUT:]STATISTIC<=X" or ">=X", "METRIC-drop<=X", "[OUTPUT:]X" for `rel`.  X may
	 * end in '%'.  An output without one has the tolerance of the lowest type of each policy. */
	const char *const *tolerance;
	size_t tolerances;
};
#define HT_COMPARISON_OPTIONS_INIT                                                                 \
	{ sizeof(struct ht_comparison_options), NULL, NULL, NULL, NULL, 0 }

/* Compiles the model as it is.  The model must outlive the comparison and must not be changed. */
HT_API enum ht_status ht_comparison_new(const struct ht_model *m,
	const struct ht_comparison_options *opt, struct ht_diags *d, struct ht_comparison **out);
/* Makes a comparison that only reports an error, so that ht_comparison_print() can list a model that could not be compared among
 * others.  `model` is the path of the model, `status` the error and `why` the text of the error; both texts are copied.
 * ht_comparison_verdict() returns `status` for it, ht_comparison_program() returns NULL, and functions that need a model return
 * HT_E_USAGE.  HT_E_USAGE: `status` is not an error. */
HT_API enum ht_status ht_comparison_failed(const char *model, enum ht_status status,
	const char *why, struct ht_diags *d, struct ht_comparison **out);
HT_API void ht_comparison_free(struct ht_comparison *c);
/* Compiles the model under a policy (NULL: as it is), before the first sample.  `name` is what reports
 * call it.  When it cannot be compiled, the status says why, reports show the policy with this error, and
 * the comparison goes on with the others. */
HT_API enum ht_status ht_comparison_add(
	struct ht_comparison *c, const char *name, const struct ht_policy *p, struct ht_diags *d);
/* The program of the model as it is, for its inputs and outputs.  It lives as long as the comparison. */
HT_API const struct ht_program *ht_comparison_program(const struct ht_comparison *c);
/* The samples that one run holds: the first dimension that all inputs and outputs share, else 1. */
HT_API size_t ht_comparison_rows(const struct ht_comparison *c);

/* Runs every policy once.  `in` is in the order of the inputs; `expected`, in the order of the outputs,
 * has the reference "given" (else `expecteds` is 0); `label` (NULL: none) is what the metric's output
 * should be: an integer class for each row of its last dimension, or an array of its shape.  Messages
 * call the sample `where`.  HT_E_INPUT: the arrays do not fit, a class is out of range, or the reference
 * has NaN; nothing was counted.  A policy whose run fails keeps its error, and the others go on. */
HT_API enum ht_status ht_comparison_sample(struct ht_comparison *c, const char *where,
	const struct ht_array *in, size_t ins, const struct ht_array *expected, size_t expecteds,
	const struct ht_array *label, struct ht_diags *d);
/* Begins to compare every tensor under the policy that was added as `name`, which `p` states again; a comparison of tensors
 * under another policy ends.  Compiles three programs, which live until the next call or until `c` is freed.  `memory` is the
 * most bytes of reference tensors that are stored at a time (0: as many as the model's and the policy's program take, at least
 * 16 MiB, or 128 MiB if the programs run side by side on one thread, which stores few tensors).
 * Nodes that need more are compared in several waves, and all programs run once for each wave.  `name` NULL only ends a
 * comparison.  HT_E_UNSUPPORTED: the program cannot show its tensors, for example because its first dimension is open. */
HT_API enum ht_status ht_comparison_nodes(struct ht_comparison *c, const char *name,
	const struct ht_policy *p, size_t memory, struct ht_diags *d);
/* Runs the programs on a sample.  Adds up, for each tensor, its error and the own error of its node, which is computed from
 * the reference's operands (docs/compare.md).  The reference is always the model as it is, also if outputs have another. */
HT_API enum ht_status ht_comparison_nodes_sample(struct ht_comparison *c, const char *where,
	const struct ht_array *in, size_t ins, struct ht_diags *d);
/* Measures latencies on the last sample: in each of `rounds` rounds every policy runs twice, the second
 * time measured, in an order that rotates. */
HT_API enum ht_status ht_comparison_time(
	struct ht_comparison *c, size_t rounds, struct ht_diags *d);

/* HT_OK: every policy is within its tolerances.  HT_E_VERDICT: one is not.  Otherwise the error of a
 * policy, or HT_E_USAGE when there were no samples. */
HT_API enum ht_status ht_comparison_verdict(const struct ht_comparison *c, struct ht_diags *d);

/* The more severe of two statuses.  From the most to the least severe these are HT_E_INTERNAL, HT_E_ENVIRONMENT, HT_E_LIMIT, HT_E_INPUT,
 * HT_E_UNSUPPORTED, HT_E_USAGE, HT_E_VERDICT and HT_OK. */
HT_API enum ht_status ht_worse_status(enum ht_status a, enum ht_status b);

enum ht_comparison_form {
	HT_COMPARISON_TEXT,
	HT_COMPARISON_JSON, /* docs/compare.schema.json */
	HT_COMPARISON_CSV,  /* a line for each policy and output */
	HT_COMPARISON_MARKDOWN,
	HT_COMPARISON_JUNIT,     /* a test case for each model, policy and output */
	HT_COMPARISON_GITHUB,    /* workflow commands: one for each tolerance that was exceeded */
	HT_COMPARISON_NODES_CSV, /* a line for each policy and tensor that was compared */
	HT_COMPARISON_NODE_DATA /* node data for Model Explorer: own errors under the first policy whose nodes were compared */
};
/* Prints `n` comparisons, each of a model.  `command` (NULL: none) is what the report says it was made by. */
HT_API enum ht_status ht_comparison_print(const struct ht_comparison *const *c, size_t n,
	enum ht_comparison_form form, const char *command, struct ht_diags *d,
	struct ht_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
