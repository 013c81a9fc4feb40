/* Internal: functions of the pool that runs need. */
#ifndef HT_RUNTIME_POOL_H
#define HT_RUNTIME_POOL_H

#include "runtime/runtime.h"

/* Runs fn(arg, worker, workers) once on every worker, all at the same time; the caller is worker
 * 0.  Returns when all have returned.  Concurrent callers wait for each other. */
typedef void ht_pool_fn(void *arg, int worker, int workers);
void ht_pool_run(struct ht_rt_pool *p, ht_pool_fn *fn, void *arg);
/* Called within fn: waits until every worker has called it. */
void ht_pool_barrier(struct ht_rt_pool *p);

/* ---- processors.c ---- */

/* Whether so many threads can run at the same time on these cores; NULL: on those where the
 * caller may run. */
bool ht_run_at_once(int threads, const struct ht_cores *cores);
/* Whether control groups grant processor time for `threads` processors: the group that the file
 * `own` (as /proc/self/cgroup) names, and those that contain it, in the folder `groups`. True if
 * there is no limit. */
bool ht_quota_grants(const char *own, const char *groups, int threads);

#endif
