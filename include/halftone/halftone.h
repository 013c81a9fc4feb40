/* Halftone: a mixed-precision graph compiler.  The public interface; this header, with runtime.h and
 * types.h, which it includes, is all that a program needs.
 *
 * Every call that can fail returns a status (types.h) and explains itself in `diags`, which may be
 * NULL.  The library never prints, never ends the process, and starts no thread that it was not
 * given a count for; memory that cannot be had is HT_E_ENVIRONMENT.  Free functions accept NULL.
 *
 * Threads.  An ht_program is immutable and may be shared.  An ht_model may be shared once nothing
 * sets anything on it any more; likewise an ht_policy.  An ht_context and an ht_diags belong to one
 * thread at a time; any number of contexts of one program may run at once.
 *
 * Structs with `struct_size` grow at their end; fill them with the initialiser beside them.  Members
 * that an older program's struct does not have take their defaults. */
#ifndef HALFTONE_H
#define HALFTONE_H

#include <halftone/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ---- */

/* A graph as imported, with the choice of what to feed and to ask for. */
struct ht_model;

struct ht_load_options {
	size_t struct_size;
	const char *signature; /* of a SavedModel; NULL: the inference signature */
	size_t max_nodes;      /* refuse larger graphs with HT_E_LIMIT; 0: the built-in limit */
};
#define HT_LOAD_OPTIONS_INIT { sizeof(struct ht_load_options), NULL, 0 }

/* Reads a GraphDef (.pb, .pbtxt), MetaGraphDef (.meta), TF.js model (model.json), SavedModel
 * directory or .hir file.  HT_OK: *out is the caller's.  Otherwise *out is NULL.
 * Files are mapped: one that shrinks meanwhile is the caller's risk. */
HT_API enum ht_status ht_model_load(const char *path, const struct ht_load_options *opt,
	struct ht_diags *d, struct ht_model **out);
HT_API void ht_model_free(struct ht_model *m);

/* Replaces the outputs: names of nodes or tensors ("prob", "split:1"), or keys of the signature
 * ("output_0").  Outputs are called as they are asked for.  Inputs that they do not need are inputs no
 * more.  Undoes ht_model_set_inputs(). */
HT_API enum ht_status ht_model_set_outputs(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d);
/* Feeds tensors instead of computing them: names of inputs, keys of the signature, or any other
 * tensors of the graph ("conv/Relu", "split:1"), which become inputs.  What lies only behind them is
 * not computed, and inputs that only that needs are inputs no more.  Their types and shapes are those
 * that the graph gives them; ht_model_set_shape() states what it leaves open.  Replaces what an
 * earlier call named.  A tensor that no output needs is left out, with a warning.  HT_E_USAGE:
 * there is no such tensor, or it is named twice; HT_E_UNSUPPORTED: nothing says its type. */
HT_API enum ht_status ht_model_set_inputs(
	struct ht_model *m, const char *const *name, size_t n, struct ht_diags *d);
/* States the shape of an input, by any name of ht_model_input_named().  A dimension of -1 stays as the graph says. */
HT_API enum ht_status ht_model_set_shape(struct ht_model *m, const char *input, int32_t rank,
	const int64_t *dim, struct ht_diags *d);
/* States the first dimension of all inputs whose first dimension is open.  Without it such a
 * dimension counts as 1, and a note says so. */
HT_API enum ht_status ht_model_set_batch(struct ht_model *m, int64_t batch, struct ht_diags *d);

/* As the graph and the settings above say; false: there is no `i`. */
HT_API size_t ht_model_inputs(const struct ht_model *m);
HT_API int ht_model_input(const struct ht_model *m, size_t i, struct ht_value_info *out);
/* The number of the input that `name` means: a tensor's name, with or without ":0", or a key of the
 * signature.  False: there is none. */
HT_API int ht_model_input_named(const struct ht_model *m, const char *name, size_t *i);
/* Whether all float constants of the graph that the outputs in force need are finite: then NaN and
 * infinities in outputs come from the inputs or from computing.  Values of a checkpoint are not looked
 * at.  False also where there is no memory to find out. */
HT_API int ht_model_is_finite(const struct ht_model *m);

enum ht_format {
	HT_FORMAT_TEXT,
	HT_FORMAT_JSON,
	/* Of reports: */
	HT_FORMAT_DOT,      /* Graphviz */
	HT_FORMAT_NODE_DATA /* Model Explorer's node data */
};

/* Signatures, inputs, outputs, op histogram, what is unsupported, multiply-adds, bytes. */
HT_API enum ht_status ht_model_inspect(
	const struct ht_model *m, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);

/* ---- policies ---- */

/* What decides the element type of each tensor. */
struct ht_policy;
/* By name ("allow_mix_precision_bf16", see ht_list); a policy not known is HT_E_USAGE.  A name that
 * ends in ".json" is the path of a report (ht_report_print): the policy decides as it says.  NULL:
 * the options precision_mode, precision_mode_v2 or graph_run_mode tell. */
