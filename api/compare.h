/* Comparisons in memory: running policies fills them, and all forms of reports read them. */
#ifndef HT_API_COMPARE_H
#define HT_API_COMPARE_H

#include <halftone/compare.h>

#include "api/attribute.h"
#include "stats/errors.h"
#include "stats/interval.h"
#include "stats/task.h"

/* A tolerance as the user stated it. */
struct ht_tolerance {
	struct ht_str output;        /* empty: all outputs; for a drop: the metric's output */
	enum ht_statistic statistic; /* HT_STAT_END: the drop of the metric */
	double bound;
};

/* The result of a tolerance for one output of one policy. */
struct ht_judgement {
	size_t output;
	enum ht_statistic statistic; /* HT_STAT_END: the drop of the metric */
	double bound, value;
	bool by_default, ok;
	double would_pass; /* the least bound that would pass, rounded to three digits; not
			    * finite: no bound would */
};

/* A program that is compared. */
struct ht_compared {
	struct ht_arena *arena; /* the comparison's, or one that is released with this policy */
	struct ht_str name;
	struct ht_program *program;
	struct ht_context *context;
	struct ht_array *out;  /* by output of the program */
	enum ht_status status; /* of compiling and running */
	struct ht_str why;     /* if the status is an error: its message */

	/* What its decisions say. */
	enum ht_dtype lowest; /* of formats the type that is like it */
	const char *lowest_name;
	bool emulated;      /* it has formats that the machine lacks */
	int64_t cast_bytes; /* -1: not known */
	struct ht_str
		cache; /* "hit: ENTRY" or "miss: REASON" of the compile cache; empty: it was not asked */
	struct ht_hash decisions;
	const struct ht_compared *same; /* an earlier policy with the same decisions; NULL: none */

	struct ht_errors *errors; /* by output */
	struct ht_paired metric;
	double *ms; /* of each round */
	size_t rounds;
	struct ht_node_errors nodes;
	struct ht_compared *next;
};

struct ht_comparison {
	struct ht_unwind unwind;
	struct ht_arena arena, scratch; /* scratch: of one call */
	const struct ht_model *model;   /* NULL: of ht_comparison_failed() */
	struct ht_str path;             /* of the model; empty: none */
	struct ht_compile_options compile;
	struct ht_map told; /* messages of compilations, so that each is reported once */
	bool given;         /* the caller gave the reference */
	struct ht_model
		*wide; /* the float64 variant of the model, if that is the reference; else NULL */
	struct ht_compared wide_row; /* its program */
	enum ht_task task;
	bool labelled;
	size_t task_output;
	struct ht_tolerance *tolerance;
	size_t tolerances;
	struct ht_compared
		base; /* the model without a policy; in a comparison of ht_comparison_failed()
		       * its status is an error */
	struct ht_compared *first, **last;
	size_t policies;
	struct ht_array *in; /* the last sample */
	size_t samples, runs, rows;
	int64_t compile_ns, run_ns, all_ns;
	struct ht_attribution
		*attribution; /* the current comparison of nodes; NULL: none was begun, or it
			      * ended */
	struct ht_program
		*reference; /* of attributions: the model without a policy; NULL: none was begun */
};

/* ---- compare.c ---- */

/* The inputs of an attribution of errors to nodes, except the policy. */
struct ht_attribution_of ht_comparison_attributes(struct ht_comparison *c, struct ht_compared *r);

/* The model's path, or `otherwise` if it has none. */
struct ht_str ht_compared_model(const struct ht_comparison *c, const char *otherwise);

/* What reports call the reference: "given", "float64" or "float32". */
const char *ht_reference_name(const struct ht_comparison *c);

/* The model, as the place of an error. */
struct ht_where ht_compared_place(const struct ht_comparison *c);

/* ---- compare_programs.c ---- */

/* HT_E_USAGE if the comparison has no model, because it failed. */
enum ht_status ht_compared_need(const struct ht_comparison *c, struct ht_diags *d);
/* Compiles the model under `p`, which is NULL for none, and makes room for its results. */
enum ht_status ht_compared_build(struct ht_comparison *c, struct ht_compared *r,
	const struct ht_policy *p, struct ht_diags *d);
/* Runs a program on the inputs of the last sample. */
enum ht_status ht_compared_run(struct ht_comparison *c, struct ht_compared *r, struct ht_diags *d);
void ht_compared_release(struct ht_compared *r);
/* Whether a message of this text about this node was given before. From this call on, it was. */
bool ht_compared_told(struct ht_comparison *c, const struct ht_diag *i);
/* Passes the messages of one policy to the caller, without notes that were given before.  Keeps
 * the last error. */
