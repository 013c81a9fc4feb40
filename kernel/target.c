/* target: the machines kernels are made for. */
#include "kernel/kernel.h"

#include <string.h>

/* Features are written out rather than left to a CPU name: a name's meaning changes between LLVM
 * releases.  512-bit vectors are asked for where they exist (LLVM's tuning prefers 256). */
#define F_V1 "+sse,+sse2,+fxsr,+mmx,+cx8"
#define F_V3                                                                                       \
	F_V1 ",+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+bmi,+bmi2,+f16c,"      \
	     "+fma,+lzcnt,+movbe,+xsave"
#define F_V4 F_V3 ",+evex512,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"
#define F_V4_BF16 F_V4 ",+avx512bf16"
#define F_SPR F_V4_BF16 ",+avx512fp16,+amx-tile,+amx-bf16"

/* Eight rows: one pointer a row, more would not stay in registers, and rows a power of two apart fall
 * on the same few lines of the first level. */
static const struct ht_tuning v1 = { "generic", false, 2, 2, 4, 64, 32, 16, 8, 3 };
static const struct ht_tuning v3 = { "generic", false, 2, 2, 4, 64, 32, 16, 8, 3 };
/* Both halves of a unit take a 512-bit operation. */
static const struct ht_tuning zen4 = { "znver4", true, 1, 1, 4, 64, 32, 16, 8, 4 };
static const struct ht_tuning zen5 = { "znver5", false, 2, 2, 8, 128, 64, 32, 8, 4 };
/* Servers: two units of 512 bits. */
static const struct ht_tuning skylake_x = { "skylake-avx512", false, 2, 2, 4, 128, 48, 16, 8, 4 };
static const struct ht_tuning sapphire_rapids = { "sapphirerapids", false, 2, 2, 6, 128, 48, 16, 8,
	4 };

#define KB *1024
#define LEVEL_V1                                                                                   \
	.level = "x86-64", .cpu = "x86-64", .features = F_V1, .vector_bytes = 16, .tuning = &v1
#define LEVEL_V3                                                                                   \
	.level = "x86-64-v3", .cpu = "x86-64-v3", .features = F_V3, .vector_bytes = 32,            \
	.fma = true, .f16c = true
#define V4 .cpu = "x86-64-v4", .vector_bytes = 64, .fma = true, .f16c = true, .avx512 = true
#define LEVEL_V4 .level = "x86-64-v4", .features = F_V4, V4
#define LEVEL_V4_BF16 .level = "x86-64-v4+bf16", .features = F_V4_BF16, .bf16 = true, V4
#define LEVEL_SPR                                                                                  \
	.level = "x86-64-v4+bf16", .features = F_SPR, .bf16 = true, .fp16 = true, .amx = true, V4
#define CACHES(first, second, third)                                                               \
	.l1 = first KB, .l2 = second KB, .l3 = third KB, .streams = HT_STREAMS(third KB)

/* Levels in the order of enum ht_cpu_level. */
static const struct ht_target targets[] = {
	{ "x86-64", LEVEL_V1, CACHES(32, 256, 2048) },
	{ "x86-64-v3", LEVEL_V3, CACHES(32, 256, 2048), .tuning = &v3 },
	{ "x86-64-v4", LEVEL_V4, CACHES(32, 1024, 2048), .tuning = &zen4 },
	{ "x86-64-v4+bf16", LEVEL_V4_BF16, CACHES(32, 1024, 2048), .tuning = &zen4 },
	{ "haswell", LEVEL_V3, CACHES(32, 256, 8192), .tuning = &v3 },
	{ "broadwell", LEVEL_V3, CACHES(32, 256, 8192), .tuning = &v3 },
	{ "skylake", LEVEL_V3, CACHES(32, 256, 8192), .tuning = &v3 },
	{ "alderlake", LEVEL_V3, CACHES(48, 1280, 24576), .tuning = &v3 },
	{ "znver1", LEVEL_V3, CACHES(32, 512, 8192), .tuning = &v3 },
	{ "znver2", LEVEL_V3, CACHES(32, 512, 16384), .tuning = &v3 },
	{ "znver3", LEVEL_V3, CACHES(32, 512, 32768), .tuning = &v3 },
	{ "skylake-avx512", LEVEL_V4, CACHES(32, 1024, 22528), .tuning = &skylake_x },
	{ "cascadelake", LEVEL_V4, CACHES(32, 1024, 22528), .tuning = &skylake_x },
	{ "icelake-server", LEVEL_V4, CACHES(48, 1280, 49152), .tuning = &skylake_x },
	{ "cooperlake", LEVEL_V4_BF16, CACHES(32, 1024, 39424), .tuning = &skylake_x },
	{ "znver4", LEVEL_V4_BF16, CACHES(32, 1024, 32768), .tuning = &zen4 },
	{ "znver5", LEVEL_V4_BF16, CACHES(48, 1024, 32768), .tuning = &zen5 },
	{ "sapphirerapids", LEVEL_SPR, CACHES(48, 2048, 61440), .tuning = &sapphire_rapids },
	{ "emeraldrapids", LEVEL_SPR, CACHES(48, 2048, 163840), .tuning = &sapphire_rapids },
	{ "graniterapids", LEVEL_SPR, CACHES(48, 2048, 163840), .tuning = &sapphire_rapids },
};

const struct ht_target *const *ht_targets(void)
{
	static const struct ht_target *const list[] = {
#define AT(i) &targets[i], &targets[(i) + 1], &targets[(i) + 2], &targets[(i) + 3]
		AT(0), AT(4), AT(8), AT(12), AT(16), NULL
	};

	_Static_assert(HT_COUNT(list) == HT_COUNT(targets) + 1, "every target is in the list");
	return list;
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