HT_API enum ht_status ht_policy_new(const char *name, struct ht_diags *d, struct ht_policy **out);
/* Sets an option (ht_option): "profile" = "cpu".  Files are read now; whether options go together,
 * and whether the graph has what they name, shows when the policy is used. */
HT_API enum ht_status ht_policy_set(
	struct ht_policy *p, const char *key, const char *value, struct ht_diags *d);
/* A calibration sample for the option budget: `n` arrays, `name` each an input.  Copies them.  `where`:
 * what to call the sample in messages; NULL: its number.  Samples take the place of random ones. */
HT_API enum ht_status ht_policy_add_sample(struct ht_policy *p, const char *where,
	const char *const *name, const struct ht_array *a, size_t n, struct ht_diags *d);
/* Whether what was set goes together.  Whatever uses the policy asks this, too. */
HT_API enum ht_status ht_policy_validate(const struct ht_policy *p, struct ht_diags *d);
/* The policy in force. */
HT_API const char *ht_policy_name(const struct ht_policy *p);
HT_API void ht_policy_free(struct ht_policy *p);

enum ht_option_class {
	HT_OPTION_HONOURED,
	HT_OPTION_ACCEPTED, /* known, without effect here; a warning says why */
	HT_OPTION_REFUSED   /* known, not to be had here: HT_E_UNSUPPORTED */
};
struct ht_option_info {
	const char *name;     /* "object.member"; "atc.name": of the command line of atc alone */
	const char *values;   /* "a|b|c", "low..high", "low.." or what kind of text */
	const char *fallback; /* "": none */
	const char *help;     /* of the last two classes: the reason */
	const char *vendor;   /* what the vendor's does, where they differ; "" */
	enum ht_option_class option_class;
};
/* False: there is no option `i`. */
HT_API int ht_option(size_t i, struct ht_option_info *out);
/* By its name, the last part of it, or an alias; '-' may stand for '_'.  False: there is none. */
HT_API int ht_option_named(const char *name, struct ht_option_info *out);
/* Whether the option can be set so: HT_E_USAGE when there is no such option or value,
 * HT_E_UNSUPPORTED when it is refused.  A refused option may be stated with its default. */
HT_API enum ht_status ht_option_check(const char *name, const char *value, struct ht_diags *d);
/* What the vendor's manual says of the future of an option.  Setting one that is not current says so
 * in a note, once for a policy. */
enum ht_option_standing {
	HT_OPTION_CURRENT,
	HT_OPTION_DEPRECATED,
	HT_OPTION_EXPERIMENTAL /* it may change */
};
/* Of the option with this name, as in ht_option_named().  `*instead`: the option that the manual has in
 * place of a deprecated one; "": none. */
HT_API enum ht_option_standing ht_option_standing(const char *name, const char **instead);

/* A setting and where it stands. */
struct ht_stated {
	const char *name, *value;
	const char *path; /* of a run configuration; NULL: the command line or a program */
	long line;        /* of it; 0: unknown */
};
/* Whether settings, of which the last one of a name counts, are legal, go together by the vendor's
 * rules (docs/options.md) and can be had, in this order: HT_E_USAGE, or HT_E_INPUT where the setting is
 * of a file, then HT_E_UNSUPPORTED.  Reads the environment variable HCCL_EXEC_TIMEOUT.  What only
 * deserves a warning is left to the policy. */
HT_API enum ht_status ht_settings_check(const struct ht_stated *s, size_t n, struct ht_diags *d);

/* A run configuration: the arguments of NPURunConfig as one JSON object, with nested ones for its
 * objects, null for what is not set. */
struct ht_config;
struct ht_setting {
	const char *name; /* as ht_option_info has it */
	const char *value;
	long line; /* of the file; 0: not in it, but what a run configuration implies */
};
/* HT_E_INPUT with the line: what is no strict JSON, an unknown name (`lenient`: warned of), a name
 * stated twice, a value of the wrong kind, settings that do not go together; HT_E_UNSUPPORTED: what is
 * refused. */
HT_API enum ht_status ht_config_read(
	const char *path, int lenient, struct ht_diags *d, struct ht_config **out);
/* As ht_config_read(), but that only the values by themselves are checked: for settings that others
 * join or take the place of, before ht_settings_check(). */
HT_API enum ht_status ht_config_parse(
	const char *path, int lenient, struct ht_diags *d, struct ht_config **out);
/* In the order of the file; false: there is no setting `i`.  Views of the configuration. */
HT_API int ht_config_get(const struct ht_config *c, size_t i, struct ht_setting *out);
HT_API void ht_config_free(struct ht_config *c);

/* ---- compiling ---- */

