/* Bytes in a file without a name: they are read back unchanged, and damage is noticed. */
#include "base/base.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BIG = 100003 };

enum { FILES = 64 };

static bool has_no_name(int fd)
{
	char link[64], name[4096];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof name - 1);
	return n > 9 && !memcmp(name + n - strlen("(deleted)"), "(deleted)", 9);
}

/* Descriptors that were open before the spill, which are not its file. */
static bool was_open[FILES];

static int note_open_files(void **state)
{
	(void)state;
	for (int fd = 0; fd < FILES; fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;
	return 0;
}

static int find_file(void)
{
	for (int fd = 3; fd < FILES; fd++)
		if (!was_open[fd] && has_no_name(fd))
			return fd;
	return -1;
}

static void what_was_put_away_is_the_same(void **state)
{
	char small[3] = "abc", *big = malloc(BIG);
	struct ht_str first[] = { { small, sizeof small }, { small, 0 }, { big, BIG } };
	struct ht_str second[] = { { small + 1, 2 } };
	struct ht_spill *s;

	(void)state;
	memset(big, 'x', BIG);
	assert_int_equal(ht_spill_open("-", NULL, &s), HT_OK);
	assert_int_equal(ht_spill_pieces(s, first, HT_COUNT(first), NULL), HT_OK);
	assert_int_equal(ht_spill_pieces(s, second, HT_COUNT(second), NULL), HT_OK);
	assert_ptr_not_equal(first[2].p, big);
	assert_memory_equal(first[0].p, small, sizeof small);
	assert_memory_equal(first[2].p, big, BIG);
	assert_memory_equal(second[0].p, "bc", 2);
	for (size_t i = 0; i < HT_COUNT(first); i++)
		assert_int_equal((uintptr_t)first[i].p % 64, 0);
	assert_int_equal(ht_spill_check(s, NULL), HT_OK);
	ht_spill_free(s);
	free(big);
}

static void damage_is_seen(void **state)
{
	char bytes[] = "abcdefgh";
	struct ht_str piece[] = { { bytes, sizeof bytes } };
	struct ht_spill *s;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_spill_open("-", &d, &s), HT_OK);
	assert_int_equal(ht_spill_pieces(s, piece, 1, &d), HT_OK);
	assert_int_equal(pwrite(find_file(), "X", 1, 3), 1);
	assert_int_equal(ht_spill_check(s, &d), HT_E_ENVIRONMENT);
	assert_int_equal(d.errors, 1);
	ht_spill_free(s);
	ht_diags_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_away_is_the_same),
		cmocka_unit_test(damage_is_seen),
	};
	return cmocka_run_group_tests(tests, note_open_files, NULL);
}
