/* Bands of diagonals in matrices of open or computed sizes, for pass sizes; also single diagonals other than the main one.
 *
 * Diagonal d has the elements [i - min(d, 0), i + max(d, 0)], where i counts them.  There are min(rows + min(d, 0), columns - max(d, 0)).  A band
 * has its diagonals as rows, the highest first, each as long as the longest; a shorter one begins at 0, or so that it ends where the longest
 * does (attribute `align`).  ir/infer_diag.c has the rules for fixed sizes.
 *
 * Elements are gathered by places that are computed of the extents with integers.  The run stops if a diagonal is outside of the matrices. */
#include "passes/computed_rows.h"

struct band {
	int64_t low, high;
	bool right_above, right_below;  /* whether short diagonals end where the longest one does */
	struct ht_value rows, columns;  /* of the matrices */
	struct ht_value longest, check; /* elements of the longest diagonal; 0, or stops the run */
};

static bool is_single(const struct band *b)
{
	return b->low == b->high;
}

/* The diagonals that operand `k` names, the main one if there is no such operand; false: the run computes which. */
static bool read_band(const struct ht_node *n, int32_t k, struct band *b)
{
	struct ht_str align = ht_attr_str(n, "align", "RIGHT_LEFT");
	bool chosen = n->op == HT_OP_MatrixDiagV3 || n->op == HT_OP_MatrixDiagPartV3 ||
		      n->op == HT_OP_MatrixSetDiagV3;
	int64_t of[2] = { 0, 0 };
	int count = 1;

	if (n->ins > k && (!ht_const_small_ints(n->in[k], of, 2, &count) || count < 1))
		return false;
	*b = (struct band){ .low = of[0], .high = of[count - 1] };
	b->right_above = chosen && ht_str_starts(align, "RIGHT_");
	b->right_below = chosen && ht_str_ends(align, "_RIGHT");
	return b->low <= b->high;
}

static struct ht_value least(struct maker *f, struct ht_value a, struct ht_value b)
{
	return binary(f, HT_OP_Minimum, a, b);
}

static int64_t below(int64_t d)
{
	return d < 0 ? d : 0;
}

static int64_t above(int64_t d)
{
	return d > 0 ? d : 0;
}

/* Sets what follows from the extents. */
static void measure(struct maker *f, struct band *b)
{
	struct ht_value none = whole(f, HT_I64, 0);

	b->longest =
		least(f, plus(f, b->rows, below(b->high)), plus(f, b->columns, -above(b->low)));
	b->check = none;
	if (b->low < 0)
		b->check = unless_below(f, b->check, b->rows, whole(f, HT_I64, 1 - b->low));
	if (b->high > 0)
		b->check = unless_below(f, b->check, b->columns, whole(f, HT_I64, 1 + b->high));
}

/* `x`, of rank `rank`, with its last `count` axes in front of the others. */
static struct ht_value last_in_front(
	struct maker *f, struct ht_value x, int32_t count, int32_t rank)
{
	int64_t to[HT_MAX_RANK] = { 0 };

	for (int32_t i = 0; i < rank; i++)
		to[i] = (i + rank - count) % rank;
	return rank == count ? x : of_rank(f, permuted(f, x, to), rank);
}

/* Gathers elements of `x` along its last `count` axes.  Tensor at[i], of rank `rank`, has the index along the i-th of these axes for each
 * element that is gathered.  The result, of rank `rank_out`, has the leading axes of `x` and then those of the tensors `at`. */
static struct ht_value taken(struct maker *f, struct ht_value x, struct ht_value *at, int32_t count,
	int32_t rank, int32_t rank_out)
{
	struct ht_value v = last_in_front(f, x, count, ht_type_of(x)->shape.rank);

	for (int32_t i = 0; i < count; i++)
		at[i] = of_rank(f, with_axis(f, at[i], -1), rank + 1);
	v = of_rank(
		f, gathered_nd(f, v, of_rank(f, joined(f, at, count, rank), rank + 1)), rank_out);
	return last_in_front(f, v, rank_out - rank, rank_out);
}

/* ---- diagonals of matrices ---- */

/* A column with a number for each diagonal. */
static struct ht_value per_diagonal(
	struct maker *f, const struct band *b, int64_t (*of)(const struct band *b, int64_t d))
{
	int64_t count = b->high - b->low + 1,
		*x = HT_NEW_ARRAY(f->r->arena, int64_t, (size_t)count);

