/* Generated code of loop stages against the interpreter, on random kernels and on special values.
 * HALFTONE_SEED sets the first seed, HALFTONE_KERNELS the number of kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include "kernel/expr.h"
#include "tests/unit/backend.h"
#include "tests/unit/random.h"

#include <cmocka.h>

static const struct ht_backend *backend;

static const enum ht_dtype types[] = { HT_F32, HT_F64, HT_F16, HT_BF16, HT_I8, HT_I16, HT_I32,
	HT_I64, HT_U8, HT_U16, HT_U32, HT_U64, HT_BOOL };

/* ---- making a kernel ---- */

struct gen {
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[12];
	struct ht_stage stage;
	struct ht_xb b;
	int32_t value[64]; /* expressions so far */
	int values;
	bool exact; /* small whole numbers: sums are exact in any order */
	bool fused; /* has a MULADD: not equal on targets without one */
	void *data[12];
};

static int add_buffer(struct gen *g, enum ht_buffer_kind kind, enum ht_dtype t, int64_t count)
{
	g->buffer[g->k.buffers] = (struct ht_kernel_buffer){ kind, t, count };
	g->k.args++;
	return g->k.buffers++;
}

static void make_dims(struct gen *g)
{
	static const int extents[] = { 1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 48, 70, 130 };
	struct ht_stage *s = &g->stage;
	int kept = 1 + below(3), reduced = chance(50) ? 1 + below(3) : 0;
	int64_t total = 1;

	s->dims = kept + reduced;
	for (int d = 0; d < s->dims; d++) {
		int64_t n = extents[below(HT_COUNT(extents))];

		if (total * n > 6000)
			n = 1 + below(3);
		total *= n;
		s->dim[d] = (struct ht_dim){
			.extent = n, .grid = -1, .reduce = d >= kept, .unroll = 1
		};
		if (chance(20))
			s->dim[d].unroll = (int8_t)(1 + below(4));
		if (d < kept && chance(30) && g->k.grid_dims < 2) {
			s->dim[d].grid = (int8_t)g->k.grid_dims;
			s->dim[d].step = chance(50) ? 16 * (1 + below(3)) : 1 + below((int)n);
			g->k.grid[g->k.grid_dims++] = (n + s->dim[d].step - 1) / s->dim[d].step;
		}
	}
	s->vec = chance(10) ? -1 : chance(60) ? kept - 1 : below(s->dims);
}

/* A linear offset with random steps; *count: the number of elements within which it stays. */
static int32_t linear_offset(struct gen *g, int64_t *count)
{
	struct ht_stage *s = &g->stage;
	int32_t x = ht_xi(&g->b, 0);
	int64_t least = 0, most = 0, natural = 1;

	for (int d = s->dims - 1; d >= 0; d--) {
		int64_t step = chance(60)   ? natural
			       : chance(50) ? 0
			       : chance(50) ? 1 + below(3)
					    : -1 - below(2);

		natural *= s->dim[d].extent;
		if (step < 0)
			least += step * (s->dim[d].extent - 1);
		else
			most += step * (s->dim[d].extent - 1);
		x = ht_xadd(&g->b, x, ht_xmul(&g->b, ht_xdim(&g->b, d), ht_xi(&g->b, step)));
	}
	x = ht_xadd(&g->b, x, ht_xi(&g->b, -least));
	*count = most - least + 1;
	if (chance(20)) { /* a reshape: another row length */
		int64_t c = chance(50) ? 16 * (1 + below(3)) : 1 + below(9);
		int32_t q = ht_xfloordiv(&g->b, x, ht_xi(&g->b, c));
		int32_t r = ht_xfloormod(&g->b, x, ht_xi(&g->b, c));

		x = ht_xadd(&g->b, ht_xmul(&g->b, q, ht_xi(&g->b, c + 1)), r);
		*count = (*count / c + 1) * (c + 1);
	}
	return x;
}

static int32_t constant(struct gen *g, enum ht_dtype t)
{
	if (t == HT_F16 || t == HT_BF16)
		return ht_xcvt(&g->b, t, ht_xf(&g->b, below(2)));
	return ht_xconst(
		&g->b, t, g->exact ? below(3) - 1 : (below(2000) - 1000) / 128.0, below(3));
}

