/* runtime: runs programs.  It plans nothing, and allocates nothing during a run. */
#ifndef HT_RUNTIME_H
#define HT_RUNTIME_H

#include "base/base.h"
#include "image/execute.h"
#include "runtime/clock.h"

struct ht_cores;
struct ht_strings;
struct ht_object_kind;

/* An image with one entry, and the addresses of its code and constants in this process. */
struct ht_rt_program {
	const struct ht_image *image;
	const int64_t *kernel;   /* by kernel: its address */
	const int64_t *constant; /* by constant: its address */
	const struct ht_object_kind *const
		*object; /* by object: the functions of its kind (base/object.h) */
	/* By variable: its first value, if the image has none; NULL: zeros.  `initial` NULL:
	 * zeros for all of these. */
	const void *const *initial;
	/* Whether a constant has its original bytes.  Called in each context before the first step that
	 * reads the constant; each worker checks its share.  NULL: no check. */
	bool (*is_whole)(void *arg, uint32_t constant, int worker, int workers);
	void *is_whole_arg;
	struct ht_rt_turns *turns; /* limits the number of concurrent runs of all its contexts;
				    * NULL: no limit */
};

/* ---- pool.c: fixed workers.  Their number decides only which thread computes a tile, never the
 * tile's result. ---- */

struct ht_rt_pool;
/* `threads` includes the caller of a run; 1 starts no thread.  NULL: out of resources. */
struct ht_rt_pool *ht_rt_pool_new(int threads);
/* Threads that are started run on `cores`, which is copied; NULL: on the cores where the caller
 * may run. */
struct ht_rt_pool *ht_rt_pool_new_on(int threads, const struct ht_cores *cores);
void ht_rt_pool_free(struct ht_rt_pool *p);
int ht_rt_pool_threads(const struct ht_rt_pool *p);

/* ---- turns.c: limits the number of concurrent runs ---- */

struct ht_rt_turns;
/* At most `most` runs have a turn at the same time.  Others wait, and get their turns in the
 * order in which they asked.  NULL: out of memory. */
struct ht_rt_turns *ht_rt_turns_new(int most);
void ht_rt_turns_free(struct ht_rt_turns *t);

/* ---- context.c ---- */

/* `n` bytes at a multiple of 64, not initialised, to be freed with free().  Large blocks use
 * large pages.  NULL: out of memory. */
void *ht_rt_memory(size_t n);
/* The arena of runs and the scratch memory of one pool's threads.  Only one run may use it at a
 * time.  Contexts of one program may run at the same time on different threads. */
struct ht_rt_context;
/* Bytes of memory that runs on so many threads need, with up to `depth` nested recursive calls;
 * 0: more than the address space. */
size_t ht_rt_memory_of(const struct ht_rt_program *p, int threads, uint32_t depth);
/* Those that runs with these sizes need, which are by size of the image; a size that the run computes is the most.  0: also where memory ran
 * out. */
size_t ht_rt_memory_for(
	const struct ht_rt_program *p, int threads, uint32_t depth, const int64_t *size);
/* `variable`: by variable of the image, memory of the caller, which contexts of several programs
 * may share; NULL: the context allocates it, with the values with which a session begins.
 * `memory`: memory for runs, also of the caller; NULL: the context allocates it.  Up to `depth`
 * recursive calls may be nested.  Returns NULL when out of memory. */
struct ht_rt_context *ht_rt_context_new(const struct ht_rt_program *p, struct ht_rt_pool *pool,
	char *const *variable, char *memory, uint32_t depth);
void ht_rt_context_free(struct ht_rt_context *c);
/* Makes the session's objects of an image that has objects, before the first run.  `shared`: by
 * object of the image, objects of another owner, who outlives the context and releases them;
 * NULL: the context makes and releases its own.  Objects of a run and of the context are always
 * its own.  False: an object could not be made, which *fault describes, or memory ran out
 * (fault->code is 0).  `most_bytes`: of each object that runs make grow. */