	for (int64_t i = 0; i < count; i++)
		x[i] = of(b, b->high - i);
	return of_rank(f, with_axis(f, wholes(f, HT_I64, x, count), 1), 2);
}

static int64_t first_row(const struct band *b, int64_t d)
{
	(void)b;
	return -below(d);
}

static int64_t first_column(const struct band *b, int64_t d)
{
	(void)b;
	return above(d);
}

static int64_t is_right(const struct band *b, int64_t d)
{
	return (d > 0 && b->right_above) || (d < 0 && b->right_below);
}

static void take_single(struct maker *f, struct ht_node *n, const struct band *b)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value i = sum(f, range_of(f, b->longest), b->check);
	struct ht_value at[3] = { plus(f, i, -below(b->low)), plus(f, i, above(b->low)) };

	ht_rw_take_place(f->r, n, taken(f, n->in[0], at, 2, 1, rank - 1));
}

static void take_band(struct maker *f, struct ht_node *n, const struct band *b)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value row = per_diagonal(f, b, first_row),
			column = per_diagonal(f, b, first_column);
	struct ht_value length =
		least(f, difference(f, b->rows, row), difference(f, b->columns, column));
	struct ht_value from =
		product(f, per_diagonal(f, b, is_right), difference(f, b->longest, length));
	struct ht_value i = of_rank(f,
		difference(f, sum(f, range_of(f, b->longest), b->check), of_rank(f, from, 2)), 2);
	struct ht_value exists = of_rank(f,
		both(f, binary(f, HT_OP_GreaterEqual, i, whole(f, HT_I64, 0)),
			binary(f, HT_OP_Less, i, length)),
		2);
	struct ht_value at[3], x;

	i = of_rank(f, chosen(f, exists, i, whole(f, HT_I64, 0)), 2);
	at[0] = of_rank(f, sum(f, i, row), 2);
	at[1] = of_rank(f, sum(f, i, column), 2);
	x = taken(f, n->in[0], at, 2, 2, rank);
	ht_rw_take_place(f->r, n, of_rank(f, chosen(f, exists, x, n->in[2]), rank));
}

/* ---- matrices with diagonals ---- */

static struct ht_value as_number(struct maker *f, struct ht_value condition)
{
	return cast_to(f, condition, HT_I64);
}

/* 1 where diagonal `d` ends where the longest one does, else 0. */
static struct ht_value aligned_right(struct maker *f, const struct band *b, struct ht_value d)
{
	struct ht_value none = whole(f, HT_I64, 0);

	if (b->right_above && b->right_below)
		return whole(f, HT_I64, 1);
	if (b->right_above)
		return as_number(f, binary(f, HT_OP_Greater, d, none));
	return b->right_below ? as_number(f, binary(f, HT_OP_Less, d, none)) : none;
}

/* The matrices of `n`, with `rank` axes, whose diagonals are operand `of` and whose other elements are `rest`. */
static void place(struct maker *f, struct ht_node *n, const struct band *b, int32_t of,
	struct ht_value rest, int32_t rank)
{
	struct ht_value none = whole(f, HT_I64, 0);
	struct ht_value i = of_rank(f, with_axis(f, range_of(f, b->rows), 1), 2);
	struct ht_value d = of_rank(f, difference(f, range_of(f, b->columns), i), 2);
	struct ht_value inside = of_rank(f,
		both(f, binary(f, HT_OP_GreaterEqual, d, whole(f, HT_I64, b->low)),
			binary(f, HT_OP_LessEqual, d, whole(f, HT_I64, b->high))),
		2);
	struct ht_value under = least(f, d, none), over = binary(f, HT_OP_Maximum, d, none);
	struct ht_value length = least(f, sum(f, under, b->rows), difference(f, b->columns, over));
	struct ht_value from =
		product(f, aligned_right(f, b, d), difference(f, b->longest, length));
	struct ht_value at[3] = { difference(f, whole(f, HT_I64, b->high), d),
		sum(f, sum(f, i, under), sum(f, from, b->check)) };
	int32_t count = is_single(b) ? 1 : 2;
	struct ht_value x = padded(f, n->in[of], ht_in_shape(n, of).rank - 1);

