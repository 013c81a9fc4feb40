/* Profiles of runs: the options, and parts of a profile that are shown separately. */
#ifndef HALFTONE_CLI_PROFILE_H
#define HALFTONE_CLI_PROFILE_H

#include "cli/cli.h"

/* ---- profile_options.c ---- */

/* Whether profiling_mode is on. */
bool vendor_profiles(const struct cli *c);
/* A member of profiling_options; NULL: it is not stated.  The caller frees it. */
char *vendor_option(const struct cli *c, const char *key);
/* The parts that profiling_options, or the older enable_options, selects if profiling_mode is
 * on. */
struct vendor_parts {
	bool ops;        /* op_summary: a record of each kernel */
	bool timeline;   /* msprof: when each kernel ran */
	bool iterations; /* step_trace: forward and backward passes */
};
struct vendor_parts vendor_parts(const struct cli *c);
/* The number of kernels that the timeline keeps. */
size_t profile_events(const struct cli *c);
bool profile_counts(const struct cli *c); /* whether counters are wanted */
/* A point of each iteration, from option "fp_point" or "bp_point"; NULL: it is found
 * automatically.  The caller frees it. */
char *profile_point(const struct cli *c, const char *option);
bool profile_divides(const struct cli *c); /* whether iterations are wanted */

/* ---- profile_iterations.c ---- */

enum ht_status iterations_begin(struct cli *c, struct ht_context *context);
void iterations_text(struct text *out, const struct ht_context *context);
void iterations_json(
	struct text *out, const struct ht_context *context); /* a member of an object */
/* Appends lines of step_trace.csv for program `model`; iterations_heading is the heading. */
extern const char iterations_heading[];
void iterations_csv(
	struct text *out, const struct cli *c, const struct ht_context *context, size_t model);
/* Warns if no run passed both points. */
void iterations_check(struct cli *c, const struct ht_context *context);

#endif