/* A load inside a padded window: along d, shifted by a reduction dimension if there is one. */
static int32_t window_load(struct gen *g, enum ht_dtype t)
{
	struct ht_stage *s = &g->stage;
	int d = below(s->dims), r = s->dim[s->dims - 1].reduce ? s->dims - 1 : -1;
	int64_t step = 1 + below(2), pad = below(3), size = 1 + below((int)s->dim[d].extent + 2),
		count = size;
	int32_t at, guard, offset, other = constant(g, t);

	at = ht_xmul(&g->b, ht_xdim(&g->b, d), ht_xi(&g->b, step));
	if (r >= 0 && r != d)
		at = ht_xadd(&g->b, at,
			ht_xmul(&g->b, ht_xdim(&g->b, r),
				ht_xi(&g->b, chance(60)   ? 1
					     : chance(50) ? 2
							  : -1)));
	at = ht_xsub(&g->b, at, ht_xi(&g->b, pad));
	guard = ht_xand(
		&g->b, ht_xle(&g->b, ht_xi(&g->b, 0), at), ht_xlt(&g->b, at, ht_xi(&g->b, size)));
	offset = at;
	for (int o = s->dims - 1; o >= 0; o--) {
		if (o == d || o == r || chance(40))
			continue;
		offset = ht_xadd(
			&g->b, offset, ht_xmul(&g->b, ht_xdim(&g->b, o), ht_xi(&g->b, count)));
		count *= s->dim[o].extent;
	}
	if (chance(50) || t == HT_BOOL)
		other = t == HT_F16 || t == HT_BF16 ? ht_xcvt(&g->b, t, ht_xf(&g->b, 0))
						    : ht_xconst(&g->b, t, 0, 0);
	return ht_xload_if(&g->b, add_buffer(g, HT_BUFFER_IN, t, count), t, offset, guard, other);
}

/* A load of an index, which is checked. */
static int32_t gather_load(struct gen *g, enum ht_dtype t)
{
	int64_t count;
	int32_t at = linear_offset(g, &count), index;
	int b = add_buffer(g, HT_BUFFER_IN, HT_I32, count);

	index = ht_xcvt(&g->b, HT_I64, ht_xload(&g->b, b, HT_I32, at));
	index = ht_xand(&g->b, index, ht_xi(&g->b, 15));
	index = ht_xcheck(&g->b, index, ht_xlt(&g->b, index, ht_xi(&g->b, 16)), HT_FAULT_INDEX);
	return ht_xload(&g->b, add_buffer(g, HT_BUFFER_IN, t, 16), t, index);
}

static int32_t to_computing(struct gen *g, int32_t x)
{
	enum ht_dtype t = g->stage.x[x].dtype;

	return t == HT_F16 || t == HT_BF16 ? ht_xcvt(&g->b, HT_F32, x) : x;
}

static void leaf_value(struct gen *g)
{
	enum ht_dtype t = types[below(HT_COUNT(types))];
	int64_t count;
	int32_t x, offset;
	int kind = below(10);

	if (g->k.buffers > 6)
		kind = 9;
	if (kind < 5) {
		offset = linear_offset(g, &count);
		x = ht_xload(&g->b, add_buffer(g, HT_BUFFER_IN, t, count), t, offset);
	} else if (kind < 7) {
		x = window_load(g, t);
	} else if (kind < 8) {
		x = gather_load(g, t);
	} else {
		x = chance(50) ? constant(g, t) : ht_xdim(&g->b, below(g->stage.dims));
		if (g->exact)
			x = ht_xmin(&g->b, ht_xdim(&g->b, below(g->stage.dims)), ht_xi(&g->b, 3));
	}
	g->value[g->values++] = to_computing(g, x);
}

static int32_t any(struct gen *g)
{
	return g->value[below(g->values)];
}

static int32_t of_type(struct gen *g, enum ht_dtype t)
{
	int32_t x = any(g);

	for (int i = 0; i < 8 && g->stage.x[x].dtype != t; i++)
		x = any(g);
	return g->stage.x[x].dtype == t ? x : ht_xcvt(&g->b, t, x);
}

