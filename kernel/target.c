/* target: the machines kernels are made for. */
#include "base/cpu.h"
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

/* In the order of enum ht_cpu_level. */
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
		host = levels[ht_cpu_level()];
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
