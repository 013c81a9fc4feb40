/* A precision policy with its options: the user's request, independent of any graph.
 *
 * Options whose values are files have rules: each is one line or list entry of a file, about an
 * op type or a node.  Every parser takes text, so that it can be fuzzed, and locates its errors. */
#ifndef HT_POLICY_H
#define HT_POLICY_H

#include "base/base.h"
#include "base/float_format.h"
#include "choice/fusion.h"
#include "choice/impl.h"
#include "choice/reads.h"
#include "precision/grappler/options.h"
#include "precision/optimal/budget.h"

struct ht_costs;
struct ht_stated_rates;
struct ht_given;
struct ht_target;
struct ht_decisions;
struct ht_graph;
struct ht_pass_context;
struct ht_precision;
struct ht_question;
struct ht_profile;
struct ht_report_data;

/* How the mode was named.  Setting two of these is an error, even if both select the same mode. */
enum ht_named_by {
	HT_NAMED_NONE = 0,
	HT_NAMED_POLICY = 1 << 0,
	HT_NAMED_MODE = 1 << 1,
	HT_NAMED_MODE_V2 = 1 << 2
};

/* Which options a policy reads, and what else it can do; a bit set. */
enum ht_policy_can {
	/* Options that it reads. */
	HT_CAN_READ_RULES = 1 << 0,    /* customize_dtypes and keep_dtype */
	HT_CAN_READ_LISTS = 1 << 1,    /* modify_mixlist: it uses white, black and gray lists */
	HT_CAN_READ_IMPLS = 1 << 2,    /* op_precision_mode, op_select_implmode, allow_hf32 */
	HT_CAN_READ_GRAPPLER = 1 << 3, /* the options of TensorFlow's auto_mixed_precision */
	HT_CAN_READ_BUDGET = 1 << 4,   /* budget, frontier and samples */
	/* It decides on the bodies of functions that control flow calls; together with the call. */
	HT_CAN_DECIDE_BODIES = 1 << 5,
	HT_CAN_CROSS_CALLS = 1 << 6,
	/* It keeps every dtype: customize_dtypes would have no effect. */
	HT_CAN_CHANGE_NOTHING = 1 << 7,
	/* It decides only for the profile whose kernels are computed from the op table (cpu). */
	HT_CAN_DECIDE_FOR_CPU_ONLY = 1 << 8,
	/* Policy optimal prices its decision: always, or for graphs of moderate size. */
	HT_CAN_BE_PRICED = 1 << 9,
	HT_CAN_BE_PRICED_IF_SMALL = 1 << 10
};

struct ht_policy;

/* How policies of one origin decide. */
struct ht_policy_family {
	unsigned can; /* what all of them can do */
	/* Narrows the choices of all nodes and settles them, in an order of its own. */
	void (*decide)(struct ht_precision *p);
	/* Instead of `decide`: decides on the imported graph, which need not be one that can be
	 * compiled, and writes the decision into it. */
	enum ht_status (*paint)(const struct ht_policy *p, struct ht_graph *g,
		struct ht_pass_context *c, struct ht_decisions *out);
	/* Called after `decide` and the rewriting of one graph; may be NULL. */
	void (*finish)(struct ht_precision *p);
};

struct ht_policy_kind {
	const char *name;
	const char *summary;
	const struct ht_policy_family *family;
	int mode;            /* which mode of the family */
	enum ht_dtype low;   /* the low type that it uses; HT_INVALID: none, or any */
	unsigned can;        /* in addition to its family */
	unsigned spelling;   /* bit set: HT_NAMED_MODE, HT_NAMED_MODE_V2 accept the name too */
	const char *same_as; /* the policy that this name is a synonym of, or NULL */
};
static inline bool ht_policy_can(const struct ht_policy_kind *k, enum ht_policy_can what)
{
	return (k->can | k->family->can) & what;
}
extern const struct ht_policy_kind ht_policy_kinds[]; /* ended by a row without a name */
/* The error for an unknown policy name, with the policies that the user may mean. */
enum ht_status ht_no_policy(const char *name, struct ht_diags *d);

/* ---- rules ---- */

enum ht_mix { /* change that a list file requests; a bit set */
	HT_MIX_REMOVE_BLACK = 1,
	HT_MIX_ADD_BLACK = 2,
	HT_MIX_REMOVE_WHITE = 4,
	HT_MIX_ADD_WHITE = 8,
	HT_MIX_REMOVE_GRAY = 16,
	HT_MIX_ADD_GRAY = 32
};

#define HT_MAX_CUSTOM 32 /* the most operands and results in one line */

