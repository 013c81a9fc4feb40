/* Sums over windows of an image whose height and width are parameters, on every target and in the interpreter.  Loops over results end at
 * the run's sizes, and guards keep windows inside of the image, so the interior of a loop runs without them.  All results of the run must
 * be those of plain loops, no element behind the image may count, and no result behind the run's may be stored, but along lanes.
 * HALFTONE_SEED is the first seed, HALFTONE_KERNELS the number of random kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include "base/size_math.h"
#include "kernel/expr.h"
#include "tests/unit/backend.h"
#include "tests/unit/random.h"

#include <cmocka.h>

static const struct ht_backend *backend;

enum { IMAGE, RESULT };

enum { MOST_TAPS = 5, MOST_SIZE = 23, MOST_CHANNELS = 40 };

/* Along height (0) and width (1). */
struct side {
	int64_t most, size; /* of the image: the largest, and that of the run */
	int64_t taps, stride, before;
	bool halves; /* the padding in front is half of the size instead of `before` */
};

struct gen {
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[2];
	struct ht_stage stage;
	struct ht_xb b;
	struct side side[2];
	int64_t channels;
};

static int64_t padding(const struct side *s)
{
	return s->halves ? s->size / 2 : s->before;
}

static int64_t results(const struct side *s, int64_t size)
{
	return ht_ceil_div(size, s->stride);
}

static struct side make_side(void)
{
	struct side s = { .most = 1 + below(MOST_SIZE),
		.taps = 1 + below(MOST_TAPS),
		.stride = 1 + below(2),
		.halves = chance(30) };

	s.before = below((int)s.taps);
	s.size = chance(20) ? s.most : below((int)s.most + 1);
	return s;
}

/* ---- the kernel ---- */

static void add_dims(struct gen *g)
{
	struct ht_stage *s = &g->stage;

	for (int i = 0; i < 2; i++) {
		const struct side *d = &g->side[i];
		const int64_t extent = results(d, d->most);

		s->dim[i] = (struct ht_dim){ .extent = extent, .grid = -1, .unroll = 1 };
		s->dim[i].cut[0].end =
			ht_size_floor(ht_size_multiple(1, i), d->stride - 1, d->stride);
		s->dim[i].cut[0].run = extent;
		s->dim[3 + i] = (struct ht_dim){
			.extent = d->taps, .grid = -1, .reduce = true, .unroll = 1
		};
		if (chance(60))
			s->dim[3 + i].unroll = (int8_t)d->taps;
	}
	s->dim[2] = (struct ht_dim){ .extent = g->channels, .grid = -1, .unroll = 1 };
	s->dim[below(2)].unroll = (int8_t)(1 + below(4));
	s->dims = 5;
	s->vec = below(4) - 1;
	if (chance(50)) {
		s->dim[0].grid = 0;
		s->dim[0].step = 1 + below(4);
		g->k.grid_dims = 1;
		g->k.grid[0] = ht_ceil_div(s->dim[0].extent, s->dim[0].step);
	}
}

/* The position in the image of tap `tap` of result `out`; ands *inside (-1: true) with whether the image has it. */
static int32_t position(struct gen *g, int i, int32_t out, int32_t tap, int32_t *inside)
{
	struct ht_xb *b = &g->b;
	const struct side *s = &g->side[i];
	int32_t size = ht_xparam(b, i), front = ht_xi(b, s->before), x, ok;

	if (s->halves)
		front = ht_xdivi(b, size, 2);
	x = ht_xmuli(b, out, s->stride);
	x = ht_xadd(b, x, tap);
	x = ht_xsub(b, x, front);
	ok = ht_xle(b, ht_xi(b, 0), x);
	ok = ht_xand(b, ok, ht_xlt(b, x, size));
	*inside = *inside < 0 ? ok : ht_xand(b, *inside, ok);
	return x;
}

static int32_t offset(struct gen *g, int32_t h, int32_t w, int32_t line)
{
	struct ht_xb *b = &g->b;
	int32_t pixel = ht_xadd(b, ht_xmul(b, h, line), w);

	return ht_xadd(b, ht_xmuli(b, pixel, g->channels), ht_xdim(b, 2));
}

