/* Loads compiled programs and runs them: all that libhalftone-rt exports, and a part of what libhalftone
 * does.  A program links one of the two.
 *
 * Every call that can fail returns a status (types.h) and explains itself in `diags`, which may be
 * NULL.  The library never prints, never ends the process, and starts no thread that it was not
 * given a count for; memory that cannot be had is HT_E_ENVIRONMENT.  Free functions accept NULL.
 *
 * Threads.  An ht_program is immutable and may be shared by any number of threads; so may its
 * ht_value_infos.  An ht_context (an arena and its threads) and an ht_diags belong to one thread at a
 * time; any number of contexts of one program may run at once.
 *
 * Processes.  Programs and contexts may be used in the child of a fork(); a context starts its threads
 * there anew.  No context may be running in another thread when the process forks.
 *
 * Structs with `struct_size` grow at their end; fill them with the initialiser beside them.  Members
 * that an older program's struct does not have take their defaults. */
#ifndef HALFTONE_RUNTIME_H
#define HALFTONE_RUNTIME_H

#include <halftone/types.h>

#if defined(__GNUC__)
#define HT_API __attribute__((visibility("default")))
#else
#define HT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
HT_API const char *ht_version(void);
/* Grows when a program built against an older header has to be built again; the number in the
 * soname. */
HT_API int ht_abi(void);
/* "valid, but not supported here" */
HT_API const char *ht_status_text(enum ht_status st);

/* ---- bytes: what a call hands out ---- */

/* `n` bytes and a NUL that is not counted. */
struct ht_bytes {
	char *p;
	size_t n;
};
/* Frees the bytes, not the struct. */
HT_API void ht_bytes_free(struct ht_bytes *b);

/* ---- diagnostics ---- */

struct ht_diags;
HT_API struct ht_diags *ht_diags_new(void); /* NULL: out of memory */
HT_API void ht_diags_free(struct ht_diags *d);

/* A view of one diagnostic, valid as long as its ht_diags. */
struct ht_message {
	enum ht_severity severity;
	enum ht_status status;
	const char *path;  /* NULL: none; likewise node, op */
	long line, column; /* 0: none */
	int64_t offset;    /* bytes into the file; -1: none */
	const char *node, *op;
	const char *text;
};
HT_API size_t ht_diags_count(const struct ht_diags *d);
/* HT_E_USAGE when there is no message `i`. */
HT_API enum ht_status ht_diags_get(const struct ht_diags *d, size_t i, struct ht_message *out);
/* Messages that were counted but not kept. */
HT_API size_t ht_diags_dropped(const struct ht_diags *d);
/* Message `i` as the tool prints it: "path:line:col: error: node 'a/b' (MatMul): text". */
HT_API enum ht_status ht_diags_line(const struct ht_diags *d, size_t i, struct ht_bytes *out);

/* ---- tensors ---- */

/* Memory of the caller's.  Elements lie in row-major order without gaps; HT_BOOL is one byte. */
struct ht_array {
	void *data;
	size_t bytes;
	enum ht_dtype dtype;
	int32_t rank;
	const int64_t *dim;
};

/* "float32"; never NULL. */
HT_API const char *ht_dtype_name(enum ht_dtype t);
/* Bytes of one element; 0 for types without a fixed size. */
HT_API size_t ht_dtype_bytes(enum ht_dtype t);
/* float16 and bfloat16 to and from float32, as the compiler defines them: nearest even; bfloat16
 * treats subnormals as zero.  Other types are HT_E_USAGE. */
HT_API enum ht_status ht_widen(const void *src, enum ht_dtype from, float *dst, size_t n);
HT_API enum ht_status ht_narrow(const float *src, enum ht_dtype to, void *dst, size_t n);

/* A named input or output.  Strings and dimensions live as long as what was asked. */
struct ht_value_info {
	const char *name;
	enum ht_dtype dtype;
	int32_t rank;       /* -1: not known */
	const int64_t *dim; /* -1: not known */
	size_t bytes;       /* 0: not known */
	const void *value;  /* of an input that has a default: its elements; else NULL */
};

