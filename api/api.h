/* api: the public interface over all folders below.
 *
 * Public functions are thin: each sets up an unwind point (ht_guarded), so that an allocation that
 * fails anywhere below comes back as a status, and calls a static function that does the work. */
#ifndef HT_API_H
#define HT_API_H

#include <halftone/halftone.h>

#include "backend/backend.h"
#include "base/base.h"
#include "base/watch.h"
#include "cache/cache.h"
#include "cache/remote.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "passes/passes.h"
#include "precision/precision.h"
#include "runtime/artefact.h"
#include "runtime/runtime.h"

/* ---- guard.c ---- */

/* Runs `body(arg)`; an allocation that unwinds to `u` becomes HT_E_ENVIRONMENT. */
enum ht_status ht_guarded(
	struct ht_unwind *u, enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d);
/* Runs call(arg).  Once *cancel is non-zero, the next allocation ends the call with HT_E_LIMIT. */
enum ht_status ht_until_cancelled(
	const int32_t *cancel, enum ht_status (*call)(void *arg), void *arg, struct ht_diags *d);
/* Copies `s` to malloc'd memory. */
enum ht_status ht_bytes_of(struct ht_str s, struct ht_bytes *out);

/* Memory of one call: released when the call returns. */
struct ht_work {
	struct ht_unwind unwind;
	struct ht_arena arena, scratch;
};
void ht_work_init(struct ht_work *w);
void ht_work_release(struct ht_work *w);
/* Memory for a part of the call, which is released with `w` at the latest.  An allocation that
 * fails unwinds to the same place as one of `w`. */
struct ht_work *ht_work_within(struct ht_work *w);
/* ht_guarded() with this memory, for calls that need no other. */
enum ht_status ht_work_run(
	struct ht_work *w, enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d);

/* ---- caller_options.c ---- */

/* Reads options that begin with struct_size, from a program whose headers may be older or newer
 * than this library.  *out, of `size` bytes, holds the defaults; the members that the caller's
 * struct has replace them, and out->struct_size becomes `size`.  `caller` NULL: the defaults.
 * HT_E_USAGE: struct_size was not set, or members that only a newer library has are not zero. */
enum ht_status ht_caller_options(
	const void *caller, const char *name, void *out, size_t size, struct ht_diags *d);
/* Copies *from, of `size` bytes, to the caller's struct, which begins with struct_size as well: the members that the
 * caller's struct has, without struct_size.  HT_E_USAGE: struct_size was not set; then nothing is copied. */
enum ht_status ht_caller_result(
	void *caller, const char *name, const void *from, size_t size, struct ht_diags *d);

/* ---- vendor_attributes.c ---- */

/* Adds a note for each of the vendor's attributes that nodes have and that has no effect here. */
void ht_vendor_attributes_note(const struct ht_graph *g, struct ht_arena *a, struct ht_diags *d);

/* ---- model.c ---- */

struct ht_shape_set {
	struct ht_str input;
	struct ht_shape shape;
	struct ht_shape_set *next;
};

struct ht_input_name {
	struct ht_str input;
	struct ht_input_name *next;
};

/* Open sizes of a model: one for each dimension that may be open, and those with names. */
enum { HT_MOST_OPEN = HT_MOST_SIZES + HT_MOST_NAMED_SIZES };

