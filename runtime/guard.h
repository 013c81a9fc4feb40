/* runtime, inside: every buffer of a context between unreadable pages, to find kernels that leave
 * theirs.  Generated code is not instrumented by sanitizers; the machine's own protection sees it. */
#ifndef HT_RUNTIME_GUARD_H
#define HT_RUNTIME_GUARD_H

#include "base/philox.h"
#include "runtime/runtime.h"

struct ht_guarded;

/* Scratch is for `threads` threads.  NULL: out of memory. */
struct ht_guarded *ht_guarded_new(
	const struct ht_rt_program *p, enum ht_rt_guard where, int threads);
void ht_guarded_free(struct ht_guarded *g);
/* Where a buffer of the program is: inputs and outputs too, which are copied. */
void *ht_guarded_buffer(const struct ht_guarded *g, int32_t buffer);
/* The first thread's scratch, and how far the next one's is. */
char *ht_guarded_scratch(const struct ht_guarded *g, size_t *stride);
/* Before a run of part `part`: inputs and the states of streams are copied in, and all that a step has to write first is made of 0xff, a NaN
 * in every float type. */
void ht_guarded_enter(struct ht_guarded *g, const void *const *inputs,
	const struct ht_philox *streams, int64_t part);
/* Behind it: outputs are copied out. */
void ht_guarded_leave(const struct ht_guarded *g, void *const *outputs, int64_t part);

#endif
