#include "kernel/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- loops: each has twelve independent operations, more than can be in flight at a time ---- */

enum { OPERATIONS = 12 };

#define TWELVE(one)                                                                                \
	one("0") one("1") one("2") one("3") one("4") one("5") one("6") one("7") one("8") one("9")  \
		one("10") one("11")
#define USED                                                                                       \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
		"xmm11", "xmm12"
#define LOOP(name, instructions, begin, one, end)                                                  \
	__attribute__((target(instructions))) static void name(long n)                             \
	{                                                                                          \
		__asm__ volatile(begin "1:\n\t" TWELVE(one) "dec %0\n\tjnz 1b\n\t" end             \
			: "+r"(n)                                                                  \
			:                                                                          \
			: "cc", USED);                                                             \
	}
#define ZERO_SSE(i) "xorps %%xmm" i ", %%xmm" i "\n\t"
#define ZERO_AVX(i) "vxorps %%xmm" i ", %%xmm" i ", %%xmm" i "\n\t"
#define BEGIN_SSE TWELVE(ZERO_SSE) ZERO_SSE("12")
#define BEGIN_AVX TWELVE(ZERO_AVX) ZERO_AVX("12")

#define ADD_SSE(i) "mulps %%xmm12, %%xmm" i "\n\taddps %%xmm12, %%xmm" i "\n\t"
#define ADD_AVX(i) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" i "\n\t"
#define ADD_512(i) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" i "\n\t"
#define DOT_512(i) "vdpbf16ps %%zmm12, %%zmm12, %%zmm" i "\n\t"
#define ADD_F16(i) "vfmadd231ph %%zmm12, %%zmm12, %%zmm" i "\n\t"
#define CONVERT_AVX(i)                                                                             \
	"vcvtps2ph $0, %%ymm" i ", %%xmm" i "\n\tvcvtph2ps %%xmm" i ", %%ymm" i "\n\t"
#define CONVERT_512(i)                                                                             \
	"vcvtps2ph $0, %%zmm" i ", %%ymm" i "\n\tvcvtph2ps %%ymm" i ", %%zmm" i "\n\t"

LOOP(add_sse, "sse2", BEGIN_SSE, ADD_SSE, "")
LOOP(add_avx, "avx2,fma", BEGIN_AVX, ADD_AVX, "vzeroupper")
LOOP(add_512, "avx512f", BEGIN_AVX, ADD_512, "vzeroupper")
LOOP(dot_512, "avx512f,avx512bf16", BEGIN_AVX, DOT_512, "vzeroupper")
LOOP(add_f16, "avx512f,avx512fp16", BEGIN_AVX, ADD_F16, "vzeroupper")
LOOP(convert_avx, "avx2,f16c", BEGIN_AVX, CONVERT_AVX, "vzeroupper")
LOOP(convert_512, "avx512f", BEGIN_AVX, CONVERT_512, "vzeroupper")

/* ---- rounds ---- */

enum { ROUNDS = 25, FEWEST = 5, REPEATS = 4000, LONGEST_NS = 400000000 };

enum work { ADD, DOT, ADD_HALF, CONVERT, COPY, READ, WORKS };

struct measuring {
	void (*loop[COPY])(long n); /* NULL: the machine lacks the instructions */
	char *memory; /* larger than all caches; copies go within the first 2 x `copied` bytes */
	size_t copied, read, bytes; /* per round; bytes: of `memory` */
	double ns[WORKS][ROUNDS];   /* per unit of work */
	int rounds;
	const void *volatile found; /* volatile, so that the compiler keeps the search */
};

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The memory has no 2, so the search reads all of it.  It has the same speed with sanitizers. */
static void look_for_a_two(struct measuring *m, const char *from)
{
	m->found = memchr(from, 2, m->read);
}

static void work(struct measuring *m, enum work w)
{
	if (w == COPY)
		memcpy(m->memory, m->memory + m->copied, m->copied);
	else if (w == READ)
		look_for_a_two(m, m->memory + m->read * (size_t)m->rounds);
	else
		m->loop[w](REPEATS);
}

/* Units of work: operations, or bytes. */
static double units(const struct measuring *m, enum work w)
{
	return w == COPY   ? 2 * (double)m->copied
	       : w == READ ? (double)m->read
			   : (double)REPEATS * OPERATIONS;
}

