/* Searching for the smallest set of nodes that have to stay in float32 (docs/search.md).  Errors and threads: as in halftone.h. */
#ifndef HALFTONE_SEARCH_H
#define HALFTONE_SEARCH_H

#include <halftone/compare.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A search over the nodes of one model.  Belongs to one thread at a time. */
struct ht_search;

struct ht_search_options {
	size_t struct_size;
	/* Target, threads, methods, reference, metric and tolerances of all trials.  An output without a tolerance has the default
	 * tolerance of the lowest of `types`.  NULL: the defaults. */
	const struct ht_comparison_options *compare;
	/* The low types, with commas: "f16", "bf16", or "f16,bf16" (NULL).  With two types, a node that is low has the one in which its own
	 * error is smaller. */
	const char *types;
	/* How the set is found: "minimal" (NULL), or for comparisons by the rule of another tool: "polygraphy-forward",
	 * "polygraphy-reverse", "onnx-segments". */
	const char *rule;
	/* The path of a file to which each trial is appended as soon as it ends.  NULL: trials are not written down. */
	const char *journal;
	/* 0: the journal is emptied first.  Otherwise a trial that the journal holds is not run again; it is the same trial if model,
	 * samples, target, tolerances, types and decisions are the same. */
	int64_t resume;
	/* What else the policy that is printed has in float32: "speed" (NULL), the nodes that the prices of the target say are slower in a low
	 * type, so that by these prices it is not slower than the model as it is; "fewest", only the members of the set.  Prices are not known if a
	 * type is a format or a shape is open; then it is as with "fewest".  Rules of other tools go by "fewest". */
	const char *prefer;
};
#define HT_SEARCH_OPTIONS_INIT { sizeof(struct ht_search_options), NULL, NULL, NULL, NULL, 0, NULL }

/* Compiles the model as it is.  The model must outlive the search and must not be changed. */
HT_API enum ht_status ht_search_new(const struct ht_model *m, const struct ht_search_options *opt,
	struct ht_diags *d, struct ht_search **out);
HT_API void ht_search_free(struct ht_search *s);
/* The program without a policy: its inputs and outputs are those of samples.  It lives as long as the search. */
HT_API const struct ht_program *ht_search_program(const struct ht_search *s);
/* How many samples one run takes, as ht_comparison_rows(). */
HT_API size_t ht_search_rows(const struct ht_search *s);

/* Judges the current trial and compiles the next one that the journal does not hold.  *more is 0 once the search has ended; otherwise the
 * caller now gives all samples to ht_search_sample(), in the same order for each trial. */
HT_API enum ht_status ht_search_next(struct ht_search *s, struct ht_diags *d, int32_t *more);
/* Runs the current trial on a sample, as ht_comparison_sample() does.  A sample that the trial does not need is ignored. */
HT_API enum ht_status ht_search_sample(struct ht_search *s, const char *where,
	const struct ht_array *in, size_t ins, const struct ht_array *expected, size_t expecteds,
	const struct ht_array *label, struct ht_diags *d);

struct ht_search_state {
	size_t struct_size;
	size_t units;   /* nodes that may be low */
	size_t trials;  /* trials that were run, the current one among them */
	size_t resumed; /* trials that were taken from the journal */
	size_t kept; /* nodes that the current trial, or the policy that was found, has in float32 */
	/* What the current trial is for, such as "all nodes in float32"; lives as long as the search. */
	const char *what;
};
#define HT_SEARCH_STATE_INIT { sizeof(struct ht_search_state), 0, 0, 0, 0, NULL }
HT_API enum ht_status ht_search_look(
	const struct ht_search *s, struct ht_diags *d, struct ht_search_state *out);

/* The result of a search that has ended.  HT_OK: a policy was found.  HT_E_VERDICT: not even float32 keeps the tolerances, and `d` says
 * which tolerance float32 exceeds. */
HT_API enum ht_status ht_search_verdict(struct ht_search *s, struct ht_diags *d);
/* How many nodes have to be in float32.  These nodes are the members of the set. */
HT_API size_t ht_search_members(const struct ht_search *s);
/* The name of member i, which lives as long as the search, and as JSON the policy that has the other members in float32 and all other nodes low: that
 * policy exceeds a tolerance. */
HT_API enum ht_status ht_search_member(struct ht_search *s, size_t i, struct ht_diags *d,
	const char **node, struct ht_bytes *without);

enum ht_search_form {
	HT_SEARCH_TEXT,
	HT_SEARCH_POLICY /* JSON, a decision report whose member `search` is the evidence (docs/decisions.schema.json) */
};
/* Prints the found policy.  The evidence repeats `command` (NULL: none), the command line that made the policy. */
HT_API enum ht_status ht_search_print(struct ht_search *s, enum ht_search_form form,
	const char *command, struct ht_diags *d, struct ht_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
