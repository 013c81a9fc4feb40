/* host: the machine that this process runs on, as a target. */
#include "base/cpu.h"
#include "kernel/target.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the data or unified cache of `level`; 0 if the machine does not say.  Intel's leaf 4
 * and AMD's 0x8000001d have the same layout. */
static int64_t cache_bytes(unsigned leaf, int level)
{
	unsigned a, b, c, d;

	for (unsigned i = 0; i < 16; i++) {
		if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || (a & 31) == 0)
			return 0;
		if ((a & 31) == 2 || (int)(a >> 5 & 7) != level)
			continue; /* 2: an instruction cache */
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

/* The microarchitecture: of AMD's CPUs by the level, which shows the family; of Intel's by their
 * features; else the level's. */
static const char *microarchitecture(const struct ht_target *level)
{
	unsigned a, b, c, d, family;

	if (!level->masks || !__get_cpuid(0, &a, &b, &c, &d))
		return level->name;
	const bool intel = b == signature_INTEL_ebx, amd = b == signature_AMD_ebx;
	__get_cpuid(1, &a, &b, &c, &d);
	family = (a >> 8 & 15) + (a >> 20 & 255);
	if (amd)
		return family == 0x19 ? "znver4" : "znver5";
	if (intel)
		return ht_target_level(level) >= HT_CPU_V4_BF16_FP16 ? "sapphirerapids"
								     : "skylake-avx512";
	return level->name;
}

static const char *counts_as(void)
{
	const char *name = secure_getenv("HALFTONE_HOST");

	return name && *name ? name : NULL;
}

static bool runs(const struct ht_target *t)
{
	return ht_target_level(t) <= (int)ht_cpu_level() && ht_cpu_has(t->extensions);
}

static const struct ht_target *target_counted_as(void)
{
	const char *name = counts_as();
	const struct ht_target *t =
		name && strcmp(name, "host") != 0 ? ht_target_named(name) : NULL;

	return t && runs(t) ? t : NULL;
}

const char *ht_target_host_refused(void)
{
	return target_counted_as() ? NULL : counts_as();
}

static struct ht_target describe(void)
{
	const struct ht_target *as = target_counted_as();
	const unsigned extensions = as ? as->extensions : ht_cpu_has(HT_CPU_AMX) ? HT_CPU_AMX : 0;
	struct ht_target host =
		*ht_target_of_cpu(as ? ht_target_level(as) : (int)ht_cpu_level(), extensions);
	const struct ht_target *kind = as ? as : ht_target_named(microarchitecture(&host));

	host.rates = kind->rates;
	host.prefetch_panels = kind->prefetch_panels;
	ht_target_drop_slow(&host);
	host.l1 = cache_of(1, host.l1);
	host.l2 = cache_of(2, host.l2);
	host.l3 = cache_of(3, host.l3);
	host.streams = HT_STREAMS(host.l3);
	return host;
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
		host = describe();
		__atomic_store_n(&state, 2, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2)
		; /* another thread will be ready within a few instructions */
	return &host;
}

bool ht_target_runs(const char *name)
{
	const struct ht_target *t = ht_target_named(name);

	return t && runs(t);
}