static void make(struct gen *g, uint64_t seed)
{
	struct ht_xb *b = &g->b;
	int32_t x[2], inside = -1, at, sum;

	memset(g, 0, sizeof *g);
	state = seed * 0x9e3779b97f4a7c15u | 1;
	ht_arena_init(&g->arena, &g->unwind);
	g->channels = 1 + below(MOST_CHANNELS);
	for (int i = 0; i < 2; i++)
		g->side[i] = make_side();
	g->k = (struct ht_kernel){ .buffer = g->buffer,
		.buffers = 2,
		.args = 2,
		.params = 2,
		.stage = &g->stage,
		.stages = 1 };
	g->buffer[IMAGE] = (struct ht_kernel_buffer){ HT_BUFFER_IN, HT_F32,
		g->side[0].most * g->side[1].most * g->channels };
	g->buffer[RESULT] = (struct ht_kernel_buffer){ HT_BUFFER_OUT, HT_F32,
		results(&g->side[0], g->side[0].most) * results(&g->side[1], g->side[1].most) *
			g->channels };
	add_dims(g);
	ht_xb_init(b, &g->arena, &g->stage);
	for (int i = 0; i < 2; i++)
		x[i] = position(g, i, ht_xdim(b, i), ht_xdim(b, 3 + i), &inside);
	at = offset(g, x[0], x[1], ht_xparam(b, 1));
	at = ht_xload_if(b, IMAGE, HT_F32, at, inside, ht_xf(b, 0));
	sum = ht_xred(b, ht_xreduce(b, HT_RED_ADD, at), HT_F32);
	at = offset(g, ht_xdim(b, 0), ht_xdim(b, 1), ht_xi(b, g->stage.dim[1].extent));
	ht_xstore(b, RESULT, at, sum);
}

/* ---- what it must compute ---- */

static float expected(const struct gen *g, const float *image, int64_t h, int64_t w, int64_t c)
{
	const struct side *s = g->side;
	float sum = 0;

	for (int64_t i = 0; i < s[0].taps; i++)
		for (int64_t k = 0; k < s[1].taps; k++) {
			int64_t y = h * s[0].stride + i - padding(&s[0]);
			int64_t x = w * s[1].stride + k - padding(&s[1]);

			if (y >= 0 && y < s[0].size && x >= 0 && x < s[1].size)
				sum += image[(y * s[1].size + x) * g->channels + c];
		}
	return sum;
}

/* Runs the kernel in two calls: compiled as `fn`, or in the interpreter if `fn` is NULL. */
static void run(const struct gen *g, ht_kernel_fn *fn, void *const *data)
{
	const int64_t tiles = ht_kernel_tiles(&g->k),
		      size[2] = { g->side[0].size, g->side[1].size };
	_Alignas(64) char scratch[64];

	for (int i = 0; i < 2; i++) {
		int64_t from = i ? tiles / 2 : 0, to = i ? tiles : tiles / 2;

		assert_int_equal(fn ? fn(data, size, from, to, scratch)
				    : ht_interpret(&g->k, data, size, from, to, scratch),
			0);
	}
}

static void check(struct gen *g, ht_kernel_fn *fn)
{
	const int64_t n = g->buffer[IMAGE].count, lines = g->stage.dim[0].extent,
		      line = g->stage.dim[1].extent;
	const int64_t pixels = g->side[0].size * g->side[1].size;
	const int64_t h_end = results(&g->side[0], g->side[0].size),
		      w_end = results(&g->side[1], g->side[1].size);
	float *image = ht_alloc_array(&g->arena, (size_t)n, sizeof *image);
	float *out = ht_alloc_array(&g->arena, (size_t)g->buffer[RESULT].count, sizeof *out);
	void *data[2] = { image, out };

	for (int64_t i = 0; i < n; i++)
		image[i] = i < pixels * g->channels ? (float)(1 + below(9)) : NAN;
	for (int64_t i = 0; i < g->buffer[RESULT].count; i++)
		out[i] = -1;
	run(g, fn, data);
	for (int64_t h = 0; h < lines; h++)
		for (int64_t w = 0; w < line; w++)
			for (int64_t c = 0; c < g->channels; c++) {
				float is = out[(h * line + w) * g->channels + c];
				bool behind = (h >= h_end && g->stage.vec != 0) ||
					      (w >= w_end && g->stage.vec != 1);

				if (h < h_end && w < w_end)
					assert_float_equal(is, expected(g, image, h, w, c), 0);
				else if (behind)
					assert_float_equal(is, -1, 0);
			}
}

static void test_windows(void **unused)
{
	const char *first = getenv("HALFTONE_SEED"), *many = getenv("HALFTONE_KERNELS");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1,
		 n = many ? strtoull(many, NULL, 10) : 12;

	(void)unused;
	for (uint64_t i = seed; i < seed + n; i++) {
		struct gen g;

		make(&g, i);
		ht_kernel_verify(&g.k);
		check(&g, NULL);
		for (const struct ht_target *const *t = ht_targets(); *t; t++) {
			struct ht_code *code = NULL;
			ht_kernel_fn *fn;

			if (!backend_runs(*t))
				continue;
			fn = backend_compile(backend, &g.k, *t, &code);
			assert_non_null(fn);
			check(&g, fn);
			backend->free(code);
		}
		ht_arena_release(&g.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_windows) };

	backend = backend_open();
	if (!backend)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
