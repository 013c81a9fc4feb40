/* Loops that end at a size of the run (struct ht_cut), on every target and in the interpreter.  All
 * results inside the size must be computed.  Results behind it must not be computed, except those
 * that share a vector or a register tile with others.  Sums must not read operands behind their
 * end.  HALFTONE_SEED is the first seed, HALFTONE_KERNELS the number of random kernels of each
 * test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include "base/size_math.h"
#include "kernel/expr.h"
#include "kernel/bound.h"
#include "kernel/reach.h"
#include "tests/unit/backend.h"
#include "tests/unit/random.h"

#include <cmocka.h>

static const struct ht_backend *backend;

/* MOST_TOGETHER: how many indices behind the end may be computed, in up to 4 vectors or in the rows
 * of a register tile. */
enum { MOST_TOGETHER = 128, MOST_DIM = 700 };

struct gen {
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[4];
	struct ht_stage stage;
	struct ht_xb b;
	int64_t size[2];
	struct span {
		int64_t inner, most, unit;
	} span[2]; /* by size: see cut_at() */
};

static bool is_needed(const struct gen *g, const struct ht_dim *d, int64_t i)
{
	for (int c = 0; c < HT_CUTS && d->cut[c].run; c++) {
		int32_t size = d->cut[c].end.size[0] - 1;
		const struct span *s = &g->span[size];

		if (i * s->unit / s->inner % s->most >= g->size[size])
			return false;
	}
	return true;
}

/* Ends a dimension at a size that is at most `most`, rounded up to a multiple of `whole`.  There are `inner` elements for each of it, and
 * an index of the dimension stands for `unit` elements. */
static struct ht_cut cut_at(struct gen *g, int32_t size, struct span s, int64_t whole)
{
	struct ht_size_expr end = ht_size_multiple(1, size);

	g->span[size] = s;
	end = ht_size_product(
		ht_size_floor(end, whole - 1, whole), ht_size_number(whole * s.inner));
	if (whole > 1)
		end.times /= s.unit; /* `unit` divides it */
	else if (s.unit > 1)
		end = ht_size_floor(end, s.unit - 1, s.unit);
	return (struct ht_cut){ end, ht_ceil_div(s.most * s.inner, s.unit) };
}

/* Runs the kernel in two calls, each with a part of the tiles: compiled as `fn`, or in the interpreter if `fn` is NULL. */
static void run(struct gen *g, ht_kernel_fn *fn, void *const *data)
{
	int64_t tiles = ht_kernel_tiles(&g->k), half = tiles / 2;
	_Alignas(64) char scratch[64];

	assert_int_equal(ht_kernel_scratch(&g->k), 0);
	for (int i = 0; i < 2; i++) {
		int64_t from = i ? half : 0, to = i ? tiles : half;

		assert_int_equal(fn ? fn(data, g->size, from, to, scratch)
				    : ht_interpret(&g->k, data, g->size, from, to, scratch),
			0);
	}
}

static void begin(struct gen *g, uint64_t seed)
{
	memset(g, 0, sizeof *g);
	state = seed * 0x9e3779b97f4a7c15u | 1;
	ht_arena_init(&g->arena, &g->unwind);
	g->k = (struct ht_kernel){
		.buffer = g->buffer, .params = 2, .stage = &g->stage, .stages = 1
	};
	g->stage.vec = -1;
	ht_xb_init(&g->b, &g->arena, &g->stage);
}

static void add_buffer(struct gen *g, enum ht_buffer_kind kind, int64_t count)
{
	g->buffer[g->k.buffers++] = (struct ht_kernel_buffer){ kind, HT_F32, count };
	g->k.args++;
}

/* A dimension with one end, by g->size[1], or with a second one by g->size[0], as if it merged two open dimensions.  With `tiled` it may
 * be a grid dimension. */
static struct ht_dim make_dim(struct gen *g, bool tiled)
{
	int64_t most[2] = { 1 + below(6), 1 + below(60) }, inner = chance(50) ? 1 : 1 + below(5);
	struct ht_dim d = { .grid = -1, .unroll = 1 };
	bool outer = chance(50);
	int64_t runs = outer ? most[0] : chance(30) ? 1 + below(4) : 1;
	int64_t unit = runs == 1 && chance(50) ? 1 + below(8) : 1;

