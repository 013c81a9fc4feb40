/* Rules of bands, diagonals and determinants of matrices.
 *
 * Diagonal d of a matrix has the elements [i, i + d].  A band consists of diagonals low..high.  It
 * is stored as rows of the length of the longest diagonal, the highest diagonal first. */
#include "ir/infer.h"

struct band {
	bool known;
	int64_t low, high;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Reads operand `arg`: one diagonal, or the lowest and the highest.  arg -1: the main diagonal. */
static enum ht_status read_band(
	struct ht_infer *in, const struct ht_node *n, int32_t arg, struct band *b)
{
	const struct ht_known *k = arg < 0 ? NULL : ht_in_known(in, n, arg);

	*b = (struct band){ .known = arg < 0 };
	if (arg < 0)
		return HT_OK;
	HT_TRY(ht_want_rank_of(in, n, arg, 0, 1));
	if (!k)
		return HT_OK;
	if (k->n != 1 && k->n != 2)
		return ht_infer_fail(
			in, n, "k has %d elements; one or two are expected", (int)k->n);
	if (k->e[0].kind != HT_ELEM_INT || k->e[k->n - 1].kind != HT_ELEM_INT)
		return HT_OK;
	*b = (struct band){ true, k->e[0].i, k->e[k->n - 1].i };
	if (b->low > b->high)
		return ht_infer_fail(in, n, "k is [%lld, %lld], whose first is above its second",
			(long long)b->low, (long long)b->high);
	return HT_OK;
}

static enum ht_status check_band(struct ht_infer *in, const struct ht_node *n, const struct band *b,
	int64_t rows, int64_t columns)
{
	if (rows < 0 || columns < 0)
		return HT_OK;
	for (int i = 0; i < 2; i++) {
		int64_t d = i ? b->high : b->low;

		if (d != 0 && (d <= -rows || d >= columns))
			return ht_infer_fail(in, n,
				"diagonal %lld is outside of matrices of %lld rows and %lld "
				"columns",
				(long long)d, (long long)rows, (long long)columns);
	}
	return HT_OK;
}

/* The length of the longest diagonal of the band. */
static int64_t longest(const struct band *b, int64_t rows, int64_t columns)
{
	if (rows == columns && b->low <= 0 && b->high >= 0)
		return rows; /* of a size that is open, too */
	if (rows < 0 || columns < 0)
		return HT_DIM_UNKNOWN;
	return least(rows + least(b->high, 0), columns - most(b->low, 0));
}

/* The value of operand `arg`, unless it is -1. */
static enum ht_status given_size(
	struct ht_infer *in, const struct ht_node *n, int32_t arg, bool *known, int64_t *size)
{
	*size = -1;
	*known = arg >= n->ins || ht_in_int(in, n, arg, size);
	return *known && *size < -1 ? ht_infer_fail(in, n, "a size of the matrices is negative")
				    : HT_OK;
}

/* The rows and columns of matrices that hold a band of diagonals of length `length`. */
static enum ht_status diag_size(struct ht_infer *in, const struct ht_node *n, const struct band *b,
	int64_t length, int64_t *rows, int64_t *columns)
{
	int64_t least_rows = length - least(b->high, 0), least_columns = length + most(b->low, 0);
	bool rows_known, columns_known, square;

	HT_TRY(given_size(in, n, 2, &rows_known, rows));
	HT_TRY(given_size(in, n, 3, &columns_known, columns));
	if (rows_known && columns_known && *rows < 0 && *columns < 0 && !b->low && !b->high) {
		*rows = *columns = length; /* which may be that of an open size */
		return HT_OK;
	}
	if (!rows_known || !columns_known || length < 0) {
		*rows = rows_known && *rows >= 0 ? *rows : HT_DIM_UNKNOWN;
		*columns = columns_known && *columns >= 0 ? *columns : HT_DIM_UNKNOWN;
		return HT_OK;
	}
	square = *rows < 0 && *columns < 0;
	*rows = square ? most(least_rows, least_columns) : *rows < 0 ? least_rows : *rows;
	*columns = square ? *rows : *columns < 0 ? least_columns : *columns;
	if (*rows < least_rows || *columns < least_columns ||
		(*rows != least_rows && *columns != least_columns))
		return ht_infer_fail(in, n,
			"%lld rows and %lld columns do not fit diagonals of length %lld",
			(long long)*rows, (long long)*columns, (long long)length);
	return HT_OK;
}

static enum ht_status check_count(
	struct ht_infer *in, const struct ht_node *n, const struct band *b, int64_t count)
{
	if (count >= 0 && count != b->high - b->low + 1)
		return ht_infer_fail(in, n, "there are %lld diagonals; k asks for %lld",
			(long long)count, (long long)b->high - b->low + 1);
	return HT_OK;
}

enum ht_status ht_infer_matrix_diag(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d, rows, columns;
	int32_t batch;
	struct band b;

	HT_TRY(ht_want_rank_of(in, n, 0, 1, HT_MAX_RANK - 1));
	HT_TRY(read_band(in, n, n->ins > 1 ? 1 : -1, &b));
	if (s.rank < 0 || !b.known)
		return HT_OK;
	if (b.low < b.high) {
		HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
		HT_TRY(check_count(in, n, &b, s.dim[s.rank - 2]));
	}
	/* TensorFlow ignores diagonals that are outside of the matrices. */
	HT_TRY(diag_size(in, n, &b, s.dim[s.rank - 1], &rows, &columns));
	batch = s.rank - (b.low < b.high ? 2 : 1);
	d = ht_new_dims(in, batch + 2);
	for (int32_t i = 0; i < batch; i++)
		d[i] = s.dim[i];
	d[batch] = rows;
	d[batch + 1] = columns;
	ht_set_shape(n, 0, batch + 2, d);
	return HT_OK;
}

/* The shape of band `b` of matrices of shape s. */
static struct ht_shape band_shape(struct ht_infer *in, struct ht_shape s, const struct band *b)
{
	int64_t rows = s.dim[s.rank - 2], columns = s.dim[s.rank - 1], *d = ht_new_dims(in, s.rank);
	int32_t rank = s.rank - 2;

