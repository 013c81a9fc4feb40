/* schedule: chooses the shapes of contractions by a small cost model of the target.
 *
 * A register tile is mr rows by nv vectors: mr * nv sums, nv vectors of B and one broadcast
 * value of A stay in registers.  Few wide rows read A less often; many narrow rows read B less
 * often.  Tiles of the grid are a compromise between reuse of A and B and enough tiles for
 * several threads.  The number of threads is not a parameter, so that results do not depend on
 * it. */
#include "kernel/kernel.h"

#include <math.h>

/* Half vectors in a panel: with more, too few rows would fit. */
enum { MOST_HALVES = 5 };

/* Vectors in a panel of `nr` columns; half as wide if whole ones do not fill it. */
static int panel_vectors(const struct ht_target *t, int nr)
{
	int width = ht_target_lanes(t);

	while (nr % width != 0)
		width /= 2;
	return nr / width;
}

static bool in_pairs(const struct ht_target *t, enum ht_dtype operands)
{
	return ht_target_group(t, operands) == 2;
}

/* Whether a matrix unit computes products of pairs of BF16; its rows are not in vector
 * registers. */
static bool in_matrices(const struct ht_target *t, enum ht_dtype operands)
{
	return t->matrix_bf16 && operands == HT_BF16 && in_pairs(t, operands);
}

/* Most rows of a register tile of `nv` vectors. */
static int most_rows(const struct ht_target *t, int nv, enum ht_dtype operands)
{
	if (in_matrices(t, operands))
		return 2 *
		       t->matrix_rows; /* and two vectors: four tiles of sums, two of each operand */
	const int spare = t->fused ? 1 : 3; /* else products need registers too */
	const int rows = (t->vector_registers - nv - spare) / nv;

	return rows < 1 ? 1 : rows > t->rates->rows ? t->rates->rows : rows;
}

/* Rows of the register tile: the blocks are equal, so that no small one is left over. */
static int balanced_rows(const struct ht_target *t, int nv, int64_t m, enum ht_dtype operands)
{
	int most = most_rows(t, nv, operands);

	if (m <= 0)
		return 1;
	if (in_matrices(t, operands)) /* full tiles of sums, but in the last block */
		return m < most ? (int)m : most;
	return (int)ht_ceil_div(m, ht_ceil_div(m, most));
}

int ht_equal_pairs(int64_t depth)
{
	enum { PAIRS = 16, LEAST_PAIRS = 9 };

	if (depth <= PAIRS)
		return depth < 1 ? 1 : (int)depth;
	for (int p = PAIRS; p >= LEAST_PAIRS; p--)
		if (depth % p == 0)
			return p;
	return 0;
}

/* Cycles of a step in depth of a product of matrices, of `r` rows and `nv` vectors of columns: products, or loads of a line for each row and
 * vector from the second level. */
static double matrix_cycles(const struct ht_target *t, int r, int nv)
{
	const int tiles = (int)ht_ceil_div(r, t->matrix_rows);
	const double products = tiles * nv / t->rates->matrix_products;
	const double loads = (tiles + nv) * t->vector_bytes / t->rates->l2;

	return products > loads ? products : loads;
}

/* Cycles of one step in depth of `r` rows and a panel of `nr` columns: multiplications, loads,
 * dispatch.  (Few sums hide their latency by several sets of them.) */
static double step_cycles(const struct ht_target *t, int r, int nr, enum ht_dtype operands)
{
	const struct ht_rates *rates = t->rates;
	const int nv = panel_vectors(t, nr);

	if (in_matrices(t, operands))
		return matrix_cycles(t, r, nv);
	const bool halves = nr % ht_target_lanes(t) != 0;
	double products =
		halves ? rates->half_overhead * r * nv / rates->half_products
		       : r * nv * ht_target_group(t, operands) / ht_target_products(t, operands);
	double loads = nv / (halves ? rates->half_loads : rates->loads) + r / rates->broadcasts;
	double dispatch = t->fused ? r * nv + nv + r : 2 * r * nv + nv + 2 * r;
	double c = (in_pairs(t, operands) && nv == 1 ? rates->lone_dot * products : products) +
		   rates->load_overlap * loads;

	dispatch /= rates->dispatch;
	return c > dispatch ? c : dispatch;
}