struct ht_model {
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_graph *graph;  /* as imported */
	struct ht_entry *entry;  /* a copy of `chosen` whose outputs may have been replaced */
	struct ht_entry *chosen; /* the chosen entry, as it was imported */
	struct ht_entry *unfed;  /* `entry` with all its inputs, before some were fed; NULL:
				  * `entry` itself */
	struct ht_shape_set *shapes;
	struct ht_input_name *steady;
	int64_t batch; /* 0: not stated */
	/* What was stated of the open sizes: that of all open dimensions 0, and so on, and behind these the ones with names. */
	struct ht_open_sizes {
		bool stay;           /* it is open */
		int64_t least, most; /* most 0: not stated */
		struct ht_str name;  /* empty: that of a dimension */
	} open[HT_MOST_OPEN];
	int32_t named; /* sizes with names */
	struct ht_named_dimension {
		struct ht_str input;
		int32_t dimension, size; /* the number of the size */
		struct ht_named_dimension *next;
	} *named_dimensions;
	bool set; /* the caller set something: outputs, shapes */
	bool outputs_set, inputs_set;
	bool session;            /* compiled as an entry of a session, which holds its variables */
	const char *scaled_loss; /* likewise: the output whose gradients are scaled; NULL: none */
	double loss_scale;       /* with scaled_loss: the scale of the first step */
	bool unchecked;          /* scaled gradients are not tested for overflow */
	bool wide;               /* its programs compute in float64: ht_widen_model() */
	struct ht_value_info *input;
	size_t inputs;
	int64_t import_ns;
	struct ht_cache *cache;     /* the caller's; NULL: none */
	struct ht_content *content; /* NULL until somebody asks for it */
};

/* Fills `input`. Every function that changes a setting calls it. */
void ht_model_describe(struct ht_model *m);
/* The shape of an input: the one that was set, or else the graph's. */
struct ht_shape ht_model_shape(const struct ht_model *m, const struct ht_port *p);
/* The value that an input has if the caller does not feed it; NULL: there is none. */
const struct ht_tensor *ht_model_default(const struct ht_node *n);

/* ---- widen.c ---- */

/* Makes float16, bfloat16 and float32 float64 in a copy of a model's graph, its functions and constants.  Inputs keep their
 * types: a cast follows each. */
void ht_widen_model(struct ht_graph *g);
/* Before lowering: HT_E_UNSUPPORTED for an op without a kernel of float64, a note for each that computes in float32. */
enum ht_status ht_widen_check(const struct ht_graph *g, struct ht_diags *d);
/* A copy of a tensor of float16, bfloat16 or float32 as `to`, float32 or float64. */
struct ht_tensor *ht_widen_tensor(const struct ht_tensor *t, enum ht_dtype to, struct ht_arena *a);

/* ---- model_copy.c ---- */

/* What happens to dimensions of inputs that the caller did not state. */
enum ht_open {
	HT_OPEN_KEEP,    /* they stay unknown, as in the graph */
	HT_OPEN_STAY,    /* they become open sizes, like those of ht_model_set_open_dimension() */
	HT_OPEN_BOUNDED, /* likewise, and the first has bounds even if it alone is open */
	HT_OPEN_ONE,     /* the first dimension of a shape becomes 1; others stay unknown */
	HT_OPEN_REFUSE   /* the first becomes 1; any other is HT_E_UNSUPPORTED */
};
/* A copy of the model's graph with only the chosen entry, and with the shapes that were set.
 * The copy shares the functions that it can call with the model, until a pass needs its own. */
enum ht_status ht_model_copy(const struct ht_model *m, struct ht_work *w, enum ht_open open,
	struct ht_diags *d, struct ht_graph **out);
/* Likewise, but all functions are copied. */
enum ht_status ht_model_copy_whole(const struct ht_model *m, struct ht_work *w, enum ht_open open,
	struct ht_diags *d, struct ht_graph **out);

/* Whether an input has an open dimension that the caller did not state. */
bool ht_model_leaves_open(const struct ht_model *m);
/* Whether ht_model_set_steady() was called for the input of that name. */
bool ht_model_is_steady(const struct ht_model *m, struct ht_str input);
/* Size i of a program's inputs: whether it is open, stated or not, and the bounds that were stated. */
struct ht_open_sizes ht_model_open(const struct ht_model *m, int32_t i);
/* The number of the open size that a dimension of an input has where it is open: that of its name, or the dimension itself.  -1: such a
 * dimension cannot be open. */
int32_t ht_model_size_of(const struct ht_model *m, struct ht_str input, int32_t dimension);
/* HT_E_USAGE: a dimension is to stay open, and no input has it open. */
enum ht_status ht_model_check_open(const struct ht_model *m, struct ht_diags *d);
/* The inputs with open dimensions, as "x:1,?,?,3;y:?": the caller may state them with a number
 * for each ?. Unless `rows` is set, only inputs with another open dimension than the first. */
