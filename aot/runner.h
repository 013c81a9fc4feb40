/* runner: what a net that was compiled ahead of time consists of in memory.
 *
 * A plan lies in the net's read-only data; the runner walks it.  Nothing in it is an address, so that
 * nothing has to be relocated: offsets are in bytes from the start of the plan where nothing else
 * is said.  aot.c writes it, runner.c reads it. */
#ifndef HT_AOT_RUNNER_H
#define HT_AOT_RUNNER_H

#include <stdint.h>

enum { HT_AOT_MAX_ARGS = 1024, HT_AOT_WEIGHTS_HEADER = 64 };

/* What net_run() returns; the header of a net has them as names. */
enum ht_aot_status {
	HT_AOT_OK = 0,
	/* 1 to 15: enum ht_fault of a kernel */
	HT_AOT_E_CPU = 16,
	HT_AOT_E_ARENA = 17,
	HT_AOT_E_WEIGHTS = 18,
	HT_AOT_E_THREADS = 19
};

enum ht_aot_where { HT_AOT_ARENA, HT_AOT_WEIGHT, HT_AOT_INPUT, HT_AOT_OUTPUT };

/* What code needs of a machine: a level (enum ht_cpu_level), and extensions that not every machine of
 * it has (enum ht_cpu_extension). */
#define HT_AOT_NEEDS(level, extensions) ((level) | (extensions) << 8)
#define HT_AOT_LEVEL(needs) ((needs) & 255)
#define HT_AOT_EXTENSIONS(needs) ((needs) >> 8)

/* What a kernel is given: where in the two highest bits, below them an offset (of weights: behind
 * their header) or a number. */
#define HT_AOT_ARG(where, offset) ((uint64_t)(where) << 62 | (uint64_t)(offset))

struct ht_aot_step {
	int64_t entry;  /* in the code */
	int64_t arg;    /* its uint64_t's */
	int64_t params; /* its int64_t's */
	int64_t tiles;
	uint64_t args;
};

/* Of a batch in parts, each of which takes all steps, every thread has an arena of its own: in front of
 * its scratch, from thread to thread. */

struct ht_aot_level {
	int64_t name; /* of the target */
	int64_t step;
	uint64_t steps;
	uint64_t scratch;      /* in the arena, of the first thread */
	uint64_t thread_bytes; /* from thread to thread */
	uint64_t parts;        /* of the batch; 1: it is whole */
	int64_t in_part;       /* where parts > 1, by input, bytes from part to part */
	int64_t out_part;      /* by output */
	uint64_t needs;
};

struct ht_aot_plan {
	int64_t code;
	int64_t state;   /* an int32_t: the number of the level + 1, -1: none; 0: not known yet */
	int64_t weights; /* with their header; not used where they are in a file */
	uint64_t external;
	uint64_t keep_subnormals; /* 0: they count as zero */
	int64_t fallback;         /* by input, offset of its default, or 0 */
	uint64_t inputs, levels;
	uint8_t digest[32]; /* of the weights: what their header has at byte 32 */
			    /* Its levels follow, the best one first. */
};

/* As `struct net_parallel` of a net's header. */
struct ht_aot_parallel {
	int threads;
	void *pool;
	void (*run)(void *pool, void (*fn)(void *arg, int worker, int workers), void *arg);
	void (*barrier)(void *pool);
};

/* The functions of a net, in one piece of code that runs wherever it is copied to. */
int ht_aot_run(const void *const *in, void *const *out, void *arena, const void *weights,
	const struct ht_aot_parallel *parallel, const struct ht_aot_plan *plan);
const char *ht_aot_target(const struct ht_aot_plan *plan);

/* Where that piece is in this process. */
extern const char ht_aot_code_begin[] __asm__("__start_ht_aot_runner")
	__attribute__((visibility("hidden")));
extern const char ht_aot_code_end[] __asm__("__stop_ht_aot_runner")
	__attribute__((visibility("hidden")));

#endif
