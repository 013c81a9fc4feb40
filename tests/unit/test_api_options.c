/* Options of programs that were built against older and newer headers. */
#include <halftone/cache.h>
#include <halftone/compare.h>
#include <halftone/halftone.h>
#include <halftone/records.h>
#include <halftone/search.h>
#include <halftone/train.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST_BYTES 256

static struct ht_diags *diags;
static struct ht_model *model;
static struct ht_program *program;

static struct ht_search *search;
static struct ht_records *records;
static struct ht_session *session;
static struct ht_train_phases *phases;

/* One record, an Example whose feature "a" is the integer 7. */
static const unsigned char record[] = { 0x0e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc5, 0xe5,
	0x69, 0x3f, 0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 0x01, 0x61, 0x12, 0x05, 0x1a, 0x03, 0x0a, 0x01,
	0x07, 0xfa, 0x9a, 0xa8, 0x04 };

/* For each public struct with struct_size, take_STRUCT() makes a call that reads it and frees the
 * result, fill_STRUCT() a call that fills it; NULL: there is no such call.  Paths do not exist, so
 * a call ends with HT_E_ENVIRONMENT once it has accepted the options. */

static enum ht_status take_ht_load_options(const void *opt)
{
	struct ht_model *m;

	return ht_model_load("/dev/null/model.pb", opt, diags, &m);
}

static enum ht_status take_ht_compile_options(const void *opt)
{
	struct ht_program *p;
	enum ht_status st = ht_compile(model, opt, diags, &p);

	ht_program_free(p);
	return st;
}

static enum ht_status take_ht_save_options(const void *opt)
{
	struct ht_artefact_writer *w;
	enum ht_status st = ht_artefact_writer_new(opt, diags, &w);

	ht_artefact_writer_free(w);
	return st;
}

static enum ht_status take_ht_aot_options(const void *opt)
{
	const struct ht_program *const list[] = { program };
	struct ht_bytes about;
	enum ht_status st =
		ht_aot_write(list, 1, opt, "/dev/null/deeper", HT_FORMAT_TEXT, diags, &about);

	ht_bytes_free(&about);
	return st;
}

static enum ht_status take_ht_artefact_options(const void *opt)
{
	struct ht_program *p;

	return ht_program_load("/dev/null/model.htx", opt, diags, &p);
}

static enum ht_status take_ht_context_options(const void *opt)
{
	struct ht_context *c;
	enum ht_status st = ht_context_new(program, opt, diags, &c);

	ht_context_free(c);
	return st;
}

static enum ht_status take_ht_cache_settings(const void *opt)
{
	struct ht_cache *c;
	enum ht_status st = ht_cache_open(opt, diags, &c);

	ht_cache_close(c, diags);
	return st;
}

static enum ht_status take_ht_session_options(const void *opt)
{
	struct ht_session *s;
	enum ht_status st = ht_session_new(opt, diags, &s);

	ht_session_free(s);
	return st;
}

static enum ht_status take_ht_comparison_options(const void *opt)
{
	struct ht_comparison *c;
	enum ht_status st = ht_comparison_new(model, opt, diags, &c);

	ht_comparison_free(c);
	return st;
}

static enum ht_status take_ht_search_options(const void *opt)
{
	struct ht_search *s;
	enum ht_status st = ht_search_new(model, opt, diags, &s);

	ht_search_free(s);
	return st;
}

static enum ht_status take_ht_train_phases_options(const void *opt)
{
	struct ht_train_phases *p;
	enum ht_status st = ht_train_phases_new(opt, diags, &p);

	ht_train_phases_free(p);
	return st;
}

static enum ht_status take_ht_phase_counters(const void *counters)
{
	return ht_train_phases_set_counters(phases, counters, diags);
}

/* The options have no steps. */
static enum ht_status take_ht_session_loop(const void *loop)
{
	_Alignas(max_align_t) unsigned char bytes[MOST_BYTES];
	float loss;
	struct ht_array out = { &loss, sizeof loss, HT_F32, 0, NULL };

	memcpy(bytes, loop, sizeof bytes);
	return ht_session_steps(session, (void *)bytes, NULL, 0, &out, 1, diags);
}

static enum ht_status fill_ht_program_info(void *out)
{
	ht_program_about(program, out);
	return HT_OK;
}

static enum ht_status fill_ht_phase_counters(void *out)
{
	ht_train_phases_counters(phases, out);
	return HT_OK;
}

static enum ht_status fill_ht_search_state(void *out)
{
	return ht_search_look(search, diags, out);
}

static enum ht_status fill_ht_feature(void *out)
{
	return ht_records_feature(records, 0, "a", diags, out);
}

static enum ht_status fill_ht_loss_scale(void *out)
{
	return ht_session_loss_scale(session, out) ? HT_OK : HT_E_USAGE;
}

static enum ht_status fill_ht_step_memory(void *out)
{
	return ht_program_step_memory(program, diags, out);
}