	d.extent = ht_ceil_div(most[1] * inner, unit) * runs;
	for (int i = 0; i < 2; i++)
		g->size[i] = below((int)most[i] + 1);
	if (outer)
		d.cut[0] = cut_at(g, 0, (struct span){ most[1] * inner, most[0], 1 }, 1);
	d.cut[outer] = cut_at(g, 1, (struct span){ inner, most[1], unit }, 1);
	if (tiled && chance(70)) {
		d.grid = 0;
		d.step = 1 + below((int)d.extent);
		g->k.grid_dims = 1;
		g->k.grid[0] = ht_ceil_div(d.extent, d.step);
	}
	return d;
}

/* ---- stores ---- */

static void make_store(struct gen *g, uint64_t seed)
{
	struct ht_stage *s = &g->stage;
	int32_t at, x;

	begin(g, seed);
	s->dims = 2;
	s->dim[0] = make_dim(g, true);
	s->dim[1] = (struct ht_dim){ .extent = 1 + below(40), .grid = -1, .unroll = 1 };
	if (chance(40)) { /* the dimension that ends is the vectorised one, or else the other one */
		s->dim[1].grid = s->dim[0].grid;
		struct ht_dim d = s->dim[0];
		s->dim[0] = (struct ht_dim){ .extent = s->dim[1].extent, .grid = -1, .unroll = 1 };
		s->dim[1] = d;
	}
	s->vec = chance(80) ? 1 : -1;
	add_buffer(g, HT_BUFFER_OUT, s->dim[0].extent * s->dim[1].extent);
	at = ht_xadd(
		&g->b, ht_xmuli(&g->b, ht_xdim(&g->b, 0), s->dim[1].extent), ht_xdim(&g->b, 1));
	x = ht_xcvt(&g->b, HT_F32, ht_xaddi(&g->b, at, 1));
	ht_xstore(&g->b, 0, at, x);
}

/* The number of elements of the result that the kernel reaches at these sizes; the result has
 * `n`. */
static int64_t reached(const struct gen *g, int64_t n)
{
	const int64_t least[2] = { 0, 0 }, most[2] = { g->span[0].most, g->span[1].most };
	const struct ht_reach_sizes sizes = { least, most, 2 };
	struct ht_kernel_reach r;
	int64_t product;

	if (!ht_kernel_reach(&g->k, 0, &sizes, &r))
		return n;
	assert_true(ht_size_checked(&r.of, g->size, &product));
	return product + r.add;
}

/* Checks that nothing is stored behind the reached elements. */
static void check_reach(const struct gen *g, const float *out, int64_t n)
{
	for (int64_t i = reached(g, n); i < n; i++)
		assert_true(i >= 0 && out[i] == 0);
}

static void check_store(struct gen *g, ht_kernel_fn *fn)
{
	const struct ht_dim *d = g->stage.dim;
	int64_t n = d[0].extent * d[1].extent;
	float *out = ht_alloc_array(&g->arena, (size_t)n, sizeof *out);
	void *data[1] = { out };

	memset(out, 0, (size_t)n * sizeof *out);
	run(g, fn, data);
	for (int64_t i = 0; i < n; i++) {
		bool needed = is_needed(g, &d[0], i / d[1].extent) &&
			      is_needed(g, &d[1], i % d[1].extent);

		if (needed || out[i] != 0)
			assert_float_equal(out[i], (float)(i + 1), 0);
	}
	check_reach(g, out, n);
}

/* A long dimension with one end: at most MOST_TOGETHER results behind the end are stored. */
static void check_left_out(struct gen *g, ht_kernel_fn *fn)
{
	float *out = ht_alloc_array(&g->arena, MOST_DIM, sizeof *out);
	void *data[1] = { out };
	int64_t stored = 0;

	memset(out, 0, MOST_DIM * sizeof *out);
	run(g, fn, data);
	for (int64_t i = 0; i < MOST_DIM; i++)
		stored += out[i] != 0;
	assert_true(stored >= g->size[0] && stored <= g->size[0] + MOST_TOGETHER);
	check_reach(g, out, MOST_DIM);
	assert_true(reached(g, MOST_DIM) <= g->size[0] + MOST_TOGETHER);
}

