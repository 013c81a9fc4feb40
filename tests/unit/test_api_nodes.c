/* ht_comparison_nodes_sample(): arrays that do not fit are refused, and nobody reads beyond them. */
#include <halftone/compare.h>
#include <halftone/halftone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const char text[] = "hir 1\n"
			   "entry \"\" {\n"
			   "  input \"x\" = %x\n"
			   "  output \"y\" = %y\n"
			   "}\n"
			   "%x = Placeholder() {dtype=f16, shape=shape[4,4096]}\n"
			   "%y = Tanh(%x) {T=f16}\n";

static void load(struct ht_model **m, struct ht_diags *d)
{
	char path[] = "/tmp/nodes-XXXXXX.hir";
	int fd = mkstemps(path, 4);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	assert_int_equal(ht_model_load(path, NULL, d, m), HT_OK);
	unlink(path);
}

/* 16 elements in front of memory that must not be read. */
static void test_small_array(void **state)
{
	static const int64_t dim[] = { 4, 4 };
	struct ht_comparison_options opt = HT_COMPARISON_OPTIONS_INIT;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ht_array in = { two + page - 32, 32, HT_F16, 2, dim };
	struct ht_diags *d = ht_diags_new();
	struct ht_comparison *c;
	struct ht_model *m;

	(void)state;
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	load(&m, d);
	assert_int_equal(ht_comparison_new(m, &opt, d, &c), HT_OK);
	assert_int_equal(ht_comparison_add(c, "as it is", NULL, d), HT_OK);
	assert_int_equal(ht_comparison_nodes(c, "as it is", NULL, 0, d), HT_OK);
	assert_int_equal(ht_comparison_nodes_sample(c, "a sample", &in, 1, d), HT_E_INPUT);
	ht_comparison_free(c);
	ht_model_free(m);
	ht_diags_free(d);
	munmap(two, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_small_array) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
