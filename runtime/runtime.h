/* runtime: runs a program.  Plans nothing, allocates nothing during a run.  Uses base and image. */
#ifndef HT_RUNTIME_H
#define HT_RUNTIME_H

#include "base/base.h"
#include "image/execute.h"

/* An image of one entry, and where its code and constants are in this process. */
struct ht_rt_program {
	const struct ht_image *image;
	const int64_t *kernel;   /* by kernel: its address */
	const int64_t *constant; /* by constant: likewise */
	/* Whether a constant is what it was made as, asked before the first step that reads it runs in
	 * a context: each worker looks at its share.  NULL: it is. */
	bool (*is_whole)(void *arg, uint32_t constant, int worker, int workers);
	void *is_whole_arg;
};

/* ---- pool.c: fixed workers.  The partition of tiles depends on the number of workers only
 * through which thread runs a tile, never in what a tile computes. ---- */

struct ht_rt_pool;
/* `threads` counts the caller of a run; 1 starts no thread.  NULL when out of resources. */
struct ht_rt_pool *ht_rt_pool_new(int threads);
void ht_rt_pool_free(struct ht_rt_pool *p);
int ht_rt_pool_threads(const struct ht_rt_pool *p);

/* ---- context.c ---- */

/* Arenas and the scratch of one pool; used by one run at a time.  Contexts of one program may
 * run at the same time from different threads. */
struct ht_rt_context;
struct ht_rt_context *ht_rt_context_new(
	const struct ht_rt_program *p, struct ht_rt_pool *pool); /* NULL: out of memory */
void ht_rt_context_free(struct ht_rt_context *c);
/* All streams of random numbers begin again, those of ops without seeds by this one.  A new context's is
 * 0. */
void ht_rt_context_seed(struct ht_rt_context *c, uint64_t seed);
/* How many ops there are whose numbers the context's seed decides. */
size_t ht_rt_unseeded(const struct ht_rt_program *p);
/* Puts every buffer of the context (those of inputs and outputs are copied by each run) between
 * pages that may not be touched, against the one behind or the one before, so that a kernel that
 * reads or writes outside of its buffers ends in SIGSEGV.  Slow.  There is no ht_rt_arena() then.
 * Before the first run; false: out of memory, the context is as it was. */
enum ht_rt_guard { HT_RT_GUARD_BEHIND, HT_RT_GUARD_BEFORE };
bool ht_rt_context_guard(struct ht_rt_context *c, enum ht_rt_guard where);

struct ht_rt_fault {
	int32_t code;  /* of the kernel, or enum ht_exec_fault; 0: none */
	uint32_t step; /* of the image */
	const struct ht_exec_frame
		*frame;    /* valid until the context's next run, as are its callers */
	void *const *args; /* the step's arguments; likewise */
};
/* Inputs and outputs: memory of the sizes the program was made for, aligned to 64 for speed, any
 * alignment of the element type is accepted.  Rounding is to nearest, subnormals are kept (flushed
 * with `ftz`); each thread's modes are restored afterwards. */
bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault);
/* What the last run left in the frame of the entry. */
const void *ht_rt_arena(const struct ht_rt_context *c);
/* By step of the image, nanoseconds that it took in the last run with profiling on; NULL when off.  Of
 * steps that run no kernel 0. */
void ht_rt_profile(struct ht_rt_context *c, bool on);
const int64_t *ht_rt_step_ns(const struct ht_rt_context *c);

#endif
