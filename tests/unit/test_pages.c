/* Large pages: constants and variables in reserved pages, with a simulation of the system and with
 * the system itself; missing pages; pages that the system provides by itself. */
#include <halftone/train.h>

#include "base/base.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* A product, whose constant is packed, a lookup, whose constant is not, and a variable. */
static const char model_text[] =
	"hir 1\n"
	"entry \"\" {\n  input \"x\" = %x\n  input \"i\" = %i\n  output \"y\" = %y\n  output \"n\" = %n\n}\n"
	"%x = Placeholder() {dtype=f32, shape=shape[2,2]}\n"
	"%i = Placeholder() {dtype=i32, shape=shape[2]}\n"
	"%w = Const() {dtype=f32, value=tensor f32[2,3] {1.0, 2.0, 3.0, -4.0, 5.0, -6.0}}\n"
	"%t = Const() {dtype=f32, value=tensor f32[3,3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}}\n"
	"%p = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%axis = Const() {dtype=i32, value=tensor i32[] {0}}\n"
	"%g = GatherV2(%t, %i, %axis) {Taxis=i32, Tindices=i32, Tparams=f32, batch_dims=0}\n"
	"%y = AddV2(%p, %g) {T=f32}\n"
	"%v = VarHandleOp() {dtype=f32, shape=shape[2], shared_name=\"v\", _value=tensor f32[2] {10.0,20.0}}\n"
	"%start = Const() {dtype=f32, value=tensor f32[2] {10.0, 20.0}}\n"
	"%init = AssignVariableOp(%v, %start) {dtype=f32}\n"
	"%more = Const() {dtype=f32, value=tensor f32[2] {1.0, 2.0}}\n"
	"%update = AssignAddVariableOp(%v, %more) {dtype=f32}\n"
	"%n = ReadVariableOp(%v, ^update) {dtype=f32}\n";

static struct ht_diags *diags;
static struct ht_model *model;

static int load_model(void **state)
{
	char path[] = "/tmp/halftone-pages-XXXXXX.hir";
	FILE *f = fdopen(mkstemps(path, 4), "w");

	(void)state;
	assert_true(f && fputs(model_text, f) >= 0 && !fclose(f));
	diags = ht_diags_new();
	assert_int_equal(ht_model_load(path, NULL, diags, &model), HT_OK);
	unlink(path);
	return 0;
}

static int free_model(void **state)
{
	(void)state;
	ht_model_free(model);
	ht_diags_free(diags);
	return 0;
}

/* ---- a simulation of the system ---- */

static struct {
	int log_most; /* pages above this size are refused */
	int asked, given;
	char *p;
	size_t n;
	int log_page;
} system_;

static void *fake_reserved(size_t n, int log_page)
{
	void *p;

	system_.asked++;
	assert_int_equal(n % ((size_t)1 << log_page), 0);
	if (log_page > system_.log_most) {
		errno = ENOMEM;
		return NULL;
	}
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		0);
	assert_ptr_not_equal(p, MAP_FAILED);
	system_.given++;
	system_.p = p;
	system_.n = n;
	system_.log_page = log_page;
	return p;
}

static void pretend(int log_most)
{
	memset(&system_, 0, sizeof system_);
	system_.log_most = log_most;
	ht_map_reserved = fake_reserved;
}

/* ---- programs ---- */

static struct ht_program *compile(void)
{
	struct ht_program *p;

	assert_int_equal(ht_compile(model, NULL, diags, &p), HT_OK);
	return p;
}

