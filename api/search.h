/* The state of a search (docs/search.md), and the functions that its files share. */
#ifndef HT_API_SEARCH_H
#define HT_API_SEARCH_H

#include <halftone/search.h>

#include "api/compare.h"
#include "api/report.h"
#include "precision/search/minimal.h"

/* float16, bfloat16, and formats in the place of types that kernels do not compute in. */
enum { HT_SEARCH_TYPES = 8 };

/* A node that may be low.  `node` is its record in the report of the model as it is. */
struct ht_search_unit {
	const struct ht_decided_node *node;
	unsigned may; /* bit i: type i of the search is safe and has a kernel */
	/* By type: its own error relative to its result (attribute.h); infinite if it overflowed, NaN if it was not measured. */
	double error[HT_SEARCH_TYPES];
	int low;   /* index of the type that it has when it is low */
	bool wide; /* policy optimal has it in float32 */
};

/* What a trial found. */
struct ht_search_trial {
	uint8_t *label; /* by unit: 0: float32, i: type i - 1 of the search */
	size_t kept;    /* units in float32 */
	bool passed;
	/* The tolerance that was exceeded, or if none was, the one that the measured value is nearest to.  NULL if the program could not be
	 * compiled or run. */
	const char *output, *statistic, *sign;
	double bound, value;
	const char *failure; /* why it could not be compiled or run */
	struct ht_search_trial *next;
};

enum ht_search_stage {
	HT_SEARCH_FLOAT32, /* one trial with all units in float32 */
	HT_SEARCH_UNIFORM, /* for each type, a trial with all units in it */
	HT_SEARCH_ERRORS, /* for each type, the own errors of nodes are measured with all units in it */
	HT_SEARCH_NARROW, /* trials that the rule asks for */
	HT_SEARCH_SPEED, /* a trial with those nodes in float32, too, that are slower in their low types */
	HT_SEARCH_ENDED
};

enum ht_search_rule {
	HT_RULE_MINIMAL,
	HT_RULE_BISECTION,
	HT_RULE_REVERSE,
	HT_RULE_SEGMENTS,
	HT_RULE_END
};
extern const char *const ht_search_rules[HT_RULE_END];

struct ht_search {
	struct ht_unwind unwind;
	struct ht_arena arena, scratch; /* scratch: of one call */
	const struct ht_model *model;
	struct ht_compile_options compile;
	struct ht_comparison *comparison;
	const char *reference, *metric, *journal; /* as the caller stated them */
	const char **tolerance;                   /* likewise */
	size_t tolerances;
	enum ht_dtype type[HT_SEARCH_TYPES];
	const char *type_name[HT_SEARCH_TYPES]; /* as results name them */
	size_t types;
	struct ht_emulation emulation[HT_SEARCH_TYPES]; /* of those types that are formats */
	size_t emulations;
	enum ht_dtype lowest; /* of these types */
	enum ht_search_rule rule;
	bool fewest; /* what the policy is to prefer */

	struct ht_policy *origin_policy, *optimal_policy;
	struct ht_report *origin; /* decisions of policy must_keep_origin_dtype */
	struct ht_search_unit *unit;
	size_t units;
	/* By node of `origin`: the unit whose type the node has; UINT32_MAX: the node keeps its type. */
	uint32_t *unit_of;
	const struct ht_decided_node *
		*unsafe; /* nodes that have kernels in a low type, but that no type is safe for */
	size_t unsafes;
	uint32_t *rank, *region; /* region NULL: shapes are not known */
	uint8_t **frontier;      /* by point: the units in float32; the cheapest point first */
	size_t points;

	enum ht_search_stage stage;
	size_t at;      /* index of the type that the stage is at */
	uint8_t *label; /* of the current trial */
	bool running; /* a trial, or a measurement of errors, has begun and waits for its samples */
	struct ht_policy *policy;
	enum ht_status status; /* of compiling the model under `policy` */
	struct ht_sha256 seen; /* digest of all samples, which the first trial adds */
	struct ht_map answers; /* labels → struct ht_search_trial */
	struct ht_search_trial *first, **last;
	size_t trials, resumed, samples;
	uint8_t *
		found; /* the labels whose float32 units are needed; NULL: not even float32 passed */
	uint8_t *
		written; /* the labels of the policy: those of `found`, or with more units in float32 */
	/* Modelled picoseconds of a run: the model as it is, `found`, and `written`; -1: not known. */
	int64_t price_float32, price_found, price_written;
	uint8_t *
		faster; /* labels with a lower price than `written`, to be tried in stage SPEED; NULL: none */
	int64_t price_faster;
	const struct ht_search_trial *float32;

