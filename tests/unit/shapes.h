/* Random instances of ops, with their results in double and the allowed errors of kernels.
 *
 * Operands are numbers of the type, so errors come from the arithmetic alone.  The error of a sum
 * of n products is at most n eps / (1 - n eps) times the sum of their magnitudes, in any order;
 * each rounding to a type adds half a unit in the last place of the rounded number. */
#ifndef HT_TEST_SHAPES_H
#define HT_TEST_SHAPES_H

#include "base/base.h"
#include "tests/unit/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 5, MAX_FEEDS = 6 };

struct tensor {
	int rank;
	int64_t dim[RANK];
	double *v;
};

struct instance {
	struct ht_arena arena;
	struct ht_buf nodes, inputs; /* of the graph's text */
	enum ht_dtype t;
	double eps, unit, tiny; /* of sums; of roundings to t, relative and absolute */
	struct tensor feed[MAX_FEEDS];
	char name[MAX_FEEDS][8];
	int feeds, constants;
	struct tensor want, err;
	double winograd, winograd_pairs; /* the error that Winograd's method may add */
	double winograd_short;           /* for F(2 x 2) with factors and runs of float16 */
};

static int64_t count_of(const struct tensor *x)
{
	int64_t n = 1;

	for (int i = 0; i < x->rank; i++)
		n *= x->dim[i];
	return n;
}

static struct tensor tensor_of(struct instance *k, int rank, const int64_t *dim)
{
	struct tensor x = { .rank = rank };

	memcpy(x.dim, dim, (size_t)rank * sizeof *dim);
	x.v = HT_NEW_ARRAY(&k->arena, double, (size_t)count_of(&x) + 1);
	return x;
}

static const char *type_name(enum ht_dtype t)
{
	return t == HT_F32 ? "f32" : t == HT_F64 ? "f64" : t == HT_F16 ? "f16" : "bf16";
}

static double rounded(enum ht_dtype t, double x)
{
	return t == HT_F32   ? (double)(float)x
	       : t == HT_F64 ? x
	       : t == HT_F16 ? (double)ht_f16_to_f32(ht_f64_to_f16(x))
			     : (double)ht_bf16_to_f32(ht_f64_to_bf16(x));
}

static struct tensor random_tensor(struct instance *k, int rank, const int64_t *dim)
{
	struct tensor x = tensor_of(k, rank, dim);

	for (int64_t i = 0; i < count_of(&x); i++)
		x.v[i] = rounded(k->t, (below(1 << 20) - (1 << 19)) / 262144.0);
	return x;
}

static void put_shape(struct ht_buf *b, const struct tensor *x)
{
	ht_putc(b, '[');
	for (int i = 0; i < x->rank; i++)
		ht_printf(b, "%s%lld", i ? "," : "", (long long)x->dim[i]);
	ht_putc(b, ']');
}

/* An operand: an input, or a constant, which kernels may pack. */
static void operand(struct instance *k, const char *name, struct tensor x, bool constant)
{
	struct ht_buf *b = &k->nodes;

	if (constant) {
		ht_printf(b, "%%%s = Const() {dtype=%s, value=tensor %s", name, type_name(k->t),
			type_name(k->t));
		put_shape(b, &x);
		ht_puts(b, " {");
		for (int64_t i = 0; i < count_of(&x); i++)
			ht_printf(b, "%s%.17g", i ? ", " : "", x.v[i]);
		ht_puts(b, "}}\n");
		return;
	}
	ht_printf(b, "%%%s = Placeholder() {dtype=%s, shape=shape", name, type_name(k->t));
	put_shape(b, &x);
	ht_puts(b, "}\n");
	ht_printf(&k->inputs, "  input \"%s\" = %%%s\n", name, name);
	snprintf(k->name[k->feeds], sizeof k->name[0], "%s", name);
	k->feed[k->feeds++] = x;
}

static void index_list(struct instance *k, const char *name, int n, const int64_t *v)
{
	ht_printf(&k->nodes, "%%%s = Const() {dtype=i32, value=tensor i32[%d] {", name, n);
	for (int i = 0; i < n; i++)
		ht_printf(&k->nodes, "%s%lld", i ? ", " : "", (long long)v[i]);
	ht_puts(&k->nodes, "}}\n");
}

static void index_scalar(struct instance *k, const char *name, int64_t v)
{
	ht_printf(&k->nodes, "%%%s = Const() {dtype=i32, value=tensor i32[] {%lld}}\n", name,
		(long long)v);
}

/* ---- results and their errors ---- */

static void result(struct instance *k, int rank, const int64_t *dim)
{
	k->want = tensor_of(k, rank, dim);
	k->err = tensor_of(k, rank, dim);
}

static double gamma_of(const struct instance *k, double n)
{
	return n * k->eps / (1 - n * k->eps);
}

/* Element i is y, computed with error e and then rounded to the type. */
static void computed(struct instance *k, int64_t i, double y, double e)
{
	k->want.v[i] = y;
	k->err.v[i] = e + k->unit * (fabs(y) + e) + k->tiny;
}

/* Contractions of float16 sum short runs of products in float16. */
static bool of_short_runs;

static const char *mode_of_contractions(void)
{
	return of_short_runs ? ", _implementation_mode=\"high_performance\"" : "";
}

/* The error that runs of at most 64 pairs may add: each of 65 sums errs by half a unit in its last
 * place, including float16's subnormals. */
