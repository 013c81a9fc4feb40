/* Descriptions of machines: they agree with each other and with the present machine, schedules and
 * prices use them, and the key of code contains everything on which it depends. */
#include "api/api.h"
#include "base/cpu.h"
#include "kernel/eval.h"
#include "kernel/kernel.h"
#include "precision/optimal/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/unit.h"

static void test_targets(void **state)
{
	(void)state;
	assert_null(ht_target_named("x86-64-v9"));
	assert_int_equal(ht_target_named("x86-64-v4+bf16")->vector_bytes, 64);
	const struct ht_target *host = ht_target_host();
	assert_ptr_equal(host, ht_target_named("host"));
	assert_non_null(ht_target_named(host->name));
	assert_true(host->l1 >= 8 << 10 && host->l2 >= host->l1);
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512fp16"))
		assert_string_equal(host->name,
			ht_cpu_has_amx() ? "x86-64-v4+bf16+fp16+amx" : "x86-64-v4+bf16+fp16");
	else if (__builtin_cpu_supports("avx512bf16"))
		assert_string_equal(host->name, "x86-64-v4+bf16");
	assert_true(ht_target_runs("x86-64") && ht_target_runs(host->name));
	for (const struct ht_target *const *t = ht_targets(); *t; t++) {
		const struct ht_target *level = ht_target_named((*t)->level);

		assert_ptr_equal(ht_target_named((*t)->name), *t);
		assert_non_null(level);
		assert_int_equal(level->vector_bytes, (*t)->vector_bytes);
		assert_true(level->dot_bf16 == (*t)->dot_bf16 && level->sums_f16 == (*t)->sums_f16);
		assert_true(level->masks == (*t)->masks);
		assert_true((*t)->l1 < (*t)->l2 && (*t)->l2 < (*t)->l3);
		assert_ptr_equal(ht_targets()[ht_target_level(*t)], level);
		if (!(*t)->extensions)
			assert_true(ht_target_runs((*t)->name) == ht_target_runs((*t)->level));
	}
}

/* A processor has the rates of its microarchitecture also where a virtual machine hides that it runs code of a higher level. */
static void test_microarchitectures(void **state)
{
	enum { INTEL = 0x756e6547, AMD = 0x68747541, OTHER = 0x6f677948 };
	static const struct {
		struct ht_processor p;
		const char *level, *name;
	} c[] = {
		{ { INTEL, 6, 0x8f }, "x86-64-v4+bf16+fp16", "sapphirerapids" },
		{ { INTEL, 6, 0xcf }, "x86-64-v4+bf16+fp16", "emeraldrapids" },
		{ { INTEL, 6, 0xcf }, "x86-64-v4", "emeraldrapids" },
		{ { INTEL, 6, 0xad }, "x86-64-v4+bf16", "graniterapids" },
		{ { INTEL, 6, 0xae }, "x86-64-v4", "graniterapids" },
		{ { INTEL, 6, 0x55 }, "x86-64-v4", "skylake-avx512" },
		{ { INTEL, 6, 1 }, "x86-64-v4+bf16+fp16", "sapphirerapids" },
		{ { INTEL, 7, 0xcf }, "x86-64-v4", "skylake-avx512" },
		{ { INTEL, 6, 0xcf }, "x86-64-v3", "x86-64-v3" },
		{ { AMD, 0x19, 0x11 }, "x86-64-v4+bf16", "znver4" },
		{ { AMD, 0x1a, 2 }, "x86-64-v4", "znver5" },
		{ { OTHER, 6, 0xcf }, "x86-64-v4", "x86-64-v4" },
	};

	(void)state;
	for (size_t i = 0; i < HT_COUNT(c); i++) {
		const struct ht_target *level = ht_target_named(c[i].level);
		const char *name = ht_target_microarchitecture(c[i].p, level);

		assert_string_equal(name, c[i].name);
		assert_non_null(ht_target_named(name));
	}
}

/* A machine uses its extensions, under another name: code for it must not run on machines without
 * them. */
