/* execute: the executor of images.  Freestanding: it calls nothing and allocates nothing. */
#ifndef HT_EXECUTE_H
#define HT_EXECUTE_H

#include "base/fault.h"
#include "base/philox.h"
#include "image/image.h"

#include <stdbool.h>

/* The calling convention of kernels (kernel/kernel.h says more). */
typedef int32_t ht_exec_fn(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch);

/* Kernel i is at code + kernel[i], constant i at data + constant[i]. The library stores
 * addresses: its `data` is 0, and its executor does not read `code`, which saves an instruction
 * per kernel.  A net stores distances from its bases. */
struct ht_exec_links {
	uintptr_t code, data;
	const int64_t *kernel, *constant;
	struct ht_philox *stream; /* states of random streams, by number */
	char *variables;          /* memory of all variables, at a multiple of 64 */
	/* By variable, each at a multiple of 64: memory that the library shares between images;
	 * NULL: they are in `variables`. Nets do not read it. */
	char *const *variable;
	char *derived; /* memory of all derived buffers, at a multiple of 64 */
	/* Versions of sources, which the host changes between runs, numbered by
	 * ht_image_version_of().  `made`, by derived buffer: the executor's record of the
	 * versions that it was made from; 0, the initial value: it was not made yet. */
	const uint64_t *version;
	uint64_t *made;
	void *const *object; /* by object: its address.  Nets have none */
};

/* Threads of the host, `struct net_parallel` of a net's header: run() calls fn(arg, worker, workers) on up to
 * `threads` threads at the same time, once on each, and returns when all have finished; barrier() waits
 * until all threads have reached it. */
struct ht_exec_threads {
	int threads;
	void *pool;
	void (*run)(void *pool, void (*fn)(void *arg, int worker, int workers), void *arg);
	void (*barrier)(void *pool);
};

/* A procedure that is running. */
struct ht_exec_frame {
	const struct ht_image_procedure *procedure;
	void **arg;       /* addresses of the arguments of all its steps */
	int64_t *counter; /* of its loops */
	char *temps;      /* its temporary buffers, */
	uint64_t bytes;   /* which have so many bytes at the sizes that it was bound for */
	struct ht_exec_frame
		*caller; /* NULL: the entry, or an instance that another thread forked */
	void *const
		*from; /* the caller's arguments of the call; NULL: inputs and outputs of the run */
	const int64_t *stride; /* distance of each argument from instance to instance; NULL: a
			        * call */
	uint32_t next;         /* step, counted from the procedure's first */
	uint32_t instance, instances;
	uint32_t bound; /* 1 + the step for whose callee the next frame was bound; 0: none */
};

/* Where and why a run stopped. */
struct ht_exec_stop {
	int32_t code;  /* base/fault.def; 0: it did not stop */
	uint32_t step; /* in the table of steps; if a call could not be entered: that call */
	int64_t instance, tile;
	const struct ht_exec_frame *frame; /* valid, with its callers, until the next run */
};

/* Callbacks during a run.  Nets are built without them. */
struct ht_exec_observer {
	void *arg;
	bool together; /* instances of a fork run one after the other, each on all threads */
	/* Called before a step, on each of its `workers`. Returns 0, or the code with which the
	 * run stops. */
	int32_t (*check)(
		void *arg, const struct ht_exec_frame *f, uint32_t step, int worker, int workers);
	/* Called before a step with a kernel, and where a loop continues, on the thread that
	 * executes it.  Returns whether a time limit is exceeded. */
	bool (*late)(void *arg, int worker);
	/* Called around a procedure whose arguments are bound.  The callbacks may bind them
	 * differently. */
	void (*enter)(void *arg, struct ht_exec_frame *f);
	void (*leave)(void *arg, struct ht_exec_frame *f);
	/* Called around a step, on the leading thread, when all others have finished the steps
	 * before it. */
	void (*before)(void *arg, struct ht_exec_frame *f, uint32_t step);
	void (*after)(void *arg, struct ht_exec_frame *f, uint32_t step);
	/* Called around one thread's share of a kernel's step: all of its tiles or, with
	 * `workers` threads, some.  These two callbacks add no waiting between threads. */
	void (*begin)(void *arg, int worker);
	void (*end)(void *arg, uint32_t step, int worker, int workers);
};

/* Bytes that a run needs; each is a multiple of 64. */
struct ht_exec_needs {
	uint64_t control; /* of each thread: frames without their temporary buffers */
	uint64_t temps;   /* of the first thread */
	uint64_t forked;  /* temporary buffers of each other thread */
	uint64_t scratch; /* of each thread */
};
/* Memory of a run: the common bytes, and the bytes of each thread. */
static inline uint64_t ht_exec_common_bytes(const struct ht_exec_needs *n)
{
	return n->temps - n->forked;
}
static inline uint64_t ht_exec_thread_bytes(const struct ht_exec_needs *n)
{
	return n->forked + n->control + n->scratch;
}

struct ht_exec_limits {
	uint32_t depth;      /* of nested recursive calls; other calls are not limited */
	uint64_t iterations; /* of each loop */
};
enum { HT_EXEC_DEPTH_INIT = 64 };
#define HT_EXEC_LIMITS_INIT { HT_EXEC_DEPTH_INIT, UINT64_MAX }

