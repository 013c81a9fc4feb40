/* Generated code of contractions against the interpreter: random shapes, taps, strides, guards,
 * types and epilogues.  Operands are small whole numbers, so sums are exact in any order.
 * HALFTONE_SEED sets the first seed, HALFTONE_KERNELS the number of kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include "base/cpu.h"
#include "base/size_math.h"
#include "kernel/expr.h"
#include "tests/unit/amx.h"
#include "tests/unit/backend.h"
#include "tests/unit/random.h"
#include "tests/unit/sanitized.h"

#include <cmocka.h>

static const struct ht_backend *backend;

enum { A, B, BIAS, OTHER, OUT, FLAGS, TURN, WIDE, ALL };
enum { BUFFERS = WIDE }; /* that are passed to a kernel */

/* A convolution, or a matrix product if the window is 1 by 1. */
struct gen {
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[ALL];
	struct ht_stage stage;
	struct ht_xb b;
	int64_t batch, h, w, oh, ow, n, depth, kh, kw, step, pad;
	int64_t plane; /* distance of neighbouring depths in elements; 1: depth is innermost */
	bool held;     /* pairs of A are held as such, and plane counts them */
	int64_t rows;  /* a size of the run, if the rows end there */
	enum ht_dtype t;
	struct ht_pack pack;
};

static void sizes(struct gen *g)
{
	static const int64_t columns[] = { 1, 3, 8, 10, 16, 31, 32, 48, 64, 70, 100 };
	static const int64_t depths[] = { 1, 2, 3, 4, 7, 8, 16, 19, 33, 64, 74, 2601 };

	g->batch = 1 + below(3);
	g->n = columns[below(HT_COUNT(columns))];
	g->depth = depths[below(HT_COUNT(depths))];
	if (g->depth > 100)
		g->batch = 1;
	g->oh = g->depth > 100 ? 1 : 1 + below(6);
	g->ow = 1 + below(9);
	g->kh = g->kw = g->step = 1;
	g->pad = 0;
	if (g->depth < 100 && chance(60)) {
		g->kh = 1 + below(3);
		g->kw = 1 + below(3);
		g->step = 1 + below(2);
		g->pad = below(3);
	}
	g->h = (g->oh - 1) * g->step + 1 + below(2);
	g->w = (g->ow - 1) * g->step + 1 + below(2);
	if (g->pad == 0) {
		g->h += g->kh - 1;
		g->w += g->kw - 1;
	}
}

/* Rows are all pixels of all images, or the pixels of a line, with loops over lines and images
 * around them. */
static void make_dims(struct gen *g, bool flat)
{
	struct ht_stage *s = &g->stage;
	int64_t m_step, n_step;
	int m, d = 0;

	if (!flat) {
		s->dim[d++] = (struct ht_dim){ .extent = g->batch, .grid = -1, .unroll = 1 };
		s->dim[d++] = (struct ht_dim){ .extent = g->oh, .grid = -1, .unroll = 1 };
	}
	m = d;
	s->dim[d++] = (struct ht_dim){
		.extent = flat ? g->batch * g->oh * g->ow : g->ow, .grid = -1, .unroll = 1
	};
	s->contract.m = m;
	s->contract.n = d;
	s->vec = d;
	s->dim[d++] = (struct ht_dim){ .extent = g->n, .grid = -1, .unroll = 1 };
	if (g->kh > 1 || g->kw > 1) {
		s->dim[d++] =
			(struct ht_dim){ .extent = g->kh, .grid = -1, .reduce = true, .unroll = 1 };
		s->dim[d++] =
			(struct ht_dim){ .extent = g->kw, .grid = -1, .reduce = true, .unroll = 1 };
	}
	s->dim[d++] =
		(struct ht_dim){ .extent = g->depth, .grid = -1, .reduce = true, .unroll = 1 };
	s->dims = d;
	if (chance(60)) {
		const int by_panels = chance(50); /* the tiles of a panel follow each other */

		m_step = 1 + below(48);
		n_step = s->contract.nr * (1 + (by_panels ? 0 : below(2)));
		s->dim[m].grid = (int8_t)by_panels;
		s->dim[m].step = m_step;
		s->dim[m + 1].grid = (int8_t)!by_panels;
		s->dim[m + 1].step = n_step;
		g->k.grid_dims = 2;
		g->k.grid[by_panels] = (s->dim[m].extent + m_step - 1) / m_step;
		g->k.grid[!by_panels] = (g->n + n_step - 1) / n_step;
	}
}