struct ht_compile_options {
	size_t struct_size;
	const struct ht_policy *policy; /* NULL: keep every type */
	const char *target;             /* "host", "x86-64-v3", …; NULL: host */
	int threads;                    /* that the compiler may use; 0: 1 */
	const char *backend; /* path of the code generator's module; NULL: found by itself */
	/* How 3 x 3 convolutions at stride 1 compute: "auto" (NULL), whichever is estimated to be
	 * fastest; "direct", by summing taps; "winograd" and "winograd-2x2", by Winograd's method in
	 * tiles of 4 x 4 and 2 x 2 wherever that is possible.  The latter rounds the transformed
	 * factors of bfloat16 convolutions to bfloat16 where the target multiplies it in pairs. */
	const char *conv_method;
	/* Non-zero: for ht_context_numerics().  Slower, as nothing is fused; the same results, but
	 * that each op rounds its own and that sums may be in another order. */
	int numerics;
	/* How a convolution, a depthwise one behind it and a 1 x 1 one behind that compute; how squeeze
	 * and excitation behind its mean, with the 1 x 1 convolution of what it scales; and how the two
	 * products of attention and the Softmax between them: "auto" (NULL), whichever is estimated to
	 * be faster; "kernels", each by one of its own; "rows", row by row in one kernel, wherever
	 * that is possible.  The same bits. */
	const char *block_method;
	/* Non-zero: an artefact of the program names the model's files by their SHA-256.  Takes reading
	 * them; with a cache it is done anyhow. */
	int sources;
	/* How a batch of which no result needs another's part computes: "auto" (NULL), whichever is
	 * estimated to be faster; "whole", each kernel all of it; "parts", all kernels one part after the
	 * other, wherever that is possible, so that threads take parts.  The results of each part are
	 * those of a program for it alone, bit for bit. */
	const char *batch_method;
};
#define HT_COMPILE_OPTIONS_INIT                                                                    \
	{ sizeof(struct ht_compile_options), NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL }

HT_API enum ht_status ht_compile(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_diags *d, struct ht_program **out);
/* A program as a file (docs/artefact.md): written whole or not at all, by ht_compile()'s programs.
 * Equal programs give equal bytes. */
HT_API enum ht_status ht_program_save(
	const struct ht_program *p, const char *path, struct ht_diags *d);

/* Several programs of one model as one file: variants, for other targets, policies and shapes. */
struct ht_save_options {
	size_t struct_size;
	/* 1: weights of a page or more lie in files beside the artefact, each in one of its own, named
	 * by its SHA-256, so that artefacts share them; 2: all in one file; 0: in the artefact. */
	int external_weight;
	const char *sign_key; /* PEM file of the Ed25519 key to sign it with; NULL: unsigned */
};
#define HT_SAVE_OPTIONS_INIT { sizeof(struct ht_save_options), 0, NULL }
struct ht_artefact_writer;
HT_API enum ht_status ht_artefact_writer_new(
	const struct ht_save_options *opt, struct ht_diags *d, struct ht_artefact_writer **out);
HT_API void ht_artefact_writer_free(struct ht_artefact_writer *w);
/* The program has to outlive the writer.  HT_E_USAGE: there is a variant of its policy, target and
 * shapes. */
HT_API enum ht_status ht_artefact_writer_add(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_diags *d);
/* Likewise of a program that is the writer's from now on, whatever comes of it. */
HT_API enum ht_status ht_artefact_writer_take(
	struct ht_artefact_writer *w, struct ht_program *p, struct ht_diags *d);
/* To be called before the next of many programs is compiled: frees those that were taken, so that the
 * weights of all are never in memory at once.  What only they have goes to a file without a name
 * beside `path`, where the artefact is to be written ("-": in $TMPDIR). */
HT_API enum ht_status ht_artefact_writer_spill(
	struct ht_artefact_writer *w, const char *path, struct ht_diags *d);
HT_API enum ht_status ht_artefact_writer_write(
	struct ht_artefact_writer *w, const char *path, struct ht_diags *d);
/* What differs between two artefacts: members of the manifests, variants, the code of each kernel,
 * weights, signatures.  HT_E_VERDICT when anything does. */
HT_API enum ht_status ht_artefact_diff(const char *a, const char *b,
	const struct ht_artefact_options *opt, enum ht_format format, struct ht_diags *d,
	struct ht_bytes *out);
/* Signs an artefact, which has to be whole, into another file or the same one. */
HT_API enum ht_status ht_artefact_sign(
	const char *path, const char *key, const char *to, struct ht_diags *d);

/* ---- ahead of time ---- */