/* The section of a fusion_switch_file that has the entry. */
enum ht_switch_section {
	HT_SWITCH_ANY, /* in the old form, which has no sections */
	HT_SWITCH_GRAPH,
	HT_SWITCH_LOOP,
	HT_SWITCH_EXCEPTION /* ExceptionalPassOfO1Level */
};

struct ht_rule {
	struct ht_str name; /* op type or node, as written */
	bool is_type;
	long line;                      /* 0: not from a file */
	const char *where;              /* "list.json:4", or the option's name */
	unsigned mix;                   /* modify_mixlist: bit set over enum ht_mix */
	enum ht_impl impl;              /* op_precision_mode */
	bool on;                        /* fusion_switch_file, optimization_switch */
	enum ht_switch_section section; /* fusion_switch_file */
	const uint8_t *in;              /* customize_dtypes: dtypes of operands; HT_INVALID: any */
	const uint8_t *out;             /* and of results */
	int ins, outs;
};

/* The rules of one option, in their order; each name occurs once. */
struct ht_rules {
	const char *option;
	const char *path; /* NULL: no file */
	struct ht_rule *rule;
	size_t n, cap;
	struct ht_map types, nodes; /* name → rule number + 1 */
};

enum ht_rule_set {
	HT_RULES_MIX,    /* modify_mixlist */
	HT_RULES_CUSTOM, /* customize_dtypes */
	HT_RULES_KEEP,   /* keep_dtype */
	HT_RULES_IMPL,   /* op_precision_mode */
	HT_RULES_CHOSEN, /* optypelist_for_implmode */
	HT_RULE_SETS
};

/* rules.c */
void ht_rules_init(struct ht_rules *r, const char *option, const char *path, struct ht_arena *a);
/* Adds a rule, or returns the existing one with the name; *old says which. */
struct ht_rule *ht_rules_add(struct ht_rules *r, struct ht_arena *a, struct ht_str name,
	bool is_type, long line, bool *old);
struct ht_where ht_at_line(const char *path, long line);

/* lines.c: text line by line. */
struct ht_lines {
	const char *path;
	struct ht_str rest;
	long line; /* number of the last line */
};
/* False at the end.  The line comes without its line end; HT_E_INPUT in *st if it is too long or
 * is not text. */
bool ht_next_line(struct ht_lines *l, struct ht_diags *d, struct ht_str *line, enum ht_status *st);
struct ht_str ht_trim(struct ht_str s);
/* Passes every line, trimmed, to `parse`, except empty lines and comments, which begin with #. */
struct ht_parse;
enum ht_status ht_each_line(struct ht_parse *p, struct ht_str text,
	enum ht_status (*parse)(void *self, struct ht_str line, long number), void *self);

/* The dtype that a name in a vendor's file stands for; HT_INVALID: none. */
enum ht_dtype ht_vendor_dtype(struct ht_str name);

/* At most this many unknown names of a file are compared with all known ones, so that a long
 * file does not take long. */
#define HT_NEAR_LIMIT 32

/* The context of a parser besides the text. */
struct ht_parse {
	struct ht_arena *arena; /* of the rules */
	struct ht_diags *diags;
	const char *path;
	bool lenient;             /* input that cannot be understood causes a warning and is
				   * skipped */
	size_t unknown_names;     /* found so far */
	struct ht_sha256 *digest; /* of all files that were read; NULL: not wanted */
};
/* Maps the file p->path; the text lives as long as the arena. */
enum ht_status ht_policy_file(struct ht_parse *p, size_t limit, struct ht_str *text);
enum ht_status ht_mixlist_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
enum ht_status ht_customize_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
enum ht_status ht_keep_dtype_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
enum ht_status ht_impl_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);

/* ---- debug_config.c ---- */

/* Files that the compilation of a kernel writes. */
enum ht_leave {
	HT_LEAVE_OBJECT = 1, /* including the description */
	HT_LEAVE_SOURCE = 2,
	HT_LEAVE_LOCATIONS = 4,
	HT_LEAVE_COMPUTE = 8
};
struct ht_kernel_debug {
	unsigned leaves; /* bit set over enum ht_leave */
	bool lines;      /* the object has debug information */
	bool plain;      /* it is not optimised */
};
/* op_debug_config. */
struct ht_debug_config {
	bool stated, oom;
	struct ht_kernel_debug asks;
	struct ht_rules only; /* the nodes and types that it applies to; none: all */
};
struct ht_policy;
enum ht_status ht_debug_config_parse(
	struct ht_parse *p, struct ht_str text, struct ht_debug_config *out);
