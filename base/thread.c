/* Work that is shared out once, while compiling. */
#include "base/base.h"

#include <pthread.h>

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