struct ht_str ht_model_shapes_to_state(const struct ht_model *m, bool rows, struct ht_arena *a);
/* Whether the first dimension alone is open where sizes become open by `open`, and needs no bounds. */
bool ht_model_has_rows(const struct ht_model *m, enum ht_open open);
/* Adds a note on the bounds of open sizes for which none were stated. */
void ht_model_note_bounds(
	const struct ht_model *m, enum ht_open open, struct ht_arena *a, struct ht_diags *d);
/* Likewise on bounds that pass sizes raised in `g`. */
void ht_model_note_raised(
	const struct ht_model *m, const struct ht_graph *g, struct ht_arena *a, struct ht_diags *d);
/* Whether HT_OPEN_KEEP and HT_OPEN_ONE make different copies. */
bool ht_model_is_open(const struct ht_model *m);

/* Checks that the settings fit the graph; shapes that contradict each other are HT_E_INPUT.
 * Calls that infer shapes anyway do not need it. */
enum ht_status ht_model_check(const struct ht_model *m, struct ht_work *w, struct ht_diags *d);

/* settings.c: checks the settings of a policy against the table of combinations. */
enum ht_status ht_policy_together(const struct ht_policy *p, struct ht_diags *d);

/* ---- options.c ---- */

/* Whether the option accepts a value that is stated at `at`. */
enum ht_status ht_option_legal_at(
	const char *name, const char *value, struct ht_where at, struct ht_diags *d);
/* HT_E_UNSUPPORTED if the option, which must exist, is refused with this value. */
enum ht_status ht_option_refuse_at(
	const char *name, const char *value, struct ht_where at, struct ht_diags *d);
/* The canonical spelling of a value that has two. */
const char *ht_option_spelled(const char *name, const char *value);
/* Whether the value is one of "a|b|c". */
bool ht_is_listed(const char *values, const char *value);
/* Stated options as a list.  If an option is stated twice, the first link counts. */
struct ht_given {
	const char *name, *value; /* as the table has them */
	struct ht_where at;
	const struct ht_given *next;
};
/* Sets an option of the table of options. */
enum ht_status ht_option_set(
	struct ht_policy *p, const char *name, const char *value, struct ht_diags *d);

/* ---- variables.c ---- */

/* NULL: the model has no checkpoint. */
const struct ht_variable_source *ht_variables_of(const struct ht_model *m, struct ht_work *w);
/* Without a checkpoint, variables are zeros of their shapes: for calls that only look at graphs. */
const struct ht_variable_source *ht_variables_or_zeros(const struct ht_model *m, struct ht_work *w);

/* ---- phases.c ---- */

/* The phases of a compilation, as far as they have run. */
#define HT_MAX_PHASES 12
struct ht_phases {
	struct ht_phase phase[HT_MAX_PHASES];
	size_t n;
	int64_t last_ns;
};
void ht_phase_start(struct ht_phases *p);
void ht_phase_end(struct ht_phases *p, const char *name);

/* ---- lowering.c ---- */

/* Copies the model's graph and runs the standard passes on it. */
struct ht_lowering {
	struct ht_graph *graph;
	struct ht_pass_context passes;
	struct ht_precision_request precision;
	struct ht_lower_request lower; /* for lowering after the passes */
	struct ht_decisions decisions;
	struct ht_fusions fusions;
	struct ht_policy policy; /* a copy, which records the options that are read */
	struct ht_reads reads;
	struct ht_phases phases;
};
/* Whether the policy decides on the graph as imported (struct ht_policy_kind).  That graph, with
 * its decided types, then goes through the other passes; a lowering up to the decision ends
 * immediately. */
bool ht_policy_paints(const struct ht_policy *p);
/* dump.c: makes the passes write the graph to a folder, if an option of the policy says so. */
enum ht_status ht_dump_graphs(
	const struct ht_policy *p, struct ht_work *w, struct ht_pass_context *c);
/* Writes fusion_result.json, if an option of the policy says so. */
enum ht_status ht_fusion_result_write(const struct ht_policy *p, const struct ht_fusions *f,
	struct ht_arena *a, struct ht_diags *d);
