/* runtime: runs a program.  Plans nothing, allocates nothing during a run.  Uses base only. */
#ifndef HT_RUNTIME_H
#define HT_RUNTIME_H

#include "base/base.h"
#include "base/words.h"

/* The calling convention of kernels (kernel/kernel.h says more). */
typedef int32_t ht_rt_fn(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch);

/* STREAM: the state of a stream of random numbers, a struct ht_philox. */
enum ht_rt_where { HT_RT_ARENA, HT_RT_CONST, HT_RT_INPUT, HT_RT_OUTPUT, HT_RT_STREAM };

struct ht_rt_buffer {
	enum ht_rt_where where;
	size_t offset; /* HT_RT_ARENA: bytes; INPUT, OUTPUT, STREAM: its number; CONST: for is_whole() */
	const void *data; /* HT_RT_CONST */
	size_t bytes;     /* of INPUT and OUTPUT in one part of the batch */
	bool whole;       /* INPUT: each part has all of it */
};

struct ht_rt_step {
	ht_rt_fn *fn;
	const int32_t *buffer; /* `args` buffer numbers */
	int32_t args;
	const int64_t *params;
	int32_t param_count;
	int64_t tiles;
	const char *node;             /* for messages */
	const char *method;           /* for reports; may be NULL */
	const struct ht_words *words; /* for messages: the step's own */
	size_t words_count;
};

/* A stream of random numbers, in which a context goes on from run to run.  An op with seeds draws as
 * TensorFlow's does; one without draws by the context's seed and its name. */
struct ht_rt_stream {
	uint64_t seed, seed2; /* both 0: the op has none */
	uint64_t name;        /* a hash of it */
	uint64_t blocks;      /* of four numbers of 32 bits: how far a run moves on */
};

struct ht_rt_program {
	const struct ht_rt_buffer *buffer;
	int32_t buffers;
	const struct ht_rt_step *step;
	int32_t steps;
	const struct ht_rt_stream *stream;
	int32_t streams;
	int32_t inputs, outputs;
	size_t arena_bytes, scratch_bytes; /* scratch: per thread */
	/* Inputs and outputs are so many parts along their first dimension, of which no result needs
	 * another's: the steps are those of one, and are run for each.  1: the steps are the program. */
	int64_t parts;
	/* Whether a constant is what it was made as, asked before the first step that reads it runs in
	 * a context: each worker looks at its share.  NULL: it is. */
	bool (*is_whole)(void *arg, const struct ht_rt_buffer *b, int worker, int workers);
	void *is_whole_arg;
};

/* How far part 1 of an input or output is from part 0. */
static inline size_t ht_rt_part_bytes(const struct ht_rt_program *p, const struct ht_rt_buffer *b)
{
	return p->parts > 1 && !b->whole ? b->bytes : 0;
}

/* ---- pool.c: fixed workers.  The partition of tiles depends on the number of workers only
 * through which thread runs a tile, never in what a tile computes. ---- */

struct ht_rt_pool;
/* `threads` counts the caller of a run; 1 starts no thread.  NULL when out of resources. */
struct ht_rt_pool *ht_rt_pool_new(int threads);
void ht_rt_pool_free(struct ht_rt_pool *p);
int ht_rt_pool_threads(const struct ht_rt_pool *p);

/* ---- context.c, run.c ---- */

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

#define HT_RT_DAMAGED (-1)
struct ht_rt_fault {
	int32_t code; /* of the kernel; HT_RT_DAMAGED: a constant is not whole; 0: none */
	const struct ht_rt_step *step;
	void *const *args; /* the step's arguments; valid until the context's next run */
};
/* Inputs and outputs: memory of the sizes the program was made for, aligned to 64 for speed, any
 * alignment of the element type is accepted.  Rounding is to nearest, subnormals are kept (flushed
 * with `ftz`); each thread's modes are restored afterwards. */
bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault);
/* What the last run left in the arena. */
const void *ht_rt_arena(const struct ht_rt_context *c);
/* Nanoseconds each step took in the last run with profiling on, in all parts; NULL when off. */
void ht_rt_profile(struct ht_rt_context *c, bool on);
const int64_t *ht_rt_step_ns(const struct ht_rt_context *c);

#endif
