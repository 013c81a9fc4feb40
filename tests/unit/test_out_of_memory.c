/* Out of memory: each public call returns a status, whichever allocation fails, and releases
 * everything that it made (sanitizers check this). */
#include "tests/unit/unit.h"

#include <halftone/halftone.h>
#include <halftone/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char SMALL[] =
	"hir 1\n"
	"entry \"\" {\n"
	"  input \"x\" = %x\n"
	"  output \"y\" = %y\n"
	"}\n"
	"%x = Placeholder() {dtype=f32, shape=shape[1,4]}\n"
	"%w = Const() {dtype=f32, value=tensor f32[4,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}}\n"
	"%m = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%perm = Const() {dtype=i32, value=tensor i32[2] {1, 0}}\n"
	"%v = Const() {dtype=f32, value=tensor f32[2,1] {1.0, 2.0}}\n"
	"%turned = Transpose(%v, %perm) {T=f32, Tperm=i32}\n"
	"%s = AddV2(%m, %turned) {T=f32}\n"
	"%y = Softmax(%s) {T=f32}\n";

static const char TABLE[] =
	"hir 1\n"
	"entry \"\" {\n"
	"  input \"x\" = %x\n"
	"  output \"y\" = %y\n"
	"}\n"
	"%x = Placeholder() {dtype=i64, shape=shape[4]}\n"
	"%keys = Const() {dtype=i64, value=tensor i64[3] {3, 5, 7}}\n"
	"%values = Const() {dtype=f32, value=tensor f32[3] {0.5, 1.5, 2.5}}\n"
	"%none = Const() {dtype=f32, value=tensor f32[] {-1.0}}\n"
	"%table = HashTableV2() {key_dtype=i64, value_dtype=f32, shared_name=\"table\"}\n"
	"%fill = LookupTableImportV2(%table, %keys, %values) {Tin=i64, Tout=f32}\n"
	"%y = LookupTableFindV2(%table, %x, %none) {Tin=i64, Tout=f32}\n";

/* A table that each run fills: its values are those of x. */
static const char OF_RUN[] =
	"hir 1\n"
	"entry \"\" {\n"
	"  input \"x\" = %x\n"
	"  output \"y\" = %y\n"
	"}\n"
	"%x = Placeholder() {dtype=i64, shape=shape[4]}\n"
	"%values = Const() {dtype=f32, value=tensor f32[4] {2.5, -1.0, 0.5, 2.5}}\n"
	"%none = Const() {dtype=f32, value=tensor f32[] {-2.0}}\n"
	"%table = AnonymousHashTable() {key_dtype=i64, value_dtype=f32}\n"
	"%fill = LookupTableImportV2(%table, %x, %values) {Tin=i64, Tout=f32}\n"
	"%y = LookupTableFindV2(%table, %x, %none, ^fill) {Tin=i64, Tout=f32}\n";

static char path[] = "/tmp/halftone-oom-XXXXXX.hir",
	    path_of_table[] = "/tmp/halftone-oom-XXXXXX.hir",
	    path_of_run[] = "/tmp/halftone-oom-XXXXXX.hir";

static int write_text(char *to, const char *text, size_t n)
{
	int fd = mkstemps(to, 4);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		return -1;
	return close(fd);
}

static int write_models(void **state)
{
	(void)state;
	return write_text(path, SMALL, sizeof SMALL - 1) ||
			       write_text(path_of_table, TABLE, sizeof TABLE - 1) ||
			       write_text(path_of_run, OF_RUN, sizeof OF_RUN - 1)
		       ? -1
		       : 0;
}

static int remove_models(void **state)
{
	(void)state;
	return unlink(path) || unlink(path_of_table) || unlink(path_of_run) ? -1 : 0;
}

/* Runs `call` with more and more memory until it has enough.  It must succeed when no allocation
 * fails, since other faults of the environment have the same status. */
static void starve(enum ht_status (*call)(struct ht_model *m), struct ht_model *m, long step)
{
	enum ht_status st = HT_E_ENVIRONMENT;
	long n;

	assert_int_equal(call(m), HT_OK);
	for (n = 0; st != HT_OK; n += step) {
		ht_fail_alloc_after(n);
		st = call(m);
		ht_fail_alloc_after(-1);
		if (st != HT_OK && st != HT_E_ENVIRONMENT)
			fail_msg("status %d with %ld allocations", (int)st, n);
	}
	assert_true(n > 1);
}

static enum ht_status load(struct ht_model *unused)
{
	struct ht_model *m;
	enum ht_status st = ht_model_load(path, NULL, NULL, &m);

	(void)unused;
	if (st != HT_OK)
		assert_null(m);
	ht_model_free(m);
	return st;
}

static enum ht_status explain(struct ht_model *m)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_policy *p;
	struct ht_report *r = NULL;
	struct ht_bytes b = { 0 };
	enum ht_status st = ht_policy_new("force_fp16", NULL, &p);

	opt.policy = p;
	if (st == HT_OK)
		st = ht_report_new(m, &opt, NULL, &r);
	if (st == HT_OK)
		st = ht_report_print(r, HT_FORMAT_JSON, NULL, NULL, &b);
	ht_bytes_free(&b);
	ht_report_free(r);
	ht_policy_free(p);
	return st;
}

