/* Common to the tests of the store: a folder for it, and numbered entries. */
#ifndef HT_UNIT_STORE_H
#define HT_UNIT_STORE_H

#include "tests/unit/unit.h"

#include "cache/cache.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/dev/shm/halftone-store-XXXXXX", dir[64];

static inline void remove_all(void)
{
	char command[192];

	snprintf(command, sizeof command, "chmod -R u+w '%s' && rm -rf '%s'", dir, dir);
	if (!access(dir, F_OK))
		assert_int_equal(system(command), 0);
}

static inline int make_folder(void **state)
{
	(void)state;
	/* The tests make thousands of small files, so they are in memory if the system has a place
	 * for that. */
	if (!mkdtemp(folder)) {
		memcpy(folder, "/tmp/halftone-store-XXXXXX", sizeof "/tmp/halftone-store-XXXXXX");
		if (!mkdtemp(folder))
			return -1;
	}
	snprintf(dir, sizeof dir, "%s/cache", folder);
	return 0;
}

static inline int clear_folder(void **state)
{
	(void)state;
	remove_all();
	return 0;
}

static inline int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static inline struct ht_store *open_with(struct ht_store_options opt, struct ht_diags *d)
{
	struct ht_store *s;

	opt.dir = dir;
	if (opt.mode == HT_CACHE_OFF)
		opt.mode = HT_CACHE_RW;
	assert_int_equal(ht_store_open(&opt, d, &s), HT_OK);
	return s;
}

static inline struct ht_store *open_store(void)
{
	return open_with((struct ht_store_options){ 0 }, NULL);
}

static inline struct ht_cache_key key_of(struct ht_arena *a, enum ht_cache_kind kind, int number)
{
	struct ht_key_text k;

	ht_key_begin(&k, kind, a);
	ht_key_field(&k, "number", ht_str_printf(a, "%d", number));
	return ht_key_end(&k);
}

/* The value of entry `number`; no two are equal. */
static inline struct ht_str value_of(struct ht_arena *a, int number, size_t n)
{
	char *p = ht_alloc(a, n);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 31 + (size_t)number * 7 + (i >> 8) * (size_t)number);
	return (struct ht_str){ p, n };
}

static inline bool put(struct ht_store *s, int number, size_t n, struct ht_diags *d)
{
	UNIT_ARENA(a);
	struct ht_cache_key k = key_of(&a, HT_CACHE_GRAPH, number);
	struct ht_str v = value_of(&a, number, n);
	/* The pieces of a payload; the second and third are its bulk. */
	struct ht_str piece[4] = { { v.p, n / 3 }, { v.p + n / 3, n / 5 },
		{ v.p + n / 3 + n / 5, n / 7 }, { v.p + n / 3 + n / 5 + n / 7, 0 } };
	struct ht_cache_entry e;
	bool ok;

	piece[3].n = (size_t)(v.p + n - piece[3].p);
	e = ht_entry_make(&a, &k, &(struct ht_payload){ piece, 4, 1, 3 });
	ok = ht_store_put(s, &k, &e, d);
	ht_arena_release(&a);
	return ok;
}

/* Whether the entry is there; if so, it must be right. */
static inline bool get(struct ht_store *s, int number, size_t n, struct ht_diags *d)
{
	UNIT_ARENA(a);
	struct ht_cache_key k = key_of(&a, HT_CACHE_GRAPH, number);
	struct ht_str v = value_of(&a, number, n);
	struct ht_cached c;
	bool hit = ht_store_get(s, &k, d, &c);

	if (hit) {
		assert_int_equal(c.payload.n, n);
		assert_memory_equal(c.payload.p, v.p, n);
		assert_int_equal((uintptr_t)c.payload.p % 4096, 0);
		ht_cached_release(&c);
	}
	ht_arena_release(&a);
	return hit;
}

static inline struct ht_str file_of(struct ht_store *s, int number, struct ht_arena *a)
{
	struct ht_cache_key k = key_of(a, HT_CACHE_GRAPH, number);

	return ht_store_path(s, k.kind, k.find, a);
}

#endif
