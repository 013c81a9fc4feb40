/* Ragged ops, for pass sizes: rows of computed lengths, which lie behind each other in a vector of values.
 *
 * A ragged tensor has a *partition* for each ragged axis: where each row begins among the rows or values of the next axis, and how
 * many of these it has.
 *
 * - RaggedTensorToTensor gathers its elements: each place of the result is in the row, or it gets the default.
 * - RaggedGather and RaggedRange first compute the lengths of the new rows, then which row each element belongs to.
 * - RaggedTensorToSparse and RaggedBincount compute for each value in which row it is.
 *
 * The run stops where rows have negative lengths, or where these do not add up to the values that there are. */
#include "passes/computed_rows.h"

#include <string.h>

enum { MOST_AXES = HT_MAX_RANK };

struct partition {
	struct ht_value begin, length; /* vectors of int64 */
	struct ht_value rows;          /* how many there are */
	int64_t most;                  /* rows that there may be */
};

static struct ht_value zero(struct maker *f)
{
	return whole(f, HT_I64, 0);
}

/* ---- bounds ---- */

static int64_t most_of(const struct maker *f, struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;

	return s.rank < 1 ? 1 : ht_dim_most(f->r->g, s.dim[0]);
}

static int64_t most_product(int64_t a, int64_t b)
{
	return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &a) ? -1 : a;
}

/* ---- partitions ---- */

/* The elements of a vector but the first one, or but the last one. */
static struct ht_value without_end(struct maker *f, struct ht_value x, bool last)
{
	const int64_t begin = last ? 0 : 1, end = last ? -1 : 0, step = 1;
	struct ht_value in[] = { x, wholes(f, HT_I32, &begin, 1), wholes(f, HT_I32, &end, 1),
		wholes(f, HT_I32, &step, 1) };
	struct ht_value v =
		node(f, HT_OP_StridedSlice, in, 4, ht_type_of(x)->dtype, open_shape(f, 1));

	ht_attr_set_int(v.node, last ? "begin_mask" : "end_mask", 1);
	return v;
}

/* Row i is from element i to before element i + 1 of `splits`; there are `values` in all rows. */
static struct partition by_splits(struct maker *f, struct ht_value splits, struct ht_value values)
{
	struct partition p = { .most = most_of(f, splits) - 1 };
	struct ht_value all, length, end;

	splits = wide(f, splits);
	p.begin = without_end(f, splits, true);
	end = without_end(f, splits, false);
	length = of_rank(f, difference(f, end, p.begin), 1);
	all = total_of(f, HT_OP_Sum, length);
	p.length = sum(f, of_rank(f, unless_below(f, length, length, zero(f)), 1),
		check_equal(f, all, values));
	p.length = of_rank(f, p.length, 1);
	p.begin = of_rank(f, sum(f, p.begin, check_equal(f, element(f, splits, 0), zero(f))), 1);
	p.rows = length_of(f, p.begin);
	return p;
}

/* 0; the run stops where an element of a vector is less than the one in front of it. */
static struct ht_value check_sorted(struct maker *f, struct ht_value x)
{
	struct ht_value more = difference(f, without_end(f, x, false), without_end(f, x, true));

	return unless_below(f, zero(f), total_of(f, HT_OP_Min, of_rank(f, more, 1)), zero(f));
}

/* `ids` has the row of each value, in order.  The run stops where they are in another order, or below 0. */
static struct partition by_rows(struct maker *f, struct ht_value ids, struct ht_value rows)
{
	struct partition p = { .rows = rows, .most = ht_default_room(f->r->g) };
	struct ht_value all;
	struct ht_span s;

	if (ht_span_of(f->r->g, rows, &s) && s.most <= MOST_COUNT)
		p.most = s.most < 0 ? 0 : s.most;
	ids = wide(f, ids);
	p.length = of_segments(f, HT_OP_UnsortedSegmentSum, ones_like(f, ids, HT_I64), ids, rows);
	all = check_equal(f, total_of(f, HT_OP_Sum, p.length), length_of(f, ids));
	p.length = of_rank(f, sum(f, p.length, sum(f, all, check_sorted(f, ids))), 1);
	p.begin = sums_before(f, p.length);
	return p;
}

static struct partition by_lengths(struct maker *f, struct ht_value length, struct ht_value rows)
{
	return (struct partition){
		.begin = sums_before(f, length), .length = length, .rows = rows
	};
}

/* The row of each of `count` values of a partition. */
static struct ht_value rows_of_values(
	struct maker *f, const struct partition *p, struct ht_value count)
{
	return rows_by_ends(f, of_rank(f, sum(f, p->begin, p->length), 1), count);
}

