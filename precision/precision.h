/* precision: decides the element type of each tensor.
 *
 * A decision is made on units.  A unit is one type attribute of one node (all operands and
 * results with that attribute's type), merged with units of other nodes if their types must
 * agree (references to variables, loop back edges, handles).  A profile offers columns for each
 * node: dtypes of all its units with which one kernel computes.  A policy narrows the columns of
 * every node; the node takes the first that is left.  Changes are then written into the type
 * attributes, and each tensor gets one cast for every other type in which it is read.  Graph
 * inputs, outputs, constants and variables keep their types.
 *
 * Another policy is a row in policy.c and a function that narrows; another profile is data. */
#ifndef HT_PRECISION_H
#define HT_PRECISION_H

#include "base/base.h"
#include "ir/ir.h"
#include "passes/passes.h"
#include "precision/grappler/grappler.h"
#include "precision/policy.h"
#include "precision/reason.h"

/* ---- precision.c: the decision as a part of the pipeline ---- */

/* The decider of the pass "precision", by a policy. */
struct ht_precision_request {
	struct ht_decider decider; /* ht_precision_decide */
	struct ht_policy *policy;
	const struct ht_graph
		*imported; /* the graph before any pass, for names; NULL: the graph itself */
	struct ht_decisions *decisions;           /* out; NULL: not wanted */
	const struct ht_calibration *calibration; /* optimal/budget.h; NULL: variants cannot be
						   * run */
};
enum ht_status ht_precision_decide(
	const struct ht_decider *self, struct ht_graph *g, struct ht_pass_context *c);

/* ---- profile.c: the kernels and lists of a machine; tables made from data/ ---- */

enum ht_class {
	HT_CLASS_UNKNOWN, /* no list names the type: it keeps its dtypes */
	HT_CLASS_WHITE,   /* becomes low if a kernel has a low column */
	HT_CLASS_BLACK,   /* keeps its dtypes */
	HT_CLASS_GRAY     /* follows its producer */
};
const char *ht_class_name(enum ht_class c);

struct ht_listed {
	const char *type; /* the vendor's op type */
	enum ht_class class;
};

struct ht_mapped {
	const char *type, *vendor; /* TensorFlow's op type and the vendor's */
};

/* The kernels of one vendor's op type: `count` columns one after the other, each as the number of its
 * operands, their dtypes, the number of its results, their dtypes.  The last dtype of a side stands
 * for all behind it.  The first column that fits wins. */
struct ht_kernel_row {
	const char *type;
	const uint8_t *columns;
	size_t count;
};

struct ht_promote {
	const char *type;  /* the vendor's */
	unsigned operands; /* bit set: operands that take one dtype if nothing else decides */
};

/* One profile; made from data/NAME.profile by generate/profiles.c.  Tables are sorted by name. */
struct ht_profile {
	const char *name;
	const char *summary;
	const struct ht_listed *listed;
	size_t listeds;
	const struct ht_mapped *mapped;
	size_t mappeds;
	const char *const *still; /* ops without a kernel: they follow their producer */
	size_t stills;
	const char *const *keeps; /* TYPE.ATTRIBUTE: keeps its dtype in every column */
	size_t keepses;
	const char *const *cube; /* the vendor's matrix products and convolutions */
	size_t cubes;
	const struct ht_promote *promote; /* ended by a row without a type */
	const struct ht_kernel_row *kernel;
	size_t kernels;
	const uint8_t *otherwise; /* dtypes of a listed type without a row; ended by HT_INVALID */
	bool computed_columns;    /* every float op has a kernel in f32, f16 and bf16 */
	bool manual;              /* modes follow the vendor's manual, not its code */
	bool bf16;                /* the machine has bfloat16 */
	const char *training;     /* the default mode for training */
};
extern const struct ht_profile ht_profile_cpu;
/* All profiles, the default first, ended by NULL. */
extern const struct ht_profile *const ht_profiles[];
/* The vendor's names of machines, ended by a row without a name. */
struct ht_machine {
	const char *name, *profile; /* profile NULL: there is no similar one */
	const char *why; /* why it uses another machine's profile; "": the profile is its own */
};
extern const struct ht_machine ht_machines[];
/* Finds a profile by its name or a machine's; a machine whose lists are not published gives a note.
 * HT_E_USAGE with near names when there is none, HT_E_UNSUPPORTED for a machine without a similar
 * profile. */