/* The work of all threads between two barriers. */
struct ht_exec_job {
	uint32_t kind;    /* enum ht_exec_kind */
	int64_t instance; /* the next instance of a fork that no thread has taken */
	int64_t end;      /* one past its last instance */
	const struct ht_image_step *step;
	struct ht_exec_frame *frame;
};

/* A run of one entry of an image.  Several runs of an image may execute at the same time.  The
 * host fills in the first part before it calls ht_exec_begin(). */
struct ht_exec {
	const struct ht_image *image;
	uint32_t entry;
	struct ht_exec_links links;
	struct ht_exec_limits limits;
	struct ht_exec_needs needs;
	/* Set by ht_exec_lay_out(): memory of the first thread; `forked`: of the second.  All
	 * are aligned to 64. */
	char *control, *temps, *forked, *scratch;
	uint64_t stride, scratch_stride;         /* distances from thread to thread */
	const int32_t *cancel;                   /* may change during a run; NULL: never */
	const struct ht_exec_threads *threads;   /* NULL: only the calling thread */
	const struct ht_exec_observer *observer; /* NULL: none */
	bool flush;                              /* subnormal numbers count as zero */
	/* Of the current run. */
	const void *const *in;
	void *const *out;
	/* By size of the image, within its bounds; may be NULL if the image has none.  For sizes
	 * that the run computes, the host sets the largest value, and the run replaces it.
	 * Other sizes stay unchanged. */
	int64_t *size;
	struct ht_exec_stop stop; /* why the last run stopped */
	/* Used by the executor only. */
	struct ht_exec_job job[2]; /* of this phase, and of the one before or after */
	int64_t failed;            /* number of the phase in which a thread stopped; -1: none */
};

/* Gives `memory`, at a multiple of 64, to the run on x->threads: the thread bytes of each thread plus the common bytes.
 * The first thread's temporary buffers come last, in the common bytes and those of a thread, so a run that
 * needs fewer of them (ht_exec_temps_of()) does not use the end of the memory. */
static inline void ht_exec_lay_out(struct ht_exec *x, char *memory)
{
	uint64_t others = x->threads ? (uint64_t)x->threads->threads - 1 : 0;

	x->stride = ht_exec_thread_bytes(&x->needs);
	x->scratch_stride = x->stride;
	x->control = memory;
	x->scratch = memory + x->needs.control;
	x->forked = x->scratch + x->needs.scratch;
	x->temps = x->forked + others * x->stride;
}

/* sizes.c: takes the sizes of a run from the extents of an input, which is port `port` of the
 * entry; `dim` has as many extents as the port's rank.  `size` is by size of the image, with -1
 * for sizes that are not known yet.  If the result is an error, it concerns extent *axis. */
enum ht_exec_misfit {
	HT_EXEC_FITS,
	HT_EXEC_OTHER_EXTENT, /* the entry has another extent, which is constant */
	HT_EXEC_OTHER_SIZE,   /* the size is known already, and differs */
	HT_EXEC_OUT_OF_BOUNDS /* the size is below the least or above the most */
};
enum ht_exec_misfit ht_exec_take_sizes(const struct ht_image *x, const struct ht_image_port *port,
	const int64_t *dim, int64_t *size, uint32_t *axis);
/* The value of an extent of a port, and the bytes of a port. */
int64_t ht_exec_extent(const struct ht_image *x, int64_t extent, const int64_t *size);
uint64_t ht_exec_port_bytes(
	const struct ht_image *x, const struct ht_image_port *port, const int64_t *size);
/* Of a buffer of procedure p: the bytes that a parameter has, or that steps touch at most of a temporary buffer, at these sizes. */
uint64_t ht_exec_buffer_bytes(const struct ht_image *x, const struct ht_image_procedure *p,
	const struct ht_image_buffer *b, const int64_t *size);
/* Bytes of an element of a tensor in the memory of a run; 0: the type has no fixed size. */
uint64_t ht_exec_element_bytes(uint32_t dtype);

/* needs.c: the memory that an entry of a verified image needs.  False: more than UINT64_MAX / 2
 * bytes. */
bool ht_exec_needs_of(const struct ht_image *x, uint32_t entry, const struct ht_exec_limits *l,
	struct ht_exec_needs *out);

/* Of n->temps bytes, those that a run with these sizes uses, a multiple of 64: fewer where the image has places and the sizes are not
 * the largest.  A size that the run computes counts as the most.  `work` has two numbers for each place. */
uint64_t ht_exec_temps_of(const struct ht_image *x, uint32_t entry, const struct ht_exec_needs *n,
	const int64_t *size, uint64_t *work);

/* Forgets earlier bindings.  Call it before the first run, and when memory, links or observer changed, or sizes that the host states
 * for an image with places. */
void ht_exec_begin(struct ht_exec *x);
/* Runs once.  False: the run stopped; x->stop says where.  A NULL input takes its default.
 * Rounding is to nearest; each thread's modes are restored. */
bool ht_exec_run(struct ht_exec *x, const void *const *in, void *const *out);

#endif
