/* Halftone: a mixed-precision graph compiler.  This is the public interface.  A program needs only
 * this header and the two that it includes, runtime.h and types.h.
 *
 * Errors.  Every call that can fail returns a status (types.h) and reports the reason in `d`,
 * which may be NULL.  A failed allocation is HT_E_ENVIRONMENT.  The library never prints and never
 * ends the process.  It starts only as many threads as the caller asks for.  Every free function
 * accepts NULL.
 *
 * Threads.  An ht_program is immutable and may be shared by threads.  An ht_model or an ht_policy
 * may be shared once no thread changes it any more.  An ht_context and an ht_diags belong to one
 * thread at a time.  Any number of contexts of one program may run at the same time.
 *
 * Versions.  A struct with a member `struct_size` only ever grows at its end.  Fill it with the
 * initialiser that follows it.  Members that an older caller's struct lacks take their defaults. */
#ifndef HALFTONE_H
#define HALFTONE_H

#include <halftone/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ---- */

/* An imported graph and the caller's choice of its inputs and outputs. */
struct ht_model;

struct ht_load_options {
	size_t struct_size;
	const char *signature; /* the one of a SavedModel to use; NULL: the inference signature */
	size_t max_nodes; /* larger graphs are refused with HT_E_LIMIT; 0: the built-in limit */
	/* ht_model_load() ends with HT_E_LIMIT soon after *cancel becomes non-zero. Another thread or a
	 * signal handler may set it. NULL: the call cannot be cancelled. */
	const int32_t *cancel;
};
#define HT_LOAD_OPTIONS_INIT { sizeof(struct ht_load_options), NULL, 0, NULL }

/* Reads a GraphDef (.pb, .pbtxt), MetaGraphDef (.meta), TF.js model (model.json), SavedModel
 * directory or .hir file.  On HT_OK the caller owns *out and frees it with ht_model_free().  On
 * failure *out is NULL.  The files are mapped into memory and must not shrink while the model
 * exists. */
HT_API enum ht_status ht_model_load(const char *path, const struct ht_load_options *opt,
	struct ht_diags *d, struct ht_model **out);
HT_API void ht_model_free(struct ht_model *m);

/* Replaces the outputs by the `n` that are named.  A name is a node or tensor ("prob", "split:1")
 * or a key of the signature ("output_0").  Each output keeps the name that the caller gave.
 * Inputs that no output needs are removed.  The call undoes ht_model_set_inputs(). */
HT_API enum ht_status ht_model_set_outputs(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d);
/* Makes the `n` named tensors feeds: the caller supplies them and the program does not compute
 * them. A name is an input, a key of the signature, or any other tensor of the graph ("conv/Relu",
 * "split:1").  Nodes that are needed only to compute a feed are removed, and so are inputs that
 * only such nodes need.  A feed has the type and shape that the graph gives it;
 * ht_model_set_shape() states the dimensions that the graph leaves open.  The call replaces the
 * feeds of an earlier call.  A tensor that no output needs is ignored with a warning.  HT_E_USAGE:
 * the tensor does not exist or is named twice.  HT_E_UNSUPPORTED: the graph does not say its type. */
HT_API enum ht_status ht_model_set_inputs(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d);
/* Inputs whose default the graph computes (a PlaceholderWithDefault of a tensor that is no constant) are no inputs any more, except the
 * `n` that are named, those whose shape is stated and those that are steady: programs then compute the default, as TensorFlow does of
 * an input that is not fed.  A name is any that ht_model_input_named() accepts; others are ignored.  ht_model_set_outputs() and
 * ht_model_set_inputs() undo the call. */
HT_API enum ht_status ht_model_compute_defaults(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d);
/* Dimensions that ht_model_set_shape() takes beside sizes: that of the graph, and an open one whatever the graph says. */
enum ht_dimension { HT_DIMENSION_KEPT = -1, HT_DIMENSION_OPEN = -2 };
/* Sets the shape of an input.  `input` is any name that ht_model_input_named() accepts. */
HT_API enum ht_status ht_model_set_shape(struct ht_model *m, const char *input, int32_t rank,
	const int64_t *dim, struct ht_diags *d);
