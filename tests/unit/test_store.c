/* The store: an entry is read as it was put, or not at all, whatever other processes do and
 * whatever happens to the files. */
#include "tests/unit/store.h"

#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- keys ---- */

static void fields_are_kept_apart(void **state)
{
	UNIT_ARENA(a);
	struct ht_key_text k;
	struct ht_cache_key one, two;
	struct ht_str name, value;
	char digits[HT_KEY_NAME];
	struct ht_hash find;
	size_t at = 0;

	(void)state;
	ht_key_begin(&k, HT_CACHE_KERNEL, &a);
	ht_key_field(&k, "a", HT_STR("1\nb 1\n2"));
	one = ht_key_end(&k);
	ht_key_begin(&k, HT_CACHE_KERNEL, &a);
	ht_key_field(&k, "a", HT_STR("1"));
	ht_key_field(&k, "b", HT_STR("2"));
	two = ht_key_end(&k);
	assert_false(ht_str_eq(one.text, two.text));
	assert_false(ht_hash_eq(one.find, two.find));
	assert_true(ht_key_next(one.text, &at, &name, &value));
	assert_str(value, "kernel");
	assert_true(ht_key_next(one.text, &at, &name, &value));
	assert_str(name, "entry");
	assert_true(ht_key_next(one.text, &at, &name, &value));
	assert_str(name, "a");
	assert_str(value, "1\nb 1\n2");
	assert_false(ht_key_next(one.text, &at, &name, &value));
	ht_key_name(one.find, digits);
	assert_true(ht_key_named(ht_str(digits), &find));
	assert_true(ht_hash_eq(find, one.find));
	assert_false(ht_key_named(HT_STR("0123456789abcdef0123456789abcdeF"), &find));
	ht_arena_release(&a);
}

/* ---- putting and getting ---- */

static void what_was_put_comes_back(void **state)
{
	static const size_t sizes[] = { 0, 1, 63, 4096, 100000, 3000000 };
	struct ht_store *s = open_store();

	(void)state;
	for (int i = 0; i < (int)HT_COUNT(sizes); i++) {
		assert_false(get(s, i, sizes[i], NULL));
		assert_true(put(s, i, sizes[i], NULL));
		assert_true(get(s, i, sizes[i], NULL));
	}
	ht_store_close(s, NULL);
	s = open_with((struct ht_store_options){ .mode = HT_CACHE_RO }, NULL);
	for (int i = 0; i < (int)HT_COUNT(sizes); i++)
		assert_true(get(s, i, sizes[i], NULL));
	assert_false(put(s, 9, 10, NULL));
	ht_store_close(s, NULL);
}

/* Two keys with one file name: a look-up that finds the other's entry is a miss, and the entry
 * stays. */
static void a_collision_is_a_miss(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_cache_key k = key_of(&a, HT_CACHE_GRAPH, 1),
			    other = key_of(&a, HT_CACHE_GRAPH, 2);
	struct ht_diags d;
	struct ht_cached c;

	(void)state;
	ht_diags_init(&d);
	assert_true(put(s, 1, 100, &d));
	other.find = k.find;
	assert_false(ht_store_get(s, &other, &d, &c));
	assert_true(get(s, 1, 100, &d));
	assert_int_equal(d.count, 0);
	ht_diags_release(&d);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* An entry under the name of another one is damaged. */
static void a_moved_entry_is_damaged(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	assert_true(put(s, 1, 100, &d));
	assert_true(put(s, 2, 100, &d));
	assert_int_equal(rename(file_of(s, 1, &a).p, file_of(s, 2, &a).p), 0);
	assert_false(get(s, 2, 100, &d));
	assert_int_equal(d.warnings, 1);
	assert_int_equal(access(file_of(s, 2, &a).p, F_OK), -1);
	ht_diags_release(&d);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

static void write_file(const char *path, struct ht_str s)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, s.p, s.n), s.n);
	close(fd);
}