/* Whether kernels write files, or are compiled in another way. */
bool ht_policy_debugs(const struct ht_policy *p);
/* The debugging options for the kernel of a node with this name and type. */
struct ht_kernel_debug ht_policy_debug(
	const struct ht_policy *p, struct ht_str node, struct ht_str type);
/* HT_E_USAGE: the stated options cannot be combined. */
enum ht_status ht_policy_debug_check(const struct ht_policy *p, struct ht_diags *d);

/* ---- fusion_switch.c, fusion_state.c ---- */

enum ht_status ht_fusion_switch_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
/* Parses "NAME:on;NAME:off". A mistake is HT_E_USAGE. */
enum ht_status ht_optimization_switch_parse(
	struct ht_parse *p, struct ht_str text, struct ht_rules *out);
/* Parses "NAME,NAME": scope fusions. */
enum ht_status ht_scope_fusions_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
/* The effect of naming a scope fusion. */
const char *ht_scope_fusion_note(const struct ht_rule *rule);
/* Whether it is a fusion of this compiler or of the vendor, or a pass with fusions; for
 * optimization_switch also forbidden_close_pass. */
bool ht_fusion_is_known(struct ht_str name, bool for_optimization_switch);
int ht_fusions_near(struct ht_str name, struct ht_str near[3], struct ht_arena *a);
/* Why a fusion is off, in `a`; NULL: it is on. */
const char *ht_fusion_off(const struct ht_policy *p, enum ht_fusion_id id, struct ht_arena *a);
/* The fusions with those switched off that the policy switches off; NULL: all are on. */
void ht_policy_fusions(const struct ht_policy *p, struct ht_fusions *f, struct ht_arena *a);
/* The effect of an entry: the fusions that it applies to, or why it had none. */
const char *ht_fusion_note(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a);
bool ht_fusion_is_closable(const char *vendor_name);
/* The i-th of the vendor's names of a fusion; NULL: there are no more. */
const char *ht_fusion_vendor_name(enum ht_fusion_id id, int i);

/* ---- ops_info.c: records of op types that replace or extend those of a profile ---- */

struct ht_ops_info {
	struct ht_map types; /* the vendor's type → struct ht_op_record */
};
struct ht_op_record {
	int flag;        /* precision_reduce: 1 white, 0 black, -1 not stated: gray */
	size_t columns;  /* 0: none stated */
	uint8_t *column; /* as in struct ht_kernel_row */
	const char *where;
};
/* Adds the records of one file. */
enum ht_status ht_ops_info_parse(struct ht_parse *p, struct ht_str text, struct ht_ops_info *out);
/* Adds the records of all *.json files of a folder, in the order of their names. */
enum ht_status ht_ops_info_read(struct ht_parse *p, struct ht_ops_info *out);

/* ---- emulation.c: number formats in the place of a low type ---- */

enum ht_role { HT_ROLE_ACTIVATIONS, HT_ROLE_WEIGHTS, HT_ROLE_GRADIENTS, HT_ROLES };

/* What the tensors become to which a policy gives the type `slot`. If `native` is a type, they
 * have that type.  Otherwise they are float32 and rounded to a format that depends on their role
 * in the model. */
struct ht_emulation {
	enum ht_dtype slot, native;
	bool rounds[HT_ROLES]; /* false: tensors of that role are not rounded */
	struct ht_float_format format[HT_ROLES];
};
/* At most one for each type that can be a slot. */
enum { HT_MAX_EMULATIONS = 8 };
/* FORMAT, or ROLE=FORMAT/ROLE=FORMAT…, in which a role is activations, weights, gradients, or forward: the first two. */
enum ht_status ht_emulation_parse(
	struct ht_str text, const char *what, struct ht_diags *d, struct ht_emulation *out);
void ht_emulation_put(struct ht_buf *b, const struct ht_emulation *e);

/* ---- policy.c ---- */

