/* The store when the system fails: each file operation in turn fails, once or from then on, does
 * only half of its work, or kills the process.  Each time, a look-up finds the right entry or none,
 * and the store is intact afterwards. */
#include "tests/unit/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- file operations that fail ---- */

enum how { FAIL, HALF, KILL };

static struct {
	long calls, at; /* the first call that fails; 0: none */
	bool for_ever;
	int error;
	enum how how;
	bool failed; /* whether one has failed */
} plan;

/* Whether this call must fail. */
static bool fails(void)
{
	plan.calls++;
	if (!plan.at || (plan.for_ever ? plan.calls < plan.at : plan.calls != plan.at))
		return false;
	if (plan.how == KILL)
		raise(SIGKILL);
	plan.failed = true;
	errno = plan.error;
	return true;
}

/* For calls that cannot be done by half. */
static bool fails_whole(void)
{
	return fails() && plan.how == FAIL;
}

static int do_open(const char *path, int flags, mode_t mode)
{
	return fails_whole() ? -1 : open(path, flags, mode);
}

/* A failed close() closes the descriptor all the same, as on Linux. */
static int do_close(int fd)
{
	bool bad = fails_whole();
	int error = errno, n = close(fd);

	errno = error;
	return bad ? -1 : n;
}

static int do_fstat(int fd, struct stat *out)
{
	return fails_whole() ? -1 : fstat(fd, out);
}

static int do_lstat(const char *path, struct stat *out)
{
	return fails_whole() ? -1 : lstat(path, out);
}

static ssize_t do_read(int fd, void *p, size_t n)
{
	if (fails())
		return plan.how == HALF ? read(fd, p, (n + 1) / 2) : -1;
	return read(fd, p, n);
}

static ssize_t do_write(int fd, const void *p, size_t n)
{
	if (plan.how == KILL && plan.calls + 1 == plan.at)
		n = (size_t)write(fd, p, n / 2); /* and then the process is killed */
	if (fails())
		return plan.how == HALF ? write(fd, p, (n + 1) / 2) : -1;
	return write(fd, p, n);
}

/* The tests do not simulate power failures, so there is no need to wait for the disk. */
static int do_fsync(int fd)
{
	(void)fd;
	return fails_whole() ? -1 : 0;
}

static void *do_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	return fails_whole() ? MAP_FAILED : mmap(at, n, prot, flags, fd, offset);
}

static int do_munmap(void *p, size_t n)
{
	return munmap(p, n);
}

static int do_rename(const char *from, const char *to)
{
	return fails_whole() ? -1 : rename(from, to);
}

static int do_unlink(const char *path)
{
	return fails_whole() ? -1 : unlink(path);
}

static int do_mkdir(const char *path, mode_t mode)
{
	return fails_whole() ? -1 : mkdir(path, mode);
}

static int do_rmdir(const char *path)
{
	return fails_whole() ? -1 : rmdir(path);
}

static int do_utimens(int fd, const struct timespec times[2])
{
	return fails_whole() ? -1 : futimens(fd, times);
}

static int do_flock(int fd, int operation)
{
	return fails_whole() ? -1 : flock(fd, operation);
}

/* The hundreds of directories that do not exist are not a case each. */
static DIR *do_opendir(const char *path)
{
	DIR *d = opendir(path);

	if (d && fails_whole()) {
		closedir(d);
		errno = plan.error;
		return NULL;
	}
	return d;
}

static struct dirent *do_readdir(DIR *d)
{
	return fails_whole() ? NULL : readdir(d);
}

static int do_closedir(DIR *d)
{
	return closedir(d);
}

static const struct ht_files faulty = {
	.open = do_open,
	.close = do_close,
	.fstat = do_fstat,
	.lstat = do_lstat,
	.read = do_read,
	.write = do_write,
	.fsync = do_fsync,
	.mmap = do_mmap,
	.munmap = do_munmap,
	.rename = do_rename,
	.unlink = do_unlink,
	.mkdir = do_mkdir,
	.rmdir = do_rmdir,
	.utimens = do_utimens,
	.flock = do_flock,
	.opendir = do_opendir,
	.readdir = do_readdir,
	.closedir = do_closedir,
};

/* ---- scenarios, and the required state afterwards ---- */

enum { KEYS = 6 };
static const size_t size_of[KEYS] = { 10, 1000, 70000, 0, 3000, 66000 };
enum { OLD = 3 }; /* entries that exist before */

