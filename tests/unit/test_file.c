/* Mapped files, blobs of their bytes, outputs that appear whole or not at all. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/halftone-file-XXXXXX";
static char path[64], other[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/a", folder);
	snprintf(other, sizeof other, "%s/b", folder);
	return 0;
}

static int clear_folder(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder); /* fails if a test left a file behind */
}

static void put(const char *name, const void *p, size_t n)
{
	FILE *f = fopen(name, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void assert_content(const char *name, const char *text)
{
	struct ht_file *f;

	assert_int_equal(ht_file_map(name, 1000, NULL, &f), HT_OK);
	assert_int_equal(f->n, strlen(text));
	assert_memory_equal(f->p, text, f->n);
	ht_file_unref(f);
}

static int files_in_folder(void)
{
	DIR *d = opendir(folder);
	int n = -2; /* "." and ".." */

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void files_map(void **state)
{
	struct ht_file *f;

	(void)state;
	put(path, "abc", 3);
	assert_content(path, "abc");
	put(path, "", 0);
	assert_content(path, "");
	put(path, "abc", 3);
	assert_int_equal(ht_file_map(path, 4, NULL, &f), HT_OK);
	assert_string_equal(f->path, path);
	ht_file_unref(ht_file_ref(f));
	assert_memory_equal(f->p, "abc", 3);
	ht_file_unref(f);
}

static void refusals_are_located(void **state)
{
	struct ht_file *f = NULL;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_file_map(path, 100, &d, &f), HT_E_ENVIRONMENT);
	assert_null(f);
	assert_string_equal(d.last->where.path, path);
	assert_non_null(strstr(d.last->text.p, strerror(ENOENT)));
	assert_int_equal(ht_file_map(folder, 100, &d, &f), HT_E_ENVIRONMENT);
	assert_non_null(strstr(d.last->text.p, strerror(EISDIR)));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(ht_file_map(path, 100, &d, &f), HT_E_ENVIRONMENT);
	unlink(path);
	put(path, "abc", 3);
	assert_int_equal(ht_file_map(path, 3, &d, &f), HT_E_LIMIT);
	assert_int_equal(d.last->severity, HT_ERROR);
	ht_diags_release(&d);
}

static void failed_allocations_are_a_status(void **state)
{
	struct ht_file *f;
	struct ht_output *o;

	(void)state;
	put(path, "abc", 3);
	for (long i = 0; i < 2; i++) {
		ht_fail_alloc_after(i);
		assert_int_equal(ht_file_map(path, 100, NULL, &f), HT_E_ENVIRONMENT);
		ht_fail_alloc_after(i);
		assert_null(ht_blob_new(10));
		ht_fail_alloc_after(i);
		assert_null(ht_blob_new(1 << 20));
	}
	ht_fail_alloc_after(0);
	assert_int_equal(ht_output_open(other, NULL, &o), HT_E_ENVIRONMENT);
	assert_null(o);
	ht_fail_alloc_after(-1);
	assert_null(ht_blob_new(SIZE_MAX));
	assert_int_equal(files_in_folder(), 1);
}

/* In a model of more files than there may be descriptors, some are watched by their names. */
static void watched_files_leave_descriptors(void **state)
{
	enum { FILES = 100, DESCRIPTORS = 64 };
	struct ht_file *f[FILES];
	struct rlimit was, low;
	int kept = 0;

	(void)state;
	put(path, "abc", 3);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = (struct rlimit){ DESCRIPTORS, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (int i = 0; i < FILES; i++)
		assert_int_equal(ht_file_map_watched(path, 100, NULL, &f[i]), HT_OK);
	setrlimit(RLIMIT_NOFILE, &was);
	put(path, "abcd", 4);
	for (int i = 0; i < FILES; i++) {
		kept += f[i]->fd >= 0;
		assert_true(ht_file_changed(f[i]));
		ht_file_unref(f[i]);
	}
	assert_in_range(kept, 1, DESCRIPTORS / 2);
}

static void blobs_are_zeroed_and_aligned(void **state)
{
	static const size_t sizes[] = { 0, 1, 63, 64, 65, 100000, (1 << 17) - 1, 1 << 17, 3000001,
		(5 << 20) + 1 };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(sizes); i++) {
		struct ht_blob *b = ht_blob_new(sizes[i]);
		unsigned char *p;

		assert_non_null(b);
		p = (unsigned char *)(uintptr_t)b->p;
		assert_int_equal((uintptr_t)p % 64, 0);
		assert_int_equal(b->n, sizes[i]);
		for (size_t j = 0; j < b->n; j++)
			assert_int_equal(p[j], 0);
		memset(p, 1, b->n);
		ht_blob_unref(ht_blob_ref(b));
		ht_blob_unref(b);
	}
	ht_blob_unref(NULL);
}

static void parts_keep_the_whole(void **state)
{
	struct ht_blob *whole = ht_blob_new(3 << 20), *a, *b;

	(void)state;
	assert_non_null(whole);
	a = ht_blob_part(whole, 0, 1000);
	b = ht_blob_part(whole, (3 << 20) - 100, 100);
	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_equal(b->p, (const char *)whole->p + (3 << 20) - 100);
	ht_blob_unref(whole);
	memset((char *)(uintptr_t)b->p, 7, b->n);
	ht_blob_unref(a);
	assert_int_equal(*((const char *)b->p + 99), 7);
	ht_blob_unref(b);
}

static long resident_pages(void)
{
	long size, resident;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
	fclose(f);
	return resident;
}

/* A blob keeps its file; dropping the last reference drops the pages, which are loaded again when
 * they are read. */
static void blobs_of_files_drop_their_pages(void **state)
{
	enum { SIZE = 8 << 20 };
	char *bytes = malloc(SIZE);
	struct ht_file *f;
	struct ht_blob *b, *c;
	size_t sum = 0;
	long before, after;

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 7, SIZE);
	put(path, bytes, SIZE);
	free(bytes);
	assert_int_equal(ht_file_map(path, SIZE + 1, NULL, &f), HT_OK);
	b = ht_blob_of_file(f, 1000, SIZE - 1000);
	c = ht_blob_of_file(f, 0, 1000);
	ht_file_unref(f);
	for (size_t i = 0; i < b->n; i++)
		sum += ((const unsigned char *)b->p)[i];
	assert_int_equal(sum, 7 * (size_t)(SIZE - 1000));
	before = resident_pages();
	ht_blob_unref(b);
	after = resident_pages();
	assert_true(before - after > (SIZE >> 12) / 2);
	assert_int_equal(((const unsigned char *)c->p)[999], 7);
	ht_blob_unref(c);
}

static void outputs_appear_when_committed(void **state)
{
	struct ht_output *o;
	static char big[200000];

	(void)state;
	assert_int_equal(ht_output_open(path, NULL, &o), HT_OK);
	assert_int_equal(ht_output_write(o, "one ", 4), HT_OK);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(ht_output_write(o, "two", 3), HT_OK);
	assert_int_equal(ht_output_commit(o), HT_OK);
	assert_content(path, "one two");
	/* The old file stays until the commit, and if there is no commit. */
	assert_int_equal(ht_output_open(path, NULL, &o), HT_OK);
	assert_int_equal(ht_output_write(o, big, sizeof big), HT_OK);
	assert_content(path, "one two");
	ht_output_abort(o);
	assert_content(path, "one two");
	ht_output_abort(NULL);
	assert_int_equal(files_in_folder(), 1);
}

static void outputs_of_any_size(void **state)
{
	static unsigned char big[300000];
	static const size_t pieces[] = { 1, 65535, 2, 65536, 100000, 3 };
	struct ht_output *o;
	struct ht_file *f;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (unsigned char)(i * 7 >> 3);
	assert_int_equal(ht_output_open(path, NULL, &o), HT_OK);
	for (size_t i = 0; i < HT_COUNT(pieces); i++) {
		assert_int_equal(ht_output_write(o, big + n, pieces[i]), HT_OK);
		n += pieces[i];
	}
	assert_int_equal(ht_output_commit(o), HT_OK);
	assert_int_equal(ht_file_map(path, sizeof big, NULL, &f), HT_OK);
	assert_int_equal(f->n, n);
	assert_memory_equal(f->p, big, n);
	ht_file_unref(f);
}

static void outputs_keep_modes_and_links(void **state)
{
	struct ht_output *o;
	struct stat s;

	(void)state;
	put(path, "old", 3);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(ht_output_open(other, NULL, &o), HT_OK);
	assert_int_equal(ht_output_write(o, "new", 3), HT_OK);
	assert_int_equal(ht_output_commit(o), HT_OK);
	assert_content(path, "new");
	assert_int_equal(lstat(other, &s), 0);
	assert_true(S_ISLNK(s.st_mode));
	assert_int_equal(stat(path, &s), 0);
	assert_int_equal(s.st_mode & 0777, 0640);
	unlink(other);
	/* A new file has the permissions that the umask leaves. */
	mode_t mask = umask(027);
	assert_int_equal(ht_output_open(other, NULL, &o), HT_OK);
	assert_int_equal(ht_output_commit(o), HT_OK);
	umask(mask);
	assert_int_equal(stat(other, &s), 0);
	assert_int_equal(s.st_mode & 0777, 0640);
	/* A device is written to, not replaced. */
	assert_int_equal(ht_output_open("/dev/null", NULL, &o), HT_OK);
	assert_int_equal(ht_output_write(o, "x", 1), HT_OK);
	assert_int_equal(ht_output_commit(o), HT_OK);
	assert_int_equal(stat("/dev/null", &s), 0);
	assert_true(S_ISCHR(s.st_mode));
}

/* An equal file only gets new times; any other file is left to be replaced. */
static void outputs_that_are_there(void **state)
{
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct stat s;

	(void)state;
	assert_false(ht_output_is_there(path, HT_STR("abc")));
	put(path, "abc", 3);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_false(ht_output_is_there(path, HT_STR("abd")));
	assert_false(ht_output_is_there(path, HT_STR("ab")));
	assert_false(ht_output_is_there(path, HT_STR("abcd")));
	assert_false(ht_output_is_there(folder, HT_STR("abc")));
	assert_false(ht_output_is_there("-", HT_STR("")));
	assert_int_equal(stat(path, &s), 0);
	assert_int_equal(s.st_mtime, 1);
	assert_true(ht_output_is_there(path, HT_STR("abc")));
	assert_int_equal(stat(path, &s), 0);
	assert_true(s.st_mtime > 1);
	assert_content(path, "abc");
}

static void outputs_that_cannot_be(void **state)
{
	struct ht_output *o;
	struct ht_diags d;
	char nowhere[80];

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_output_open(folder, &d, &o), HT_E_ENVIRONMENT);
	assert_null(o);
	snprintf(nowhere, sizeof nowhere, "%s/no/file", folder);
	assert_int_equal(ht_output_open(nowhere, &d, &o), HT_E_ENVIRONMENT);
	assert_string_equal(d.last->where.path, nowhere);
	assert_non_null(strstr(d.last->text.p, strerror(ENOENT)));
	/* A full disk: write and commit both fail, with one diagnostic. */
	assert_int_equal(d.errors, 2);
	assert_int_equal(ht_output_open("/dev/full", &d, &o), HT_OK);
	static char big[100000];
	assert_int_equal(ht_output_write(o, big, sizeof big), HT_E_ENVIRONMENT);
	assert_int_equal(ht_output_write(o, big, sizeof big), HT_E_ENVIRONMENT);
	assert_int_equal(ht_output_commit(o), HT_E_ENVIRONMENT);
	assert_int_equal(d.errors, 3);
	assert_non_null(strstr(d.last->text.p, strerror(ENOSPC)));
	ht_diags_release(&d);
}

