/* runtime: runs programs.  It plans nothing, and allocates nothing during a run. */
#ifndef HT_RUNTIME_H
#define HT_RUNTIME_H

#include "base/base.h"
#include "image/execute.h"
#include "runtime/clock.h"

struct ht_cores;
struct ht_strings;
struct ht_object_kind;

/* An image of one entry, and where its code and constants are in this process. */
struct ht_rt_program {
	const struct ht_image *image;
	const int64_t *kernel;   /* by kernel: its address */
	const int64_t *constant; /* by constant: likewise */
	const struct ht_object_kind *const
		*object; /* by object: the functions of its kind (base/object.h) */
	/* By variable: what it begins with where the image does not say; NULL: zeros.  `initial` NULL: all zeros. */
	const void *const *initial;
	/* Whether a constant has its original bytes.  Called in each context before the first step that
	 * reads the constant; each worker checks its share.  NULL: no check. */
	bool (*is_whole)(void *arg, uint32_t constant, int worker, int workers);
	void *is_whole_arg;
	struct ht_rt_turns *turns; /* of the runs of all its contexts; NULL: any number at once */
};

/* ---- pool.c: fixed workers.  The partition of tiles depends on the number of workers only
 * through which thread runs a tile, never in what a tile computes. ---- */

struct ht_rt_pool;
/* `threads` counts the caller of a run; 1 starts no thread.  NULL when out of resources. */
struct ht_rt_pool *ht_rt_pool_new(int threads);
/* Threads that are started run on `cores`, which is copied; NULL: where the caller may. */
struct ht_rt_pool *ht_rt_pool_new_on(int threads, const struct ht_cores *cores);
void ht_rt_pool_free(struct ht_rt_pool *p);
int ht_rt_pool_threads(const struct ht_rt_pool *p);

/* ---- turns.c: how many runs there are at once ---- */

struct ht_rt_turns;
/* At most `most` runs at a time have a turn; those that wait get theirs in the order in which they asked.  NULL: out of
 * memory. */
struct ht_rt_turns *ht_rt_turns_new(int most);
void ht_rt_turns_free(struct ht_rt_turns *t);

/* ---- context.c ---- */

/* `n` bytes at a multiple of 64, of any content, for free(); in large pages where there are many.  NULL: out of memory. */
void *ht_rt_memory(size_t n);
/* Arenas and the scratch of one pool; used by one run at a time.  Contexts of one program may
 * run at the same time from different threads. */
struct ht_rt_context;
/* The bytes of memory of runs on so many threads, with `depth` recursive calls inside of each other; 0: more than there can be. */
size_t ht_rt_memory_of(const struct ht_rt_program *p, int threads, uint32_t depth);
/* `variable`: by variable of the image, memory of the caller's, which contexts of several programs may share;
 * NULL: the context has memory of its own, with the values with which a session begins.  `memory`: that of runs, the caller's as well;
 * NULL: the context's own.  There is room for `depth` recursive calls inside of each other.  Returns NULL when out of memory. */
struct ht_rt_context *ht_rt_context_new(const struct ht_rt_program *p, struct ht_rt_pool *pool,
	char *const *variable, char *memory, uint32_t depth);
void ht_rt_context_free(struct ht_rt_context *c);
/* Makes the session's objects of an image that has objects, before the first run.  `shared`: by object of the image, those
 * of somebody who outlives the context and releases them; NULL: the context makes and releases its own.  Objects of a run
 * and of the context are its own in any case.  False: one cannot be made, which *fault tells, or memory is out (fault->code is 0). */
struct ht_rt_fault;
bool ht_rt_context_objects(struct ht_rt_context *c, void *const *shared, struct ht_rt_fault *fault);
/* The strings that the context's tensors of strings have numbers of (base/strings.h); NULL: there are no such tensors. */
struct ht_strings *ht_rt_strings(const struct ht_rt_context *c);
/* Makes object `i` of the image: 0, and *out is the caller's, to be released by the functions of its kind; or the fault. */
int32_t ht_rt_object_make(const struct ht_rt_program *p, uint32_t i, void **out);
/* Stops a run when a loop has run so many iterations, or when *cancel, which another thread or a signal
 * handler may change at any time, is not 0.  A new context has neither limit; `cancel` may be NULL. */
void ht_rt_context_limit(struct ht_rt_context *c, uint64_t iterations, const int32_t *cancel);
/* Where the sizes of each run are, by size of the image, each within its bounds: as ht_exec.size. */
void ht_rt_context_sizes(struct ht_rt_context *c, int64_t *size);
/* The host has stated the sizes of the next run: arguments are bound anew, and buffers placed, if the last run had others. */
void ht_rt_context_stated(struct ht_rt_context *c);
/* Limits of time, in nanoseconds; 0: none.  A run that exceeds one stops with HT_EXEC_LATE before its next kernel or
 * iteration of a loop. */
enum ht_rt_limit {
	HT_RT_RUN = 1, /* a run, from its first step */
	HT_RT_SYNC,    /* a run, from the call of ht_rt_run(): with the wait for its turn */
	HT_RT_TURN,    /* the wait for a turn */
	HT_RT_KERNEL,  /* one thread's part of one kernel; looked at behind the last one, too */
	HT_RT_WAIT, /* a wait: for a turn, or of the leading thread for other ones to end the kernel before */
	HT_RT_LIMITS
};
/* `ns` is by enum ht_rt_limit.  Call it between runs; false: out of memory, there are no limits then. */
bool ht_rt_context_limits(struct ht_rt_context *c, const uint64_t ns[HT_RT_LIMITS]);
/* Has the calling thread run on these cores during the context's runs, which the pool's other threads do anyway
 * (ht_rt_pool_new_on()).  `cores` is copied; NULL: wherever it may. */