static void take_turns(struct measuring *m)
{
	for (int w = 0; w < WORKS; w++) {
		const int64_t start = now();

		if (w < COPY && !m->loop[w])
			continue;
		work(m, (enum work)w);
		m->ns[w][m->rounds] = (double)(now() - start + 1) / units(m, (enum work)w);
	}
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The lower quartile.  Disturbances only ever add time, so up to three quarters of the rounds
 * may be disturbed. */
static double quartile(struct measuring *m, enum work w)
{
	qsort(m->ns[w], (size_t)m->rounds, sizeof m->ns[w][0], by_value);
	return m->ns[w][m->rounds / 4];
}

static void choose_loops(struct measuring *m, const struct ht_target *host)
{
	const struct ht_target *level = ht_targets()[ht_target_level(host)];
	const bool widest = level->vector_bytes == 64;

	m->loop[ADD] = widest ? add_512 : level->fused ? add_avx : add_sse;
	m->loop[DOT] = level->dot_bf16 ? dot_512 : NULL;
	m->loop[ADD_HALF] = level->sums_f16 ? add_f16 : NULL;
	m->loop[CONVERT] = widest ? convert_512 : level->widens_f16 ? convert_avx : NULL;
}

static size_t between(size_t least, int64_t n, size_t most)
{
	return n<(int64_t)least ? least : n>(int64_t) most ? most : (size_t)n;
}

static void choose_sizes(struct measuring *m, const struct ht_target *host)
{
	const size_t mb = (size_t)1 << 20;

	m->copied = between(mb, 2 * host->l2, 4 * mb) / 64 * 64;
	m->read = between(mb, 2 * host->l3 / ROUNDS, 4 * mb) / 64 * 64;
	m->bytes = m->read * ROUNDS > 2 * m->copied ? m->read * ROUNDS : 2 * m->copied;
}

static void measure(struct measuring *m)
{
	const int64_t start = now();

	while (now() - start < 5000000) /* until the clock frequency is that under load */
		m->loop[ADD](REPEATS);
	while (m->rounds < ROUNDS && (m->rounds < FEWEST || now() - start < LONGEST_NS)) {
		take_turns(m);
		m->rounds++;
	}
}

bool ht_measure(const struct ht_target *host, struct ht_measured *out)
{
	struct measuring *m = calloc(1, sizeof *m);
	double add;

	if (!m)
		return false;
	choose_loops(m, host);
	choose_sizes(m, host);
	m->memory = aligned_alloc(4096, (m->bytes + 4095) / 4096 * 4096);
	if (m->memory) {
		memset(m->memory, 1, m->bytes);
		measure(m);
		add = quartile(m, ADD);
		*out = (struct ht_measured){ quartile(m, DOT) / add, quartile(m, ADD_HALF) / add,
			quartile(m, CONVERT) / 2 / add, add / quartile(m, COPY),
			add / quartile(m, READ) };
	}
	free(m->memory);
	free(m);
	return out->copied > 0;
}

/* ---- rates ---- */

/* Share of the copying rate that is left when there is arithmetic too: the ratio of Zen 4's
 * rates, which kernels determined, to its measured 22 bytes a cycle. */
static const double beside_arithmetic = 0.7;
/* Other processes on the machine take at most a third of the memory's rate: the undisturbed rate
 * is up to this factor above the measured one. */
static const double beside_others = 1.25;

static double on_grid(double measured, double described)
{
	const double steps = round(log2(measured / described));

	return described * exp2(steps < -6 ? -6 : steps > 6 ? 6 : steps);
}

/* `time`: in units of a multiply-add. */
static double rate_of(double time, double products, double described)
{
	if (!(time > 0))
		return described;
	return on_grid(products / time, described > 0 ? described : products);
}

void ht_measured_rates(
	const struct ht_target *host, const struct ht_measured *m, struct ht_rates *out)
{
	const struct ht_rates *described = host->rates;
	const double products = described->products / (host->fused ? 1 : 2);
	double copying;

	*out = *described;
	out->dots_bf16 = rate_of(m->dot_bf16, products, described->dots_bf16);
	out->products_f16 = rate_of(m->product_f16, products, described->products_f16);
	if (m->convert > 0)
		out->convert = on_grid(m->convert / products, described->convert);
	copying = on_grid(m->copied * products * beside_arithmetic, described->l3) / described->l3;
	out->l3 *= copying;
	out->weights *= copying;
	out->tensors *= copying;
	out->weight_ps = described->cycle_ps / on_grid(m->read * products * beside_others,
						       described->cycle_ps / described->weight_ps);
}
