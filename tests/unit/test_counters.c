/* Counters: sums over reads of groups, with a simulation of the system; and the system itself, as
 * far as it counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "runtime/counters.h"

#include <cmocka.h>

enum { STEPS = 3, MOST = 32 };

/* ---- a simulation of the system ---- */

struct fd {
	uint32_t type;
	uint64_t config;
	int leader;
	bool open;
};
static struct fd fds[MOST];
static int opened;
static uint32_t refuses; /* type */
static uint64_t refuses_config;
/* The next read: times of the hardware group, and a number of which all values are multiples. */
static uint64_t enabled, running, unit;

static int fake_open(const struct perf_event_attr *a, int leader)
{
	if (a->type == refuses && (refuses_config == UINT64_MAX || a->config == refuses_config)) {
		errno = ENOENT;
		return -1;
	}
	assert_true(opened < MOST);
	assert_true(a->exclude_kernel);
	fds[opened] = (struct fd){ a->type, a->config, leader, true };
	return opened++;
}

/* Value k of a group is (k + 1) * unit. */
static long fake_read(int fd, void *to, size_t n)
{
	uint64_t *out = to, members = 0;

	assert_true(fds[fd].open);
	assert_int_equal(fds[fd].leader, -1);
	for (int i = 0; i < opened; i++)
		members += fds[i].open && (i == fd || fds[i].leader == fd);
	assert_true(n >= (3 + members) * sizeof *out);
	out[0] = members;
	out[1] = enabled;
	out[2] = running;
	for (uint64_t k = 0; k < members; k++)
		out[3 + k] = (k + 1) * unit;
	return (long)((3 + members) * sizeof *out);
}

static void fake_close(int fd)
{
	assert_true(fds[fd].open);
	fds[fd].open = false;
}

static const struct ht_perf fake = { fake_open, fake_read, fake_close };

static struct ht_counters *fresh(uint32_t type, uint64_t config)
{
	opened = 0;
	refuses = type;
	refuses_config = config;
	enabled = running = unit = 0;
	return ht_counters_new(1, STEPS, &fake);
}

static void count(struct ht_counters *c, uint32_t step, uint64_t e, uint64_t r, uint64_t u)
{
	ht_counters_begin(c, 0);
	enabled += e;
	running += r;
	unit += u;
	ht_counters_end(c, 0, step);
}

static bool all_closed(void)
{
	for (int i = 0; i < opened; i++)
		if (fds[i].open)
			return false;
	return opened > 0;
}

static void differences_add_up(void **state)
{
	struct ht_counters *c = fresh(UINT32_MAX, 0);

	(void)state;
	/* before the first kernel: not counted for any kernel */
	enabled = 1000, running = 900, unit = 50;
	count(c, 1, 10, 10, 7);
	count(c, 1, 10, 10, 3);
	count(c, 2, 10, 10, 1);
	assert_true(ht_counters_total(c, 1, HT_COUNT_CYCLES) == 10);
	assert_true(ht_counters_total(c, 1, HT_COUNT_INSTRUCTIONS) == 20);
	assert_true(ht_counters_total(c, 1, HT_COUNT_CACHE_MISSES) == 40);
	assert_true(ht_counters_total(c, 1, HT_COUNT_PAGE_FAULTS) == 10); /* alone in its group */
	assert_true(ht_counters_total(c, 2, HT_COUNT_CYCLES) == 1);
	assert_true(ht_counters_total(c, 0, HT_COUNT_CYCLES) == 0);
	assert_int_equal(opened, HT_COUNTS);
	ht_counters_free(c);
	assert_true(all_closed());
}

/* A counter that ran for a quarter of the time is multiplied by four; one that did not run is
 * unknown. */
static void turns_are_extrapolated(void **state)
{
	struct ht_counters *c = fresh(UINT32_MAX, 0);

	(void)state;
	count(c, 0, 400, 100, 25);
	count(c, 0, 400, 400, 1);
	count(c, 0, 400, 0, 0);
	assert_true(ht_counters_total(c, 0, HT_COUNT_CYCLES) == 101);
	assert_true(ht_counters_total(c, 0, HT_COUNT_INSTRUCTIONS) == 202);
	ht_counters_free(c);
}