/* Cycles for all rows and columns, per step in depth. */
static double packing_cycles(
	const struct ht_target *t, int nr, int64_t m, int64_t n, int64_t k, enum ht_dtype operands)
{
	int64_t panels = ht_ceil_div(n, nr), line = nr * (int64_t)ht_dtype_info(operands)->bytes;
	int r = balanced_rows(t, panel_vectors(t, nr), m, operands);
	int64_t blocks = m / r, rest = m % r;
	double c = (double)blocks * step_cycles(t, r, nr, operands);
	/* Every block reads the panel: from L1 for nothing, from L2 beside the arithmetic, and at a
	 * price where it does not stay there.  A single block finds it where all of B is. */
	int64_t kept = m > r ? k * line : k * line * panels;
	double bytes_a_cycle = kept > t->l2       ? t->rates->l3
			       : kept > t->l1 / 2 ? t->rates->l2
						  : t->rates->l1;
	double read = (double)ht_ceil_div(m, r) * (double)line / bytes_a_cycle;

	c += rest ? step_cycles(t, (int)rest, nr, operands) : 0;
	return (c > read ? c : read) * (double)panels;
}

/* Whether the last vector of columns would be half empty. */
static bool wants_halves(const struct ht_target *t, int64_t m, int64_t n)
{
	const int lanes = ht_target_lanes(t);

	return t->masks && m >= t->rates->rows && n > 0 && (n - 1) % lanes < lanes / 2;
}

void ht_schedule_packing(const struct ht_target *t, enum ht_dtype dtype, int64_t m, int64_t n,
	int64_t k, int32_t *nr, int32_t *kp)
{
	const int lanes = ht_target_lanes(t);
	int half = lanes, widest;
	double least = INFINITY;

	*kp = in_pairs(t, dtype) ? 2 : 1;
	widest = in_matrices(t, dtype) ? 2 : t->rates->vectors;
	if (wants_halves(t, m, n) && !in_matrices(t, dtype))
		half /= 2;
	for (int columns = half; columns <= widest * lanes; columns += half) {
		double c = packing_cycles(t, columns, m, n, k > 0 ? k : 1, dtype);

		if (columns % lanes != 0 && columns > MOST_HALVES * half)
			continue;
		if (c <= least) {
			least = c;
			*nr = columns;
		}
	}
}

static enum ht_dtype type_of_numbers(
	const struct ht_kernel *k, const struct ht_contract *c, int32_t buffer)
{
	const enum ht_dtype t = k->buffer[buffer].dtype;

	return t == HT_U32 && c->kp == 2 ? HT_BF16 : t;
}

enum ht_dtype ht_packed_type(const struct ht_kernel *k, const struct ht_contract *c)
{
	return type_of_numbers(k, c, c->b_buffer);
}

enum ht_dtype ht_row_type(const struct ht_kernel *k, const struct ht_contract *c)
{
	return type_of_numbers(k, c, c->a_buffer);
}

int64_t ht_taps_of_run(const struct ht_stage *s, int64_t run)
{
	int64_t taps = 1, steps = ht_ceil_div(s->dim[s->dims - 1].extent, s->contract.kp);

	for (int i = s->dims - 2; i >= 0 && s->dim[i].reduce; i--) {
		if (taps * s->dim[i].extent * steps > run)
			break;
		taps *= s->dim[i].extent;
	}
	return taps > 0 ? taps : 1;
}

/* ---- tiles of the grid ---- */

struct shape {
	int64_t m, n, k, element, mr, nr;
	double speed;   /* of products, where they are of matrices */
	bool one_panel; /* in each tile, and the tiles that share it follow each other */
	const struct ht_target *t;
};

/* Means are over so many numbers of threads: 1, 2, 4 and 8. */
enum { THREAD_COUNTS = 4, MOST_THREADS = 8 };

/* How much longer the busiest thread works than with equal shares. */
static double imbalance(int64_t tiles)
{
	double sum = 0;

	for (int64_t p = 1; p <= MOST_THREADS; p *= 2)
		sum += (double)(ht_ceil_div(tiles, p) * p) / (double)tiles;
	return sum / THREAD_COUNTS;
}