	/* The journal. */
	uint8_t problem[32]; /* digest of what all trials of the search have in common */
	struct ht_map known; /* key of a line → the rest of that line */
	bool resume;
};

/* ---- search_units.c ---- */

/* Finds the units, the types that are safe for each, and their regions. */
enum ht_status ht_search_units(struct ht_search *s, struct ht_diags *d);
/* Whether type attribute `t` of `origin` is float32 in the model and can become `low`. */
bool ht_search_may_take(
	const struct ht_search *s, const struct ht_decided_type *t, enum ht_dtype low);
/* The decisions of a policy on the model.  Only errors are passed on: the comparison has given the notes when it compiled the model. */
enum ht_status ht_search_decisions(
	struct ht_search *s, struct ht_policy *p, struct ht_diags *d, struct ht_report **out);
/* Copies the own errors of nodes from the comparison to the units, as their errors in type `type`. */
void ht_search_take_errors(struct ht_search *s, size_t type);
/* Chooses the low type of each unit, and orders the units by their errors in these types. */
void ht_search_rank(struct ht_search *s);

/* ---- search_speed.c ---- */

/* Finds the frontier of price against own errors; none if prices are not known. */
enum ht_status ht_search_frontier(struct ht_search *s, struct ht_diags *d);
/* Begins stage SPEED: fills s->written, and s->faster if the labels there are to be tried. */
enum ht_status ht_search_price(struct ht_search *s, struct ht_diags *d);
/* Ends stage SPEED after the trial of s->faster. */
void ht_search_take_faster(struct ht_search *s, bool passed);

/* ---- search_trial.c ---- */

/* Copies the errors of `said` to `d`, but no notes and warnings. */
void ht_search_pass_errors(const struct ht_diags *said, struct ht_diags *d);

/* Writes a decision report in which the units have the types of `label`: the text of a policy, in `a`. */
struct ht_str ht_search_policy_text(
	const struct ht_search *s, const uint8_t *label, struct ht_arena *a);
/* Compiles the model with the labels s->label.  If the journal has their trial, that is taken instead, and *ran is false. */
enum ht_status ht_search_begin(struct ht_search *s, struct ht_diags *d, bool *ran);
/* Judges the current trial by the samples that were run, stores it, and appends it to the journal. */
enum ht_status ht_search_judge(struct ht_search *s, struct ht_diags *d);
/* The trial of labels; NULL: there is none yet. */
const struct ht_search_trial *ht_search_trial_of(const struct ht_search *s, const uint8_t *label);
/* The label of unit `unit` where it is low. */
uint8_t ht_search_low_label(const struct ht_search *s, size_t unit);
/* How many units `label` has in float32. */
size_t ht_search_count_kept(const struct ht_search *s, const uint8_t *label);
/* Once the search has ended: makes s->label the labels that were found, but unit `unit` low. */
void ht_search_leave_out(struct ht_search *s, size_t unit);
/* The trial of these labels; NULL: the rule did not ask for it. */
const struct ht_search_trial *ht_search_without(struct ht_search *s, size_t unit);

/* ---- search_journal.c ---- */

/* Reads the lines of the journal if the search is resumed; otherwise empties the file. */
enum ht_status ht_search_journal_open(struct ht_search *s, struct ht_diags *d);
/* Looks up the trial of `key`; false: the journal has none. */
bool ht_search_journal_find(
	struct ht_search *s, const uint8_t key[32], struct ht_search_trial *out);
enum ht_status ht_search_journal_add(struct ht_search *s, const uint8_t key[32],
	const struct ht_search_trial *t, struct ht_diags *d);

/* ---- search_forms.c ---- */

/* Prints the decision report of the policy that `label` makes.  `evidence` adds the member `search`. */
enum ht_status ht_search_report(struct ht_search *s, const uint8_t *label, bool evidence,
	const char *command, struct ht_diags *d, struct ht_bytes *out);
void ht_search_text(struct ht_search *s, struct ht_buf *b);

#endif