static void make_long(struct gen *g, uint64_t seed)
{
	struct ht_stage *s = &g->stage;

	begin(g, seed);
	s->dims = 1;
	s->dim[0] = (struct ht_dim){ .extent = MOST_DIM,
		.grid = -1,
		.unroll = 1,
		.cut = { cut_at(g, 0, (struct span){ 1, MOST_DIM, 1 }, 1) } };
	if (chance(50)) {
		s->dim[0].grid = 0;
		s->dim[0].step = 50;
		g->k.grid_dims = 1;
		g->k.grid[0] = MOST_DIM / 50;
	}
	s->vec = chance(70) ? 0 : -1;
	g->size[0] = below(MOST_DIM + 1);
	add_buffer(g, HT_BUFFER_OUT, MOST_DIM);
	ht_xstore(&g->b, 0, ht_xdim(&g->b, 0), ht_xf(&g->b, 1));
}

/* ---- sums ---- */

enum { SUM_ROWS = 3 };

/* Sums a vector that check_sum() fills with ones up to the end of the loop, which is a multiple of `whole`, and with NaN behind it. */
static void make_sum(struct gen *g, uint64_t seed)
{
	struct ht_stage *s = &g->stage;
	int64_t most = 1 + below(300), whole = chance(50) ? 64 : 1 + below(9);
	int64_t unit = whole % 4 == 0 && chance(50) ? 1 << below(3) : 1;
	int32_t at;

	begin(g, seed);
	g->size[0] = below((int)most + 1);
	s->dims = 2;
	s->dim[0] = (struct ht_dim){ .extent = SUM_ROWS, .grid = -1, .unroll = 1 };
	s->dim[1] = (struct ht_dim){ .extent = ht_ceil_div(most, unit),
		.grid = -1,
		.reduce = true,
		.unroll = 1,
		.cut = { cut_at(g, 0, (struct span){ 1, most, unit }, whole) } };
	s->vec = below(3) - 1;
	add_buffer(g, HT_BUFFER_IN, s->dim[1].extent);
	add_buffer(g, HT_BUFFER_OUT, SUM_ROWS);
	at = ht_xreduce(&g->b, HT_RED_ADD, ht_xload(&g->b, 0, HT_F32, ht_xdim(&g->b, 1)));
	ht_xstore(&g->b, 1, ht_xdim(&g->b, 0), ht_xred(&g->b, at, HT_F32));
}

static void check_sum(struct gen *g, ht_kernel_fn *fn)
{
	const struct ht_dim *d = &g->stage.dim[1];
	int64_t end = ht_cut_end(d, g->size, d->extent);
	float in[512], out[SUM_ROWS];
	void *data[2] = { in, out };

	for (int64_t i = 0; i < d->extent; i++)
		in[i] = i < end ? 1 : NAN;
	run(g, fn, data);
	for (int i = 0; i < SUM_ROWS; i++)
		assert_float_equal(out[i], (float)end, 0);
}

/* ---- products ---- */

enum { A, B, OUT };

/* A product of matrices.  Its sums end at g->size[0], rounded up to a multiple of HT_CUT_ROUND, and its rows at g->size[1].  check_product() fills
 * the matrices with ones up to the end of the sums, and with NaN behind it. */