/* Whether a pipeline names a pass. */
bool ht_pipeline_names(const char *pipeline, const char *pass);
enum ht_upto {
	HT_UPTO_PRECISION,
	HT_UPTO_REPORT, /* up to the decision, with the full report of it */
	HT_UPTO_WRITTEN, /* likewise, but branches and loops keep the model's functions: for convert */
	HT_UPTO_MERGED, /* likewise; for policies that paint, also the graph after clean-ups */
	HT_UPTO_LAYOUT,
	HT_UPTO_LOOK /* up to the decision, with zeros for variables without values */
};
enum ht_status ht_lowering_run(const struct ht_model *m, const struct ht_compile_options *opt,
	enum ht_open open, enum ht_upto upto, const char *stop_after, struct ht_work *w,
	struct ht_diags *d, struct ht_lowering *l);
/* Likewise up to the decision, which graphs that cannot be compiled have too.  If the first
 * dimension was not stated, it is one row, and a note says so. */
enum ht_status ht_lowering_decide(const struct ht_model *m, const struct ht_compile_options *opt,
	enum ht_upto upto, struct ht_work *w, struct ht_diags *d, struct ht_lowering *l);
/* The options with defaults for absent members.  Checks struct_size. */
enum ht_status ht_compile_options_of(
	const struct ht_compile_options *opt, struct ht_diags *d, struct ht_compile_options *out);
/* The target that the options name, with its rates (rates.c).  It lives in `a` or is static. */
enum ht_status ht_target_of(const struct ht_compile_options *opt, struct ht_cache *c,
	struct ht_arena *a, struct ht_diags *d, const struct ht_target **out);

/* ---- rates.c ---- */

/* `t` with the rates that the policy states.  If `t` is this machine, and the library has no
 * table of its costs, the rates are measured, or read from the cache if they were measured
 * before.  `p` and `c` may be NULL. */
enum ht_status ht_target_rated(const struct ht_target *t, const struct ht_policy *p,
	struct ht_cache *c, struct ht_arena *a, struct ht_diags *d, const struct ht_target **out);

/* ---- calibrate.c ---- */

/* Runs variants of the model for a budget.  It lives in `a`; `l` and `opt` must live as long.
 * The samples of the options are read when the first variant is run. */
const struct ht_calibration *ht_calibrator_new(const struct ht_model *m,
	const struct ht_lowering *l, const struct ht_compile_options *opt, struct ht_arena *a);

/* ---- certificate.c ---- */

void ht_certificate_json(struct ht_buf *b, const struct ht_certificate *c);
/* For the nodes that the caller asked about: the costs of other types. */
void ht_certificate_prices(struct ht_buf *b, const struct ht_certificate *c);
void ht_certificate_text(struct ht_buf *b, const struct ht_certificate *c);

/* ---- program.c ---- */

/* A 16-bit tensor, and the offset in the arena of the record of what rounding did to each
 * element. */
struct ht_probe {
	const char *tensor;
	enum ht_dtype dtype;
	const char *format;
	size_t offset, elements;
};

/* Code of a kernel, and the offset in it where it begins to run.  The code runs at any address
 * that is a multiple of 64. */
struct ht_kernel_code {
	struct ht_str code; /* empty: a library kernel */
	size_t entry;
	struct ht_str lines; /* kernel/lines.h, packed; only with struct ht_code_how */
};