struct ht_rt_fault;
bool ht_rt_context_objects(struct ht_rt_context *c, void *const *shared, uint64_t most_bytes,
	struct ht_rt_fault *fault);
/* The table of the strings whose numbers the context's tensors have (base/strings.h); NULL: no
 * tensor has strings. */
struct ht_strings *ht_rt_strings(const struct ht_rt_context *c);
/* Makes object `i` of the image. 0: *out is the caller's, who releases it by the functions of
 * its kind; otherwise the fault. */
int32_t ht_rt_object_make(
	const struct ht_rt_program *p, uint32_t i, uint64_t most_bytes, void **out);
/* Stops a run when a loop exceeds so many iterations, or when *cancel is not 0; another thread
 * or a signal handler may set it at any time.  A new context has neither limit; `cancel` may be
 * NULL. */
void ht_rt_context_limit(struct ht_rt_context *c, uint64_t iterations, const int32_t *cancel);
/* Sets the array with the sizes of each run, by size of the image, each within its bounds:
 * ht_exec.size. */
void ht_rt_context_sizes(struct ht_rt_context *c, int64_t *size);
/* The host has stated the sizes of the next run: arguments are bound anew, and buffers placed, if the last run had others.
 * Returns how many bytes of the context's memory the run will use. */
size_t ht_rt_context_stated(struct ht_rt_context *c);
/* Limits of time, in nanoseconds; 0: none.  A run that exceeds one stops with HT_EXEC_LATE before its next kernel or
 * iteration of a loop. */
enum ht_rt_limit {
	HT_RT_RUN = 1, /* a run, from its first step */
	HT_RT_SYNC,    /* a run, from the call of ht_rt_run(): includes the wait for its turn */
	HT_RT_TURN,    /* the wait for a turn */
	HT_RT_KERNEL,  /* one thread's part of one kernel; also tested after the last kernel */
	HT_RT_WAIT,    /* a wait: for a turn, or of the leading thread until the others end the
		     * kernel before */
	HT_RT_LIMITS
};
/* `ns` is by enum ht_rt_limit.  Call it between runs.  False: out of memory; there are no limits
 * then. */
bool ht_rt_context_limits(struct ht_rt_context *c, const uint64_t ns[HT_RT_LIMITS]);
/* Confines the calling thread to these cores during the context's runs.  The pool's other
 * threads are confined by ht_rt_pool_new_on().  `cores` is copied; NULL: no confinement. */
void ht_rt_context_cores(struct ht_rt_context *c, const struct ht_cores *cores);
/* How often the elements of a variable changed: contexts compare it to know when their derived
 * buffers are stale.  Contexts that share the variable's memory share this. */
struct ht_rt_version {
	uint64_t count;
	/* The caller has the address of the variable's memory, and may write to it between runs.
	 * Each run counts it as changed, unless ht_rt_context_unchanged() was called. */
	bool exposed;
};
/* By variable of the image: versions that contexts share together with the memory, and which
 * outlive the context.  Without this call, a context has its own. */
void ht_rt_context_versions(struct ht_rt_context *c, struct ht_rt_version *const *version);
void ht_rt_context_expose(struct ht_rt_context *c, uint32_t variable);
/* Declares that input `number` (HT_IMAGE_PARAM) or variable `number` (HT_IMAGE_VARIABLE) will
 * have the same elements in the next run as in the context's last one. */
