/* Loads compiled programs and runs them.  libhalftone-rt exports exactly these functions;
 * libhalftone exports them and more.  A program links one of the two libraries.
 *
 * Errors.  Every call that can fail returns a status (types.h) and reports the reason in `d`,
 * which may be NULL.  A failed allocation is HT_E_ENVIRONMENT.  The library never prints and never
 * ends the process.  It starts only as many threads as the caller asks for.  Every free function
 * accepts NULL.
 *
 * Threads.  An ht_program is immutable and may be shared by any number of threads, and so may its
 * ht_value_infos.  An ht_context (an arena and its threads) and an ht_diags belong to one thread
 * at a time.  Any number of contexts of one program may run at the same time.
 *
 * Processes.  Programs and contexts may be used in the child of a fork(); a context starts new
 * threads there.  No context may be running in another thread when the process forks.
 *
 * Versions.  A struct with a member `struct_size` only ever grows at its end.  Fill it with the
 * initialiser that follows it.  Members that an older caller's struct lacks take their defaults. */
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

/* The version of the library, "0.1.0". */
HT_API const char *ht_version(void);
/* The version of the binary interface, which is also the number in the soname.  It grows when
 * programs that were built against an older header have to be built again. */
HT_API int ht_abi(void);
/* Models and artefacts are mapped, and reading behind the new end of a file that was shortened meanwhile raises SIGBUS, which
 * ends the process.  This installs a handler of that signal, once: a call that used such a file then returns HT_E_INPUT, as
 * does every later call that would use it.  Faults elsewhere go to the handler that was there before.  Any thread. */
HT_API void ht_guard_files(void);
/* The meaning of a status as text, for example "valid, but not supported here". */
HT_API const char *ht_status_text(enum ht_status st);

/* ---- bytes that a call returns ---- */

/* `n` bytes, followed by a NUL that `n` does not count.  The caller owns them. */
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

/* One diagnostic.  Its strings are valid as long as the ht_diags. */
struct ht_message {
	enum ht_severity severity;
	enum ht_status status;
	const char *path;  /* the file; NULL: none (also for node and op) */
	long line, column; /* from 1; 0: none */
	int64_t offset;    /* bytes from the start of the file; -1: none */
	const char *node, *op;
	const char *text;
};
HT_API size_t ht_diags_count(const struct ht_diags *d);
/* Gives message `i`.  HT_E_USAGE: there is no message `i`. */
HT_API enum ht_status ht_diags_get(const struct ht_diags *d, size_t i, struct ht_message *out);
/* The number of messages that were counted but not kept. */
HT_API size_t ht_diags_dropped(const struct ht_diags *d);
/* Formats message `i` as the tool prints it: "path:line:col: error: node 'a/b' (MatMul): text". */
HT_API enum ht_status ht_diags_line(const struct ht_diags *d, size_t i, struct ht_bytes *out);

/* ---- tensors ---- */

/* A tensor in memory that the caller owns.  Elements are in row-major order without gaps.  HT_BOOL
 * takes one byte.
 *
 * Of HT_STRING an array of n elements is n + 1 offsets, each a uint64_t, and behind them the bytes of all strings: element i is
 * the bytes from offset i up to offset i + 1, counted from where the bytes begin.  The first offset is 0, none is below the one in
 * front of it, and the last one is the number of the bytes, so that `bytes` is 8 * (n + 1) + that.  Strings are any bytes, zeros
 * among them; nothing ends them.  `data` may be at any address. */
struct ht_array {
	void *data;
	size_t bytes;
	enum ht_dtype dtype;
	int32_t rank;
	const int64_t *dim;
};

/* The name of an element type, for example "float32"; never NULL. */
HT_API const char *ht_dtype_name(enum ht_dtype t);
/* The size of one element in bytes; 0 for types without a fixed size. */
HT_API size_t ht_dtype_bytes(enum ht_dtype t);
/* Convert `n` numbers from float16 or bfloat16 to float32, and from float32 to those types, as
 * compiled programs do: they round to nearest even, and bfloat16 treats subnormals as zero.
 * HT_E_USAGE: any other type. */
HT_API enum ht_status ht_widen(const void *src, enum ht_dtype from, float *dst, size_t n);
HT_API enum ht_status ht_narrow(const float *src, enum ht_dtype to, void *dst, size_t n);