static void make_product(struct gen *g, uint64_t seed)
{
	int64_t rows = 1 + below(40), columns = 1 + below(70),
		depth = HT_CUT_ROUND * (1 + below(20));
	struct ht_stage *s = &g->stage;
	struct ht_contract *c = &s->contract;
	int32_t at;

	begin(g, seed);
	g->size[0] = below((int)depth + 1);
	g->size[1] = below((int)rows + 1);
	s->kind = HT_STAGE_CONTRACT;
	s->dims = 3;
	s->dim[0] = (struct ht_dim){ .extent = rows,
		.grid = -1,
		.unroll = 1,
		.cut = { cut_at(g, 1, (struct span){ 1, rows, 1 }, 1) } };
	s->dim[1] = (struct ht_dim){ .extent = columns, .grid = -1, .unroll = 1 };
	s->dim[2] = (struct ht_dim){ .extent = depth,
		.grid = -1,
		.reduce = true,
		.unroll = 1,
		.cut = { cut_at(g, 0, (struct span){ 1, depth, 1 }, HT_CUT_ROUND) } };
	s->vec = 1;
	*c = (struct ht_contract){ .m = 0,
		.n = 1,
		.a_buffer = A,
		.b_buffer = B,
		.a_guard = -1,
		.a_step = 1,
		.nr = 16,
		.kp = 1 };
	add_buffer(g, HT_BUFFER_IN, rows * depth);
	add_buffer(g, HT_BUFFER_IN, ht_ceil_div(columns, c->nr) * c->nr * depth);
	add_buffer(g, HT_BUFFER_OUT, rows * columns);
	c->a_row = ht_xmuli(&g->b, ht_xdim(&g->b, 0), depth);
	c->b_base = ht_xi(&g->b, 0);
	at = ht_xadd(&g->b, ht_xmuli(&g->b, ht_xdim(&g->b, 0), columns), ht_xdim(&g->b, 1));
	ht_xstore(&g->b, OUT, at, ht_xred(&g->b, 0, HT_F32));
}

static void check_product(struct gen *g, ht_kernel_fn *fn)
{
	const struct ht_dim *d = g->stage.dim;
	int64_t end = ht_cut_end(&d[2], g->size, d[2].extent), depth = d[2].extent,
		nr = g->stage.contract.nr;
	float *data[3];
	void *const *all = (void *const *)data;

	for (int i = 0; i < 3; i++) {
		data[i] = ht_alloc_array(&g->arena, (size_t)g->buffer[i].count, sizeof **data);
		memset(data[i], 0, (size_t)g->buffer[i].count * sizeof **data);
	}
	for (int64_t i = 0; i < g->buffer[A].count; i++)
		data[A][i] = i % depth < end ? 1 : NAN;
	for (int64_t i = 0; i < g->buffer[B].count; i++)
		data[B][i] = i / nr % depth < end ? 1 : NAN;
	run(g, fn, all);
	for (int64_t i = 0; i < g->size[1] * d[1].extent; i++)
		assert_float_equal(data[OUT][i], (float)end, 0);
}

/* ---- all kinds ---- */

static void check_all(
	void (*make)(struct gen *, uint64_t), void (*check)(struct gen *, ht_kernel_fn *))
{
	const char *first = getenv("HALFTONE_SEED"), *many = getenv("HALFTONE_KERNELS");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1,
		 n = many ? strtoull(many, NULL, 10) : 40;

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
			ht_schedule_contract(*t, &g.k);
			fn = backend_compile(backend, &g.k, *t, &code);
			assert_non_null(fn);
			check(&g, fn);
			backend->free(code);
		}
		ht_arena_release(&g.arena);
	}
}

static void test_stores(void **unused)
{
	(void)unused;
	check_all(make_store, check_store);
}

static void test_left_out(void **unused)
{
	(void)unused;
	check_all(make_long, check_left_out);
}

static void test_sums(void **unused)
{
	(void)unused;
	check_all(make_sum, check_sum);
}

static void test_products(void **unused)
{
	(void)unused;
	check_all(make_product, check_product);
}

/* ---- the reach of a kernel with an operand at an unbounded offset ---- */

/* A stage over 8 indices reads buffer 0 at an index from buffer 1, and then at each index; `with`
 * adds a size to the latter. */
static void read_twice(struct gen *g, bool with)
{
	struct ht_xb *b = &g->b;
	int32_t i, at, told;

	begin(g, 1);
	g->stage.dims = 1;
	g->stage.dim[0] = (struct ht_dim){ .extent = 8, .grid = -1, .unroll = 1 };
	add_buffer(g, HT_BUFFER_IN, 100);
	add_buffer(g, HT_BUFFER_IN, 8);
	add_buffer(g, HT_BUFFER_OUT, 8);
	i = ht_xdim(b, 0);
	at = with ? ht_x2(b, HT_X_ADD, i, ht_xparam(b, 0)) : i;
	told = ht_xload(b, 0, HT_F32, ht_xcvt(b, HT_I64, ht_xload(b, 1, HT_F32, i)));
	ht_xstore(b, 2, i, ht_x2(b, HT_X_ADD, told, ht_xload(b, 0, HT_F32, at)));
}