static int32_t mul(struct gen *g, int32_t a, int64_t k)
{
	return ht_xmul(&g->b, a, ht_xi(&g->b, k));
}

static int32_t add(struct gen *g, int32_t a, int32_t b)
{
	return ht_xadd(&g->b, a, b);
}

static int32_t between(struct gen *g, int32_t x, int64_t end)
{
	return ht_xand(
		&g->b, ht_xle(&g->b, ht_xi(&g->b, 0), x), ht_xlt(&g->b, x, ht_xi(&g->b, end)));
}

static void make_operands(struct gen *g, bool flat, int32_t *image, int32_t *y, int32_t *x)
{
	struct ht_stage *s = &g->stage;
	struct ht_contract *c = &s->contract;
	int32_t m = ht_xdim(&g->b, c->m), iy, ix;
	bool taps = g->kh > 1 || g->kw > 1;
	const int64_t depth = g->held ? g->depth / 2 : g->depth;

	if (flat) {
		*image = ht_xfloordiv(&g->b, m, ht_xi(&g->b, g->oh * g->ow));
		*y = ht_xfloormod(
			&g->b, ht_xfloordiv(&g->b, m, ht_xi(&g->b, g->ow)), ht_xi(&g->b, g->oh));
		*x = ht_xfloormod(&g->b, m, ht_xi(&g->b, g->ow));
	} else {
		*image = ht_xdim(&g->b, 0);
		*y = ht_xdim(&g->b, 1);
		*x = m;
	}
	iy = mul(g, *y, g->step);
	ix = mul(g, *x, g->step);
	if (taps) {
		iy = add(g, iy, ht_xdim(&g->b, c->n + 1));
		ix = add(g, ix, ht_xdim(&g->b, c->n + 2));
	}
	iy = add(g, iy, ht_xi(&g->b, -g->pad));
	ix = add(g, ix, ht_xi(&g->b, -g->pad));
	c->a_guard = -1;
	if (g->pad > 0)
		c->a_guard = ht_xand(&g->b, between(g, iy, g->h), between(g, ix, g->w));
	if (g->plane == 1)
		c->a_row =
			mul(g, add(g, mul(g, add(g, mul(g, *image, g->h), iy), g->w), ix), depth);
	else
		c->a_row = add(g, mul(g, *image, g->plane * depth), add(g, mul(g, iy, g->w), ix));
	c->a_step = g->plane;
	c->b_base = ht_xi(&g->b, 0);
}

static int32_t to_float(struct gen *g, int32_t x)
{
	return g->stage.x[x].dtype == HT_F32 ? x : ht_xcvt(&g->b, HT_F32, x);
}

/* Another tensor, with as many columns or with fewer, which are then padded. */
static int32_t other_operand(struct gen *g, int32_t at, int32_t n)
{
	enum ht_dtype t = g->buffer[OTHER].dtype;
	int32_t zero = ht_xf(&g->b, 0);

	if (chance(50))
		return to_float(g, ht_xload(&g->b, OTHER, t, at));
	zero = t == HT_F32 ? zero : ht_xcvt(&g->b, t, zero);
	return to_float(g, ht_xload_if(&g->b, OTHER, t, at,
				   ht_xlt(&g->b, n, ht_xi(&g->b, 1 + below((int)g->n))), zero));
}

/* Clears the flag of the tile where a result is 0, as the sums of columns behind the last one are, or large. */
static void store_flag(struct gen *g, int32_t r)
{
	enum ht_dtype t = g->stage.x[r].dtype;
	int32_t tile = ht_xi(&g->b, 0), odd;

	for (int d = 0; d < g->k.grid_dims; d++)
		tile = ht_xadd(&g->b, ht_xmuli(&g->b, tile, g->k.grid[d]), ht_xgrid(&g->b, d));
	odd = chance(60) ? ht_xeq(&g->b, r, ht_xconst(&g->b, t, 0, 0))
			 : ht_xle(&g->b, ht_xconst(&g->b, t, 90, 90), r);
	ht_xstore_if(&g->b, FLAGS, tile, ht_xconst(&g->b, HT_BOOL, 0, 0), odd);
}

