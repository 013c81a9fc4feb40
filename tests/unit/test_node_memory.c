/* Memory of compare --nodes: its programs read the compared programs' constants in place of equal ones of their own, and only constants with
 * other bytes are made; on several threads they run in one wave or side by side. */
#include "api/compare.h"
#include "tests/unit/unit.h"

#include <halftone/compare.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 64, ROWS = 8, BYTES = SIZE * SIZE * 2 /* of the matrix in bfloat16 */ };

struct compared {
	struct ht_diags *d;
	struct ht_model *m;
	struct ht_policy *policy;
	struct ht_comparison *c;
	struct ht_attribution *a;
	float x[ROWS * SIZE];
	struct ht_array in;
};

/* %y = tanh(x w), with w[i] = (i mod 7919) / 7919, which bfloat16 rounds. */
static void write_model(FILE *f)
{
	fputs("hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"y\" = %y\n}\n", f);
	fprintf(f, "%%x = Placeholder() {dtype=f32, shape=shape[%d,%d]}\n", ROWS, SIZE);
	fprintf(f, "%%w = Const() {dtype=f32, value=tensor f32[%d,%d] {", SIZE, SIZE);
	for (int i = 0; i < SIZE * SIZE; i++)
		fprintf(f, "%s%.6f", i ? ", " : "", (double)(i * 31 % 7919) / 7919);
	fputs("}}\n%p = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}\n", f);
	fputs("%y = Tanh(%p) {T=f32}\n", f);
}

static void load(struct compared *t)
{
	char path[] = "/tmp/node-memory-XXXXXX.hir";
	int fd = mkstemps(path, 4);
	FILE *f = fdopen(fd, "w");

	if (!f)
		abort();
	write_model(f);
	fclose(f);
	assert_int_equal(ht_model_load(path, NULL, t->d, &t->m), HT_OK);
	unlink(path);
}

/* `memory`: of tensors in a wave; 0: the default. */
static void begin(struct compared *t, int threads, size_t memory)
{
	static const int64_t dim[] = { ROWS, SIZE };
	struct ht_comparison_options opt = HT_COMPARISON_OPTIONS_INIT;
	struct ht_compile_options compile = HT_COMPILE_OPTIONS_INIT;
	struct ht_attribution_of of;

	compile.threads = threads;
	opt.compile = &compile;
	*t = (struct compared){ .d = ht_diags_new() };
	for (int i = 0; i < ROWS * SIZE; i++)
		t->x[i] = (float)(i % 13) - 6;
	t->in = (struct ht_array){ t->x, sizeof t->x, HT_F32, 2, dim };
	load(t);
	assert_int_equal(ht_policy_new("allow_mix_precision_bf16", t->d, &t->policy), HT_OK);
	assert_int_equal(ht_comparison_new(t->m, &opt, t->d, &t->c), HT_OK);
	assert_int_equal(ht_comparison_add(t->c, "bf16", t->policy, t->d), HT_OK);
	of = ht_comparison_attributes(t->c, t->c->first);
	of.policy = t->policy;
	of.memory = memory;
	assert_int_equal(ht_attribution_new(&of, t->d, &t->a), HT_OK);
}

static void end(struct compared *t)
{
	ht_comparison_free(t->c);
	ht_policy_free(t->policy);
	ht_model_free(t->m);
	ht_diags_free(t->d);
}

/* The matrix, as the program reads it. */
static const void *matrix_of(const struct ht_program *p)
{
	const uint64_t *bytes = ht_image_constants(p->rt.image);

	for (uint32_t i = 0; i < ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS); i++)
		if (bytes[i] >= BYTES)
			return (const void *)(uintptr_t)p->rt.constant[i];
	fail_msg("a program without the matrix");
	return NULL;
}

static void test_equal_constants(void **state)
{
	struct compared t;
	const void *base, *row, *wide;

	(void)state;
	begin(&t, 1, 0);
	base = matrix_of(t.c->base.program);
	row = matrix_of(t.c->first->program);
	wide = matrix_of(t.a->looked[HT_LOOKED_WIDE].program);
	assert_ptr_not_equal(row, base);
	assert_ptr_equal(matrix_of(t.a->looked[HT_LOOKED_REFERENCE].program), base);
	assert_ptr_equal(matrix_of(t.a->looked[HT_LOOKED_POLICY].program), row);
	assert_ptr_equal(matrix_of(t.a->looked[HT_LOOKED_ALONE].program), row);
	assert_ptr_not_equal(wide, base); /* float32, and rounded to bfloat16 */
	assert_ptr_not_equal(wide, row);
	ht_attribution_free(t.a);
	end(&t);
}

static void test_threads(void **state)
{
	static const struct {
		size_t memory;
		int threads;
	} wanted[] = { { 0, 2 }, { 1, 1 } };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(wanted); i++) {
		struct compared t;

		begin(&t, 2, wanted[i].memory);
		assert_int_equal(t.a->threads, wanted[i].threads);
		assert_int_equal(t.a->waves > 1, wanted[i].threads == 1);
		for (int k = 0; k < HT_LOOKED; k++)
			assert_int_equal(t.a->looked[k].context != NULL, wanted[i].threads == 1);
		assert_int_equal(ht_attribution_sample(t.a, "first", &t.in, 1, t.d), HT_OK);
		ht_attribution_free(t.a);
		end(&t);
	}
}

/* What reads a constant of another program does not release it: the compared programs give the same outputs before and after. */
static void test_outputs_afterwards(void **state)
{
	float before[ROWS * SIZE];
	struct compared t;

	(void)state;
	begin(&t, 1, 0);
	assert_int_equal(ht_comparison_sample(t.c, "first", &t.in, 1, NULL, 0, NULL, t.d), HT_OK);
	memcpy(before, t.c->first->out[0].data, sizeof before);
	assert_int_equal(ht_attribution_sample(t.a, "first", &t.in, 1, t.d), HT_OK);
	assert_memory_equal(t.a->looked[HT_LOOKED_POLICY].out[0].data, before, sizeof before);
	ht_attribution_free(t.a);
	assert_int_equal(ht_comparison_sample(t.c, "second", &t.in, 1, NULL, 0, NULL, t.d), HT_OK);
	assert_memory_equal(t.c->first->out[0].data, before, sizeof before);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_constants),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_outputs_afterwards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
