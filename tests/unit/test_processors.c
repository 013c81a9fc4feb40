/* The processor time that control groups grant, in folders that imitate the system's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "runtime/pool.h"

#include <cmocka.h>

static char folder[] = "/tmp/halftone-processors-XXXXXX", own[64];

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void limit(const char *group, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s%s/cpu.max", folder, group);
	if (text)
		write_file(path, text);
	else
		remove(path);
}

static void test_quota(void **state)
{
	(void)state;
	write_file(own, "12:cpu:/elsewhere\n0::/a/b\n");
	assert_true(ht_quota_grants(own, folder, 64)); /* there are no limits */
	limit("/a/b", "max 100000\n");
	assert_true(ht_quota_grants(own, folder, 64));
	limit("/a/b", "200000 100000\n");
	assert_true(ht_quota_grants(own, folder, 2));
	assert_false(ht_quota_grants(own, folder, 3));
	limit("/a", "150000 100000\n"); /* the group that contains it */
	assert_true(ht_quota_grants(own, folder, 1));
	assert_false(ht_quota_grants(own, folder, 2));
	limit("/a", NULL);
	limit("", "50000 100000\n");
	assert_false(ht_quota_grants(own, folder, 1));
	limit("", "nonsense\n");
	assert_true(ht_quota_grants(own, folder, 2));
}

static void test_root(void **state)
{
	(void)state;
	write_file(own, "0::/\n");
	limit("/a/b", "1 100000\n"); /* a limit of another group */
	limit("", "200000 100000\n");
	assert_true(ht_quota_grants(own, folder, 2));
	assert_false(ht_quota_grants(own, folder, 3));
	write_file(own, "4:cpu:/a/b\n"); /* version 1 only */
	assert_true(ht_quota_grants(own, folder, 3));
	assert_true(ht_quota_grants("/nowhere", folder, 3));
}

static int make(void **state)
{
	char path[64];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(own, sizeof own, "%s/own", folder);
	snprintf(path, sizeof path, "%s/a", folder);
	if (mkdir(path, 0700) != 0)
		return -1;
	snprintf(path, sizeof path, "%s/a/b", folder);
	return mkdir(path, 0700);
}

static int clean(void **state)
{
	static const char *const made[] = { "/a/b", "/a", "" };
	char path[64];

	(void)state;
	remove(own);
	for (int i = 0; i < 3; i++) {
		limit(made[i], NULL);
		snprintf(path, sizeof path, "%s%s", folder, made[i]);
		remove(path);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_root),
	};

	return cmocka_run_group_tests(tests, make, clean);
}
