/* Switching between phases of a training costs nothing of its own: a step behind a step of the other precision runs the same kernels as
 * one behind a step of its own, and no step allocates memory.  A copy that a program keeps of a variable that no step changes is made
 * once, whatever steps of the other program run in between; copies of the others are made in each step, also without a switch. */
#include <halftone/train.h>

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- allocations ---- */

static size_t allocations;

/* A sanitizer has functions of its own in these places. */
#if defined(__SANITIZE_ADDRESS__)
#define COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COUNTS 0
#endif
#endif
#ifndef COUNTS
#define COUNTS 1

static void *next(const char *name)
{
	allocations++;
	return dlsym(RTLD_NEXT, name);
}

void *malloc(size_t n)
{
	void *(*f)(size_t);

	*(void **)&f = next("malloc");
	return f(n);
}

void *calloc(size_t n, size_t each)
{
	void *(*f)(size_t, size_t);

	*(void **)&f = next("calloc");
	return f(n, each);
}

void *realloc(void *p, size_t n)
{
	void *(*f)(void *, size_t);

	*(void **)&f = next("realloc");
	return f(p, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	int (*f)(void **, size_t, size_t);

	*(void **)&f = next("posix_memalign");
	return f(p, align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	void *(*f)(size_t, size_t);

	*(void **)&f = next("aligned_alloc");
	return f(align, n);
}
#endif

/* ---- a training ---- */

enum { ROWS = 16, WIDTH = 64, MOST_STEPS = 256 };

/* Two layers whose weights are trained, behind one whose weights are not and have so many columns that they must be packed. */
static const char text[] =
	"hir 1\n"
	"entry \"\" {\n  input \"x\" = %x\n  output \"loss\" = %loss\n}\n"
	"%x = Placeholder() {dtype=f32, shape=shape[16,64]}\n"
	"%f = VarHandleOp() {container=\"\", dtype=f32, shape=shape[64,160], shared_name=\"f\"}\n"
	"%f/start = Const() {dtype=f32, value=tensor f32[64,160] {0.125 ...}}\n"
	"%f/Assign = AssignVariableOp(%f, %f/start) {dtype=f32}\n"
	"%v = VarHandleOp() {container=\"\", dtype=f32, shape=shape[160,64], shared_name=\"v\"}\n"
	"%v/start = Const() {dtype=f32, value=tensor f32[160,64] {0.0625 ...}}\n"
	"%v/Assign = AssignVariableOp(%v, %v/start) {dtype=f32}\n"
	"%w = VarHandleOp() {container=\"\", dtype=f32, shape=shape[64,64], shared_name=\"w\"}\n"
	"%w/start = Const() {dtype=f32, value=tensor f32[64,64] {0.03125 ...}}\n"
	"%w/Assign = AssignVariableOp(%w, %w/start) {dtype=f32}\n"
	"%f/read = ReadVariableOp(%f) {dtype=f32}\n"
	"%v/read = ReadVariableOp(%v) {dtype=f32}\n"
	"%w/read = ReadVariableOp(%w) {dtype=f32}\n"
	"%a = MatMul(%x, %f/read) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%b = MatMul(%a, %v/read) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%c = Relu(%b) {T=f32}\n"
	"%d = MatMul(%c, %w/read) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%squares = Square(%d) {T=f32}\n"
	"%axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}\n"
	"%loss = Mean(%squares, %axes) {T=f32, Tidx=i32, keep_dims=false}\n"
	"%share = Const() {dtype=f32, value=tensor f32[] {0.001953125}}\n"
	"%dd = Mul(%d, %share) {T=f32}\n"
	"%dw = MatMul(%c, %dd) {T=f32, transpose_a=true, transpose_b=false}\n"
	"%dc = MatMul(%dd, %w/read) {T=f32, transpose_a=false, transpose_b=true}\n"
	"%db = ReluGrad(%dc, %c) {T=f32}\n"
	"%dv = MatMul(%a, %db) {T=f32, transpose_a=true, transpose_b=false}\n"
	"%rate = Const() {dtype=f32, value=tensor f32[] {0.0009765625}}\n"
	"%update = ResourceApplyGradientDescent(%v, %rate, %dv) {T=f32, use_locking=false}\n"
	"%update_1 = ResourceApplyGradientDescent(%w, %rate, %dw) {T=f32, use_locking=false}\n"
	"%train = NoOp(^update, ^update_1)\n";

static struct ht_diags *diags;
static struct ht_session *session;
static float x[ROWS * WIDTH], loss;
static const int64_t shape[2] = { ROWS, WIDTH };

static void add(struct ht_model *m, const char *name, const char *policy)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	const char *const outputs[] = { "loss", "train" };
	struct ht_policy *p;

	assert_int_equal(ht_policy_new(policy, diags, &p), HT_OK);
	opt.policy = p;
	assert_int_equal(ht_model_set_outputs(m, outputs, 2, diags), HT_OK);
	assert_int_equal(ht_session_add(session, name, m, &opt, diags, NULL), HT_OK);
	ht_policy_free(p);
}

static int begin(void **state)
{
	struct ht_session_options opt = HT_SESSION_OPTIONS_INIT;
	char path[] = "/tmp/halftone-switch-XXXXXX.hir";
	FILE *f = fdopen(mkstemps(path, 4), "w");
	struct ht_model *m;

	(void)state;
	assert_true(f && fputs(text, f) >= 0 && !fclose(f));
	diags = ht_diags_new();
	assert_int_equal(ht_model_load(path, NULL, diags, &m), HT_OK);
	unlink(path);
	assert_int_equal(ht_session_new(&opt, diags, &session), HT_OK);
	add(m, "original", "must_keep_origin_dtype");
	add(m, "fast1", "allow_mix_precision_bf16");
	assert_int_equal(ht_session_initialise(session, m, NULL, NULL, diags), HT_OK);
	ht_model_free(m);
	for (int i = 0; i < ROWS * WIDTH; i++)
		x[i] = (float)(i % 13 - 6) / 8;
	return 0;
}

static int end(void **state)
{
	(void)state;
	ht_session_free(session);
	ht_diags_free(diags);
	return 0;
}

static void step(const char *entry)
{
	const struct ht_array in = { x, sizeof x, HT_F32, 2, shape };
	const struct ht_array out[2] = { { &loss, sizeof loss, HT_F32, 0, NULL }, { 0 } };

	assert_int_equal(ht_session_run(session, entry, &in, 1, out, 1, diags), HT_OK);
}

/* ---- the executions of each kernel in a step ---- */

struct counts {
	uint64_t of[MOST_STEPS];
	size_t steps;
};

static struct counts executions(const char *entry)
{
	static struct ht_step_profile all[MOST_STEPS];
	struct counts c = { .steps = ht_context_step_profiles(
				    ht_session_context(session, entry), all, MOST_STEPS) };

	assert_in_range(c.steps, 1, MOST_STEPS);
	for (size_t i = 0; i < c.steps; i++)
		c.of[i] = all[i].executions;
	return c;
}

/* What one step runs. */
static struct counts run_by(const char *entry)
{
	struct counts before = executions(entry), after;

	step(entry);
	after = executions(entry);
	for (size_t i = 0; i < after.steps; i++)
		after.of[i] -= before.of[i];
	return after;
}

static uint64_t sum(const struct counts *c)
{
	uint64_t n = 0;

	for (size_t i = 0; i < c->steps; i++)
		n += c->of[i];
	return n;
}

static const char *const both[2] = { "original", "fast1" };

static void a_switch_runs_no_kernel(void **state)
{
	struct counts first[2], usual[2], behind[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			ht_context_record(ht_session_context(session, both[i]), HT_EVENTS, diags),
			HT_OK);
	for (int i = 0; i < 2; i++) {
		first[i] = run_by(both[i]);
		usual[i] = run_by(both[i]);
	}
	for (int turn = 0; turn < 3; turn++)
		for (int i = 0; i < 2; i++) {
			behind[i] = run_by(both[i]);
			assert_memory_equal(&behind[i], &usual[i], sizeof usual[i]);
		}
	/* The copy of the weights that are not trained was made in the first step, and never again. */
	for (int i = 0; i < 2; i++)
		assert_true(sum(&first[i]) > sum(&usual[i]));
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			ht_context_record(ht_session_context(session, both[i]), 0, diags), HT_OK);
}

static void no_step_allocates(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		step(both[i]);
	allocations = 0;
	for (int i = 0; i < 8; i++) {
		step(both[i % 2]);
		step(both[i / 4]);
	}
	assert_int_equal(allocations, 0);
	if (COUNTS) { /* and it counts */
		void *volatile p = malloc(1);

		free(p);
		assert_int_equal(allocations, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_runs_no_kernel),
		cmocka_unit_test(no_step_allocates),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
