/* The speed of one contraction on one thread, by register tile; kernel/schedule.c's cost model is
 * compared with it.
 *
 *   build/bench/contract [--target NAME] [--bf16] [--tile ROWS COLUMNS] M N K [TAPS]
 *
 * TAPS 9: a 3 by 3 convolution over a square map of M pixels with K channels.  Prints multiply-adds
 * per nanosecond for the schedule's own choice and for every other width of panel and height. */
#include "backend/backend.h"
#include "kernel/expr.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SLICES = 256 };

struct problem {
	const struct ht_target *t;
	const struct ht_backend *backend;
	enum ht_dtype dtype;
	int64_t m, n, k, taps;
	int64_t m_step, n_step; /* of a tile; 0: the schedule's */
	void *a, *b;
	float *c;
};

/* The time of this thread on a processor. */
static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The address and guard of row m at tap q. */
static void address(const struct problem *p, struct ht_xb *b, struct ht_contract *c)
{
	int64_t side = (int64_t)sqrt((double)p->m);
	int32_t m = ht_xdim(b, 0), y, x, inside[4], zero = ht_xi(b, 0), limit = ht_xi(b, side);

	if (p->taps == 1) {
		c->a_row = ht_xmul(b, m, ht_xi(b, p->k));
		return;
	}
	y = ht_xadd(b, ht_xfloordiv(b, m, limit), ht_xdim(b, 2));
	x = ht_xadd(b, ht_xfloormod(b, m, limit), ht_xdim(b, 3));
	y = ht_xadd(b, y, ht_xi(b, -1));
	x = ht_xadd(b, x, ht_xi(b, -1));
	inside[0] = ht_xle(b, zero, y);
	inside[1] = ht_xlt(b, y, limit);
	inside[2] = ht_xle(b, zero, x);
	inside[3] = ht_xlt(b, x, limit);
	c->a_guard = inside[0];
	for (int i = 1; i < 4; i++)
		c->a_guard = ht_xand(b, c->a_guard, inside[i]);
	c->a_row = ht_xmul(b, ht_xadd(b, ht_xmul(b, y, limit), x), ht_xi(b, p->k));
}

/* The time of a run: the sum of the least times of up to MOST_SLICES slices of its tiles. */
static double time_of(const struct problem *p, ht_kernel_fn *f, int64_t tiles)
{
	const int64_t slices = tiles < MOST_SLICES ? tiles : MOST_SLICES;
	double best[MOST_SLICES], sum = 0;
	const double start = seconds();

	for (int i = 0; i < 5 || (seconds() - start < 0.3 && i < 1000); i++)
		for (int64_t s = 0; s < slices; s++) {
			double t = seconds();

			f((void *[]){ p->a, p->b, p->c }, NULL, tiles * s / slices,
				tiles * (s + 1) / slices, NULL);
			t = seconds() - t;
			best[s] = i == 0 || t < best[s] ? t : best[s];
		}
	for (int64_t s = 0; s < slices; s++)
		sum += best[s];
	return sum;
}

/* Multiply-adds per nanosecond; mr 0: with the schedule's tile. */
static double measure(const struct problem *p, int32_t nr, int32_t kp, int32_t mr, int64_t m_step,
	int64_t n_step, struct ht_arena *arena)
{
	int64_t m_tiles = (p->m + m_step - 1) / m_step, n_tiles = (p->n + n_step - 1) / n_step;
	int64_t packed = (p->n + nr - 1) / nr * nr * p->taps * ((p->k + kp - 1) / kp * kp);
	struct ht_kernel_buffer buffer[3] = { { HT_BUFFER_IN, p->dtype, p->m * p->k + 64 },
		{ HT_BUFFER_IN, p->dtype, packed }, { HT_BUFFER_OUT, HT_F32, p->m * p->n } };
	struct ht_stage stage = {
		.kind = HT_STAGE_CONTRACT, .dims = p->taps == 1 ? 3 : 5, .vec = 1
	};
	struct ht_kernel k = { .buffer = buffer,
		.buffers = 3,
		.args = 3,
		.stage = &stage,
		.stages = 1,
		.grid_dims = 2,
		.grid = { m_tiles, n_tiles } };
	const struct ht_kernel *kernel = &k;
	double best;
	ht_kernel_fn **entry;
	struct ht_code *code;
	struct ht_xb b;

	stage.dim[0] = (struct ht_dim){ .extent = p->m, .grid = 0, .step = m_step };
	stage.dim[1] = (struct ht_dim){ .extent = p->n, .grid = 1, .step = n_step };
	for (int i = 2; i < stage.dims; i++)
		stage.dim[i] = (struct ht_dim){
			.extent = i == stage.dims - 1 ? p->k : 3, .grid = -1, .reduce = true
		};
	ht_xb_init(&b, arena, &stage);
	stage.contract = (struct ht_contract){ .m = 0,
		.n = 1,
		.a_buffer = 0,
		.b_buffer = 1,
		.a_guard = -1,
		.a_step = 1,
		.b_base = ht_xi(&b, 0),
		.nr = nr,
		.kp = kp };
	address(p, &b, &stage.contract);
	ht_xstore(&b, 2, ht_xadd(&b, ht_xmul(&b, ht_xdim(&b, 0), ht_xi(&b, p->n)), ht_xdim(&b, 1)),
		ht_xred(&b, 0, HT_F32));
	ht_schedule_contract(p->t, &k);
	if (mr)
		stage.contract.mr = mr;
	ht_kernel_verify(&k);
	if (p->backend->compile(&kernel, 1, p->t, &(struct ht_code_how){ 0 }, 1, NULL, NULL, &code,
		    &entry) != HT_OK)
		return 0;
	best = time_of(p, entry[0], m_tiles * n_tiles);
	p->backend->free(code);
	return (double)(p->m * p->n * p->k * p->taps) / best * 1e-9;
}