static void test_extensions(void **state)
{
	const struct ht_target *plain = ht_target_of_cpu(HT_CPU_V4_BF16_FP16, 0);
	const struct ht_target *amx = ht_target_of_cpu(HT_CPU_V4_BF16_FP16, HT_CPU_AMX);
	struct ht_target slow = *amx;
	struct ht_rates rates = *amx->rates;

	(void)state;
	assert_string_equal(plain->name, "x86-64-v4+bf16+fp16");
	assert_int_equal(plain->matrix_bf16, 0);
	assert_string_equal(amx->name, "x86-64-v4+bf16+fp16+amx");
	assert_string_equal(amx->level, plain->name);
	assert_true(amx->matrix_bf16 == 2 && amx->extensions == HT_CPU_AMX);
	assert_ptr_equal(ht_target_named(amx->name), amx);
	assert_true(ht_target_runs(amx->name) == (ht_target_runs(plain->name) && ht_cpu_has_amx()));
	/* in a level without such machines: the level */
	assert_string_equal(ht_target_of_cpu(HT_CPU_V4_BF16, HT_CPU_AMX)->name, "x86-64-v4+bf16");
	assert_string_equal(ht_target_of_cpu(HT_CPU_V3, 0)->name, "x86-64-v3");
	/* matrices stay if only dot products are slow; slow matrices are dropped, too */
	ht_target_drop_slow(&slow);
	assert_true(slow.dot_bf16 == 0 && slow.matrix_bf16 == 2);
	assert_int_equal(ht_target_multiplied(&slow, HT_BF16, false), HT_BF16);
	rates.matrix_products = 0.05;
	slow.rates = &rates;
	ht_target_drop_slow(&slow);
	assert_int_equal(slow.matrix_bf16, 0);
	assert_int_equal(ht_target_multiplied(&slow, HT_BF16, false), HT_F32);
}

/* The code does not depend on the number of cores; other caches give other tiles. */
static void test_schedules_of_targets(void **state)
{
	struct ht_target small = *ht_target_named("znver4");
	int64_t m[2], n[2];
	int32_t nr, kp;

	(void)state;
	small.l1 /= 4;
	small.l2 /= 64;
	ht_schedule_tiles(
		ht_target_named("znver4"), HT_F32, 3136, 512, 256, 64, false, &m[0], &n[0]);
	ht_schedule_tiles(&small, HT_F32, 3136, 512, 256, 64, false, &m[1], &n[1]);
	assert_true(m[0] != m[1] || n[0] != n[1]);
	for (const struct ht_target *const *t = ht_targets(); *t; t++)
		for (int64_t rows = 1; rows < 4000; rows = rows * 3 + 1) {
			ht_schedule_packing(*t, HT_BF16, rows, 100, 64, &nr, &kp);
			assert_int_equal(kp, (*t)->dot_bf16 ? 2 : 1);
			assert_int_equal(nr % ((*t)->vector_bytes / ((*t)->masks ? 8 : 4)), 0);
			assert_in_range(nr, 1, (*t)->rates->vectors * (*t)->vector_bytes / 4);
		}
}

/* A few blocks of rows are one tile where the weights are larger than the second level, since each tile of rows reads all of them: the rows stay in that
 * level from one tile to the next. */
static void test_rows_of_large_weights(void **state)
{
	static const struct {
		int64_t n, k;
	} c[] = { { 768, 768 }, { 3072, 768 }, { 768, 3072 } };
	int64_t m, n;

	(void)state;
	for (int64_t rows = 16; rows <= 64; rows += 16)
		for (size_t i = 0; i < HT_COUNT(c); i++) {
			ht_schedule_tiles(ht_target_named("emeraldrapids"), HT_F32, rows, c[i].n,
				c[i].k, 64, false, &m, &n);
			assert_true(m >= rows);
		}
}

/* Half vectors if the last whole one would be half empty, on machines on which they take half the
 * time. */
