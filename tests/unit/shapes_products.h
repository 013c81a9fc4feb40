/* Random convolutions, matrix products and pooling (see shapes.h). */
#ifndef HT_TEST_SHAPES_PRODUCTS_H
#define HT_TEST_SHAPES_PRODUCTS_H

#include "tests/unit/shapes.h"

/* Sets the errors of Winograd's method for sums over `c` channels. */
static void bound_winograd(struct instance *k, int64_t c)
{
	/* Operands have a root mean square of 2 / sqrt(3).  The measured error of the method is at
	 * most 3e-5 of the results' root mean square (tests/ops/winograd.py); its bound, from the
	 * gains of its transforms, is much larger. */
	k->winograd = 1e-4 * 4 / 3 * sqrt(9 * (double)c);
	/* likewise for F(2 x 2) with factors rounded to BF16: 2.6e-2 */
	k->winograd_pairs = 6e-2 * 4 / 3 * sqrt(9 * (double)c);
	k->winograd_short = 2e-2 * 4 / 3 * sqrt(9 * (double)c);
}

static int64_t images(int64_t few)
{
	return of_batches ? 8 + 4 * below(3) : 1 + below(few);
}

static void conv2d(struct instance *k)
{
	static const int64_t channels[] = { 1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33 };
	struct window_case w[2];
	const char *padding = random_windows(w, true, chance(25));
	int64_t groups = chance(20) ? 1 + below(4) : 1;
	int64_t n = of_one_block ? 1 : chance(3) ? 0 : images(2);
	int64_t c = channels[(of_one_block && chance(60)) || of_short_runs
				     ? 7 + below(4)
				     : below(HT_COUNT(channels))],
		o = groups * (of_panels           ? 33 + below(40)
				     : chance(10) ? 1
						  : 1 + below(40));
	if (of_panels || (of_batches && chance(80)))
		c += c % 2;
	if (of_short_runs && chance(50))
		c *= 1 + below(12); /* runs that end before the depth does */
	struct tensor x = random_tensor(k, 4, (int64_t[]){ n, w[0].in, w[1].in, c * groups });
	struct tensor f = random_tensor(k, 4, (int64_t[]){ w[0].size, w[1].size, c, o });
	int64_t i = 0;

	operand(k, "x", x, false);
	operand(k, "f", f, chance(85));
	ht_puts(&k->nodes, "%r = Conv2D(%x, %f)");
	put_conv_attributes(k, w, padding);
	result(k, 4, (int64_t[]){ n, w[0].out, w[1].out, o });
	for (int64_t b = 0; b < n; b++)
		for (int64_t h = 0; h < w[0].out; h++)
			for (int64_t v = 0; v < w[1].out; v++)
				for (int64_t r = 0; r < o; r++, i++) {
					double sum = 0, magnitude = 0;

					for (int64_t q = 0; q < w[0].size * w[1].size * c; q++) {
						int64_t kw = q / c % w[1].size,
							kh = q / c / w[1].size;
						int64_t y = source(&w[0], h, kh),
							z = source(&w[1], v, kw);
						double p;

						if (y < 0 || z < 0)
							continue;
						p = at4(&x, b, y, z, r / (o / groups) * c + q % c) *
						    at4(&f, kh, kw, q % c, r);
						sum += p;
						magnitude += fabs(p);
					}
					summed(k, i, sum, magnitude,
						(double)(w[0].size * w[1].size * c));
				}
	bound_winograd(k, c);
	epilogue(k, o);
}

static void small_conv2d(struct instance *k)
{
	of_one_block = true;
	conv2d(k);
	of_one_block = false;
}