static struct ht_value splits_of(struct maker *f, const struct partition *p, enum ht_dtype t)
{
	const int64_t first = 0;
	struct ht_value all[3] = { wholes(f, HT_I64, &first, 1), sums_up_to(f, p->length, false) };

	return cast_to(f, joined(f, all, 2, 0), t);
}

/* ---- RaggedTensorToTensor ---- */

static bool has_type(const struct ht_node *n, int32_t i, const char *name)
{
	const struct ht_attr *a = ht_attr_find(n, "row_partition_types");

	return a && a->value.kind == HT_ATTR_LIST && (size_t)i < a->value.list.n &&
	       ht_str_is(a->value.list.item[i].s, name);
}

/* Reads the partitions, which are operands from 3 on; false: one is of a kind that is not known.  The values are those of the last. */
static int32_t read_partitions(struct maker *f, const struct ht_node *n, struct partition *p)
{
	int32_t count = 0, given = n->ins - 3;
	struct ht_value rows = { 0 };

	for (int32_t i = 0; i < given; i++) {
		struct ht_value x = n->in[3 + i], next = n->in[1];

		if (has_type(n, i, "FIRST_DIM_SIZE")) {
			rows = wide(f, x);
			continue;
		}
		if (count == MOST_AXES)
			return -1;
		if (has_type(n, i, "ROW_SPLITS")) {
			/* The operand of the next partition tells how many rows the next axis has. */
			next = i + 1 < given ? n->in[4 + i] : next;
			p[count] = by_splits(f, x,
				plus(f, rows_of(f, next),
					i + 1 < given && has_type(n, i + 1, "ROW_SPLITS") ? -1
											  : 0));
		} else if (has_type(n, i, "VALUE_ROWIDS") && rows.node) {
			p[count] = by_rows(f, x, rows);
		} else {
			return -1;
		}
		rows = i + 1 < given && has_type(n, i + 1, "VALUE_ROWIDS") ? rows_of(f, x) : rows;
		count++;
	}
	return count;
}

/* The numbers along axis `i` of the result, which is as long as the shape says, or as long as the longest row. */
static struct ht_value numbers_along(
	struct maker *f, const struct ht_node *n, int32_t i, struct ht_value longest, int64_t most)
{
	bool given = ht_in_shape(n, 0).rank == 1;
	struct ht_value stated;
	int64_t x = -1;

	if (!given || (const_entry(n->in[0], i, &x) && x < 0))
		return ht_bounded_range(f, longest, most);
	if (x >= 0)
		return numbers(f, HT_I64, x);
	stated = entry_of(f, n->in[0], i);
	stated = of_rank(f, chosen(f, binary(f, HT_OP_Less, stated, zero(f)), longest, stated), 0);
	return ht_bounded_range(f, stated, -1);
}

/* Whether the dense result has as many rows as the ragged tensor, since operand 0, the shape, states no other number. */
static bool has_all_rows(const struct ht_node *n)
{
	int64_t x;

	return ht_in_shape(n, 0).rank != 1 || (const_entry(n->in[0], 0, &x) && x < 0);
}

/* `x` padded to `most` rows, so that a gather may read rows that a run does not have. */
static struct ht_value with_room(struct maker *f, struct ht_value x, int64_t most)
{
	if (ht_type_of(x)->shape.dim[0] >= 0)
		return x;
	x = padded(f, x, 0);
	ht_attr_set_int(x.node, "room", most);
	return x;
}

/* Slices of `x` at places `at`.  Some places may be behind the last slice: what is gathered there is not used. */
static struct ht_value taken(
	struct maker *f, struct ht_value x, int64_t most, struct ht_value at, int32_t rank)
{
	int32_t inner = ht_type_of(x)->shape.rank - 1;

	at = of_rank(f, binary(f, HT_OP_Minimum, at, whole(f, HT_I64, most - 1)), rank);
	return at_rows(f, with_room(f, x, most), at, rank + inner);
}

/* Begins and lengths of the rows at places `at`; a row is empty where `exists` is false. */
static struct partition rows_at(struct maker *f, const struct partition *p, struct ht_value at,
	struct ht_value exists, int32_t rank)
{
	struct partition q = { .rows = p->rows, .most = p->most };

	if (p->most < 1) {
		q.begin = q.length = of_rank(f, chosen(f, exists, zero(f), zero(f)), rank);
		return q;
	}
	q.begin = taken(f, p->begin, p->most, at, rank);
	q.length = of_rank(
		f, chosen(f, exists, taken(f, p->length, p->most, at, rank), zero(f)), rank);
	return q;
}