enum ht_status ht_profile_named(
	const char *name, struct ht_diags *d, const struct ht_profile **out);

/* The vendor's name of a TensorFlow op type. */
struct ht_str ht_profile_vendor_type(const struct ht_profile *p, struct ht_str type);
/* The class of a node's type; *list: its origin, "list" or "op table". */
enum ht_class ht_profile_class(
	const struct ht_profile *p, const struct ht_node *n, const char **list);
bool ht_profile_lists(const struct ht_profile *p, struct ht_str vendor);
/* The kernels of a vendor's op type; NULL: none are published. */
const struct ht_kernel_row *ht_profile_kernels(const struct ht_profile *p, struct ht_str vendor);
bool ht_profile_is_still(const struct ht_profile *p, const struct ht_node *n);
bool ht_profile_is_cube(const struct ht_profile *p, const struct ht_node *n);
/* Bit set of the operands that must have one dtype; 0: none. */
unsigned ht_profile_promotes(const struct ht_profile *p, const struct ht_node *n);
bool ht_profile_keeps(const struct ht_profile *p, struct ht_str type, struct ht_str attr);

/* ---- units.c ---- */

struct ht_unit {
	struct ht_node *node;
	int8_t attr;        /* index into the op's type attributes */
	enum ht_dtype from; /* its dtype in the graph */
	enum ht_dtype to;   /* the dtype decided so far */
	uint32_t parent;    /* union-find */
	bool fixed;         /* keeps its dtype */
};

/* The dtypes of one kernel: of a node's type attributes, and of its formal operands and results.
 * Where an operand or result is narrower than its attribute (a matrix product of float16 operands with
 * a float32 result), the value is rounded on its way in or out. */
struct ht_column {
	enum ht_dtype dtype[HT_MAX_TYPE_ATTRS];
	uint8_t arg[HT_MAX_ARGS], result[HT_MAX_ARGS];
};
#define HT_MAX_COLUMNS 64

/* Policy optimal's labels for the remaining columns of an offer; most nodes have all columns
 * left. */
struct ht_offer_labels {
	uint64_t left;    /* the columns for which the other members were computed; 0: not
			   * computed yet */
	unsigned changes; /* bit set: attributes that some other column would change */
	int8_t column[3]; /* by label; -1: none */
};

/* The profile's columns and class for an op type in given dtypes. */
struct ht_offer {
	struct ht_column *column;
	int columns;
	enum ht_class class;
	const char *list;  /* the origin of the class */
	bool still, cube;  /* ht_profile_is_still, _is_cube */
	bool assumed;      /* the columns are not published */
	unsigned promotes; /* ht_profile_promotes */
	struct ht_offer_labels *labels;
};

struct ht_choice {
	const struct ht_offer *offer;       /* NULL: an op that is not in the table */
	const struct ht_column *column;     /* shared by nodes of one type */
	int columns;                        /* 0: policies do not judge it */
	uint64_t left;                      /* bit set: columns not yet excluded */
	const struct ht_column *taken;      /* NULL: every tensor has the dtype of its unit */
	const struct ht_dtype_reason *rule; /* the deciding rule */
	const struct ht_node *followed;     /* the producer that a gray op took its dtype from */
	const char *list;                   /* the list that gave the class, or NULL */
	enum ht_class class;
	bool fallback; /* no kernel of the machine accepts it: it keeps its dtypes in a fallback
		        * library */
	const struct ht_rule *by; /* the rule for this node that decided, or NULL */
	/* The decided dtypes of a call's operands and results; NULL: as in the graph. */
	const uint8_t *carried_in, *carried_out;
};