struct ht_program {
	struct ht_arena arena;            /* allocated from only during the compilation */
	const struct ht_backend *backend; /* that made `code`; NULL: no code was generated */
	struct ht_code *code;
	struct ht_kernel_code *kernel_code; /* by kernel, when compiled */
	void *code_map;                     /* their mapping, read-execute, if they are not in
					     * `code` */
	size_t code_mapped;
	const char *llvm;            /* version, when compiled */
	struct ht_artefact artefact; /* the one it was loaded from; `backend` is NULL then */
	struct ht_program_plan plan; /* from the artefact */
	const char *provenance;      /* ht_provenance() */
	struct ht_str whole;         /* of a program from the cache: the artefact's bytes */
	bool whole_is_read;          /* the bytes were read into memory; false: they are mapped */
	struct ht_str image;
	struct ht_rt_program rt;
	struct ht_page_pool pages; /* memory for its constants and, if asked for, of its
				    * variables */
	struct ht_str packed;      /* packed constants, if they are in a mapping of their own */
	size_t inputs, outputs;
	struct ht_value_info *input, *output;
	const char **input_alias, **output_alias; /* second names of inputs and outputs; "": none */
	struct ht_plan_work *work;                /* for each step that runs a kernel, in order */
	size_t works;
	struct ht_probe *probe; /* with ht_compile_options.numerics */
	size_t probes;
	struct ht_tee *tee; /* tee.h; with ht_compile_options.tee */
	size_t tees;
	struct ht_tee_place *tee_place; /* by number in the plan */
	size_t tee_places;
	struct ht_str source;         /* the text of all kernels, with ht_compile_options.lines */
	uint32_t *source_line;        /* by kernel: the line of `source` where its text begins,
				       * from 1 */
	struct ht_known_nodes *nodes; /* with ht_compile_options.nodes */
	void (*when_freed)(const void *program); /* or NULL */
	struct ht_program_info info;
	struct ht_phase phase[HT_MAX_PHASES];
	const char *without_effect[256]; /* of a program from the cache: as many as a policy has */
};
/* pages.c: allocates the variables of a program that uses large pages, in `pool`. */
enum ht_status ht_paged_variables(
	const struct ht_program *p, struct ht_page_pool *pool, char **memory, struct ht_diags *d);
/* The arguments of making a program from a plan of graph `g`: packs constants (and gives back
 * the graph's as they are packed), generates code. */
struct ht_make {
	struct ht_cache *cache; /* NULL: none */
	const struct ht_target *target;
	const char *backend; /* path of the code generator; NULL: found by itself */
	int threads;
	const struct ht_watch *watch;   /* NULL: the caller does not watch */
	const struct ht_code_how *code; /* by kernel; NULL: the default for all */
	const struct ht_constants *
		constants; /* of other programs, which the program reads if they are equal to its own; NULL: none */
};
enum ht_status ht_program_build(struct ht_program *p, struct ht_graph *g, struct ht_plan *plan,
	const struct ht_make *how, struct ht_phases *phases, struct ht_diags *d);

/* Writes the program's image, with the defaults and second names of inputs and outputs, if they
 * have any. */
void ht_program_link(struct ht_program *p, const struct ht_plan *plan);

/* HT_E_INPUT: a file became shorter while a constant of the program is mapped from it. */
enum ht_status ht_program_files_check(const struct ht_program *p, struct ht_diags *d);

/* Facts of an image: how many steps run a kernel; the bytes of the largest frame and of scratch. */
size_t ht_program_steps(const struct ht_image *x);
size_t ht_program_arena(const struct ht_image *x);
size_t ht_program_scratch(const struct ht_image *x);

/* ---- announce.c ---- */

/* The text of all kernels of a plan, as --emit kernels shows it. */
void ht_put_kernels(const struct ht_plan *plan, struct ht_buf *b);
/* Fills in p->source and p->source_line. */
void ht_program_keep_source(struct ht_program *p, const struct ht_plan *plan);

/* ---- iterations.c ---- */

/* The nodes of a model, and the steps with a kernel that compute them. */
struct ht_known_nodes {
	const char *path;           /* of the model */
	struct ht_str *name, *type; /* of all nodes that were imported */
	size_t n;
	struct ht_known_member {
		struct ht_str node;
		size_t step; /* index in p->work */
	} *member;
	size_t members;
};
/* Fills in p->nodes from the imported graph and a plan with members. */
void ht_program_keep_nodes(
	struct ht_program *p, const struct ht_graph *imported, const struct ht_plan *plan);

/* ---- kernel_meta.c ---- */

/* How each kernel of the plan is compiled under the policy's debug options, with or without
 * lines.  The result is in `a`. */
const struct ht_code_how *ht_kernel_meta_how(
	const struct ht_policy *p, const struct ht_plan *plan, bool lines, struct ht_arena *a);
