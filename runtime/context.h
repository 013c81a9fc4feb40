/* Internal: the members of a context. */
#ifndef HT_RUNTIME_CONTEXT_H
#define HT_RUNTIME_CONTEXT_H

#include "base/philox.h"
#include "runtime/guard.h"
#include "runtime/lives.h"
#include "runtime/pool.h"
#include "runtime/trace.h"

struct ht_rt_context {
	const struct ht_rt_program *program;
	struct ht_exec exec;
	struct ht_exec_threads threads;
	struct ht_exec_observer observer;
	struct ht_guarded *guarded; /* or NULL */
	struct ht_lives *lives;     /* or NULL */
	char *memory;               /* of the run, but for guarded buffers */
	size_t memory_bytes;
	struct ht_philox *stream; /* of the next run, by number */
	char *variables;
	struct ht_trace *trace; /* or NULL */
	ht_rt_tee_fn *tee;      /* or NULL */
	void *tee_arg;
	int64_t tee_kernel; /* the address of library kernel "tee" */
	uint64_t most_ns;   /* of a run; 0: no limit */
	int64_t deadline;   /* of the current run */
	bool profile;
	bool checked; /* every constant is whole */
	int64_t *ns;  /* by step */
	int64_t last; /* when the last step of a profiled run ended */
};

/* observe.c: sets up the observer for the context's next run. */
void ht_context_observe(struct ht_rt_context *c);

#endif
