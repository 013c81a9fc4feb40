/* Counters by perf_event_open(2).  A read returns all counters of a group, how long the group
 * was enabled, and how long it counted (PERF_FORMAT_TOTAL_TIME_ENABLED,
 * PERF_FORMAT_TOTAL_TIME_RUNNING). */
#include "runtime/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum group { HARDWARE, TIME, FAULTS, GROUPS };
enum { NOT_OPEN = -1 };

static const struct row {
	const char *name, *help;
	enum group group;
	uint32_t type;
	uint64_t config;
} rows[HT_COUNTS] = {
#define COUNTER(id, name, group, type, config, help)                                               \
	[HT_COUNT_##id] = { name, help, group, type, config },
#include "runtime/counters.def"
};

const char *ht_counters_name(enum ht_counter i)
{
	return rows[i].name;
}

const char *ht_counters_help(enum ht_counter i)
{
	return rows[i].help;
}

/* ---- the system ---- */

static int system_open(const struct perf_event_attr *a, int leader)
{
	return (int)syscall(SYS_perf_event_open, a, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static long system_read(int fd, void *to, size_t n)
{
	return read(fd, to, n);
}

static void system_close(int fd)
{
	close(fd);
}

const struct ht_perf ht_perf_system = { system_open, system_read, system_close };

/* ---- counters of a thread ---- */

/* The data that reading a group returns. */
struct reading {
	uint64_t n, enabled, running, value[HT_COUNTS];
};

struct worker {
	_Alignas(64) pid_t thread; /* the thread whose counters are open; 0: none */
	int fd[HT_COUNTS];         /* or NOT_OPEN */
	int error[HT_COUNTS];
	int leader[GROUPS]; /* fd, or NOT_OPEN */
	struct reading last[GROUPS];
	double *total; /* by step and counter */
};

struct ht_counters {
	const struct ht_perf *perf;
	int workers;
	uint32_t steps;
	struct worker *worker;
};

static void close_all(const struct ht_counters *c, struct worker *w)
{
	for (int i = HT_COUNTS; i-- > 0;)
		if (w->fd[i] != NOT_OPEN)
			c->perf->close(w->fd[i]);
	for (int i = 0; i < HT_COUNTS; i++)
		w->fd[i] = NOT_OPEN;
	for (int i = 0; i < GROUPS; i++)
		w->leader[i] = NOT_OPEN;
	w->thread = 0;
}

static void open_all(const struct ht_counters *c, struct worker *w)
{
	for (int i = 0; i < HT_COUNTS; i++) {
		int *leader = &w->leader[rows[i].group];
		struct perf_event_attr a = { .size = sizeof a,
			.type = rows[i].type,
			.config = rows[i].config,
			.exclude_kernel = 1,
			.exclude_hv = 1,
			.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
				       PERF_FORMAT_TOTAL_TIME_RUNNING };

		w->fd[i] = c->perf->open(&a, *leader);
		w->error[i] = w->fd[i] < 0 ? errno : 0;
		if (w->fd[i] < 0)
			w->fd[i] = NOT_OPEN;
		else if (*leader == NOT_OPEN)
			*leader = w->fd[i];
	}
	w->thread = gettid();
}

static bool take(
	const struct ht_counters *c, const struct worker *w, enum group g, struct reading *r)
{
	return w->leader[g] != NOT_OPEN &&
	       c->perf->read(w->leader[g], r, sizeof *r) >= (long)(3 * sizeof r->n);
}

struct ht_counters *ht_counters_new(int workers, uint32_t steps, const struct ht_perf *perf)
{
	struct ht_counters *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	*c = (struct ht_counters){ perf, workers, steps,
		aligned_alloc(_Alignof(struct worker), (size_t)workers * sizeof(struct worker)) };
	if (!c->worker) {
		free(c);
		return NULL;
	}
	memset(c->worker, 0, (size_t)workers * sizeof *c->worker);
	for (int i = 0; i < workers; i++) {
		struct worker *w = &c->worker[i];

		memset(w->fd, 0xff, sizeof w->fd);
		memset(w->leader, 0xff, sizeof w->leader);
		w->total = calloc((size_t)steps * HT_COUNTS + 1, sizeof *w->total);
		if (!w->total) {
			ht_counters_free(c);
			return NULL;
		}
	}
	return c;
}

void ht_counters_free(struct ht_counters *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->workers; i++) {
		close_all(c, &c->worker[i]);
		free(c->worker[i].total);
	}
	free(c->worker);
	free(c);
}

/* ---- during a run ---- */

void ht_counters_begin(struct ht_counters *c, int worker)
{
	struct worker *w = &c->worker[worker];

	if (w->thread != gettid()) {
		close_all(c, w);
		open_all(c, w);
	}
	for (int g = 0; g < GROUPS; g++)
		if (!take(c, w, (enum group)g, &w->last[g]))
			w->last[g] = (struct reading){ 0 };
}

/* Values of a group are in the order in which its counters were opened. */
static void add(struct worker *w, enum group g, const struct reading *now, double *total)
{
	const struct reading *last = &w->last[g];
	uint64_t enabled = now->enabled - last->enabled, running = now->running - last->running,
		 k = 0;
	double scale = running ? (double)enabled / (double)running : 0;

	if (last->n != now->n)
		return;
	for (int i = 0; i < HT_COUNTS; i++)
		if (rows[i].group == g && w->fd[i] != NOT_OPEN) {
			if (k < now->n)
				total[i] += scale * (double)(now->value[k] - last->value[k]);
			k++;
		}
}

void ht_counters_end(struct ht_counters *c, int worker, uint32_t step)
{
	struct worker *w = &c->worker[worker];

	for (int g = 0; g < GROUPS; g++) {
		struct reading now;

		if (take(c, w, (enum group)g, &now))
			add(w, (enum group)g, &now, w->total + (size_t)step * HT_COUNTS);
	}
}

/* ---- results ---- */

int ht_counters_refusal(const struct ht_counters *c, enum ht_counter i)
{
	for (int k = 0; k < c->workers; k++)
		if (c->worker[k].error[i])
			return c->worker[k].error[i];
	return 0;
}

double ht_counters_total(const struct ht_counters *c, uint32_t step, enum ht_counter i)
{
	double sum = 0;

	for (int k = 0; k < c->workers; k++)
		sum += c->worker[k].total[(size_t)step * HT_COUNTS + i];
	return sum;
}