static void test_narrow_panels(void **state)
{
	static const struct {
		const char *target;
		enum ht_dtype t;
		int64_t rows, columns;
		int32_t nr; /* 0: whole vectors */
	} c[] = {
		{ "znver4", HT_F32, 3136, 24, 24 },
		{ "znver4", HT_BF16, 3136, 24, 24 },
		{ "znver4", HT_F32, 784, 40, 40 },
		{ "znver4", HT_F32, 3136, 8, 8 },
		{ "znver4", HT_F32, 3136, 32, 0 },
		{ "znver4", HT_F32, 196, 80, 0 },
		{ "znver4", HT_F32, 3136, 28, 0 },
		{ "znver4", HT_F32, 1, 24, 0 },
		{ "znver5", HT_F32, 3136, 24, 0 },
		{ "sapphirerapids", HT_BF16, 3136, 24, 0 },
		{ "x86-64-v3", HT_F32, 3136, 12, 0 },
	};
	int32_t nr, kp;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(c); i++) {
		const struct ht_target *t = ht_target_named(c[i].target);

		ht_schedule_packing(t, c[i].t, c[i].rows, c[i].columns, 144, &nr, &kp);
		if (c[i].nr)
			assert_int_equal(nr, c[i].nr);
		else
			assert_int_equal(nr % (t->vector_bytes / 4), 0);
	}
}

/* ---- rates ---- */

/* A machine with slow dot products does not gain by them; a machine without them multiplies and
 * adds. */
static void test_products(void **state)
{
	struct ht_target t = *ht_target_named("znver4");
	struct ht_rates slow = *t.rates;

	(void)state;
	assert_true(ht_target_products(&t, HT_BF16) == 2 * ht_target_products(&t, HT_F32));
	slow.dots_bf16 = 0.25;
	t.rates = &slow;
	assert_true(ht_target_products(&t, HT_BF16) == 0.5 * ht_target_products(&t, HT_F32));
	assert_int_equal(ht_target_group(&t, HT_BF16), 2);
	assert_int_equal(ht_target_group(&t, HT_F32), 1);
	assert_int_equal(ht_target_group(&t, HT_I8), 1);
	t.dot_int8 = 4;
	assert_int_equal(ht_target_group(&t, HT_I8), 4);
	t.dot_bf16 = 0;
	assert_true(ht_target_products(&t, HT_BF16) == t.rates->products);
}

static double product_ps(const struct ht_target *t, enum ht_dtype type, struct ht_arena *a)
{
	const struct ht_work_size size = { 64, 64, 64 };

	return ht_cost(ht_costs_of_target(t, a), HT_WORK_PRODUCT, type, size, 1);
}

/* Prices of a machine without a table follow from its rates. */
static void test_roofline(void **state)
{
	struct ht_target t = *ht_target_named("znver4");
	struct ht_rates rates = *t.rates;
	UNIT_ARENA(a);
	double f32, bf16;

	(void)state;
	t.level = "no table";
	f32 = product_ps(&t, HT_F32, &a);
	bf16 = product_ps(&t, HT_BF16, &a);
	assert_true(fabs(bf16 / f32 - 0.5) < 1e-9);
	rates.dots_bf16 /= 4;
	t.rates = &rates;
	assert_true(fabs(product_ps(&t, HT_BF16, &a) / bf16 - 4) < 1e-9);
	rates.products *= 2;
	assert_true(fabs(product_ps(&t, HT_F32, &a) / f32 - 0.5) < 1e-9);
	t.fused = 0;
	assert_true(fabs(product_ps(&t, HT_F32, &a) / f32 - 1) < 1e-9);
	ht_arena_release(&a);
}

/* Panels are wide on a machine with slow dot products of single vectors. */
static void test_schedule_reads_rates(void **state)
{
	struct ht_target t = *ht_target_named("znver5");
	struct ht_rates rates = *t.rates;
	int32_t narrow, wide, kp;

	(void)state;
	t.rates = &rates;
	rates.vectors = 1;
	ht_schedule_packing(&t, HT_F32, 3136, 256, 256, &narrow, &kp);
	rates.vectors = 4;
	ht_schedule_packing(&t, HT_F32, 3136, 256, 256, &wide, &kp);
	assert_int_equal(narrow, ht_target_lanes(&t));
	assert_true(wide > narrow);
	rates.products = rates.dispatch =
		1e9; /* if reading A is the only cost, one panel reads it least often */
	rates.l1 = rates.l2 = rates.l3 = 1e9;
	ht_schedule_packing(&t, HT_F32, 3136, 64, 256, &wide, &kp);
	assert_int_equal(wide, 4 * ht_target_lanes(&t));
}

/* ---- the key of code has everything on which it depends ---- */

static struct ht_hash key_of(const struct ht_target *t, struct ht_arena *a)
{
	const struct ht_kernel k = { .library = "none" };

