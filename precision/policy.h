/* A precision policy with its options: what was asked for, before any graph is seen.
 *
 * Options whose values are files hold rules: one line or list entry of a file each, about an op
 * type or a node.  Every parser takes text, so that it can be fuzzed, and says where it failed. */
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
struct ht_profile;
struct ht_report_data;

/* What named the mode: two of them exclude each other even where they agree. */
enum ht_named_by {
	HT_NAMED_NONE = 0,
	HT_NAMED_POLICY = 1 << 0,
	HT_NAMED_MODE = 1 << 1,
	HT_NAMED_MODE_V2 = 1 << 2
};

/* Which options a policy reads and what else it can do; a bit set. */
enum ht_policy_can {
	/* Options that it reads. */
	HT_CAN_READ_RULES = 1 << 0,    /* customize_dtypes and keep_dtype */
	HT_CAN_READ_LISTS = 1 << 1,    /* modify_mixlist: it goes by white, black and gray lists */
	HT_CAN_READ_IMPLS = 1 << 2,    /* op_precision_mode, op_select_implmode, allow_hf32 */
	HT_CAN_READ_GRAPPLER = 1 << 3, /* those of TensorFlow's auto_mixed_precision */
	HT_CAN_READ_BUDGET = 1 << 4,   /* budget, frontier and samples */
	/* Functions that control flow calls: it decides on their bodies; on call and body together. */
	HT_CAN_DECIDE_BODIES = 1 << 5,
	HT_CAN_CROSS_CALLS = 1 << 6,
	/* It keeps every dtype: customize_dtypes would have no effect. */
	HT_CAN_CHANGE_NOTHING = 1 << 7,
	/* It decides for the profile only whose kernels are computed from the op table (cpu). */
	HT_CAN_DECIDE_FOR_CPU_ONLY = 1 << 8,
	/* Policy optimal prices what it decides: always, or on graphs of moderate size. */
	HT_CAN_BE_PRICED = 1 << 9,
	HT_CAN_BE_PRICED_IF_SMALL = 1 << 10
};

struct ht_policy;

/* How policies of one origin decide. */
struct ht_policy_family {
	unsigned can; /* all of them */
	/* Narrows the choices of all nodes and settles them, in an order of its own. */
	void (*decide)(struct ht_precision *p);
	/* Instead of `decide`: decides on the graph as imported, which need not be one that we can
	 * compile, and writes the decision into it. */
	enum ht_status (*paint)(const struct ht_policy *p, struct ht_graph *g,
		struct ht_pass_context *c, struct ht_decisions *out);
	/* After `decide` and the rewriting of one graph; NULL: nothing. */
	void (*finish)(struct ht_precision *p);
};

struct ht_policy_kind {
	const char *name;
	const char *summary;
	const struct ht_policy_family *family;
	int mode;            /* which of the family */
	enum ht_dtype low;   /* the low type that it gives; HT_INVALID: none, or any */
	unsigned can;        /* beside what its family can */
	unsigned spelling;   /* bit set: HT_NAMED_MODE, HT_NAMED_MODE_V2 have the name too */
	const char *same_as; /* the policy that this name is a synonym of, or NULL */
};
static inline bool ht_policy_can(const struct ht_policy_kind *k, enum ht_policy_can what)
{
	return (k->can | k->family->can) & what;
}
extern const struct ht_policy_kind ht_policy_kinds[]; /* ended by a row without a name */
/* The error for a name of no policy, with the policies that somebody may mean by it. */
enum ht_status ht_no_policy(const char *name, struct ht_diags *d);

/* ---- rules ---- */

enum ht_mix { /* what a list file asks for; a bit set */
	HT_MIX_REMOVE_BLACK = 1,
	HT_MIX_ADD_BLACK = 2,
	HT_MIX_REMOVE_WHITE = 4,
	HT_MIX_ADD_WHITE = 8,
	HT_MIX_REMOVE_GRAY = 16,
	HT_MIX_ADD_GRAY = 32
};

#define HT_MAX_CUSTOM 32 /* operands and results that one line can name */

/* Where a fusion_switch_file has an entry. */
enum ht_switch_section {
	HT_SWITCH_ANY, /* in the old form, which has no sections */
	HT_SWITCH_GRAPH,
	HT_SWITCH_LOOP,
	HT_SWITCH_EXCEPTION /* ExceptionalPassOfO1Level */
};

struct ht_rule {
	struct ht_str name; /* op type or node, as written */
	bool is_type;
	long line;                      /* 0: of no file */
	const char *where;              /* "list.json:4", or the option's name */
	unsigned mix;                   /* modify_mixlist: bit set over enum ht_mix */
	enum ht_impl impl;              /* op_precision_mode */
	bool on;                        /* fusion_switch_file, optimization_switch */
	enum ht_switch_section section; /* fusion_switch_file */
	const uint8_t *in;              /* customize_dtypes: dtypes of operands; HT_INVALID: any */
	const uint8_t *out;             /* and of results */
	int ins, outs;
};

