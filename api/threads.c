/* The runtime's pool of threads, for nets that were compiled ahead of time. */
#include <halftone/runtime.h>

#include "runtime/pool.h"

struct ht_threads *ht_threads_new(int n)
{
	return (struct ht_threads *)ht_rt_pool_new(n);
}

void ht_threads_free(struct ht_threads *t)
{
	ht_rt_pool_free((struct ht_rt_pool *)t);
}

void ht_threads_run(void *threads, void (*fn)(void *arg, int worker, int workers), void *arg)
{
	ht_pool_run(threads, fn, arg);
}

void ht_threads_barrier(void *threads)
{
	ht_pool_barrier(threads);
}
