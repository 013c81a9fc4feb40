/* matrices: ops of linear algebra become loops over the rows of matrices, whose steps are elementwise ops, for pass rare.
 *
 * - MatrixInverse, MatrixSolve, MatrixDeterminant and LogMatrixDeterminant eliminate columns, with the largest element of the rest of
 *   each column as pivot (Gauss and Jordan).
 * - MatrixTriangularSolve substitutes row by row; Cholesky makes column by column.
 *
 * All is computed in float64 and rounded once.  Left alone: complex numbers, unknown ranks, systems whose leading axes differ. */
#include "passes/matrices.h"

#include "ir/infer.h"
#include "lower/refusals.h"
#include "passes/cells.h"
#include "passes/outline.h"

/* What a loop is about: `rank` is that of the matrices. */
struct rows {
	int32_t rank;
	int64_t rows; /* below zero: only the run tells */
	bool lower;   /* of a triangle: the first row is solved first */
};

/* The carried values behind those of every loop; which of them there are depends on the op. */
enum { COUNTER, ROWS, MATRIX, OTHER, THIRD, FOURTH, MOST };

/* ---- nodes ---- */

/* Row or column `k`, a scalar, of matrices: `axis` is that along which it is taken. */
static struct ht_value taken(
	struct maker *m, const struct rows *x, struct ht_value v, struct ht_value k, int32_t axis)
{
	return of_rank(m, gathered(m, v, k, axis), x->rank - 1);
}

static struct ht_value column(
	struct maker *m, const struct rows *x, struct ht_value v, struct ht_value k)
{
	return taken(m, x, v, k, x->rank - 1);
}

/* Row `k`, as a matrix of one row. */
static struct ht_value row(
	struct maker *m, const struct rows *x, struct ht_value v, struct ht_value k)
{
	return with_axis(m, taken(m, x, v, k, x->rank - 2), -2);
}

/* Element `k` of vectors that lie along the last axis. */
static struct ht_value entry(
	struct maker *m, const struct rows *x, struct ht_value v, struct ht_value k)
{
	return of_rank(m, gathered(m, v, k, x->rank - 2), x->rank - 2);
}

static struct ht_value along_rows(struct maker *m, struct ht_value v)
{
	return with_axis(m, v, -1);
}

static struct ht_value zero(struct maker *m)
{
	return real(m, HT_F64, 0);
}

static struct ht_value real_one(struct maker *m)
{
	return real(m, HT_F64, 1);
}

static struct ht_value summed_rows(struct maker *m, const struct rows *x, struct ht_value v)
{
	v.node->out[0].shape = open_shape(m, x->rank);
	return reduced(m, HT_OP_Sum, v, x->rank - 2, true);
}

/* The number of each row. */
static struct ht_value numbers_of(struct maker *m, const struct rows *x, struct ht_value matrix)
{
	return range_of(m, x->rows >= 0 ? whole(m, HT_I32, x->rows)
					: extent_of(m, matrix, x->rank - 2, HT_I32));
}

/* Subtracts from each row of a matrix the row `pivot` times the row's number in column `by`.  The row for which is_row holds becomes `pivot`. */
static struct ht_value eliminated(struct maker *m, struct ht_value matrix, struct ht_value by,
	struct ht_value pivot, struct ht_value is_row)
{
	struct ht_value rest = binary(m, HT_OP_Sub, matrix, binary(m, HT_OP_Mul, by, pivot));

	return chosen(m, is_row, pivot, rest);
}

/* ---- elimination of columns ---- */

/* In which row the pivot of column `k` is, of those from row `k` on. */
static struct ht_value place_of_pivot(struct maker *m, const struct rows *x, struct ht_value matrix,
	struct ht_value k, struct ht_value numbers)
{
	struct ht_value size = unary(m, HT_OP_Abs, column(m, x, matrix, k)), in[2], v;

	in[0] = chosen(m, binary(m, HT_OP_GreaterEqual, numbers, k), size, real(m, HT_F64, -1));
	in[1] = whole(m, HT_I32, x->rank - 2);
	v = made(m, HT_OP_ArgMax, in, 2, open_shape(m, x->rank - 2));
	ht_attr_set_type(v.node, "output_type", HT_I32);
	v.node->out[0].dtype = HT_I32;
	return v;
}