/* Numbers of one to two: products of zeros take less power, and may be faster for that. */
static void fill(enum ht_dtype t, void *to, size_t bytes)
{
	const size_t each = ht_dtype_info(t)->bytes;

	for (size_t i = 0; i < bytes / each; i++) {
		const uint32_t bits = 0x3f800000U | (uint32_t)(i * 2654435761U) >> 9;

		memcpy((char *)to + i * each, (const char *)&bits + 4 - each, each);
	}
}

static int run(struct problem *p)
{
	int lanes = p->t->vector_bytes / 4;
	struct ht_unwind unwind;
	struct ht_arena arena;
	int64_t m_step, n_step;
	int32_t nr, kp;

	ht_arena_init(&arena, &unwind);
	size_t bytes = (size_t)((p->m + 64) * p->k * 4 + 4096),
	       b_bytes = (size_t)((p->n + 128) * (p->k + 2) * p->taps * 4);
	p->a = ht_alloc(&arena, bytes + 64);
	p->b = ht_alloc(&arena, b_bytes + 64);
	p->c = ht_alloc(&arena, (size_t)(p->m * p->n * 4 + 128));
	p->a = (void *)(((uintptr_t)p->a + 63) & ~(uintptr_t)63);
	p->b = (void *)(((uintptr_t)p->b + 63) & ~(uintptr_t)63);
	p->c = (void *)(((uintptr_t)p->c + 63) & ~(uintptr_t)63);
	fill(p->dtype, p->a, bytes);
	fill(p->dtype, p->b, b_bytes);
	ht_schedule_packing(p->t, p->dtype, p->m, p->n, p->k * p->taps, &nr, &kp);
	ht_schedule_tiles(p->t, p->dtype, p->m, p->n, p->k * p->taps, nr, false, &m_step, &n_step);
	m_step = p->m_step ? p->m_step : m_step;
	n_step = p->n_step ? ht_ceil_div(p->n_step, nr) * nr : n_step;
	printf("%s m %ld n %ld k %ld taps %ld: nr %d, tile %ld x %ld: %.1f a ns\n",
		ht_dtype_info(p->dtype)->tag, (long)p->m, (long)p->n, (long)p->k, (long)p->taps, nr,
		(long)m_step, (long)n_step, measure(p, nr, kp, 0, m_step, n_step, &arena));
	const bool matrices = p->dtype == HT_BF16 && p->t->matrix_bf16;
	const int step = matrices ? p->t->matrix_rows / 2 : 1;

	for (int nv = 1; nv <= (matrices ? 2 : 4); nv++) {
		printf("  nr %2d:", nv * lanes);
		for (int mr = step; mr <= (matrices ? 4 * step : 16); mr += step) {
			if (mr > p->m || (!matrices && (mr * nv > 28 || mr * nv < 4)))
				continue;
			int64_t ms = (m_step + mr - 1) / mr * mr,
				ns = (n_step + nv * lanes - 1) / (nv * lanes) * nv * lanes;
			printf(" %d:%.1f", mr, measure(p, nv * lanes, kp, mr, ms, ns, &arena));
		}
		printf("\n");
	}
	ht_arena_release(&arena);
	return 0;
}

int main(int argc, char **argv)
{
	const char *path = getenv("HALFTONE_BACKEND");
	void *so = dlopen(
		path ? path : "build/lib/halftone/halftone-backend.so", RTLD_NOW | RTLD_LOCAL);
	struct problem p = { .t = ht_target_host(),
		.backend = so ? dlsym(so, "ht_backend") : NULL,
		.dtype = HT_F32,
		.taps = 1 };
	int at = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--bf16") == 0)
			p.dtype = HT_BF16;
		else if (strcmp(argv[at], "--target") == 0 && at + 1 < argc)
			p.t = ht_target_named(argv[++at]);
		else if (strcmp(argv[at], "--tile") == 0 && at + 2 < argc) {
			p.m_step = atol(argv[++at]);
			p.n_step = atol(argv[++at]);
		}
	}
	if (p.t && !ht_target_runs(p.t->name)) { /* also requests the state of tiles */
		fprintf(stderr, "contract: this machine does not run code for %s\n", p.t->name);
		return 2;
	}
	if (!p.backend || !p.t || argc - at < 3) {
		fprintf(stderr,
			"usage: contract [--target NAME] [--bf16] [--tile ROWS COLUMNS] M N K [9]\n");
		return 2;
	}
	p.m = atol(argv[at]);
	p.n = atol(argv[at + 1]);
	p.k = atol(argv[at + 2]);
	p.taps = argc - at > 3 ? atol(argv[at + 3]) : 1;
	if (p.m < 1 || p.n < 1 || p.k < 1 || (p.taps != 1 && p.taps != 9))
		return 2;
	return run(&p);
}