/* A file size limit simulates a full disk on a regular file: nothing is left behind. */
static void failed_writes_leave_nothing(void **state)
{
	struct rlimit was, low;
	struct ht_output *o;
	static char big[100000];

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	low = was;
	low.rlim_cur = 50000;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(ht_output_open(path, NULL, &o), HT_OK);
	enum ht_status wrote = ht_output_write(o, big, sizeof big);
	enum ht_status committed = ht_output_commit(o);
	setrlimit(RLIMIT_FSIZE, &was);
	assert_int_equal(wrote, HT_E_ENVIRONMENT);
	assert_int_equal(committed, HT_E_ENVIRONMENT);
	assert_int_equal(files_in_folder(), 0);
}

/* The child opens two outputs, reports that, and waits to be ended. */
static void wait_for_signal(int ready)
{
	struct ht_output *o, *p;

	ht_output_install_signals();
	if (ht_output_open(path, NULL, &o) || ht_output_open(other, NULL, &p) ||
		ht_output_write(o, "x", 1) || write(ready, "r", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void end_by_signal(int signal, bool ignored)
{
	int pipes[2], status;
	char byte;
	pid_t child;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		if (ignored)
			sigaction(signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
		wait_for_signal(pipes[1]);
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	close(pipes[0]);
	assert_int_equal(files_in_folder(), 2);
	kill(child, signal);
	if (ignored) {
		usleep(20000);
		assert_int_equal(waitpid(child, &status, WNOHANG), 0);
		assert_int_equal(files_in_folder(), 2);
		kill(child, signal = SIGTERM);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), signal);
	assert_int_equal(files_in_folder(), 0);
}

static void signals_remove_temporary_files(void **state)
{
	(void)state;
	end_by_signal(SIGINT, false);
	end_by_signal(SIGTERM, false);
	end_by_signal(SIGHUP, false);
	end_by_signal(SIGHUP, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(files_map, clear_folder),
		cmocka_unit_test_teardown(refusals_are_located, clear_folder),
		cmocka_unit_test_teardown(failed_allocations_are_a_status, clear_folder),
		cmocka_unit_test_teardown(watched_files_leave_descriptors, clear_folder),
		cmocka_unit_test(blobs_are_zeroed_and_aligned),
		cmocka_unit_test(parts_keep_the_whole),
		cmocka_unit_test_teardown(blobs_of_files_drop_their_pages, clear_folder),
		cmocka_unit_test_teardown(outputs_appear_when_committed, clear_folder),
		cmocka_unit_test_teardown(outputs_of_any_size, clear_folder),
		cmocka_unit_test_teardown(outputs_keep_modes_and_links, clear_folder),
		cmocka_unit_test_teardown(outputs_that_are_there, clear_folder),
		cmocka_unit_test_teardown(outputs_that_cannot_be, clear_folder),
		cmocka_unit_test_teardown(failed_writes_leave_nothing, clear_folder),
		cmocka_unit_test_teardown(signals_remove_temporary_files, clear_folder),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