/* Eliminates column k of the carried matrices, arg[MATRIX], with the largest of its remaining elements as pivot.  *pivot becomes that element of
 * each matrix, and *is_swapped whether it was in another row than k. */
static void eliminate(struct maker *m, const struct rows *x, struct ht_value *arg,
	struct ht_value *pivot, struct ht_value *is_swapped)
{
	struct ht_value k = arg[COUNTER], matrix = arg[MATRIX],
			numbers = numbers_of(m, x, arg[MATRIX]);
	struct ht_value place = place_of_pivot(m, x, matrix, k, numbers), is_place, is_row, best,
			old;
	struct ht_value scaled, by;

	is_row = along_rows(m, binary(m, HT_OP_Equal, numbers, k));
	is_place = along_rows(m, binary(m, HT_OP_Equal, numbers, with_axis(m, place, -1)));
	best = summed_rows(m, x, chosen(m, is_place, matrix, zero(m)));
	old = row(m, x, matrix, k);
	matrix = chosen(m, is_row, best, chosen(m, is_place, old, matrix));
	*pivot = column(m, x, best, k);
	*is_swapped = binary(m, HT_OP_NotEqual, place, k);
	by = along_rows(m, column(m, x, matrix, k));
	scaled = along_rows(m, *pivot);
	scaled = binary(m, HT_OP_RealDiv, best,
		chosen(m, binary(m, HT_OP_Equal, scaled, zero(m)), real_one(m), scaled));
	arg[MATRIX] = eliminated(m, matrix, by, scaled, is_row);
	*pivot = entry(m, x, *pivot, whole(m, HT_I32, 0));
}

/* A step of MatrixInverse and MatrixSolve.  The loop also carries the least absolute value of all pivots: it is zero if the matrix has no inverse. */
static void solve_step(const void *of, struct maker *m, struct ht_value *arg)
{
	struct ht_value pivot, swapped;

	eliminate(m, of, arg, &pivot, &swapped);
	arg[OTHER] = binary(m, HT_OP_Minimum, arg[OTHER], unary(m, HT_OP_Abs, pivot));
}

/* A step of MatrixDeterminant and LogMatrixDeterminant.  The loop also carries the determinant's sign, its absolute value, and the logarithm of
 * the latter. */
static void determinant_step(const void *of, struct maker *m, struct ht_value *arg)
{
	struct ht_value pivot, swapped, size;

	eliminate(m, of, arg, &pivot, &swapped);
	size = unary(m, HT_OP_Abs, pivot);
	pivot = unary(m, HT_OP_Sign, pivot);
	pivot = chosen(m, swapped, unary(m, HT_OP_Neg, pivot), pivot);
	arg[OTHER] = binary(m, HT_OP_Mul, arg[OTHER], pivot);
	arg[THIRD] = binary(m, HT_OP_Mul, arg[THIRD], size);
	arg[FOURTH] = binary(m, HT_OP_AddV2, arg[FOURTH], unary(m, HT_OP_Log, size));
}

/* ---- triangles ---- */

/* MATRIX is what is solved, OTHER the triangle. */
static void substitute_step(const void *of, struct maker *m, struct ht_value *arg)
{
	const struct rows *x = of;
	struct ht_value numbers = numbers_of(m, x, arg[MATRIX]), k = arg[COUNTER], by, done, is_row;

	if (!x->lower)
		k = binary(m, HT_OP_Sub, binary(m, HT_OP_Sub, arg[ROWS], whole(m, HT_I32, 1)), k);
	by = column(m, x, arg[OTHER], k);
	is_row = along_rows(m, binary(m, HT_OP_Equal, numbers, k));
	done = along_rows(m, with_axis(m, entry(m, x, by, k), -1));
	done = binary(m, HT_OP_RealDiv, row(m, x, arg[MATRIX], k), done);
	by = chosen(m, binary(m, x->lower ? HT_OP_Greater : HT_OP_Less, numbers, k), by, zero(m));
	arg[MATRIX] = eliminated(m, arg[MATRIX], along_rows(m, by), done, is_row);
}

