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

/* Intel's servers of family 6 with matrix units and later, by model.  A virtual machine may hide their features, but not what they are. */
static const char *intel_server(unsigned model)
{
	static const struct {
		unsigned model;
		const char *name;
	} servers[] = {
		{ 0x8f, "sapphirerapids" },
		{ 0xcf, "emeraldrapids" },
		{ 0xad, "graniterapids" },
		{ 0xae, "graniterapids" },
	};

	for (size_t i = 0; i < HT_COUNT(servers); i++)
		if (servers[i].model == model)
			return servers[i].name;
	return NULL;
}

const char *ht_target_microarchitecture(struct ht_processor p, const struct ht_target *level)
{
	enum { INTEL_FAMILY = 6, ZEN_3_AND_4 = 0x19 };
	const char *server = NULL;

	if (!level->masks)
		return level->name;
	if (p.vendor == signature_AMD_ebx)
		return p.family == ZEN_3_AND_4 ? "znver4" : "znver5";
	if (p.vendor != signature_INTEL_ebx)
		return level->name;
	if (p.family == INTEL_FAMILY)
		server = intel_server(p.model);
	if (server)
		return server;
	return ht_target_level(level) >= HT_CPU_V4_BF16_FP16 ? "sapphirerapids" : "skylake-avx512";
}

/* This processor.  Family and model have extended fields, which CPUID adds to the basic ones. */
static struct ht_processor processor(void)
{
	struct ht_processor p = { 0 };
	unsigned a, b, c, d;

	if (!__get_cpuid(0, &a, &p.vendor, &c, &d) || !__get_cpuid(1, &a, &b, &c, &d))
		return p;
	p.family = (a >> 8 & 15) + (a >> 20 & 255);
	p.model = (a >> 4 & 15) + (a >> 12 & 0xf0);
	return p;
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
	const struct ht_target *kind =
		as ? as : ht_target_named(ht_target_microarchitecture(processor(), &host));

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
