/* counters: events of the processor and of the system while kernels run, by thread and step. */
#ifndef HT_RUNTIME_COUNTERS_H
#define HT_RUNTIME_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ht_counter {
#define COUNTER(id, ...) HT_COUNT_##id,
#include "runtime/counters.def"
	HT_COUNTS
};
const char *ht_counters_name(enum ht_counter i);
const char *ht_counters_help(enum ht_counter i);

struct perf_event_attr;
/* The system calls, or those of a test. */
struct ht_perf {
	int (*open)(
		const struct perf_event_attr *a, int leader); /* of the calling thread; -1: errno */
	long (*read)(int fd, void *to, size_t n);
	void (*close)(int fd);
};
extern const struct ht_perf ht_perf_system;

struct ht_counters;
/* Counters for `steps` steps on `workers` threads.  NULL: out of memory. */
struct ht_counters *ht_counters_new(int workers, uint32_t steps, const struct ht_perf *perf);
void ht_counters_free(struct ht_counters *c);
/* Each thread calls these itself, before and after a part of a kernel.  The first call on a
 * thread opens its counters; so does a call on another thread than the last one. */
void ht_counters_begin(struct ht_counters *c, int worker);
void ht_counters_end(struct ht_counters *c, int worker, uint32_t step);

/* ---- not during a run ---- */

/* 0: the event is counted; otherwise the errno with which the system refused it. */
int ht_counters_refusal(const struct ht_counters *c, enum ht_counter i);
/* Events in all executions of a step, summed over threads.  If the processor has fewer counters
 * than are needed, it counts events in turns, and the result is extrapolated. */
double ht_counters_total(const struct ht_counters *c, uint32_t step, enum ht_counter i);

#endif