/* MATRIX is what is left, OTHER the factor. */
static void factor_step(const void *of, struct maker *m, struct ht_value *arg)
{
	const struct rows *x = of;
	struct ht_value numbers = numbers_of(m, x, arg[MATRIX]), k = arg[COUNTER], by, down, across;

	by = column(m, x, arg[MATRIX], k);
	by = binary(
		m, HT_OP_RealDiv, by, with_axis(m, unary(m, HT_OP_Sqrt, entry(m, x, by, k)), -1));
	by = chosen(m, binary(m, HT_OP_GreaterEqual, numbers, k), by, zero(m));
	down = along_rows(m, by);
	across = with_axis(m, by, -2);
	arg[OTHER] = chosen(m, binary(m, HT_OP_Equal, numbers, k), down, arg[OTHER]);
	arg[MATRIX] = binary(m, HT_OP_Sub, arg[MATRIX], binary(m, HT_OP_Mul, down, across));
}

/* ---- loops ---- */

typedef void step(const void *of, struct maker *m, struct ht_value *arg);

/* in[MATRIX] and what follows it have been set. */
static struct ht_node *loop_of(
	struct maker *m, const struct rows *x, step *each, struct ht_value *in, int32_t values)
{
	const enum ht_dtype type[MOST] = { HT_I32, HT_I32, HT_F64, HT_F64, HT_F64, HT_F64 };
	const struct ht_cell_loop loop = {
		.n = m->at, .type = type, .values = values, .step = each, .of = x
	};

	in[COUNTER] = whole(m, HT_I32, 0);
	in[ROWS] = extent_of(m, m->at->in[0], x->rank - 2, HT_I32);
	return ht_make_cell_loop(m, &loop, in);
}

static struct ht_value operand(struct maker *m, int32_t i)
{
	return cast_to(m, m->at->in[i], HT_F64);
}

static struct ht_value transposed(struct maker *m, const struct rows *x, struct ht_value v)
{
	int64_t perm[HT_MAX_RANK];

	for (int32_t i = 0; i < x->rank; i++)
		perm[i] = i;
	perm[x->rank - 1] = x->rank - 2;
	perm[x->rank - 2] = x->rank - 1;
	return permuted(m, v, perm);
}

static struct ht_value square(struct maker *m, const struct rows *x)
{
	struct ht_value v = operand(m, 0);

	return ht_attr_bool(m->at, "adjoint", false) ? transposed(m, x, v) : v;
}

/* The number `of`, once for each matrix. */
static struct ht_value for_each(
	struct maker *m, const struct rows *x, struct ht_value matrix, double of)
{
	const int64_t axes[] = { x->rank - 2, x->rank - 1 };
	struct ht_value v = real(m, HT_F64, of);

	if (x->rank == 2)
		return v;
	matrix = made(m, HT_OP_ZerosLike, &matrix, 1, ht_type_of(matrix)->shape);
	matrix = reduced_over(m, HT_OP_Sum, matrix, axes, 2, false);
	return binary(m, HT_OP_AddV2, matrix, v);
}

/* Ones on the diagonals of matrices like `matrix`. */
static struct ht_value units(struct maker *m, const struct rows *x, struct ht_value matrix)
{
	struct ht_value numbers = numbers_of(m, x, matrix), is_one;

	is_one = binary(m, HT_OP_Equal, along_rows(m, numbers), numbers);
	matrix = made(m, HT_OP_ZerosLike, &matrix, 1, ht_type_of(matrix)->shape);
	return chosen(m, is_one, real_one(m), matrix);
}

/* The value as result `i` of the op, with the shape that this has. */
static struct ht_value result(struct maker *m, struct ht_value v, int32_t i)
{
	v.node->out[v.index].shape = m->at->out[i].shape;
	return cast_to(m, v, m->t);
}

static void take(struct maker *m, struct ht_value v)
{
	ht_rw_take_place(m->r, m->at, result(m, v, 0));
}

/* The columns behind those of the matrices, which solve the system; the run stops where a pivot was 0. */
static struct ht_value solution(struct maker *m, const struct rows *x, struct ht_node *loop)
{
	int64_t begin[HT_MAX_RANK] = { 0 }, size[HT_MAX_RANK];
	struct ht_value least = ht_out(loop, OTHER), in[3], check;
	struct ht_node *stop;