/* A named input or output.  The pointers are valid as long as the model or program that gave them. */
struct ht_value_info {
	const char *name;
	enum ht_dtype dtype;
	int32_t rank;       /* -1: unknown */
	const int64_t *dim; /* `rank` dimensions; -1: unknown; of a program: open */
	size_t bytes;       /* 0: unknown, open, or of strings */
	const void *
		value; /* the elements of an input's default; NULL: it has none.  Of strings it is not to be read */
};

/* ---- programs ---- */

/* A compiled program: machine code, constants and a memory plan.  It does not need the model that
 * it was made from. */
struct ht_program;
HT_API void ht_program_free(struct ht_program *p);
/* Selects a variant of an artefact, and the checks to make before it is used. */
struct ht_artefact_options {
	size_t struct_size;
	const char *policy; /* NULL: the policy of the first variant */
	const char *target; /* NULL: the best target that this machine can run */
	/* Names and shapes of inputs.  A dimension of -1 matches any. */
	const struct ht_value_info *input;
	size_t inputs;
	int64_t batch;   /* the first dimension of an input; 0: any */
	int verify_full; /* non-zero: the SHA-256 of every byte is checked first */
	/* PEM file of an Ed25519 public key: the artefact must be signed with its private key.  NULL: no
	 * signature is required. */
	const char *require_signature;
	/* The name of one of several programs over the same variables (docs/artefact.md); NULL: that of the first variant. */
	const char *entry;
};
#define HT_ARTEFACT_OPTIONS_INIT                                                                   \
	{ sizeof(struct ht_artefact_options), NULL, NULL, NULL, 0, 0, 0, NULL, NULL }
/* Loads a program from an artefact; neither the model nor the code generator is needed.  Of
 * several variants that match, the first is loaded.  HT_E_USAGE: no variant is of that entry, or has the policy or
 * target. HT_E_INPUT: no variant has the shapes, or the artefact is damaged or has another
 * version. HT_E_UNSUPPORTED: it is for another machine.  The code is trusted like that of a shared
 * library.  The file must not be written to while the program exists. */
HT_API enum ht_status ht_program_load(const char *path, const struct ht_artefact_options *opt,
	struct ht_diags *d, struct ht_program **out);
/* Returns non-zero when the file begins like an artefact. */
HT_API int ht_is_artefact(const char *path);
/* Gives the manifest of an artefact, as JSON. */
HT_API enum ht_status ht_artefact_manifest(const char *path, const struct ht_artefact_options *opt,
	struct ht_diags *d, struct ht_bytes *out);
/* The inputs and outputs of a program: their numbers, and input or output `i`.  ht_program_input()
 * and ht_program_output() return 0 when there is no `i`. */
HT_API size_t ht_program_inputs(const struct ht_program *p);
HT_API size_t ht_program_outputs(const struct ht_program *p);
HT_API int ht_program_input(const struct ht_program *p, size_t i, struct ht_value_info *out);
HT_API int ht_program_output(const struct ht_program *p, size_t i, struct ht_value_info *out);
/* Find the index of an input or output.  `name` is a tensor's name, with or without ":0", or a key
 * of the model's signature.  They return 0 when there is no such input or output. */
HT_API int ht_program_input_named(const struct ht_program *p, const char *name, size_t *i);
HT_API int ht_program_output_named(const struct ht_program *p, const char *name, size_t *i);

/* Open sizes: a program may run for any first dimension of some inputs, within bounds.  Returns 0 where
 * all sizes are numbers; else *least and *most become the bounds.  The memory of a context does not depend on
 * the size. */
HT_API int ht_program_open(const struct ht_program *p, int64_t *least, int64_t *most);
/* Likewise for any dimension of inputs; ht_program_open() tells of the first.  All inputs of which it is open (-1) have
 * the same size, unless sizes have names: then this tells of the first such input, and ht_program_open_size() of each. */
HT_API int ht_program_open_dimension(
	const struct ht_program *p, int32_t dimension, int64_t *least, int64_t *most);
/* The open size of one dimension of input `i`. */
struct ht_size_info {
	int32_t number; /* dimensions with one number have one size in a run */
	/* HT_SIZE_OF_ROWS, "dim1" and so on, or "dim_" and the name of ht_model_set_open_size().  The program owns it. */
	const char *name;
	int64_t least, most; /* both are possible */
};
/* Returns 0 where the dimension is a number, or there is no such input or dimension. */
HT_API int ht_program_open_size(
	const struct ht_program *p, size_t i, int32_t dimension, struct ht_size_info *out);