/* The other counters keep their positions in the read data. */
static void one_is_refused(void **state)
{
	struct ht_counters *c = fresh(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);

	(void)state;
	count(c, 0, 10, 10, 5);
	assert_int_equal(ht_counters_refusal(c, HT_COUNT_CYCLES), ENOENT);
	assert_int_equal(ht_counters_refusal(c, HT_COUNT_INSTRUCTIONS), 0);
	assert_true(ht_counters_total(c, 0, HT_COUNT_CYCLES) == 0);
	assert_true(ht_counters_total(c, 0, HT_COUNT_INSTRUCTIONS) == 5);
	assert_true(ht_counters_total(c, 0, HT_COUNT_CACHE_REFERENCES) == 10);
	ht_counters_free(c);
	assert_true(all_closed());
}

static void all_of_a_kind_are_refused(void **state)
{
	struct ht_counters *c = fresh(PERF_TYPE_HARDWARE, UINT64_MAX);

	(void)state;
	count(c, 0, 10, 10, 5);
	assert_int_equal(ht_counters_refusal(c, HT_COUNT_CACHE_MISSES), ENOENT);
	assert_true(ht_counters_total(c, 0, HT_COUNT_CACHE_MISSES) == 0);
	assert_true(ht_counters_total(c, 0, HT_COUNT_TASK_CLOCK) == 5);
	ht_counters_free(c);
}

/* Another thread that takes over a worker opens its own counters, and closes the previous ones. */
static void *count_elsewhere(void *arg)
{
	count(arg, 0, 10, 10, 2);
	return NULL;
}

static void each_thread_has_its_own(void **state)
{
	struct ht_counters *c = fresh(UINT32_MAX, 0);
	pthread_t thread;

	(void)state;
	count(c, 0, 10, 10, 1);
	assert_int_equal(pthread_create(&thread, NULL, count_elsewhere, c), 0);
	pthread_join(thread, NULL);
	assert_int_equal(opened, 2 * HT_COUNTS);
	for (int i = 0; i < opened; i++)
		assert_int_equal(fds[i].open, i >= HT_COUNTS);
	assert_true(ht_counters_total(c, 0, HT_COUNT_CYCLES) == 3);
	ht_counters_free(c);
	assert_true(all_closed());
}

/* ---- the system ---- */

enum { PAGES = 64 };

static void touch(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, (size_t)(PAGES * page), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, (size_t)(PAGES * page), MADV_NOHUGEPAGE);
	for (long i = 0; i < PAGES; i++)
		((volatile char *)p)[i * page] = 1;
	munmap(p, (size_t)(PAGES * page));
}

/* Every refused counter has a reason; every other one has the expected numbers. */
static void the_system_counts(void **state)
{
	struct ht_counters *c = ht_counters_new(1, STEPS, &ht_perf_system);

	(void)state;
	for (int again = 0; again < 10; again++) {
		ht_counters_begin(c, 0);
		touch();
		ht_counters_end(c, 0, 1);
	}
	for (int i = 0; i < HT_COUNTS; i++)
		if (ht_counters_refusal(c, (enum ht_counter)i))
			print_message("%s: %s\n", ht_counters_name((enum ht_counter)i),
				strerror(ht_counters_refusal(c, (enum ht_counter)i)));
	if (!ht_counters_refusal(c, HT_COUNT_PAGE_FAULTS))
		assert_true(ht_counters_total(c, 1, HT_COUNT_PAGE_FAULTS) >= 10 * PAGES);
	if (!ht_counters_refusal(c, HT_COUNT_TASK_CLOCK))
		assert_true(ht_counters_total(c, 1, HT_COUNT_TASK_CLOCK) > 0);
	if (!ht_counters_refusal(c, HT_COUNT_INSTRUCTIONS))
		assert_true(ht_counters_total(c, 1, HT_COUNT_INSTRUCTIONS) >= 10 * PAGES);
	for (int i = 0; i < HT_COUNTS; i++)
		assert_true(ht_counters_total(c, 0, (enum ht_counter)i) == 0);
	ht_counters_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences_add_up),
		cmocka_unit_test(turns_are_extrapolated),
		cmocka_unit_test(one_is_refused),
		cmocka_unit_test(all_of_a_kind_are_refused),
		cmocka_unit_test(each_thread_has_its_own),
		cmocka_unit_test(the_system_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