/* The rules of one option, in the order written; no name twice. */
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
/* Adds a rule, or gives the one that has the name; *old tells which. */
struct ht_rule *ht_rules_add(struct ht_rules *r, struct ht_arena *a, struct ht_str name,
	bool is_type, long line, bool *old);
struct ht_where ht_at_line(const char *path, long line);

/* lines.c: text line by line. */
struct ht_lines {
	const char *path;
	struct ht_str rest;
	long line; /* of the one given last */
};
/* False at the end.  The line is without its end; HT_E_INPUT in *st when it is too long or no text. */
bool ht_next_line(struct ht_lines *l, struct ht_diags *d, struct ht_str *line, enum ht_status *st);
struct ht_str ht_trim(struct ht_str s);
/* Every line that says something, trimmed, to `parse`; those that begin with # are comments. */
struct ht_parse;
enum ht_status ht_each_line(struct ht_parse *p, struct ht_str text,
	enum ht_status (*parse)(void *self, struct ht_str line, long number), void *self);

/* The dtype that a vendor's file names; HT_INVALID: none. */
enum ht_dtype ht_vendor_dtype(struct ht_str name);

/* Only so many unknown names of a file are compared with all that there are: a long file takes no
 * longer. */
#define HT_NEAR_LIMIT 32

/* What a parser needs besides the text. */
struct ht_parse {
	struct ht_arena *arena; /* of the rules */
	struct ht_diags *diags;
	const char *path;
	bool lenient;             /* what is not understood is warned of and skipped */
	size_t unknown_names;     /* found so far */
	struct ht_sha256 *digest; /* of all files that were read; NULL: nobody wants it */
};
/* Maps the file p->path; the text lives as long as the arena. */
enum ht_status ht_policy_file(struct ht_parse *p, size_t limit, struct ht_str *text);
enum ht_status ht_mixlist_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
enum ht_status ht_customize_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
enum ht_status ht_keep_dtype_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
enum ht_status ht_impl_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);

/* ---- debug_config.c ---- */

/* Files that the compilation of a kernel leaves. */
enum ht_leave {
	HT_LEAVE_OBJECT = 1, /* with the description */
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
	struct ht_rules only; /* the nodes and types that it is about; none: all */
};
struct ht_policy;
enum ht_status ht_debug_config_parse(
	struct ht_parse *p, struct ht_str text, struct ht_debug_config *out);
/* Whether kernels leave files or are compiled in another way. */
bool ht_policy_debugs(const struct ht_policy *p);
/* That of the kernel that was made for a node of this name and type. */
struct ht_kernel_debug ht_policy_debug(
	const struct ht_policy *p, struct ht_str node, struct ht_str type);
/* HT_E_USAGE: what was stated does not go together. */
enum ht_status ht_policy_debug_check(const struct ht_policy *p, struct ht_diags *d);

/* ---- fusion_switch.c, fusion_state.c ---- */

enum ht_status ht_fusion_switch_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
/* NAME:on;NAME:off.  A mistake is HT_E_USAGE. */
enum ht_status ht_optimization_switch_parse(
	struct ht_parse *p, struct ht_str text, struct ht_rules *out);
/* NAME,NAME: scope fusions. */
enum ht_status ht_scope_fusions_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out);
/* What naming a scope fusion did. */
const char *ht_scope_fusion_note(const struct ht_rule *rule);
/* A fusion of ours or of the vendor's, or a pass of fusions; for optimization_switch also
 * forbidden_close_pass. */
bool ht_fusion_is_known(struct ht_str name, bool for_optimization_switch);
int ht_fusions_near(struct ht_str name, struct ht_str near[3], struct ht_arena *a);
/* Why a fusion is off, in `a`; NULL: it is on. */
const char *ht_fusion_off(const struct ht_policy *p, enum ht_fusion_id id, struct ht_arena *a);
/* Those that the policy leaves on; all of them where it is NULL. */
void ht_policy_fusions(const struct ht_policy *p, struct ht_fusions *f, struct ht_arena *a);
/* What an entry did: the fusions that it is about, or why it did nothing. */
const char *ht_fusion_note(
	const struct ht_policy *p, const struct ht_rule *rule, struct ht_arena *a);
bool ht_fusion_is_closable(const char *vendor_name);
/* The vendor's names of a fusion, i-th of them; NULL: no more. */
const char *ht_fusion_vendor_name(enum ht_fusion_id id, int i);

/* ---- ops_info.c: records of op types that replace or extend a profile's ---- */

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
/* Adds those of all *.json files of a folder, in the order of their names. */
enum ht_status ht_ops_info_read(struct ht_parse *p, struct ht_ops_info *out);

/* ---- emulation.c: number formats in the place of a low type ---- */

enum ht_role { HT_ROLE_ACTIVATIONS, HT_ROLE_WEIGHTS, HT_ROLE_GRADIENTS, HT_ROLES };