/* The effect of a rule. */
struct ht_rule_use {
	size_t nodes;        /* nodes that it names */
	bool effective;      /* it changed an offer or a decision */
	struct ht_map acted; /* by reported name: the nodes for which it did */
	const char *did;     /* its effect, such as "from white to black"; NULL: the option's
			      * name says it */
	const char *why;     /* why it had no effect */
};

/* The rules of a policy, resolved for one graph. */
struct ht_resolved {
	struct ht_map types, nodes; /* name → struct ht_rule */
	struct ht_rule_use *use;    /* by rule */
};

/* The state of a decision. */
struct ht_precision {
	struct ht_graph *graph;
	struct ht_arena *arena;
	struct ht_diags *diags;
	const struct ht_policy *policy;
	const struct ht_profile *profile;
	const struct ht_target *target;
	struct ht_decisions *decisions; /* for results that only some policies have */
	struct ht_unit *unit;
	size_t units;
	uint32_t *first_unit;            /* by node id: unit of its attribute 0 */
	struct ht_choice *choice;        /* by node id */
	struct ht_map offers;            /* op and dtypes → struct ht_offer */
	const struct ht_graph *imported; /* the graph before any pass; may be `graph` */
	struct ht_resolved rules[HT_RULE_SETS];
	const struct ht_calibration *calibration; /* NULL: variants cannot be run */
	double loss_scale; /* with which gradients are computed in the first step; 0: none is in use */
	enum ht_status status;  /* an error of the policy */
	struct ht_calls *calls; /* calls.h; NULL: every body keeps its signature */
	const uint8_t *ret; /* of a body: decided dtypes of its results; NULL: as in the graph */
	/* For policy optimal, by node id: the labels that a node must not have, and why. */
	const uint8_t *denied;
	const struct ht_dtype_reason *const *denied_why;
	/* Likewise: contractions that get mode high_performance if they become float16; NULL:
	 * none. */
	const bool *short_runs;
};

void ht_units_build(struct ht_precision *p);
/* The representative of a unit's class. */
struct ht_unit *ht_unit_root(struct ht_precision *p, struct ht_unit *u);
/* Unit of type attribute `attr` of a node that has units. */
static inline struct ht_unit *ht_unit_of(struct ht_precision *p, const struct ht_node *n, int attr)
{
	return &p->unit[p->first_unit[n->id] + (uint32_t)attr];
}
/* The unit that determines the type of operand `i`; NULL if the op fixes it. */
struct ht_unit *ht_unit_of_arg(struct ht_precision *p, const struct ht_node *n, int32_t i);
struct ht_unit *ht_unit_of_result(struct ht_precision *p, const struct ht_node *n, int32_t i);
/* The type attribute that determines the dtype of operand or result `i`; -1: the op fixes it. */
int ht_attr_of_arg(const struct ht_node *n, int32_t i);
int ht_attr_of_result(const struct ht_node *n, int32_t i);
/* The formal of operand or result `i`; -1: unknown. */
int ht_formal_of_arg(const struct ht_node *n, int32_t i);
int ht_formal_of_result(const struct ht_node *n, int32_t i);
/* The dtype of a formal in the graph; HT_INVALID if tensors of the formal differ. */
enum ht_dtype ht_formal_from(
	struct ht_precision *p, const struct ht_node *n, const struct ht_op_arg *formal);
/* The dtype of a value as decided so far. */
enum ht_dtype ht_decided_dtype(struct ht_precision *p, struct ht_value v);

/* columns.c: makes the columns that the profile offers for a node. */
void ht_columns_build(struct ht_precision *p, const struct ht_node *n, struct ht_choice *c);
/* Whether a policy may judge the node: it computes with floats and shares its types with no
 * other node. */
