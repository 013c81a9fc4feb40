/* runner: the parts of a net that was compiled ahead of time, as they lie in memory.
 *
 * A plan lies in the net's read-only data: for each target an image (image/image.h) and the offsets
 * of its code and weights.  It contains no address, so nothing has to be relocated: offsets are in
 * bytes from the start of the plan unless a comment says otherwise.  api/aot_net.c writes the plan,
 * runner.c reads it. */
#ifndef HT_AOT_RUNNER_H
#define HT_AOT_RUNNER_H

#include "image/execute.h" /* what net_run() returns is in base/fault.def */

enum { HT_AOT_WEIGHTS_HEADER = 64 };

/* The requirements of code: a level (enum ht_cpu_level), and extensions that only some machines of
 * the level have (enum ht_cpu_extension). */
#define HT_AOT_NEEDS(level, extensions) ((level) | (extensions) << 8)
#define HT_AOT_LEVEL(needs) ((needs) & 255)
#define HT_AOT_EXTENSIONS(needs) ((needs) >> 8)

struct ht_aot_level {
	int64_t name;   /* name of the target */
	int64_t image;  /* image, at a multiple of HT_IMAGE_ALIGN */
	int64_t kernel; /* an int64_t for each kernel of the image: its offset in the code */
	/* an int64_t for each constant: its offset in the weights, whose header counts */
	int64_t constant;
	struct ht_exec_needs memory;
	uint64_t needs;
	/* The memory that the caller keeps from run to run, `kept` bytes (0: none): variables; from
	 * `version` on a uint64_t for the version of each variable and input; from `made` on one
	 * for each derived buffer; from `derived` on the derived buffers. */
	uint64_t version, made, derived, kept;
};

struct ht_aot_plan {
	int64_t code;
	int64_t state;   /* an int32_t: 1 + the number of the level; -1: none; 0: not known yet */
	int64_t weights; /* with their header; not used if they are in a file */
	int64_t record;  /* ht_aot_record(), in bytes from the code's begin */
	int64_t texts;   /* as ht_fault_texts, with the limits of this net */
	uint64_t external;
	uint64_t keep_subnormals; /* 0: subnormals count as zero */
	uint64_t iterations;      /* the limit of iterations of a loop */
	uint64_t levels;
	uint8_t digest[32]; /* of the weights, as at byte 32 of their header */
			    /* The levels follow, the best one first. */
};

/* The functions of a net, in one piece of code that runs at any address.  After the outputs, `out`
 * has the kept memory (ht_aot_level.kept), if there is any; after the inputs, `in` has the address of an int64_t
 * for each open size, and if the run computes sizes, behind these one for each other size of the image, which the run sets. */
int ht_aot_run(const void *const *in, void *const *out, void *arena, const void *weights,
	const struct ht_exec_threads *parallel, const struct ht_aot_plan *plan);
/* Sets the variables to their initial values. */
int ht_aot_begin(void *variables, const void *weights, const struct ht_aot_plan *plan);
const char *ht_aot_target(const struct ht_aot_plan *plan);

/* The address of that code in this process. */
extern const char ht_aot_code_begin[] __asm__("__start_ht_aot_runner")
	__attribute__((visibility("hidden")));
extern const char ht_aot_code_end[] __asm__("__stop_ht_aot_runner")
	__attribute__((visibility("hidden")));

#endif
