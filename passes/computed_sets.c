/* Sets, for pass sizes: the last axis of a tensor, dense or sparse, has the elements of a set for each row.
 *
 * The elements of both operands are sorted by their rows and values.  The first of equal ones stays if the operation takes it: that depends
 * on which operands have it.  Elements of a row are numbered from 0 on, and the last extent of the result is that of the longest row. */
#include "passes/computed_rows.h"

/* Elements: the number of the row of each, its value, and for unions of operands which one it is of. */
struct elements {
	struct ht_value row, value, of;
};

/* The sets of an operand. */
struct sets {
	struct elements e;
	struct ht_value size[HT_MAX_RANK]; /* the extents of the axes in front of the last one */
	int32_t rank;                      /* how many these are */
};

static struct ht_value rows_in(struct maker *f, const struct sets *s)
{
	return s->rank ? ht_product_of(f, s->size, s->rank) : whole(f, HT_I64, 1);
}

static void read_dense(struct maker *f, const struct ht_node *n, int32_t i, struct sets *s)
{
	struct ht_value all = flat(f, n->in[i]), length;

	s->rank = ht_in_shape(n, i).rank - 1;
	for (int32_t k = 0; k < s->rank; k++)
		s->size[k] = extent(f, n, i, k);
	length = binary(f, HT_OP_Maximum, extent(f, n, i, s->rank), whole(f, HT_I64, 1));
	s->e.value = all;
	s->e.row = of_rank(f, binary(f, HT_OP_FloorDiv, range_of(f, length_of(f, all)), length), 1);
}

static void read_sparse(struct maker *f, const struct ht_node *n, int32_t first, struct sets *s)
{
	s->rank = (int32_t)ht_in_shape(n, first).dim[1] - 1;
	for (int32_t k = 0; k < s->rank; k++)
		s->size[k] = extent_entry(f, n->in[first + 2], k);
	s->e.value = n->in[first + 1];
	s->e.row =
		s->rank ? ht_numbers_of(f, n->in[first], s->size, s->rank)
			: of_rank(f, repeated(f, length_of(f, s->e.value), whole(f, HT_I64, 0)), 1);
	for (int32_t k = 0; k < s->rank; k++)
		s->e.row = of_rank(f,
			unless_one_outside(
				f, s->e.row, column(f, n->in[first], k), plus(f, s->size[k], -1)),
			1);
}

/* ---- order ---- */

static void take(struct maker *f, struct elements *e, struct ht_value at)
{
	e->row = at_rows(f, e->row, at, 1);
	e->value = at_rows(f, e->value, at, 1);
	if (e->of.node)
		e->of = at_rows(f, e->of, at, 1);
}

static struct ht_value differs(struct maker *f, struct ht_value x, struct ht_value before)
{
	return binary(f, HT_OP_NotEqual, at_rows(f, x, before, 1), x);
}

/* Sorts the elements; returns whether each is the first one of those that are equal. */
static struct ht_value sort(struct maker *f, struct elements *e)
{
	struct ht_value at, before, first;

	take(f, e, ht_order_of(f, e->value));
	take(f, e, ht_order_of(f, e->row));
	at = range_of(f, length_of(f, e->row));
	before = binary(f, HT_OP_Maximum, plus(f, at, -1), whole(f, HT_I64, 0));
	first = binary(
		f, HT_OP_LogicalOr, differs(f, e->row, before), differs(f, e->value, before));
	first = binary(f, HT_OP_LogicalOr, first, binary(f, HT_OP_Equal, at, whole(f, HT_I64, 0)));
	return of_rank(f, first, 1);
}

static struct ht_value positions(struct maker *f, struct ht_value condition)
{
	return squeezed(f, where(f, of_rank(f, condition, 1)));
}

/* ---- operations ---- */

/* How many of the equal elements are of the operand: `of` is 1 for each that is. */
static struct ht_value has(
	struct maker *f, struct ht_value of, struct ht_value id, struct ht_value count)
{
	return binary(f, HT_OP_Greater, of_segments(f, HT_OP_UnsortedSegmentSum, of, id, count),
		whole(f, HT_I64, 0));
}

static struct ht_value lacks(struct maker *f, struct ht_value has_it)
{
	return node(f, HT_OP_LogicalNot, &has_it, 1, HT_BOOL, open_shape(f, 1));
}

static bool reads(const struct ht_node *n, const char *operation)
{
	return ht_str_is(ht_attr_str(n, "set_operation", ""), operation);
}

/* Which of the distinct elements stay; no node: all. */
static struct ht_value staying(
	struct maker *f, const struct ht_node *n, const struct elements *e, struct ht_value first)
{
	struct ht_value id = plus(f, sums_up_to(f, cast_to(f, first, HT_I64), false), -1), count,
			in[2], one = whole(f, HT_I64, 1);