/* How often rows of A are read from beyond the second level, if a thread that computes one tile of these rows after another finds them there: once
 * by each thread that has such a tile.  The result is the mean over the numbers of threads. */
static double reads_of_rows(int64_t n_tiles)
{
	double sum = 0;

	for (int64_t p = 1; p <= MOST_THREADS; p *= 2)
		sum += (double)(p < n_tiles ? p : n_tiles);
	return sum / THREAD_COUNTS;
}

static double tile_cycles(const struct shape *s, int64_t m_step, int64_t n_step)
{
	int64_t m_tiles = ht_ceil_div(s->m, m_step), n_tiles = ht_ceil_div(s->n, n_step);
	double work = (double)s->m * (double)s->n * (double)s->k / ht_target_lanes(s->t) / s->speed;
	double a = (double)(s->m * s->k * s->element), b = (double)(s->n * s->k * s->element);
	double a_tile = a / (double)m_tiles, panel = (double)(s->nr * s->k * s->element);
	double panels = (double)ht_ceil_div(n_step, s->nr);
	const double kept = 0.75 * (double)s->t->l2;
	const bool stays = a_tile + panel <= kept;
	/* Each row of tiles reads all of B.  Each panel reads the rows of its tile, at no cost as long as they stay in the second level together with
	 * the panel.  Each column of tiles reads all of A.  But the tiles of one row follow each other, unless those of one panel do: where B is
	 * larger than three quarters of that level, they find rows that stay.  (Where it is not, its panels are found there, too, and cost as little.) */
	const bool found = stays && b > kept && !s->one_panel;
	double reads = found ? reads_of_rows(n_tiles) : (double)n_tiles;
	double traffic;

	if (!stays)
		reads *= panels;
	traffic = b * (double)m_tiles + a * reads;
	return work * imbalance(m_tiles * n_tiles) + traffic / s->t->rates->tile_operands +
	       s->t->rates->grid_tile * (double)(m_tiles * n_tiles);
}

/* The numbers of tiles to try: 1, 2, 3, 4, 6, 8, 12, … */
static int64_t finer(int64_t tiles)
{
	return tiles < 3 ? tiles + 1 : tiles % 3 == 0 ? tiles / 3 * 4 : tiles / 2 * 3;
}

void ht_schedule_tiles(const struct ht_target *t, enum ht_dtype dtype, int64_t m, int64_t n,
	int64_t k, int32_t nr, bool one_panel, int64_t *m_step, int64_t *n_step)
{
	struct shape s = { .m = m > 0 ? m : 1,
		.n = n > 0 ? n : 1,
		.k = k > 0 ? k : 1,
		.element = (int64_t)ht_dtype_info(dtype)->bytes,
		.nr = nr,
		.speed = in_matrices(t, dtype) ? ht_target_products(t, dtype) : 1,
		.one_panel = one_panel,
		.t = t };
	double least = INFINITY;
	int64_t rows, columns;

	s.mr = balanced_rows(t, panel_vectors(t, nr), s.m, dtype);
	rows = ht_ceil_div(s.m, s.mr);
	columns = ht_ceil_div(s.n, s.nr);
	*m_step = s.m;
	*n_step = one_panel ? nr : columns * nr;
	for (int64_t i = 1; i <= rows; i = finer(i))
		for (int64_t j = one_panel ? columns : 1; j <= columns; j = finer(j)) {
			int64_t mi = ht_ceil_div(rows, i) * s.mr,
				nj = ht_ceil_div(columns, j) * s.nr;
			double c = tile_cycles(&s, mi, nj);

			if (c < least) {
				least = c;
				*m_step = mi;
				*n_step = nj;
			}
		}
}

void ht_schedule_contract(const struct ht_target *t, struct ht_kernel *k)
{
	for (int32_t i = 0; i < k->stages; i++) {
		struct ht_contract *c = &k->stage[i].contract;
		const struct ht_dim *m = &k->stage[i].dim[c->m];

		if (k->stage[i].kind != HT_STAGE_CONTRACT)
			continue;
		int64_t rows = m->grid >= 0 && m->step < m->extent ? m->step : m->extent;
		c->mr = balanced_rows(t, panel_vectors(t, c->nr), rows,
			c->kp == 2 && !c->wide_buffer ? ht_packed_type(k, c) : HT_F32);
	}
}
