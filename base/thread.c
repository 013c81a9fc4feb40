/* Work that is divided among threads once, during compilation. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 64 };

struct thread {
	ht_thread_fn *fn;
	void *arg;
	int number;
	bool started;
	pthread_t id;
};

static void *start(void *arg)
{
	struct thread *t = arg;

	t->fn(t->arg, t->number);
	return NULL;
}

int ht_thread_limit(int threads, int32_t pieces)
{
	int most = pieces < MAX_THREADS ? pieces : MAX_THREADS;

	return threads < most ? (threads < 1 ? 1 : threads) : most < 1 ? 1 : most;
}

void ht_on_threads(int threads, ht_thread_fn *fn, void *arg)
{
	struct thread t[MAX_THREADS];

	HT_CHECK(threads >= 1 && threads <= MAX_THREADS);
	for (int i = 1; i < threads; i++) {
		t[i] = (struct thread){ .fn = fn, .arg = arg, .number = i };
		t[i].started = pthread_create(&t[i].id, NULL, start, &t[i]) == 0;
	}
	fn(arg, 0);
	for (int i = 1; i < threads; i++)
		if (t[i].started)
			pthread_join(t[i].id, NULL);
}

struct ranges {
	ht_range_fn *fn;
	void *arg;
	size_t n, piece;
	atomic_size_t next; /* the begin of the next piece */
};

static void take_pieces(void *arg, int worker)
{
	struct ranges *r = arg;
	size_t at;

	(void)worker;
	while ((at = atomic_fetch_add_explicit(&r->next, r->piece, memory_order_relaxed)) < r->n)
		r->fn(r->arg, at, r->n - at < r->piece ? r->n : at + r->piece);
}

void ht_on_ranges(int threads, size_t n, size_t piece, ht_range_fn *fn, void *arg)
{
	struct ranges r = { .fn = fn, .arg = arg, .n = n, .piece = piece };
	size_t pieces = n / piece + (n % piece != 0);
	int32_t most = pieces < MAX_THREADS ? (int32_t)pieces : MAX_THREADS;

	ht_on_threads(ht_thread_limit(threads, most), take_pieces, &r);
}