/* Sets the first dimension of every input whose first dimension is open, in the graph or in the shape that
 * ht_model_set_shape() states.  Without this call such a dimension stays open: ht_model_set_open(). */
HT_API enum ht_status ht_model_set_batch(struct ht_model *m, int64_t batch, struct ht_diags *d);
/* Declares an input steady: callers may say before a run that its elements have not changed since the last run
 * (ht_context_input_unchanged()).  Results that depend on steady inputs, constants and variables alone, such as packed weights, are
 * then kept in memory of the context from run to run.  `input` is any name that ht_model_input_named() accepts.
 * HT_E_USAGE: there is no such input. */
HT_API enum ht_status ht_model_set_steady(
	struct ht_model *m, const char *input, struct ht_diags *d);
/* Makes programs of the model its float64 variant: all of float16, bfloat16 and float32 becomes float64, constants, values of
 * variables, outputs and results of which ops in TensorFlow are always float32 among them; only inputs keep their types, and are
 * cast.  `type` is "f64", the only one there is.  HT_E_USAGE: another type. */
HT_API enum ht_status ht_model_widen(struct ht_model *m, const char *type, struct ht_diags *d);
/* Keeps every first dimension that is open: a program then runs for any size from `least` to `most` (0: as
 * many as memory can have), which is the same for all these inputs in a run.  Each row has to be computed
 * by itself; ht_compile() refuses other models with HT_E_UNSUPPORTED, and one without such an input with HT_E_USAGE. */
HT_API enum ht_status ht_model_set_open(
	struct ht_model *m, int64_t least, int64_t most, struct ht_diags *d);
/* Likewise for dimension `dimension`, 0 to 7, of every input of which it is open: in a run these have one size.  Where
 * another dimension than the first is open, programs need memory for the most that each can be (0: 512, and 64 for the
 * first), and rows need not be computed by themselves; HT_E_UNSUPPORTED: an op that an open dimension reaches is not
 * supported with it.  Open dimensions that no call states stay open, too, without bounds. */
HT_API enum ht_status ht_model_set_open_dimension(
	struct ht_model *m, int32_t dimension, int64_t least, int64_t most, struct ht_diags *d);

/* Gives a name to the open size of one dimension, 0 to 7, of an input.  A name has up to 64 small letters, digits and _, and begins with
 * a letter.  In a run all open dimensions with this name have one size, from `least` to `most` (0: not stated, as above; without any
 * statement 1 to 512), and other open dimensions of that number another one: so the lengths of a source and of a target are apart, or the
 * numbers of nodes and edges.  Bounds of several calls with one name hold together; of several names of one dimension the last one counts.
 * `input` is any name that ht_model_input_named() accepts.  HT_E_USAGE: there is no such input or dimension, the name is not of that form, a
 * bound is below 0 or above 2147483647, the bounds have no size in common, or there would be more than HT_MOST_NAMED_SIZES names.
 * ht_compile() refuses a name that no open dimension has. */
enum ht_named_sizes { HT_MOST_NAMED_SIZES = 16 };
HT_API enum ht_status ht_model_set_open_size(struct ht_model *m, const char *input,
	int32_t dimension, const char *name, int64_t least, int64_t most, struct ht_diags *d);
/* The name of the open size of a dimension of input `i`, valid as long as the model; NULL: it has none. */
HT_API const char *ht_model_open_size_name(const struct ht_model *m, size_t i, int32_t dimension);

/* The inputs that result from the graph and the calls above: their number, and input `i`.
 * ht_model_input() returns 0 when there is no input `i`. */
HT_API size_t ht_model_inputs(const struct ht_model *m);
HT_API int ht_model_input(const struct ht_model *m, size_t i, struct ht_value_info *out);
/* Finds the index of an input.  `name` is a tensor's name, with or without ":0", or a key of the
 * signature.  Returns 0 when there is no such input. */
