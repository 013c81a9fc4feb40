/* Diagonals of matrices of open or computed sizes that are not square, for pass sizes: an element of the diagonal is where the numbers of row
 * and column are equal.
 *
 * Other diagonals, and bands: computed_bands.c. */
#include "passes/computed_rows.h"

/* Matrices of an open size that need not be square; the rule of open sizes is about square ones (bounded_rare.c). */
static bool are_rectangles(const struct ht_graph *g, struct ht_shape s)
{
	for (int32_t i = 0; i < s.rank; i++)
		if (s.dim[i] < 0 && ht_dim_most(g, s.dim[i]) < 0)
			return false;
	return s.rank > 1 && s.rank < HT_OPEN_RANK && !ht_shape_known(s) &&
	       s.dim[s.rank - 1] != s.dim[s.rank - 2];
}

/* Whether the node is about the main diagonal: operand `k`, if it has one, says which. */
static bool is_main(const struct ht_node *n, int32_t k)
{
	return n->ins <= k || ht_const_is(n->in[k], 0);
}

/* [rows,1] and [columns] of numbers that are compared. */
static struct ht_value on_diagonal(struct maker *f, struct ht_value rows, struct ht_value columns)
{
	return of_rank(f,
		binary(f, HT_OP_Equal, with_axis(f, range_of(f, rows), 1), range_of(f, columns)),
		2);
}

/* Where a matrix has more rows than its diagonal elements, the others are not used. */
static void set_diagonals(struct maker *f, struct ht_node *n)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value rows = extent(f, n, 0, rank - 2), columns = extent(f, n, 0, rank - 1),
			size = binary(f, HT_OP_Minimum, rows, columns), at, diagonal;

	at = binary(f, HT_OP_Minimum, range_of(f, rows), plus(f, size, -1));
	at = binary(f, HT_OP_Maximum, at, whole(f, HT_I64, 0));
	diagonal = gathered(f, padded(f, n->in[1], rank - 2), of_rank(f, at, 1), rank - 2);
	of_rank(f, diagonal, rank - 1);
	ht_rw_take_place(f->r, n,
		of_rank(f,
			chosen(f, on_diagonal(f, rows, columns), with_axis(f, diagonal, -1),
				n->in[0]),
			rank));
}

/* The last two axes are the first ones of the matrices whose elements are gathered. */
static void take_diagonals(struct maker *f, struct ht_node *n)
{
	const int32_t rank = ht_in_shape(n, 0).rank;
	struct ht_value size = binary(f, HT_OP_Minimum, extent(f, n, 0, rank - 2),
				extent(f, n, 0, rank - 1)),
			at[3], x = n->in[0];
	int64_t to[HT_MAX_RANK], back[HT_MAX_RANK];

	for (int32_t i = 0; i < rank; i++)
		to[i] = (i + rank - 2) % rank;
	for (int32_t i = 0; i + 1 < rank; i++)
		back[i] = (i + 1) % (rank - 1);
	at[0] = at[1] = with_axis(f, range_of(f, size), 1);
	if (rank > 2)
		x = of_rank(f, ht_rw_transpose(f->r, n, n->name, x, to), rank);
	x = of_rank(f, gathered_nd(f, x, joined(f, at, 2, 1)), rank - 1);
	if (rank > 2)
		x = of_rank(f, ht_rw_transpose(f->r, n, n->name, x, back), rank - 1);
	ht_rw_take_place(f->r, n, x);
}

static bool expand_set(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);

	if (!are_rectangles(f->r->g, s) || ht_in_shape(n, 1).rank != s.rank - 1 ||
		ht_dim_most(f->r->g, ht_in_shape(n, 1).dim[s.rank - 2]) < 1 || !is_main(n, 2))
		return false;
	set_diagonals(f, n);
	return true;
}

/* Whether rows and columns are axes that a reshape joined of several open ones: their numbers are those of the run. */
static bool are_joined(const struct ht_graph *g, struct ht_shape s)
{
	const struct ht_size_expr e =
		s.rank > 1 ? ht_dim_of_sizes(g, s.dim[s.rank - 1]) : (struct ht_size_expr){ 0 };

	return s.rank > 1 && s.dim[s.rank - 1] < 0 && ht_size_count(&e) > 1;
}

static bool expand_part(struct maker *f, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);

	if (are_joined(f->r->g, s) && is_main(n, 1)) {
		bool rows = ht_flatten(f, n, 0, s.rank - 2);

		return ht_flatten(f, n, 0, s.rank - 1) || rows; /* when the types are known again */
	}
	if (!are_rectangles(f->r->g, s) || !is_main(n, 1))
		return false;
	take_diagonals(f, n);
	return true;
}

bool ht_is_open_diagonal(const struct ht_graph *g, const struct ht_node *n)
{
	if (ht_is_open_band(g, n))
		return true;
	switch (n->op) {
	case HT_OP_MatrixSetDiag:
	case HT_OP_MatrixSetDiagV2:
	case HT_OP_MatrixSetDiagV3:
	case HT_OP_MatrixDiagPart:
	case HT_OP_MatrixDiagPartV2:
	case HT_OP_MatrixDiagPartV3:
		return are_rectangles(g, ht_in_shape(n, 0)) || are_joined(g, ht_in_shape(n, 0));
	case HT_OP_LinSpace:
		return !ht_is_const(n->in[2]);
	default:
		return false;
	}
}

bool ht_expand_diagonal(struct maker *f, struct ht_node *n)
{
	if (ht_expand_band(f, n))
		return true;
	switch (n->op) {
	case HT_OP_MatrixSetDiag:
	case HT_OP_MatrixSetDiagV2:
	case HT_OP_MatrixSetDiagV3:
		return expand_set(f, n);
	case HT_OP_MatrixDiagPart:
	case HT_OP_MatrixDiagPartV2:
	case HT_OP_MatrixDiagPartV3:
		return expand_part(f, n);
	default:
		return false;
	}
}
