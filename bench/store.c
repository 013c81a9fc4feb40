/* store DIR ENTRIES: fills a cache with so many small entries, and prints the cost of a look-up
 * that hits, of one that misses, and of gc.  JSON on standard output; times in microseconds and
 * seconds. */
#include "cache/cache.h"

#include <stdlib.h>
#include <time.h>

enum { LOOKUPS = 4000, PAYLOAD = 300 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct ht_cache_key key_of(struct ht_arena *a, long number)
{
	struct ht_key_text k;

	ht_key_begin(&k, HT_CACHE_KERNEL, a);
	ht_key_field(&k, "number", ht_str_printf(a, "%ld", number));
	return ht_key_end(&k);
}

static void fill(struct ht_store *s, long n)
{
	static const char payload[PAYLOAD];
	struct ht_str piece = { payload, PAYLOAD };

	for (long i = 0; i < n; i++) {
		struct ht_arena a;

		ht_arena_init(&a, NULL);
		struct ht_cache_key k = key_of(&a, i);
		struct ht_cache_entry e =
			ht_entry_make(&a, &k, &(struct ht_payload){ &piece, 1, 0, 0 });

		HT_CHECK(ht_store_put(s, &k, &e, NULL));
		ht_arena_release(&a);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of many look-ups, in microseconds: entries from `first` on, in steps of `step`. */
static double look_up(struct ht_store *s, long first, long step, bool there)
{
	static double us[LOOKUPS];

	for (long i = 0; i < LOOKUPS; i++) {
		struct ht_cached c;
		struct ht_arena a;

		ht_arena_init(&a, NULL);
		struct ht_cache_key k = key_of(&a, first + i % 1000 * step);
		double start = now();

		HT_CHECK(ht_store_get(s, &k, NULL, &c) == there);
		us[i] = (now() - start) * 1e6;
		if (there)
			ht_cached_release(&c);
		ht_arena_release(&a);
	}
	qsort(us, LOOKUPS, sizeof *us, by_value);
	return us[LOOKUPS / 2];
}

int main(int argc, char **argv)
{
	long n = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	struct ht_store_options opt = { .dir = argv[1], .mode = HT_CACHE_RW };
	struct ht_store *s;
	struct ht_gc kept, evicted;
	double start, fill_s, hit_us, miss_us, gc_s, evict_s;

	HT_CHECK(n >= 1000 && ht_store_open(&opt, NULL, &s) == HT_OK);
	start = now();
	fill(s, n);
	fill_s = now() - start;
	hit_us = look_up(s, 0, n / 1000, true);
	miss_us = look_up(s, n, 1, false);
	start = now();
	HT_CHECK(ht_store_gc(s, UINT64_MAX, NULL, &kept) == HT_OK);
	gc_s = now() - start;
	start = now();
	HT_CHECK(ht_store_gc(s, kept.bytes / 2, NULL, &evicted) == HT_OK);
	evict_s = now() - start;
	HT_CHECK(kept.entries == (size_t)n && evicted.evicted >= (size_t)n / 2);
	ht_store_close(s, NULL);
	printf("{\"entries\": %ld, \"fill_s\": %.3f, \"hit_us\": %.2f, \"miss_us\": %.2f, \"gc_s\": "
	       "%.4f, \"gc_half_s\": %.4f}\n",
		n, fill_s, hit_us, miss_us, gc_s, evict_s);
	return 0;
}