static void depthwise(struct instance *k)
{
	struct window_case w[2];
	const char *padding = random_windows(w, false, chance(20));
	int64_t n = 1 + below(2), c = 1 + below(40), m = chance(70) ? 1 : 1 + below(3), i = 0;
	struct tensor x, f;

	if (w[0].stride != w[1].stride)
		w[1] = w[0];
	x = random_tensor(k, 4, (int64_t[]){ n, w[0].in, w[1].in, c });
	f = random_tensor(k, 4, (int64_t[]){ w[0].size, w[1].size, c, m });
	operand(k, "x", x, false);
	operand(k, "f", f, chance(85));
	ht_puts(&k->nodes, "%r = DepthwiseConv2dNative(%x, %f)");
	put_conv_attributes(k, w, padding);
	result(k, 4, (int64_t[]){ n, w[0].out, w[1].out, c * m });
	for (int64_t b = 0; b < n; b++)
		for (int64_t h = 0; h < w[0].out; h++)
			for (int64_t v = 0; v < w[1].out; v++)
				for (int64_t r = 0; r < c * m; r++, i++) {
					double sum = 0, magnitude = 0;

					for (int64_t q = 0; q < w[0].size * w[1].size; q++) {
						int64_t kw = q % w[1].size, kh = q / w[1].size;
						int64_t y = source(&w[0], h, kh),
							z = source(&w[1], v, kw);
						double p = y < 0 || z < 0
								   ? 0
								   : at4(&x, b, y, z, r / m) *
									     at4(&f, kh, kw, r / m,
										     r % m);

						sum += p;
						magnitude += fabs(p);
					}
					summed(k, i, sum, magnitude,
						(double)(w[0].size * w[1].size));
				}
	epilogue(k, c * m);
}

/* Windows that overlap, with strides that divide the image. */
static const char *phased_windows(struct window_case w[2])
{
	for (int i = 0; i < 2; i++) {
		w[i] = (struct window_case){ .stride = 1 + i + below(3), .dilation = 1 };
		w[i].size = w[i].stride + 1 + below(4);
		w[i].out = 1 + below(6);
		w[i].in = w[i].out * w[i].stride;
		w[i].before = (w[i].size - w[i].stride) / 2;
	}
	return "SAME";
}

/* In some cases, windows do not overlap. */
static const char *transposed_windows(struct window_case w[2])
{
	const char *padding = chance(30) ? phased_windows(w) : random_windows(w, false, false);
	bool tiled = chance(20);

	for (int i = 0; i < 2 && tiled; i++) {
		w[i].stride = w[i].size;
		w[i].in = w[i].out * w[i].size;
		w[i].before = 0;
	}
	return padding;
}

static void transpose_of(struct instance *k, const struct window_case w[2], const char *padding,
	int64_t n, int64_t c, int64_t o)
{
	struct tensor x = random_tensor(k, 4, (int64_t[]){ n, w[0].out, w[1].out, c });
	struct tensor f = random_tensor(k, 4, (int64_t[]){ w[0].size, w[1].size, o, c }), magnitude;

	operand(k, "x", x, false);
	operand(k, "f", f, chance(50)); /* a filter that is not constant has another method */
	index_list(k, "s", 4, (int64_t[]){ n, w[0].in, w[1].in, o });
	ht_puts(&k->nodes, "%r = Conv2DBackpropInput(%s, %f, %x)");
	put_conv_attributes(k, w, padding);
	result(k, 4, (int64_t[]){ n, w[0].in, w[1].in, o });
	magnitude = tensor_of(k, 4, k->want.dim);
	for (int64_t i = 0; i < count_of(&x) * w[0].size * w[1].size * o; i++) {
		int64_t r = i % o, q = i / o % (w[0].size * w[1].size),
			at = i / o / (w[0].size * w[1].size);
		int64_t v = at / c % w[1].out, h = at / c / w[1].out % w[0].out;
		int64_t y = source(&w[0], h, q / w[1].size), z = source(&w[1], v, q % w[1].size),
			to;
		double p = x.v[at] * f.v[(q * o + r) * c + at % c];

		if (y < 0 || z < 0)
			continue;
		to = ((at / c / w[1].out / w[0].out * w[0].in + y) * w[1].in + z) * o + r;
		k->want.v[to] += p;
		magnitude.v[to] += fabs(p);
	}
	for (int64_t i = 0; i < count_of(&k->want); i++)
		summed(k, i, k->want.v[i], magnitude.v[i], (double)(w[0].size * w[1].size * c));
	bound_winograd(k, c);
	epilogue(k, o);
}