/* Gives output `i` for inputs of these types and shapes, whose `data` and `bytes` are not read: the `rank` sizes that
 * ht_program_output() tells go to `dim`, the bytes of the output to *bytes.  HT_E_INPUT: the inputs
 * do not fit the program.  HT_E_USAGE: their number is wrong, or there is no output `i`.  A size that the run computes of
 * data counts as the most that it can be: ht_context_output() tells what it became.  Of strings *bytes is 0: only the run tells. */
HT_API enum ht_status ht_program_output_for(const struct ht_program *p, const struct ht_array *in,
	size_t ins, size_t i, int64_t *dim, size_t *bytes, struct ht_diags *d);

/* The variables that a program changes: their number, and variable `i`, whose `value` is what it begins
 * with.  ht_program_variable() returns 0 when there is no `i`.  Variables that no run changes are
 * constants of the program. */
HT_API size_t ht_program_variables(const struct ht_program *p);
HT_API int ht_program_variable(const struct ht_program *p, size_t i, struct ht_value_info *out);

struct ht_phase {
	const char *name; /* "import", "passes", …: the phases in the order in which they ran */
	int64_t ns;
};
struct ht_program_info {
	size_t struct_size;
	size_t weight_bytes, arena_bytes, scratch_bytes /* per thread */, code_bytes;
	size_t live_bytes; /* the most bytes of intermediate results that are live at once: the lower
			    * bound of arena_bytes */
	size_t steps, kernels;
	size_t low_nodes,
		float_nodes; /* imported nodes that are float16 or bfloat16; that compute in floats */
	size_t casts;        /* casts of the policy that are left after merging */
	const struct ht_phase *phase;
	size_t phases;
	const char *target, *policy;
	const char *const
		*without_effect; /* the policy's options that were accepted but have no effect */
	size_t without_effects;
	size_t parts; /* of the batch, which run one by one; each thread that runs parts has an arena */
	size_t unseeded; /* random ops without seeds; they draw by the seed of the context */
	size_t loops; /* loops whose number of iterations is not known; a run may take any time */
	const char *
		entry; /* its name in the artefact that it is from; "": it has none; NULL: it was compiled */
};
#define HT_PROGRAM_INFO_INIT                                                                       \
	{ sizeof(struct ht_program_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, NULL, NULL, \
		0, 0, 0, 0, NULL }
/* Fills the first out->struct_size bytes of *out; the initialiser sets struct_size.  If it is not set, *out does not change. */
HT_API void ht_program_about(const struct ht_program *p, struct ht_program_info *out);

/* ---- running ---- */

/* A session: an arena and threads for one run at a time, and what goes on from run to run: variables and
 * streams of random numbers. */
struct ht_context;
/* Finds code that reads or writes outside its tensors.  Each tensor gets a mapping of its own with
 * an inaccessible page directly behind it or before it, so that such an access ends in SIGSEGV.
 * Memory that is read before it is written is NaN.  Runs are slow. */
enum ht_guard { HT_GUARD_NONE, HT_GUARD_BEHIND, HT_GUARD_BEFORE };
struct ht_context_options {
	size_t struct_size;
	int threads; /* includes the caller's thread; 0: 1.  Results do not depend on it */
	enum ht_guard guard;
	/* Non-zero: float32 and float64 keep subnormals; computing with subnormals takes many times as
	 * long.  0: subnormals count as zero, as in TensorFlow.  The caller's own floating-point mode
	 * does not change. */
	int keep_subnormals;
	uint64_t
		max_iterations; /* of each loop; a run that needs more is HT_E_LIMIT.  0: no limit */
	/* A run stops with HT_E_LIMIT soon after *cancel becomes non-zero: at the end of a loop's
	 * iteration, or before a branch.  A graph without loops is not stopped.  Another thread or a signal
	 * handler may set it.  NULL: runs are not cancelled. */
	const int32_t *cancel;
	/* Limits of time; 0: none.  A run that exceeds one stops with HT_E_LIMIT, before its next kernel or at the end of an
	 * iteration of a loop; the message has the limit, the node and the time that was taken.  No kernel is stopped while
	 * it runs.  Of a run, without the wait for its turn: */
	uint64_t timeout_ns;
	uint64_t
		sync_timeout_ns; /* of a run and the wait for its turn (ht_program_run_at_most()) */
	uint64_t turn_timeout_ns; /* of that wait */
	uint64_t
		kernel_timeout_ns; /* of a kernel on one thread; a run whose last kernel took longer fails, too */
	uint64_t
		wait_timeout_ns; /* of a wait: for a turn, or of the caller's thread for others that are at a kernel */
	/* The device on whose cores runs are, those of the caller's thread as well, as far as that may run on them
	 * (ht_use_device() says what a device is).  It is read by ht_context_new().  NULL: wherever the thread may run. */
	const int32_t *device;
	/* Memory of the caller, who frees it after the context.  For the runs, instead of the context's own: ht_program_memory() bytes at a
	 * multiple of 64, of any content, for one context.  NULL: the context's own. */
	void *memory;
	/* For the variables: an address for each variable of the program, a multiple of 64, of as many bytes as ht_program_variable() says.
	 * They are used as they are: the caller writes the values, or calls ht_context_reset().  Contexts may share them, also those of several
	 * programs, unless one of these runs while another uses them.  NULL: the context's own. */
	void *const *variable;
	/* Gives the memory of output `output`, whose array in ht_context_run() has no data, once its size is known: `bytes` of it, of the
	 * extents `dim`.  It is called in the thread of that call, before the run where the sizes of the inputs tell the size, else behind it,
	 * and then the elements are copied.  *memory is where it puts the address; NULL ends the call with HT_E_ENVIRONMENT.  NULL: each output has data. */
	void (*allocate)(void *arg, size_t output, const int64_t *dim, size_t bytes, void **memory);
	void *allocate_arg;
	/* The depth to which recursive calls may nest, at most UINT32_MAX; 0: 64.  A context has memory for so many recursive calls, each with
	 * the deepest calls that may follow it, and a run that needs more memory ends with HT_E_LIMIT.  ht_program_memory() assumes 64, so a
	 * larger depth together with `memory` is HT_E_USAGE.  Programs without recursive calls ignore the depth. */
	uint64_t max_depth;
	/* The bytes of `memory`; 0: as many as ht_program_memory() says.  With fewer, runs are those of inputs for which
	 * ht_program_memory_for() says no more; others end with HT_E_LIMIT before they begin. */
	size_t memory_bytes;
	/* The most bytes that a table to which runs add keys may have (MutableHashTable); a run stops whose table would need more.  Of a session
	 * it counts for all entries.  0: 1 GiB. */
	uint64_t table_bytes;
};
#define HT_CONTEXT_OPTIONS_INIT                                                                    \
	{ sizeof(struct ht_context_options), 0, HT_GUARD_NONE, 0, 0, NULL, 0, 0, 0, 0, 0, NULL,    \
		NULL, NULL, NULL, NULL, 0, 0, 0 }
/* The bytes of `memory` for runs on `threads` threads (from 1 on), whatever the sizes of inputs are; 0: more than there can be. */
HT_API size_t ht_program_memory(const struct ht_program *p, int threads);
/* Gives the bytes of `memory` for runs on `threads` threads with inputs of these types and shapes, whose `data` and `bytes` are not
 * read: at most ht_program_memory(), and fewer where temporary buffers of a program with open sizes need less.  Statuses are those of
 * ht_program_output_for(); HT_E_ENVIRONMENT: memory ran out. */
HT_API enum ht_status ht_program_memory_for(const struct ht_program *p, int threads,
	const struct ht_array *in, size_t ins, size_t *bytes, struct ht_diags *d);
/* At most `n` contexts of the program run at once; others wait for their turns, in the order in which they asked, and may be
 * cancelled while they wait (`cancel`; it is looked at every 10 ms).  0: any number.  Call it while no context of the
 * program runs. */
HT_API enum ht_status ht_program_run_at_most(struct ht_program *p, int n, struct ht_diags *d);
/* Has the program's constants, which are copied there, and the variables of its contexts in such pages.  All constants share
 * pages, and so do the variables of a context: the last page of each may be filled in part.  Call it once, before contexts are
 * made.  HT_E_ENVIRONMENT: there are too few; the program is as before. */
HT_API enum ht_status ht_program_use_pages(
	struct ht_program *p, enum ht_pages pages, struct ht_diags *d);
/* Makes a context.  The program must outlive its contexts. */
HT_API enum ht_status ht_context_new(const struct ht_program *p,
	const struct ht_context_options *opt, struct ht_diags *d, struct ht_context **out);
HT_API void ht_context_free(struct ht_context *c);

/* Random numbers.  A context has a stream for each random op of its program.  Each run continues
 * the streams where the previous run, even a failed one, left them; in a loop each iteration does so.
 * Ops with seeds draw the numbers that TensorFlow draws in the runs of one session.  Ops without seeds draw by the
 * context's seed and their names: any two of them draw different numbers, and contexts with equal
 * seeds draw the same numbers for any number of threads.  The seed of a new context comes from the
 * system and is below 2^53.  In the child of a fork() a context draws the numbers that it would
 * have drawn in the parent. */
HT_API uint64_t ht_context_seed(const struct ht_context *c);
/* Restarts every stream.  Ops without seeds draw by `seed`, which may be any number. */
HT_API void ht_context_set_seed(struct ht_context *c, uint64_t seed);

/* The memory of variable `i` of the program, dense and row-major; NULL when there is none.  It may be read
 * and written to between runs, and is valid as long as the context.  A run that fails leaves variables
 * as far as it came. */
HT_API void *ht_context_variable(struct ht_context *c, size_t i);
/* Declares that input `i`, or variable `i`, has in the next run the elements that it had in the context's last run, at the same
 * address or another one.  The caller is responsible for this being true.  The next run then reuses the results that the program
 * keeps of it, unless another source of these results has changed.  Without this call a run takes each input as changed, and each
 * variable whose memory belongs to the caller or was returned by ht_context_variable(); the library tracks changes of all other
 * variables.  The call for an input has an effect only if ht_model_set_steady() was called for it before the program was compiled.
 * HT_E_USAGE: there is no input, or variable, `i`. */
HT_API enum ht_status ht_context_input_unchanged(
	struct ht_context *c, size_t i, struct ht_diags *d);
HT_API enum ht_status ht_context_variable_unchanged(
	struct ht_context *c, size_t i, struct ht_diags *d);
/* Gives all variables the values that they begin with. */
HT_API void ht_context_reset(struct ht_context *c);

/* Runs the program once.  `in` and `out` are in the order of the program's inputs and outputs.
 * Their types, shapes and sizes must be those of the program, where these are open those that
 * ht_program_output_for() gives; else the status is HT_E_INPUT.  What ht_context_output() then gives may be smaller.  The
 * data of an input that has a default may be NULL.  The call allocates nothing, unless an output has no data
 * (ht_context_options.allocate; its `bytes` and `dim` are not read then), or an input or output is of strings.  A fault of the
 * graph (division by zero, an index out of range) is HT_E_INPUT.
 *
 * The array of an output of strings may have no data, where nobody allocates: ht_context_strings() has the strings behind the run.
 * With data, `bytes` is the room that the caller has: where the strings need more, the call is HT_E_INPUT behind the run.  Strings
 * of an input that are not laid out as struct ht_array says are HT_E_INPUT.
 *
 * Inputs are read and never written to, so several may be the same memory, also of variables' values that the run does not change.  An output is
 * memory of its own: it may neither overlap an input nor another output (HT_E_USAGE), nor a variable.  To have a run change memory in place, as by a donated input, make
 * it a variable (ht_context_options.variable).  No address is kept behind the call. */
HT_API enum ht_status ht_context_run(struct ht_context *c, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d);
/* Gives output `i` as the last run left it, of which some sizes may depend on data, such as how many elements Where finds:
 * the `rank` sizes that ht_program_output() tells go to `dim`, the bytes to *bytes.  The output is dense, at the begin of
 * its array, and what lies behind it there has no meaning.  HT_E_USAGE: there is no output `i`, or the last run failed. */
HT_API enum ht_status ht_context_output(
	const struct ht_context *c, size_t i, int64_t *dim, size_t *bytes, struct ht_diags *d);
/* The strings of output `i` as the last run left them, in the layout of struct ht_array: *bytes of them, which belong to the context
 * and are valid up to its next run.  NULL: there is no output `i`, it is not of strings, or the last run failed. */
HT_API const void *ht_context_strings(const struct ht_context *c, size_t i, size_t *bytes);
/* The time of one step in the last run. */
struct ht_step_time {
	const char *node;
	int64_t ns;
	const char *method; /* of an op with several: "winograd", "winograd-2x2"; else NULL */
};
/* Turns the measuring of steps on or off, for the runs that follow. */
HT_API void ht_context_profile(struct ht_context *c, int on);
/* Fills at most `cap` entries and returns the number of steps. */
HT_API size_t ht_context_steps(const struct ht_context *c, struct ht_step_time *out, size_t cap);

/* Profiles.  A recording has what each thread did when, in the runs that follow: the last `events` kernels (24 bytes of
 * memory each), and totals of all.  It takes two readings of the clock a kernel, of a run on one thread one.  0: no longer, and
 * what was recorded is gone.  HT_E_USAGE: more than HT_MOST_EVENTS. */
enum ht_events { HT_EVENTS = 131072 /* a fair number */, HT_MOST_EVENTS = 16777216 };
HT_API enum ht_status ht_context_record(struct ht_context *c, size_t events, struct ht_diags *d);
struct ht_recording {
	uint64_t runs;
	int64_t ns; /* of all runs, by the clock */
	int threads;
	uint64_t lost; /* kernels that ht_context_trace() no longer has; totals have them */
};
/* All zero: nothing is recorded. */
HT_API void ht_context_recording(const struct ht_context *c, struct ht_recording *out);
/* A step in all runs that were recorded.  The limit is the roofline of the target's description (docs/profile.md): the least
 * that one execution takes on one core. */
struct ht_step_profile {
	const char *node;
	const char *op;      /* the node's type, as all texts "" where it is not known */
	const char *result;  /* dtype and shape of the node's result: "f32[1,8]" */
	const char *dtypes;  /* of the kernel's operands and results: "bf16,f32" */
	const char *method;  /* as in struct ht_step_time */
	uint64_t executions; /* a step in a loop has many in a run, one in a branch may have none */
	int64_t ns;          /* of all executions, added up over threads */
	uint64_t multiply_adds, bytes; /* of one execution, on all threads */
	uint64_t limit_ps;             /* likewise, in picoseconds */
};
/* Fills at most `cap` entries, in the order of the program, and returns the number of steps; 0: nothing is recorded. */
HT_API size_t ht_context_step_profiles(
	const struct ht_context *c, struct ht_step_profile *out, size_t cap);
/* Counters of the processor and of the system (docs/profile.md): has the runs that follow count them for each step, on each thread;
 * 0: no longer, and what was counted is gone.  Seven calls of the system a kernel and thread. */
HT_API enum ht_status ht_context_count(struct ht_context *c, int on, struct ht_diags *d);
struct ht_counter_info {
	const char *name;
	const char *help;
	const char *
		refused; /* why the system does not count it; NULL: it does.  Known behind the first run */
};
/* Gives counter `i`; 0: there is none, or nothing is counted. */
HT_API int ht_context_counter(const struct ht_context *c, size_t i, struct ht_counter_info *out);
/* Counter `i` of all executions of each step, added up over threads, in the order of ht_context_step_profiles(): fills at most
 * `cap` entries and returns the number of steps.  What the processor counted in turns with other counters is extrapolated. */
HT_API size_t ht_context_counts(const struct ht_context *c, size_t i, double *out, size_t cap);
/* The recording as JSON in the trace event format of Chrome and Perfetto: phases of the compilation, runs, kernels by thread.
 * HT_E_USAGE: nothing is recorded. */
HT_API enum ht_status ht_context_trace(
	const struct ht_context *c, struct ht_diags *d, struct ht_bytes *out);
/* Likewise of `n` contexts, which may be of several programs, on one clock: each is a process of the timeline, with the name
 * name[i].  `name`, or one of its members, may be NULL. */
HT_API enum ht_status ht_contexts_trace(const struct ht_context *const *c, const char *const *name,
	size_t n, struct ht_diags *d, struct ht_bytes *out);

/* The effects of rounding to 16 bits, or to a number format, on a tensor in the last run.  An element that is in none of
 * the counts was rounded without harm.  A sentinel is a number that stands for minus infinity:
 * about -1e9, or the lowest finite number of float32 or of the tensor's type.  It is counted as a
 * sentinel only, whatever it was rounded to. */
struct ht_numerics {
	const char *tensor; /* "node" or "node:1" */
	enum ht_dtype dtype;
	size_t elements;
	size_t overflow; /* finite before rounding, and beyond the largest number of the type or format */
	size_t underflow; /* not zero before rounding, zero after it */
	size_t subnormal;
	size_t sentinel;
	size_t infinite, nan; /* before rounding */
	const char *format;   /* that is emulated, while `dtype` is float32; NULL: none */
};
/* Fills at most `cap` entries, in the order of computation, and returns the number of tensors.  It
 * is 0 before the first run and when the program was compiled without `numerics`.  Constants have
 * no entry, and neither have tensors that share the memory of another one (reshapes). */
HT_API size_t ht_context_numerics(const struct ht_context *c, struct ht_numerics *out, size_t cap);

/* ---- sessions: several programs over one set of variables (docs/train.md, docs/artefact.md) ---- */

/* The variables of a model, and entries: programs that compute some of its tensors and run some of its ops, such as a
 * training step and an evaluation.  Belongs to one thread at a time. */
struct ht_session;

struct ht_session_options {
	size_t struct_size;
	int threads;           /* of each run; 0: 1.  Results do not depend on it */
	int keep_subnormals;   /* as in struct ht_context_options */
	int seeded;            /* non-zero: random ops without seeds draw by `seed` */
	enum ht_pages pages;   /* that variables are in, which share them */
	uint64_t seed;         /* else by one of the system's */
	const int32_t *cancel; /* as in struct ht_context_options */
	/* Limits of time of each run, and the device, as there; its other members do not count.  NULL: none. */
	const struct ht_context_options *limits;
};
#define HT_SESSION_OPTIONS_INIT                                                                    \
	{ sizeof(struct ht_session_options), 0, 0, 0, HT_PAGES_USUAL, 0, NULL, NULL }

/* Makes a session without variables and entries. */
HT_API enum ht_status ht_session_new(
	const struct ht_session_options *opt, struct ht_diags *d, struct ht_session **out);
HT_API void ht_session_free(struct ht_session *s);
/* Adds a program as entry `name`, and owns it from now on, also when the call fails: an entry of an artefact (struct
 * ht_artefact_options; docs/artefact.md), or any other program that changes variables.  Variables that it takes are those of the session, by
 * name, and are made where the session has none of that name; those without a value get the one that the program says they begin with
 * (ht_program_variable()).  An artefact that was made with a loss scale gives the session that scale, unless it has one.  A program for
 * another machine gives its variables, and cannot be run.  HT_E_USAGE: there is an entry with that name.  HT_E_INPUT: a variable has
 * another type or shape in another entry. */
HT_API enum ht_status ht_session_take(
	struct ht_session *s, const char *name, struct ht_program *p, struct ht_diags *d);
/* The entry's program; NULL: there is none. */
HT_API const struct ht_program *ht_session_program(const struct ht_session *s, const char *name);
/* The context that runs the entry, for profiles and for showing its tensors; NULL: there is none, or its program is for another
 * machine.  It is not to be run or freed by the caller. */
HT_API struct ht_context *ht_session_context(const struct ht_session *s, const char *name);

/* Runs an entry once, as ht_context_run().  HT_E_USAGE: there is no such entry.  HT_E_INPUT: a variable that it reads has
 * no value.  HT_E_UNSUPPORTED: its program is for another machine. */
HT_API enum ht_status ht_session_run(struct ht_session *s, const char *name,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d);

/* The variables: their number, and variable `i`, whose `value` is its memory, NULL where it has no value.  Returns 0 when
 * there is no `i`. */
HT_API size_t ht_session_variables(const struct ht_session *s);
HT_API int ht_session_variable(const struct ht_session *s, size_t i, struct ht_value_info *out);
/* Gives variable `i` a value of its type and shape. */
HT_API enum ht_status ht_session_assign(
	struct ht_session *s, size_t i, const struct ht_array *a, struct ht_diags *d);

/* Scales the gradients of the output `loss`, so that small gradients do not become zero in low precision.  Applies to
 * entries that are added afterwards, have this output and assign variables.  Such an entry multiplies the constant from
 * which its gradients begin by the scale, and divides the gradients by the scale where they are used.  If an element of a
 * divided gradient is not finite, the run skips every assignment that depends on a gradient.  `how` has the form of the
 * option --loss-scale (docs/loss-scale.md): "fixed:1024" (the vendor's FixedLossScaleManager), "dynamic" (its
 * ExponentialUpdateLossScaleManager) or "none".  Checkpoints store the scale and its counters.  HT_E_USAGE: `how` is
 * malformed, or an entry of the session is scaled already.  ht_session_add() returns HT_E_UNSUPPORTED if the entry's graph
 * has no gradients that can be scaled. */
HT_API enum ht_status ht_session_scale_loss(
	struct ht_session *s, const char *loss, const char *how, struct ht_diags *d);

struct ht_loss_scale {
	size_t struct_size;
	double scale; /* of the next run */
	int64_t good; /* runs with finite gradients since the scale last changed or a run overflowed */
	int64_t bad;     /* runs whose gradients overflowed since the scale last changed */
	int64_t runs;    /* runs of scaled entries */
	int64_t skipped; /* those of them whose gradients were not finite */
	int finite;      /* the gradients of the last run were finite */
	int diverges;    /* the last 100 runs or more were skipped, and the scale is fixed or 1 */
};
#define HT_LOSS_SCALE_INIT { sizeof(struct ht_loss_scale), 0, 0, 0, 0, 0, 0, 0 }
/* Returns 0 and does not change *out if the session does not scale a loss, or if out->struct_size is not set. */
HT_API int ht_session_loss_scale(const struct ht_session *s, struct ht_loss_scale *out);

/* ---- devices ---- */

/* Devices are the NUMA nodes of the machine that have cores, by the system's numbers.  Has the calling thread, and threads that
 * it starts from now on, run on those cores of device `device` that it may run on, and prefer the memory near them.
 * HT_E_ENVIRONMENT: there is no such device, or the thread may not run on it. */
HT_API enum ht_status ht_use_device(int32_t device, struct ht_diags *d);

/* ---- tensors of runs, of programs that were compiled with `tee` ---- */

enum ht_tensor_kind { HT_TENSOR_COMPUTED, HT_TENSOR_INPUT, HT_TENSOR_CONSTANT };
/* Operand `operand` of the node of tensor `by` (its result 0). */
struct ht_tensor_use {
	size_t by, operand;
};
/* A tensor of the program.  The pointers are valid as long as the program. */
struct ht_tensor_info {
	const char *
		node; /* of the imported graph: the tensor is its result, whatever it was fused with; */
	const char *op;   /* and its type */
	int imported;     /* 0: there is none; `node` and `op` are of the compiled graph */
	const char *body; /* the function that the node is in, as of a loop; "": none */
	size_t result;    /* of the node's */
	enum ht_tensor_kind kind;
	enum ht_dtype dtype; /* that the policy gave it */
	int32_t rank;
	const int64_t *dim; /* of all parts of a batch */
	size_t bytes;
	const struct ht_tensor_use
		*use; /* who takes it; of nodes with the same tensor at the first one */
	size_t uses;
};
/* Gives tensor `i`; 0: there is none. */
HT_API int ht_program_tensor(const struct ht_program *p, size_t i, struct ht_tensor_info *out);
/* A tensor at the time when it is computed. */
struct ht_seen {
	size_t tensor;         /* of the program */
	struct ht_array array; /* valid during the call; of a batch in parts: this part of it, */
	size_t part, parts;    /* which is one of so many, along the first dimension; else 0 of 1 */
	uint64_t execution;    /* in this run, from 0: a node in a loop has several */
};
/* Has the runs that follow call `fn`, in the thread of ht_context_run(), for each tensor: first for constants, then in the order
 * of computation.  NULL: no longer.  HT_E_USAGE: the program was compiled without `tee`. */
HT_API enum ht_status ht_context_see(struct ht_context *c,
	void (*fn)(void *arg, const struct ht_seen *t), void *arg, struct ht_diags *d);

/* ---- threads for nets that were compiled ahead of time (docs/aot.md) ---- */

/* A pool of threads that sleep between runs.  Any number of nets may share a pool; runs that ask
 * for it at the same time wait for one another.  In the child of a fork() the pool starts new
 * threads. */
struct ht_threads;
/* Makes a pool of `n` threads, one of which is the caller of a run.  Returns NULL when n < 1 or
 * when resources run out. */
HT_API struct ht_threads *ht_threads_new(int n);
HT_API void ht_threads_free(struct ht_threads *t);
/* The two functions that struct NAME_parallel of a net's header needs; its pool is an ht_threads. */
HT_API void ht_threads_run(
	void *threads, void (*fn)(void *arg, int worker, int workers), void *arg);
HT_API void ht_threads_barrier(void *threads);

#ifdef __cplusplus
}
#endif
#endif