/* In shared memory, which survives a killed child: which entries were put, and whether the index
 * was. */
static bool *kept, *written;

/* An index is one text or the other, and nobody holds its lock afterwards. */
#define OLD_INDEX HT_STR("old index")
#define NEW_INDEX HT_STR("a new index")

static void prepare(void)
{
	struct ht_store *s = open_store();
	UNIT_ARENA(a);

	for (int i = 0; i < KEYS; i++)
		kept[i] = i < OLD;
	for (int i = 0; i < OLD; i++)
		assert_true(put(s, i, size_of[i], NULL));
	*written = false;
	assert_true(ht_store_index_save(s, "net", OLD_INDEX, &a));
	ht_store_close(s, NULL);
	ht_arena_release(&a);
}

static struct ht_store *open_faulty(struct ht_diags *d)
{
	struct ht_store_options opt = {
		.dir = dir, .mode = HT_CACHE_RW, .sync = true, .files = &faulty
	};
	struct ht_store *s;
	enum ht_status st = ht_store_open(&opt, d, &s);

	assert_true(st == HT_OK || st == HT_E_ENVIRONMENT);
	assert_int_equal(st == HT_OK, s != NULL);
	return s;
}

static void use(struct ht_diags *d)
{
	struct ht_store *s = open_faulty(d);

	if (!s)
		return;
	for (int i = 0; i < KEYS; i++)
		if (!get(s, i, size_of[i], d) && put(s, i, size_of[i], d))
			kept[i] = true;
	for (int i = 0; i < KEYS; i++)
		get(s, i, size_of[i], d);
	ht_store_close(s, d);
}

static void rewrite_index(struct ht_diags *d)
{
	struct ht_store *s = open_faulty(d);
	struct ht_str text;
	UNIT_ARENA(a);
	int lock;

	if (s) {
		lock = ht_store_index_lock(s, "net", &a);
		if (lock >= 0) {
			if (ht_store_index_load(s, "net", &a, &text))
				assert_true(ht_str_eq(text, OLD_INDEX));
			if (ht_store_index_save(s, "net", NEW_INDEX, &a))
				*written = true;
			ht_store_index_unlock(s, lock);
		}
		ht_store_close(s, d);
	}
	ht_arena_release(&a);
}

static void check_index(struct ht_store *s)
{
	struct ht_str text;
	UNIT_ARENA(a);
	int lock = ht_store_index_lock(s, "net", &a);

	assert_true(lock >= 0);
	assert_true(ht_store_index_load(s, "net", &a, &text));
	assert_true(ht_str_eq(text, NEW_INDEX) || (!*written && ht_str_eq(text, OLD_INDEX)));
	ht_store_index_unlock(s, lock);
	ht_arena_release(&a);
}

static void maintain(struct ht_diags *d)
{
	uint64_t counter[HT_COUNTERS];
	struct ht_store *s = open_faulty(d);
	struct ht_listed_entry e = { .kind = HT_CACHE_GRAPH };
	UNIT_ARENA(a);
	struct ht_gc done;

	e.find = key_of(&a, HT_CACHE_GRAPH, 1).find;
	if (s) {
		ht_store_pin(s, &e, true, d);
		ht_store_gc(s, UINT64_MAX, d, &done);
		ht_store_stats(s, d, counter);
		ht_store_pin(s, &e, false, d);
		ht_store_close(s, d);
	}
	ht_arena_release(&a);
}

static void evict(struct ht_diags *d)
{
	struct ht_store *s = open_faulty(d);
	struct ht_gc done;

	/* Any of the entries may have been evicted. */
	for (int i = 0; i < KEYS; i++)
		kept[i] = false;
	if (!s)
		return;
	ht_store_gc(s, 10000, d, &done);
	ht_store_close(s, d);
}

static int make_old(const char *path, const struct stat *st, int type, struct FTW *at)
{
	struct timespec t[2] = { { 1000, 0 }, { 1000, 0 } };

	(void)st, (void)at;
	return type == FTW_F ? utimensat(AT_FDCWD, path, t, 0) : 0;
}

/* The store is intact: kept entries are there, all entries are right, and gc leaves no temporary
 * files. */