static void operation(struct gen *g)
{
	static const enum ht_xop two[] = { HT_X_ADD, HT_X_SUB, HT_X_MUL, HT_X_MIN, HT_X_MAX,
		HT_X_DIV };
	static const enum ht_xop bits[] = { HT_X_AND, HT_X_OR, HT_X_XOR, HT_X_SHL, HT_X_SHR,
		HT_X_SAR };
	static const enum ht_xop one[] = { HT_X_NEG, HT_X_ABS, HT_X_FLOOR, HT_X_CEIL, HT_X_RINT,
		HT_X_TRUNC, HT_X_SQRT };
	static const enum ht_xop order[] = { HT_X_EQ, HT_X_NE, HT_X_LT, HT_X_LE };
	int32_t a = any(g), b, c, r;
	enum ht_dtype t = g->stage.x[a].dtype;
	bool logic = t == HT_BOOL, real = t == HT_F32 || t == HT_F64;
	int kind = below(12);

	b = of_type(g, t);
	if (kind == 0) {
		do
			t = types[below(HT_COUNT(types))];
		while (t == HT_F16 || t == HT_BF16);
		r = g->stage.x[a].dtype == t ? a : ht_xcvt(&g->b, t, a);
	} else if (kind == 1) {
		t = chance(50) ? HT_BF16 : HT_F16;
		r = ht_xcvt(&g->b, HT_F32, ht_xcvt(&g->b, t, of_type(g, HT_F32)));
	} else if (kind == 2) {
		r = ht_x2(&g->b, order[below(logic ? 2 : 4)], a, b);
	} else if (kind == 3) {
		c = of_type(g, HT_BOOL);
		r = ht_xselect(&g->b, c, a, b);
	} else if (logic) {
		r = kind == 4 ? ht_xnot(&g->b, a) : ht_x2(&g->b, bits[below(3)], a, b);
	} else if (kind == 4 && !g->exact) {
		if (!real)
			r = chance(50) ? ht_xidiv(&g->b, a, b, chance(50))
				       : ht_xirem(&g->b, a, b, chance(50));
		else
			r = ht_x1(&g->b, one[below(HT_COUNT(one))], a);
	} else if (kind == 5 && !real && !g->exact) {
		r = ht_x2(&g->b, bits[below(HT_COUNT(bits))], a, b);
	} else if (kind == 6 && real && !g->exact) {
		if (chance(50)) {
			g->fused = true;
			r = ht_xmuladd(&g->b, a, b, of_type(g, t));
		} else {
			r = ht_xrem(&g->b, a, b);
		}
	} else if (kind == 7) {
		r = ht_x1(&g->b, one[below(2)], a);
	} else {
		r = ht_x2(&g->b,
			g->exact ? two[chance(85) ? below(2) : 3 + below(2)]
				 : two[below(real ? 6 : 5)],
			a, b);
	}
	g->value[g->values++] = r;
}

/* Row-major over the kept dimensions, possibly in another order. */
static int32_t store_offset(struct gen *g, int64_t *count)
{
	struct ht_stage *s = &g->stage;
	int order[HT_MAX_DIMS], n = 0;
	int32_t x = ht_xi(&g->b, 0);

	for (int d = 0; d < s->dims; d++)
		if (!s->dim[d].reduce)
			order[n++] = d;
	if (n > 1 && chance(30)) {
		int i = below(n), j = below(n), d = order[i];

		order[i] = order[j];
		order[j] = d;
	}
	*count = 1;
	for (int i = n - 1; i >= 0; i--) {
		x = ht_xadd(
			&g->b, x, ht_xmul(&g->b, ht_xdim(&g->b, order[i]), ht_xi(&g->b, *count)));
		*count *= s->dim[order[i]].extent;
	}
	return x;
}

/* A sliding window times weights, as in depthwise convolutions. */
static int32_t window_product(struct gen *g)
{
	enum ht_dtype t = chance(60) ? HT_BF16 : chance(50) ? HT_F16 : HT_F32;
	int64_t count;
	int32_t offset, x = to_computing(g, window_load(g, t));

	offset = linear_offset(g, &count);
	return ht_xmul(&g->b, x,
		to_computing(g, ht_xload(&g->b, add_buffer(g, HT_BUFFER_IN, t, count), t, offset)));
}

static void reduce(struct gen *g)
{
	static const enum ht_red ops[] = { HT_RED_ADD, HT_RED_ADD, HT_RED_MIN, HT_RED_MAX,
		HT_RED_ARGMIN, HT_RED_ARGMAX };
	int n = 1 + below(2);
	int32_t red[2];

	for (int i = 0; i < n; i++) {
		int32_t x = any(g);
		enum ht_red op = ops[below(HT_COUNT(ops))];

		if (op == HT_RED_ADD && g->k.buffers < 7 && chance(50))
			x = window_product(g);
		else if (op == HT_RED_ADD && g->stage.x[x].dtype != HT_BOOL && chance(40))
			x = ht_xmul(&g->b, x, of_type(g, g->stage.x[x].dtype));
		if (g->stage.x[x].dtype == HT_BOOL)
			op = chance(50) ? HT_RED_AND : HT_RED_OR;
		red[i] = ht_xreduce(&g->b, op, x);
	}
	/* expressions that depend on reduction dimensions stay inside the reduction */
	g->values = 0;
	for (int i = 0; i < n; i++) {
		enum ht_red op = g->stage.red[red[i]].op;

		g->value[g->values++] = ht_xred(&g->b, red[i],
			op == HT_RED_ARGMIN || op == HT_RED_ARGMAX ? HT_I64
								   : g->stage.red[red[i]].dtype);
	}
}