/* Two runs: the second continues with the variable of the first. */
static void runs(const struct ht_program *p)
{
	const int64_t two_two[] = { 2, 2 }, two_three[] = { 2, 3 };
	float x[4] = { 1, 2, 3, 4 }, y[6], n[2];
	const float want[6] = { 0, 20, 0, -12, 28, -12 };
	int32_t i[2] = { 2, 0 };
	struct ht_array in[2] = { { x, sizeof x, HT_F32, 2, two_two },
		{ i, sizeof i, HT_I32, 1, two_two } };
	struct ht_array out[2] = { { y, sizeof y, HT_F32, 2, two_three },
		{ n, sizeof n, HT_F32, 1, two_two } };
	struct ht_context *c;

	assert_int_equal(ht_context_new(p, NULL, diags, &c), HT_OK);
	for (int k = 1; k <= 2; k++) {
		assert_int_equal(ht_context_run(c, in, 2, out, 2, diags), HT_OK);
		assert_memory_equal(y, want, sizeof y);
		assert_true(n[0] == 10 + (float)k && n[1] == 20 + 2 * (float)k);
	}
	ht_context_reset(c);
	assert_int_equal(ht_context_run(c, in, 2, out, 2, diags), HT_OK);
	assert_true(n[0] == 11 && n[1] == 22);
	ht_context_free(c);
}

static size_t warnings(void)
{
	struct ht_message m;
	size_t n = 0;

	for (size_t i = 0; i < ht_diags_count(diags); i++)
		if (ht_diags_get(diags, i, &m) == HT_OK && m.severity == HT_WARNING)
			n++;
	return n;
}

/* Constants are in one area, which the runs read; the variables of each context are in another
 * one. */
static void take_pages(void **state)
{
	static const struct {
		enum ht_pages pages;
		int log_most, log_page, warnings;
	} cases[] = { { HT_PAGES_1G, 30, 30, 0 }, { HT_PAGES_1G_OR_LESS, 30, 30, 0 },
		{ HT_PAGES_1G_OR_LESS, 21, 21, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ht_program *p = compile();
		size_t before = warnings();

		pretend(cases[i].log_most);
		assert_int_equal(ht_program_use_pages(p, cases[i].pages, diags), HT_OK);
		assert_int_equal(system_.given, 1);
		assert_int_equal(system_.log_page, cases[i].log_page);
		assert_int_equal(warnings() - before, cases[i].warnings);
		assert_true(memcmp(system_.p, (char[64]){ 0 }, 64) != 0);
		runs(p);
		assert_int_equal(system_.given, 2);
		ht_program_free(p);
	}
}

/* Runs read the constants there: other bytes give other results. */
static void are_read(void **state)
{
	struct ht_program *p = compile();
	struct ht_value_info v;

	(void)state;
	pretend(30);
	assert_int_equal(ht_program_use_pages(p, HT_PAGES_1G, diags), HT_OK);
	assert_true(ht_program_variable(p, 0, &v));
	assert_true((char *)(uintptr_t)v.value >= system_.p &&
		    (char *)(uintptr_t)v.value < system_.p + system_.n);
	((float *)(uintptr_t)v.value)[0] = 9;
	{
		struct ht_context *c;

		assert_int_equal(ht_context_new(p, NULL, diags, &c), HT_OK);
		assert_true(*(float *)ht_context_variable(c, 0) == 9);
		assert_ptr_equal(ht_context_variable(c, 0), system_.p);
		ht_context_free(c);
	}
	ht_program_free(p);
}

static void refused(void **state)
{
	struct ht_program *p = compile();
	size_t before;
	struct ht_message m;

	(void)state;
	pretend(0);
	assert_int_equal(ht_program_use_pages(p, (enum ht_pages)7, diags), HT_E_USAGE);
	assert_int_equal(ht_program_use_pages(p, HT_PAGES_1G, diags), HT_E_ENVIRONMENT);
	assert_int_equal(ht_diags_get(diags, ht_diags_count(diags) - 1, &m), HT_OK);
	assert_non_null(strstr(m.text, "1 pages of 1 GB"));
	runs(p);
	before = warnings();
	assert_int_equal(ht_program_use_pages(p, HT_PAGES_1G_OR_LESS, diags), HT_OK);
	assert_int_equal(warnings() - before, 1);
	runs(p);
	assert_int_equal(ht_program_use_pages(p, HT_PAGES_1G, diags), HT_E_USAGE);
	ht_program_free(p);
}

static void sessions(void **state)
{
	static const enum ht_pages pages[] = { HT_PAGES_1G, HT_PAGES_1G_OR_LESS };
	struct ht_session_options opt = HT_SESSION_OPTIONS_INIT;
	const struct ht_program *p;
	struct ht_value_info v;
	struct ht_session *s;

	(void)state;
	for (int fails = 0; fails < 2; fails++)
		for (size_t i = 0; i < 2; i++) {
			enum ht_status want =
				fails && pages[i] == HT_PAGES_1G ? HT_E_ENVIRONMENT : HT_OK;

			pretend(fails ? 0 : 30);
			opt.pages = pages[i];
			assert_int_equal(ht_session_new(&opt, diags, &s), HT_OK);
			assert_int_equal(ht_session_add(s, "e", model, NULL, diags, &p), want);
			assert_int_equal(system_.given, !fails);
			if (want == HT_OK) {
				assert_int_equal(
					ht_session_initialise(s, model, "init", NULL, diags),
					HT_OK);
				assert_true(ht_session_variable(s, 0, &v));
				assert_true(((const float *)v.value)[1] == 20);
				assert_true(fails || (const char *)v.value == system_.p);
			}
			ht_session_free(s);
		}
}

/* ---- the system ---- */

/* A number of kilobytes in /proc/self/smaps for the map that contains `p`; -1: there is none. */
static long of_map(const void *p, const char *name)
{
	char line[512];
	unsigned long begin, end;
	bool inside = false;
	long found = -1;
	FILE *f = fopen("/proc/self/smaps", "r");

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			inside = begin <= (uintptr_t)p && (uintptr_t)p < end;
		else if (inside && !strncmp(line, name, strlen(name)))
			found = strtol(line + strlen(name), NULL, 10);
	}
	if (f)
		fclose(f);
	return found;
}