/* ---- programs ---- */

/* Machine code, constants and a memory plan.  Independent of the model it was made from. */
struct ht_program;
HT_API void ht_program_free(struct ht_program *p);
/* Which variant of an artefact, and what has to be so before anything of it is used. */
struct ht_artefact_options {
	size_t struct_size;
	const char *policy; /* NULL: that of the first variant */
	const char *target; /* NULL: the best of those that this machine runs */
	/* Names and shapes of inputs; a dimension of -1: any. */
	const struct ht_value_info *input;
	size_t inputs;
	int64_t batch;   /* the first dimension of an input; 0: any */
	int verify_full; /* non-zero: every byte is held against its SHA-256 first */
	/* PEM file of the Ed25519 public key that has to have signed it; NULL: none has to. */
	const char *require_signature;
};
#define HT_ARTEFACT_OPTIONS_INIT                                                                   \
	{ sizeof(struct ht_artefact_options), NULL, NULL, NULL, 0, 0, 0, NULL }
/* Needs neither the model nor the code generator.  Of several variants that fit, the first; HT_E_USAGE
 * when there is no such policy or target, HT_E_INPUT when there are no such shapes.  A damaged artefact, or one of another version, is
 * HT_E_INPUT; one for another machine HT_E_UNSUPPORTED.  Its code is trusted like a shared library's;
 * the file must not be written to while the program lives. */
HT_API enum ht_status ht_program_load(const char *path, const struct ht_artefact_options *opt,
	struct ht_diags *d, struct ht_program **out);
/* Whether the file begins as an artefact does. */
HT_API int ht_is_artefact(const char *path);
/* Its manifest, as JSON. */
HT_API enum ht_status ht_artefact_manifest(const char *path, const struct ht_artefact_options *opt,
	struct ht_diags *d, struct ht_bytes *out);
HT_API size_t ht_program_inputs(const struct ht_program *p);
HT_API size_t ht_program_outputs(const struct ht_program *p);
HT_API int ht_program_input(const struct ht_program *p, size_t i, struct ht_value_info *out);
HT_API int ht_program_output(const struct ht_program *p, size_t i, struct ht_value_info *out);
/* The number of the input or output that `name` means: a tensor's name, with or without ":0", or a
 * key of the model's signature.  False: there is none. */
HT_API int ht_program_input_named(const struct ht_program *p, const char *name, size_t *i);
HT_API int ht_program_output_named(const struct ht_program *p, const char *name, size_t *i);

