/* runtime, inside: what run.c needs of the pool. */
#ifndef HT_RUNTIME_POOL_H
#define HT_RUNTIME_POOL_H

#include "runtime/runtime.h"

/* Runs fn(arg, worker, workers) on every worker at once, the caller being worker 0; returns when
 * all have returned.  Runs of several callers wait for one another. */
typedef void ht_pool_fn(void *arg, int worker, int workers);
void ht_pool_run(struct ht_rt_pool *p, ht_pool_fn *fn, void *arg);
/* In fn: waits until every worker is here. */
void ht_pool_barrier(struct ht_rt_pool *p);

#endif