#define take_ht_program_info NULL
#define take_ht_step_memory NULL
#define take_ht_search_state NULL
#define take_ht_feature NULL
#define take_ht_loss_scale NULL
#define fill_ht_load_options NULL
#define fill_ht_compile_options NULL
#define fill_ht_save_options NULL
#define fill_ht_aot_options NULL
#define fill_ht_artefact_options NULL
#define fill_ht_context_options NULL
#define fill_ht_cache_settings NULL
#define fill_ht_session_options NULL
#define fill_ht_comparison_options NULL
#define fill_ht_search_options NULL
#define fill_ht_train_phases_options NULL
#define fill_ht_session_loop NULL /* loops_of_older_programs() */

#define VERSIONED(type, initialiser, last) static const struct type init_##type = initialiser;
#include "versioned_structs.def"
#undef VERSIONED

/* A public struct without functions above does not compile. */
#define VERSIONED(type, initialiser, last)                                                         \
	{ #type, &init_##type, sizeof(struct type), take_##type, fill_##type },
static const struct options {
	const char *name;
	const void *init;
	size_t size;
	enum ht_status (*take)(const void *opt);
	enum ht_status (*fill)(void *out);
} all[] = {
#include "versioned_structs.def"
};
#undef VERSIONED

#define ALL (sizeof all / sizeof *all)

/* Calls with a struct of `size` bytes, after which memory is zero only if `tail` is. */
static enum ht_status call(const struct options *o, size_t size, int tail)
{
	_Alignas(max_align_t) unsigned char bytes[MOST_BYTES];

	assert_true(o->size < sizeof bytes);
	memset(bytes, tail, sizeof bytes);
	memcpy(bytes, o->init, size < o->size ? size : o->size);
	memcpy(bytes, &size, sizeof size);
	return o->take(bytes);
}

static void check(enum ht_status is, enum ht_status want, const struct options *o, size_t size)
{
	if (is == HT_E_ENVIRONMENT)
		is = HT_OK;
	if (is != want)
		fail_msg("%s of %zu bytes: %s, not %s", o->name, size, ht_status_text(is),
			ht_status_text(want));
}

static void older_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++)
		for (size_t size = sizeof size; all[i].take && size <= all[i].size;
			size += sizeof(int))
			check(call(&all[i], size, 0xab), HT_OK, &all[i], size);
}

static void newer_programs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		if (!all[i].take)
			continue;
		check(call(&all[i], all[i].size + 8, 0), HT_OK, &all[i], all[i].size + 8);
		check(call(&all[i], all[i].size + 8, 1), HT_E_USAGE, &all[i], all[i].size + 8);
	}
}

static const size_t nonsense[] = { 0, sizeof(size_t) - 1, 4097, SIZE_MAX };

static void sizes_that_are_not_set(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++)
		for (size_t k = 0; all[i].take && k < sizeof nonsense / sizeof *nonsense; k++) {
			_Alignas(max_align_t) unsigned char bytes[MOST_BYTES] = { 0 };

			memcpy(bytes, &nonsense[k], sizeof *nonsense);
			check(all[i].take(bytes), HT_E_USAGE, &all[i], nonsense[k]);
		}
}

/* The struct as a call fills it for a program that states `size`; bytes that are not filled keep
 * `pattern`. */
static enum ht_status fill(const struct options *o, size_t size, int pattern, unsigned char *bytes)
{
	memset(bytes, pattern, MOST_BYTES);
	memcpy(bytes, &size, sizeof size);
	return o->fill(bytes);
}

static void check_filled(const struct options *o, size_t size, size_t filled)
{
	_Alignas(max_align_t) unsigned char one[MOST_BYTES], other[MOST_BYTES];
	enum ht_status st = fill(o, size, 0xab, one);

	assert_int_equal(fill(o, size, 0x54, other), st);
	assert_memory_equal(one, &size, sizeof size);
	for (size_t i = sizeof size; i < MOST_BYTES; i++)
		if ((one[i] == other[i]) != (i < filled))
			fail_msg("%s of %zu bytes: byte %zu %s", o->name, size, i,
				i < filled ? "is not filled" : "is written");
}

/* The library never writes beyond the caller's struct, nor beyond its own. */
static void results(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		size_t most = all[i].size;

		if (!all[i].fill)
			continue;
		for (size_t size = sizeof size; size <= most + 8; size += sizeof(int))
			check_filled(&all[i], size, size < most ? size : most);
		for (size_t k = 0; k < sizeof nonsense / sizeof *nonsense; k++)
			check_filled(&all[i], nonsense[k], 0);
	}
}

static void results_of_sizes_that_are_not_set(void **state)
{
	unsigned char bytes[MOST_BYTES];

	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		if (!all[i].fill || all[i].fill == fill_ht_program_info ||
			all[i].fill == fill_ht_phase_counters) /* these calls return nothing */
			continue;
		check(fill(&all[i], 0, 0, bytes), HT_E_USAGE, &all[i], 0);
		check(fill(&all[i], all[i].size, 0, bytes), HT_OK, &all[i], all[i].size);
	}
}

