/* A fixed number of workers, which sleep between runs.  A run wakes them once.  Between its
 * steps they meet at a barrier, where they spin for a while before they sleep, since steps are
 * short.
 *
 * After a fork, the child has the memory of the pool but none of its threads: its first run
 * starts new ones. */
#include "runtime/cores.h"
#include "runtime/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How often a waiting thread polls before it sleeps; a poll takes about ten nanoseconds.  Within
 * a run, late threads arrive soon, and waking a thread takes as long as a short step. */
enum { TURNS_BETWEEN_RUNS = 4000, TURNS_IN_RUN = 40000 };

/* A number that threads wait for to change. */
struct count {
	_Alignas(64) atomic_int n;
	atomic_int sleepers; /* threads that must be woken */
};

struct worker {
	struct ht_rt_pool *pool;
	int number;
	pthread_t thread;
};

struct ht_rt_pool {
	int threads; /* number that was asked for */
	int workers; /* number that exists, the caller included */
	int turns;   /* polls at the barrier before sleeping */
	pid_t pid;
	bool placed; /* workers are confined to `cores` */
	struct ht_cores cores;
	pthread_mutex_t turn; /* held by the current run */
	struct worker *worker;
	ht_pool_fn *fn;
	void *arg;
	bool stop;
	struct count job;                /* number of runs; workers sleep on it */
	_Alignas(64) atomic_int arrived; /* threads that have reached the barrier */
	struct count passed;             /* number of barriers; waiting threads sleep on it */
};

static void pause_cpu(void)
{
	__builtin_ia32_pause();
}

/* Waits while c->n == value. */
static void wait_change(struct count *c, int value, int turns)
{
	for (int i = 0; i < turns; i++) {
		if (atomic_load_explicit(&c->n, memory_order_acquire) != value)
			return;
		pause_cpu();
	}
	/* Either change() sees this sleeper, or the futex call sees the changed value. */
	atomic_fetch_add(&c->sleepers, 1);
	while (atomic_load(&c->n) == value)
		syscall(SYS_futex, &c->n, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
	atomic_fetch_sub(&c->sleepers, 1);
}

static void change(struct count *c)
{
	atomic_fetch_add(&c->n, 1);
	if (atomic_load(&c->sleepers))
		syscall(SYS_futex, &c->n, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void ht_pool_barrier(struct ht_rt_pool *p)
{
	int now = atomic_load_explicit(&p->passed.n, memory_order_relaxed);

	if (p->workers == 1)
		return;
	if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 < p->workers) {
		wait_change(&p->passed, now, p->turns);
		return;
	}
	atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
	change(&p->passed);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ht_rt_pool *p = w->pool;
	/* Workers start between two runs, when the count is 0. */
	int seen = 0;

	if (p->placed)
		sched_setaffinity(0, sizeof p->cores.set, &p->cores.set);
	for (;;) {
		wait_change(&p->job, seen++, TURNS_BETWEEN_RUNS);
		if (p->stop)
			return NULL;
		p->fn(p->arg, w->number, p->workers);
		ht_pool_barrier(p);
	}
}

static void reset(struct count *c)
{
	atomic_store(&c->n, 0);
	atomic_store(&c->sleepers, 0);
}

/* Starts as many workers as the system permits. */
static void start(struct ht_rt_pool *p)
{
	p->pid = getpid();
	/* If the threads cannot all run at once, a thread that spins may take the processor from
	 * one that others wait for. */
	p->turns = ht_run_at_once(p->threads, p->placed ? &p->cores : NULL) ? TURNS_IN_RUN
									    : TURNS_BETWEEN_RUNS;
	p->workers = 1;
	p->stop = false;
	reset(&p->job);
	reset(&p->passed);
	atomic_store(&p->arrived, 0);
	while (p->workers < p->threads) {
		struct worker *w = &p->worker[p->workers];

		w->pool = p;
		w->number = p->workers;
		if (pthread_create(&w->thread, NULL, work, w) != 0)
			return;
		p->workers++;
	}
}

static void stop(struct ht_rt_pool *p)
{
	p->stop = true;
	change(&p->job);
	for (int i = 1; i < p->workers; i++)
		pthread_join(p->worker[i].thread, NULL);
}

struct ht_rt_pool *ht_rt_pool_new(int threads)
{
	return ht_rt_pool_new_on(threads, NULL);
}

struct ht_rt_pool *ht_rt_pool_new_on(int threads, const struct ht_cores *cores)
{
	struct ht_rt_pool *p = NULL;

	if (threads < 1 || posix_memalign((void **)&p, 64, sizeof *p) != 0)
		return NULL;
	*p = (struct ht_rt_pool){ .threads = threads, .placed = cores };
	if (cores)
		p->cores = *cores;
	p->worker = calloc((size_t)threads, sizeof *p->worker);
	if (!p->worker || pthread_mutex_init(&p->turn, NULL) != 0) {
		free(p->worker);
		free(p);
		return NULL;
	}
	start(p);
	if (p->workers < threads) {
		ht_rt_pool_free(p);
		return NULL;
	}
	return p;
}

void ht_rt_pool_free(struct ht_rt_pool *p)
{
	if (!p)
		return;
	if (p->pid == getpid()) {
		stop(p);
		pthread_mutex_destroy(&p->turn);
	}
	free(p->worker);
	free(p);
}

int ht_rt_pool_threads(const struct ht_rt_pool *p)
{
	return p->threads;
}

void ht_pool_run(struct ht_rt_pool *p, ht_pool_fn *fn, void *arg)
{
	if (p->pid != getpid()) {
		/* A thread of the parent process may have held the lock. */
		pthread_mutex_init(&p->turn, NULL);
		start(p);
	}
	pthread_mutex_lock(&p->turn);
	p->fn = fn;
	p->arg = arg;
	if (p->workers > 1)
		change(&p->job);
	fn(arg, 0, p->workers);
	ht_pool_barrier(p);
	pthread_mutex_unlock(&p->turn);
}
