/* passes: from the imported graph to one that can be lowered.  Each pass has a file. */
#ifndef HT_PASSES_H
#define HT_PASSES_H

#include "base/base.h"
#include "choice/fusion.h"
#include "ir/ir.h"
#include "kernel/target.h"

/* ---- pass.c: the pass interface and pipelines ---- */

/* The names of two scalar variables of a session that scales gradients: the loss scale (float32), and whether the gradients of the
 * last run were finite (bool).  Variables of models do not have such names. */
#define HT_LOSS_SCALE "_HALFTONE/loss_scale"
#define HT_GRADIENTS_FINITE "_HALFTONE/finite"

/* Values of variables, by name: a checkpoint. */
struct ht_variable_source {
	enum ht_status (*read)(void *self, struct ht_str name, struct ht_arena *a,
		struct ht_diags *d, struct ht_tensor **out);
	void *self;
};

struct ht_pass_context;

/* Decides the dtypes in the pass "precision" (precision/precision.h implements it). */
struct ht_decider {
	enum ht_status (*decide)(
		const struct ht_decider *self, struct ht_graph *g, struct ht_pass_context *c);
};

/* What a pass may read besides the graph. */
struct ht_pass_context {
	struct ht_arena *scratch; /* cleared after each pass */
	struct ht_diags *diags;
	const struct ht_target *target;
	const struct ht_entry *entry;     /* the entry point that is compiled */
	const struct ht_decider *decider; /* NULL: every dtype is kept */
	struct ht_fusions
		*fusions; /* which are on, and what they did; NULL: all are on, and nothing is
			   * recorded */
	const struct ht_variable_source *variables; /* for freeze; NULL: there is no checkpoint */
	bool keep_variables; /* freeze leaves variables alone: for looking at graphs without
			      * values */
	bool keep_changed;   /* likewise, for variables that the graph changes: for looking at
			    * training graphs */
	/* Sizes that depend on data stay unknown, as in the imported graph: for graphs that
	 * TensorFlow will run. */
	bool keep_computed_sizes;
	/* Branches and loops keep the functions that the model has, unless sizes that the program has reach them: for graphs that are written. */
	bool keep_functions;
	/* The entry's output whose gradients are multiplied by the variable HT_LOSS_SCALE, and divided by it before they are
	 * used; empty: none. */
	struct ht_str scaled_loss;
	double loss_scale; /* with scaled_loss: the scale of the first step; 0: not known */
	bool unchecked; /* HT_GRADIENTS_FINITE is not set, and gradients that are not finite update variables */
	bool session; /* every variable stays, and freeze gives it no value: it is memory of a
		       * session */
	bool verify;  /* run the verifier before the first and after each pass */
	/* Called after each pass; a status other than HT_OK ends the run.  May be NULL. */
	enum ht_status (*after)(void *self, const struct ht_graph *g, const char *pass);
	void *after_self;
	int threads; /* that passes may use for large amounts of work; 0: 1 */
};

struct ht_pass {
	const char *name;
	const char *summary; /* one line for `halftone opt --list` */
	bool does_more;      /* it does more than its fusions, so it runs even if they are off */
	/* It changes no function, so functions may be shared.  Before any other pass the graph
	 * gets its own copies. */
	bool spares_functions;
	enum ht_status (*run)(struct ht_graph *g, struct ht_pass_context *c);
};

/* All passes, in alphabetical order, ended by NULL. */
extern const struct ht_pass *const ht_passes[];
const struct ht_pass *ht_pass_named(struct ht_str name);
/* Runs a pipeline, such as "prune,fold,…", in order.  An unknown name is HT_E_USAGE, with
 * similar names.  With `stop_after`, ends after that pass. */
enum ht_status ht_run_passes(struct ht_graph *g, const char *pipeline, const char *stop_after,
	struct ht_pass_context *c);
/* The standard pipeline, as text: exact clean-ups and named fusions, precision, casts, layout. */
extern const char ht_pipeline_cleanup[];   /* up to the graph on which policies decide */
extern const char ht_pipeline_precision[]; /* precision, cast placement and merging */
extern const char ht_pipeline_painted[];   /* in its place if the policy painted the imported
					    * graph */
extern const char ht_pipeline_layout[];    /* what lowering requires: NHWC, expanded, folded */
extern const char ht_pipeline_body[];      /* all of these, for the body of a branch or loop */
extern const char ht_pipeline_divided[];   /* its end, for branches of loops (recurrent_rows.c) */

/* ---- evaluate.c: constants by the interpreter ---- */

/* Computes node `n`, whose operands are all constant, through lowering and the interpreter.
 * *out has one tensor for each result.  HT_E_UNSUPPORTED, without a diagnostic, if it cannot be
 * lowered. */
enum ht_status ht_evaluate(struct ht_node *n, struct ht_arena *a, struct ht_tensor **out);

/* ---- feeds.c ---- */

/* The type of a tensor as stated in the graph, without inference. */
struct ht_type ht_stated_type(struct ht_value v);

/* ---- changed.c ---- */

/* The names of the variables that the nodes `runs`, by id, or functions that these run, may change. */
void ht_changed_in_run(
	const struct ht_graph *g, const bool *runs, struct ht_arena *a, struct ht_map *changed);
/* Whether one of the variables `names` is among these nodes, or in functions that these run. */
bool ht_run_has_variable(
	const struct ht_graph *g, const bool *runs, struct ht_arena *a, const struct ht_map *names);

#endif