/* What becomes of the tensors to which a policy gives the type `slot`.  Where `native` is a type they have that; otherwise they are float32 and
 * rounded to a format, by what they are to the model. */
struct ht_emulation {
	enum ht_dtype slot, native;
	bool rounds[HT_ROLES]; /* otherwise they are not rounded */
	struct ht_float_format format[HT_ROLES];
};
/* At most one for each type that may be a slot. */
enum { HT_MAX_EMULATIONS = 8 };
/* FORMAT, or ROLE=FORMAT/ROLE=FORMAT…, in which a role is activations, weights, gradients, or forward: the first two. */
enum ht_status ht_emulation_parse(
	struct ht_str text, const char *what, struct ht_diags *d, struct ht_emulation *out);
void ht_emulation_put(struct ht_buf *b, const struct ht_emulation *e);

/* ---- policy.c ---- */

struct ht_policy {
	const struct ht_policy_kind *kind; /* ht_policy_effective() where nothing was named */
	enum ht_named_by by;
	const struct ht_profile *profile;
	char name[256]; /* as given */
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
	const char *fusion_result; /* where to write what fusions did; NULL: nowhere, */
	bool export_stat;          /* but in the current folder when this is set */
	const char *dump_graphs;   /* folder for the graph after each pass; NULL: none */
	const char *debug_dir;     /* for kernel_meta; NULL: the current one */
	int debug_level;           /* op_debug_level */
	struct ht_debug_config debug_config;
	bool keep_constants;          /* oo_constant_folding is false */
	bool clamps_sentinels;        /* sentinels is clamp */
	int64_t random_seed;          /* tf_random_seed; -1: not stated */
	struct ht_ops_info *ops_info; /* NULL: none */
	struct ht_grappler_options grappler;
	const struct ht_report_data *report; /* that the policy is; NULL: it is none */
	uint8_t report_digest[32];
	const char *without_effect[256]; /* options that were accepted and do nothing */
	size_t without_effects;
	struct ht_arena arena;
	struct ht_unwind unwind;
	const struct ht_stated_rates *rates; /* of the machine that code is for; NULL: not stated */
	bool measures;                       /* rates of this machine where its costs are unknown */
	/* Of policy optimal: */
	const struct ht_costs *costs;        /* in place of the target's; NULL: none */
	const struct ht_target *cost_target; /* in place of the one compiled for; NULL: that one */
	struct ht_budget budget;
	/* Whether reasons tell of every constant that leaves the range of float16.  Otherwise large constants are read only where float16 is
	 * the cheapest, which depends on the machine.  No option states it: a search does. */
	bool judges_all;
	const char *priced; /* the node whose other types are to be priced; "*": all; NULL: none */
	/* What each option was set to, for keys of the cache: text, or the hash of files; NULL: not */
	const char *stated[HT_READ_END];
	struct ht_reads *reads; /* notes the options that were read; NULL: nobody asks */
	/* Everything that was stated, and the check whether it goes together, for which the table
	 * of options is needed; NULL: there is none. */
	const struct ht_given *given;
	enum ht_status (*together)(const struct ht_policy *p, struct ht_diags *d);
};
/* The way to an option's value for whatever decides something about the result: what is not read
 * does not matter to it, and the cache relies on that.  Whether options go together (policy.c) is
 * no such question. */
static inline const struct ht_policy *ht_read(const struct ht_policy *p, enum ht_read what)
{
	if (p)
		ht_note_read(p->reads, what);
	return p;
}
/* The value as a key has it; "": the default. */
struct ht_str ht_read_value(const struct ht_policy *p, enum ht_read r, struct ht_arena *a);
/* `name` ending in ".json": the path of a report.  NULL: options or graph_run_mode tell.  HT_E_USAGE with near names when there is none.
 * The policy must not move afterwards. */
enum ht_status ht_policy_init(struct ht_policy *p, const char *name, struct ht_diags *d);
/* As the report `text`, which messages call `name`, says. */
enum ht_status ht_policy_init_text(
	struct ht_policy *p, const char *name, struct ht_str text, struct ht_diags *d);
void ht_policy_release(struct ht_policy *p);
/* Sets one of the options of policies (choice/options.def).  Its default counts as not stated. */
enum ht_status ht_policy_option(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d);
/* The policy in force: what was named, or what the run mode implies. */
const struct ht_policy_kind *ht_policy_effective(const struct ht_policy *p);
/* Its name as given, or as implied. */
const char *ht_policy_label(const struct ht_policy *p);
/* Whether the options go together; HT_E_USAGE otherwise. */
enum ht_status ht_policy_check(const struct ht_policy *p, struct ht_diags *d);
/* Whether op_select_implmode asks for another kernel than without it. */
bool ht_policy_selects_impl(const struct ht_policy *p);
/* The emulation in the place of type `t`; NULL: tensors have that type. */
const struct ht_emulation *ht_policy_emulation(const struct ht_policy *p, enum ht_dtype t);
/* Whether customize_dtypes has an effect. */
bool ht_policy_customizes(const struct ht_policy *p);

#endif