static struct ht_value longest_of(struct maker *f, const struct partition *p)
{
	return binary(f, HT_OP_Maximum, total_of(f, HT_OP_Max, p->length), zero(f));
}

/* The places of the result, by axis: which of the rows or values of the last partition each is, and whether there is one. */
struct places {
	struct ht_value at, exists;
};

static struct places places_in(
	struct maker *f, const struct ht_node *n, const struct partition *p, int32_t parts)
{
	struct partition row = p[0];
	struct places x;

	if (!has_all_rows(n)) {
		x.at = numbers_along(f, n, 0, p[0].rows, p[0].most);
		x.exists = of_rank(f, binary(f, HT_OP_Less, x.at, p[0].rows), 1);
		row = rows_at(f, &p[0], x.at, x.exists, 1);
	}
	for (int32_t i = 0; i < parts; i++) {
		int64_t most = i + 1 < parts ? p[i + 1].most : most_of(f, n->in[1]);
		struct ht_value k = numbers_along(f, n, i + 1, longest_of(f, &p[i]), most);

		x.exists = binary(f, HT_OP_Less, k, with_axis(f, row.length, -1));
		x.exists = of_rank(f, x.exists, i + 2);
		x.at = of_rank(f, sum(f, with_axis(f, row.begin, -1), k), i + 2);
		if (i + 1 < parts)
			row = rows_at(f, &p[i + 1], x.at, x.exists, i + 2);
	}
	return x;
}

static bool expand_to_tensor(struct maker *f, struct ht_node *n)
{
	struct partition p[MOST_AXES];
	int32_t parts = read_partitions(f, n, p), inner = ht_in_shape(n, 1).rank - 1;
	struct ht_value v = n->in[2], exists;
	int64_t most = most_of(f, n->in[1]);
	struct places x;

	if (parts < 1 || inner < 0 || parts + 1 + inner > HT_OPEN_RANK)
		return false;
	x = places_in(f, n, p, parts);
	exists = with_axes(f, x.exists, inner);
	if (most > 0)
		v = taken(f, n->in[1], most, x.at, parts + 1);
	ht_rw_take_place(f->r, n, of_rank(f, chosen(f, exists, v, n->in[2]), parts + 1 + inner));
	return true;
}

/* ---- operands that are partitions by splits ---- */

/* The partitions of a ragged tensor whose splits are operands from 0 on, and whose values are operand `parts`. */
static void read_splits(
	struct maker *f, const struct ht_node *n, int32_t parts, struct partition *p)
{
	for (int32_t i = 0; i < parts; i++)
		p[i] = by_splits(
			f, n->in[i], plus(f, rows_of(f, n->in[i + 1]), i + 1 < parts ? -1 : 0));
}

/* ---- RaggedGather ---- */

/* The partition of the rows of `p` whose numbers `*at` lists.  *at becomes the numbers of the rows or values of the next axis that these rows
 * consist of. */
static struct partition gathered_rows(
	struct maker *f, const struct partition *p, struct ht_value *at, int64_t most)
{
	struct ht_value begin = at_rows(f, p->begin, *at, 1), all, row, number;
	struct partition q = by_lengths(f, at_rows(f, p->length, *at, 1), length_of(f, *at));

	number = ht_bounded_range(f, total_of(f, HT_OP_Sum, q.length), most);
	all = length_of(f, number);
	row = rows_of_values(f, &q, all);
	begin = of_rank(f, difference(f, begin, q.begin), 1);
	*at = of_rank(f, sum(f, at_rows(f, begin, row, 1), number), 1);
	return q;
}

/* The row splits of axis `axis` of the indices, which are a dense tensor: its rows are equally long. */
static struct ht_value even_splits(
	struct maker *f, struct ht_value indices, int32_t axis, enum ht_dtype t)
{
	struct ht_value size[HT_MAX_RANK], all;

	for (int32_t i = 0; i <= axis + 1; i++)
		size[i] = element(f, shape_of(f, indices, HT_I64), i);
	all = range_of(f, plus(f, ht_product_of(f, size, axis + 1), 1));
	return cast_to(f, of_rank(f, product(f, all, size[axis + 1]), 1), t);
}

