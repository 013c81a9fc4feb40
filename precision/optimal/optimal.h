/* optimal: the cheapest assignment of types under what safety allows. */
#ifndef HT_OPTIMAL_H
#define HT_OPTIMAL_H

#include "precision/optimal/assign.h"
#include "precision/precision.h"
#include "precision/optimal/price.h"

/* ---- safety.c: which low types a node must not have ---- */

struct ht_safety {
	uint8_t *denied;                    /* by node id: bit (1 << label) */
	const struct ht_dtype_reason **why; /* by node id; NULL: nothing is denied */
	const struct ht_node *
		*after; /* by node id: whose denied value it reads; NULL: it is denied itself */
	bool *looked;   /* by node id: its large constants were read */
	struct ht_uses uses;
};
static inline uint8_t ht_label_bit(enum ht_label l)
{
	return (uint8_t)(1u << l);
}
/* Lists, ranges of constants, and what follows from them; works in p->arena. */
void ht_safety_build(struct ht_precision *p, struct ht_safety *s);
/* Reads the large constants of a node, which takes long and is done for nodes only that are to be
 * float16.  True when something more is denied; then ht_safety_spread() finds what follows. */
bool ht_safety_check(struct ht_safety *s, const struct ht_node *n);
void ht_safety_spread(struct ht_precision *p, struct ht_safety *s);

/* An arena that goes with p->arena, should it not be released before: an allocation may unwind. */
struct ht_arena *ht_arena_of(struct ht_precision *p);

/* ---- runs.c: which contractions sum short runs of products in float16 ---- */

struct ht_short_runs {
	struct ht_node **marked; /* that have a mode as an attribute meanwhile */
	size_t marks;
};
/* Sets p->short_runs, and the modes of contractions as attributes of p->graph until ht_short_runs_end(). */
void ht_short_runs_begin(
	struct ht_precision *p, const struct ht_target *t, struct ht_short_runs *s);
void ht_short_runs_end(struct ht_short_runs *s);
/* The variance of the error of contraction n's results, relative to them, with operands of a type and by the mode and method that it has:
 * of factors that are rounded, and of sums in short runs. */
double ht_sum_variance(const struct ht_target *t, const struct ht_node *n, enum ht_dtype type);
/* Likewise of a run of so many pairs of products alone. */
double ht_run_variance(double pairs);

/* ---- trial.c: an assignment as it would be compiled ---- */

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
	int64_t price;
};
/* The list of casts of `v`, a result of a copied node. */
static inline struct ht_trial_cast **ht_trial_casts(const struct ht_trial *t, struct ht_value v)
{
	return &t->casts[t->first_result[v.node->id] + (size_t)v.index];
}
/* `taken`: by node id of the original, the column that it takes; NULL: it stays as it is. */
void ht_trial_make(struct ht_precision *p, const struct ht_column *const *taken,
	const struct ht_pricing *pricing, struct ht_trial *t);
void ht_trial_free(struct ht_trial *t);

/* ---- problem.c: what each choice costs, given how the graph is fused ---- */

struct ht_problem {
	struct ht_assign assign;
	uint32_t *unit; /* by node id: its unit there; UINT32_MAX: it has no choice */
};
enum ht_dtype ht_label_dtype(enum ht_label l);
/* The column in which all of the node that may change has the label's type; NULL: there is none. */
const struct ht_column *ht_label_column(
	struct ht_precision *p, const struct ht_node *n, enum ht_label l);
void ht_problem_build(struct ht_precision *p, const struct ht_safety *s,
	const struct ht_pricing *pricing, const struct ht_trial *t, struct ht_arena *a,
	struct ht_problem *out);
/* The columns of labels; and back: false when some node's column is none of its labels', or one that
 * it must not have (*culprit). */
void ht_problem_columns(struct ht_precision *p, const struct ht_problem *b, const uint8_t *label,
	const struct ht_column **taken);
bool ht_problem_labels(struct ht_precision *p, const struct ht_problem *b,
	const struct ht_column *const *taken, uint8_t *label, const struct ht_node **culprit);

void ht_optimal_decide(struct ht_precision *p);

#endif
