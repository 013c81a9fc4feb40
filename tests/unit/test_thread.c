/* Work in pieces on threads: each element is computed once, for all sizes; and copies by
 * threads. */
#include "tests/unit/unit.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 1000 };

struct marks {
	atomic_int times[MOST];
	size_t n, piece;
	atomic_int wrong;
};

static void mark(void *arg, size_t begin, size_t end)
{
	struct marks *m = arg;

	if (begin >= end || end > m->n || end - begin > m->piece)
		atomic_fetch_add(&m->wrong, 1);
	for (size_t i = begin; i < end && i < MOST; i++)
		atomic_fetch_add(&m->times[i], 1);
}

static void every_element_once(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 63, 64, 65, 999, MOST };
	static const int threads[] = { 0, 1, 2, 3, 100 };

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
			for (size_t piece = 1; piece <= 2 * MOST; piece *= 7) {
				struct marks *m = calloc(1, sizeof *m);

				assert_non_null(m);
				m->n = sizes[s];
				m->piece = piece;
				ht_on_ranges(threads[t], m->n, piece, mark, m);
				assert_int_equal(m->wrong, 0);
				for (size_t i = 0; i < MOST; i++)
					assert_int_equal(m->times[i], i < m->n);
				free(m);
			}
}

/* A copy of several pieces, the last of which is shorter. */
static void aligned_copies_are_equal(void **state)
{
	const size_t n = ((size_t)5 << 20) + 13;
	struct ht_blob *whole = ht_blob_new(n + 1);
	unsigned char *p;

	(void)state;
	assert_non_null(whole);
	p = (unsigned char *)(uintptr_t)whole->p;
	for (size_t i = 0; i <= n; i++)
		p[i] = (unsigned char)(i * 7 + (i >> 13));
	for (int threads = 1; threads <= 3; threads++) {
		struct ht_blob *odd = ht_blob_part(whole, 1, n), *even;

		assert_non_null(odd);
		even = ht_blob_aligned(odd, 64, threads);
		assert_non_null(even);
		assert_int_equal((uintptr_t)even->p % 64, 0);
		assert_int_equal(even->n, n);
		assert_memory_equal(even->p, odd->p, n);
		ht_blob_unref(even);
		ht_blob_unref(odd);
	}
	ht_blob_unref(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_element_once),
		cmocka_unit_test(aligned_copies_are_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