static void make_epilogue(struct gen *g, int32_t image, int32_t y, int32_t x)
{
	struct ht_stage *s = &g->stage;
	int32_t n = ht_xdim(&g->b, s->contract.n), r, at;
	bool ints = g->t == HT_I8 || g->t == HT_U8;

	at = add(g, mul(g, add(g, mul(g, add(g, mul(g, image, g->oh), y), g->ow), x), g->n), n);
	r = ht_xred(&g->b, 0, ints ? HT_I32 : HT_F32);
	if (ints) {
		r = add(g, r, ht_xcvt(&g->b, HT_I32, ht_xload(&g->b, BIAS, HT_F32, n)));
		r = ht_xmax(&g->b, r, ht_xconst(&g->b, HT_I32, 0, 2));
	} else {
		if (chance(60))
			r = add(g, r, ht_xload(&g->b, BIAS, HT_F32, n));
		if (chance(60))
			r = add(g, r, other_operand(g, at, n));
		if (chance(60))
			r = ht_xmax(&g->b, r, ht_xf(&g->b, 0));
	}
	if (chance(50))
		store_flag(g, r);
	if (g->buffer[OUT].dtype != s->x[r].dtype)
		r = ht_xcvt(&g->b, g->buffer[OUT].dtype, r);
	ht_xstore(&g->b, OUT, at, r);
}

/* Leaves B in rows as they lie, not packed.  Rows may be longer than B has columns. */
static void leave_in_rows(struct gen *g)
{
	g->n = g->stage.contract.nr * (1 + below(3));
	g->stage.contract.b_row = g->n + (chance(50) ? below(40) : 0);
}

/* Asks for anything of an argument ahead, or for what is beside it. */
static void ask_ahead(struct gen *g)
{
	struct ht_contract *c = &g->stage.contract;

	for (c->aheads = 0; c->aheads < HT_AHEAD && chance(30); c->aheads++) {
		int32_t at = ht_xi(&g->b, below(1000) - 500);

		for (int d = 0; d < g->k.grid_dims; d++)
			at = add(g, at, mul(g, ht_xgrid(&g->b, d), below(1000) - 500));
		c->ahead[c->aheads] = (struct ht_ahead){ .buffer = chance(50) ? A : OTHER,
			.at = at,
			.pieces = 1 + (chance(50) ? below(200) : 0),
			.step = below(500),
			.count = 1 + below(200) };
	}
}

/* Keeps a panel in a local buffer as F32. */
static void keep_panel(struct gen *g)
{
	g->stage.contract.wide_buffer = WIDE;
	g->buffer[WIDE] = (struct ht_kernel_buffer){ HT_BUFFER_LOCAL, HT_F32,
		g->kh * g->kw * ht_ceil_div(g->depth, g->pack.kp) * g->pack.kp * g->pack.nr };
}

/* The rows end at a size of the run. */
static void cut_rows(struct gen *g)
{
	struct ht_dim *m = &g->stage.dim[g->stage.contract.m];

	m->cut[0] = (struct ht_cut){ ht_size_multiple(1, 0), m->extent };
	m->least = chance(50) ? 1 : m->extent;
	g->k.params = 1;
	g->rows = m->least + below((int)(m->extent - m->least + 1));
}

/* Numbers in pieces, which a matrix unit multiplies.  Packed numbers are pieces of any numbers. */
static void divide_numbers(struct gen *g)
{
	g->stage.contract.pieces = HT_MOST_PIECES;
	g->stage.contract.nr = g->stage.contract.nr > 32 ? 32 : g->stage.contract.nr;
	g->depth = HT_MOST_PIECES * HT_PIECE_DEPTH * (1 + below(3));
	g->kh = g->kw = 1;
	g->pad = 0;
}

