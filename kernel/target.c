/* target: the machines for which kernels are made. */
#include "kernel/target.h"
#include "base/cpu.h"

#include <string.h>

/* Features are listed instead of using a CPU name, whose meaning changes between LLVM releases.
 * 512-bit vectors are requested explicitly, since LLVM's tuning prefers 256. */
#define F_V1 "+sse,+sse2,+fxsr,+mmx,+cx8"
#define F_V3                                                                                       \
	F_V1 ",+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+bmi,+bmi2,+f16c,"      \
	     "+fma,+lzcnt,+movbe,+xsave"
#define F_V4 F_V3 ",+evex512,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"
#define F_V4_BF16 F_V4 ",+avx512bf16"
#define F_V4_FP16 F_V4_BF16 ",+avx512fp16"
#define F_SPR F_V4_FP16 ",+amx-tile,+amx-bf16"

/* At most eight rows: each needs a pointer, and more would not stay in registers; also rows
 * whose distance is a power of two compete for the same few lines of the first level. */
#define TILE(most_vectors) .rows = 8, .vectors = most_vectors
/* Rates that all machines share.  Those of schedules and methods were measured on Zen 4; those
 * of matrix units and of the roofline (conversions, functions, picoseconds) are estimates. */
#define EVERYWHERE                                                                                 \
	.half_products = 2, .half_loads = 2, .broadcasts = 2, .tile_operands = 10,                 \
	.matrix_products = 1, .matrix_efficiency = 0.65, .grid_tile = 1500,                        \
	.winograd_block = 3000, .winograd_image_2 = 65, .winograd_image_4 = 190,                   \
	.winograd_result_2 = 45, .winograd_result_4 = 150, .row_tile = 500, .convert_bits = 8,     \
	.function = 12, .lone_dot = 1.4, .half_overhead = 1.03, .load_overlap = 0.2,               \
	.efficiency = 0.9, .cycle_ps = 333, .launch_ps = 300000
/* Bytes a cycle of weights of convolutions and of tensors that come back from beyond the second level; cycles of a
 * conversion; picoseconds of a byte of weights from memory.  What was not measured has those of Zen 4. */
#define TRAFFIC(weights_, tensors_, convert_, weight_ps_)                                          \
	.weights = weights_, .tensors = tensors_, .convert = convert_, .weight_ps = weight_ps_
#define TRAFFIC_OF_ZEN4 TRAFFIC(8, 24, 2, 50)
/* Vectors a cycle: multiply-adds, dot products of pairs of BF16, loads; instructions; bytes from each
 * level. */
#define RATES(multiply_adds, dots, from_memory, instructions, first, second, beyond)               \
	.products = multiply_adds, .dots_bf16 = dots, .loads = from_memory,                        \
	.dispatch = instructions, .l1 = first, .l2 = second, .l3 = beyond

static const struct ht_rates generic = { "generic", false, TILE(3), RATES(2, 0, 2, 4, 64, 32, 16),
	TRAFFIC_OF_ZEN4, EVERYWHERE };
/* A 512-bit operation takes both halves of a unit. */
static const struct ht_rates zen4 = { "znver4", true, TILE(4), RATES(1, 1, 1, 4, 64, 32, 16),
	TRAFFIC_OF_ZEN4, EVERYWHERE };
/* Rates from `l3` on were measured by halftone tune, on an EPYC. */
static const struct ht_rates zen5 = { "znver5", true, TILE(4), RATES(2, 2, 2, 8, 128, 64, 16),
	TRAFFIC(4, 12, 1, 25), EVERYWHERE };
/* Server CPUs: two units of 512 bits. */
static const struct ht_rates skylake_x = { "skylake-avx512", false, TILE(4),
	RATES(2, 2, 2, 4, 128, 48, 16), TRAFFIC_OF_ZEN4, EVERYWHERE };
/* Measured: dot products of pairs take four times as long as multiply-adds (bench/peak.c, on an
 * Emerald Rapids). */
static const struct ht_rates sapphire_rapids = { "sapphirerapids", false, TILE(4),
	RATES(2, 0.5, 2, 6, 128, 48, 16), .products_f16 = 2, TRAFFIC_OF_ZEN4, EVERYWHERE };

