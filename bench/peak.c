/* The peak float32, bfloat16 and float16 multiply-add rate of one core, and that of bfloat16 by
 * matrices, to which the ratios in bench/ refer.  Build with clang -O3 -march=native; gcc spills the accumulators.  Needs
 * AVX-512. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ACCUMULATORS 24 /* more than latency times issue width, fewer than the registers */
#define ROUNDS 100000L
#define REPEATS                                                                                    \
	160 /* the fastest one counts; each is too short to be disturbed on a busy machine */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Using the sum keeps the compiler from removing the work. */
static void report(const char *what, int flops, double seconds, const __m512 *acc)
{
	float sum = 0;

	for (int i = 0; i < ACCUMULATORS; i++)
		sum += _mm512_reduce_add_ps(acc[i]);
	printf("%s %.1f GFLOP/s (%g)\n", what,
		(double)ROUNDS * ACCUMULATORS * flops / seconds / 1e9, (double)sum);
}

static void peak_f32(void)
{
	__m512 acc[ACCUMULATORS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-9f);
	double least = 1e9;

	for (int i = 0; i < ACCUMULATORS; i++)
		acc[i] = _mm512_set1_ps((float)i);
	for (int r = 0; r < REPEATS; r++) {
		double start = now(), took;

		for (long k = 0; k < ROUNDS; k++) {
#pragma clang loop unroll(full)
			for (int i = 0; i < ACCUMULATORS; i++)
				acc[i] = _mm512_fmadd_ps(acc[i], x, y);
		}
		took = now() - start;
		least = took < least ? took : least;
	}
	report("fp32", 32, least, acc);
}

#ifdef __AVX512BF16__
static void peak_bf16(void)
{
	__m512 acc[ACCUMULATORS];
	__m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
	__m512bh y = (__m512bh)_mm512_set1_epi32(0x30003000);
	double least = 1e9;

	for (int i = 0; i < ACCUMULATORS; i++)
		acc[i] = _mm512_set1_ps((float)i);
	for (int r = 0; r < REPEATS; r++) {
		double start = now(), took;

		for (long k = 0; k < ROUNDS; k++) {
#pragma clang loop unroll(full)
			for (int i = 0; i < ACCUMULATORS; i++)
				acc[i] = _mm512_dpbf16_ps(acc[i], x, y);
		}
		took = now() - start;
		least = took < least ? took : least;
	}
	report("bf16", 64, least, acc);
}
#endif

#ifdef __AVX512FP16__
static void peak_f16(void)
{
	__m512h acc[ACCUMULATORS], x = _mm512_set1_ph((_Float16)0.999f),
				   y = _mm512_set1_ph((_Float16)1e-3f);
	__m512 sums[ACCUMULATORS];
	double least = 1e9;

	for (int i = 0; i < ACCUMULATORS; i++)
		acc[i] = _mm512_set1_ph((_Float16)i);
	for (int r = 0; r < REPEATS; r++) {
		double start = now(), took;

		for (long k = 0; k < ROUNDS; k++) {
#pragma clang loop unroll(full)
			for (int i = 0; i < ACCUMULATORS; i++)
				acc[i] = _mm512_fmadd_ph(acc[i], x, y);
		}
		took = now() - start;
		least = took < least ? took : least;
	}
	for (int i = 0; i < ACCUMULATORS; i++)
		sums[i] = _mm512_set1_ps((float)_mm512_reduce_add_ph(acc[i]));
	report("fp16", 64, least, sums);
}
#endif

#ifdef __AMX_BF16__
/* Products of registers alone, for half a millisecond at a time: processors slow these products down, often after less.  Operands are no
 * zeros, which take less power. */
static void peak_matrices(void)
{
	enum {
		REQUEST = 0x1023,
		STATE = 18,
		TILES = 8,
		PRODUCTS = 16 * 16 * 32,
		MATRIX_ROUNDS = 16000,
		TIMES = 1500
	};
	static _Alignas(64) struct {
		unsigned char palette, start, reserved[14];
		unsigned short bytes[16];
		unsigned char rows[16];
	} config = { .palette = 1 };
	static _Alignas(64) unsigned short numbers[512];
	double least = 1e9;

	if (syscall(SYS_arch_prctl, REQUEST, STATE))
		return;
	for (int i = 0; i < TILES; i++) {
		config.bytes[i] = 64;
		config.rows[i] = 16;
	}
	for (unsigned i = 0; i < 512; i++)
		numbers[i] = (unsigned short)(0x3f80 + (i * 2654435761U >> 25));
	_tile_loadconfig(&config);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_loadd(4, numbers, 64);
	_tile_loadd(5, numbers, 64);
	_tile_loadd(6, numbers, 64);
	_tile_loadd(7, numbers, 64);
	for (int r = 0; r < TIMES; r++) {
		double start = now(), took;

		for (int k = 0; k < MATRIX_ROUNDS; k++) {
			_tile_dpbf16ps(0, 4, 6);
			_tile_dpbf16ps(1, 4, 7);
			_tile_dpbf16ps(2, 5, 6);
			_tile_dpbf16ps(3, 5, 7);
		}
		took = now() - start;
		least = took < least ? took : least;
	}
	_tile_release();
	printf("matrices %.1f GFLOP/s\n", MATRIX_ROUNDS * 4.0 * 2 * PRODUCTS / least / 1e9);
}
#endif

int main(void)
{
	peak_f32();
#ifdef __AVX512BF16__
	peak_bf16();
#endif
#ifdef __AVX512FP16__
	peak_f16();
#endif
#ifdef __AMX_BF16__
	peak_matrices();
#endif
	return 0;
}