static bool expand_gather(struct maker *f, struct ht_node *n)
{
	int32_t parts = n->ins - 2, rank = ht_in_shape(n, parts + 1).rank, to = 0;
	struct partition p[MOST_AXES];
	struct ht_value indices = n->in[parts + 1], at, result[HT_MAX_RANK];
	enum ht_dtype t = ht_type_of(n->in[0])->dtype;
	int64_t most = 1;

	if (parts < 1 || parts > MOST_AXES || rank < 0 || rank + parts + 1 > HT_OPEN_RANK)
		return false;
	for (int32_t i = 0; i < rank; i++)
		most = most_product(most, ht_dim_most(f->r->g, ht_in_shape(n, parts + 1).dim[i]));
	read_splits(f, n, parts, p);
	at = wide(f, rank == 1 ? indices : flat(f, indices));
	for (int32_t i = 0; i + 1 < rank; i++)
		result[to++] = even_splits(f, indices, i, t);
	for (int32_t i = 0; i < parts; i++) {
		struct partition q;

		most = most_product(most, most_of(f, n->in[i + 1]));
		q = gathered_rows(f, &p[i], &at, most);
		if (i || rank)
			result[to++] = splits_of(f, &q, t);
	}
	result[to] = at_rows(f, n->in[parts], at, ht_in_shape(n, parts).rank);
	replace_results(f, n, result);
	return true;
}

/* ---- RaggedRange ---- */

/* How many numbers there are from start to before limit, in steps of delta. */
static struct ht_value counts_of(
	struct maker *f, struct ht_value start, struct ht_value limit, struct ht_value delta)
{
	enum ht_dtype t = ht_type_of(start)->dtype;
	struct ht_value back, count;

	if (!ht_is_float(t)) {
		back = difference(f, wide(f, start), wide(f, limit));
		count = unary(f, HT_OP_Neg, binary(f, HT_OP_FloorDiv, back, wide(f, delta)));
	} else {
		count = binary(f, HT_OP_RealDiv, difference(f, limit, start), delta);
		count = unary(f, HT_OP_Ceil, count);
		count = cast_to(f, count, HT_I64);
	}
	return binary(f, HT_OP_Maximum, count, zero(f));
}

/* For each value the element of its row in a vector, or the scalar. */
static struct ht_value for_each(struct maker *f, struct ht_value x, struct ht_value row)
{
	return ht_type_of(x)->shape.rank ? at_rows(f, x, row, 1) : x;
}

static bool expand_range(struct maker *f, struct ht_node *n)
{
	enum ht_dtype t = n->out[1].dtype;
	struct ht_value count = counts_of(f, n->in[0], n->in[1], n->in[2]), number, row,
			rows = { 0 }, result[2];
	struct ht_span s;
	struct partition p;
	int64_t most = 1, each = -1;

	for (int32_t i = 0; i < 3; i++) {
		if (ht_in_shape(n, i).rank < 0 || ht_in_shape(n, i).rank > 1)
			return false;
		if (ht_in_shape(n, i).rank == 1) {
			rows = length_of(f, n->in[i]);
			most = most_of(f, n->in[i]);
		}
	}
	if (ht_span_of(f->r->g, count, &s))
		each = s.most;
	count = of_rank(f, rows.node ? count : with_axis(f, count, 0), 1);
	p = by_lengths(f, count, rows);
	number = ht_bounded_range(f, total_of(f, HT_OP_Sum, count), most_product(most, each));
	row = rows_of_values(f, &p, length_of(f, number));
	result[0] = splits_of(f, &p, n->out[0].dtype);
	number = of_rank(f, difference(f, number, at_rows(f, p.begin, row, 1)), 1);
	number = product(f, cast_to(f, number, t), for_each(f, n->in[2], row));
	number = sum(f, for_each(f, n->in[0], row), number);
	result[1] = of_rank(f, number, 1);
	replace_results(f, n, result);
	return true;
}

/* ---- RaggedTensorToSparse ---- */

static int64_t most_elements(const struct maker *f, struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t most = 1;

	for (int32_t i = 0; i < s.rank; i++)
		most = most_product(most, ht_dim_most(f->r->g, s.dim[i]));
	return most;
}

/* The elements of values of several axes, by their numbers: *at is the value of each, the result its places behind the ragged axes. */
static struct ht_value inner_places(struct maker *f, const struct ht_node *n, int32_t parts,
	struct ht_value number, struct ht_value *at, int32_t inner)
{
	struct ht_value size[HT_MAX_RANK], all;

	for (int32_t i = 0; i < inner; i++)
		size[i] = extent(f, n, parts, i + 1);
	all = ht_product_of(f, size, inner);
	*at = binary(f, HT_OP_FloorDiv, number, binary(f, HT_OP_Maximum, all, whole(f, HT_I64, 1)));
	*at = of_rank(f, *at, 1);
	return ht_places_of(f, binary(f, HT_OP_FloorMod, number, all), size, inner);
}