/* The files that the policy wants of the kernels of a program that was made from the plan, in the folder kernel_meta. */
enum ht_status ht_kernel_meta_write(const struct ht_policy *p, const struct ht_program *program,
	const struct ht_plan *plan, const struct ht_make *how, struct ht_diags *d);

/* work.c: fills in p->work. */
void ht_program_account(
	struct ht_program *p, const struct ht_plan *plan, const struct ht_target *t);

/* ---- context.c ---- */

bool ht_draw_seed(uint64_t *seed); /* the system's; false: errno says why not */
/* ht_context_new() with the caller's threads, and with the session's objects by object of the
 * image; both must outlive the context.  NULL: the context has its own. */
enum ht_status ht_context_sharing(const struct ht_program *p, const struct ht_context_options *opt,
	struct ht_rt_pool *pool, void *const *object, struct ht_diags *d, struct ht_context **out);
struct ht_philox *ht_context_streams(struct ht_context *c); /* by stream of the program */
const struct ht_program *ht_context_program(const struct ht_context *c);
struct ht_trace;
const struct ht_trace *ht_context_recorded(const struct ht_context *c); /* NULL: nothing */
struct ht_rt_context *ht_context_rt(const struct ht_context *c);

/* ---- sizes.c ---- */

/* Takes the sizes of a run from the types and shapes of its inputs, which are as many as the
 * program has.  HT_E_INPUT: they do not fit. */
enum ht_status ht_sizes_take(
	const struct ht_program *p, const struct ht_array *in, int64_t *size, struct ht_diags *d);
/* An extent of an output. */
int64_t ht_sizes_extent(
	const struct ht_program *p, size_t output, int32_t axis, const int64_t *size);
/* Stores all extents of an output in `dim` and returns its bytes. */
size_t ht_sizes_output_bytes(const struct ht_program *p, size_t i, const int64_t *size);
void ht_sizes_output(
	const struct ht_program *p, size_t i, const int64_t *size, int64_t *dim, size_t *bytes);
/* Whether the sizes of the inputs determine the size of this output; otherwise the run computes
 * it. */
bool ht_sizes_are_known(const struct ht_program *p, size_t output);
/* A port as users see it: open extents are -1. */
struct ht_value_info ht_sizes_describe(
	struct ht_arena *a, const struct ht_image *x, const struct ht_image_port *port);

/* ---- cache.c ---- */

/* HT_E_USAGE: the cache is off. */
enum ht_status ht_store_of(const struct ht_cache *c, struct ht_diags *d, struct ht_store **out);

/* ---- cache_vendor.c ---- */

/* Reads the cache.conf of a vendor's cache directory, in which graphs are found by name.
 * HT_E_INPUT: the file is malformed.  *reads_only becomes true if nothing is to be stored. */
enum ht_status ht_cache_vendor_files(
	const char *dir, const char *graph_key, struct ht_diags *d, bool *reads_only);

/* ---- content.c ---- */

/* SHA-256 of each of the model's files, one a line.  If the model has a checkpoint, its files
 * are opened here, and later reads use them.  HT_E_ENVIRONMENT: a file cannot be read. */
enum ht_status ht_content_of(const struct ht_model *m, struct ht_diags *d, struct ht_str *out);
struct ht_str ht_content_known(const struct ht_model *m); /* the same, after ht_content_of() */
/* The open files of the checkpoint; NULL: there is none, or ht_content_of() was not called. */
const struct ht_input_file *ht_content_files(const struct ht_model *m);
void ht_content_free(struct ht_content *c);
void ht_put_digest(struct ht_buf *b, const uint8_t digest[32]); /* such a line */
/* Whether a file of the model was written since it was mapped. */
bool ht_content_changed(const struct ht_model *m);
/* HT_E_INPUT: a file of the model became shorter since it was loaded. */
enum ht_status ht_content_check(const struct ht_model *m, struct ht_diags *d);

/* fault.c: adds the error of a run that stopped, with the loops and branches that it was in, and
 * a note on the kernel that failed.  `limits` are those of the run; `seen`: an observer looks at
 * the tensors of the run. */