	if (reads(n, "union"))
		return (struct ht_value){ 0 };
	of_rank(f, id, 1);
	count = length_of(f, positions(f, first));
	in[1] = has(f, e->of, id, count);
	in[0] = has(f, of_rank(f, difference(f, one, e->of), 1), id, count);
	if (reads(n, "a-b"))
		in[1] = lacks(f, in[1]);
	else if (reads(n, "b-a"))
		in[0] = lacks(f, in[0]);
	return both(f, in[0], in[1]);
}

/* The results: the place of each element, the elements, and the extents. */
static void put(struct maker *f, struct ht_node *n, const struct sets *s)
{
	struct ht_value count = rows_in(f, s), each, at, part[3], result[3], size[HT_MAX_RANK];

	each = of_segments(
		f, HT_OP_UnsortedSegmentSum, ones_like(f, s->e.row, HT_I64), s->e.row, count);
	at = difference(f, range_of(f, length_of(f, s->e.row)),
		at_rows(f, sums_before(f, each), s->e.row, 1));
	part[0] = of_rank(f, ht_places_of(f, s->e.row, s->size, s->rank), 2);
	part[1] = with_axis(f, of_rank(f, at, 1), 1);
	for (int32_t i = 0; i < s->rank; i++)
		size[i] = s->size[i];
	size[s->rank] = binary(f, HT_OP_Maximum, total_of(f, HT_OP_Max, each), whole(f, HT_I64, 0));
	result[0] = joined(f, part, 2, 1);
	result[1] = s->e.value;
	result[2] = packed(f, size, s->rank + 1);
	replace_results(f, n, result);
}

static bool expand_operation(struct maker *f, struct ht_node *n)
{
	struct sets a = { .rank = 0 }, b = { .rank = 0 };
	struct ht_value row[3], value[3], of[3], check = whole(f, HT_I64, 0), first, stays;

	if (n->ins == 6)
		read_sparse(f, n, 0, &a);
	else
		read_dense(f, n, 0, &a);
	if (n->ins == 2)
		read_dense(f, n, 1, &b);
	else
		read_sparse(f, n, n->ins - 3, &b);
	if (a.rank != b.rank || a.rank < 1)
		return false;
	for (int32_t i = 0; i < a.rank; i++)
		check = sum(f, check, check_equal(f, a.size[i], b.size[i]));
	row[0] = a.e.row;
	row[1] = of_rank(f, sum(f, b.e.row, check), 1);
	value[0] = a.e.value;
	value[1] = b.e.value;
	of[1] = ones_like(f, b.e.row, HT_I64);
	of[0] = of_rank(f, difference(f, a.e.row, a.e.row), 1);
	a.e = (struct elements){ joined(f, row, 2, 0), joined(f, value, 2, 0),
		joined(f, of, 2, 0) };
	first = sort(f, &a.e);
	stays = staying(f, n, &a.e, first);
	take(f, &a.e, positions(f, first));
	if (stays.node)
		take(f, &a.e, positions(f, stays));
	put(f, n, &a);
	return true;
}

static bool expand_size(struct maker *f, struct ht_node *n)
{
	struct sets s = { .rank = 0 };
	struct ht_value first;

	read_sparse(f, n, 0, &s);
	first = cast_to(f, sort(f, &s.e), HT_I32);
	ht_rw_take_place(f->r, n,
		s.rank ? scattered_at(f, of_rank(f, ht_places_of(f, s.e.row, s.size, s.rank), 2),
				 first, s.size, s.rank)
		       : total_of(f, HT_OP_Sum, first));
	return true;
}

/* ---- every node ---- */

static bool is_sparse(const struct ht_node *n, int32_t first)
{
	struct ht_shape s = ht_in_shape(n, first);

	return s.rank == 2 && s.dim[1] > 0 && s.dim[1] < HT_OPEN_RANK;
}

bool ht_is_sets(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_DenseToDenseSetOperation:
		return ht_has_bounds(g, n) && ht_in_shape(n, 0).rank > 1;
	case HT_OP_DenseToSparseSetOperation:
		return ht_has_bounds(g, n) && ht_in_shape(n, 0).rank > 1 && is_sparse(n, 1);
	case HT_OP_SparseToSparseSetOperation:
		return ht_has_bounds(g, n) && is_sparse(n, 0) && is_sparse(n, 3);
	case HT_OP_SetSize:
		return ht_has_bounds(g, n) && is_sparse(n, 0);
	default:
		return false;
	}
}

bool ht_expand_sets(struct maker *f, struct ht_node *n)
{
	if (!ht_is_sets(f->r->g, n))
		return false;
	return n->op == HT_OP_SetSize ? expand_size(f, n) : expand_operation(f, n);
}
