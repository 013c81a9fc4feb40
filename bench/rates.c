/* Loops of multiply-adds in assembler: compilers would spill some of the sums. */
#include "bench/rates.h"
#include "base/cpu.h"
#include "base/base.h"

#include <string.h>

/* Twenty-four sums, which are more than latency times issue width, and eight operands; no two neighbours have the same ones. */
#define SIX(op, a, b, c, d, e, f)                                                                  \
	op " %%zmm24, %%zmm28, %%zmm" #a "\n\t" op " %%zmm25, %%zmm29, %%zmm" #b "\n\t" op         \
	   " %%zmm26, %%zmm30, %%zmm" #c "\n\t" op " %%zmm27, %%zmm31, %%zmm" #d "\n\t" op         \
	   " %%zmm24, %%zmm29, %%zmm" #e "\n\t" op " %%zmm25, %%zmm30, %%zmm" #f "\n\t"
#define LOAD(i, at) "vmovups " #at "(%1), %%zmm" #i "\n\t"
#define ZERO(i) "vpxorq %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
#define ZERO_SIX(a, b, c, d, e, f) ZERO(a) ZERO(b) ZERO(c) ZERO(d) ZERO(e) ZERO(f)

/* vzeroupper leaves no upper halves behind, which would slow down other code. */
#define VECTORS(name, op)                                                                          \
	__attribute__((target("avx512f"))) static void name(const void *operands, long rounds)     \
	{                                                                                          \
		__asm__ volatile(LOAD(24, 0) LOAD(25, 64) LOAD(26, 128) LOAD(27, 192) LOAD(        \
			28, 256) LOAD(29, 320) LOAD(30, 384) LOAD(31, 448) ZERO_SIX(0, 1, 2, 3, 4, \
			5) ZERO_SIX(6, 7, 8, 9, 10, 11) ZERO_SIX(12, 13, 14, 15, 16,               \
			17) ZERO_SIX(18, 19, 20, 21, 22, 23) "1:\n\t" SIX(op, 0, 1, 2, 3, 4,       \
			5) SIX(op, 6, 7, 8, 9, 10, 11) SIX(op, 12, 13, 14, 15, 16, 17)             \
				SIX(op, 18, 19, 20, 21, 22, 23) "dec %0\n\tjnz 1b\n\tvzeroupper"   \
			: "+r"(rounds)                                                             \
			: "r"(operands)                                                            \
			: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",  \
			"xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16",     \
			"xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",    \
			"xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "memory");  \
	}

VECTORS(run_f32, "vfmadd231ps")
VECTORS(run_bf16, "vdpbf16ps")
VECTORS(run_f16, "vfmadd231ph")

enum {
	SUMS = 24,
	TILE_BYTES = 1024,
	OPERAND_TILES = 4,
	OPERAND_BYTES = TILE_BYTES * OPERAND_TILES
};

/* The operand of ldtilecfg: palette 1, bytes of a row of each tile, rows of each. */
struct tiles {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

static void run_matrices(const void *operands, long rounds)
{
	_Alignas(64) struct tiles config = { .palette = 1 };

	for (int i = 0; i < 8; i++) {
		config.bytes[i] = 64;
		config.rows[i] = 16;
	}
	__asm__ volatile("ldtilecfg (%2)\n\t"
			 "tilezero %%tmm0\n\ttilezero %%tmm1\n\t"
			 "tilezero %%tmm2\n\ttilezero %%tmm3\n\t"
			 "tileloadd (%1,%3,1), %%tmm4\n\ttileloadd 1024(%1,%3,1), %%tmm5\n\t"
			 "tileloadd 2048(%1,%3,1), %%tmm6\n\ttileloadd 3072(%1,%3,1), %%tmm7\n\t"
			 "1:\n\t"
			 "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
			 "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
			 "dec %0\n\tjnz 1b\n\ttilerelease"
		: "+r"(rounds)
		: "r"(operands), "r"(&config), "r"(64L)
		: "memory");
}

bool ht_rate_has(enum ht_rate rate)
{
	static const enum ht_cpu_level level[] = { [HT_RATE_F32] = HT_CPU_V4,
		[HT_RATE_BF16] = HT_CPU_V4_BF16,
		[HT_RATE_F16] = HT_CPU_V4_BF16_FP16 };

	return rate == HT_RATE_MATRICES ? ht_cpu_has_amx() : ht_cpu_level() >= level[rate];
}

double ht_rate_round(enum ht_rate rate)
{
	static const double products[] = { [HT_RATE_F32] = SUMS * 16,
		[HT_RATE_BF16] = SUMS * 32,
		[HT_RATE_F16] = SUMS * 32,
		[HT_RATE_MATRICES] = 4 * 16 * 16 * 32 };

	return products[rate];
}

void ht_rate_fill(void *p, enum ht_dtype t, size_t bytes)
{
	const size_t n = bytes / ht_dtype_info(t)->bytes;
	uint32_t state = 1;

	for (size_t i = 0; i < n; i++) {
		float f;

		state = state * 1664525 + 1013904223;
		f = (float)(int32_t)state * 0x1p-31f;
		if (t == HT_F32)
			((float *)p)[i] = f;
		else if (t == HT_BF16)
			((uint16_t *)p)[i] = ht_f32_to_bf16(f);
		else if (t == HT_F16)
			((uint16_t *)p)[i] = ht_f32_to_f16(f);
	}
}

void ht_rate_run(enum ht_rate rate, long rounds)
{
	static void (*const run[])(const void *, long) = { [HT_RATE_F32] = run_f32,
		[HT_RATE_BF16] = run_bf16,
		[HT_RATE_F16] = run_f16,
		[HT_RATE_MATRICES] = run_matrices };
	static const enum ht_dtype dtype[] = { [HT_RATE_F32] = HT_F32,
		[HT_RATE_BF16] = HT_BF16,
		[HT_RATE_F16] = HT_F16,
		[HT_RATE_MATRICES] = HT_BF16 };
	static _Alignas(64) char operands[OPERAND_BYTES];
	static int filled = -1;

	if (filled != (int)rate)
		ht_rate_fill(operands, dtype[rate], sizeof operands);
	filled = (int)rate;
	if (rounds > 0)
		run[rate](operands, rounds);
}
