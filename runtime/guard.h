/* Internal: puts every buffer of a context between inaccessible pages, to find accesses outside of
 * buffers.  Sanitizers do not instrument generated code; memory protection covers it. */
#ifndef HT_RUNTIME_GUARD_H
#define HT_RUNTIME_GUARD_H

#include "runtime/runtime.h"

struct ht_guarded;

/* Each of `threads` threads gets `scratch_bytes`.  All frames of a procedure have the same buffers, so the program must not recur.
 * NULL: out of memory. */
struct ht_guarded *ht_guarded_new(
	const struct ht_rt_program *p, enum ht_rt_guard where, int threads, size_t scratch_bytes);
void ht_guarded_free(struct ht_guarded *g);
/* The first thread's scratch, and the distance to the next thread's. */
char *ht_guarded_scratch(const struct ht_guarded *g, uint64_t *stride);
/* Called when a procedure begins: binds its arguments to guarded memory.  Buffers have the bytes that they have at
 * the sizes of the run (`size` is by size of the image; NULL: it has none): of a temporary buffer with a place, those that kernels
 * reach.  Buffers that the procedure reads are copied there; all others are filled with 0xff, which is a NaN in every
 * float type. */
void ht_guarded_enter(struct ht_guarded *g, struct ht_exec_frame *f, const int64_t *size);
/* Called when it ends: copies its results to the caller's memory. */
void ht_guarded_leave(const struct ht_guarded *g, struct ht_exec_frame *f);

#endif