/* A program whose struct ends with `steps` gets the number of steps, and nothing is written after
 * it. */
static void loops_of_older_programs(void **state)
{
	const char *const entry[HT_PHASE_KINDS] = { "loss", "loss", "loss" };
	struct ht_session_loop whole = HT_SESSION_LOOP_INIT, part;
	size_t size = offsetof(struct ht_session_loop, loss);
	float loss = 0;
	struct ht_array out = { &loss, sizeof loss, HT_F32, 0, NULL };

	(void)state;
	whole.entry = entry;
	whole.steps = 2;
	memset(&part, 0xab, sizeof part);
	memcpy(&part, &whole, size);
	part.struct_size = size;
	assert_int_equal(ht_session_steps(session, &part, NULL, 0, &out, 1, diags), HT_OK);
	assert_true(part.struct_size == size && part.done == 2 && loss == 2);
	for (size_t i = size; i < sizeof part; i++)
		assert_int_equal(((unsigned char *)&part)[i], 0xab);
	assert_int_equal(ht_session_steps(session, &whole, NULL, 0, &out, 1, diags), HT_OK);
	assert_true(whole.struct_size == sizeof whole && whole.done == 2 && whole.loss == 4);
}

static const char counting[] = "hir 1\nentry \"\" {\n  output \"loss\" = %loss\n}\n"
			       "%v = VarHandleOp() {dtype=f32, shape=shape[], shared_name=\"v\"}\n"
			       "%start = Const() {dtype=f32, value=tensor f32[] {0.0}}\n"
			       "%v/Assign = AssignVariableOp(%v, %start) {dtype=f32}\n"
			       "%read = ReadVariableOp(%v) {dtype=f32}\n"
			       "%one = Const() {dtype=f32, value=tensor f32[] {1.0}}\n"
			       "%loss = Add(%read, %one) {T=f32}\n"
			       "%step = AssignVariableOp(%v, %loss) {dtype=f32}\n";

static int write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");
	bool whole = f && fwrite(p, 1, n, f) == n;

	return f && !fclose(f) && whole ? 0 : -1;
}

/* A session whose entry "loss" counts its steps from 1, and another output whose gradients would be
 * scaled. */
static int make_session(const char *path)
{
	const char *outputs[] = { "loss", "step" };
	struct ht_model *m;
	enum ht_status st;

	if (write_file(path, counting, strlen(counting)) ||
		ht_model_load(path, NULL, diags, &m) != HT_OK)
		return -1;
	st = ht_session_new(NULL, diags, &session);
	if (st == HT_OK)
		st = ht_session_scale_loss(session, "another", "fixed:1024", diags);
	if (st == HT_OK)
		st = ht_model_set_outputs(m, outputs, 2, diags);
	if (st == HT_OK)
		st = ht_session_add(session, "loss", m, NULL, diags, NULL);
	if (st == HT_OK)
		st = ht_session_initialise(session, m, NULL, NULL, diags);
	ht_model_free(m);
	return st == HT_OK ? 0 : -1;
}

static int open_record(const char *path)
{
	if (write_file(path, record, sizeof record))
		return -1;
	return ht_records_open(path, diags, &records) == HT_OK ? 0 : -1;
}

static int in_file(const char *kind, int (*use)(const char *path))
{
	char path[64];
	int failed;

	snprintf(path, sizeof path, "api_options%ld.%s", (long)getpid(), kind);
	failed = use(path);
	remove(path);
	return failed;
}

static int set_up(void **state)
{
	(void)state;
	diags = ht_diags_new();
	if (!diags || setenv("HALFTONE_CACHE_DIR", "/dev/null/cache", 1) ||
		ht_model_load(HT_TESTS "/cli/small.hir", NULL, diags, &model) != HT_OK ||
		ht_compile(model, NULL, diags, &program) != HT_OK ||
		ht_model_set_batch(model, 2, diags) != HT_OK ||
		ht_search_new(model, NULL, diags, &search) != HT_OK ||
		ht_train_phases_new(NULL, diags, &phases) != HT_OK)
		return -1;
	return in_file("hir", make_session) || in_file("tfrecord", open_record) ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	ht_records_free(records);
	ht_session_free(session);
	ht_train_phases_free(phases);
	ht_search_free(search);
	ht_program_free(program);
	ht_model_free(model);
	ht_diags_free(diags);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(older_programs),
		cmocka_unit_test(newer_programs),
		cmocka_unit_test(sizes_that_are_not_set),
		cmocka_unit_test(results),
		cmocka_unit_test(results_of_sizes_that_are_not_set),
		cmocka_unit_test(loops_of_older_programs),
	};

	return cmocka_run_group_tests_name("options", tests, set_up, tear_down);
}
