/* Bands and diagonals of matrices.  Diagonal d has the elements [i, i + d]; ir/infer_diag.c
 * describes the layout of a band. */
#include "lower/index.h"
#include "lower/parts.h"

struct band {
	int64_t low, high;           /* diagonals */
	int64_t rows, columns;       /* of the matrices */
	bool left_above, left_below; /* a short diagonal is aligned with the start of the longest
				      * one */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The diagonals of operand `arg`, if the node has it; the matrices have shape `m`. */
static struct band read_band(const struct ht_node *n, int arg, struct ht_shape m)
{
	struct ht_str align = ht_attr_str(n, "align", "RIGHT_LEFT");
	bool chosen = n->op == HT_OP_MatrixDiagV3 || n->op == HT_OP_MatrixDiagPartV3 ||
		      n->op == HT_OP_MatrixSetDiagV3;
	struct band b = { .rows = m.dim[m.rank - 2], .columns = m.dim[m.rank - 1] };

	b.left_above = !chosen || ht_str_starts(align, "LEFT_");
	b.left_below = !chosen || ht_str_ends(align, "_LEFT");
	if (arg < n->ins) {
		b.low = const_int(n, arg, 0);
		b.high = const_int(n, arg, (size_t)ht_shape_count(shape_of(n, arg)) - 1);
	}
	return b;
}

/* Where diagonal d begins in its row of the band: at 0, or so that it ends where the row does. */
static int32_t start_of(struct ht_xb *b, const struct band *band, int32_t d)
{
	int64_t length =
		least(band->rows + least(band->high, 0), band->columns - most(band->low, 0));
	int32_t zero = ht_xi(b, 0), rows, columns, start;

	if (band->left_above && band->left_below)
		return zero;
	rows = ht_xaddi(b, ht_xmin(b, d, zero), band->rows);
	columns = ht_xsub(b, ht_xi(b, band->columns), ht_xmax(b, d, zero));
	start = ht_xsub(b, ht_xi(b, length), ht_xmin(b, rows, columns));
	if (band->left_above)
		start = ht_xselect(b, ht_xle(b, zero, d), zero, start);
	if (band->left_below)
		start = ht_xselect(b, ht_xle(b, d, zero), zero, start);
	return start;
}

/* low <= x <= high */
static int32_t between(struct ht_xb *b, int32_t x, int64_t low, int64_t high)
{
	return ht_xand(b, ht_xle(b, ht_xi(b, low), x), ht_xle(b, x, ht_xi(b, high)));
}

static void batch_coords(struct ht_xb *b, const struct space *s, int32_t batch, int32_t *x)
{
	for (int32_t i = 0; i < batch; i++)
		x[i] = space_coord(b, s, i);
}

/* Operand `arg` at `x` where `inside` is true; elsewhere any value. */
static int32_t pull_where(struct kernel_build *k, const struct ht_node *n, int arg,
	const struct space *s, const int32_t *x, int32_t inside)
{
	struct ht_shape shape = shape_of(n, arg);
	struct space at = space_of_coords(s, shape.rank, shape.dim, x);

	space_and_guard(&k->xb, &at, inside);
	return kb_pull(k, n->in[arg], &at);
}

/* The scalar operand `arg`, or 0 where the node has none. */
static int32_t padding(
	struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s)
{
	struct space at = space_of_coords(s, 0, NULL, NULL);

	if (arg < n->ins)
		return kb_pull(k, n->in[arg], &at);
	return ht_xk(&k->xb, compute_type(n->out[0].dtype), 0);
}

/* Element `s` of matrices whose band is operand `arg`. Its value outside of the band is
 * `outside`. */
static int32_t pull_banded(struct kernel_build *k, const struct ht_node *n, int arg,
	const struct band *band, const struct space *s, int32_t outside)
{
	struct ht_xb *b = &k->xb;
	int32_t batch = s->rank - 2, x[HT_LOWER_RANK];
	int32_t row = space_coord(b, s, batch), column = space_coord(b, s, batch + 1);
	int32_t d = ht_xsub(b, column, row), at;
	int32_t inside = between(b, d, band->low, band->high);

	batch_coords(b, s, batch, x);
	at = ht_xmin(b, row, column); /* along the diagonal */
	at = ht_xadd(b, at, start_of(b, band, d));
	if (band->low < band->high)
		x[batch++] = ht_xsub(b, ht_xi(b, band->high), d);
	x[batch] = at;
	return ht_xselect(b, inside, pull_where(k, n, arg, s, x, inside), outside);
}

static int32_t pull_matrix_diag(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct band band = read_band(n, 1, n->out[0].shape);

	(void)out;
	return pull_banded(k, n, 0, &band, s, padding(k, n, 4, s));
}

static int32_t pull_matrix_set_diag(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct band band = read_band(n, 2, n->out[0].shape);

	(void)out;
	return pull_banded(k, n, 1, &band, s, kb_operand(k, n, 0, s));
}

static int32_t pull_matrix_diag_part(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct band band = read_band(n, 1, shape_of(n, 0));
	int32_t batch = shape_of(n, 0).rank - 2, x[HT_LOWER_RANK], d, at, inside,
		zero = ht_xi(b, 0);

	(void)out;
	batch_coords(b, s, batch, x);
	d = ht_xi(b, band.high);
	if (band.low < band.high)
		d = ht_xsub(b, d, space_coord(b, s, batch));
	at = ht_xsub(b, space_coord(b, s, s->rank - 1), start_of(b, &band, d));
	x[batch] = ht_xsub(b, at, ht_xmin(b, d, zero));
	x[batch + 1] = ht_xadd(b, at, ht_xmax(b, d, zero));
	inside = ht_xand(b, ht_xle(b, zero, at),
		ht_xand(b, ht_xlt(b, x[batch], ht_xi(b, band.rows)),
			ht_xlt(b, x[batch + 1], ht_xi(b, band.columns))));
	return ht_xselect(b, inside, pull_where(k, n, 0, s, x, inside), padding(k, n, 2, s));
}

/* Whether `distance` from the main diagonal is within operand `arg`, a count of diagonals.  A
 * negative count means all of them. */
static int32_t within(struct kernel_build *k, const struct ht_node *n, int arg,
	const struct space *s, int32_t distance)
{
	struct ht_xb *b = &k->xb;
	struct space scalar = space_of_coords(s, 0, NULL, NULL);
	int32_t count = ht_xcvt(b, HT_I64, kb_pull(k, n->in[arg], &scalar));

	return ht_xor(b, ht_xlt(b, count, ht_xi(b, 0)), ht_xle(b, distance, count));
}

static int32_t pull_band_part(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t row = space_coord(b, s, s->rank - 2), column = space_coord(b, s, s->rank - 1);
	int32_t inside = ht_xand(b, within(k, n, 1, s, ht_xsub(b, row, column)),
		within(k, n, 2, s, ht_xsub(b, column, row)));
	int32_t zero = ht_xk(b, compute_type(n->out[0].dtype), 0);

	(void)out;
	return ht_xselect(b, inside, kb_operand(k, n, 0, s), zero);
}

static const char *refuse_band(const struct ht_node *n, int arg)
{
	return arg >= n->ins || is_const_ints(n, arg) ? NULL : "needs a constant k";
}

static const char *refuse_second(const struct ht_node *n)
{
	return refuse_band(n, 1);
}

static const char *refuse_third(const struct ht_node *n)
{
	return refuse_band(n, 2);
}

/* The rows of a batch are whole matrices. */
static bool matrix_rows(const struct parts *p, const struct ht_node *n)
{
	return n->out[0].shape.rank > 2 && rows_of_first(p, n);
}

const struct lower_op lower_matrix_diag = {
	.family = FAMILY_MAP, .pull = pull_matrix_diag, .refuse = refuse_second
};
const struct lower_op lower_matrix_diag_part = {
	.family = FAMILY_MAP, .pull = pull_matrix_diag_part, .refuse = refuse_second
};
const struct lower_op lower_matrix_set_diag = {
	.family = FAMILY_MAP, .pull = pull_matrix_set_diag, .refuse = refuse_third
};
const struct lower_op lower_band_part = {
	.family = FAMILY_MAP, .pull = pull_band_part, .rows = matrix_rows
};
