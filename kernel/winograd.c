#include "kernel/winograd.h"

#include <math.h>

/* ---- F(2 x 2) ---- */

static void image2(struct ht_xb *b, const int32_t x[4], int32_t r[4])
{
	r[0] = ht_xsub(b, x[0], x[2]);
	r[1] = ht_xadd(b, x[1], x[2]);
	r[2] = ht_xsub(b, x[2], x[1]);
	r[3] = ht_xsub(b, x[3], x[1]);
}

static void result2(struct ht_xb *b, const int32_t x[4], int32_t r[2])
{
	r[0] = ht_xadd(b, x[0], ht_xadd(b, x[1], x[2]));
	r[1] = ht_xadd(b, x[3], ht_xsub(b, x[1], x[2]));
}

/* What each result of the filter's transform, in one direction, takes of the three taps. */
static const double filter2[4][3] = { { 1, 0, 0 }, { .5, .5, .5 }, { .5, -.5, .5 }, { 0, 0, 1 } };

/* ---- F(4 x 4) ---- */

/* Besides 0 and infinity, the points are +-P and +-Q. */
#define P 0.625
#define Q 1.5

/* Rows of the image's transform: first p2 q2 x0 - (p2 + q2) x2 + x4; then for each point the
 * product of x - y over all other points y except 0, in pairs that share their even and odd
 * parts. */
static void image4(struct ht_xb *b, const int32_t x[6], int32_t r[6])
{
	const double point[2] = { P, Q };
	int32_t outer = ht_xf(b, P * P * Q * Q), inner = ht_xf(b, -(P * P + Q * Q));

	r[0] = ht_xmuladd(b, x[0], outer, ht_xmuladd(b, x[2], inner, x[4]));
	r[5] = ht_xmuladd(b, x[1], outer, ht_xmuladd(b, x[3], inner, x[5]));
	for (int i = 0; i < 2; i++) {
		double other = point[1 - i];
		int32_t square = ht_xf(b, -other * other), at = ht_xf(b, point[i]);
		int32_t even = ht_xmuladd(b, x[2], square, x[4]);
		int32_t odd = ht_xmuladd(b, x[1], square, x[3]);

		r[1 + 2 * i] = ht_xmuladd(b, odd, at, even);
		r[2 + 2 * i] = ht_xmuladd(b, odd, ht_xf(b, -point[i]), even);
	}
}

/* Row k has the k-th power of each point; infinity counts only in the last row. */
static void result4(struct ht_xb *b, const int32_t x[6], int32_t r[4])
{
	const double power[4][2] = { { 1, 1 }, { P, Q }, { P * P, Q * Q },
		{ P * P * P, Q * Q * Q } };

	for (int k = 0; k < 4; k++) {
		enum ht_xop op = k % 2 ? HT_X_SUB : HT_X_ADD;
		int32_t at_p = ht_x2(b, op, x[1], x[2]), at_q = ht_x2(b, op, x[3], x[4]);

		r[k] = k == 0 ? ht_xadd(b, x[0], at_p) : ht_xmul(b, at_p, ht_xf(b, power[k][0]));
		r[k] = ht_xmuladd(b, at_q, ht_xf(b, power[k][1]), r[k]);
	}
	r[3] = ht_xadd(b, r[3], x[5]);
}

/* The powers of each point, divided by the product of its differences to the others. */
#define AT(p, q) (1 / (2 * (p) * (p) * ((p) * (p) - (q) * (q))))
static const double filter4[6][3] = { { 1 / (P * P * Q * Q), 0, 0 },
	{ AT(P, Q), AT(P, Q) * P, AT(P, Q) * P *P }, { AT(P, Q), -AT(P, Q) * P, AT(P, Q) * P *P },
	{ AT(Q, P), AT(Q, P) * Q, AT(Q, P) * Q *Q }, { AT(Q, P), -AT(Q, P) * Q, AT(Q, P) * Q *Q },
	{ 0, 0, 1 } };

/* ---- both forms ---- */

void ht_winograd_image(struct ht_xb *b, int m, const int32_t x[], int32_t r[])
{
	if (m == 2)
		image2(b, x, r);
	else
		image4(b, x, r);
}

void ht_winograd_result(struct ht_xb *b, int m, const int32_t x[], int32_t r[])
{
	if (m == 2)
		result2(b, x, r);
	else
		result4(b, x, r);
}

static const double (*filter_of(int m))[3]
{
	return m == 2 ? filter2 : filter4;
}