void ht_rt_context_cores(struct ht_rt_context *c, const struct ht_cores *cores);
/* How often the elements of a variable changed, so that contexts know when what they made of them is stale.  Contexts that share
 * the variable's memory share this. */
struct ht_rt_version {
	uint64_t count;
	/* Others have the address of its memory, and may write to it between runs: each run takes it as changed, unless it is told
	 * otherwise. */
	bool exposed;
};
/* By variable of the image: versions that the caller shares between contexts, as it shares the memory.  A context has its own
 * until then.  They outlive the context. */
void ht_rt_context_versions(struct ht_rt_context *c, struct ht_rt_version *const *version);
void ht_rt_context_expose(struct ht_rt_context *c, uint32_t variable);
/* Input `number` (HT_IMAGE_PARAM) or variable `number` (HT_IMAGE_VARIABLE) has in the next run the elements that it had in the
 * context's last one. */
void ht_rt_context_unchanged(struct ht_rt_context *c, enum ht_image_kind kind, uint32_t number);
/* The memory of variable `i` of the image: it keeps its value from run to run. */
void *ht_rt_variable(const struct ht_rt_context *c, uint32_t i);
/* Gives all variables the values with which a session begins, and zeros to those without one. */
void ht_rt_context_reset(struct ht_rt_context *c);
/* Restarts all streams of random numbers; `seed` is for ops without seeds.  A new context has seed 0. */
void ht_rt_context_seed(struct ht_rt_context *c, uint64_t seed);
/* The states of all streams, by number in the image: where the next run draws from. */
struct ht_philox *ht_rt_streams(struct ht_rt_context *c);
/* The number of ops whose numbers depend on the context's seed. */
size_t ht_rt_unseeded(const struct ht_rt_program *p);
/* The number of loops of all procedures. */
size_t ht_rt_loops(const struct ht_rt_program *p);
/* Puts every buffer of the context between inaccessible pages, adjacent to the one behind or the one
 * before, so that a kernel that reads or writes outside of its buffers ends in SIGSEGV; each run copies
 * inputs and outputs.  Slow, and ht_rt_arena() is not available.  Call it before the first run; false:
 * out of memory, the context is unchanged. */
enum ht_rt_guard { HT_RT_GUARD_BEHIND, HT_RT_GUARD_BEFORE };
bool ht_rt_context_guard(struct ht_rt_context *c, enum ht_rt_guard where);

/* Has every run from here on call `fn` for each tensor that it tees, on the thread that called ht_rt_run(): number `tensor` of
 * the plan, at `at`, which is valid during the call, computed in frame `f`.  `kernel` is the address of library kernel
 * "tee".  The parts of a batch run one after the other then.  `fn` NULL: no longer. */
typedef void ht_rt_tee_fn(
	void *arg, uint32_t tensor, const void *at, const struct ht_exec_frame *f);
void ht_rt_context_tee(struct ht_rt_context *c, int64_t kernel, ht_rt_tee_fn *fn, void *arg);

#define HT_RT_NO_STEP UINT32_MAX
struct ht_rt_fault {
	int32_t code;    /* of the kernel, or enum ht_exec_fault; 0: none */
	uint32_t step;   /* of the image; HT_RT_NO_STEP: the run had not begun */
	uint32_t object; /* 1 + the object of the image that could not be made; 0: none */
	const struct ht_exec_frame *
		frame; /* it and its callers are valid until the context's next run; NULL: there is none */
	void *const *args; /* the step's arguments; likewise */
	/* Of HT_EXEC_LATE: which limit, the time that was taken, and the limit. */
	enum ht_rt_limit limit;
	uint64_t took_ns, limit_ns;
};
/* Inputs and outputs have the program's sizes; alignment to 64 is fastest, that of the element type is
 * enough.  Rounding is to nearest, subnormals are kept (flushed
 * with `ftz`); each thread's modes are restored afterwards. */
bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault);
/* The frame of the entry after the last run. */
const void *ht_rt_arena(const struct ht_rt_context *c);
/* Switches profiling; then the nanoseconds of each step of the image in the last run, 0 for steps
 * without a kernel; NULL when profiling is off. */
void ht_rt_profile(struct ht_rt_context *c, bool on);
const int64_t *ht_rt_step_ns(const struct ht_rt_context *c);
/* Records the kernels of all runs that follow: the last `events` of them, and totals of all.  0: no longer, and what was
 * recorded is gone.  False: out of memory, nothing is recorded. */
bool ht_rt_record(struct ht_rt_context *c, size_t events);
/* Counts events of the processor and the system in all runs that follow (counters.h); false: no longer, and what was counted
 * is gone.  It returns false when out of memory; nothing is counted then. */
bool ht_rt_count(struct ht_rt_context *c, bool on);
struct ht_counters;
const struct ht_counters *ht_rt_counters(
	const struct ht_rt_context *c); /* NULL: nothing is counted */
struct ht_trace;
struct ht_trace *ht_rt_recording(struct ht_rt_context *c); /* NULL: nothing is recorded */
const struct ht_trace *ht_rt_recorded(const struct ht_rt_context *c); /* NULL: nothing */

#endif