void ht_rt_context_unchanged(struct ht_rt_context *c, enum ht_image_kind kind, uint32_t number);
/* The memory of variable `i` of the image: it keeps its value from run to run. */
void *ht_rt_variable(const struct ht_rt_context *c, uint32_t i);
/* Sets all variables to the values with which a session begins, or to zeros if they have none. */
void ht_rt_context_reset(struct ht_rt_context *c);
/* Restarts all streams of random numbers; `seed` is for ops without seeds.  A new context has seed 0. */
void ht_rt_context_seed(struct ht_rt_context *c, uint64_t seed);
/* The states of all streams, by number in the image: the next run continues from them. */
struct ht_philox *ht_rt_streams(struct ht_rt_context *c);
/* The number of ops whose random numbers depend on the context's seed. */
size_t ht_rt_unseeded(const struct ht_rt_program *p);
/* The number of loops of all procedures. */
size_t ht_rt_loops(const struct ht_rt_program *p);
/* Puts every buffer of the context between inaccessible pages, directly in front of the second
 * one or behind the first one, so that a kernel that reads or writes outside of its buffers ends
 * in SIGSEGV. Each run copies inputs and outputs.  This is slow, and ht_rt_arena() is not
 * available.  Call it before the first run.  False: out of memory; the context is unchanged. */
enum ht_rt_guard { HT_RT_GUARD_BEHIND, HT_RT_GUARD_BEFORE };
bool ht_rt_context_guard(struct ht_rt_context *c, enum ht_rt_guard where);

/* Later runs call `fn` for each tensor that they tee, on the thread that called ht_rt_run().
 * `tensor` is its number in the plan, `at` its memory, which is valid during the call, `f` the
 * frame that computed it.  `kernel` is the address of library kernel "tee". The parts of a batch
 * then run one after the other.  `fn` NULL: ends this. */
typedef void ht_rt_tee_fn(
	void *arg, uint32_t tensor, const void *at, const struct ht_exec_frame *f);
void ht_rt_context_tee(struct ht_rt_context *c, int64_t kernel, ht_rt_tee_fn *fn, void *arg);

#define HT_RT_NO_STEP UINT32_MAX
struct ht_rt_fault {
	int32_t code;    /* of the kernel, or enum ht_exec_fault; 0: none */
	uint32_t step;   /* of the image; HT_RT_NO_STEP: the run had not begun */
	uint32_t object; /* 1 + the object of the image that could not be made; 0: another fault */
	const struct ht_exec_frame
		*frame;    /* valid, like its callers, until the context's next run; NULL: there is
		        * none */
	void *const *args; /* the step's arguments; valid as long */
	/* Of HT_EXEC_LATE: which limit, the time taken, and the limit. */
	enum ht_rt_limit limit;
	uint64_t took_ns, limit_ns;
};
/* Inputs and outputs have the program's sizes.  They must be aligned to their element type;
 * alignment to 64 is fastest.  Rounding is to nearest; subnormals are kept, or flushed with
 * `ftz`. Each thread's modes are restored afterwards. */
bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault);
/* The frame of the entry after the last run. */
const void *ht_rt_arena(const struct ht_rt_context *c);
/* The first function switches profiling.  The second returns the nanoseconds of each step of the
 * image in the last run, 0 for steps without a kernel; NULL if profiling is off. */
void ht_rt_profile(struct ht_rt_context *c, bool on);
const int64_t *ht_rt_step_ns(const struct ht_rt_context *c);
/* Records the kernels of all later runs: the last `events` of them, and totals of all. 0: ends
 * recording and frees what was recorded.  False: out of memory; nothing is recorded. */
bool ht_rt_record(struct ht_rt_context *c, size_t events);
/* Counts events of the processor and the system in all later runs (counters.h).  `on` false:
 * ends counting and frees the counts.  Returns false when out of memory; nothing is counted
 * then. */
bool ht_rt_count(struct ht_rt_context *c, bool on);
struct ht_counters;
const struct ht_counters *ht_rt_counters(
	const struct ht_rt_context *c); /* NULL: nothing is counted */
struct ht_trace;
struct ht_trace *ht_rt_recording(struct ht_rt_context *c); /* NULL: nothing is recorded */
const struct ht_trace *ht_rt_recorded(const struct ht_rt_context *c); /* NULL: nothing */

#endif