/* A factor of 0 leaves its tap out, which may be infinite. */
static double filter_sum(const double of[3], double x, double y, double z)
{
	return (of[0] != 0 ? of[0] * x : 0) + (of[1] != 0 ? of[1] * y : 0) +
	       (of[2] != 0 ? of[2] * z : 0);
}

void ht_winograd_filter(int m, const float *x, int64_t columns, float *r)
{
	const double(*of)[3] = filter_of(m);
	int side = m + 2;

	for (int64_t i = 0; i < columns; i++, x++, r++) {
		double rows[3][HT_WINOGRAD_MOST];

		for (int h = 0; h < 3; h++)
			for (int w = 0; w < side; w++)
				rows[h][w] = filter_sum(of[w], (double)x[3 * h * columns],
					(double)x[(3 * h + 1) * columns],
					(double)x[(3 * h + 2) * columns]);
		for (int h = 0; h < side; h++)
			for (int w = 0; w < side; w++)
				r[(h * side + w) * columns] = (float)filter_sum(
					of[h], rows[0][w], rows[1][w], rows[2][w]);
	}
}

static int32_t filter_sum_of_run(struct ht_xb *b, const double of[3], const int32_t x[3])
{
	int32_t sum = -1;

	for (int i = 0; i < 3; i++) {
		int32_t term = of[i] != 0 ? ht_xmul(b, x[i], ht_xd(b, of[i])) : -1;

		if (term >= 0)
			sum = sum < 0 ? term : ht_xadd(b, sum, term);
	}
	return sum;
}

void ht_winograd_filter_of_run(struct ht_xb *b, int m, const int32_t x[9], int32_t r[])
{
	const double(*of)[3] = filter_of(m);
	int32_t columns[HT_WINOGRAD_MOST][3];
	int side = m + 2;

	for (int h = 0; h < 3; h++)
		for (int w = 0; w < side; w++)
			columns[w][h] = filter_sum_of_run(b, of[w], x + 3 * h);
	for (int h = 0; h < side; h++)
		for (int w = 0; w < side; w++)
			r[h * side + w] = filter_sum_of_run(b, of[h], columns[w]);
}

/* ---- blocks ---- */

struct shape {
	const struct ht_target *t;
	int m;
	double images, rows, width, channels, results; /* rows, width: in tiles */
	double element, products; /* bytes of a factor; products a cycle and lane */
	double filter_loads;
};

/* Bytes of weights from beyond the second level: all of them once, and again for each other block of tiles if they do not stay there. */
static double weights_traffic(const struct shape *s, double bytes, double tile_blocks)
{
	return bytes + (tile_blocks - 1) * (bytes > (double)s->t->l2 / 2 ? bytes : 0);
}

/* Cycles to transform the filter: its transform is that of an image with sums of float64, which are twice as many vectors. */
static double filter_cycles(const struct shape *s, double image, double bytes)
{
	const struct ht_rates *rates = s->t->rates;
	double vectors = s->channels * s->results / ht_target_lanes(s->t);

	if (s->filter_loads == 0)
		return 0;
	return vectors * (2 * image + s->filter_loads / rates->loads) + bytes / rates->weights;
}

/* Of what a block has in the last quarter of the second level, so much is read again: the image, the weights and the result need room, too. */
#define AGAIN 0.75

/* Estimated cycles: the transforms, the products at nine tenths of the peak rate, and the
 * traffic from beyond the second level. */
static double cycles(const struct shape *s, int64_t images, int64_t rows, int64_t columns)
{
	const struct ht_rates *rates = s->t->rates;
	const double lanes = ht_target_lanes(s->t);
	const double a_cycle = s->products * rates->efficiency;
	const double image = s->m == 2 ? rates->winograd_image_2 : rates->winograd_image_4;
	const double result = s->m == 2 ? rates->winograd_result_2 : rates->winograd_result_4;
	double matrices = (s->m + 2) * (s->m + 2);
	double tile_blocks = ceil(s->images / (double)images) * ceil(s->rows / (double)rows),
	       blocks = tile_blocks * ceil(s->results / (double)columns);
	double tiles = s->images * s->rows * s->width;
	double block = (double)(images * rows) * s->width;
	double products = matrices * ceil(block / 2) * 2 * tile_blocks * s->channels * s->results /
			  lanes / a_cycle;
	double transforms =
		tiles * ceil(s->channels / lanes) * image * ceil(s->results / (double)columns) +
		tiles * ceil(s->results / lanes) * result;
	double weights = matrices * s->element * s->channels * s->results;
	double local = matrices * block * (s->element * s->channels + 4 * (double)columns);
	double traffic = weights_traffic(s, weights, tile_blocks);
	const double l2 = (double)s->t->l2, room = 0.75 * l2;

	if (local > room)
		traffic += AGAIN * (fmin(local, l2) - room) * blocks;
	if (local > l2)
		traffic += 2 * (local - l2) * blocks;
	return products + transforms + traffic / rates->weights + filter_cycles(s, image, weights) +
	       rates->winograd_block * blocks;
}

