/* Runs the net "parts" on two threads, with a batch whose parts stop in all possible ways: with
 * each thread always ahead of the other one up to the next barrier, and without control.  The
 * status and what the net tells of the run must be those of one thread, and no thread may stay alone at a barrier. */
#include "parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 5, ELEMENTS = PARTS_INPUT_0_BYTES / PARTS / 4, AS_IT_COMES = 2, AGAIN = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int ahead;
/* number of barriers that a thread has reached; whether it has ended */
static int arrived[2], ended[2];
static _Thread_local int me;

struct job {
	void (*fn)(void *arg, int worker, int workers);
	void *arg;
	int worker;
};

static void stay_behind(void)
{
	while (ahead == !me && arrived[ahead] <= arrived[me] && !ended[ahead])
		pthread_cond_wait(&change, &lock);
}

static void barrier(void *pool)
{
	(void)pool;
	pthread_mutex_lock(&lock);
	arrived[me]++;
	pthread_cond_broadcast(&change);
	while (arrived[!me] < arrived[me]) {
		if (ended[!me]) {
			fprintf(stderr, "worker %d waits for one that has ended\n", me);
			exit(9);
		}
		pthread_cond_wait(&change, &lock);
	}
	stay_behind();
	pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
	const struct job *j = arg;

	me = j->worker;
	pthread_mutex_lock(&lock);
	stay_behind();
	pthread_mutex_unlock(&lock);
	j->fn(j->arg, j->worker, 2);
	pthread_mutex_lock(&lock);
	ended[me] = 1;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void run(void *pool, void (*fn)(void *arg, int worker, int workers), void *arg)
{
	pthread_t thread[2];
	struct job job[2];

	(void)pool;
	for (int i = 0; i < 2; i++)
		arrived[i] = ended[i] = 0;
	for (int i = 0; i < 2; i++) {
		job[i] = (struct job){ fn, arg, i };
		if (pthread_create(&thread[i], NULL, work, &job[i]))
			exit(3);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

static _Alignas(64) char arena[PARTS_ARENA_BYTES_FOR(2)];
static int divisor[PARTS * ELEMENTS], exponent[PARTS * ELEMENTS];
static _Alignas(64) char out[2][PARTS_OUTPUT_0_BYTES];

/* The digits of `ends` in base 3 say how each part ends.  Returns the expected status. */
static int fill(int ends)
{
	int status = PARTS_OK;

	for (int part = 0; part < PARTS; part++, ends /= 3) {
		for (int i = part * ELEMENTS; i < (part + 1) * ELEMENTS; i++) {
			divisor[i] = ends % 3 != 1;
			exponent[i] = ends % 3 == 2 ? -1 : 2;
		}
		if (!status && ends % 3)
			status = ends % 3 == 1 ? PARTS_E_DIVISION : PARTS_E_POWER;
	}
	return status;
}

int main(void)
{
	const struct parts_parallel parallel = { 2, NULL, run, barrier };
	const void *inputs[] = { divisor, exponent };
	void *outputs[] = { out[0], out[1] };

	for (int ends = 0; ends < 3 * 3 * 3 * 3 * 3; ends++) {
		char said[200], says[200];
		int want = fill(ends);

		if (parts_run(inputs, outputs, arena) != want) {
			fprintf(stderr, "%d: one thread differs\n", ends);
			return 1;
		}
		parts_stop_text(want, arena, said, sizeof said);
		if (!strncmp(said, "node '", 6) == (want == PARTS_OK)) {
			fprintf(stderr, "%d: one thread: %s\n", ends, said);
			return 1;
		}
		for (int again = 0; again < AGAIN; again++)
			for (ahead = 0; ahead <= AS_IT_COMES; ahead++) {
				int status = parts_run_parallel(inputs, outputs, arena, &parallel);

				if (status != want) {
					fprintf(stderr, "%d with %d ahead: %d, not %d\n", ends,
						ahead, status, want);
					return 2;
				}
				parts_stop_text(status, arena, says, sizeof says);
				if (strcmp(said, says)) {
					fprintf(stderr, "%d with %d ahead: %s, not %s\n", ends,
						ahead, says, said);
					return 3;
				}
			}
	}
	return 0;
}