static bool reach_of(const struct gen *g, int32_t arg, struct ht_kernel_reach *r)
{
	const int64_t least[2] = { 2, 0 }, most[2] = { 64, 1 };

	return ht_kernel_reach(&g->k, arg, &(struct ht_reach_sizes){ least, most, 2 }, r);
}

static void test_unbounded(void **unused)
{
	(void)unused;
	for (int with = 0; with < 2; with++) {
		struct ht_kernel_reach r;
		struct gen g;

		read_twice(&g, with);
		assert_false(reach_of(&g, 0, &r));
		ht_arena_release(&g.arena);
	}
}

/* i - i / max(2, size) * 2 is no remainder: if the size is 64, it is i. */
static void test_other_divisor(void **unused)
{
	struct ht_kernel_reach r;
	struct gen g;
	struct ht_xb *b = &g.b;
	int32_t i, two, size, times;

	(void)unused;
	begin(&g, 1);
	g.stage.dims = 1;
	g.stage.dim[0] = (struct ht_dim){ .extent = 64, .grid = -1, .unroll = 1 };
	add_buffer(&g, HT_BUFFER_OUT, 200);
	i = ht_xdim(b, 0);
	two = ht_xi(b, 2);
	size = ht_xparam(b, 0);
	times = ht_x2(b, HT_X_DIV, i, ht_x2(b, HT_X_MAX, size, two));
	times = ht_x2(b, HT_X_SUB, i, ht_x2(b, HT_X_MUL, times, two));
	ht_xstore(b, 0, ht_x2(b, HT_X_ADD, times, size), ht_xcvt(b, HT_F32, i));
	if (reach_of(&g, 0, &r))
		assert_true(r.of.times * 64 + r.add >= 64 + 64);
	ht_arena_release(&g.arena);
}

/* A kernel without parameters reads 5 elements in distances of 3, whatever the sizes are. */
static void test_constant(void **unused)
{
	const struct ht_reach_sizes none = { NULL, NULL, 0 };
	struct ht_kernel_reach r;
	struct gen g;
	struct ht_xb *b = &g.b;
	int32_t i;

	(void)unused;
	begin(&g, 1);
	g.stage.dims = 1;
	g.stage.dim[0] = (struct ht_dim){ .extent = 5, .grid = -1, .unroll = 1 };
	add_buffer(&g, HT_BUFFER_IN, 100);
	add_buffer(&g, HT_BUFFER_OUT, 5);
	i = ht_xdim(b, 0);
	ht_xstore(b, 1, i, ht_xload(b, 0, HT_F32, ht_xmuli(b, i, 3)));
	assert_true(reach_of(&g, 0, &r));
	assert_int_equal(r.of.times, 0);
	assert_int_equal(r.add, 4 * 3 + 1);
	assert_true(ht_kernel_reach(&g.k, 0, &none, &r));
	assert_int_equal(r.add, 4 * 3 + 1);
	ht_arena_release(&g.arena);
}

enum { MOST_LINES = 64, LONGEST_LINE = 40 };