struct ht_policy {
	const struct ht_policy_kind *kind; /* if no policy was named, see ht_policy_effective() */
	enum ht_named_by by;
	const struct ht_profile *profile;
	char name[256]; /* as the user gave it */
	struct ht_emulation emulation[HT_MAX_EMULATIONS];
	size_t emulations;
	int run_mode; /* graph_run_mode: 0 inference, 1 training, -1 not stated */
	bool lenient;
	int hf32;                /* allow_hf32: bit 0 matrix products, bit 1 convolutions; -1 */
	const char *select_impl; /* op_select_implmode, or NULL */
	struct ht_rules rules[HT_RULE_SETS];
	struct ht_rules fusions;   /* fusion_switch_file */
	struct ht_rules switches;  /* optimization_switch */
	struct ht_rules scopes;    /* enable_scope_fusion_passes */
	int oo_level;              /* 0 to 3 */
	const char *fusion_result; /* where to write the effects of fusions; NULL: nowhere, */
	bool export_stat;          /* or in the current folder if this is set */
	const char *dump_graphs;   /* folder for the graph after each pass; NULL: none */
	const char *debug_dir;     /* the folder for kernel_meta; NULL: the current one */
	int debug_level;           /* op_debug_level */
	struct ht_debug_config debug_config;
	bool keep_constants;          /* oo_constant_folding is false */
	bool clamps_sentinels;        /* sentinels is clamp */
	int64_t random_seed;          /* tf_random_seed; -1: not stated */
	struct ht_ops_info *ops_info; /* NULL: none */
	struct ht_grappler_options grappler;
	const struct ht_report_data *report; /* the report that is the policy; NULL: it is not a
					      * report */
	uint8_t report_digest[32];
	const char *without_effect[256]; /* options that were accepted and have no effect */
	size_t without_effects;
	struct ht_arena arena;
	struct ht_unwind unwind;
	const struct ht_stated_rates *rates; /* of the machine for which code is made; NULL: not
					      * stated */
	bool measures;                       /* rates of this machine are measured if its costs
					      * are unknown */
	/* Options of policy optimal: */
	const struct ht_costs *costs;        /* instead of the target's; NULL: the target's */
	const struct ht_target *cost_target; /* instead of the target of the code; NULL: that one */
	struct ht_budget budget;
	int64_t activation_memory; /* the most bytes of saved activations; 0: any */
	/* Whether every constant is checked against the range of float16.  Otherwise large
	 * constants are read only for nodes where float16 is the cheapest, which depends on the
	 * machine.  Contractions then have no mode that a decision report does not state.  No option sets this; a search does. */
	bool judges_all;
	struct ht_question *question; /* of a search; NULL: none */
	const char *priced; /* the node whose other types are priced; "*": all; NULL: none */
	/* The setting of each option, for cache keys: text, or the hash of files; NULL: not set. */
	const char *stated[HT_READ_END];
	struct ht_reads *reads; /* records the options that were read; NULL: not wanted */
	/* All stated options, and the function that checks their combination with the table of
	 * options; NULL: there is none. */
	const struct ht_given *given;
	enum ht_status (*together)(const struct ht_policy *p, struct ht_diags *d);
};
/* Code whose result depends on an option's value must read it through this function: an option
 * that was not read is not part of the cache key.  Checks whether options may be combined
 * (policy.c) are exempt. */
static inline const struct ht_policy *ht_read(const struct ht_policy *p, enum ht_read what)
{
	if (p)
		ht_note_read(p->reads, what);
	return p;
}
/* The value as it is in keys; "": the default. */
struct ht_str ht_read_value(const struct ht_policy *p, enum ht_read r, struct ht_arena *a);
/* `name`: a policy, or the path of a report if it ends in ".json". NULL: options or
 * graph_run_mode determine the policy.  HT_E_USAGE, with similar names, if there is none.  The
 * policy must not be moved afterwards. */
enum ht_status ht_policy_init(struct ht_policy *p, const char *name, struct ht_diags *d);
/* The policy of the report `text`, which messages call `name`. */
enum ht_status ht_policy_init_text(
	struct ht_policy *p, const char *name, struct ht_str text, struct ht_diags *d);
void ht_policy_release(struct ht_policy *p);
/* Sets one of the options of policies (choice/options.def).  Setting the default counts as not
 * setting it. */
enum ht_status ht_policy_option(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d);
/* The policy in force: the named one, or the one that the run mode implies. */
const struct ht_policy_kind *ht_policy_effective(const struct ht_policy *p);
/* Its name as the user gave it, or the implied name. */
const char *ht_policy_label(const struct ht_policy *p);
/* HT_E_USAGE: the options cannot be combined. */
enum ht_status ht_policy_check(const struct ht_policy *p, struct ht_diags *d);
/* Whether op_select_implmode changes any kernel. */
bool ht_policy_selects_impl(const struct ht_policy *p);
/* The emulation in the place of type `t`; NULL: tensors have that type. */
const struct ht_emulation *ht_policy_emulation(const struct ht_policy *p, enum ht_dtype t);
/* Whether customize_dtypes has an effect. */
bool ht_policy_customizes(const struct ht_policy *p);

#endif