bool ht_is_judged(struct ht_precision *p, const struct ht_node *n);
/* The first column that is left. */
const struct ht_column *ht_first_column(const struct ht_choice *c);
/* A tensor of a node: one of its formal operands or results. */
struct ht_tensor_of {
	bool result;
	int formal;
};
static inline enum ht_dtype ht_column_dtype(const struct ht_column *c, struct ht_tensor_of t)
{
	return (enum ht_dtype)(t.result ? c->result[t.formal] : c->arg[t.formal]);
}
/* Keeps only the columns in which tensor `of` is a `t`. False, without a change: there are none. */
bool ht_narrow_columns(struct ht_choice *c, struct ht_tensor_of of, enum ht_dtype t);
static inline bool ht_is_policy_float(enum ht_dtype t)
{
	return t == HT_F32 || ht_is_low(t);
}
/* Takes the first column that is left. */
void ht_settle(struct ht_precision *p, const struct ht_node *n);

/* precision.c: makes the units and columns of a graph and applies customize_dtypes. */
enum ht_status ht_precision_prepare(struct ht_precision *p, struct ht_graph *g);

/* ---- rules.c ---- */

/* Makes maps from the names in the policy's rules.  A name that the graph lacks causes a note
 * with similar names. */
void ht_rules_resolve(struct ht_precision *p);
/* The rule for a node: by its name, or the name of an imported node from which it was made, or
 * else by its type. */
const struct ht_rule *ht_rule_of(
	struct ht_precision *p, enum ht_rule_set set, const struct ht_node *n);
/* The rule for a type, by TensorFlow's name or the vendor's; for implementation modes also by a
 * family that contains the type. */
const struct ht_rule *ht_rule_of_type(
	struct ht_precision *p, enum ht_rule_set set, struct ht_str type);
/* families.c: the vendor's kernel names that contain other op types, which op_precision_mode and
 * optypelist_for_implmode may use.  Returns the next one of a type, starting with *next = 0;
 * NULL: there are no more. */
const char *ht_family_of(struct ht_str type, size_t *next);
bool ht_family_has(struct ht_str name, struct ht_str type);
/* Whether a text of op types, each between blanks, contains the type. */
bool ht_type_is_in(const char *types, struct ht_str type);
struct ht_rule_use *ht_use_of(
	struct ht_precision *p, enum ht_rule_set set, const struct ht_rule *r);
/* Notes that the rule changed an offer or a decision for the node. */
struct ht_rule_use *ht_rule_acts(struct ht_precision *p, enum ht_rule_set set,
	const struct ht_rule *r, const struct ht_node *n);
/* Gives a copy of the state its own records of rule uses, which are not reported.  The copy must
 * have its own arena or not outlive p's. */
void ht_precision_unseen(struct ht_precision *p);
/* customize_dtypes: restricts each named node to the requested columns. */
enum ht_status ht_customize_apply(struct ht_precision *p);
/* Whether keep_dtype, or the attribute _keep_dtype, keeps the node's dtypes; `custom`: a rule
 * that takes precedence, or NULL. */
bool ht_keeps_dtype(struct ht_precision *p, const struct ht_node *n, const struct ht_rule *custom,
	const struct ht_rule **by);
/* The class of a node's type in the profile, after ops_info and modify_mixlist. */
enum ht_class ht_class_of(struct ht_precision *p, const struct ht_node *n, const char **list);
/* The record of a type in ops_info; NULL: none. */
const struct ht_op_record *ht_record_of(const struct ht_precision *p, const struct ht_node *n);

/* ---- ascend.c: the vendor's filtering of columns (one policy for each mode) ---- */

enum ht_mode {
	HT_MODE_KEEP,
	HT_MODE_FORCE_FP16,
	HT_MODE_FORCE_FP32,
	HT_MODE_ALLOW_FP16,
	HT_MODE_ALLOW_BF16,
	HT_MODE_MIX_FP16,
	HT_MODE_MIX_BF16,
	HT_MODE_CUBE
};
void ht_ascend_decide(struct ht_precision *p);

/* ---- the decisions ---- */

/* The dtypes for which a unit has a reason why it did not take them. */
enum ht_asked { HT_ASKED_F32, HT_ASKED_F16, HT_ASKED_BF16, HT_ASKED_END };
enum ht_dtype ht_asked_dtype(enum ht_asked a);
enum ht_asked ht_asked_of(enum ht_dtype t); /* HT_ASKED_END: there are no reasons for other
					     * dtypes */