	for (int32_t i = 0; i < rank; i++)
		d[i] = s.dim[i];
	if (b->low < b->high)
		d[rank++] = b->high - b->low + 1;
	d[rank++] = longest(b, rows, columns);
	return (struct ht_shape){ rank, d };
}

enum ht_status ht_infer_matrix_diag_part(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct band b;

	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	HT_TRY(read_band(in, n, n->ins > 1 ? 1 : -1, &b));
	if (s.rank < 0 || !b.known)
		return HT_OK;
	HT_TRY(check_band(in, n, &b, s.dim[s.rank - 2], s.dim[s.rank - 1]));
	n->out[0].shape = band_shape(in, s, &b);
	return HT_OK;
}

enum ht_status ht_infer_matrix_set_diag(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), given = ht_in_shape(n, 1), want, both;
	struct band b;

	n->out[0].shape = s;
	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	HT_TRY(read_band(in, n, n->ins > 2 ? 2 : -1, &b));
	if (s.rank < 0 || !b.known)
		return HT_OK;
	HT_TRY(check_band(in, n, &b, s.dim[s.rank - 2], s.dim[s.rank - 1]));
	want = band_shape(in, s, &b);
	if (!ht_merge_shape(in, want, given, &both))
		return ht_infer_fail(in, n, "diagonals of shape %.*s are expected; they are %.*s",
			HT_STR_ARG(ht_shape_text(in, want)), HT_STR_ARG(ht_shape_text(in, given)));
	return HT_OK;
}

enum ht_status ht_infer_band_part(struct ht_infer *in, struct ht_node *n)
{
	static const char *const name[] = { "num_lower", "num_upper" };
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t count;

	n->out[0].shape = s;
	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	for (int32_t i = 1; i <= 2; i++) {
		int64_t size = s.rank < 0 ? HT_DIM_UNKNOWN : s.dim[s.rank - 3 + i];

		HT_TRY(ht_want_rank(in, n, i, 0));
		if (size >= 0 && ht_in_int(in, n, i, &count) && count > size)
			return ht_infer_fail(in, n, "%s is %lld; it is at most %lld here",
				name[i - 1], (long long)count, (long long)size);
	}
	return HT_OK;
}

/* A number for each square matrix. */
enum ht_status ht_infer_determinant(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);

	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	for (int32_t i = 0; i < n->outs && s.rank >= 0; i++)
		ht_set_shape(n, i, s.rank - 2, s.dim);
	return HT_OK;
}
