/* Runs the net "digits" on threads in three ways, and in many threads at once; threads.cc is the
 * same in C++.  threads INPUT OUTPUT: raw bytes; each way must give the same result. */
#include "digits.h"

#include <halftone/runtime.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { THREADS = 3, USERS = 6, BEHIND = 256, IMAGE = 28 * 28 };

static void *input;
static char first[DIGITS_OUTPUT_0_BYTES];

static void *memory(size_t n)
{
	void *p = aligned_alloc(64, (n + 63) / 64 * 64);

	if (!p)
		exit(5);
	/* The initial contents of an arena do not matter. */
	return memset(p, 0xa5, n);
}

static int is_untouched(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != (char)0xa5)
			return 0;
	return 1;
}

/* Kernels that need memory of their thread use only that of their own thread, and write nothing
 * behind it.  If there are fewer images than threads, the first thread's memory is used. */
static int keeps_to_memory(const char *arena, int threads)
{
	size_t each = DIGITS_ARENA_BYTES_FOR(1) - DIGITS_ARENA_BYTES_FOR(0);
	int images = DIGITS_INPUT_0_BYTES / IMAGE, i;

	for (i = 0; i < threads && each > 64 && images >= threads; i++)
		if (is_untouched(arena + DIGITS_ARENA_BYTES_FOR(i), each))
			return 0;
	return is_untouched(arena + DIGITS_ARENA_BYTES_FOR(threads), BEHIND);
}

static int run(const struct digits_parallel *parallel)
{
	char *out = (char *)memory(DIGITS_OUTPUT_0_BYTES);
	int threads = parallel ? THREADS : 1;
	char *arena = (char *)memory(DIGITS_ARENA_BYTES_FOR(threads) + BEHIND);
	const void *inputs[] = { input };
	void *outputs[] = { out };
	int bad = parallel ? digits_run_parallel(inputs, outputs, arena, parallel)
			   : digits_run(inputs, outputs, arena);

	if (!bad)
		bad = memcmp(out, first, sizeof first) != 0 || !keeps_to_memory(arena, threads);
	free(out);
	free(arena);
	return bad;
}

static void *user(void *bad)
{
	*(int *)bad = run(NULL);
	return NULL;
}

static int many_at_once(void)
{
	pthread_t thread[USERS];
	int bad[USERS], all = 0, i;

	for (i = 0; i < USERS; i++)
		pthread_create(&thread[i], NULL, user, &bad[i]);
	for (i = 0; i < USERS; i++) {
		pthread_join(thread[i], NULL);
		all |= bad[i];
	}
	return all;
}

#ifdef _OPENMP
static void omp_run(void *pool, void (*fn)(void *arg, int worker, int workers), void *arg)
{
	(void)pool;
#pragma omp parallel num_threads(THREADS)
	fn(arg, omp_get_thread_num(), omp_get_num_threads());
}

static void omp_wait(void *pool)
{
	(void)pool;
#pragma omp barrier
}
#endif

static int parallel(void)
{
	struct ht_threads *t = ht_threads_new(THREADS);
	struct digits_parallel p = { THREADS, t, ht_threads_run, ht_threads_barrier };
	int bad = !t || run(&p);

	p.barrier = NULL;
	bad |= run(&p) != DIGITS_E_THREADS;
	ht_threads_free(t);
#ifdef _OPENMP
	p.run = omp_run;
	p.barrier = omp_wait;
	bad |= run(&p);
#endif
	return bad;
}

/* The caller's rounding and flushing modes do not affect results, and are unchanged afterwards. */
static int modes(void)
{
	const unsigned odd = 0xff80; /* flush to zero, round to zero, denormals are zero, masks */
	unsigned before = _mm_getcsr();
	int bad;

	_mm_setcsr(odd);
	bad = run(NULL) || (_mm_getcsr() & ~0x3fu) != (odd & ~0x3fu);
	_mm_setcsr(before);
	return bad;
}

/* Calls by name, and calls that are refused. */
static int call(void)
{
	struct digits_inputs in;
	struct digits_outputs out;
	char *arena = (char *)memory(DIGITS_ARENA_BYTES + 64);
	int bad;

	in.image = (const uint8_t *)input;
	memset(&out, 0, sizeof out);
	out.digit_logits = (float *)memory(DIGITS_OUTPUT_0_BYTES);
	bad = digits_call(&in, &out, arena) != DIGITS_OK ||
	      memcmp(out.digit_logits, first, sizeof first) != 0 ||
	      digits_call(&in, &out, arena + 4) != DIGITS_E_ARENA ||
	      digits_call(&in, &out, NULL) != DIGITS_E_ARENA || !digits_target() ||
	      digits_metadata[0] != '{' || strcmp(digits_status_text(DIGITS_OK), "done") != 0;
	free(out.digit_logits);
	free(arena);
	return bad;
}

int main(int argc, char **argv)
{
	FILE *in = fopen(argc == 3 ? argv[1] : "", "rb"),
	     *out = fopen(argc == 3 ? argv[2] : "", "rb");

	input = memory(DIGITS_INPUT_0_BYTES);
	if (!in || !out || fread(input, 1, DIGITS_INPUT_0_BYTES, in) != DIGITS_INPUT_0_BYTES ||
		fread(first, 1, sizeof first, out) != sizeof first)
		return 3;
	fclose(in);
	fclose(out);
	if (run(NULL) || many_at_once())
		return 1;
	if (parallel())
		return 2;
	if (call())
		return 4;
	if (modes())
		return 6;
	free(input);
	return 0;
}