static void conv2d_transpose(struct instance *k)
{
	struct window_case w[2];
	const char *padding;
	const int64_t n = images(2), c = 1 + below(20);

	of_winograd = chance(40);
	padding = of_winograd ? random_windows(w, false, false) : transposed_windows(w);
	of_winograd = false;
	transpose_of(k, w, padding, n, of_batches && chance(80) ? c + c % 2 : c, 1 + below(20));
}

/* Rows so short that a tile of widened ones takes a few loads and stores of the stack, which the
 * compiler may reorder. */
static void short_rows(struct instance *k)
{
	struct window_case w[2];

	for (int i = 0; i < 2; i++) {
		int64_t in = i + 1, size = 2 * i + 1;

		w[i] = (struct window_case){ in, in, size, 1, 1, size / 2, size / 2 };
	}
	transpose_of(k, w, "SAME", 1, 4 * (1 + below(2)), 4 * (1 + below(2)));
}

/* The gradient by the filter: a sum over the pixels of all images. */
static void filter_gradient(struct instance *k)
{
	struct window_case w[2];
	const char *padding = random_windows(w, true, chance(25));
	const bool many =
		of_batches && w[0].in * w[1].in <= 16; /* a part has several groups of images */
	int64_t n = many ? chance(25) ? 32 : 2 * (4 + below(24)) : images(3),
		c = of_batches && chance(50) ? 16 * (1 + below(3)) : 1 + below(40),
		o = 1 + below(80);
	struct tensor x = random_tensor(k, 4, (int64_t[]){ n, w[0].in, w[1].in, c });
	struct tensor y = random_tensor(k, 4, (int64_t[]){ n, w[0].out, w[1].out, o }), magnitude;
	int64_t taps = w[0].size * w[1].size;

	operand(k, "x", x, false);
	operand(k, "g", y, false);
	index_list(k, "s", 4, (int64_t[]){ w[0].size, w[1].size, c, o });
	ht_puts(&k->nodes, "%r = Conv2DBackpropFilter(%x, %s, %g)");
	put_conv_attributes(k, w, padding);
	result(k, 4, (int64_t[]){ w[0].size, w[1].size, c, o });
	magnitude = tensor_of(k, 4, k->want.dim);
	for (int64_t i = 0; i < count_of(&y) * taps * c; i++) {
		int64_t q = i % (taps * c), from = i / (taps * c), pixel = from / o;
		int64_t h = source(&w[0], pixel / w[1].out % w[0].out, q / c / w[1].size);
		int64_t v = source(&w[1], pixel % w[1].out, q / c % w[1].size);
		double p = h < 0 || v < 0
				   ? 0
				   : y.v[from] * at4(&x, pixel / w[1].out / w[0].out, h, v, q % c);

		k->want.v[q * o + from % o] += p;
		magnitude.v[q * o + from % o] += fabs(p);
	}
	for (int64_t i = 0; i < count_of(&k->want); i++)
		summed(k, i, k->want.v[i], magnitude.v[i], (double)(n * w[0].out * w[1].out));
	bound_winograd(k, ht_ceil_div(n * w[0].out * w[1].out, 9));
	epilogue(k, o);
}

/* A product of `batch` matrices of m rows, n columns and depth d. */
static void product_of(
	struct instance *k, int64_t batch, int64_t m, int64_t n, int64_t d, bool constant)
{
	bool ta = chance(30), tb = chance(30), shared = chance(40);
	int64_t i = 0;
	struct tensor a = random_tensor(k, 3, (int64_t[]){ batch, ta ? d : m, ta ? m : d });
	struct tensor b =
		random_tensor(k, 3, (int64_t[]){ shared ? 1 : batch, tb ? n : d, tb ? d : n });