static void make_kernel(struct gen *g, uint64_t seed, const struct ht_target *t)
{
	static const enum ht_dtype types[] = { HT_F32, HT_F32, HT_BF16, HT_BF16, HT_F16, HT_I8,
		HT_U8 };
	static const enum ht_dtype floats[] = { HT_F32, HT_BF16, HT_F16 };
	int lanes = t->vector_bytes / 4;
	int32_t image, y, x;
	enum ht_dtype a;
	bool flat;

	memset(g, 0, sizeof *g);
	ht_arena_init(&g->arena, &g->unwind);
	state = seed * 0x9e3779b97f4a7c15u + 12345;
	for (int i = 0; i < 10; i++)
		rnd();
	sizes(g);
	flat = chance(50);
	g->t = types[below(HT_COUNT(types))];
	g->stage.kind = HT_STAGE_CONTRACT;
	g->stage.contract.kp =
		(g->t == HT_BF16 || (g->t == HT_F16 && t->sums_f16)) && chance(70) ? 2 : 1;
	if (g->t == HT_F16 && g->stage.contract.kp == 2)
		g->stage.contract.run = chance(50) ? HT_SHORT_RUN : 8 << below(4);
	g->stage.contract.nr = lanes * (1 + below(4));
	g->stage.contract.mr = 1 + below(t->matrix_rows ? 2 * t->matrix_rows : 8);
	g->stage.contract.a_buffer = A;
	g->stage.contract.b_buffer = B;
	if (t->matrix_rows && g->t == HT_BF16 && g->stage.contract.kp == 2 && !flat && chance(30))
		divide_numbers(g);
	g->plane = 1;
	g->held = g->t == HT_BF16 && g->stage.contract.kp == 2 && !g->stage.contract.pieces &&
		  g->depth % 2 == 0 && chance(40);
	if ((g->stage.contract.kp == 1 || g->held) &&
		chance(g->held ? 70 : 30)) /* planes, sometimes far apart */
		g->plane = g->h * g->w + (chance(20) ? 70000 : 0);
	if (g->stage.contract.kp == 1 && chance(30))
		leave_in_rows(g);
	make_dims(g, flat);
	g->pack = (struct ht_pack){ .src_dtype = g->t == HT_I8 || g->t == HT_U8 ? g->t : HT_F32,
		.dst_dtype = g->t,
		.taps = g->kh * g->kw,
		.depth = g->depth,
		.n = g->n,
		.sq = g->depth * g->n,
		.sk = g->n,
		.sn = 1,
		.nr = g->stage.contract.nr,
		.kp = g->stage.contract.kp,
		.pieces = g->stage.contract.pieces };
	if (g->pack.pieces)
		g->pack.depth /= g->pack.pieces;
	a = g->held                                                                         ? HT_U32
	    : g->t == HT_BF16 && g->stage.contract.kp == 2 && !g->pack.pieces && chance(40) ? HT_F32
											    : g->t;
	g->buffer[A] = (struct ht_kernel_buffer){ HT_BUFFER_IN, a,
		g->batch * (g->plane > 1 ? g->plane : g->h * g->w) * g->depth / (g->held ? 2 : 1) };
	g->buffer[B] = (struct ht_kernel_buffer){ HT_BUFFER_IN, g->t,
		g->stage.contract.b_row ? g->pack.taps * g->depth * g->stage.contract.b_row
					: ht_packed_count(&g->pack) };
	g->buffer[BIAS] = (struct ht_kernel_buffer){ HT_BUFFER_IN, HT_F32, g->n };
	g->buffer[OTHER] = (struct ht_kernel_buffer){ HT_BUFFER_IN, floats[below(3)],
		g->batch * g->oh * g->ow * g->n };
	g->buffer[OUT] = (struct ht_kernel_buffer){ HT_BUFFER_OUT,
		g->t == HT_I8 || g->t == HT_U8 ? HT_I32 : floats[below(3)],
		g->buffer[OTHER].count };
	if (ht_is_low(g->t) && !g->stage.contract.run && !g->stage.contract.pieces &&
		!g->stage.contract.b_row && chance(60))
		keep_panel(g);
	g->k = (struct ht_kernel){ .buffer = g->buffer,
		.buffers = g->stage.contract.wide_buffer ? ALL : BUFFERS,
		.args = BUFFERS,
		.grid_dims = g->k.grid_dims,
		.grid = { g->k.grid[0], g->k.grid[1] },
		.stage = &g->stage,
		.stages = 1 };
	g->buffer[FLAGS] =
		(struct ht_kernel_buffer){ HT_BUFFER_OUT, HT_BOOL, ht_kernel_tiles(&g->k) };
	ht_xb_init(&g->b, &g->arena, &g->stage);
	make_operands(g, flat, &image, &y, &x);
	make_epilogue(g, image, y, x);
	ask_ahead(g);
	if (chance(40))
		cut_rows(g);
	g->buffer[TURN] = (struct ht_kernel_buffer){ HT_BUFFER_IN, HT_I32, 1 };
	if (g->k.grid_dims && !g->stage.contract.wide_buffer && chance(40))
		g->k.turns = 1 + TURN;
}

