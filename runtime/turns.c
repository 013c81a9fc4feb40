/* Turns of runs.  Runs without a turn wait in a list.  A waiting run polls its cancellation flag
 * from time to time, since a signal handler may set it, and a signal handler must not wake
 * threads.
 *
 * After a fork, the child starts with an empty list: the runs that have turns or wait for them
 * belong to the parent. */
#include "runtime/turns.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_NS = 10000000 };

struct waiting {
	struct waiting *next;
	bool granted;
};

struct ht_rt_turns {
	int most, taken;
	pid_t pid;
	pthread_mutex_t lock;
	pthread_cond_t granted;
	struct waiting *first;
};

static bool prepare(struct ht_rt_turns *t)
{
	pthread_condattr_t clock;
	bool good = pthread_mutex_init(&t->lock, NULL) == 0 && pthread_condattr_init(&clock) == 0;

	if (!good)
		return false;
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	good = pthread_cond_init(&t->granted, &clock) == 0;
	pthread_condattr_destroy(&clock);
	t->pid = getpid();
	t->taken = 0;
	t->first = NULL;
	return good;
}

struct ht_rt_turns *ht_rt_turns_new(int most)
{
	struct ht_rt_turns *t = calloc(1, sizeof *t);

	if (t && (most < 1 || !prepare(t))) {
		free(t);
		return NULL;
	}
	if (t)
		t->most = most;
	return t;
}

void ht_rt_turns_free(struct ht_rt_turns *t)
{
	if (!t)
		return;
	if (t->pid == getpid()) {
		pthread_cond_destroy(&t->granted);
		pthread_mutex_destroy(&t->lock);
	}
	free(t);
}

static void append(struct ht_rt_turns *t, struct waiting *w)
{
	struct waiting **at = &t->first;

	while (*at)
		at = &(*at)->next;
	*at = w;
}

static void leave(struct ht_rt_turns *t, const struct waiting *w)
{
	struct waiting **at = &t->first;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

static bool is_cancelled(const int32_t *cancel)
{
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

/* Sleeps until a turn is granted, the next poll is due, or `until` is reached. */
static void sleep_a_while(struct ht_rt_turns *t, int64_t until)
{
	int64_t next = ht_now_ns() + LOOK_NS, at = next < until ? next : until;
	struct timespec when = { at / 1000000000, at % 1000000000 };

	pthread_cond_timedwait(&t->granted, &t->lock, &when);
}

enum ht_turn ht_turn_take(struct ht_rt_turns *t, int64_t until, const int32_t *cancel)
{
	struct waiting self = { NULL, false };
	enum ht_turn got = HT_TURN_TAKEN;

	if (t->pid != getpid())
		prepare(t);
	pthread_mutex_lock(&t->lock);
	if (t->taken < t->most && !t->first) {
		t->taken++;
		self.granted = true;
	} else {
		append(t, &self);
	}
	while (!self.granted && got == HT_TURN_TAKEN) {
		sleep_a_while(t, until);
		if (self.granted)
			break;
		got = is_cancelled(cancel)  ? HT_TURN_CANCELLED
		      : ht_now_ns() > until ? HT_TURN_LATE
					    : HT_TURN_TAKEN;
	}
	if (!self.granted)
		leave(t, &self);
	pthread_mutex_unlock(&t->lock);
	return got;
}

void ht_turn_give(struct ht_rt_turns *t)
{
	struct waiting *next;

	pthread_mutex_lock(&t->lock);
	next = t->first;
	if (next) {
		t->first = next->next;
		next->granted = true;
		pthread_cond_broadcast(&t->granted);
	} else {
		t->taken--;
	}
	pthread_mutex_unlock(&t->lock);
}

size_t ht_turns_waiting(struct ht_rt_turns *t)
{
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	for (const struct waiting *w = t->first; w; w = w->next)
		n++;
	pthread_mutex_unlock(&t->lock);
	return n;
}