#define KB *1024
#define ANY .non_temporal = 1
#define WITH_V3 ANY, .fused = 1, .rounds = 1, .widens_f16 = 1, .narrows_f16 = 1
#define LEVEL_V1                                                                                   \
	.level = "x86-64", .cpu = "x86-64", .features = F_V1, .vector_bytes = 16,                  \
	.vector_registers = 16, ANY
#define LEVEL_V3                                                                                   \
	.level = "x86-64-v3", .cpu = "x86-64-v3", .features = F_V3, .vector_bytes = 32,            \
	.vector_registers = 16, .masked_bytes = 4, WITH_V3
#define V4                                                                                         \
	.cpu = "x86-64-v4", .vector_bytes = 64, .vector_registers = 32, .masks = 1,                \
	.masked_bytes = 1, .scales = 1, .classifies = 1, .prefetch = 2048, WITH_V3
#define V4_BF16 V4, .narrows_bf16 = 1, .dot_bf16 = 2
#define V4_FP16 V4_BF16, .sums_f16 = 2, .prefetch_panels = 1
#define LEVEL_V4 .level = "x86-64-v4", .features = F_V4, V4
#define LEVEL_V4_BF16 .level = "x86-64-v4+bf16", .features = F_V4_BF16, V4_BF16
#define LEVEL_V4_FP16 .level = "x86-64-v4+bf16+fp16", .features = F_V4_FP16, V4_FP16
#define LEVEL_SPR                                                                                  \
	.level = "x86-64-v4+bf16+fp16", .features = F_SPR, .extensions = HT_CPU_AMX,               \
	.matrix_rows = 16, .matrix_bf16 = 2, V4_FP16
#define CACHES(first, second, third)                                                               \
	.l1 = first KB, .l2 = second KB, .l3 = third KB, .streams = HT_STREAMS(third KB)

/* Levels in the order of enum ht_cpu_level, then what hosts with extensions run, then microarchitectures. */
static const struct ht_target targets[] = {
	{ "x86-64", LEVEL_V1, CACHES(32, 256, 2048), .rates = &generic },
	{ "x86-64-v3", LEVEL_V3, CACHES(32, 256, 2048), .rates = &generic },
	{ "x86-64-v4", LEVEL_V4, CACHES(32, 1024, 2048), .rates = &zen4 },
	{ "x86-64-v4+bf16", LEVEL_V4_BF16, CACHES(32, 1024, 2048), .rates = &zen4 },
	{ "x86-64-v4+bf16+fp16", LEVEL_V4_FP16, CACHES(48, 2048, 4096), .rates = &sapphire_rapids },
	{ "x86-64-v4+bf16+fp16+amx", LEVEL_SPR, CACHES(48, 2048, 4096), .rates = &sapphire_rapids },
	{ "haswell", LEVEL_V3, CACHES(32, 256, 8192), .rates = &generic },
	{ "broadwell", LEVEL_V3, CACHES(32, 256, 8192), .rates = &generic },
	{ "skylake", LEVEL_V3, CACHES(32, 256, 8192), .rates = &generic },
	{ "alderlake", LEVEL_V3, CACHES(48, 1280, 24576), .rates = &generic },
	{ "znver1", LEVEL_V3, CACHES(32, 512, 8192), .rates = &generic },
	{ "znver2", LEVEL_V3, CACHES(32, 512, 16384), .rates = &generic },
	{ "znver3", LEVEL_V3, CACHES(32, 512, 32768), .rates = &generic },
	{ "skylake-avx512", LEVEL_V4, CACHES(32, 1024, 22528), .rates = &skylake_x },
	{ "cascadelake", LEVEL_V4, CACHES(32, 1024, 22528), .rates = &skylake_x },
	{ "icelake-server", LEVEL_V4, CACHES(48, 1280, 49152), .rates = &skylake_x },
	{ "cooperlake", LEVEL_V4_BF16, CACHES(32, 1024, 39424), .rates = &skylake_x },
	{ "znver4", LEVEL_V4_BF16, .prefetch_panels = 1, CACHES(32, 1024, 32768), .rates = &zen4 },
	{ "znver5", LEVEL_V4_BF16, CACHES(48, 1024, 32768), .rates = &zen5 },
	{ "sapphirerapids", LEVEL_SPR, CACHES(48, 2048, 61440), .rates = &sapphire_rapids },
	{ "emeraldrapids", LEVEL_SPR, CACHES(48, 2048, 163840), .rates = &sapphire_rapids },
	{ "graniterapids", LEVEL_SPR, CACHES(48, 2048, 163840), .rates = &sapphire_rapids },
};