	for (int32_t k = 0; k < 2; k++)
		at[k] = of_rank(f, chosen(f, inside, of_rank(f, at[k], 2), none), 2);
	if (is_single(b))
		at[0] = at[1];
	of_rank(f, x, ht_in_shape(n, of).rank);
	x = taken(f, x, at, count, 2, rank);
	ht_rw_take_place(f->r, n, of_rank(f, chosen(f, inside, x, rest), rank));
}

/* An extent of the matrices that the node states, or `least` where it states -1; false: the run computes it. */
static bool stated(struct maker *f, const struct ht_node *n, int32_t k, struct ht_value at_least,
	struct ht_value *extent, struct ht_value *check, bool *states)
{
	int64_t x = -1;
	int count = 1;

	if (n->ins > k && (!ht_const_small_ints(n->in[k], &x, 1, &count) || count != 1))
		return false;
	*states = x >= 0;
	*extent = x < 0 ? at_least : whole(f, HT_I64, x);
	if (x >= 0)
		*check = unless_below(f, *check, *extent, at_least);
	return true;
}

static bool make_matrices(struct maker *f, struct ht_node *n, struct band *b)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value length = extent(f, n, 0, rank - 1), check = whole(f, HT_I64, 0);
	struct ht_value least_rows = plus(f, length, -below(b->high)),
			least_columns = plus(f, length, above(b->low)), rest;
	bool rows, columns;

	if (!stated(f, n, 2, least_rows, &b->rows, &check, &rows) ||
		!stated(f, n, 3, least_columns, &b->columns, &check, &columns))
		return false;
	if (!rows && !columns)
		b->rows = b->columns = binary(f, HT_OP_Maximum, least_rows, least_columns);
	measure(f, b);
	b->check = sum(f, sum(f, b->check, check), check_equal(f, b->longest, length));
	rest = n->ins > 4 ? n->in[4] : whole(f, ht_type_of(n->in[0])->dtype, 0);
	place(f, n, b, 0, rest, is_single(b) ? rank + 1 : rank);
	return true;
}

/* ---- all nodes ---- */

/* Whether the sizes have bounds, and one of the last `count` axes is open. */
static bool is_bounded(const struct ht_graph *g, struct ht_shape s, int32_t count)
{
	bool open = false;

	if (s.rank < count || s.rank >= HT_OPEN_RANK)
		return false;
	for (int32_t i = 0; i < s.rank; i++) {
		if (s.dim[i] < 0 && ht_dim_most(g, s.dim[i]) < 0)
			return false;
		open = open || (s.dim[i] < 0 && i >= s.rank - count);
	}
	return open;
}

static bool is_beside_main(const struct ht_node *n, int32_t k)
{
	struct band b;

	return read_band(n, k, &b) && (b.low || b.high);
}

bool ht_is_open_band(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_MatrixDiagV2:
	case HT_OP_MatrixDiagV3:
		return is_bounded(g, ht_in_shape(n, 0), 1) && is_beside_main(n, 1);
	case HT_OP_MatrixDiagPartV2:
	case HT_OP_MatrixDiagPartV3:
		return is_bounded(g, ht_in_shape(n, 0), 2) && is_beside_main(n, 1);
	case HT_OP_MatrixSetDiagV2:
	case HT_OP_MatrixSetDiagV3:
		return (is_bounded(g, ht_in_shape(n, 0), 2) ||
			       is_bounded(g, ht_in_shape(n, 1), 1)) &&
		       is_beside_main(n, 2);
	default:
		return false;
	}
}

bool ht_expand_band(struct maker *f, struct ht_node *n)
{
	bool sets = n->op == HT_OP_MatrixSetDiagV2 || n->op == HT_OP_MatrixSetDiagV3;
	struct band b;
	int32_t rank;

	if (!ht_is_open_band(f->r->g, n) || !read_band(n, sets ? 2 : 1, &b))
		return false;
	if (n->op == HT_OP_MatrixDiagV2 || n->op == HT_OP_MatrixDiagV3)
		return make_matrices(f, n, &b);
	rank = ht_in_shape(n, 0).rank;
	b.rows = extent(f, n, 0, rank - 2);
	b.columns = extent(f, n, 0, rank - 1);
	measure(f, &b);
	if (sets) {
		b.check = sum(f, b.check,
			check_equal(f, b.longest, extent(f, n, 1, ht_in_shape(n, 1).rank - 1)));
		place(f, n, &b, 1, n->in[0], rank);
	} else if (is_single(&b)) {
		take_single(f, n, &b);
	} else {
		take_band(f, n, &b);
	}
	return true;
}