static void store(struct gen *g)
{
	int64_t count;
	int32_t offset = store_offset(g, &count), x = any(g);

	if (g->stage.x[x].dtype == HT_F32 && chance(40))
		x = ht_xcvt(&g->b, chance(50) ? HT_BF16 : HT_F16, x);
	ht_xstore(&g->b, add_buffer(g, HT_BUFFER_OUT, g->stage.x[x].dtype, count), offset, x);
}

/* Notes for each tile whether a condition holds for some of its values: all stores store the same. */
static void store_flag(struct gen *g)
{
	enum ht_dtype t = types[2 + below((int)HT_COUNT(types) - 2)];
	int32_t tile = ht_xi(&g->b, 0), guard = of_type(g, HT_BOOL);
	int64_t tiles = ht_kernel_tiles(&g->k);

	for (int d = 0; d < g->k.grid_dims; d++)
		tile = ht_xadd(&g->b, ht_xmuli(&g->b, tile, g->k.grid[d]), ht_xgrid(&g->b, d));
	ht_xstore_if(&g->b, add_buffer(g, HT_BUFFER_OUT, t, tiles), tile, constant(g, t), guard);
}

static void make_kernel(struct gen *g, uint64_t seed)
{
	bool reduces;
	int n;

	memset(g, 0, sizeof *g);
	ht_arena_init(&g->arena, &g->unwind);
	state = seed * 0x9e3779b97f4a7c15u + 12345;
	for (int i = 0; i < 10; i++)
		rnd();
	g->k.buffer = g->buffer;
	g->k.stage = &g->stage;
	g->k.stages = 1;
	make_dims(g);
	reduces = g->stage.dim[g->stage.dims - 1].reduce;
	g->exact = reduces;
	ht_xb_init(&g->b, &g->arena, &g->stage);
	n = 1 + below(3);
	for (int i = 0; i < n; i++)
		leaf_value(g);
	n = below(reduces ? 3 : 10);
	for (int i = 0; i < n; i++)
		operation(g);
	if (reduces) {
		reduce(g);
		if (chance(50))
			operation(g);
	}
	store(g);
	if (chance(30))
		store(g);
	if (chance(40))
		store_flag(g);
}

/* ---- data ---- */

static double number(const struct gen *g)
{
	static const double special[] = { 0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 65519, 65520,
		1e30, -1e-8 };

	if (g->exact)
		return below(5) - 2;
	if (chance(4))
		return special[below(HT_COUNT(special))];
	return (below(1 << 20) - (1 << 19)) / 65536.0;
}

static void fill(const struct gen *g, int b, void *p)
{
	for (int64_t i = 0; i < g->buffer[b].count; i++) {
		double d = number(g);
		int64_t n = g->exact     ? below(4)
			    : chance(10) ? (int64_t)((uint64_t)rnd() << 40 ^ rnd())
					 : below(200);

		switch (g->buffer[b].dtype) {
		case HT_F32:
			((float *)p)[i] = (float)d;
			break;
		case HT_F64:
			((double *)p)[i] = d;
			break;
		case HT_F16:
			((uint16_t *)p)[i] = ht_f64_to_f16(d);
			break;
		case HT_BF16:
			((uint16_t *)p)[i] = ht_f64_to_bf16(d);
			break;
		case HT_BOOL:
			((uint8_t *)p)[i] = n & 1;
			break;
		default:
			memcpy((char *)p + (size_t)i * ht_dtype_info(g->buffer[b].dtype)->bytes, &n,
				ht_dtype_info(g->buffer[b].dtype)->bytes);
		}
	}
}

