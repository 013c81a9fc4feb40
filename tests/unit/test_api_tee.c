/* Tensors of runs: an observer sees every tensor, whatever it is fused with; programs without `tee`
 * show none. */
#include <halftone/halftone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char model_text[] =
	"hir 1\n"
	"entry \"\" {\n  input \"x\" = %x\n  output \"y\" = %y\n}\n"
	"%x = Placeholder() {dtype=f32, shape=shape[4,2]}\n"
	"%w = Const() {dtype=f32, value=tensor f32[2,3] {1.0, 2.0, 3.0, -4.0, 5.0, -6.0}}\n"
	"%p = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%r = Relu(%p) {T=f32}\n"
	"%same = Relu(%p) {T=f32}\n"
	"%s = Tanh(%r) {T=f32}\n"
	"%y = Mul(%s, %same) {T=f32}\n";

static const float x_given[8] = { 1, 2, -3, 4, 5, -6, 0, 1 };

struct wanted {
	const struct ht_program *program;
	size_t n, constants;
	float p[12], r[12], same[12];
	struct ht_tensor_info info[64];
};

static void take(void *arg, const struct ht_seen *t)
{
	struct wanted *w = arg;
	struct ht_tensor_info i;
	float *to;

	assert_true(ht_program_tensor(w->program, t->tensor, &i));
	w->info[w->n++] = i;
	w->constants += i.kind == HT_TENSOR_CONSTANT;
	to = !strcmp(i.node, "p")      ? w->p
	     : !strcmp(i.node, "r")    ? w->r
	     : !strcmp(i.node, "same") ? w->same
				       : NULL;
	if (!to)
		return;
	assert_int_equal(i.bytes, sizeof w->p);
	assert_int_equal(t->execution, 0);
	memcpy(to + 12 / t->parts * t->part, t->array.data, t->array.bytes);
}

struct loaded {
	struct ht_diags *d;
	struct ht_model *m;
	struct ht_program *p;
	struct ht_context *c;
};

static void load_model(struct loaded *l)
{
	char path[] = "/tmp/halftone-tee-XXXXXX.hir";
	FILE *f = fdopen(mkstemps(path, 4), "w");

	assert_true(f && fputs(model_text, f) >= 0 && !fclose(f));
	assert_int_equal(ht_model_load(path, NULL, l->d, &l->m), HT_OK);
	unlink(path);
}

static struct loaded load(int tee, const char *batch_method, int threads)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_context_options run = HT_CONTEXT_OPTIONS_INIT;
	struct loaded l = { .d = ht_diags_new() };

	opt.tee = tee;
	opt.target = "x86-64-v3";
	opt.batch_method = batch_method;
	run.threads = threads;
	load_model(&l);
	assert_int_equal(ht_compile(l.m, &opt, l.d, &l.p), HT_OK);
	assert_int_equal(ht_context_new(l.p, &run, l.d, &l.c), HT_OK);
	return l;
}

static void unload(struct loaded *l)
{
	ht_context_free(l->c);
	ht_program_free(l->p);
	ht_model_free(l->m);
	ht_diags_free(l->d);
}

static void run(struct loaded *l, float y[12])
{
	const int64_t in_dim[] = { 4, 2 }, out_dim[] = { 4, 3 };
	float x[8];
	struct ht_array in = { x, sizeof x, HT_F32, 2, in_dim },
			out = { y, 12 * sizeof *y, HT_F32, 2, out_dim };

	memcpy(x, x_given, sizeof x);
	assert_int_equal(ht_context_run(l->c, &in, 1, &out, 1, l->d), HT_OK);
}

static const float product[12] = { -7, 12, -9, -19, 14, -33, 29, -20, 51, -4, 5, -6 };

static void sees_what_is_inside(void **state)
{
	static const char *const method[] = { "whole", "parts" };
	float want[12], y[12];
	struct loaded plain = load(HT_TEE_NOTHING, "whole", 1);

	(void)state;
	run(&plain, want);
	for (int i = 0; i < 4; i++) {
		struct loaded l = load(HT_TEE_RESULTS, method[i % 2], 1 + i / 2);
		struct wanted w = { .program = l.p };

		assert_int_equal(ht_context_see(l.c, take, &w, l.d), HT_OK);
		run(&l, y);
		assert_memory_equal(y, want, sizeof y);
		assert_memory_equal(w.p, product, sizeof product);
		for (int k = 0; k < 12; k++)
			assert_true(
				w.r[k] == (product[k] > 0 ? product[k] : 0) && w.same[k] == w.r[k]);
		w.n = 0;
		assert_int_equal(ht_context_see(l.c, NULL, NULL, l.d), HT_OK);
		run(&l, y);
		assert_true(!w.n && !w.constants);
		unload(&l);
	}
	unload(&plain);
}

static void tells_who_takes_it(void **state)
{
	struct loaded l = load(HT_TEE_CONSTANTS, "whole", 1);
	struct wanted w = { .program = l.p };
	size_t uses = 0;
	float y[12];

	(void)state;
	assert_int_equal(ht_context_see(l.c, take, &w, l.d), HT_OK);
	run(&l, y);
	assert_int_equal(w.constants, 1);
	assert_true(w.info[0].kind == HT_TENSOR_CONSTANT && !strcmp(w.info[0].node, "w"));
	for (size_t i = 0; i < w.n; i++) {
		struct ht_tensor_info by;

		assert_true(w.info[i].imported);
		for (size_t k = 0; k < w.info[i].uses; k++, uses++) {
			assert_true(ht_program_tensor(l.p, w.info[i].use[k].by, &by));
			if (!strcmp(w.info[i].node, "w"))
				assert_true(!strcmp(by.node, "p") && !strcmp(by.op, "MatMul") &&
					    w.info[i].use[k].operand == 1);
			if (!strcmp(w.info[i].node, "s"))
				assert_true(!strcmp(by.node, "y"));
		}
	}
	assert_true(uses >= 5);
	unload(&l);
}

static void refuses_without(void **state)
{
	struct loaded l = load(HT_TEE_NOTHING, "whole", 1);
	struct ht_tensor_info i;

	(void)state;
	assert_false(ht_program_tensor(l.p, 0, &i));
	assert_int_equal(ht_context_see(l.c, take, NULL, l.d), HT_E_USAGE);
	assert_int_equal(ht_context_see(l.c, NULL, NULL, l.d), HT_OK);
	unload(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sees_what_is_inside),
		cmocka_unit_test(tells_who_takes_it),
		cmocka_unit_test(refuses_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
