/* Arenas: zeroed, aligned, distinct memory; deferred calls run; a failed allocation unwinds and
 * leaks nothing (which AddressSanitizer's leak check detects). */
#include "tests/unit/unit.h"

#include <stdlib.h>

static void memory_is_zeroed_aligned_and_distinct(void **state)
{
	enum { COUNT = 3000 };
	static unsigned char *p[COUNT];
	static size_t size[COUNT];

	(void)state;
	UNIT_ARENA(a);
	for (int i = 0; i < COUNT; i++) {
		size[i] = i % 100 == 99 ? 70000 : (size_t)(i * 7 % 301);
		p[i] = ht_alloc(&a, size[i]);
		assert_int_equal((uintptr_t)p[i] % 8, 0);
		for (size_t j = 0; j < size[i]; j++)
			assert_int_equal(p[i][j], 0);
		memset(p[i], i % 255 + 1, size[i]);
	}
	for (int i = 0; i < COUNT; i++)
		for (size_t j = 0; j < size[i]; j++)
			assert_int_equal(p[i][j], i % 255 + 1);
	assert_true(a.bytes > 30 * 70000);
	ht_arena_release(&a);
	assert_int_equal(a.bytes, 0);
	/* The arena can be used again. */
	assert_non_null(ht_alloc(&a, 1));
	ht_arena_release(&a);
}

static void empty_allocations_are_distinct(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	void *p = ht_alloc(&a, 0), *q = ht_alloc(&a, 0);
	assert_non_null(p);
	assert_ptr_not_equal(p, q);
	ht_arena_release(&a);
}

static int order[4], calls;

static void note(void *arg)
{
	order[calls++] = *(int *)arg;
}

static void deferred_calls_run_newest_first(void **state)
{
	int one = 1, two = 2, three = 3;

	(void)state;
	calls = 0;
	UNIT_ARENA(a);
	ht_arena_defer(&a, note, &one);
	ht_arena_defer(&a, note, &two);
	ht_arena_defer(&a, note, &three);
	ht_arena_release(&a);
	assert_int_equal(calls, 3);
	assert_int_equal(order[0], 3);
	assert_int_equal(order[1], 2);
	assert_int_equal(order[2], 1);
	ht_arena_release(&a);
	assert_int_equal(calls, 3);
}

/* Handles a failed allocation like a public function. */
static enum ht_status build(long allocations, size_t *total)
{
	struct ht_unwind unwind;
	struct ht_arena a;

	ht_arena_init(&a, &unwind);
	ht_fail_alloc_after(allocations);
	if (setjmp(unwind.env)) {
		ht_fail_alloc_after(-1);
		ht_arena_release(&a);
		return HT_E_ENVIRONMENT;
	}
	for (int i = 0; i < 200; i++) {
		/* freed by the arena, also if recording the call fails */
		void *outside = malloc(10);

		assert_non_null(outside);
		ht_arena_defer(&a, free, outside);
		ht_alloc(&a, 1000);
	}
	ht_fail_alloc_after(-1);
	*total = a.bytes;
	ht_arena_release(&a);
	return HT_OK;
}

static void each_failed_allocation_unwinds(void **state)
{
	size_t total = 0;
	long needed = 0;

	(void)state;
	while (build(needed, &total) != HT_OK) {
		assert_int_equal(total, 0);
		needed++;
		assert_true(needed < 1000);
	}
	assert_true(needed > 5);
	assert_true(total > 200 * 1000);
}

static void sizes_that_overflow_unwind(void **state)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	volatile int unwound = 0;

	(void)state;
	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env))
		ht_alloc_array(&a, SIZE_MAX / 8, 16);
	else
		unwound++;
	if (!setjmp(unwind.env))
		ht_alloc(&a, SIZE_MAX - 3);
	else
		unwound++;
	if (!setjmp(unwind.env))
		ht_alloc(&a, SIZE_MAX - 40);
	else
		unwound++;
	assert_int_equal(unwound, 3);
	ht_arena_release(&a);
}

static void arrays_grow_and_keep_what_they_hold(void **state)
{
	int *small = NULL;
	int64_t *large = NULL;
	size_t small_cap = 0, large_cap = 0;

	(void)state;
	UNIT_ARENA(a);
	for (int i = 0; i < 20000; i++) {
		small = ht_grow(&a, small, (size_t)i, &small_cap, sizeof *small);
		assert_int_equal(small[i], 0);
		small[i] = i;
		if (i % 3)
			continue;
		large = ht_grow(&a, large, (size_t)i / 3, &large_cap, sizeof *large);
		assert_int_equal(large[i / 3], 0);
		large[i / 3] = -i;
	}
	for (int i = 0; i < 20000; i++) {
		assert_int_equal(small[i], i);
		if (i % 3 == 0)
			assert_int_equal(large[i / 3], -i);
	}
	assert_true(small_cap >= 20000);
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_aligned_and_distinct),
		cmocka_unit_test(empty_allocations_are_distinct),
		cmocka_unit_test(deferred_calls_run_newest_first),
		cmocka_unit_test(each_failed_allocation_unwinds),
		cmocka_unit_test(sizes_that_overflow_unwind),
		cmocka_unit_test(arrays_grow_and_keep_what_they_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