static void check_whole(bool may_leave)
{
	UNIT_ARENA(a);
	struct ht_store *s;
	struct ht_diags d;
	struct ht_entry_list l;
	struct ht_gc done;

	ht_diags_init(&d);
	s = open_with((struct ht_store_options){ .mode = HT_CACHE_RW }, &d);
	for (int i = 0; i < KEYS; i++)
		assert_true(get(s, i, size_of[i], &d) || !kept[i]);
	check_index(s);
	assert_int_equal(ht_store_list(s, &a, &d, &l), HT_OK);
	assert_true(may_leave || !l.temporary);
	if (l.temporary) {
		assert_int_equal(nftw(dir, make_old, 10, FTW_PHYS), 0);
		assert_int_equal(ht_store_gc(s, UINT64_MAX, &d, &done), HT_OK);
		assert_int_equal(ht_store_list(s, &a, &d, &l), HT_OK);
		assert_int_equal(l.temporary, 0);
	}
	for (int i = 0; i < KEYS; i++)
		assert_true(get(s, i, size_of[i], &d) || put(s, i, size_of[i], &d));
	assert_int_equal(d.count, 0);
	ht_store_close(s, &d);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static int remove_it(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static void forget(void)
{
	assert_int_equal(nftw(dir, remove_it, 10, FTW_PHYS | FTW_DEPTH), 0);
}

static void (*const scenarios[])(struct ht_diags *) = { use, rewrite_index, maintain, evict };

/* The number of scenarios for these tests: maintenance of the store calls the same functions in the
 * same ways. */
enum { USE = 2, ALL_SCENARIOS = HT_COUNT(scenarios) };

/* ---- the tests ---- */

/* Tries every call, one after the other, until the run has fewer calls. */
static void every_call(size_t n, enum how how, int error, bool for_ever)
{
	for (size_t i = 0; i < n; i++) {
		for (long at = 1;; at++) {
			struct ht_diags d;
			bool failed;

			ht_diags_init(&d);
			prepare();
			memset(&plan, 0, sizeof plan);
			plan.at = at;
			plan.for_ever = for_ever;
			plan.error = error;
			plan.how = how;
			scenarios[i](&d);
			failed = plan.failed;
			plan.at = 0;
			/* Failures are reported once for reading and once for writing; each request
			 * of the user (gc, pins) reports that it failed. */
			if (scenarios[i] == use)
				assert_true(d.warnings <= 2 && d.errors <= 1);
			for (const struct ht_diag *m = d.first; m; m = m->next)
				assert_true(
					m->severity == HT_WARNING || m->status == HT_E_ENVIRONMENT);
			/* If every call fails, unfinished files cannot be removed either. */
			check_whole(for_ever || how == FAIL);
			ht_diags_release(&d);
			forget();
			if (!failed)
				break;
		}
	}
}

static void each_call_fails_once(void **state)
{
	static const int errors[] = { EIO, EMFILE, ESTALE };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(errors); i++)
		every_call(i ? USE : ALL_SCENARIOS, FAIL, errors[i], false);
}

static void each_call_fails_for_ever(void **state)
{
	static const int errors[] = { ENOSPC, EROFS };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(errors); i++)
		every_call(i ? USE : ALL_SCENARIOS, FAIL, errors[i], true);
}

static void interrupted_calls_are_made_again(void **state)
{
	(void)state;
	every_call(USE, FAIL, EINTR, false);
}

static void short_reads_and_writes(void **state)
{
	(void)state;
	every_call(USE, HALF, 0, false);
	every_call(USE, HALF, 0, true);
}

/* A process that is killed between any two calls, or in the middle of a write. */
static void killed_at_each_call(void **state)
{
	(void)state;
	for (size_t i = 0; i < HT_COUNT(scenarios); i++) {
		for (long at = 1;; at++) {
			int status;
			pid_t child;

			prepare();
			child = fork();
			if (!child) {
				plan.at = at;
				plan.how = KILL;
				scenarios[i](NULL);
				_exit(0);
			}
			assert_int_equal(waitpid(child, &status, 0), child);
			assert_true(status == SIGKILL || !status);
			if (scenarios[i] == evict)
				for (int k = 0; k < KEYS; k++)
					kept[k] = false;
			check_whole(true);
			forget();
			if (!status)
				break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(each_call_fails_once, clear_folder),
		cmocka_unit_test_teardown(each_call_fails_for_ever, clear_folder),
		cmocka_unit_test_teardown(interrupted_calls_are_made_again, clear_folder),
		cmocka_unit_test_teardown(short_reads_and_writes, clear_folder),
		cmocka_unit_test_teardown(killed_at_each_call, clear_folder),
	};

	kept = mmap(NULL, KEYS + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	written = kept + KEYS;
	return kept == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, make_folder, remove_folder);
}