static enum ht_status inspect(struct ht_model *m)
{
	struct ht_bytes b;
	enum ht_status st = ht_model_inspect(m, HT_FORMAT_TEXT, NULL, &b);

	ht_bytes_free(&b);
	return st;
}

static enum ht_status convert(struct ht_model *m)
{
	return ht_convert(m, NULL, "/dev/null", NULL);
}

static enum ht_status compile(struct ht_model *m)
{
	struct ht_program *p;
	struct ht_context *c = NULL;
	enum ht_status st = ht_compile(m, NULL, NULL, &p);

	if (st == HT_OK)
		st = ht_context_new(p, NULL, NULL, &c);
	ht_context_free(c);
	ht_program_free(p);
	return st;
}

static void every_call_survives(void **state)
{
	struct ht_model *m;

	(void)state;
	starve(load, NULL, 1);
	assert_int_equal(ht_model_load(path, NULL, NULL, &m), HT_OK);
	starve(explain, m, 1);
	starve(inspect, m, 1);
	starve(convert, m, 1);
	starve(compile, m, 3);
	ht_model_free(m);
}

static enum ht_status look_up(struct ht_context *c)
{
	static const int64_t x[4] = { 7, 4, 3, 7 }, dim[1] = { 4 };
	float y[4];
	const struct ht_array in = { .data = (void *)(uintptr_t)x,
		.dtype = HT_I64,
		.rank = 1,
		.dim = dim,
		.bytes = sizeof x },
			      out = { .data = y,
				      .dtype = HT_F32,
				      .rank = 1,
				      .dim = dim,
				      .bytes = sizeof y };
	enum ht_status st = ht_context_run(c, &in, 1, &out, 1, NULL);

	if (st == HT_OK) {
		assert_true(y[0] == 2.5f && y[1] == -1 && y[2] == 0.5f && y[3] == 2.5f);
	}
	return st;
}

/* A context has a table of its own; then two entries of a session share one. */
static enum ht_status use_table(struct ht_model *m)
{
	struct ht_program *p;
	struct ht_context *c = NULL;
	enum ht_status st = ht_compile(m, NULL, NULL, &p);

	if (st == HT_OK)
		st = ht_context_new(p, NULL, NULL, &c);
	if (st == HT_OK)
		st = look_up(c);
	ht_context_free(c);
	ht_program_free(p);
	return st;
}

static enum ht_status share_table(struct ht_model *m)
{
	struct ht_session *s;
	enum ht_status st = ht_session_new(NULL, NULL, &s);

	if (st == HT_OK)
		st = ht_session_add(s, "a", m, NULL, NULL, NULL);
	if (st == HT_OK)
		st = ht_session_add(s, "b", m, NULL, NULL, NULL);
	if (st == HT_OK)
		st = look_up(ht_session_context(s, "a"));
	if (st == HT_OK)
		st = look_up(ht_session_context(s, "b"));
	ht_session_free(s);
	return st;
}

static void tables_survive(void **state)
{
	const char *const model[] = { path_of_table, path_of_run };
	struct ht_model *m;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ht_model_load(model[i], NULL, NULL, &m), HT_OK);
		starve(use_table, m, 1);
		starve(share_table, m, 1);
		ht_model_free(m);
	}
}

/* If memory runs out while a constant is folded, the error names its node, once. */
static void folding_names_the_node(void **state)
{
	struct ht_message message;
	struct ht_program *p;
	struct ht_model *m;
	enum ht_status st = HT_E_ENVIRONMENT;
	size_t named = 0;

	(void)state;
	assert_int_equal(ht_model_load(path, NULL, NULL, &m), HT_OK);
	assert_int_equal(compile(m), HT_OK);
	for (long n = 0; st != HT_OK; n++) {
		struct ht_diags *d = ht_diags_new();
		size_t errors = 0;

		assert_int_equal(ht_model_set_batch(m, 0, d), HT_E_USAGE); /* room for messages */
		ht_fail_alloc_after(n);
		st = ht_compile(m, NULL, d, &p);
		ht_fail_alloc_after(-1);
		for (size_t i = 1; ht_diags_get(d, i, &message) == HT_OK; i++) {
			errors += message.severity == HT_ERROR;
			named += message.node && !strcmp(message.node, "turned") &&
				 strstr(message.text, "out of memory") != NULL;
		}
		assert_true(errors <= 1);
		ht_diags_free(d);
	}
	assert_true(named > 0);
	ht_program_free(p);
	ht_model_free(m);
}

static void diagnostics_survive(void **state)
{
	(void)state;
	for (long n = 0; n < 50; n++) {
		struct ht_diags *d;
		struct ht_model *m;
		ht_fail_alloc_after(n);
		d = ht_diags_new();
		assert_int_equal(ht_model_load("/nowhere.pb", NULL, d, &m), HT_E_ENVIRONMENT);
		ht_fail_alloc_after(-1);
		ht_diags_free(d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_survives),
		cmocka_unit_test(tables_survive),
		cmocka_unit_test(folding_names_the_node),
		cmocka_unit_test(diagnostics_survive),
	};

	return cmocka_run_group_tests(tests, write_models, remove_models);
}