struct ht_decided_type {
	const struct ht_str *origin; /* imported nodes */
	int32_t origins;
	struct ht_str node; /* the node decided on */
	struct ht_str attr;
	enum ht_dtype from, to;
	enum ht_dtype operands;             /* operands are rounded to this; HT_INVALID: not */
	const struct ht_dtype_reason *rule; /* the deciding rule, even if the type stays */
	const char *list;                   /* the rule's list, or NULL */
	enum ht_class class;
	struct ht_str followed; /* the node that it followed; empty: none */
	enum ht_dtype emulated; /* types stay, values are rounded to this; HT_INVALID: they are
				 * not */
	bool stated;            /* a rule of the user decided it */
	const char *format; /* the emulated format to which its tensors are rounded, in the place of
			 * the low type; NULL: none */
	/* In complete decisions: why it does not have each of these dtypes; NULL: it has it. */
	const struct ht_dtype_reason *why_not[HT_ASKED_END];
	long line; /* its line in a report that was read */
};
/* Whether the decision changes something, or confirms a rule of the user's. */
static inline bool ht_is_news(const struct ht_decided_type *t)
{
	return t->from != t->to || t->operands != HT_INVALID || t->stated;
}
/* A node with float tensors, and its units, which are consecutive in `type`. */
struct ht_decided_node {
	struct ht_str
		name; /* at the time of the decision; in a body "FUNCTION/NODE" or "FUNCTION:NODE" */
	struct ht_str op, becomes; /* becomes: the new op; empty: unchanged */
	const struct ht_str *origin;
	int32_t origins;
	size_t first_type, types;
	const uint8_t *tensor; /* decided dtypes of its results */
	int32_t tensors;
	/* Dtypes of its kernel by formal; NULL: those of the type attributes. */
	const uint8_t *operand, *result;
	int operands, results;
	long line;
};
struct ht_decided_cast {
	struct ht_str name;
	struct ht_str source; /* "node" or "node:1" */
	enum ht_dtype from, to;
	const char *format; /* like that of a decided type */
	bool constant;      /* its operand is a constant, so it is folded */
	int64_t elements;   /* -1: not known */
	int64_t price;      /* picoseconds as a separate kernel; -1: not known */
	long line;
};
/* An entry of an option file and its effect, or why it had none. */
struct ht_reported_rule {
	struct ht_str where, name, note;
	const char *option;
	bool acted;
};
/* The implementation mode of a node. */
struct ht_decided_impl {
	struct ht_str node, where;
	enum ht_impl mode;
	struct ht_node *at; /* set while the pass runs */
	bool offered;       /* the vendor's kernels of this type have the mode */
	const char *kernel; /* how the mode changes the node's kernel; NULL: not at all */
};
/* A candidate: an assignment with its price, after fusion. */
struct ht_alternative {
	struct ht_str name; /* "float32", a painting policy, "iterate 1" */
	int64_t price;      /* picoseconds a run */
	int64_t saved;      /* bytes of activations that a training step saves for its gradients */
	struct ht_str refused; /* why it was refused; empty: it was not */
};
/* The cost of another type for a node, when all other types are chosen again. */
struct ht_flip {
	struct ht_str node;
	enum ht_dtype to;
	int64_t price; /* additional picoseconds; -1: the type is not allowed */
};
/* A point of the frontier of price against error.  Errors are fractions of the budget. */
struct ht_frontier_entry {
	int64_t price;   /* picoseconds a run, with its own fusion */
	double error;    /* predicted from measured sensitivities; -1: not predicted */
	double measured; /* -1: not run */
	size_t low;      /* nodes in low precision */
};
struct ht_budget_report {
	const struct ht_budget *budget;
	size_t clauses; /* at least 1: without a budget, `rel` of all outputs */
	double *kept;   /* by clause: the measured error of the chosen assignment */
	double *measured;
	struct ht_frontier_entry *point; /* the cheapest first */
	size_t points, chosen;
	bool whole;      /* the hull of the frontier has no more points */
	uint32_t groups; /* groups of nodes with measured sensitivity; 0: not needed */
	uint32_t runs;   /* variants compiled and run besides float32 */
};
/* What a search for float32 nodes asks policy optimal (docs/search.md).  Nodes that are not listed stay in float32. */
struct ht_question {
	const struct ht_question_node {
		struct ht_str name;
		enum ht_dtype low; /* the low type that it may have */
		double square; /* of its own error in that type; infinite: it stays in float32 */
	} *node;
	size_t nodes;
	size_t most; /* points of the frontier, at most */
	/* The answer, in `arena`: the points of the frontier of price against the sum of squares, the cheapest first.  By point and node: 1
	 * if the node is low there. */
	struct ht_arena *arena;
	uint8_t **low;
	size_t points;
};
/* Proof that no assignment is cheaper: the bound holds for every assignment, under the costs of
 * the last iterate, whose table the hash identifies. */