enum ht_status ht_fault_tell(const struct ht_program *p, const struct ht_rt_fault *fault,
	const struct ht_exec_limits *limits, bool seen, struct ht_diags *d);

/* ---- objects.c ---- */

/* By object of the image: the functions of its kind; NULL: the library does not have the kind. */
const struct ht_object_kind *const *ht_program_objects(
	struct ht_arena *a, const struct ht_image *x);
/* The most bytes of an object that runs make grow. */
uint64_t ht_table_bytes(const struct ht_context_options *opt);
/* Adds the error of an object that could not be made.  The fault has the reason; without a code,
 * memory ran out. */
enum ht_status ht_object_tell(
	const struct ht_program *p, const struct ht_rt_fault *fault, struct ht_diags *d);

/* ---- graph_key.c ---- */

/* The input of a compilation, for its cache key: a model, options, and a policy. */
struct ht_wanted {
	const struct ht_model *model;
	const struct ht_compile_options *opt;
	const struct ht_policy *policy;
	const struct ht_target *target;
};
/* Kind HT_CACHE_READS: a key of everything but options; its entry lists the options that matter.
 * Kind HT_CACHE_GRAPH: a key that also has the values of the options in `reads`. */
struct ht_cache_key ht_graph_key(const struct ht_wanted *w, enum ht_cache_kind kind,
	struct ht_reads reads, struct ht_arena *a);
/* The value of one option as it is in keys; "": the default. */
struct ht_str ht_wanted_value(const struct ht_wanted *w, enum ht_read r, struct ht_arena *a);
/* Parses a set of options: names with blanks between.  Names that are no options are ignored. */
struct ht_reads ht_reads_parse(struct ht_str names);
void ht_reads_print(struct ht_buf *b, struct ht_reads set);

/* ---- graph_index.c: for cache directories in which graphs are found by name ---- */

enum { HT_READ_SETS = 16 }; /* kept at most */
/* Like ht_read_sets(), for the entries of this graph in the index. */
size_t ht_index_sets(const struct ht_wanted *w, struct ht_diags *d, struct ht_arena *a,
	struct ht_reads set[HT_READ_SETS]);
/* Adds an entry that was stored to the index. */
void ht_index_add(
	const struct ht_wanted *w, struct ht_reads reads, struct ht_diags *d, struct ht_arena *a);

/* ---- graph_reads.c ---- */

/* The sets of options that earlier compilations of the model have read, the last one first.
 * Returns how many. */
size_t ht_read_sets(const struct ht_wanted *w, struct ht_diags *d, struct ht_arena *a,
	struct ht_reads set[HT_READ_SETS]);
void ht_read_sets_add(
	const struct ht_wanted *w, struct ht_reads reads, struct ht_diags *d, struct ht_arena *a);

/* ---- graph_cache.c ---- */

/* Whether the cache holds graphs of this kind. */
bool ht_graph_is_cached(const struct ht_wanted *w);
/* *out is NULL if there is no entry. */
enum ht_status ht_graph_get(const struct ht_wanted *w, struct ht_work *work, struct ht_diags *d,
	struct ht_program **out);
/* `said`: the last message before the compilation; the entry stores those behind it. */
void ht_graph_put(const struct ht_wanted *w, const struct ht_program *p, struct ht_reads reads,
	const struct ht_diag *said, struct ht_work *work, struct ht_diags *d);

/* ---- cache_why.c ---- */

/* Why the cache has no entry, such as "option oo_level: 'O2', in the nearest entry ''". */
struct ht_str ht_miss_text(const struct ht_wanted *w, struct ht_work *work, struct ht_diags *d);

/* ---- kernels.c ---- */

/* Identifies the code generator: its sources, and the version of LLVM. */
const char *ht_code_id(void);

/* Makes p->image, in memory that is read-execute. */
enum ht_status ht_kernels_make(struct ht_program *p, const struct ht_plan *plan,
	const struct ht_make *how, struct ht_diags *d);
struct ht_cache_key ht_kernel_key(const struct ht_kernel *k, const struct ht_target *t,
	struct ht_code_how how, struct ht_arena *a);