/* Reads elements (i + dy, j + dx) of lines that are as long as size 1, where there are such elements. */
static void read_lines(struct gen *g, int64_t dy, int64_t dx)
{
	struct ht_xb *b = &g->b;
	int32_t i, j, inside, size[2], offset, zero;

	begin(g, 2);
	g->stage.dims = 2;
	g->stage.dim[0] = (struct ht_dim){ .extent = MOST_LINES, .grid = -1, .unroll = 1 };
	g->stage.dim[1] = (struct ht_dim){ .extent = LONGEST_LINE, .grid = -1, .unroll = 1 };
	for (int k = 0; k < 2; k++) {
		g->stage.dim[k].cut[0] =
			(struct ht_cut){ ht_size_multiple(1, k), g->stage.dim[k].extent };
		size[k] = ht_xparam(b, k);
	}
	add_buffer(g, HT_BUFFER_IN, 2 * MOST_LINES * LONGEST_LINE);
	add_buffer(g, HT_BUFFER_OUT, MOST_LINES * LONGEST_LINE);
	i = ht_xdim(b, 0);
	j = ht_xdim(b, 1);
	offset = ht_xadd(b, ht_xmuli(b, i, LONGEST_LINE), j);
	i = ht_xaddi(b, i, dy);
	j = ht_xaddi(b, j, dx);
	inside = ht_xlt(b, i, size[0]);
	inside = ht_xand(b, inside, ht_xlt(b, j, size[1]));
	zero = ht_xf(b, 0);
	j = ht_xadd(b, ht_xmul(b, i, size[1]), j);
	ht_xstore(b, 1, offset, ht_xload_if(b, 0, HT_F32, j, inside, zero));
}

static void check_lines(const struct gen *g, int64_t dy, int64_t dx)
{
	const int64_t least[2] = { 2, 2 }, most[2] = { MOST_LINES, LONGEST_LINE };
	struct ht_kernel_reach r;

	assert_true(ht_kernel_reach(&g->k, 0, &(struct ht_reach_sizes){ least, most, 2 }, &r));
	for (int64_t h = 2; h <= MOST_LINES; h += 3)
		for (int64_t w = 2; w <= LONGEST_LINE; w += 2) {
			int64_t reach = ht_size_value(&r.of, (int64_t[]){ h, w }) + r.add;

			if (dy < h && dx < w)
				assert_true(reach >= h * w);
			assert_true(reach <= h * w + LONGEST_LINE + 3); /* dx may be added last */
		}
}

/* The guard bounds what is read: not more than the lines of the run, and one more of the longest. */
static void test_lines(void **unused)
{
	(void)unused;
	for (int64_t dy = -1; dy < 4; dy++)
		for (int64_t dx = -1; dx < 4; dx++) {
			struct gen g;

			read_lines(&g, dy, dx);
			check_lines(&g, dy, dx);
			ht_arena_release(&g.arena);
		}
}

/* Bounds of (A + m) * (B + n), brute force: factors are sizes, halved or not, and a number more. */
static void test_products_of_bounds(void **unused)
{
	const int64_t least[2] = { 2, 1 }, most[2] = { 9, 7 };
	const struct ht_reach_sizes sizes = { least, most, 2 };

	(void)unused;
	for (int64_t m = -4; m < 5; m++)
		for (int64_t n = -1; n < 4; n++)
			for (int64_t by = 1; by < 3; by++) {
				struct ht_bound a = ht_bound_of_size(&sizes, 0), p;
				struct ht_bound b = ht_bound_of_size(&sizes, 1);
				struct ht_bound mm = ht_bound_constant(m, m),
						nn = ht_bound_constant(n, n);

				a = ht_bound_divided(&sizes, &a, by);
				a = ht_bound_sum(&sizes, &a, &mm);
				b = ht_bound_sum(&sizes, &b, &nn);
				p = ht_bound_product(&sizes, &a, &b);
				assert_true(p.known);
				for (int64_t x = least[0]; x <= most[0]; x++)
					for (int64_t y = least[1]; y <= most[1]; y++) {
						int64_t is = (x / by + m) * (y + n);
						int64_t up =
							ht_size_value(&p.up, (int64_t[]){ x, y });

						assert_true(p.lo <= is && is <= p.hi);
						assert_true(is <= ht_bound_ceil_div(up, p.divisor) +
									  p.add);
					}
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_stores),
		cmocka_unit_test(test_left_out), cmocka_unit_test(test_sums),
		cmocka_unit_test(test_products), cmocka_unit_test(test_unbounded),
		cmocka_unit_test(test_other_divisor), cmocka_unit_test(test_constant),
		cmocka_unit_test(test_lines), cmocka_unit_test(test_products_of_bounds) };

	backend = backend_open();
	if (!backend)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