static bool same(enum ht_dtype t, const void *a, const void *b, int64_t i)
{
	size_t n = ht_dtype_info(t)->bytes;
	double x, y;

	if (memcmp((const char *)a + (size_t)i * n, (const char *)b + (size_t)i * n, n) == 0)
		return true;
	if (!ht_is_float(t))
		return false;
	if (t == HT_F32) {
		x = ((const float *)a)[i];
		y = ((const float *)b)[i];
	} else if (t == HT_F64) {
		x = ((const double *)a)[i];
		y = ((const double *)b)[i];
	} else {
		uint16_t p = ((const uint16_t *)a)[i], q = ((const uint16_t *)b)[i];

		x = t == HT_F16 ? ht_f16_to_f32(p) : ht_bf16_to_f32(p);
		y = t == HT_F16 ? ht_f16_to_f32(q) : ht_bf16_to_f32(q);
	}
	return (isnan(x) && isnan(y)) || (x == 0 && y == 0);
}

/* Runs the tiles in two calls, in guarded memory. */
static int32_t run(ht_kernel_fn *fn, const struct ht_kernel *k, void *const *buffers, void *scratch)
{
	int64_t tiles = ht_kernel_tiles(k), half = tiles / 2;
	int32_t r;

	if (!fn)
		return ht_interpret(k, buffers, NULL, 0, tiles, scratch);
	r = fn(buffers, NULL, half, tiles, scratch);
	return r ? r : fn(buffers, NULL, 0, half, scratch);
}

static bool compare(struct gen *g, const struct ht_target *t, uint64_t seed)
{
	struct ht_code *code = NULL;
	ht_kernel_fn *fn = backend_compile(backend, &g->k, t, &code);
	void *scratch = aligned_alloc(64, (ht_kernel_scratch(&g->k) + 127) / 64 * 64);
	void *expect[12], *got[12];
	bool good = fn != NULL;
	const int32_t buffers = g->k.buffers;
	int32_t a, b;

	for (int i = 0; i < buffers; i++) {
		size_t n = (size_t)g->buffer[i].count * ht_dtype_info(g->buffer[i].dtype)->bytes;

		expect[i] = malloc(n + 64);
		got[i] = malloc(n + 64);
		memset(expect[i], 0xa5, n + 64);
		fill(g, i, expect[i]);
		if (g->buffer[i].kind == HT_BUFFER_OUT)
			memset(expect[i], 0xa5, n + 64);
		memcpy(got[i], expect[i], n + 64);
	}
	a = run(NULL, &g->k, expect, scratch);
	b = fn ? run(fn, &g->k, got, scratch) : -1;
	if (a != b) {
		fprintf(stderr, "seed %llu %s: returned %d, not %d\n", (unsigned long long)seed,
			t->name, b, a);
		good = false;
	}
	for (int i = 0; i < buffers && good && a == 0; i++) {
		size_t n = (size_t)g->buffer[i].count * ht_dtype_info(g->buffer[i].dtype)->bytes;

		for (int64_t j = 0; j < g->buffer[i].count && good; j++) {
			good = same(g->buffer[i].dtype, expect[i], got[i], j);
			if (!good)
				fprintf(stderr, "seed %llu %s: buffer %d[%lld] differs\n",
					(unsigned long long)seed, t->name, i, (long long)j);
		}
		if (memcmp((char *)expect[i] + n, (char *)got[i] + n, 64) != 0) {
			fprintf(stderr, "seed %llu %s: wrote past buffer %d\n",
				(unsigned long long)seed, t->name, i);
			good = false;
		}
	}
	for (int i = 0; i < buffers; i++) {
		free(expect[i]);
		free(got[i]);
	}
	free(scratch);
	backend->free(code);
	return good;
}

static void test_random_kernels(void **unused)
{
	const char *first = getenv("HALFTONE_SEED"), *many = getenv("HALFTONE_KERNELS");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1,
		 n = many ? strtoull(many, NULL, 10) : 150;
	int bad = 0;

	(void)unused;
	for (uint64_t i = seed; i < seed + n; i++) {
		struct gen *g = malloc(sizeof *g);

		make_kernel(g, i);
		ht_kernel_verify(&g->k);
		for (const struct ht_target *const *t = ht_targets(); *t; t++) {
			struct ht_buf text;

			if (!backend_runs(*t) || (g->fused && !(*t)->fused))
				continue;
			if (compare(g, *t, i))
				continue;
			bad++;
			ht_buf_init(&text, &g->arena);
			ht_kernel_print(&g->k, &text);
			if (first)
				fprintf(stderr, "%.*s\n", HT_STR_ARG(ht_buf_str(&text)));
		}
		ht_arena_release(&g->arena);
		free(g);
	}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_kernels),
	};

	backend = backend_open();
	if (!backend)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