/* How much longer the busier thread works than with equal shares, as a mean over one and two
 * threads. */
static double imbalance(double blocks)
{
	return (1 + 2 * ceil(blocks / 2) / blocks) / 2;
}

/* Takes the division into blocks of so many images and rows of tiles if it is the fastest so far, whose cycles with the imbalance are
 * in *least. */
static void try_blocks(const struct shape *s, const struct ht_winograd_shape *shape, int64_t images,
	int64_t rows, struct ht_winograd *best, double *least)
{
	int64_t panels;
	int32_t nr, kp;

	ht_schedule_packing(s->t, best->dtype, images * rows * best->tiles[1], shape->results,
		shape->channels, &nr, &kp);
	panels = ht_ceil_div(shape->results, nr);
	for (int64_t j = 1; j <= panels; j *= 2) {
		int64_t columns = ht_ceil_div(panels, j) * nr;
		double c = cycles(s, images, rows, columns);
		double blocks = (double)(ht_ceil_div(shape->images, images) *
					 ht_ceil_div(best->tiles[0], rows) *
					 ht_ceil_div(shape->results, columns));

		if (c * imbalance(blocks) >= *least)
			continue;
		*least = c * imbalance(blocks);
		best->images = images;
		best->rows = rows;
		best->columns = columns;
		best->cycles = c;
	}
}

/* The local buffers of a block have as many rows of tiles for small images as for the largest.  Takes the division with the fewest rows
 * that is about as fast as *best. */
static void take_few_rows(const struct shape *s, const struct ht_winograd_shape *shape,
	struct ht_winograd *best, double least)
{
	const double about = 1.02 * least;

	for (int64_t rows = 1; rows < best->rows; rows++) {
		struct ht_winograd few = *best;
		double cycles = about;

		try_blocks(s, shape, 1, rows, &few, &cycles);
		if (cycles < about) {
			*best = few;
			return;
		}
	}
}

/* The geometric mean over the sizes, so that being twice as slow at one size is as bad as at another. */
static double mean_cycles(
	const struct shape *s, const struct ht_winograd_shape *shape, const struct ht_winograd *by)
{
	double product = 1;

	for (int i = 0; i < shape->sizes; i++) {
		struct shape at = *s;

		at.rows = (double)ht_ceil_div(shape->out[i][0], s->m);
		at.width = (double)ht_ceil_div(shape->out[i][1], s->m);
		product *= cycles(&at, by->images, fmin((double)by->rows, at.rows), by->columns);
	}
	return pow(product, 1.0 / shape->sizes);
}

struct ht_winograd ht_schedule_winograd(const struct ht_target *t,
	const struct ht_winograd_shape *shape, int m, enum ht_dtype dtype)
{
	int64_t tiles[2] = { ht_ceil_div(shape->out[0][0], m), ht_ceil_div(shape->out[0][1], m) };
	const struct shape s = { .t = t,
		.m = m,
		.images = (double)shape->images,
		.rows = (double)tiles[0],
		.width = (double)tiles[1],
		.channels = (double)shape->channels,
		.results = (double)shape->results,
		.element = (double)ht_dtype_info(dtype)->bytes,
		.products = ht_target_products(t, dtype),
		.filter_loads = (double)shape->filter_loads };
	struct ht_winograd best = { .m = m, .dtype = dtype, .tiles = { tiles[0], tiles[1] } };
	double least = INFINITY;

	for (int64_t i = 1; i <= tiles[0]; i++)
		try_blocks(&s, shape, 1, ht_ceil_div(tiles[0], i), &best, &least);
	for (int64_t images = 2; images <= shape->together; images *= 2)
		try_blocks(&s, shape, images, tiles[0], &best, &least);
	if (shape->sizes > 1)
		take_few_rows(&s, shape, &best, least);
	best.cycles = mean_cycles(&s, shape, &best);
	return best;
}

double ht_winograd_error(int m, enum ht_dtype dtype)
{
	if (m == 4)
		return 7e-7;
	return dtype == HT_BF16 ? 3.8e-3 : dtype == HT_F16 ? 1.2e-3 : 3e-7;
}
