/* Internal: the members of a context. */
#ifndef HT_RUNTIME_CONTEXT_H
#define HT_RUNTIME_CONTEXT_H

#include "base/philox.h"
#include "runtime/cores.h"
#include "runtime/counters.h"
#include "runtime/guard.h"
#include "runtime/lives.h"
#include "runtime/pool.h"
#include "runtime/trace.h"
#include "runtime/turns.h"

/* When a thread began its last part of a kernel, and ended it; a line of memory, so that threads do not share one. */
struct ht_stamp {
	_Alignas(64) int64_t begin;
	int64_t end; /* 0: it has not done any in this run */
};

/* The first limit of time that the current run exceeded.  `which` is set by the thread that finds it so. */
struct ht_overrun {
	int which;     /* enum ht_rt_limit; 0: none */
	uint64_t ns;   /* that were taken */
	uint32_t step; /* of HT_RT_KERNEL */
};

struct ht_rt_context {
	const struct ht_rt_program *program;
	struct ht_exec exec;
	struct ht_exec_threads threads;
	struct ht_exec_observer observer;
	struct ht_guarded *guarded; /* or NULL */
	struct ht_lives *lives;     /* or NULL */
	char *memory;               /* of the run, but for guarded buffers */
	char *own;                  /* `memory`, if it is not the caller's */
	size_t memory_bytes;
	struct ht_philox *stream;   /* of the next run, by number */
	void **object;              /* by object of the image; NULL: it has none */
	bool has_objects;           /* the image has some */
	bool shares_objects;        /* somebody else releases those of the session */
	bool makes_objects;         /* some belong to a run */
	struct ht_strings *strings; /* one of the objects; NULL: it has none */
	char *variables;
	/* derived.c.  By variable: its version, that of the context where nobody shares it, and whether a run writes to it. */
	struct ht_rt_version **version, *own_version;
	bool *written;
	/* Versions in the current run, as ht_exec_links has them; likewise, whether the next run is told that there is no change. */
	uint64_t *now;
	bool *unchanged;
	bool derives;                        /* the image has derived buffers */
	int64_t stated[HT_IMAGE_MOST_SIZES]; /* the sizes for which buffers are placed */
	uint64_t *made;                      /* as ht_exec_links.made */
	char *derived;
	struct ht_trace *trace;       /* or NULL */
	struct ht_counters *counters; /* or NULL */
	ht_rt_tee_fn *tee;            /* or NULL */
	void *tee_arg;
	int64_t tee_kernel; /* the address of library kernel "tee" */
	uint64_t limit[HT_RT_LIMITS];
	bool limited; /* the run itself has a limit of time, and not only the wait for its turn */
	struct ht_stamp *stamp; /* by worker; NULL: without limits of kernels and waits */
	int64_t asked, began;   /* the current run: for its turn, and its first step */
	struct ht_overrun over;
	bool placed; /* on `cores` */
	struct ht_cores cores;
	bool profile;
	bool checked; /* every constant is whole */
	int64_t *ns;  /* by step */
	int64_t last; /* when the last step of a profiled run ended */
};

/* ---- derived.c ---- */

/* False: out of memory; ht_context_derived_free() releases what there is. */
bool ht_context_derived_new(struct ht_rt_context *c);
void ht_context_derived_free(struct ht_rt_context *c);
/* Around each run, whether it ends or stops; the first where the image has derived buffers. */
void ht_context_versions_begin(struct ht_rt_context *c);
void ht_context_versions_end(struct ht_rt_context *c);

/* ---- late.c ---- */

/* Waits for the run's turn.  False: it did not come in time, or the run was cancelled; *fault says so. */
bool ht_context_take_turn(struct ht_rt_context *c, struct ht_rt_fault *fault);
/* What a run tells that exceeded a limit of time, given how it stopped otherwise. */
struct ht_rt_fault ht_context_late(const struct ht_rt_context *c, const struct ht_rt_fault *stop);

/* ---- observe.c ---- */

/* Sets up the observer for the context's next run. */
void ht_context_observe(struct ht_rt_context *c);

#endif
