/* cpu: the level of code that this CPU and operating system can run, and the floating-point modes
 * of a thread.
 *
 * Everything is in this header and freestanding, because ahead-of-time nets contain this check. */
#ifndef HT_CPU_H
#define HT_CPU_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>
#include <xmmintrin.h>

/* A machine of one level runs the code of all lower levels. */
enum ht_cpu_level { HT_CPU_V1, HT_CPU_V3, HT_CPU_V4, HT_CPU_V4_BF16, HT_CPU_V4_BF16_FP16 };

/* XCR0: the register states that the operating system saves. */
static inline uint64_t ht_cpu_state(void)
{
	uint32_t lo, hi;

	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

static inline enum ht_cpu_level ht_cpu_level(void)
{
	unsigned a, b, c, d, b7, c7, d7, a71 = 0, ext_c;
	uint64_t state;

	if (!__get_cpuid(1, &a, &b, &c, &d))
		return HT_CPU_V1;
	/* SSE3 SSSE3 FMA CX16 SSE4.1 SSE4.2 MOVBE POPCNT XSAVE OSXSAVE AVX F16C */
	const unsigned v3_c = 1u << 0 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 19 | 1u << 20 |
			      1u << 22 | 1u << 23 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 29;
	if ((c & v3_c) != v3_c || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
		return HT_CPU_V1;
	const unsigned leaf7_subleaves = a;
	if (!__get_cpuid(0x80000001, &a, &b, &ext_c, &d) || !(ext_c & 1u << 5) || !(ext_c & 1))
		return HT_CPU_V1;                          /* LZCNT, LAHF */
	const unsigned v3_b = 1u << 3 | 1u << 5 | 1u << 8; /* BMI1 AVX2 BMI2 */
	state = ht_cpu_state();
	if ((b7 & v3_b) != v3_b || (state & 6) != 6)
		return HT_CPU_V1;
	/* AVX512 F DQ CD BW VL; opmask and both halves of zmm saved */
	const unsigned v4_b = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
	if ((b7 & v4_b) != v4_b || (state & 0xe6) != 0xe6)
		return HT_CPU_V3;
	if (leaf7_subleaves < 1 || !__get_cpuid_count(7, 1, &a71, &b, &c, &d) || !(a71 & 1u << 5))
		return HT_CPU_V4;
	return d7 & 1u << 23 /* AVX512_FP16 */ ? HT_CPU_V4_BF16_FP16 : HT_CPU_V4_BF16;
}

/* AMX_TILE and AMX_BF16.  Linux saves tiles only for processes that request it; this call makes the
 * request. */
static inline bool ht_cpu_has_amx(void)
{
	const long request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM */
	unsigned a, b, c, d;
	long failed;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & 1u << 22) || !(d & 1u << 24) ||
		(ht_cpu_state() & 3u << 17) != 3u << 17)
		return false;
	__asm__ volatile("syscall"
		: "=a"(failed)
		: "a"(158L /* arch_prctl */), "D"(request), "S"(tile_data)
		: "rcx", "r11", "memory");
	return failed == 0;
}

/* Extensions that only some machines of a level have. */
enum ht_cpu_extension { HT_CPU_AMX = 1 };

/* Whether this machine has all these extensions. */
static inline bool ht_cpu_has(unsigned extensions)
{
	return !(extensions & HT_CPU_AMX) || ht_cpu_has_amx();
}

/* Sets the floating-point modes of this thread to the modes that kernels expect: round to nearest,
 * no traps, subnormals kept or, with `flush`, treated as zeros.  Returns the previous modes. */
static inline unsigned ht_cpu_modes_begin(bool flush)
{
	/* flush to zero, rounding, exception masks, denormals are zero */
	const unsigned modes = 0xffc0u, masked = 0x1f80u, zeros = 0x8040u, before = _mm_getcsr();

	_mm_setcsr((before & ~modes) | masked | (flush ? zeros : 0));
	return before;
}

static inline void ht_cpu_modes_end(unsigned before)
{
	_mm_setcsr(before);
}

#endif
