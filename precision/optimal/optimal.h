/* optimal: the cheapest assignment of types that safety permits. */
#ifndef HT_OPTIMAL_H
#define HT_OPTIMAL_H

#include "precision/optimal/assign.h"
#include "precision/precision.h"
#include "precision/optimal/price.h"

/* ---- gradients.c: gradients that float16 would lose ---- */

struct ht_gradients {
	const uint8_t *role; /* by node id: enum ht_role of its results */
	size_t *first;       /* by node id: the number of its first result */
	/* By number of a result, NULL without samples: its magnitudes at a loss scale of 1, and whether they were measured. */
	struct ht_magnitudes *at;
	bool *seen;
	const uint64_t
		*lifted; /* by node id: not 0 where results are proportional to the loss scale */
	double scale;
};
/* Measures the gradients of p->graph on the policy's samples, if it has some.  Everything is in p->arena. */
enum ht_status ht_gradients_find(struct ht_precision *p, struct ht_gradients *g);
/* Why node `n` must not compute in float16 because a gradient that it reads or returns would be lost; NULL: it may.  In `a`. */
const struct ht_dtype_reason *ht_gradient_reason(
	const struct ht_gradients *g, const struct ht_node *n, struct ht_arena *a);

/* ---- safety.c: low types that a node must not have ---- */

struct ht_safety {
	uint8_t *denied;                    /* by node id: bit (1 << label) of each denied label */
	const struct ht_dtype_reason **why; /* by node id; NULL: nothing is denied */
	const struct ht_node *
		*after; /* by node id: the node whose denied value it reads; NULL: it is denied
			 * itself */
	bool *looked;   /* by node id: its large constants were read */
	struct ht_uses uses;
};
static inline uint8_t ht_label_bit(enum ht_label l)
{
	return (uint8_t)(1u << l);
}
/* Applies lists, ranges of constants and of gradients, and spreads the results; works in p->arena. */
void ht_safety_build(
	struct ht_precision *p, const struct ht_gradients *gradients, struct ht_safety *s);
/* Reads the large constants of a node.  This takes long, so it is done only for nodes that would
 * become float16.  True: more was denied; call ht_safety_spread() to update the other nodes. */
bool ht_safety_check(struct ht_safety *s, const struct ht_node *n);
void ht_safety_spread(struct ht_precision *p, struct ht_safety *s);

/* An arena that is released with p->arena at the latest, since an allocation may unwind. */
struct ht_arena *ht_arena_of(struct ht_precision *p);

/* ---- runs.c: which contractions sum short runs of products in float16 ---- */

struct ht_short_runs {
	struct ht_node **marked; /* nodes that have a temporary mode attribute */
	size_t marks;
};
/* Sets p->short_runs, and the modes of contractions as attributes of p->graph until ht_short_runs_end(). */
void ht_short_runs_begin(
	struct ht_precision *p, const struct ht_target *t, struct ht_short_runs *s);
void ht_short_runs_end(struct ht_short_runs *s);
/* The variance of the error of contraction n's results, relative to them, for operands of the
 * type and the node's mode and method: from rounded factors, and from sums in short runs. */
double ht_sum_variance(const struct ht_target *t, const struct ht_node *n, enum ht_dtype type);
/* Likewise only from a run of so many pairs of products. */
double ht_run_variance(double pairs);

/* ---- trial.c: an assignment in the form in which it would be compiled ---- */

struct ht_trial_cast {
	struct ht_node node;
	struct ht_value operand;
	struct ht_type result;
	struct ht_trial_cast *next;
};
/* A copy of the graph with the types and casts of an assignment, fused and priced. */
struct ht_trial {
	struct ht_arena *arena; /* its own */
	struct ht_graph *graph;
	struct ht_node **copy; /* by id of the original */
	size_t *first_result; /* by id of a copied node: the index of its first result in `casts` */
	struct ht_trial_cast **casts; /* a list for each result of the copy: ht_trial_casts() */
	struct ht_fusion fusion;
	struct ht_saved saved;
	int64_t price;
};
/* The list of casts of `v`, a result of a copied node. */
static inline struct ht_trial_cast **ht_trial_casts(const struct ht_trial *t, struct ht_value v)
{
	return &t->casts[t->first_result[v.node->id] + (size_t)v.index];
}
/* `taken`: by node id of the original, the chosen column; NULL: the node stays unchanged. */
void ht_trial_make(struct ht_precision *p, const struct ht_column *const *taken,
	const struct ht_pricing *pricing, struct ht_trial *t);
void ht_trial_free(struct ht_trial *t);

/* ---- problem.c: the cost of each choice, given how the graph is fused ---- */

struct ht_problem {
	struct ht_assign assign;
	uint32_t *unit; /* by node id: its unit in the problem; UINT32_MAX: it has no choice */
};
enum ht_dtype ht_label_dtype(enum ht_label l);
/* The column in which all attributes of the node that may change have the label's type; NULL:
 * there is none. */
const struct ht_column *ht_label_column(
	struct ht_precision *p, const struct ht_node *n, enum ht_label l);
void ht_problem_build(struct ht_precision *p, const struct ht_safety *s,
	const struct ht_pricing *pricing, const struct ht_trial *t, struct ht_arena *a,
	struct ht_problem *out);
/* Converts labels to columns, and back.  False: the column of some node (*culprit) belongs to
 * none of its labels, or to a denied one. */
void ht_problem_columns(struct ht_precision *p, const struct ht_problem *b, const uint8_t *label,
	const struct ht_column **taken);
bool ht_problem_labels(struct ht_precision *p, const struct ht_problem *b,
	const struct ht_column *const *taken, uint8_t *label, const struct ht_node **culprit);

/* ---- question.c: what a search asks ---- */

/* Denies the low types that the question rules out. */
void ht_question_deny(struct ht_precision *p, struct ht_safety *s);
/* Finds the frontier.  Changes nothing if the question asks for no points. */
void ht_question_answer(struct ht_precision *p, const struct ht_problem *b);

void ht_optimal_decide(struct ht_precision *p);

#endif