static double short_runs_error(double magnitude, double n)
{
	return of_short_runs ? 66 * 0x1p-11 * magnitude + 2 * n * 0x1p-25 : 0;
}

/* Element i is a sum of n products. */
static void summed(struct instance *k, int64_t i, double sum, double magnitude, double n)
{
	computed(k, i, sum, gamma_of(k, n + 2) * magnitude + short_runs_error(magnitude, n));
}

/* ---- windows ---- */

struct window_case {
	int64_t in, out, size, stride, dilation, before, after;
};

/* Windows for Winograd's method, or few windows on a small image, mostly without padding in front:
 * in a single block, facts about its first pixel do not hold for the last. */
static bool of_winograd, of_one_block;
static bool of_panels; /* several panels of columns, an even depth */
static bool
	of_batches; /* so many images that a product of matrices takes several of them together, mostly an even depth */

static const char *random_windows(struct window_case w[2], bool explicit_padding, bool dilated)
{
	int kind = below(explicit_padding ? 3 : 2);
	bool small = of_one_block || chance(20);

	dilated = dilated && !of_winograd;
	for (int i = 0; i < 2; i++) {
		int64_t span, total;

		w[i].size = of_winograd || chance(40) ? 3 : 1 + below(5);
		w[i].stride = of_winograd || chance(60) ? 1 : 1 + below(3);
		w[i].dilation = dilated ? 1 + below(2) : 1;
		if (dilated)
			w[i].stride = 1;
		span = (w[i].size - 1) * w[i].dilation + 1;
		w[i].in = 1 + below(small ? 4 : 14);
		w[i].before = kind == 2 && !of_one_block ? below((int)span) : 0;
		w[i].after = kind == 2 ? below((int)span) : 0;
		if (kind != 0 && w[i].in + w[i].before + w[i].after < span)
			w[i].in = span + below(3);
		if (kind == 0) {
			w[i].out = (w[i].in + w[i].stride - 1) / w[i].stride;
			total = (w[i].out - 1) * w[i].stride + span - w[i].in;
			w[i].before = total > 0 ? total / 2 : 0;
		} else {
			w[i].out = (w[i].in + w[i].before + w[i].after - span) / w[i].stride + 1;
		}
	}
	return kind == 0 ? "SAME" : kind == 1 ? "VALID" : "EXPLICIT";
}

static void put_windows(struct instance *k, const struct window_case w[2], const char *padding)
{
	ht_printf(&k->nodes, "strides=[1,%lld,%lld,1], padding=\"%s\", data_format=\"NHWC\"",
		(long long)w[0].stride, (long long)w[1].stride, padding);
}

static void put_conv_attributes(
	struct instance *k, const struct window_case w[2], const char *padding)
{
	ht_printf(&k->nodes, " {T=%s, ", type_name(k->t));
	put_windows(k, w, padding);
	ht_printf(&k->nodes, ", dilations=[1,%lld,%lld,1], explicit_paddings=[",
		(long long)w[0].dilation, (long long)w[1].dilation);
	if (padding[0] == 'E')
		ht_printf(&k->nodes, "0,0,%lld,%lld,%lld,%lld,0,0", (long long)w[0].before,
			(long long)w[0].after, (long long)w[1].before, (long long)w[1].after);
	ht_printf(&k->nodes, "]%s}\n", mode_of_contractions());
}

/* The source position of tap q for result o; -1: outside. */
static int64_t source(const struct window_case *w, int64_t o, int64_t q)
{
	int64_t x = o * w->stride + q * w->dilation - w->before;

	return x >= 0 && x < w->in ? x : -1;
}

static double at4(const struct tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return x->v[((a * x->dim[1] + b) * x->dim[2] + c) * x->dim[3] + d];
}

/* ---- epilogue: bias, activation, residual ---- */

static void epilogue(struct instance *k, int64_t channels)
{
	int64_t n = count_of(&k->want);
	struct tensor b, r;

	if (chance(50)) {
		b = random_tensor(k, 1, &channels);
		operand(k, "bias", b, chance(80));
		ht_printf(&k->nodes, "%%b = BiasAdd(%%r, %%bias) {T=%s, data_format=\"NHWC\"}\n",
			type_name(k->t));
		for (int64_t i = 0; i < n; i++)
			computed(k, i, k->want.v[i] + b.v[i % channels],
				k->err.v[i] + k->eps * (fabs(k->want.v[i]) + 2));
	} else {
		ht_printf(&k->nodes, "%%b = Identity(%%r) {T=%s}\n", type_name(k->t));
	}
	if (chance(40)) {
		r = random_tensor(k, k->want.rank, k->want.dim);
		operand(k, "other", r, false);
		ht_printf(&k->nodes, "%%a = AddV2(%%b, %%other) {T=%s}\n", type_name(k->t));
		for (int64_t i = 0; i < n; i++)
			computed(k, i, k->want.v[i] + r.v[i],
				k->err.v[i] + k->eps * (fabs(k->want.v[i]) + 2));
	} else {
		ht_printf(&k->nodes, "%%a = Identity(%%b) {T=%s}\n", type_name(k->t));
	}
	if (chance(50)) {
		ht_printf(&k->nodes, "%%y = Relu(%%a) {T=%s}\n", type_name(k->t));
		for (int64_t i = 0; i < n; i++)
			k->want.v[i] = fmax(k->want.v[i], 0);
	} else {
		ht_printf(&k->nodes, "%%y = Identity(%%a) {T=%s}\n", type_name(k->t));
	}
}

#endif