const struct ht_target *const *ht_targets(void)
{
	static const struct ht_target *const list[] = {
#define AT(i) &targets[i], &targets[(i) + 1], &targets[(i) + 2], &targets[(i) + 3]
		AT(0), AT(4), AT(8), AT(12), AT(16), &targets[20], &targets[21], NULL
	};

	_Static_assert(HT_COUNT(list) == HT_COUNT(targets) + 1, "every target is in the list");
	return list;
}

const struct ht_target *ht_target_of_cpu(int level, unsigned extensions)
{
	int i = level;

	/* the first one of the level with these extensions; else without any */
	while (i < (int)HT_COUNT(targets) && (strcmp(targets[i].level, targets[level].name) != 0 ||
						     targets[i].extensions != extensions))
		i++;
	return &targets[i < (int)HT_COUNT(targets) ? i : level];
}

int ht_target_level(const struct ht_target *t)
{
	int i = 0;

	while (strcmp(t->level, targets[i].name) != 0)
		i++;
	return i;
}

const struct ht_target *ht_target_named(const char *name)
{
	if (strcmp(name, "host") == 0)
		return ht_target_host();
	for (size_t i = 0; i < HT_COUNT(targets); i++)
		if (strcmp(name, targets[i].name) == 0)
			return &targets[i];
	return NULL;
}

int ht_target_group(const struct ht_target *t, enum ht_dtype operands)
{
	const int dot = operands == HT_BF16  ? t->matrix_bf16 ? t->matrix_bf16 : t->dot_bf16
			: operands == HT_F16 ? t->dot_f16 ? t->dot_f16 : t->sums_f16
			: operands == HT_I8  ? t->dot_int8
					     : 0;

	return dot ? dot : 1;
}

enum ht_dtype ht_target_multiplied(
	const struct ht_target *t, enum ht_dtype operands, bool short_sums)
{
	if (operands == HT_F16)
		return t->dot_f16 || (short_sums && t->sums_f16) ? HT_F16 : HT_F32;
	return operands == HT_BF16 && ht_target_group(t, operands) == 1 ? HT_F32 : operands;
}

double ht_target_matrix_products(const struct ht_target *t)
{
	return t->rates->matrix_products * t->matrix_rows * t->matrix_bf16;
}

double ht_target_products(const struct ht_target *t, enum ht_dtype operands)
{
	const int group = ht_target_group(t, operands);

	if (group == 1)
		return t->rates->products;
	if (operands == HT_BF16 && t->matrix_bf16)
		return ht_target_matrix_products(t) * t->rates->matrix_efficiency;
	return group * (operands == HT_F16 ? t->rates->products_f16 : t->rates->dots_bf16);
}

/* ---- facts of a machine, by name ---- */

bool ht_target_capability(const struct ht_target *t, size_t i, struct ht_target_fact *out)
{
	const struct ht_target_fact facts[] = {
#define HT_CAPABILITY(member, meaning) { #member, t->member },
#include "kernel/target.def"
	};

	if (i >= HT_COUNT(facts))
		return false;
	*out = facts[i];
	return true;
}

bool ht_target_rate(const struct ht_target *t, size_t i, struct ht_target_fact *out)
{
	const struct ht_target_fact facts[] = {
#define HT_RATE(member, meaning) { #member, t->rates->member },
#include "kernel/target.def"
	};

	if (i >= HT_COUNT(facts))
		return false;
	*out = facts[i];
	return true;
}

void ht_target_drop_slow(struct ht_target *t)
{
	if (t->dot_bf16 * t->rates->dots_bf16 < t->rates->products)
		t->dot_bf16 = 0;
	if (ht_target_matrix_products(t) * t->rates->matrix_efficiency < t->rates->products)
		t->matrix_rows = t->matrix_bf16 = 0;
	if (2 * t->rates->products_f16 <= t->rates->products)
		t->sums_f16 = 0;
}