	check = binary(m, HT_OP_Greater, least, zero(m));
	for (int32_t i = x->rank - 3; i >= 0; i--) {
		check.node->out[0].shape = open_shape(m, i + 1);
		check = reduced(m, HT_OP_All, check, i, false);
	}
	stop = ht_rw_assert(m->r, m->at, "is_invertible", check, &least, 1);
	for (int32_t i = 0; i < x->rank; i++)
		size[i] = -1;
	in[0] = ht_out(loop, MATRIX);
	in[1] = extent_of(m, m->at->in[0], x->rank - 1, HT_I32);
	in[1] = with_axis(m, in[1], 0);
	in[1] = joined_pair(m, wholes(m, HT_I32, begin, x->rank - 1), in[1], 0);
	in[2] = wholes(m, HT_I32, size, x->rank);
	in[0] = made(m, HT_OP_Slice, in, 3, open_shape(m, x->rank));
	in[0] = unary(m, HT_OP_Identity, in[0]);
	ht_rw_set_controls(m->r, in[0].node, &stop, 1);
	return in[0];
}

/* ---- ops ---- */

/* The matrices with what is solved at their right. */
static void solve(struct maker *m, const struct rows *x)
{
	struct ht_value matrix = square(m, x), in[MOST], right;

	right = m->at->op == HT_OP_MatrixInverse ? units(m, x, matrix) : operand(m, 1);
	in[MATRIX] = joined_pair(m, matrix, right, x->rank - 1);
	in[OTHER] = for_each(m, x, matrix, 1);
	take(m, solution(m, x, loop_of(m, x, solve_step, in, THIRD)));
}

static void determinant(struct maker *m, const struct rows *x)
{
	struct ht_value in[MOST], v[2];
	struct ht_node *loop, *n = m->at;

	in[MATRIX] = operand(m, 0);
	in[OTHER] = in[THIRD] = for_each(m, x, in[MATRIX], 1);
	in[FOURTH] = for_each(m, x, in[MATRIX], 0);
	loop = loop_of(m, x, determinant_step, in, MOST);
	v[0] = ht_out(loop, OTHER);
	if (n->op == HT_OP_MatrixDeterminant) {
		take(m, binary(m, HT_OP_Mul, v[0], ht_out(loop, THIRD)));
		return;
	}
	v[0] = result(m, v[0], 0);
	v[1] = result(m, ht_out(loop, FOURTH), 1);
	take_results(m, n, v, 2);
}

static void substitute(struct maker *m, const struct rows *x)
{
	struct rows of = *x;
	struct ht_value in[MOST];

	of.lower = ht_attr_bool(m->at, "lower", true) != ht_attr_bool(m->at, "adjoint", false);
	in[MATRIX] = operand(m, 1);
	in[OTHER] = square(m, x);
	take(m, ht_out(loop_of(m, &of, substitute_step, in, THIRD), MATRIX));
}

static void factor(struct maker *m, const struct rows *x)
{
	struct ht_value in[MOST];

	in[MATRIX] = operand(m, 0);
	in[OTHER] = made(m, HT_OP_ZerosLike, in + MATRIX, 1, ht_type_of(in[MATRIX])->shape);
	take(m, ht_out(loop_of(m, x, factor_step, in, THIRD), OTHER));
}

static void (*form_of(enum ht_op op))(struct maker *, const struct rows *)
{
	switch (op) {
	case HT_OP_MatrixInverse:
	case HT_OP_MatrixSolve:
		return solve;
	case HT_OP_MatrixDeterminant:
	case HT_OP_LogMatrixDeterminant:
		return determinant;
	case HT_OP_MatrixTriangularSolve:
		return substitute;
	case HT_OP_Cholesky:
		return factor;
	default:
		return NULL;
	}
}

bool ht_has_matrices(const struct ht_node *n)
{
	return form_of(n->op);
}

/* Whether operands have the same leading axes. */
static bool are_alike(const struct ht_node *n)
{
	struct ht_shape a = ht_in_shape(n, 0), b;

	if (a.rank < 2 || a.rank > HT_LOWER_RANK)
		return false;
	if (n->ins < 2)
		return true;
	b = ht_in_shape(n, 1);
	for (int32_t i = 0; i + 2 < a.rank && b.rank == a.rank; i++)
		if (a.dim[i] != b.dim[i])
			return false;
	return b.rank == a.rank;
}

void ht_write_matrices(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = { .r = r, .at = n, .name = n->name, .t = ht_type_attr(n, "T") };
	struct ht_shape s = ht_in_shape(n, 0);
	struct rows x = { .rank = s.rank };

	if (!ht_is_kernel_float(m.t) || !are_alike(n))
		return;
	x.rows = s.dim[s.rank - 2];
	form_of(n->op)(&m, &x);
}