static bool expand_to_sparse(struct maker *f, struct ht_node *n)
{
	int32_t parts = n->ins - 1, inner = ht_in_shape(n, parts).rank - 1;
	struct partition p[MOST_AXES];
	struct ht_value place[HT_MAX_RANK + 2], size[HT_MAX_RANK], at, number, result[3];
	int32_t count = parts + 1 + (inner > 0);

	if (parts < 1 || inner < 0 || parts + 1 + inner > HT_OPEN_RANK)
		return false;
	read_splits(f, n, parts, p);
	number = at = inner ? ht_bounded_range(
				      f, length_of(f, n->in[parts]), most_elements(f, n->in[parts]))
			    : range_of(f, length_of(f, n->in[parts]));
	if (inner)
		place[parts + 1] = of_rank(f, inner_places(f, n, parts, number, &at, inner), 2);
	for (int32_t i = parts; i-- > 0;) {
		struct ht_value row = rows_of_values(
			f, &p[i], plus(f, rows_of(f, n->in[i + 1]), i + 1 < parts ? -1 : 0));

		row = at_rows(f, row, at, 1);
		place[i + 1] = of_rank(f, difference(f, at, at_rows(f, p[i].begin, row, 1)), 1);
		place[i + 1] = with_axis(f, place[i + 1], 1);
		at = row;
	}
	place[0] = with_axis(f, at, 1);
	size[0] = p[0].rows;
	for (int32_t i = 0; i < parts; i++)
		size[i + 1] = longest_of(f, &p[i]);
	for (int32_t i = 0; i < inner; i++)
		size[parts + 1 + i] = extent(f, n, parts, i + 1);
	result[0] = joined(f, place, count, 1);
	result[1] = inner ? at_rows(f, flat(f, n->in[parts]), number, 1) : n->in[parts];
	result[2] = packed(f, size, parts + 1 + inner);
	replace_results(f, n, result);
	return true;
}

/* ---- counts of numbers in rows ---- */

struct ht_value ht_counts_in_rows(
	struct maker *f, const struct ht_node *n, const struct counted_rows *x)
{
	struct ht_value number = wide(f, x->number), some = binary(f, HT_OP_Less, number, x->size),
			size[2], at[3], times;
	bool weighted =
		ht_in_shape(n, x->weights).rank == 1 && ht_in_shape(n, x->weights).dim[0] != 0;
	bool binary_output = ht_attr_bool(n, "binary_output", false);
	enum ht_dtype t = n->out[0].dtype;
	int32_t count = 0;

	times = weighted && !binary_output ? n->in[x->weights] : ones_like(f, number, t);
	times = of_rank(f, chosen(f, some, times, whole(f, t, 0)), 1);
	number = unless_below(f, number, number, zero(f));
	number = binary(f, HT_OP_Minimum, number, plus(f, x->size, -1));
	number = of_rank(f, number, 1);
	if (x->row.node) {
		at[count] = with_axis(f, x->row, 1);
		size[count++] = x->rows;
	}
	at[count] = with_axis(f, number, 1);
	size[count++] = x->size;
	times = scattered_at(f, joined(f, at, count, 1), times, size, count);
	if (binary_output)
		times = binary(f, HT_OP_Minimum, times, cast_to(f, whole(f, HT_I64, 1), t));
	return times;
}

static bool expand_bincount(struct maker *f, struct ht_node *n)
{
	struct partition p;
	struct counted_rows x = { .number = n->in[1], .weights = 3, .size = wide(f, n->in[2]) };

	if (ht_in_shape(n, 1).rank != 1)
		return false;
	p = by_splits(f, n->in[0], length_of(f, n->in[1]));
	x.row = rows_of_values(f, &p, length_of(f, n->in[1]));
	x.rows = p.rows;
	ht_rw_take_place(f->r, n, ht_counts_in_rows(f, n, &x));
	return true;
}

/* ---- every node ---- */

bool ht_expand_ragged(struct maker *f, struct ht_node *n)
{
	if (!ht_has_bounds(f->r->g, n))
		return false;
	switch (n->op) {
	case HT_OP_RaggedTensorToTensor:
		return expand_to_tensor(f, n);
	case HT_OP_RaggedGather:
		return expand_gather(f, n);
	case HT_OP_RaggedRange:
		return expand_range(f, n);
	case HT_OP_RaggedTensorToSparse:
		return expand_to_sparse(f, n);
	case HT_OP_RaggedBincount:
		return expand_bincount(f, n);
	default:
		return false;
	}
}