	return ht_kernel_key(&k, t, (struct ht_code_how){ 0 }, a).find;
}

static void test_keys(void **state)
{
	const struct ht_target *t = ht_target_named("x86-64-v3");
	struct ht_target other;
	struct ht_hash key, changed;
	UNIT_ARENA(a);

	(void)state;
	key = key_of(t, &a);
#define CHANGES(member)                                                                            \
	other = *t;                                                                                \
	other.member++;                                                                            \
	changed = key_of(&other, &a);                                                              \
	assert_memory_not_equal(&changed, &key, sizeof key);
#define HT_CAPABILITY(member, meaning) CHANGES(member)
#include "kernel/target.def"
	CHANGES(streams)
	other = *t;
	changed = key_of(&other, &a);
	assert_memory_equal(&changed, &key, sizeof key);
	ht_arena_release(&a);
}

/* ---- floats to integers: one rule on every machine ---- */

static int64_t truncated(double x, enum ht_dtype from, enum ht_dtype to)
{
	const struct ht_x op = { .op = HT_X_CVT, .dtype = to };
	const float f = (float)x;
	int64_t r = 0;

	ht_x_eval(&op, from, &r, from == HT_F32 ? (const void *)&f : &x, NULL, NULL, 1);
	return r;
}

static void test_truncation(void **state)
{
	static const struct {
		double x;
		int32_t i32;
		int64_t i64;
		uint64_t u64;
	} c[] = {
		{ 0, 0, 0, 0 },
		{ -1.75, -1, -1, UINT64_MAX },
		{ 300.5, 300, 300, 300 },
		{ 0x1p31, INT32_MIN, 0x80000000, 0x80000000 },
		{ -0x1p31, INT32_MIN, INT32_MIN, (uint64_t)(int64_t)INT32_MIN },
		{ 0x1p63, INT32_MIN, INT64_MIN, 0x8000000000000000 },
		{ 0x1.8p63, INT32_MIN, INT64_MIN, 0xc000000000000000 },
		{ -0x1p63, INT32_MIN, INT64_MIN, 0x8000000000000000 },
		{ 0x1p64, INT32_MIN, INT64_MIN, 0 },
		{ -0x1p70, INT32_MIN, INT64_MIN, 0x8000000000000000 },
		{ INFINITY, INT32_MIN, INT64_MIN, 0 },
		{ -INFINITY, INT32_MIN, INT64_MIN, 0x8000000000000000 },
		{ NAN, INT32_MIN, INT64_MIN, 0x8000000000000000 },
	};
	static const enum ht_dtype from[] = { HT_F32, HT_F64 };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(c); i++)
		for (size_t k = 0; k < HT_COUNT(from); k++) {
			assert_int_equal((int32_t)truncated(c[i].x, from[k], HT_I32), c[i].i32);
			assert_int_equal(
				(uint8_t)truncated(c[i].x, from[k], HT_I8), (uint8_t)c[i].i32);
			assert_int_equal(
				(uint8_t)truncated(c[i].x, from[k], HT_U8), (uint8_t)c[i].i32);
			assert_int_equal(
				(uint16_t)truncated(c[i].x, from[k], HT_I16), (uint16_t)c[i].i32);
			assert_int_equal(
				(uint16_t)truncated(c[i].x, from[k], HT_U16), (uint16_t)c[i].i32);
			assert_int_equal(
				(uint32_t)truncated(c[i].x, from[k], HT_U32), (uint32_t)c[i].i64);
			assert_int_equal(truncated(c[i].x, from[k], HT_I64), c[i].i64);
			assert_true((uint64_t)truncated(c[i].x, from[k], HT_U64) == c[i].u64);
		}
	/* Only in float64: between the smallest I32 and the number before it. */
	assert_int_equal((int32_t)truncated(-2147483648.5, HT_F64, HT_I32), INT32_MIN);
	assert_int_equal((int32_t)truncated(2147483647.5, HT_F64, HT_I32), INT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_microarchitectures),
		cmocka_unit_test(test_extensions),
		cmocka_unit_test(test_schedules_of_targets),
		cmocka_unit_test(test_rows_of_large_weights),
		cmocka_unit_test(test_narrow_panels),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_roofline),
		cmocka_unit_test(test_schedule_reads_rates),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_truncation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
