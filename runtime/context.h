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

/* When a thread began and ended its last part of a kernel.  The structure fills a cache line, so
 * that threads do not share one. */
struct ht_stamp {
	_Alignas(64) int64_t begin;
	int64_t end; /* 0: the thread has not run a part in this run */
};

/* The first time limit that the current run exceeded.  The thread that detects it sets `which`. */
struct ht_overrun {
	int which;     /* enum ht_rt_limit; 0: none */
	uint64_t ns;   /* time that was taken */
	uint32_t step; /* the step, for HT_RT_KERNEL */
};

struct ht_rt_context {
	const struct ht_rt_program *program;
	struct ht_exec exec;
	struct ht_exec_threads threads;
	struct ht_exec_observer observer;
	struct ht_guarded *guarded; /* or NULL */
	struct ht_lives *lives;     /* or NULL */
	char *memory;               /* of a run, except guarded buffers */
	char *own;                  /* `memory`, if it is not the caller's */
	size_t memory_bytes;
	uint64_t *work;             /* of ht_exec_temps_of() */
	size_t used;                /* bytes of `memory` that runs with the sizes `stated` use */
	bool enlarged;              /* `own` may be in large pages, if it is large enough */
	struct ht_philox *stream;   /* by number: the state in which the next run begins */
	void **object;              /* by object of the image; NULL: it has none */
	uint64_t object_bytes;      /* the most of an object that runs make grow */
	bool has_objects;           /* the image has objects */
	bool shares_objects;        /* another owner releases the session's objects */
	bool makes_objects;         /* some objects belong to a run */
	struct ht_strings *strings; /* one of `object`; NULL: the image has no strings */
	char *variables;
	/* derived.c.  By variable: its version, which is `own_version` unless contexts share it,
	 * and whether a run writes to the variable. */
	struct ht_rt_version **version, *own_version;
	bool *written;
	/* The versions in the current run, as in ht_exec_links; and by version, whether the
	 * caller said that the source is unchanged in the next run. */
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
	int64_t tee_kernel; /* address of library kernel "tee" */
	uint64_t limit[HT_RT_LIMITS];
	bool limited;           /* there is a time limit besides the one for the wait for a turn */
	struct ht_stamp *stamp; /* by worker; NULL: there are no limits for kernels and waits */
	int64_t asked, began;   /* of the current run: when it asked for its turn, and when its
				 * first step began */
	struct ht_overrun over;
	bool placed; /* runs are confined to `cores` */
	struct ht_cores cores;
	bool profile;
	bool checked; /* every constant was verified */
	int64_t *ns;  /* by step */
	int64_t last; /* when the last step of a profiled run ended */
};

/* context.c: lets the context's own memory be in large pages. */
void ht_context_enlarge_pages(struct ht_rt_context *c);

/* ---- derived.c ---- */

/* False: out of memory.  Call ht_context_derived_free() in that case too. */
bool ht_context_derived_new(struct ht_rt_context *c);
void ht_context_derived_free(struct ht_rt_context *c);
/* Called before and after each run, even if it stops; the first only if the image has derived
 * buffers. */
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