struct ht_certificate {
	struct ht_str costs, target, machine, date; /* the cost table */
	struct ht_hash costs_hash, problem_hash;
	struct ht_str winner;
	int64_t price; /* of the chosen assignment, with its own fusion */
	int64_t saved; /* its bytes of saved activations; -1: not known; 0: the graph changes no variable */
	int64_t cost,
		bound; /* of the last iterate: the cost of its assignment, and the lower bound of all */
	bool settled; /* the iterates converged */
	uint32_t iterates, free_nodes, regions, largest_region;
	/* Contractions in low precision; those of them that sum short runs; the largest relative
	 * error of one (ht_sum_variance()). */
	uint32_t low_sums, short_sums;
	double largest_error;
	struct ht_alternative *alternative;
	size_t alternatives, alternative_cap;
	struct ht_flip *flip;
	size_t flips, flip_cap;
	struct ht_budget_report *budget; /* NULL: no budget was set */
};

/* The range of magnitudes of constants in the low type. */
struct ht_clamp {
	enum ht_dtype type;
	float smallest, largest; /* largest 0: any */
};

/* The decisions, in the order of the graph.  They live in `arena`, which the caller sets. */
struct ht_decisions {
	struct ht_arena *arena;
	bool complete;                /* set by the caller: report every float unit, not only
				       * changed ones */
	struct ht_decided_node *node; /* only if complete */
	size_t nodes, node_cap;
	size_t graph_nodes; /* number of nodes of the program's graph before it is rewritten */
	/* If the policy painted: the low type, whether it is emulated, and the end of casts'
	 * names. */
	enum ht_dtype painted; /* HT_INVALID: it did not paint */
	bool emulates;
	const char *suffix;
	/* Formats in the place of types. */
	const struct ht_emulation *emulation;
	size_t emulations;
	struct ht_clamp clamp;
	/* A constant that overflows the dtype decided for it was replaced by the largest finite number
	 * of that dtype (option sentinels). */
	bool clamps_sentinels;
	struct ht_decided_type *type;
	size_t types, type_cap;
	struct ht_decided_cast *cast;
	size_t casts, cast_cap;
	size_t float_nodes,
		low_nodes;      /* nodes with a float unit; nodes with one of 16 bits or less */
	struct ht_str *unknown; /* op types that no list of the profile names */
	size_t unknowns, unknown_cap;
	struct ht_str *assumed; /* op types whose kernels are not published */
	size_t assumeds, assumed_cap;
	struct ht_reported_rule *rule;
	size_t rules, rule_cap;
	struct ht_decided_impl *impl;
	size_t impls, impl_cap;
	struct ht_str *fallback; /* nodes that no kernel of the machine accepts unchanged */
	size_t fallbacks, fallback_cap;
	struct ht_certificate *certificate; /* of policy optimal; NULL: none */
};