/* ---- manifest.c ---- */

/* Members of a variant in the manifest: its provenance. */
struct ht_str ht_provenance(const struct ht_wanted *w, struct ht_reads reads, const char *llvm,
	struct ht_str content, struct ht_arena *a);
void ht_manifest_variant(
	struct ht_buf *b, const struct ht_program_plan *p, const char *entry, size_t number);
struct ht_str ht_manifest(struct ht_str variants, const struct ht_index *x, struct ht_arena *a);

/* ---- load.c ---- */

/* The options, or defaults. */
enum ht_status ht_artefact_options_of(
	const struct ht_artefact_options *opt, struct ht_diags *d, struct ht_artefact_options *out);
struct ht_artefact_trust ht_artefact_trust_of(const struct ht_artefact_options *o);
/* Selects variants by shapes, policy and target; of several, the best that this machine can run. */
struct ht_variant_wanted ht_variant_wanted_of(
	const struct ht_artefact_options *o, struct ht_arena *a);
/* Likewise for any machine: all known targets have the same rank. */
int ht_rank_of_any(const char *target);
/* Loads a program from an artefact in memory, which must outlive the program; `name` is for
 * messages. */
enum ht_status ht_program_load_bytes(
	struct ht_str bytes, const char *name, struct ht_diags *d, struct ht_program **out);
/* Loads a variant of an open artefact, which may be closed before the program is freed. */
enum ht_status ht_program_load_variant(const struct ht_artefact *from, size_t variant,
	struct ht_diags *d, struct ht_program **out);

/* ---- save.c ---- */

/* Of a program, compiled or loaded: the name of the library kernel that a step runs, or ""; the
 * code of any other kernel, which may be copied to any address that is a multiple of 64, and the
 * offset at which it begins to run. */
const char *ht_program_library(const struct ht_program *p, size_t kernel);
struct ht_str ht_program_kernel(const struct ht_program *p, size_t kernel, uint64_t *entry);

/* The bytes that ht_artefact_writer_write() writes: for the writer and for its programs. */
enum ht_status ht_artefact_writer_bytes(
	struct ht_artefact_writer *w, struct ht_diags *d, struct ht_artefact_bytes *out);

/* ---- constants.c ---- */

/* Constants of programs, by content. */
struct ht_constants {
	struct ht_map at; /* by hash and number of bytes: the address */
};
void ht_constants_init(struct ht_constants *c, struct ht_arena *a);
/* Adds the constants of `p`.  The program must outlive `c` and every program that reads these constants, and ht_program_use_pages() must
 * not be called on it, which moves them. */
void ht_constants_add(struct ht_constants *c, const struct ht_program *p);
/* The constant with these bytes, at a multiple of HT_IMAGE_ALIGN; NULL: there is none.  Several threads may call this.  `c` NULL: there are none. */
const void *ht_constants_find(const struct ht_constants *c, const void *p, size_t n);

/* ---- weights.c ---- */

/* Gives every constant of the plan its bytes: packs matrices on up to how->threads threads.  Those that how->constants has stay there. */
enum ht_status ht_program_weights(struct ht_program *p, struct ht_graph *g, struct ht_plan *plan,
	const struct ht_make *how, struct ht_diags *d);

/* ---- text.c ---- */

/* Writes the result of a call to `path` ("-": standard output), or without a path to *out. */
enum ht_status ht_put_bytes(
	struct ht_str s, const char *path, struct ht_diags *d, struct ht_bytes *out);
/* Likewise for the text of a graph.  Its weights file is written beside `path` if the graph
 * needs one.  If there cannot be a file beside `path`, the text has all constants. */
enum ht_status ht_put_text(const struct ht_graph *g, const char *path, struct ht_arena *a,
	struct ht_diags *d, struct ht_bytes *out);

/* ---- module.c ---- */

/* The code generator, loaded on the first call and kept. */
enum ht_status ht_backend_load(const char *path, struct ht_diags *d, const struct ht_backend **out);
/* Likewise the module for remote caches. */
enum ht_status ht_remote_load(struct ht_diags *d, const struct ht_remote_module **out);

#endif
