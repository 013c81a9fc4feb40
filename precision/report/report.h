/* report: decisions in a file, halftone.decisions/1 (docs/decisions.md), that are read back.
 *
 * A report has the decisions of a policy on a graph.  As a policy it makes the same decisions
 * again, and no others: on another graph it is an error that names the node and the report's
 * line. */
#ifndef HT_REPORT_H
#define HT_REPORT_H

#include "precision/precision.h"

/* The effect of an entry about a fusion. */
struct ht_reported_fusion {
	struct ht_str name, note;
	const char *where; /* the source of the note; NULL in a report that was read */
	bool on;
};

struct ht_report_data {
	const char *path; /* of the file; NULL: it was not read from one */
	struct ht_str model, policy, profile, target;
	int64_t graph_nodes; /* of the graph on which it was decided */
	bool partial;        /* that graph had known sizes; the current graph may lack some of its
		       * nodes, and may have others, which keep their dtypes */
	int64_t price;       /* picoseconds a run, modelled; -1: not known */
	struct ht_decisions decisions;
	struct ht_reported_fusion *fusion;
	size_t fusions;
	const char *off[HT_FUSION_END];        /* why a fusion was off; NULL: it was on */
	const struct ht_fusions *found;        /* their effects; NULL in a report that was read */
	const struct ht_method_choice *choice; /* of methods; none in a report that was read */
	int32_t choices;
	const char *const *without_effect;
	size_t without_effects;
	struct ht_map nodes; /* name → struct ht_decided_node */
};

/* Enough for a million nodes; a tree of JSON takes many times its text. */
#define HT_REPORT_LIMIT ((size_t)256 << 20)

/* kinds.c: makes decisions on another copy of the graph a policy: *p becomes `policy` with these
 * decisions, which must be complete. */
void ht_report_of_decisions(struct ht_policy *p, const struct ht_policy *policy,
	const struct ht_decisions *decisions, struct ht_arena *a);
/* read.c: HT_E_INPUT with file and line.  Lives in the arena of `p`. */
enum ht_status ht_report_parse(struct ht_parse *p, struct ht_str text, struct ht_report_data *out);
/* Reads the file p->path, or the text `given` (NULL: the file) under that name.  Adds it to
 * p->digest. */
enum ht_status ht_report_load(
	struct ht_parse *p, const struct ht_str *given, const struct ht_report_data **out);
struct ht_where ht_report_at(const struct ht_report_data *r, long line, const struct ht_node *n);

/* The kind of a report as a policy: one for reports that name nodes after clean-ups, one for
 * paintings. */
const struct ht_policy_kind *ht_report_kind(const struct ht_report_data *r);

/* Which records of a report were used for a graph and its bodies. */
struct ht_report_use {
	const struct ht_report_data *report;
	struct ht_diags *diags;
	bool *used; /* by record */
};
void ht_report_use_init(struct ht_report_use *u, const struct ht_report_data *r, struct ht_arena *a,
	struct ht_diags *d);
/* HT_E_INPUT if the report was made for a graph of another size and is not partial. */
enum ht_status ht_report_use_graph(struct ht_report_use *u, const struct ht_graph *g);
/* The record of a node, which must have the same op; *out NULL: there is none. */
enum ht_status ht_report_use_node(struct ht_report_use *u, const struct ht_node *n,
	struct ht_str name, const struct ht_decided_node **out);
/* The unit of that name in a record; HT_E_INPUT if it is missing or had another dtype. */
enum ht_status ht_report_use_unit(struct ht_report_use *u, const struct ht_node *n,
	const struct ht_decided_node *d, struct ht_str attr, enum ht_dtype from,
	const struct ht_decided_type **out);
/* HT_E_INPUT if a record names a node that the graph does not have and the report is not
 * partial. */
enum ht_status ht_report_use_end(struct ht_report_use *u);

/* apply.c: decides one graph or body as the report says. */
enum ht_status ht_report_decide(struct ht_precision *p, struct ht_report_use *u);
/* paint.c: likewise, for paintings, including all bodies. */
enum ht_status ht_report_paint(const struct ht_policy *policy, struct ht_graph *g,
	struct ht_pass_context *c, struct ht_decisions *out);

#endif