static void fill(enum ht_dtype t, int least, int64_t n, void *p)
{
	for (int64_t i = 0; i < n; i++) {
		int v = least + below(4 - least);

		if (t == HT_F32)
			((float *)p)[i] = (float)v;
		else if (t == HT_F16)
			((uint16_t *)p)[i] = ht_f32_to_f16((float)v);
		else if (t == HT_BF16)
			((uint16_t *)p)[i] = ht_f32_to_bf16((float)v);
		else if (t == HT_U32) /* a pair */
			((uint32_t *)p)[i] = ht_f32_to_bf16((float)v) |
					     (uint32_t)ht_f32_to_bf16((float)(v + 1)) << 16;
		else if (t == HT_I32)
			((int32_t *)p)[i] = v;
		else
			((int8_t *)p)[i] = (int8_t)v;
	}
}

static bool compare(struct gen *g, const struct ht_target *t, uint64_t seed)
{
	struct ht_code *code = NULL;
	ht_kernel_fn *fn = backend_compile(backend, &g->k, t, &code);
	void *scratch = aligned_alloc(64, (ht_kernel_scratch(&g->k) + 127) / 64 * 64);
	memset(scratch, 0xff, (ht_kernel_scratch(&g->k) + 127) / 64 * 64); /* NaN */
	int64_t tiles = ht_kernel_tiles(&g->k), count = g->buffer[OUT].count;
	size_t size = ht_dtype_info(g->buffer[OUT].dtype)->bytes;
	void *data[BUFFERS], *got = malloc((size_t)count * size + 64), *expect, *source;
	void *flags = malloc((size_t)tiles), *expect_flags;
	bool good = fn != NULL;
	/* Sums of runs stay below 2048, up to which float16 has all whole numbers; sums of many
	 * runs do not, unless signs cancel. */
	const int least = g->stage.contract.run ? 0 : -3;

	for (int i = 0; i < BUFFERS; i++) {
		data[i] = aligned_alloc(64, ((size_t)g->buffer[i].count * 4 + 255) / 64 * 64);
		fill(g->buffer[i].dtype, least, g->buffer[i].count, data[i]);
	}
	if (g->buffer[A].dtype == HT_BF16 ||
		g->stage.contract.run) /* behind the end: no product may use it */
		((uint16_t *)data[A])[g->buffer[A].count] = 0x7fff;
	if (!fn)
		fprintf(stderr, "seed %llu %s: no code\n", (unsigned long long)seed, t->name);
	source = malloc((size_t)(g->pack.taps * g->depth * g->n) * 4);
	fill(g->pack.src_dtype, least, g->pack.taps * g->depth * g->n, source);
	if (!g->pack.pieces && !g->stage.contract.b_row)
		ht_pack_b(&g->pack, source, data[B]);
	memset(data[OUT], 0xa5, (size_t)count * size + 64);
	memset(got, 0xa5, (size_t)count * size + 64);
	memset(data[FLAGS], 1, (size_t)tiles);
	memset(flags, 1, (size_t)tiles);
	assert_int_equal(ht_interpret(&g->k, data, &g->rows, 0, tiles, scratch), 0);
	expect = data[OUT];
	data[OUT] = got;
	expect_flags = data[FLAGS];
	data[FLAGS] = flags;
	if (fn) {
		fn(data, &g->rows, tiles / 2, tiles, scratch);
		fn(data, &g->rows, 0, tiles / 2, scratch);
	}
	for (int64_t i = 0; i < count && good; i++) {
		good = memcmp((char *)got + (size_t)i * size, (char *)expect + (size_t)i * size,
			       size) == 0;
		if (!good && size == 4 && g->buffer[OUT].dtype == HT_F32)
			good = ((float *)got)[i] == ((float *)expect)[i]; /* -0 */
		if (!good && size == 2)
			good = ((((uint16_t *)got)[i] | ((uint16_t *)expect)[i]) & 0x7fff) == 0;
		if (!good)
			fprintf(stderr, "seed %llu %s: element %lld differs\n",
				(unsigned long long)seed, t->name, (long long)i);
	}
	if (good && memcmp((char *)got + (size_t)count * size,
			    (char *)expect + (size_t)count * size, 64) != 0) {
		fprintf(stderr, "seed %llu %s: wrote past the end\n", (unsigned long long)seed,
			t->name);
		good = false;
	}
	if (good && memcmp(flags, expect_flags, (size_t)tiles) != 0) {
		fprintf(stderr, "seed %llu %s: flags differ\n", (unsigned long long)seed, t->name);
		good = false;
	}
	data[OUT] = expect;
	data[FLAGS] = expect_flags;
	for (int i = 0; i < BUFFERS; i++)
		free(data[i]);
	free(flags);
	free(got);
	free(source);
	free(scratch);
	backend->free(code);
	return good;
}

