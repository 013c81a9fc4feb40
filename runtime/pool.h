/* runtime, inside: what runs need of the pool. */
#ifndef HT_RUNTIME_POOL_H
#define HT_RUNTIME_POOL_H

#include "runtime/runtime.h"

/* Runs fn(arg, worker, workers) on every worker at once, the caller being worker 0; returns when
 * all have returned.  Runs of several callers wait for one another. */
typedef void ht_pool_fn(void *arg, int worker, int workers);
void ht_pool_run(struct ht_rt_pool *p, ht_pool_fn *fn, void *arg);
/* In fn: waits until every worker is here. */
void ht_pool_barrier(struct ht_rt_pool *p);

/* ---- processors.c ---- */

/* On these cores; NULL: wherever the caller may run. */
bool ht_run_at_once(int threads, const struct ht_cores *cores);
/* Whether the control group that `own` (as /proc/self/cgroup) names and those around it, in the folder
 * `groups`, grant as many processors' time; true where nothing limits it. */
bool ht_quota_grants(const char *own, const char *groups, int threads);

#endif