void ht_compared_tell(struct ht_comparison *c, struct ht_compared *r, const struct ht_diags *said,
	struct ht_diags *d);

/* Drops all policies and samples and compiles the model under `p`, which is the only policy then.  Outputs without a stated tolerance
 * get the default one of the type `lowest`.  The row says nothing of the policy's decisions.  Returns the status of
 * compiling, as ht_comparison_add() does. */
enum ht_status ht_comparison_try(struct ht_comparison *c, const char *name,
	const struct ht_policy *p, enum ht_dtype lowest, struct ht_diags *d);

/* ---- compare_decisions.c ---- */

/* The type with fewer bits of mantissa; `a` if `b` has as many, or is not a floating-point type. */
enum ht_dtype ht_lower_type(enum ht_dtype a, enum ht_dtype b);

/* Fills the members of a row that describe its decisions. */
void ht_compared_decisions(
	struct ht_compared *r, const struct ht_comparison *c, const struct ht_policy *p);

/* ---- compare_tolerance.c ---- */

enum ht_status ht_tolerances_parse(
	struct ht_comparison *c, const char *const *text, size_t n, struct ht_diags *d);
/* The bound of max|a-b| / max|b| if the user stated no tolerance. */
double ht_default_tolerance(enum ht_dtype lowest);
/* All judgements of a policy without an error, in `a`. */
struct ht_judgement *ht_judge(
	const struct ht_comparison *c, const struct ht_compared *r, struct ht_arena *a, size_t *n);
/* "rel", or "top1-drop"; and "<=" or ">=". */
const char *ht_judged_name(
	const struct ht_comparison *c, const struct ht_judgement *j, struct ht_arena *a);
const char *ht_judged_sign(const struct ht_judgement *j);
/* HT_OK, HT_E_VERDICT, or the policy's error. */
enum ht_status ht_compared_verdict(
	const struct ht_comparison *c, const struct ht_compared *r, struct ht_arena *a);
/* The worst status of all policies, in the order in which the tool ranks errors. */
enum ht_status ht_comparison_worst(const struct ht_comparison *c, struct ht_arena *a);
const char *ht_verdict_word(enum ht_status st); /* "pass", "fail" or "error" */

/* ---- compare_latency.c ---- */

struct ht_latency {
	size_t n;
	double median, least, most;
	bool bounded; /* the median has a confidence interval */
	double low, high;
};
struct ht_latency ht_latency_of(const double *ms, size_t n, struct ht_arena *a);
/* Speed-up over the model without a policy, from the ratios of the rounds. */
struct ht_latency ht_speedup_of(
	const struct ht_comparison *c, const struct ht_compared *r, struct ht_arena *a);
/* Bytes of weights, code, arena and the scratch of all threads. */
uint64_t ht_compared_bytes(const struct ht_comparison *c, const struct ht_compared *r);

/* ---- the forms ---- */

/* Write a member of a JSON object, "key": x; ht_put_next_real() writes a comma first.  Numbers that are not finite become
 * strings. */
void ht_put_real(struct ht_buf *b, const char *key, double x);
void ht_put_next_real(struct ht_buf *b, const char *key, double x);
void ht_put_text_member(struct ht_buf *b, const char *key, struct ht_str s);
void ht_put_csv_field(struct ht_buf *b, struct ht_str s);

void ht_comparison_text(const struct ht_comparison *c, bool markdown, struct ht_buf *b);
void ht_comparison_json(
	const struct ht_comparison *const *c, size_t n, const char *command, struct ht_buf *b);
void ht_comparison_csv(const struct ht_comparison *c, bool head, struct ht_buf *b);
void ht_comparison_junit(const struct ht_comparison *const *c, size_t n, struct ht_buf *b);
/* attribute_forms.c: the errors of nodes. */
void ht_nodes_json(struct ht_buf *b, const struct ht_compared *r);
void ht_nodes_text(const struct ht_compared *r, bool markdown, struct ht_buf *b);
void ht_nodes_csv(const struct ht_comparison *c, bool head, struct ht_buf *b);
/* Node data for Model Explorer: own errors of nodes under the first policy whose nodes were compared. */
void ht_nodes_data(const struct ht_comparison *c, struct ht_buf *b);
void ht_comparison_github(const struct ht_comparison *c, struct ht_buf *b);

#endif