/* impl.c: the implementation mode of each node. */
void ht_impl_decide(struct ht_precision *p, struct ht_decisions *out);
/* Likewise from a report, for the nodes of the graph. */
void ht_impl_as_reported(
	struct ht_precision *p, const struct ht_decisions *report, struct ht_decisions *out);
/* After the dtypes are written: stores the modes of decisions from `first` on in their nodes. */
void ht_impl_apply(struct ht_decisions *out, size_t first);
/* rules.c: reports the effect of each rule. */
void ht_rules_report(struct ht_precision *p, struct ht_decisions *out);

/* constants.c: finds constants that overflow the decided dtypes.  Casts with node ids from `ids`
 * on were inserted by the decision.  Warns of each such constant, or clamps it, as the option
 * sentinels says. */
struct ht_fit {
	const struct ht_policy *policy;
	struct ht_diags *diags;
	struct ht_arena *arena; /* scratch */
	struct ht_decisions *decisions;
};
void ht_fit_constants(struct ht_graph *g, uint32_t ids, const struct ht_fit *how);

/* reasons.c: the reasons for units' dtypes. */

/* A float type attribute of a node; of a list attribute, one item. */
struct ht_float_unit {
	int attr, item; /* item -1: not a list */
	enum ht_dtype dtype;
	struct ht_str name; /* "T", "T[1]" */
};
/* The next one; for the first, *u is all zero except attr, which is -1.  Names of items are in
 * `a`. */
bool ht_next_float_unit(const struct ht_node *n, struct ht_arena *a, struct ht_float_unit *u);
/* Why no policy may change the unit; NULL: policies may. */
const struct ht_dtype_reason *ht_fixed_reason(
	struct ht_precision *p, const struct ht_node *n, int attr);
/* The kernel's dtype for a unit's operands if it is narrower than the attribute; else
 * HT_INVALID. */
enum ht_dtype ht_rounded_operands(const struct ht_choice *c, const struct ht_unit *u);
/* A node's name in reports; in a function's body "FUNCTION/NODE". */
struct ht_str ht_reported_name(struct ht_arena *a, const struct ht_graph *g, struct ht_str name);
/* Appends a decided unit to out->type. */
struct ht_decided_type *ht_note_type(
	struct ht_precision *p, const struct ht_node *n, const struct ht_unit *u);
/* Whether a node has floats among its type attributes and results. */
bool ht_has_floats(const struct ht_node *n, struct ht_arena *a);
/* Appends a node, without its units. */
struct ht_decided_node *ht_note_node(
	struct ht_decisions *out, const struct ht_node *n, struct ht_str name);
/* Stores the dtypes of a node's results, which are known only after its types are written. */
uint8_t *ht_note_results(
	struct ht_decisions *out, struct ht_decided_node *d, const struct ht_node *n);
/* Records the dtypes that a call, or an argument of a body, passes across the boundary. */
void ht_note_carried(struct ht_precision *p, const struct ht_node *n);
/* Appends the node with all its units and their reasons; NULL: it has no floats. */
struct ht_decided_node *ht_note_whole_node(struct ht_precision *p, const struct ht_node *n);

/* rewrite.c: writes the decision into the graph and places the casts. */
void ht_precision_rewrite(struct ht_precision *p, struct ht_decisions *out);

/* The dtype to which a unit's values are rounded. */
enum ht_dtype ht_effective_dtype(const struct ht_decided_type *t);
/* emulation.c: notes which decisions formats apply to. */
void ht_emulation_note(const struct ht_policy *policy, struct ht_decisions *out);
/* HT_E_UNSUPPORTED if the graph itself has tensors of a slot. */
enum ht_status ht_emulation_check(
	const struct ht_policy *policy, const struct ht_graph *g, struct ht_diags *d);
/* In the decided graph and its functions, tensors of slots become float32, and are rounded where
 * they are computed or read. */
enum ht_status ht_emulate(
	const struct ht_policy *policy, struct ht_graph *g, struct ht_pass_context *c);

/* precision.c: the pass.  Without a policy it leaves the graph alone. */
extern const struct ht_pass ht_pass_precision;

#endif