struct ht_phase {
	const char *name; /* "import", "passes", … in the order they ran */
	int64_t ns;
};
struct ht_program_info {
	size_t struct_size;
	size_t weight_bytes, arena_bytes, scratch_bytes /* per thread */, code_bytes;
	size_t live_bytes; /* of intermediate results at once, at most: the arena's lower bound */
	size_t steps, kernels;
	size_t low_nodes,
		float_nodes; /* imported nodes now in float16 or bfloat16; that compute in floats */
	size_t casts;        /* that the policy placed and that are left after merging */
	const struct ht_phase *phase;
	size_t phases;
	const char *target, *policy;
	const char *const
		*without_effect; /* options of the policy that were accepted and do nothing */
	size_t without_effects;
	size_t parts; /* of the batch, which run one by one; each thread that does has an arena */
	size_t unseeded; /* random ops without seeds of their own: the context's decides their numbers */
};
#define HT_PROGRAM_INFO_INIT                                                                       \
	{ sizeof(struct ht_program_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, NULL, NULL, \
		0, 0, 0 }
/* Fills the first out->struct_size bytes, which the initialiser sets. */
HT_API void ht_program_about(const struct ht_program *p, struct ht_program_info *out);

/* ---- running ---- */

/* One arena and its threads. */
struct ht_context;
/* To find code that leaves its tensors: each gets a mapping of its own, which a page that nobody may
 * touch follows or precedes at once.  Such code ends in SIGSEGV; what is read before it is written
 * is NaN.  Slow. */
enum ht_guard { HT_GUARD_NONE, HT_GUARD_BEHIND, HT_GUARD_BEFORE };
struct ht_context_options {
	size_t struct_size;
	int threads; /* the caller's thread included; 0: 1.  Results do not depend on it */
	int ftz;     /* what happens anyway, but with keep_subnormals */
	enum ht_guard guard;
	/* Non-zero: float32 and float64 keep subnormals, which takes many times as long where there are
	 * some.  0: they count as zero, as in TensorFlow.  The caller's own mode is left as it is. */
	int keep_subnormals;
};
#define HT_CONTEXT_OPTIONS_INIT { sizeof(struct ht_context_options), 0, 0, HT_GUARD_NONE, 0 }
/* The program has to outlive its contexts. */
HT_API enum ht_status ht_context_new(const struct ht_program *p,
	const struct ht_context_options *opt, struct ht_diags *d, struct ht_context **out);
HT_API void ht_context_free(struct ht_context *c);

/* Random numbers.  A context has a stream for each random op of its program, and goes on in them from one
 * run to the next, also where a run fails.  Ops with seeds draw what TensorFlow's do in the runs of one
 * session.  Ops without seeds draw by the context's seed and their names: no two of them draw the same
 * numbers, and contexts with equal seeds do, whatever their threads.  A new context's seed is the
 * system's, below 2^53.  In the child of a fork() a context draws what it would have drawn in the parent. */
HT_API uint64_t ht_context_seed(const struct ht_context *c);
/* Every stream begins again, those of ops without seeds by `seed`, which may be any number. */
HT_API void ht_context_set_seed(struct ht_context *c, uint64_t seed);

/* Runs once.  `in` and `out` in the program's order; type, shape and size have to be the
 * program's (HT_E_INPUT otherwise).  An input's data may be NULL when it has a default.  Allocates
 * nothing.  A fault of the graph (division by zero, an index out of range) is HT_E_INPUT. */
HT_API enum ht_status ht_context_run(struct ht_context *c, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d);
/* Time of each step of the last run, once asked for. */
struct ht_step_time {
	const char *node;
	int64_t ns;
	const char
		*method; /* where the kernel has several: "winograd", "winograd-2x2"; else NULL */
};
HT_API void ht_context_profile(struct ht_context *c, int on);
/* Fills up to `cap` entries; returns how many there are. */
HT_API size_t ht_context_steps(const struct ht_context *c, struct ht_step_time *out, size_t cap);

/* What rounding to 16 bits did to a tensor in the last run.  Elements of no count were rounded well.
 * Sentinels stand for minus infinity: about -1e9, or the lowest finite number of float32 or of
 * the tensor's type; they count nowhere else, whatever became of them. */
struct ht_numerics {
	const char *tensor; /* "node" or "node:1" */
	enum ht_dtype dtype;
	size_t elements;
	size_t overflow;  /* finite before, infinite now */
	size_t underflow; /* not zero before, zero now */
	size_t subnormal;
	size_t sentinel;
	size_t infinite, nan; /* before rounding */
};
/* Fills up to `cap` entries, in the order of computation; returns how many there are: none when the
 * program was compiled without `numerics`, or before the first run.  Tensors that are the same
 * memory as another (reshapes) and constants have no entry. */
HT_API size_t ht_context_numerics(const struct ht_context *c, struct ht_numerics *out, size_t cap);

/* ---- threads for nets that were compiled ahead of time (docs/aot.md) ---- */

/* Threads that sleep between runs.  Nets of any number may share them; runs that ask at once wait for
 * one another.  In the child of a fork() they are started anew. */
struct ht_threads;
/* `n` counts the caller of a run; NULL: out of resources, or n < 1. */
HT_API struct ht_threads *ht_threads_new(int n);
HT_API void ht_threads_free(struct ht_threads *t);
/* What struct NAME_parallel of a net's header asks for, with an ht_threads as its pool. */
HT_API void ht_threads_run(
	void *threads, void (*fn)(void *arg, int worker, int workers), void *arg);
HT_API void ht_threads_barrier(void *threads);

#ifdef __cplusplus
}
#endif
#endif