HT_API int ht_model_input_named(const struct ht_model *m, const char *name, size_t *i);
/* Returns non-zero when every float constant that the current outputs need is finite.  NaN and
 * infinities in outputs then come from the inputs or from the computation.  Values in a checkpoint
 * are not examined.  Returns 0 also when memory runs out. */
HT_API int ht_model_is_finite(const struct ht_model *m);

enum ht_format {
	HT_FORMAT_TEXT,
	HT_FORMAT_JSON,
	/* These two are for reports only: */
	HT_FORMAT_DOT,      /* Graphviz */
	HT_FORMAT_NODE_DATA /* Model Explorer's node data */
};

/* Describes the model: signatures, inputs, outputs, a histogram of ops, unsupported nodes, the
 * number of multiply-adds, and sizes in bytes. */
HT_API enum ht_status ht_model_inspect(
	const struct ht_model *m, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* Lists what stands between the model and a program: each op that has no kernel, why, and the names of its
 * nodes.  Variables without values count as zeros. */
HT_API enum ht_status ht_model_missing(
	const struct ht_model *m, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);

/* ---- policies ---- */

/* A precision policy: it decides the element type of each tensor. */
struct ht_policy;
/* Makes a policy by its name ("allow_mix_precision_bf16"; ht_list() has all names).  HT_E_USAGE:
 * the name is unknown.  A name that ends in ".json" is the path of a report (ht_report_print()),
 * and the policy repeats the decisions of that report.  With NULL the options precision_mode,
 * precision_mode_v2 or graph_run_mode choose the policy. */
HT_API enum ht_status ht_policy_new(const char *name, struct ht_diags *d, struct ht_policy **out);
/* Likewise by the text of a report, `n` bytes, which are copied.  Messages call it `name`. */
HT_API enum ht_status ht_policy_parse(
	const char *name, const char *text, size_t n, struct ht_diags *d, struct ht_policy **out);
/* Sets an option (see ht_option()), for example "profile" to "cpu".  Files that the value names
 * are read by this call.  Combinations of options are checked when the policy is used, and so are
 * the names of nodes and ops in options. */
HT_API enum ht_status ht_policy_set(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d);
/* Adds a calibration sample for the option `budget`: `n` arrays, where name[i] is the input that
 * a[i] belongs to.  The arrays are copied.  Messages call the sample `where`, or by its number
 * when `where` is NULL.  Samples replace the random inputs that are used otherwise. */
HT_API enum ht_status ht_policy_add_sample(struct ht_policy *p, const char *where,
	const char *const *name, const struct ht_array *a, size_t n, struct ht_diags *d);
/* Checks the combination of the options that were set.  Every call that uses the policy makes the
 * same check. */
HT_API enum ht_status ht_policy_validate(const struct ht_policy *p, struct ht_diags *d);
/* The name of the policy that takes effect. */
HT_API const char *ht_policy_name(const struct ht_policy *p);
HT_API void ht_policy_free(struct ht_policy *p);

enum ht_option_class {
	HT_OPTION_HONOURED,
	HT_OPTION_ACCEPTED, /* known, but without effect here; a warning says why */
	HT_OPTION_REFUSED   /* known, but not supported here: HT_E_UNSUPPORTED */
};
struct ht_option_info {
	const char *name;     /* "object.member"; "atc.name": only on the command line of atc */
	const char *values;   /* "a|b|c", "low..high", "low..", or the kind of text expected */
	const char *fallback; /* the default; "": none */
	const char *help;     /* for HT_OPTION_ACCEPTED and HT_OPTION_REFUSED: the reason */
	const char *vendor;   /* the vendor's behaviour where it differs; else "" */
	enum ht_option_class option_class;
};
/* Describes option `i`.  Returns 0 when there is no option `i`. */
HT_API int ht_option(size_t i, struct ht_option_info *out);
/* Finds an option by its name, by the last part of its name, or by an alias.  '-' may stand for
 * '_'. Returns 0 when there is no such option. */
HT_API int ht_option_named(const char *name, struct ht_option_info *out);
/* Checks that the option can have this value.  HT_E_USAGE: there is no such option or value.
 * HT_E_UNSUPPORTED: the option is refused.  A refused option may still be set to its default. */
HT_API enum ht_status ht_option_check(const char *name, const char *value, struct ht_diags *d);
/* The status of an option in the vendor's manual.  Setting an option that is not current adds a
 * note, once for each policy. */
enum ht_option_standing {
	HT_OPTION_CURRENT,
	HT_OPTION_DEPRECATED,
	HT_OPTION_EXPERIMENTAL /* the vendor may change it */
};
/* Returns the standing of an option, which is named as for ht_option_named().  *instead becomes the
 * option that replaces a deprecated one, or "". */
HT_API enum ht_option_standing ht_option_standing(const char *name, const char **instead);

/* A setting and the place where it was made. */
struct ht_stated {
	const char *name, *value;
	const char *path; /* the run configuration; NULL: the command line or a program */
	long line;        /* in that file; 0: unknown */
};
/* Checks `n` settings; of several with one name the last counts.  The call first checks that each
 * value is legal and that the combination obeys the vendor's rules (docs/options.md): a violation
 * is HT_E_USAGE, or HT_E_INPUT for a setting from a file.  It then checks that each setting is
 * supported: HT_E_UNSUPPORTED.  It reads the environment variable HCCL_EXEC_TIMEOUT.  Warnings are
 * left to the policy. */
HT_API enum ht_status ht_settings_check(const struct ht_stated *s, size_t n, struct ht_diags *d);

/* A run configuration: the arguments of NPURunConfig as one JSON object.  An argument that is an
 * object is a nested JSON object; an argument that is not set is null. */
struct ht_config;
struct ht_setting {
	const char *name; /* as in ht_option_info */
	const char *value;
	long line; /* in the file; 0: the run configuration only implies the setting */
};
/* Reads and checks a run configuration.  HT_E_INPUT, with the line: the file is not strict JSON, a
 * name is unknown (only a warning when `lenient` is non-zero), a name is stated twice, a value has
 * the wrong type, or settings conflict.  HT_E_UNSUPPORTED: an option is refused. */
HT_API enum ht_status ht_config_read(
	const char *path, int lenient, struct ht_diags *d, struct ht_config **out);
/* Like ht_config_read(), but checks each value only by itself.  Use it when other settings are
 * added or override these, and check the result with ht_settings_check(). */
HT_API enum ht_status ht_config_parse(
	const char *path, int lenient, struct ht_diags *d, struct ht_config **out);
/* Gives setting `i`, in the order of the file.  Returns 0 when there is no setting `i`.  The
 * strings live as long as the configuration. */
HT_API int ht_config_get(const struct ht_config *c, size_t i, struct ht_setting *out);
HT_API void ht_config_free(struct ht_config *c);

/* ---- compiling ---- */

enum ht_tee_what { HT_TEE_NOTHING, HT_TEE_RESULTS, HT_TEE_CONSTANTS };
struct ht_compile_options {
	size_t struct_size;
	const struct ht_policy *policy; /* NULL: keep every type */
	const char *target;             /* "host", "x86-64-v3", …; NULL: host */
	int threads;                    /* number that the compiler may use; 0: 1 */
	const char *backend; /* path of the code generator's module; NULL: the library finds it */
	/* The method of 3 x 3 convolutions with stride 1.  "auto" (NULL): the one with the lowest
	 * estimated time.  "direct": sums over the taps.  "winograd", "winograd-2x2": Winograd's method
	 * in tiles of 4 x 4 or 2 x 2 results wherever it is possible.  "winograd-2x2" rounds the
	 * transformed factors of bfloat16 convolutions to bfloat16 where the target has dot products of
	 * pairs. */
	const char *conv_method;
	/* Non-zero: the program counts values for ht_context_numerics().  It fuses nothing and is
	 * slower.  Its results differ only in that each op rounds its own result and that sums may have
	 * another order. */
	int numerics;
	/* The method of three kinds of blocks: a convolution followed by a depthwise and a 1 x 1
	 * convolution; squeeze and excitation after its mean, with the 1 x 1 convolution that reads the
	 * scaled image; the two products of attention with the Softmax between them.  "auto" (NULL):
	 * the method with the lower estimated time.  "kernels": one kernel for each part.  "rows": one
	 * kernel that works row by row, wherever that is possible.  All give the same bits. */
	const char *block_method;
	/* Non-zero: an artefact of the program names the model's files with their SHA-256.  The compiler
	 * then reads those files; with a cache it always does. */
	int sources;
	/* The method of a batch whose parts do not depend on each other.  "whole": each kernel computes
	 * the whole batch.  "parts": all kernels run for one part after the other, and threads share the
	 * parts, wherever that is possible.  "auto" (NULL): the method with the lower estimated time.
	 * With "parts" each part has, bit for bit, the results of a program for that part alone. */
	const char *batch_method;
	/* For ht_compile(), which calls it in the caller's thread when a phase begins ("passes",
	 * "lower", "weights", "code") and while code is generated: `done` of `total` parts of the phase are
	 * done.  NULL: never. */
	void (*progress)(void *arg, const char *phase, size_t done, size_t total);
	void *progress_arg;
	/* ht_compile() ends with HT_E_LIMIT soon after *cancel becomes non-zero: before the next kernel, or
	 * at the next allocation.  Another thread or a signal handler may set it.  NULL: the call cannot be cancelled. */
	const int32_t *cancel;
	/* HT_TEE_RESULTS: the program can show every tensor that it computes (ht_context_see()).  Its kernels and results are
	 * those of a program without, bit for bit; tensors inside kernels are computed once more, beside them.
	 * HT_TEE_CONSTANTS: likewise, and constants that are operands, whose bytes the program then keeps. */
	int64_t tee;
	/* Non-zero: the program keeps its tile programs as text, and which of their lines its machine code is of, for
	 * ht_program_announce().  The code is the same.  Such a program is not taken from a cache as a whole, only its kernels are. */
	int64_t lines;
	/* Non-zero: the program records which of its kernels compute each node of the model, for ht_context_divide().  The cache has
	 * no such programs, only their kernels. */
	int64_t nodes;
};
#define HT_COMPILE_OPTIONS_INIT                                                                    \
	{ sizeof(struct ht_compile_options), NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, NULL,    \
		NULL, NULL, HT_TEE_NOTHING, 0, 0 }

/* Compiles a model.  On HT_OK the caller owns *out, which does not need the model any more. */
HT_API enum ht_status ht_compile(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_diags *d, struct ht_program **out);
/* Adds a note to `d`, behind an error of too little memory: the node whose tensor is the largest piece of the memory of a run, its bytes,
 * and the largest values of the sizes of inputs on which these bytes depend or, where that is not known, of all. */
HT_API void ht_program_tell_memory(const struct ht_program *p, struct ht_diags *d);
/* Tools that see addresses of machine code, and may be told which kernels are there: a combination. */
enum ht_announce {
	HT_ANNOUNCE_JITDUMP =
		1, /* perf: appends to DIR/jit-PID.dump, for `perf record -k 1` and `perf inject --jit` */
	HT_ANNOUNCE_PERF_MAP =
		2, /* perf: appends to /tmp/perf-PID.map; names without lines, for `perf report` alone */
	HT_ANNOUNCE_GDB = 4 /* gdb: its JIT interface, until the program is freed */
};
/* Tells them the names of the program's kernels, "OP:NODE", or "OP:NODE+N" where N other nodes have the same code; and of a program that
 * was compiled with `lines` the lines of its tile programs, whose text goes to DIR/kernels-PID-N.tile, for HT_ANNOUNCE_GDB
 * alone to DIR/kernels-N.tile, where N counts such calls of the process.  DIR is made where there is none; it may be NULL without HT_ANNOUNCE_JITDUMP: then there are no lines.  Call it before the runs.
 * HT_E_ENVIRONMENT: a file cannot be written; the program can be run all the same.  Any thread may call it. */
HT_API enum ht_status ht_program_announce(
	const struct ht_program *p, int to, const char *dir, struct ht_diags *d);
/* Writes a program that ht_compile() made as an artefact (docs/artefact.md).  The file appears
 * complete or not at all.  Equal programs give equal bytes. */
HT_API enum ht_status ht_program_save(
	const struct ht_program *p, const char *path, struct ht_diags *d);

/* An artefact may hold several programs of one model, its variants: for different targets,
 * policies and shapes. */
struct ht_save_options {
	size_t struct_size;
	/* Where weights of a page or more are stored.  0: in the artefact.  1: each in a file of its own
	 * beside the artefact, named by its SHA-256, so that artefacts can share it.  2: all in one
	 * file beside the artefact. */
	int external_weight;
	const char *sign_key; /* PEM file of the Ed25519 key that signs it; NULL: unsigned */
};
#define HT_SAVE_OPTIONS_INIT { sizeof(struct ht_save_options), 0, NULL }
struct ht_artefact_writer;
HT_API enum ht_status ht_artefact_writer_new(
	const struct ht_save_options *opt, struct ht_diags *d, struct ht_artefact_writer **out);
HT_API void ht_artefact_writer_free(struct ht_artefact_writer *w);
/* Adds a program, which must outlive the writer.  HT_E_USAGE: the writer already has a variant
 * with the same policy, target and shapes. */
HT_API enum ht_status ht_artefact_writer_add(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_diags *d);
/* Like ht_artefact_writer_add(), but the writer owns the program from now on, also when the call
 * fails. */
HT_API enum ht_status ht_artefact_writer_take(
	struct ht_artefact_writer *w, struct ht_program *p, struct ht_diags *d);
/* Several programs over the same variables in one artefact, its entries (docs/artefact.md): adds a variant of entry `entry`, such as "step"
 * or "evaluate".  The program is one that ht_session_add() made, or another that changes variables; it must outlive the writer.
 * ht_artefact_options.entry names what a load takes.  HT_E_USAGE: the name is empty, or the entry has a variant with the same policy,
 * target and shapes. */
HT_API enum ht_status ht_artefact_writer_add_entry(struct ht_artefact_writer *w, const char *entry,
	const struct ht_program *p, struct ht_diags *d);
/* Adds the values that the session's variables have, with which sessions and contexts of the artefact begin, and its loss scale.
 * The session must outlive the writer, and its values must not change until the artefact is written.  HT_E_USAGE: the writer has values
 * of a session already. */
HT_API enum ht_status ht_artefact_writer_add_values(
	struct ht_artefact_writer *w, const struct ht_session *s, struct ht_diags *d);
/* Frees the programs that the writer owns.  Call it between the compilations of many programs, so
 * that memory never holds the weights of all.  Weights that only these programs have are moved to
 * an unnamed file beside `path`, the path of the artefact to be written ("-": in $TMPDIR). */
HT_API enum ht_status ht_artefact_writer_spill(
	struct ht_artefact_writer *w, const char *path, struct ht_diags *d);
HT_API enum ht_status ht_artefact_writer_write(
	struct ht_artefact_writer *w, const char *path, struct ht_diags *d);
/* Lists the differences between two artefacts: members of the manifests, variants, code of kernels,
 * weights, signatures.  HT_E_VERDICT: there is a difference. */
HT_API enum ht_status ht_artefact_diff(const char *a, const char *b,
	const struct ht_artefact_options *opt, enum ht_format format, struct ht_diags *d,
	struct ht_bytes *out);
/* Signs the artefact `path`, which must be undamaged, with `key` (a PEM file) and writes it to
 * `to`, which may be the same file. */
HT_API enum ht_status ht_artefact_sign(
	const char *path, const char *key, const char *to, struct ht_diags *d);

/* ---- ahead of time ---- */

struct ht_aot_options {
	size_t struct_size;
	const char *name;     /* of the net and its files; NULL: "net" */
	const char *prefix;   /* of its C names; NULL: the name, with '_' for invalid characters */
	int external_weights; /* non-zero: weights are in a file, not in the object */
	int keep_subnormals;  /* as in struct ht_context_options */
	/* Of each loop; a run that needs more returns NET_E_ITERATIONS.  0: no limit. */
	uint64_t max_iterations;
};
#define HT_AOT_OPTIONS_INIT { sizeof(struct ht_aot_options), NULL, NULL, 0, 0, 0 }
/* Writes a net to the folder `dir`: files with which C and C++ programs run a model without this
 * library (docs/aot.md).  The `n` programs are of one model, each for a different target.  Of
 * targets that run on the same machines the first is used, with a warning.  *out lists the files
 * and their sizes. HT_E_UNSUPPORTED: the library itself computes some nodes of the model; messages
 * name them. */
HT_API enum ht_status ht_aot_write(const struct ht_program *const *p, size_t n,
	const struct ht_aot_options *opt, const char *dir, enum ht_format format,
	struct ht_diags *d, struct ht_bytes *out);

/* Loads the programs for a net from an artefact: *n of them into the array `out`, which has space
 * for `room`.  Each is for a different target, and the caller owns them.  The policy and the
 * shapes, of which a net has one each, are chosen as by ht_program_load().  A warning names
 * variants that match the request but are left out.  With `targets` 0 all targets are loaded.
 * This machine need not be able to run any of them.  opt->target is not read. */
HT_API enum ht_status ht_aot_load(const char *path, const struct ht_artefact_options *opt,
	const char *const *target, size_t targets, struct ht_diags *d, struct ht_program **out,
	size_t room, size_t *n);

/* ---- looking inside ---- */

/* Divides each later run of a recording into the parts of a training step.  The forward pass begins with the first kernel of node
 * `forward` of the model (NULL: with the first kernel of the run).  The backward pass ends with the last kernel of node `backward`
 * (NULL: with the last kernel that changes no variable).  A node that shares a kernel with other nodes begins and ends with that
 * kernel.  Call this function after ht_context_record().  HT_E_USAGE: nothing is recorded.  HT_E_INPUT: the model has no such
 * node, or no kernel computes it.  Artefacts, and programs compiled without `nodes`, only know the nodes that kernels are named after. */
HT_API enum ht_status ht_context_divide(
	struct ht_context *c, const char *forward, const char *backward, struct ht_diags *d);
/* A run that reached the beginning of the forward pass and the end of the backward pass.  Times are nanoseconds of CLOCK_MONOTONIC. */
struct ht_iteration {
	uint64_t run;              /* number of the run since ht_context_record(), from 0 */
	int64_t before;            /* end of the previous run; 0: there is none */
	int64_t forward, backward; /* beginning of the forward pass, and end of the backward pass */
	int64_t end;               /* end of the run */
};
/* Sums over all iterations of a recording. */
struct ht_iterations {
	uint64_t n;
	int64_t ns; /* whole iterations: from `before` to `end`, in the first run from `forward` to `end` */
	int64_t forward_ns; /* both passes: from `forward` to `backward` */
	int64_t refresh_ns; /* changes of variables: from `backward` to `end` */
	uint64_t gaps;      /* number of iterations that have a previous run */
	int64_t gap_ns;     /* time between runs: from `before` to `forward` */
	const char *forward,
		*backward; /* nodes that the kernels are named after; NULL: found automatically */
};
/* Fills *out with sums over all iterations. If ht_context_divide() was not called, they are 0. */
HT_API void ht_context_iterations(const struct ht_context *c, struct ht_iterations *out);
/* Fills *out with the i-th of the last 4096 iterations, of which 0 is the oldest, and returns 1; 0: there are not so many. */
HT_API int ht_context_iteration(const struct ht_context *c, size_t i, struct ht_iteration *out);

/* The decisions of a policy: element types, casts and reasons.  Belongs to one thread at a time. */
struct ht_report;
/* Applies opt->policy to the model; both must outlive the report.  The report shows the methods
 * that ht_compile() would choose: for the target of the policy's cost table, if it has one. */
HT_API enum ht_status ht_report_new(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_diags *d, struct ht_report **out);
/* Reads a report that was printed as HT_FORMAT_JSON, for comparison. */
HT_API enum ht_status ht_report_read(const char *path, struct ht_diags *d, struct ht_report **out);
HT_API void ht_report_free(struct ht_report *r);
/* Prints a report that ht_report_new() made.  When `node` is not NULL, the text form covers only
 * that node. */
HT_API enum ht_status ht_report_print(struct ht_report *r, enum ht_format format, const char *node,
	struct ht_diags *d, struct ht_bytes *out);
/* Gives, for each unit that has a dtype other than `dtype` (HT_F32, HT_F16 or HT_BF16), the first
 * reason against `dtype`.  When `node` is not NULL, only the units of that node are listed.  With
 * the policy `optimal` and its option `priced_node` the cost of that choice is listed too. */
HT_API enum ht_status ht_report_why_not(struct ht_report *r, enum ht_dtype dtype, const char *node,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* Lists the units and casts that differ between two reports, with the reasons in both. */
HT_API enum ht_status ht_report_diff(struct ht_report *before, struct ht_report *after,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* Checks `after` against `before`.  `conditions` is a list with commas of "new-cast",
 * "lower-precision", "cost+5%".  HT_E_VERDICT: `after` is worse by one of them; each is an error. */
HT_API enum ht_status ht_report_check(struct ht_report *before, struct ht_report *after,
	const char *conditions, struct ht_diags *d);
/* Writes the graph, with the casts of the policy, in TensorFlow's ops.  The suffix of `path`
 * chooses the format: .pbtxt, .hir, .json (a TF.js graph model with its shards beside it), else a
 * GraphDef ("-": to standard output).  Files appear complete or not at all.  Open dimensions stay
 * open.  Without a policy the graph is written as imported, with the ops of other tools replaced
 * by TensorFlow's.  HT_E_USAGE: `path` is a file of the model, or its suffix belongs to a format
 * that cannot be written. */
HT_API enum ht_status ht_convert(const struct ht_model *m, const struct ht_policy *policy,
	const char *path, struct ht_diags *d);
/* Runs passes over the graph and gives its text form.  `pipeline` is a list of passes with
 * commas.  When `stop_after` is not NULL, the pipeline ends after that pass.  The text goes to
 * *out, or to the file `path` when that is not NULL ("-": standard output); large constants go to
 * a .weights file beside it. */
HT_API enum ht_status ht_rewrite(const struct ht_model *m, const char *pipeline,
	const char *stop_after, const struct ht_compile_options *opt, const char *path,
	struct ht_diags *d, struct ht_bytes *out);
/* Gives an intermediate form of the compilation.  `form` is "hir" (the graph after the pass
 * `stop_after`), "kernels" (tile programs), "llvm", "asm", or "obj" (an archive with one object
 * file for each kernel).  `path` is as in ht_rewrite(). */
HT_API enum ht_status ht_emit_code(const struct ht_model *m, const struct ht_compile_options *opt,
	const char *form, const char *stop_after, const char *path, struct ht_diags *d,
	struct ht_bytes *out);
/* Lists everything of one kind: "formats", "fusions", "ops", "targets", "policies", "profiles", "passes" or
 * "options". */
HT_API enum ht_status ht_list(
	const char *what, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* Describes the build of the library as JSON: versions and ids of the library, its code generator,
 * LLVM, artefacts and cache entries, and the targets with their features.  It loads no module. */
HT_API enum ht_status ht_build_info(struct ht_diags *d, struct ht_bytes *out);
/* Measures the rates of this machine that decide between kernels, in at most half a second, and writes them as text
 * that option "rates" of a policy reads (docs/optimal.md).  Any thread may call it; others that compute meanwhile
 * disturb it little, since all rates are multiples of the time of a float32 multiply-add. */
HT_API enum ht_status ht_measure_rates(struct ht_diags *d, struct ht_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
