/* target: the machines kernels are made for. */
#include "kernel/kernel.h"

#include <cpuid.h>
#include <string.h>

/* Features are written out rather than left to a CPU name: a name's meaning changes between LLVM
 * releases.  512-bit vectors are asked for where they exist (LLVM's tuning prefers 256). */
#define F_V1 "+sse,+sse2,+fxsr,+mmx,+cx8"
#define F_V3                                                                                       \
	F_V1 ",+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+bmi,+bmi2,+f16c,"      \
	     "+fma,+lzcnt,+movbe,+xsave"
#define F_V4 F_V3 ",+evex512,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"

static const struct ht_target levels[] = {
	{ .name = "x86-64",
		.cpu = "x86-64",
		.features = F_V1,
		.vector_bytes = 16,
		.l1 = 32 << 10,
		.l2 = 256 << 10,
		.l3 = 2 << 20 },
	{ .name = "x86-64-v3",
		.cpu = "x86-64-v3",
		.features = F_V3,
		.vector_bytes = 32,
		.fma = true,
		.f16c = true,
		.l1 = 32 << 10,
		.l2 = 256 << 10,
		.l3 = 2 << 20 },
	{ .name = "x86-64-v4",
		.cpu = "x86-64-v4",
		.features = F_V4,
		.vector_bytes = 64,
		.fma = true,
		.f16c = true,
		.avx512 = true,
		.l1 = 32 << 10,
		.l2 = 1 << 20,
		.l3 = 2 << 20 },
	{ .name = "x86-64-v4+bf16",
		.cpu = "x86-64-v4",
		.features = F_V4 ",+avx512bf16",
		.vector_bytes = 64,
		.fma = true,
		.f16c = true,
		.bf16 = true,
		.avx512 = true,
		.l1 = 32 << 10,
		.l2 = 1 << 20,
		.l3 = 2 << 20 },
};

static const struct ht_target *const list[] = { &levels[0], &levels[1], &levels[2], &levels[3],
	NULL };

const struct ht_target *const *ht_targets(void)
{
	return list;
}

/* Which register states the operating system saves: XCR0. */
static uint64_t os_state(void)
{
	uint32_t lo, hi;

	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

static const struct ht_target *best_level(void)
{
	unsigned a, b, c, d, b7, c7, d7, a71 = 0, ext_c;
	uint64_t state;

	if (!__get_cpuid(1, &a, &b, &c, &d))
		return &levels[0];
	/* SSE3 SSSE3 FMA CX16 SSE4.1 SSE4.2 MOVBE POPCNT XSAVE OSXSAVE AVX F16C */
	const unsigned v3_c = 1u << 0 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 19 | 1u << 20 |
			      1u << 22 | 1u << 23 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 29;
	if ((c & v3_c) != v3_c || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
		return &levels[0];
	const unsigned leaf7_subleaves = a;
	if (!__get_cpuid(0x80000001, &a, &b, &ext_c, &d) || !(ext_c & 1u << 5) || !(ext_c & 1))
		return &levels[0];                         /* LZCNT, LAHF */
	const unsigned v3_b = 1u << 3 | 1u << 5 | 1u << 8; /* BMI1 AVX2 BMI2 */
	state = os_state();
	if ((b7 & v3_b) != v3_b || (state & 6) != 6)
		return &levels[0];
	/* AVX512 F DQ CD BW VL; opmask and both halves of zmm saved */
	const unsigned v4_b = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
	if ((b7 & v4_b) != v4_b || (state & 0xe6) != 0xe6)
		return &levels[1];
	if (leaf7_subleaves >= 1 && __get_cpuid_count(7, 1, &a71, &b, &c, &d) && a71 & 1u << 5)
		return &levels[3];
	return &levels[2];
}

/* Bytes of the data or unified cache of `level`, divided by `share`; 0 when the machine does not
 * say.  Intel's leaf 4 and AMD's 0x8000001d have the same layout. */
static int64_t cache_bytes(unsigned leaf, int level)
{
	unsigned a, b, c, d;

	for (unsigned i = 0; i < 16; i++) {
		if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 31) == 0)
			return 0;
		if ((a & 31) == 2 || (int)(a >> 5 & 7) != level)
			continue; /* 2: instructions only */
		return (int64_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) *
		       ((int64_t)c + 1);
	}
	return 0;
}

static int64_t cache_of(int level, int64_t otherwise)
{
	int64_t n = cache_bytes(0x8000001d, level);

	if (!n)
		n = cache_bytes(4, level);
	return n ? n : otherwise;
}

const struct ht_target *ht_target_host(void)
{
	static struct ht_target host;
	static int state; /* 0: not made, 1: being made, 2: ready */
	int seen = __atomic_load_n(&state, __ATOMIC_ACQUIRE), none = 0;

	if (seen == 2)
		return &host;
	if (__atomic_compare_exchange_n(
		    &state, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		host = *best_level();
		host.l1 = cache_of(1, host.l1);
		host.l2 = cache_of(2, host.l2);
		host.l3 = cache_of(3, host.l3);
		__atomic_store_n(&state, 2, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2)
		; /* another thread is within a few instructions of ready */
	return &host;
}

/* Levels stand in the order in which one runs the code of another. */
bool ht_target_runs(const char *name)
{
	const char *host = ht_target_host()->name;

	for (size_t i = 0; i < HT_COUNT(levels); i++) {
		if (strcmp(name, levels[i].name) == 0)
			return true;
		if (strcmp(host, levels[i].name) == 0)
			return false;
	}
	return false;
}

const struct ht_target *ht_target_named(const char *name)
{
	if (strcmp(name, "host") == 0)
		return ht_target_host();
	for (size_t i = 0; i < HT_COUNT(levels); i++)
		if (strcmp(name, levels[i].name) == 0)
			return &levels[i];
	return NULL;
}
