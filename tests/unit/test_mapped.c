/* Files that become shorter while they are mapped. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 5 };

static size_t page;

/* A mapped file of PAGES pages of ones that has no other name, and a descriptor to shorten it. */
static struct ht_file *ones(int *fd)
{
	char path[] = "/tmp/halftone-mapped-XXXXXX";
	struct ht_file *f;
	char *bytes;

	page = (size_t)sysconf(_SC_PAGESIZE);
	bytes = malloc(PAGES * page);
	assert_non_null(bytes);
	memset(bytes, 1, PAGES * page);
	*fd = mkstemp(path);
	assert_true(*fd >= 0);
	assert_int_equal(write(*fd, bytes, PAGES * page), PAGES * page);
	assert_int_equal(ht_file_map(path, SIZE_MAX, NULL, &f), HT_OK);
	assert_int_equal(unlink(path), 0);
	free(bytes);
	return f;
}

static int32_t sum_of(const struct ht_file *f)
{
	const volatile uint8_t *p = f->p;
	int32_t sum = 0;

	for (size_t i = 0; i < PAGES; i++)
		sum += p[i * page];
	return sum;
}

static void one_map(void)
{
	struct ht_diags diags, *d = &diags;
	unsigned before = ht_mapped_lost();
	int fd, other_fd;
	struct ht_file *f = ones(&fd), *other = ones(&other_fd);

	ht_diags_init(d);
	assert_int_equal(sum_of(f), PAGES);
	assert_int_equal(ht_mapped_check(f->p, d), HT_OK);
	assert_int_equal(ftruncate(fd, (off_t)(2 * page)), 0);
	assert_int_equal(sum_of(f), 2);
	assert_int_equal(ht_mapped_lost(), before + 1);
	assert_int_equal(ht_mapped_check(f->p, d), HT_E_INPUT);
	assert_int_equal(ht_mapped_check(f->p + PAGES * page - 1, d), HT_E_INPUT);
	assert_int_equal(ht_mapped_check(other->p, d), HT_OK);
	assert_int_equal(ht_mapped_check_since(before, d), HT_E_INPUT);
	assert_int_equal(ht_mapped_check_since(before + 1, d), HT_OK);
	assert_ptr_equal(d->first->next->next, d->last);
	assert_string_equal(d->first->where.path, f->path);
	assert_int_equal(sum_of(other), PAGES);
	ht_file_unref(f);
	assert_int_equal(ht_mapped_check_since(before, NULL), HT_OK);
	ht_file_unref(other);
	close(fd);
	close(other_fd);
	ht_diags_release(d);
}

static void *sum_in_thread(void *file)
{
	return (void *)(intptr_t)sum_of(file);
}

/* More maps than one chunk of the table has, which many threads shorten and read. */
static void many_maps_in_many_threads(void)
{
	enum { MAPS = 200 };
	unsigned before = ht_mapped_lost();
	struct ht_file *f[MAPS];
	pthread_t thread[MAPS];
	int fd[MAPS];

	for (int i = 0; i < MAPS; i++) {
		f[i] = ones(&fd[i]);
		if (i % 2)
			assert_int_equal(ftruncate(fd[i], (off_t)page), 0);
	}
	for (int i = 0; i < MAPS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, sum_in_thread, f[i]), 0);
	for (int i = 0; i < MAPS; i++) {
		void *sum;

		assert_int_equal(pthread_join(thread[i], &sum), 0);
		assert_int_equal((intptr_t)sum, i % 2 ? 1 : PAGES);
		assert_int_equal(ht_mapped_check(f[i]->p, NULL), i % 2 ? HT_E_INPUT : HT_OK);
		ht_file_unref(f[i]);
		close(fd[i]);
	}
	assert_int_equal(ht_mapped_lost(), before + MAPS / 2);
}

/* cmocka handles SIGBUS anew in each test, and the guard is installed once. */
static void lost_pages_are_zeros_and_said(void **state)
{
	(void)state;
	ht_mapped_guard();
	one_map();
	many_maps_in_many_threads();
}

static void leave(int signal)
{
	_exit(signal == SIGBUS ? 7 : 8);
}

/* The exit status of a child that reads an unregistered map behind the file's end. */
static int status_of_foreign_fault(void (*handler)(int))
{
	int status, fd;
	struct ht_file *f;
	pid_t child;

	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		const volatile uint8_t *p;

		signal(SIGBUS, handler);
		ht_mapped_guard();
		f = ones(&fd);
		p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
		if (ftruncate(fd, 0) || p == MAP_FAILED)
			_exit(1);
		_exit(p[0] + sum_of(f) ? 2 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void other_faults_go_where_they_went(void **state)
{
	int status = status_of_foreign_fault(leave);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	status = status_of_foreign_fault(SIG_DFL);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_faults_go_where_they_went),
		cmocka_unit_test(lost_pages_are_zeros_and_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