	operand(k, "x", a, false);
	operand(k, "f", b, constant || chance(70));
	ht_printf(&k->nodes, "%%r = BatchMatMulV2(%%x, %%f) {T=%s, adj_x=%s, adj_y=%s%s}\n",
		type_name(k->t), ta ? "true" : "false", tb ? "true" : "false",
		mode_of_contractions());
	result(k, 3, (int64_t[]){ batch, m, n });
	for (int64_t g = 0; g < batch; g++)
		for (int64_t r = 0; r < m; r++)
			for (int64_t c = 0; c < n; c++, i++) {
				const double *x = a.v + g * m * d,
					     *y = b.v + (shared ? 0 : g * n * d);
				double sum = 0, magnitude = 0;

				for (int64_t q = 0; q < d; q++) {
					double p = x[ta ? q * m + r : r * d + q] *
						   y[tb ? c * d + q : q * n + c];

					sum += p;
					magnitude += fabs(p);
				}
				summed(k, i, sum, magnitude, (double)d);
			}
	epilogue(k, n);
}

static void product(struct instance *k)
{
	int64_t batch = chance(60) ? 1 : below(4), m = chance(25) ? 1 : below(30);
	int64_t n = chance(10) ? 1 : below(70),
		d = chance(10) ? 1 : below(of_short_runs ? 400 : 50);

	if (chance(20)) { /* a transposed left operand may be copied to blocks of rows */
		m = 17 + below(30);
		n = 64 + below(30);
	}
	if (!of_short_runs &&
		chance(15)) { /* sums so long that lowering divides them into parts, and left operands that it copies as F32 */
		m = 30 + below(20);
		n = chance(50) ? 150 + below(100) : 16 + below(40);
		d = 12 * (1 + below(60));
	}
	product_of(k, batch, m, n, d, false);
}

/* One row and constant weights: several tiles of columns, the last panel of which may not be
 * full. */
static void one_row(struct instance *k)
{
	static const int64_t columns[] = { 48, 80, 112, 144, 176, 208, 240, 272, 400 };
	static const int64_t depths[] = { 144, 250 };
	int64_t n = chance(60) ? columns[below(HT_COUNT(columns))] : 1 + below(300);
	int64_t d = chance(60) ? depths[below(HT_COUNT(depths))] : 1 + below(300);

	product_of(k, 1, 1, n, d, true);
}

static void pool(struct instance *k)
{
	struct window_case w[2];
	const char *padding = random_windows(w, false, false);
	bool mean = chance(50);
	int64_t n = chance(5) ? 0 : 1 + below(2), c = 1 + below(40), i = 0;
	struct tensor x = random_tensor(k, 4, (int64_t[]){ n, w[0].in, w[1].in, c });

	operand(k, "x", x, false);
	ht_printf(&k->nodes, "%%r = %s(%%x) {T=%s, ksize=[1,%lld,%lld,1], ",
		mean ? "AvgPool" : "MaxPool", type_name(k->t), (long long)w[0].size,
		(long long)w[1].size);
	put_windows(k, w, padding);
	ht_puts(&k->nodes, "}\n");
	result(k, 4, (int64_t[]){ n, w[0].out, w[1].out, c });
	for (; i < count_of(&k->want); i++) {
		int64_t at = i / c, v = at % w[1].out, h = at / w[1].out % w[0].out;
		double sum = 0, magnitude = 0, most = -INFINITY, taps = 0;

		for (int64_t q = 0; q < w[0].size * w[1].size; q++) {
			int64_t y = source(&w[0], h, q / w[1].size);
			int64_t z = source(&w[1], v, q % w[1].size);
			double p;

			if (y < 0 || z < 0)
				continue;
			p = at4(&x, at / w[1].out / w[0].out, y, z, i % c);
			sum += p;
			magnitude += fabs(p);
			most = fmax(most, p);
			taps++;
		}
		if (mean)
			summed(k, i, sum / taps, magnitude / taps, taps);
		else
			computed(k, i, most, 0);
	}
	epilogue(k, c);
}

#endif
