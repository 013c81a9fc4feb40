/* runtime, inside: every buffer of a context between unreadable pages, to find kernels that leave
 * theirs.  Generated code is not instrumented by sanitizers; the machine's own protection sees it. */
#ifndef HT_RUNTIME_GUARD_H
#define HT_RUNTIME_GUARD_H

#include "base/philox.h"
#include "runtime/runtime.h"

struct ht_guarded;

/* Scratch: so many bytes for each of `threads` threads.  Of procedures that recurse, frames share their
 * buffers; no program has such.  NULL: out of memory. */
struct ht_guarded *ht_guarded_new(const struct ht_rt_program *p, const struct ht_philox *streams,
	enum ht_rt_guard where, int threads, size_t scratch_bytes);
void ht_guarded_free(struct ht_guarded *g);
/* The first thread's scratch, and how far the next one's is. */
char *ht_guarded_scratch(const struct ht_guarded *g, uint64_t *stride);
/* A procedure begins: its arguments are bound to guarded memory.  What it reads is copied there, and all
 * that a step has to write first is made of 0xff, a NaN in every float type. */
void ht_guarded_enter(struct ht_guarded *g, struct ht_exec_frame *f);
/* It ends: what it wrote for its caller is copied there. */
void ht_guarded_leave(const struct ht_guarded *g, struct ht_exec_frame *f);

#endif