/* With every other seed, a machine that asks for panels and results, and has room for none. */
static struct ht_target variant(const struct ht_target *of, uint64_t seed)
{
	struct ht_target t = *of;

	t.prefetch_panels = seed % 2;
	t.l2 = seed % 2 ? 256 : t.l2;
	return t;
}

static void test_random_contractions(void **unused)
{
	const char *first = getenv("HALFTONE_SEED"), *many = getenv("HALFTONE_KERNELS");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1,
		 n = many ? strtoull(many, NULL, 10) : sanitized_cases(120);
	int bad = 0, kept = 0, turn = 0, rows = 0, ahead = 0;

	(void)unused;
	for (uint64_t i = seed; i < seed + n; i++) {
		for (const struct ht_target *const *t = ht_targets(); *t; t++) {
			const struct ht_target on = variant(*t, i);
			struct gen *g = malloc(sizeof *g);
			struct ht_buf text;

			if (backend_runs(&on)) {
				make_kernel(g, i, &on);
				kept += g->stage.contract.wide_buffer > 0;
				turn += g->k.turns > 0;
				rows += g->stage.contract.b_row > 0;
				ahead += on.prefetch_panels && g->stage.contract.aheads > 0;
				ht_kernel_verify(&g->k);
				if (!compare(g, &on, i)) {
					bad++;
					ht_buf_init(&text, &g->arena);
					ht_kernel_print(&g->k, &text);
					if (first)
						fprintf(stderr, "%.*s\n",
							HT_STR_ARG(ht_buf_str(&text)));
				}
				ht_arena_release(&g->arena);
			}
			free(g);
		}
	}
	assert_int_equal(bad, 0);
	assert_true(first || (kept > 0 && turn > 0 && rows > 0 && ahead > 0));
}

/* AMX, emulated where the machine lacks it. */
static void test_tiles(void **unused)
{
	const char *first = getenv("HALFTONE_SEED");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
	struct ht_target t = *ht_target_named("x86-64-v4+bf16");
	char features[512];
	int bad = 0, divided = 0;

	(void)unused;
	if (!ht_target_runs(t.name))
		skip();
	snprintf(features, sizeof features, "%s,+amx-tile,+amx-bf16", t.features);
	t.features = features;
	t.matrix_rows = 16;
	t.matrix_bf16 = 2;
	if (!ht_cpu_has_amx())
		amx_emulate();
	for (uint64_t i = seed; i < seed + (first ? 1 : 300); i++) {
		struct gen *g = malloc(sizeof *g);

		t.dot_bf16 = i % 2 ? 2 : 0; /* a host with slow dot products does not use them */
		make_kernel(g, i, &t);
		divided += g->stage.contract.pieces > 0;
		if (g->stage.contract.kp == 2)
			bad += !compare(g, &t, i);
		ht_arena_release(&g->arena);
		free(g);
	}
	assert_int_equal(bad, 0);
	assert_true(first || divided > 0);
	assert_true(ht_cpu_has_amx() || first || amx.products > 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_contractions),
		cmocka_unit_test(test_tiles),
	};

	backend = backend_open();
	if (!backend)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
