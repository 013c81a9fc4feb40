/* The rates of one core's multiply-adds in registers: float32, bfloat16, float16, and bfloat16 by matrices.
 *
 *   build/bench/peak [SECONDS]
 *
 * Prints the momentary rate of each, the fastest half millisecond of many, and with SECONDS also the sustained rate, all products of so many
 * seconds over the processor time that they took.  Processors sustain less of some products than they do for a moment.  Needs AVX-512. */
#include "bench/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIMES = 600 };
#define EACH 0.5e-3 /* seconds; short enough to be undisturbed now and then on a busy machine */

static double time_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_run(enum ht_rate rate, long rounds, clockid_t clock)
{
	const double start = time_of(clock);

	ht_rate_run(rate, rounds);
	return time_of(clock) - start;
}

static long rounds_of_each(enum ht_rate rate)
{
	long rounds = 1000;
	double took;

	while ((took = time_run(rate, rounds, CLOCK_MONOTONIC)) < EACH / 2)
		rounds *= 2;
	return (long)(EACH / took * (double)rounds) + 1;
}

static double momentary(enum ht_rate rate, long rounds)
{
	double least = 1e9;

	for (int i = 0; i < TIMES; i++) {
		const double took = time_run(rate, rounds, CLOCK_MONOTONIC);

		least = took < least ? took : least;
	}
	return (double)rounds / least;
}

static double sustained(enum ht_rate rate, long rounds, double seconds)
{
	const double end = time_of(CLOCK_MONOTONIC) + seconds;
	double took = 0, n = 0;

	do {
		took += time_run(rate, rounds, CLOCK_THREAD_CPUTIME_ID);
		n += (double)rounds;
	} while (time_of(CLOCK_MONOTONIC) < end);
	return n / took;
}

int main(int argc, char **argv)
{
	static const char *const name[] = { [HT_RATE_F32] = "fp32",
		[HT_RATE_BF16] = "bf16",
		[HT_RATE_F16] = "fp16",
		[HT_RATE_MATRICES] = "matrices" };
	const double seconds = argc > 1 ? atof(argv[1]) : 0;

	for (enum ht_rate rate = 0; rate < HT_RATE_COUNT; rate++) {
		const double flops = 2e-9 * ht_rate_round(rate);
		long rounds;

		if (!ht_rate_has(rate))
			continue;
		rounds = rounds_of_each(rate);
		printf("%s %.1f GFLOP/s", name[rate], flops * momentary(rate, rounds));
		if (seconds > 0)
			printf(", sustained %.1f", flops * sustained(rate, rounds, seconds));
		putchar('\n');
	}
	return 0;
}
