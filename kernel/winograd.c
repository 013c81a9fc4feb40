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

static void filter2(const double x[3], double r[4])
{
	r[0] = x[0];
	r[1] = (x[0] + x[2] + x[1]) / 2;
	r[2] = (x[0] + x[2] - x[1]) / 2;
	r[3] = x[2];
}

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
static void filter4(const double x[3], double r[6])
{
	const double at_p = 1 / (2 * P * P * (P * P - Q * Q)),
		     at_q = 1 / (2 * Q * Q * (Q * Q - P * P));
	double even_p = x[0] + P * P * x[2], even_q = x[0] + Q * Q * x[2];

	r[0] = x[0] / (P * P * Q * Q);
	r[1] = at_p * (even_p + P * x[1]);
	r[2] = at_p * (even_p - P * x[1]);
	r[3] = at_q * (even_q + Q * x[1]);
	r[4] = at_q * (even_q - Q * x[1]);
	r[5] = x[2];
}

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

void ht_winograd_filter(int m, const float *x, int64_t columns, float *r)
{
	void (*direction)(const double x[3], double r[]) = m == 2 ? filter2 : filter4;
	int side = m + 2;

	for (int64_t i = 0; i < columns; i++) {
		double rows[3][HT_WINOGRAD_MOST], line[HT_WINOGRAD_MOST];

		for (int h = 0; h < 3; h++) {
			double taps[3];

			for (int w = 0; w < 3; w++)
				taps[w] = (double)x[(h * 3 + w) * columns + i];
			direction(taps, rows[h]);
		}
		for (int w = 0; w < side; w++) {
			direction((double[3]){ rows[0][w], rows[1][w], rows[2][w] }, line);
			for (int h = 0; h < side; h++)
				r[(h * side + w) * columns + i] = (float)line[h];
		}
	}
}

/* ---- blocks ---- */

struct shape {
	const struct ht_target *t;
	int m;
	double images, rows, width, channels, results; /* rows, width: in tiles */
	double element, products; /* bytes of a factor; products a cycle and lane */
};

/* Estimated cycles: both transforms, the products at nine tenths of the peak rate, and the
 * traffic from beyond the second level. */
static double cycles(const struct shape *s, int64_t rows, int64_t columns)
{
	const struct ht_rates *rates = s->t->rates;
	const double lanes = ht_target_lanes(s->t);
	const double a_cycle = s->products * rates->efficiency;
	const double image = s->m == 2 ? rates->winograd_image_2 : rates->winograd_image_4;
	const double result = s->m == 2 ? rates->winograd_result_2 : rates->winograd_result_4;
	double matrices = (s->m + 2) * (s->m + 2);
	double row_blocks = ceil(s->rows / (double)rows),
	       column_blocks = ceil(s->results / (double)columns);
	double tiles = s->rows * s->width, blocks = s->images * row_blocks * column_blocks;
	double block = (double)rows * s->width;
	double products = matrices * ceil(block / 2) * 2 * row_blocks * s->channels * s->results /
			  lanes / a_cycle;
	double transforms = tiles * ceil(s->channels / lanes) * image * column_blocks +
			    tiles * ceil(s->results / lanes) * result;
	double weights = matrices * s->element * s->channels * s->results;
	double local = matrices * block * (s->element * s->channels + 4 * (double)columns);
	double traffic =
		weights + (row_blocks - 1) * (weights > (double)s->t->l2 / 2 ? weights : 0);

	if (local > (double)s->t->l2)
		traffic += 2 * (local - (double)s->t->l2) * row_blocks * column_blocks;
	return s->images * (products + transforms + traffic / rates->weights) +
	       rates->winograd_block * blocks;
}

/* How much longer the busier thread works than with equal shares, as a mean over one and two
 * threads. */
static double imbalance(double blocks)
{
	return (1 + 2 * ceil(blocks / 2) / blocks) / 2;
}

struct ht_winograd ht_schedule_winograd(const struct ht_target *t,
	const struct ht_winograd_shape *shape, int m, enum ht_dtype dtype)
{
	int64_t tiles[2] = { ht_ceil_div(shape->out[0], m), ht_ceil_div(shape->out[1], m) };
	struct shape s = { t, m, (double)shape->images, (double)tiles[0], (double)tiles[1],
		(double)shape->channels, (double)shape->results,
		(double)ht_dtype_info(dtype)->bytes, ht_target_products(t, dtype) };
	struct ht_winograd best = { 0 };
	double least = INFINITY;
	int32_t nr, kp;

	for (int64_t i = 1; i <= tiles[0]; i++) {
		int64_t rows = ht_ceil_div(tiles[0], i);
		int64_t panels;

		ht_schedule_packing(
			t, dtype, rows * tiles[1], shape->results, shape->channels, &nr, &kp);
		panels = ht_ceil_div(shape->results, nr);
		for (int64_t j = 1; j <= panels; j *= 2) {
			int64_t columns = ht_ceil_div(panels, j) * nr;
			double c = cycles(&s, rows, columns);
			double blocks = (double)(shape->images * ht_ceil_div(tiles[0], rows) *
						 ht_ceil_div(shape->results, columns));

			if (c * imbalance(blocks) >= least)
				continue;
			least = c * imbalance(blocks);
			best = (struct ht_winograd){ m, dtype, { tiles[0], tiles[1] }, rows,
				columns, c };
		}
	}
	return best;
}