/* Every bit of a small entry, then every shorter length. */
static void damage_is_a_miss_and_removed(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_file *f;
	struct ht_str path = file_of(s, 5, &a), whole;
	char *bytes;

	(void)state;
	assert_true(put(s, 5, 40, NULL));
	assert_int_equal(ht_file_map(path.p, 1 << 20, NULL, &f), HT_OK);
	whole = ht_str_copy(&a, (struct ht_str){ (const char *)f->p, f->n });
	ht_file_unref(f);
	bytes = (char *)(uintptr_t)whole.p;
	for (size_t bit = 0; bit < whole.n * 8;
		bit += bit < 2048 || bit > whole.n * 8 - 700 ? 1 : 37) {
		bytes[bit / 8] ^= (char)(1 << bit % 8);
		write_file(path.p, whole);
		bytes[bit / 8] ^= (char)(1 << bit % 8);
		assert_false(get(s, 5, 40, NULL));
		assert_int_equal(access(path.p, F_OK), -1);
	}
	for (size_t n = 0; n < whole.n; n += n < 200 || n > whole.n - 50 ? 1 : 41) {
		write_file(path.p, (struct ht_str){ whole.p, n });
		assert_false(get(s, 5, 40, NULL));
		assert_int_equal(access(path.p, F_OK), -1);
	}
	write_file(path.p, whole);
	assert_true(get(s, 5, 40, NULL));
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* A process that finds damage removes the file that it read, not the good entry that now has its
 * name; a file that another process has removed is not reported as damage that stays. */
static struct ht_str put_meanwhile, read_path;
static bool remove_meanwhile;

static ssize_t read_while_it_is_taken(int fd, void *p, size_t n)
{
	ssize_t got = read(fd, p, n);

	if (put_meanwhile.n)
		assert_int_equal(rename(put_meanwhile.p, read_path.p), 0);
	if (remove_meanwhile)
		assert_int_equal(unlink(read_path.p), 0);
	put_meanwhile.n = 0;
	remove_meanwhile = false;
	return got;
}

static void what_replaced_a_damaged_entry_stays(void **state)
{
	struct ht_files files = ht_files_system;
	struct ht_store *s = open_with((struct ht_store_options){ .files = &files }, NULL);
	UNIT_ARENA(a);
	struct ht_listed_entry e = { .kind = HT_CACHE_GRAPH };
	struct ht_cached c;
	struct ht_diags d;
	const char *why;
	bool removed;

	(void)state;
	ht_diags_init(&d);
	files.read = read_while_it_is_taken;
	read_path = file_of(s, 5, &a);
	e.find = key_of(&a, HT_CACHE_GRAPH, 5).find;
	assert_true(put(s, 5, 40, NULL));
	for (int verifies = 0; verifies < 2; verifies++) {
		put_meanwhile = ht_str_printf(&a, "%s/good", dir);
		assert_int_equal(rename(read_path.p, put_meanwhile.p), 0);
		write_file(read_path.p, HT_STR("damaged"));
		if (verifies) {
			assert_int_equal(ht_store_read(s, &e, &c, &why, &removed), HT_ENTRY_GONE);
		} else {
			assert_false(get(s, 5, 40, &d));
		}
		assert_int_equal(d.warnings, 1);
		assert_true(get(s, 5, 40, &d));
	}
	write_file(read_path.p, HT_STR("damaged"));
	remove_meanwhile = true;
	assert_int_equal(ht_store_read(s, &e, &c, &why, &removed), HT_ENTRY_GONE);
	ht_diags_release(&d);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* Each bit of the version's number: the entry is damaged, since its key is of this version. */
static void a_damaged_version_is_not_another(void **state)
{
	enum { VERSION_AT = 8, VERSION_BITS = 32 };
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_listed_entry e = { .kind = HT_CACHE_GRAPH };
	struct ht_str path = file_of(s, 5, &a), elsewhere;
	struct ht_cached c;
	const char *why;
	char byte;
	int fd;

	(void)state;
	e.find = key_of(&a, HT_CACHE_GRAPH, 5).find;
	assert_true(put(s, 5, 40, NULL));
	fd = open(path.p, O_RDWR);
	assert_true(fd >= 0);
	for (int bit = 0; bit < VERSION_BITS; bit++) {
		off_t at = VERSION_AT + bit / 8;
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= (char)(1 << bit % 8);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_int_equal(ht_store_read(s, &e, &c, &why, NULL), HT_ENTRY_DAMAGED);
		byte ^= (char)(1 << bit % 8);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	assert_int_equal(ht_store_read(s, &e, &c, &why, NULL), HT_ENTRY_GOOD);
	ht_cached_release(&c);
	/* An entry under a name that is not its key's was not written by this version. */
	byte = HT_ENTRY_VERSION + 1;
	assert_int_equal(pwrite(fd, &byte, 1, VERSION_AT), 1);
	close(fd);
	assert_true(put(s, 6, 40, NULL));
	elsewhere = file_of(s, 6, &a);
	e.find = key_of(&a, HT_CACHE_GRAPH, 6).find;
	assert_int_equal(rename(path.p, elsewhere.p), 0);
	assert_int_equal(ht_store_read(s, &e, &c, &why, NULL), HT_ENTRY_FOREIGN);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* In a read-only store, damage stays, and is reported. */
static void damage_in_a_store_read_only(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	assert_true(put(s, 5, 40, NULL));
	ht_store_close(s, NULL);
	s = open_with((struct ht_store_options){ .mode = HT_CACHE_RO }, NULL);
	assert_int_equal(truncate(file_of(s, 5, &a).p, 100), 0);
	assert_false(get(s, 5, 40, &d));
	assert_int_equal(access(file_of(s, 5, &a).p, F_OK), 0);
	assert_int_equal(d.warnings, 1);
	ht_diags_release(&d);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* ---- permissions ---- */

static void a_directory_that_others_write_to_is_refused(void **state)
{
	struct ht_store_options opt = { .dir = dir, .mode = HT_CACHE_RW };
	struct ht_store *s;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(i ? chmod(dir, 0770) : mkdir(dir, 0700), 0);
		assert_int_equal(chmod(dir, i ? 0770 : 0777), 0);
		assert_int_equal(ht_store_open(&opt, &d, &s), HT_E_ENVIRONMENT);
		assert_null(s);
	}
	assert_int_equal(d.errors, 2);
	opt.shared = true;
	assert_int_equal(ht_store_open(&opt, &d, &s), HT_OK);
	assert_true(put(s, 1, 10, &d));
	assert_true(get(s, 1, 10, &d));
	ht_store_close(s, NULL);
	opt.shared = false;
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(ht_store_open(&opt, &d, &s), HT_OK);
	ht_store_close(s, NULL);
	ht_diags_release(&d);
}

static void a_file_is_no_directory(void **state)
{
	struct ht_store_options opt = { .dir = dir, .mode = HT_CACHE_RW };
	struct ht_store *s;

	(void)state;
	write_file(dir, HT_STR("x"));
	assert_int_equal(ht_store_open(&opt, NULL, &s), HT_E_ENVIRONMENT);
	assert_int_equal(unlink(dir), 0);
}

/* An entry that is a symbolic link is not followed. */
static void links_are_not_followed(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_str path = file_of(s, 1, &a), elsewhere;

	(void)state;
	assert_true(put(s, 1, 10, NULL));
	elsewhere = ht_str_printf(&a, "%s/elsewhere", dir);
	assert_int_equal(rename(path.p, elsewhere.p), 0);
	assert_int_equal(symlink(elsewhere.p, path.p), 0);
	assert_false(get(s, 1, 10, NULL));
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* ---- a store that cannot be written ---- */

static size_t count_temporary(struct ht_store *s)
{
	UNIT_ARENA(a);
	struct ht_entry_list l;
	size_t n;

	assert_int_equal(ht_store_list(s, &a, NULL, &l), HT_OK);
	n = l.temporary;
	ht_arena_release(&a);
	return n;
}

/* A file may have at most so many bytes: the second half of an entry cannot be written. */
static void a_full_disk_is_told_of_once(void **state)
{
	struct ht_store *s = open_store();
	struct rlimit before, limit;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ 50000, before.rlim_max };
	assert_true(put(s, 1, 1000, &d));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_false(put(s, 2, 100000, &d));
	assert_false(put(s, 3, 100000, &d));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(d.warnings, 1);
	assert_true(get(s, 1, 1000, &d));
	assert_false(get(s, 2, 100000, &d));
	assert_int_equal(count_temporary(s), 0);
	ht_diags_release(&d);
	ht_store_close(s, NULL);
}

/* If the directory cannot be made, the store is empty, with a warning. */
static void a_place_that_cannot_be_made(void **state)
{
	struct ht_store_options opt = { .dir = "/proc/halftone/cache", .mode = HT_CACHE_RW };
	struct ht_store *s;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_store_open(&opt, &d, &s), HT_OK);
	assert_int_equal(d.warnings, 1);
	assert_false(get(s, 1, 10, &d));
	assert_false(put(s, 1, 10, &d));
	assert_int_equal(d.warnings, 1);
	ht_store_close(s, &d);
	ht_diags_release(&d);
}

/* ---- eviction ---- */

static void use_at(struct ht_store *s, int number, time_t when)
{
	UNIT_ARENA(a);
	struct timespec t[2] = { { when, 0 }, { when, 0 } };

	assert_int_equal(utimensat(AT_FDCWD, file_of(s, number, &a).p, t, 0), 0);
	ht_arena_release(&a);
}

static void the_least_recently_used_goes_first(void **state)
{
	struct ht_store *s = open_store();
	time_t now = time(NULL);
	struct ht_gc done;

	(void)state;
	for (int i = 0; i < 10; i++) {
		assert_true(put(s, i, 10000, NULL));
		use_at(s, i, now - 1000 + i * 10);
	}
	assert_true(get(s, 0, 10000, NULL)); /* and so is the most recent one */
	assert_int_equal(ht_store_gc(s, 40000 + 4 * 4200, NULL, &done), HT_OK);
	assert_int_equal(done.evicted, 6);
	assert_int_equal(done.entries, 4);
	for (int i = 0; i < 10; i++)
		assert_int_equal(get(s, i, 10000, NULL), i == 0 || i > 6);
	ht_store_close(s, NULL);
}

static void what_is_pinned_stays(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_listed_entry e = { .kind = HT_CACHE_GRAPH };
	struct ht_gc done;

	(void)state;
	assert_true(put(s, 1, 100, NULL));
	assert_true(put(s, 2, 100, NULL));
	e.find = key_of(&a, HT_CACHE_GRAPH, 1).find;
	assert_int_equal(ht_store_pin(s, &e, true, NULL), HT_OK);
	assert_int_equal(ht_store_gc(s, 0, NULL, &done), HT_OK);
	assert_true(get(s, 1, 100, NULL));
	assert_false(get(s, 2, 100, NULL));
	assert_int_equal(ht_store_pin(s, &e, false, NULL), HT_OK);
	assert_int_equal(ht_store_gc(s, 0, NULL, &done), HT_OK);
	assert_false(get(s, 1, 100, NULL));
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* Without a request: a process that puts too much cleans up when it ends. */
static void the_limit_holds_by_itself(void **state)
{
	struct ht_store_options opt = { .max_bytes = 200000 };
	UNIT_ARENA(a);
	struct ht_entry_list l;
	struct ht_store *s;

	(void)state;
	for (int i = 0; i < 40; i++) {
		s = open_with(opt, NULL);
		assert_true(put(s, i, 10000, NULL));
		ht_store_close(s, NULL);
	}
	s = open_with(opt, NULL);
	assert_int_equal(ht_store_list(s, &a, NULL, &l), HT_OK);
	assert_in_range(l.bytes, 100000, 200000);
	assert_true(get(s, 39, 10000, NULL));
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

static void old_temporary_files_are_swept(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct timespec t[2] = { { 1000, 0 }, { 1000, 0 } };
	struct ht_str path = file_of(s, 1, &a), old, fresh;
	struct ht_gc done;

	(void)state;
	assert_true(put(s, 1, 10, NULL));
	old = ht_str_printf(&a, "%.*s/.tmp-a", (int)(strrchr(path.p, '/') - path.p), path.p);
	fresh = ht_str_printf(&a, "%.*s/.tmp-b", (int)(strrchr(path.p, '/') - path.p), path.p);
	write_file(old.p, HT_STR("x"));
	write_file(fresh.p, HT_STR("x"));
	assert_int_equal(utimensat(AT_FDCWD, old.p, t, 0), 0);
	assert_int_equal(ht_store_gc(s, UINT64_MAX, NULL, &done), HT_OK);
	assert_int_equal(done.temporary, 1);
	assert_int_equal(count_temporary(s), 1);
	assert_int_equal(unlink(fresh.p), 0);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

/* ---- many processes ---- */

enum { PROCESSES = 8, ROUNDS = 60, KEYS = 12 };

/* Puts and gets at random, and sometimes cleans up; a wrong byte is a failure. */
static int work(unsigned seed)
{
	struct ht_store_options opt = { .dir = dir, .mode = HT_CACHE_RW };
	struct ht_store *s;
	struct ht_diags d;
	struct ht_gc done;

	ht_diags_init(&d);
	if (ht_store_open(&opt, &d, &s) != HT_OK)
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		int number = rand_r(&seed) % KEYS;
		size_t n = (size_t)number * 20000 + 10;

		if (!get(s, number, n, &d) && !put(s, number, n, &d))
			return 2;
		ht_store_count(s, HT_COUNTER_graph_hits, 1);
		if (rand_r(&seed) % 20 == 0)
			ht_store_gc(s, 500000, NULL, &done);
	}
	ht_store_close(s, &d);
	return d.count ? 3 : 0;
}

static void processes_do_not_disturb_each_other(void **state)
{
	uint64_t counter[HT_COUNTERS];
	struct ht_store *s;
	int status;

	(void)state;
	for (unsigned i = 0; i < PROCESSES; i++)
		if (!fork())
			_exit(work(i));
	for (int i = 0; i < PROCESSES; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	s = open_store();
	assert_int_equal(count_temporary(s), 0);
	assert_int_equal(ht_store_stats(s, NULL, counter), HT_OK);
	assert_int_equal(counter[HT_COUNTER_graph_hits], PROCESSES * ROUNDS);
	assert_int_equal(counter[HT_COUNTER_damaged], 0);
	ht_store_close(s, NULL);
}

/* However often the counters are merged in between. */
static void statistics_add_up(void **state)
{
	uint64_t counter[HT_COUNTERS];
	struct ht_store *s;
	struct ht_gc done;

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		s = open_store();
		ht_store_count(s, HT_COUNTER_kernel_misses, i);
		ht_store_close(s, NULL);
		s = open_store();
		if (i % 3 == 0)
			assert_int_equal(ht_store_gc(s, UINT64_MAX, NULL, &done), HT_OK);
		assert_int_equal(ht_store_stats(s, NULL, counter), HT_OK);
		assert_int_equal(counter[HT_COUNTER_kernel_misses], i * (i + 1) / 2);
		ht_store_close(s, NULL);
	}
	s = open_store();
	assert_int_equal(ht_store_stats_reset(s, NULL), HT_OK);
	assert_int_equal(ht_store_stats(s, NULL, counter), HT_OK);
	assert_int_equal(counter[HT_COUNTER_kernel_misses], 0);
	ht_store_close(s, NULL);
}

static int open_no_counters(const char *path, int flags, mode_t mode)
{
	if (!(flags & O_CREAT) && strstr(path, "stats/run")) {
		errno = EIO;
		return -1;
	}
	return open(path, flags, mode);
}

static void counters_that_cannot_be_read_stay(void **state)
{
	enum { RUNS = 3 };
	struct ht_files files = ht_files_system;
	struct ht_store_options opt = { .mode = HT_CACHE_RW, .files = &files };
	uint64_t counter[HT_COUNTERS];
	struct ht_store *s;
	struct ht_gc done;

	(void)state;
	for (int i = 0; i < RUNS; i++) {
		s = open_store();
		ht_store_count(s, HT_COUNTER_kernel_misses, 1);
		ht_store_close(s, NULL);
	}
	files.open = open_no_counters;
	s = open_with(opt, NULL);
	assert_int_equal(ht_store_gc(s, UINT64_MAX, NULL, &done), HT_OK);
	ht_store_close(s, NULL);
	s = open_store();
	assert_int_equal(ht_store_stats(s, NULL, counter), HT_OK);
	assert_int_equal(counter[HT_COUNTER_kernel_misses], RUNS);
	ht_store_close(s, NULL);
}

/* ---- a merge while the counters are read ---- */

static struct ht_store *merges;

static void merge_now(void)
{
	struct ht_store *s = merges;
	struct ht_gc done;

	merges = NULL;
	if (s)
		assert_int_equal(ht_store_gc(s, UINT64_MAX, NULL, &done), HT_OK);
}

static int open_behind_a_merge(const char *path, int flags, mode_t mode)
{
	if (strstr(path, "stats/run"))
		merge_now();
	return open(path, flags, mode);
}

/* Lists files that a merge has removed since, before its sum appears. */
static struct dirent *read_past_a_merge(DIR *d)
{
	struct dirent *e = readdir(d);

	while (merges && e && !strncmp(e->d_name, "sum-", 4))
		e = readdir(d);
	if (!e)
		merges = NULL;
	return e;
}

static void count_beside(const struct ht_files *files, uint64_t want)
{
	uint64_t counter[HT_COUNTERS];
	struct ht_store *s;
	struct ht_diags d;

	ht_diags_init(&d);
	s = open_with((struct ht_store_options){ .mode = HT_CACHE_RO, .files = files }, NULL);
	assert_int_equal(ht_store_stats(s, &d, counter), HT_OK);
	assert_int_equal(counter[HT_COUNTER_kernel_misses], want);
	assert_int_equal(d.count, 0);
	assert_null(merges);
	ht_store_close(s, NULL);
	ht_diags_release(&d);
}

/* One run in 64 merges the counters when it closes; holding the lock prevents that. */
static void statistics_beside_a_merge(void **state)
{
	enum { RUNS = 3 };
	struct ht_files files = ht_files_system;
	struct ht_store *s = open_store();
	struct ht_gc done;
	int lock;

	(void)state;
	lock = ht_store_lock(s, true);
	assert_true(lock >= 0);
	for (int i = 0; i < RUNS; i++) {
		struct ht_store *run = open_store();
		ht_store_count(run, HT_COUNTER_kernel_misses, 1);
		ht_store_close(run, NULL);
	}
	ht_store_unlock(s, lock);
	merges = s;
	files.open = open_behind_a_merge;
	count_beside(&files, RUNS);
	assert_int_equal(ht_store_gc(s, UINT64_MAX, NULL, &done), HT_OK);
	merges = s;
	files = ht_files_system;
	files.readdir = read_past_a_merge;
	count_beside(&files, RUNS);
	ht_store_close(s, NULL);
}

static void counters_that_are_not_read_are_told_of(void **state)
{
	struct ht_files files = ht_files_system;
	uint64_t counter[HT_COUNTERS];
	struct ht_store *s = open_store();
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	ht_store_count(s, HT_COUNTER_kernel_misses, 1);
	ht_store_close(s, NULL);
	files.open = open_no_counters;
	s = open_with((struct ht_store_options){ .files = &files }, NULL);
	assert_int_equal(ht_store_stats(s, &d, counter), HT_OK);
	assert_int_equal(d.warnings, 1);
	ht_store_close(s, NULL);
	ht_diags_release(&d);
}

/* A process that may only read changes nothing. */
static void what_is_only_read_is_not_written(void **state)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);
	struct ht_listed_entry e = { .kind = HT_CACHE_GRAPH };
	uint64_t counter[HT_COUNTERS];
	struct ht_entry_list l;

	(void)state;
	assert_true(put(s, 1, 100, NULL));
	e.find = key_of(&a, HT_CACHE_GRAPH, 1).find;
	ht_store_close(s, NULL);
	s = open_with((struct ht_store_options){ .mode = HT_CACHE_RO }, NULL);
	assert_int_equal(ht_store_pin(s, &e, true, NULL), HT_E_ENVIRONMENT);
	assert_int_equal(ht_store_stats_reset(s, NULL), HT_E_ENVIRONMENT);
	assert_int_equal(ht_store_list(s, &a, NULL, &l), HT_OK);
	assert_false(l.entry[0].pinned);
	assert_int_equal(ht_store_stats(s, NULL, counter), HT_OK);
	assert_int_equal(counter[HT_COUNTER_puts], 1);
	ht_arena_release(&a);
	ht_store_close(s, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_kept_apart),
		cmocka_unit_test_teardown(what_was_put_comes_back, clear_folder),
		cmocka_unit_test_teardown(a_collision_is_a_miss, clear_folder),
		cmocka_unit_test_teardown(a_moved_entry_is_damaged, clear_folder),
		cmocka_unit_test_teardown(damage_is_a_miss_and_removed, clear_folder),
		cmocka_unit_test_teardown(what_replaced_a_damaged_entry_stays, clear_folder),
		cmocka_unit_test_teardown(a_damaged_version_is_not_another, clear_folder),
		cmocka_unit_test_teardown(damage_in_a_store_read_only, clear_folder),
		cmocka_unit_test_teardown(
			a_directory_that_others_write_to_is_refused, clear_folder),
		cmocka_unit_test_teardown(a_file_is_no_directory, clear_folder),
		cmocka_unit_test_teardown(links_are_not_followed, clear_folder),
		cmocka_unit_test_teardown(a_full_disk_is_told_of_once, clear_folder),
		cmocka_unit_test_teardown(a_place_that_cannot_be_made, clear_folder),
		cmocka_unit_test_teardown(the_least_recently_used_goes_first, clear_folder),
		cmocka_unit_test_teardown(what_is_pinned_stays, clear_folder),
		cmocka_unit_test_teardown(the_limit_holds_by_itself, clear_folder),
		cmocka_unit_test_teardown(old_temporary_files_are_swept, clear_folder),
		cmocka_unit_test_teardown(processes_do_not_disturb_each_other, clear_folder),
		cmocka_unit_test_teardown(statistics_add_up, clear_folder),
		cmocka_unit_test_teardown(counters_that_cannot_be_read_stay, clear_folder),
		cmocka_unit_test_teardown(statistics_beside_a_merge, clear_folder),
		cmocka_unit_test_teardown(counters_that_are_not_read_are_told_of, clear_folder),
		cmocka_unit_test_teardown(what_is_only_read_is_not_written, clear_folder),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