struct ht_aot_options {
	size_t struct_size;
	const char *name;     /* of the net and its files; NULL: "net" */
	const char *prefix;   /* of its C names; NULL: the name, with '_' for what C has not */
	int external_weights; /* non-zero: in a file, instead of inside the object */
	int keep_subnormals;  /* as of struct ht_context_options */
};
#define HT_AOT_OPTIONS_INIT { sizeof(struct ht_aot_options), NULL, NULL, 0, 0 }
/* Writes programs of one model, each for another target, as files with which C and C++
 * programs run it without this library (docs/aot.md), to the folder `dir`.  Of targets that run on the
 * same machines the first counts, with a warning.  HT_E_UNSUPPORTED: the
 * model has nodes that are computed by the library; messages name them.  *out: the files and their
 * sizes. */
HT_API enum ht_status ht_aot_write(const struct ht_program *const *p, size_t n,
	const struct ht_aot_options *opt, const char *dir, enum ht_format format,
	struct ht_diags *d, struct ht_bytes *out);

/* Programs for a net from an artefact, to `out`, which has `room`: the caller's, *n of them, each for
 * another target.  Policy and shapes are chosen as by ht_program_load(); a net has one of each, and
 * variants that are left out although nothing that is asked for excludes them are named in a warning.
 * `targets` 0: for all targets, on none of which this machine has to run; opt->target is not read. */
HT_API enum ht_status ht_aot_load(const char *path, const struct ht_artefact_options *opt,
	const char *const *target, size_t targets, struct ht_diags *d, struct ht_program **out,
	size_t room, size_t *n);

/* ---- looking inside ---- */

/* What a policy decides: types, casts, and why.  Belongs to one thread at a time. */
struct ht_report;
/* Decides; model and opt->policy have to outlive the report.  Methods are those that ht_compile() would
 * choose; where the policy has a cost table's target, for that. */
HT_API enum ht_status ht_report_new(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_diags *d, struct ht_report **out);
/* Reads what HT_FORMAT_JSON wrote, to compare with. */
HT_API enum ht_status ht_report_read(const char *path, struct ht_diags *d, struct ht_report **out);
HT_API void ht_report_free(struct ht_report *r);
/* Of a report that was made, not read.  `node`, not NULL: as text only about that node. */
HT_API enum ht_status ht_report_print(struct ht_report *r, enum ht_format format, const char *node,
	struct ht_diags *d, struct ht_bytes *out);
/* What stood first against HT_F32, HT_F16 or HT_BF16, of each unit that has another dtype, or of those
 * of one node; with policy optimal and its option priced_node also what it would cost. */
HT_API enum ht_status ht_report_why_not(struct ht_report *r, enum ht_dtype dtype, const char *node,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* Units and casts that differ, with both reasons. */
HT_API enum ht_status ht_report_diff(struct ht_report *before, struct ht_report *after,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* Conditions with commas: "new-cast", "lower-precision", "cost+5%".  HT_E_VERDICT, and an error each,
 * where `after` is worse by one of them. */
HT_API enum ht_status ht_report_check(struct ht_report *before, struct ht_report *after,
	const char *conditions, struct ht_diags *d);
/* The graph with its casts, in TensorFlow's ops, as files that appear whole or not at all, by `path`'s
 * suffix: .pbtxt, .hir, .json (a TF.js graph model, with its shards beside it), else a GraphDef ("-": on
 * standard output).  Open dimensions stay open.  Without a policy the graph as imported, in TensorFlow's
 * ops where another tool made it.  HT_E_USAGE where `path` is a file of the model, or has the suffix of
 * a format that is not written. */
HT_API enum ht_status ht_convert(const struct ht_model *m, const struct ht_policy *policy,
	const char *path, struct ht_diags *d);
/* `pipeline`: names of passes with commas; stops behind `stop_after` when that is not NULL.  The
 * text form of the graph afterwards: in *out, or with a `path` in that file ("-": standard output),
 * its large constants in a .weights file beside it. */
HT_API enum ht_status ht_rewrite(const struct ht_model *m, const char *pipeline,
	const char *stop_after, const struct ht_compile_options *opt, const char *path,
	struct ht_diags *d, struct ht_bytes *out);
/* "hir" (the graph behind the pass `stop_after`), "kernels" (tile programs), "llvm", "asm", or
 * "obj": an archive of one object file a kernel.  `path` as in ht_rewrite. */
HT_API enum ht_status ht_emit_code(const struct ht_model *m, const struct ht_compile_options *opt,
	const char *form, const char *stop_after, const char *path, struct ht_diags *d,
	struct ht_bytes *out);
/* "fusions", "ops", "targets", "policies", "profiles", "passes", "options": what there is. */
HT_API enum ht_status ht_list(
	const char *what, enum ht_format format, struct ht_diags *d, struct ht_bytes *out);
/* What the library was built from, as JSON: versions and ids of itself, of its code generator, LLVM, of
 * artefacts and of entries of the cache; targets with their features.  Loads nothing. */
HT_API enum ht_status ht_build_info(struct ht_diags *d, struct ht_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