static bool gives_of_itself(void)
{
	char line[128] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	bool given = f && fgets(line, sizeof line, f) && !strstr(line, "[never]");

	if (f)
		fclose(f);
	return given;
}

static void large_memory_has_huge_pages(void **state)
{
	enum { BYTES = 16 << 20 };
	struct ht_blob *b;
	long kb;

	(void)state;
	if (!gives_of_itself()) {
		print_message("skipped: the system gives no huge pages of itself\n");
		skip();
	}
	b = ht_blob_new(BYTES);
	assert_non_null(b);
	memset((void *)(uintptr_t)b->p, 1, BYTES);
	kb = of_map(b->p, "AnonHugePages:");
	ht_blob_unref(b);
	if (kb == 0) {
		print_message("skipped: the system has no huge page to give now\n");
		skip();
	}
	assert_true(kb > 0);
}

static void pages_that_are_set_apart(void **state)
{
	struct ht_page_pool pool = { .pages = HT_PAGES_1G_OR_LESS };
	char *p = ht_page_pool_take(&pool, 5 << 20);

	(void)state;
	assert_non_null(p);
	if (!pool.least) {
		ht_page_pool_free(&pool);
		print_message("skipped: no pages are set apart (/sys/kernel/mm/hugepages)\n");
		skip();
	}
	memset(p, 1, 5 << 20);
	assert_int_equal(of_map(p, "KernelPageSize:"), pool.least >> 10);
	ht_page_pool_free(&pool);
}

int main(void)
{
	void *(*system_map)(size_t, int) = ht_map_reserved;
	const struct CMUnitTest live[] = {
		cmocka_unit_test(large_memory_has_huge_pages),
		cmocka_unit_test(pages_that_are_set_apart),
	};
	const struct CMUnitTest faked[] = {
		cmocka_unit_test(take_pages),
		cmocka_unit_test(are_read),
		cmocka_unit_test(refused),
		cmocka_unit_test(sessions),
	};
	int failed = cmocka_run_group_tests(faked, load_model, free_model);

	ht_map_reserved = system_map;
	return failed + cmocka_run_group_tests(live, NULL, NULL);
}
